"""Reads dumps of Polymarket's WebSocket market channel: JSON lines as they came, or arrays of them.

The messages ``book``, ``price_change`` (with ``price_changes``, or with ``changes`` as before
September 2025), ``last_trade_price``, ``tick_size_change`` and ``market_resolved`` are read, bare
or as the ``payload`` or ``data`` of what a recorder wrote; others say nothing of a book and are
remarked. Read so:

- Each condition is a market; its two tokens are YES and NO in order of appearance, unless
  ``outcomes`` names them. Each outcome is a book of its own.
- The ticks are of the finest tick that occurs, 0.01, 0.001 or 0.0001, all the time. A lot is a
  millionth of a token.
- The first ``book`` of a token is its seed. What changes before there is one is left out and
  remarked: a dump of one token hears of the other, too.
- A later ``book`` says again what the levels are. Around a trade of its market it may differ, for
  it tells what the trade took. Where it differs at any other time, something is missing from the
  dump: that is a problem, after which the book is cleared and seeded anew.
- A trade is told of in the book of one token. In the other it took the same from the other side at
  one less the price, which explains what that book lost; it is recorded but once.
- Messages of one time are taken together: an order that trades and rests is told of in several,
  and each states the best prices after all of them.
- The best prices of a ``price_change`` are records to compare with, or those of the levels where
  it states none; their sizes are those of the levels. The hashes are not verified.
- ``market_resolved`` is a ``SETTLE`` record of each outcome: its price is one above the grid for
  the one that won, and one below for the other.

A dump has no sequence numbers: what else is missing shows only in the best prices.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from clob.replay.io.files import FilePath, Progress, plain_name
from clob.replay.io.problems import Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Stream
from clob.replay.io.text import lots_of, units
from clob.replay.readers.l2 import LevelBest, LevelRule, Levels, LevelTrade, LevelUpdate, Moment
from clob.replay.readers.polymarket.messages import (
    SIZE_PLACES,
    AnyMessage,
    ChangeMessage,
    EndMessage,
    PolymarketBook,
    TickMessage,
    TradeMessage,
)
from clob.replay.readers.polymarket.survey import OUTCOMES, PolymarketSurvey, read_all, survey_of

LOT_WEI = 10**12
"""A lot is a millionth of a token."""

WINDOW_NS = 10**9
"""How far apart a trade and what it took may be told of."""

UNSTATED = -1
"""The best price that nobody stated: it is that of the levels."""


def read_polymarket(
    path: FilePath,
    *,
    outcomes: Mapping[str, str] | None = None,
    grid: tuple[int, int] | None = None,
    level_rule: LevelRule = "tail",
    window_ns: int = WINDOW_NS,
    on_problem: Policy = "raise",
) -> Stream:
    """Read a dump of the market channel. It is read twice, first for its tokens and its ticks.

    Args:
        path: the file, JSON lines, compressed or not.
        outcomes: ``"YES"`` or ``"NO"`` for tokens; the other token of the market is the other.
        grid: the lowest and the highest price to read, in ticks; others are problems. None takes
            all between nothing and one.
        level_rule: whose order it was that left a level without a trade.
        window_ns: how far apart a trade and what it took may be told of.
        on_problem: what becomes of lines that cannot be read, prices off the grid, sizes of no
            whole lots, books that disagree or cross, and clocks that run backwards.

    Returns:
        The stream.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: there is no book in it.
        ValueError: an outcome is neither YES nor NO, or a rule none.
    """
    for token, word in (outcomes or {}).items():
        if word not in OUTCOMES:
            raise ValueError(f"the outcome of {token} must be YES or NO, not {word!r}")
    survey = survey_of(path, outcomes or {})
    problems, progress = Problems(on_problem), Progress()
    whole: int = 10**survey.places
    lo, hi = grid or (1, whole - 1)
    progress.expect(path)

    def blocks() -> Iterator[Records]:
        """Read the dump anew."""
        progress.expect(path)
        reader = _Reader(path, survey, (lo, hi), window_ns, problems)
        levels = Levels(
            lo=lo, hi=hi, rule=level_rule, window_ns=window_ns, file=path, problems=problems
        )
        return levels.events(reader.moments(progress))

    Levels(lo=lo, hi=hi, rule=level_rule)
    return Stream(
        blocks,
        lo=lo,
        hi=hi,
        lot_wei=LOT_WEI,
        instruments=survey.instruments,
        name=plain_name(path),
        note="Polymarket market channel",
        problems=problems,
        progress=progress,
        scale=whole,
    )


class _Reader:
    """Turns the messages of one dump into moments, once."""

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
        """Go through the messages; those of one time are one moment."""
        together: Moment | None = None
        found = self._in_time(read_all(self._path, self._problems, progress))
        for line, message in self._ahead(found):
            if together is not None and together.ts_ns != message.ts_ns:
                yield self._with_bests(together)
                together = None
            self._line = line
            try:
                moment = self._moment(message)
            except ValueError as error:
                self._report("unreadable message", str(error))
                continue
            if moment is not None:
                together = moment if together is None else _both(together, moment)
        if together is not None:
            yield self._with_bests(together)

    def _report(self, kind: str, text: str) -> None:
        """Report a problem of the line that is being read."""
        self._problems.report(kind, text, self._path, self._line)

    # ----- times -------------------------------------------------------------------------------

    def _in_time(self, found: Iterator[tuple[int, AnyMessage]]) -> Iterator[tuple[int, AnyMessage]]:
        """Bring the times of each market in order, and report where they were not."""
        for line, message in found:
            latest = self._latest.get(message.market, message.ts_ns)
            if message.ts_ns < latest:
                if isinstance(message, PolymarketBook):
                    self._problems.remark("book older than the message before it")
                else:
                    said = f"{message.ts_ns} ns comes after {latest} ns"
                    self._problems.report("clock backwards", said, self._path, line)
            self._latest[message.market] = max(latest, message.ts_ns)
            yield line, message._replace(ts_ns=max(latest, message.ts_ns))

    def _ahead(self, found: Iterator[tuple[int, AnyMessage]]) -> Iterator[tuple[int, AnyMessage]]:
        """Hear of trades a window ahead: what a book says may be told before its trade."""
        waiting: deque[tuple[int, AnyMessage]] = deque()
        for line, message in found:
            waiting.append((line, message))
            if isinstance(message, TradeMessage):
                self._trades.setdefault(message.market, deque()).append(message.ts_ns)
            while waiting[0][1].ts_ns + self._window_ns < message.ts_ns:
                yield waiting.popleft()
        yield from waiting

    def _near_trade(self, message: PolymarketBook) -> bool:
        """Tell whether its market traded at about the time of a book."""
        times = self._trades.get(message.market, deque())
        while times and times[0] + self._window_ns < message.ts_ns:
            times.popleft()
        return bool(times) and times[0] <= message.ts_ns + self._window_ns

    # ----- messages ----------------------------------------------------------------------------

    def _moment(self, message: AnyMessage) -> Moment | None:
        """Give what a message means; None for nothing."""
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
        """Give the instrument of a token; None for a third one of a market."""
        number = self._numbers.get(asset)
        if number is None:
            self._report("third outcome", f"token {asset[:20]} of a market of two others")
        return number

    def _tick(self, price: str) -> int | None:
        """Read a price as ticks; None if it is off the grid, which is reported."""
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
        self._report("price off the grid", f"{price} in steps of {self._places} decimal places")
        return None

    def _book(self, message: PolymarketBook) -> Moment | None:
        """Take a whole book in."""
        number = self._number(message.asset)
        if number is None:
            return None
        stated = {}
        for (side, price), text in message.levels.items():
            size, tick = lots_of(text, SIZE_PLACES), self._tick(price)
            if tick is not None and size:
                stated[side, tick] = size
        known = self._levels.get(number)
        self._levels[number] = stated
        updates = tuple(LevelUpdate(number, *at, size) for at, size in stated.items())
        if known is None:
            return self._whole_book(message, number, updates)
        differing = {at for at, _ in known.items() ^ stated.items()}
        if not differing:
            return None
        if self._near_trade(message):
            self._problems.remark("book that tells what a trade took")
            changed = (LevelUpdate(number, *at, stated.get(at, 0)) for at in sorted(differing))
            return Moment(message.ts_ns, self._line, tuple(changed), bests=_unstated(number))
        said = f"{len(differing)} levels are not what the messages before made of them"
        self._report("book disagrees", said)
        return self._whole_book(message, number, updates)

    def _whole_book(
        self, message: PolymarketBook, number: int, updates: tuple[LevelUpdate, ...]
    ) -> Moment:
        """Seed a book anew."""
        return Moment(message.ts_ns, self._line, updates, fresh=(number,), bests=_unstated(number))

    def _changes(self, message: ChangeMessage) -> Moment | None:
        """Take changes of levels in."""
        updates: list[LevelUpdate] = []
        bests: dict[int, tuple[str | None, str | None]] = {}
        read = [(lots_of(one.size, SIZE_PLACES), one) for one in message.changes]
        for size, one in read:
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
        """Take a stated best price, whose size shows when all of its time was told."""
        lo, hi = self._grid
        if text is None:
            return LevelBest(number, side, UNSTATED, 0)
        tick = self._ticks[text] if text in self._ticks else units(text, self._places)
        return LevelBest(number, side, tick if lo <= tick <= hi else (lo - 1, hi + 1)[side], 0)

    def _with_bests(self, moment: Moment) -> Moment:
        """Give the best prices of a moment their sizes, and those that were not stated."""
        lo, hi = self._grid
        found = []
        for number, side, stated, _ in moment.bests or ():
            levels, price = self._levels[number], stated
            if price == UNSTATED:
                prices = [each for which, each in levels if which == side]
                price = (min if side else max)(prices, default=(lo - 1, hi + 1)[side])
            size = levels.get((side, price), 0)
            if size or not lo <= price <= hi:
                found.append(LevelBest(number, side, price, size))
            else:
                self._problems.remark("best price that is no level")
        return moment._replace(bests=tuple(found))

    def _trade(self, message: TradeMessage) -> Moment | None:
        """Take a trade in, and what it means in the book of the other outcome."""
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
            self._report("price off the grid", f"a trade at {message.price}")
            return None
        trades = (
            LevelTrade(number, message.side, tick, size),
            LevelTrade(number ^ 1, 1 - message.side, self._whole - tick, size, told=False),
        )
        return Moment(message.ts_ns, self._line, (), trades, bests=())

    def _end(self, message: EndMessage) -> Moment | None:
        """Take the outcome of a market in."""
        winner = self._number(message.winner)
        if winner is None:
            return None
        lo, hi = self._grid
        ends = [
            (number, hi + 1 if number == winner else lo - 1)
            for number in sorted({winner, winner ^ 1} & set(self._numbers.values()))
        ]
        return Moment(message.ts_ns, self._line, bests=(), outcomes=tuple(ends))


def _unstated(number: int) -> tuple[LevelBest, ...]:
    """Ask for the best prices of the levels of a book."""
    return tuple(LevelBest(number, side, UNSTATED, 0) for side in (0, 1))


def _both(first: Moment, second: Moment) -> Moment:
    """Put two moments of the same time together."""
    bests = {best[:2]: best for best in (*(first.bests or ()), *(second.bests or ()))}
    return Moment(
        second.ts_ns,
        second.line,
        (*(one for one in first.updates if one.instrument not in second.fresh), *second.updates),
        (*first.trades, *second.trades),
        tuple(dict.fromkeys((*first.fresh, *second.fresh))),
        tuple(bests.values()),
        (*first.outcomes, *second.outcomes),
    )
