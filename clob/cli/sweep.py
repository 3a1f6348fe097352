"""``clob sweep``: runs a strategy with many parameters and prints the best runs."""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clob.cli import arguments as parse
from clob.cli.inputs import add_reading, opened, quiet, with_numpy
from clob.cli.output import (
    CHECK_FAILED,
    DONE,
    NS_PER_S,
    UnusableError,
    check_all_writable,
    complain,
    describe_error,
    printable,
    report_problems,
    write,
    write_columns,
)
from clob.cli.replay import (
    add_mode,
    add_trading,
    check_trading,
    load_strategy,
    sample,
    trading_settings,
)
from clob.errors import ClobError
from clob.units import format_tokens

if TYPE_CHECKING:
    from clob.replay.sweeps.result import SweepResult
    from clob.replay.sweeps.rows import SweepRow
    from clob.replay.sweeps.sweep import SweepProgress

BEST_SHOWN, FAILED_SHOWN = 5, 3
"""Runs printed at the end."""

EPILOG = """Exit code: 0 all runs done; 1 a run failed; 2 a file or an argument is unusable; 130
interrupted, with all finished runs in the folder of --out. The same command goes on where it
ended."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "sweep",
        help="run a strategy with many parameters over recorded order flow",
        description="Run a strategy with every combination of parameters, on all processors, and "
        "compare the runs. A run that raises an error is reported and does not end the others.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="recordings, merged by time; default: the sample in the package",
    )
    _add_runs(parser)
    add_trading(parser, required=True)
    add_mode(parser)
    add_reading(parser, grid="--price-grid")
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        type=Path,
        help="append each finished run to this folder, and skip the runs that it already has",
    )
    parser.add_argument("--table", metavar="PATH", type=Path, help="write the table as CSV")
    parser.add_argument("--report", metavar="PATH", type=Path, help="write an HTML report")
    parser.set_defaults(run=partial(with_numpy, _run))


def _add_runs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("runs")
    group.add_argument(
        "--grid",
        dest="parameters",
        metavar="NAME=VALUES",
        type=parse.parameter,
        action="append",
        default=[],
        help="values of an argument of the strategy: 100,200,300 or 1:5 or 0:100:10; repeat for "
        "more arguments, which are combined",
    )
    group.add_argument(
        "--seeds",
        metavar="SEEDS",
        type=parse.seeds,
        help="seeds of each combination, such as 0:9 or names; the strategy needs an argument seed",
    )
    group.add_argument(
        "--jobs",
        metavar="N",
        type=parse.count,
        help="number of processes; default: one for each processor",
    )


def _run(arguments: argparse.Namespace) -> int:
    """Run the sweep, print the result and return the exit code."""
    from clob.replay.sweeps.sweep import SweepInterrupted  # noqa: PLC0415 - NumPy may be missing

    files = [Path(file) for file in arguments.files] or [sample()]
    check_all_writable([arguments.table, arguments.report], files)
    began_ns = time.perf_counter_ns()
    try:
        result = _swept(files, arguments)
    except SweepInterrupted as interrupt:
        _summarise(interrupt.result, time.perf_counter_ns() - began_ns)
        if arguments.out is None:
            complain("without --out, the finished runs are lost")
        raise
    report_problems(result.stream.problems)
    _summarise(result, time.perf_counter_ns() - began_ns)
    _write_files(result, arguments)
    return CHECK_FAILED if result.failed else DONE


def _swept(files: list[Path], arguments: argparse.Namespace) -> "SweepResult":
    from clob.replay import sweep  # noqa: PLC0415 - NumPy may be missing

    trader = load_strategy(arguments.strategy)
    check_trading(arguments, trader)
    stream, _ = opened(files, arguments)
    grid: dict[str, Any] = {}
    for name, values in arguments.parameters:
        if name in grid:
            raise UnusableError(f"--grid: {name} is given twice; put its values in one list")
        grid[name] = values
    try:
        with quiet():
            return sweep(
                trader,
                grid,
                stream,
                seeds=arguments.seeds,
                jobs=arguments.jobs,
                out=arguments.out,
                on_progress=_shown() if sys.stderr.isatty() else None,
                **trading_settings(stream, arguments),
            )
    except ClobError as error:
        raise UnusableError(_described(files, error)) from error
    except OSError as error:
        raise UnusableError(describe_error(files, error)) from error
    except ValueError as error:
        raise UnusableError(str(error)) from error


def _described(files: list[Path], error: ClobError) -> str:
    """Describe an error; one of the sweep itself is not about a file."""
    if error.code == "SWEEP":
        return f"{error.code}: {printable(str(error))}"
    return describe_error(files, error)


def _shown() -> "Callable[[SweepProgress], None]":
    """Return a function that writes the progress as one line, replaced each time."""
    began_ns = time.perf_counter_ns()

    def show(progress: "SweepProgress") -> None:
        new, left = progress.done - progress.skipped, progress.total - progress.done
        left_s = (time.perf_counter_ns() - began_ns) * left // (max(new, 1) * NS_PER_S)
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        line = f"{progress.done:,} of {progress.total:,} runs{failed}, {left_s:,} s left"
        sys.stderr.write(f"\r\x1b[K{line if left else ''}")
        sys.stderr.flush()

    return show


# ----- output --------------------------------------------------------------------------------


def _summarise(result: "SweepResult", passed_ns: int) -> None:
    runs = f"{len(result.done):,} done"
    if result.failed:
        runs += f", {len(result.failed):,} failed"
    if len(result) < result.total:
        runs += f", {result.total - len(result):,} not run"
    if result.skipped:
        runs += f"; {result.skipped:,} were in the folder"
    failed = [(row, printable(row.error)) for row in result.failed[:FAILED_SHOWN]]
    write_columns(
        [
            ("recording", printable(result.stream.name)),
            ("strategy", result.plan.name),
            ("runs", runs),
            ("time", f"{passed_ns / NS_PER_S:.3f} s"),
            *(("failed", f"{_named(row)}: {error}") for row, error in failed),
        ]
    )
    best = sorted(result.done, key=lambda row: (-row.figures["profit"], row.number))[:BEST_SHOWN]
    if best:
        write("")
        _write_best(best)


def _named(row: "SweepRow") -> str:
    """Name a run by its parameters and its seed, if that is not 0."""
    parts = [f"{name}={value}" for name, value in row.parameters.items()]
    return " ".join([f"run {row.number}", *parts, *([f"seed={row.seed}"] if row.seed else [])])


def _write_best(rows: "list[SweepRow]") -> None:
    """Write the runs with the highest profit as a table."""
    cells = [["run", *rows[0].parameters, "seed", "profit", "drawdown", "fills", "digest"]]
    for row in rows:
        values = [row.number, *row.parameters.values(), row.seed]
        money = [format_tokens(row.figures[name]) for name in ("profit", "drawdown")]
        texts = [*map(str, values), *money, f"{row.figures['own_fills']:,}", row.digest[:16]]
        cells.append([printable(text) for text in texts])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        write("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def _write_files(result: "SweepResult", arguments: argparse.Namespace) -> None:
    """Write the requested table and report, and print one line for each file."""
    path = arguments.table
    try:
        if arguments.table:
            result.write_csv(arguments.table)
            write_columns([("wrote", f"{printable(str(path))}, {len(result):,} rows")])
        path = arguments.report
        if arguments.report:
            result.report(arguments.report)
            write_columns([("wrote", printable(str(path)))])
    except OSError as error:
        raise UnusableError(describe_error([path], error, "FILE_UNWRITABLE")) from error
