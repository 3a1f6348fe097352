"""The batch door of the plain-Python Book: records in, fills out."""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from clob import _checks, records
from clob._arrays import check_arrays
from clob._queues_py import Queued
from clob.errors import (
    AmountTooLargeError,
    FillsFull,
    InvalidAmountError,
    InvalidInstructionError,
    InvalidKindError,
    InvalidSideError,
    RejectedError,
    RunRefused,
)
from clob.events import RemovalReason
from clob.order import SelfTrade, Side, maker_of
from clob.records import LOTS_MAX, SELF_TRADE_SHIFT, EventRow, Flag, Kind
from clob.units import SIZE_MAX

if TYPE_CHECKING:
    from clob._arrays import Records, Status
    from clob._views_py import Views

# A plain integer: inverting a Flag would forget the bits it does not know.
KNOWN_FLAGS = int(Flag.POST_ONLY | Flag.FOK | Flag.SELF_TRADE | Flag.SNAPSHOT | Flag.SYNTHETIC)
REFERENCE_KINDS = frozenset({Kind.TRADE, Kind.FILL, Kind.BBO, Kind.SETTLE})


class Row(EventRow):
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

    def trade(self, resting: Queued, incoming: Queued, size: int) -> None:
        """Take down one trade."""
        lots = size // self.book.lot_wei
        ids = (resting.number, incoming.number)
        self.rows.append((self.base + self.index, *ids, lots, resting.price, self.ts_ns))

    def departure(self, order: Queued) -> None:
        """Remember the text id of an order that left, for ``id_of``."""
        if isinstance(order.id, str):
            self.book._departed[order.number] = order.id

    def reserve(self, trades: int) -> None:
        """Stop the run before an event whose trades do not fit."""
        if self.room is not None and len(self.rows) + trades > self.room:
            raise FillsFull(self.index, self.array())

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
            row = Row(*fields)
            writer.index, writer.ts_ns = index, row.ts_ns
            refusal = _attempt(book, row)
            if status is not None:
                status[index] = refusal.number if refusal else 0
            elif refusal:
                raise RunRefused(index, refusal.code, writer.array())
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

    def trade(self, resting: Queued, incoming: Queued, size: int) -> None:
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

    def note(self, index: int, row: Row) -> None:
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
    _checks.check_span(len(events), start, stop, until_ns)
    _checks.check_stretch(watch, instrument, base)
    _checks.check_written(filled, len(fills), told, 0 if bests is None else len(bests), most)
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
            row = Row(*events[index].item())
            writer.index, writer.ts_ns = index, row.ts_ns
            first = len(writer.rows)
            refusal = _attempt(book, row)
            if status is not None:
                status[index] = refusal.number if refusal else 0
            elif refusal:
                raise RunRefused(index, refusal.code, writer.array())
            tape.note(writer.base + index, row)
            writer.judge(first, row.kind)
            index += 1
    except FillsFull:
        # What the caller is to do about it, he sees from where it ended.
        pass
    finally:
        book._recorder = None
    return index, len(writer.array()), tape.count


# ----- one event ---------------------------------------------------------------------------


def _attempt(book: "Views", row: Row) -> RejectedError | None:
    """Execute one event, and give back what refused it."""
    try:
        execute(book, row)
    except RejectedError as refusal:
        return refusal
    return None


def execute(book: "Views", row: Row) -> None:
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


def _enter(book: "Views", row: Row) -> None:
    """Bring in a new order: match it, or only rest it."""
    _check_flags(row)
    if row.side > 1:
        raise InvalidSideError(f"side must be 0 or 1, not {row.side}")
    _checks.check_new_id(row.order_id)
    _checks.check_owner(row.owner)
    _checks.check_price(row.price, book.lo, book.hi)
    size = _size(book, row)
    incoming = Queued(row.order_id, maker_of(row.owner), Side(row.side), row.price, size, 0)
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


def _replace(book: "Views", row: Row) -> None:
    """Give a resting order another price or size."""
    _check_flags(row)
    _checks.check_price(row.price, book.lo, book.hi)
    size = _size(book, row)
    post_only = bool(row.flags & Flag.POST_ONLY)
    order = book._find(row.order_id)
    book._replace(order, row.price, size, row.now_s, post_only=post_only, policy=row.policy)


def _check_flags(row: Row) -> None:
    """Refuse flags that are unknown or contradict the kind or each other."""
    if row.flags & ~KNOWN_FLAGS:
        raise InvalidInstructionError(f"flags must be within {KNOWN_FLAGS:#x}, not {row.flags:#x}")
    if (row.flags & Flag.SELF_TRADE) >> SELF_TRADE_SHIFT > max(SelfTrade):
        raise InvalidInstructionError(f"no self-trade policy in flags {row.flags:#x}")
    must_rest = row.flags & Flag.POST_ONLY or row.kind in (Kind.SEED, Kind.REPLACE)
    if must_rest and (row.flags & Flag.FOK or row.kind == Kind.IOC):
        raise InvalidInstructionError(f"kind {row.kind} contradicts flags {row.flags:#x}")


def _size(book: "Views", row: Row) -> int:
    """Read a size in lots as wei."""
    if row.size <= 0:
        raise InvalidAmountError(f"size must be 1 lot or more, not {row.size}")
    if row.size * book.lot_wei > SIZE_MAX:
        raise AmountTooLargeError(
            f"size must be at most {SIZE_MAX // book.lot_wei} lots, not {row.size}"
        )
    return row.size * book.lot_wei
