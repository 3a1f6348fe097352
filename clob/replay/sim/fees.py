"""Trading fees: none, the rate of the specification, or a curve.

A fee schedule is any callable from :class:`Traded` to :class:`Charge`, so another exchange's
schedule is a function of a few lines. All amounts are integers in wei.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from clob.order import Side

BPS = 10_000
"""Basis points in 100 %."""


class Traded(NamedTuple):
    """One side of one trade: the input of a fee schedule."""

    side: Side
    """Whether tokens were bought or sold."""
    price: int
    """Price in ticks."""
    size: int
    """Tokens, in wei."""
    resting: bool
    """Whether the order was the resting one."""
    scale: int
    """Ticks in the price of a whole token."""


class Charge(NamedTuple):
    """Fee on one side of a trade; negative for a rebate."""

    collateral: int
    """Wei of collateral."""
    tokens: int
    """Wei of the traded token."""


Fees: TypeAlias = Callable[[Traded], Charge]
"""A fee schedule. It must be a pure function, or backtests are not reproducible."""

FREE = Charge(0, 0)
"""No fee."""


def no_fees(traded: Traded) -> Charge:
    """Charge nothing.

    Args:
        traded: one side of a trade.
    """
    del traded
    return FREE


@dataclasses.dataclass(frozen=True)
class RateFees:
    """The rate of the specification: the same schedule as the engine's (decision 20).

    A seller pays ``floor(bps * min(p, scale - p) * size / (10_000 * scale))`` collateral out of the
    proceeds, a buyer ``floor(bps * min(p, scale - p) * size / (10_000 * p))`` tokens out of the
    received tokens.

    >>> RateFees(incoming_bps=100)(Traded(Side.SELL, 40, 1_000_000, False, 100))
    Charge(collateral=4000, tokens=0)
    >>> RateFees(incoming_bps=100)(Traded(Side.BUY, 40, 1_000_000, False, 100))
    Charge(collateral=0, tokens=10000)
    """

    incoming_bps: int = 0
    """Rate of an incoming order, in basis points."""
    resting_bps: int = 0
    """Rate of a resting order, in basis points."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a rate out of range."""
        for bps in (self.incoming_bps, self.resting_bps):
            if type(bps) is not int or not 0 <= bps <= BPS:
                raise ValueError(
                    f"a fee rate must be an integer from 0 to {BPS} (basis points); got {bps!r}"
                )

    def __call__(self, traded: Traded) -> Charge:
        """Return the fee on one side of a trade.

        Args:
            traded: the trade. At a price of 0 or below, or of the scale or above, the fee is 0.
        """
        bps = self.resting_bps if traded.resting else self.incoming_bps
        share = bps * min(traded.price, traded.scale - traded.price) * traded.size
        if share <= 0:
            return FREE
        if traded.side == Side.SELL:
            return Charge(share // (BPS * traded.scale), 0)
        return Charge(0, share // (BPS * traded.price))


@dataclasses.dataclass(frozen=True)
class CurveFees:
    """A fee in collateral that is highest at a price of one half.

    Both sides pay ``bps * size * p * (scale - p) / (10_000 * scale**2)``, rounded up to a multiple
    of ``step_wei`` for each fill. Seven per cent rounded up to the cent, for example, is
    ``CurveFees(incoming_bps=700, resting_bps=0, step_wei=10**16)``.

    >>> CurveFees(incoming_bps=700, step_wei=10**16)(Traded(Side.BUY, 50, 10**20, False, 100))
    Charge(collateral=1750000000000000000, tokens=0)
    """

    incoming_bps: int = 0
    """Rate of an incoming order, in basis points."""
    resting_bps: int = 0
    """Rate of a resting order, in basis points; negative for a rebate."""
    step_wei: int = 1
    """Fees are multiples of this, in wei."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for an invalid step."""
        if type(self.step_wei) is not int or self.step_wei < 1:
            raise ValueError(f"step_wei must be an integer of 1 or more; got {self.step_wei!r}")

    def __call__(self, traded: Traded) -> Charge:
        """Return the fee on one side of a trade.

        Args:
            traded: any trade. Rebates are rounded up too, that is towards zero.
        """
        bps = self.resting_bps if traded.resting else self.incoming_bps
        share = bps * traded.size * traded.price * (traded.scale - traded.price)
        steps = -(-share // (BPS * traded.scale**2 * self.step_wei))
        return Charge(steps * self.step_wei, 0)
