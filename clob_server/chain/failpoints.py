"""Where tests have the worker die, to see that nothing is lost or done twice."""

import os
from typing import Final

VARIABLE: Final = "CLOB_CHAIN_DIE"
"""The environment variable that says where: ``kind:step:point``, as in
``merge:mergeTx:after_insert``. The points are ``before_insert``, ``after_insert``,
``after_broadcast`` and ``after_receipt``."""
EXIT_CODE: Final = 70
"""What the worker ends with then."""

_WHERE: Final = os.environ.get(VARIABLE)


def die_here(kind: str, step: str, point: str) -> None:
    """End the process without any of its cleaning up, as a crash would, if a test wants that here.

    Args:
        kind: what the operation does.
        step: what the answer calls the transaction.
        point: where in its life.
    """
    if _WHERE is not None and f"{kind}:{step}:{point}" == _WHERE:
        os._exit(EXIT_CODE)
