"""The results of a sweep: rows in order of the grid, as tables and as one report."""

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from clob.replay.conversion import WEI_PER_TOKEN, Units
from clob.replay.errors import SweepError, need
from clob.replay.io.streams import Stream
from clob.replay.io.write import WEI_DIGITS
from clob.replay.report.formats import change
from clob.replay.results import Backtest
from clob.replay.sweeps.grid import text_of
from clob.replay.sweeps.plan import SweepPlan
from clob.replay.sweeps.rows import DONE, FIGURES, RATIO_FIGURES, WEI_FIGURES, SweepRow

if TYPE_CHECKING:
    from clob.replay.sweeps.page import ComparedRuns

WEI, INTEGER, NUMBER, TRUTH, TEXT = "wei", "integer", "number", "truth", "text"
"""Kinds of columns."""

INTEGER_MAX = 2**63 - 1


class SweepColumn(NamedTuple):
    """A column of the table of a sweep."""

    name: str
    kind: str
    """``wei``, ``integer``, ``number``, ``truth`` or ``text``."""
    values: list[Any]
    """One for each run; None where there is no value."""


class SweepResult(Sequence[SweepRow]):
    """The runs of a sweep, in order of the grid.

    Args:
        plan: the strategy and its settings.
        stream: the stream.
        rows: the rows, in order.
        total: number of all runs; more than there are rows if the sweep was interrupted.
        digest: hash of the stream.
        skipped: number of rows that the folder had at the start.
    """

    def __init__(
        self,
        plan: SweepPlan,
        stream: Stream,
        rows: Iterable[SweepRow],
        *,
        total: int,
        digest: str,
        skipped: int = 0,
    ) -> None:
        self.plan: SweepPlan = plan
        self.stream: Stream = stream
        self.rows: tuple[SweepRow, ...] = tuple(rows)
        self.total: int = total
        self.stream_digest: str = digest
        self.skipped: int = skipped

    def __getitem__(self, place: Any) -> Any:
        """Return the row at a place."""
        return self.rows[place]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[SweepRow]:
        return iter(self.rows)

    @property
    def done(self) -> tuple[SweepRow, ...]:
        """The rows of the runs without an error."""
        return tuple(row for row in self.rows if row.state == DONE)

    @property
    def failed(self) -> tuple[SweepRow, ...]:
        """The rows of the runs with an error."""
        return tuple(row for row in self.rows if row.state != DONE)

    def best(self, figure: str = "profit") -> SweepRow:
        """Return the run with the highest figure; the first of several, one without it last.

        Args:
            figure: one of :data:`~clob.replay.sweeps.rows.FIGURES`.

        Raises:
            ValueError: there is no such figure, or no run was done.
        """
        if figure not in FIGURES:
            raise ValueError(f"figure must be one of {', '.join(FIGURES)}; got {figure!r}")
        if not self.done:
            raise ValueError("the best of no runs is undefined: no run was done")
        return max(self.done, key=lambda row: _order(row.figures[figure]))

    def rerun(self, number: int, **settings: Any) -> Backtest:
        """Run one of the runs again in this process, with all its tables, and check its digest.

        Args:
            number: the number of the run, as in its row.
            settings: arguments of the backtest that do not change the digest, such as ``sample``.

        Raises:
            KeyError: the sweep has no row of this number.
            SweepError: the digest differs, so the strategy, the stream or a setting has changed.
        """
        row = next((one for one in self.rows if one.number == number), None)
        if row is None:
            raise KeyError(number)
        result = self.plan.run(self.stream, row.point, **{"keep": ("fills", "bests"), **settings})
        if row.state == DONE and result.digest != row.digest:
            raise SweepError(
                f"run {number} has the digest {row.digest[:16]} in the sweep and "
                f"{result.digest[:16]} now: its strategy, stream or settings have changed, or the "
                "strategy depends on more than these and its seed"
            )
        return result

    def __str__(self) -> str:
        """Summarise the sweep in one line."""
        text = f"{self.plan.name.rpartition(':')[2]}: {len(self.rows):,} runs"
        if len(self.rows) < self.total:
            text += f" of {self.total:,}"
        text += f" over {self.stream.name or 'a stream'}"
        if self.failed:
            text += f", {len(self.failed):,} failed"
        if self.done:
            best = self.best()
            text += f"; best profit {change(best.figures['profit'])} in run {best.number}"
        return text

    __repr__ = __str__

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write a page that compares the runs.

        Args:
            path: the file to write.
            title: title of the page; None for the names of strategy and recording.

        Raises:
            OSError: the file cannot be written.
        """
        from clob.replay.sweeps import page  # noqa: PLC0415 - only where it is written

        page.write_page(self._compared(), path, title=title)

    def _repr_html_(self) -> str:
        """Return the best runs as an HTML table, for notebooks."""
        from clob.replay.sweeps import page  # noqa: PLC0415 - only where it is shown

        return page.notebook(self._compared())

    def _compared(self) -> "ComparedRuns":
        from clob.replay.sweeps.page import ComparedRuns  # noqa: PLC0415 - only for pages

        shown = (self.plan, self.stream.name, self.stream_digest, self.rows, self.total)
        return ComparedRuns(*shown)

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV, with amounts in wei as digits.

        Args:
            path: the file to write.

        Raises:
            OSError: the file cannot be written.
        """
        columns = self.columns()
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([one.name for one in columns])
            writer.writerows(zip(*(one.values for one in columns), strict=True))

    # ----- tables ------------------------------------------------------------------------------

    def columns(self) -> list[SweepColumn]:
        """Return the table: run, parameters, seed, state, figures, digest, error, time.

        A parameter with the name of another column is called ``parameter_`` and its name. Figures
        of failed runs have no value.
        """
        rows = self.rows
        names = list(rows[0].parameters) if rows else []
        others = {"run", "seed", "state", *FIGURES, "digest", "error", "cpu_ns"}
        columns = [SweepColumn("run", INTEGER, [row.number for row in rows])]
        for name in names:
            title = f"parameter_{name}" if name in others else name
            columns.append(_parameter(title, [row.parameters[name] for row in rows]))
        columns.append(_parameter("seed", [row.seed for row in rows]))
        columns.append(SweepColumn("state", TEXT, [row.state for row in rows]))
        for name in FIGURES:
            kind = NUMBER if name in RATIO_FIGURES else WEI if name in WEI_FIGURES else INTEGER
            columns.append(SweepColumn(name, kind, [row.figures.get(name) for row in rows]))
        columns.append(SweepColumn("digest", TEXT, [row.digest or None for row in rows]))
        columns.append(SweepColumn("error", TEXT, [row.error or None for row in rows]))
        columns.append(SweepColumn("cpu_ns", INTEGER, [row.cpu_ns for row in rows]))
        return columns

    def to_arrow(self, *, units: Units = "stored") -> Any:
        """Convert the table to Arrow.

        Args:
            units: ``stored`` for amounts as decimals of 38 digits in wei; ``tokens`` for amounts in
                tokens as floats.

        Returns:
            A ``pyarrow.Table``; figures of failed runs are null.

        Raises:
            ValueError: there are no such units.
            PackageMissingError: pyarrow is not installed.
        """
        arrow = need("pyarrow", "A table for Arrow", "clob[export]")
        kinds = {
            WEI: arrow.decimal128(WEI_DIGITS, 0),
            INTEGER: arrow.int64(),
            NUMBER: arrow.float64(),
            TRUTH: arrow.bool_(),
            TEXT: arrow.string(),
        }
        columns = _in_units(self.columns(), units)
        return arrow.table({one.name: arrow.array(one.values, kinds[one.kind]) for one in columns})

    def to_polars(self, *, units: Units = "stored") -> Any:
        """Convert the table to Polars, like :meth:`to_arrow`; needs both packages."""
        polars = need("polars", "A table for Polars", "polars")
        return polars.from_arrow(self.to_arrow(units=units))

    def to_pandas(self, *, units: Units = "stored") -> Any:
        """Convert the table to pandas, with the number of the run as index.

        Args:
            units: ``stored`` for amounts as Python integers in wei; ``tokens`` as for
                :meth:`to_arrow`.

        Returns:
            A ``pandas.DataFrame``; integers that failed runs lack are of dtype ``Int64``.

        Raises:
            ValueError: there are no such units.
            PackageMissingError: pandas is not installed.
        """
        pandas = need("pandas", "A table for pandas", "pandas")
        frame = {}
        for name, kind, values in _in_units(self.columns(), units):
            dtype: Any = {NUMBER: "float64", INTEGER: "int64"}.get(kind, object)
            if kind == INTEGER and None in values:
                dtype = "Int64"
            if kind == TRUTH:
                dtype = "boolean" if None in values else "bool"
            frame[name] = pandas.Series(values, dtype=dtype)
        return pandas.DataFrame(frame).set_index("run")


def _order(figure: float | None) -> tuple[bool, float]:
    """Return the sort key of a figure: an integer of any size, a ratio, or None."""
    return figure is not None, 0 if figure is None else figure


def _parameter(name: str, values: list[Any]) -> SweepColumn:
    """Return the column of a parameter, as text if its values have no common type."""
    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return SweepColumn(name, TRUTH, values)
    small = all(abs(value) <= INTEGER_MAX for value in values if type(value) is int)
    if types == {int} and small:
        return SweepColumn(name, INTEGER, values)
    if types and types <= {int, float} and small:
        return SweepColumn(name, NUMBER, [None if one is None else one * 1.0 for one in values])
    return SweepColumn(name, TEXT, [None if one is None else text_of(one) for one in values])


def _in_units(columns: list[SweepColumn], units: Units) -> list[SweepColumn]:
    """Return columns with amounts in wei or in tokens."""
    if units not in ("stored", "tokens"):
        raise ValueError(f"units must be stored or tokens; got {units!r}")
    if units == "stored":
        return columns
    return [
        SweepColumn(name, NUMBER, [None if one is None else one / WEI_PER_TOKEN for one in values])
        if kind == WEI
        else SweepColumn(name, kind, values)
        for name, kind, values in columns
    ]
