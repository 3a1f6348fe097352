"""``clob replay``: runs recorded order flow through books and prints the result."""

import argparse
import importlib
import inspect
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clob.cli import arguments as parse
from clob.cli.inputs import add_reading, opened, quiet, watched, with_numpy
from clob.cli.output import (
    CHECK_FAILED,
    DONE,
    UNUSABLE,
    UnusableError,
    complain,
    describe_error,
    printable,
    progress,
    report_problems,
    write,
)
from clob.cli.results import check_outputs, differences_of, draw_books, write_results, write_summary
from clob.errors import ClobError

if TYPE_CHECKING:
    from clob.replay import Backtest, Strategy, Stream
    from clob.replay.io.recording import Records

CHUNK = 131_072
CHUNK_WITH_BAR = 8_192
"""Events between two updates of the progress bar."""

TRADING = (
    ("--every", "TIME", parse.every_ns, "interval between calls of on_wake, such as 100ms"),
    ("--latency", "ORDER:REPLY", parse.latency_ns, "latency of order and reply, such as 5ms:5ms"),
    ("--collateral", "TOKENS", parse.tokens_wei, "initial collateral; default: unlimited credit"),
    ("--fee-bps", "IN:REST", parse.rates_bps, "fee rates of incoming and resting orders"),
    ("--scale", "TICKS", parse.scale, "ticks per token; default: the value in the file, else 100"),
)
"""Options of a strategy: flag, name of the value, its parser, help."""

EPILOG = """Exit code: 0 done; 1 a recorded fill or best price was not reproduced and no own order
explains it; 2 a file or an argument is unusable. The format is detected from the start of the file.
Prices are ticks, sizes lots, durations have a unit (100ms), amounts are whole tokens."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "replay",
        help="run recorded order flow through books and check the fills",
        description="Run recorded order flow through books, compare fills and best prices with the "
        "recording, and show the final books. With --strategy, the strategy's orders join the "
        "same queues.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="a recording; default: the sample in the package"
    )
    add_reading(parser)
    parser.add_argument(
        "--merge", action="store_true", help="run all files as one stream, merged by time"
    )
    _add_checking(parser)
    _add_trading(parser)
    parser.add_argument(
        "--out",
        metavar="PATH",
        type=Path,
        help="write the tables: one .npz, or one .csv or .parquet file per table "
        "(res.fills.parquet)",
    )
    parser.add_argument("--report", metavar="PATH", type=Path, help="write an HTML report")
    parser.set_defaults(run=partial(with_numpy, "replay", _run))


def _add_checking(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("checking")
    group.add_argument(
        "--mode",
        choices=("rematch", "shadow"),
        default="rematch",
        help="rematch: own orders change later matches; shadow: the recording stays as it was",
    )
    group.add_argument(
        "--check",
        metavar="WHAT",
        type=parse.checks,
        default=("fills", "bests"),
        help="fills, bbo, both with a comma, or none; default: fills,bbo",
    )
    group.add_argument(
        "--allow",
        metavar="N",
        type=parse.count,
        default=0,
        help="number of differences to tolerate; default: %(default)s",
    )


def _add_trading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("trading")
    group.add_argument("--strategy", metavar="MODULE:CLASS", help="the Strategy class")
    for flag, metavar, parse_value, text in TRADING:
        group.add_argument(flag, metavar=metavar, type=parse_value, help=text)
    group.add_argument(
        "--outcome",
        metavar="MARKET=TICKS",
        type=parse.outcome,
        action="append",
        default=[],
        help="final value of a market's YES token; repeat for more markets",
    )


# ----- running -------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    """Replay each file, or all merged; return the highest exit code."""
    files = [Path(file) for file in arguments.files] or [_sample()]
    streams = [files] if arguments.merge else [[file] for file in files]
    if len(streams) > 1 and (arguments.out or arguments.report):
        raise UnusableError("--out and --report need one stream: pass one FILE, or --merge")
    check_outputs(arguments.out, arguments.report, files)
    trader = load_strategy(arguments.strategy) if arguments.strategy else None
    worst = DONE
    for index, group in enumerate(streams):
        if index:
            write("")
        try:
            worst = max(worst, _replay(group, arguments, trader))
        except UnusableError as error:
            complain(str(error))
            worst = UNUSABLE
    return worst


def _sample() -> Path:
    from clob.replay import sample_path  # noqa: PLC0415 - NumPy may be missing

    return sample_path()


def _replay(
    files: Sequence[Path], arguments: argparse.Namespace, trader: "type[Strategy] | None"
) -> int:
    """Replay one stream, print the result and return the exit code."""
    import numpy as np  # noqa: PLC0415 - may be missing

    stream, events = opened(files, arguments)
    began_ns = time.perf_counter_ns()
    kinds: Counter[int] = Counter()

    def count(chunk: "Records") -> None:
        counts = np.bincount(chunk["kind"]).tolist()
        kinds.update({kind: number for kind, number in enumerate(counts) if number})

    try:
        result = _backtest(watched(stream, count), arguments, trader, events)
    except (OSError, ClobError) as error:
        raise UnusableError(describe_error(files, error)) from error
    except UnusableError:
        raise
    except Exception:
        if trader is None:
            raise
        # An error in a strategy is not a failed check; its author needs the traceback.
        traceback.print_exc()
        raise UnusableError(f"--strategy: {trader.__name__} raised an error") from None
    passed_ns = time.perf_counter_ns() - began_ns
    report_problems(stream.problems)
    write_summary(stream, kinds, result, passed_ns, arguments.check)
    write_results(result, arguments.out, arguments.report)
    draw_books(result)
    differences = differences_of(result, arguments.check)
    return DONE if differences <= arguments.allow else CHECK_FAILED


def _backtest(
    stream: "Stream", arguments: argparse.Namespace, trader: "type[Strategy] | None", events: int
) -> "Backtest":
    from clob.replay import Latency, RateFees, backtest, no_fees  # noqa: PLC0415

    more: dict[str, Any] = {}
    if arguments.report:
        from clob.replay.modes.sampling import SAMPLES  # noqa: PLC0415 - for reports only

        more["sample"] = SAMPLES
    name = printable(stream.name)
    with quiet(), progress(name, stream.progress, events) as show:
        return backtest(
            stream,
            mode=arguments.mode,
            strategy=_created(trader) if trader else None,
            every_ns=arguments.every,
            latency=Latency(*arguments.latency or (0, 0)),
            collateral=arguments.collateral,
            fees=RateFees(*arguments.fee_bps) if arguments.fee_bps else no_fees,
            outcome=_outcome(stream, arguments.outcome),
            scale=arguments.scale,
            check=arguments.check,
            keep=("fills", "bests") if arguments.out or arguments.report else (),
            chunk=CHUNK_WITH_BAR if show else CHUNK,
            on_progress=show,
            **more,
        )


def _outcome(stream: "Stream", given: Sequence[tuple[str, int]]) -> dict[int, int]:
    """Map market names or numbers to final values."""
    numbers = {str(one.number // 2): one.number // 2 for one in stream.instruments}
    numbers |= {one.market: one.number // 2 for one in stream.instruments}
    for market, _ in given:
        if market not in numbers:
            raise UnusableError(
                f"--outcome: unknown market {market!r}; the recording has "
                f"{', '.join(sorted({one.market or '0' for one in stream.instruments}))}"
            )
    return {numbers[market]: price for market, price in given}


# ----- strategies ----------------------------------------------------------------------------


def load_strategy(text: str) -> "type[Strategy]":
    """Import a strategy class, such as ``mine:Maker``, also from the working directory.

    Raises:
        UnusableError: the module or class does not exist, or is not a ``Strategy``.
    """
    from clob.replay import Strategy  # noqa: PLC0415 - NumPy may be missing

    module_name, _, name = text.partition(":")
    if not module_name or not name:
        raise UnusableError(f"--strategy: expected MODULE:CLASS, such as mine:Maker; got {text!r}")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError):
            if error.name and f"{module_name}.".startswith(f"{error.name}."):
                raise UnusableError(f"--strategy: module {module_name!r} not found") from error
            reason = str(error)
        raise UnusableError(f"--strategy: {module_name!r} cannot be imported: {reason}") from error
    strategy_class = getattr(module, name, None)
    if strategy_class is None:
        raise UnusableError(f"--strategy: module {module_name!r} has no class {name!r}")
    if not (isinstance(strategy_class, type) and issubclass(strategy_class, Strategy)):
        raise UnusableError(f"--strategy: {text} is not a subclass of clob.replay.Strategy")
    return strategy_class


def _created(trader: "type[Strategy]") -> "Strategy":
    try:
        inspect.signature(trader).bind()
    except TypeError as error:
        text = f"{trader.__name__} requires arguments ({error}); use a subclass with defaults"
        raise UnusableError(f"--strategy: {text}") from error
    return trader()
