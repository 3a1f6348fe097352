"""Candles: prices and volume of each token per minute, five minutes, hour and day.

They are computed from the trades when these are written to history and kept for ever, so that they
outlast the trades. A candle contains the trades with ``start_ms <= time < start_ms + interval``, as
published: those that fail to settle stay, and the two trades of a mint or merge count once on each
token. Open and close follow the sequence of the trades, also where a repaired clock went back.
"""

from collections import deque
from collections.abc import Container, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import apsw
import msgspec

from clob import RejectedError, Trade
from clob.wire.markets import CandleBody
from clob_server.core.sequencer import Committed

MINUTE_MS: Final = 60_000
INTERVALS_MS: Final = {
    "1m": MINUTE_MS,
    "5m": 5 * MINUTE_MS,
    "1h": 60 * MINUTE_MS,
    "1d": 24 * 60 * MINUTE_MS,
}
"""Length of a candle in milliseconds, by name."""
UNWRITTEN_MAX: Final = 20_000
"""Trades that are kept until history contains them."""

_Key = TypeVar("_Key")
SCHEMA: Final = """
CREATE TABLE candles(
    market TEXT NOT NULL, token TEXT NOT NULL, interval_ms INTEGER NOT NULL,
    start_ms INTEGER NOT NULL, open INTEGER NOT NULL, high INTEGER NOT NULL, low INTEGER NOT NULL,
    close INTEGER NOT NULL, volume TEXT NOT NULL, num_trades INTEGER NOT NULL,
    PRIMARY KEY(market, token, interval_ms, start_ms)) WITHOUT ROWID;
"""
"""The table of candles."""
_COLUMNS: Final = "start_ms, open, high, low, close, volume, num_trades"
_ONE: Final = (
    f"SELECT {_COLUMNS} FROM candles WHERE market=? AND token=? AND interval_ms=? AND start_ms=?"
)
_WRITE: Final = f"INSERT OR REPLACE INTO candles VALUES({','.join('?' * 10)})"
_RANGE: Final = (
    f"SELECT {_COLUMNS} FROM candles WHERE market=? AND token=? AND interval_ms=? "
    "AND start_ms>=? AND start_ms<? ORDER BY start_ms {} LIMIT ?"
)


class Candle(msgspec.Struct, gc=False):
    """The trades of a token in an interval."""

    start_ms: int
    """Begin of the interval, Unix milliseconds."""
    open: int
    """Price of the first trade, in cents."""
    high: int
    """Highest price, in cents."""
    low: int
    """Lowest price, in cents."""
    close: int
    """Price of the last trade, in cents."""
    volume: int
    """Tokens traded, in wei."""
    num_trades: int

    def extend(self, later: "Candle") -> None:
        """Add the trades of a later candle of the same interval."""
        self.high = max(self.high, later.high)
        self.low = min(self.low, later.low)
        self.close = later.close
        self.volume += later.volume
        self.num_trades += later.num_trades


CandleKey: TypeAlias = tuple[str, str, int, int]
"""Market, token, length and begin of the interval, both in milliseconds."""
Candles: TypeAlias = dict[CandleKey, Candle]
"""New candles, or additions to existing ones."""


class CandleRange(NamedTuple):
    """A query of candles."""

    market: str
    token: str
    interval_ms: int
    from_ms: int
    """Lower bound of the begin of a candle."""
    to_ms: int
    """Exclusive upper bound of the begin of a candle."""
    limit: int
    """Maximum number of candles."""
    newest: bool = False
    """Whether a longer range is cut at its begin instead of its end."""

    def cut(self, candles: Iterable[Candle]) -> list[Candle]:
        """Sort candles by time, and keep up to ``limit``."""
        found = sorted(candles, key=lambda each: each.start_ms)
        return found[-self.limit :] if self.newest else found[: self.limit]


def add_trade(candles: Candles, trade: Trade, now_ms: int) -> None:
    """Add a trade to the candles of its token, in every interval."""
    for interval_ms in INTERVALS_MS.values():
        start_ms = now_ms - now_ms % interval_ms
        add(candles, (trade.market, trade.token, interval_ms, start_ms), candle_of(trade, start_ms))


def candle_of(trade: Trade, start_ms: int) -> Candle:
    """Return the candle of one trade."""
    price = trade.price
    return Candle(start_ms, price, price, price, price, trade.size, 1)


def add(candles: dict[_Key, Candle], key: _Key, later: Candle) -> None:
    """Add a candle with later trades."""
    known = candles.get(key)
    if known is None:
        candles[key] = later
    else:
        known.extend(later)


def write_candles(db: apsw.Connection, candles: Candles) -> None:
    """Add new candles to those in the file."""
    rows = []
    for key, later in candles.items():
        known = read(db.execute(_ONE, key))
        if known:
            known[0].extend(later)
            later = known[0]
        *bounds, volume, num_trades = msgspec.structs.astuple(later)[1:]
        rows.append((*key, *bounds, str(volume), num_trades))
    db.executemany(_WRITE, rows)


def read_candles(db: apsw.Connection, wanted: CandleRange) -> list[Candle]:
    """Return the candles of a range that are in the file, up to its limit, in any order."""
    query = _RANGE.format("DESC" if wanted.newest else "ASC")
    return read(db.execute(query, wanted[:-1]))


def candle_body(candle: Candle) -> CandleBody:
    """Return the JSON of a candle."""
    return CandleBody(
        timestamp=candle.start_ms,
        open=candle.open,
        high=candle.high,
        low=candle.low,
        close=candle.close,
        volume=str(candle.volume),
        num_trades=candle.num_trades,
    )


def read(rows: Iterable[Any]) -> list[Candle]:
    """Return the candles in rows."""
    return [
        Candle(start_ms, first, high, low, last, int(volume), num_trades)
        for start_ms, first, high, low, last, volume, num_trades in rows
    ]


# ----- trades that history does not contain yet ------------------------------------------------


class TimedTrade(NamedTuple):
    """A trade with its command."""

    command_seq: int
    event: Trade
    now_ms: int
    """Time of the command, Unix milliseconds."""


class UnwrittenTrades:
    """Trades that are not in the file yet, so that queries need not wait for it.

    Args:
        after: last command before them.
    """

    def __init__(self, after: int) -> None:
        self.after: int = after
        """Last command whose trades may be missing here."""
        self._trades: deque[TimedTrade] = deque()

    def on_batch(self, batch: Sequence[Committed]) -> None:
        """Keep the trades of a batch."""
        for done in batch:
            if not isinstance(done.outcome, RejectedError):
                now_ms = done.command.now_ms
                self._trades.extend(
                    TimedTrade(done.seq, event, now_ms)
                    for event in done.outcome
                    if isinstance(event, Trade)
                )
        while len(self._trades) > UNWRITTEN_MAX:
            self.on_written(self._trades[0].command_seq)

    def on_written(self, seq: int) -> None:
        """Drop the trades of commands up to ``seq``."""
        self.after = max(self.after, seq)
        trades = self._trades
        while trades and trades[0].command_seq <= seq:
            trades.popleft()

    def of_token(self, market: str, token: str) -> list[TimedTrade]:
        """Return the trades of a token."""
        return [
            each
            for each in self._trades
            if each.event.market == market and each.event.token == token
        ]

    def of_markets(self, markets: Container[str], after: int) -> dict[str, list[TimedTrade]]:
        """Return the trades in commands after a number, of each market that has some."""
        found: dict[str, list[TimedTrade]] = {}
        for each in self._trades:
            if each.event.market in markets and each.command_seq > after:
                found.setdefault(each.event.market, []).append(each)
        return found


def with_trades(
    stored: Iterable[Candle], trades: Iterable[TimedTrade], wanted: CandleRange
) -> list[Candle]:
    """Return stored candles with later trades of the token, sorted and within the limit."""
    candles = {each.start_ms: each for each in stored}
    for _, event, now_ms in trades:
        start_ms = now_ms - now_ms % wanted.interval_ms
        if wanted.from_ms <= start_ms < wanted.to_ms:
            add(candles, start_ms, candle_of(event, start_ms))
    return wanted.cut(candles.values())
