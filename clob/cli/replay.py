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
from clob.cli.latency import latency, latency_of
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
from clob.cli.results import (
    check_outputs,
    differences_of,
    draw_books,
    list_fees,
    write_metrics,
    write_results,
    write_summary,
)
from clob.errors import ClobError
from clob.program import print_text

if TYPE_CHECKING:
    from clob.replay import Backtest, Strategy, Stream
    from clob.replay.io.recording import Records
    from clob.replay.sim.fees import Fees

CHUNK = 131_072
CHUNK_WITH_BAR = 8_192
"""Events between two updates of the progress bar."""

TRADING = (
    (
        "--every",
        "TIME",
        parse.every_ns,
        "interval between calls of on_wake, such as 100ms; required if the strategy has on_wake",
    ),
    (
        "--latency",
        "ORDER:REPLY",
        latency,
        "latency of orders and replies, each 5ms, 1ms..9ms, lognormal,2ms,9ms, p50=2ms,p99=9ms or "
        "a file of measurements; or KIND=DELAY of order, cancel, reply, fill, feed, and seed=N; "
        "repeatable; default: none",
    ),
    ("--collateral", "TOKENS", parse.tokens_wei, "initial collateral; default: unlimited credit"),
    (
        "--fee-bps",
        "IN:REST",
        parse.rates_bps,
        "fee rates of incoming and resting orders; default: 0",
    ),
    (
        "--fees",
        "NAME",
        str,
        "fee schedule of a venue, such as kalshi-2026; help lists the names; default: none",
    ),
    (
        "--mark",
        "RULE",
        str,
        "rule that values open positions: others-mid (book without own orders), mid, bid or last; "
        "default: others-mid",
    ),
    (
        "--equity-every",
        "TIME",
        parse.every_ns,
        "step of rows of equity, besides own fills and wakes; default: 1m",
    ),
    ("--scale", "TICKS", parse.scale, "ticks per token; default: the value in the file, else 100"),
)
"""Options of a strategy: flag, name of the value, its parser, help."""


class _FeesAction(argparse.Action):
    """Stores the name of a fee schedule; for ``help`` lists them and exits."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if values == "help":
            list_fees()
            parser.exit()
        setattr(namespace, self.dest, values)


ACTIONS: dict[str, Any] = {"--latency": "append", "--fees": _FeesAction}
"""Actions of options that are not only stored."""

EPILOG = """Exit code: 0 done, also if there was nothing to check; 1 a fill or best price was not
reproduced and no own order explains it (see --allow); 2 a file or an argument is unusable, or the
strategy raised an error; 130 interrupted. The format is detected from the start of the file.
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
    add_trading(parser)
    add_metrics(parser)
    parser.add_argument(
        "--out",
        metavar="PATH",
        type=Path,
        help="write the tables: one .npz, or one .csv or .parquet file per table "
        "(res.fills.parquet)",
    )
    parser.add_argument("--report", metavar="PATH", type=Path, help="write an HTML report")
    parser.set_defaults(run=partial(with_numpy, _run))


def _add_checking(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("checking")
    add_mode(group)
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


def add_mode(container: argparse._ActionsContainer) -> None:
    """Add the mode of a backtest to a parser or a group of options."""
    container.add_argument(
        "--mode",
        choices=("rematch", "shadow"),
        default="rematch",
        help="rematch: own orders change later matches; shadow: the recording stays as it was; "
        "default: %(default)s",
    )


def add_trading(
    parser: argparse.ArgumentParser, *, required: bool = False, ends: bool = True
) -> None:
    """Add the options of a strategy.

    Args:
        parser: the parser of a command.
        required: whether the strategy itself is required.
        ends: whether the flow ends, so that outcomes can settle the remaining positions.
    """
    group = parser.add_argument_group("trading")
    group.add_argument(
        "--strategy", metavar="MODULE:CLASS", required=required, help="the Strategy class"
    )
    for flag, metavar, parse_value, text in TRADING:
        action = ACTIONS.get(flag, "store")
        group.add_argument(flag, metavar=metavar, type=parse_value, action=action, help=text)
    if ends:
        group.add_argument(
            "--outcome",
            metavar="MARKET=TICKS",
            type=parse.outcome,
            action="append",
            default=[],
            help="final value of a market's YES token; repeat for more markets",
        )


def add_metrics(parser: argparse.ArgumentParser) -> None:
    """Add the option that prints metrics."""
    parser.add_argument(
        "--metrics",
        action="store_true",
        help="print return, risk and quality of the trading",
    )


# ----- running -------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    """Replay each file, or all merged; return the highest exit code."""
    files = [Path(file) for file in arguments.files] or [sample()]
    streams = [files] if arguments.merge or arguments.pair else [[file] for file in files]
    if len(streams) > 1 and (arguments.out or arguments.report):
        raise UnusableError("--out and --report need one stream: pass one FILE, --merge or --pair")
    check_outputs(arguments.out, arguments.report, files)
    trader = load_strategy(arguments.strategy) if arguments.strategy else None
    check_trading(arguments, trader)
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


def check_trading(arguments: argparse.Namespace, trader: "type[Strategy] | None") -> None:
    """Reject options that would have no effect, and a strategy that would never be called."""
    from clob.replay.backtest import wakes  # noqa: PLC0415 - NumPy may be missing

    if trader is None:
        flags = [*(flag for flag, *_ in TRADING), "--outcome", "--metrics"]
        given = [one for one in flags if getattr(arguments, one[2:].replace("-", "_"), None)]
        if given:
            raise UnusableError(f"{given[0]} needs --strategy: without one there are no own orders")
    elif arguments.every is None and wakes(trader):
        text = "overrides on_wake, which needs --every, such as --every 100ms"
        raise UnusableError(f"--strategy: {trader.__name__} {text}")
    chosen_fees(arguments)
    _chosen_mark(arguments)


def _chosen_mark(arguments: argparse.Namespace) -> str:
    """Return the rule of ``--mark``."""
    from clob.replay.sim.marks import DEFAULT_MARK, check_mark  # noqa: PLC0415 - NumPy may be missing

    try:
        check_mark(arguments.mark or DEFAULT_MARK)
    except ValueError as error:
        raise UnusableError(f"--mark: {error}") from error
    return arguments.mark or DEFAULT_MARK


def chosen_fees(arguments: argparse.Namespace) -> "Fees | str":
    """Return the fees of ``--fees`` or ``--fee-bps``."""
    from clob.replay import RateFees, no_fees  # noqa: PLC0415 - NumPy may be missing
    from clob.replay.sim.fee_schedules import fee_schedule  # noqa: PLC0415

    if arguments.fees and arguments.fee_bps:
        raise UnusableError("--fees and --fee-bps exclude each other; got both")
    if any(arguments.fee_bps or ()):
        return RateFees(*arguments.fee_bps)
    if not arguments.fees:
        return no_fees
    try:
        fee_schedule(arguments.fees)
    except ValueError as error:
        raise UnusableError(f"--fees: {error}") from error
    return str(arguments.fees)


def sample() -> Path:
    """Return the path of the sample in the package."""
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
    except UnusableError:
        raise
    except Exception as error:
        if trader:
            report_raised(trader, error)
        if not isinstance(error, OSError | ClobError):
            raise
        raise UnusableError(describe_error(files, error)) from error
    passed_ns = time.perf_counter_ns() - began_ns
    report_problems(stream.problems)
    write_summary(stream, kinds, result, passed_ns, arguments.check)
    if arguments.metrics:
        write_metrics(result)
    write_results(result, arguments.out, arguments.report)
    draw_books(stream, result)
    differences = differences_of(result, arguments.check)
    return DONE if differences <= arguments.allow else CHECK_FAILED


def _backtest(
    stream: "Stream", arguments: argparse.Namespace, trader: "type[Strategy] | None", events: int
) -> "Backtest":
    from clob.replay import backtest  # noqa: PLC0415 - NumPy may be missing

    name = printable(stream.name)
    with quiet(), progress(name, stream.progress, events) as show:
        return backtest(
            stream,
            strategy=created(trader) if trader else None,
            **trading_settings(stream, arguments),
            **output_settings(arguments),
            check=arguments.check,
            chunk=CHUNK_WITH_BAR if show else CHUNK,
            on_progress=show,
        )


def report_raised(trader: "type[Strategy]", error: Exception) -> None:
    """Print the traceback of an error in a strategy, from its own code on.

    It is not a failed check, and the author of the strategy needs the traceback.

    Raises:
        UnusableError: the error passed through the code of the strategy, or it is about neither a
            file nor an argument, such as a method with other parameters.
        OutputFailedError: standard output, to which the strategy may have printed, has failed.
    """
    # A broken pipe can be that of standard output, which only another write tells.
    print_text("\n" if isinstance(error, BrokenPipeError) else "", flush=True)
    modules = {one.__module__ for one in trader.__mro__}
    trace = error.__traceback__
    while trace and trace.tb_frame.f_globals.get("__name__") not in modules:
        trace = trace.tb_next
    if trace or not isinstance(error, OSError | ClobError):
        traceback.print_exception(error.with_traceback(trace or error.__traceback__))
        raise UnusableError(f"--strategy: {trader.__name__} raised an error") from None


def output_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a backtest that ``--out``, ``--report`` and ``--metrics`` need."""
    kept = ("fills", "bests") if arguments.out or arguments.report else ()
    settings: dict[str, Any] = {"keep": kept}
    if arguments.report or arguments.metrics:
        from clob.replay.metrics import HORIZONS_NS  # noqa: PLC0415 - for metrics only

        settings["horizons_ns"] = HORIZONS_NS
    if arguments.report:
        from clob.replay.modes.sampling import SAMPLES  # noqa: PLC0415 - for reports only

        settings["sample"] = SAMPLES
    return settings


def trading_settings(stream: "Stream", arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a backtest that the options of a strategy set."""
    return {
        "mode": arguments.mode,
        "outcome": _outcome(stream, arguments.outcome),
        **own_settings(arguments),
    }


def own_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return those that are about the strategy alone, of any flow."""
    from clob.replay.sim.marks import EQUITY_EVERY_NS  # noqa: PLC0415 - NumPy may be missing

    return {
        "every_ns": arguments.every,
        "mark": _chosen_mark(arguments),
        "equity_every_ns": arguments.equity_every or EQUITY_EVERY_NS,
        "latency": latency_of(arguments.latency or ()),
        "collateral": arguments.collateral,
        "fees": chosen_fees(arguments),
        "scale": arguments.scale,
    }


def _outcome(stream: "Stream", given: Sequence[tuple[str, int]]) -> dict[int, int]:
    """Map market names or numbers to final values."""
    numbers = {str(one.number // 2): one.number // 2 for one in stream.instruments}
    numbers |= {one.market: one.number // 2 for one in stream.instruments}
    outcome: dict[int, int] = {}
    for market, price in given:
        if market not in numbers:
            raise UnusableError(
                f"--outcome: unknown market {market!r}; the recording has "
                f"{', '.join(sorted({one.market or '0' for one in stream.instruments}))}"
            )
        if outcome.setdefault(numbers[market], price) != price:
            first = outcome[numbers[market]]
            raise UnusableError(
                f"--outcome: market {market!r} must have one outcome; got {first} and {price}"
            )
    return outcome


# ----- strategies ----------------------------------------------------------------------------


def load_strategy(text: str) -> "type[Strategy]":
    """Import a strategy class, such as ``mine:Maker``, also from the working directory.

    Raises:
        UnusableError: the module or class does not exist, or is not a ``Strategy``.
    """
    from clob.replay import Strategy  # noqa: PLC0415 - NumPy may be missing

    module_name, _, name = text.partition(":")
    is_path = module_name.endswith(".py") or module_name.startswith(".") or "/" in module_name
    if not module_name or not name or is_path:
        expected = "expected MODULE:CLASS, such as mine:Maker for a class Maker of mine.py"
        raise UnusableError(f"--strategy: {expected}; got {text!r}")
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
        elif not isinstance(error, SyntaxError):
            place = traceback.extract_tb(error.__traceback__)[-1]
            reason += f" ({Path(place.filename).name}, line {place.lineno})"
        raise UnusableError(f"--strategy: {module_name!r} cannot be imported: {reason}") from error
    strategy_class = getattr(module, name, None)
    if strategy_class is None:
        raise UnusableError(f"--strategy: module {module_name!r} has no class {name!r}")
    if not (isinstance(strategy_class, type) and issubclass(strategy_class, Strategy)):
        raise UnusableError(f"--strategy: {text} is not a subclass of clob.replay.Strategy")
    return strategy_class


def created(trader: "type[Strategy]") -> "Strategy":
    """Return an instance of a strategy class.

    Raises:
        UnusableError: it requires arguments.
    """
    try:
        inspect.signature(trader).bind()
    except TypeError as error:
        text = f"{trader.__name__} requires arguments ({error}); use a subclass with defaults"
        raise UnusableError(f"--strategy: {text}") from error
    return trader()
