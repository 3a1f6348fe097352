"""The ``clob`` command: parses arguments, calls the library, prints results."""

import argparse
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clob.cli import convert, live, replay, sweep
from clob.cli.output import CHECK_FAILED, DONE, UNUSABLE, complain, describe_error, printable, write
from clob.errors import ClobError, FrameNewerError
from clob.program import VersionAction, run_program

GZIP: Final = b"\x1f\x8b"
"""The first bytes of a compressed journal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments after the command name; None means ``sys.argv``.

    Returns:
        0 on success, 1 if a replay differs from the recording, a run of a sweep failed or a
        journal does not verify, 2 if a file or standard output is unusable or a package is
        missing, 130 after Ctrl-C.

    Raises:
        SystemExit: wrong arguments (2), ``--help`` or ``--version`` (0).
    """
    return run_program("clob", lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    arguments = _parser().parse_args(argv)
    code: int = arguments.run(arguments)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="clob",
        description="Order books on the command line.",
        epilog="Exit code: 0 success; 1 a check failed; 2 a file or an argument is unusable; 130 "
        "interrupted. Each command explains its own with --help.",
    )
    parser.add_argument("--version", action=VersionAction)
    commands = parser.add_subparsers(dest="command", required=True)
    replay.add_to(commands)
    sweep.add_to(commands)
    convert.add_to(commands)
    live.add_to(commands)
    proof = commands.add_parser(
        "verify",
        help="run a journal again and check its hashes",
        description="Run the commands of a journal again and compare frame chain, outcomes and "
        "state hashes with the recorded ones.",
        epilog="Exit code: 0 all hashes agree; 1 a hash differs or the journal is damaged; 2 a "
        "file is unusable; 130 interrupted.",
    )
    proof.add_argument(
        "files", metavar="FILE", nargs="+", help="the frames of a journal, also compressed by gzip"
    )
    proof.set_defaults(run=_verify_all)
    return parser


def _verify_all(arguments: argparse.Namespace) -> int:
    """Verify each journal; return the highest exit code."""
    return max(_verify_one(Path(file)) for file in arguments.files)


def _verify_one(path: Path) -> int:
    """Verify one journal and print the result as one line."""
    from clob.journal import verify  # noqa: PLC0415 - the other commands start without it

    name = printable(str(path))
    try:
        content = path.read_bytes()
        if content.startswith(GZIP):
            content = gzip.decompress(content)
        result = verify(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        write(f"{name}: damaged gzip file: {error}")
        return CHECK_FAILED
    except (OSError, FrameNewerError) as error:
        complain(describe_error([path], error))
        return UNUSABLE
    except ClobError as error:
        write(f"{name}: {error.code}: {error}")
        return CHECK_FAILED
    rejected = ", ".join(f"{code} {count:,}" for code, count in sorted(result.rejected.items()))
    write(
        f"{name}: ok, {result.frames:,} frames, {result.commands:,} commands, "
        f"rejected {rejected or 'none'}, last command {result.last_seq}, "
        f"state hash {result.state_hash.hex()}"
    )
    return DONE
