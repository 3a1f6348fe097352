"""Reads Betfair stream files: market changes as JSON lines, with the levels and the traded volume.

Each runner is a book whose ticks are the steps of the odds, see
:mod:`clob.replay.readers.betfair`. A bet that waits to lay is a buyer of odds: what is
available to back (``atb``) is the side of the bids, what is available to lay (``atl``) that of the
offers. Read so:

- A level is stated whole, 0 for nothing. Sizes are in pounds; a lot is half a penny.
- ``trd`` is what was traded at a price so far, backers' and layers' stakes together. What it gains
  is a trade of half of that. Who came in is told by the side that lost; where none did, as in a
  trade with an order that was never shown, it is a ``TRADE`` record.
- Where ``trd`` falls, or names odds that are no step, it was restated, as after a runner withdrew;
  what it gains there is no trade.
- An image (``img``) is the whole book; what it has of ``trd`` was traded before.
- What ``marketDefinition`` says of the market's state is remarked; the outcome of a runner is a
  ``SETTLE`` record, whose price is one above the grid if it won, and one below if not.
- ``batb`` and ``batl``, the best levels over again, are left out and remarked. Starting prices and
  totals are left out.

Odds are no prices that add up to one: what a portfolio makes of them is not money.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, Progress, plain_name
from clob.replay.io.problems import Ignored, Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Instrument, Stream
from clob.replay.io.text import lots_of, time_ns, units
from clob.replay.readers.kalshi import BROKEN, Message, messages
from clob.replay.readers.l2 import LevelRule, Levels, LevelTrade, LevelUpdate, Moment
from clob.replay.readers.l2.trades import NOBODY

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
"""From which odds, to below which, and how far apart, in hundredths."""

LADDER = (*(odds for lo, hi, step in STEPS for odds in range(lo, hi, step)), 100_000)
"""The odds of tick 1, 2, ..., 350, in hundredths."""

TICKS = {odds: tick for tick, odds in enumerate(LADDER, 1)}
"""The tick of odds, in hundredths."""


def tick_of(odds: str | int) -> int:
    """Give the tick of odds.

    >>> tick_of("1.01"), tick_of(2), tick_of("3.05"), tick_of(1000)
    (1, 100, 151, 350)

    Args:
        odds: as they are written.

    Returns:
        The tick, 1 to 350.

    Raises:
        ValueError: there is no such step.
    """
    hundredths = units(odds, 2)
    if hundredths not in TICKS:
        raise ValueError(f"{odds} is no step of the odds")
    return TICKS[hundredths]


def odds_of(tick: int) -> str:
    """Write the odds of a tick.

    >>> odds_of(151)
    '3.05'

    Args:
        tick: 1 to 350.

    Returns:
        The odds with two digits behind the point.

    Raises:
        IndexError: there is no such tick.
    """
    if tick < 1:
        raise IndexError(f"there is no tick {tick}")
    return f"{LADDER[tick - 1] // 100}.{LADDER[tick - 1] % 100:02}"


LOT_WEI = 5 * 10**15
"""A lot is half a penny, since half of a traded penny may be one."""

MS_NS = 10**6

SIDES = {"atb": 0, "atl": 1}
"""The side of the book that each ladder is."""

REPEATED = ("batb", "batl")
"""Ladders that say again what the others say."""

OUTCOMES = {"WINNER": len(LADDER) + 1, "LOSER": 0, "REMOVED": 0}
"""What a runner is settled at."""

Runner: TypeAlias = tuple[str, int, str]
"""Market, selection, handicap."""


class RunnerChange(NamedTuple):
    """What a line says of one runner."""

    instrument: int
    """Its book."""
    levels: list[LevelUpdate]
    """How large levels are now."""
    traded: list[tuple[int, int]]
    """Odds in hundredths, and what was traded there so far, in pennies of both stakes."""
    image: bool
    """Whether it is all there is."""


def read_betfair(
    path: FilePath, *, level_rule: LevelRule = "tail", on_problem: Policy = "raise"
) -> Stream:
    """Read a Betfair stream file. It is read twice, first for its runners.

    Args:
        path: the file, JSON lines, compressed or not.
        level_rule: whose order it was that left a level without a trade.
        on_problem: what becomes of lines that cannot be read, odds that are no step, sizes that
            are no whole pennies, books that cross and clocks that run backwards.

    Returns:
        The stream, a market for each runner; ticks of 1 to 350, sizes in half pennies.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: there is no runner in it.
    """
    runners = _survey(path)
    if not runners:
        raise ReplayFormatError(f"{plain_name(path)}: no runner of any market")
    numbers = {runner: 2 * place for place, runner in enumerate(runners)}
    problems, progress = Problems(on_problem), Progress()
    progress.expect(path)

    def blocks() -> Iterator[Records]:
        """Read the file anew."""
        progress.expect(path)
        reader = _Reader(path, numbers, problems)
        levels = Levels(lo=1, hi=len(LADDER), rule=level_rule, file=path, problems=problems)
        return levels.events(reader.moments(messages(path, problems, progress)))

    return Stream(
        blocks,
        lo=1,
        hi=len(LADDER),
        lot_wei=LOT_WEI,
        instruments=[Instrument(numbers[runner], name) for runner, name in runners.items()],
        name=plain_name(path),
        note="Betfair stream",
        problems=problems,
        progress=progress,
    )


def _runner(market: Message, part: Message) -> Runner:
    """Name the runner that a part of a market change is about."""
    return str(market["id"]), int(part["id"]), str(part.get("hc", 0))


def _survey(path: FilePath) -> dict[Runner, str]:
    """Find all runners, with what to call them."""
    found: dict[Runner, str] = {}
    for _, message in messages(path, Ignored()):
        try:
            for market in message.get("mc", ()):
                definition = market.get("marketDefinition", {})
                for part in (*definition.get("runners", ()), *market.get("rc", ())):
                    runner = _runner(market, part)
                    words = [runner[0], str(runner[1])]
                    words += [runner[2]] if runner[2] not in ("0", "0.0") else []
                    words += [part["name"]] if "name" in part else []
                    name = " ".join(words)
                    if len(name) > len(found.get(runner, "")):
                        found[runner] = name
        except BROKEN:
            continue
    return found


class _Reader:
    """Turns the messages of one file into moments, once."""

    def __init__(self, path: FilePath, numbers: dict[Runner, int], problems: Problems) -> None:
        self._path, self._numbers, self._problems = path, numbers, problems
        self._traded: dict[int, dict[int, int]] = {}
        self._levels: dict[int, dict[tuple[int, int], int]] = {}
        self._states: dict[str, tuple[str, bool]] = {}

    def moments(self, found: Iterator[tuple[int, Message]]) -> Iterator[Moment]:
        """Go through the messages."""
        latest = -(2**63)
        for line, message in found:
            if message.get("op") != "mcm" or not message.get("mc"):
                self._problems.remark("line without market changes")
                continue
            try:
                ts_ns = time_ns(units(message["pt"], 0), MS_NS)
                changes = self._changes(message)
                outcomes = self._outcomes(message)
            except BROKEN as error:
                said = f"{type(error).__name__}: {error}"
                self._problems.report("unreadable line", said, self._path, line)
                continue
            if ts_ns < latest:
                said = f"{ts_ns} ns comes after {latest} ns"
                self._problems.report("clock backwards", said, self._path, line)
                continue
            latest = ts_ns
            self._remark_states(message)
            yield self._moment(ts_ns, line, changes, outcomes)

    # ----- reading a message, which changes nothing --------------------------------------------

    def _changes(self, message: Message) -> list[RunnerChange]:
        """Read what a message says of its runners."""
        changes = []
        for market in message["mc"]:
            image = bool(market.get("img", False))
            for part in market.get("rc", ()):
                instrument = self._numbers[_runner(market, part)]
                levels = [
                    LevelUpdate(instrument, side, tick_of(odds), _lots(size))
                    for ladder, side in SIDES.items()
                    for odds, size in part.get(ladder, ())
                ]
                traded = [(units(odds, 2), _lots(size) // 2) for odds, size in part.get("trd", ())]
                changes.append(RunnerChange(instrument, levels, traded, image))
        return changes

    def _outcomes(self, message: Message) -> tuple[tuple[int, int], ...]:
        """Read what became of runners, where a market is closed."""
        found = []
        for market in message["mc"]:
            definition = market.get("marketDefinition", {})
            if definition.get("status") == "CLOSED":
                for part in definition["runners"]:
                    if part["status"] in OUTCOMES:
                        number = self._numbers[_runner(market, part)]
                        found.append((number, OUTCOMES[part["status"]]))
        return tuple(found)

    # ----- what it means -----------------------------------------------------------------------

    def _moment(
        self,
        ts_ns: int,
        line: int,
        changes: list[RunnerChange],
        outcomes: tuple[tuple[int, int], ...],
    ) -> Moment:
        """Make a moment of what a message says."""
        updates: list[LevelUpdate] = []
        trades: list[LevelTrade] = []
        fresh: list[int] = []
        images = {change.instrument for change in changes if change.image}
        for instrument in sorted(images):
            fresh += self._imaged(instrument, changes)
        for change in changes:
            updates += change.levels
            known = self._levels.setdefault(change.instrument, {})
            known.update({update[1:3]: update.size for update in change.levels})
            trades += self._traded_since(change)
        return Moment(ts_ns, line, tuple(updates), tuple(trades), tuple(fresh), None, outcomes)

    def _traded_since(self, change: RunnerChange) -> list[LevelTrade]:
        """Take traded volumes in; give what was traded since those before."""
        known = self._traded.setdefault(change.instrument, {})
        gains = [(odds, volume - known.get(odds, 0)) for odds, volume in change.traded]
        known.update(change.traded)
        if change.image:
            return []
        if any(gain < 0 or odds not in TICKS for odds, gain in gains):
            self._problems.remark("traded volume restated")
            return []
        return [
            LevelTrade(change.instrument, NOBODY, TICKS[odds], gain) for odds, gain in gains if gain
        ]

    def _imaged(self, instrument: int, changes: list[RunnerChange]) -> list[int]:
        """Take an image in; give the instrument if its book is to be made anew."""
        known = {at: size for at, size in self._levels.get(instrument, {}).items() if size}
        stated = {
            update[1:3]: update.size
            for change in changes
            if change.instrument == instrument
            for update in change.levels
            if update.size
        }
        if instrument in self._levels and known == stated:
            return []
        if instrument in self._levels:
            self._problems.remark("image that replaces a book")
        self._levels[instrument] = {}
        return [instrument]

    def _remark_states(self, message: Message) -> None:
        """Remark what markets became, and what is left out."""
        for market in message["mc"]:
            for part in market.get("rc", ()):
                self._problems.remark(
                    "ladder that says again what others say",
                    sum(ladder in part for ladder in REPEATED),
                )
            definition: dict[str, Any] | None = market.get("marketDefinition")
            if not definition:
                continue
            state = (str(definition.get("status", "")), bool(definition.get("inPlay", False)))
            market_id = str(market.get("id"))
            if self._states.get(market_id) != state:
                self._states[market_id] = state
                word = state[0].lower() if state[0] in STATUSES else "in another state"
                self._problems.remark(f"market {word}{', in play' if state[1] else ''}")


def _lots(size: str | int) -> int:
    """Read a size in pounds as half pennies."""
    return 2 * lots_of(size, 2)


STATUSES = frozenset({"INACTIVE", "OPEN", "SUSPENDED", "CLOSED"})
"""The states of a market."""

# MERGED clob.replay.readers.betfair: The 350 steps of the odds of Betfair, and their ticks.
#
# The step 1.01 is tick 1, 1.02 tick 2, 2.00 tick 100, and so on to 1000, which is tick 350. The steps
# widen with the odds, so ticks are places in the ladder and say nothing of probabilities.
