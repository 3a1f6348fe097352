"""Opens recordings for the commands of ``clob``, with the same arguments for all."""

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clob.cli import arguments as parse
from clob.cli.output import UNUSABLE, UnusableError, complain, describe_error, printable
from clob.errors import ClobError, PackageMissingError

if TYPE_CHECKING:
    from clob.replay import Stream
    from clob.replay.io.recording import Records

TABLE_OPTIONS = (
    ("--time-unit", "UNIT", "unit of times: s, ms, us or ns; default: ns"),
    ("--tick", "PRICE", "price of one tick, such as 0.01; default: 1"),
    ("--lot", "SIZE", "size of one lot, such as 0.001; default: 1"),
    ("--separator", "CHARACTER", "between the cells of a text file; default: from the first line"),
)
"""Options of tables: flag, name of the value, help."""

OPTIONS = {
    "grid": "grid",
    "level_rule": "level_rule",
    "policy": "on_problem",
    "columns": "columns",
    "time_unit": "time_unit",
    "tick": "tick",
    "lot": "lot",
    "separator": "separator",
}
"""Keyword arguments of the readers, by argument name."""


def add_reading(parser: argparse.ArgumentParser, *, grid: str = "--grid") -> None:
    """Add the arguments of reading; ``grid`` is the name of the one for prices."""
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--format",
        default="auto",
        help="the format; auto detects it from the content; default: %(default)s",
    )
    group.add_argument(
        grid,
        dest="grid",
        metavar="LO:HI",
        type=parse.grid,
        help="the prices to read, in ticks; default: all",
    )
    group.add_argument(
        "--level-rule",
        choices=("tail", "pro-rata", "head"),
        help="which orders of a level shrink when a feed has levels only; default: tail",
    )
    group.add_argument(
        "--policy",
        choices=("raise", "warn"),
        help="on broken input, stop (raise) or report it and continue (warn); default: raise",
    )
    group.add_argument(
        "--pair",
        metavar="MARKET",
        help="the two files are YES and NO of this market, as one stream",
    )
    table = parser.add_argument_group("tables (CSV or Parquet with any columns)")
    table.add_argument(
        "--columns",
        metavar="FIELD=COLUMN,...",
        type=parse.columns,
        help="columns by name, or by position from 0: ts=time,price=px,...; fields are "
        "ts, kind, order_id, side, price, size, and optionally seq, recv, owner, instrument, flags",
    )
    for flag, metavar, text in TABLE_OPTIONS:
        table.add_argument(flag, metavar=metavar, help=text)


def with_numpy(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command that needs NumPy; report missing NumPy and unusable files as errors."""
    try:
        import clob.replay  # noqa: F401, PLC0415 - NumPy may be missing
    except PackageMissingError as error:
        complain(error)
        return UNUSABLE
    try:
        return run(arguments)
    except UnusableError as error:
        complain(str(error))
        return UNUSABLE


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the warnings of readers; their problems are reported at the end."""
    from clob.replay import ReplayWarning  # noqa: PLC0415 - NumPy may be missing

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplayWarning)
        yield


def opened(files: Sequence[Path], arguments: argparse.Namespace) -> "tuple[Stream, int]":
    """Open files as one stream, merged by time; return its number of events, too, 0 if unknown.

    Raises:
        UnusableError: a file is unreadable, or its format does not take an argument.
    """
    from clob.replay import merge, pair  # noqa: PLC0415 - NumPy may be missing

    if arguments.pair and len(files) != 2:
        raise UnusableError(f"--pair needs two files, YES and NO; got {len(files)}")

    with quiet():
        streams = [_opened(file, arguments) for file in files]
    if len(streams) == 1:
        return streams[0]
    try:
        first, second, *_ = several = [stream for stream, _ in streams]
        stream = pair(first, second, arguments.pair) if arguments.pair else merge(several)
    except ValueError as error:
        raise UnusableError(str(error)) from error
    counts = [count for _, count in streams]
    return stream, sum(counts) if all(counts) else 0


def _opened(file: Path, arguments: argparse.Namespace) -> "tuple[Stream, int]":
    from clob.replay import Stream, open_stream, read_npz  # noqa: PLC0415 - NumPy may be missing
    from clob.replay.io.detect import detect  # noqa: PLC0415

    values = {OPTIONS[name]: getattr(arguments, name) for name in OPTIONS}
    options = {name: value for name, value in values.items() if value is not None}
    name = arguments.format
    if arguments.columns and name == "auto":
        name = "table"
    try:
        name = detect(file) if name == "auto" else name
        if name == "npz" and not options:
            # Like open_stream; this format alone states the number of events.
            recording = read_npz(file)
            fills = 0 if recording.fills is None else len(recording.fills)
            return Stream.of(recording), len(recording.seed) + len(recording.events) + fills
        return open_stream(file, name, **options), 0
    except (OSError, ClobError) as error:
        raise UnusableError(describe_error([file], error)) from error
    except ValueError as error:
        raise UnusableError(f"{printable(str(file))}: {error}") from error
    except TypeError as error:
        for argument, option in OPTIONS.items():
            if option in options and repr(option) in str(error):
                text = f"the format {name} has no --{argument.replace('_', '-')}"
                raise UnusableError(f"{printable(str(file))}: {text}") from error
        raise


def watched(stream: "Stream", on_chunk: "Callable[[Records], None]") -> "Stream":
    """Return a stream of the same events that calls ``on_chunk`` before each chunk."""
    from clob.replay import Stream  # noqa: PLC0415 - NumPy may be missing

    def blocks() -> "Iterator[Records]":
        for chunk in stream.chunks():
            on_chunk(chunk)
            yield chunk

    # The public attributes of a stream are the other arguments of its constructor.
    public = {name: value for name, value in vars(stream).items() if not name.startswith("_")}
    return Stream(blocks, **public)
