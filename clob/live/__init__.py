"""Records live feeds, and runs strategies over them.

Not imported by ``import clob``; needs ``pip install "clob[client,replay]"``.
"""

# ruff: noqa: E402 - the packages are checked before the imports that need them

from clob.errors import check_installed

check_installed("clob.live", "client,replay", "numpy", "httpx", "websockets")

from clob.live.paper import PaperRun, paper
from clob.live.polymarket import record_polymarket
from clob.live.recorder import FeedRecorder, FeedSummary, record
from clob.live.source import FeedSource

__all__ = [
    "FeedRecorder",
    "FeedSource",
    "FeedSummary",
    "PaperRun",
    "paper",
    "record",
    "record_polymarket",
]
