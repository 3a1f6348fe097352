"""Exit codes of ``clob-server``, and the line that explains them."""

import sys
from typing import Final

DONE: Final = 0
FAILED: Final = 1
"""Something is damaged, failed or was rejected."""
UNUSABLE: Final = 2
"""The command could not start."""


def complain(text: str, code: int) -> int:
    """Write a line to standard error and return the exit code."""
    sys.stderr.write(f"clob-server: {text}\n")
    return code
