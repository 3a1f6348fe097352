"""``Book.run`` compared with the C++ floor: nanoseconds per event, for several kinds of ids.

The book has lots of one token and no capacity; the floor allocates all memory beforehand. Filling
the book is not timed on either side. The caller's buffers for fills and status were written before,
since the first write to a page costs more than the fill.
"""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks import floor
from benchmarks.measure import Row, alternate, at_most, check_equal, frozen_gc
from benchmarks.workload import WEI_PER_LOT, Workload, id_table, load, to_events
from clob import Book
from clob.records import FILL

BENCHMARKS = (
    ("mixed", "dense", 1.3),
    ("add_cancel", "dense", 1.3),
    ("sweep", "dense", None),
    ("mixed", "running", None),
    ("mixed", "arbitrary", 1.55),
    ("add_cancel", "arbitrary", 1.55),
    ("sweep", "arbitrary", 1.4),
    ("depth1k", "arbitrary", None),
    ("depth100k", "arbitrary", 1.8),
    ("depth1m", "arbitrary", 0.8),
)
ROUNDS, ROUNDS_QUICK = 9, 3
TIMED_QUICK = 20_000


class Replay:
    """One stream with one kind of ids, prepared for repeated runs."""

    def __init__(self, workload: Workload, ids: str, num_fills: int) -> None:
        self.ids = id_table(ids, workload.num_orders)
        self.by_id = np.argsort(self.ids)
        events = to_events(workload, ids)
        self.prefill, self.timed = events[: workload.prefill], events[workload.prefill :].copy()
        self.fills = np.full(num_fills, 1, dtype=FILL)
        self.status = np.ones(len(self.timed), dtype=np.uint8)

    def run(self) -> tuple[int, floor.Stream]:
        """Run the stream once.

        Returns:
            The nanoseconds of the timed part, and a summary of the result.
        """
        book = Book(lot_wei=WEI_PER_LOT)
        book.run(self.prefill)
        with frozen_gc(enabled=False):
            begin = time.perf_counter_ns()
            fills = book.run(self.timed, fills=self.fills, status=self.status)
            taken_ns = time.perf_counter_ns() - begin
        check_equal("rejected events", 0, int(np.count_nonzero(self.status)))
        return taken_ns, floor.Stream(len(fills), len(book), self.hash(fills))

    def hash(self, fills: np.ndarray) -> int:
        """Hash fills as the floor does, with ids mapped back to dense ones."""
        resting, incoming = (
            self.by_id[np.searchsorted(self.ids, fills[name], sorter=self.by_id)]
            for name in ("resting_id", "incoming_id")
        )
        return floor.hash_fills([resting, incoming, fills["price"], fills["size"]])


def measure(name: str, ids: str, limit: float | None, *, quick: bool) -> Row:
    """Check that both sides have the same result, then measure."""
    workload = load(name)
    if quick:
        workload = workload.head(TIMED_QUICK)
    rows, title = floor.to_rows(workload), f"run {name}, {ids} ids / floor"
    _, expected = floor.run(workload, rows)
    # With spare room the book need not check before each event whether its fills fit.
    replay = Replay(workload, ids, expected.num_fills + workload.num_orders)
    check_equal(title, expected, replay.run()[1])

    def other() -> int:
        taken_ns, result = floor.run(workload, rows)
        check_equal(title, expected, result)
        return taken_ns

    def ours() -> int:
        taken_ns, result = replay.run()
        check_equal(title, expected, result)
        return taken_ns

    rounds = ROUNDS_QUICK if quick else ROUNDS
    return at_most(title, limit, alternate(other, ours, workload.num_timed, rounds))


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table, without the deepest books in quick mode."""
    for name, ids, limit in BENCHMARKS:
        if not (quick and name in {"depth100k", "depth1m"}):
            yield measure(name, ids, limit, quick=quick)
