"""Heads of requests that came before: the same bytes mean the same, and are parsed but once.

A client asks for the same with the same head again and again. What the parser made of such a head
is kept where the request came whole and alone, and was answered at once.
"""

from typing import Any, Final, NamedTuple

HEAD_MAX: Final = 2_048
"""How many bytes a head has at most that is kept."""
HEADS_MAX: Final = 1_024
"""How many are kept. With one more all are let go, so that clients who never send the same head
twice cost little, and those who do are known again after one request."""
END: Final = b"\r\n\r\n"
"""What ends a head."""

_OF_CONNECTION: Final = ("client", "server", "scheme", "state", "extensions")


class RequestHead(NamedTuple):
    """A head, and what it means."""

    num_head: int
    """How many bytes it has."""
    num_bytes: int
    """How many bytes the whole request has."""
    scope: dict[str, Any]
    """What ASGI tells of it, but for what is the connection's."""


class Heads:
    """The heads that are known, of all connections."""

    def __init__(self) -> None:
        self._kept: dict[bytes, RequestHead] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._kept)

    def find(self, data: bytes) -> RequestHead | None:
        """Give what is known of the head of a request.

        Args:
            data: what came when no request was open.

        Returns:
            None where the head is not known, or what came is not one whole request.
        """
        head = self._kept.get(data[: data.find(END, 0, HEAD_MAX) + len(END)])
        return head if head is not None and len(data) == head.num_bytes else None

    def keep(self, data: bytes, num_body: int, scope: dict[str, Any]) -> None:
        """Keep what a head means, unless there was something else beside head and body.

        One that asks for a head alone is not kept: its answer has no body.

        Args:
            data: what came when no request was open, and was one whole request.
            num_body: how many bytes its body has.
            scope: what ASGI tells of it.
        """
        num_head = data.find(END, 0, HEAD_MAX) + len(END)
        is_whole = num_head >= len(END) and num_head + num_body == len(data)  # not in chunks
        if not is_whole or scope["method"] == "HEAD":
            return
        if len(self._kept) >= HEADS_MAX:
            self._kept.clear()
        told = {name: value for name, value in scope.items() if name not in _OF_CONNECTION}
        self._kept[data[:num_head]] = RequestHead(num_head, len(data), told)


class Nobody:
    """Stands where a request has somebody who waits for its body."""

    def set(self) -> None:
        """Wake nobody."""


class Whole:
    """A request that came whole, of which the parser has seen nothing.

    It has what a connection looks at of the requests that the parser made, and no more.
    """

    more_body: bool = False
    """If some of its body is still to come."""
    keep_alive: bool = True
    """If the connection goes on after it."""
    disconnected: bool = False
    """If the client has gone."""
    response_started: bool = False
    """If the answer is on its way."""
    response_complete: bool = False
    """If the answer was sent."""
    scope: Any = None
    """What ASGI tells of it; the application alone has that."""
    message_event: Nobody = Nobody()
    """Who waits for its body."""
