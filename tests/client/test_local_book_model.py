"""The local book equals the engine's book at every number, over connections that end anywhere."""

import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

import msgspec
import pytest

from clob import AddMarket
from clob.client.local_book import BookGapError, LocalBook
from clob.wire.messages import EVERY, Heartbeat, Orderbook
from tests.matcher_model.flow import Flow
from tests.server.feed.book_reader import book_of
from tests.server.feed.harness import ITERATIONS, FeedHarness, run_loop
from tests.server.feed.test_model import KEPT, WORLDS, Books

NUM_COMMANDS = 3_000


def decoded(messages):
    """Return the structs of messages."""
    every = EVERY[0]
    for kind in EVERY[1:]:
        every |= kind
    return msgspec.convert(messages, list[every])


def apply_all(book, messages):
    for each in messages:
        book.apply(each)


class Follower:
    """A client that keeps a local book over a fast or slow connection, which ends at any message.

    With a token it follows that one alone.
    """

    def __init__(self, simulation, market, *, slow, token=None):
        self.simulation, self.market, self.slow = simulation, market, slow
        self.rng, self.client = simulation.rng, None
        self.book = LocalBook(market, token)
        self.counts = Counter()

    async def connect(self):
        """Connect; resume if the book has a position."""
        self.client = await self.simulation.harness.client(reads=not self.slow, high=3_000)
        fields = {} if self.book.only_token is None else {"tokenId": self.book.only_token}
        if self.book.position is not None:
            fields["resume"] = {"seq": self.book.position}
        await self.client.subscribe(self.market, extended=True, **fields)

    def apply(self, messages):
        for message in decoded(messages):
            self.counts[type(message).__name__] += 1
            if isinstance(message, Heartbeat):
                self.book.check(message)
                self.check()
            elif hasattr(message, "data"):
                if self.book.apply(message):
                    self.check(message.token_id, is_whole=isinstance(message, Orderbook))
                else:
                    self.counts["repeated"] += 1
            elif message.resumed:
                self.counts["resumed"] += 1
            else:
                self.book.reset()

    def check(self, *tokens, is_whole=False):
        """Compare with the engine, unless the book is between two events of a command."""
        for named in (False, True):
            books = self.simulation.books.seen.get((self.market, self.book.seq, named))
            if books is None or (is_whole and self.book.position != self.book.seq):
                continue
            for token in tokens or books:
                if token in books and self.book.only_token in (None, token):
                    assert book_of(self.book.token(token).depth()) == books[token]
                    self.counts["compared"] += 1

    async def step(self):
        """Read some messages; sometimes the connection ends after any of them."""
        if self.client is None:
            if self.rng.random() < 0.7:
                return
            await self.connect()
        if self.slow:
            self.client.read(self.rng.choice((0, 0, 0, 0, 300, 2_000)))
        messages = self.client.received()
        if self.rng.random() < 0.05:
            self.client.disconnect()
            self.client = None
            messages = messages[: self.rng.randrange(len(messages) + 1)]
        self.apply(messages)
        matcher = self.simulation.harness.exchange.matcher
        is_current = self.client is not None and self.book.seq == matcher.seq(self.market)
        if is_current and self.book.only_token is None:
            self.check_queues(matcher)

    async def finish(self):
        """Read all messages and a pong; compare with the final books."""
        if self.client is None:
            await self.connect()
        await run_loop()
        self.client.read_all()
        self.apply(self.client.received())
        self.book.confirm()
        matcher = self.simulation.harness.exchange.matcher
        assert self.book.seq == self.book.position
        market = matcher.market(self.market)
        for token in (market.yes, market.no):
            if token and self.book.only_token in (None, token):
                depth = matcher.depth(self.market, token)
                assert book_of(self.book.token(token).depth()) == book_of(depth)
        if self.book.only_token is None:
            assert self.book.seq == matcher.seq(self.market)
            self.check_queues(matcher)

    def check_queues(self, matcher):
        """Compare the places in the queues of all orders that were added since the snapshot."""
        for record in matcher.open_orders():
            order = record.order
            if record.market == self.market:
                book = self.book.token(order.token)
                ahead = book.ahead(str(order.id), order.side, record.price)
                assert ahead in (None, matcher.ahead(order.id))
                self.counts["placed"] += ahead is not None


class Simulation:
    """Random commands in random batches, and clients that read them."""

    def __init__(self, world, seed):
        self.rng = random.Random(seed)
        markets = tuple(
            msgspec.structs.replace(each, yes=f"{n}1", no=each.no and f"{n}2")
            for n, each in enumerate(world.markets, 1)
        )
        self.world = msgspec.structs.replace(world, broken=0, markets=markets)
        self.books = Books()
        self.harness = FeedHarness(ws_soft_bytes=3_000, ws_resume_events=12)

    async def run(self):
        self.harness.engine.subscribe(self.books.on_batch)
        async with self.harness as harness:
            flow = Flow(self.rng, self.world, harness.exchange.matcher)
            opening = list(flow.opening())
            await harness.apply(*(c for c in opening if type(c) is AddMarket))
            await harness.apply(*(c for c in opening if type(c) is not AddMarket))
            followers = [
                Follower(self, market.id, slow=slow, token=token)
                for market in self.world.markets
                for slow in (False, True)
                for token in (None, None, market.yes)
            ]
            done = 0
            while done < NUM_COMMANDS:
                count = self.rng.choice((1, 1, 2, 5, 40))
                num_iterations = self.rng.choice((0, 0, 1, ITERATIONS))
                commands = [flow.command(KEPT) for _ in range(count)]
                await harness.apply(*commands, num_iterations=num_iterations)
                done += count
                for each in followers:
                    await each.step()
            counts = Counter()
            for each in followers:
                await each.finish()
                counts += each.counts
            return counts


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("seed", [1, 2])
async def test_local_book_equals_the_engines_at_every_number(world, seed):
    counts = await Simulation(WORLDS[world], seed).run()
    assert min(counts[name] for name in ("compared", "resumed", "placed")) > 20
    assert counts["OrderReducedMessage"] > 20
    if world == "paired":
        assert counts["repeated"] > 20


async def test_missing_event_is_a_gap():
    simulation = Simulation(WORLDS["paired"], 1)
    async with simulation.harness as harness:
        flow = Flow(simulation.rng, simulation.world, harness.exchange.matcher)
        await harness.apply(*flow.opening())
        market = simulation.world.markets[0].id
        client = await harness.client()
        await client.subscribe(market, extended=True)
        while len(client.messages) < 30:
            await harness.apply(flow.command(KEPT))
        _, *messages = decoded(client.received())
    complete, broken = LocalBook(market), LocalBook(market)
    apply_all(complete, messages)
    first = next(n for n, each in enumerate(messages) if not isinstance(each, Orderbook))
    lost = messages[first].seq
    kept = [each for each in messages if each.seq != lost or isinstance(each, Orderbook)]
    with pytest.raises(BookGapError, match=f"event {lost + 1} was received after event {lost - 1}"):
        apply_all(broken, kept)
    assert broken.seq == lost - 1
    apply_all(broken, messages[first:])
    assert (
        broken.token(messages[0].token_id).depth() == complete.token(messages[0].token_id).depth()
    )
