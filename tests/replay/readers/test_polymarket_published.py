"""A simulated venue: its published messages are read back as the original order flow."""

import json
import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from clob import Book, Order, Side, Trade
from clob.records import Kind
from clob.replay import backtest
from clob.replay.readers.polymarket import read_polymarket
from tests.replay.readers.polymarket_messages import LOT, NO, YES, T, book, change, trade

WORDS = ("BUY", "SELL")


def sizes_of(depth):
    """Return the sizes of all levels, by side and price."""
    return {
        (side, level.price): level.size
        for side, levels in enumerate((depth.bids, depth.asks))
        for level in levels
    }


def cents(price):
    return f"{price / 100:.2f}"


class Venue:
    """A YES book and the messages that Polymarket would send for both tokens."""

    def __init__(self, *, in_books):
        self.book, self.ms, self.next_id = Book(lo=1, hi=99), T, 1
        self.in_books = in_books
        self.messages = [book(T), book(T, NO)]
        self.traded = 0

    def order(self, side, price, size):
        """Submit an order and publish its effects."""
        before = sizes_of(self.book.depth())
        order = Order(
            id=self.next_id, token="", maker=str(self.next_id), side=side, price=price, size=size
        )
        self.next_id += 1
        self.publish(before, self.book.submit(order))

    def cancel(self, number):
        """Cancel one of the orders, if it rests."""
        if number in self.book:
            before = sizes_of(self.book.depth())
            self.publish(before, self.book.cancel(number))

    def publish(self, before, events):
        """Publish changed levels, as changes or after trades as books, and trades by level."""
        self.ms += 3000
        trades = [event for event in events if isinstance(event, Trade)]
        sold = defaultdict(int)
        for one in trades:
            sold[one.price, one.incoming_side] += one.size
        after = sizes_of(self.book.depth())
        changed = sorted(
            at for at in before.keys() | after.keys() if before.get(at) != after.get(at)
        )
        if trades and self.in_books:
            told = [self.whole(after), self.whole(after, NO)]
        else:
            told = [change(self.ms, *self.rows(at, after)) for at in changed]
        # The resting part is published first, as the venue does.
        for (price, side), size in sold.items():
            told.append(trade(self.ms, WORDS[side], cents(price), str(size)))
            self.traded += size
        self.messages += told

    def whole(self, after, token=YES):
        """Return the complete book, from the view of YES or NO."""
        sides = [[], []]
        for (side, price), size in after.items():
            seen = (side, price) if token == YES else (1 - side, 100 - price)
            sides[seen[0]].append((cents(seen[1]), str(size)))
        return book(self.ms, token, *sides)

    def rows(self, at, after):
        """Return the change of a level for both tokens, with the best prices."""
        side, price = at
        bids = [each for which, each in after if which == 0]
        asks = [each for which, each in after if which == 1]
        bid, ask = max(bids, default=0), min(asks, default=100)
        size = str(after.get(at, 0))
        yield YES, WORDS[side], cents(price), size, cents(bid), cents(ask)
        yield NO, WORDS[1 - side], cents(100 - price), size, cents(100 - ask), cents(100 - bid)


@st.composite
def venues(draw):
    """Generate a venue after some orders and cancels."""
    venue = Venue(in_books=draw(st.booleans()))
    for _ in range(draw(st.integers(1, 25))):
        if draw(st.integers(0, 3)):
            side = draw(st.sampled_from([Side.BUY, Side.SELL]))
            venue.order(side, draw(st.integers(45, 55)), draw(st.integers(1, 9)))
        else:
            venue.cancel(draw(st.integers(1, venue.next_id)))
    return venue


@given(venues(), st.sampled_from(["tail", "pro-rata", "head"]))
def test_published_messages_are_read_back(venue, rule):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "dump.jsonl")
        path.write_text("".join(json.dumps(message) + "\n" for message in venue.messages))
        stream = read_polymarket(path, level_rule=rule)
        result = backtest(stream)
        events = next(stream.chunks(10**6), None)
    assert result.check is None or result.check.ok
    assert result.divergence.total == 0
    assert set(stream.problems.remarks) <= {"book that includes a trade"}
    last = sizes_of(venue.book.depth())
    assert {at: size // 10**12 for at, size in sizes_of(result.books[0].depth()).items()} == {
        at: size * LOT for at, size in last.items()
    }
    assert {at: size // 10**12 for at, size in sizes_of(result.books[1].depth()).items()} == {
        (1 - side, 100 - price): size * LOT for (side, price), size in last.items()
    }
    for number in (0, 1):
        filled = events[(events["kind"] == Kind.FILL) & (events["instrument"] == number)]["size"]
        assert filled.sum() == venue.traded * LOT
