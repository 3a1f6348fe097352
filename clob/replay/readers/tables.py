"""Reads events from CSV or Parquet tables whose columns are described by the caller.

Numbers are read exactly: a price of ``0.42`` with a tick of ``0.01`` is 42. A value that is not a
multiple of its unit is a problem; nothing is rounded. Floating-point columns are read through the
shortest decimal form of each number.
"""

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from clob.records import EVENT, Kind
from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import (
    FilePath,
    Progress,
    is_parquet,
    line_blocks,
    need_pyarrow,
    parquet_batches,
    parquet_errors,
    parquet_schema,
    plain_name,
)
from clob.replay.io.numerals import Integers
from clob.replay.io.problems import HEADER_AGAIN, Ignored, Policy, Problems
from clob.replay.io.recording import CENTS, Records, ticks_per_token
from clob.replay.io.streams import OWN, OWN_ID, Instrument, Stream
from clob.replay.io.text import Cells, date_ns, first_line
from clob.replay.readers import OUTCOMES, file_stream
from clob.units import WEI_PER_TOKEN

Columns: TypeAlias = Mapping[str, str | int]
"""The column of each field, by name or by position from 0."""

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]
"""The unit of times."""

TIME_PLACES: dict[str, int] = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""Decimal places of a nanosecond in each unit."""

PLAIN_FIELDS = ("seq", "order_id", "owner", "instrument", "flags")
"""Fields that are plain integers."""

NEEDED = ("ts_ns", "kind", "order_id", "side", "price", "size")
"""Fields that every table must have."""

SHORT_NAMES = {"ts_ns": "ts", "recv_ns": "recv"}
"""Other names of fields, as their columns may be called."""

WITHOUT: dict[str, tuple[Kind, ...]] = {
    "order_id": (Kind.CLEAR,),
    "side": (Kind.CANCEL, Kind.REDUCE, Kind.CLEAR),
    "price": (Kind.CANCEL, Kind.REDUCE, Kind.CLEAR, Kind.IOC),
    "size": (Kind.CANCEL, Kind.CLEAR),
}
"""The kinds whose cell of a field may be empty; those of owner and flags always may.

An immediate order without a price trades at any.
"""

TEXT_NUMBERED = ("order_id", "owner")
"""Fields whose cells may be texts, such as a UUID or the address of a wallet."""

UNITS = {places: unit for unit, places in TIME_PLACES.items()}
"""The unit of times of each number of decimal places."""

PLAUSIBLE = {
    unit: range(10 ** (18 - places), 4 * 10 ** (18 - places))
    for unit, places in TIME_PLACES.items()
}
"""Unix times of the years 2001 to 2096 in each unit."""

SIDES: dict[str, int] = {"0": 0, "1": 1, "buy": 0, "sell": 1, "b": 0, "s": 1, "bid": 0, "ask": 1}
"""The side of each word, in lower case."""

KINDS: dict[str, int] = (
    {kind.name.lower(): kind.value for kind in Kind}
    | {str(kind.value): kind.value for kind in Kind}
    | {"add": 0, "new": 0, "delete": 1, "remove": 1, "market": 3, "modify": 4}
)
"""The kind of each word, in lower case."""

LIMITS = {
    "price": 2**31 - 1,
    "owner": OWN,
    "instrument": 2**16,
    "flags": 2**16,
    "order_id": OWN_ID,
}
"""Exclusive upper limits of fields."""

BLOCK_BYTES = 1 << 20
"""Block size for reading."""


class Shape(NamedTuple):
    """How the columns of a table are read."""

    places: dict[str, int]
    """The position of the column of each field."""
    width: int
    """The number of columns."""
    separator: bytes
    time_places: int
    """Decimal places of a nanosecond in the unit of times."""
    tick: tuple[int, int]
    """The tick as digits and decimal places."""
    lot: tuple[int, int]
    """The lot as digits and decimal places."""
    sides: dict[bytes, int]
    kinds: dict[bytes, int]
    grid: tuple[int, int] = (0, 0)
    """The lowest and the highest price, once known."""


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
    separator: str | None = None,
    header: bool | None = None,
    grid: tuple[int, int] | None = None,
    on_problem: Policy = "raise",
) -> Stream:
    """Read a CSV or Parquet file with one event per row.

    Args:
        path: the file; ``.parquet`` is read with pyarrow, any other file is text.
        columns: the columns of the fields of :data:`clob.records.EVENT`; a field not listed is
            looked up by its own name. ``ts`` and ``recv`` are short for ``ts_ns`` and ``recv_ns``.
            ``ts_ns``, ``kind``, ``order_id``, ``side``, ``price`` and ``size`` are required. Names
            are those of the header, in any case of letters.
        time_unit: the unit of times that are numbers; fractions are read as well. Dates such as
            ``2026-01-31 09:30:00.25``, in UTC or with an offset, and timestamps of Parquet need no
            unit.
        tick: the price of one tick, as text.
        lot: the size of one lot, as text.
        lot_wei: the size of one lot, in wei; None takes the metadata of a Parquet file written by
            this package, else ``lot`` in tokens.
        sides: words for buy (0) and sell (1), in addition to ``SIDES``.
        kinds: words for kinds, in addition to ``KINDS``.
        separator: the byte between the cells of a text file; None takes the one of comma,
            semicolon and tab that is most frequent in the first line.
        header: whether the first line of a text file has the column names, after any blank lines
            and comments (``#``); None for yes, unless all columns are positions.
        grid: lowest and highest price, in ticks; None takes the metadata of a Parquet file written
            by this package, else the range of prices in the table.
        on_problem: the policy for unreadable rows and clocks that run backwards.

    Returns:
        The stream. Without a ``seq`` column, rows are numbered by line. Orders and owners that are
        texts have numbers by their first appearance, downwards from the highest of the field.

    Raises:
        ValueError: a time unit, separator, tick, lot or field name is invalid.
        OSError: the file cannot be read.
        PackageMissingError: the format is Parquet and pyarrow is not installed.
        ReplayFormatError: a required column is missing.
    """
    if time_unit not in TIME_PLACES:
        raise ValueError(f"time unit must be one of {', '.join(TIME_PLACES)}; got {time_unit!r}")
    if header is None:
        header = not columns or any(isinstance(one, str) for one in columns.values())
    separator = _separator(path) if separator is None else separator
    if len(separator.encode()) != 1:
        raise ValueError(f"separator must be one byte; got {separator!r}")
    names = _names(path, separator, header)
    places = _places(path, names, columns or {})
    shape = Shape(
        places=places,
        width=len(names),
        separator=separator.encode(),
        time_places=0 if _has_timestamps(path, places) else TIME_PLACES[time_unit],
        tick=_unit(tick),
        lot=_unit(lot),
        sides=_words(SIDES, sides) | {b"": 0},
        kinds=_words(KINDS, kinds),
    )
    metadata = _metadata(path)
    survey = _survey(_events(path, shape, header, Ignored(), Progress()))
    lo, hi = grid or (metadata.get("lo", survey.lo), metadata.get("hi", survey.hi))
    return file_stream(
        path,
        partial(_events, path, shape._replace(grid=(lo, hi)), header),
        on_problem,
        lo=lo,
        hi=hi,
        lot_wei=metadata.get("lot_wei", _lot_wei(shape.lot)) if lot_wei is None else lot_wei,
        instruments=_named(path, plain_name(path).partition(".")[0], survey.instruments),
        note="table",
        has_fills=survey.has_fills,
        scale=_scale_of(shape.tick) or metadata.get("scale", CENTS),
        inferred=bool(metadata.get("inferred")),
        labels=_labels(path, lo, hi),
    )


def _separator(path: FilePath) -> str:
    """Return the separator that is most frequent in the first line of a text file."""
    if is_parquet(path):
        return ","
    first = _first_line(path)[1]
    return max(",;\t", key=lambda one: first.count(one.encode()))


def _first_line(path: FilePath) -> tuple[int, bytes]:
    return first_line(next(line_blocks(path, Ignored(), None, 1 << 16), (1, b""))[1])


def _scale_of(tick: tuple[int, int]) -> int:
    """Return the ticks per token, or 0 if the prices of the table are in ticks, not money."""
    digits, places = tick
    return ticks_per_token(10**places, digits) if digits != 10**places else 0


def _lot_wei(lot: tuple[int, int]) -> int:
    """Return a lot of tokens in wei; a lot that is no whole number of wei counts as one token."""
    digits, places = lot
    wei, rest = divmod(digits * WEI_PER_TOKEN, 10**places)
    return wei if wei and not rest else WEI_PER_TOKEN


def _instruments(name: str, numbers: list[int]) -> list[Instrument]:
    """Name markets after the file, with their number if there are several."""
    several = numbers[-1] > 1
    return [
        Instrument(number, f"{name} {number // 2}" if several else name, OUTCOMES[number % 2])
        for number in numbers
    ]


def _stored(path: FilePath, name: str) -> list[Any]:
    """Read a JSON list from the metadata of a Parquet file written by this package."""
    if not is_parquet(path):
        return []
    try:
        found = json.loads((parquet_schema(path).metadata or {}).get(name.encode(), b"[]"))
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _named(path: FilePath, name: str, numbers: list[int]) -> list[Instrument]:
    """Return the books of a table, with the names in its metadata if it has any."""
    known = {
        one[0]: Instrument(one[0], str(one[1]), str(one[2]))
        for one in _stored(path, "instruments")
        if isinstance(one, list) and len(one) == 3 and type(one[0]) is int
    }
    if set(numbers) <= known.keys() and all(0 <= number < 2**16 for number in known):
        return [known[number] for number in sorted(known)]
    return _instruments(name, numbers)


def _labels(path: FilePath, lo: int, hi: int) -> list[str]:
    labels = [one for one in _stored(path, "labels") if isinstance(one, str)]
    return labels if len(labels) == hi - lo + 1 else []


def _metadata(path: FilePath) -> dict[str, int]:
    """Read grid, lot and scale from the metadata of a Parquet file written by this package."""
    if not is_parquet(path):
        return {}
    metadata = parquet_schema(path).metadata or {}
    numbers = ("lo", "hi", "lot_wei", "scale", "inferred")
    texts = {name: metadata.get(name.encode(), b"") for name in numbers}
    return {name: int(text) for name, text in texts.items() if text.isdigit() and len(text) < 40}


def _names(path: FilePath, separator: str, header: bool) -> list[str]:
    """Return the column names, which are empty without a header."""
    if is_parquet(path):
        return list(parquet_schema(path).names)
    cells = _first_line(path)[1].decode("utf-8", "replace").split(separator)
    return [cell.strip().strip('"') for cell in cells] if header else [""] * len(cells)


def _places(path: FilePath, names: list[str], columns: Columns) -> dict[str, int]:
    long_names = {short: field for field, short in SHORT_NAMES.items()}
    columns = {long_names.get(field, field): column for field, column in columns.items()}
    unknown = set(columns) - set(EVENT.names or ())
    if unknown:
        known = ", ".join(EVENT.names or ())
        raise ValueError(f"fields must be among {known}; got {min(unknown)!r}")
    places, missing = {}, []
    for field in EVENT.names or ():
        found = _place(path, names, field, columns.get(field))
        if found is not None:
            places[field] = found
        elif field in columns:
            raise ReplayFormatError(
                f"{plain_name(path)}: column {columns[field]!r} for {field} is missing; "
                f"got {', '.join(names)}"
            )
        elif field in NEEDED:
            missing.append(SHORT_NAMES.get(field, field))
    if missing:
        wanted = ",".join(f"{field}=..." for field in missing)
        raise ReplayFormatError(
            f"{plain_name(path)}: a table needs a column for {', '.join(missing)}; got "
            f"{', '.join(names)}. Name the columns: --columns {wanted}, in Python columns={{...}}"
        )
    return places


def _place(path: FilePath, names: list[str], field: str, column: str | int | None) -> int | None:
    """Return the place of the column of a field; None if there is none.

    Raises:
        ReplayFormatError: several columns have its name.
    """
    if isinstance(column, int):
        return column if 0 <= column < len(names) else None
    wanted = [field, SHORT_NAMES.get(field, field)] if column is None else [column]
    # The exact name first: a table may have both Price and price.
    for known, alike in ((names, wanted), (_lower(names), _lower(wanted))):
        for name in alike:
            if known.count(name) > 1:
                raise ReplayFormatError(
                    f"{plain_name(path)}: column {name!r} for {field} must occur once; "
                    f"got {', '.join(names)}"
                )
            if name in known:
                return known.index(name)
    return None


def _lower(names: list[str]) -> list[str]:
    return [name.lower() for name in names]


def _unit(text: str) -> tuple[int, int]:
    """Parse a unit such as ``0.25`` as (25, 2)."""
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if not (digits.isascii() and digits.isdigit() and int(digits)) or len(digits) > 18:
        raise ValueError(f"a unit must be a positive decimal number; got {text!r}")
    return int(digits), len(fraction)


def _words(known: Mapping[str, int], more: Mapping[str, int] | None) -> dict[bytes, int]:
    both = {**known, **(more or {})}
    return {word.lower().encode(): int(number) for word, number in both.items()}


class TableSurvey(NamedTuple):
    """Range of prices (ticks) and instruments of a table, and whether it has ``FILL`` records."""

    lo: int
    hi: int
    instruments: list[int]
    """The numbers of the instruments, increasing."""
    has_fills: bool


def _survey(blocks: Iterator[Records]) -> TableSurvey:
    """Find prices and instruments; best prices and settlements do not extend the grid."""
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
    path: FilePath, shape: Shape, header: bool, problems: Problems, progress: Progress
) -> Iterator[Records]:
    if is_parquet(path):
        texts = _parquet_text(path, shape)
    else:
        texts = _text(path, shape.separator, problems, progress, header)
    numbered = {field: _Numbered(LIMITS[field]) for field in TEXT_NUMBERED}
    latest = -(2**63)
    for first, block in texts:
        cells = Cells(
            block,
            shape.width,
            file=os.fspath(path),
            first=first,
            problems=problems,
            separator=shape.separator,
            expected=f"numbers or words as {', '.join(shape.places)}",
        )
        events = _block(cells, shape, numbered)
        so_far = np.maximum(np.maximum.accumulate(events["ts_ns"]), latest)
        late = events["ts_ns"] < so_far
        for row in np.flatnonzero(late).tolist():
            text = f"time must not be before {so_far[row]} ns, got {events['ts_ns'][row]}"
            problems.report("clock backwards", text, path, int(cells.line[row]))
        if late.any():
            events = events.take(np.flatnonzero(~late))
        if len(events):
            if latest < 0:
                _remark_unit(int(events["ts_ns"][0]), shape.time_places, problems)
            latest = int(events["ts_ns"][-1])
            yield events
    progress.done_bytes = progress.total_bytes


def _remark_unit(first_ns: int, places: int, problems: Problems) -> None:
    """Remark that times would be those of this century in another unit."""
    first, unit = first_ns // 10**places, UNITS[places]
    other = next((each for each, times in PLAUSIBLE.items() if first in times), unit)
    if other != unit:
        problems.remark(f"time unit is {unit}, but times look like {other}")


def _text(
    path: FilePath, separator: bytes, problems: Problems, progress: Progress, header: bool
) -> Iterator[tuple[int, bytes]]:
    head, number_before = b"", _first_line(path)[0]
    for first, text in line_blocks(path, problems, progress, BLOCK_BYTES):
        if first == 1:
            text = text.split(b"\n", number_before)[-1]
            first += number_before
            if header:
                head, _, text = text.partition(b"\n")
                first += 1
        # A quoted cell with a separator inside it still has the wrong number of cells.
        text = _without_heads(text, head, problems).replace(b'"', b"")
        yield first, _trimmed(text, separator)


def _trimmed(text: bytes, separator: bytes) -> bytes:
    """Remove spaces around cells."""
    if separator == b" " or not (separator + b" " in text or b" " + separator in text):
        return text
    return re.sub(b" *(%b|\r?\n) *" % re.escape(separator), rb"\1", text).lstrip(b" ")


def _without_heads(text: bytes, head: bytes, problems: Problems) -> bytes:
    """Blank later copies of the header line, which files have that were joined."""
    text, line = b"\n" + text, b"\n" + head + b"\n"
    while head and line in text:
        problems.remark(HEADER_AGAIN, text.count(line))
        text = text.replace(line, b"\n\n")
    return text[1:]


def _parquet_text(path: FilePath, shape: Shape) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of a Parquet file as CSV; times become nanoseconds, other columns empty."""
    arrow, csv = map(need_pyarrow, ("pyarrow", "pyarrow.csv"))
    first = 1
    options = csv.WriteOptions(include_header=False, quoting_style="none")
    fields = set(shape.places.values())
    for batch in parquet_batches(path):
        with parquet_errors(path):
            empty = arrow.nulls(batch.num_rows)
            # Columns without a field may have types that CSV cannot hold, such as lists.
            columns = [
                _plain_column(arrow, column) if place in fields else empty
                for place, column in enumerate(batch.columns)
            ]
            text = io.BytesIO()
            csv.write_csv(arrow.table(columns, names=batch.schema.names), text, options)
        yield first, text.getvalue()
        first += batch.num_rows


def _has_timestamps(path: FilePath, places: dict[str, int]) -> bool:
    """Return whether the times of a Parquet file are timestamps, which need no unit."""
    if not is_parquet(path):
        return False
    arrow = need_pyarrow("pyarrow")
    return bool(arrow.types.is_timestamp(parquet_schema(path).types[places["ts_ns"]]))


def _plain_column(arrow: Any, column: Any) -> Any:
    """Convert times to nanoseconds and leave other columns unchanged."""
    if arrow.types.is_timestamp(column.type):
        return column.cast(arrow.timestamp("ns", column.type.tz)).cast(arrow.int64())
    return column


def _block(cells: Cells, shape: Shape, numbered: "dict[str, _Numbered]") -> Records:
    columns: dict[str, npt.NDArray[Any]] = {}
    for field, place in shape.places.items():
        columns[field] = _column(cells, field, place, shape, numbered)
    kind = columns["kind"]
    for field, kinds in WITHOUT.items():
        place = shape.places[field]
        empty = cells.empty(place)
        if empty.any():
            names = ", ".join(each.name.lower() for each in kinds)
            expected = f"{field} must not be empty, except for {names}"
            cells.reject(empty & ~np.isin(kind, kinds), place, expected)
            if field == "price":
                lowest, highest = shape.grid
                any_price = np.where(columns["side"] == 0, highest, lowest)
                columns[field] = np.where(empty & (kind == Kind.IOC), any_price, columns[field])
    for field, limit in LIMITS.items():
        if field in columns:
            high = columns[field] >= limit
            if high.any():
                cells.reject(high, shape.places[field], f"{field} must be below {limit}")
    columns.setdefault("seq", cells.line)
    columns.setdefault("recv_ns", columns["ts_ns"])
    kept = cells.rows()
    if kept is not None:
        columns = {field: column[kept] for field, column in columns.items()}
        cells.line = cells.line[kept]
    events = np.zeros(len(cells), EVENT)
    for field, column in columns.items():
        events[field] = column
    return events


def _column(
    cells: Cells, field: str, place: int, shape: Shape, numbered: "dict[str, _Numbered]"
) -> npt.NDArray[Any]:
    """Read the column of a field."""
    if field in ("ts_ns", "recv_ns"):
        unit = UNITS[shape.time_places]
        expected = f"{SHORT_NAMES[field]} must be a number of {unit} from 1970 to 2262, or a date"
        return cells.decimals(place, shape.time_places, other=_date, expected=expected)
    if field in ("price", "size"):
        return _units(cells, field, place, shape.tick if field == "price" else shape.lot)
    if field in PLAIN_FIELDS:
        # Spreadsheets and data frames write integers as 17.0.
        expected = f"{field} must be a whole number"
        other = _zero if field == "flags" else numbered.get(field)
        return cells.decimals(place, 0, other=other, expected=expected)
    return _numbers(cells, field, place, shape.sides if field == "side" else shape.kinds)


def _date(text: bytes) -> int | None:
    """Return a date as nanoseconds; None for any other text."""
    try:
        found = date_ns(text.decode("ascii"))
    except ValueError:
        return None
    return found if found >= 0 else None


class _Numbered:
    """Numbers texts by their first appearance, downwards from a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._numbers: dict[bytes, int] = {}

    def __call__(self, text: bytes) -> int:
        """Return the number of a text; 0 for an empty one."""
        if not text:
            return 0
        return self._limit - 1 - self._numbers.setdefault(text, len(self._numbers))


def _units(cells: Cells, field: str, place: int, unit: tuple[int, int]) -> Integers:
    """Read a column of multiples of a unit, in units; an empty cell is 0."""
    digits, places = unit
    name, step = "tick" if field == "price" else "lot", Decimal(digits).scaleb(-places)
    expected = f"{field} must be a multiple of {name} {step:f}, and not negative"
    value = cells.decimals(place, places, signed=True, other=_zero, expected=expected)
    bad = (value % digits != 0) | (value < 0)
    if bad.any():
        cells.reject(bad, place, expected)
    return value // digits


def _zero(text: bytes) -> int | None:
    return None if text else 0


def _numbers(cells: Cells, field: str, place: int, words: dict[bytes, int]) -> Integers:
    distinct, which = np.unique(cells.words(place), return_inverse=True)
    numbers = [words.get(word.lower(), -1) for word in distinct.tolist()]
    column = np.array(numbers, np.int64)[which] if len(numbers) else np.zeros(0, np.int64)
    bad = column < 0
    if bad.any():
        known = ", ".join(word.decode() for word in words if word)
        cells.reject(bad, place, f"{field} must be one of {known}")
    return column
