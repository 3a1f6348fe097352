"""Reads dumps of Kalshi's WebSocket feed: books, their changes and trades, as JSON lines.

The messages ``orderbook_snapshot``, ``orderbook_delta`` and ``trade`` are read, with prices in
dollars or, as before 2026, in cents. Replies to subscriptions are only counted.

- A market has YES bids and NO bids. A NO bid at *q* is a YES offer at one minus *q*, so each market
  is one YES book; ``mirror=False`` keeps the NO bids in a book of their own.
- ``use_yes_price`` is for feeds that state NO bids as YES prices.
- A delta is added to its level. Sequence numbers of a subscription (``sid``) rise by one. After a
  gap the books of its markets are cleared, and their changes are skipped until the next snapshot.
  Trades have no sequence numbers and may arrive late.
- The tick is the finest price step that occurs, 0.01, 0.001 or 0.0001. A lot is a hundredth of a
  contract.
- A message without a time has the time of the message before it.
- A trade consumes bids of the side that its taker did not buy.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, Progress, plain_name
from clob.replay.io.json_lines import BROKEN, Message, messages, reason_of
from clob.replay.io.problems import Ignored, Policy, Problems
from clob.replay.io.streams import Stream
from clob.replay.io.text import SIZE_MAX, date_ns, lots_of, places_of, received, time_ns, units
from clob.replay.readers import MS_NS, instruments_of, side_of, unix_time_ns
from clob.replay.readers.l2 import LevelRule, LevelTrade, LevelUpdate, Moment, level_stream

LOT_WEI = 10**16
"""A lot is a hundredth of a contract."""

SIZE_PLACES = 2
PLACES = (2, 4)
"""The minimum and maximum number of decimal places of a tick."""

WINDOW_NS = 10**9
"""Default for the time between a trade and the level change it explains."""

SIDES = {"yes": 0, "no": 1}
"""The outcome of a bid."""

BOOKS = ("orderbook_snapshot", "orderbook_delta")
"""The messages with sequence numbers that change a book."""

LADDERS = {
    "yes_dollars_fp": (0, False),
    "no_dollars_fp": (1, False),
    "yes_dollars": (0, False),
    "no_dollars": (1, False),
    "yes": (0, True),
    "no": (1, True),
}
"""The ladders of a snapshot: the outcome of the bids, and whether prices are in cents."""


class KalshiSurvey(NamedTuple):
    """The YES instrument of each market, the tick and the first time of a dump."""

    numbers: dict[str, int]
    places: int
    """The tick is ``10**-places``."""
    start_ns: int


def read_kalshi_ws(
    path: FilePath,
    *,
    mirror: bool = True,
    use_yes_price: bool = False,
    level_rule: LevelRule = "tail",
    window_ns: int = WINDOW_NS,
    on_problem: Policy = "raise",
) -> Stream:
    """Read a dump of the feed. The file is read twice, first for its markets and its tick.

    Args:
        path: the file, JSON lines, compressed or not.
        mirror: whether NO bids are offers in the YES book; False makes two books of bids.
        use_yes_price: whether the feed states NO bids as YES prices.
        level_rule: which orders of a level are cancelled when it shrinks without a trade.
        window_ns: maximum time between a trade and the level change it explains.
        on_problem: the policy for unreadable lines, sequence gaps, changes without a snapshot,
            negative levels, prices off the grid, crossed books and clocks that run backwards.

    Returns:
        The stream.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the dump has no snapshot.
        ValueError: the level rule is unknown.
    """
    survey = _survey(path)
    whole: int = 10**survey.places

    def moments(problems: Problems, progress: Progress) -> Iterator[Moment]:
        reader = _Reader(path, survey, problems, mirror=mirror, use_yes_price=use_yes_price)
        return reader.moments(messages(path, problems, progress))

    return level_stream(
        path,
        moments,
        rule=level_rule,
        window_ns=window_ns,
        on_problem=on_problem,
        lo=1,
        hi=whole - 1,
        lot_wei=LOT_WEI,
        instruments=instruments_of(survey.numbers, mirror=mirror),
        note="Kalshi WebSocket feed",
        scale=whole,
    )


def _survey(path: FilePath) -> KalshiSurvey:
    numbers: dict[str, int] = {}
    places, start_ns, ignored = PLACES[0], 0, Ignored()
    for _, message in messages(path, ignored):
        body = message.get("msg")
        if not isinstance(body, dict):
            continue
        try:
            time_ns = _time_ns(body)
            start_ns = start_ns or time_ns or 0
            if message.get("type") == BOOKS[0]:
                numbers.setdefault(str(body["market_ticker"]), 2 * len(numbers))
            if message.get("type") in BOOKS:
                for price in _dollars(body):
                    places = max(places, min(places_of(price), PLACES[1]))
        except BROKEN:
            continue
    if not numbers:
        text = f"the dump has no snapshot of a market{ignored.clause()}"
        raise ReplayFormatError(f"{plain_name(path)}: {text}")
    return KalshiSurvey(numbers, places, start_ns)


def _dollars(body: Message) -> Iterator[str | int]:
    """Yield the prices of a message that are in dollars."""
    for ladder, (_, cents) in LADDERS.items():
        if not cents:
            yield from (row[0] for row in body.get(ladder) or ())
    if body.get("price_dollars") is not None:
        yield body["price_dollars"]


def _time_ns(body: Message) -> int | None:
    if body.get("ts_ms") is not None:
        return time_ns(units(body["ts_ms"], 0), MS_NS)
    time: Any = body.get("ts")
    if time is None:
        return None
    if isinstance(time, str) and "-" in time:
        return date_ns(time)
    return unix_time_ns(time)


def _either(body: Message, name: str, other: str) -> Any:
    """Return a field that has two names; one of them may be null."""
    return body[other] if body.get(name) is None else body[name]


class _Reader:
    """Converts the messages of one reading to moments."""

    def __init__(
        self,
        path: FilePath,
        survey: KalshiSurvey,
        problems: Problems,
        *,
        mirror: bool,
        use_yes_price: bool,
    ) -> None:
        self._path, self._problems = path, problems
        self._numbers, self._places = survey.numbers, survey.places
        self._whole: int = 10**survey.places
        self._mirror, self._use_yes_price = mirror, use_yes_price
        self._line, self._now_ns = 0, survey.start_ns
        self._levels: dict[str, dict[tuple[int, int], int]] = {}
        self._seqs: dict[str, int] = {}
        self._members: dict[str, set[str]] = {}

    def moments(self, parsed: Iterator[tuple[int, Message]]) -> Iterator[Moment]:
        for line, message in parsed:
            self._line = line
            if "seq" in message:
                if type(message["seq"]) is not int:
                    text = f"seq must be an integer, got {received(message['seq'])}"
                    self._report("unreadable message", text)
                    continue
                yield from self._check_sequence(message)
            if message.get("type") not in (*BOOKS, "trade"):
                self._problems.remark("message that does not change a book")
                continue
            try:
                moment = self._moment(message)
            except BROKEN as error:
                self._report("unreadable message", reason_of(error))
                continue
            if moment is not None:
                yield moment

    def _report(self, kind: str, text: str) -> None:
        self._problems.report(kind, text, self._path, self._line)

    def _check_sequence(self, message: Message) -> Iterator[Moment]:
        """Check the sequence number of a subscription; after a gap, clear its books."""
        sid, seq = str(message.get("sid")), message["seq"]
        before = self._seqs.get(sid)
        self._seqs[sid] = seq
        if before is None or seq == before + 1 or (seq == 1 and message.get("type") == BOOKS[0]):
            return
        self._report("missing number", f"expected {before + 1} in subscription {sid}, got {seq}")
        lost = sorted(self._members.pop(sid, set()) & self._levels.keys())
        for market in lost:
            del self._levels[market]
        if lost:
            reset = tuple(one for market in lost for one in self._instruments(market))
            yield Moment(self._now_ns, self._line, reset=reset)

    def _instruments(self, market: str) -> tuple[int, ...]:
        number = self._numbers[market]
        return (number,) if self._mirror else (number, number + 1)

    def _moment(self, message: Message) -> Moment | None:
        """Apply a message and return its moment, or None if it has none."""
        body = message["msg"]
        market = str(body["market_ticker"])
        stated = _time_ns(body)
        moment: Moment | None
        if message["type"] == BOOKS[0]:
            moment = self._snapshot(market, body)
            self._members.setdefault(str(message.get("sid")), set()).add(market)
        elif market not in self._levels:
            self._report_without_book(message, market)
            return None
        elif message["type"] == BOOKS[1]:
            moment = self._delta(market, body)
        else:
            moment = self._trade(market, body)
        if stated is not None:
            self._advance(stated, trade=message["type"] == "trade")
        return moment._replace(ts_ns=self._now_ns) if moment is not None else None

    def _advance(self, stated: int, *, trade: bool) -> None:
        """Advance to the time of a message, unless it is in the past."""
        if stated >= self._now_ns:
            self._now_ns = stated
        elif trade:
            self._problems.remark("late trade")
        else:
            text = f"time must not be before {self._now_ns} ns, got {stated}"
            self._report("clock backwards", text)

    def _report_without_book(self, message: Message, market: str) -> None:
        """Count or report a message of a market that has no book yet."""
        if message["type"] == "trade" or market in self._numbers:
            self._problems.remark("message of a market before its snapshot")
        else:
            self._report("change without a snapshot", f"market {market[:40]!r} has no snapshot")

    def _at(self, bids: int, price: int) -> tuple[int, int, int]:
        """Return the instrument offset, the side and the tick of a bid."""
        if self._mirror:
            return 0, bids, self._whole - price if bids else price
        return bids, 0, price

    def _stated(self, body: Message, name: str) -> tuple[str | int, int]:
        """Return a price as stated, in dollars or as before 2026 in cents, and its places."""
        dollars = body.get(f"{name}_dollars")
        return (body[name], self._places - 2) if dollars is None else (dollars, self._places)

    def _price(self, text: str | int, places: int, bids: int) -> int:
        """Parse a price, in ticks of the outcome of the bid."""
        price = units(text, places)
        if not 0 < price < self._whole:
            raise ValueError(f"price must be above 0 and below 1 dollar, got {text}")
        return self._whole - price if bids and self._use_yes_price else price

    def _snapshot(self, market: str, body: Message) -> Moment:
        levels: dict[tuple[int, int], int] = {}
        for ladder, (bids, cents) in LADDERS.items():
            if any(at[0] == bids for at in levels):
                continue
            places = self._places - 2 if cents else self._places
            for price, size in body.get(ladder) or ():
                levels[bids, self._price(price, places, bids)] = lots_of(size, SIZE_PLACES)
        self._levels[market] = levels
        updates = tuple(self._update(market, at, size) for at, size in levels.items())
        return Moment(0, self._line, updates, reset=self._instruments(market))

    def _update(self, market: str, at: tuple[int, int], size: int) -> LevelUpdate:
        offset, side, price = self._at(*at)
        return LevelUpdate(self._numbers[market] + offset, side, price, size)

    def _delta(self, market: str, body: Message) -> Moment:
        bids = side_of(SIDES, "side", body["side"])
        price = self._price(*self._stated(body, "price"), bids)
        delta = units(_either(body, "delta_fp", "delta"), SIZE_PLACES)
        levels = self._levels[market]
        size = levels.get((bids, price), 0) + delta
        if size > SIZE_MAX:
            raise ValueError(f"size must be at most {SIZE_MAX} lots, got {size}")
        if size < 0:
            self._report("level below nothing", f"size {size - delta} cannot change by {delta}")
            size = 0
        levels[bids, price] = size
        return Moment(0, self._line, (self._update(market, (bids, price), size),))

    def _trade(self, market: str, body: Message) -> Moment | None:
        """Convert a trade: the taker of one outcome meets the bids for the other."""
        taken = 1 - side_of(SIDES, "taker_side", _either(body, "taker_side", "taker_outcome_side"))
        text, places = self._stated(body, ("yes_price", "no_price")[taken])
        try:
            price = units(text, places)
        except ValueError:
            self._problems.remark("trade between two ticks")
            return None
        size = lots_of(_either(body, "count_fp", "count"), SIZE_PLACES)
        offset, side, tick = self._at(taken, price)
        if not 0 < tick < self._whole or not size:
            raise ValueError(f"trade must have a size above 0 and a price on the grid, got {text}")
        trade = LevelTrade(self._numbers[market] + offset, 1 - side, tick, size)
        return Moment(0, self._line, (), (trade,))
