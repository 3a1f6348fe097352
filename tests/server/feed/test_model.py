"""Whoever rebuilds the books from the stream has, at every number, the books of the engine."""

import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

import msgspec
import pytest

from clob import AddMarket, Matcher, Mode, RejectedError, RemovalReason, SetMode
from clob_server.core.commands import ENGINE
from clob_server.feed import broadcast
from tests.matcher_model.flow import Flow
from tests.matcher_model.worlds import PAIRED, SMALL, TIGHT
from tests.server.feed.readers import BookReader, book_of
from tests.server.feed.stage import TURNS, Stage, played, turns

NUM_COMMANDS = 4_000
EVENTS = (
    "orderbook",
    "order_added",
    "order_reduced",
    "reduced",
    "trade",
    "resumed",
    "not resumed",
    "left out",
)
WORLDS = {"small": SMALL, "tight": TIGHT, "paired": PAIRED}


class Books:
    """What the books of a market were after each command, by a matcher of its own."""

    def __init__(self):
        self.matcher = Matcher()
        self.seen = {}

    def listen(self, batch):
        for done in batch:
            if type(done.command) in ENGINE:
                self.step(done.command)

    def step(self, command):
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
        """Compare a reader's books; within a command nobody knows what they are."""
        for named in (False, True):
            books = self.seen.get((market, reader.seq, named))
            if books is None or reader.reduced is not None:
                continue
            # Of two snapshots the second is still to come, and where both tokens meet, what the
            # other book has to be told.
            alone = message["type"] == "orderbook" or self.matcher.market(market).complementary
            tokens = [message["tokenId"]] if alone else list(books)
            for token in tokens:
                assert token not in books or reader.book(token) == books[token]


class Follower:
    """A client that follows a market, as well as his connection lets him."""

    def __init__(self, story, market, *, extended, slow, rng):
        self.story, self.market, self.extended = story, market, extended
        self.slow, self.rng = slow, rng
        self.client = None
        self.reader = None
        self.compared = 0
        self.counts = Counter()

    async def connect(self):
        """Come, or come back; with a number, if he knows any."""
        self.client = await self.story.stage.client(reads=not self.slow, high=3_000)
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
            told = [m for m in self.client.messages if m["type"] == "subscribed"]
            self.counts["resumed" if told[0]["resumed"] else "not resumed"] += 1
            if not told[0]["resumed"]:
                self.reader = BookReader(self.check, gapless=not self.slow)

    def check(self, reader, message):
        self.compared += 1
        kind = message["type"]
        self.counts["left out"] += reader.has_jumped
        self.counts[message["data"]["reason"] if kind == "order_removed" else kind] += 1
        self.story.books.check(self.market, reader, message)

    async def live(self):
        """Read something; now and then lose the connection, and stay away for a while."""
        if self.client is None:
            if self.rng.random() < 0.8:
                return
            await self.connect()
        if self.slow:
            self.client.read(self.rng.choice((0, 0, 0, 0, 300, 2_000)))
        self.reader.take(self.client.taken())
        if self.rng.random() < 0.02:
            self.client.go_away()
            self.client = None

    def finish(self):
        """Read everything, and compare with how it ended."""
        self.client.read_all()
        self.reader.take(self.client.taken())
        matcher = self.story.stage.exchange.matcher
        assert self.reader.seq == matcher.seq(self.market)
        market = matcher.market(self.market)
        for token in (market.yes, market.no):
            if token:
                assert self.reader.book(token) == book_of(matcher.depth(self.market, token))


class Story:
    """Random commands in random batches, and clients of every kind."""

    def __init__(self, world, seed):
        self.rng = random.Random(seed)
        self.world = msgspec.structs.replace(world, broken=0)
        self.books = Books()
        self.stage = Stage(ws_soft_bytes=3_000, ws_resume_events=12)

    async def tell(self):
        self.stage.engine.listeners.append(self.books.listen)
        async with self.stage as stage:
            flow = Flow(self.rng, self.world, stage.exchange.matcher)
            early = Follower(self, "bare", extended=False, slow=False, rng=self.rng)
            followers = [early] if self.world.markets[0].id == "bare" else []
            for each in followers:
                await each.connect()  # before there is any market
            opening = list(flow.opening())
            await stage.do(*(c for c in opening if type(c) is AddMarket))
            await stage.do(*(c for c in opening if type(c) is not AddMarket))
            followers += [
                Follower(self, market.id, extended=extended, slow=slow, rng=self.rng)
                for market in self.world.markets
                for extended in (False, True)
                for slow in (False, True)
            ]
            done = 0
            while done < NUM_COMMANDS:
                count = self.rng.choice((1, 1, 2, 5, 40))
                # Some come and go while what was told before is still on its way.
                num_turns = self.rng.choice((0, 0, 1, TURNS))
                await stage.do(*(flow.command() for _ in range(count)), num_turns=num_turns)
                done += count
                for each in followers:
                    await each.live()
            for market in stage.exchange.matcher.markets:
                end = SetMode(market=market.id, mode=Mode.RESOLVED, now_ms=flow.now_ms)
                await stage.do(end, num_turns=0)
            counts = Counter()
            for each in followers:
                if each.client is None:
                    await each.connect()
                await turns()
                each.finish()
                counts += each.counts
            return counts


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("writes_max", [1, 3, 128])
def test_books_rebuilt_from_the_stream_are_the_engines_at_every_number(
    world, writes_max, monkeypatch
):
    monkeypatch.setattr(broadcast, "WRITES_MAX", writes_max)
    counts = played(Story(WORLDS[world], writes_max).tell())
    assert counts.keys() >= {*EVENTS, *RemovalReason}
