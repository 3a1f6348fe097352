"""Amounts that running operations will take from wallets and have not taken yet."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
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
        self._reservations: dict[str, Sequence[Reservation]] = {}
        self._changed = asyncio.Event()

    def reserve(self, operation: str, reservations: Sequence[Reservation]) -> None:
        """Reserve amounts for an operation."""
        self._reservations[operation] = reservations

    def total(self, user: str, asset: str) -> int:
        """Return the reserved amount of an asset of a wallet, in wei."""
        return sum(
            each.amount
            for reservations in self._reservations.values()
            for each in reservations
            if (each.user, each.asset) == (user, asset)
        )

    def release(self, operation: str) -> None:
        """Delete the reservations of an operation: it has taken the amounts, or never will."""
        self._reservations.pop(operation, None)
        self._changed.set()
        self._changed = asyncio.Event()

    def holders(self, wanted: Iterable[Reservation]) -> set[str]:
        """Return the ids of operations with reservations of these wallets and assets."""
        keys = {(each.user, each.asset) for each in wanted}
        return {
            operation
            for operation, reservations in self._reservations.items()
            if any((each.user, each.asset) in keys for each in reservations)
        }

    async def read_unchanged(
        self, wanted: Sequence[Reservation], read: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Read balances, and repeat it if a reservation was released meanwhile.

        The amount of a released reservation may still be in the balance that the node returned, and
        would count as available.

        Args:
            wanted: wallets and assets whose reservations matter.
            read: reads the balances.
        """
        while True:
            before = self.holders(wanted)
            result = await read()
            if before <= self.holders(wanted):
                return result

    async def wait(self, wanted: Sequence[Reservation], wait_s: float) -> None:
        """Wait until these wallets and assets have no reservations, or until a timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.holders(wanted):
                    await self._changed.wait()
