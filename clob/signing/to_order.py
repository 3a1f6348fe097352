"""Converts a signed order to an order of the engine."""

import functools
from collections.abc import Container
from typing import Final

from clob.book.validation import show
from clob.errors import InvalidFeeRateError
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.signing import fields
from clob.signing.amounts import price_and_size
from clob.signing.errors import TakerNotSupportedError
from clob.signing.fields import at
from clob.signing.order import ZERO_ADDRESS, SignedOrder
from clob.signing.signed_struct import ADDRESS_CHARACTERS, cached_checksum, read_address
from clob.units import FEE_RATE_MAX_BPS, UINT256_MAX

TOKENS_MAX: Final = 4_096
"""Number of token ids whose decimal strings are cached."""


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
        InvalidFeeRateError: the fee rate is negative or exceeds ``FEE_RATE_MAX_BPS``.
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
    if not 0 <= order.fee_rate_bps <= FEE_RATE_MAX_BPS:
        raise at("feeRateBps", InvalidFeeRateError(
            f"feeRateBps must be from 0 to {FEE_RATE_MAX_BPS}; got {show(order.fee_rate_bps)}"
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
        fee_rate_bps=order.fee_rate_bps,
        smart_wallet=smart_wallet,
    )
