"""The ways between strategy and book. Compiled as it stands, with the types of ``_ways_c.pxd``."""

from collections.abc import Callable
from typing import TypeAlias

from clob.replay.synthetic import Draws

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
