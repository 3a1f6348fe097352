"""Snapshots of books, written once for as long as nothing changes in the market."""

from typing import TYPE_CHECKING

from clob_server.feed.happenings import frame_of
from clob_server.feed.messages import LevelsData, Orderbook
from clob_server.views import orderbook_body

if TYPE_CHECKING:
    from clob_server.exchange import Exchange


class Snapshots:
    """The books of an exchange, as frames.

    Args:
        exchange: whose books.
    """

    def __init__(self, exchange: "Exchange") -> None:
        self._exchange = exchange
        self._kept: dict[tuple[str, str], tuple[int, bytes]] = {}

    def frames(self, market: str, token: str | None) -> bytes:
        """Write the books of a market as they are now, YES first, or one of them.

        Raises:
            UnknownMarketError: there is no such market.
            TokenNotInMarketError: the market has no such token.
        """
        terms = self._exchange.matcher.market(market)
        if token is not None:
            return self._frame(market, token)
        return b"".join(self._frame(market, each) for each in (terms.yes, terms.no) if each)

    def _frame(self, market: str, token: str) -> bytes:
        """Write one book."""
        matcher = self._exchange.matcher
        seq = matcher.seq(market)
        kept = self._kept.get((market, token))
        if kept is not None and kept[0] == seq:
            return kept[1]
        changed_ms = self._exchange.changed_ms.get(market, 0)
        body = orderbook_body(market, matcher.depth(market, token), changed_ms)
        message = Orderbook(
            market_id=market,
            token_id=token,
            seq=seq,
            timestamp=changed_ms,
            data=LevelsData(bids=body.bids, asks=body.asks, last_update=changed_ms),
        )
        frame = frame_of(message)
        self._kept[market, token] = seq, frame
        return frame
