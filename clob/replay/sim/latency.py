"""The ways between strategy and book. Compiled as it stands, with the types of ``_ways_c.pxd``."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

from clob.replay.samples.synthetic import Draws

Delay: TypeAlias = int | Callable[[Draws], int]
"""A time in ns, always the same or drawn anew for each message."""


class Connection:
    """One way between strategy and book."""

    def __init__(self, delay: Delay, seed: int) -> None:
        """Begin with nothing under way.

        Args:
            delay: how long each message takes.
            seed: from what delays are drawn.
        """
        self._delay = delay
        self._draws = Draws(seed)
        self._last_ns = 0

    @property
    def instant(self) -> bool:
        """Whether every message arrives when it is sent."""
        return isinstance(self._delay, int) and self._delay == 0

    def arrival_ns(self, sent_ns: int) -> int:
        """Say when a message arrives.

        Args:
            sent_ns: when it is sent; not before the one sent last.

        Raises:
            ValueError: the callable gave no integer of 0 or more.
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
    """Refuse what is no delay, or give it.

    Raises:
        ValueError: it is no integer of 0 or more.
    """
    if type(delay_ns) is not int or delay_ns < 0:
        raise ValueError(f"a delay must be an integer of 0 or more ns, not {delay_ns!r}")
    return delay_ns


@dataclasses.dataclass(frozen=True)
class Latency:
    """How long messages take.

    There is one connection each way, on which nothing overtakes: a message whose own delay would
    let it arrive before an earlier one arrives together with that, and behind it. A feed of prices
    that comes late by some time is the same as orders that take that much longer.

    >>> Latency(order_ns=2_000_000, reply_ns=between(1_000_000, 3_000_000), seed=7).seed
    7
    """

    order_ns: Delay = 0
    """From the strategy to the book: orders, cancels, splits and merges."""
    reply_ns: Delay = 0
    """From the book to the strategy: fills, acceptances, refusals."""
    seed: int = 0
    """From what delays are drawn; the same seed draws the same ones."""

    def __post_init__(self) -> None:
        """Refuse what is no delay."""
        for delay in (self.order_ns, self.reply_ns):
            if not callable(delay):
                check_delay(delay)

    def connections(self) -> "tuple[Connection, Connection]":
        """Open the two connections, for orders and for replies, each with draws of its own."""
        return Connection(self.order_ns, 2 * self.seed), Connection(
            self.reply_ns, 2 * self.seed + 1
        )


def between(low_ns: int, high_ns: int) -> Callable[[Draws], int]:
    """Make a delay that is drawn evenly from a range.

    Args:
        low_ns: the shortest.
        high_ns: the longest, included.

    Returns:
        What :class:`Latency` takes.

    Raises:
        ValueError: the range is empty or begins below 0.
    """
    if not check_delay(low_ns) <= check_delay(high_ns):
        raise ValueError(f"delays must go from low to high, not from {low_ns} to {high_ns} ns")
    return lambda draws: draws.between(low_ns, high_ns)


# MERGED clob.replay.sim.latency: How long orders take to the exchange, and answers back: constants, or drawn from a seed.
