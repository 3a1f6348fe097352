"""A synthetic day of a prediction market: valid order flow, with the fills it must produce.

Market makers quote around a probability that drifts, jumps with news and ends at 1 or 99 cents;
visitors take, or leave orders and cancel them later. The fills come from :class:`NaiveMatcher`,
which shares no code with the Book, so that comparing the two is a real test.
"""

import dataclasses
from collections.abc import Sequence
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
    """An order in a queue: its side (0 buy, 1 sell), limit in ticks and remaining size in lots."""

    id: int
    side: int
    price: int
    size: int


class NaiveMatcher:
    """Price-time priority on plain lists, one per price and side. It validates nothing."""

    def __init__(self) -> None:
        self.orders: dict[int, SyntheticOrder] = {}
        """Resting orders by id."""
        self._levels: tuple[dict[int, list[SyntheticOrder]], ...] = ({}, {})

    def best(self, side: int) -> int | None:
        """Return the best price of a side, or None. O(levels)."""
        prices = self._levels[side]
        return (max(prices) if side == BUY else min(prices)) if prices else None

    def crosses(self, side: int, price: int) -> bool:
        """Return whether an order at that price would trade at once."""
        opposite = self.best(1 - side)
        return opposite is not None and (price >= opposite if side == BUY else price <= opposite)

    def rest(self, order: SyntheticOrder) -> None:
        """Add an order at the end of its queue."""
        self.orders[order.id] = order
        self._levels[order.side].setdefault(order.price, []).append(order)

    def match(self, order: SyntheticOrder) -> list[Filled]:
        """Match an incoming order; its ``size`` becomes the unfilled rest."""
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
        """Match an order and rest the unfilled part."""
        fills = self.match(order)
        if order.size:
            self.rest(order)
        return fills

    def cancel(self, order_id: int) -> SyntheticOrder:
        """Remove an order."""
        order = self.orders.pop(order_id)
        queue = self._levels[order.side][order.price]
        queue.remove(order)
        if not queue:
            del self._levels[order.side][order.price]
        return order

    def replace(self, order_id: int, price: int, size: int) -> list[Filled]:
        """Reduce an order in place, or else cancel it and enter it again."""
        order = self.orders[order_id]
        if price == order.price and size < order.size:
            order.size = size
            return []
        self.cancel(order_id)
        return self.enter(dataclasses.replace(order, price=price, size=size))


LOT_WEI = 10**16
"""A hundredth of a token."""

LO, HI = 1, 99
"""The price grid, in cents."""

MAKERS = 8
"""Number of makers that quote, as owners 1 to 8."""

QUOTES = 5
"""Orders that a maker keeps per side."""

FIRST_VISITOR, VISITORS = 100, 400
"""Number of the first visitor, and how many there are."""

VISITOR_ORDERS = 120
"""Visitors' orders that rest before each new one replaces one of them."""

NEWS = 7
"""Approximate number of jumps of the probability."""

POINT = 1_000
"""Steps of the probability in a cent."""

DAY_MS = 24 * 60 * 60 * 1_000
START_MS = 1_767_225_600_000
"""1 January 2026, 00:00 UTC."""

NS_PER_MS = 1_000_000

SAMPLE_ORDERS = 16_000
"""Incoming orders of the packaged sample day."""

WHOLE_SIZES = (1, 2, 5, 10, 10, 20, 25, 50, 100, 100, 250, 500)
"""Usual trade sizes, in tokens."""

Times: TypeAlias = npt.NDArray[np.int64]
"""Times in ns, one per event."""


class Draws:
    """Random integers from a seed, equal on every platform and NumPy version.

    NumPy guarantees the raw bits of a bit generator but not its distributions, hence the modulo.
    """

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def between(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return low + int(self._bits.random_raw()) % (high - low + 1)

    def chance(self, percent: int) -> bool:
        """Return True with a probability in per cent."""
        return self.between(1, 100) <= percent

    def size(self) -> int:
        """Return a size in lots: mostly whole tokens."""
        whole = WHOLE_SIZES[self.between(0, len(WHOLE_SIZES) - 1)] * 100
        return whole + (self.between(1, 99) if self.chance(30) else 0)


class Day:
    """The generator's state."""

    def __init__(self, seed: int, orders: int) -> None:
        """Draw the initial probability and the outcome."""
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

    # ----- probability -------------------------------------------------------------------------

    @property
    def cents(self) -> int:
        """The probability as a price."""
        return min(max((self.fair + POINT // 2) // POINT, LO), HI)

    def drift(self, step: int) -> None:
        """Move the probability: a random step, a jump with news, then a pull to the outcome."""
        self.fair += self.draws.between(-60, 60)
        self.calm += 1
        if self.draws.between(1, self.orders) <= NEWS:
            self.fair += self.draws.between(5, 14) * POINT * (1 - 2 * self.draws.between(0, 1))
            self.calm = 0
        left = self.orders - step
        if left * 5 < self.orders * 2:
            self.fair += (self.outcome - self.fair) * 4 // max(left, 4)
        self.fair = min(max(self.fair, LO * POINT), HI * POINT)

    def price_at(self, side: int, distance: int) -> int:
        """Return a price so many cents from the probability, on the order's own side."""
        price = self.cents - distance if side == BUY else self.cents + distance
        return min(max(price, LO), HI)

    # ----- recording ---------------------------------------------------------------------------

    def event(
        self, kind: Kind, order: SyntheticOrder, fills: Sequence[Filled] = (), *, flags: int = 0
    ) -> None:
        """Record an event and its fills. After news, events follow each other faster."""
        index, owner = len(self.rows), self.owners[order.id]
        row = (index, order.id, order.size, owner, order.price, kind, order.side, flags)
        self.rows.append(row)
        self.fills += [(index, resting, order.id, size, at) for resting, size, at in fills]
        self.gaps.append(self.draws.between(0, 40 if self.calm < 60 else 400))

    def new_id(self, owner: int) -> int:
        """Return the next order id."""
        self.next_id += 1
        self.owners[self.next_id] = owner
        return self.next_id

    def limit(self, owner: int, side: int, price: int, *, post_only: bool = False) -> int:
        """Enter an order that may rest; a post-only price is moved until it does not trade."""
        while post_only and self.matcher.crosses(side, price):
            price += 1 if side == SELL else -1
        if not LO <= price <= HI:
            price, post_only = self.price_at(side, 0), False
        order = SyntheticOrder(self.new_id(owner), side, price, self.draws.size())
        fills = self.matcher.enter(dataclasses.replace(order))
        self.event(Kind.LIMIT, order, fills, flags=Flag.POST_ONLY if post_only else 0)
        return order.id

    def cancel(self, order_id: int) -> None:
        """Cancel an order."""
        order = self.matcher.cancel(order_id)
        self.event(Kind.CANCEL, dataclasses.replace(order, size=0))

    def replace(self, order_id: int, price: int, size: int) -> None:
        """Replace the price or size of an order."""
        order = dataclasses.replace(self.matcher.orders[order_id], price=price, size=size)
        self.event(Kind.REPLACE, order, self.matcher.replace(order_id, price, size))

    def reduce(self, order_id: int) -> None:
        """Reduce an order of two lots or more."""
        order = self.matcher.orders[order_id]
        if order.size >= 2:
            order.size = self.draws.between(1, order.size - 1)
            self.event(Kind.REDUCE, order)

    # ----- makers and visitors -----------------------------------------------------------------

    def resting(self, ids: list[int]) -> list[int]:
        """Remove the orders of a list that have left the book."""
        ids[:] = [order_id for order_id in ids if order_id in self.matcher.orders]
        return ids

    def quote(self) -> None:
        """Add a maker's order, in place of its oldest if it has enough."""
        maker, side = self.draws.between(1, MAKERS), self.draws.between(BUY, SELL)
        mine = self.resting(self.quotes[maker, side])
        if len(mine) >= QUOTES:
            self.cancel(mine.pop(0))
        price = self.price_at(side, self.draws.between(1, 3 + maker))
        mine.append(self.limit(maker, side, price, post_only=self.draws.chance(40)))

    def visitor(self) -> int:
        """Return the number of a random visitor."""
        return FIRST_VISITOR + self.draws.between(0, VISITORS - 1)

    def visit(self) -> None:
        """Add a visitor's order, often far away, sometimes through the market."""
        owner = self.visitor()
        side = self.draws.between(BUY, SELL)
        price = self.price_at(side, self.draws.between(-2, 15))
        self.visiting.append(self.limit(owner, side, price))
        if len(self.resting(self.visiting)) > VISITOR_ORDERS:
            self.cancel(self.visiting.pop(self.draws.between(0, VISITOR_ORDERS)))

    def take(self) -> None:
        """Take liquidity as a visitor, preferring mispriced orders."""
        owner = self.visitor()
        side = self.draws.between(BUY, SELL)
        if self.matcher.crosses(BUY, self.cents - 1):
            side = BUY
        elif self.matcher.crosses(SELL, self.cents + 1):
            side = SELL
        price = self.price_at(side, -self.draws.between(0, 3))
        order = SyntheticOrder(self.new_id(owner), side, price, self.draws.size())
        self.event(Kind.IOC, order, self.matcher.match(dataclasses.replace(order)))

    def adjust_quotes(self) -> None:
        """Move or cancel a maker's quotes that the market has left behind, or resize one."""
        maker, side = self.draws.between(1, MAKERS), self.draws.between(BUY, SELL)
        mine = self.resting(self.quotes[maker, side])
        for order_id in list(mine):
            distance = abs(self.matcher.orders[order_id].price - self.cents)
            if distance > 6 + maker and self.draws.chance(50):
                self.replace(order_id, self.price_at(side, 2), self.draws.size())
            elif distance > 6 + maker:
                self.cancel(order_id)
        if self.resting(mine):
            self.resize(mine[self.draws.between(0, len(mine) - 1)])

    def resize(self, order_id: int) -> None:
        """Reduce an order, or replace it with another size at its price."""
        order = self.matcher.orders[order_id]
        if self.draws.chance(50):
            self.reduce(order_id)
        else:
            self.replace(order_id, order.price, self.draws.size())

    # ----- the day -----------------------------------------------------------------------------

    def opening_orders(self) -> list[tuple[int, ...]]:
        """Return the seed: a few orders of the previous day at every price nearby."""
        rows: list[tuple[int, ...]] = []
        for side in (BUY, SELL):
            for distance in range(1, 16):
                for _ in range(self.draws.between(1, 3)):
                    owner = self.visitor()
                    price, size = self.price_at(side, distance), self.draws.size()
                    order = SyntheticOrder(self.new_id(owner), side, price, size)
                    self.matcher.rest(order)
                    self.visiting.append(order.id)
                    rows.append((len(rows), order.id, size, owner, price, Kind.SEED, side, 0))
        return rows

    def generate(self) -> None:
        """Generate the events of the day."""
        for step in range(self.orders):
            self.drift(step)
            choice = self.draws.between(1, 100)
            if choice <= 55:
                self.quote()
            elif choice <= 72:
                self.visit()
            else:
                self.take()
            if self.draws.chance(25):
                self.adjust_quotes()


def synthetic_day(seed: int = 1, orders: int = 20_000) -> Recording:
    """Generate a synthetic day.

    Args:
        seed: 0 or more; equal seeds give equal days on every machine.
        orders: incoming orders, 1 or more. Cancels, reductions and replacements come in addition,
            about as many again.

    Returns:
        The day on cents 1 to 99, in lots of a hundredth of a token, from 00:00 to 24:00 UTC in
        milliseconds. None of its events is rejected, and ``fills`` are those of a plain matcher.

    Raises:
        ValueError: an argument is out of range.

    >>> day = synthetic_day(seed=7, orders=100)
    >>> int((day.events["kind"] <= Kind.CLEAR).sum()) == len(day.events)
    True
    """
    if seed < 0 or orders < 1:
        raise ValueError(f"seed must be 0 or more and orders 1 or more; got {seed} and {orders}")
    day = Day(seed, orders)
    seed_rows = day.opening_orders()
    day.generate()
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
    """Return the path of the packaged sample: ``synthetic_day(orders=SAMPLE_ORDERS)``."""
    return Path(__file__).with_name("sample.npz")


def _times_ns(gaps: list[int]) -> Times:
    """Spread the events over the day, in milliseconds."""
    passed = np.cumsum(gaps, dtype=np.int64)
    return (START_MS + passed * (DAY_MS - 1) // max(int(passed[-1]), 1)) * NS_PER_MS


def _events(rows: list[tuple[int, ...]], times_ns: Times) -> Records:
    """Convert recorded rows to an array of ``EVENT``."""
    events = np.zeros(len(rows), EVENT)
    events[["seq", "order_id", "size", "owner", "price", "kind", "side", "flags"]] = rows
    events["ts_ns"] = events["recv_ns"] = times_ns
    return events
