"""Explains a wrong signature: tries the usual mistakes of clients and names the one that fits."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from clob.order import Side
from clob.signing import fields, secp
from clob.signing.domain import Domain
from clob.signing.errors import InvalidDomainError, Verdict
from clob.signing.rejections import describe
from clob.signing.signed_struct import Signed

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
    :data:`KNOWN_DOMAINS`; the struct without a domain; and for the first domain the order with
    another signature type or side, with a salt rounded by a float, and with maker and signer
    exchanged. Costs dozens of recoveries: use it for diagnosis, not for every order.

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
    signers = {order.signer_address.lower(), order.owner_address.lower()}
    digest = secp.digest_of(order, ours.separator)
    first = secp.recover(digest, order.signature)
    if not isinstance(first, bytes):
        return Explanation(text=describe(Verdict(first), order.signature), found=False)
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
    return text if domain == ours else f"{text}; expected domain {ours}"


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
    struct = secp.hash_struct(order)
    yield "without any domain: the bare hash of the struct", None, struct
    personal = secp.personal_digest(struct)
    yield "without any domain: personal_sign of the struct's hash", None, personal


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
    if schema.signer != schema.owner:
        swaps = {schema.owner: order.signer_address}, {schema.signer: order.owner_address}
        yield f"with the signer as {schema.owner}", replace(order, **swaps[0])
        yield f"with the {schema.owner} as signer", replace(order, **swaps[1])


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
