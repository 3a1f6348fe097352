"""Compares a replay with the recorded fills and best prices, and explains the differences."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clob.errors import REJECTIONS
from clob.records import BEST, EventRow, Kind
from clob.replay.check.divergence import KEPT, Divergence, Divergences, kind_of
from clob.replay.check.fill_diff import FillDiff
from clob.replay.io.chunk import RECORDED, Difference, ReplayedChunk
from clob.replay.io.recording import FIRST_RECORD, Records, join
from clob.replay.io.repair import Filled

# A plain integer: comparing an array of bytes with an enum member would widen it.
BBO = int(Kind.BBO)
UNKNOWN_ORDER = 13
SIZE_NOT_REDUCED = 14
GONE = {Kind.CANCEL: "cancel_gone", Kind.REDUCE: "reduce_gone", Kind.REPLACE: "replace_gone"}


class BestDifference(NamedTuple):
    """A recorded best price that differs from the book's; prices in ticks, sizes in lots."""

    event: int
    """Index of the record in the stream."""
    ts_ns: int
    instrument: int
    side: int
    """0 bid, 1 ask."""
    price: int
    """Recorded price; size 0 is an empty side."""
    size: int
    price_here: int
    """Price of the book."""
    size_here: int


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Counts of a replay against the recording."""

    takers: int
    """Recorded commands that traded in history."""
    exact: int
    """Those of them that produced exactly the recorded fills: orders, sizes, prices and their
    sequence."""
    recorded: int
    """Recorded fills."""
    produced: int
    """Fills that recorded commands produced in the replay."""
    matched: int
    """Recorded fills that their command produced here, too."""
    first_difference: int | None
    """Index in the stream of the first command whose fills differ, or None."""
    bests: int
    """Recorded best prices that were compared."""
    bests_equal: int
    """Those of them that equal the book's."""
    first_best_difference: int | None
    """Index in the stream of the first recorded best price that differs, or None."""
    inferred: bool = False
    """Whether a reader inferred the fills from levels and traded volumes; then equality confirms
    the reader's conclusions, not the matching of the venue."""
    best_differences: tuple[BestDifference, ...] = ()
    """The first few recorded best prices that differ."""

    @property
    def ok(self) -> bool:
        """Whether all fills and best prices equal the recorded ones."""
        return self.first_difference is None and self.first_best_difference is None

    def __str__(self) -> str:
        """Summarise the counts in one line."""
        source = "inferred" if self.inferred else "recorded"
        text = f"{self.exact:,} of {self.takers:,} {source} takers exact"
        text += f", {self.matched:,} of {self.recorded:,} fills"
        if self.bests:
            text += f", {self.bests_equal:,} of {self.bests:,} best prices"
        return text


class Checker:
    """Receives the chunks and differences of a run on a grid from lo to hi, and counts them.

    ``instruments`` are the books; ``bests`` is whether recorded best prices are compared.
    """

    def __init__(
        self, lo: int, hi: int, instruments: list[int], *, bests: bool, inferred: bool = False
    ) -> None:
        empty = np.zeros(1, BEST)
        empty["bid"], empty["ask"] = lo - 1, hi + 1
        self._tops = dict.fromkeys(instruments, empty)
        self._compares_bests, self._inferred = bests, inferred
        self._best_differences: list[BestDifference] = []
        self._counts: Counter[str] = Counter()
        self._kept: dict[str, list[Divergence]] = {}
        self._open: list[tuple[Difference, list[int]]] = []
        self._takers = self._recorded = self._bests = self._bests_equal = 0
        self._missed = self._surplus = self._failed = 0
        self._first: int | None = None
        self._first_best: int | None = None

    # ----- fills -------------------------------------------------------------------------------

    def on_difference(self, difference: Difference) -> None:
        """Count a command whose fills differ from the recorded ones."""
        if self._first is None:
            self._first = difference.event
        produced, recorded = difference.produced, difference.recorded
        common = (Counter(produced) & Counter(recorded)).total()
        self._missed += len(recorded) - common
        self._surplus += len(produced) - len(recorded)
        self._failed += bool(recorded)
        recorded_ids = {order_id for order_id, _, _ in recorded}
        unrecorded = [one for one, _, _ in produced if one not in recorded_ids]
        kind = kind_of(difference)
        if kind in ("orders", "traded", "sizes") and unrecorded:
            # Later events decide whether they are cancelled at the same time.
            self._open.append((difference, unrecorded))
        else:
            self._keep_difference("ghost" if difference.ghosts else kind, difference)

    def _keep_difference(self, kind: str, difference: Difference) -> None:
        event, command, status, produced, recorded, *_ = difference
        self._keep(kind, event, command, produced, recorded, status)

    def _keep(
        self,
        kind: str,
        event: int,
        command: EventRow,
        produced: Sequence[Filled] = (),
        recorded: Sequence[Filled] = (),
        status: int = 0,
    ) -> None:
        """Count a divergence, and keep it if it is among the first of its kind."""
        self._counts[kind] += 1
        kept = self._kept.setdefault(kind, [])
        place = (event, command.ts_ns, command.instrument, command.order_id)
        code = REJECTIONS[status].code if status else ""
        kept.append(Divergence(kind, *place, tuple(produced), tuple(recorded), code))
        if len(kept) > KEPT:
            # Divergences do not arrive in order: some are found at the end of a chunk.
            kept.sort(key=lambda one: one.event)
            kept.pop()

    def _resolve_open(self, chunk: ReplayedChunk | None) -> None:
        """Classify open differences by whether a skipped order was cancelled at the same time."""
        unresolved = []
        for difference, unrecorded in self._open:
            cancelled, over = False, True
            if chunk is not None:
                cancelled, over = _cancelled(chunk, difference, unrecorded)
            if cancelled:
                self._keep_difference("self_match", difference)
            elif over:
                kind = "ghost" if difference.ghosts else kind_of(difference)
                self._keep_difference(kind, difference)
            else:
                unresolved.append((difference, unrecorded))
        self._open = unresolved

    # ----- chunks ------------------------------------------------------------------------------

    def add_chunk(self, chunk: ReplayedChunk) -> None:
        """Count a finished chunk."""
        filled = chunk.kinds == RECORDED
        self._recorded += int(np.count_nonzero(filled))
        self._takers += int(np.count_nonzero(filled[1:] & (chunk.kinds[:-1] < FIRST_RECORD)))
        self._resolve_open(chunk)
        self._count_rejections(chunk)
        self._check_touched(chunk)
        if self._compares_bests:
            self._check_bests(chunk)

    def _check_touched(self, chunk: ReplayedChunk) -> None:
        """Compare the fills in books in which own orders have traded."""
        for instrument, first in chunk.touched.items():
            start = max(first - chunk.base, 0)
            # Searching a boolean view is ten times as fast.
            places = np.flatnonzero(chunk.differs[start:].view(np.bool_)) + start
            if len(self._tops) > 1:
                places = places[chunk.events["instrument"][places] == instrument]
            if len(places):
                self._count_own_orders(chunk, places.tolist())

    def _count_own_orders(self, chunk: ReplayedChunk, places: list[int]) -> None:
        """Count the commands whose fills differ because of own orders."""
        diff = FillDiff(chunk, KEPT)
        diff.add(places)
        self._missed += diff.missed
        self._surplus += diff.surplus
        self._failed += diff.failed
        first = chunk.base + places[0]
        if self._first is None or first < self._first:
            self._first = first
        self._counts["own_orders"] += len(places) - len(diff.kept)
        for place, produced, recorded in diff.kept:
            row = EventRow(*chunk.events[place].item())
            self._keep("own_orders", chunk.base + place, row, produced, recorded)

    def _count_rejections(self, chunk: ReplayedChunk) -> None:
        """Count rejected commands; those with recorded fills were reported as differences."""
        if not chunk.status.max(initial=0):
            return
        for place in np.flatnonzero(chunk.status).tolist():
            following = chunk.kinds[place + 1 : place + 2]
            if len(following) and following[0] == RECORDED:
                continue
            row, number = EventRow(*chunk.events[place].item()), int(chunk.status[place])
            kind = "rejected"
            if number == UNKNOWN_ORDER:
                kind = GONE.get(Kind(row.kind), kind)
            elif number == SIZE_NOT_REDUCED:
                kind = "not_reduced"
            self._keep(kind, chunk.base + place, row, status=number)

    def _check_bests(self, chunk: ReplayedChunk) -> None:
        """Compare the recorded best prices with those of the books at the time."""
        if len(self._tops) == 1 and chunk.kinds.max(initial=0) < BBO:
            if len(chunk.bests):
                self._tops[next(iter(self._tops))] = join([chunk.bests[-1:]])
            return
        events = chunk.events
        places = np.flatnonzero(chunk.kinds == BBO)
        wrong: list[int] = []
        for number in self._tops:
            rows = chunk.bests.take(np.flatnonzero(chunk.bests["instrument"] == number))
            rows = join([self._tops[number], rows])
            mine = places[events["instrument"][places] == number]
            # The first row precedes the chunk, regardless of its event.
            last = np.searchsorted(rows["event"][1:], mine + chunk.base, side="right")
            differs = np.flatnonzero(~_equal(events[mine], rows[last]))
            wrong += (mine[differs] + chunk.base).tolist()
            for place in differs[:KEPT].tolist():
                record, here = EventRow(*events[mine[place]].item()), rows[last[place]]
                self._keep_best(chunk.base + int(mine[place]), record, here)
            self._tops[number] = rows[-1:]
        self._bests += len(places)
        self._bests_equal += len(places) - len(wrong)
        if wrong and self._first_best is None:
            self._first_best = min(wrong)

    def _keep_best(self, event: int, record: EventRow, here: npt.NDArray[np.void]) -> None:
        """Keep a differing best price if it is among the first."""
        price, size = ("ask", "ask_size") if record.side else ("bid", "bid_size")
        place = (event, record.ts_ns, record.instrument, record.side)
        row = BestDifference(*place, record.price, record.size, int(here[price]), int(here[size]))
        self._best_differences = sorted([*self._best_differences, row])[:KEPT]

    def comparison(self) -> Comparison:
        """Return the counts, after the last chunk."""
        return Comparison(
            takers=self._takers,
            exact=self._takers - self._failed,
            recorded=self._recorded,
            produced=self._recorded + self._surplus,
            matched=self._recorded - self._missed,
            first_difference=self._first,
            bests=self._bests,
            bests_equal=self._bests_equal,
            first_best_difference=self._first_best,
            inferred=self._inferred,
            best_differences=tuple(self._best_differences),
        )

    def divergences(self) -> Divergences:
        """Return the divergences, after the last chunk."""
        self._resolve_open(None)
        kept = [one for some in self._kept.values() for one in some]
        kept.sort(key=lambda one: (one.event, one.kind))
        return Divergences(dict(sorted(self._counts.items())), tuple(kept))


def _equal(stated: Records, rows: Records) -> npt.NDArray[np.bool_]:
    """Compare ``BBO`` events with rows of best prices; with a size of 0, prices do not count."""
    buys = stated["side"] == 0
    size = np.where(buys, rows["bid_size"], rows["ask_size"])
    price = np.where(buys, rows["bid"], rows["ask"])
    equal: npt.NDArray[np.bool_] = stated["size"] == size
    equal &= (stated["price"] == price) | (size == 0)
    return equal


def _cancelled(
    chunk: ReplayedChunk, difference: Difference, unrecorded: list[int]
) -> tuple[bool, bool]:
    """Search for a cancel, at the same time, of an order that history skipped.

    Returns:
        Whether this chunk has one, and whether that time has passed.
    """
    events = chunk.events
    start = end = max(difference.event + 1 - chunk.base, 0)
    while end < len(events) and events["ts_ns"][end] == difference.command.ts_ns:
        end += 1
    later = events[start:end]
    cancels = later["order_id"][later["kind"] == Kind.CANCEL]
    return bool(np.isin(cancels, unrecorded).any()), end < len(events)
