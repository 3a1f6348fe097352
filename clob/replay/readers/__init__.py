"""Readers of recorded order flow, one module per format, and helpers that they share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NotRequired, TypedDict, Unpack

from clob.replay.io.files import FilePath, Progress, plain_name
from clob.replay.io.problems import Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Instrument, Stream
from clob.replay.io.text import SECOND_NS, received, time_ns, units

OUTCOMES = ("YES", "NO")
"""The outcomes of a market."""

MS_NS = 10**6

MS_LEAST = 10**11
"""A smaller Unix time is in seconds, not milliseconds."""


class StreamOptions(TypedDict):
    """The arguments of a stream that describe the content of a file."""

    lo: int
    hi: int
    lot_wei: int
    instruments: Sequence[Instrument]
    note: str
    has_fills: NotRequired[bool]
    scale: NotRequired[int]
    labels: NotRequired[Sequence[str]]


def file_stream(
    path: FilePath,
    read: Callable[[Problems, Progress], Iterable[Records]],
    on_problem: Policy,
    *,
    inferred: bool = False,
    **options: Unpack[StreamOptions],
) -> Stream:
    """Make the stream of a file; ``read`` is called at the start of each reading."""
    problems, progress = Problems(on_problem), Progress()
    progress.expect(path)

    def blocks() -> Iterable[Records]:
        progress.expect(path)
        return read(problems, progress)

    return Stream(
        blocks,
        name=plain_name(path),
        problems=problems,
        progress=progress,
        inferred=inferred,
        **options,
    )


def instruments_of(numbers: Mapping[str, int], *, mirror: bool = False) -> list[Instrument]:
    """Return the books of markets: YES and NO, or with ``mirror`` only YES.

    Args:
        numbers: the number of the YES book by market.
        mirror: whether NO bids are offers in the YES book.
    """
    return [
        Instrument(number + offset, market, outcome)
        for market, number in numbers.items()
        for offset, outcome in enumerate(OUTCOMES[:1] if mirror else OUTCOMES)
    ]


def side_of(sides: Mapping[str, int], name: str, word: object) -> int:
    """Return the number of a word for a side, in any case of letters.

    Args:
        sides: the number of each word, in lower case.
        name: the name of the field.
        word: the value of the field.

    Raises:
        ValueError: the value is none of the words.
    """
    side = sides.get(word.lower()) if isinstance(word, str) else None
    if side is None:
        raise ValueError(f"{name} must be {' or '.join(sides)}, got {received(word)}")
    return side


def unix_time_ns(text: str | int) -> int:
    """Convert a Unix time in milliseconds, or in seconds as in old dumps, to nanoseconds."""
    time = units(text, 0)
    return time_ns(time, MS_NS if time >= MS_LEAST else SECOND_NS)
