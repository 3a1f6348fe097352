"""Who is connected: how many, from where, and whose time is over.

A connection has no timers of its own. It has a deadline, and the server looks through them all ten
times a second: cheaper than to set and cancel a timer with every request.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from uvicorn.server import ServerState

from clob_server.transport.config import TransportConfig, TransportLimits
from clob_server.transport.head_cache import Heads

NEVER: Final = math.inf
"""The deadline of a connection that owes nothing."""
REFUSED_MAX: Final = 256
"""How many connections beyond the limit may be told so at a time; more are dropped unheard."""
PIECE_BYTES: Final = 4_096
"""How much is parsed at a time, so that no client holds the loop for long with what he sends."""


class Connections(ServerState):
    """What all connections share.

    Args:
        config: the configuration.
    """

    def __init__(self, config: TransportConfig) -> None:
        super().__init__()
        self.refused: Final[Counter[str]] = Counter()
        """How often something was refused here, by code."""
        self.heads: Final = Heads()
        """The heads of requests that are known."""
        self._config = config
        self._addresses: Counter[str] = Counter()
        self._num_open = 0
        self._written: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")

    @property
    def default_lines(self) -> bytes:
        """The headers that every answer has, each with the end of its line."""
        headers, lines = self._written
        if headers is not self.default_headers:  # there are others each second
            headers = self.default_headers
            lines = b"".join([b"%b: %b\r\n" % header for header in headers])
            self._written = headers, lines
        return lines

    @property
    def num_open(self) -> int:
        """How many connections are open, without those that are being refused."""
        return self._num_open

    def enter(self, address: str) -> str | None:
        """Let a connection in, or say why not.

        Args:
            address: where it comes from; empty if it has none.

        Returns:
            None, and :meth:`leave` is owed; or the rule, the value and the limit.
        """
        limits = self._config.limits
        if self._num_open >= limits.connections_max:
            return f"there are {self._num_open} connections, and no more are allowed"
        most, here = limits.connections_per_address_max, self._addresses[address]
        if address and most and here >= most and not self._config.is_proxy(address):
            return f"there are {here} connections from {address}, and no more are allowed"
        self._num_open += 1
        self._addresses[address] += 1
        return None

    def leave(self, address: str) -> None:
        """Count a connection out that was let in."""
        self._num_open -= 1
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]

    @property
    def is_crowded(self) -> bool:
        """If too many connections are being refused to tell another one."""
        return len(self.connections) - self._num_open > REFUSED_MAX

    def sweep(self, now: float) -> None:
        """End the connections whose time is over.

        Args:
            now: the time of the loop.
        """
        for connection in tuple(self.connections):
            cast("Watched", connection).look(now)


class Watched(asyncio.Protocol):
    """A connection that is let in, looked after, and counted out."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    client: tuple[str, int] | None
    gate: Connections
    limits: TransportLimits

    def __init__(
        self,
        config: TransportConfig,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        # The other base is uvicorn's, which takes the same.
        make = cast("Callable[..., None]", super().__init__)
        make(config=config, server_state=server_state, app_state=app_state, _loop=_loop)
        self.gate = server_state
        self.limits = config.limits
        self.new_request_id: Callable[[], str] = config.new_request_id
        self.deadline: float = NEVER
        self.is_inside: bool = False
        """If it is counted, and has to be counted out."""
        self._stalled_at = NEVER
        self._num_buffered = 0

    @property
    def address(self) -> str:
        """Where the connection comes from; empty if it has no address."""
        return self.client[0] if self.client else ""

    def look(self, now: float) -> None:
        """End the connection if its time is over."""
        if self._stalled_at != NEVER or self.transport.is_closing():
            self._look_at_stall(now)
        elif now >= self.deadline:
            self.deadline = NEVER
            self.overdue()

    def overdue(self) -> None:
        """Do what is due when the deadline has passed."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection out."""
        if self.is_inside:
            self.is_inside = False
            self.gate.leave(self.address)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Hear that much waits for the client."""
        super().pause_writing()
        self._wait_for_client(self.loop.time())

    def resume_writing(self) -> None:
        """Hear that little waits for the client."""
        self._stalled_at = NEVER
        super().resume_writing()

    def _wait_for_client(self, now: float) -> None:
        """Give the client time to take something."""
        self._num_buffered = self.transport.get_write_buffer_size()
        self._stalled_at = now + self.limits.stall_timeout_s

    def _look_at_stall(self, now: float) -> None:
        """Break the connection off if the client takes nothing.

        To close it would not do: that waits until he has taken everything.
        """
        num_buffered = self.transport.get_write_buffer_size()
        if self._stalled_at == NEVER or num_buffered < self._num_buffered:
            self._wait_for_client(now)
        elif now >= self._stalled_at:
            self.transport.abort()


def write_eof(transport: asyncio.Transport) -> None:
    """Say that nothing more will come, to a client who may have gone."""
    with suppress(OSError):
        transport.write_eof()
