"""Order books as JSON, cached until the market changes."""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clob_server.core.serialize import orderbook_body

if TYPE_CHECKING:
    from clob_server.core.state import ServerState


class CachedBook(NamedTuple):
    """An order book in JSON."""

    seq: int
    """Number of the last event of its market."""
    body: bytes


class BookCache:
    """Caches the order books of all markets."""

    def __init__(self, state: "ServerState") -> None:
        self._state = state
        self._books: dict[tuple[str, str | None], CachedBook] = {}

    def book(self, market: str, token: str | None) -> CachedBook:
        """Return an order book; without a token that of the YES token.

        Raises:
            UnknownMarketError: no such market.
            TokenNotInMarketError: not a token of the market.
        """
        matcher = self._state.matcher
        seq = matcher.seq(market)
        cached = self._books.get((market, token))
        if cached is not None and cached.seq == seq:
            return cached
        depth = matcher.depth(market, token)
        content = orderbook_body(market, depth, self._state.changed_ms.get(market, 0))
        book = self._books[(market, token)] = CachedBook(seq, msgspec.json.encode(content))
        return book
