"""Keeps the synthetic orders of levels and writes the events that change their sizes."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import numpy as np

from clob.records import EVENT, EventRow, Flag, Kind
from clob.replay.io.files import FilePath
from clob.replay.io.problems import Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import INVENTED_ID
from clob.replay.readers.l2.trades import (
    NO_SIDE,
    Key,
    LevelChange,
    Moment,
    PairedMoment,
    TradePairing,
)

LevelRule: TypeAlias = Literal["tail", "pro-rata", "head"]
"""Which orders of a level are cancelled when it shrinks without a trade."""

RULES = ("tail", "pro-rata", "head")

BLOCK_ROWS = 1 << 14
"""Approximate number of events per block."""

ORDERS_MAX = 256
"""Maximum number of orders at a level; a further order is merged with the youngest."""

INCOMING_ID = INVENTED_ID + 2**40
"""The first id of incoming orders."""

REPORTED_NS = 2**62
"""Start time of a crossing that was reported: it never exceeds the window again."""

Order: TypeAlias = list[int]
"""Id and remaining size in lots."""


class Levels:
    """Converts the moments of one reading to events, with the orders of all levels of all books.

    Args:
        lo: the lowest price of the grid, in ticks.
        hi: the highest price of the grid, in ticks.
        rule: which orders are cancelled when a level shrinks without a trade.
        window_ns: maximum time between a trade and the decrease it explains, and how long a level
            may cross the other side before it is a problem. Events are delayed by this time, so
            memory holds the updates of one window.
        file: the file, for reports.
        problems: receives crossed levels and remarks on conclusions.

    Raises:
        ValueError: the rule is unknown.
    """

    def __init__(
        self,
        *,
        lo: int,
        hi: int,
        rule: LevelRule = "tail",
        window_ns: int = 0,
        file: FilePath = "",
        problems: Problems | None = None,
    ) -> None:
        if rule not in RULES:
            raise ValueError(f"level rule must be one of {', '.join(RULES)}; got {rule!r}")
        self._lo, self._rule, self._window_ns, self._file = lo, rule, window_ns, file
        self._problems = problems if problems is not None else Problems()
        self._pairing = TradePairing(lo, hi, window_ns)
        self._out: list[EventRow] = []
        self._queues: dict[tuple[int, int], dict[int, list[Order]]] = {}
        self._held: dict[Key, tuple[int, int, int]] = {}
        self._next_id = INVENTED_ID
        self._next_incoming = INCOMING_ID
        self._ts_ns = self._line = 0

    # ----- moments -----------------------------------------------------------------------------

    def events(self, moments: Iterable[Moment]) -> Iterator[Records]:
        """Convert all moments.

        Args:
            moments: in order of time; the time of an earlier one is raised to that before it.

        Yields:
            Arrays of ``EVENT``.

        Raises:
            ReplayFormatError: levels cross and the policy is ``"raise"``.
        """
        waiting: deque[PairedMoment] = deque()
        latest = -(2**63)
        for moment in moments:
            latest = max(latest, moment.ts_ns)
            waiting.append(self._pairing.add(moment._replace(ts_ns=latest)))
            while waiting[0].moment.ts_ns + self._window_ns < latest:
                self._apply(waiting.popleft())
            if len(self._out) >= BLOCK_ROWS:
                yield self._flush()
        for paired in waiting:
            self._apply(paired)
        for key, (_, since_ns, line) in self._held.items():
            if since_ns < REPORTED_NS:
                self._report_crossed(key, line)
        yield self._flush()

    def _flush(self) -> Records:
        events = np.array(self._out, EVENT)
        self._out.clear()
        return events

    def _apply(self, paired: PairedMoment) -> None:
        """Write the events of a moment whose window has passed."""
        moment = paired.moment
        self._ts_ns, self._line = moment.ts_ns, moment.line
        if self._held:
            self._expire()
        for instrument in moment.reset:
            self._clear(instrument)
        sizes = {step.key: step.size for step in paired.steps}
        for step in sorted(paired.steps, key=_sequence):
            for size in step.traded:
                self._trade(step.key, size)
            self._held.pop(step.key, None)
            self._shrink(step.key, sizes[step.key])
        for key, size in sizes.items():
            self._grow(key, size - self._size(key), reset=key[0] in moment.reset)
        if self._held:
            self._retry()
        for one in paired.trades:
            if one.left and one.trade.reported:
                self._problems.remark("trade without a level change")
                instrument, side, price, _, _ = one.trade
                key = (instrument, 0 if side == NO_SIDE else 1 - side, price)
                self._emit(Kind.TRADE, 0, key, one.left)
        for best in paired.bests:
            self._emit(Kind.BBO, 0, best[:3], best.size)
        for instrument, price in moment.outcomes:
            self._emit(Kind.SETTLE, 0, (instrument, 0, price), 0)

    def _clear(self, instrument: int) -> None:
        gone = [self._queues.pop((instrument, side), None) for side in (0, 1)]
        for key in [key for key in self._held if key[0] == instrument]:
            del self._held[key]
        if any(gone):
            self._emit(Kind.CLEAR, 0, (instrument, 0, self._lo), 0)

    def _trade(self, key: Key, size: int) -> None:
        """Fill orders at the head of a level with an incoming order.

        Where better-priced orders remain, no incoming order can have come that far: the venue
        reported late, or the better level is not tradable. Then the trade is a record.
        """
        queue = self._queues.get(key[:2], {}).get(key[2], [])
        fills = list(_from(queue, size))
        if not fills:
            return
        total = sum(filled for _, filled in fills)
        if self._is_behind(key):
            self._problems.remark("trade at a price behind the best")
            self._emit(Kind.TRADE, 0, key, total)
            left = {order[0]: order[1] for order in queue[: len(fills)]}
            for order_id, _ in fills:
                rests = left[order_id]
                self._emit(Kind.REDUCE if rests else Kind.CANCEL, order_id, key, rests)
        else:
            instrument, side, price = key
            self._emit(Kind.IOC, self._next_incoming, (instrument, 1 - side, price), total)
            self._next_incoming += 1
            for order_id, filled in fills:
                self._emit(Kind.FILL, order_id, key, filled, 0)
        self._prune(key)

    def _is_behind(self, key: Key) -> bool:
        """Return whether an order of the same side rests at a better price."""
        instrument, side, price = key
        prices = self._queues[instrument, side]
        return min(prices) < price if side else max(prices) > price

    def _size(self, key: Key) -> int:
        queues = self._queues.get(key[:2], {})
        return sum(order[1] for order in queues.get(key[2], ()))

    def _shrink(self, key: Key, left: int) -> None:
        """Cancel or reduce orders of a level by the rule, down to a size."""
        size = self._size(key) - left
        if size <= 0:
            return
        queue = self._queues[key[:2]][key[2]]
        if self._rule == "pro-rata":
            before = [order[1] for order in queue]
            _share(queue, size)
            changed = [order for order, had in zip(queue, before, strict=True) if order[1] < had]
        else:
            ends = queue if self._rule == "head" else queue[::-1]
            touched = {order_id for order_id, _ in _from(ends, size)}
            changed = [order for order in queue if order[0] in touched]
        for order_id, rests in changed:
            self._emit(Kind.REDUCE if rests else Kind.CANCEL, order_id, key, rests)
        self._prune(key)

    def _prune(self, key: Key) -> None:
        queues = self._queues[key[:2]]
        kept = [order for order in queues[key[2]] if order[1]]
        if kept:
            queues[key[2]] = kept
        else:
            del queues[key[2]]

    def _grow(self, key: Key, size: int, *, reset: bool) -> None:
        """Rest a new order at the tail of a level, unless it crosses the other side."""
        if size <= 0:
            return
        if self._crosses(key):
            self._problems.remark("level held back because it crosses the other side")
            self._held[key] = (size, self._ts_ns, self._line)
            return
        queue = self._queues.setdefault(key[:2], {}).setdefault(key[2], [])
        if len(queue) >= ORDERS_MAX:
            order_id, left = queue.pop()
            self._emit(Kind.CANCEL, order_id, key, 0)
            size += left
        kind, flags = (
            (Kind.SEED, Flag.SNAPSHOT | Flag.SYNTHETIC) if reset else (Kind.LIMIT, Flag.SYNTHETIC)
        )
        self._emit(kind, self._next_id, key, size, flags)
        queue.append([self._next_id, size])
        self._next_id += 1

    # ----- levels that cross -------------------------------------------------------------------

    def _crosses(self, key: Key) -> bool:
        instrument, side, price = key
        others = self._queues.get((instrument, 1 - side))
        if not others:
            return False
        return price <= max(others) if side else price >= min(others)

    def _expire(self) -> None:
        """Report levels that have crossed for longer than the window, once each."""
        for key, (size, since_ns, line) in self._held.items():
            if since_ns + self._window_ns < self._ts_ns:
                self._held[key] = (size, REPORTED_NS, line)
                self._report_crossed(key, line)

    def _retry(self) -> None:
        """Rest the levels that no longer cross."""
        for key, (size, _, _) in list(self._held.items()):
            if not self._crosses(key):
                del self._held[key]
                self._grow(key, size, reset=False)

    def _report_crossed(self, key: Key, line: int) -> None:
        instrument, side, price = key
        others = self._queues[instrument, 1 - side]
        own, other = ("ask", "bid") if side else ("bid", "ask")
        best = max(others) if side else min(others)
        text = f"{own} {price} crosses {other} {best} (ticks) of instrument {instrument}"
        self._problems.report("crossed book", text, self._file, line)

    def _emit(
        self, kind: Kind, order_id: int, key: Key, size: int, flags: int = Flag.SYNTHETIC
    ) -> None:
        """Append an event; records of the source are not synthetic."""
        instrument, side, price = key
        if kind >= Kind.TRADE:
            flags = 0
        now = self._ts_ns, self._ts_ns, self._line
        rest = order_id, size, 0, price, instrument, kind, side, int(flags)
        self._out.append(EventRow(*now, *rest))


def _sequence(step: LevelChange) -> tuple[int, int]:
    """Sort key for the decreases of a moment: better prices first."""
    _, side, price = step.key
    return side, price if side else -price


def _from(orders: list[Order], size: int) -> Iterator[tuple[int, int]]:
    """Take a size from orders in sequence; yield the id and the taken size of each."""
    for order in orders:
        if not size:
            return
        taken = min(size, order[1])
        order[1] -= taken
        size -= taken
        yield order[0], taken


def _share(orders: list[Order], size: int) -> None:
    """Take a size from orders by their shares, the remainder from the youngest."""
    total = sum(order[1] for order in orders)
    rest = size
    for order in orders:
        taken = size * order[1] // total
        order[1] -= taken
        rest -= taken
    # Each of these has a lot left, since its share was rounded down and is below its size.
    for order in orders[len(orders) - rest :]:
        order[1] -= 1
