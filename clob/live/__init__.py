"""Records live feeds, and runs strategies over them.

Not imported by ``import clob``; needs ``pip install "clob[client,replay]"``.
"""

from importlib.util import find_spec

from clob.errors import PackageMissingError

for _package in ("numpy", "httpx", "websockets"):
    if find_spec(_package) is None:
        raise PackageMissingError(
            f'clob.live needs {_package}, which is not installed: pip install "clob[client,replay]"'
        )

from clob.live.paper import PaperRun, paper  # noqa: E402 - after the check of packages
from clob.live.polymarket import record_polymarket  # noqa: E402
from clob.live.recorder import FeedRecorder, FeedSummary, record  # noqa: E402
from clob.live.source import FeedSource  # noqa: E402

__all__ = [
    "FeedRecorder",
    "FeedSource",
    "FeedSummary",
    "PaperRun",
    "paper",
    "record",
    "record_polymarket",
]
