"""The demo: a market in which two bots trade, so that a newcomer finds a living book."""

from clob_server.demo.demo import Demo
from clob_server.demo.folder import make_anew

__all__ = ["Demo", "make_anew"]
