"""Holds what a replay brought against what was recorded, and explains where they differ."""

import dataclasses
from collections import Counter

import numpy as np
import numpy.typing as npt

from clob.errors import REFUSALS
from clob.records import BEST, EventRow, Kind
from clob.replay.check.divergence import KEPT, Divergence, Divergences, kind_of
from clob.replay.check.fill_diff import Sides
from clob.replay.io.chunk import RECORDED, Difference, Played
from clob.replay.io.recording import FIRST_RECORD, Records, join

# A plain integer: comparing bytes with a member of an enum makes an array of long integers.
BBO = int(Kind.BBO)
UNKNOWN_ORDER = 13
SIZE_NOT_REDUCED = 14
GONE = {Kind.CANCEL: "cancel_gone", Kind.REDUCE: "reduce_gone", Kind.REPLACE: "replace_gone"}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The figures of a replay against those recorded."""

    takers: int
    """How many recorded commands traded in history."""
    exact: int
    """How many of them brought the recorded fills: orders, sizes, prices and their order."""
    recorded: int
    """How many fills were recorded."""
    produced: int
    """How many fills recorded commands brought here."""
    matched: int
    """How many of the recorded fills came of their command here, too."""
    first_difference: int | None
    """Index in the stream of the first command with other fills than recorded; None if none."""
    bests: int
    """How many best prices were recorded and looked at."""
    bests_equal: int
    """How many of them were the book's."""
    first_best_difference: int | None
    """Index in the stream of the first recorded best price that was not; None if all were."""

    @property
    def ok(self) -> bool:
        """Whether all fills and best prices are those recorded."""
        return self.first_difference is None and self.first_best_difference is None

    def __str__(self) -> str:
        """Say it in a line."""
        told = f"{self.exact:,} of {self.takers:,} recorded takers exact"
        told += f", {self.matched:,} of {self.recorded:,} fills"
        if self.bests:
            told += f", {self.bests_equal:,} of {self.bests:,} best prices"
        return told


class Checker:
    """Hears what is played and where it differs, and sums up.

    Args:
        lo: the lowest price of the grid.
        hi: the highest price of the grid.
        instruments: the numbers of the books.
        bests: whether recorded best prices are compared.
    """

    def __init__(self, lo: int, hi: int, instruments: list[int], *, bests: bool) -> None:
        empty = np.zeros(1, BEST)
        empty["bid"], empty["ask"] = lo - 1, hi + 1
        self._tops = dict.fromkeys(instruments, empty)
        self._compares_bests = bests
        self._counts: Counter[str] = Counter()
        self._kept: dict[str, list[Divergence]] = {}
        self._open: list[tuple[Difference, list[int]]] = []
        self._takers = self._recorded = self._bests = self._bests_equal = 0
        self._missed = self._surplus = self._failed = 0
        self._first: int | None = None
        self._first_best: int | None = None

    # ----- fills -------------------------------------------------------------------------------

    def differ(self, difference: Difference) -> None:
        """Hear of a command whose fills are not the recorded ones."""
        if self._first is None:
            self._first = difference.event
        produced, recorded = difference.produced, difference.recorded
        common = (Counter(produced) & Counter(recorded)).total()
        self._missed += len(recorded) - common
        self._surplus += len(produced) - len(recorded)
        self._failed += bool(recorded)
        known = {order_id for order_id, _, _ in recorded}
        strangers = [one for one, _, _ in produced if one not in known]
        kind = kind_of(difference)
        if kind in ("orders", "traded", "sizes") and strangers:
            # Whether they are cancelled at the same time shows when that time has passed.
            self._open.append((difference, strangers))
        else:
            self._keep(kind, difference)

    def _keep(self, kind: str, difference: Difference) -> None:
        """Count a divergence, and keep it if it is one of the first."""
        self._note(
            Divergence(
                kind,
                difference.event,
                difference.command.ts_ns,
                difference.command.instrument,
                difference.command.order_id,
                tuple(difference.produced),
                tuple(difference.recorded),
                REFUSALS[difference.status].code if difference.status else "",
            )
        )

    def _note(self, divergence: Divergence) -> None:
        """Count a divergence, and keep it if it is one of the first."""
        self._counts[divergence.kind] += 1
        kept = self._kept.setdefault(divergence.kind, [])
        kept.append(divergence)
        if len(kept) > KEPT:
            # They are not heard of in order: some are told at the end of a chunk only.
            kept.sort(key=lambda one: one.event)
            kept.pop()

    def _settle_open(self, played: Played | None) -> None:
        """Say of what is open whether an order passed over was cancelled at that time."""
        still = []
        for difference, strangers in self._open:
            found, over = (
                (False, True) if played is None else _cancelled(played, difference, strangers)
            )
            if found:
                self._keep("self_match", difference)
            elif over:
                self._keep(kind_of(difference), difference)
            else:
                still.append((difference, strangers))
        self._open = still

    # ----- chunks ------------------------------------------------------------------------------

    def take(self, played: Played) -> None:
        """Hear of a chunk that is done."""
        filled = played.kinds == RECORDED
        self._recorded += int(np.count_nonzero(filled))
        self._takers += int(np.count_nonzero(filled[1:] & (played.kinds[:-1] < FIRST_RECORD)))
        self._settle_open(played)
        self._take_refusals(played)
        self._take_touched(played)
        if self._compares_bests:
            self._take_bests(played)

    def _take_touched(self, played: Played) -> None:
        """Take in which fills differ in books that own orders have traded in."""
        for instrument, first in played.touched.items():
            start = max(first - played.base, 0)
            # What is true is found ten times as fast as what is not zero.
            places = np.flatnonzero(played.differs[start:].view(np.bool_)) + start
            if len(self._tops) > 1:
                places = places[played.events["instrument"][places] == instrument]
            if len(places):
                self._take_differing(played, places.tolist())

    def _take_differing(self, played: Played, places: list[int]) -> None:
        """Count the commands whose fills differ because of own orders."""
        sides = Sides(played, KEPT)
        sides.take(places)
        self._missed += sides.missed
        self._surplus += sides.surplus
        self._failed += sides.failed
        first = played.base + places[0]
        if self._first is None or first < self._first:
            self._first = first
        self._counts["own_orders"] += len(places) - len(sides.kept)
        for place, here, there in sides.kept:
            row = EventRow(*played.events[place].item())
            self._note(
                Divergence(
                    "own_orders",
                    played.base + place,
                    row.ts_ns,
                    row.instrument,
                    row.order_id,
                    tuple(here),
                    tuple(there),
                )
            )

    def _take_refusals(self, played: Played) -> None:
        """Count the commands that were refused; those with fills were heard of already."""
        if not played.status.max(initial=0):
            return
        for place in np.flatnonzero(played.status).tolist():
            following = played.kinds[place + 1 : place + 2]
            if len(following) and following[0] == RECORDED:
                continue
            row, number = EventRow(*played.events[place].item()), int(played.status[place])
            kind = "refused"
            if number == UNKNOWN_ORDER:
                kind = GONE.get(Kind(row.kind), kind)
            elif number == SIZE_NOT_REDUCED:
                kind = "not_reduced"
            self._note(
                Divergence(
                    kind,
                    played.base + place,
                    row.ts_ns,
                    row.instrument,
                    row.order_id,
                    code=REFUSALS[number].code,
                )
            )

    def _take_bests(self, played: Played) -> None:
        """Compare the recorded best prices with those of the books at that time."""
        if len(self._tops) == 1 and played.kinds.max(initial=0) < BBO:
            if len(played.bests):
                self._tops[next(iter(self._tops))] = join([played.bests[-1:]])
            return
        events = played.events
        places = np.flatnonzero(played.kinds == BBO)
        wrong: list[int] = []
        for number in self._tops:
            rows = played.bests.take(np.flatnonzero(played.bests["instrument"] == number))
            rows = join([self._tops[number], rows])
            mine = places[events["instrument"][places] == number]
            # The first row is from before the chunk, whatever event it names.
            last = np.searchsorted(rows["event"][1:], mine + played.base, side="right")
            wrong += (mine[~_equal(events[mine], rows[last])] + played.base).tolist()
            self._tops[number] = rows[-1:]
        self._bests += len(places)
        self._bests_equal += len(places) - len(wrong)
        if wrong and self._first_best is None:
            self._first_best = min(wrong)

    def comparison(self) -> Comparison:
        """Sum up, when all was heard."""
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
        )

    def divergences(self) -> Divergences:
        """List how it differs from history, when all was heard."""
        self._settle_open(None)
        kept = [one for some in self._kept.values() for one in some]
        kept.sort(key=lambda one: (one.event, one.kind))
        return Divergences(dict(sorted(self._counts.items())), tuple(kept))


def _equal(stated: Records, rows: Records) -> npt.NDArray[np.bool_]:
    """Compare ``BBO`` events with as many rows of best prices; sizes only where there are any."""
    buys = stated["side"] == 0
    size = np.where(buys, rows["bid_size"], rows["ask_size"])
    price = np.where(buys, rows["bid"], rows["ask"])
    equal: npt.NDArray[np.bool_] = stated["size"] == size
    equal &= (stated["price"] == price) | (size == 0)
    return equal


def _cancelled(played: Played, difference: Difference, strangers: list[int]) -> tuple[bool, bool]:
    """Look for a cancel, at the same time, of an order that history passed over.

    Returns:
        Whether there is one in this chunk, and whether that time is over.
    """
    events = played.events
    start = end = max(difference.event + 1 - played.base, 0)
    while end < len(events) and events["ts_ns"][end] == difference.command.ts_ns:
        end += 1
    later = events[start:end]
    cancels = later["order_id"][later["kind"] == Kind.CANCEL]
    return bool(np.isin(cancels, strangers).any()), end < len(events)
