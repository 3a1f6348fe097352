"""A feed over a real engine and a log in memory, and clients whose connections can be held up.

A client here is what a WebSocket is to the feed: messages that come in, and a door that frames go
out by. What was written waits until the test lets the client read it.
"""

import asyncio
from collections import deque
from types import SimpleNamespace

import msgspec

from clob.errors import RejectedError
from clob_server.core.ids import Ids
from clob_server.core.sequencer import Sequencer
from clob_server.core.state import ServerState
from clob_server.feed import Feed
from clob_server.feed.broadcast import texts_in
from clob_server.log import MemoryLog
from clob_server.settings import Settings
from clob_server.telemetry.metrics import Metrics
from clob_server.transport import PUSH

START_MS = 1_700_000_000_000
TURNS = 20
UNFIT = (RejectedError, TypeError)


class Guard:
    """Lets everybody in, with the key that is named in the handshake."""

    def __init__(self, keys):
        self.keys = keys

    def key_of(self, headers):
        return self.keys.get(headers.get(b"x-api-key"))

    def charge_request(self, key, address):
        pass

    def may_follow(self, key, channel, maker):
        pass


class Stage:
    """An engine that works, and a feed that listens to it."""

    def __init__(self, exchange=None, keys=None, **settings):
        self.exchange = exchange or ServerState()
        self.log = MemoryLog()
        self.now_ms = START_MS
        self.engine = Sequencer(self.log, self.exchange, lambda: self.now_ms)
        self.service = SimpleNamespace(
            settings=Settings(**settings),
            clock_ms=lambda: self.now_ms,
            metrics=Metrics(),
            guard=Guard(keys or {}),
            exchange=self.exchange,
            ids=Ids(bytes(32)),
        )
        self.feed = Feed(self.service)
        self.clients = []

    async def __aenter__(self):
        self.feed.start()
        self.engine.listeners.append(self.feed.listen)
        self._work = asyncio.create_task(self.engine.run())
        return self

    async def __aexit__(self, *error):
        for client in self.clients:
            client.go_away()
        self.feed.close()
        self.engine.stop()
        await self._work
        await asyncio.gather(*(client.task for client in self.clients))
        assert not self.feed.subscribers

    async def client(self, **options):
        """Connect somebody."""
        client = Client(self.feed, **options)
        self.clients.append(client)
        await turns()
        return client

    async def do(self, *commands, num_turns=TURNS):
        """Have commands done in one batch; give what came of each."""
        asked = [asyncio.create_task(self.engine.ask(lambda _, c=c: c)) for c in commands]
        results = await asyncio.gather(*asked, return_exceptions=True)
        for result in results:
            # Some drawn at random cannot even be written down.
            if isinstance(result, BaseException) and not isinstance(result, UNFIT):
                raise result
        await turns(num_turns)
        return results


class Client:
    """Somebody with a WebSocket.

    Args:
        feed: whose.
        reads: if he reads at once all that is sent to him.
        high: when so much waits he is told to be slow; at a quarter of it, to be no longer.
        headers: what the handshake has.
        door: if the transport has a door for frames; else all goes through ASGI.
    """

    def __init__(self, feed, *, reads=True, high=65_536, headers=(), door=True):
        self.reads, self.high = reads, high
        self.drained = None
        self.tell = self.write
        self.closed = None
        self.aborted = False
        self.got = []
        self.messages = []
        self._unread = deque()
        self._num_unread = 0
        self._is_paused = False
        self._in = asyncio.Queue()
        self._in.put_nowait({"type": "websocket.connect"})
        extensions = {PUSH: self} if door else {}
        scope = {
            "type": "websocket",
            "headers": list(headers),
            "client": ("test", 1),
            "extensions": extensions,
        }
        self.task = asyncio.create_task(feed(scope, self._in.get, self._send))

    # ----- what the feed sees ----------------------------------------------------------------

    def write(self, frame):
        if self.closed is not None or self.aborted:
            return False
        if self.reads and not self._unread:
            self._take(frame)
            return True
        self._unread.append(frame)
        self._num_unread += len(frame)
        self._is_paused = self._is_paused or self._num_unread > self.high
        return True

    def buffered(self):
        return self._num_unread

    def abort(self):
        self.aborted = True
        self.go_away()

    async def _send(self, message):
        if message["type"] == "websocket.send":
            self.messages.append(msgspec.json.decode(message["text"]))
        elif message["type"] == "websocket.close":
            while self._is_paused:  # uvicorn waits, too
                await asyncio.sleep(0)
            self.closed = message["code"]
            self.reason = message["reason"]
            self.go_away()

    # ----- what the test does ----------------------------------------------------------------

    async def say(self, text=None, **fields):
        """Send a message, and wait until it was heard."""
        text = msgspec.json.encode(fields).decode() if text is None else text
        self._in.put_nowait({"type": "websocket.receive", "text": text})
        await turns()

    async def subscribe(self, market="m", **fields):
        await self.say(type="subscribe", channel="orderbook", marketId=market, **fields)

    def read(self, num_bytes=None):
        """Read so much of what waits, whole writes only; None is all of it."""
        while self._unread and (num_bytes is None or num_bytes > 0):
            frame = self._unread.popleft()
            self._num_unread -= len(frame)
            num_bytes = None if num_bytes is None else num_bytes - len(frame)
            self._take(frame)
        if self._is_paused and self._num_unread <= self.high // 4:
            self._is_paused = False
            if self.drained is not None:
                self.drained()

    def read_all(self):
        """Read until nothing more comes."""
        while self._unread:
            self.read()

    def _take(self, frames):
        self.got.append(frames)
        self.messages += map(msgspec.json.decode, texts_in(frames))

    def taken(self, kind=None):
        """Give what was read since the last time, or what of it is of one type."""
        messages, self.messages = self.messages, []
        return [m for m in messages if kind in (None, m["type"])]

    def go_away(self):
        """Leave."""
        self._in.put_nowait({"type": "websocket.disconnect", "code": 1005})


async def turns(count=TURNS):
    """Let everything happen that can, or so much of it."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition, patience_s=30):
    """Wait until something is so."""
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.01)


def played(story):
    """Have a story told to its end, which must come."""
    return asyncio.run(asyncio.wait_for(story, 120))


def refused(results):
    """The codes of what was refused."""
    return [result.code for result in results if isinstance(result, RejectedError)]
