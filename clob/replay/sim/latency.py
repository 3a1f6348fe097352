"""Latency between strategy and exchange: constant, or drawn from a seed."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

from clob.replay.samples.synthetic import Draws

Delay: TypeAlias = int | Callable[[Draws], int]
"""Nanoseconds: a constant, or a function that draws a value for each message."""


class Connection:
    """One direction of messages; they arrive in the order they were sent."""

    def __init__(self, delay: Delay, seed: int) -> None:
        self._delay = delay
        self._draws = Draws(seed)
        self._last_ns = 0

    @property
    def instant(self) -> bool:
        """Whether every message arrives at the time it is sent."""
        return isinstance(self._delay, int) and self._delay == 0

    def arrival_ns(self, sent_ns: int) -> int:
        """Return the arrival time of a message, which is not sent before the previous one.

        Raises:
            ValueError: the delay function returned something other than an integer of 0 or more.
        """
        delay = self._delay
        if not isinstance(delay, int):
            delay = check_delay(delay(self._draws))
        arrival_ns = sent_ns + delay
        if arrival_ns < self._last_ns:
            return self._last_ns
        self._last_ns = arrival_ns
        return arrival_ns


def check_delay(delay_ns: object) -> int:
    """Return a delay, or raise ``ValueError`` if it is not an integer of 0 or more."""
    if type(delay_ns) is not int or delay_ns < 0:
        raise ValueError(f"a delay must be an integer of 0 or more (ns); got {delay_ns!r}")
    return delay_ns


@dataclasses.dataclass(frozen=True)
class Latency:
    """How long messages take in each direction.

    Each direction is one connection that keeps the order of messages: a message whose own delay
    would make it overtake an earlier one arrives at the same time as that one, after it. To
    simulate a delayed price feed, add its delay to ``order_ns``.

    >>> Latency(order_ns=2_000_000, reply_ns=between(1_000_000, 3_000_000), seed=7).seed
    7
    """

    order_ns: Delay = 0
    """From strategy to exchange: orders, cancels, splits and merges."""
    reply_ns: Delay = 0
    """From exchange to strategy: fills, acknowledgements and rejections."""
    seed: int = 0
    """Seed of the draws; equal seeds draw equal delays."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for an invalid constant delay."""
        for delay in (self.order_ns, self.reply_ns):
            if not callable(delay):
                check_delay(delay)

    def connections(self) -> "tuple[Connection, Connection]":
        """Return a connection for orders and one for replies, with independent draws."""
        seed = 2 * self.seed
        return Connection(self.order_ns, seed), Connection(self.reply_ns, seed + 1)


def between(low_ns: int, high_ns: int) -> Callable[[Draws], int]:
    """Return a delay that is drawn uniformly from a range.

    Args:
        low_ns: the shortest delay.
        high_ns: the longest delay, included.

    Returns:
        A function to pass to :class:`Latency`.

    Raises:
        ValueError: a bound is not an integer of 0 or more, or the range is empty.
    """
    if not check_delay(low_ns) <= check_delay(high_ns):
        raise ValueError(f"low_ns must not exceed high_ns; got {low_ns} and {high_ns}")
    return lambda draws: draws.between(low_ns, high_ns)
