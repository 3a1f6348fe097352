"""The open connections: how many, from where, and their deadlines.

A connection has no timers. It has a deadline, and the server checks all of them ten times a second,
which costs less than a timer that is set and cancelled with every request.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, cast

from uvicorn.server import ServerState

from clob_server.transport.config import TransportConfig, TransportLimits

NEVER: Final = math.inf
"""The deadline of a connection without a time limit."""
REJECTED_MAX: Final = 256
"""Connections beyond the limit that get a reply at a time; more are dropped without one."""
PIECE_BYTES: Final = 4_096
"""Bytes parsed at a time, so that no client blocks the event loop for long."""


class Connections(ServerState):
    """State shared by all connections."""

    def __init__(self, config: TransportConfig) -> None:
        super().__init__()
        self.rejected: Final[Counter[str]] = Counter()
        """Rejections by the transport, by code."""
        self.written_headers: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")
        """The default headers, and the same as lines of HTTP/1.1."""
        self.num_open: int = 0
        """Number of open connections, without those that are being rejected."""
        self._config = config
        self._addresses: Counter[str] = Counter()

    def enter(self, address: str) -> str | None:
        """Count a new connection, which has to :meth:`leave`, or return the reason to reject it."""
        limits = self._config.limits
        if self.num_open >= limits.connections_max:
            return f"the server allows at most {limits.connections_max} connections"
        limit, count = limits.connections_per_address_max, self._addresses[address]
        if address and limit and count >= limit and not self._config.is_proxy(address):
            return f"the server allows at most {limit} connections from {address}"
        self.num_open += 1
        self._addresses[address] += 1
        return None

    def leave(self, address: str) -> None:
        """Count the end of a connection."""
        self.num_open -= 1
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]

    @property
    def is_crowded(self) -> bool:
        """Whether too many connections are being rejected to reply to another one."""
        return len(self.connections) - self.num_open > REJECTED_MAX


class TrackedConnection(asyncio.Protocol):
    """A connection that is counted and has a deadline."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    client: tuple[str, int] | None
    shared: Connections
    limits: TransportLimits

    def __init__(self, config: TransportConfig, server_state: Connections, **options: Any) -> None:
        # The other base is uvicorn's, with the same arguments.
        make = cast("Callable[..., None]", super().__init__)
        make(config=config, server_state=server_state, **options)
        self.shared = server_state
        self.limits = config.limits
        self.new_request_id: Callable[[], str] = config.new_request_id
        self.deadline: float = NEVER
        self.is_counted: bool = False
        self.stalled_at: float = NEVER
        """The time by which a slow client has to read something."""
        self._num_buffered = 0

    @property
    def address(self) -> str:
        """The address of the client; empty if it has none."""
        return self.client[0] if self.client else ""

    def check(self, now: float) -> None:
        """End the connection if its deadline has passed."""
        if self.stalled_at != NEVER or self.transport.is_closing():
            self._check_stall(now)
        elif now >= self.deadline:
            self.deadline = NEVER
            self.on_deadline()

    def on_deadline(self) -> None:
        """Handle a deadline that has passed."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the end of the connection."""
        if self.is_counted:
            self.is_counted = False
            self.shared.leave(self.address)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Note that the client reads too slowly."""
        super().pause_writing()
        self._start_stall(self.loop.time())

    def resume_writing(self) -> None:
        """Note that the client has read most of the buffer."""
        self.stalled_at = NEVER
        super().resume_writing()

    def _start_stall(self, now: float) -> None:
        self._num_buffered = self.transport.get_write_buffer_size()
        self.stalled_at = now + self.limits.stall_timeout_s

    def _check_stall(self, now: float) -> None:
        """Abort the connection if the client reads nothing.

        Closing it would wait until the client has read everything.
        """
        num_buffered = self.transport.get_write_buffer_size()
        if self.stalled_at == NEVER or num_buffered < self._num_buffered:
            self._start_stall(now)
        elif now >= self.stalled_at:
            self.transport.abort()
