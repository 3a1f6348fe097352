"""A book under random commands: the invariants hold after each.

Method: hypothesis draws single calls and batches over few prices and few ids, so that orders match
and ids collide. A model that gets only the events, like a subscriber of the feed, must have the
book's depth, queues and orders after every command. A batch has no events; it must have the same
effect as the same commands one at a time on a fork.
"""

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from clob import (
    Order,
    OrderReduced,
    RejectedError,
    RemovalReason,
    RunRejectedError,
    Side,
    TimeInForce,
    Trade,
)
from clob.book import _book_py as python
from clob.errors import (
    DuplicateOrderError,
    FokNotFillableError,
    OrderExpiredError,
    PostOnlyWouldCrossError,
    SeedWouldCrossError,
    SizeNotReducedError,
    UnknownOrderError,
)
from clob.records import EVENT, Kind
from clob.testing.strategies import (
    HI,
    LO,
    START_S,
    ids,
    lots,
    orders,
    pauses_ms,
    policies,
    prices,
)
from tests.flow import TOKEN, Call, as_call
from tests.property.model import Model
from tests.strategies import rows

try:
    from clob.book import _book_c as compiled
except ImportError:
    compiled = None


class BookMachine(RuleBasedStateMachine):
    """One book, its model, and the time."""

    book_class = None

    @initialize(lot_wei=st.sampled_from([1, 10, 2**40]), capacity=st.sampled_from([0, 1, 100]))
    def start(self, lot_wei, capacity):
        self.lot_wei = lot_wei
        self.book = self.book_class(LO, HI, TOKEN, lot_wei, capacity, "m")
        self.model = Model()
        self.now_ms = START_S * 1_000

    # ----- one at a time -----

    @rule(data=st.data())
    def submit(self, data):
        self.perform(Call("submit", (data.draw(orders(self.lot_wei, token=TOKEN)), self.now_ms)))

    @rule(several=st.lists(orders(token=TOKEN), min_size=2, max_size=5))
    def submit_several(self, several):
        for order in several:
            sized = msgspec.structs.replace(order, size=order.size * self.lot_wei)
            self.perform(Call("submit", (sized, self.now_ms)))

    @rule(data=st.data())
    def rest(self, data):
        self.perform(Call("rest", (data.draw(orders(self.lot_wei, token=TOKEN)), self.now_ms)))

    @rule(data=st.data(), reason=st.sampled_from(RemovalReason))
    def cancel(self, data, reason):
        self.perform(Call("cancel", (self.an_id(data), self.now_ms, reason)))

    @rule(data=st.data(), size=lots)
    def reduce(self, data, size):
        self.perform(Call("reduce", (self.an_id(data), size * self.lot_wei, self.now_ms)))

    @rule(data=st.data(), price=prices, size=lots, post_only=st.booleans(), policy=policies)
    def replace(self, data, price, size, post_only, policy):
        size *= self.lot_wei
        arguments = (self.an_id(data), price, size, self.now_ms, post_only, policy)
        self.perform(Call("replace", arguments))

    def an_id(self, data):
        """Draw an id, usually of a resting order."""
        resting = list(self.model.resting)
        return data.draw(
            st.sampled_from(resting) | st.sampled_from(resting) | ids if resting else ids
        )

    @rule(pause_ms=pauses_ms, sweep=st.sampled_from([False, False, False, False, True]))
    def wait(self, pause_ms, sweep):
        # Expired orders stay until a sweep or a match removes them.
        self.now_ms += pause_ms
        if sweep:
            self.perform(Call("expire", (self.now_ms,)))

    @precondition(lambda self: len(self.book) > 8)
    @rule(reason=st.sampled_from(RemovalReason))
    def clear(self, reason):
        self.perform(Call("clear", (reason,)))

    # ----- batches -----

    @rule(rows=st.lists(rows(), min_size=1, max_size=6))
    def run(self, rows):
        events = self.array(rows)
        shadow = self.book.fork()
        results = [self.shadow(shadow, row) for row in events.tolist()]
        status = np.full(len(events), 99, np.uint8)
        fills = self.book.run(events, status=status)
        assert status.tolist() == [number for number, _ in results]
        trades = [
            (i, x.resting_order_id, x.incoming_order_id, x.size // self.lot_wei, x.price)
            for i, (_, made) in enumerate(results)
            for x in made
            if type(x) is Trade
        ]
        assert [
            (i, self.book.id_of(r), self.book.id_of(n), size, price)
            for i, r, n, size, price, _ in fills.tolist()
        ] == trades
        assert self.book.state_hash() == shadow.state_hash()

    @rule(rows=st.lists(rows(kind=st.just(Kind.SEED)), min_size=1, max_size=4))
    def seed(self, rows):
        events = self.array(rows)
        shadow = self.book.fork()
        for index, row in enumerate(events.tolist()):
            number, _ = self.shadow(shadow, row)
            if number:
                with pytest.raises(RunRejectedError) as caught:
                    self.book.seed(events)
                assert caught.value.index == index
                break
        else:
            assert self.book.seed(events) == len(events)
        assert self.book.state_hash() == shadow.state_hash()

    def array(self, rows):
        """Return rows as records, with numbers for text ids and the time."""
        events = np.zeros(len(rows), EVENT)
        for event, row in zip(events, rows, strict=True):
            order_id = row["order_id"]
            if isinstance(order_id, str):
                known = order_id in self.book
                row = row | {"order_id": self.book.number_of(order_id) if known else 2**63 + 1}
            for name, value in (row | {"ts_ns": self.now_ms * 1_000_000}).items():
                event[name] = value
        return events

    def shadow(self, shadow, row):
        """Execute a record on a fork; return its status and its events."""
        call = as_call(row, self.lot_wei)
        if call is None:
            return 0, []
        if isinstance(call, type):
            return call.number, []
        done = self.perform(call, shadow)
        return (done.number, []) if isinstance(done, RejectedError) else (0, done)

    # ----- simulate and fork -----

    @rule(data=st.data())
    def simulate(self, data):
        order = data.draw(orders(self.lot_wei, token=TOKEN))
        before, fork = self.book.state_bytes(), self.book.fork()
        try:
            expected = [x for x in fork.submit(order, self.now_ms) if type(x) is Trade]
        except RejectedError as rejection:
            with pytest.raises(type(rejection)):
                self.book.simulate(order, self.now_ms)
        else:
            assert self.book.simulate(order, self.now_ms) == expected
        assert self.book.state_bytes() == before

    @rule(data=st.data(), keep=st.booleans())
    def fork(self, data, keep):
        before, other = self.book.state_bytes(), self.book.fork()
        assert other.state_bytes() == before
        # Change one of the two, and continue with the other one.
        self.book, stray = (self.book, other) if keep else (other, self.book)
        for order in data.draw(st.lists(orders(self.lot_wei, token=TOKEN), max_size=2)):
            try:
                stray.submit(order, self.now_ms)
            except RejectedError:
                continue
        stray.clear()
        stray.check()
        assert self.book.state_bytes() == before

    # ----- invariants -----

    @invariant()
    def model_equals_the_book(self):
        depth = self.book.depth()
        assert (depth.market, depth.token) == ("m", TOKEN)
        assert depth.bids == self.model.levels(Side.BUY)
        assert depth.asks == self.model.levels(Side.SELL)
        assert self.book.orders() == self.model.orders()
        assert len(self.book) == len(self.model.resting)

    @invariant()
    def never_crossed(self):
        bid, ask = self.book.best_bid, self.book.best_ask
        assert bid is None or ask is None or bid < ask

    @invariant()
    def seq_has_no_gaps(self):
        assert self.book.seq == self.book.depth().seq == self.model.seq

    @invariant()
    def every_wei_is_accounted_for(self):
        model, resting = self.model, sum(order.remaining for order in self.book.orders())
        accounted = resting + 2 * model.traded + model.removed + model.dropped
        assert model.submitted == accounted

    @invariant()
    def book_check_passes(self):
        self.book.check()

    # ----- one call and its model -----

    def perform(self, call, book=None):
        """Make a call; apply the events to the model, or check and return the rejection."""
        book = self.book if book is None else book  # an empty book is false
        before = book.state_bytes()
        try:
            events = call(book)
        except RejectedError as rejection:
            assert book.state_bytes() == before, "a rejected command changed the book"
            self.judge(call, type(rejection))
            return rejection
        getattr(self, f"check_{call.method}")(events, *call.arguments)
        return events

    def check_submit(self, events, order, now_ms):
        self.model.apply_order(events, order, now_ms // 1_000)

    def check_rest(self, events, order, now_ms):
        self.model.apply_rest(events, order)

    def check_cancel(self, events, order_id, now_ms, reason=RemovalReason.CANCELLED):
        self.model.apply_removals(events, reason, [self.named(order_id, events)])

    def check_reduce(self, events, order_id, size, now_ms):
        self.model.apply_reduction(events, self.named(order_id, events), size)

    def check_replace(self, events, order_id, price, size, now_ms, post_only, policy):
        order_id = self.named(order_id, events)
        old = self.model.resting[order_id]
        if type(events[0]) is OrderReduced and len(events) == 1:
            assert price == old.price
            self.model.apply_reduction(events, order_id, size)
            return
        assert price != old.price or size >= old.remaining, "it lost its place without a reason"
        renewed = Order(
            id=order_id,
            token=TOKEN,
            maker=old.maker,
            side=old.side,
            price=price,
            size=size,
            expiration_s=old.expiration_s,
            post_only=post_only,
            self_trade=policy,
        )
        self.model.apply_removals(events[:1], RemovalReason.REPLACED, [order_id])
        self.model.apply_order(events[1:], renewed, now_ms // 1_000)

    def check_expire(self, events, now_ms):
        now_s = now_ms // 1_000
        due = [x.order_id for x in self.model.orders() if 0 < x.expiration_s < now_s]
        self.model.apply_removals(events, RemovalReason.EXPIRED, due)

    def check_clear(self, events, reason=RemovalReason.CANCELLED):
        self.model.apply_removals(events, reason, [x.order_id for x in self.model.orders()])

    def named(self, order_id, events):
        """Return the id of an order named by id or number."""
        if isinstance(order_id, int) and order_id >= 2**63:
            assert isinstance(events[0].order_id, str)
            return events[0].order_id
        return order_id

    def judge(self, call, error):
        """Assert that a rejection was correct, if the model can decide."""
        subject, now_s = call.arguments[0], self.now_ms // 1_000
        resting = self.model.resting
        if error is DuplicateOrderError:
            assert subject.id in resting
        elif error is UnknownOrderError:
            assert subject not in resting
        elif error is SizeNotReducedError and subject in resting:
            assert call.arguments[1] >= resting[subject].remaining
        elif error is OrderExpiredError:
            expiring = resting.get(subject) if call.method == "replace" else subject
            assert expiring is None or 0 < expiring.expiration_s < now_s
        elif error is SeedWouldCrossError:
            assert self.model.meets(subject)
        elif error is PostOnlyWouldCrossError and call.method == "submit":
            assert subject.post_only
            assert self.model.alive_against(subject, now_s)
        elif error is FokNotFillableError:
            self.judge_fok(subject, now_s)

    def judge_fok(self, order, now_s):
        """Assert that a fill-or-kill order could not trade its whole size."""
        assert order.time_in_force is TimeInForce.FOK
        assert self.model.tradable(order, now_s) < order.size


class PythonMachine(BookMachine):
    book_class = python.Book


class CompiledMachine(BookMachine):
    book_class = compiled.Book if compiled else None


TestPythonBook = PythonMachine.TestCase
TestCompiledBook = pytest.mark.skipif(not compiled, reason="the compiled Book is not built")(
    CompiledMachine.TestCase
)
