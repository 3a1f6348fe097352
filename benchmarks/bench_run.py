"""``Book.run`` against the C++ floor: nanoseconds per event, ids as a venue gives them.

The book has lots of one token and no capacity given; the floor has all its memory beforehand.
Both fill the book outside the clock. The buffers of fills and status are the caller's, and have
been written to before, as first touching a page costs more than the fill put there.
"""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks import floor
from benchmarks.measure import Row, alternate, at_most, garbage, same
from benchmarks.workload import WEI_PER_LOT, Workload, id_table, load, to_events
from clob import Book
from clob.records import FILL

QUESTIONS = (
    ("mixed", "dense", 1.35),
    ("add_cancel", "dense", 1.35),
    ("sweep", "dense", None),
    ("mixed", "running", None),
    ("mixed", "arbitrary", 1.7),
    ("add_cancel", "arbitrary", 1.7),
    ("sweep", "arbitrary", 1.5),
    ("depth1k", "arbitrary", None),
    ("depth100k", "arbitrary", 1.8),
    ("depth1m", "arbitrary", 0.8),
)
ROUNDS, ROUNDS_QUICK = 9, 3
TIMED_QUICK = 20_000


class Replay:
    """One stream under one kind of ids, ready to be run through a book again and again."""

    def __init__(self, workload: Workload, ids: str, num_fills: int) -> None:
        self.ids = id_table(ids, workload.num_orders)
        self.by_id = np.argsort(self.ids)
        events = to_events(workload, ids)
        self.prefill, self.timed = events[: workload.prefill], events[workload.prefill :].copy()
        self.fills = np.full(num_fills, 1, dtype=FILL)
        self.status = np.ones(len(self.timed), dtype=np.uint8)

    def run(self) -> tuple[int, floor.Stream]:
        """Run it once.

        Returns:
            The nanoseconds of the timed part, and what came of it.
        """
        book = Book(lot_wei=WEI_PER_LOT)
        book.run(self.prefill)
        with garbage(collected=False):
            begin = time.perf_counter_ns()
            fills = book.run(self.timed, fills=self.fills, status=self.status)
            taken_ns = time.perf_counter_ns() - begin
        same("refused events", 0, int(np.count_nonzero(self.status)))
        return taken_ns, floor.Stream(len(fills), len(book), self.hash(fills))

    def hash(self, fills: np.ndarray) -> int:
        """Hash fills as the floor does, with the ids made dense again."""
        resting, incoming = (
            self.by_id[np.searchsorted(self.ids, fills[name], sorter=self.by_id)]
            for name in ("resting_id", "incoming_id")
        )
        return floor.hash_fills([resting, incoming, fills["price"], fills["size"]])


def question(name: str, ids: str, limit: float | None, *, quick: bool) -> Row:
    """Answer one question: compare what both made of the stream first, then measure."""
    workload = load(name)
    if quick:
        workload = workload.head(TIMED_QUICK)
    rows, title = floor.to_rows(workload), f"run {name}, {ids} ids / floor"
    _, expected = floor.run(workload, rows)
    # A book without any room left would have to look ahead at each event whether its fills fit.
    replay = Replay(workload, ids, expected.num_fills + workload.num_orders)
    same(title, expected, replay.run()[1])

    def other() -> int:
        taken_ns, made = floor.run(workload, rows)
        same(title, expected, made)
        return taken_ns

    def ours() -> int:
        taken_ns, made = replay.run()
        same(title, expected, made)
        return taken_ns

    rounds = ROUNDS_QUICK if quick else ROUNDS
    return at_most(title, limit, alternate(other, ours, workload.num_timed, rounds))


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table; the deepest book is left out where it must be quick."""
    for name, ids, limit in QUESTIONS:
        if not (quick and name in {"depth100k", "depth1m"}):
            yield question(name, ids, limit, quick=quick)
