"""The ``clob-server`` command: runs a server, and does what its operator does beside it."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, TypeAlias

import clob
from clob import ClobError
from clob_server.auth.api_keys import IDS, secret
from clob_server.cli import deploy, keys, wallets
from clob_server.cli.exit_codes import DONE, FAILED, UNUSABLE, complain
from clob_server.cli.export import FORMATS, drop, droppable, export_journal, export_tables
from clob_server.cli.options import add_options
from clob_server.cli.run import run
from clob_server.cli.verify import audit
from clob_server.core.ids import Ids
from clob_server.log import LogDamagedError, SqliteLog
from clob_server.log.sqlite import DATABASE

JOURNAL: Final = "journal"
"""The form in which a log can be verified elsewhere."""

Act: TypeAlias = Callable[[argparse.Namespace, Mapping[str, str]], int]
"""Does what was chosen, with the environment, and gives the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments without the command's own name; None takes those of the process.

    Returns:
        0 if all went well, 1 if something is damaged, has failed or was refused, 2 if it could not
        be used.

    Raises:
        SystemExit: the arguments are wrong (2), or only help or the version was asked for (0).
    """
    arguments = parser().parse_args(argv)
    if arguments.command == "run":
        return run(vars(arguments), os.environ)
    if "act" in arguments:
        act: Act = arguments.act
        return act(arguments, os.environ)
    folder = Path(arguments.folder)
    if not (folder / DATABASE).is_file():
        return complain(f"there is no log in {folder}", UNUSABLE)
    try:
        with closing(SqliteLog(folder, accept_tail=arguments.accept_tail)) as log:
            code: int = arguments.run(log, arguments)
            return code
    except LogDamagedError as error:
        return complain(f"{error.code}: {error}", FAILED)
    except (ClobError, OSError, ValueError) as error:
        return complain(f"{getattr(error, 'code', 'FILE_UNUSABLE')}: {error}", UNUSABLE)


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    described = argparse.ArgumentParser(
        prog="clob-server",
        description="A matching engine for prediction markets, served over HTTP and WebSocket.",
    )
    described.add_argument("--version", action="version", version=f"clob {clob.__version__}")
    commands = described.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serving = commands.add_parser(
        "run",
        help="serve until told to stop",
        description="Serve until told to stop. Every option may stand in the environment instead: "
        "--data-dir is CLOB_DATA_DIR; the command line wins.",
        epilog="Exit code: 0 after a clean end, 1 the log is damaged or the server has failed, 2 "
        "it could not be begun.",
    )
    add_options(serving)
    keys.add_commands(commands)
    wallets.add_commands(commands)
    deploy.add_commands(commands)
    proof = commands.add_parser(
        "verify",
        help="run a log again and compare every hash in it",
        description="Run a log again and compare every hash in it.",
        epilog="Exit code: 0 all is as stated, 1 something differs or is damaged, 2 it cannot be "
        "used.",
    )
    proof.set_defaults(run=verify_log)
    out = commands.add_parser(
        "export",
        help="write a log as a journal or as tables",
        description="Write a log as a journal, for `clob verify`, or as tables of all events, "
        "trades, orders and settlements.",
    )
    out.add_argument(
        "target", metavar="TARGET", help="the journal, or the folder of tables; made, not replaced"
    )
    out.add_argument(
        "--form", choices=(JOURNAL, *FORMATS), default=JOURNAL, help="default: %(default)s"
    )
    out.add_argument(
        "--drop",
        action="store_true",
        help="write what a snapshot covers and history has, and let go of it in the log",
    )
    out.set_defaults(run=export_log)
    for each in (proof, out):
        each.add_argument("folder", metavar="FOLDER", help="the data folder; no server may have it")
        each.add_argument(
            "--accept-tail",
            action="store_true",
            help="take the end of the log as it is, and remove snapshots beyond it",
        )
    return described


def verify_log(log: SqliteLog, _: argparse.Namespace) -> int:
    """Run a log again, and say in a line what came of it."""
    try:
        found = audit(log)
    except LogDamagedError:
        raise
    except ClobError as error:
        return complain(f"{error.code}: {error}", FAILED)
    refused = ", ".join(f"{code} {count:,}" for code, count in sorted(found.refused.items()))
    sys.stdout.write(
        f"ok, {found.frames:,} frames, {found.commands:,} commands, refused {refused or 'none'}, "
        f"last command {found.last_seq}, state hash {found.state_hash.hex()}\n"
    )
    return DONE


def export_log(log: SqliteLog, arguments: argparse.Namespace) -> int:
    """Write a log out, and say in a line what was written."""
    folder, target = Path(arguments.folder), Path(arguments.target)
    if arguments.form != JOURNAL:
        if arguments.drop:
            return complain("--drop needs a journal, as tables do not hold every command", UNUSABLE)
        return export_as_tables(log, folder, target, arguments.form)
    up_to = droppable(folder) if arguments.drop else log.tail.seq
    if up_to <= log.origin.seq:
        sys.stdout.write("there is nothing to be written\n")
        return DONE
    begin = log.origin.seq + 1
    count = export_journal(log, target, up_to)
    if arguments.drop:
        drop(log, folder)
    done = ", let go of" if arguments.drop else ""
    sys.stdout.write(f"{count:,} frames, commands {begin} to {up_to}{done}\n")
    return DONE


def export_as_tables(log: SqliteLog, folder: Path, target: Path, form: str) -> int:
    """Write a log out as tables."""
    try:
        counts = export_tables(log, folder, target, Ids(secret(folder, IDS)), form=form)
    except ModuleNotFoundError:
        return complain("Parquet needs pyarrow: pip install 'clob[export]'", UNUSABLE)
    told = ", ".join(f"{table} {count:,}" for table, count in counts.items())
    sys.stdout.write(f"rows: {told}\n")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
