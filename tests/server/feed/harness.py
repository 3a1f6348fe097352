"""A feed over a sequencer with a log in memory, and clients whose connections can be stalled.

A client provides the messages that arrive and the push extension of the transport. Written frames
stay in its buffer until the test reads them.
"""

import asyncio
from collections import deque

import msgspec

from clob.errors import RejectedError
from clob_server.api.request import RequestIds
from clob_server.core.ids import Ids
from clob_server.core.sequencer import Sequencer
from clob_server.core.state import ServerState
from clob_server.core.switches import CancelSwitches
from clob_server.feed import FeedServer
from clob_server.feed.broadcast import texts_in
from clob_server.history.ticker import MarketDay, ticker_body, tokens_of
from clob_server.log import MemoryLog
from clob_server.settings import Settings
from clob_server.telemetry.metrics import Metrics
from clob_server.transport.websocket import PUSH

START_MS = 1_700_000_000_000
ITERATIONS = 20
EXPECTED_ERRORS = (RejectedError, TypeError)
"""Errors of random commands: rejections, and values that cannot be encoded."""


class OpenGuard:
    """Accepts every client, with the key that its handshake or its message names."""

    def __init__(self, keys):
        self.keys = keys

    def check_site(self, headers):
        pass

    def key_of_handshake(self, headers, address):
        return self.keys.get(headers.get(b"x-api-key"))

    def key_of_message(self, sent, address):
        return self.keys[sent]

    def charge_request(self, key, address):
        pass

    def may_follow(self, key, channel, maker):
        pass

    def may_arm(self, key, address, maker):
        pass


class EchoOperations:
    """Operations of any name, which answer with the body of the request."""

    runs_alone = False

    def find(self, name):
        return self

    def client(self, handshake):
        return {}

    def start(self, request, body, client, send_reply):
        head = b"content-type: application/json\r\ncontent-length: 1\r\n"
        send_reply(200, head + b"x-request-id: r-1\r\n", body)


class FeedHarness:
    """A running sequencer with a feed."""

    def __init__(self, state=None, keys=None, **settings):
        self.exchange = state or ServerState()
        self.log = MemoryLog()
        self.now_ms = START_MS
        self.ids = Ids(bytes(32))
        self.engine = Sequencer(self.log, self.exchange, lambda: self.now_ms)
        guard = OpenGuard(keys or {})
        self.feed = FeedServer(
            Settings(**settings), guard, lambda: self.now_ms, Metrics(), RequestIds()
        )
        self.feed.operations = EchoOperations()
        self.clients = []

    async def __aenter__(self):
        switches = CancelSwitches(self.engine)
        self.feed.start(self.exchange, self.ids, switches, market_data=(self.ticker, self.candles))
        self.engine.subscribe(self.feed.on_batch, switches.on_batch)
        self._work = asyncio.create_task(self.engine.run())
        return self

    async def __aexit__(self, *error):
        for client in self.clients:
            client.disconnect()
        self.feed.close()
        self.engine.stop()
        await self._work
        await asyncio.gather(*(client.task for client in self.clients))
        assert not self.feed.subscribers

    async def ticker(self, market):
        """Return the ticker of a market, as if it had no trades."""
        terms = self.exchange.matcher.market(market)
        return ticker_body(self.exchange, terms, MarketDay(terms), self.now_ms)

    async def candles(self, market, interval, begins):
        """Return the candles of a market, as if it had no trades."""
        return {token: [] for token in tokens_of(self.exchange.matcher.market(market))}

    async def client(self, **options):
        """Connect a client."""
        client = Client(self.feed, **options)
        self.clients.append(client)
        await run_loop()
        return client

    async def apply(self, *commands, num_iterations=ITERATIONS):
        """Submit commands in one batch; return the result or error of each."""
        tasks = [asyncio.create_task(self.engine.submit(lambda _, c=c: c)) for c in commands]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, EXPECTED_ERRORS):
                raise result
        await run_loop(num_iterations)
        return results


class Client:
    """A WebSocket client.

    Args:
        feed: the feed to connect to.
        reads: whether it reads every frame at once.
        high: unread bytes above which the connection is paused; at a quarter it resumes.
        headers: headers of the handshake.
        push: whether the transport has the push extension; else frames are sent through ASGI.
    """

    def __init__(self, feed, *, reads=True, high=65_536, headers=(), push=True):
        self.reads, self.high = reads, high
        self.drained = None
        self.write_unchecked = self.write
        self.closed = None
        self.aborted = False
        self.writes = []
        self.messages = []
        self._unread = deque()
        self._num_unread = 0
        self._is_paused = False
        self._in = asyncio.Queue()
        self._in.put_nowait({"type": "websocket.connect"})
        extensions = {PUSH: self} if push else {}
        scope = {
            "type": "websocket",
            "headers": list(headers),
            "client": ("test", 1),
            "extensions": extensions,
        }
        self.task = asyncio.create_task(feed(scope, self._in.get, self._send))

    # ----- called by the feed ----------------------------------------------------------------

    def write(self, frame):
        if self.closed is not None or self.aborted:
            return False
        if self.reads and not self._unread:
            self._read(frame)
            return True
        self._unread.append(frame)
        self._num_unread += len(frame)
        self._is_paused = self._is_paused or self._num_unread > self.high
        return True

    def buffered(self):
        return self._num_unread

    def abort(self):
        self.aborted = True
        self.disconnect()

    async def _send(self, message):
        if message["type"] == "websocket.send":
            self.messages.append(msgspec.json.decode(message["text"]))
        elif message["type"] == "websocket.close":
            while self._is_paused:  # as uvicorn does
                await asyncio.sleep(0)
            self.closed = message["code"]
            self.reason = message["reason"]
            self.disconnect()

    # ----- called by the test ----------------------------------------------------------------

    async def send(self, text=None, **fields):
        """Send a message, and wait until it was handled."""
        text = msgspec.json.encode(fields).decode() if text is None else text
        self._in.put_nowait({"type": "websocket.receive", "text": text})
        await run_loop()

    async def subscribe(self, market="m", **fields):
        await self.send(type="subscribe", channel="orderbook", marketId=market, **fields)

    def read(self, num_bytes=None):
        """Read whole writes up to about ``num_bytes``; None for the whole buffer."""
        while self._unread and (num_bytes is None or num_bytes > 0):
            frame = self._unread.popleft()
            self._num_unread -= len(frame)
            num_bytes = None if num_bytes is None else num_bytes - len(frame)
            self._read(frame)
        if self._is_paused and self._num_unread <= self.high // 4:
            self._is_paused = False
            if self.drained is not None:
                self.drained()

    def read_all(self):
        """Read until no more frames are written."""
        while self._unread:
            self.read()

    def _read(self, frames):
        self.writes.append(frames)
        self.messages += map(msgspec.json.decode, texts_in(frames))

    def received(self, kind=None):
        """Return the messages since the last call, or those of one type."""
        messages, self.messages = self.messages, []
        return [m for m in messages if kind in (None, m["type"])]

    def disconnect(self):
        """Close the connection."""
        self._in.put_nowait({"type": "websocket.disconnect", "code": 1005})


async def run_loop(count=ITERATIONS):
    """Run iterations of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition, patience_s=30, pause_s=0.01):
    """Wait until a condition holds."""
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(pause_s)
