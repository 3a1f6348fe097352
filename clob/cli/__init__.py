"""The ``clob`` command: reads arguments, calls the library, writes text, returns an exit code."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import clob
from clob.cli import convert, replay
from clob.cli.output import CHECK_FAILED, DONE, UNUSABLE, complain, printable, told_of, write
from clob.errors import ClobError, FrameNewerError

INTERRUPTED = 130
"""The exit code of a command that was interrupted, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments without the command's own name; None takes those of the process.

    Returns:
        0 if all went well, 1 if a replay did not give what was recorded or a journal does not
        verify, 2 if a file could not be used or something is not installed, 130 if it was
        interrupted.

    Raises:
        SystemExit: the arguments are wrong (2), or only help or the version was asked for (0).
    """
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, `head` for example, has seen enough. What is still buffered must not fail
        # once more when the interpreter closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    parser = argparse.ArgumentParser(prog="clob", description="Order books on the command line.")
    parser.add_argument("--version", action="version", version=f"clob {clob.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    replay.add_to(commands)
    convert.add_to(commands)
    proof = commands.add_parser(
        "verify",
        help="run a journal again and compare with what it states",
        description="Run the commands of a journal again, and compare the chain of its frames, "
        "the outcomes and the state hashes with what it states.",
        epilog="Exit code: 0 all is as stated, 1 something differs or is damaged, 2 a file cannot "
        "be used.",
    )
    proof.add_argument("files", metavar="FILE", nargs="+", help="the frames of a journal")
    proof.set_defaults(run=_verify_all)
    return parser


# ----- clob verify -----------------------------------------------------------------------------


def _verify_all(arguments: argparse.Namespace) -> int:
    """Verify one journal after the other; the worst of their exit codes counts."""
    return max(_verify_one(Path(file)) for file in arguments.files)


def _verify_one(path: Path) -> int:
    """Verify one journal and say in a line what came of it."""
    from clob.journal import verify  # noqa: PLC0415 - the other commands start without it

    name = printable(str(path))
    try:
        found = verify(path.read_bytes())
    except OSError as error:
        complain(told_of([path], error))
        return UNUSABLE
    except FrameNewerError as error:
        complain(f"{error.code}: {name}: {error}")
        return UNUSABLE
    except ClobError as error:
        write(f"{name}: {error.code}: {error}")
        return CHECK_FAILED
    refused = ", ".join(f"{code} {count:,}" for code, count in sorted(found.refused.items()))
    write(
        f"{name}: ok, {found.frames:,} frames, {found.commands:,} commands, "
        f"refused {refused or 'none'}, last command {found.last_seq}, "
        f"state hash {found.state_hash.hex()}"
    )
    return DONE


if __name__ == "__main__":
    sys.exit(main())
