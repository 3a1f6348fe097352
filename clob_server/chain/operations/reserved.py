"""What operations under way will take from wallets, and has not been taken yet."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

Found = TypeVar("Found")


class Reservation(NamedTuple):
    """What an operation will take from a wallet."""

    user: str
    """The wallet."""
    asset: str
    """The id of the token, or the address of the collateral."""
    amount: int
    """How much, in wei."""


class ReservedAmounts:
    """Amounts by wallet and asset. What is promised to one operation is not there for another."""

    def __init__(self) -> None:
        self._held: dict[str, list[Reservation]] = {}
        self._amounts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._changed = asyncio.Event()

    def hold(self, operation: str, promises: Iterable[Reservation]) -> None:
        """Promise an operation something."""
        self._held[operation] = list(promises)
        for promise in self._held[operation]:
            self._amounts[promise.user, promise.asset][operation] += promise.amount

    def total(self, user: str, asset: str) -> int:
        """Give how much of a wallet's is promised, in wei."""
        return sum(self._amounts.get((user, asset), {}).values())

    def release(self, operation: str) -> None:
        """Promise an operation nothing any more: it was taken, or will not be."""
        for promise in self._held.pop(operation, []):
            key = promise.user, promise.asset
            self._amounts[key].pop(operation, None)
            if not self._amounts[key]:
                del self._amounts[key]
        self._changed.set()
        self._changed = asyncio.Event()

    def holders(self, wanted: Iterable[Reservation]) -> set[str]:
        """Give the operations to which something of these wallets and assets is promised."""
        keys = ((each.user, each.asset) for each in wanted)
        return {operation for key in keys for operation in self._amounts.get(key, ())}

    async def steady(
        self, wanted: Sequence[Reservation], look: Callable[[], Awaitable[Found]]
    ) -> Found:
        """Look at wallets, again for as long as something promised of them was taken meanwhile.

        What was there when the node was asked, and is promised no more when it has answered, would
        count as there.

        Args:
            wanted: of which wallets and assets.
            look: what to do.

        Returns:
            What the last look found.
        """
        while True:
            before = self.holders(wanted)
            found = await look()
            if before <= self.holders(wanted):
                return found

    async def wait(self, wanted: Sequence[Reservation], wait_s: float) -> None:
        """Wait until nothing of these wallets and assets is promised, or a time is over."""
        try:
            async with asyncio.timeout(wait_s):
                while any(self.total(each.user, each.asset) for each in wanted):
                    await self._changed.wait()
        except TimeoutError:
            return
