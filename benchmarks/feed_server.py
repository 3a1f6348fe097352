"""A feed on the server's transport and, in the same process, bare transports as the baseline.

Prints the two ports first. Each input line is a command: ``ours 1000`` or ``raw 1000`` broadcasts
1,000 events; ``ours_paced 50 100`` or ``raw_paced 50 100`` broadcasts 100 events at 50 per second.
The reply is the CPU time in ns.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar

import uvloop
from msgspec import structs

from clob import AddMarket, Limits, Market, Order, SetLimits, Side, Submit, tokens
from clob_server.api.request import RequestIds
from clob_server.app import relax_garbage_collection
from clob_server.core.commands import ApiKey
from clob_server.core.ids import Ids
from clob_server.core.sequencer import Committed, Sequencer
from clob_server.core.state import ServerState
from clob_server.core.switches import CancelSwitches
from clob_server.feed import FeedServer
from clob_server.http.socket_operations import SocketOperations
from clob_server.log import MemoryLog
from clob_server.settings import Settings
from clob_server.telemetry.metrics import Metrics
from clob_server.transport.config import TransportLimits
from clob_server.transport.server import HttpServer, config_for
from clob_server.transport.websocket import text_frame

LIMITS = TransportLimits(ping_interval_s=3_600)
"""No pings, since the clients do not reply to them."""
ROUNDS_TO_WRITE = 2
"""Iterations of the event loop until an event is written to all clients."""
READ_S = 0.001
"""Time after which all clients have read an event."""
WELCOME = b"!"
"""First byte of a bare transport."""
ORDER = Order(id="", token="1", maker="0xA", side=Side.BUY, price=50, size=tokens(5))


class Guard:
    """Accepts every client."""

    def check_site(self, headers: object) -> None:
        return None

    def key_of_handshake(self, headers: object, address: str) -> None:
        return None

    def key_of_message(self, sent: bytes, address: str) -> ApiKey:
        raise NotImplementedError

    def charge_request(self, key: object, address: str) -> None:
        return None

    def may_follow(self, key: object, channel: str, maker: str) -> None:
        return None

    def may_arm(self, key: object, address: str, maker: str) -> None:
        return None


class Ours:
    """The feed over an exchange without other users.

    Buffer limits are far away, so that the feed sends every message.
    """

    def __init__(self) -> None:
        self.exchange = ServerState()
        self.exchange.apply(SetLimits(limits=Limits(orders_max=1 << 30), now_ms=0))
        self.exchange.apply(AddMarket(market=Market(id="m", yes="1", no=""), now_ms=0))
        self.feed = FeedServer(
            Settings(ws_soft_bytes=1 << 28, ws_hard_bytes=1 << 29),
            Guard(),
            lambda: time.time_ns() // 1_000_000,
            Metrics(),
            RequestIds(),
        )
        self.feed.operations = SocketOperations({}, 0)
        self.switches = CancelSwitches(Sequencer(MemoryLog(), self.exchange, lambda: 0))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve as an ASGI application."""
        if scope["type"] == "websocket":
            await self.feed(scope, receive, send)
            return
        while scope["type"] == "lifespan":
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    def next(self) -> Committed:
        """Submit a resting order with the current time as its id."""
        order = structs.replace(ORDER, id=str(time.perf_counter_ns()))
        command = Submit(market="m", order=order, now_ms=1)
        return Committed(0, command, self.exchange.apply(command), 0)

    def broadcast(self, done: Committed) -> None:
        """Broadcast the events of a command."""
        self.feed.on_batch([done])


class Raw(asyncio.Protocol):
    """Writes the same frame to all connected clients."""

    transports: ClassVar[list[Any]] = []
    frame = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Add a client."""
        self._transport: asyncio.Transport = transport
        self.transports.append(transport)
        transport.write(WELCOME)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove a client."""
        self.transports.remove(self._transport)

    @classmethod
    def broadcast(cls) -> None:
        """Write the frame to all clients."""
        for transport in cls.transports:
            transport.write(cls.frame)

    @classmethod
    def broadcast_time(cls) -> None:
        """Write the current time to all clients, in a frame of the same size."""
        text = b'"orderId":"%d"' % time.perf_counter_ns()
        frame = text_frame(text.ljust(len(cls.frame) - 5) + b"}")
        for transport in cls.transports:
            transport.write(frame)


async def one_by_one(broadcast: Callable[[], None], count: int) -> int:
    """Broadcast ``count`` events, each after the last one was read; return the CPU time in ns.

    A write to a client that is behind costs a third of a write that wakes a waiting one. The pause
    makes every write one of the second kind.
    """
    taken_ns = 0
    for _ in range(count):
        begin = time.process_time_ns()
        broadcast()
        for _ in range(ROUNDS_TO_WRITE):
            await asyncio.sleep(0)
        taken_ns += time.process_time_ns() - begin
        await asyncio.sleep(READ_S)
    return taken_ns


async def broadcast_ours(ours: Ours, count: int) -> int:
    """Broadcast ``count`` events through the feed."""
    todo = iter([ours.next() for _ in range(count)])
    taken_ns = await one_by_one(lambda: ours.broadcast(next(todo)), count)
    assert not ours.feed.subscribers.buffered_bytes
    return taken_ns


async def broadcast_raw(count: int) -> int:
    """Write the frame ``count`` times to all bare transports."""
    taken_ns = await one_by_one(Raw.broadcast, count)
    assert not any(transport.get_write_buffer_size() for transport in Raw.transports)
    return taken_ns


async def paced(broadcast: Callable[[], None], per_s: int, count: int) -> int:
    """Broadcast events at a fixed rate; return the CPU time in ns."""
    begin, start = time.process_time_ns(), time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, start + number / per_s - time.perf_counter()))
        broadcast()
    return time.process_time_ns() - begin


async def main() -> None:
    """Serve both sides and run the commands from standard input."""
    ours, loop = Ours(), asyncio.get_running_loop()
    port = loop.create_future()
    server = HttpServer(
        config_for(ours, port=0, limits=LIMITS, drain_s=0, grace_s=2),
        on_listening=lambda host, number: port.set_result(number),
    )
    ours.feed.start(ours.exchange, Ids(bytes(32)), ours.switches)
    relax_garbage_collection()  # as a server does
    serving = asyncio.create_task(server.serve())
    raw = await loop.create_server(Raw, "127.0.0.1", 0)
    write_line(await port, raw.sockets[0].getsockname()[1])
    Raw.frame = frame_like(ours, ours.next())
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    commands: dict[bytes, Callable[..., Awaitable[int]]] = {
        b"ours": partial(broadcast_ours, ours),
        b"raw": broadcast_raw,
        b"ours_paced": partial(paced, lambda: ours.broadcast(ours.next())),
        b"raw_paced": partial(paced, Raw.broadcast_time),
    }
    while line := await reader.readline():
        kind, *numbers = line.split()
        write_line(await commands[kind](*map(int, numbers)))
    raw.close()
    ours.feed.close()
    server.end()
    await serving


def frame_like(ours: Ours, done: Committed) -> bytes:
    """Return a frame of the same size as the feed's."""
    streams, encoder = ours.feed.channels.streams, ours.feed.channels.books.encoder
    [event] = streams.on_batch([done])[streams.stream("m")]
    size = len(encoder.encode(event, extended=False))
    return text_frame(b"x" * (size - 5) + b"}")


def write_line(*words: object) -> None:
    """Write words as one line to standard output."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main())
