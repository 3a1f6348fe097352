"""Reads dumps of Polymarket's WebSocket market channel: messages or arrays of them as JSON lines.

The messages ``book``, ``price_change`` (with ``price_changes``, or with ``changes`` as before
September 2025), ``last_trade_price``, ``tick_size_change`` and ``market_resolved`` are read, either
bare or in the ``payload`` or ``data`` of a recorder. Other messages are skipped and counted.

- Each condition is a market; its two tokens are YES and NO in order of appearance, unless
  ``outcomes`` names them. Each outcome is a separate book.
- The tick is the finest price step that occurs in the whole dump, 0.01, 0.001 or 0.0001. A lot is a
  millionth of a token.
- The first ``book`` of a token is its seed. Earlier changes are skipped and counted, since a dump
  of one token also contains changes of the other.
- A later ``book`` restates the levels. Near a trade of its market it may differ, because it already
  includes the trade. A difference at any other time means that the dump lacks a message: this is a
  problem, and the book is cleared and seeded again.
- A trade is reported in the book of one token. In the other book it consumes the same size of the
  opposite side at one minus the price; this explains the decrease there and is recorded only once.
- Messages of one time form one moment: an order that trades and rests is spread over several, each
  with the best prices after all of them.
- The best prices of a ``price_change`` are records to compare with; without them the best levels
  are used. Sizes are those of the levels. Hashes are not verified.
- ``market_resolved`` is a ``SETTLE`` record of each outcome, with a price one tick above the grid
  for the winner and one below for the loser.

A dump has no sequence numbers: other gaps show only as differing best prices.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from clob.replay.io.files import FilePath, Progress
from clob.replay.io.problems import Policy, Problems
from clob.replay.io.streams import Stream
from clob.replay.io.text import lots_of, units
from clob.replay.readers import OUTCOMES
from clob.replay.readers.l2 import (
    LevelBest,
    LevelRule,
    LevelTrade,
    LevelUpdate,
    Moment,
    level_stream,
)
from clob.replay.readers.polymarket.messages import (
    SIZE_PLACES,
    AnyMessage,
    ChangeMessage,
    EndMessage,
    NumberedMessage,
    PolymarketBook,
    TickMessage,
    TradeMessage,
)
from clob.replay.readers.polymarket.survey import PolymarketSurvey, read_all, survey_of

LOT_WEI = 10**12
"""A lot is a millionth of a token."""

WINDOW_NS = 10**9
"""Default for the time between a trade and the level change it explains."""

UNSTATED = -1
"""Marks a best price that is not stated and is taken from the levels."""


def read_polymarket(
    path: FilePath,
    *,
    outcomes: Mapping[str, str] | None = None,
    grid: tuple[int, int] | None = None,
    level_rule: LevelRule = "tail",
    window_ns: int = WINDOW_NS,
    on_problem: Policy = "raise",
) -> Stream:
    """Read a dump of the market channel. The file is read twice, first for its tokens and tick.

    Args:
        path: the file, JSON lines, compressed or not.
        outcomes: ``"YES"`` or ``"NO"`` by token; the other token of the market gets the other
            outcome.
        grid: the lowest and the highest price to read, in ticks; other prices are problems. None
            reads all prices between 0 and 1.
        level_rule: which orders of a level are cancelled when it shrinks without a trade.
        window_ns: maximum time between a trade and the level change it explains.
        on_problem: the policy for unreadable lines, prices off the grid, sizes that are not whole
            lots, books that disagree or cross, and clocks that run backwards.

    Returns:
        The stream.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the dump has no book.
        ValueError: an outcome is not YES or NO, or the level rule is unknown.
    """
    for token, word in (outcomes or {}).items():
        if word not in OUTCOMES:
            raise ValueError(f"outcome of token {token} must be YES or NO; got {word!r}")
    survey = survey_of(path, outcomes or {})
    whole: int = 10**survey.places
    lo, hi = grid or (1, whole - 1)

    def moments(problems: Problems, progress: Progress) -> Iterator[Moment]:
        return _Reader(path, survey, (lo, hi), window_ns, problems).moments(progress)

    return level_stream(
        path,
        moments,
        rule=level_rule,
        window_ns=window_ns,
        on_problem=on_problem,
        lo=lo,
        hi=hi,
        lot_wei=LOT_WEI,
        instruments=survey.instruments,
        note="Polymarket market channel",
        scale=whole,
    )


class _Reader:
    """Converts the messages of one reading to moments."""

    def __init__(
        self,
        path: FilePath,
        survey: PolymarketSurvey,
        grid: tuple[int, int],
        window_ns: int,
        problems: Problems,
    ) -> None:
        self._path, self._problems = path, problems
        self._numbers, self._places = survey.numbers, survey.places
        self._whole: int = 10**survey.places
        self._grid, self._window_ns = grid, window_ns
        self._line = 0
        self._ticks: dict[str, int] = {}
        self._levels: dict[int, dict[tuple[int, int], int]] = {}
        self._latest: dict[str, int] = {}
        self._trades: dict[str, deque[int]] = {}

    def moments(self, progress: Progress) -> Iterator[Moment]:
        """Convert the messages; those of one time form one moment."""
        pending: Moment | None = None
        ordered = self._in_order(read_all(self._path, self._problems, progress))
        for line, message in self._look_ahead(ordered):
            if pending is not None and pending.ts_ns != message.ts_ns:
                yield self._with_bests(pending)
                pending = None
            self._line = line
            try:
                moment = self._moment(message)
            except ValueError as error:
                self._report("unreadable message", str(error))
                continue
            if moment is not None:
                pending = moment if pending is None else _combine(pending, moment)
        if pending is not None:
            yield self._with_bests(pending)

    def _report(self, kind: str, text: str) -> None:
        self._problems.report(kind, text, self._path, self._line)

    # ----- times -------------------------------------------------------------------------------

    def _in_order(self, messages: Iterator[NumberedMessage]) -> Iterator[NumberedMessage]:
        """Make the times of each market monotonic and report those that were not."""
        for line, message in messages:
            latest = self._latest.get(message.market, message.ts_ns)
            if message.ts_ns < latest:
                if isinstance(message, PolymarketBook):
                    self._problems.remark("book older than the message before it")
                else:
                    text = f"time must not be before {latest} ns, got {message.ts_ns}"
                    self._problems.report("clock backwards", text, self._path, line)
            self._latest[message.market] = max(latest, message.ts_ns)
            yield line, message._replace(ts_ns=max(latest, message.ts_ns))

    def _look_ahead(self, messages: Iterator[NumberedMessage]) -> Iterator[NumberedMessage]:
        """Note trades a window ahead, since a book may include a trade that is reported later."""
        waiting: deque[NumberedMessage] = deque()
        for line, message in messages:
            waiting.append((line, message))
            if isinstance(message, TradeMessage):
                self._trades.setdefault(message.market, deque()).append(message.ts_ns)
            while waiting[0][1].ts_ns + self._window_ns < message.ts_ns:
                yield waiting.popleft()
        yield from waiting

    def _near_trade(self, message: PolymarketBook) -> bool:
        """Return whether the market traded within the window around a book."""
        times = self._trades.get(message.market, deque())
        while times and times[0] + self._window_ns < message.ts_ns:
            times.popleft()
        return bool(times) and times[0] <= message.ts_ns + self._window_ns

    # ----- messages ----------------------------------------------------------------------------

    def _moment(self, message: AnyMessage) -> Moment | None:
        """Apply a message and return its moment, or None if it has none."""
        match message:
            case PolymarketBook():
                return self._book(message)
            case ChangeMessage():
                return self._changes(message)
            case TradeMessage():
                return self._trade(message)
            case TickMessage():
                self._problems.remark("tick size changed")
                return None
            case EndMessage():
                return self._end(message)

    def _number(self, asset: str) -> int | None:
        """Return the instrument of a token, or None for a third token of a market."""
        number = self._numbers.get(asset)
        if number is None:
            self._report("third outcome", f"a market has two tokens, got a third: {asset[:20]}")
        return number

    def _tick(self, price: str) -> int | None:
        """Parse a price as ticks; report a price off the grid and return None."""
        tick = self._ticks.get(price)
        if tick is not None:
            return tick
        try:
            tick = units(price, self._places)
        except ValueError:
            tick = -1
        if self._grid[0] <= tick <= self._grid[1]:
            self._ticks[price] = tick
            return tick
        text = f"price must be on the grid of {self._places} decimal places, got {price}"
        self._report("price off the grid", text)
        return None

    def _book(self, message: PolymarketBook) -> Moment | None:
        number = self._number(message.asset)
        if number is None:
            return None
        stated: dict[tuple[int, int], int] = {}
        for (side, price), text in message.levels.items():
            size, tick = lots_of(text, SIZE_PLACES), self._tick(price)
            if tick is not None and size:
                stated[side, tick] = size
        before = self._levels.get(number)
        self._levels[number] = stated
        updates = tuple(LevelUpdate(number, *at, size) for at, size in stated.items())
        reset: tuple[int, ...] = (number,)
        if before is not None:
            differing = {at for at, _ in before.items() ^ stated.items()}
            if not differing:
                return None
            if self._near_trade(message):
                self._problems.remark("book that includes a trade")
                changed = [LevelUpdate(number, *at, stated.get(at, 0)) for at in sorted(differing)]
                updates, reset = tuple(changed), ()
            else:
                text = f"{len(differing)} levels differ from the messages before"
                self._report("book disagrees", text)
        bests = tuple(LevelBest(number, side, UNSTATED, 0) for side in (0, 1))
        return Moment(message.ts_ns, self._line, updates, reset=reset, bests=bests)

    def _changes(self, message: ChangeMessage) -> Moment | None:
        updates: list[LevelUpdate] = []
        bests: dict[int, tuple[str | None, str | None]] = {}
        sizes = [lots_of(one.size, SIZE_PLACES) for one in message.changes]
        for size, one in zip(sizes, message.changes, strict=True):
            number = self._number(one.asset)
            if number is None:
                continue
            if number not in self._levels:
                self._problems.remark("change of a token without a book")
                continue
            tick = self._tick(one.price)
            if tick is None:
                continue
            updates.append(LevelUpdate(number, one.side, tick, size))
            levels = self._levels[number]
            if size:
                levels[one.side, tick] = size
            else:
                levels.pop((one.side, tick), None)
            bests[number] = one.bests
        if not updates:
            return None
        stated = tuple(
            self._best(number, side, text)
            for number, pair in bests.items()
            for side, text in enumerate(pair)
        )
        return Moment(message.ts_ns, self._line, tuple(updates), bests=stated)

    def _best(self, number: int, side: int, text: str | None) -> LevelBest:
        """Convert a stated best price; its size is set once all messages of its time are read."""
        lo, hi = self._grid
        if text is None:
            return LevelBest(number, side, UNSTATED, 0)
        tick = self._ticks[text] if text in self._ticks else units(text, self._places)
        return LevelBest(number, side, tick if lo <= tick <= hi else (lo - 1, hi + 1)[side], 0)

    def _with_bests(self, moment: Moment) -> Moment:
        """Add sizes to the best prices of a moment, and best prices that were not stated."""
        lo, hi = self._grid
        bests = []
        for number, side, stated, _ in moment.bests or ():
            levels, price = self._levels[number], stated
            if price == UNSTATED:
                prices = [each for level_side, each in levels if level_side == side]
                price = (min if side else max)(prices, default=(lo - 1, hi + 1)[side])
            size = levels.get((side, price), 0)
            if size or not lo <= price <= hi:
                bests.append(LevelBest(number, side, price, size))
            else:
                self._problems.remark("best price without a level")
        return moment._replace(bests=tuple(bests))

    def _trade(self, message: TradeMessage) -> Moment | None:
        """Convert a trade, with its counterpart in the book of the other outcome."""
        number, size = self._number(message.asset), lots_of(message.size, SIZE_PLACES)
        if number is None or not size:
            return None
        try:
            tick = units(message.price, self._places)
        except ValueError:
            self._problems.remark("trade between two ticks")
            return None
        lo, hi = self._grid
        if not lo <= tick <= hi:
            text = f"price of a trade must be {lo} to {hi} ticks, got {message.price}"
            self._report("price off the grid", text)
            return None
        trades = (
            LevelTrade(number, message.side, tick, size),
            LevelTrade(number ^ 1, 1 - message.side, self._whole - tick, size, reported=False),
        )
        return Moment(message.ts_ns, self._line, (), trades, bests=())

    def _end(self, message: EndMessage) -> Moment | None:
        winner = self._number(message.winner)
        if winner is None:
            return None
        lo, hi = self._grid
        numbers = sorted({winner, winner ^ 1} & set(self._numbers.values()))
        ends = tuple((number, hi + 1 if number == winner else lo - 1) for number in numbers)
        return Moment(message.ts_ns, self._line, bests=(), outcomes=ends)


def _combine(first: Moment, second: Moment) -> Moment:
    """Combine two moments of the same time."""
    bests = {best[:2]: best for best in (*(first.bests or ()), *(second.bests or ()))}
    return Moment(
        second.ts_ns,
        second.line,
        (*(one for one in first.updates if one.instrument not in second.reset), *second.updates),
        (*first.trades, *second.trades),
        tuple(dict.fromkeys((*first.reset, *second.reset))),
        tuple(bests.values()),
        (*first.outcomes, *second.outcomes),
    )
