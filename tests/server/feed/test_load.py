"""A thousand subscribers of a running server miss nothing, and its memory stays flat."""

import select
import socket
import threading
import time
from pathlib import Path

import msgspec
import pytest

from clob_server.feed.broadcast import texts_in
from tests.server.feed.book_reader import BookReader, book_in
from tests.server.feed.connection import BUY, SELL, Market
from tests.server.live import live_server

NUM_CLIENTS = 1_000
NUM_ORDERS = 600
GROWTH_BYTES_MAX = 20_000_000
PING, PONG = b"\x89\x04", b"\x8a\x84\0\0\0\0"
"""Headers of a ping with four bytes, and of the pong, masked with zeros."""


class Crowd:
    """Many clients, read by a thread."""

    def __init__(self, live, market, count):
        address = live.url.rpartition("//")[2].split(":")
        self.clients = {}
        self.got = {}
        self.poll = select.epoll()
        for _ in range(count):
            client = socket.create_connection((address[0], int(address[1])))
            client.sendall(
                b"GET /ws HTTP/1.1\r\nHost: localhost\r\n"
                b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            )
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            request = {"type": "subscribe", "channel": "orderbook", "marketId": market.id}
            text = msgspec.json.encode(request)
            client.sendall(bytes((0x81, 0x80 | len(text), 0, 0, 0, 0)) + text)
            self.clients[client.fileno()], self.got[client.fileno()] = client, bytearray()
            self.poll.register(client, select.EPOLLIN)
        self.is_over = False
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while not self.is_over:
            for number, _ in self.poll.poll(0.1):
                data = self.clients[number].recv(1 << 16)
                assert data, "the server closed a connection"
                self.got[number] += data
                self.answer(self.clients[number], data)

    def answer(self, client, data):
        """Answer a ping: on a busy machine the test may exceed the ping timeout."""
        if (place := data.find(PING)) >= 0:
            client.sendall(PONG + data[place + len(PING) :][:4])

    def close(self):
        self.is_over = True
        self.thread.join()
        self.poll.close()
        for client in self.clients.values():
            client.close()


def resident_bytes(live):
    """Return the resident memory of the server."""
    for line in Path(f"/proc/{live.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def trade(market, count):
    """Place orders, each second of which trades with the one before."""
    for number in range(count):
        market.order(SELL if number % 2 else BUY, 50, 10**18)


@pytest.mark.long
def test_a_thousand_subscribers_miss_nothing_and_memory_stays_flat(tmp_path):
    with live_server(tmp_path, rate_limits=False) as live:
        market = Market(live)
        market.order(SELL, 90, 10**18)
        crowd = Crowd(live, market, NUM_CLIENTS)
        trade(market, NUM_ORDERS)  # one-time growth
        before = resident_bytes(live)
        trade(market, NUM_ORDERS)
        book = market.book()
        try:
            wait_until_received(crowd, book["seq"])
            assert resident_bytes(live) < before + GROWTH_BYTES_MAX
        finally:
            crowd.close()
        first, *others = [without_pings(bytes(got)) for got in crowd.got.values()]
        assert all(other == first for other in others)
        reader = BookReader()
        reader.apply(msgspec.json.decode(text) for text in texts_in(first))
        assert reader.seq == book["seq"]
        assert reader.book(market.yes) == book_in(book)


def wait_until_received(crowd, seq):
    """Wait until every client has received an event."""
    deadline, marker = time.monotonic() + 120, b'"seq":%d,' % seq
    while not all(marker in got[-2_000:] for got in crowd.got.values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def without_pings(frames):
    """Remove the ping frames."""
    kept, place = [], 0
    while place < len(frames):
        size, head = frames[place + 1], 2
        if size == 126:
            size, head = int.from_bytes(frames[place + 2 : place + 4]), 4
        if frames[place] == 0x81:
            kept.append(frames[place : place + head + size])
        place += head + size
    return b"".join(kept)
