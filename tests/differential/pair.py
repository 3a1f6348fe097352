"""Two books under the same commands, and a report of differences."""

import os

import numpy as np

from clob import FillsFullError, RejectedError, RunRejectedError, Trade
from clob.errors import REJECTIONS
from clob.records import FILL
from tests.flow import Flow, Market, as_call, outcome

HASH_EVERY = 1_000
SEED = int(os.environ.get("CLOB_DIFF_SEED", "1"))
OPS = os.environ.get("CLOB_DIFF_OPS")

MARKETS = [
    Market("1..99", 1, 99),
    Market("1..99 deep", 1, 99, lot_wei=10**16, capacity=16, depth=2_000, ids=("running",)),
    Market("1..65536", 1, 65_536, depth=800, spread=40.0, jump=0.01, ids=("random", "text")),
    Market(
        "200000 ticks", -100_000, 99_999, lot_wei=2**33, spread=9_000.0, jump=0.02, ids=("random",)
    ),
    Market("one tick", 7, 7, lot_wei=3, depth=40, ids=("text",)),
]


def shortened(text):
    """Return a long text without its middle."""
    return text if len(text) < 4_000 else f"{text[:2_500]}\n...\n{text[-1_400:]}"


def ran(book, events, fills, status):
    """Run a batch; return the error with index and text, and the fills as a list."""
    try:
        return None, book.run(events, fills, status).tolist()
    except (RunRejectedError, FillsFullError) as stop:
        code = stop.code
        return (type(stop).__name__, stop.index, code, str(stop)), stop.fills.tolist()


class Pair:
    """The book under test and the reference, kept in step."""

    def __init__(self, book_class, reference_class, market, seed, label):
        """Create both books, empty, and the flow of commands."""
        self.book, self.reference = market.make(book_class), market.make(reference_class)
        self.flow = Flow(f"{label} {market.name} {seed}", market, self.reference)
        self.about = f"{label}, market {market.name!r}, CLOB_DIFF_SEED={seed}"
        self.done = self.rejected = self.trades = 0
        self.next_hash = HASH_EVERY

    def fork(self, seed):
        """Return a pair of forks with another flow."""
        pair = object.__new__(Pair)
        pair.__dict__ |= self.__dict__
        pair.book, pair.reference = self.book.fork(), self.reference.fork()
        pair.flow = self.flow.fork(seed, pair.reference)
        pair.about = f"{self.about}, fork {seed} after {self.done} operations"
        return pair

    def difference(self, label, got, expected):
        """Describe a difference and how to reproduce it."""
        lines = [f"{self.about}, operation {self.done}: {label}"]
        if isinstance(got, list) and isinstance(expected, list):
            pairs = enumerate(zip(got, expected, strict=False))
            differing = (index for index, (a, b) in pairs if a != b)
            index = next(differing, min(len(got), len(expected)))
            lines.append(f"{len(got)} and {len(expected)} of them, first different at {index}")
            got, expected = got[index : index + 3], expected[index : index + 3]
        return shortened("\n".join([*lines, f"     got {got!r}", f"expected {expected!r}"]))

    def same(self, label, got, expected):
        """Assert that both results are equal."""
        if got != expected:
            raise AssertionError(self.difference(label, got, expected))

    def hash(self):
        """Assert equal states; report the orders that differ."""
        self.same("seq", self.book.seq, self.reference.seq)
        if self.book.state_hash() != self.reference.state_hash():
            self.same("orders", self.book.orders(), self.reference.orders())
            self.same("state bytes", self.book.state_bytes(), self.reference.state_bytes())
            self.same("state hash", self.book.state_hash(), self.reference.state_hash())
        self.book.check()
        self.next_hash = self.done + HASH_EVERY

    def hash_in_time(self):
        """Compare the states every so many operations."""
        if self.done >= self.next_hash:
            self.hash()

    # ----- one at a time -----

    def step(self, call=None):
        """Make one call on both, the next one of the flow unless it is given."""
        call = call or self.flow.call()
        expected, got = outcome(call, self.reference), outcome(call, self.book)
        self.same(call, got, expected)
        # Compare types as well: True equals 1, and a Side equals a number.
        self.same(call, repr(got), repr(expected))
        self.rejected += isinstance(expected, tuple)
        self.trades += sum(type(x) is Trade for x in expected) if isinstance(expected, list) else 0
        self.done += 1
        self.hash_in_time()

    # ----- batches against batches -----

    def batch(self, count):
        """Run a batch on both, with and without status and room for the fills."""
        rng = self.flow.rng
        events = self.flow.records(count)
        # The twin copies itself to predict; do that less often for a deep book.
        share = 60 / (100 + count + len(self.reference))
        with_status, with_room = rng.random() < 0.7, rng.random() < share
        room = rng.choice((0, 1, 2, 5, 40, 2 * count)) if with_room else None
        while len(events):
            stop = self._run_both(events, room, with_status)
            if stop is None:
                break
            kind, index = stop[:2]
            self.done += index
            # The buffer must hold the fills of one event.
            room = None if kind == "FillsFullError" and index == 0 else room
            events = events[index + (kind == "RunRejectedError") :]
            self.rejected += kind == "RunRejectedError"
        self.done += len(events)
        self.hash_in_time()

    def _run_both(self, events, room, with_status):
        """Run the rest of a batch; return the error that stopped it."""
        results = []
        for book in (self.book, self.reference):
            fills = None if room is None else np.zeros(room, FILL)
            status = np.full(len(events) + 2, 99, np.uint8) if with_status else None
            stop, made = ran(book, events, fills, status)
            if fills is not None:
                self.same("fills in the buffer", fills[: len(made)].tolist(), made)
            done = stop[1] if stop else len(events)
            results.append((stop, made, None if status is None else status[:done].tolist()))
            if with_status:
                self.same("status behind the end", status[len(events) :].tolist(), [99, 99])
        (stop, made, status), (expected_stop, expected_made, expected_status) = results
        about = f"run of {len(events)} events, room {room}, "
        self.same(about + "statuses", status, expected_status)
        self.same(about + "fills", made, expected_made)
        self.same(about + "error", stop, expected_stop)
        self.same(about + "names", self._names(self.book, made), self._names(self.reference, made))
        self.trades += len(made)
        self.rejected += sum(map(bool, status or []))
        return stop

    @staticmethod
    def _names(book, fills):
        """Return fills with text ids, also those of departed orders."""
        return [book.id_of(number) for fill in fills for number in fill[1:3] if number >= 2**63]

    # ----- batches against single calls -----

    def batch_against_calls(self, count):
        """Run a batch on the book, and the same commands one at a time on the reference."""
        events = self.flow.records(count)
        status = np.full(count, 99, np.uint8)
        fills = self.book.run(events, status=status).tolist()
        numbers, trades = [], []
        for index, row in enumerate(events.tolist()):
            number, made = self._one(as_call(row, self.book.lot_wei))
            numbers.append(number)
            trades += [(index, x, row[0]) for x in made if isinstance(x, Trade)]
        lot = self.book.lot_wei
        expected = [
            (i, x.resting_order_id, x.incoming_order_id, x.size // lot, x.price, ts_ns)
            for i, x, ts_ns in trades
        ]
        named = [(i, self.book.id_of(r), self.book.id_of(n), *rest) for i, r, n, *rest in fills]
        self.same("fills against trades", named, expected)
        if status.tolist() != numbers:
            index = int((status != numbers).argmax())
            label = f"status of {events[index]!r}: {REJECTIONS.get(numbers[index])}"
            self.same(label, status.tolist(), numbers)
        self.done += count
        self.rejected += sum(map(bool, numbers))
        self.trades += len(trades)
        self.hash_in_time()

    def _one(self, call):
        """Make a call on the reference; return the number of its rejection, and its events."""
        if call is None:
            return 0, []
        if isinstance(call, type):
            return call.number, []
        try:
            return 0, call(self.reference)
        except RejectedError as rejection:
            return rejection.number, []
