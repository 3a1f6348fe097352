"""What the chain answers in place of a result, with the codes that real nodes give."""

from typing import Final

PARSE_ERROR: Final = -32700
"""The body is not JSON."""
INVALID_REQUEST: Final = -32600
"""It is JSON, and no request."""
METHOD_NOT_FOUND: Final = -32601
"""There is no such method."""
INVALID_PARAMS: Final = -32602
"""The parameters are not those of the method."""
INTERNAL_ERROR: Final = -32603
"""The chain itself failed."""
REFUSED: Final = -32000
"""A transaction or a call that cannot be done."""
LIMIT_EXCEEDED: Final = -32005
"""An answer that would be too long."""
REVERTED: Final = 3
"""A contract refused; the data is what it said."""


class RefusedError(Exception):
    """A request gets an error for an answer.

    Args:
        message: what is wrong, in the words that real nodes use where they have some.
        code: the code of JSON-RPC.
        data: what a contract answered when it reverted.
    """

    def __init__(self, message: str, code: int = REFUSED, data: bytes | None = None) -> None:
        super().__init__(message)
        self.message: Final[str] = message
        self.code: Final[int] = code
        self.data: Final[bytes | None] = data


def invalid(message: str) -> RefusedError:
    """Make the error of wrong parameters."""
    return RefusedError(message, INVALID_PARAMS)
