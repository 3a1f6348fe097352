"""The signed order, its price and size, and its conversion to an order of the engine.

A signed order has two amounts and no price, and clients round them in different ways. The rule
recovers the intended cent (decision 3); it is never worse for the maker than the signed amounts,
except by a rounding error. All arithmetic is in integers.
"""

import functools
from collections.abc import Container
from math import gcd
from typing import ClassVar, Final, NamedTuple, NoReturn, Self

from clob.book.validation import show
from clob.errors import (
    AmountTooLargeError,
    InvalidAmountError,
    InvalidFeeRateError,
    InvalidSideError,
    PriceOutOfRangeError,
)
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.signing import fields
from clob.signing.errors import TakerNotSupportedError
from clob.signing.fields import at, received
from clob.signing.schema import Field, Schema, Written
from clob.signing.signed_struct import ADDRESS_CHARACTERS, Signed, cached_checksum, read_address
from clob.units import FEE_RATE_MAX_BPS, PRICE_MAX, PRICE_MIN, SIZE_MAX, UINT256_MAX, collateral_of

ZERO_ADDRESS: Final = "0x0000000000000000000000000000000000000000"
"""As taker: anyone."""

TOKENS_MAX: Final = 4_096
"""Number of token ids whose decimal strings are cached."""

ORDER: Final = Schema(
    "Order",
    (
        Field("salt", "uint256", "salt", fields.salt, Written.AS_IT_IS, required=False),
        Field("maker", "address", "maker", fields.address, Written.AS_IT_IS),
        Field(
            "signer", "address", "signer", fields.address, Written.AS_IT_IS,
            required=False, same_as="maker",
        ),
        Field("taker", "address", "taker", fields.address, Written.AS_IT_IS, required=False),
        Field("tokenId", "uint256", "token_id"),
        Field("makerAmount", "uint256", "maker_amount", fields.amount),
        Field("takerAmount", "uint256", "taker_amount", fields.amount),
        Field("expiration", "uint256", "expiration_s", written=Written.NUMBER, required=False),
        Field("nonce", "uint256", "nonce", required=False),
        Field("feeRateBps", "uint256", "fee_rate_bps", written=Written.NUMBER, required=False),
        Field("side", "uint8", "side", fields.side, Written.NUMBER, required=False),
        Field(
            "signatureType", "uint8", "signature_type", fields.uint8, Written.NUMBER,
            required=False,
        ),
    ),
    signer="signer",
    signature_type="signature_type",
)  # fmt: skip
"""The order struct of the CTF exchange contract (decision 14)."""


class SignedOrder(Signed, frozen=True, kw_only=True, gc=False):
    """A signed order. The constructor checks nothing; see ``verify``.

    JSON uses the field names of the specification (:data:`ORDER`); addresses read from JSON are
    checksummed (EIP-55).
    """

    SCHEMA: ClassVar[Schema] = ORDER

    salt: int | str = 0
    """Distinguishes otherwise equal orders, in the form received (decision 11); decimal strings
    above 2**53 - 1 become integers."""
    maker: str
    """The wallet that trades."""
    signer: str
    """The wallet that signs: the maker or its delegate."""
    taker: str = ZERO_ADDRESS
    """The wallet that may fill it; the zero address is anyone."""
    token_id: int
    """The outcome token."""
    maker_amount: int
    """Wei. A buy: collateral. A sell: tokens."""
    taker_amount: int
    """Wei. A buy: tokens. A sell: collateral."""
    expiration_s: int = 0
    """The last Unix second in which it may trade; 0 never expires."""
    nonce: int = 0
    """The maker's nonce; raising it cancels every order with a lower one."""
    fee_rate_bps: int = 0
    """Maximum fee rate, in basis points."""
    side: int = Side.BUY
    """Buy or sell, a :class:`~clob.Side`."""
    signature_type: int = 1
    """How it is signed, as defined by the :class:`Profile`."""

    @classmethod
    def from_price_size(
        cls,
        *,
        side: Side,
        price: int,
        size: int,
        maker: str,
        token_id: int,
        salt: int | str,
        signer: str | None = None,
        taker: str = ZERO_ADDRESS,
        expiration_s: int = 0,
        nonce: int = 0,
        fee_rate_bps: int = 0,
        signature_type: int = 1,
    ) -> Self:
        """Return an unsigned order from price and size.

        Args:
            side: buy or sell.
            price: cents, 1 to 99.
            size: tokens, in wei.
            maker: the wallet that trades.
            token_id: the outcome token.
            salt: distinguishes otherwise equal orders. Orders with equal fields are one order,
                which executes once.
            signer: the wallet that will sign; None is the maker.
            taker: the wallet that may fill it; the zero address is anyone.
            expiration_s: the last Unix second in which it may trade; 0 never expires.
            nonce: the maker's nonce.
            fee_rate_bps: maximum fee rate, in basis points.
            signature_type: how it will be signed.

        Raises:
            PriceOutOfRangeError: the price is not an integer from 1 to 99.
            InvalidAmountError: the size is not a positive integer, or its collateral is 0.
            AmountTooLargeError: the size exceeds ``SIZE_MAX``.
            InvalidAddressError: maker, signer or taker is not an address.
            InvalidFieldError: token, salt, expiration, nonce, fee rate or type is out of range.
        """
        maker_amount, taker_amount = amounts_of(side, price, size)
        return cls(
            salt=fields.salt("salt", salt),
            maker=read_address("maker", maker),
            signer=read_address("signer", maker if signer is None else signer),
            taker=read_address("taker", taker),
            token_id=fields.uint("tokenId", token_id),
            maker_amount=maker_amount,
            taker_amount=taker_amount,
            expiration_s=fields.uint("expiration", expiration_s),
            nonce=fields.uint("nonce", nonce),
            fee_rate_bps=fields.uint("feeRateBps", fee_rate_bps),
            side=Side(side),
            signature_type=fields.uint8("signatureType", signature_type),
        )


# ----- price and size ----------------------------------------------------------------------------


class PriceSize(NamedTuple):
    """Price and size of an order in the engine."""

    price: int
    """Cents, 1 to 99."""
    size: int
    """Tokens, in wei."""


def price_and_size(
    side: int, maker_amount: int, taker_amount: int, *, strict: bool = False, settles: bool = False
) -> PriceSize:
    """Return the price and size of two signed amounts (decision 3).

    The price is the nearest cent if the collateral of the whole order differs from it by less than
    1 wei or by at most one billionth. Otherwise a buy rounds down and a sell rounds up, which is
    never worse than the signed amounts.

    Args:
        side: buy or sell.
        maker_amount: wei. A buy: collateral. A sell: tokens.
        taker_amount: wei. A buy: tokens. A sell: collateral.
        strict: reject a price that is not exactly a whole cent.
        settles: the trades settle on a chain, which does not tolerate the billionth.

    Raises:
        InvalidSideError: the side is neither buy nor sell.
        InvalidAmountError: an amount is not a positive integer; or ``strict`` is set and the price
            is not a whole cent. The message names the nearest valid amounts.
        AmountTooLargeError: the tokens exceed ``SIZE_MAX``.
        PriceOutOfRangeError: the price is below 1 cent or above 99.

    >>> price_and_size(Side.BUY, 30 * 10**18, 60 * 10**18)
    PriceSize(price=50, size=60000000000000000000)
    """
    buys = is_buy(side)
    if type(maker_amount) is not int or maker_amount <= 0:
        reject_amount("makerAmount", maker_amount)
    if type(taker_amount) is not int or taker_amount <= 0:
        reject_amount("takerAmount", taker_amount)
    collateral, size = (maker_amount, taker_amount) if buys else (taker_amount, maker_amount)
    if size > SIZE_MAX:
        reject_size("takerAmount" if buys else "makerAmount", size)
    hundredfold = 100 * collateral
    cent = (2 * hundredfold + size) // (2 * size)
    apart = abs(hundredfold - cent * size)
    if strict and apart:
        reject_inexact(side, collateral, size)
    if not (apart < 100 or (not settles and apart * 10**9 <= cent * size)):
        cent = hundredfold // size if buys else -(-hundredfold // size)
    if not PRICE_MIN <= cent <= PRICE_MAX:
        reject_price(collateral, size, cent)
    return PriceSize(cent, size)


def amounts_of(side: int, price: int, size: int) -> tuple[int, int]:
    """Return the amounts to sign for a size at a price, ``(makerAmount, takerAmount)``.

    The collateral is ``size * price // 100`` (decision 53). :func:`price_and_size` inverts this
    for sizes of 198 wei or more; below, several prices have the same collateral.

    Args:
        side: buy or sell.
        price: cents, 1 to 99.
        size: tokens, in wei.

    Raises:
        InvalidSideError: the side is neither buy nor sell.
        PriceOutOfRangeError: the price is not an integer from 1 to 99.
        InvalidAmountError: the size is not a positive integer, or its collateral is 0.
        AmountTooLargeError: the size exceeds ``SIZE_MAX``.

    >>> amounts_of(Side.SELL, 40, 10)
    (10, 4)
    """
    buys = is_buy(side)
    if type(price) is not int or not PRICE_MIN <= price <= PRICE_MAX:
        raise at("price", PriceOutOfRangeError(
            f"price must be an integer from {PRICE_MIN} to {PRICE_MAX} (cents); "
            f"got {received(price)}"
        ))  # fmt: skip
    if type(size) is not int or size <= 0:
        reject_amount("size", size)
    if size > SIZE_MAX:
        reject_size("size", size)
    collateral = collateral_of(size, price)
    if not collateral:
        raise at("size", InvalidAmountError(
            f"size must be at least {-(-100 // price)} wei at {price} cents (its collateral is 0 "
            f"below); got {size}"
        ))  # fmt: skip
    return (collateral, size) if buys else (size, collateral)


def is_buy(side: object) -> bool:
    """Return whether a side is buy; reject any other value than the two sides."""
    if type(side) is not Side and (type(side) is not int or side not in (Side.BUY, Side.SELL)):
        raise at(
            "side", InvalidSideError(f"side must be 0 (buy) or 1 (sell); got {received(side)}")
        )
    return side == Side.BUY


def reject_amount(path: str, amount: object) -> NoReturn:
    """Raise for an amount that is not a positive integer."""
    raise at(path, InvalidAmountError(
        f"{path} must be a positive integer in wei; got {received(amount)}"
    ))  # fmt: skip


def reject_size(path: str, size: int) -> NoReturn:
    """Raise for a size above ``SIZE_MAX``."""
    raise at(path, AmountTooLargeError(
        f"{path} must be at most {SIZE_MAX} wei of tokens; got {received(size)}"
    ))  # fmt: skip


def reject_price(collateral: int, size: int, cent: int) -> NoReturn:
    """Raise for a price outside 1 to 99 cents; the message names the valid collateral."""
    least, most = collateral_of(size, PRICE_MIN) or 1, collateral_of(size, PRICE_MAX)
    hint = f"; these tokens need {least} to {most} wei of collateral" if least <= most else ""
    raise at("makerAmount", PriceOutOfRangeError(
        f"price must be from {PRICE_MIN} to {PRICE_MAX} cents; got {show(cent)}: "
        f"{show(collateral)} wei of collateral for {size} wei of tokens{hint}"
    ))  # fmt: skip


def reject_inexact(side: int, collateral: int, size: int) -> NoReturn:
    """Raise for a price that is not a whole cent; the message names the nearest amounts."""
    low = 100 * collateral // size
    near = [exact(side, cent, size) for cent in (low, low + 1) if PRICE_MIN <= cent <= PRICE_MAX]
    hint = f"; the nearest are {' and '.join(near)}" if near else ""
    raise at("makerAmount", InvalidAmountError(
        f"price must be a whole number of cents: 100 * {show(collateral)} is not a multiple of "
        f"{size}{hint}"
    ))  # fmt: skip


def exact(side: int, cent: int, size: int) -> str:
    """Format the amounts closest to this size whose price is exactly a cent."""
    step = 100 // gcd(cent, 100)
    tokens = max(size - size % step, step)
    collateral = tokens * cent // 100
    maker, taker = (collateral, tokens) if side == Side.BUY else (tokens, collateral)
    return f"{maker} for {taker} ({cent} cents)"


# ----- the engine's order ------------------------------------------------------------------------


@functools.lru_cache(TOKENS_MAX)
def digits(token_id: int) -> str:
    """Return a token id as decimal string, cached."""
    return str(token_id)


def to_order(
    order: SignedOrder,
    *,
    id: str | int,
    strict: bool = False,
    settles: bool = False,
    operators: Container[str] = (),
    time_in_force: TimeInForce = TimeInForce.GTC,
    post_only: bool = False,
    self_trade: SelfTrade | None = None,
    smart_wallet: str = "",
) -> Order:
    """Return the engine's order. Does not verify the signature; see ``verify``.

    The arguments from ``time_in_force`` on are not covered by the signature.

    Args:
        order: the signed order.
        id: id of the order in the engine.
        strict: reject prices that are not exactly a whole cent.
        settles: the trades settle on a chain, whose contract tolerates less (decision 3).
        operators: addresses allowed as taker besides the zero address, checksummed (decision 19).
        time_in_force: handling of the part that does not trade at once.
        post_only: reject the order if it would trade at once.
        self_trade: policy for resting orders of the same maker.
        smart_wallet: the wallet that pays and receives the collateral.

    Raises:
        InvalidAddressError: maker or taker is not an address.
        InvalidFieldError: the token is out of range.
        TakerNotSupportedError: the taker is neither the zero address nor an operator.
        InvalidFeeRateError: the fee rate is not an integer from 0 to ``FEE_RATE_MAX_BPS``.
        InvalidSideError, InvalidAmountError, AmountTooLargeError, PriceOutOfRangeError: as
            :func:`price_and_size`.
    """
    maker, token_id = order.maker, order.token_id
    fits = type(maker) is str and len(maker) == ADDRESS_CHARACTERS
    maker = (cached_checksum(maker) if fits else None) or read_address("maker", maker)
    if order.taker != ZERO_ADDRESS:
        taker = read_address("taker", order.taker)
        if taker != ZERO_ADDRESS and taker not in operators:
            raise at("taker", TakerNotSupportedError(
                f"taker must be {ZERO_ADDRESS} (anyone) or the operator; got {taker}"
            ))  # fmt: skip
    rate = order.fee_rate_bps
    if type(rate) is not int or not 0 <= rate <= FEE_RATE_MAX_BPS:
        raise at("feeRateBps", InvalidFeeRateError(
            f"feeRateBps must be from 0 to {FEE_RATE_MAX_BPS}; got {show(rate)}"
        ))  # fmt: skip
    if type(token_id) is not int or not 0 <= token_id <= UINT256_MAX:
        token_id = fields.uint("tokenId", token_id)
    price, size = price_and_size(
        order.side, order.maker_amount, order.taker_amount, strict=strict, settles=settles
    )
    side = order.side if type(order.side) is Side else Side(order.side)
    return Order(
        id=id,
        token=digits(token_id),
        maker=maker,
        side=side,
        price=price,
        size=size,
        time_in_force=time_in_force,
        expiration_s=order.expiration_s,
        post_only=post_only,
        self_trade=self_trade,
        nonce=order.nonce,
        collateral=order.maker_amount if side is Side.BUY else order.taker_amount,
        fee_rate_bps=rate,
        smart_wallet=smart_wallet,
    )
