"""Trading fees: none, the rate of the specification, a curve, or a share of net winnings.

A fee schedule is any callable from :class:`Traded` to :class:`Charge`, so another exchange's
schedule is a function of a few lines. Those of some venues have names
(:mod:`clob.replay.sim.fee_schedules`). All amounts are integers in wei.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from clob.order import Side

BPS = 10_000
"""Basis points in 100 %."""

PPM = 1_000_000
"""Parts per million in 100 %."""


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
    """A fee that is highest at a price of one half, rounded for each fill.

    The rate at a price is ``bps * (p * (scale - p) / scale**2)**exponent``. Both sides pay it in
    collateral, on each token. Seven per cent rounded up to the cent, for example, is
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
    exponent: int = 1
    """Power of the curve, 1 or more."""
    round_up: bool = True
    """Whether fees are rounded up to a step, not down; rebates likewise, up is towards zero."""
    of_received: bool = False
    """Whether the rate is of the received amount: of tokens for a buyer, collateral for a seller.
    Otherwise it is collateral for each token."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for an invalid step or exponent."""
        for name in ("step_wei", "exponent"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} must be an integer of 1 or more; got {value!r}")

    def __call__(self, traded: Traded) -> Charge:
        """Return the fee on one side of a trade.

        Args:
            traded: any trade.
        """
        bps = self.resting_bps if traded.resting else self.incoming_bps
        curve = traded.price * (traded.scale - traded.price)
        share: int = bps * traded.size * curve**self.exponent
        whole: int = BPS * traded.scale ** (2 * self.exponent) * self.step_wei
        buys = traded.side == Side.BUY
        if self.of_received and not buys:
            share, whole = share * traded.price, whole * traded.scale
        steps = -(-share // whole) if self.round_up else share // whole
        fee = steps * self.step_wei
        return Charge(0, fee) if self.of_received and buys else Charge(fee, 0)


class FeesByOrder(abc.ABC):
    """Base class of schedules whose rounding depends on the earlier fills of the same order."""

    def __call__(self, traded: Traded) -> Charge:
        """Return the fee on the first fill of an order.

        Args:
            traded: one side of a trade.
        """
        return self.charge(traded, 0)[0]

    @abc.abstractmethod
    def charge(self, traded: Traded, carried: int) -> tuple[Charge, int]:
        """Return the fee on a fill, and the amount to carry to the next fill of the order.

        Args:
            traded: one side of a trade.
            carried: the amount that the previous fill of the order carried; 0 for the first.
        """


@dataclasses.dataclass(frozen=True)
class BalanceFees(FeesByOrder):
    """A curve in collateral, rounded so that balances stay multiples of a unit, as at Kalshi.

    A fill pays ``ppm * size * p * (scale - p) / (1_000_000 * scale**2)``, rounded up to a multiple
    of ``step_wei``, and a rounding fee that leaves the change of the balance a multiple of
    ``unit_wei``. The rounding fees of the fills of an order are summed, and whole units of the sum
    are refunded, up to the fee of the fill. Many small fills thus cost about as much as one.

    >>> fees = BalanceFees(incoming_ppm=70_000)
    >>> fees(Traded(Side.BUY, 50, 10**18, False, 100))
    Charge(collateral=20000000000000000, tokens=0)
    >>> fees.charge(Traded(Side.BUY, 50, 10**18, False, 100), 8 * 10**15)
    (Charge(collateral=10000000000000000, tokens=0), 500000000000000)
    """

    incoming_ppm: int = 0
    """Rate of an incoming order, in parts per million."""
    resting_ppm: int = 0
    """Rate of a resting order, in parts per million."""
    unit_wei: int = 10**16
    """The precision of balances, in wei; a cent by default."""
    step_wei: int = 10**12
    """The precision of fees before the rounding fee, in wei."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a rate or precision out of range."""
        for name in ("incoming_ppm", "resting_ppm"):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= PPM:
                raise ValueError(f"{name} must be an integer from 0 to {PPM}; got {value!r}")
        for name in ("unit_wei", "step_wei"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} must be an integer of 1 or more; got {value!r}")

    def charge(self, traded: Traded, carried: int) -> tuple[Charge, int]:
        """Return the fee on a fill, and the rounding fees of the order that are not refunded.

        Args:
            traded: the trade. At a price below 0 or above the scale only the rounding fee remains.
            carried: the rounding fees of earlier fills of the order that are not refunded.
        """
        ppm = self.resting_ppm if traded.resting else self.incoming_ppm
        share = ppm * traded.size * max(traded.price * (traded.scale - traded.price), 0)
        fee = -(-share // (PPM * traded.scale**2 * self.step_wei)) * self.step_wei
        paid = traded.size * traded.price // traded.scale
        change = (paid if traded.side == Side.SELL else -paid) - fee
        rounding = change % self.unit_wei
        fee, carried = fee + rounding, carried + rounding
        refund = min(carried, fee) // self.unit_wei * self.unit_wei
        return Charge(fee - refund, 0), carried - refund


@dataclasses.dataclass(frozen=True)
class Commission:
    """A share of the net winnings of each market, charged when it settles and not per trade.

    Net winnings are the profit of all trades of the market and of its settlement; a net loss costs
    nothing. A market that does not settle in the run is not charged.

    >>> Commission(500).of(400 * 10**18)
    20000000000000000000
    """

    bps: int
    """The rate, in basis points."""
    together: tuple[tuple[int, ...], ...] = ()
    """Groups of market numbers whose winnings count together, such as the runners of a race. Each
    other market counts alone."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a rate out of range, or a market in two groups."""
        if type(self.bps) is not int or not 0 <= self.bps <= BPS:
            raise ValueError(
                f"a commission must be an integer from 0 to {BPS} (basis points); got {self.bps!r}"
            )
        markets = [market for group in self.together for market in group]
        if len(set(markets)) < len(markets):
            raise ValueError(f"a market must be in one group; got {self.together!r}")

    def __call__(self, traded: Traded) -> Charge:
        """Charge nothing for a trade.

        Args:
            traded: one side of a trade.
        """
        del traded
        return FREE

    def of(self, winnings: int) -> int:
        """Return the commission on net winnings, rounded down to the wei.

        Args:
            winnings: in wei; negative for a loss.
        """
        return max(winnings, 0) * self.bps // BPS

    def group(self, market: int) -> tuple[int, ...]:
        """Return the numbers of the markets that count together with a market, itself included.

        Args:
            market: its number.
        """
        return next((group for group in self.together if market in group), (market,))
