"""JSON-RPC errors of the chain, with the codes of real nodes."""

from typing import Final

PARSE_ERROR: Final = -32700
"""Body is not JSON."""
INVALID_REQUEST: Final = -32600
"""JSON, but not a request."""
METHOD_NOT_FOUND: Final = -32601
"""Unknown method."""
INVALID_PARAMS: Final = -32602
"""Wrong parameters."""
INTERNAL_ERROR: Final = -32603
"""Failure of the chain."""
REJECTED: Final = -32000
"""A transaction or call that cannot be executed."""
LIMIT_EXCEEDED: Final = -32005
"""Response too long."""
REVERTED: Final = 3
"""A contract reverted; the data is its output."""


class RequestError(Exception):
    """A request is answered with an error.

    Args:
        message: the text, that of real nodes where they have one.
        code: the JSON-RPC code.
        data: output of a contract that reverted.
    """

    def __init__(self, message: str, code: int = REJECTED, data: bytes | None = None) -> None:
        super().__init__(message)
        self.message: Final[str] = message
        self.code: Final[int] = code
        self.data: Final[bytes | None] = data


def invalid(message: str) -> RequestError:
    """Return the error for wrong parameters."""
    return RequestError(message, INVALID_PARAMS)
