"""How the ``clob-server`` command ends: its exit codes, and the line that says why."""

import sys
from typing import Final

DONE: Final = 0
"""All went well."""
FAILED: Final = 1
"""Something is damaged, has failed or was refused."""
UNUSABLE: Final = 2
"""It could not be begun."""


def complain(text: str, code: int) -> int:
    """Write a line to standard error, and give the exit code.

    Args:
        text: why it ends.
        code: one of those above.
    """
    sys.stderr.write(f"clob-server: {text}\n")
    return code
