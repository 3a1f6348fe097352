"""The bots of the demo, which trade over HTTP and WebSocket like users, at a limited rate."""

import asyncio
import itertools
import signal
import socket
from contextlib import asynccontextmanager
from types import SimpleNamespace

import httpx
import pytest

from clob import Cancel, Matcher, Trade
from clob.client import AsyncClient, Feed, UnauthorisedError
from clob.wire.messages import Orderbook
from clob_server.cli.run import reach_of
from clob_server.core.ids import Ids
from clob_server.core.state import ServerState
from clob_server.demo import bots
from clob_server.demo.bots import Bots
from clob_server.demo.market import (
    FAIR,
    MARKET,
    NO,
    QUOTE,
    QUOTER,
    TAKE,
    TAKER,
    YES,
    opening,
    submit,
)
from clob_server.settings import Settings
from tests.server.live import live_server, started
from tests.server.meta.operators import operator_of, token_of

COMMANDS = 6
PATIENCE_S = 120
KEYS = [(each.private_key, None) for each in (QUOTER, TAKER)]
ONE = "1000000000000000000"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("bots") / "data", demo=True) as live:
        yield live


async def until_events(url, count, market=MARKET):
    """Wait until a market has this many further events; return their times."""
    async with asyncio.timeout(PATIENCE_S), Feed(url, proxy=None) as feed:
        messages, times = feed.messages(), []
        await feed.orderbook(market)
        async for message in messages:
            if not isinstance(message, Orderbook) and message.timestamp not in times:
                times.append(message.timestamp)
            if len(times) >= count:
                break
        return times


# ----- against a server ----------------------------------------------------------------------


async def test_bots_trade_at_most_twice_a_second_without_using_budgets(live):
    before = live.http.get("/health").json()["commandSeq"]
    times = await until_events(live.url, COMMANDS)
    # All events of a command have its time.
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert min(gaps) >= 500
    assert live.http.get("/health").json()["commandSeq"] >= before + COMMANDS - 2
    user = {"maker": f"0x{1:040x}", "marketId": MARKET, "tokenId": YES, "side": 0, "price": 1}
    answer = live.http.post("/api/orders/gasless", json={**user, "size": ONE})
    assert answer.headers["ratelimit"].startswith('"orders";r=29;')
    operator = operator_of(live)
    used = {tuple(each.makers): each.last_used for each in operator.admin_list_keys()}
    assert used.keys() == {(QUOTER.address,), (TAKER.address,)}
    assert used[QUOTER.address,] is not None
    for token in (YES, NO):
        book = operator.orderbook(MARKET, token_id=token)
        assert min(len(book.bids), len(book.asks)) >= bots.LEVELS_MIN
        assert book.bids[0].price < book.asks[0].price


@asynccontextmanager
async def running(live):
    """Run bots as programs of users within the block."""
    task = asyncio.create_task(Bots("rain", "101", "102", fair=50).run(live.url, *KEYS))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_bots_without_keys_continue_after_a_server_was_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(bots, "PAUSE_S", 0.01)
    monkeypatch.setattr(bots, "RETRY_S", 0.1)
    with live_server(tmp_path, rate_limits=False) as live:
        tokens = {"yesTokenId": "101", "noTokenId": "102"}
        operator_of(live).admin_create_market("rain", tokens)
        async with running(live) as task:
            await until_events(live.url, 10, "rain")
            live.kill()
            port = live.url.rpartition(":")[2]
            again = await asyncio.to_thread(started, tmp_path, rate_limits=False, port=port)
            try:
                await until_events(again.url, 10, "rain")
                assert not task.done()
            finally:
                again.http.close()
                again.kill()
                again.process.stdout.close()


async def test_bots_end_with_the_error_of_a_rejected_key(live):
    with pytest.raises(UnauthorisedError, match="INVALID_API_KEY"):
        await Bots(MARKET, YES, NO, fair=50).run(live.url, (QUOTER.private_key, "clob_x"), KEYS[1])


@pytest.mark.long
async def test_log_stays_quiet_while_the_bots_cannot_trade(tmp_path):
    with (tmp_path / "log").open("w+") as log:
        # Those of the bots' keys are their own, except that of cancels.
        budgets = {
            "anonymousPerMinute": 1_000, "keyPerMinute": 1, "ordersPerMinute": 1,
            "cancelsPerMinute": 1,
        }  # fmt: skip
        settings = {"demo": True, "log_level": "info", "drain_s": 1}
        with live_server(tmp_path / "data", stderr=log, **settings) as live:
            await until_events(live.url, 2)
            async with AsyncClient(live.url, token=token_of(live)) as operator:
                await operator.admin_halt_market(MARKET)
                seq = (await operator.market(MARKET)).seq
                await asyncio.sleep(4 * bots.RETRY_S)
                assert (await operator.market(MARKET)).seq == seq
                await operator.admin_open_market(MARKET)
                await until_events(live.url, 2)
                await operator.advance_clock(3_600_000)
                await until_events(live.url, 2)
                await operator.admin_set_limits(budgets=budgets)
            await until_events(live.url, 3)
            live.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(20)  # longer than the heartbeats of feed and server
            live.process.send_signal(signal.SIGCONT)
            await until_events(live.url, 3)
            assert await asyncio.to_thread(live.stop) == 0
        log.seek(0)
        lines = [httpx.Response(200, text=line).json() for line in log]
    texts = [each["message"] for each in lines if each["logger"] != "clob_server.operators"]
    assert texts == ["recovered", "started", "ended"]
    assert lines[-1]["unanswered_requests"] == 0


async def test_bots_find_a_server_on_all_addresses_without_the_proxy(tmp_path, monkeypatch):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("not here: no IPv6")
    with monkeypatch.context() as changed:
        changed.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        changed.setenv("ALL_PROXY", "http://127.0.0.1:9")
        live = started(tmp_path / "data", demo=True, host="::")
    try:
        await until_events(live.url.replace("[::]", "[::1]"), 2)
    finally:
        live.http.close()
        live.kill()
        live.process.stdout.close()


@pytest.mark.parametrize(
    ("setting", "host", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "0.0.0.0", "127.0.0.1"),
        ("::", "::", "[::1]"),
        ("", "0.0.0.0", "127.0.0.1"),
        ("192.0.2.1", "192.0.2.1", "192.0.2.1"),
        ("fd00::1", "fd00::1", "[fd00::1]"),
        ("exchange.example", "192.0.2.1", "exchange.example"),
    ],
)
def test_programs_on_the_same_machine_use_an_allowed_address(setting, host, expected):
    assert reach_of(Settings(host=setting), host, 8000) == f"http://{expected}:8000"


# ----- decisions -----------------------------------------------------------------------------


def make_service():
    """Return the parts of a service that the opening uses, with a real server state."""
    exchange, numbers = ServerState(), itertools.count(1)
    ids = Ids(bytes(32))
    sequencer = SimpleNamespace(next_order_id=lambda now_ms: ids.order(now_ms, next(numbers)))
    return SimpleNamespace(state=exchange, sequencer=sequencer)


def apply_next(service, both, now_ms):
    """Apply the next request of the bots; return its events."""
    matcher = service.state.matcher
    terms, request = TAKE, both.takes(lambda token: matcher.depth(MARKET, token))
    if request is None:
        own = [
            SimpleNamespace(
                id=each.order.id, token_id=each.order.token, side=each.order.side, price=each.price
            )
            for each in matcher.open_orders(maker=QUOTER.address, market=MARKET)
        ]
        depth_of = lambda token: matcher.depth(MARKET, token)  # noqa: E731
        terms, request = QUOTE, both.quoter.next_request(depth_of, own)
    if isinstance(request, str):
        command = Cancel(market=MARKET, order_id=request, maker=QUOTER.address, now_ms=now_ms)
        return service.state.apply(command)
    assert request.options == ({"post_only": True} if terms is QUOTE else {"time_in_force": "IOC"})
    order = (request.token, request.side, request.price, request.size)
    return service.state.apply(submit(service, now_ms, *order, **terms))


def run_bots(service, seed, count):
    """Open the market and yield the events of each of ``count`` requests of the bots."""
    for command in opening(service, 0):
        service.state.apply(command)
    both = Bots(MARKET, YES, NO, fair=FAIR, seed=seed)
    for number in range(count):
        yield apply_next(service, both, 1000 * number)


@pytest.mark.parametrize("seed", range(3))
def test_books_are_never_empty_or_crossed(seed):
    service = make_service()
    matcher: Matcher = service.state.matcher
    num_trades = 0
    for events in run_bots(service, seed, 2_000):
        num_trades += sum(type(event) is Trade for event in events)
        assert events, "each command has an effect"
        for token in (YES, NO):
            depth = matcher.depth(MARKET, token)
            assert min(len(depth.bids), len(depth.asks)) >= bots.LEVELS_MIN
            assert depth.bids[0].price < depth.asks[0].price
    assert num_trades > 400
    assert len(matcher) <= 4 * (bots.ORDERS_MAX + 1)


def test_bots_are_deterministic():
    first, second = make_service(), make_service()
    for service in (first, second):
        assert sum(1 for _ in run_bots(service, 5, 300)) == 300
    assert first.state.matcher.state_hash() == second.state.matcher.state_hash()


def test_bots_refill_a_book_emptied_by_another_maker():
    service = make_service()
    assert all(run_bots(service, 1, 10))
    matcher = service.state.matcher
    for record in matcher.open_orders(market=MARKET):
        if record.order.token == YES:
            service.state.apply(Cancel(order_id=record.order.id, now_ms=10**6))
    both = Bots(MARKET, YES, NO, fair=FAIR, seed=2)
    for number in range(100):
        apply_next(service, both, 10**7 + number)
    depth = matcher.depth(MARKET, YES)
    assert min(len(depth.bids), len(depth.asks)) >= bots.LEVELS_MIN
