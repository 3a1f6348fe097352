"""What a trade costs beside its price: no fee, the rate of the specification, or a curve.

A fee is any callable that takes a :class:`Traded` and gives a :class:`Charge`, so that another
exchange's schedule is a function of a few lines. All amounts are integers in wei.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from clob.order import Side

BPS = 10_000
"""Basis points in the whole."""


class Traded(NamedTuple):
    """One side of one trade, as its fee depends on it."""

    side: Side
    """Whether tokens were bought or sold."""
    price: int
    """At what price, in ticks."""
    size: int
    """How many tokens, in wei."""
    resting: bool
    """Whether the order rested, and so made the price."""
    scale: int
    """How many ticks a whole token is worth."""


class Charge(NamedTuple):
    """What is kept back of one side of a trade; below 0 it is paid out, as a rebate."""

    collateral: int
    """Wei of collateral."""
    tokens: int
    """Wei of the token traded."""


Fees: TypeAlias = Callable[[Traded], Charge]
"""A schedule of fees. It must be a pure function: the result of a backtest depends on it."""

FREE = Charge(0, 0)
"""The charge of a trade without a fee."""


def no_fees(traded: Traded) -> Charge:
    """Charge nothing.

    Args:
        traded: one side of a trade.
    """
    del traded
    return FREE


@dataclasses.dataclass(frozen=True)
class RateFees:
    """The rate of the specification, the same schedule as the engine's own (decision 20).

    A seller pays ``floor(bps * min(p, scale - p) * size / (10_000 * scale))`` collateral out of
    the proceeds, a buyer ``floor(bps * min(p, scale - p) * size / (10_000 * p))`` tokens out of
    what is received.

    >>> RateFees(incoming_bps=100)(Traded(Side.SELL, 40, 1_000_000, False, 100))
    Charge(collateral=4000, tokens=0)
    >>> RateFees(incoming_bps=100)(Traded(Side.BUY, 40, 1_000_000, False, 100))
    Charge(collateral=0, tokens=10000)
    """

    incoming_bps: int = 0
    """The rate of an incoming order, in basis points."""
    resting_bps: int = 0
    """The rate of a resting order, in basis points."""

    def __post_init__(self) -> None:
        """Refuse a rate that is none."""
        for bps in (self.incoming_bps, self.resting_bps):
            if type(bps) is not int or not 0 <= bps <= BPS:
                raise ValueError(f"a fee rate must be 0 to {BPS} basis points, not {bps!r}")

    def __call__(self, traded: Traded) -> Charge:
        """Charge one side of a trade.

        Args:
            traded: its price must be above 0 and below the scale, or nothing is charged.
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
    """A fee in collateral that is highest at even odds, as several venues charge it.

    Both sides pay ``bps * size * p * (scale - p) / (10_000 * scale**2)``, rounded up to a multiple
    of ``step_wei`` for each fill by itself. Seven per cent rounded up to the cent, for example,
    is ``CurveFees(incoming_bps=700, resting_bps=0, step_wei=10**16)``.

    >>> CurveFees(incoming_bps=700, step_wei=10**16)(Traded(Side.BUY, 50, 10**20, False, 100))
    Charge(collateral=1750000000000000000, tokens=0)
    """

    incoming_bps: int = 0
    """The rate of an incoming order, in basis points."""
    resting_bps: int = 0
    """The rate of a resting order, in basis points; below 0 it is a rebate."""
    step_wei: int = 1
    """What a fee is a multiple of, in wei."""

    def __post_init__(self) -> None:
        """Refuse a step that is none."""
        if type(self.step_wei) is not int or self.step_wei < 1:
            raise ValueError(f"step_wei must be an integer of 1 or more, not {self.step_wei!r}")

    def __call__(self, traded: Traded) -> Charge:
        """Charge one side of a trade.

        Args:
            traded: any trade. A rebate is rounded up too, and so towards nothing.
        """
        bps = self.resting_bps if traded.resting else self.incoming_bps
        share = bps * traded.size * traded.price * (traded.scale - traded.price)
        steps = -(-share // (BPS * traded.scale**2 * self.step_wei))
        return Charge(steps * self.step_wei, 0)
