"""What operations under way will take from wallets, and has not been taken yet."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Promise(NamedTuple):
    """What an operation will take from a wallet."""

    user: str
    """The wallet."""
    asset: str
    """The id of the token, or the address of the collateral."""
    amount: int
    """How much, in wei."""


class Promises:
    """Amounts by wallet and asset. What is promised to one operation is not there for another."""

    def __init__(self) -> None:
        self._held: dict[str, list[Promise]] = {}
        self._total: Counter[tuple[str, str]] = Counter()
        self._changed = asyncio.Event()

    def hold(self, operation: str, promises: Iterable[Promise]) -> None:
        """Promise an operation something."""
        self._held[operation] = list(promises)
        for promise in self._held[operation]:
            self._total[promise.user, promise.asset] += promise.amount

    def total(self, user: str, asset: str) -> int:
        """Give how much of a wallet's is promised, in wei."""
        return self._total[user, asset]

    def release(self, operation: str) -> None:
        """Promise an operation nothing any more: it was taken, or will not be."""
        for promise in self._held.pop(operation, []):
            key = promise.user, promise.asset
            self._total[key] -= promise.amount
            if not self._total[key]:
                del self._total[key]
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, wanted: Sequence[Promise], wait_s: float) -> None:
        """Wait until nothing of these wallets and assets is promised, or a time is over."""
        try:
            async with asyncio.timeout(wait_s):
                while any(self.total(each.user, each.asset) for each in wanted):
                    await self._changed.wait()
        except TimeoutError:
            return
