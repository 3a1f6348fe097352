"""What was signed, if not this: tries the mistakes that people make, and says which it was."""

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
"""Published domains of exchanges with the same order struct; not all that there are."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a signature turned out to be."""

    text: str
    """A sentence for whoever signed."""
    found: bool
    """If it is known what was signed."""
    domain: Domain | None = None
    """For which exchange, if that is known."""
    digest: bytes | None = None
    """What was signed, 32 bytes, if that is known."""

    def __str__(self) -> str:
        """Write the sentence."""
        return self.text


def explain(order: Signed, domains: Domain | Iterable[Domain]) -> Explanation:
    """Find out what a signature was made for.

    It tries, for the domains given and for :data:`KNOWN_DOMAINS`: EIP-712 and personal_sign, also
    over the hash as a text; the struct without a domain; and for the first domain the order with
    another signature type, with the other side, with a salt that went through a float, and with
    maker and signer exchanged. Dozens of recoveries: for the one who asks why, not for every order.

    Args:
        order: an order, or anything signed.
        domains: the domain it should be for, or several, that one first.

    Returns:
        What it found, with a sentence to show.

    Raises:
        InvalidDomainError: there is no domain to begin with.
        InvalidFieldError: a value does not fit its type.
    """
    given = [domains] if isinstance(domains, Domain) else list(domains)
    if not given:
        raise InvalidDomainError("explain needs the domain that the order should be for")
    ours = given[0]
    expected = {order.signer_address.lower(), order.owner_address.lower()}
    digest = secp.digest_of(order, ours.separator)
    first = secp.recover(digest, order.signature)
    if not isinstance(first, bytes):
        return Explanation(text=describe(Verdict(first), order.signature), found=False)
    for how, domain, digest in guesses(order, given):
        by = secp.recover(digest, order.signature)
        if isinstance(by, bytes) and f"0x{by.hex()}" in expected:
            signer = secp.checksummed(by)
            return Explanation(
                text=sentence(how, signer, domain, ours), found=True, domain=domain, digest=digest
            )
    text = (
        f"the signature is of nothing that was tried. As EIP-712 for {ours} it would be that of "
        f"{secp.checksummed(first)}: a field has changed since, or another key signed"
    )
    if rounded(getattr(order, "salt", 0)):
        text += ". The salt looks as if it went through a JavaScript number: send it as a text"
    return Explanation(text=text, found=False)


def sentence(how: str, signer: str, domain: Domain | None, ours: Domain) -> str:
    """Say what was found."""
    if domain is None:
        return f"this is signed by {signer} {how}"
    told = f"this is signed by {signer} for {domain}, {how}"
    return told if domain == ours else f"{told}; here it must be for {ours}"


def guesses(order: Signed, given: list[Domain]) -> Iterator[tuple[str, Domain | None, bytes]]:
    """Give what may have been signed, the likeliest first: how, for what, and the digest."""
    ours = given[0]
    for domain in dict.fromkeys([*given, *KNOWN_DOMAINS]):
        digest = secp.digest_of(order, domain.separator)
        yield "by EIP-712", domain, digest
        yield "by personal_sign of its hash", domain, secp.personal_digest(digest)
        yield "by personal_sign of its hash as a text", domain, personal_of_text(digest)
    for how, changed in mistakes(order):
        yield f"by EIP-712, but {how}", ours, secp.digest_of(changed, ours.separator)
    struct = secp.hash_struct(order)
    yield "without any domain: the bare hash of the struct", None, struct
    yield (
        "without any domain: personal_sign of the struct's hash",
        None,
        (secp.personal_digest(struct)),
    )


def personal_of_text(digest: bytes) -> bytes:
    """Give what personal_sign signs where it was given the hash as a text of 66 characters."""
    hashed: bytes = secp.keccak256(
        b"\x19Ethereum Signed Message:\n66" + f"0x{digest.hex()}".encode()
    )
    return hashed


def mistakes(order: Signed) -> Iterator[tuple[str, Signed]]:
    """Give the order as it may have been when it was signed, and what would have changed since."""
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
        for salt in salts(getattr(order, attribute)):
            yield f"with salt {salt}", replace(order, **{attribute: salt})
    if schema.signer != schema.owner:
        swaps = {schema.owner: order.signer_address}, {schema.signer: order.owner_address}
        yield f"with the signer as its {schema.owner}", replace(order, **swaps[0])
        yield f"with the {schema.owner} as its signer", replace(order, **swaps[1])


def rounded(salt: object) -> bool:
    """Say whether a salt has no more digits than a float prints, and more bits than one holds."""
    if not isinstance(salt, int | str):
        return False
    number = fields.salt_number(salt)
    return number >> 53 > 0 and len(str(number).rstrip("0")) <= 17


def salts(given: object) -> list[int]:
    """Give a salt as a float would have rounded it, and none."""
    exact = fields.salt_number(given) if isinstance(given, int | str) else 0
    lost = exact.bit_length() - 53
    if lost <= 0:
        return [0]
    return [(exact + (1 << lost >> 1)) >> lost << lost, exact >> lost << lost, 0]


# MERGED clob.signing.explain: The domains of exchanges in the wild, to recognise an order that was signed for one of them.
