"""Failpoints at which crash tests end the chain worker process."""

import os
from typing import Final

VARIABLE: Final = "CLOB_CHAIN_DIE"
"""Environment variable that selects the failpoint: ``kind:step:point``, e.g.
``merge:mergeTx:after_insert``. The points are ``before_insert``, ``after_insert``,
``after_broadcast`` and ``after_receipt``."""
EXIT_CODE: Final = 70
"""Exit code of the worker at a failpoint."""

_SELECTED: Final = os.environ.get(VARIABLE)


def failpoint(kind: str, step: str, point: str) -> None:
    """Exit without any cleanup, as a crash would, if this failpoint is selected.

    Args:
        kind: kind of the operation.
        step: name of the transaction in the answer.
        point: point in the life of the transaction.
    """
    if _SELECTED is not None and f"{kind}:{step}:{point}" == _SELECTED:
        os._exit(EXIT_CODE)
