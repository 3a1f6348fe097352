"""The feed of a running server: stalled clients, API keys and shutdown."""

import asyncio
import contextlib
import json
import time

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.server.feed.book_reader import BookReader, book_in
from tests.server.feed.connection import BUY, MAKER, SELL, Connection, Market, Stalled
from tests.server.live import live_server

NUM_CLIENTS = 200
NUM_ORDERS = 60
TEN = 10 * 10**18
"""Ten tokens, in wei."""


def following(market):
    """Return the request that subscribes to a market."""
    return {"type": "subscribe", "channel": "orderbook", "marketId": market.id}


def trade(market, count, first=0):
    """Place orders, each second of which trades with the one before."""
    for number in range(first, first + count):
        market.order(SELL if number % 2 else BUY, 50, 10**18)


@pytest.fixture
def market(live):
    made = Market(live)
    made.order(SELL, 90, TEN)
    return made


def metric(live, name):
    """Return the value of a metric."""
    [line] = [
        line for line in live.http.get("/metrics").text.splitlines() if line.startswith(f"{name} ")
    ]
    return int(float(line.split()[1]))


@pytest.fixture(scope="module")
def small_buffers(tmp_path_factory):
    """A server with small buffers."""
    folder = tmp_path_factory.mktemp("small")
    with live_server(
        folder, rate_limits=False, ws_soft_bytes=2_000, ws_stall_timeout_s=3
    ) as server:
        yield server


def test_stalled_client_receives_a_snapshot_and_does_not_delay_others(small_buffers):
    market = Market(small_buffers)
    market.order(SELL, 90, TEN)
    stalled = Stalled(small_buffers, following(market))
    with Connection(small_buffers) as connection:
        connection.subscribe(market)
        whole, count = BookReader(), 0
        while not metric(small_buffers, "clob_websockets_behind"):
            trade(market, 200, count)
            count += 200
        seq = market.book()["seq"]
        while whole.seq != seq:
            whole.apply([connection.receive()])
        assert whole.book(market.yes) == book_in(market.book())
    reader, skipped = BookReader(gapless=False), 0
    for head, payload in stalled.frames():
        if head == 0x81:
            message = msgspec.json.decode(payload)
            skipped += message["type"] == "orderbook"
            reader.apply([message])
            if reader.seq == seq:
                break
    assert skipped > 1
    assert reader.book(market.yes) == book_in(market.book())
    stalled.socket.close()


def test_client_that_stalls_for_long_is_closed(small_buffers):
    market = Market(small_buffers)
    market.order(SELL, 90, TEN)
    stalled = Stalled(small_buffers, following(market))
    count = 0
    while not metric(small_buffers, "clob_websockets_behind"):
        trade(market, 200, count)
        count += 200
    while metric(small_buffers, "clob_websockets_behind"):  # until the server closes it
        time.sleep(0.05)
    with contextlib.suppress(ConnectionResetError):
        for head, payload in stalled.frames():
            if head == 0x88:
                assert int.from_bytes(payload[:2]) == 1008
                break
    stalled.socket.close()


async def test_two_hundred_clients_miss_nothing_while_one_stalls(live, market):
    request = json.dumps({"type": "subscribe", "channel": "orderbook", "marketId": market.id})

    async def read_until_last_trade(client):
        """Return the messages up to the last trade."""
        messages, count = [], 0
        while count < NUM_ORDERS // 2:
            messages.append(msgspec.json.decode(await asyncio.wait_for(client.recv(), 30)))
            count += messages[-1]["type"] == "order_removed"
        return messages

    stalled = Stalled(live, following(market))
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connect(live.ws_url)) for _ in range(NUM_CLIENTS)
        ]
        for client in clients:
            await client.send(request)
        first = [await client.recv() for client in clients]
        tasks = [asyncio.create_task(read_until_last_trade(client)) for client in clients]
        await asyncio.to_thread(trade, market, NUM_ORDERS)
        for snapshot, task in zip(first, tasks, strict=True):
            reader = BookReader()
            reader.apply([msgspec.json.decode(snapshot), *await task])
            assert reader.book(market.yes) == book_in(market.book())
    stalled.socket.close()


def test_invalid_key_is_rejected_in_the_handshake(live):
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


def test_metrics_count_websockets(live, market):
    before = metric(live, "clob_websockets")
    with Connection(live) as connection:
        connection.subscribe(market)
        connection.receive()
        assert metric(live, "clob_websockets") == before + 1


def test_shutdown_closes_with_1012(tmp_path):
    with live_server(tmp_path, rate_limits=False) as live, Connection(live) as connection:
        connection.send(type="subscribe", channel="user", maker=MAKER)
        connection.receive()
        assert live.stop() == 0
        with pytest.raises(ConnectionClosed) as closed:
            connection.receive()
        assert closed.value.rcvd.code == 1012


def test_sequence_numbers_continue_after_a_restart(tmp_path):
    with live_server(tmp_path, rate_limits=False) as live:
        market = Market(live)
        market.order(SELL, 60, TEN)
        kept = market.order(SELL, 61, TEN)["orderId"]
        live.kill()
    with live_server(tmp_path, rate_limits=False) as live, Connection(live) as connection:
        market.live = live
        connection.subscribe(market, extended=True, resume={"seq": 1})
        subscribed, snapshot = connection.receive(2)
        assert (subscribed["resumed"], subscribed["seq"], snapshot["seq"]) == (False, 2, 2)
        market.cancel(kept)
        removed = connection.receive()
        assert (removed["seq"], removed["data"]["price"], removed["data"]["size"]) == (
            3,
            61,
            str(TEN),
        )
