"""The way that answers take: in one packet, where that can be."""

import asyncio
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class HeldFlow(FlowControl):
    """A flow that stays paused while much waits behind a request that is being answered."""

    is_held = False

    def resume_reading(self) -> None:
        """Read on, unless much waits."""
        if self.read_paused and not self.is_held:
            super().resume_reading()


class Joined:
    """The transport of one answer, whose head goes out with the beginning of its body.

    uvicorn writes them one after the other, and each write is a call of the system and a packet.

    Args:
        cycle: the answer.
        transport: where it goes.
    """

    __slots__ = ("_cycle", "_head", "_transport")

    def __init__(self, cycle: RequestResponseCycle, transport: asyncio.Transport) -> None:
        self._cycle = cycle
        self._transport = transport
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """Hold the head back, which comes first; send the rest as it comes."""
        if self._head is None and self._cycle.response_started:
            self._head = data
        elif self._head is None:  # 100 Continue, before the answer
            self._transport.write(data)
        else:
            self._transport.write(self._head + data if self._head else data)
            self._head = b""

    def flush(self) -> None:
        """Send the head, if no body came."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Send what is left, and close the connection."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's."""
        return getattr(self._transport, name)
