"""The ``clob-server`` command: runs a server and the offline tools of its operator."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, TypeAlias

from clob import ClobError
from clob.program import VersionAction, print_text, run_program
from clob_server.auth.api_keys import ids_key
from clob_server.cli import backup, cluster, deploy, keys, markets, repair, wallets
from clob_server.cli.exit_codes import DONE, FAILED, UNUSABLE, complain
from clob_server.cli.export import FORMATS, drop, droppable, export_journal, export_tables
from clob_server.cli.options import add_options, path_argument, trimmed
from clob_server.cli.run import run
from clob_server.cli.verify import audit
from clob_server.core.commands import ExchangeSettings
from clob_server.core.identity import domain_of
from clob_server.core.ids import Ids
from clob_server.core.recovery import recover
from clob_server.log import LogDamagedError, SqliteLog
from clob_server.log.sqlite import DATABASE

JOURNAL: Final = "journal"
"""The export form that ``clob verify`` reads."""

Act: TypeAlias = Callable[[argparse.Namespace, Mapping[str, str]], int]
"""Runs a command with its arguments and the environment; returns the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments after the command name; None means ``sys.argv``.

    Returns:
        0 on success, 1 if something is damaged, failed or was rejected, 2 if an argument or folder
        is unusable.

    Raises:
        SystemExit: wrong arguments (2), ``--help`` or ``--version`` (0).
    """
    return run_program("clob-server", lambda: act_on(argv))


def act_on(argv: Sequence[str] | None) -> int:
    """Parse the arguments, run the command and return its exit code."""
    arguments = parser().parse_args(argv)
    act: Act = arguments.act
    return act(arguments, trimmed(os.environ))


def parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    described = argparse.ArgumentParser(
        prog="clob-server",
        description="A matching engine for prediction markets, served over HTTP and WebSocket.",
        epilog="Options without a command mean run: clob-server --demo.",
    )
    described.add_argument("--version", action=VersionAction)
    commands = described.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serving = commands.add_parser(
        "run",
        help="run the server until it is stopped",
        description="Run the server until SIGTERM or Ctrl-C. Every option can be set in the "
        "environment: --data-dir is CLOB_DATA_DIR. The command line has precedence.",
        epilog="Exit code: 0 after a clean stop, 1 the log is damaged or the server failed, 2 "
        "the server could not start.",
    )
    add_options(serving)
    serving.set_defaults(act=lambda arguments, environ: run(vars(arguments), environ))
    keys.add_commands(commands)
    markets.add_commands(commands)
    wallets.add_commands(commands)
    deploy.add_commands(commands)
    backup.add_commands(commands)
    cluster.add_command(commands)
    verifying = commands.add_parser(
        "verify",
        help="replay a log and compare every hash in it",
        description="Replay a log and compare every hash in it.",
        epilog="Exit code: 0 all hashes agree, 1 a difference or damage was found, 2 the folder is "
        "unusable.",
    )
    verifying.set_defaults(act=on_log(verify_log))
    exporting = commands.add_parser(
        "export",
        help="export a log as a journal or as tables",
        description="Write a log as a journal, for `clob verify`, or as tables of all events, "
        "trades, orders and settlements.",
    )
    exporting.add_argument(
        "target",
        type=path_argument,
        metavar="TARGET",
        help="the journal, or the folder for tables; must not exist",
    )
    exporting.add_argument(
        "--form", choices=(JOURNAL, *FORMATS), default=JOURNAL, help="default: %(default)s"
    )
    exporting.add_argument(
        "--drop",
        action="store_true",
        help="export the part that a snapshot and history cover, then delete it from the log",
    )
    exporting.set_defaults(act=on_log(export_log))
    repair.add_command(commands).set_defaults(act=on_log(repair.repair_clock))
    for each in (verifying, exporting):
        each.add_argument(
            "folder",
            type=path_argument,
            metavar="FOLDER",
            help="the data folder; no server may be using it",
        )
    return described


def on_log(work: Callable[[SqliteLog, argparse.Namespace], int]) -> Act:
    """Return a command that opens the log of ``arguments.folder`` and reports its errors."""

    def act(arguments: argparse.Namespace, _: Mapping[str, str]) -> int:
        folder = Path(arguments.folder)
        try:
            if not (folder / DATABASE).is_file():
                return complain(f"no log found in {folder}", UNUSABLE)
            with closing(SqliteLog(folder)) as log:
                return work(log, arguments)
        except LogDamagedError as error:
            return complain(f"{error.code}: {error}", FAILED)
        except (ClobError, OSError, ValueError) as error:
            return complain(f"{getattr(error, 'code', 'FILE_UNUSABLE')}: {error}", UNUSABLE)

    return act


def verify_log(log: SqliteLog, _: argparse.Namespace) -> int:
    """Replay a log and print the result as one line."""
    try:
        result = audit(log)
    except LogDamagedError:
        raise
    except ClobError as error:
        return complain(f"{error.code}: {error}", FAILED)
    rejected = ", ".join(f"{code} {count:,}" for code, count in sorted(result.rejected.items()))
    print_text(
        f"ok, {result.frames:,} frames, {result.commands:,} commands, "
        f"rejected {rejected or 'none'}, {exchange_text(result.exchange)}, "
        f"last command {result.last_seq}, state hash {result.state_hash.hex()}\n"
    )
    return DONE


def exchange_text(exchange: ExchangeSettings | None) -> str:
    """Describe the exchange of a log."""
    if exchange is None:
        return "no environment recorded"
    return f"environment {exchange.environment}, EIP-712 domain {domain_of(exchange)}"


def export_log(log: SqliteLog, arguments: argparse.Namespace) -> int:
    """Export a log and print one line about the result."""
    folder, target = Path(arguments.folder), arguments.target
    if arguments.form != JOURNAL:
        if arguments.drop:
            text = "--drop needs --form journal: tables do not contain every command"
            return complain(text, UNUSABLE)
        return export_as_tables(log, folder, target, arguments.form)
    up_to = droppable(folder) if arguments.drop else log.tail.seq
    if up_to <= log.origin.seq:
        print_text("nothing to export\n")
        return DONE
    begin = log.origin.seq + 1
    count = export_journal(log, target, up_to)
    if arguments.drop:
        drop(log, folder)
    deleted = ", deleted from the log" if arguments.drop else ""
    print_text(f"{count:,} frames, commands {begin} to {up_to}{deleted}\n")
    return DONE


def export_as_tables(log: SqliteLog, folder: Path, target: Path, form: str) -> int:
    """Export a log as tables."""
    try:
        counts = export_tables(
            log, folder, target, Ids(ids_key(folder, lambda: recover(log)[0].num_orders)), form=form
        )
    except ModuleNotFoundError:
        return complain("Parquet needs pyarrow: pip install 'clob[export]'", UNUSABLE)
    rows = ", ".join(f"{table} {count:,}" for table, count in counts.items())
    print_text(f"rows: {rows}\n")
    return DONE
