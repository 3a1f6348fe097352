"""The WebSocket feed: streams order books, trades, orders of a maker and settlement changes."""

from clob_server.feed.feed import FeedServer

__all__ = ["FeedServer"]
