"""From a signed order to the engine's."""

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
from clob.signing.signed_struct import read_address
from clob.units import FEE_RATE_MAX_BPS

TOKENS_MAX: Final = 4_096
"""Of how many tokens the digits are remembered."""


@functools.lru_cache(TOKENS_MAX)
def digits(token_id: int) -> str:
    """Write the id of a token in decimal digits; the same ones come again and again."""
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
    """Give the order that the engine matches. Whether it is signed is for ``verify``.

    Args:
        order: the signed order.
        id: what names it in the engine.
        strict: refuse amounts that are not a whole number of cents exactly.
        settles: the trades settle on a chain, where the contract forgives less (decision 3).
        operators: who else than anybody may be its taker, as EIP-55 writes them (decision 19).
        time_in_force: what becomes of the part that does not trade at once. Nobody signs it.
        post_only: refused if it would trade at once. Nobody signs it.
        self_trade: what happens where it meets its maker's own orders. Nobody signs it.
        smart_wallet: the wallet that pays and receives the collateral. Nobody signs it.

    Raises:
        InvalidAddressError: maker or taker is no address.
        InvalidFieldError: the token is out of range.
        TakerNotSupportedError: it is for another taker than anybody and the operators.
        InvalidFeeRateError: it names more than ``FEE_RATE_MAX_BPS``.
        InvalidSideError, InvalidAmountError, AmountTooLargeError, PriceOutOfRangeError: as
            :func:`price_and_size` raises them.
    """
    maker = read_address("maker", order.maker)
    if order.taker != ZERO_ADDRESS:
        taker = read_address("taker", order.taker)
        if taker != ZERO_ADDRESS and taker not in operators:
            raise at("taker", TakerNotSupportedError(
                f"taker must be {ZERO_ADDRESS} (anybody) or the operator, not {taker}"
            ))  # fmt: skip
    if not 0 <= order.fee_rate_bps <= FEE_RATE_MAX_BPS:
        raise at("feeRateBps", InvalidFeeRateError(
            f"feeRateBps must be 0 to {FEE_RATE_MAX_BPS}, not {show(order.fee_rate_bps)}"
        ))  # fmt: skip
    token_id = fields.uint("tokenId", order.token_id)
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
