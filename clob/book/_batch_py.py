"""The batch door of the plain-Python Book, as its callers see it; ``_run_py`` does the work."""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from clob import records
from clob.book import validation
from clob.book._matching_py import QueuedOrder
from clob.book._queries_py import Views, alone
from clob.book.validation import check_advance, check_arrays, check_seed
from clob.errors import (
    AmountTooLargeError,
    FillsFullError,
    InvalidAmountError,
    InvalidInstructionError,
    InvalidKindError,
    InvalidSideError,
    RejectedError,
    RunRejectedError,
)
from clob.events import RemovalReason
from clob.order import SelfTrade, Side, maker_of
from clob.records import LOTS_MAX, SELF_TRADE_SHIFT, EventRow, Flag, Kind
from clob.units import SIZE_MAX

if TYPE_CHECKING:
    from clob.book._queries_py import Views
    from clob.book.validation import Records, Status


# A plain integer: inverting a Flag would forget the bits it does not know.
KNOWN_FLAGS = int(Flag.POST_ONLY | Flag.FOK | Flag.SELF_TRADE | Flag.SNAPSHOT | Flag.SYNTHETIC)
REFERENCE_KINDS = frozenset({Kind.TRADE, Kind.FILL, Kind.BBO, Kind.SETTLE})


class EventRow(EventRow):
    """One event, and what its fields mean."""

    __slots__ = ()

    @property
    def now_s(self) -> int:
        """The second of the event."""
        return self.ts_ns // 1_000_000_000

    @property
    def policy(self) -> SelfTrade:
        """The self-trade policy in its flags."""
        return SelfTrade((self.flags & Flag.SELF_TRADE) >> SELF_TRADE_SHIFT)


class FillWriter:
    """Takes down the trades of a run as rows of ``FILL``."""

    def __init__(self, book: "Views", buffer: "Records | None") -> None:
        """Remember whose lots they are, and where the rows are to go; None is anywhere."""
        self.book = book
        self.buffer = buffer
        self.room = None if buffer is None else len(buffer)
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        self.index = 0
        self.base = 0
        self.ts_ns = 0

    def trade(self, resting: QueuedOrder, incoming: QueuedOrder, size: int) -> None:
        """Take down one trade."""
        lots = size // self.book.lot_wei
        ids = (resting.number, incoming.number)
        self.rows.append((self.base + self.index, *ids, lots, resting.price, self.ts_ns))

    def departure(self, order: QueuedOrder) -> None:
        """Remember the text id of an order that left, for ``id_of``."""
        if isinstance(order.id, str):
            self.book._departed[order.number] = order.id

    def reserve(self, trades: int) -> None:
        """Stop the run before an event whose trades do not fit."""
        if self.room is not None and len(self.rows) + trades > self.room:
            raise FillsFullError(self.index, self.array())

    def array(self) -> "Records":
        """Give the rows as an array, at the head of the caller's buffer if there is one."""
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
    writer = book._recorder = FillWriter(book, fills)
    try:
        for index, fields in enumerate(events.tolist()):
            row = EventRow(*fields)
            writer.index, writer.ts_ns = index, row.ts_ns
            refusal = _attempt(book, row)
            if status is not None:
                status[index] = refusal.number if refusal else 0
            elif refusal:
                raise RunRejectedError(index, refusal.code, writer.array())
    finally:
        book._recorder = None
    return writer.array()


# ----- a stretch of events -----------------------------------------------------------------


class Stretch(NamedTuple):
    """Which of some events are to be executed."""

    start: int
    """Index of the first."""
    stop: int
    """Index behind the last."""
    until_ns: int | None
    """They end before the first one that is later than this; None is any time."""
    instrument: int | None
    """They end before the first one of another instrument; None is any."""

    def holds(self, index: int, events: "Records") -> bool:
        """Tell whether the event of that index, behind others of them, is one of them."""
        if index >= self.stop:
            return False
        if self.instrument is not None and events["instrument"][index] != self.instrument:
            return False
        return self.until_ns is None or int(events["ts_ns"][index]) <= self.until_ns


class Lent(NamedTuple):
    """Arrays lent to books, looked at once; see :meth:`clob.Book.lend`."""

    events: "Records"
    fills: "Records"
    status: "Status | None"
    bests: "Records | None"
    kinds: "Status | None"
    differs: "Status | None"


class StretchWriter(FillWriter):
    """Takes down the trades of a stretch, and whether they are a reason to end it."""

    def __init__(
        self,
        book: "Views",
        buffer: "Records",
        watch: int,
        recorded: "Records",
        differs: "Status | None",
        base: int,
        *,
        passes: bool,
        verify: bool,
    ) -> None:
        """Remember whom to watch (0 is nobody), what to compare with, and the first number."""
        super().__init__(book, buffer)
        self.base = base
        self.watched = maker_of(watch)
        self.recorded = recorded
        self.differs = differs
        self.passes = passes
        self.verify = verify
        self.met = False
        self.ends = False

    def trade(self, resting: QueuedOrder, incoming: QueuedOrder, size: int) -> None:
        """Take down one trade."""
        super().trade(resting, incoming, size)
        if self.watched and resting.maker == self.watched:
            self.met = True
            self.ends |= not self.passes

    def judge(self, first: int, kind: int) -> None:
        """See whether an event ends the stretch, by its trades, which are from one of all on."""
        if kind == Kind.CLEAR and self.watched:
            self.met = self.ends = True
        if (not self.verify and self.differs is None) or kind in REFERENCE_KINDS:
            return
        fills = [(row[1], row[3], row[4]) for row in self.rows[first:]]
        place = self.index + 1
        expected = []
        while place < len(self.recorded) and self.recorded["kind"][place] == Kind.FILL:
            expected.append(self.recorded[["order_id", "size", "price"]][place].item())
            place += 1
        if fills == expected:
            return
        if self.differs is not None:
            self.differs[self.index] = 1
        if self.verify:
            self.met = self.ends = True


Top: TypeAlias = tuple[int, int, int, int]
"""Size at the best bid and ask in lots, and the two prices, as in ``BEST``."""


class BestWriter:
    """Takes down how the best prices change as rows of ``BEST``."""

    def __init__(self, book: "Views", buffer: "Records | None") -> None:
        """Remember where the rows are to go, and what the best prices are now."""
        self.book = book
        self.buffer = buffer
        self.count = 0
        self.top = self.look()

    @property
    def full(self) -> bool:
        """Whether there is no room for what the next event may change."""
        return self.buffer is not None and self.count == len(self.buffer)

    def look(self) -> Top:
        """Look at the best prices."""
        (bid_size, bid), (ask_size, ask) = (self.best(side) for side in Side)
        return bid_size, ask_size, bid, ask

    def best(self, side: Side) -> tuple[int, int]:
        """Give the size at the best price of a side, in lots, and the price."""
        levels = self.book._sides[side]
        if not levels:
            return 0, self.book.lo - 1 if side is Side.BUY else self.book.hi + 1
        price, queue = levels.peekitem(0)
        lots = sum(order.remaining for order in queue.values()) // self.book.lot_wei
        return min(lots, LOTS_MAX), price

    def note(self, index: int, row: EventRow) -> None:
        """Take down what an event changed."""
        if self.buffer is None or (top := self.look()) == self.top:
            return
        self.top = top
        self.buffer[self.count] = (index, row.ts_ns, *top, row.instrument)
        self.count += 1


def proceed(
    book: "Views",
    lent: Lent,
    filled: int,
    told: int,
    most: int | None,
    base: int,
    instrument: int | None,
    watch: int,
    passes: bool,
    verify: bool,
    start: int,
    stop: int | None,
    until_ns: int | None,
) -> tuple[int, int, int, bool]:
    """Execute a stretch of events; see :meth:`clob.Book.proceed`."""
    events, fills, status, bests, kinds, differs = lent
    validation.check_span(len(events), start, stop, until_ns)
    validation.check_stretch(watch, instrument, base)
    validation.check_written(filled, len(fills), told, 0 if bests is None else len(bests), most)
    if bests is not None:
        bests = None if most == 0 else bests[told : None if most is None else told + most]
    end = len(events) if stop is None else stop
    stretch = Stretch(start, end, until_ns, instrument)
    writer = StretchWriter(
        book, fills[filled:], watch, events, differs, base, passes=passes, verify=verify
    )
    place, came, changes = _advance(book, events, status, writer, bests, stretch)
    if kinds is not None:
        kinds[start:place] = events["kind"][start:place]
    return place, filled + came, told + changes, writer.met


def _advance(
    book: "Views",
    events: "Records",
    status: "Status | None",
    writer: StretchWriter,
    bests: "Records | None",
    stretch: Stretch,
) -> tuple[int, int, int]:
    """Execute events one by one; give where it ended, and how many fills and best prices came."""
    book._departed.clear()
    book._recorder = writer
    tape = BestWriter(book, bests)
    index = stretch.start
    try:
        while stretch.holds(index, events) and not writer.ends and not tape.full:
            row = EventRow(*events[index].item())
            writer.index, writer.ts_ns = index, row.ts_ns
            first = len(writer.rows)
            refusal = _attempt(book, row)
            if status is not None:
                status[index] = refusal.number if refusal else 0
            elif refusal:
                raise RunRejectedError(index, refusal.code, writer.array())
            tape.note(writer.base + index, row)
            writer.judge(first, row.kind)
            index += 1
    except FillsFullError:
        # What the caller is to do about it, he sees from where it ended.
        pass
    finally:
        book._recorder = None
    return index, len(writer.array()), tape.count


# ----- one event ---------------------------------------------------------------------------


def _attempt(book: "Views", row: EventRow) -> RejectedError | None:
    """Execute one event, and give back what refused it."""
    try:
        execute(book, row)
    except RejectedError as refusal:
        return refusal
    return None


def execute(book: "Views", row: EventRow) -> None:
    """Execute one event, or raise what refuses it."""
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
            raise InvalidKindError(f"kind must be one that run executes or skips, not {kind}")


def _enter(book: "Views", row: EventRow) -> None:
    """Bring in a new order: match it, or only rest it."""
    _check_flags(row)
    if row.side > 1:
        raise InvalidSideError(f"side must be 0 or 1, not {row.side}")
    validation.check_new_id(row.order_id)
    validation.check_owner(row.owner)
    validation.check_price(row.price, book.lo, book.hi)
    size = _size(book, row)
    incoming = QueuedOrder(row.order_id, maker_of(row.owner), Side(row.side), row.price, size, 0)
    rests = row.kind != Kind.IOC and not row.flags & Flag.FOK
    if rests:
        book._refuse_duplicate(row.order_id)
    if row.kind == Kind.SEED:
        book._refuse_seed(incoming)
        book._add(incoming, [])
        return
    if row.flags & Flag.POST_ONLY:
        book._refuse_post_only(incoming, row.now_s)
    if row.flags & Flag.FOK:
        book._refuse_unfillable(incoming, row.policy, row.now_s)
    book._execute(incoming, row.policy, row.now_s, rests=rests)


def _replace(book: "Views", row: EventRow) -> None:
    """Give a resting order another price or size."""
    _check_flags(row)
    validation.check_price(row.price, book.lo, book.hi)
    size = _size(book, row)
    post_only = bool(row.flags & Flag.POST_ONLY)
    order = book._find(row.order_id)
    book._replace(order, row.price, size, row.now_s, post_only=post_only, policy=row.policy)


def _check_flags(row: EventRow) -> None:
    """Refuse flags that are unknown or contradict the kind or each other."""
    if row.flags & ~KNOWN_FLAGS:
        raise InvalidInstructionError(f"flags must be within {KNOWN_FLAGS:#x}, not {row.flags:#x}")
    if (row.flags & Flag.SELF_TRADE) >> SELF_TRADE_SHIFT > max(SelfTrade):
        raise InvalidInstructionError(f"no self-trade policy in flags {row.flags:#x}")
    must_rest = row.flags & Flag.POST_ONLY or row.kind in (Kind.SEED, Kind.REPLACE)
    if must_rest and (row.flags & Flag.FOK or row.kind == Kind.IOC):
        raise InvalidInstructionError(f"kind {row.kind} contradicts flags {row.flags:#x}")


def _size(book: "Views", row: EventRow) -> int:
    """Read a size in lots as wei."""
    if row.size <= 0:
        raise InvalidAmountError(f"size must be 1 lot or more, not {row.size}")
    if row.size * book.lot_wei > SIZE_MAX:
        raise AmountTooLargeError(
            f"size must be at most {SIZE_MAX // book.lot_wei} lots, not {row.size}"
        )
    return row.size * book.lot_wei


class BatchMethods(Views):
    """The part of a Book that executes records."""

    @alone
    def run(
        self, events: "Records", fills: "Records | None" = None, status: "Status | None" = None
    ) -> "Records":
        """Execute a batch of records.

        A refused event changes nothing. With a status array the run goes on behind it; without
        one it stops there, and what came before stands. The compiled book releases the GIL, and
        meanwhile refuses every other call with ``BookBusyError``.

        Args:
            events: array of ``EVENT``. ``LIMIT``, ``IOC``, ``CANCEL``, ``REDUCE``, ``REPLACE``,
                ``CLEAR`` and ``SEED`` are executed. ``TRADE``, ``FILL``, ``BBO`` and ``SETTLE`` are
                records to compare with and skipped. Sizes in lots.
            fills: array of ``FILL`` to write to, or None for one made to measure.
            status: array of ``uint8`` to write to, 0 for what was done or skipped, else the
                ``number`` of the error.

        Returns:
            The fills, in order; the head of ``fills`` where that was given.

        Raises:
            InvalidArrayError: an array has the wrong type, dtype, layout or length.
            RunRejectedError: no status array, and an event was refused; it has index, code and fills.
            FillsFullError: the fills of an event do not fit; it was not executed, and
                ``run(events[index:])`` goes on.

        An event is refused, in this order, with ``INVALID_KIND``, ``INVALID_INSTRUCTION``
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
        """Execute a stretch of a batch, as far as time and room go.

        It executes what :meth:`run` executes and refuses what that refuses. It ends behind the
        last event of the stretch, before an event whose fills do not fit into ``fills``, before
        any event while ``bests`` is full, before one of another ``instrument``, behind one that
        filled a resting order of ``watch`` or cleared the book while there is one to watch, or
        behind one whose fills are not the recorded ones. Who calls it often checks the arrays but
        once, by :meth:`lend` and :meth:`proceed`.

        Args:
            events: array of ``EVENT``.
            fills: array of ``FILL`` to write to; ``event`` counts from the first of ``events``,
                which is number ``base``.
            status: as for :meth:`run`; only the places of events executed are written.
            bests: array of ``BEST`` to write to, a row for each event that changed the best price
                or the size there; None writes none.
            kinds: array of ``uint8`` to write to, at least as long as events: the kind of each
                event executed or skipped; None writes none.
            differs: array of ``uint8`` to write to, at least as long as events: 1 where the fills
                of a command executed are not the recorded ones, as for ``verify``; nothing else is
                written. None writes none.
            base: the number of the first of ``events`` in ``fills`` and ``bests``.
            instrument: which events are of this book; None is all.
            watch: an owner; 0 watches nobody.
            passes: whether fills of ``watch`` are only told of and do not end it.
            verify: whether the fills of each command must be, in order, the resting order, size
                and price of the ``FILL`` events right behind it, also of those behind ``stop``.
            start: index of the first event of the stretch.
            stop: index behind its last one; None is the end of ``events``.
            until_ns: the stretch ends before the first event that is later; None is any time.

        Returns:
            Index of the first event not executed, how many rows were written to ``fills`` and to
            ``bests``, and whether ``watch`` or ``verify`` ended it, or a fill was let pass.

        Raises:
            InvalidArrayError: an array has the wrong type, dtype, layout or length.
            ValueError: a number is out of range.
            RunRejectedError: no status array, and an event was refused; it has index, code and fills.
        """
        lent = Lent(*check_advance(events, fills, status, bests, kinds, differs))
        how = (base, instrument, watch, passes, verify, start, stop, until_ns)
        return proceed(self, lent, 0, 0, None, *how)

    @staticmethod
    def lend(
        events: "Records",
        fills: "Records",
        *,
        status: "Status | None" = None,
        bests: "Records | None" = None,
        kinds: "Status | None" = None,
        differs: "Status | None" = None,
    ) -> Lent:
        """Check arrays once for many stretches, in whatever books.

        The arrays are those of :meth:`advance`. What is given back holds their memory.

        Raises:
            InvalidArrayError: an array has the wrong type, dtype, layout or length.
        """
        return Lent(*check_advance(events, fills, status, bests, kinds, differs))

    @alone
    def proceed(
        self,
        lent: Lent,
        filled: int,
        told: int,
        most: int | None,
        base: int,
        instrument: int | None,
        watch: int,
        passes: bool,
        verify: bool,
        start: int,
        stop: int | None,
        until_ns: int | None,
        /,
    ) -> tuple[int, int, int, bool]:
        """Execute a stretch as :meth:`advance` does, of arrays lent; made to be called often.

        Args:
            lent: what :meth:`lend` gave.
            filled: how many rows of ``fills`` are written already.
            told: how many rows of ``bests`` are.
            most: after how many more of them it ends; 0 writes none, None is as many as there is
                room for.
            base: as for :meth:`advance`, and so all that follow.
            instrument: which events are of this book.
            watch: an owner.
            passes: whether fills of ``watch`` are let pass.
            verify: whether fills that are not the recorded ones end it.
            start: index of the first event of the stretch.
            stop: index behind its last one.
            until_ns: the latest time.

        Returns:
            As :meth:`advance`; rows of ``fills`` and ``bests`` are counted with those written
            before.

        Raises:
            TypeError: nothing was lent.
            ValueError: a number is out of range.
            RunRejectedError: no status array, and an event was refused; it has index, code and fills.
        """
        if type(lent) is not Lent:
            raise TypeError(f"proceed needs what lend gave, not {type(lent).__name__}")
        how = (base, instrument, watch, passes, verify, start, stop, until_ns)
        return proceed(self, lent, filled, told, most, *how)

    @alone
    def seed(self, events: "Records") -> int:
        """Rest a batch of orders without matching.

        Args:
            events: array of ``EVENT``, all of kind ``SEED``.

        Returns:
            How many orders were rested, all of them.

        Raises:
            InvalidArrayError: the array has the wrong type, dtype or layout.
            InvalidKindError: an event is no ``SEED``; nothing was done.
            RunRejectedError: an event was refused as by :meth:`run`; what came before stands.
        """
        events = check_seed(events)
        run(self, events, None, None)
        return len(events)


# MERGED clob.book._batch_py: The batch door of the plain-Python Book: records in, fills out.
