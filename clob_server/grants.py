"""What the faucet has given to whom within a day. As pure as the registry, whose part it is."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from clob_server.refusals import FaucetLimitError

DAY_MS: Final = 86_400_000
"""How long a grant counts."""
DAY_UNITS: Final = 500
"""How many units a wallet is granted within that time, at most (decision 42)."""


class Granted(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Units promised to a wallet."""

    operation: str
    """The operation that brings them."""
    user: str
    """Whose wallet."""
    amount: int
    """How many, in whole units."""
    now_ms: int
    """When, Unix milliseconds."""


class Grants:
    """The grants of the last day, in the sequence in which they were made.

    Args:
        grants: what it begins with.
    """

    def __init__(self, grants: Iterable[Granted] = ()) -> None:
        self._by_operation: dict[str, Granted] = {}
        self._by_user: defaultdict[str, list[Granted]] = defaultdict(list)
        for granted in grants:
            self._keep(granted)

    def __iter__(self) -> Iterator[Granted]:
        return iter(self._by_operation.values())

    def __contains__(self, operation: object) -> bool:
        return operation in self._by_operation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grants) and list(self) == list(other)

    def give(self, operation: str, user: str, amount: int, now_ms: int) -> None:
        """Promise units to a wallet; the same operation again is no second grant.

        Args:
            operation: the operation that brings them.
            user: whose wallet.
            amount: how many, in whole units.
            now_ms: the time, Unix milliseconds.

        Raises:
            FaucetLimitError: it would be more than a wallet is granted within a day.
        """
        before = self._by_operation.get(operation)
        if before is not None and counts(before, now_ms):
            return
        counted = [each for each in self._by_user.get(user, ()) if counts(each, now_ms)]
        total = sum(each.amount for each in counted)
        if total + amount > DAY_UNITS:
            raise FaucetLimitError(
                f"a wallet is given {DAY_UNITS} units in 24 hours, and {user} has been given "
                f"{total}; {amount} more are too many",
                frees_ms(counted, total + amount - DAY_UNITS, now_ms),
            )
        self._forget(now_ms)
        self._keep(Granted(operation, user, amount, now_ms))

    def take_back(self, operation: str) -> None:
        """Take back what was promised for an operation, if anything was."""
        granted = self._by_operation.pop(operation, None)
        if granted is not None:
            self._drop(granted)

    def _keep(self, granted: Granted) -> None:
        """Note a grant under both of its names."""
        self._by_operation[granted.operation] = granted
        self._by_user[granted.user].append(granted)

    def _drop(self, granted: Granted) -> None:
        """Strike a grant from those of its wallet."""
        of_user = self._by_user[granted.user]
        of_user.remove(granted)
        if not of_user:
            del self._by_user[granted.user]

    def _forget(self, now_ms: int) -> None:
        """Let go of what does not count any more."""
        gone = []
        for granted in self._by_operation.values():
            if counts(granted, now_ms):
                break
            gone.append(granted)
        for granted in gone:
            del self._by_operation[granted.operation]
            self._drop(granted)


def counts(granted: Granted, now_ms: int) -> bool:
    """Say whether a grant still counts."""
    return granted.now_ms > now_ms - DAY_MS


def frees_ms(counted: Iterable[Granted], amount: int, now_ms: int) -> int:
    """Say when an amount is free again, Unix milliseconds.

    Args:
        counted: the grants of a wallet that count, oldest first.
        amount: how much has to become free, in whole units.
        now_ms: the time, where nothing counts.
    """
    last_ms = now_ms
    for granted in counted:
        if amount <= 0:
            break
        amount -= granted.amount
        last_ms = granted.now_ms + DAY_MS
    return last_ms
