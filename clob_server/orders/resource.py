"""Fields of the order resource that a new order may repeat, since clients send orders back.

A signed order may have all of them. In an order without a signature they must not say anything
that the server does not do.
"""

from collections.abc import Mapping
from typing import Any, Final

from clob import ClobError, Order
from clob.signing import ORDER, ZERO_ADDRESS, InvalidFieldError, fields
from clob.signing.signed_struct import read_address
from clob.wire.orders import NO_SIGNATURE, OrderBody
from clob_server.api.faults import check_names, fault, missing, wrong
from clob_server.api.options import OPTIONAL

SIGNED: Final = frozenset(
    (*(field.name for field in ORDER.fields), "signature", "marketId", *OPTIONAL)
)
"""The fields that a signed order is read from."""
GASLESS: Final = frozenset(
    ("maker", "smartWallet", "tokenId", "side", "price", "size", "marketId", "expiration",
     "feeRateBps", "nonce", *OPTIONAL)
)  # fmt: skip
"""The fields that an order without a signature is read from."""
KNOWN: Final = SIGNED | GASLESS | frozenset(OrderBody.__struct_encode_fields__)
"""All fields of a new order."""

RULES: Final = {
    "tokenId": "must be the id of an outcome token",
    "side": "must be 0 (buy) or 1 (sell)",
    "price": "must be an integer from 1 to 99 (cents)",
    "size": "must be the number of tokens in wei, 10^18 a token",
    "maker": "must be 0x and 40 hex digits",
    "makerAmount": "must be the amount that the maker gives, in wei, 10^18 a token",
    "takerAmount": "must be the amount that the maker receives, in wei, 10^18 a token",
    "signature": "must be 0x and 130 hex digits, by the signer",
}
"""The required fields, and their rules."""

_PLACEHOLDERS: Final = ("", "0x", NO_SIGNATURE)
_AT_FIRST: Final = {
    "status": "open",
    "filledAmount": "0",
    "filledTokens": "0",
    "filledCollateral": "0",
}
"""Fields of every new order, with their values."""
_LATER: Final = ("averagePrice", "cancelReason", "orderHash")
"""Fields that a new order without a signature does not have."""


def required(body: Mapping[str, Any], name: str) -> Any:
    """Return a required field of an order without a signature."""
    value = body.get(name)
    if value is not None:
        return value
    is_signed = name in ("price", "size") and body.get("makerAmount") is not None
    hint = "; an order with a signature goes to POST /api/orders" if is_signed else ""
    raise missing(name, RULES[name] + hint)


def with_rule(body: Mapping[str, Any], error: InvalidFieldError) -> ClobError:
    """Return the error of a signed order, for a missing field with its rule."""
    name = error.path or ""
    if body.get(name) is not None or name not in RULES:
        return error
    is_gasless = name in ("makerAmount", "takerAmount") and body.get("price") is not None
    hint = "; an order with price and size goes to POST /api/orders/gasless" if is_gasless else ""
    return missing(name, RULES[name] + hint)


def is_placeholder(signature: object) -> bool:
    """Return whether a signature means that the order has none."""
    return signature is None or signature in _PLACEHOLDERS


def check_signed(body: Mapping[str, Any], order: Order, *, repeats: bool) -> None:
    """Check the fields of a signed order besides those that it is read from.

    Args:
        body: the order in JSON, with known fields only.
        order: the order that was read; in a market that settles with its ``smartWallet``.
        repeats: whether it was accepted before; then its size may have changed since.

    Raises:
        ApiError: INVALID_FIELD.
        InvalidAddressError: ``smartWallet`` is not an address.
    """
    wallet = body.get("smartWallet") or None
    own = (order.maker, order.smart_wallet)
    if wallet is not None and read_address("smartWallet", wallet) not in own:
        raise fault(
            "smartWallet",
            f"smartWallet must be the maker or absent, since the signature does not cover it; got "
            f"{wallet}. Another one is possible in a market that settles, if the exchange contract "
            "knows it, and in an order without a signature (POST /api/orders/gasless)",
        )
    if repeats:
        return
    price, size = body.get("price"), body.get("size")
    if price is not None and (type(price) is not int or price != order.price):
        raise wrong("price", f"must be {order.price}, as signed, or absent", price)
    if size is not None and fields.amount("size", size) != order.size:
        raise wrong("size", f"must be {order.size}, as signed, or absent", size)


def check_gasless(body: Mapping[str, Any], order: Order, amounts: tuple[int, int]) -> None:
    """Check the fields of an unsigned order besides those that it is read from.

    Args:
        body: the order in JSON, with known fields only.
        order: the order that was read.
        amounts: its ``makerAmount`` and ``takerAmount``.

    Raises:
        ApiError: INVALID_FIELD, a field does not have its neutral value.
        RejectedError: a field is invalid.
    """
    extra = {name: body[name] for name in body if name not in GASLESS and body[name] is not None}
    fixed = {"makerAmount": amounts[0], "takerAmount": amounts[1], "remaining": order.size}
    for name, value in extra.items():
        if name in ("signer", "taker"):
            expected = order.maker if name == "signer" else ZERO_ADDRESS
            if read_address(name, value) != expected:
                whose = "the maker" if name == "signer" else "the zero address (any taker)"
                rule = f"must be {whose} or absent in an order without a signature"
                raise wrong(name, rule, value)
        elif name in fixed:
            if fields.amount(name, value) != fixed[name]:
                raise wrong(name, f"must be {fixed[name]}, from price and size, or absent", value)
        elif name in _AT_FIRST:
            if value != _AT_FIRST[name]:
                raise wrong(name, f'must be "{_AT_FIRST[name]}" or absent in a new order', value)
        elif name in _LATER:
            raise wrong(name, "must be null or absent in a new order without a signature", value)
        elif name == "salt":
            fields.salt(name, value)
        elif name == "signatureType":
            if fields.uint8(name, value) > 1:
                raise wrong(name, "must be 0, 1 or absent", value)
        elif name == "signature" and not is_placeholder(value):
            rule = "must be absent or zeros here; send a signed order to POST /api/orders"
            raise wrong(name, rule, value)


def check_known(body: dict[str, Any]) -> None:
    """Reject the fields that no order has.

    Raises:
        ApiError: INVALID_FIELD.
    """
    check_names(body, KNOWN)
