"""What a backtest gives: tables of what happened, the check, the divergences and the digest."""

import dataclasses
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clob.book import Book
from clob.records import BEST, FILL
from clob.replay.check.compare import Comparison
from clob.replay.check.divergence import Divergences
from clob.replay.errors import need
from clob.replay.io.chunk import Played
from clob.replay.io.recording import Records
from clob.replay.io.streams import Instrument, Stream
from clob.replay.modes.row_buffer import Gathered
from clob.replay.modes.rows import write_fills, write_orders
from clob.replay.modes.sampling import Depths
from clob.replay.sim.portfolio import Portfolio

if TYPE_CHECKING:
    from clob.replay.sim.session import Session


DIGEST_BYTES = 32


class Section:
    """The hash of one kind of row.

    Args:
        name: what the rows are.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        """What the rows are."""
        self.rows: int = 0
        """How many there were."""
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def update(self, rows: Records) -> None:
        """Take in more rows, a structured array."""
        self.rows += len(rows)
        self._hash.update(_canonical(rows))

    def digest(self) -> bytes:
        """Give the hash of the name, the number of rows and all of them."""
        head = f"{self.name} {self.rows} ".encode()
        return hashlib.blake2b(head + self._hash.digest(), digest_size=DIGEST_BYTES).digest()


def combined(sections: list[Section]) -> str:
    """Give the digest of several kinds of rows, in hexadecimal digits. Their order matters."""
    whole = b"".join(section.digest() for section in sections)
    return hashlib.blake2b(whole, digest_size=DIGEST_BYTES).hexdigest()


def _canonical(rows: Records) -> bytes | memoryview:
    """Write rows as bytes that are the same on every machine."""
    names = rows.dtype.names or ()
    if any(rows.dtype[name].kind in "OU" for name in names):
        return "".join(f"{row}\n" for row in rows.tolist()).encode()
    packed = np.empty(len(rows), [(name, _little(rows.dtype[name])) for name in names])
    for name in names:
        packed[name] = rows[name]
    return packed.view(np.uint8).data


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give a dtype in little-endian order."""
    return dtype.newbyteorder("<")


ORDER_FIELDS = {
    "order_id": "<u8",
    "instrument": "<u2",
    "side": "u1",
    "state": "u1",
    "price": "<i4",
    "size": "<i8",
    "filled": "<i8",
    "ahead": "<i8",
    "sent_ns": "<i8",
    "arrived_ns": "<i8",
    "done_ns": "<i8",
}
"""The fields of an own order: id, instrument, side, ``OrderState``, price in ticks, size and what
was filled in lots, lots in front of it when it began to rest (-1 if it never did), when it was
sent, reached the book and left it (-1 if it did not)."""

OWN_FILL_FIELDS = {
    "ts_ns": "<i8",
    "order_id": "<u8",
    "other_id": "<u8",
    "size": "<i8",
    "price": "<i4",
    "instrument": "<u2",
    "resting": "u1",
    "fee": "O",
    "fee_tokens": "O",
}
"""The fields of a fill of an own order: time, the order, that on the other side, size in lots (0
where the order left the book without a trade), price in ticks, instrument, 1 if it rested, and the
fee in wei of collateral and of the token, as Python integers."""

EQUITY_FIELDS = {
    "ts_ns": "<i8",
    "wealth": "O",
    "collateral": "O",
    "realised": "O",
    "fees_paid": "O",
}
"""The fields of a row of equity: time, and what was owned then in wei, as Python integers."""

POSITION_FIELDS = {"ts_ns": "<i8", "instrument": "<u2", "size": "O", "cost": "O"}
"""The fields of a change of position: time, instrument, tokens and what they cost, in wei."""

OWN_TABLES: dict[str, np.dtype[np.void]] = {
    name: np.dtype(list(fields.items()))
    for name, fields in (
        ("orders", ORDER_FIELDS),
        ("own_fills", OWN_FILL_FIELDS),
        ("equity", EQUITY_FIELDS),
        ("positions", POSITION_FIELDS),
    )
}
"""The fields of the tables of what a strategy did."""

TABLES = ("fills", "bests", "orders", "own_fills", "equity", "positions")
"""The names of the tables of a backtest."""

WEI_DIGITS = 38
"""How many decimal digits an amount in wei may have in a table of Arrow."""


class Collector:
    """Hears what is played, and keeps or only hashes it.

    Args:
        keep: which of ``fills`` and ``bests`` to keep.
    """

    def __init__(self, keep: Iterable[str]) -> None:
        self._keep = frozenset(keep)
        self.rooms: dict[str, Gathered] = {"fills": Gathered(FILL), "bests": Gathered(BEST)}
        """Where the rows are best written, so that those kept need not be copied."""
        self.sections: dict[str, Section] = {name: Section(name) for name in self.rooms}
        """The hashes of what is not kept."""
        self.counts: dict[str, int] = dict.fromkeys(self.rooms, 0)
        """How many rows there were, kept or not."""

    def take(self, played: Played) -> None:
        """Hear of a chunk that is done."""
        for name, rows in (("fills", played.fills), ("bests", played.bests)):
            self.counts[name] += len(rows)
            if name in self._keep:
                self.rooms[name].take(rows)
            else:
                self.sections[name].update(rows)

    def table(self, name: str) -> Records:
        """Give all rows that were kept."""
        return self.rooms[name].rows()


def table_of(fields: np.dtype[np.void], numbers: npt.NDArray[Any]) -> Records:
    """Make a structured array of a matrix, whose columns are the first of its fields."""
    # An empty one with objects in it takes ten times as long as one of zeros.
    table = np.zeros(len(numbers), fields)
    for name, column in zip(table.dtype.names or (), numbers.T, strict=False):
        table[name] = column
    return table


def own_tables(session: "Session | None") -> dict[str, Records]:
    """Make the tables of what a strategy did; empty ones where there was none."""
    if session is None:
        return {name: np.zeros(0, fields) for name, fields in OWN_TABLES.items()}
    numbers = np.empty((len(session.orders), len(ORDER_FIELDS)), np.int64)
    write_orders(numbers.ravel().data, session.orders)
    tables = {"orders": table_of(OWN_TABLES["orders"], numbers), "own_fills": _own_fills(session)}
    account = session.account
    for name, flat in (("equity", account.equity), ("positions", account.positions)):
        fields = OWN_TABLES[name]
        amounts = np.fromiter(flat, object, len(flat))
        tables[name] = table_of(fields, amounts.reshape(-1, len(fields.names or ())))
    return tables


def _own_fills(session: "Session") -> Records:
    """Make the table of the fills of own orders, the fees of which are Python integers."""
    fills, charges = session.own_fills, session.charges
    numbers = np.empty((len(fills), len(OWN_FILL_FIELDS) - 2), np.int64)
    write_fills(numbers.ravel().data, fills)
    table = table_of(OWN_TABLES["own_fills"], numbers)
    table["fee"] = np.fromiter([one.collateral for one in charges], object, len(charges))
    table["fee_tokens"] = np.fromiter([one.tokens for one in charges], object, len(charges))
    return table


def refusals_of(session: "Session | None") -> dict[str, int]:
    """Count the own orders that were refused, by code, as far as the strategy has heard."""
    codes = Counter(one.code for one in session.orders if one.code) if session else Counter()
    return dict(sorted(codes.items()))


class Setting(NamedTuple):
    """What a backtest was run over."""

    lo: int
    """The lowest price of the grid, in ticks."""
    hi: int
    """The highest price of the grid, in ticks."""
    lot_wei: int
    """What a size of 1 stands for, in wei."""
    instruments: tuple[Instrument, ...]
    """The books."""
    start_ns: int
    """The time of the first event that is no seed."""
    last_ns: int
    """The latest time of all events."""
    note: str
    """Where the recording comes from."""
    problems: Mapping[str, int]
    """What was wrong with the input: how many problems there were of each kind."""


def setting_of(stream: Stream, start_ns: int, last_ns: int) -> Setting:
    """Say what a stream that was run was like.

    Args:
        stream: the stream.
        start_ns: the time of the first event that is no seed.
        last_ns: the latest time of all events.
    """
    problems = dict(sorted(stream.problems.counts.items()))
    grid = (stream.lo, stream.hi, stream.lot_wei, stream.instruments)
    return Setting(*grid, start_ns, last_ns, stream.note, problems)


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Backtest:
    """What came of a backtest. Indices of events count all records of the stream."""

    name: str
    """What the recording is called."""
    mode: str
    """``rematch`` or ``shadow``."""
    events: int
    """How many events there were, records to compare with among them."""
    fills: Records
    """Array of ``FILL``: every trade, own ones too, but in ``shadow`` those of history alone; empty
    if it was not kept."""
    bests: Records
    """Array of ``BEST``: every change of best prices; empty if it was not kept."""
    orders: Records
    """Array of :data:`ORDER_FIELDS`: the own orders, in order of sending."""
    own_fills: Records
    """Array of :data:`OWN_FILL_FIELDS`: the fills of own orders, in order."""
    equity: Records
    """Array of :data:`EQUITY_FIELDS`: what the strategy owned, a row for each change."""
    positions: Records
    """Array of :data:`POSITION_FIELDS`: its tokens, a row for each change."""
    check: Comparison | None
    """The comparison with what was recorded; None where nothing was, or nobody asked."""
    divergence: Divergences
    """Where the replay was not what history says."""
    books: Mapping[int, Book]
    """The books as the last event left them, by instrument."""
    portfolio: Portfolio | None
    """What the strategy owned in the end; None without one."""
    counts: Mapping[str, int]
    """How many fills and changes of best prices there were, kept or not."""
    sections: Mapping[str, Section] = dataclasses.field(default_factory=dict)
    """The hashes of the rows that were not kept."""
    setting: Setting
    """What it was run over."""
    outcome: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """What a YES token was worth in the end, in ticks, by the number of the market; markets that
    were not settled are left out."""
    refusals: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """How many own orders were refused, by code."""
    depths: Depths | None = None
    """How the books looked at equal times; None where nobody asked for it."""

    @property
    def digest(self) -> str:
        """A fingerprint of all tables, 64 hexadecimal digits.

        It is the same for every size of chunk, version of Python, hash seed and kind of book, and
        whatever was kept. O(rows) each time it is asked for.
        """
        return combined([self._section(name) for name in TABLES])

    def _section(self, name: str) -> Section:
        """Give the hash of a table."""
        rows: Records = getattr(self, name)
        if self.counts.get(name, len(rows)) != len(rows):
            return self.sections[name]
        section = Section(name)
        section.update(rows)
        return section

    def __str__(self) -> str:
        """Say it in a line."""
        told = f"{self.name or 'replay'}: {self.events:,} events, {self.counts['fills']:,} fills"
        if self.check is not None:
            told += f"; {self.check}"
        told += f"; {self.divergence.total:,} divergences"
        if self.portfolio is not None:
            told += f"; {len(self.orders):,} own orders, {len(self.own_fills):,} own fills"
        return told

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Say it as a small table, for notebooks."""
        from clob.replay.report import page  # noqa: PLC0415 - only where it is shown

        return page(self)

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write it as one page of HTML; see :func:`clob.replay.report.write_report`.

        Args:
            path: the file to write.
            title: what to call the page; None calls it as the recording is called.

        Raises:
            OSError: the file cannot be written.
        """
        from clob.replay.report import write_report  # noqa: PLC0415 - only where it is written

        write_report(self, path, title=title)

    # ----- to other libraries ------------------------------------------------------------------

    def to_arrow(self, table: str = "fills") -> Any:
        """Give a table to Arrow; amounts in wei are decimals of 38 digits.

        Args:
            table: one of :data:`TABLES`.

        Returns:
            A ``pyarrow.Table``.

        Raises:
            ValueError: there is no such table.
            PackageMissingError: pyarrow is not installed.
        """
        arrow = need("pyarrow", "A table for Arrow", "pyarrow")
        rows = self._rows(table)
        columns = {}
        for name in rows.dtype.names or ():
            if rows.dtype[name].kind == "O":
                columns[name] = arrow.array(rows[name].tolist(), arrow.decimal128(WEI_DIGITS, 0))
            else:
                columns[name] = arrow.array(np.ascontiguousarray(rows[name]))
        return arrow.table(columns)

    def to_polars(self, table: str = "fills") -> Any:
        """Give a table to Polars, as :meth:`to_arrow`; it needs both packages."""
        return need("polars", "A table for Polars", "polars").from_arrow(self.to_arrow(table))

    def to_pandas(self, table: str = "fills") -> Any:
        """Give a table to pandas; amounts in wei are Python integers.

        Args:
            table: one of :data:`TABLES`.

        Returns:
            A ``pandas.DataFrame``.

        Raises:
            ValueError: there is no such table.
            PackageMissingError: pandas is not installed.
        """
        pandas = need("pandas", "A table for pandas", "pandas")
        rows = self._rows(table)
        return pandas.DataFrame({name: rows[name] for name in rows.dtype.names or ()})

    def _rows(self, table: str) -> Records:
        """Find a table by its name."""
        if table not in TABLES:
            raise ValueError(f"table must be one of {', '.join(TABLES)}, not {table!r}")
        rows: Records = getattr(self, table)
        return rows


# MERGED clob.replay.results: A fingerprint of all that came of a replay, the same wherever and however it is run.
#
# Each kind of row has a hash of its own, so that it does not matter in which pieces they come; the
# digest is the hash of those. Numbers are hashed as little-endian bytes of their width without
# padding, exact integers beyond 64 bits as decimal text.
