"""Amounts that running operations will take from wallets and have not taken yet."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

Result = TypeVar("Result")


class Reservation(NamedTuple):
    """An amount that an operation will take from a wallet."""

    user: str
    """Address of the wallet."""
    asset: str
    """Token id, or ``collateral``."""
    amount: int
    """Amount, in wei."""


class ReservedAmounts:
    """Reserved amounts by wallet and asset; other operations cannot use them."""

    def __init__(self) -> None:
        self._reservations: dict[str, list[Reservation]] = {}
        self._amounts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._changed = asyncio.Event()

    def reserve(self, operation: str, reservations: Iterable[Reservation]) -> None:
        """Reserve amounts for an operation.

        Args:
            operation: id of the operation.
            reservations: the amounts.
        """
        self._reservations[operation] = list(reservations)
        for each in self._reservations[operation]:
            self._amounts[each.user, each.asset][operation] += each.amount

    def total(self, user: str, asset: str) -> int:
        """Return the reserved amount of an asset of a wallet, in wei."""
        return sum(self._amounts.get((user, asset), {}).values())

    def release(self, operation: str) -> None:
        """Delete the reservations of an operation: it has taken the amounts, or never will."""
        for each in self._reservations.pop(operation, []):
            key = each.user, each.asset
            self._amounts[key].pop(operation, None)
            if not self._amounts[key]:
                del self._amounts[key]
        self._changed.set()
        self._changed = asyncio.Event()

    def holders(self, wanted: Iterable[Reservation]) -> set[str]:
        """Return the ids of operations with reservations of these wallets and assets."""
        keys = ((each.user, each.asset) for each in wanted)
        return {operation for key in keys for operation in self._amounts.get(key, ())}

    async def read_unchanged(
        self, wanted: Sequence[Reservation], read: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Read balances, and repeat it if a reservation was released meanwhile.

        The amount of a released reservation may still be in the balance that the node returned, and
        would count as available.

        Args:
            wanted: wallets and assets whose reservations matter.
            read: reads the balances.

        Returns:
            The result of the last ``read``.
        """
        while True:
            before = self.holders(wanted)
            result = await read()
            if before <= self.holders(wanted):
                return result

    async def wait(self, wanted: Sequence[Reservation], wait_s: float) -> None:
        """Wait until these wallets and assets have no reservations, or until a timeout."""
        try:
            async with asyncio.timeout(wait_s):
                while any(self.total(each.user, each.asset) for each in wanted):
                    await self._changed.wait()
        except TimeoutError:
            return
