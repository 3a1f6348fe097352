"""Locks of conditions: many may have one together, or one alone; first come, first served."""

import asyncio
from collections import deque
from typing import Final


class Locks:
    """A lock for each name that somebody has or waits for."""

    def __init__(self) -> None:
        self._locks: Final[dict[str, _Lock]] = {}

    async def take(self, name: str, is_exclusive: bool) -> None:
        """Wait for a lock, and take it.

        Args:
            name: which.
            is_exclusive: if nobody else may have it at the same time.
        """
        await self._locks.setdefault(name, _Lock()).take(is_exclusive)

    def give_back(self, name: str) -> None:
        """Give back what was taken."""
        lock = self._locks[name]
        lock.give_back()
        if lock.is_free:
            del self._locks[name]


class _Lock:
    """One of them."""

    def __init__(self) -> None:
        self._holders = 0
        self._is_exclusive = False
        self._queue: deque[tuple[bool, asyncio.Future[None]]] = deque()

    @property
    def is_free(self) -> bool:
        """If nobody has it, nor waits for it."""
        return not self._holders and not self._queue

    async def take(self, is_exclusive: bool) -> None:
        """Wait for it, and take it."""
        if not self._queue and self._may(is_exclusive):
            self._hold(is_exclusive)
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((is_exclusive, turn))
        await turn

    def give_back(self) -> None:
        """Give it back, and let those have it whose turn it is."""
        self._holders -= 1
        while self._queue and self._may(self._queue[0][0]):
            is_exclusive, turn = self._queue.popleft()
            if not turn.done():
                self._hold(is_exclusive)
                turn.set_result(None)

    def _may(self, is_exclusive: bool) -> bool:
        """Say if one more may have it."""
        return not self._holders or not (self._is_exclusive or is_exclusive)

    def _hold(self, is_exclusive: bool) -> None:
        """Let one more have it."""
        self._holders += 1
        self._is_exclusive = is_exclusive
