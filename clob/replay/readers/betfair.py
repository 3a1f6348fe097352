"""Reads Betfair stream files: market changes as JSON lines, with levels and traded volume.

Each runner is a book whose ticks are the 350 steps of the odds: 1.01 is tick 1, 1.02 is tick 2,
2.00 is tick 100, and 1000 is tick 350. The steps widen with the odds, so ticks are positions in the
ladder, not probabilities. Markets with finer prices, such as Asian handicaps and lines, have any
hundredth; then the ladder of the file is the 350 steps and all other prices of these markets.
``Stream.label`` returns the odds of a tick. A resting lay bet is a buyer of odds: ``atb``
(available to back) is the bid side, ``atl`` (available to lay) is the ask side.

- A level is stated with its full size, 0 for an empty level. Sizes are in pounds; a lot is half a
  penny.
- ``trd`` is the volume traded at a price so far, with the stakes of both backers and layers. An
  increase is a trade of half the amount. The side that lost size shows the incoming side; if no
  level lost size, as in a trade with an order that was never shown, or if a better price rested
  (the feed reports late and in one line, and matches across runners), it is a ``TRADE`` record.
  Fills are inferred this way; the venue records none.
- A decrease of ``trd``, or odds that are not a step, is a restatement, for example after a runner
  withdrew; increases in the same line are not trades.
- An image (``img``) is the complete book; its ``trd`` was traded earlier.
- State changes in ``marketDefinition`` are counted as remarks. The result of a runner is a
  ``SETTLE`` record, with a price one tick above the grid for a winner and one below for a loser.
- ``batb`` and ``batl`` repeat the best levels; they are skipped and counted. Starting prices and
  totals are skipped.

Odds do not add up to one, so the amounts of a portfolio on such a stream are not money.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, Progress, plain_name
from clob.replay.io.json_lines import BROKEN, Message, messages, reason_of
from clob.replay.io.problems import Ignored, Policy, Problems
from clob.replay.io.streams import Instrument, Stream
from clob.replay.io.text import lots_of, time_ns, units
from clob.replay.readers import MS_NS
from clob.replay.readers.l2 import LevelRule, LevelTrade, LevelUpdate, Moment, level_stream
from clob.replay.readers.l2.trades import NO_SIDE

STEPS = (
    (101, 200, 1),
    (200, 300, 2),
    (300, 400, 5),
    (400, 600, 10),
    (600, 1_000, 20),
    (1_000, 2_000, 50),
    (2_000, 3_000, 100),
    (3_000, 5_000, 200),
    (5_000, 10_000, 500),
    (10_000, 100_000, 1_000),
)
"""Ranges of the odds: first, end (exclusive) and step, in hundredths."""

LADDER = (*(odds for lo, hi, step in STEPS for odds in range(lo, hi, step)), 100_000)
"""The odds of tick 1, 2, ..., 350, in hundredths."""

TICKS = {odds: tick for tick, odds in enumerate(LADDER, 1)}
"""The tick of odds in hundredths."""


def tick_of(odds: str | int) -> int:
    """Return the tick of odds.

    >>> tick_of("1.01"), tick_of(2), tick_of("3.05"), tick_of(1000)
    (1, 100, 151, 350)

    Args:
        odds: decimal odds, as text or integer.

    Returns:
        The tick, 1 to 350.

    Raises:
        ValueError: the odds are not a step of the ladder.
    """
    hundredths = units(odds, 2)
    if hundredths not in TICKS:
        raise ValueError(f"odds must be a step of the ladder, got {odds}")
    return TICKS[hundredths]


def odds_of(tick: int) -> str:
    """Return the odds of a tick.

    >>> odds_of(151)
    '3.05'

    Args:
        tick: 1 to 350.

    Returns:
        The odds with two decimal places.

    Raises:
        IndexError: the tick is out of range.
    """
    if tick < 1:
        raise IndexError(f"tick must be 1 to {len(LADDER)}; got {tick}")
    return _odds_text(LADDER[tick - 1])


LOT_WEI = 5 * 10**15
"""A lot is half a penny, since half of an odd traded volume may be half a penny."""

SIDES = {"atb": 0, "atl": 1}
"""The side of each ladder."""

REPEATED = ("batb", "batl")
"""Ladders that repeat levels of the others."""

OUTCOMES = {"WINNER": True, "LOSER": False, "REMOVED": False}
"""Whether a runner of each status has won."""

CLASSIC_BETS = ("ODDS", None)
"""The betting types of markets whose prices are steps of the ladder, unless they state another."""

Runner: TypeAlias = tuple[str, int, str]
"""Market, selection, handicap."""


class RunnerChange(NamedTuple):
    """The changes of one runner in a line."""

    instrument: int
    levels: list[LevelUpdate]
    """The new sizes of levels."""
    traded: list[tuple[int, int]]
    """Odds in hundredths, and the volume traded there so far, in pennies of both stakes."""
    image: bool
    """Whether the levels are the complete book."""


def read_betfair(
    path: FilePath, *, level_rule: LevelRule = "tail", on_problem: Policy = "raise"
) -> Stream:
    """Read a Betfair stream file. The file is read twice, first for its runners.

    Args:
        path: the file, JSON lines, compressed or not.
        level_rule: which orders of a level are cancelled when it shrinks without a trade.
        on_problem: the policy for unreadable lines, odds that are not a step, sizes that are not
            whole pennies, crossed books, clocks that run backwards and markets without a start.

    Returns:
        The stream, with one market per runner; ticks of 1 to 350, or more if the file has markets
        with finer prices; sizes in half pennies.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the file has no runner.
        ValueError: the level rule is unknown.
    """
    ignored = Ignored()
    runners, finer = _survey(path, ignored)
    if not runners:
        text = f"the file has no runner of a market{ignored.clause()}"
        raise ReplayFormatError(f"{plain_name(path)}: {text}")
    numbers = {runner: 2 * place for place, runner in enumerate(runners)}
    odds = sorted({*LADDER, *(price for prices in finer.values() for price in prices)})
    ladder = Ladder({price: tick for tick, price in enumerate(odds, 1)}, frozenset(finer))

    def moments(problems: Problems, progress: Progress) -> Iterator[Moment]:
        reader = _Reader(path, numbers, ladder, problems)
        return reader.moments(messages(path, problems, progress))

    return level_stream(
        path,
        moments,
        rule=level_rule,
        on_problem=on_problem,
        lo=1,
        hi=len(odds),
        lot_wei=LOT_WEI,
        labels=[_odds_text(price) for price in odds],
        instruments=[Instrument(numbers[runner], name) for runner, name in runners.items()],
        note="Betfair stream",
    )


def _runner(market: Message, part: Message) -> Runner:
    return str(market["id"]), int(part["id"]), str(part.get("hc", 0))


def _survey(path: FilePath, ignored: Ignored) -> tuple[dict[Runner, str], dict[str, set[int]]]:
    """Find the names of the runners, and the prices of markets with finer ones, in hundredths."""
    names: dict[Runner, str] = {}
    finer: dict[str, set[int]] = {}
    for _, message in messages(path, ignored):
        try:
            for market in message.get("mc", ()):
                definition = market.get("marketDefinition", {})
                if _is_finer(definition):
                    finer.setdefault(str(market["id"]), set())
                if str(market["id"]) in finer:
                    finer[str(market["id"])].update(_prices(market))
                for part in (*definition.get("runners", ()), *market.get("rc", ())):
                    runner = _runner(market, part)
                    words = [runner[0], str(runner[1])]
                    words += [runner[2]] if runner[2] not in ("0", "0.0") else []
                    words += [part["name"]] if "name" in part else []
                    name = " ".join(words)
                    if len(name) > len(names.get(runner, "")):
                        names[runner] = name
        except BROKEN:
            continue
    return names, finer


def _is_finer(definition: Message) -> bool:
    """Return whether a market has prices between the steps of the ladder."""
    ladder = definition.get("priceLadderDefinition", {}).get("type", "CLASSIC")
    return ladder != "CLASSIC" or definition.get("bettingType") not in CLASSIC_BETS


def _prices(market: Message) -> Iterator[int]:
    """Yield the prices of the levels and trades of a change, in hundredths."""
    for part in market.get("rc", ()):
        for name in (*SIDES, "trd"):
            for odds, _ in part.get(name, ()):
                hundredths = units(odds, 2)
                if 0 < hundredths <= LADDER[-1]:
                    yield hundredths


def _odds_text(hundredths: int) -> str:
    return f"{hundredths // 100}.{hundredths % 100:02}"


class Ladder(NamedTuple):
    """The prices of a file."""

    ticks: dict[int, int]
    """The tick of each price, in hundredths."""
    finer: frozenset[str]
    """The markets whose prices may be between the steps of the odds."""

    def tick(self, market: str, odds: str | int) -> int:
        """Return the tick of odds in a market; ``ValueError`` if they are not a step."""
        hundredths = units(odds, 2)
        if hundredths in TICKS or (market in self.finer and hundredths in self.ticks):
            return self.ticks[hundredths]
        raise ValueError(f"odds must be a step of the ladder, got {odds}")


class _Reader:
    """Converts the messages of one reading to moments."""

    def __init__(
        self, path: FilePath, numbers: dict[Runner, int], ladder: Ladder, problems: Problems
    ) -> None:
        self._path, self._numbers, self._problems = path, numbers, problems
        self._ladder = ladder
        self._traded: dict[int, dict[int, int]] = {}
        self._levels: dict[int, dict[tuple[int, int], int]] = {}
        self._states: dict[str, tuple[str, bool]] = {}
        self._started: set[str] = set()

    def moments(self, parsed: Iterator[tuple[int, Message]]) -> Iterator[Moment]:
        latest = -(2**63)
        for line, message in parsed:
            if message.get("op") != "mcm" or not message.get("mc"):
                self._problems.remark("line without market changes")
                continue
            try:
                ts_ns = time_ns(units(message["pt"], 0), MS_NS)
                changes = self._changes(message)
                outcomes = self._outcomes(message)
            except BROKEN as error:
                self._problems.report("unreadable line", reason_of(error), self._path, line)
                continue
            if ts_ns < latest:
                text = f"time must not be before {latest} ns, got {ts_ns}"
                self._problems.report("clock backwards", text, self._path, line)
                continue
            latest = ts_ns
            self._check_starts(message, line)
            self._remark_states(message)
            yield self._moment(ts_ns, line, changes)._replace(outcomes=outcomes)

    def _check_starts(self, message: Message, line: int) -> None:
        """Report a market whose first line has neither its definition nor the complete book."""
        for market in message["mc"]:
            market_id = str(market.get("id"))
            if market_id in self._started:
                continue
            self._started.add(market_id)
            if not (market.get("img") or "marketDefinition" in market):
                text = f"the first line of market {market_id} must have its definition or an image"
                text += "; levels before it are unknown"
                self._problems.report("market without a start", text, self._path, line)

    def _changes(self, message: Message) -> list[RunnerChange]:
        changes = []
        for market in message["mc"]:
            image, market_id = bool(market.get("img", False)), str(market.get("id"))
            for part in market.get("rc", ()):
                instrument = self._numbers[_runner(market, part)]
                levels = [
                    LevelUpdate(instrument, side, self._ladder.tick(market_id, odds), _lots(size))
                    for ladder, side in SIDES.items()
                    for odds, size in part.get(ladder, ())
                ]
                traded = [(units(odds, 2), _lots(size) // 2) for odds, size in part.get("trd", ())]
                changes.append(RunnerChange(instrument, levels, traded, image))
        return changes

    def _outcomes(self, message: Message) -> tuple[tuple[int, int], ...]:
        outcomes = []
        for market in message["mc"]:
            definition = market.get("marketDefinition", {})
            if definition.get("status") == "CLOSED":
                for part in definition["runners"]:
                    if part["status"] in OUTCOMES:
                        number = self._numbers[_runner(market, part)]
                        won = OUTCOMES[part["status"]]
                        outcomes.append((number, len(self._ladder.ticks) + 1 if won else 0))
        return tuple(outcomes)

    def _moment(self, ts_ns: int, line: int, changes: list[RunnerChange]) -> Moment:
        updates: list[LevelUpdate] = []
        trades: list[LevelTrade] = []
        images = sorted({change.instrument for change in changes if change.image})
        reset = tuple(one for one in images if self._apply_image(one, changes))
        for change in changes:
            updates += change.levels
            levels = self._levels.setdefault(change.instrument, {})
            levels.update({update[1:3]: update.size for update in change.levels})
            trades += self._new_trades(change)
        return Moment(ts_ns, line, tuple(updates), tuple(trades), reset)

    def _new_trades(self, change: RunnerChange) -> list[LevelTrade]:
        """Update the traded volumes and return the increases as trades."""
        volumes = self._traded.setdefault(change.instrument, {})
        gains = [(odds, volume - volumes.get(odds, 0)) for odds, volume in change.traded]
        volumes.update(change.traded)
        if change.image:
            return []
        ticks = self._ladder.ticks
        if any(gain < 0 or odds not in ticks for odds, gain in gains):
            self._problems.remark("traded volume restated")
            return []
        rises = ((ticks[odds], gain) for odds, gain in gains if gain)
        return [LevelTrade(change.instrument, NO_SIDE, tick, gain) for tick, gain in rises]

    def _apply_image(self, instrument: int, changes: list[RunnerChange]) -> bool:
        """Compare an image with the known book; return whether the book is reset."""
        before = {at: size for at, size in self._levels.get(instrument, {}).items() if size}
        image = {
            update[1:3]: update.size
            for change in changes
            if change.instrument == instrument
            for update in change.levels
            if update.size
        }
        if instrument in self._levels:
            if before == image:
                return False
            self._problems.remark("image that replaces a book")
        self._levels[instrument] = {}
        return True

    def _remark_states(self, message: Message) -> None:
        """Count state changes of markets and skipped ladders as remarks."""
        for market in message["mc"]:
            for part in market.get("rc", ()):
                repeated = sum(ladder in part for ladder in REPEATED)
                self._problems.remark("repeated ladder skipped", repeated)
            definition: dict[str, Any] | None = market.get("marketDefinition")
            if not definition:
                continue
            state = (str(definition.get("status", "")), bool(definition.get("inPlay", False)))
            market_id = str(market.get("id"))
            if self._states.get(market_id) != state:
                self._states[market_id] = state
                word = state[0].lower() if state[0] in STATUSES else "in an unknown state"
                self._problems.remark(f"market {word}{', in play' if state[1] else ''}")


def _lots(size: str | int) -> int:
    return 2 * lots_of(size, 2)


STATUSES = frozenset({"INACTIVE", "OPEN", "SUSPENDED", "CLOSED"})
"""The states of a market."""
