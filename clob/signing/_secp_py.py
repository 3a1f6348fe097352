"""Signatures in plain Python: read, hash, recover and judge. The compiled twin does the same.

A recovery is one of two: through coincurve's public interface, or, where there is no coincurve,
through eth_keys, which is in plain Python and a hundred times slower.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from clob.book.validation import show
from clob.signing._keccak_py import checksummed, keccak256
from clob.signing.errors import InvalidFieldError, InvalidSignatureError, Verdict
from clob.signing.fields import at
from clob.signing.schema import address_bytes

if TYPE_CHECKING:
    from clob.signing.signed_struct import Signed

__all__ = [
    "BACKEND",
    "checksummed",
    "digest_of",
    "hash_struct",
    "judge",
    "judge_all",
    "keccak256",
    "personal_digest",
    "read",
    "recover",
]

ORDER_OF_CURVE: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}")
PARITY: Final = {0: 0, 1: 1, 27: 0, 28: 1}

KNOWN: Final = (
    # digest, signature and who signed: both parities, published by the authors of two clients.
    (
        "02ca1d1aa31103804173ad1acd70066cb6c1258a4be6dada055111f9a7ea4e55",
        "0x302cd9abd0b5fcaa202a344437ec0b6660da984e24ae9ad915a592a90facf5a5"
        "1bb8a873cd8d270f070217fea1986531d5eec66f1162a81f66e026db653bf7ce1c",
        "f39fd6e51aad88f6f4ce6ab8827279cfffb92266",
    ),
    (
        "bf58957703791db2ab057528d03d1cff5375d9a475b14a9073bb7d892398dc96",
        "0x3874d2cfe79c0e82577f4f76ec58d950522ee5923a6f08441927d382c8178a5a"
        "2190fd4d5c49705e94d75999a58ec843f94a432e87ebc15cdb2186d315b3cc201b",
        "f39fd6e51aad88f6f4ce6ab8827279cfffb92266",
    ),
)
OFF_CURVE: Final = (5).to_bytes(32)
"""An r that is the x of no point of the curve."""

EIP712: Final = 1
PERSONAL: Final = 2
ASK: Final = 4
CONTRACT: Final = 8
"""What a rule for a signature type consists of: which digests may be signed, whether somebody is to
be asked even where the signer is the maker, and whether only a contract can tell."""

Recover = Callable[[bytes, bytes], bytes | None]
"""Takes a digest and r, s, parity (65 bytes), and gives the 64 bytes of the public key, or None."""


def by_coincurve() -> Recover:
    """Recover through coincurve's public interface."""
    from coincurve import PublicKey  # noqa: PLC0415 - where it is missing, the other one does it

    def recover_key(digest: bytes, compact: bytes) -> bytes | None:
        try:
            key = PublicKey.from_signature_and_message(compact, digest, hasher=None)
        except Exception:  # it raises a bare Exception where there is no such key
            return None
        return key.format(compressed=False)[1:]

    return recover_key


def by_eth_keys() -> Recover:
    """Recover in plain Python."""
    from eth_keys.exceptions import BadSignature  # noqa: PLC0415 - the last resort
    from eth_keys.main import KeyAPI  # noqa: PLC0415

    api = KeyAPI("eth_keys.backends.NativeECCBackend")

    def recover_key(digest: bytes, compact: bytes) -> bytes | None:
        try:
            return api.ecdsa_recover(digest, api.Signature(compact)).to_bytes()
        except BadSignature:
            return None

    return recover_key


def choose() -> tuple[str, Recover]:
    """Take the faster of the two that is there and knows the known signatures."""
    for name, make in (("coincurve", by_coincurve), ("eth_keys", by_eth_keys)):
        try:
            found = make()
        except ImportError:
            continue
        if all(knows(found, *known) for known in KNOWN):
            return name, found
    raise ImportError("clob.signing: neither coincurve nor eth_keys recovers known signatures")


def knows(recover: Recover, digest: str, signature: str, signer: str) -> bool:
    """Say whether somebody recovers a known signature, and nothing where r is off the curve."""
    raw, compact = bytes.fromhex(digest), compact_of(signature)
    if isinstance(compact, Verdict) or recover(raw, OFF_CURVE + compact[32:]) is not None:
        return False
    key = recover(raw, compact)
    return key is not None and keccak256(key)[12:].hex() == signer


# ----- signatures ----------------------------------------------------------------------------


def compact_of(signature: object) -> bytes | Verdict:
    """Take a signature apart: r, s and parity in 65 bytes, or what is wrong with it (decision 15).

    Args:
        signature: 0x and 130 hex digits, with v of 0, 1, 27 or 28 and a low s.
    """
    if type(signature) is not str or not SIGNATURE.fullmatch(signature):
        return Verdict.MALFORMED
    raw = bytes.fromhex(signature[2:])
    parity = PARITY.get(raw[64])
    if parity is None:
        return Verdict.INVALID_V
    r, s = int.from_bytes(raw[:32]), int.from_bytes(raw[32:64])
    if not (0 < r < ORDER_OF_CURVE and 0 < s < ORDER_OF_CURVE):
        return Verdict.INVALID_R_OR_S
    if s > ORDER_OF_CURVE // 2:
        return Verdict.HIGH_S
    return raw[:64] + bytes([parity])


BACKEND, recover_key = choose()


def recover(digest: bytes, signature: object) -> bytes | Verdict:
    """Give the 20 bytes of the address that signed a digest, or what is wrong.

    Args:
        digest: the 32 bytes that were signed.
        signature: 0x and 130 hex digits.
    """
    compact = compact_of(signature)
    if isinstance(compact, Verdict):
        return compact
    key = recover_key(digest, compact)
    return Verdict.NOT_RECOVERABLE if key is None else keccak256(key)[12:]


# ----- signed things -------------------------------------------------------------------------


def read(cls: type["Signed"], data: object) -> Any:
    """Build a signed thing from what a JSON reader gives; see ``Signed.from_json``."""
    if not isinstance(data, Mapping):
        raise InvalidFieldError(f"{cls.SCHEMA.name} must be an object, not {show(data)}")
    values: dict[str, Any] = {}
    for field in cls.SCHEMA.fields:
        given = data.get(field.name)
        if given is not None:
            values[field.attribute] = field.read(field.name, given)
        elif field.same_as:
            values[field.attribute] = values[field.same_as]
        elif field.required:
            raise at(field.name, InvalidFieldError(f"{field.name} is missing"))
    signature = data.get("signature")
    if signature is not None:
        if type(signature) is not str:
            raise InvalidSignatureError(
                f"signature must be a text, not {show(signature)}", Verdict.MALFORMED
            )
        values["signature"] = signature
    return cls(**values)


def hash_struct(value: "Signed") -> bytes:
    """Hash the struct of a signed thing, 32 bytes.

    Raises:
        InvalidFieldError: a value does not fit its type.
    """
    return value.SCHEMA.hash_of(value)


def digest_of(value: "Signed", separator: bytes) -> bytes:
    """Give what EIP-712 has signed: the hash of domain and struct, 32 bytes.

    Raises:
        InvalidFieldError: a value does not fit its type.
    """
    return keccak256(b"\x19\x01" + separator + hash_struct(value))


def personal_digest(digest: bytes) -> bytes:
    """Give what personal_sign has signed over the 32 bytes of a digest (decision 12)."""
    return keccak256(b"\x19Ethereum Signed Message:\n32" + digest)


def judge(value: "Signed", separator: bytes, rules: bytes, digest: bytes | None = None) -> int:
    """Check a signature and say what came of it, as a number of :class:`Verdict`.

    Args:
        value: what was signed.
        separator: the domain's, 32 bytes.
        rules: for each signature type what may be signed, a byte each, 0 where it is not known.
        digest: what :func:`digest_of` gives, 32 bytes, where it is known; nothing is hashed then,
            and the fields are not looked at that do not say who signs, whose it is, and how.
    """
    try:
        if digest is None:
            digest = digest_of(value, separator)
        signer = address_bytes(value.signer_address)
        owner = address_bytes(value.owner_address)
        rule = rule_of(value, rules)
    except (InvalidFieldError, TypeError, ValueError):
        return Verdict.INVALID_FIELD
    if not rule:
        return Verdict.UNSUPPORTED_TYPE
    if rule & CONTRACT:
        return Verdict.CONTRACT_WALLET
    compact = compact_of(value.signature)
    if isinstance(compact, Verdict):
        return compact
    return judge_signer(digest, compact, rule, signer, owner)


def rule_of(value: "Signed", rules: bytes) -> int:
    """Give the rule for the signature type of a value; see :func:`judge`.

    Raises:
        InvalidFieldError: the value of its signature type does not fit.
    """
    schema = value.SCHEMA
    for field in schema.fields:
        if field.attribute == schema.signature_type:
            kind = int.from_bytes(schema.word_of(field, getattr(value, field.attribute)))
            return rules[kind] if kind < len(rules) else 0
    return EIP712


def judge_signer(digest: bytes, compact: bytes, rule: int, signer: bytes, owner: bytes) -> Verdict:
    """Say whether the signer signed one of the digests that the rule allows."""
    digests = [digest] if rule & EIP712 else []
    if rule & PERSONAL:
        digests.append(personal_digest(digest))
    found = None
    for each in digests:
        key = recover_key(each, compact)
        found = found or key
        if key is not None and keccak256(key)[12:] == signer:
            asks = rule & ASK or signer != owner
            return Verdict.NOT_AUTHORISED if asks else Verdict.VALID
    return Verdict.NOT_RECOVERABLE if found is None else Verdict.WRONG_SIGNER


def judge_all(
    values: Sequence["Signed"],
    separator: bytes,
    rules: bytes,
    digests: Sequence[bytes] | None = None,
) -> bytes:
    """Check many signatures; a number of :class:`Verdict` for each. As many digests, or none."""
    if digests is None:
        return bytes([judge(value, separator, rules) for value in values])
    pairs = zip(values, digests, strict=True)
    return bytes([judge(value, separator, rules, digest) for value, digest in pairs])
