"""``clob record`` and ``clob paper``: write a live feed to a file, and run a strategy over it."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clob.cli import arguments as parse
from clob.cli.output import (
    CHECK_FAILED,
    DONE,
    NS_PER_S,
    UNUSABLE,
    UnusableError,
    check_writable,
    complain,
    describe_error,
    with_code,
    write,
    write_columns,
)
from clob.cli.replay import (
    add_metrics,
    add_trading,
    check_trading,
    created,
    load_strategy,
    output_settings,
    own_settings,
    report_raised,
)
from clob.cli.results import check_outputs, write_metrics, write_results, write_run
from clob.errors import ClobError, PackageMissingError

if TYPE_CHECKING:
    from clob.live import FeedSummary, PaperRun
    from clob.replay import Strategy

EPILOG = """Exit code: 0 done, also after Ctrl-C, SIGTERM or --for; 1 the server or a removed market
ended the feed (the recording is kept); 2 no connection, or an argument or a file is unusable; 130
interrupted by a second Ctrl-C."""

PAPER_EPILOG = f"{EPILOG} Orders of the strategy are simulated and never sent."


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands and their arguments."""
    parser = commands.add_parser(
        "record",
        help="write the feed of a server to a recording",
        description="Write the order books of a server, order by order, to a file for clob replay, "
        "until Ctrl-C. A disconnect resumes, or marks the gap.",
        epilog=EPILOG,
    )
    _add_feed(parser)
    parser.add_argument(
        "--dialect",
        choices=("clob", "polymarket"),
        default="clob",
        help="messages of the server; polymarket: its market channel; default: %(default)s",
    )
    parser.add_argument(
        "--token",
        metavar="ID",
        action="append",
        default=[],
        help="a token, with --dialect polymarket; repeat for more; at least one",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        default=Path("feed.jsonl"),
        help="the file to create; default: %(default)s",
    )
    parser.set_defaults(run=lambda arguments: _guarded(_record, arguments))
    parser = commands.add_parser(
        "paper",
        help="run a strategy over a live feed without sending its orders",
        description="Run a strategy in shadow mode over the live feed of a server until Ctrl-C, "
        "then print the result as clob replay does.",
        epilog=PAPER_EPILOG,
    )
    _add_feed(parser)
    add_trading(parser, required=True, ends=False)
    add_metrics(parser)
    parser.add_argument(
        "--lot",
        metavar="TOKENS",
        type=parse.tokens_wei,
        help="size of one lot; default: that of the markets, or 0.000001 if theirs is tiny",
    )
    parser.add_argument("--record", metavar="FILE", type=Path, help="write a recording, too")
    parser.add_argument("--out", metavar="PATH", type=Path, help="write the tables")
    parser.add_argument("--report", metavar="PATH", type=Path, help="write an HTML report")
    parser.set_defaults(run=lambda arguments: _guarded(_paper, arguments))


def _add_feed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="address of the server: http(s) or ws(s)")
    parser.add_argument(
        "--market",
        metavar="ID",
        action="append",
        default=[],
        help="a market; repeat for more; default: all",
    )
    parser.add_argument(
        "--for",
        dest="duration",
        metavar="TIME",
        type=parse.every_ns,
        help="end after this time, such as 10m; default: never",
    )


def _guarded(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; report missing packages and unusable arguments as errors."""
    try:
        return run(arguments)
    except PackageMissingError as error:
        complain(error)
    except UnusableError as error:
        complain(str(error))
    return UNUSABLE


def _feed_options(arguments: argparse.Namespace) -> dict[str, Any]:
    duration = arguments.duration
    return {
        "markets": arguments.market,
        "duration_s": None if duration is None else duration / NS_PER_S,
    }


def _check_new(path: Path) -> None:
    """Reject a recording that exists: it may not be overwritten by another one."""
    check_writable(path, ())
    if path.exists():
        raise UnusableError(f"FILE_UNWRITABLE: {path}: the file exists; a recording is a new file")


def _record(arguments: argparse.Namespace) -> int:
    _check_new(arguments.out)
    try:
        summary = _recorded(arguments)
    except (OSError, ClobError) as error:
        raise UnusableError(_describe(error, arguments.out)) from error
    write_columns([("file", str(arguments.out)), *_counts(summary)])
    return _code(summary)


def _recorded(arguments: argparse.Namespace) -> "FeedSummary":
    """Record with the dialect of the server.

    Raises:
        UnusableError: an option belongs to the other dialect.
    """
    from clob.live import record, record_polymarket  # noqa: PLC0415 - packages may be missing

    options = _feed_options(arguments)
    if arguments.dialect == "clob":
        if arguments.token:
            raise UnusableError("--token needs --dialect polymarket; name markets by --market")
        return record(arguments.url, arguments.out, **options)
    if options.pop("markets"):
        raise UnusableError("--market is not used by --dialect polymarket; name tokens by --token")
    if not arguments.token:
        raise UnusableError("--dialect polymarket needs at least one --token")
    return record_polymarket(arguments.url, arguments.out, tokens=arguments.token, **options)


def _paper(arguments: argparse.Namespace) -> int:
    import clob.live  # noqa: F401, PLC0415 - its packages may be missing

    if arguments.record:
        _check_new(arguments.record)
    check_outputs(arguments.out, arguments.report, [], arguments.record)
    trader = load_strategy(arguments.strategy)
    check_trading(arguments, trader)
    run = _run(arguments, trader)
    file = str(arguments.record or "")
    write_columns([("recording", file), *_counts(run.feed)])
    write_run(run.result, run.stream)
    if arguments.metrics:
        write_metrics(run.result)
    write_results(run.result, arguments.out, arguments.report)
    return _code(run.feed)


def _run(arguments: argparse.Namespace, trader: "type[Strategy]") -> "PaperRun":
    from clob.live import paper  # noqa: PLC0415 - its packages may be missing

    try:
        return paper(
            arguments.url,
            created(trader),
            record=arguments.record,
            lot_wei=arguments.lot,
            **own_settings(arguments),
            **output_settings(arguments),
            **_feed_options(arguments),
        )
    except UnusableError:
        raise
    except Exception as error:
        report_raised(trader, error)
        if not isinstance(error, OSError | ClobError):
            raise
        raise UnusableError(_describe(error, arguments.record)) from error


def _describe(error: OSError | ClobError, path: Path | None) -> str:
    if isinstance(error, OSError):
        return describe_error([path or Path()], error, "FILE_UNWRITABLE")
    return with_code(error)


def _counts(summary: "FeedSummary") -> list[tuple[str, str]]:
    reconnects = summary.num_connections - 1
    feed = f"{summary.num_messages:,} messages, {summary.num_trades:,} trades"
    passed_s = max(summary.last_ms - summary.first_ms, 0) / 1_000
    lines = [
        ("markets", ", ".join(summary.markets)),
        ("feed", f"{feed}, {summary.num_bytes:,} bytes, {passed_s:,.1f} s"),
    ]
    if reconnects:
        lines.append(("reconnects", f"{reconnects:,}"))
    if summary.num_gaps:
        lines.append(("gaps", f"{summary.num_gaps:,}, each marked by a snapshot"))
    return lines


def _code(summary: "FeedSummary") -> int:
    """Return the exit code; report the error that ended the feed."""
    if summary.error is None:
        return DONE
    write("")
    complain(summary.error)
    return CHECK_FAILED
