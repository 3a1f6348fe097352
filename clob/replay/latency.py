"""How long orders take to the exchange, and answers back: constants, or drawn from a seed."""

import dataclasses
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from clob.replay._ways_py import Delay, check_delay
from clob.replay.synthetic import Draws

if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.replay._ways_py import Connection
else:
    try:
        from clob.replay._ways_c import Connection
    except ImportError:
        from clob.replay._ways_py import Connection


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
