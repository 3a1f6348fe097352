"""The ``clob-server`` command: what one does with a data folder while no server has it."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import clob
from clob import ClobError
from clob_server.audit import audit, journal_of
from clob_server.log import LogDamagedError, SqliteLog
from clob_server.log.sqlite import DATABASE

DONE, CHECK_FAILED, UNUSABLE = 0, 1, 2
"""The exit codes, as those of ``clob``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments without the command's own name; None takes those of the process.

    Returns:
        0 if all went well, 1 if the log is damaged or does not verify, 2 if it could not be used.

    Raises:
        SystemExit: the arguments are wrong (2), or only help or the version was asked for (0).
    """
    arguments = parser().parse_args(argv)
    folder = Path(arguments.folder)
    if not (folder / DATABASE).is_file():
        return complain(f"there is no log in {folder}", UNUSABLE)
    try:
        with closing(SqliteLog(folder, accept_tail=arguments.accept_tail)) as log:
            code: int = arguments.run(log, arguments)
            return code
    except LogDamagedError as error:
        return complain(f"{error.code}: {error}", CHECK_FAILED)
    except (ClobError, OSError) as error:
        return complain(f"{getattr(error, 'code', 'FILE_UNUSABLE')}: {error}", UNUSABLE)


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    described = argparse.ArgumentParser(prog="clob-server", description=__doc__)
    described.add_argument("--version", action="version", version=f"clob {clob.__version__}")
    commands = described.add_subparsers(dest="command", required=True)
    proof = commands.add_parser(
        "verify",
        help="run a log again and compare every hash in it",
        epilog="Exit code: 0 all is as stated, 1 something differs or is damaged, 2 it cannot be "
        "used.",
    )
    proof.set_defaults(run=verify_log)
    out = commands.add_parser("export", help="write a log as a journal, for `clob verify`")
    out.add_argument("file", metavar="FILE", help="the journal, which must not be there")
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
        return complain(f"{error.code}: {error}", CHECK_FAILED)
    refused = ", ".join(f"{code} {count:,}" for code, count in sorted(found.refused.items()))
    sys.stdout.write(
        f"ok, {found.frames:,} frames, {found.commands:,} commands, refused {refused or 'none'}, "
        f"last command {found.last_seq}, state hash {found.state_hash.hex()}\n"
    )
    return DONE


def export_log(log: SqliteLog, arguments: argparse.Namespace) -> int:
    """Write a log as a journal."""
    count = 0
    with Path(arguments.file).open("xb") as file:
        for frame in journal_of(log, log.origin, log.tail.seq):
            file.write(frame)
            count += 1
    sys.stdout.write(f"{count:,} frames, commands {log.origin.seq + 1} to {log.tail.seq}\n")
    return DONE


def complain(text: str, code: int) -> int:
    """Write a line to standard error, and give the exit code."""
    sys.stderr.write(f"clob-server: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
