"""Chooses what compares fills with recorded ones: compiled, or the same lines as plain Python."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.replay._comparing_py import Sides
else:
    try:
        from clob.replay._comparing_c import Sides
    except ImportError:
        from clob.replay._comparing_py import Sides

__all__ = ["Sides"]
