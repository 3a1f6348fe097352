"""What a wallet is given to sign, and signing with a key at hand, for tests and bots."""

import functools
import re
import sys
from typing import Any, TypeVar

import msgspec

from clob.signing import secp
from clob.signing.domain import Domain
from clob.signing.errors import InvalidKeyError
from clob.signing.profiles import Profile
from clob.signing.schema import Schema
from clob.signing.signed_struct import Signed

KEY = re.compile(r"(?:0x)?[0-9a-fA-F]{64}")
AnySigned = TypeVar("AnySigned", bound=Signed)


def typed_data(order: Signed, domain: Domain) -> dict[str, Any]:
    """Give what a wallet signs, as ``eth_signTypedData_v4`` and all libraries take it.

    Args:
        order: an order, or anything signed; its signature is not looked at.
        domain: for which exchange.

    Returns:
        ``types, primaryType, domain, message``, ready for JSON: integers of 256 bits are decimal
        digits, and a salt is the number it stands for.
    """
    return {
        "types": {"EIP712Domain": domain.types, **order.SCHEMA.types},
        "primaryType": order.SCHEMA.name,
        "domain": domain.to_json(),
        "message": message(order.SCHEMA, order),
    }


def message(schema: Schema, value: object) -> dict[str, Any]:
    """Write a struct as a wallet reads it."""
    written: dict[str, Any] = {}
    for field in schema.fields:
        inner = getattr(value, field.attribute)
        if field.type in schema.nested:
            inner = message(schema.nested[field.type], inner)
        elif field.type == "uint256":
            inner = str(int.from_bytes(schema.word_of(field, inner)))
        elif field.type == "uint8":
            inner = int(inner)
        elif isinstance(inner, bytes):
            inner = f"0x{inner.hex()}"
        written[field.name] = inner
    return written


@functools.cache
def accounts() -> Any:
    """Import eth-account, which takes half a second and is for those who sign.

    With it comes py_ecc, which raises the recursion limit of the process to 100,000: then whatever
    recurses in C, as the reader of JSON did until Python 3.12, can be made to overflow the stack.
    """
    limit = sys.getrecursionlimit()
    try:
        from eth_account import Account  # noqa: PLC0415
    finally:
        sys.setrecursionlimit(limit)
    return Account


def sign(
    order: AnySigned,
    domain: Domain,
    key: str | bytes,
    *,
    profile: Profile | str = Profile.SPEC,
) -> AnySigned:
    """Sign with a private key, through eth-account.

    In profile ``spec`` an order of type 0 is signed by personal_sign of its hash, everything else
    by EIP-712.

    Args:
        order: an order, or anything signed.
        domain: for which exchange.
        key: 32 bytes, or 64 hex digits with or without 0x. It is not compared with the signer.
        profile: what the signature types mean.

    Returns:
        The same with the signature.

    Raises:
        InvalidFieldError: a value does not fit its type.
        InvalidKeyError: it is no private key.
    """
    digest: bytes = secp.digest_of(order, domain.separator)
    if order.signature_kind == 0 and Profile(profile) is Profile.SPEC:
        digest = secp.personal_digest(digest)
    try:
        if isinstance(key, str) and not KEY.fullmatch(key):
            raise ValueError("eth-account would pad it")
        account = accounts().from_key(key)
    except Exception:  # whatever it raises may hold the key
        raise InvalidKeyError(
            "a private key is 32 bytes, or 64 hex digits, above 0 and below the order of the curve"
        ) from None
    signature = account.unsafe_sign_hash(digest).signature
    return msgspec.structs.replace(order, signature=f"0x{bytes(signature).hex()}")
