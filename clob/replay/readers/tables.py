"""Reads events out of tables, CSV or Parquet, whose columns are described by the caller.

Every number is read digit by digit: a price of ``0.42`` with a tick of ``0.01`` is 42. A value that
is no multiple of its unit is broken input; nothing is rounded. A column of floating-point numbers
is read by the shortest digits that stand for each.
"""

import io
import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from clob.records import EVENT, Kind
from clob.replay.errors import ReplayFormatError, need
from clob.replay.io.files import FilePath, Progress, line_blocks, plain_name
from clob.replay.io.numerals import Integers
from clob.replay.io.problems import Ignored, Policy, Problems
from clob.replay.io.recording import CENTS, Records, ticks_of
from clob.replay.io.streams import OWN, OWN_ID, Instrument, Stream
from clob.replay.io.text import Cells

Columns: TypeAlias = Mapping[str, str | int]
"""The column of each field, by its name or its place from 0."""

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]
"""What a time counts in."""

TIME_PLACES: dict[str, int] = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""How many digits behind the point a nanosecond is."""

PLAIN_FIELDS = ("seq", "order_id", "owner", "instrument", "flags")
"""The fields that are whole numbers as they stand."""

NEEDED = ("ts_ns", "kind", "order_id", "side", "price", "size")
"""The fields every table must have."""

SIDES: dict[str, int] = {"0": 0, "1": 1, "buy": 0, "sell": 1, "b": 0, "s": 1, "bid": 0, "ask": 1}
"""The words for sides that are understood, in lower case."""

KINDS: dict[str, int] = (
    {kind.name.lower(): kind.value for kind in Kind}
    | {str(kind.value): kind.value for kind in Kind}
    | {"add": 0, "new": 0, "delete": 1, "remove": 1, "market": 3, "modify": 4}
)
"""The words for kinds that are understood, in lower case."""

LIMITS = {
    "price": 2**31 - 1,
    "owner": OWN,
    "instrument": 2**16,
    "flags": 2**16,
    "order_id": OWN_ID,
}
"""What the values of fields must be below."""

BLOCK_BYTES = 1 << 20
"""How much of a file is read at a time."""


class Shape(NamedTuple):
    """How to read the columns of a table."""

    places: dict[str, int]
    """The place of each field's column."""
    width: int
    """How many columns there are."""
    separator: bytes
    """What stands between cells."""
    time_unit: TimeUnit
    """What times count in."""
    tick: tuple[int, int]
    """A tick: so many of a unit with so many digits behind the point."""
    lot: tuple[int, int]
    """A lot, likewise."""
    sides: dict[bytes, int]
    """The words for sides."""
    kinds: dict[bytes, int]
    """The words for kinds."""


def read_table(
    path: FilePath,
    columns: Columns | None = None,
    *,
    time_unit: TimeUnit = "ns",
    tick: str = "1",
    lot: str = "1",
    lot_wei: int | None = None,
    sides: Mapping[str, int] | None = None,
    kinds: Mapping[str, int] | None = None,
    separator: str = ",",
    header: bool = True,
    grid: tuple[int, int] | None = None,
    on_problem: Policy = "raise",
) -> Stream:
    """Read a CSV or Parquet file of events, one a row.

    Args:
        path: the file; ``.parquet`` is read with pyarrow, anything else is text.
        columns: where the fields of :data:`clob.records.EVENT` are; those not named are looked for
            under their own names. ``ts_ns``, ``kind``, ``order_id``, ``side``, ``price`` and
            ``size`` must be there.
        time_unit: what the times count in; fractions are read too.
        tick: the price of one tick, as text.
        lot: the size of one lot, as text.
        lot_wei: what a lot stands for, in wei; None takes what a Parquet file written by this
            package says, else 10**18.
        sides: words for buying (0) and selling (1), beside those of ``SIDES``.
        kinds: words for kinds, beside those of ``KINDS``.
        separator: what stands between the cells of a text, one byte.
        header: whether the first line of a text names the columns.
        grid: the lowest and the highest price, in ticks; None takes what a Parquet file written
            by this package says, else all prices that occur.
        on_problem: what becomes of rows that cannot be read.

    Returns:
        The stream. Rows without a ``seq`` are numbered by their lines.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: it is Parquet and pyarrow is not installed.
        ReplayFormatError: a column is missing.
        ValueError: a tick, a lot, a time unit or a separator means nothing.
    """
    if time_unit not in TIME_PLACES or len(separator.encode()) != 1:
        raise ValueError(f"the time unit {time_unit!r} or the separator {separator!r} is none")
    names = _names(path, separator, header)
    shape = Shape(
        places=_places(path, names, columns or {}),
        width=len(names),
        separator=separator.encode(),
        time_unit=time_unit,
        tick=_unit(tick),
        lot=_unit(lot),
        sides=_words(SIDES, sides),
        kinds=_words(KINDS, kinds),
    )
    problems, progress = Problems(on_problem), Progress()
    skip = int(header and not _is_parquet(path))
    about = _about(path)
    found = _survey(_events(path, shape, skip, Ignored(), Progress()))
    lo, hi = grid or (about.get("lo", found.lo), about.get("hi", found.hi))
    name = plain_name(path)
    market = name.partition(".")[0]
    progress.expect(path)

    def blocks() -> Iterator[Records]:
        """Read the file anew."""
        progress.expect(path)
        return _events(path, shape, skip, problems, progress)

    return Stream(
        blocks,
        lo=lo,
        hi=hi,
        lot_wei=about.get("lot_wei", 10**18) if lot_wei is None else lot_wei,
        instruments=[
            _instrument(number, market, found.instruments) for number in found.instruments
        ],
        name=name,
        note="table",
        problems=problems,
        progress=progress,
        has_fills=found.has_fills,
        scale=_scale_of(shape.tick) or about.get("scale", CENTS),
    )


def _scale_of(tick: tuple[int, int]) -> int:
    """Tell how many ticks a whole is; 0 where the table has ticks and not money for prices."""
    digits, places = tick
    return ticks_of(10**places, digits) if digits != 10**places else 0


def _instrument(number: int, market: str, numbers: list[int]) -> Instrument:
    """Name an instrument after the file, and its number where there are several markets."""
    several = numbers[-1] > 1
    return Instrument(
        number, f"{market} {number // 2}" if several else market, ("YES", "NO")[number % 2]
    )


def _about(path: FilePath) -> dict[str, int]:
    """Read the grid, the lot and the scale that a Parquet file written by this package states."""
    if not _is_parquet(path):
        return {}
    parquet = need("pyarrow.parquet", "Reading Parquet files", "clob[export]")
    metadata = parquet.read_schema(path).metadata or {}
    names = [
        name
        for name in ("lo", "hi", "lot_wei", "scale")
        if metadata.get(name.encode(), b"").isdigit()
    ]
    return {name: int(metadata[name.encode()]) for name in names}


def _is_parquet(path: FilePath) -> bool:
    """Tell Parquet from text, by the name."""
    return os.fspath(path).lower().endswith(".parquet")


def _names(path: FilePath, separator: str, header: bool) -> list[str]:
    """Give the names of the columns; without a header they have none."""
    if _is_parquet(path):
        parquet = need("pyarrow.parquet", "Reading Parquet files", "clob[export]")
        return list(parquet.read_schema(path).names)
    first = next(line_blocks(path, Ignored(), None, 1 << 16), (1, b""))[1]
    cells = first.partition(b"\n")[0].decode("utf-8", "replace").strip("\ufeff\r").split(separator)
    return [cell.strip() for cell in cells] if header else [""] * len(cells)


def _places(path: FilePath, names: list[str], columns: Columns) -> dict[str, int]:
    """Find the column of each field."""
    unknown = set(columns) - set(EVENT.names or ())
    if unknown:
        raise ValueError(f"there is no field {min(unknown)!r}, only {', '.join(EVENT.names or ())}")
    places = {}
    for field in EVENT.names or ():
        where = columns.get(field, field)
        if isinstance(where, int) and 0 <= where < len(names):
            places[field] = where
        elif where in names:
            places[field] = names.index(str(where))
        elif field in columns or field in NEEDED:
            raise ReplayFormatError(
                f"{plain_name(path)}: no column {where!r} for {field}, only {', '.join(names)}"
            )
    return places


def _unit(text: str) -> tuple[int, int]:
    """Read a unit such as ``0.25`` as (25, 2)."""
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if not (digits.isascii() and digits.isdigit() and int(digits)) or len(digits) > 18:
        raise ValueError(f"a unit is a positive decimal number, not {text!r}")
    return int(digits), len(fraction)


def _words(known: Mapping[str, int], more: Mapping[str, int] | None) -> dict[bytes, int]:
    """Put words together, in lower case."""
    both = {**known, **(more or {})}
    return {word.lower().encode(): int(number) for word, number in both.items()}


class TableSurvey(NamedTuple):
    """What has to be known of the whole table beforehand."""

    lo: int
    """The lowest price, in ticks."""
    hi: int
    """The highest price, in ticks."""
    instruments: list[int]
    """The numbers of the instruments, rising."""
    has_fills: bool
    """Whether there are fills."""


def _survey(blocks: Iterator[Records]) -> TableSurvey:
    """Go through the events for prices and instruments; best prices and ends have none to count."""
    lo, hi, has_fills = 2**31 - 1, 1, False
    numbers: set[int] = set()
    for events in blocks:
        prices = events["price"][(events["price"] > 0) & (events["kind"] <= Kind.TRADE)]
        if len(prices):
            lo, hi = min(lo, int(prices.min())), max(hi, int(prices.max()))
        numbers.update(np.unique(events["instrument"]).tolist())
        has_fills |= bool((events["kind"] == Kind.FILL).any())
    return TableSurvey(min(lo, hi), hi, sorted(numbers) or [0], has_fills)


def _events(
    path: FilePath, shape: Shape, skip: int, problems: Problems, progress: Progress
) -> Iterator[Records]:
    """Read a file for its events."""
    texts = _parquet_text(path) if _is_parquet(path) else _text(path, problems, progress, skip)
    latest = -(2**63)
    for first, text in texts:
        cells = Cells(
            text,
            shape.width,
            file=os.fspath(path),
            first=first,
            problems=problems,
            separator=shape.separator,
        )
        events = _block(cells, shape)
        so_far = np.maximum(np.maximum.accumulate(events["ts_ns"]), latest)
        late = events["ts_ns"] < so_far
        for row in np.flatnonzero(late).tolist():
            said = f"{events['ts_ns'][row]} ns comes after {so_far[row]} ns"
            problems.report("clock backwards", said, path, int(cells.line[row]))
        if late.any():
            events = events.take(np.flatnonzero(~late))
        if len(events):
            latest = int(events["ts_ns"][-1])
            yield events
    progress.done_bytes = progress.total_bytes


def _text(
    path: FilePath, problems: Problems, progress: Progress, skip: int
) -> Iterator[tuple[int, bytes]]:
    """Give the lines of a text without its header."""
    for first, text in line_blocks(path, problems, progress, BLOCK_BYTES):
        yield (first + 1, text.partition(b"\n")[2]) if skip and first == 1 else (first, text)


def _parquet_text(path: FilePath) -> Iterator[tuple[int, bytes]]:
    """Give the rows of a Parquet file as text; times become nanoseconds."""
    parquet = need("pyarrow.parquet", "Reading Parquet files", "clob[export]")
    arrow = need("pyarrow", "Reading Parquet files", "clob[export]")
    csv = need("pyarrow.csv", "Reading Parquet files", "clob[export]")
    first = 1
    options = csv.WriteOptions(include_header=False, quoting_style="none")
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(1 << 14):
            columns = [_plain_column(arrow, column) for column in batch.columns]
            text = io.BytesIO()
            csv.write_csv(arrow.table(columns, names=batch.schema.names), text, options)
            yield first, text.getvalue()
            first += batch.num_rows


def _plain_column(arrow: Any, column: Any) -> Any:
    """Turn times into nanoseconds, and leave everything else as it is."""
    if arrow.types.is_timestamp(column.type):
        zone = column.type.tz
        return column.cast(arrow.timestamp("ns", zone)).cast(arrow.int64())
    return column


def _block(cells: Cells, shape: Shape) -> Records:
    """Turn cells into events; the lines of those that cannot be read are reported."""
    found: dict[str, npt.NDArray[Any]] = {}
    for field, place in shape.places.items():
        if field in ("ts_ns", "recv_ns"):
            found[field] = cells.decimals(place, TIME_PLACES[shape.time_unit])
        elif field == "price":
            found[field] = _units(cells, place, shape.tick)
        elif field == "size":
            found[field] = _units(cells, place, shape.lot)
        elif field in PLAIN_FIELDS:
            found[field] = cells.integers(place)
        else:
            words = shape.sides if field == "side" else shape.kinds
            found[field] = _numbers(cells, place, words)
    for field, limit in LIMITS.items():
        if field in found:
            cells.refuse(found[field] >= limit)
    found.setdefault("seq", cells.line)
    found.setdefault("recv_ns", found["ts_ns"])
    kept = cells.rows()
    events = np.zeros(len(cells) if kept is None else len(kept), EVENT)
    for field, column in found.items():
        events[field] = column if kept is None else column[kept]
    cells.line = cells.line if kept is None else cells.line[kept]
    return events


def _units(cells: Cells, place: int, unit: tuple[int, int]) -> Integers:
    """Read a column of multiples of a unit."""
    value = cells.decimals(place, unit[1], signed=True)
    cells.refuse((value % unit[0] != 0) | (value < 0))
    return value // unit[0]


def _numbers(cells: Cells, place: int, words: dict[bytes, int]) -> Integers:
    """Read a column of words."""
    found, which = np.unique(cells.words(place), return_inverse=True)
    numbers = [words.get(word.lower(), -1) for word in found.tolist()]
    column = np.array(numbers, np.int64)[which] if len(numbers) else np.zeros(0, np.int64)
    cells.refuse(column < 0)
    return column
