"""``clob convert``: writes recorded order flow in another format."""

import argparse
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clob.cli.inputs import add_reading, opened, quiet, watched, with_numpy
from clob.cli.output import (
    DONE,
    UnusableError,
    check_writable,
    describe_error,
    printable,
    progress,
    report_problems,
    write,
)
from clob.errors import ClobError

if TYPE_CHECKING:
    from clob.replay import Stream
    from clob.replay.io.recording import Records

PART = ".part"
"""Name prefix of a file that is not yet complete."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "convert",
        help="write recorded order flow in another format",
        description="Read recordings of any format and write one file: .npz, .csv, .csv.gz or "
        ".parquet. Several recordings are merged by time.",
        epilog="Exit code: 0 done, 2 a file or an argument is unusable, 130 interrupted. OUT is "
        "replaced only when complete. Parquet keeps names, grid, lot and scale; .npz as well, for "
        "one book; CSV holds events only.",
    )
    parser.add_argument("files", metavar="IN", nargs="+", help="a recording")
    parser.add_argument("out", metavar="OUT", type=Path, help="the file to write")
    add_reading(parser)
    parser.set_defaults(run=partial(with_numpy, _run))


def _run(arguments: argparse.Namespace) -> int:
    """Convert and print one line about the result."""
    files = [Path(file) for file in arguments.files]
    _check_output(arguments.out, files)
    stream, events = opened(files, arguments)
    count = _convert(stream, files, arguments.out, events)
    report_problems(stream.problems)
    write(f"{printable(str(arguments.out))}: {count:,} events, lots of {stream.lot_wei} wei")
    if ".csv" in arguments.out.name.lower() and not _is_plain(stream):
        write("CSV holds events only; Parquet also keeps names of markets, grid, lot and scale")
    return DONE


def _is_plain(stream: "Stream") -> bool:
    """Return whether a stream has nothing that CSV cannot hold."""
    books = [one for one in stream.instruments if one.market]
    return not books and stream.scale == 100 and stream.lot_wei == 10**18


def _check_output(out: Path, files: list[Path]) -> None:
    """Reject an unusable output before anything is read."""
    from clob.replay.io.write import output_suffix  # noqa: PLC0415 - NumPy may be missing

    try:
        output_suffix(out)
    except ValueError as error:
        raise UnusableError(f"{printable(str(out))}: {error}") from error
    check_writable(out, files)


def _convert(stream: "Stream", files: list[Path], out: Path, events: int) -> int:
    """Write to a temporary file and move it into place when complete."""
    from clob.replay import write_stream  # noqa: PLC0415 - NumPy may be missing

    # A symbolic link stays, and the file that it names is replaced.
    real = Path(os.path.realpath(out))
    part = real.with_name(f"{PART}.{real.name}")
    try:
        with quiet(), progress(printable(stream.name), stream.progress, events) as show:
            done = 0

            def advance(chunk: "Records") -> None:
                nonlocal done
                done += len(chunk)
                if show:
                    show(done)

            count = write_stream(part, watched(stream, advance))
            part.replace(real)
    except ClobError as error:
        text = describe_error([*files, part], error).replace(str(part), str(out))
        raise UnusableError(text) from error
    except OSError as error:
        raise UnusableError(describe_error([out], error, "FILE_UNUSABLE")) from error
    except ValueError as error:
        raise UnusableError(f"{printable(str(out))}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return count
