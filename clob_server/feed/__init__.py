"""The feed: what happens in the markets, to everybody who subscribed to it."""

from clob_server.feed.feed import Feed

__all__ = ["Feed"]
