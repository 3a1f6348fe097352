"""Chooses what runs a strategy: the compiled session, or the same lines as plain Python."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.replay._scheduling_py import Session
else:
    try:
        from clob.replay._scheduling_c import Session
    except ImportError:
        from clob.replay._scheduling_py import Session

__all__ = ["Session"]
