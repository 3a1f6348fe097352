"""Tracks the levels that a source states and pairs trades with the decreases they explain."""

import dataclasses
from typing import NamedTuple, TypeAlias, TypeVar

NO_SIDE = -1
"""The side of a trade whose source does not state the incoming side."""

Key: TypeAlias = tuple[int, int, int]
"""A level: instrument, side, price in ticks."""


class LevelUpdate(NamedTuple):
    """The new size of a level."""

    instrument: int
    """The book."""
    side: int
    """0 buy, 1 sell."""
    price: int
    """In ticks."""
    size: int
    """The new size, in lots; 0 for an empty level."""


class LevelTrade(NamedTuple):
    """A trade."""

    instrument: int
    """The book."""
    side: int
    """The side of the incoming order: 0 buy, 1 sell, ``NO_SIDE`` if unknown."""
    price: int
    """In ticks."""
    size: int
    """In lots."""
    reported: bool = True
    """Whether the source reported the trade in this book. A trade reported in the book of the other
    outcome explains decreases here and is otherwise ignored."""


class LevelBest(NamedTuple):
    """A best price stated by the source."""

    instrument: int
    """The book."""
    side: int
    """0 buy, 1 sell."""
    price: int
    """In ticks; one below or above the grid if the side is empty."""
    size: int
    """In lots; 0 if the side is empty."""


class Moment(NamedTuple):
    """The changes that a source reports at one time."""

    ts_ns: int
    """The time, in ns."""
    line: int
    """The line number."""
    updates: tuple[LevelUpdate, ...] = ()
    """The changed levels; the last update of a level counts."""
    trades: tuple[LevelTrade, ...] = ()
    """The trades."""
    reset: tuple[int, ...] = ()
    """Instruments whose updates are the complete book: other levels and all queue places are
    dropped."""
    bests: tuple[LevelBest, ...] | None = None
    """The best prices afterwards; None derives them from changed levels."""
    outcomes: tuple[tuple[int, int], ...] = ()
    """Settled instruments with their settlement price, in ticks."""


@dataclasses.dataclass(slots=True)
class LevelChange:
    """One change of a level: the size that the source states before and after it, in lots."""

    ts_ns: int
    key: Key
    before: int
    size: int
    left: int
    """The part of the decrease that no trade explains yet."""
    traded: list[int] = dataclasses.field(default_factory=list)
    """The sizes of the trades that explain the decrease."""
    last: "OpenTrade | None" = None
    """The latest of these trades."""


@dataclasses.dataclass(slots=True)
class OpenTrade:
    """A trade and the size of it that is not matched to decreases of levels yet."""

    ts_ns: int
    trade: LevelTrade
    left: int


Waiting = TypeVar("Waiting", LevelChange, OpenTrade)
"""An item that waits for its counterpart."""


class PairedMoment(NamedTuple):
    """A moment, its changes and trades, and the best prices after it; final after the window."""

    moment: Moment
    steps: list[LevelChange]
    trades: list[OpenTrade]
    bests: list[LevelBest]


class TradePairing:
    """Pairs trades with decreases of levels, moment by moment.

    Args:
        lo: the lowest price of the grid.
        hi: the highest price of the grid.
        window_ns: maximum time between a trade and the decrease it explains.
    """

    def __init__(self, lo: int, hi: int, window_ns: int) -> None:
        self._empty = (lo - 1, hi + 1)
        self._window_ns = window_ns
        self._levels: dict[tuple[int, int], dict[int, int]] = {}
        self._bests: dict[tuple[int, int], tuple[int, int]] = {}
        self._losses: dict[Key, list[LevelChange]] = {}
        self._trades: dict[Key, list[OpenTrade]] = {}

    def add(self, moment: Moment) -> PairedMoment:
        """Apply the next moment.

        Args:
            moment: not earlier than the moment before it.

        Returns:
            The changes and trades. Later moments within the window may still update them.
        """
        for instrument in moment.reset:
            self._drop(instrument)
        last = {update[:3]: update for update in moment.updates}
        steps = [step for update in last.values() if (step := self._step(moment, update))]
        trades = [OpenTrade(moment.ts_ns, one, one.size) for one in moment.trades]
        for one in trades:
            self._pair_trade(one, steps)
        bests = self._changed_bests(moment) if moment.bests is None else list(moment.bests)
        return PairedMoment(moment, steps, trades, bests)

    def _drop(self, instrument: int) -> None:
        for side in (0, 1):
            self._levels.pop((instrument, side), None)
        for some in (self._losses, self._trades):
            for key in [key for key in some if key[0] == instrument]:
                del some[key]

    def _step(self, moment: Moment, update: LevelUpdate) -> LevelChange | None:
        """Update a level; return None if its size is unchanged."""
        instrument, side, price, size = update
        levels = self._levels.setdefault((instrument, side), {})
        before = levels.get(price, 0)
        if size == before:
            return None
        if size:
            levels[price] = size
        else:
            del levels[price]
        key = (instrument, side, price)
        step = LevelChange(moment.ts_ns, key, before, size, max(before - size, 0))
        if step.left:
            self._pair_change(step)
        return step

    def _pair_change(self, step: LevelChange) -> None:
        """Pair a decrease with earlier trades; store the rest for later ones."""
        for one in self._recent(self._trades, step.key, step.ts_ns):
            _pair(step, one, min(step.left, one.left))
        if step.left:
            # Prunes items older than the window.
            self._recent(self._losses, step.key, step.ts_ns)
            self._losses.setdefault(step.key, []).append(step)

    def _pair_trade(self, one: OpenTrade, steps: list[LevelChange]) -> None:
        """Pair a trade with the decreases so far; store the rest for later ones."""
        instrument, side, price, _, _ = one.trade
        keys = [(instrument, 1 - each, price) for each in ((1, 0) if side == NO_SIDE else (side,))]
        for key in keys:
            for step in self._recent(self._losses, key, one.ts_ns):
                _pair(step, one, min(step.left, one.left))
        for step in steps:
            if one.left and side != NO_SIDE and _is_better(step.key, keys[0]):
                _pair(step, one, min(step.left, one.left))
        for step in steps:
            if one.left and step.key in keys:
                # Same moment: the level lost more than stated and regained the difference.
                _pair(step, one, min(step.before - sum(step.traded), one.left))
        if one.left:
            for key in keys:
                self._recent(self._trades, key, one.ts_ns)
                self._trades.setdefault(key, []).append(one)

    def _recent(self, some: dict[Key, list[Waiting]], key: Key, now_ns: int) -> list[Waiting]:
        """Return the waiting items of a level, without those done or older than the window."""
        waiting = some.get(key)
        if waiting is None:
            return []
        kept = [one for one in waiting if one.left and one.ts_ns + self._window_ns >= now_ns]
        if kept:
            some[key] = kept
        else:
            del some[key]
        return kept

    def _changed_bests(self, moment: Moment) -> list[LevelBest]:
        touched = {update[:2] for update in moment.updates}
        touched |= {(instrument, side) for instrument in moment.reset for side in (0, 1)}
        changed = []
        for instrument, side in sorted(touched):
            levels = self._levels.get((instrument, side))
            best = (self._empty[side], 0)
            if levels:
                price = min(levels) if side else max(levels)
                best = (price, levels[price])
            if self._bests.get((instrument, side), (self._empty[side], 0)) != best:
                self._bests[instrument, side] = best
                changed.append(LevelBest(instrument, side, *best))
        return changed


def _is_better(key: Key, than: Key) -> bool:
    """Return whether a level is on the same side of the same book at a better price."""
    if key[:2] != than[:2]:
        return False
    return key[2] < than[2] if key[1] else key[2] > than[2]


def _pair(step: LevelChange, one: OpenTrade, size: int) -> None:
    if size > 0:
        if step.last is one:
            step.traded[-1] += size
        else:
            step.traded.append(size)
            step.last = one
        step.left = max(step.left - size, 0)
        one.left -= size
