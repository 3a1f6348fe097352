"""Keeps what remains of every order while a feed says only how much goes, a block at a time."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
"""One integer for each row."""

ADD, TAKE, DELETE = 0, 1, 2
"""What a row does to its order: brings it, takes some of it, takes it away."""

SAMPLE_BITS = 20
"""Blocks have fewer rows than two to this power."""

ID_BITS = 63 - SAMPLE_BITS
"""Smaller ids are sorted together with their row, in one word."""

Odd: TypeAlias = Callable[[int, str, int], int]
"""Told of each row that does not fit: its place, one of the words below, what remained before it.
For ``"unknown"`` it answers how much the order is to have had, 0 for nothing."""


class Balances:
    """What remains of the orders of a feed, by id. Memory grows with the orders alive.

    Args:
        sizes: of orders alive at the beginning, by id, in lots.
    """

    def __init__(self, sizes: dict[int, int] | None = None) -> None:
        alive = sorted((sizes or {}).items())
        self._ids: Integers = np.array([order_id for order_id, _ in alive], np.int64)
        self._sizes: Integers = np.array([size for _, size in alive], np.int64)

    def __len__(self) -> int:
        """Count the orders alive."""
        return len(self._ids)

    def settle(
        self, order_id: Integers, deed: npt.NDArray[np.uint8], size: Integers, odd: Odd
    ) -> Integers:
        """Go through rows in order.

        Args:
            order_id: of each row, 0 or more.
            deed: ``ADD``, ``TAKE`` or ``DELETE``.
            size: how much is brought or taken, 0 or more; a deletion takes all there is.
            odd: told of ``"unknown"`` (what goes was not there), ``"twice"`` (what comes is there
                already; the row is passed over), ``"too much"`` (more goes than remained) and
                ``"other size"`` (a deletion of another size than remained).

        Returns:
            What remains of its order after each row.
        """
        order = _by_id(order_id)
        ids = order_id[order]
        first = np.flatnonzero(np.diff(ids, prepend=-1))
        counts = np.diff(first, append=len(ids))
        carry = self._carried(ids[first])
        change = np.where(deed == ADD, size, -size)[order]
        run = np.cumsum(change)
        after = run + np.repeat(carry - run[first] + change[first], counts)
        before = after - change
        deeds = deed[order]
        bad = (after < 0) | ((deeds == ADD) != (before == 0)) & ((deeds == ADD) | (before == 0))
        bad |= (deeds == DELETE) & (after != 0)
        if bad.any():
            groups = np.unique(np.repeat(np.arange(len(first)), counts)[bad])
            for group in groups.tolist():
                rows = slice(int(first[group]), int(first[group] + counts[group]))
                after[rows] = _one_by_one(int(carry[group]), order[rows].tolist(), deed, size, odd)
        self._keep(ids[first], after[first + counts - 1])
        result = np.empty(len(order_id), np.int64)
        result[order] = after
        return result

    def _carried(self, ids: Integers) -> Integers:
        """Give what remained of some orders before the block."""
        if not len(self._ids):
            return np.zeros(len(ids), np.int64)
        place = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[place] == ids, self._sizes[place], 0)

    def _keep(self, ids: Integers, sizes: Integers) -> None:
        """Put the orders of a block in place of what was known about them."""
        untouched = np.ones(len(self._ids), np.bool_)
        if len(self._ids):
            place = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
            untouched[place[self._ids[place] == ids]] = False
        alive = sizes > 0
        all_ids = np.concatenate([self._ids[untouched], ids[alive]])
        all_sizes = np.concatenate([self._sizes[untouched], sizes[alive]])
        order = np.argsort(all_ids, kind="stable")
        self._ids, self._sizes = all_ids[order], all_sizes[order]


def _by_id(order_id: Integers) -> npt.NDArray[np.int64]:
    """Sort rows by id, those of the same id in their order."""
    count = len(order_id)
    if count < 1 << SAMPLE_BITS and int(order_id.max(initial=0)) < 1 << ID_BITS:
        # Twice as fast as a stable sort of places: the row is in the low bits of the key.
        keys = np.sort(order_id << SAMPLE_BITS | np.arange(count))
        return keys & ((1 << SAMPLE_BITS) - 1)
    return np.argsort(order_id, kind="stable")


def _one_by_one(
    left: int, rows: list[int], deed: npt.NDArray[np.uint8], size: Integers, odd: Odd
) -> list[int]:
    """Go through the rows of one order of which some do not fit."""
    after = []
    for row in rows:
        does, some = int(deed[row]), int(size[row])
        if does == ADD:
            if left:
                odd(row, "twice", left)
            else:
                left = some
        else:
            if not left:
                left = odd(row, "unknown", left)
            if does == DELETE:
                if left and some != left:
                    odd(row, "other size", left)
                left = 0
            else:
                if left and some > left:
                    odd(row, "too much", left)
                left = max(left - some, 0)
        after.append(left)
    return after
