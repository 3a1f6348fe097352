"""The feed of a server that runs: clients who stall, who come with keys, and its end."""

import asyncio
import contextlib
import json
import socket
import time

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.server.feed.readers import BookReader, book_in
from tests.server.feed.talk import BUY, MAKER, SELL, Market, Talk
from tests.server.live import live_server

NUM_CLIENTS = 200
NUM_ORDERS = 60


class Stalled:
    """A client who subscribes and then reads nothing, until he is asked to."""

    def __init__(self, live, market):
        host, port = live.url.rpartition("//")[2].split(":")
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self.socket.settimeout(30)
        self.socket.connect((host, int(port)))
        self.socket.sendall(
            b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        while not self.socket.recv(1_000).endswith(b"\r\n\r\n"):
            pass
        text = json.dumps({"type": "subscribe", "channel": "orderbook", "marketId": market.id})
        head = bytes((0x81, 0x80 | len(text), 0, 0, 0, 0))
        self.socket.sendall(head + text.encode())
        self.left = b""

    def frames(self):
        """Read, and give the first byte and the payload of each frame."""
        while True:
            while (size := self.size()) is None:
                got = self.socket.recv(1 << 16)
                if not got:
                    return
                self.left += got
            head, payload = self.left[0], self.left[size[0] : size[0] + size[1]]
            self.left = self.left[sum(size) :]
            yield head, payload

    def size(self):
        """Give the sizes of head and payload of the next frame, if all of it is there."""
        if len(self.left) < 10:
            return None
        size, head = self.left[1], 2
        if size == 126:
            size, head = int.from_bytes(self.left[2:4]), 4
        elif size == 127:
            size, head = int.from_bytes(self.left[2:10]), 10
        return (head, size) if len(self.left) >= head + size else None


def stir(market, count, first=0):
    """Have orders come in, each of which trades with the one before."""
    for number in range(first, first + count):
        market.order(SELL if number % 2 else BUY, 50, 10**18)


@pytest.fixture
def market(live):
    made = Market(live)
    made.order(SELL, 90, 10)
    return made


def metric(live, name):
    """Read one number of the metrics."""
    [line] = [
        line for line in live.http.get("/metrics").text.splitlines() if line.startswith(f"{name} ")
    ]
    return int(float(line.split()[1]))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """A server that allows little to wait."""
    folder = tmp_path_factory.mktemp("narrow")
    with live_server(
        folder, rate_limits=False, ws_soft_bytes=2_000, ws_stall_timeout_s=3
    ) as server:
        yield server


def test_a_stalled_client_is_told_afresh_and_delays_nobody(narrow):
    market = Market(narrow)
    market.order(SELL, 90, 10)
    stalled = Stalled(narrow, market)
    with Talk(narrow) as talk:
        talk.subscribe(market)
        whole, count = BookReader(), 0
        while not metric(narrow, "clob_websockets_behind"):
            stir(market, 200, count)
            count += 200
        seq = market.book()["seq"]
        while whole.seq != seq:
            whole.take([talk.hear()])
        assert whole.book(market.yes) == book_in(market.book())
    reader, skipped = BookReader(gapless=False), 0
    for head, payload in stalled.frames():
        if head == 0x81:
            message = msgspec.json.decode(payload)
            skipped += message["type"] == "orderbook"
            reader.take([message])
            if reader.seq == seq:
                break
    assert skipped > 1
    assert reader.book(market.yes) == book_in(market.book())
    stalled.socket.close()


def test_a_client_who_stalls_for_long_is_dropped(narrow):
    market = Market(narrow)
    market.order(SELL, 90, 10)
    stalled = Stalled(narrow, market)
    count = 0
    while not metric(narrow, "clob_websockets_behind"):
        stir(market, 200, count)
        count += 200
    while metric(narrow, "clob_websockets_behind"):  # he reads nothing of it
        time.sleep(0.05)
    with contextlib.suppress(ConnectionResetError):
        for head, payload in stalled.frames():
            if head == 0x88:
                assert int.from_bytes(payload[:2]) == 1008
                break
    stalled.socket.close()


def test_two_hundred_clients_lose_nothing_beside_one_who_stalls(live, market):
    wish = json.dumps({"type": "subscribe", "channel": "orderbook", "marketId": market.id})

    async def story():
        stalled = Stalled(live, market)
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(connect(live.ws_url)) for _ in range(NUM_CLIENTS)
            ]
            for client in clients:
                await client.send(wish)
            first = [await client.recv() for client in clients]
            tasks = [asyncio.create_task(told(client)) for client in clients]
            await asyncio.to_thread(stir, market, NUM_ORDERS)
            for snapshot, task in zip(first, tasks, strict=True):
                reader = BookReader()
                reader.take([msgspec.json.decode(snapshot), *await task])
                assert reader.book(market.yes) == book_in(market.book())
        stalled.socket.close()

    async def told(client):
        """Read until the last order has traded."""
        messages, count = [], 0
        while count < NUM_ORDERS // 2:
            messages.append(msgspec.json.decode(await asyncio.wait_for(client.recv(), 30)))
            count += messages[-1]["type"] == "order_removed"
        return messages

    asyncio.run(story())


def test_a_key_that_is_bad_is_refused_at_the_handshake(live):
    answer = live.http.get(
        "/ws",
        headers={
            "X-API-Key": "clob_no_key",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        },
    )
    assert (answer.status_code, answer.json()["code"]) == (401, "INVALID_API_KEY")


def test_the_number_of_websockets_is_among_the_metrics(live, market):
    before = metric(live, "clob_websockets")
    with Talk(live) as talk:
        talk.subscribe(market)
        talk.hear()
        assert metric(live, "clob_websockets") == before + 1


def test_a_server_that_ends_closes_with_1012(tmp_path):
    with live_server(tmp_path, rate_limits=False) as live, Talk(live) as talk:
        talk.say(type="subscribe", channel="user", maker=MAKER)
        talk.hear()
        assert live.stop() == 0
        with pytest.raises(ConnectionClosed) as closed:
            talk.hear()
        assert closed.value.rcvd.code == 1012


def test_after_a_restart_the_numbers_go_on(tmp_path):
    with live_server(tmp_path, rate_limits=False) as live:
        market = Market(live)
        market.order(SELL, 60, 10)
        kept = market.order(SELL, 61, 10)["orderId"]
        live.kill()
    with live_server(tmp_path, rate_limits=False) as live, Talk(live) as talk:
        market.live = live
        talk.subscribe(market, extended=True, resume={"seq": 1})
        subscribed, snapshot = talk.hear(2)
        assert (subscribed["resumed"], subscribed["seq"], snapshot["seq"]) == (False, 2, 2)
        market.cancel(kept)
        removed = talk.hear()
        assert (removed["seq"], removed["data"]["price"], removed["data"]["size"]) == (3, 61, "10")
