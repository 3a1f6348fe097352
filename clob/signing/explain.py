"""Explains a wrong signature: tries the usual mistakes of clients and names the one that fits."""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from clob.order import Side
from clob.signing import fields, secp
from clob.signing.domain import Domain
from clob.signing.errors import InvalidDomainError, Verdict
from clob.signing.rejections import describe
from clob.signing.schema import Schema
from clob.signing.signed_struct import Signed

HEX_DIGITS: Final = re.compile("[0-9a-f]+")
POLYMARKET = "Polymarket CTF Exchange"
PREDICT_FUN = "predict.fun CTF Exchange"

KNOWN_DOMAINS: Final[tuple[Domain, ...]] = (
    Domain(POLYMARKET, "1", 137, "0x4bFb41d5B3570DeFd03C39a9A4D8dE6Bd8B8982E"),
    Domain(POLYMARKET, "1", 137, "0xC5d563A36AE78145C45a50134d48A1215220f80a"),
    Domain(POLYMARKET, "1", 80002, "0xdFE02Eb6733538f8Ea35D585af8DE5958AD99E40"),
    Domain(POLYMARKET, "1", 80002, "0xC5d563A36AE78145C45a50134d48A1215220f80a"),
    Domain(POLYMARKET, "2", 137, "0xE111180000d2663C0091e4f400237545B87B996B"),
    Domain(POLYMARKET, "2", 137, "0xe2222d279d744050d28e00520010520000310F59"),
    Domain(PREDICT_FUN, "1", 56, "0x8BC070BEdAB741406F4B1Eb65A72bee27894B689"),
    Domain(PREDICT_FUN, "1", 97, "0x2A6413639BD3d73a20ed8C95F634Ce198ABbd2d7"),
)
"""Published domains of exchanges with the same order struct; not a complete list."""

COMMON_CHAINS: Final = (1, 137, 80002, 80001, 8453, 84532, 56, 97, 42161, 10, 11155111, 31337, 1337)
"""Chain ids that clients have as defaults."""
COMMON_NAMES: Final = (
    (POLYMARKET, "1"), (POLYMARKET, "2"), (PREDICT_FUN, "1"), ("Limitless CTF Exchange", "1"),
    ("OPINION CTF Exchange", "1"), ("ClobAuthDomain", "1"),
)  # fmt: skip
"""Names and versions that clients sign for."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`explain`."""

    text: str
    """A sentence for the signer."""
    found: bool
    """Whether the signed data was identified."""
    domain: Domain | None = None
    """Domain that was signed for, if identified."""
    digest: bytes | None = None
    """Digest that was signed, 32 bytes, if identified."""

    def __str__(self) -> str:
        """Return the sentence."""
        return self.text


def explain(order: Signed, domains: Domain | Iterable[Domain]) -> Explanation:
    """Identify the data that a signature was made for.

    Tries EIP-712 and personal_sign (also of the hash as text) for the given domains and
    :data:`KNOWN_DOMAINS`; the name, version, contract or chain of the first domain with others in
    common use; the struct without a domain, or in a domain without contract; and for the first
    domain the order with another signature type or side, with amounts or times in another unit,
    with a salt rounded by a float, and with maker and signer exchanged. A malformed signature is
    repaired where its mistake is known. Costs about a hundred
    recoveries: use it for diagnosis, not for every order.

    Args:
        order: an order or another signed struct.
        domains: the expected domain, or several with the expected one first.

    Raises:
        InvalidDomainError: ``domains`` is empty.
        InvalidFieldError: a value does not fit its type.
    """
    expected_domains = [domains] if isinstance(domains, Domain) else list(domains)
    if not expected_domains:
        raise InvalidDomainError("domains must hold at least the expected domain; got none")
    ours = expected_domains[0]
    digest = secp.digest_of(order, ours.separator)
    signers = {order.signer_address.lower(), order.owner_address.lower()}
    first = secp.recover(digest, order.signature)
    if not isinstance(first, bytes):
        return Explanation(text=malformed(order, digest, signers, Verdict(first)), found=False)
    for method, domain, digest in candidates(order, expected_domains):
        address = secp.recover(digest, order.signature)
        if isinstance(address, bytes) and f"0x{address.hex()}" in signers:
            text = sentence(method, secp.checksummed(address), domain, ours)
            return Explanation(text=text, found=True, domain=domain, digest=digest)
    text = (
        f"the signature matches none of the known mistakes. As EIP-712 for {ours} it recovers to "
        f"{secp.checksummed(first)}: a field changed after signing, or another key signed"
    )
    if looks_rounded(getattr(order, "salt", 0)):
        text += ". The salt seems rounded by a JavaScript number: send it as a string"
    return Explanation(text=text, found=False)


def sentence(method: str, signer: str, domain: Domain | None, ours: Domain) -> str:
    """Describe the signed data that was identified."""
    if domain is None:
        return f"signed by {signer} {method}"
    text = f"signed by {signer} for {domain}, {method}"
    if domain == ours:
        return text
    given, wanted = domain.to_json(), ours.to_json()
    apart = [name for name in wanted if given.get(name) != wanted[name]]
    return f"{text}; another {' and '.join(apart)}; expected domain {ours}"


def malformed(order: Signed, digest: bytes, signers: set[str], verdict: Verdict) -> str:
    """Describe a malformed signature; with the right one if its mistake is known."""
    text = describe(verdict, order.signature)
    for reason, signature in repaired(order.signature):
        for each in (digest, secp.personal_digest(digest)):
            address = secp.recover(each, signature)
            if isinstance(address, bytes) and f"0x{address.hex()}" in signers:
                return f"{text}; {reason}: {signature} is by {secp.checksummed(address)}"
    return text


def repaired(signature: str) -> Iterator[tuple[str, str]]:
    """Yield the probable mistake of a malformed signature, and the signature without it."""
    if not isinstance(signature, str):
        return
    digits = signature.strip().lower().removeprefix("0x")
    if not HEX_DIGITS.fullmatch(digits):
        return
    if len(digits) == 130:
        yield "it must begin with 0x and have no spaces", f"0x{digits}"
        v = int(digits[128:], 16)
        if v >= 35:
            right = 27 + (v - 35) % 2
            whole = f"0x{digits[:128]}{right:02x}"
            yield f"v has the form of a transaction, it must be {right}", whole
    if len(digits) == 128:
        for v in (27, 28):
            yield f"its last byte, v, is missing and must be {v}", f"0x{digits}{v:02x}"
        top = int(digits[64:66], 16)
        compact = f"{digits[:64]}{top & 0x7F:02x}{digits[66:]}{27 + (top >> 7):02x}"
        yield "it is in the compact form of EIP-2098", f"0x{compact}"


def candidates(order: Signed, domains: list[Domain]) -> Iterator[tuple[str, Domain | None, bytes]]:
    """Yield method, domain and digest of data that may have been signed, likeliest first."""
    ours = domains[0]
    for domain in dict.fromkeys([*domains, *KNOWN_DOMAINS]):
        digest = secp.digest_of(order, domain.separator)
        yield "by EIP-712", domain, digest
        yield "by personal_sign of its hash", domain, secp.personal_digest(digest)
        yield "by personal_sign of its hash as text", domain, personal_of_text(digest)
    for change, changed in variants(order):
        yield f"by EIP-712, but {change}", ours, secp.digest_of(changed, ours.separator)
    yield from hashed_again(ours, secp.digest_of(order, ours.separator))
    for domain in similar(ours):
        yield "by EIP-712", domain, secp.digest_of(order, domain.separator)
    struct = secp.hash_struct(order)
    yield "without any domain: the bare hash of the struct", None, struct
    personal = secp.personal_digest(struct)
    yield "without any domain: personal_sign of the struct's hash", None, personal
    yield from wide(order, ours)


@functools.lru_cache(8)
def similar(ours: Domain) -> tuple[Domain, ...]:
    """Return the domain with a member in common use instead of its own, likeliest first."""
    name, version, chain_id, contract = (
        ours.name, ours.version, ours.chain_id, ours.verifying_contract,
    )  # fmt: skip
    plain = ((each, number) for each in (name, name.upper(), name.title()) for number in "12")
    names = (*COMMON_NAMES, *plain, (name, "1.0"), (name, "1.0.0"))
    return (
        Domain(name, version, chain_id),
        Domain(name, version, chain_id, f"0x{0:040x}"),
        *(Domain(*each, chain_id, contract) for each in names),
        *(Domain(name, version, each, contract) for each in COMMON_CHAINS),
        *(Domain(POLYMARKET, "1", each, contract) for each in COMMON_CHAINS),
    )


def hashed_again(ours: Domain, digest: bytes) -> Iterator[tuple[str, Domain, bytes]]:
    """Yield the digests of wallets that were given the hash and hashed it once more."""
    twice = secp.personal_digest(secp.personal_digest(digest))
    yield "by personal_sign of the digest of personal_sign, so it was applied twice", ours, twice
    yield "over the Keccak-256 of its hash, so it was hashed twice", ours, secp.keccak256(digest)
    text = digest.hex().encode()
    personal = secp.keccak256(b"\x19Ethereum Signed Message:\n64" + text)
    yield "by personal_sign of its hash as text without 0x", ours, personal
    yield "over the Keccak-256 of its hash as text", ours, secp.keccak256(b"0x" + text)


def wide(order: Signed, ours: Domain) -> Iterator[tuple[str, Domain, bytes]]:
    """Yield the digest of the struct with its small integers typed as uint256."""
    schema, small = order.SCHEMA, "uint8"
    if not any(field.type == small for field in schema.fields):
        return
    members = tuple(
        msgspec.structs.replace(field, type="uint256") if field.type == small else field
        for field in schema.fields
    )
    other = Schema(schema.name, members, tuple(schema.nested.values()))
    digest = secp.keccak256(b"\x19\x01" + ours.separator + other.hash_of(order))
    names = " and ".join(field.name for field in schema.fields if field.type == small)
    yield f"by EIP-712, but with {names} typed uint256 instead of {small}", ours, digest


def personal_of_text(digest: bytes) -> bytes:
    """Return the digest of personal_sign for the hash as a text of 66 characters."""
    return secp.keccak256(b"\x19Ethereum Signed Message:\n66" + f"0x{digest.hex()}".encode())


def variants(order: Signed) -> Iterator[tuple[str, Signed]]:
    """Yield the order with a field changed, and a description of the change."""
    schema, replace = order.SCHEMA, msgspec.structs.replace
    read_by = {field.read: field.attribute for field in schema.fields}
    if schema.signature_type is not None:
        for other in (0, 1, 2, 3):
            yield f"with signatureType {other}", replace(order, **{schema.signature_type: other})
    if fields.side in read_by:
        for other in Side:
            yield f"with side {other.name}", replace(order, **{read_by[fields.side]: other})
    if fields.salt in read_by:
        attribute = read_by[fields.salt]
        for salt in salt_variants(getattr(order, attribute)):
            yield f"with salt {salt}", replace(order, **{attribute: salt})
    yield from units(order, {field.attribute for field in schema.fields})
    if schema.signer != schema.owner:
        swaps = {schema.owner: order.signer_address}, {schema.signer: order.owner_address}
        yield f"with the signer as {schema.owner}", replace(order, **swaps[0])
        yield f"with the {schema.owner} as signer", replace(order, **swaps[1])


def units(order: Signed, attributes: set[str]) -> Iterator[tuple[str, Signed]]:
    """Yield an order with amounts or times as clients mistake them, and a description."""
    replace = msgspec.structs.replace
    given: Any = order
    if not {"maker_amount", "expiration_s", "nonce"} <= attributes:
        return
    for name, attribute, values in (
        ("expiration", "expiration_s", (0, given.expiration_s * 1000)),
        ("nonce", "nonce", (0,)),
        ("feeRateBps", "fee_rate_bps", (0,)),
    ):
        for value in values:
            if value != getattr(given, attribute):
                yield f"with {name} {value}", replace(order, **{attribute: value})
    maker, taker = given.maker_amount, given.taker_amount
    exchanged = replace(order, **{"maker_amount": taker, "taker_amount": maker})
    yield "with makerAmount and takerAmount exchanged", exchanged
    six = replace(order, **{"maker_amount": maker // 10**12, "taker_amount": taker // 10**12})
    yield "with amounts of six decimals instead of 18", six


def looks_rounded(salt: object) -> bool:
    """Return whether a salt has more bits than a float holds, but only as many digits."""
    if not isinstance(salt, int | str):
        return False
    number = fields.salt_number(salt)
    return number >> 53 > 0 and len(str(number).rstrip("0")) <= 17


def salt_variants(salt: object) -> list[int]:
    """Return a salt as a float would round it, and 0."""
    exact = fields.salt_number(salt) if isinstance(salt, int | str) else 0
    lost = exact.bit_length() - 53
    if lost <= 0:
        return [0]
    return [(exact + (1 << lost >> 1)) >> lost << lost, exact >> lost << lost, 0]
