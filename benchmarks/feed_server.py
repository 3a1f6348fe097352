"""A feed on the server's transport, and beside it the least that could tell anybody anything.

It tells the ports of both. Each line of standard input is a number of events for one of them to
tell, ``ours 1000`` or ``raw 1000``; or a number a second, and how many of them,
``ours_paced 50 100`` or ``raw_paced 50 100``. The answer is the time of the processor that it
took, in ns.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import uvloop
from msgspec import structs

from clob import AddMarket, Limits, Market, Order, SetLimits, Side, Submit, tokens
from clob_server.engine import Done
from clob_server.exchange import Exchange
from clob_server.feed import Feed
from clob_server.ids import Ids
from clob_server.lifespan import leave_in_peace
from clob_server.metrics import Metrics
from clob_server.serving import Server, config_for
from clob_server.settings import Settings
from clob_server.transport import TransportLimits, text_frame

LIMITS = TransportLimits(ping_interval_s=3_600)
"""The clients answer no pings."""
ROUNDS_TO_WRITE = 2
"""How often the loop goes round until what was told is written."""
READ_S = 0.001
"""How long after an event all have read of it."""
WELCOME = b"!"
"""What a bare transport says first."""
ORDER = Order(id="", token="1", maker="0xA", side=Side.BUY, price=50, size=tokens(5))


class Guard:
    """Lets everybody in."""

    def key_of(self, headers: object) -> None:
        return None

    def charge_request(self, key: object, address: str) -> None:
        return None


class Ours:
    """The feed, over an exchange that nobody else uses.

    The limits are out of the way: what is asked is what telling costs, not what leaving out saves.
    """

    def __init__(self) -> None:
        self.exchange = Exchange()
        self.exchange.apply(SetLimits(limits=Limits(orders_max=1 << 30), now_ms=0))
        self.exchange.apply(AddMarket(market=Market(id="m", yes="1", no=""), now_ms=0))
        service: Any = SimpleNamespace(
            settings=Settings(ws_soft_bytes=1 << 28, ws_hard_bytes=1 << 29),
            clock_ms=lambda: time.time_ns() // 1_000_000,
            metrics=Metrics(),
            guard=Guard(),
            exchange=self.exchange,
            ids=Ids(bytes(32)),
        )
        self.feed = Feed(service)

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

    def next(self) -> Done:
        """Have the next thing happen: an order, named after the time, comes to rest."""
        order = structs.replace(ORDER, id=str(time.perf_counter_ns()))
        command = Submit(market="m", order=order, now_ms=1)
        return Done(0, command, self.exchange.apply(command), 0)

    def tell(self, done: Done) -> None:
        """Tell what happened."""
        self.feed.listen([done])


class Raw(asyncio.Protocol):
    """Writes the same frame to all who are connected."""

    transports: ClassVar[list[Any]] = []
    frame = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count somebody in."""
        self._transport = transport
        self.transports.append(transport)
        transport.write(WELCOME)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count somebody out."""
        self.transports.remove(self._transport)

    @classmethod
    def tell(cls) -> None:
        """Write to all."""
        for transport in cls.transports:
            transport.write(cls.frame)

    @classmethod
    def tell_time(cls) -> None:
        """Write to all what time it is, in a frame of the same size."""
        text = b'"orderId":"%d"' % time.perf_counter_ns()
        frame = text_frame(text.ljust(len(cls.frame) - 5) + b"}")
        for transport in cls.transports:
            transport.write(frame)


async def told_apart(tell_next: Callable[[], None], count: int) -> int:
    """Have so many events told, each when the last one was read; give the time of the processor.

    To write to a client who is behind takes a third of the time that it takes to wake one; and
    who is behind changes from one moment to the next.
    """
    taken_ns = 0
    for _ in range(count):
        begin = time.process_time_ns()
        tell_next()
        for _ in range(ROUNDS_TO_WRITE):
            await asyncio.sleep(0)
        taken_ns += time.process_time_ns() - begin
        await asyncio.sleep(READ_S)
    return taken_ns


async def told_by_ours(ours: Ours, count: int) -> int:
    """Have so many events told by the feed."""
    todo = iter([ours.next() for _ in range(count)])
    taken_ns = await told_apart(lambda: ours.tell(next(todo)), count)
    assert not ours.feed.buffered_bytes
    return taken_ns


async def told_raw(count: int) -> int:
    """Have a frame written so many times to all."""
    taken_ns = await told_apart(Raw.tell, count)
    assert not any(transport.get_write_buffer_size() for transport in Raw.transports)
    return taken_ns


async def paced(tell_next: Callable[[], None], per_s: int, count: int) -> int:
    """Have so many events a second told."""
    begin, start = time.process_time_ns(), time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, start + number / per_s - time.perf_counter()))
        tell_next()
    return time.process_time_ns() - begin


async def main() -> None:
    """Serve, and do what is asked."""
    ours, loop = Ours(), asyncio.get_running_loop()
    port = loop.create_future()
    server = Server(
        config_for(ours, port=0, limits=LIMITS, drain_s=0, grace_s=2),
        on_listening=lambda host, number: port.set_result(number),
    )
    ours.feed.start()
    leave_in_peace()  # as a server does
    serving = asyncio.create_task(server.serve())
    raw = await loop.create_server(Raw, "127.0.0.1", 0)
    tell(await port, raw.sockets[0].getsockname()[1])
    Raw.frame = frame_like(ours, ours.next())
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    ways: dict[bytes, Callable[..., Awaitable[int]]] = {
        b"ours": partial(told_by_ours, ours),
        b"raw": told_raw,
        b"ours_paced": partial(paced, lambda: ours.tell(ours.next())),
        b"raw_paced": partial(paced, Raw.tell_time),
    }
    while line := await reader.readline():
        kind, *numbers = line.split()
        tell(await ways[kind](*map(int, numbers)))
    raw.close()
    ours.feed.close()
    server.end()
    await serving


def frame_like(ours: Ours, done: Done) -> bytes:
    """A frame of the size that ours has."""
    [happening] = ours.feed.streams.hear([done])[ours.feed.streams.stream("m")]
    size = len(ours.feed.writer.frames(happening, extended=False))
    return text_frame(b"x" * (size - 5) + b"}")


def tell(*words: object) -> None:
    """Write a line."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main())
