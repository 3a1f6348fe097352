"""Books as they are sent: written once for as long as nothing changes in the market."""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clob_server.core.serialize import orderbook_body

if TYPE_CHECKING:
    from clob_server.core.state import ServerState


class CachedBook(NamedTuple):
    """A book, ready to be sent."""

    seq: int
    """The number of the last event of its market."""
    body: bytes
    """The book in JSON."""


class BookCache:
    """The books of an exchange, in JSON.

    Args:
        exchange: whose books.
    """

    def __init__(self, exchange: "ServerState") -> None:
        self._exchange = exchange
        self._kept: dict[tuple[str, str | None], CachedBook] = {}

    def book(self, market: str, token: str | None) -> CachedBook:
        """Give a book; None is the YES token's.

        Raises:
            UnknownMarketError: there is no such market.
            TokenNotInMarketError: the market has no such token.
        """
        matcher = self._exchange.matcher
        seq = matcher.seq(market)
        kept = self._kept.get((market, token))
        if kept is not None and kept.seq == seq:
            return kept
        depth = matcher.depth(market, token)
        content = orderbook_body(market, depth, self._exchange.changed_ms.get(market, 0))
        made = self._kept[(market, token)] = CachedBook(seq, msgspec.json.encode(content))
        return made
