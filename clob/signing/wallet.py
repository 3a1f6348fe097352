"""Typed data for wallets, and signing with a private key for tests and bots."""

import functools
import re
import sys
from typing import Any, TypeVar

import msgspec

from clob.errors import PackageMissingError
from clob.signing import secp
from clob.signing.domain import Domain
from clob.signing.errors import InvalidKeyError
from clob.signing.profiles import Profile
from clob.signing.schema import Schema
from clob.signing.signed_struct import Signed

KEY = re.compile(r"(?:0x)?[0-9a-fA-F]{64}")
AnySigned = TypeVar("AnySigned", bound=Signed)


def typed_data(order: Signed, domain: Domain) -> dict[str, Any]:
    """Return the typed data that a wallet signs, for ``eth_signTypedData_v4``.

    Args:
        order: an order or another signed struct; its signature is ignored.
        domain: domain of the exchange.

    Returns:
        ``types, primaryType, domain, message``, ready for JSON: ``uint256`` values are decimal
        strings, and a salt is its number.

    Raises:
        InvalidFieldError: a number does not fit its type.
    """
    return {
        "types": {"EIP712Domain": domain.types, **order.SCHEMA.types},
        "primaryType": order.SCHEMA.name,
        "domain": domain.to_json(),
        "message": message(order.SCHEMA, order),
    }


def message(schema: Schema, value: object) -> dict[str, Any]:
    """Return the fields of a struct in the form that wallets read."""
    data: dict[str, Any] = {}
    for field in schema.fields:
        inner = getattr(value, field.attribute)
        if field.type in schema.nested:
            inner = message(schema.nested[field.type], inner)
        elif field.type in ("uint256", "uint8"):
            number = int.from_bytes(schema.word_of(field, inner))
            inner = number if field.type == "uint8" else str(number)
        elif isinstance(inner, bytes):
            inner = f"0x{inner.hex()}"
        data[field.name] = inner
    return data


@functools.cache
def load_eth_account() -> Any:
    """Import eth-account on first use, which takes half a second.

    Its dependency py_ecc raises the recursion limit of the process to 100,000, with which recursive
    C code (the JSON parser before Python 3.12) can overflow the stack; the limit is restored.
    """
    limit = sys.getrecursionlimit()
    try:
        from eth_account import Account  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "eth_account":
            raise
        raise PackageMissingError(
            "Signing needs eth-account, which is not installed: pip install 'clob[wallet]'"
        ) from error
    finally:
        sys.setrecursionlimit(limit)
    return Account


def sign(
    order: AnySigned, domain: Domain, key: str | bytes, *, profile: Profile | str = Profile.SPEC
) -> AnySigned:
    """Sign with a private key, through eth-account.

    In profile ``spec`` an order of type 0 is signed by personal_sign of its hash, everything else
    by EIP-712.

    Args:
        order: an order or another signed struct.
        domain: domain of the exchange.
        key: 32 bytes, or 64 hex digits with or without 0x. It is not compared with the signer.
        profile: meaning of the signature types.

    Returns:
        A copy with the signature.

    Raises:
        InvalidFieldError: a value does not fit its type.
        InvalidKeyError: the key is not a private key.
        PackageMissingError: eth-account is not installed.
    """
    digest = secp.digest_of(order, domain.separator)
    if order.signature_kind == 0 and Profile(profile) is Profile.SPEC:
        digest = secp.personal_digest(digest)
    account_type = load_eth_account()
    try:
        if isinstance(key, str) and not KEY.fullmatch(key):
            raise ValueError("eth-account pads short keys")
        account = account_type.from_key(key)
    except Exception:  # the original error may contain the key
        raise InvalidKeyError(
            "key must be 32 bytes or 64 hex digits, above 0 and below the order of the curve"
        ) from None
    signature = account.unsafe_sign_hash(digest).signature
    return msgspec.structs.replace(order, signature=f"0x{bytes(signature).hex()}")
