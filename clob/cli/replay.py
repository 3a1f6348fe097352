"""``clob replay``: runs recorded order flow through books, and says what came of it."""

import argparse
import importlib
import inspect
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clob.cli import arguments as words
from clob.cli.inputs import add_reading, opened, quiet, watched, with_numpy
from clob.cli.output import (
    CHECK_FAILED,
    DONE,
    UNUSABLE,
    UnusableError,
    complain,
    printable,
    progress,
    tell_problems,
    told_of,
    write,
)
from clob.cli.results import differences_of, draw_books, refuse_results, tell_result, write_results
from clob.errors import ClobError

if TYPE_CHECKING:
    from clob.replay import Backtest, Strategy, Stream
    from clob.replay.io.recording import Records

CHUNK = 131_072
CHUNK_WITH_BAR = 8_192
"""How many events are run between two looks of the progress bar."""

EPILOG = """Exit code: 0 done; 1 a recorded fill or best price did not come out, and no own order
had a part in it; 2 a file or an argument cannot be used. Formats are told by what a file begins
with. Prices are ticks, sizes lots, times have a unit (100ms), amounts are whole tokens."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command and its arguments.

    Args:
        commands: where to add it.
    """
    parser = commands.add_parser(
        "replay",
        help="run recorded order flow through books and check the fills",
        description="Run recorded order flow through books, check what comes of it against what "
        "was recorded, and show the books at the end; with --strategy, with orders of one's own "
        "in the same queues.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="a recording; without one, the sample that comes with the package",
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
        help="write the tables: .npz has all, .csv and .parquet become a file for each, "
        "res.fills.parquet",
    )
    parser.add_argument("--report", metavar="PATH", type=Path, help="write a page of HTML")
    parser.set_defaults(run=run)


def _add_checking(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments about what is compared."""
    group = parser.add_argument_group("checking")
    group.add_argument(
        "--mode",
        choices=("rematch", "shadow"),
        default="rematch",
        help="rematch lets own orders change what comes after, shadow lets history be the truth",
    )
    group.add_argument(
        "--check",
        metavar="WHAT",
        type=words.checks,
        default=("fills", "bests"),
        help="fills, bbo, both with a comma, or none; default: fills,bbo",
    )
    group.add_argument(
        "--allow",
        metavar="N",
        type=words.count,
        default=0,
        help="how many differences are let pass; default: %(default)s",
    )


def _add_trading(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments about a strategy."""
    group = parser.add_argument_group("trading")
    group.add_argument("--strategy", metavar="MODULE:CLASS", help="what trades, a Strategy")
    group.add_argument(
        "--every", metavar="TIME", type=words.every_ns, help="how often it is woken; 100ms"
    )
    group.add_argument(
        "--latency",
        metavar="ORDER:REPLY",
        type=words.latency_ns,
        help="how long orders and answers take; 5ms:5ms",
    )
    group.add_argument(
        "--collateral",
        metavar="TOKENS",
        type=words.tokens_wei,
        help="what it begins with; without, it has credit",
    )
    group.add_argument(
        "--fee-bps",
        metavar="IN:REST",
        type=words.rates_bps,
        help="what its incoming and its resting orders are charged",
    )
    group.add_argument(
        "--scale",
        metavar="TICKS",
        type=words.scale,
        help="how many ticks a whole token is worth; default: what the file says, or else 100",
    )
    group.add_argument(
        "--outcome",
        metavar="MARKET=TICKS",
        type=words.worth,
        action="append",
        default=[],
        help="what a YES token is worth in the end; may be given for each market",
    )


# ----- running -------------------------------------------------------------------------------


def run(arguments: argparse.Namespace) -> int:
    """Replay one file after the other, or all of them as one.

    Args:
        arguments: what was asked for.

    Returns:
        The worst of their exit codes.
    """
    return with_numpy("replay", lambda: _run(arguments))


def _run(arguments: argparse.Namespace) -> int:
    """Replay what was asked for."""
    files = [Path(file) for file in arguments.files] or [_sample()]
    together = [files] if arguments.merge else [[file] for file in files]
    try:
        if len(together) > 1 and (arguments.out or arguments.report):
            raise UnusableError("--out and --report are of one stream: give one FILE, or --merge")
        refuse_results(arguments.out, arguments.report, files)
        trader = load_strategy(arguments.strategy) if arguments.strategy else None
    except UnusableError as error:
        complain(str(error))
        return UNUSABLE
    worst = DONE
    for place, some in enumerate(together):
        if place:
            write("")
        try:
            worst = max(worst, _replay(some, arguments, trader))
        except UnusableError as error:
            complain(str(error))
            worst = UNUSABLE
    return worst


def _sample() -> Path:
    """Find the sample that comes with the package."""
    from clob.replay import sample_path  # noqa: PLC0415 - NumPy may be missing

    return sample_path()


def _replay(
    files: Sequence[Path], arguments: argparse.Namespace, trader: "type[Strategy] | None"
) -> int:
    """Replay one stream, say what came of it, and give the exit code."""
    import numpy as np  # noqa: PLC0415 - may be missing

    stream, events = opened(files, arguments)
    began_ns = time.perf_counter_ns()
    kinds: Counter[int] = Counter()

    def count(chunk: "Records") -> None:
        """Count events by their kinds."""
        counts = np.bincount(chunk["kind"]).tolist()
        kinds.update({kind: number for kind, number in enumerate(counts) if number})

    try:
        result = _backtest(watched(stream, count), arguments, trader, events)
    except (OSError, ClobError) as error:
        raise UnusableError(told_of(files, error)) from error
    except UnusableError:
        raise
    except Exception:
        if trader is None:
            raise
        # A mistake of the strategy is no failed check, and its author wants to see where it is.
        traceback.print_exc()
        raise UnusableError(f"--strategy: {trader.__name__} has failed") from None
    passed_ns = time.perf_counter_ns() - began_ns
    tell_problems(stream.problems)
    tell_result(stream, kinds, result, passed_ns, arguments.check)
    write_results(result, arguments.out, arguments.report)
    draw_books(result)
    differences = differences_of(result, arguments.check)
    return DONE if differences <= arguments.allow else CHECK_FAILED


def _backtest(
    stream: "Stream",
    arguments: argparse.Namespace,
    trader: "type[Strategy] | None",
    events: int,
) -> "Backtest":
    """Run a stream as was asked for."""
    from clob.replay import Latency, RateFees, backtest, no_fees  # noqa: PLC0415

    order_ns, reply_ns = arguments.latency or (0, 0)
    incoming_bps, resting_bps = arguments.fee_bps or (0, 0)
    more: dict[str, Any] = {}
    if arguments.report:
        from clob.replay.modes.sampling import SAMPLES  # noqa: PLC0415 - for reports only

        more["sample"] = SAMPLES
    name = printable(stream.name)
    with quiet(), progress(name, stream.progress, events) as show:
        return backtest(
            stream,
            mode=arguments.mode,
            strategy=_made(trader) if trader else None,
            every_ns=arguments.every,
            latency=Latency(order_ns, reply_ns),
            collateral=arguments.collateral,
            fees=RateFees(incoming_bps, resting_bps) if arguments.fee_bps else no_fees,
            outcome=_outcome(stream, arguments.outcome),
            scale=arguments.scale,
            check=arguments.check,
            keep=("fills", "bests") if arguments.out or arguments.report else (),
            chunk=CHUNK_WITH_BAR if show else CHUNK,
            on_progress=show,
            **more,
        )


def _outcome(stream: "Stream", given: Sequence[tuple[str, int]]) -> dict[int, int]:
    """Find the markets that are settled, by their names or numbers."""
    numbers = {str(one.number // 2): one.number // 2 for one in stream.instruments}
    numbers |= {one.market: one.number // 2 for one in stream.instruments}
    for market, _ in given:
        if market not in numbers:
            raise UnusableError(
                f"--outcome: there is no market {market!r}, only "
                f"{', '.join(sorted({one.market or '0' for one in stream.instruments}))}"
            )
    return {numbers[market]: price for market, price in given}


# ----- strategies ----------------------------------------------------------------------------


def load_strategy(text: str) -> "type[Strategy]":
    """Find the class of a strategy, in the working directory too.

    Args:
        text: its module and its name, ``mine:Maker``.

    Returns:
        The class.

    Raises:
        UnusableError: there is none of that name, or it is no strategy.
    """
    from clob.replay import Strategy  # noqa: PLC0415 - NumPy may be missing

    module_name, _, name = text.partition(":")
    if not module_name or not name:
        raise UnusableError(f"--strategy is a module and a class, mine:Maker, not {text!r}")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise UnusableError(
                f"--strategy: {module_name!r} cannot be imported: {error}"
            ) from error
        raise UnusableError(f"--strategy: there is no module {module_name!r}") from error
    except Exception as error:
        raise UnusableError(
            f"--strategy: {module_name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    found = getattr(module, name, None)
    if found is None:
        raise UnusableError(f"--strategy: the module {module_name!r} has no {name!r}")
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise UnusableError(f"--strategy: {text} is no class made of clob.replay.Strategy")
    return found


def _made(trader: "type[Strategy]") -> "Strategy":
    """Make the strategy."""
    try:
        inspect.signature(trader).bind()
    except TypeError as error:
        raise UnusableError(
            f"--strategy: {trader.__name__} wants arguments ({error}); give a subclass that "
            "wants none"
        ) from error
    return trader()
