"""Order books as JSON, cached until the market changes."""

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from clob_server.core.serialize import orderbook_body

if TYPE_CHECKING:
    from clob_server.core.state import ServerState


BOOKS_MIN: Final = 1_000
"""Books that are cached before the first search for those to drop."""


class CachedBook(NamedTuple):
    """An order book in JSON."""

    seq: int
    """Number of the last event of its market."""
    body: bytes
    etag: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """Headers of a reply with it."""


class BookCache:
    """Caches the order books of all markets.

    Args:
        state: the state.
        exchange: the text that distinguishes this exchange.
    """

    def __init__(self, state: "ServerState", exchange: str) -> None:
        self._state = state
        self._exchange = exchange
        self._books: dict[tuple[str, str | None, int | None], CachedBook] = {}
        self._books_max = BOOKS_MIN

    def _prune(self) -> None:
        """Drop the books of markets that were removed, and those with a limit of levels."""
        markets = self._state.markets
        self._books = {
            key: book for key, book in self._books.items() if key[0] in markets and key[2] is None
        }
        self._books_max = 2 * len(self._books) + BOOKS_MIN

    def book(self, market: str, token: str | None, limit: int | None = None) -> CachedBook:
        """Return an order book; without a token that of the YES token.

        Args:
            market: market id.
            token: outcome token, decimal digits.
            limit: maximum number of levels per side; None for all.

        Raises:
            UnknownMarketError: no such market.
            TokenNotInMarketError: not a token of the market.
        """
        matcher = self._state.matcher
        if len(self._books) > self._books_max:
            self._prune()
        seq = matcher.seq(market)
        cached = self._books.get((market, token, limit))
        if cached is not None and cached.seq == seq:
            return cached
        depth = matcher.depth(market, token, limit)
        content = orderbook_body(market, depth, self._state.changed_ms.get(market, 0))
        etag = f'"{self._exchange}-{self._state.registry.epoch}-{seq}"'.encode()
        headers = ((b"etag", etag), (b"cache-control", b"no-cache"))
        book = CachedBook(seq, msgspec.json.encode(content), etag, headers)
        self._books[market, token, limit] = book
        return book
