"""Puts the errors of the engine into the words of an HTTP client.

The engine speaks to Python programs: ``time_in_force``, ``Mode.HALTED``, ``'text'``. A client reads
``timeInForce``, ``halted`` and ``"text"``, with a hint where the unit was probably another one.
"""

import ast
import re
from collections.abc import Callable
from typing import Final

from clob.signing.fields import received
from clob.units import format_tokens, tokens

FIELD_OF: Final = {
    "INVALID_ADDRESS": "maker",
    "TAKER_NOT_SUPPORTED": "taker",
    "INVALID_FEE_RATE": "feeRateBps",
    "INVALID_SIDE": "side",
    "INVALID_AMOUNT": "size",
    "AMOUNT_TOO_LARGE": "size",
    "AMOUNT_TOO_SMALL": "size",
    "PRICE_OUT_OF_RANGE": "price",
    "UNKNOWN_MARKET": "marketId",
    "MARKET_EXISTS": "marketId",
    "MARKET_NOT_OPEN": "marketId",
    "MARKET_STALLED": "marketId",
    "TOO_MANY_MARKETS": "marketId",
    "TOKEN_NOT_IN_MARKET": "tokenId",
    "GASLESS_NOT_ALLOWED": "signature",
    "WALLET_NOT_ALLOWED": "smartWallet",
    "MAKER_NOT_ALLOWED": "maker",
    "NOT_THE_MAKER": "maker",
    "TIMESTAMP_OUT_OF_WINDOW": "timestamp",
    "INVALID_SIGNATURE": "signature",
    "SIGNER_NOT_AUTHORISED": "signer",
    "DEADLINE_PASSED": "deadlineMs",
    "CLIENT_ID_CONFLICT": "clientOrderId",
    "ORDER_EXPIRED": "expiration",
    "UNKNOWN_ORDER": "orderId",
    "ORDER_NOT_OPEN": "orderId",
    "INVALID_ORDER_ID": "orderId",
    "NONCE_TOO_LOW": "nonce",
    "DELEGATE_NONCE_TOO_LOW": "nonce",
    "POST_ONLY_WOULD_CROSS": "postOnly",
    "FOK_NOT_FILLABLE": "timeInForce",
    "TOO_MANY_TRADES": "size",
    "INSUFFICIENT_BALANCE": "size",
    "UNKNOWN_CONDITION": "conditionId",
    "NOT_APPROVED": "user",
    "FAUCET_LIMIT": "user",
    "UNKNOWN_KEY": "keyId",
    "KEY_INACTIVE": "keyId",
    "UNKNOWN_OPERATION": "operationId",
    "BATCH_TOO_LARGE": "orders",
    "INVALID_API_KEY": "X-API-Key",
    "API_KEY_REQUIRED": "X-API-Key",
    "INVALID_TOKEN": "Authorization",
    "TOKEN_REQUIRED": "Authorization",
    "UNSUPPORTED_MEDIA_TYPE": "Content-Type",
    "IDEMPOTENCY_KEY_REUSED": "Idempotency-Key",
}
"""The field at fault by code, for errors that do not name one; others concern the whole request."""

_NAMES: Final = {
    "time_in_force": "timeInForce",
    "expiration_s": "expiration",
    "post_only": "postOnly",
    "self_trade": "selfTrade",
    "client_id": "clientOrderId",
    "deadline_ms": "deadlineMs",
    "order_id": "orderId",
    "order_hash": "orderHash",
    "fee_rate_bps": "feeRateBps",
    "smart_wallet": "smartWallet",
    "min_size": "minSize",
    "lot_wei": "lotWei",
    "resting_fee_rate_bps": "restingFeeRateBps",
    "incoming_fee_rate_bps": "incomingFeeRateBps",
    "now_ms": "time",
    "Mode.OPEN": "open",
    "Mode.CANCEL_ONLY": "cancelOnly",
    "Mode.HALTED": "halted",
    "Mode.RESOLVED": "resolved",
    "Side.BUY": "0 (BUY)",
    "Side.SELL": "1 (SELL)",
    "None": "null",
    "True": "true",
    "False": "false",
}
"""Words of the engine, and those of the HTTP interface."""
_PARTS: Final = re.compile(
    r'"(?:[^"\\]|\\.)*"'
    r"|(?<!\w)'(?:[^'\\]|\\.)*'"
    r"|\b(?:TimeInForce|SelfTrade)\.([A-Z_]+)"
    rf"|\b(?:{'|'.join(map(re.escape, _NAMES))})\b"
)
"""A quoted text, or a word of the engine."""
_GOT: Final = re.compile(r'got "?([0-9]*\.?[0-9]+(?:[eE][+]?[0-9]{1,2})?)"?$')
"""The received number at the end of a message."""
DECIMALS: Final = 18
"""Decimals of an amount of tokens."""
_WEI_MAX: Final = 10**12
"""A smaller amount is hardly meant in wei."""
_MICRO_MIN: Final = 10**6
"""From here on it may be meant in units of six decimals."""


def in_json_terms(text: str, code: str) -> str:
    """Return the message of an error with this code in the words of an HTTP client."""
    text = _PARTS.sub(_translated, text).replace("2**", "2^")
    hint = _HINTS.get(code)
    number = None if hint is None else _GOT.search(text)
    return text if hint is None or number is None else text + hint(number[1])


def _translated(part: re.Match[str]) -> str:
    text = part[0]
    if text[0] == '"':
        return text
    if text[0] == "'":
        try:
            return received(ast.literal_eval(text))
        except (SyntaxError, ValueError):  # quotes in a path, for example, not those of a text
            return text
    return part[1] or _NAMES[text]


def _size_hint(number: str) -> str:
    """Return the wei of an amount that was probably given in tokens; empty if it was not."""
    if number.isdecimal():
        amount = int(number)
        if not 0 < amount < _WEI_MAX:
            return ""
        hint = f"; amounts are in wei: {number} tokens are {tokens(amount)}"
        if amount >= _MICRO_MIN:
            hint = f"; amounts have 18 decimals: {format_tokens(amount * 10**12)} with six are "
            hint += str(amount * 10**12)
        return hint
    mantissa, _, exponent = number.lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    if exponent:
        missing = int(exponent) - len(decimals.rstrip("0"))
        digits = f"{whole}{decimals.rstrip('0')}{'0' * missing}"
        return f"; write it out: {digits}" if missing >= 0 else ""
    if len(decimals) > DECIMALS:
        return ""
    return f"; amounts are in wei: {number} tokens are {tokens(f'0{mantissa}')}"


def _price_hint(number: str) -> str:
    """Return the cents of a price that was probably given as a fraction, or as a text."""
    whole, point, decimals = number.partition(".")
    if not point:
        return ""
    cents = decimals.rstrip("0")
    if not int(whole or 0) and 0 < len(cents) <= 2:
        return f"; {number} of a unit of collateral are {int(cents.ljust(2, '0'))} cents"
    return ""


_HINTS: Final[dict[str, Callable[[str], str]]] = {
    "INVALID_AMOUNT": _size_hint,
    "AMOUNT_TOO_SMALL": _size_hint,
    "PRICE_OUT_OF_RANGE": _price_hint,
}
