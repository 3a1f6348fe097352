"""A made-up day of a prediction market: valid order flow, and the fills that must come of it.

Nothing in it is recorded from anywhere. Makers quote around a probability that drifts, jumps with
the news and ends at 1 or 99 cents; others take, or leave orders and come back for them.
"""

import dataclasses
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from clob.records import EVENT, FILL, Flag, Kind
from clob.replay.io.recording import Recording, Records

BUY, SELL = 0, 1

Filled: TypeAlias = tuple[int, int, int]
"""Id of the resting order, size in lots, price in ticks."""


@dataclasses.dataclass
class SyntheticOrder:
    """An order in a queue."""

    id: int
    """The order."""
    side: int
    """0 buy, 1 sell."""
    price: int
    """Its limit, in ticks."""
    size: int
    """What remains of it, in lots."""


class NaiveMatcher:
    """Price-time priority on plain lists, one for each price of each side. It checks nothing."""

    def __init__(self) -> None:
        """Begin empty."""
        self.orders: dict[int, SyntheticOrder] = {}
        """The resting orders by their id."""
        self._levels: tuple[dict[int, list[SyntheticOrder]], ...] = ({}, {})

    def best(self, side: int) -> int | None:
        """Find the best price of a side, or None. O(levels)."""
        prices = self._levels[side]
        return (max(prices) if side == BUY else min(prices)) if prices else None

    def crosses(self, side: int, price: int) -> bool:
        """Tell whether an order at that price would trade at once."""
        opposite = self.best(1 - side)
        return opposite is not None and (price >= opposite if side == BUY else price <= opposite)

    def rest(self, order: SyntheticOrder) -> None:
        """Put an order last in its queue."""
        self.orders[order.id] = order
        self._levels[order.side].setdefault(order.price, []).append(order)

    def match(self, order: SyntheticOrder) -> list[Filled]:
        """Trade an incoming order; what is left of it is its ``size`` afterwards."""
        fills = []
        while order.size and self.crosses(order.side, order.price):
            price = self.best(1 - order.side)
            assert price is not None
            first = self._levels[1 - order.side][price][0]
            size = min(first.size, order.size)
            first.size -= size
            order.size -= size
            fills.append((first.id, size, price))
            if not first.size:
                self.cancel(first.id)
        return fills

    def enter(self, order: SyntheticOrder) -> list[Filled]:
        """Match an order and rest what is left."""
        fills = self.match(order)
        if order.size:
            self.rest(order)
        return fills

    def cancel(self, order_id: int) -> SyntheticOrder:
        """Take an order out."""
        order = self.orders.pop(order_id)
        queue = self._levels[order.side][order.price]
        queue.remove(order)
        if not queue:
            del self._levels[order.side][order.price]
        return order

    def replace(self, order_id: int, price: int, size: int) -> list[Filled]:
        """Shrink an order where it stands, or else bring it in again."""
        order = self.orders[order_id]
        if price == order.price and size < order.size:
            order.size = size
            return []
        self.cancel(order_id)
        return self.enter(dataclasses.replace(order, price=price, size=size))


LOT_WEI = 10**16
"""A hundredth of a token."""

LO, HI = 1, 99
"""The grid, in cents."""

MAKERS = 8
"""How many makers quote, as owners 1 to 8."""

QUOTES = 5
"""How many orders a maker keeps on a side."""

FIRST_VISITOR, VISITORS = 100, 400
"""The owners of all other orders, beginning with 100."""

VISITOR_ORDERS = 120
"""How many orders of visitors rest before one of them is taken out for each that comes."""

NEWS = 7
"""How often the probability jumps, about."""

POINT = 1_000
"""Steps of the probability in a cent."""

DAY_MS = 24 * 60 * 60 * 1_000
START_MS = 1_767_225_600_000
"""The first of January 2026, 00:00 UTC."""

NS_PER_MS = 1_000_000

SAMPLE_ORDERS = 16_000
"""How many orders come in on the day that is bundled."""

WHOLE_SIZES = (1, 2, 5, 10, 10, 20, 25, 50, 100, 100, 250, 500)
"""What people trade, in tokens."""

Times: TypeAlias = npt.NDArray[np.int64]
"""Times in ns, one for each event."""


class Draws:
    """Integers drawn from a seed, the same everywhere.

    NumPy keeps the raw bits of a bit generator the same for ever, but not what its
    distributions make of them; hence the remainders.
    """

    def __init__(self, seed: int) -> None:
        """Begin from a seed."""
        self._bits = np.random.PCG64(seed)

    def between(self, low: int, high: int) -> int:
        """Draw from low to high, both included."""
        return low + int(self._bits.random_raw()) % (high - low + 1)

    def chance(self, percent: int) -> bool:
        """Draw yes or no."""
        return self.between(1, 100) <= percent

    def size(self) -> int:
        """Draw a size in lots: often whole tokens, sometimes not."""
        whole = WHOLE_SIZES[self.between(0, len(WHOLE_SIZES) - 1)] * 100
        return whole + (self.between(1, 99) if self.chance(30) else 0)


class Day:
    """The day while it is being made up."""

    def __init__(self, seed: int, orders: int) -> None:
        """Draw the morning's probability and the outcome."""
        self.draws: Draws = Draws(seed)
        self.orders = orders
        self.matcher: NaiveMatcher = NaiveMatcher()
        self.rows: list[tuple[int, ...]] = []
        self.fills: list[tuple[int, ...]] = []
        self.gaps: list[int] = []
        self.next_id: int = 1
        self.fair: int = self.draws.between(40, 60) * POINT
        self.outcome: int = (LO, HI)[self.draws.between(0, 1)] * POINT
        self.calm: int = 0
        self.quotes: dict[tuple[int, int], list[int]] = {
            (maker, side): [] for maker in range(1, MAKERS + 1) for side in (BUY, SELL)
        }
        self.visiting: list[int] = []
        self.owners: dict[int, int] = {}

    # ----- the world ---------------------------------------------------------------------------

    @property
    def cents(self) -> int:
        """The probability as a price."""
        return min(max((self.fair + POINT // 2) // POINT, LO), HI)

    def drift(self, step: int) -> None:
        """Move the probability: a little always, far with the news, to the outcome at last."""
        self.fair += self.draws.between(-60, 60)
        self.calm += 1
        if self.draws.between(1, self.orders) <= NEWS:
            self.fair += self.draws.between(5, 14) * POINT * (1 - 2 * self.draws.between(0, 1))
            self.calm = 0
        left = self.orders - step
        if left * 5 < self.orders * 2:
            self.fair += (self.outcome - self.fair) * 4 // max(left, 4)
        self.fair = min(max(self.fair, LO * POINT), HI * POINT)

    def away(self, side: int, distance: int) -> int:
        """Price an order so many cents on its own side of the probability."""
        price = self.cents - distance if side == BUY else self.cents + distance
        return min(max(price, LO), HI)

    # ----- taking down -------------------------------------------------------------------------

    def event(
        self,
        kind: Kind,
        order_id: int,
        *,
        side: int = 0,
        price: int = 0,
        size: int = 0,
        owner: int = 0,
        flags: int = 0,
        fills: list[Filled] | None = None,
    ) -> None:
        """Take down an event and what came of it. News makes everybody quick."""
        index = len(self.rows)
        self.rows.append((index, order_id, size, owner, price, kind, side, flags))
        self.fills += [(index, resting, order_id, size, at) for resting, size, at in fills or ()]
        self.gaps.append(self.draws.between(0, 40 if self.calm < 60 else 400))

    def new_id(self, owner: int) -> int:
        """Number the next order."""
        self.next_id += 1
        self.owners[self.next_id] = owner
        return self.next_id

    def limit(self, owner: int, side: int, price: int, *, post_only: bool = False) -> int:
        """Enter an order that may rest. A post-only one steps back until it does not trade."""
        while post_only and self.matcher.crosses(side, price):
            price += 1 if side == SELL else -1
        if not LO <= price <= HI:
            price, post_only = self.away(side, 0), False
        order_id, size = self.new_id(owner), self.draws.size()
        fills = self.matcher.enter(SyntheticOrder(order_id, side, price, size))
        flags = Flag.POST_ONLY if post_only else 0
        self.event(
            Kind.LIMIT,
            order_id,
            side=side,
            price=price,
            size=size,
            owner=owner,
            flags=flags,
            fills=fills,
        )
        return order_id

    def cancel(self, order_id: int) -> None:
        """Take an order out."""
        order = self.matcher.cancel(order_id)
        self.event(
            Kind.CANCEL,
            order_id,
            side=order.side,
            price=order.price,
            owner=self.owners[order_id],
        )

    def replace(self, order_id: int, price: int, size: int) -> None:
        """Give an order another price or size."""
        side = self.matcher.orders[order_id].side
        fills = self.matcher.replace(order_id, price, size)
        self.event(
            Kind.REPLACE,
            order_id,
            side=side,
            price=price,
            size=size,
            owner=self.owners[order_id],
            fills=fills,
        )

    def reduce(self, order_id: int) -> None:
        """Make an order smaller, if it can be."""
        order = self.matcher.orders[order_id]
        if order.size < 2:
            return
        order.size = self.draws.between(1, order.size - 1)
        self.event(
            Kind.REDUCE,
            order_id,
            side=order.side,
            price=order.price,
            size=order.size,
            owner=self.owners[order_id],
        )

    # ----- who does what -----------------------------------------------------------------------

    def resting(self, ids: list[int]) -> list[int]:
        """Forget the orders of a list that left the book."""
        ids[:] = [order_id for order_id in ids if order_id in self.matcher.orders]
        return ids

    def quote(self) -> None:
        """A maker adds an order, in place of its oldest if it has enough."""
        maker, side = self.draws.between(1, MAKERS), self.draws.between(BUY, SELL)
        mine = self.resting(self.quotes[maker, side])
        if len(mine) >= QUOTES:
            self.cancel(mine.pop(0))
        price = self.away(side, self.draws.between(1, 3 + maker))
        mine.append(self.limit(maker, side, price, post_only=self.draws.chance(40)))

    def visit(self) -> None:
        """A visitor leaves an order, often far away, at times right through the market."""
        owner = FIRST_VISITOR + self.draws.between(0, VISITORS - 1)
        side = self.draws.between(BUY, SELL)
        price = self.away(side, self.draws.between(-2, 15))
        self.visiting.append(self.limit(owner, side, price))
        if len(self.resting(self.visiting)) > VISITOR_ORDERS:
            self.cancel(self.visiting.pop(self.draws.between(0, VISITOR_ORDERS)))

    def take(self) -> None:
        """A visitor takes what is there, preferring what is priced wrongly."""
        owner = FIRST_VISITOR + self.draws.between(0, VISITORS - 1)
        side = self.draws.between(BUY, SELL)
        if self.matcher.crosses(BUY, self.cents - 1):
            side = BUY
        elif self.matcher.crosses(SELL, self.cents + 1):
            side = SELL
        price = self.away(side, -self.draws.between(0, 3))
        order_id, size = self.new_id(owner), self.draws.size()
        fills = self.matcher.match(SyntheticOrder(order_id, side, price, size))
        self.event(Kind.IOC, order_id, side=side, price=price, size=size, owner=owner, fills=fills)

    def tend(self) -> None:
        """A maker goes after its quotes that the market left behind, or resizes one."""
        maker, side = self.draws.between(1, MAKERS), self.draws.between(BUY, SELL)
        mine = self.resting(self.quotes[maker, side])
        for order_id in list(mine):
            distance = abs(self.matcher.orders[order_id].price - self.cents)
            if distance > 6 + maker and self.draws.chance(50):
                self.replace(order_id, self.away(side, 2), self.draws.size())
            elif distance > 6 + maker:
                self.cancel(order_id)
        if self.resting(mine):
            self.resize(mine[self.draws.between(0, len(mine) - 1)])

    def resize(self, order_id: int) -> None:
        """Reduce an order, or replace it by a larger or smaller one at its price."""
        order = self.matcher.orders[order_id]
        if self.draws.chance(50):
            self.reduce(order_id)
        else:
            self.replace(order_id, order.price, self.draws.size())

    # ----- the day -----------------------------------------------------------------------------

    def open(self) -> list[tuple[int, ...]]:
        """Rest what is left from the day before: a few orders at every price near by."""
        rows: list[tuple[int, ...]] = []
        for side in (BUY, SELL):
            for distance in range(1, 16):
                for _ in range(self.draws.between(1, 3)):
                    owner = FIRST_VISITOR + self.draws.between(0, VISITORS - 1)
                    order = SyntheticOrder(
                        self.new_id(owner), side, self.away(side, distance), self.draws.size()
                    )
                    self.matcher.rest(order)
                    self.visiting.append(order.id)
                    rows.append(
                        (len(rows), order.id, order.size, owner, order.price, Kind.SEED, side, 0)
                    )
        return rows

    def live(self) -> None:
        """Let every order of the day come in, and people tend to what rests."""
        for step in range(self.orders):
            self.drift(step)
            who = self.draws.between(1, 100)
            if who <= 55:
                self.quote()
            elif who <= 72:
                self.visit()
            else:
                self.take()
            if self.draws.chance(25):
                self.tend()


def synthetic_day(seed: int = 1, orders: int = 20_000) -> Recording:
    """Make up a day.

    Args:
        seed: 0 or more; the same seed gives the same day on every machine.
        orders: how many orders come in, 1 or more. Cancels, reductions and replacements come on
            top, about as many again.

    Returns:
        The day on cents 1 to 99, in lots of a hundredth of a token, from 00:00 to 24:00 UTC in
        milliseconds. No event of it is refused, and ``fills`` are those of a plain matcher.

    Raises:
        ValueError: one of them is out of range.

    >>> day = synthetic_day(seed=7, orders=100)
    >>> int((day.events["kind"] <= Kind.CLEAR).sum()) == len(day.events)
    True
    """
    if seed < 0 or orders < 1:
        raise ValueError(f"seed must be 0 or more and orders 1 or more, not {seed} and {orders}")
    day = Day(seed, orders)
    seed_rows = day.open()
    day.live()
    times_ns = _times_ns(day.gaps)
    fills = np.zeros(len(day.fills), FILL)
    fills[["event", "resting_id", "incoming_id", "size", "price"]] = day.fills
    fills["ts_ns"] = times_ns[fills["event"]]
    return Recording(
        events=_events(day.rows, times_ns),
        seed=_events(seed_rows, np.full(len(seed_rows), START_MS * NS_PER_MS)),
        fills=fills,
        lo=LO,
        hi=HI,
        lot_wei=LOT_WEI,
        name=f"synthetic day {seed}",
        note="made up, not recorded; its fills are those of a plain matcher",
    )


def sample_path() -> Path:
    """Name the bundled recording, ``synthetic_day(orders=SAMPLE_ORDERS)``, for ``read_npz``."""
    return Path(__file__).with_name("sample.npz")


def _times_ns(gaps: list[int]) -> Times:
    """Spread the events over the day, to the millisecond."""
    passed = np.cumsum(gaps, dtype=np.int64)
    return (START_MS + passed * (DAY_MS - 1) // max(int(passed[-1]), 1)) * NS_PER_MS


def _events(rows: list[tuple[int, ...]], times_ns: Times) -> Records:
    """Turn what was taken down into records."""
    events = np.zeros(len(rows), EVENT)
    events[["seq", "order_id", "size", "owner", "price", "kind", "side", "flags"]] = rows
    events["ts_ns"] = events["recv_ns"] = times_ns
    return events


# MERGED clob.replay.samples.synthetic: A matcher as plain as can be, by which the synthetic day knows which fills are right.
#
# It shares no line with the Book, so that comparing the two means something.
