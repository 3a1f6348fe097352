"""Chooses what executes a stream and writes down what came of it: compiled, or plain Python."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.replay._driving_py import SPARE, StreamDriver
    from clob.replay._packing_py import write_fills, write_orders
else:
    try:
        from clob.replay._driving_c import SPARE, StreamDriver
        from clob.replay._packing_c import write_fills, write_orders
    except ImportError:
        from clob.replay._driving_py import SPARE, StreamDriver
        from clob.replay._packing_py import write_fills, write_orders

__all__ = ["SPARE", "StreamDriver", "write_fills", "write_orders"]
