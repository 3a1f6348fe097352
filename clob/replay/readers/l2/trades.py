"""Follows the levels that a source states, and finds for each trade the level it was taken from."""

import dataclasses
from typing import NamedTuple, TypeAlias, TypeVar

NOBODY = -1
"""The side of a trade whose source does not say who came in."""

Key: TypeAlias = tuple[int, int, int]
"""A level: instrument, side, price in ticks."""


class LevelUpdate(NamedTuple):
    """How large a level has become."""

    instrument: int
    """The book."""
    side: int
    """0 buy, 1 sell."""
    price: int
    """In ticks."""
    size: int
    """What there is now, in lots; 0 for nothing."""


class LevelTrade(NamedTuple):
    """A trade."""

    instrument: int
    """The book."""
    side: int
    """The side of the incoming order: 0 buys, 1 sells, ``NOBODY`` where it is not known."""
    price: int
    """In ticks."""
    size: int
    """In lots."""
    told: bool = True
    """Whether the source told of it in this book. One that was told of in the book of the other
    outcome explains what a level loses, and is else left out."""


class LevelBest(NamedTuple):
    """A best price that the source states."""

    instrument: int
    """The book."""
    side: int
    """0 buy, 1 sell."""
    price: int
    """In ticks; one below or above the grid where the side is empty."""
    size: int
    """What there is, in lots; 0 where the side is empty."""


class Moment(NamedTuple):
    """What a source says at once."""

    ts_ns: int
    """When, in ns."""
    line: int
    """The line it stands on."""
    updates: tuple[LevelUpdate, ...] = ()
    """The levels that changed; of one named twice the last counts."""
    trades: tuple[LevelTrade, ...] = ()
    """What traded."""
    fresh: tuple[int, ...] = ()
    """The instruments whose updates are all there is: other levels are gone, and so are the places
    in the queues."""
    bests: tuple[LevelBest, ...] | None = None
    """The best prices after it; None takes those of the levels where they changed."""
    outcomes: tuple[tuple[int, int], ...] = ()
    """Instruments that were settled, and what one is worth then, in ticks."""


@dataclasses.dataclass(slots=True)
class LevelChange:
    """One change of a level."""

    ts_ns: int
    """When."""
    key: Key
    """Which level."""
    before: int
    """What the source said before."""
    size: int
    """What it says now."""
    open: int
    """What of the loss no trade has explained so far."""
    traded: list[int] = dataclasses.field(default_factory=list)
    """The trades it was taken by, in lots."""
    last: "OpenTrade | None" = None
    """The last of them."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to explain."""
        return not self.open


@dataclasses.dataclass(slots=True)
class OpenTrade:
    """A trade that has not been found in the levels, or not all of it."""

    ts_ns: int
    """When."""
    trade: LevelTrade
    """What was told."""
    left: int
    """What of it was not found."""

    @property
    def done(self) -> bool:
        """Whether all of it was found."""
        return not self.left


Waiting = TypeVar("Waiting", LevelChange, OpenTrade)
"""What waits for its other half."""


class Telling(NamedTuple):
    """A moment with what was found about it; complete once the window has passed."""

    moment: Moment
    """What the source said."""
    steps: list[LevelChange]
    """How the levels changed."""
    trades: list[OpenTrade]
    """What of the trades was not found in the levels."""
    bests: list[LevelBest]
    """The best prices after it."""


class TradePairing:
    """Hears what the source says, moment by moment.

    Args:
        lo: the lowest price of the grid.
        hi: the highest price of the grid.
        window_ns: how far a trade and a loss may be apart.
    """

    def __init__(self, lo: int, hi: int, window_ns: int) -> None:
        self._empty = (lo - 1, hi + 1)
        self._window_ns = window_ns
        self._levels: dict[tuple[int, int], dict[int, int]] = {}
        self._bests: dict[tuple[int, int], tuple[int, int]] = {}
        self._losses: dict[Key, list[LevelChange]] = {}
        self._trades: dict[Key, list[OpenTrade]] = {}

    def hear(self, moment: Moment) -> Telling:
        """Hear of a moment.

        Args:
            moment: what the source says; none earlier than that before it.

        Returns:
            What it means. Later moments within the window may still change its steps and trades.
        """
        for instrument in moment.fresh:
            self._forget(instrument)
        last = {update[:3]: update for update in moment.updates}
        steps = [step for update in last.values() if (step := self._step(moment, update))]
        trades = [OpenTrade(moment.ts_ns, one, one.size) for one in moment.trades]
        for one in trades:
            self._explain(one, steps)
        bests = self._changed(moment) if moment.bests is None else list(moment.bests)
        return Telling(moment, steps, trades, bests)

    def _forget(self, instrument: int) -> None:
        """Forget a book."""
        for side in (0, 1):
            self._levels.pop((instrument, side), None)
        for some in (self._losses, self._trades):
            for key in [key for key in some if key[0] == instrument]:
                del some[key]

    def _step(self, moment: Moment, update: LevelUpdate) -> LevelChange | None:
        """Take in a level; None if it says nothing new."""
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
        if step.open:
            self._explained(step)
        return step

    def _explained(self, step: LevelChange) -> None:
        """Find the trades of a loss among those told of before it; wait for others."""
        for one in self._recent(self._trades, step.key, step.ts_ns):
            _pair(step, one, min(step.open, one.left))
        if step.open:
            # Looked through, so that no level keeps what has waited too long.
            self._recent(self._losses, step.key, step.ts_ns)
            self._losses.setdefault(step.key, []).append(step)

    def _explain(self, one: OpenTrade, steps: list[LevelChange]) -> None:
        """Find the losses of a trade among those so far; wait for others."""
        instrument, side, price, _, _ = one.trade
        keys = [(instrument, 1 - each, price) for each in ((1, 0) if side == NOBODY else (side,))]
        for key in keys:
            for step in self._recent(self._losses, key, one.ts_ns):
                _pair(step, one, min(step.open, one.left))
        for step in steps:
            if one.left and side != NOBODY and _is_better(step.key, keys[0]):
                _pair(step, one, min(step.open, one.left))
        for step in steps:
            if one.left and step.key in keys:
                # Told of at once: beyond its loss the level gave more, and gained that again.
                _pair(step, one, min(step.before - sum(step.traded), one.left))
        if one.left:
            for key in keys:
                self._recent(self._trades, key, one.ts_ns)
                self._trades.setdefault(key, []).append(one)

    def _recent(self, some: dict[Key, list[Waiting]], key: Key, now_ns: int) -> list[Waiting]:
        """Give what waits at a level, without what is done or has waited too long."""
        waiting = some.get(key)
        if waiting is None:
            return []
        kept = [one for one in waiting if not one.done and one.ts_ns + self._window_ns >= now_ns]
        if kept:
            some[key] = kept
        else:
            del some[key]
        return kept

    def _changed(self, moment: Moment) -> list[LevelBest]:
        """Find the best prices that the moment has changed."""
        touched = {update[:2] for update in moment.updates}
        touched |= {(instrument, side) for instrument in moment.fresh for side in (0, 1)}
        found = []
        for instrument, side in sorted(touched):
            levels = self._levels.get((instrument, side))
            best = (self._empty[side], 0)
            if levels:
                price = min(levels) if side else max(levels)
                best = (price, levels[price])
            if self._bests.get((instrument, side), (self._empty[side], 0)) != best:
                self._bests[instrument, side] = best
                found.append(LevelBest(instrument, side, *best))
        return found


def _is_better(key: Key, than: Key) -> bool:
    """Tell whether a level is on the same side of the same book, at a better price."""
    if key[:2] != than[:2]:
        return False
    return key[2] < than[2] if key[1] else key[2] > than[2]


def _pair(step: LevelChange, one: OpenTrade, size: int) -> None:
    """Put some of a trade down to a level."""
    if size > 0:
        if step.last is one:
            step.traded[-1] += size
        else:
            step.traded.append(size)
            step.last = one
        step.open = max(step.open - size, 0)
        one.left -= size
