"""Finds the tokens and the tick of a Polymarket dump in a first pass."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, Progress, plain_name
from clob.replay.io.json_lines import BROKEN, messages, reason_of
from clob.replay.io.problems import Ignored, Problems
from clob.replay.io.streams import Instrument
from clob.replay.io.text import places_of
from clob.replay.readers import OUTCOMES
from clob.replay.readers.polymarket.messages import (
    AnyMessage,
    ChangeMessage,
    EndMessage,
    NumberedMessage,
    PolymarketBook,
    TickMessage,
    TradeMessage,
    read_message,
    unwrapped,
)

PLACES = (2, 4)
"""The minimum and maximum number of decimal places of a tick."""


class PolymarketSurvey(NamedTuple):
    """The instrument of each token of a dump, its books and its tick."""

    numbers: dict[str, int]
    instruments: list[Instrument]
    places: int
    """The tick is ``10**-places``."""


def read_all(path: FilePath, problems: Problems, progress: Progress) -> Iterator[NumberedMessage]:
    """Read the messages of a dump that change a book.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: a message is unreadable and the policy is ``"raise"``.
    """
    for line, outer in messages(path, problems, progress):
        for message in unwrapped(outer):
            try:
                parsed = read_message(message)
            except BROKEN as error:
                text = reason_of(error)
                problems.report("unreadable message", text, path, line)
                continue
            if parsed is None:
                problems.remark("message that does not change a book")
            else:
                yield line, parsed


def survey_of(path: FilePath, outcomes: Mapping[str, str]) -> PolymarketSurvey:
    """Find the tokens of each market and the tick.

    Args:
        path: the dump.
        outcomes: ``"YES"`` or ``"NO"`` for some tokens.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the dump has no book.
    """
    markets: dict[str, list[str]] = {}
    places, has_book, ignored = PLACES[0], False, Ignored()
    for _, message in read_all(path, ignored, Progress()):
        tokens, prices = _tokens_and_prices(message)
        has_book |= isinstance(message, PolymarketBook)
        known = markets.setdefault(message.market, [])
        known += [token for token in dict.fromkeys(tokens) if token not in known]
        for price in prices:
            try:
                places = max(places, min(places_of(price), PLACES[1]))
            except ValueError:
                continue
    if not has_book:
        text = f"the dump has no book of a token{ignored.clause()}"
        raise ReplayFormatError(f"{plain_name(path)}: {text}")
    numbers: dict[str, int] = {}
    instruments = []
    for place, (market, tokens) in enumerate(markets.items()):
        for offset, token in enumerate(_pair(tokens, outcomes)):
            if token:
                numbers[token] = 2 * place + offset
                instruments.append(Instrument(2 * place + offset, market, OUTCOMES[offset]))
    return PolymarketSurvey(numbers, instruments, places)


def _pair(tokens: list[str], outcomes: Mapping[str, str]) -> tuple[str, str]:
    """Return the YES and the NO token of a market; an empty one if it is not in the dump."""
    first, second = [*tokens, "", ""][:2]
    swaps = outcomes.get(first) == "NO" or outcomes.get(second) == "YES"
    return (second, first) if swaps else (first, second)


def _tokens_and_prices(message: AnyMessage) -> tuple[list[str], list[str]]:
    """Return the tokens and level prices of a message; trade prices may be between ticks."""
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
