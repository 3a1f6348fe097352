"""How the commands of ``clob`` open files of order flow, with the same arguments for all."""

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clob.cli import arguments as words
from clob.cli.output import UNUSABLE, UnusableError, complain, printable, told_of
from clob.errors import ClobError

if TYPE_CHECKING:
    from clob.replay import Stream
    from clob.replay.io.recording import Records

NUMPY_MISSING = 'clob {} needs NumPy, which is not installed: pip install "clob[replay]"'

OPTIONS = {"grid": "grid", "level_rule": "level_rule", "policy": "on_problem"}
"""What the readers call the arguments."""


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments that say how files are read.

    Args:
        parser: where to add them.
    """
    group = parser.add_argument_group("reading")
    group.add_argument("--format", default="auto", help="the format, where it is not to be told")
    group.add_argument("--grid", metavar="LO:HI", type=words.grid, help="prices to read, in ticks")
    group.add_argument(
        "--level-rule",
        choices=("tail", "pro-rata", "head"),
        help="which orders of a level give way, where a feed has levels only",
    )
    group.add_argument(
        "--policy",
        choices=("raise", "warn"),
        help="what becomes of broken input: end there (raise), or report it and go on (warn)",
    )


def with_numpy(command: str, run: Callable[[], int]) -> int:
    """Do something that needs NumPy, or say that it is missing.

    Args:
        command: the name of the command.
        run: what to do.

    Returns:
        Its exit code.
    """
    try:
        import clob.replay  # noqa: F401, PLC0415 - NumPy may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "numpy":
            raise
        complain(NUMPY_MISSING.format(command))
        return UNUSABLE
    return run()


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out the warnings of readers, whose problems are told at the end."""
    from clob.replay import ReplayWarning  # noqa: PLC0415 - NumPy may be missing

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplayWarning)
        yield


def opened(files: Sequence[Path], arguments: argparse.Namespace) -> "tuple[Stream, int]":
    """Open files as one stream, merged by time if there are several.

    Args:
        files: one or more.
        arguments: how to read them.

    Returns:
        The stream, and how many events it has, 0 where nobody knows.

    Raises:
        UnusableError: a file cannot be read, or it and the arguments do not go together.
    """
    from clob.replay import merge  # noqa: PLC0415 - NumPy may be missing

    with quiet():
        found = [_opened(file, arguments) for file in files]
    if len(found) == 1:
        return found[0]
    try:
        stream = merge([stream for stream, _ in found])
    except ValueError as error:
        raise UnusableError(str(error)) from error
    counts = [count for _, count in found]
    return stream, sum(counts) if all(counts) else 0


def _opened(file: Path, arguments: argparse.Namespace) -> "tuple[Stream, int]":
    """Open one file."""
    from clob.replay import Stream, open_stream, read_npz
    from clob.replay.io.detect import detect  # noqa: PLC0415

    given = {OPTIONS[name]: getattr(arguments, name) for name in OPTIONS}
    options = {name: value for name, value in given.items() if value is not None}
    name = arguments.format
    try:
        name = detect(file) if name == "auto" else name
        if name == "npz" and not options:
            # The same as below, but for the number of events, which only this format knows.
            recording = read_npz(file)
            fills = 0 if recording.fills is None else len(recording.fills)
            return Stream.of(recording), len(recording.seed) + len(recording.events) + fills
        return open_stream(file, name, **options), 0
    except (OSError, ClobError) as error:
        raise UnusableError(told_of([file], error)) from error
    except ValueError as error:
        raise UnusableError(f"{printable(str(file))}: {error}") from error
    except TypeError as error:
        for argument, option in OPTIONS.items():
            if option in options and repr(option) in str(error):
                text = f"the format {name} has no --{argument.replace('_', '-')}"
                raise UnusableError(f"{printable(str(file))}: {text}") from error
        raise


def watched(stream: "Stream", on_chunk: "Callable[[Records], None]") -> "Stream":
    """Make a stream that tells of what is read of it.

    Args:
        stream: what is read.
        on_chunk: is told of each chunk, before it is given.

    Returns:
        A stream of the same events.
    """
    from clob.replay import Stream  # noqa: PLC0415 - NumPy may be missing

    def blocks() -> "Iterator[Records]":
        """Read the stream anew."""
        for chunk in stream.chunks():
            on_chunk(chunk)
            yield chunk

    return Stream(
        blocks,
        lo=stream.lo,
        hi=stream.hi,
        lot_wei=stream.lot_wei,
        instruments=stream.instruments,
        name=stream.name,
        note=stream.note,
        problems=stream.problems,
        progress=stream.progress,
        has_fills=stream.has_fills,
        scale=stream.scale,
    )
