"""Books rebuilt from the stream equal the engine's books at every sequence number."""

import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

import msgspec
import pytest

from clob import AddMarket, Matcher, Mode, RejectedError, RemovalReason, SetMode
from clob_server.core.commands import ENGINE
from clob_server.feed import broadcast
from tests.matcher_model.flow import EVERYTHING, Flow
from tests.matcher_model.worlds import PAIRED, SMALL, TIGHT
from tests.server.feed.book_reader import BookReader, book_of
from tests.server.feed.harness import ITERATIONS, FeedHarness, run_loop

NUM_COMMANDS = 4_000
EVENTS = (
    "orderbook",
    "order_added",
    "order_reduced",
    "reduced",
    "trade",
    "resumed",
    "not resumed",
    "skipped",
)
WORLDS = {"small": SMALL, "tight": TIGHT, "paired": PAIRED}


class Books:
    """Books of each market after each command, from a second matcher."""

    def __init__(self):
        self.matcher = Matcher()
        self.seen = {}

    def on_batch(self, batch):
        for done in batch:
            if type(done.command) in ENGINE:
                self.apply(done.command)

    def apply(self, command):
        try:
            self.matcher.apply(command)
        except RejectedError:
            return
        for market in self.matcher.markets:
            seq = self.matcher.seq(market.id)
            if (market.id, seq, bool(market.no)) not in self.seen:
                tokens = [token for token in (market.yes, market.no) if token]
                self.seen[market.id, seq, bool(market.no)] = {
                    token: book_of(self.matcher.depth(market.id, token)) for token in tokens
                }

    def check(self, market, reader, message):
        """Compare a reader's books, unless it is between two events of a command."""
        for named in (False, True):
            books = self.seen.get((market, reader.seq, named))
            if books is None or reader.reduced is not None:
                continue
            # the other token's snapshot, or its part of a complementary event, may still follow
            alone = message["type"] == "orderbook" or self.matcher.market(market).complementary
            tokens = [message["tokenId"]] if alone else list(books)
            for token in tokens:
                assert token not in books or reader.book(token) == books[token]


KEPT = {kind: weight for kind, weight in EVERYTHING.items() if kind != "remove_market"}
"""Weights of commands that remove no market."""


class Follower:
    """A client that follows a market over a fast or slow connection."""

    def __init__(self, simulation, market, *, extended, slow, rng):
        self.simulation, self.market, self.extended = simulation, market, extended
        self.slow, self.rng = slow, rng
        self.client = None
        self.reader = None
        self.compared = 0
        self.counts = Counter()

    async def connect(self):
        """Connect or reconnect; sometimes resume."""
        self.client = await self.simulation.harness.client(reads=not self.slow, high=3_000)
        resume = {}
        if self.reader is not None and self.extended and self.rng.random() < 0.8:
            resume = {"resume": {"seq": self.reader.seq}} if self.reader.seq is not None else {}
        if not resume:
            self.reader = None
        if self.reader is None:
            self.reader = BookReader(self.check, gapless=not self.slow)
        await self.client.subscribe(self.market, extended=self.extended, **resume)
        if resume:
            self.client.read(2_000)
            messages = [m for m in self.client.messages if m["type"] == "subscribed"]
            self.counts["resumed" if messages[0]["resumed"] else "not resumed"] += 1
            if not messages[0]["resumed"]:
                self.reader = BookReader(self.check, gapless=not self.slow)

    def check(self, reader, message):
        self.compared += 1
        kind = message["type"]
        self.counts["skipped"] += reader.has_gap
        self.counts[message["data"]["reason"] if kind == "order_removed" else kind] += 1
        self.simulation.books.check(self.market, reader, message)

    async def step(self):
        """Read some messages; sometimes disconnect for a while."""
        if self.client is None:
            if self.rng.random() < 0.8:
                return
            await self.connect()
        if self.slow:
            self.client.read(self.rng.choice((0, 0, 0, 0, 300, 2_000)))
        self.reader.apply(self.client.received())
        if self.rng.random() < 0.02:
            self.client.disconnect()
            self.client = None

    def finish(self):
        """Read all messages, and compare with the final books."""
        self.client.read_all()
        self.reader.apply(self.client.received())
        matcher = self.simulation.harness.exchange.matcher
        assert self.reader.seq == matcher.seq(self.market)
        market = matcher.market(self.market)
        for token in (market.yes, market.no):
            if token:
                assert self.reader.book(token) == book_of(matcher.depth(self.market, token))


class Simulation:
    """Random commands in random batches, and clients of every kind."""

    def __init__(self, world, seed):
        self.rng = random.Random(seed)
        self.world = msgspec.structs.replace(world, broken=0)
        self.books = Books()
        self.harness = FeedHarness(ws_soft_bytes=3_000, ws_resume_events=12)

    async def run(self):
        self.harness.engine.subscribe(self.books.on_batch)
        async with self.harness as harness:
            flow = Flow(self.rng, self.world, harness.exchange.matcher)
            pending = Follower(self, "bare", extended=False, slow=False, rng=self.rng)
            followers = [pending] if self.world.markets[0].id == "bare" else []
            for each in followers:
                await each.connect()  # before the market exists
            opening = list(flow.opening())
            await harness.apply(*(c for c in opening if type(c) is AddMarket))
            await harness.apply(*(c for c in opening if type(c) is not AddMarket))
            followers += [
                Follower(self, market.id, extended=extended, slow=slow, rng=self.rng)
                for market in self.world.markets
                for extended in (False, True)
                for slow in (False, True)
            ]
            done = 0
            while done < NUM_COMMANDS:
                count = self.rng.choice((1, 1, 2, 5, 40))
                # some clients connect and disconnect while deliveries are queued
                num_iterations = self.rng.choice((0, 0, 1, ITERATIONS))
                await harness.apply(
                    *(flow.command(KEPT) for _ in range(count)), num_iterations=num_iterations
                )
                done += count
                for each in followers:
                    await each.step()
            for market in harness.exchange.matcher.markets:
                end = SetMode(market=market.id, mode=Mode.RESOLVED, now_ms=flow.now_ms)
                await harness.apply(end, num_iterations=0)
            counts = Counter()
            for each in followers:
                if each.client is None:
                    await each.connect()
                await run_loop()
                each.finish()
                counts += each.counts
            return counts


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("writes_max", [1, 3, 128])
async def test_rebuilt_books_equal_the_engines_at_every_number(world, writes_max, monkeypatch):
    monkeypatch.setattr(broadcast, "WRITES_MAX", writes_max)
    counts = await Simulation(WORLDS[world], writes_max).run()
    assert counts.keys() >= {*EVENTS, *RemovalReason}
