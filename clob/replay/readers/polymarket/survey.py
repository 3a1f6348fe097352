"""Goes through a dump of Polymarket for what must be known of it beforehand: tokens and ticks."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, Progress, plain_name
from clob.replay.io.problems import Ignored, Problems
from clob.replay.io.streams import Instrument
from clob.replay.io.text import places_of
from clob.replay.readers.kalshi import BROKEN, messages
from clob.replay.readers.polymarket.messages import (
    AnyMessage,
    ChangeMessage,
    EndMessage,
    PolymarketBook,
    TickMessage,
    TradeMessage,
    read_message,
    unwrapped,
)

PLACES = (2, 4)
"""A tick has from two to four digits behind the point."""

OUTCOMES = ("YES", "NO")
"""The outcomes of a market."""


class PolymarketSurvey(NamedTuple):
    """What has to be known of a dump beforehand."""

    numbers: dict[str, int]
    """The instrument of each token."""
    instruments: list[Instrument]
    """The books."""
    places: int
    """How many digits behind the point a tick is."""


def read_all(
    path: FilePath, problems: Problems, progress: Progress
) -> Iterator[tuple[int, AnyMessage]]:
    """Read the messages of a dump that say something of a book.

    Args:
        path: the file.
        problems: where those are reported that cannot be read.
        progress: is told of every byte read from the disk.

    Yields:
        The line of each, and the message.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: one cannot be read and the policy is to raise.
    """
    for line, outer in messages(path, problems, progress):
        for message in unwrapped(outer):
            try:
                found = read_message(message)
            except BROKEN as error:
                said = f"{type(error).__name__}: {error}"
                problems.report("unreadable message", said, path, line)
                continue
            if found is None:
                problems.remark("message that says nothing of a book")
            else:
                yield line, found


def survey_of(path: FilePath, outcomes: Mapping[str, str]) -> PolymarketSurvey:
    """Find the tokens of each market and the finest tick.

    Args:
        path: the file.
        outcomes: ``"YES"`` or ``"NO"`` for some tokens.

    Returns:
        What was found.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: there is no book in it.
    """
    markets: dict[str, list[str]] = {}
    places, has_book = PLACES[0], False
    for _, message in read_all(path, Ignored(), Progress()):
        tokens, prices = _named(message)
        has_book |= isinstance(message, PolymarketBook)
        known = markets.setdefault(message.market, [])
        known += [token for token in dict.fromkeys(tokens) if token not in known]
        for price in prices:
            try:
                places = max(places, min(places_of(price), PLACES[1]))
            except ValueError:
                continue
    if not has_book:
        raise ReplayFormatError(f"{plain_name(path)}: no book of any token")
    numbers: dict[str, int] = {}
    instruments = []
    for place, (market, tokens) in enumerate(markets.items()):
        for offset, token in enumerate(_pair(tokens, outcomes)):
            if token:
                numbers[token] = 2 * place + offset
                instruments.append(Instrument(2 * place + offset, market, OUTCOMES[offset]))
    return PolymarketSurvey(numbers, instruments, places)


def _pair(tokens: list[str], outcomes: Mapping[str, str]) -> tuple[str, str]:
    """Give the tokens of YES and NO of a market; an empty one where it is not in the dump."""
    first, second = [*tokens, "", ""][:2]
    swaps = outcomes.get(first) == "NO" or outcomes.get(second) == "YES"
    return (second, first) if swaps else (first, second)


def _named(message: AnyMessage) -> tuple[list[str], list[str]]:
    """Give the tokens and the prices of a message; those of trades need not be on any grid."""
    match message:
        case PolymarketBook():
            return [message.asset], [price for _, price in message.levels]
        case ChangeMessage():
            changes = message.changes
            return [one.asset for one in changes], [one.price for one in changes]
        case TradeMessage():
            return [message.asset], []
        case TickMessage():
            return [], [message.tick]
        case EndMessage():
            return [message.winner], []
