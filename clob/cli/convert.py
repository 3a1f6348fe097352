"""``clob convert``: writes recorded order flow in another format."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from clob.cli.inputs import add_reading, opened, quiet, watched, with_numpy
from clob.cli.output import (
    DONE,
    UNUSABLE,
    UnusableError,
    complain,
    printable,
    progress,
    refuse_place,
    tell_problems,
    told_of,
    write,
)
from clob.errors import ClobError

if TYPE_CHECKING:
    from clob.replay import Stream
    from clob.replay.io.recording import Records

PART = ".part"
"""What the name of a file begins with until it is whole."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command and its arguments.

    Args:
        commands: where to add it.
    """
    parser = commands.add_parser(
        "convert",
        help="write recorded order flow in another format",
        description="Read recordings of any format and write them as one, merged by time if "
        "there are several: .npz, .csv, .csv.gz or .parquet.",
        epilog="Exit code: 0 done, 2 a file cannot be used. OUT is replaced once it is whole.",
    )
    parser.add_argument("files", metavar="IN", nargs="+", help="a recording")
    parser.add_argument("out", metavar="OUT", type=Path, help="what to write")
    add_reading(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Convert.

    Args:
        arguments: what was asked for.

    Returns:
        The exit code.
    """
    return with_numpy("convert", lambda: _run(arguments))


def _run(arguments: argparse.Namespace) -> int:
    """Convert, and say in a line what was written."""
    files = [Path(file) for file in arguments.files]
    try:
        _refuse_out(arguments.out, files)
        stream, events = opened(files, arguments)
        count = _convert(stream, files, arguments.out, events)
    except UnusableError as error:
        complain(str(error))
        return UNUSABLE
    tell_problems(stream.problems)
    write(f"{printable(str(arguments.out))}: {count:,} events, lots of {stream.lot_wei} wei")
    return DONE


def _refuse_out(out: Path, files: list[Path]) -> None:
    """Refuse what cannot be written before anything is read."""
    from clob.replay.io.write import ending_of  # noqa: PLC0415 - NumPy may be missing

    try:
        ending_of(out)
    except ValueError as error:
        raise UnusableError(f"{printable(str(out))}: {error}") from error
    refuse_place(out, files)


def _convert(stream: "Stream", files: list[Path], out: Path, events: int) -> int:
    """Write a stream beside its place, and put it there once it is whole."""
    from clob.replay import write_stream  # noqa: PLC0415 - NumPy may be missing

    part = out.with_name(f"{PART}.{out.name}")
    try:
        with quiet(), progress(printable(stream.name), stream.progress, events) as show:
            done = 0

            def move(chunk: "Records") -> None:
                """Move the bar on."""
                nonlocal done
                done += len(chunk)
                if show:
                    show(done)

            count = write_stream(part, watched(stream, move))
            part.replace(out)
    except ClobError as error:
        told = told_of([*files, part], error).replace(str(part), str(out))
        raise UnusableError(told) from error
    except OSError as error:
        raise UnusableError(told_of([out], error, "FILE_UNUSABLE")) from error
    except ValueError as error:
        raise UnusableError(f"{printable(str(out))}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return count
