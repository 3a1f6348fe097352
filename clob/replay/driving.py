"""Chooses what executes a stream: the compiled driver, or the same lines as plain Python."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.replay._driving_py import SPARE, StreamDriver
else:
    try:
        from clob.replay._driving_c import SPARE, StreamDriver
    except ImportError:
        from clob.replay._driving_py import SPARE, StreamDriver

__all__ = ["SPARE", "StreamDriver"]
