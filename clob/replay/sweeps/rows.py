"""The row of a run: its parameters, its figures, its digest, or its error."""

import dataclasses
import json
import time
import traceback
from typing import Any

from clob.replay.io.streams import Stream
from clob.replay.report.lines import Span, reduce_steps
from clob.replay.report.summary import money_of
from clob.replay.results import Backtest
from clob.replay.sweeps.grid import RunPoint, Seed, Value
from clob.replay.sweeps.mapped import MappedStream
from clob.replay.sweeps.plan import SweepPlan

DONE, RAISED, KILLED = "done", "raised", "killed"
"""States of a run: finished, ended by an error, ended with its process."""

CURVE_COLUMNS = 120
"""Columns of time of a profit curve."""

WEI_FIGURES = ("profit", "realised", "fees", "drawdown", "turnover")
"""The figures that are amounts in wei."""

COUNT_FIGURES = ("orders", "own_fills", "volume", "rejected", "divergences")
"""The figures that are counts; the volume of own fills is in lots."""

RATIO_FIGURES = ("total_return", "sharpe", "sortino", "hit_rate", "fill_ratio")
"""The figures that are ratios, defined in :mod:`clob.replay.metrics`; None where a run has none."""

FIGURES = (*WEI_FIGURES, *COUNT_FIGURES, *RATIO_FIGURES)
"""The figures of a run, in the order of the columns of a table."""


@dataclasses.dataclass(frozen=True)
class SweepRow:
    """One run of a sweep and its outcome."""

    number: int
    """Place in the sweep, from 0."""
    parameters: dict[str, Value]
    """Arguments of the strategy, by name."""
    seed: Seed
    """Seed of the run."""
    state: str
    """``done``, ``raised`` for a run that raised an error, ``killed`` if its process ended."""
    digest: str = ""
    """Digest of the backtest; empty unless done."""
    error: str = ""
    """The error in one line; empty if done."""
    trace: str = ""
    """The traceback of the error."""
    figures: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The figures by name, empty unless done: integers, amounts in wei, and ratios as floats or
    None."""
    span: tuple[int, int] = (0, 0)
    """The first and the last time of the run, in ns."""
    curve: tuple[int, ...] = ()
    """The profit at the end of each of :data:`CURVE_COLUMNS` equal parts of the time, in wei."""
    cpu_ns: int = 0
    """Time of the processor that the run has used."""

    @property
    def point(self) -> RunPoint:
        """The parameters and the seed."""
        return RunPoint(self.number, self.parameters, self.seed)

    def to_json(self) -> str:
        """Return the row as one line of JSON, without its number."""
        fields = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        del fields["number"]
        return json.dumps(fields)


def row_of_json(line: str | bytes) -> SweepRow:
    """Read a line of JSON; the number of the row is -1.

    Raises:
        ValueError: the line is not a complete row.
    """
    fields = json.loads(line)
    wanted = {one.name for one in dataclasses.fields(SweepRow)} - {"number"}
    if not isinstance(fields, dict) or fields.keys() != wanted:
        raise ValueError(f"a run must have the fields {', '.join(sorted(wanted))}")
    for name in ("span", "curve"):
        fields[name] = tuple(fields[name])
    return SweepRow(number=-1, **fields)


def figures_of(result: Backtest) -> dict[str, int | float | None]:
    """Return the figures of a backtest: the one place that a table of a sweep reads them from."""
    money, metrics = money_of(result), result.metrics
    amounts = [0] * len(WEI_FIGURES)
    if money is not None and metrics is not None:
        amounts = [money.profit, money.realised, money.fees, money.drawdown, metrics.turnover]
    ratios = [getattr(metrics, name, None) for name in RATIO_FIGURES]
    counts = (
        len(result.orders),
        len(result.own_fills),
        sum(result.own_fills["size"].tolist()),
        sum(result.rejections.values()),
        result.divergence.total,
    )
    return dict(zip(FIGURES, (*amounts, *counts, *ratios), strict=True))


def curve_of(result: Backtest) -> tuple[int, ...]:
    """Return the profit over time, reduced to :data:`CURVE_COLUMNS` parts."""
    if result.portfolio is None or not len(result.equity):
        return ()
    start = result.setting.start_ns
    span = Span(start, max(result.setting.last_ns, start), CURVE_COLUMNS)
    initial = result.portfolio.initial
    last = reduce_steps(result.equity["ts_ns"], result.equity["wealth"], span).last
    return tuple(0 if wealth is None else int(wealth) - initial for wealth in last)


class SweepTask:
    """Runs the points of a sweep in one process.

    Args:
        plan: the strategy and its settings.
        mapped: the stream, mapped at the first run.
        folder: the temporary folder of the stream, which a worker removes if the process that owns
            it was killed; None if the stream belongs to the caller.
    """

    def __init__(self, plan: SweepPlan, mapped: MappedStream, folder: str | None = None) -> None:
        self.plan = plan
        self.mapped = mapped
        self.folder: str | None = folder
        self._stream: Stream | None = None

    def run(self, point: RunPoint) -> SweepRow:
        """Run one point. An error of the strategy becomes a row; it does not end the sweep."""
        began_ns = time.process_time_ns()
        fields: dict[str, Any]
        try:
            if self._stream is None:
                self._stream = self.mapped.open()
            result = self.plan.run(self._stream, point)
        except (Exception, SystemExit) as error:
            lines = traceback.format_exception(error)
            fields = {"state": RAISED, "error": one_line(error), "trace": "".join(lines)}
        else:
            fields = {"state": DONE, "digest": result.digest, "figures": figures_of(result)}
            fields["span"] = (result.setting.start_ns, result.setting.last_ns)
            fields["curve"] = curve_of(result)
        return SweepRow(*point, **fields, cpu_ns=time.process_time_ns() - began_ns)


def one_line(error: BaseException) -> str:
    """Return the type of an error and the first line of its text."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def killed_row(point: RunPoint, reason: str) -> SweepRow:
    """Return the row of a run whose process ended."""
    return SweepRow(*point, state=KILLED, error=reason)
