"""A TCP proxy that delays, splits, truncates, stalls and cuts connections, in a thread of its own.

It stands for a bad network between a client and a server. Its address stays, also if the server is
restarted at another one.
"""

import asyncio
import contextlib
import random  # noqa: TID251 - seeded
import threading
from typing import NamedTuple
from urllib.parse import urlsplit

PATIENCE_S = 30
CHUNK_BYTES = 4_096
"""Bytes that are forwarded at once."""


class Faults(NamedTuple):
    """Random faults of each forwarded chunk."""

    delay_max_s: float = 0.0
    """Longest delay before it is forwarded, in seconds."""
    cut_rate: float = 0.0
    """Probability that only a random part is forwarded and the connection is cut."""
    split_max: int = CHUNK_BYTES
    """Longest chunk, in bytes; each has a random length up to this."""


class Link:
    """The two connections of a client: its own and one to the server."""

    def __init__(self, writers):
        self.writers = writers

    def cut(self):
        """End both connections without a goodbye."""
        for writer in self.writers:
            writer.transport.abort()


class ChaosProxy:
    """A proxy to a server; all methods may be called from any thread.

    Args:
        server_url: URL of the server.
        faults: random faults; may be replaced at any time.
        seed: seed of the faults.
    """

    def __init__(self, server_url, faults=None, seed=0):
        self.faults = faults or Faults()
        self.num_links = 0
        """Connections accepted so far."""
        self.num_cuts = 0
        """Connections cut so far."""
        self.accepts = True
        """Whether new connections are accepted; others are cut at once."""
        self._rng = random.Random(seed)
        self._links = set()
        self._loses_answer = False
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.connect_to(server_url)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._started.wait(PATIENCE_S)
        return self

    def __exit__(self, *error):
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    # ----- control ---------------------------------------------------------------------------

    def connect_to(self, server_url):
        """Forward new connections to a server."""
        parts = urlsplit(server_url)
        self._target = parts.hostname, parts.port

    @property
    def url(self):
        """The URL of the proxy for HTTP."""
        return f"http://127.0.0.1:{self.port}"

    def cut(self):
        """Cut all connections."""
        self._call(self._cut_all)

    def stall(self):
        """Forward nothing until :meth:`flow`; connections stay open."""
        self._call(self._flowing.clear)

    def flow(self):
        """Forward again after :meth:`stall`."""
        self._call(self._flowing.set)

    def lose_next_answer(self):
        """Forward the next request, but cut the connection instead of forwarding its answer."""
        self._call(lambda: setattr(self, "_loses_answer", True))

    def _call(self, work):
        """Run a function in the thread of the proxy and wait for its end."""

        async def run():
            work()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    # ----- forwarding ------------------------------------------------------------------------

    def _run(self):
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self):
        self._stopped = asyncio.Event()
        server = await asyncio.start_server(self._on_client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopped.wait()
        server.close()
        self._flowing.set()
        self._cut_all()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*tasks, return_exceptions=True)

    def _cut_all(self):
        for link in tuple(self._links):
            self._cut(link)

    def _cut(self, link):
        if link in self._links:
            self._links.remove(link)
            self.num_cuts += 1
            link.cut()

    async def _on_client(self, reader, writer):
        """Forward both directions until one ends."""
        self.num_links += 1
        if not self.accepts:
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:  # the server is down
            writer.transport.abort()
            return
        link = Link((writer, server_writer))
        self._links.add(link)
        ways = ((reader, server_writer, False), (server_reader, writer, True))
        tasks = [asyncio.ensure_future(self._forward(link, *way)) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self._links.discard(link)
        for way in tasks:
            way.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in link.writers:
            each.close()
            with contextlib.suppress(OSError):
                await each.wait_closed()

    async def _forward(self, link, reader, writer, is_answer):
        """Forward one direction, with faults."""
        with contextlib.suppress(OSError):
            while data := await reader.read(self._rng.randint(1, self.faults.split_max)):
                if self.faults.delay_max_s:
                    await asyncio.sleep(self._rng.uniform(0, self.faults.delay_max_s))
                await self._flowing.wait()
                if is_answer and self._loses_answer:
                    self._loses_answer = False
                    self._cut(link)
                    return
                if self._rng.random() < self.faults.cut_rate:
                    writer.write(data[: self._rng.randrange(len(data) + 1)])
                    await asyncio.sleep(0)
                    self._cut(link)
                    return
                writer.write(data)
                await writer.drain()
