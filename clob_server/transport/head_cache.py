"""A cache of request heads: a client that sends the same head again is parsed only once.

A head is stored if its request arrived whole and alone and was answered at once.
"""

from typing import Any, Final, NamedTuple

HEAD_MAX: Final = 2_048
"""The largest head that is stored, in bytes."""
HEADS_MAX: Final = 1_024
"""The number of heads stored. One more clears the cache, so that clients that never repeat a head
cost little, and those that do are known again after one request."""
END: Final = b"\r\n\r\n"
"""The end of a head."""

_OF_CONNECTION: Final = ("client", "server", "scheme", "state", "extensions")


class RequestHead(NamedTuple):
    """A head that was parsed."""

    num_head: int
    """Its size in bytes."""
    num_bytes: int
    """The size of the whole request in bytes."""
    scope: dict[str, Any]
    """The ASGI scope, without the fields of the connection."""


class HeadCache:
    """Cached heads of all connections."""

    def __init__(self) -> None:
        self.heads: Final[dict[bytes, RequestHead]] = {}
        """The parsed heads by their bytes."""

    def find(self, data: bytes) -> RequestHead | None:
        """Return the head of a request; None if it is unknown or ``data`` is not one request."""
        head = self.heads.get(data[: data.find(END, 0, HEAD_MAX) + len(END)])
        return head if head is not None and len(data) == head.num_bytes else None

    def store(self, data: bytes, num_body: int, scope: dict[str, Any]) -> None:
        """Store a head, if ``data`` is exactly a head and a body of ``num_body`` bytes.

        A ``HEAD`` request is not stored, since its reply has no body.
        """
        num_head = data.find(END, 0, HEAD_MAX) + len(END)
        is_whole = num_head >= len(END) and num_head + num_body == len(data)  # not chunked
        if not is_whole or scope["method"] == "HEAD":
            return
        if len(self.heads) >= HEADS_MAX:
            self.heads.clear()
        shared = {name: value for name, value in scope.items() if name not in _OF_CONNECTION}
        self.heads[data[:num_head]] = RequestHead(num_head, len(data), shared)
