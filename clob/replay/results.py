"""The result of a backtest: its tables, check, divergences and digest.

The digest combines one hash per kind of row, so the rows of different kinds may arrive in any
order. Numbers are hashed as little-endian bytes without padding, integers beyond 64 bits as decimal
text. The rows of equity are not part of it, since the rule of valuation does not change a run; the
final money is.
"""

import dataclasses
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clob.book import Book
from clob.records import BEST, FILL, FILL_FIELDS
from clob.replay.check.compare import Comparison
from clob.replay.check.divergence import Divergences
from clob.replay.conversion import TIMES, Units, columns_of
from clob.replay.errors import need
from clob.replay.io.chunk import ReplayedChunk
from clob.replay.io.recording import Records
from clob.replay.io.streams import OWN_ID, Instrument, Stream
from clob.replay.modes.row_buffer import RowBuffer
from clob.replay.modes.rows import write_fills, write_orders
from clob.replay.modes.sampling import Depths
from clob.replay.sim.fee_schedules import describe_fees
from clob.replay.sim.marks import DEFAULT_MARK, EQUITY_EVERY_NS
from clob.replay.sim.portfolio import Portfolio

if TYPE_CHECKING:
    from clob.replay.metrics import RunMetrics
    from clob.replay.sim.exchange_account import ExchangeAccount


DIGEST_BYTES = 32


class _FinalHash(NamedTuple):
    """A hash that is complete."""

    value: bytes

    def digest(self) -> bytes:
        return self.value


class Section:
    """The hash of one table."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.rows: int = 0
        """Number of rows."""
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def update(self, rows: Records) -> None:
        """Add rows, a structured array."""
        self.rows += len(rows)
        self._hash.update(_canonical(rows))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state; a restored section takes no more rows."""
        return {"name": self.name, "rows": self.rows, "_hash": _FinalHash(self._hash.digest())}

    def digest(self) -> bytes:
        """Return the hash of the name, the number of rows and the rows."""
        head = f"{self.name} {self.rows} ".encode()
        return hashlib.blake2b(head + self._hash.digest(), digest_size=DIGEST_BYTES).digest()


def combine_digests(sections: list[Section]) -> str:
    """Return the digest of several tables as hexadecimal digits. Their order matters."""
    whole = b"".join(section.digest() for section in sections)
    return hashlib.blake2b(whole, digest_size=DIGEST_BYTES).hexdigest()


def _canonical(rows: Records) -> bytes | memoryview:
    """Return rows as bytes that are equal on every machine."""
    names = rows.dtype.names or ()
    if any(rows.dtype[name].kind in "OU" for name in names):
        return "".join(f"{row}\n" for row in rows.tolist()).encode()
    packed = np.empty(len(rows), [(name, rows.dtype[name].newbyteorder("<")) for name in names])
    for name in names:
        packed[name] = rows[name]
    return packed.view(np.uint8).data


FILLS: np.dtype[np.void] = np.dtype(
    {
        "names": [*FILL_FIELDS, "instrument"],
        "formats": [*FILL_FIELDS.values(), "<u2"],
        "offsets": [0, 8, 16, 24, 32, 40, 36],
        "itemsize": FILL.itemsize,
    }
)
"""The record of a trade of a backtest: the fields of ``FILL``, and the instrument."""

MONEY: np.dtype[np.void] = np.dtype([("collateral", "O"), ("realised", "O"), ("fees_paid", "O")])
"""The final money as the digest covers it, in wei as Python integers."""

DIGEST_FIELDS = ("ts_ns", "order_id", "other_id", "size", "price", "instrument", "resting")
"""The numbers of own fills that the digest covers, with both fees; the others follow from them and
the orders."""

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
"""The fields of an own order: id, instrument, side, ``OrderState``, price in ticks, size and filled
size in lots, lots in front of it when it began to rest (-1 if it never rested), and when it was
sent, arrived at the exchange and left the book (-1 if it did not)."""

OWN_FILL_FIELDS = {
    "ts_ns": "<i8",
    "order_id": "<u8",
    "other_id": "<u8",
    "size": "<i8",
    "price": "<i4",
    "instrument": "<u2",
    "resting": "u1",
    "side": "u1",
    "fee": "O",
    "fee_tokens": "O",
    "realised": "O",
}
"""The fields of a fill of an own order: time, own order, other order, size in lots (0 where the
order left the book without a trade), price in ticks, instrument, 1 if the own order rested, side of
the own order, the fee in wei of collateral and of the token, and the profit that the fill realised
after its fee, in wei; amounts are Python integers. A fill that opens a position realises nothing:
its fee is part of the cost."""

EQUITY_FIELDS = {
    "ts_ns": "<i8",
    "wealth": "O",
    "collateral": "O",
    "realised": "O",
    "fees_paid": "O",
}
"""The fields of a row of equity: time, and amounts in wei as Python integers. ``wealth`` is the
collateral plus the value of all tokens by the rule of the run, ``realised`` the profit after fees
since the start."""

POSITION_FIELDS = {"ts_ns": "<i8", "instrument": "<u2", "size": "O", "cost": "O"}
"""The fields of a change of position: time, instrument, tokens and their cost, in wei."""

OWN_TABLES: dict[str, np.dtype[np.void]] = {
    name: np.dtype(list(fields.items()))
    for name, fields in (
        ("orders", ORDER_FIELDS),
        ("own_fills", OWN_FILL_FIELDS),
        ("equity", EQUITY_FIELDS),
        ("positions", POSITION_FIELDS),
    )
}
"""The record of each table of a strategy."""

TABLES = ("fills", "bests", *OWN_TABLES)
"""The names of the tables of a backtest."""


class Collector:
    """Receives the chunks of a run, and keeps or hashes their ``fills`` and ``bests``."""

    def __init__(self, keep: Iterable[str]) -> None:
        self._keep = frozenset(keep)
        self.buffers: dict[str, RowBuffer] = {"fills": RowBuffer(FILL), "bests": RowBuffer(BEST)}
        """Buffers for the rows. Rows that the driver writes there need not be copied."""
        self.sections: dict[str, Section] = {name: Section(name) for name in self.buffers}
        """The hashes of the tables that are not kept."""
        self.counts: dict[str, int] = dict.fromkeys(self.buffers, 0)
        """Number of rows, kept or not."""

    def add(self, chunk: ReplayedChunk) -> None:
        """Add a finished chunk."""
        for name, rows in (("fills", chunk.fills), ("bests", chunk.bests)):
            self.counts[name] += len(rows)
            if name in self._keep:
                self.buffers[name].append(rows)
            else:
                self.sections[name].update(rows)

    def table(self, name: str) -> Records:
        """Return all kept rows of a table."""
        rows = self.buffers[name].rows()
        return rows.view(FILLS) if name == "fills" else rows


def table_of(fields: np.dtype[np.void], numbers: npt.NDArray[Any]) -> Records:
    """Convert a matrix to a structured array; its columns are the first fields."""
    # With object fields, np.empty takes ten times as long as np.zeros.
    table = np.zeros(len(numbers), fields)
    for name, column in zip(table.dtype.names or (), numbers.T, strict=False):
        table[name] = column
    return table


def own_tables(account: "ExchangeAccount | None") -> dict[str, Records]:
    """Return the tables of a strategy; empty ones without an account."""
    if account is None:
        return {name: np.zeros(0, fields) for name, fields in OWN_TABLES.items()}
    numbers = np.empty((len(account.orders), len(ORDER_FIELDS)), np.int64)
    write_orders(numbers.ravel().data, account.orders)
    orders = table_of(OWN_TABLES["orders"], numbers)
    tables = {"orders": orders, "own_fills": _own_fills(account, orders)}
    for name, flat in (("equity", account.equity), ("positions", account.positions)):
        fields = OWN_TABLES[name]
        amounts = np.fromiter(flat, object, len(flat))
        tables[name] = table_of(fields, amounts.reshape(-1, len(fields.names or ())))
    return tables


def _own_fills(account: "ExchangeAccount", orders: Records) -> Records:
    """Return the table of own fills; amounts are Python integers."""
    fills, charges = account.fills, account.charges
    numbers = np.empty((len(fills), len(DIGEST_FIELDS)), np.int64)
    write_fills(numbers.ravel().data, fills)
    table = table_of(OWN_TABLES["own_fills"], numbers)
    table["fee"] = np.fromiter([one.collateral for one in charges], object, len(charges))
    table["fee_tokens"] = np.fromiter([one.tokens for one in charges], object, len(charges))
    table["realised"] = np.fromiter(account.realised, object, len(charges))
    table["side"] = orders["side"][(table["order_id"] - np.uint64(OWN_ID)).astype(np.int64)]
    return table


def mids_of(account: "ExchangeAccount | None") -> npt.NDArray[np.int64]:
    """Return the recorded middles of others; an empty array without any."""
    if account is None or account.markouts is None:
        return np.zeros((0, 1), np.int64)
    return account.markouts.table()


def rejections_of(account: "ExchangeAccount | None") -> dict[str, int]:
    """Count the rejected own orders by code, as far as replies have reached the strategy."""
    codes = Counter(one.code for one in account.orders if one.code) if account else Counter()
    return dict(sorted(codes.items()))


class Setting(NamedTuple):
    """The stream of a backtest, and how positions are valued."""

    lo: int
    """Lowest price of the grid, in ticks."""
    hi: int
    """Highest price of the grid, in ticks."""
    lot_wei: int
    """Wei in one lot."""
    instruments: tuple[Instrument, ...]
    """The books."""
    start_ns: int
    """Time of the first event that is not a seed."""
    last_ns: int
    """Latest time of all events."""
    note: str
    """Origin of the recording."""
    problems: Mapping[str, int]
    """Problems with the input: number of each kind."""
    mark: str = DEFAULT_MARK
    """The rule by which positions are valued, a name of ``MARKS``."""
    equity_every_ns: int | None = EQUITY_EVERY_NS
    """The step of rows of equity, in ns; None for rows at fills and wakes only."""
    labels: tuple[str, ...] = ()
    """Texts of the prices of the grid, such as odds; empty where prices are ticks."""


def setting_of(
    stream: Stream, start_ns: int, last_ns: int, mark: str, equity_every_ns: int | None
) -> Setting:
    """Describe a stream and the valuation after a run."""
    problems = dict(sorted(stream.problems.counts.items()))
    grid = (stream.lo, stream.hi, stream.lot_wei, stream.instruments)
    labels = stream.labels
    return Setting(*grid, start_ns, last_ns, stream.note, problems, mark, equity_every_ns, labels)


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Backtest:
    """The result of a backtest. Event indices count all records of the stream."""

    name: str
    """Name of the recording."""
    mode: str
    """``rematch`` or ``shadow``."""
    events: int
    """Number of events, reference records included."""
    fills: Records
    """Array of :data:`FILLS`: every trade, including own trades in ``rematch`` and without them in
    ``shadow``; empty if not kept."""
    bests: Records
    """Array of ``BEST``: every change of best prices; empty if not kept."""
    orders: Records
    """Array of :data:`ORDER_FIELDS`: own orders in order of sending."""
    own_fills: Records
    """Array of :data:`OWN_FILL_FIELDS`: fills of own orders, in order."""
    equity: Records
    """Array of :data:`EQUITY_FIELDS`: a row at each own fill, each wake and each step of
    ``setting.equity_every_ns`` that changed an amount. The value of a row holds until the next."""
    positions: Records
    """Array of :data:`POSITION_FIELDS`: a row for each change of a token's holding."""
    check: Comparison | None
    """The comparison with the recording; None if nothing was recorded or requested."""
    divergence: Divergences
    """Where the replay diverged from history."""
    books: Mapping[int, Book]
    """The books after the last event, by instrument; in ``shadow`` those of history."""
    portfolio: Portfolio | None
    """The final portfolio; None without a strategy."""
    counts: Mapping[str, int]
    """Number of fills and of best-price changes, kept or not."""
    sections: Mapping[str, Section] = dataclasses.field(default_factory=dict)
    """The hashes of the tables that were not kept."""
    setting: Setting
    outcome: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """Final value of a YES token in ticks, by market number; unsettled markets are left out."""
    rejections: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Number of rejected own orders, by code."""
    horizons_ns: tuple[int, ...] = ()
    """Times after own fills at which the middle of others was recorded, in ns."""
    mids: npt.NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros((0, 1), "i8"))
    """The middle of others in half ticks: a row for each own fill, with a column for the fill and
    one for each of ``horizons_ns``; -2**63 where a side was empty or the run had ended. Empty
    without horizons."""
    depths: Depths | None = None
    """Depth snapshots at equal times; None if not requested."""

    @property
    def fees(self) -> str:
        """The fee schedule, with date and source if it has a name; empty without a strategy."""
        return "" if self.portfolio is None else describe_fees(self.portfolio.fees)

    @property
    def digest(self) -> str:
        """A fingerprint of all tables but equity, and of the final money; 64 hexadecimal digits.

        It does not depend on the chunk size, the Python version, the hash seed, the kind of book,
        the kept tables, ``mark`` or ``equity_every_ns``. O(rows) at each access.
        """
        return combine_digests([self._section(name) for name in TABLES])

    @property
    def metrics(self) -> "RunMetrics | None":
        """Return, risk and quality of the trading; None without a strategy. O(rows) per access."""
        from clob.replay.metrics import metrics_of  # noqa: PLC0415 - a replay alone starts sooner

        return metrics_of(self)

    def _section(self, name: str) -> Section:
        rows = self._hashed(name)
        if self.counts.get(name, len(rows)) != len(rows):
            return self.sections[name]
        section = Section(name)
        section.update(rows)
        return section

    def _hashed(self, name: str) -> Records:
        """Return the rows of a table that the digest covers."""
        rows: Records = getattr(self, name)
        if name == "fills":
            return rows.view(FILL)
        if name == "own_fills":
            return rows[[*DIGEST_FIELDS, "fee", "fee_tokens"]]
        if name == "equity":
            own = self.portfolio
            amounts = [] if own is None else [(own.collateral, own.realised, own.fees_paid)]
            return np.array(amounts, MONEY)
        return rows

    def __str__(self) -> str:
        """Summarise the result in one line."""
        text = f"{self.name or 'replay'}: {self.events:,} events, {self.counts['fills']:,} fills"
        if self.check is not None:
            text += f"; {self.check}"
        text += f"; {self.divergence.total:,} divergences"
        if self.portfolio is not None:
            text += f"; {len(self.orders):,} own orders, {len(self.own_fills):,} own fills"
        return text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return a summary as an HTML table, for notebooks."""
        from clob.replay.report import notebook  # noqa: PLC0415 - only where it is shown

        return notebook(self)

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write the result as one HTML page; see :func:`clob.replay.report.write_report`.

        Args:
            path: the file to write.
            title: title of the page; None for the name of the recording.

        Raises:
            OSError: the file cannot be written.
        """
        from clob.replay.report import write_report  # noqa: PLC0415 - only where it is written

        write_report(self, path, title=title)

    # ----- conversion --------------------------------------------------------------------------

    def to_arrow(
        self, table: str = "fills", *, units: Units = "stored", times: bool = False
    ) -> Any:
        """Convert a table to Arrow; stored amounts in wei are decimals of 38 digits.

        Args:
            table: one of :data:`TABLES`.
            units: ``stored`` for lots, ticks and wei; ``tokens`` for sizes and money in tokens as
                floats, and names of sides and states.
            times: whether times become timestamps in UTC, as columns ``time``, ``sent``,
                ``arrived`` and ``done``.

        Returns:
            A ``pyarrow.Table``.

        Raises:
            ValueError: there is no such table, or no such units.
            PackageMissingError: pyarrow is not installed.
        """
        from clob.replay.io.write import arrow_table  # noqa: PLC0415 - a replay alone starts sooner

        return arrow_table(self._columns(table, units, times=times), "A table for Arrow")

    def to_polars(
        self, table: str = "fills", *, units: Units = "stored", times: bool = False
    ) -> Any:
        """Convert a table to Polars, like :meth:`to_arrow`; needs both packages."""
        polars = need("polars", "A table for Polars", "polars")
        return polars.from_arrow(self.to_arrow(table, units=units, times=times))

    def to_pandas(
        self, table: str = "fills", *, units: Units = "stored", times: bool = False
    ) -> Any:
        """Convert a table to pandas; stored amounts in wei are Python integers.

        Args:
            table: one of :data:`TABLES`.
            units: as for :meth:`to_arrow`.
            times: likewise; the first time becomes the index.

        Returns:
            A ``pandas.DataFrame``.

        Raises:
            ValueError: there is no such table, or no such units.
            PackageMissingError: pandas is not installed.
        """
        pandas = need("pandas", "A table for pandas", "pandas")
        frame = pandas.DataFrame(self._columns(table, units, times=times))
        stamps = [name for name in TIMES.values() if times and name in frame]
        for name in stamps:
            frame[name] = frame[name].dt.tz_localize("UTC")
        return frame.set_index(stamps[0]) if stamps else frame

    def _columns(self, table: str, units: Units, *, times: bool) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of a table."""
        return columns_of(self._rows(table), self.setting.lot_wei, units, times=times)

    def _rows(self, table: str) -> Records:
        if table not in TABLES:
            raise ValueError(f"table must be one of {', '.join(TABLES)}; got {table!r}")
        rows: Records = getattr(self, table)
        return rows
