"""The blocking feed: the methods of the feed, in a thread of its own, for blocking programs."""

import inspect
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest

from clob.client import (
    AsyncClient,
    Backoff,
    BlockingFeed,
    Client,
    ConnectionFailedError,
    Feed,
    FeedState,
    InvalidCallError,
    LocalBook,
    NotFoundError,
    StreamOverflowError,
)
from clob.client import message_stream as streams
from clob.client.steps import FeedMethod
from clob.wire.messages import BookTradeMessage, OrderAddedMessage, UserFill
from tests.client.chaos_proxy import ChaosProxy
from tests.client.test_repeats import free_port
from tests.server.feed.book_reader import book_in, book_of
from tests.server.feed.connection import BUY, MAKER, OTHER, SELL, Market
from tests.server.live import live_server

TOKEN = 10**18
PATIENCE_S = 60
QUICK = Backoff(first_s=0.05, max_s=0.2, steady_s=1)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("feed")
    with live_server(folder, rate_limits=False, ws_heartbeat_s=1) as server:
        yield server


@pytest.fixture
def market(live):
    return Market(live, TOKEN)


@pytest.fixture
def feed(live):
    with BlockingFeed(live.url, backoff=QUICK) as made:
        yield made


def threads():
    """Return the threads of feeds."""
    return [each for each in threading.enumerate() if each.name == "clob-feed"]


def run(program, *arguments):
    """Run a Python program and return its output."""
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr
    return ran.stdout


# ----- both feeds --------------------------------------------------------------------------------


def test_methods_are_those_of_the_feed():
    own = ("hold", "on_fork", "wait_for")
    public = {name for name in dir(BlockingFeed) if not name.startswith("_")} - set(own)
    assert public == {name for name in dir(Feed) if not name.startswith("_")}
    for name in public:
        ours, theirs = getattr(BlockingFeed, name), getattr(Feed, name)
        assert inspect.getdoc(ours), name
        if callable(ours) and name != "messages":
            assert str(inspect.signature(ours)) == str(inspect.signature(theirs)), name
        if isinstance(inspect.getattr_static(Feed, name), FeedMethod):
            assert ours.__doc__ == theirs.__doc__


async def test_clients_return_feeds_of_their_server(live, market):
    market.order(SELL, 60, 5)
    with Client(live.url, api_key="unknown", headers={"x-name": "a"}) as client:
        feed = client.feed(timeout_s=5)
        assert (type(feed), feed.url) == (BlockingFeed, live.ws_url)
    with Client(live.url) as client, client.feed() as feed:
        assert feed.orderbook(market.id).token(market.yes).best_ask.price == 60
    async with AsyncClient(live.url) as client, client.feed() as feed:
        assert type(feed) is Feed
        assert (await feed.orderbook(market.id)).token(market.yes).best_ask.price == 60


# ----- books, orders and requests ----------------------------------------------------------------


def test_book_orders_and_messages_follow_the_server(feed, market):
    market.order(SELL, 60, 5)
    book, mine = feed.orderbook(market.id), feed.own_orders(MAKER, market_id=market.id)
    stream = feed.messages()
    body = {"maker": OTHER, "marketId": market.id, "tokenId": market.yes, "side": BUY}
    placed = feed.request("create_gasless_order", body={**body, "price": 60, "size": str(TOKEN)})
    assert placed.status == "filled"
    feed.request("create_gasless_order", body={**body, "price": 40, "size": str(TOKEN)})
    feed.until(lambda: len(mine.fills) == 1 and book.token(market.yes).best_bid is not None)
    kinds = set()
    for message in stream:
        kinds.add(type(message))
        if type(message) is OrderAddedMessage:
            break
    assert kinds >= {BookTradeMessage, OrderAddedMessage}
    assert (mine.fills[0].price, [each.remaining for each in mine.open.values()]) == (
        60,
        [str(4 * TOKEN)],
    )
    body = market.book()
    assert (book.seq, book_of(book.token(market.yes).depth())) == (body["seq"], book_in(body))
    assert feed.state is FeedState.LIVE
    stream.close()
    with pytest.raises(NotFoundError):
        feed.orderbook("unknown")
    feed.unfollow("orderbook", market.id)
    assert feed.follow("ticker", market.id).market_id == market.id


def test_cut_connection_resumes(live, market):
    market.order(SELL, 60, 5)
    with ChaosProxy(live.url) as proxy, BlockingFeed(proxy.url, backoff=QUICK) as feed:
        book, mine = feed.orderbook(market.id), feed.own_orders(MAKER)
        stream = feed.messages()
        proxy.cut()
        feed.until(lambda: feed.state is FeedState.RECONNECTING)
        market.order(BUY, 60, 2, maker=OTHER)
        market.order(SELL, 62, 1)
        feed.until(lambda: feed.state is FeedState.LIVE and len(mine.fills) > 0)
        feed.until(lambda: book.seq == market.book()["seq"])
        assert book_of(book.token(market.yes).depth()) == book_in(market.book())
        feed.cut()
        feed.until(lambda: feed.num_connections == 3 and feed.state is FeedState.LIVE)
        while type(message := stream.get(timeout_s=PATIENCE_S)) is not UserFill:
            pass
        assert message.data.size == str(2 * TOKEN)
        assert feed.num_gaps == 0


def test_each_read_of_a_book_is_of_one_state(feed, market):
    market.order(SELL, 60, 1)
    stream = feed.messages()
    book = feed.orderbook(market.id)
    yes, stop, found = book.token(market.yes), threading.Event(), {}

    def read():
        while not stop.is_set():
            depth = yes.depth()
            found[depth.seq] = depth
            with feed.hold():
                assert yes.depth().seq == book.seq

    reader = threading.Thread(target=read)
    reader.start()
    body = {"maker": OTHER, "marketId": market.id, "tokenId": market.yes, "side": SELL}
    for number in range(150):
        price = {"price": 61 + number % 20, "size": str(TOKEN)}
        feed.request("create_gasless_order", body={**body, **price})
    feed.until(lambda: book.seq == market.book()["seq"])
    stop.set()
    reader.join(PATIENCE_S)
    again, expected = LocalBook(market.id), {}
    while (message := stream.get(timeout_s=PATIENCE_S)).seq < book.seq:
        again.apply(message)
        depth = again.token(market.yes).depth()
        expected[depth.seq] = depth
    again.apply(message)
    expected[again.seq] = again.token(market.yes).depth()
    assert len(found) > 10
    assert found == {seq: expected[seq] for seq in found}


def test_several_threads_use_a_feed(feed, market):
    body = {"maker": MAKER, "marketId": market.id, "tokenId": market.yes, "side": SELL}
    ids = []

    def trade(price):
        for _ in range(10):
            order = {**body, "price": price, "size": str(TOKEN)}
            ids.append(feed.request("create_gasless_order", body=order).order_id)

    workers = [threading.Thread(target=trade, args=(price,)) for price in range(50, 56)]
    for each in workers:
        each.start()
    for each in workers:
        each.join(PATIENCE_S)
    assert len(set(ids)) == 60
    mine = feed.own_orders(MAKER, market_id=market.id)
    assert set(mine.open) == set(ids)


# ----- waiting -----------------------------------------------------------------------------------


def test_waits_end_after_their_time(feed):
    with pytest.raises(TimeoutError):
        feed.until(lambda: False, timeout_s=0.05)
    with pytest.raises(TimeoutError):
        feed.messages().get(timeout_s=0.05)
    assert feed.state is FeedState.LIVE


async def test_waits_of_the_other_feed_end_after_their_time(live):
    async with Feed(live.url) as feed:
        with pytest.raises(TimeoutError):
            await feed.until(lambda: False, timeout_s=0.05)


def test_error_of_a_condition_reaches_the_caller(feed):
    with pytest.raises(ZeroDivisionError):
        feed.until(lambda: 1 / 0)


def test_calls_that_would_wait_for_themselves_are_rejected(feed, market):
    def condition():
        feed.request("get_time")

    with pytest.raises(InvalidCallError, match="must not call a method that waits"):
        feed.until(condition)
    with feed.hold(), pytest.raises(InvalidCallError, match="leave hold"):
        feed.request("get_time")
    with feed.hold(), pytest.raises(InvalidCallError, match="leave hold"):
        feed.close()
    assert feed.request("get_time").now_s > 0


def test_reader_that_is_too_slow_gets_the_messages_before_an_error(feed, market, monkeypatch):
    monkeypatch.setattr(streams, "STREAM_MAX", 3)
    market.order(SELL, 60, 1)
    book = feed.orderbook(market.id)
    stream, other = feed.messages(), feed.messages()
    for price in (61, 62, 63, 64, 65):
        market.order(SELL, price, 1)
        assert other.get(timeout_s=PATIENCE_S).data.price == price
    feed.until(lambda: book.seq == market.book()["seq"])
    prices = []
    with pytest.raises(StreamOverflowError, match="3 messages were not read"):
        prices.extend(message.data.price for message in stream)
    assert prices == [61, 62, 63]
    with pytest.raises(StreamOverflowError):
        next(stream)
    assert book.token(market.yes).level(1, 65).num_orders == 1


# ----- begin and end -----------------------------------------------------------------------------


def test_closed_feed_ends_its_streams_and_its_thread(live, market):
    before = len(threads())
    with BlockingFeed(live.url) as feed:
        stream, errors = feed.messages(), []

        def wait():
            try:
                feed.until(lambda: False)
            except ConnectionFailedError as error:
                errors.append(str(error))

        waiting = [threading.Thread(target=wait), threading.Thread(target=lambda: [*stream])]
        for each in waiting:
            each.start()
    for each in waiting:
        each.join(PATIENCE_S)
    assert "the feed is closed" in errors[0]
    assert len(threads()) == before
    assert feed.state is FeedState.CLOSED
    assert [*stream] == []
    feed.until(lambda: True)
    feed.until(lambda: False, or_closed=True)
    feed.close()
    feed.cut()
    for call in (lambda: feed.request("get_time"), lambda: feed.orderbook("rain")):
        with pytest.raises(ConnectionFailedError, match="the feed is closed"):
            call()


def test_feed_is_opened_once(live):
    feed = BlockingFeed(live.url)
    with pytest.raises(InvalidCallError, match="open the feed first"):
        feed.request("get_time")
    with feed:
        with pytest.raises(InvalidCallError, match="can be opened once"), feed:
            pass
        assert feed.request("get_time").now_s > 0
    with pytest.raises(InvalidCallError, match="can be opened once"), feed:
        pass
    assert not [each for each in threads() if not each.daemon]


async def test_other_feed_is_opened_once(live):
    feed = Feed(live.url)
    async with feed:
        with pytest.raises(InvalidCallError, match="can be opened once"):
            await feed.__aenter__()
    with pytest.raises(InvalidCallError, match="can be opened once"):
        await feed.__aenter__()


def test_server_that_is_away():
    before = len(threads())
    with (
        pytest.raises(ConnectionFailedError, match="no connection within"),
        BlockingFeed(f"http://127.0.0.1:{free_port()}", timeout_s=0.2),
    ):
        pass
    assert len(threads()) == before


def test_feed_cannot_be_pickled(live):
    for made in (BlockingFeed(live.url), Feed(live.url)):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            pickle.dumps(made)


# ----- processes ---------------------------------------------------------------------------------

OPEN = """
import os, signal, sys, threading
from clob.client import BlockingFeed, ConnectionFailedError, FeedState
feed = BlockingFeed(sys.argv[1]).__enter__()
book = feed.orderbook(sys.argv[2])
"""


def test_program_ends_although_a_feed_is_open(live, market):
    market.order(SELL, 60, 1)
    assert run(OPEN + "print(feed.state)", live.url, market.id) == "live\n"


def test_interrupt_ends_a_call_and_keeps_the_feed(live, market):
    market.order(SELL, 60, 1)
    program = """
def is_true():
    if not sent:
        sent.append(True)
        os.kill(os.getpid(), signal.SIGINT)
    return False
sent = []
try:
    feed.until(is_true)
except KeyboardInterrupt:
    print("interrupted", feed.request("get_time").now_s > 0)
feed.close()
print(threading.active_count())
"""
    assert run(OPEN + program, live.url, market.id) == "interrupted True\n1\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not here: processes cannot fork")
def test_feed_is_closed_in_a_child_process(live, market):
    market.order(SELL, 60, 1)
    program = """
import warnings
token, = book.books
sys.stdout.flush()
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
child = os.fork()
if not child:
    print(feed.state, book.token(token).best_ask.price)
    try:
        feed.request("get_time")
    except ConnectionFailedError as error:
        print(error)
    feed.close()
    with BlockingFeed(sys.argv[1]) as own:
        print(own.request("get_time").now_s > 0)
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print(feed.request("get_time").now_s > 0, feed.state, feed.num_connections)
"""
    lines = run(OPEN + program, live.url, market.id).splitlines()
    assert lines[0] == "closed 60"
    assert "opened by the process before a fork" in lines[1]
    assert lines[2:] == ["True", "0", "True live 1"]


@pytest.mark.long
def test_readers_are_served_while_messages_never_pause(live, market):
    """A thread reads a book while several others place orders without a pause."""
    market.order(SELL, 60, 1)
    stop = threading.Event()
    body = {"maker": OTHER, "marketId": market.id, "tokenId": market.yes, "side": SELL}

    def trade():
        with BlockingFeed(live.url) as own:
            while not stop.is_set():
                order = {**body, "price": 70, "size": str(TOKEN)}
                placed = own.request("create_gasless_order", body=order)
                own.request(
                    "cancel_order", params={"orderId": placed.order_id}, body={"maker": OTHER}
                )

    with BlockingFeed(live.url) as feed:
        book = feed.orderbook(market.id)
        workers = [threading.Thread(target=trade) for _ in range(3)]
        for each in workers:
            each.start()
        seqs, end_s = set(), time.monotonic() + 3
        while time.monotonic() < end_s:
            with feed.hold():
                depth = book.token(market.yes).depth()
                assert depth.seq == book.seq
            seqs.add(depth.seq)
        stop.set()
        for each in workers:
            each.join(PATIENCE_S)
    assert len(seqs) > 50
    assert not threads()
