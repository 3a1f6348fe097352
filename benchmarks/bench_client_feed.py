"""The client of the feed: its local book, an order over a WebSocket, and a resume after a cut.

A further row is the time from a POST of an order until a subscriber has applied its events, of one
order at a time; it includes both Python clients.

The messages of the book are those of the server for a random flow, without sockets: each is decoded
and applied. An order's cost is the processor time of the client, beyond that of a bare `websockets`
connection that sends the same bytes and receives the answer. Both sides use the same server in
turn, with different orders.
"""

import asyncio
import json
import random  # noqa: TID251 - seeded
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import httpx
import msgspec
from websockets.asyncio.client import connect

from benchmarks.bench_http import server
from benchmarks.measure import Row, check_equal, frozen_gc
from benchmarks.orders import MARKET, TOKENS, gasless_bodies, signed_bodies
from benchmarks.workload import cache_dir
from clob import (
    AddMarket,
    Cancel,
    Limits,
    Market,
    Order,
    OrderAdded,
    RejectedError,
    SetLimits,
    Side,
    Submit,
    Trade,
    tokens,
)
from clob.client.connection import Backoff
from clob.client.feed import Feed
from clob.client.local_book import LocalBook
from clob.client.message_stream import FeedState
from clob.wire.messages import EVERY, LevelsData, Orderbook, encode
from clob_server.core.ids import Ids
from clob_server.core.sequencer import Committed
from clob_server.core.state import ServerState
from clob_server.feed.broadcast import texts_in
from clob_server.feed.event_messages import EventEncoder
from clob_server.feed.market_stream import MarketStreams
from clob_server.settings import Settings

EVENTS_TARGET = 200_000
"""Events per second, decoded and applied."""
ORDER_TARGET_US = 60
RESUME_TARGET_MS = 1_000
YES, NO = (str(each) for each in TOKENS)


class Sizes(NamedTuple):
    """Events of a book; rounds, and orders of each side in a round; cuts."""

    num_events: int = 100_000
    rounds: int = 5
    num_orders: int = 2_000
    num_cuts: int = 20


QUICK = Sizes(num_events=5_000, rounds=1, num_orders=200, num_cuts=2)


# ----- local book --------------------------------------------------------------------------------


class Recorded:
    """The messages that the server sends about a market during a random flow.

    Args:
        count: number of messages.
        complementary: whether an event changes the books of both tokens.
    """

    def __init__(self, count: int, *, complementary: bool) -> None:
        self.rng = random.Random(1)
        self.state = ServerState()
        self.state.apply(SetLimits(limits=Limits(orders_max=1 << 30), now_ms=0))
        market = Market(id="m", yes=YES, no=NO, lot_wei=100, complementary=complementary)
        self.state.apply(AddMarket(market=market, now_ms=0))
        self.streams = MarketStreams(self.state, 1_000)
        self.encoder = EventEncoder(Ids(bytes(32)))
        self.alive: list[str] = []
        self.num_orders = self.num_trades = 0
        self.messages: list[str | bytes] = [snapshot(YES), snapshot(NO)]
        while len(self.messages) < count:
            self.step()

    def step(self) -> None:
        """Apply a random command and keep its messages."""
        command = self.command()
        try:
            events = self.state.apply(command)
        except RejectedError:  # a cancel of a filled order
            return
        assert not isinstance(events, RejectedError)
        done = Committed(0, command, events, self.num_trades)
        self.num_trades += sum(isinstance(event, Trade) for event in events)
        self.alive += [str(event.order_id) for event in events if isinstance(event, OrderAdded)]
        for each in (
            happened for found in self.streams.on_batch([done]).values() for happened in found
        ):
            self.messages += texts_in(self.encoder.encode(each, extended=True))

    def command(self) -> Submit | Cancel:
        """Return a random order around the middle, or a cancel."""
        rng = self.rng
        if self.alive and rng.random() < 0.45:
            order_id = self.alive.pop(rng.randrange(len(self.alive)))
            return Cancel(market="m", order_id=order_id, now_ms=1)
        self.num_orders += 1
        side = Side(rng.randrange(2))
        order = Order(
            id=f"ord_1700000000_{self.num_orders:06x}",
            token=YES,
            maker=f"0x{'a' * 40}",
            side=side,
            price=rng.randint(40, 52) + 8 * side,
            size=tokens(rng.randint(1, 20)),
        )
        return Submit(market="m", order=order, now_ms=1)


def snapshot(token: str) -> bytes:
    """Return the snapshot of an empty book."""
    levels = LevelsData(bids=[], asks=[], last_update=0, checksum=zlib.crc32(b"|"))
    return encode(Orderbook(market_id="m", token_id=token, seq=0, timestamp=0, data=levels))


def book_row(recorded: Recorded, title: str, rounds: int) -> Row:
    """Return the row of decoding and applying messages."""
    kind = EVERY[0]
    for each in EVERY[1:]:
        kind |= each  # type: ignore[assignment]
    decode, taken_ns = msgspec.json.Decoder(kind).decode, []
    for _ in range(rounds):
        book = LocalBook("m")
        apply, messages = book.apply, recorded.messages
        with frozen_gc(enabled=True):
            begin_ns = time.process_time_ns()
            for message in messages:
                apply(decode(message))  # type: ignore[arg-type]
            taken_ns.append(time.process_time_ns() - begin_ns)
        for token in (YES, NO):
            depth = recorded.state.matcher.depth("m", token)
            kept = book.token(token).depth()
            check_equal(f"book of {token}", (depth.bids, depth.asks), (kept.bids, kept.asks))
    event_ns = median(taken_ns) / len(recorded.messages)
    per_s = 1e9 / event_ns
    target = f">= {EVENTS_TARGET:,}/s"
    return Row(title, target, f"{per_s:,.0f}/s", per_s >= EVENTS_TARGET, None, event_ns)


# ----- orders ------------------------------------------------------------------------------------


async def send_bare(url: str, bodies: list[str]) -> int:
    """Send orders one by one over a bare connection; return the processor time in ns."""
    messages = [
        f'{{"type":"request","id":{number},"operation":"create_order","body":{body}}}'.encode()
        for number, body in enumerate(bodies)
    ]
    address = f"{url.replace('http', 'ws', 1)}/ws"
    async with connect(address, compression=None, ping_interval=None, max_queue=None) as connection:
        with frozen_gc(enabled=True):
            begin_ns = time.process_time_ns()
            for message in messages:
                await connection.send(message, text=True)
                answer = await connection.recv(decode=False)
                assert b'"status":200' in answer
            return time.process_time_ns() - begin_ns


async def send_by_client(url: str, bodies: list[str]) -> int:
    """Send orders one by one with the client; return the processor time in ns."""
    orders = [json.loads(body) for body in bodies]
    async with Feed(url) as feed:
        with frozen_gc(enabled=True):
            begin_ns = time.process_time_ns()
            for order in orders:
                placed = await feed.request("create_order", body=order)
                assert placed.success
            return time.process_time_ns() - begin_ns


def order_row(url: str, sizes: Sizes) -> Row:
    """Return the row of an order's processor time in the client."""
    bare, ours = [], []
    for turn in range(sizes.rounds):
        bodies = signed_bodies(2 * sizes.num_orders, Settings().domain, turn)
        first, second = bodies[::2], bodies[1::2]
        bare.append(asyncio.run(send_bare(url, first)) / sizes.num_orders)
        ours.append(asyncio.run(send_by_client(url, second)) / sizes.num_orders)
    more_us = median(mine - other for mine, other in zip(ours, bare, strict=True)) / 1e3
    title = "client: order over a WebSocket, processor time beyond bare"
    target = f"<= {ORDER_TARGET_US} us"
    met = more_us <= ORDER_TARGET_US
    return Row(title, target, f"{more_us:.1f} us", met, median(bare), median(ours))


# ----- from POST to read -------------------------------------------------------------------------


def is_updated(book: LocalBook, seq: int | None, feed: Feed) -> bool:
    """Return whether a feed is live and its book has another last event than ``seq``."""
    return feed.state is FeedState.LIVE and book.seq != seq


async def post_to_read_ms(url: str, bodies: list[str]) -> list[float]:
    """Return the times from the POST of an order until a local book has it, milliseconds."""
    taken_ms, json_type = [], {"Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=url, headers=json_type) as http, Feed(url) as feed:
        book = await feed.orderbook(MARKET)
        for body in bodies:
            seq = book.seq
            begin_s = time.perf_counter()
            posting = asyncio.create_task(http.post("/api/orders", content=body))
            await feed.until(partial(is_updated, book, seq, feed))
            taken_ms.append((time.perf_counter() - begin_s) * 1e3)
            check_equal("status of a create", 200, (await posting).status_code)
    return taken_ms


def post_to_read_row(url: str, sizes: Sizes) -> Row:
    """Return the row of the time from a POST until its events are read."""
    bodies = signed_bodies(sizes.num_orders, Settings().domain, sizes.rounds)
    cuts = quantiles(asyncio.run(post_to_read_ms(url, bodies)), n=100)
    title = "client: from the POST of an order until its events are read, p50 and p99"
    return Row(title, "", f"{cuts[49]:.2f}, {cuts[98]:.2f} ms", None)


# ----- resume ------------------------------------------------------------------------------------


async def resume_ms(url: str, num_cuts: int) -> list[float]:
    """Return the times from a cut until book and orders are up to date, milliseconds."""
    taken_ms, missed = [], iter(gasless_bodies(num_cuts, seed=1))
    async with Feed(url, backoff=Backoff(steady_s=0)) as feed, Feed(url) as other:
        book = await feed.orderbook(MARKET)
        mine = await feed.own_orders(f"0x{1:040x}")
        for body in missed:
            seq = book.seq
            begin_s = time.perf_counter()
            feed.cut()
            await feed.until(lambda: feed.state is FeedState.RECONNECTING)
            await other.request("create_gasless_order", body=json.loads(body))
            await feed.until(partial(is_updated, book, seq, feed))
            taken_ms.append((time.perf_counter() - begin_s) * 1e3)
        assert mine.position is not None
    return taken_ms


def resume_row(url: str, sizes: Sizes) -> Row:
    """Return the row of a resume after a cut, the wait before the attempt included."""
    longest = max(asyncio.run(resume_ms(url, sizes.num_cuts)))
    title = f"client: longest of {sizes.num_cuts} resumes after a cut"
    target = f"<= {RESUME_TARGET_MS} ms"
    return Row(title, target, f"{longest:.0f} ms", longest <= RESUME_TARGET_MS)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    sizes = QUICK if quick else Sizes()
    for complementary, of in ((False, "a market"), (True, "complementary tokens")):
        recorded = Recorded(sizes.num_events, complementary=complementary)
        title = f"client: local book of {of}, decode and apply"
        yield book_row(recorded, title, sizes.rounds)
    if shutil.which("taskset") is None:
        yield Row("client: orders and resumes not measured, they need taskset", "", "", None)
        return
    with (
        tempfile.TemporaryDirectory(dir=cache_dir()) as folder,
        server(Path(folder) / "data", "process") as side,
    ):
        yield order_row(side.url, sizes)
        yield post_to_read_row(side.url, sizes)
        yield resume_row(side.url, sizes)
