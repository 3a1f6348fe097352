"""Signatures in plain Python: read, hash, recover and verify. The compiled twin behaves equally.

Recovery uses coincurve, or eth_keys if coincurve is not installed, which is plain Python and a
hundred times slower.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from clob.signing.errors import InvalidFieldError, InvalidSignatureError, Verdict
from clob.signing.fields import at, received
from clob.signing.keccak import checksummed, keccak256
from clob.signing.schema import SignedValue, address_bytes

__all__ = [
    "BACKEND",
    "checksummed",
    "digest_of",
    "hash_struct",
    "keccak256",
    "personal_digest",
    "read",
    "recover",
    "verdict_of",
    "verdicts_of",
]

ORDER_OF_CURVE: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}")
PARITY: Final = {0: 0, 1: 1, 27: 0, 28: 1}

KNOWN: Final = (
    # Digest, signature and signer, with both parities, as published by the authors of two clients.
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
"""An r that is not the x of a point on the curve."""

EIP712: Final = 1
PERSONAL: Final = 2
NEEDS_PROXY: Final = 4
CONTRACT_ONLY: Final = 8
"""Bits of the rule of a signature type: the digests that may be signed, whether the signer needs an
authorisation even if it is the maker, and whether only a contract can verify."""

Recover = Callable[[bytes, bytes], bytes | None]
"""``recover(digest, r_s_parity)`` returns the 64 bytes of the public key, or None."""


def coincurve_recover() -> Recover:
    from coincurve import PublicKey  # noqa: PLC0415 - optional

    def recover_key(digest: bytes, compact: bytes) -> bytes | None:
        try:
            key = PublicKey.from_signature_and_message(compact, digest, hasher=None)
        except Exception:  # coincurve raises a bare Exception if there is no key
            return None
        return key.format(compressed=False)[1:]

    return recover_key


def eth_keys_recover() -> Recover:
    from eth_keys.exceptions import BadSignature  # noqa: PLC0415 - only without coincurve
    from eth_keys.main import KeyAPI  # noqa: PLC0415

    api = KeyAPI("eth_keys.backends.NativeECCBackend")

    def recover_key(digest: bytes, compact: bytes) -> bytes | None:
        try:
            return api.ecdsa_recover(digest, api.Signature(compact)).to_bytes()
        except BadSignature:
            return None

    return recover_key


def choose_recover() -> tuple[str, Recover]:
    """Return the first installed library that recovers the known signatures."""
    for name, load in (("coincurve", coincurve_recover), ("eth_keys", eth_keys_recover)):
        try:
            candidate = load()
        except ImportError:
            continue
        if all(recovers(candidate, *known) for known in KNOWN):
            return name, candidate
    raise ImportError("clob.signing: neither coincurve nor eth_keys recovers the known signatures")


def recovers(recover: Recover, digest: str, signature: str, signer: str) -> bool:
    """Return whether a function recovers a known signature and rejects an r off the curve."""
    raw, compact = bytes.fromhex(digest), compact_of(signature)
    if isinstance(compact, Verdict) or recover(raw, OFF_CURVE + compact[32:]) is not None:
        return False
    key = recover(raw, compact)
    return key is not None and keccak256(key)[12:].hex() == signer


# ----- signatures ----------------------------------------------------------------------------


def compact_of(signature: object) -> bytes | Verdict:
    """Return r, s and parity of a signature in 65 bytes, or the failed check (decision 15)."""
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


BACKEND, recover_key = choose_recover()


def recover(digest: bytes, signature: object) -> bytes | Verdict:
    """Return the 20 bytes of the address that signed a digest of 32 bytes, or the failed check."""
    compact = compact_of(signature)
    if isinstance(compact, Verdict):
        return compact
    key = recover_key(digest, compact)
    return Verdict.NOT_RECOVERABLE if key is None else keccak256(key)[12:]


# ----- signed structs ------------------------------------------------------------------------


def read(cls: type[Any], data: object) -> Any:
    """Build a signed struct from a JSON object; see ``Signed.from_json``."""
    if not isinstance(data, Mapping):
        raise InvalidFieldError(f"{cls.SCHEMA.name} must be a JSON object; got {received(data)}")
    values: dict[str, Any] = {}
    for field in cls.SCHEMA.fields:
        value = data.get(field.name)
        if value is not None:
            values[field.attribute] = field.read(field.name, value)
        elif field.same_as:
            values[field.attribute] = values[field.same_as]
        elif field.required:
            raise at(field.name, InvalidFieldError(f"{field.name} is missing"))
    signature = data.get("signature")
    if signature is not None:
        if type(signature) is not str:
            raise InvalidSignatureError(
                f"signature must be a string; got {received(signature)}", Verdict.MALFORMED
            )
        values["signature"] = signature
    return cls(**values)


def hash_struct(value: SignedValue) -> bytes:
    """Return the 32-byte hash of a signed struct.

    Raises:
        InvalidFieldError: a value does not fit its type.
    """
    return value.SCHEMA.hash_of(value)


def digest_of(value: SignedValue, separator: bytes) -> bytes:
    """Return the 32-byte EIP-712 digest of a domain and a struct.

    Raises:
        InvalidFieldError: a value does not fit its type.
    """
    return keccak256(b"\x19\x01" + separator + hash_struct(value))


def personal_digest(digest: bytes) -> bytes:
    """Return the digest of personal_sign for a digest of 32 bytes (decision 12)."""
    return keccak256(b"\x19Ethereum Signed Message:\n32" + digest)


def verdict_of(
    value: SignedValue, separator: bytes, rules: bytes, digest: bytes | None = None
) -> int:
    """Verify a signature; return the number of a :class:`Verdict`.

    Args:
        value: the signed struct.
        separator: domain separator, 32 bytes.
        rules: one byte per signature type, 0 if unsupported.
        digest: the result of :func:`digest_of` if known. Then nothing is hashed, and only owner,
            signer and signature type are read.
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
    if rule & CONTRACT_ONLY:
        return Verdict.CONTRACT_WALLET
    compact = compact_of(value.signature)
    if isinstance(compact, Verdict):
        return compact
    return verdict_of_signer(digest, compact, rule, signer, owner)


def rule_of(value: SignedValue, rules: bytes) -> int:
    """Return the rule of the signature type of a value; see :func:`verdict_of`.

    Raises:
        InvalidFieldError: the signature type does not fit its field.
    """
    schema = value.SCHEMA
    for field in schema.fields:
        if field.attribute == schema.signature_type:
            kind = int.from_bytes(schema.word_of(field, getattr(value, field.attribute)))
            return rules[kind] if kind < len(rules) else 0
    return EIP712


def verdict_of_signer(
    digest: bytes, compact: bytes, rule: int, signer: bytes, owner: bytes
) -> Verdict:
    """Check whether the signer signed one of the digests that the rule allows."""
    digests = [digest] if rule & EIP712 else []
    if rule & PERSONAL:
        digests.append(personal_digest(digest))
    recovered = None
    for each in digests:
        key = recover_key(each, compact)
        recovered = recovered or key
        if key is not None and keccak256(key)[12:] == signer:
            unauthorised = rule & NEEDS_PROXY or signer != owner
            return Verdict.NOT_AUTHORISED if unauthorised else Verdict.VALID
    return Verdict.NOT_RECOVERABLE if recovered is None else Verdict.WRONG_SIGNER


def verdicts_of(
    values: Sequence[SignedValue],
    separator: bytes,
    rules: bytes,
    digests: Sequence[bytes] | None = None,
) -> bytes:
    """Verify many signatures; return one :class:`Verdict` byte each."""
    if digests is None:
        return bytes([verdict_of(value, separator, rules) for value in values])
    pairs = zip(values, digests, strict=True)
    return bytes([verdict_of(value, separator, rules, digest) for value, digest in pairs])
