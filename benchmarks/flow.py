"""Generator of synthetic order flow, in plain Python, with a book so that every cancel is valid.

Orders rest near a middle price that wanders between 25 and 75. Cancels pick any resting order with
equal probability, the worst case for a CPU cache.
"""

import random  # noqa: TID251 - seeded, the same draws every time
from collections import deque
from dataclasses import dataclass

ADD, CANCEL = 0, 1
BUY, SELL = 0, 1
NO_BID, NO_ASK = 0, 100
LOTS_MAX = 100
COLUMNS = {"op": "u1", "side": "u1", "price": "u1", "size": "u8", "order_id": "u4"}


@dataclass(frozen=True)
class Mix:
    """Parameters of a stream: length, depth, shares of crossing and adding events, seed."""

    num_timed: int
    depth: int
    crossing: float
    adding: float
    seed: int


class Flow:
    """Generates a stream and keeps its book, so that a cancel always has an order.

    The book is a queue of ids and a count of resting orders per price. An order with no size left
    stays in its queue and is skipped.
    """

    def __init__(self, mix: Mix) -> None:
        self.mix = mix
        self.rng = random.Random(mix.seed)
        self.rows: dict[str, list[int]] = {name: [] for name in COLUMNS}
        self.queues = [[deque() for _ in range(101)] for _ in (BUY, SELL)]
        self.counts = [[0] * 101 for _ in (BUY, SELL)]
        self.best = [NO_BID, NO_ASK]
        self.middle = 50.0
        self.side: list[int] = []
        self.price: list[int] = []
        self.left: list[int] = []
        self.live: list[int] = []
        self.place: list[int] = []

    def make(self) -> int:
        """Fill the book to its depth and hold it there; return the number of filling rows."""
        while len(self.live) < self.mix.depth:
            self.passive()
        prefill = len(self.rows["op"])
        while len(self.rows["op"]) < prefill + self.mix.num_timed:
            self.step()
        return prefill

    def step(self) -> None:
        """Add one event: a crossing order, a resting order or a cancel."""
        mix, draw = self.mix, self.rng.random
        both = self.best[BUY] != NO_BID and self.best[SELL] != NO_ASK
        if draw() < mix.crossing and both:
            side = BUY if draw() < 0.5 else SELL
            size = self.rng.randint(1, LOTS_MAX)
            at_market = draw() < 0.5
            market = 99 if side == BUY else 1
            self.add(side, market if at_market else self.best[1 - side], size)
            return
        missing = (mix.depth - len(self.live)) / max(200.0, mix.depth * 0.01)
        adding = min(1.0, max(0.0, mix.adding / (1 - mix.crossing) + 0.5 * missing))
        if draw() < adding or not self.live:
            self.passive()
        else:
            self.cancel(self.live[int(draw() * len(self.live))])

    def passive(self) -> None:
        """Add a resting order; its distance from the wandering middle is exponential."""
        draw, between = self.rng.random, self.rng.randint
        self.middle = min(75.0, max(25.0, self.middle + (draw() - 0.5) * 0.02))
        side = BUY if draw() < 0.5 else SELL
        distance = int(self.rng.expovariate(0.25))
        bid, ask = self.best
        if side == BUY:
            touch = min(int(self.middle), ask - 1)
            price = touch - distance
        else:
            touch = max(int(self.middle) + 1, bid + 1)
            price = touch + distance
        if price < 1:
            price = between(1, max(1, min(touch, 98)))
        if price > 99:
            price = between(min(max(touch, 2), 99), 99)
        price = min(price, ask - 1) if side == BUY else max(price, bid + 1)
        if 1 <= price <= 99:
            self.add(side, price, between(1, LOTS_MAX))

    def add(self, side: int, price: int, size: int) -> None:
        """Record an order, match it, and rest the remaining size."""
        number = len(self.price)
        self.record(ADD, side, price, size, number)
        self.side.append(side)
        self.price.append(price)
        self.left.append(0)
        self.place.append(-1)
        other, best = 1 - side, self.best
        while size and (price >= best[SELL] if side == BUY else NO_BID < best[BUY] >= price):
            size = self.match_level(other, best[other], size)
            self.update_best(other)
        if not size:
            return
        self.left[number] = size
        self.place[number] = len(self.live)
        self.live.append(number)
        self.queues[side][price].append(number)
        self.counts[side][price] += 1
        best[side] = max(best[side], price) if side == BUY else min(best[side], price)

    def match_level(self, side: int, price: int, size: int) -> int:
        """Trade against one price level; return the remaining size of the incoming order."""
        queue, left = self.queues[side][price], self.left
        while size and queue:
            head = queue[0]
            traded = min(left[head], size)
            size -= traded
            left[head] -= traded
            if left[head]:
                break
            queue.popleft()
            if traded:
                self.remove_live(head)
        return size

    def cancel(self, number: int) -> None:
        """Record a cancel; the order stays in its queue with size 0."""
        side = self.side[number]
        self.record(CANCEL, side, self.price[number], 0, number)
        self.left[number] = 0
        self.remove_live(number)
        self.update_best(side)

    def remove_live(self, number: int) -> None:
        """Remove an order from the list of resting orders in constant time."""
        place, last = self.place[number], self.live.pop()
        if last != number:
            self.live[place] = last
            self.place[last] = place
        self.counts[self.side[number]][self.price[number]] -= 1

    def update_best(self, side: int) -> None:
        """Move the best price of a side to the next one with a resting order."""
        counts, step, price = self.counts[side], (-1, 1)[side], self.best[side]
        while NO_BID < price < NO_ASK and not counts[price]:
            price += step
        self.best[side] = price

    def record(self, *row: int) -> None:
        """Append one event."""
        for column, value in zip(self.rows.values(), row, strict=True):
            column.append(value)
