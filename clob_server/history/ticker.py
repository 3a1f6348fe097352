"""Tickers: best prices, last prices, the trades of the last 24 hours and open interest of a market.

The trades are counted by minute, like candles of one minute: 1,440 minutes up to the current one
count. They are read from history at the first request for a market, and kept from then on, so that
a ticker is exact at the sequence number of its book.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from clob import Market, Trade
from clob.depth import Level
from clob.wire.markets import BestPrice, TickerBody, TokenTicker
from clob_server.core.state import ServerState
from clob_server.history.candles import (
    INTERVALS_MS,
    MINUTE_MS,
    Candle,
    CandleRange,
    TimedTrade,
    add,
    candle_of,
    read_candles,
)
from clob_server.history.open_interest import OpenInterest, read_nets
from clob_server.history.store import StoreReader

DAY_MS: Final = INTERVALS_MS["1d"]
"""Length of the window in milliseconds."""
_LAST: Final = 2**62
"""More than any ``seq`` and any time."""


def window_begin(now_ms: int) -> int:
    """Return the begin of the first minute that counts, Unix milliseconds."""
    return now_ms - now_ms % MINUTE_MS + MINUTE_MS - DAY_MS


class StoredDay(NamedTuple):
    """The content of the file for a token."""

    last_price: int | None
    """Price of the last trade, in cents; None without trades."""
    minutes: list[Candle]
    """Candles of one minute, oldest first."""


class TokenDay:
    """The last price of a token, and its trades of the last 24 hours."""

    def __init__(self, stored: StoredDay = StoredDay(None, [])) -> None:  # noqa: B008 - immutable
        self.last_price: int | None = stored.last_price
        """Price of the last trade, in cents; None without trades."""
        self._minutes: dict[int, Candle] = {each.start_ms: each for each in stored.minutes}
        self._begin_ms = 0
        self._total: dict[int, Candle] = {}

    def add(self, trade: Trade, now_ms: int) -> None:
        """Add a trade at a time that is not before that of an earlier one."""
        self.last_price = trade.price
        start_ms, minutes = now_ms - now_ms % MINUTE_MS, self._minutes
        add(minutes, start_ms, candle_of(trade, start_ms))
        if start_ms >= self._begin_ms:
            self._count(candle_of(trade, start_ms))
        while next(iter(minutes)) < window_begin(now_ms):
            del minutes[next(iter(minutes))]

    def total(self, now_ms: int) -> Candle | None:
        """Return the trades in the window that ends at a time as one candle; None without any."""
        begin_ms = window_begin(now_ms)
        if begin_ms != self._begin_ms:
            self._begin_ms = begin_ms
            self._total.clear()
            for start_ms, candle in self._minutes.items():
                if start_ms >= begin_ms:
                    self._count(msgspec.structs.replace(candle))
        return self._total.get(begin_ms)

    def _count(self, candle: Candle) -> None:
        """Add a candle, which is not used elsewhere, to the total."""
        add(self._total, self._begin_ms, candle)


class StoredMarket(NamedTuple):
    """The content of the file for a market."""

    tokens: Mapping[str, StoredDay]
    """The tokens of the market."""
    nets: Mapping[str, int]
    """YES tokens less NO tokens of each maker, in wei."""


NOTHING: Final = StoredMarket({}, {})
"""The content of the file for a market without trades."""


class MarketDay:
    """The tokens of a market with their trades of the last 24 hours, and its open interest.

    Args:
        market: the market.
        stored: the content of the file for it.
        later: the trades that are not in the file.
        unsettled: size of each trade whose result may change, by the number under which it settles.
    """

    def __init__(
        self,
        market: Market,
        stored: StoredMarket = NOTHING,
        later: Iterable[TimedTrade] = (),
        unsettled: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self._tokens: dict[str, TokenDay] = {
            token: TokenDay(each) for token, each in stored.tokens.items()
        }
        self.interest: Final = OpenInterest(tokens_of(market), stored.nets, unsettled)
        """The open interest."""
        for _, trade, now_ms in later:
            self.add(trade, now_ms)

    def is_of(self, market: Market) -> bool:
        """Return whether it is of a market, and not of a removed one of the same name."""
        known, tokens = self.interest.tokens, tokens_of(market)
        if tokens[: len(known)] != known:
            return False
        self.interest.tokens = tokens  # its NO token may have got its id
        return True

    def add(self, trade: Trade, now_ms: int, settled_as: int = 0) -> None:
        """Add a trade at a time that is not before that of an earlier one.

        Args:
            trade: the trade.
            now_ms: its time, Unix milliseconds.
            settled_as: the number under which it settles; 0 if it does not, or is known to be
                unsettled.
        """
        self.of(trade.token).add(trade, now_ms)
        self.interest.add_trade(trade, settled_as)

    def of(self, token: str) -> TokenDay:
        """Return a token of the market, which may have got its id just now."""
        return self._tokens.setdefault(token, TokenDay())


def tokens_of(market: Market) -> list[str]:
    """Return the tokens of a market; its NO token may have no id yet."""
    return [token for token in (market.yes, market.no) if token]


def read_days(
    reader: StoreReader, markets: Iterable[Market], since_ms: int
) -> tuple[int, list[StoredMarket]]:
    """Return the position in the log, and the content of the file for each market up to there."""
    with reader.db:  # all in one read
        seq, found = reader.applied().seq, [read_market(reader, each, since_ms) for each in markets]
    return seq, found


def read_market(reader: StoreReader, market: Market, since_ms: int) -> StoredMarket:
    """Return the content of the file for a market."""
    tokens = tokens_of(market)
    days = {token: read_token_day(reader, market.id, token, since_ms) for token in tokens}
    return StoredMarket(days, read_nets(reader.db, market.id, tokens))


def read_token_day(reader: StoreReader, market: str, token: str, since_ms: int) -> StoredDay:
    """Return the content of the file for a token."""
    minutes = CandleRange(market, token, MINUTE_MS, since_ms, _LAST, _LAST)
    last_day = CandleRange(market, token, DAY_MS, 0, _LAST, 1, newest=True)
    prices = [each.event.price for each in reader.trades(market, _LAST, 1, token)]
    prices += [each.close for each in read_candles(reader.db, last_day)]  # the trade was deleted
    return StoredDay(prices[0] if prices else None, read_candles(reader.db, minutes))


def ticker_body(state: ServerState, market: Market, day: MarketDay, now_ms: int) -> TickerBody:
    """Return the ticker of a market; the state and the day contain the same commands.

    Args:
        state: the server's state.
        market: the market.
        day: its trades.
        now_ms: the time, Unix milliseconds, not before that of the last command.
    """
    return TickerBody(
        market_id=market.id,
        yes=token_ticker(state, market, market.yes, day, now_ms),
        no=token_ticker(state, market, market.no, day, now_ms) if market.no else None,
        open_interest=str(day.interest.amount),
        seq=state.matcher.seq(market.id),
        timestamp=now_ms,
    )


def token_ticker(
    state: ServerState, market: Market, token: str, day: MarketDay, now_ms: int
) -> TokenTicker:
    """Return the ticker of a token."""
    depth, trades = state.matcher.depth(market.id, token, 1), day.of(token)
    total = trades.total(now_ms)
    bid, ask = best_price(depth.bids), best_price(depth.asks)
    middle = spread = None
    if bid is not None and ask is not None:
        whole, half = divmod(bid.price + ask.price, 2)
        middle, spread = f"{whole}.5" if half else str(whole), ask.price - bid.price
    return TokenTicker(
        token_id=token,
        best_bid=bid,
        best_ask=ask,
        middle=middle,
        spread=spread,
        last_price=trades.last_price,
        volume24h=str(total.volume if total else 0),
        high24h=total.high if total else None,
        low24h=total.low if total else None,
    )


def best_price(levels: Iterable[Level]) -> BestPrice | None:
    """Return the first of the levels of a side; None without any."""
    for level in levels:
        return BestPrice(price=level.price, size=str(level.size))
    return None
