"""The batch interface of the plain-Python Book: executes arrays of records, writes fills to arrays.

Sizes in records are lots; the queues work in wei.
"""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from clob import errors, records
from clob.book import validation
from clob.book._matching_py import QueuedOrder
from clob.book._queries_py import Views, alone
from clob.book.validation import check_advance, check_arrays, check_seed
from clob.events import RemovalReason
from clob.order import SelfTrade, Side, maker_of
from clob.records import LOTS_MAX, SELF_TRADE_SHIFT, EventRow, Flag, Kind
from clob.units import SIZE_MAX

if TYPE_CHECKING:
    from clob.book.validation import Records, Status

# A plain integer, since inverting a Flag drops the bits it does not know.
KNOWN_FLAGS = int(Flag.POST_ONLY | Flag.FOK | Flag.SELF_TRADE | Flag.SNAPSHOT | Flag.SYNTHETIC)
REFERENCE_KINDS = frozenset({Kind.TRADE, Kind.FILL, Kind.BBO, Kind.SETTLE})


class Command(EventRow):
    """One event to execute."""

    __slots__ = ()

    @property
    def now_s(self) -> int:
        return self.ts_ns // 1_000_000_000

    @property
    def policy(self) -> SelfTrade:
        return SelfTrade((self.flags & Flag.SELF_TRADE) >> SELF_TRADE_SHIFT)


class FillWriter:
    """Collects the trades of a run as rows of ``FILL``."""

    def __init__(self, book: "Views", buffer: "Records | None") -> None:
        """``buffer`` receives the rows; None creates a new array."""
        self.book = book
        self.buffer = buffer
        self.room = None if buffer is None else len(buffer)
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        self.index = 0
        self.base = 0
        self.ts_ns = 0

    def trade(self, resting: QueuedOrder, incoming: QueuedOrder, size: int) -> None:
        lots = size // self.book.lot_wei
        ids = (resting.number, incoming.number)
        self.rows.append((self.base + self.index, *ids, lots, resting.price, self.ts_ns))

    def departure(self, order: QueuedOrder) -> None:
        """Keep the text id of an order that left, for ``id_of``."""
        if isinstance(order.id, str):
            self.book._departed[order.number] = order.id

    def reserve(self, trades: int) -> None:
        """Raise ``FillsFullError`` if the trades of the next event do not fit."""
        if self.room is not None and len(self.rows) + trades > self.room:
            raise errors.FillsFullError(self.index, self.array())

    def execute(self, index: int, row: Command, status: "Status | None") -> None:
        """Execute one event; write its status or, without a status array, raise a rejection."""
        self.index, self.ts_ns = index, row.ts_ns
        number = 0
        try:
            execute(self.book, row)
        except errors.RejectedError as rejection:
            if status is None:
                raise errors.RunRejectedError(index, rejection.code, self.array()) from None
            number = rejection.number
        if status is not None:
            status[index] = number

    def array(self) -> "Records":
        """Return the rows as an array, at the start of the buffer if one was passed."""
        import numpy as np  # noqa: PLC0415 - only where arrays are used

        if self.buffer is None:
            return np.array(self.rows, dtype=records.FILL)
        self.buffer[: len(self.rows)] = self.rows
        return self.buffer[: len(self.rows)]


def run(
    book: "Views", events: "Records", fills: "Records | None", status: "Status | None"
) -> "Records":
    """Execute events one by one; see :meth:`clob.Book.run`."""
    events, fills, status = check_arrays(events, fills, status)
    book._departed.clear()
    writer = book._listener = FillWriter(book, fills)
    try:
        for index, fields in enumerate(events.tolist()):
            writer.execute(index, Command(*fields), status)
    finally:
        book._listener = None
    return writer.array()


# ----- a range of events -------------------------------------------------------------------


class EventRange(NamedTuple):
    """The events to execute and what ends the range; see :meth:`BatchMethods.advance`."""

    base: int
    instrument: int | None
    watch: int
    passes: bool
    verify: bool
    start: int
    stop: int | None
    until_ns: int | None

    def contains(self, index: int, events: "Records") -> bool:
        """Return whether the range extends to this event, given all events before it."""
        if index >= (len(events) if self.stop is None else self.stop):
            return False
        if self.instrument is not None and events["instrument"][index] != self.instrument:
            return False
        return self.until_ns is None or int(events["ts_ns"][index]) <= self.until_ns


RangeArguments: TypeAlias = tuple[int, int | None, int, bool, bool, int, int | None, int | None]
"""The fields of an ``EventRange``, in order."""


class PreparedArrays(NamedTuple):
    """Arrays that ``_lend`` has checked, for many calls of ``_proceed``."""

    events: "Records"
    fills: "Records"
    status: "Status | None"
    bests: "Records | None"
    kinds: "Status | None"
    differs: "Status | None"


class RangeWriter(FillWriter):
    """Collects the trades of a range, and decides after each event whether they end it."""

    def __init__(
        self, book: "Views", buffer: "Records", arrays: PreparedArrays, span: EventRange
    ) -> None:
        """``buffer`` is the unused part of the fills in ``arrays``."""
        super().__init__(book, buffer)
        self.base = span.base
        self.watched = maker_of(span.watch)
        self.recorded = arrays.events
        self.differs = arrays.differs
        self.passes = span.passes
        self.verify = span.verify
        self.hit = False
        self.ends = False

    def trade(self, resting: QueuedOrder, incoming: QueuedOrder, size: int) -> None:
        super().trade(resting, incoming, size)
        if self.watched and resting.maker == self.watched:
            self.hit = True
            self.ends |= not self.passes

    def check(self, first: int, kind: int) -> None:
        """Decide whether an event ends the range; its trades are the rows from ``first`` on."""
        if kind == Kind.CLEAR and self.watched:
            self.hit = self.ends = True
        if (not self.verify and self.differs is None) or kind in REFERENCE_KINDS:
            return
        fills = [(row[1], row[3], row[4]) for row in self.rows[first:]]
        index = self.index + 1
        expected = []
        while index < len(self.recorded) and self.recorded["kind"][index] == Kind.FILL:
            expected.append(self.recorded[["order_id", "size", "price"]][index].item())
            index += 1
        if fills == expected:
            return
        if self.differs is not None:
            self.differs[self.index] = 1
        if self.verify:
            self.hit = self.ends = True


Top: TypeAlias = tuple[int, int, int, int]
"""Size at the best bid and ask in lots, and the two prices, as in ``BEST``."""


class BestWriter:
    """Writes changes of the best prices as rows of ``BEST``."""

    def __init__(self, book: "Views", buffer: "Records | None") -> None:
        """``buffer`` receives the rows; None writes none."""
        self.book = book
        self.buffer = buffer
        self.count = 0
        self.top = self.read()

    @property
    def full(self) -> bool:
        """Whether the buffer has no room for another row."""
        return self.buffer is not None and self.count == len(self.buffer)

    def read(self) -> Top:
        (bid_size, bid), (ask_size, ask) = (self.best(side) for side in Side)
        return bid_size, ask_size, bid, ask

    def best(self, side: Side) -> tuple[int, int]:
        """Return the size at the best price of a side, in lots, and the price."""
        levels = self.book._sides[side]
        if not levels:
            return 0, self.book.lo - 1 if side is Side.BUY else self.book.hi + 1
        price, queue = levels.peekitem(0)
        lots = sum(order.remaining for order in queue.values()) // self.book.lot_wei
        return min(lots, LOTS_MAX), price

    def write_change(self, index: int, row: Command) -> None:
        """Write a row if an event changed the best prices."""
        if self.buffer is None or (top := self.read()) == self.top:
            return
        self.top = top
        self.buffer[self.count] = (index, row.ts_ns, *top, row.instrument)
        self.count += 1


def execute_range(
    book: "Views",
    arrays: PreparedArrays,
    fill_count: int,
    best_count: int,
    best_limit: int | None,
    span: EventRange,
) -> tuple[int, int, int, bool]:
    """Execute a range of events; see :meth:`BatchMethods._proceed`."""
    events, fills, status, bests, kinds, _ = arrays
    validation.check_range(len(events), span.start, span.stop, span.until_ns)
    validation.check_filters(span.watch, span.instrument, span.base, span.passes, span.verify)
    best_room = 0 if bests is None else len(bests)
    validation.check_counts(fill_count, len(fills), best_count, best_room, best_limit)
    if bests is not None:
        last = None if best_limit is None else best_count + best_limit
        bests = None if best_limit == 0 else bests[best_count:last]
    book._departed.clear()
    writer = book._listener = RangeWriter(book, fills[fill_count:], arrays, span)
    best_writer = BestWriter(book, bests)
    index = span.start
    try:
        while span.contains(index, events) and not writer.ends and not best_writer.full:
            row = Command(*events[index].item())
            first = len(writer.rows)
            writer.execute(index, row, status)
            best_writer.write_change(span.base + index, row)
            writer.check(first, row.kind)
            index += 1
    except errors.FillsFullError:
        pass  # the caller sees it from the end index
    finally:
        book._listener = None
        if kinds is not None:
            kinds[span.start : index] = events["kind"][span.start : index]
    return index, fill_count + len(writer.array()), best_count + best_writer.count, writer.hit


# ----- one event ---------------------------------------------------------------------------


def execute(book: "Views", row: Command) -> None:
    """Execute one event, or raise its rejection."""
    match row.kind:
        case Kind.LIMIT | Kind.IOC | Kind.SEED:
            _enter(book, row)
        case Kind.CANCEL:
            book._remove(book._find(row.order_id), RemovalReason.CANCELLED, [])
        case Kind.REDUCE:
            size = _size(book, row)
            book._reduce(book._find(row.order_id), size)
        case Kind.REPLACE:
            _replace(book, row)
        case Kind.CLEAR:
            book._remove_all(list(book._queued()), RemovalReason.CANCELLED)
        case kind if kind not in REFERENCE_KINDS:
            raise errors.InvalidKindError(
                f"kind must be one that run executes or skips; got {kind}"
            )


def _enter(book: "Views", row: Command) -> None:
    _check_flags(row)
    if row.side > 1:
        raise errors.InvalidSideError(f"side must be 0 or 1; got {row.side}")
    validation.check_new_id(row.order_id)
    validation.check_owner(row.owner)
    validation.check_price(row.price, book.lo, book.hi)
    size = _size(book, row)
    incoming = QueuedOrder(row.order_id, maker_of(row.owner), Side(row.side), row.price, size, 0)
    rests = row.kind != Kind.IOC and not row.flags & Flag.FOK
    if rests:
        book._reject_duplicate(row.order_id)
    if row.kind == Kind.SEED:
        book._reject_seed(incoming)
        book._add(incoming, [])
        return
    if row.flags & Flag.POST_ONLY:
        book._reject_post_only(incoming, row.now_s)
    if row.flags & Flag.FOK:
        book._reject_unfillable(incoming, row.policy, row.now_s)
    book._execute(incoming, row.policy, row.now_s, rests=rests)


def _replace(book: "Views", row: Command) -> None:
    _check_flags(row)
    validation.check_price(row.price, book.lo, book.hi)
    size = _size(book, row)
    post_only = bool(row.flags & Flag.POST_ONLY)
    order = book._find(row.order_id)
    book._replace(order, row.price, size, row.now_s, post_only=post_only, policy=row.policy)


def _check_flags(row: Command) -> None:
    """Check that flags are known and do not contradict the kind or each other."""
    if row.flags & ~KNOWN_FLAGS:
        raise errors.InvalidInstructionError(
            f"flags must be within {KNOWN_FLAGS:#x}; got {row.flags:#x}"
        )
    if (row.flags & Flag.SELF_TRADE) >> SELF_TRADE_SHIFT > max(SelfTrade):
        raise errors.InvalidInstructionError(
            f"flags must hold a self-trade policy from 0 to 4; got {row.flags:#x}"
        )
    must_rest = row.flags & Flag.POST_ONLY or row.kind in (Kind.SEED, Kind.REPLACE)
    if must_rest and (row.flags & Flag.FOK or row.kind == Kind.IOC):
        raise errors.InvalidInstructionError(f"kind {row.kind} does not allow flags {row.flags:#x}")


def _size(book: "Views", row: Command) -> int:
    """Return the size of an event in wei."""
    if row.size <= 0:
        raise errors.InvalidAmountError(f"size must be 1 lot or more; got {row.size}")
    if row.size * book.lot_wei > SIZE_MAX:
        raise errors.AmountTooLargeError(
            f"size must be at most {SIZE_MAX // book.lot_wei} lots; got {row.size}"
        )
    return row.size * book.lot_wei


# ----- the methods -------------------------------------------------------------------------


class BatchMethods(Views):
    """The methods of a Book that execute records."""

    @alone
    def run(
        self, events: "Records", fills: "Records | None" = None, status: "Status | None" = None
    ) -> "Records":
        """Execute a batch of records.

        A rejected event changes nothing. With a status array the run continues after it; without
        one it stops there, and earlier events keep their effect. The compiled book releases the
        GIL; until it returns, every other call raises ``BookBusyError``.

        Args:
            events: array of ``EVENT``. ``LIMIT``, ``IOC``, ``CANCEL``, ``REDUCE``, ``REPLACE``,
                ``CLEAR`` and ``SEED`` are executed; ``TRADE``, ``FILL``, ``BBO`` and ``SETTLE`` are
                skipped. Sizes in lots.
            fills: array of ``FILL`` to write to; None creates one.
            status: array of ``uint8`` to write to: 0 if the event was executed or skipped, else
                the ``number`` of the error.

        Returns:
            The fills, in order; the first rows of ``fills`` if it was passed.

        Raises:
            InvalidArrayError: an array has the wrong type, dtype, layout or length.
            RunRejectedError: an event was rejected and there is no status array; the error has
                index, code and fills.
            FillsFullError: the fills of an event do not fit; it was not executed. Continue with
                ``run(events[index:])``.

        An event is rejected, in this order, with ``INVALID_KIND``, ``INVALID_INSTRUCTION``
        (flags), ``INVALID_SIDE``, ``INVALID_ORDER_ID``, ``INVALID_OWNER``,
        ``PRICE_OUT_OF_RANGE``, ``INVALID_AMOUNT``, ``AMOUNT_TOO_LARGE``, ``ORDER_EXPIRED``,
        ``DUPLICATE_ORDER``, ``UNKNOWN_ORDER``, ``SIZE_NOT_REDUCED``,
        ``POST_ONLY_WOULD_CROSS``, ``SEED_WOULD_CROSS``, ``FOK_NOT_FILLABLE``.
        """
        return run(self, events, fills, status)

    @alone
    def advance(
        self,
        events: "Records",
        fills: "Records",
        *,
        status: "Status | None" = None,
        bests: "Records | None" = None,
        kinds: "Status | None" = None,
        differs: "Status | None" = None,
        base: int = 0,
        instrument: int | None = None,
        watch: int = 0,
        passes: bool = False,
        verify: bool = False,
        start: int = 0,
        stop: int | None = None,
        until_ns: int | None = None,
    ) -> tuple[int, int, int, bool]:
        """Execute a range of a batch, as far as time and room allow.

        Events are executed and rejected as by :meth:`run`. The range ends:

        - after event ``stop - 1``, or before the first event later than ``until_ns``;
        - before an event of another ``instrument``;
        - before an event whose fills do not fit into ``fills``, or if ``bests`` is full;
        - after an event that filled a resting order of ``watch``, or cleared the book while
          ``watch`` is set;
        - with ``verify``, after a command whose fills differ from the recorded ones.

        Args:
            events: array of ``EVENT``.
            fills: array of ``FILL`` to write to; its field ``event`` is the index in ``events``
                plus ``base``.
            status: as for :meth:`run`; only executed events are written.
            bests: array of ``BEST`` to write to, a row for each event that changed a best price
                or its size; None writes none.
            kinds: array of ``uint8`` to write to, at least as long as events: the kind of each
                event executed or skipped, so not of one that is rejected without ``status``;
                None writes none.
            differs: array of ``uint8`` to write to, at least as long as events: 1 for each
                command whose fills differ from the recorded ones, as for ``verify``; other items
                stay unchanged. None writes none.
            base: number of the first event in ``fills`` and ``bests``.
            instrument: the instrument of this book; None accepts all events.
            watch: an owner; 0 is none.
            passes: fills of ``watch`` are reported but do not end the range.
            verify: end after a command whose fills differ in order, resting order, size or price
                from the ``FILL`` events that follow it, even beyond ``stop``.
            start: index of the first event.
            stop: index after the last event; None is the end of ``events``.
            until_ns: the latest time; None is no limit.

        Returns:
            Index of the first event not executed, rows written to ``fills`` and to ``bests``, and
            whether ``watch`` or ``verify`` ended the range or ``passes`` let a fill pass.

        Raises:
            InvalidArrayError: an array has the wrong type, dtype, layout or length.
            ValueError: a number is out of range.
            RunRejectedError: an event was rejected and there is no status array; the error has
                index, code and fills.
        """
        arrays = PreparedArrays(*check_advance(events, fills, status, bests, kinds, differs))
        span = EventRange(base, instrument, watch, passes, verify, start, stop, until_ns)
        return execute_range(self, arrays, 0, 0, None, span)

    @staticmethod
    def _lend(
        events: "Records",
        fills: "Records",
        *,
        status: "Status | None" = None,
        bests: "Records | None" = None,
        kinds: "Status | None" = None,
        differs: "Status | None" = None,
    ) -> PreparedArrays:
        """Check the arrays of :meth:`advance` once for many calls of :meth:`_proceed`.

        Any book may use the result. It holds the memory of the arrays.
        """
        return PreparedArrays(*check_advance(events, fills, status, bests, kinds, differs))

    @alone
    def _proceed(
        self,
        arrays: PreparedArrays,
        fill_count: int,
        best_count: int,
        best_limit: int | None,
        /,
        *span: *RangeArguments,
    ) -> tuple[int, int, int, bool]:
        """Execute a range as :meth:`advance` does, with arrays from :meth:`_lend`.

        Rows are written after the first ``fill_count`` and ``best_count`` ones, and the result
        counts those as well. ``best_limit`` is the number of new rows of ``bests`` after which the
        range ends; 0 writes none, None is the room in the array.
        """
        if type(arrays) is not PreparedArrays:
            raise TypeError(f"arrays must come from _lend; got {type(arrays).__name__}")
        return execute_range(self, arrays, fill_count, best_count, best_limit, EventRange(*span))

    @alone
    def seed(self, events: "Records") -> int:
        """Rest a batch of orders without matching.

        Args:
            events: array of ``EVENT``, all of kind ``SEED``.

        Returns:
            The number of orders, all of which rest.

        Raises:
            InvalidArrayError: the array has the wrong type, dtype or layout.
            InvalidKindError: an event is not of kind ``SEED``; no event was executed.
            RunRejectedError: an event was rejected as by :meth:`run`; earlier events keep
                their effect.
        """
        events = check_seed(events)
        run(self, events, None, None)
        return len(events)
