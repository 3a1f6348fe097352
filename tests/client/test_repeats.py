"""A repeated request is executed once, whatever the network does."""

import contextlib
import socket
import threading

import httpx
import pytest

from clob.client import (
    AsyncClient,
    Client,
    ConnectionFailedError,
    LimitOrder,
    OutcomeUnknownError,
    RequestRejectedError,
    UnavailableError,
    UnexpectedReplyError,
)
from clob.client.calls import BudgetLimiter
from clob.units import tokens
from tests.client.chaos_proxy import ChaosProxy, Faults
from tests.client.conftest import SECRET
from tests.client.traders import KILLS
from tests.server.api.makers import operator_token
from tests.server.live import started

KEY = f"0x{0xFEED:064x}"
MAKER = f"0x{0xFEED:040x}"


@pytest.fixture
def direct(live):
    """A client that nothing disturbs."""
    with Client(live.url, signer=KEY) as made:
        yield made


@pytest.fixture
def signed(proxy):
    """A client behind the proxy, which has read the facts of the server."""
    with Client(proxy.url, signer=KEY) as made:
        made.sync_clock()
        yield made


@pytest.fixture
def unsigned(proxy):
    with Client(proxy.url, maker=MAKER) as made:
        yield made


# ----- the answer is lost ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["signed", "unsigned"])
def test_order_whose_answer_is_lost_exists_once(request, proxy, market, name):
    client = request.getfixturevalue(name)
    client.buy(market.id, market.yes, price=40, size="1")  # the market is known
    proxy.lose_next_answer()
    placed = client.buy(market.id, market.yes, price=41, size="1")
    assert placed.duplicate
    assert proxy.num_cuts >= 1
    assert [each.price for each in client.orders(market=market.id)] == [40, 41]


def test_replacement_whose_answer_is_lost_happens_once(signed, proxy, market):
    first = signed.buy(market.id, market.yes, price=40, size="1")
    signed.market(market.id)
    proxy.lose_next_answer()
    signed.replace(first.order_id, LimitOrder(market.id, market.yes, "BUY", 41, "1"))
    assert [each.price for each in signed.orders(market=market.id)] == [41]


def test_batch_whose_answer_is_lost_is_placed_once(signed, proxy, market):
    signed.buy(market.id, market.yes, price=40, size="1")
    orders = [LimitOrder(market.id, market.yes, "BUY", price, "1") for price in (41, 42)]
    proxy.lose_next_answer()
    results = signed.place_batch(orders, atomic=True)
    assert [each.duplicate for each in results] == [True, True]
    assert [each.price for each in signed.orders(market=market.id)] == [40, 41, 42]


def test_cancel_whose_answer_is_lost_returns_the_order(signed, proxy, market):
    placed = signed.buy(market.id, market.yes, price=40, size="1")
    proxy.lose_next_answer()
    assert signed.cancel(placed.order_id).status == "cancelled"
    assert proxy.num_cuts >= 1
    with pytest.raises(RequestRejectedError, match="ORDER_NOT_OPEN"):
        signed.cancel(placed.order_id)


def test_reduction_whose_answer_is_lost_returns_the_order(signed, proxy, market):
    placed = signed.buy(market.id, market.yes, price=40, size="2")
    proxy.lose_next_answer()
    assert signed.reduce(placed.order_id, "1").remaining == str(tokens(1))


def test_write_that_the_server_does_not_recognise_is_not_repeated(proxy, live, market):
    with Client(proxy.url, token=operator_token(SECRET)) as operator:
        before = len(list(operator.admin_list_keys()))
        proxy.lose_next_answer()
        with pytest.raises(OutcomeUnknownError, match="admin_create_key was sent once"):
            operator.admin_create_key("lost", ["read"])
        assert len(list(operator.admin_list_keys())) == before + 1
        proxy.lose_next_answer()
        with pytest.raises(OutcomeUnknownError):
            operator.heartbeat(10_000, maker=MAKER)


def test_unsigned_order_without_a_name_is_not_repeated(unsigned, proxy, market):
    body = {
        "maker": MAKER, "marketId": market.id, "tokenId": str(market.yes), "side": 0,
        "price": 40, "size": str(tokens(1)),
    }  # fmt: skip
    proxy.lose_next_answer()
    with pytest.raises(OutcomeUnknownError):
        unsigned.create_gasless_order(body)
    assert len(list(unsigned.orders(market=market.id))) == 1


async def test_asynchronous_client_repeats_as_well(proxy, market):
    async with AsyncClient(proxy.url, signer=KEY) as client:
        await client.buy(market.id, market.yes, price=40, size="1")
        proxy.lose_next_answer()
        assert (await client.buy(market.id, market.yes, price=41, size="1")).duplicate
        assert len([each async for each in client.orders(market=market.id)]) == 2


# ----- a bad network -----------------------------------------------------------------------------


def test_every_order_exists_once_behind_a_bad_network(live, direct, market):
    direct.buy(market.id, market.yes, price=1, size="1")
    with (
        ChaosProxy(live.url, Faults(delay_max_s=0.005, cut_rate=0.1), seed=7) as proxy,
        Client(proxy.url, signer=KEY, deadline_s=120) as client,
    ):
        placed = {
            client.buy(market.id, market.yes, price=2 + at % 90, size="1").order_id
            for at in range(60)
        }
        assert len(placed) == 60
        assert proxy.num_cuts > 10
    found = [each.id for each in direct.orders(market=market.id)][1:]
    assert set(found) == placed
    assert len(found) == 60


def test_restart_of_the_server(tmp_path, market):
    first = started(tmp_path / "data", rate_limits=False)
    live = first
    try:
        with (
            ChaosProxy(first.url) as proxy,
            Client(proxy.url, signer=KEY, deadline_s=120) as client,
        ):
            client.buy(market.id, market.yes, price=40, size="1")
            first.kill()
            placed = []
            worker = threading.Thread(
                target=lambda: placed.append(client.buy(market.id, market.yes, price=41, size="1"))
            )
            worker.start()
            live = started(tmp_path / "data", rate_limits=False)
            proxy.connect_to(live.url)
            worker.join(120)
            assert [each.price for each in client.orders(market=market.id)] == [40, 41]
            assert placed
    finally:
        for server in (first, live):
            server.http.close()
            server.stop()
            server.process.stdout.close()


@pytest.mark.long
@pytest.mark.parametrize("part", range(KILLS // 10))
def test_kills_of_the_server_under_load(tmp_path, market, part):
    folder, live = tmp_path / "data", started(tmp_path / "data", rate_limits=False)
    stopped, placed, failures = threading.Event(), [], []

    def trade(client):
        try:
            while not stopped.is_set():
                done = client.buy(market.id, market.yes, price=40, size="1")
                placed.append(done.order_id)
                assert client.cancel(done.order_id).status == "cancelled"
        except Exception as error:
            failures.append(error)
            raise

    try:
        with ChaosProxy(live.url) as proxy, contextlib.ExitStack() as stack:
            clients = [
                stack.enter_context(Client(proxy.url, deadline_s=300, **wallet))
                for wallet in ({"signer": KEY}, {"maker": MAKER})
            ]
            threads = [threading.Thread(target=trade, args=(each,)) for each in clients]
            for each in threads:
                each.start()
            for _ in range(10):
                enough = len(placed) + 10
                while len(placed) < enough and not failures:
                    stopped.wait(0.01)
                live.kill()
                live.http.close()
                live.process.stdout.close()
                live = started(folder, rate_limits=False)
                proxy.connect_to(live.url)
            stopped.set()
            for each in threads:
                each.join(300)
            found = [
                each.id for client in clients for each in client.orders(status="all", limit=500)
            ]
        assert not failures
        assert len(placed) == len(set(placed)) >= 100
        assert sorted(found) == sorted(placed)
    finally:
        stopped.set()
        live.http.close()
        live.stop()
        live.process.stdout.close()


# ----- no answer at all --------------------------------------------------------------------------


def free_port():
    with contextlib.closing(socket.socket()) as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def test_order_that_was_never_sent_is_no_unknown_outcome(market):
    with (
        Client(f"http://127.0.0.1:{free_port()}", maker=MAKER, deadline_s=0.5) as client,
        pytest.raises(ConnectionFailedError, match="is the server running"),
    ):
        client.buy(market.id, market.yes, price=40, size="1")


def test_order_without_any_answer_has_an_unknown_outcome(proxy, market):
    with Client(proxy.url, maker=MAKER, timeout_s=0.2, deadline_s=1) as client:
        proxy.stall()
        with pytest.raises(OutcomeUnknownError, match="repeat the same order") as caught:
            client.buy(market.id, market.yes, price=40, size="1")
        assert caught.value.code == "OUTCOME_UNKNOWN"
        with pytest.raises(ConnectionFailedError):
            client.server_time()
        proxy.flow()


# ----- answers of others -------------------------------------------------------------------------


def answering(*responses):
    """Return an httpx client with these responses, and the requests that it received."""
    left, requests = list(responses), []

    def handle(request):
        requests.append(request)
        return left.pop(0)

    return httpx.Client(transport=httpx.MockTransport(handle)), requests


TIME = {"nowMs": 1, "nowS": 0, "added": "by a newer server"}


def test_unknown_fields_are_ignored():
    http, _ = answering(httpx.Response(200, json=TIME))
    assert Client("http://server", http=http).server_time().now_ms == 1


def test_retry_after_is_respected_until_the_deadline():
    problem = {"code": "DRAINING", "detail": "stops", "retryable": True}
    http, requests = answering(httpx.Response(503, json=problem, headers={"retry-after": "60"}))
    with pytest.raises(UnavailableError, match="DRAINING: stops") as caught:
        Client("http://server", http=http).server_time()
    assert caught.value.retry_after_s == 60
    assert len(requests) == 1


def test_error_page_of_a_proxy():
    page = httpx.Response(502, text="<html>Bad gateway</html>")
    http, _ = answering(page, httpx.Response(200, json=TIME))
    assert Client("http://server", http=http).server_time().now_ms == 1
    http, _ = answering(httpx.Response(404, text="<html>"))
    with pytest.raises(Exception, match=r"HTTP_404: .*a proxy on the way"):
        Client("http://server", http=http).server_time()


def test_answer_of_another_form():
    http, _ = answering(httpx.Response(200, text="<html>Welcome</html>"))
    with pytest.raises(UnexpectedReplyError, match="Welcome"):
        Client("http://server", http=http).server_time()


def test_prefix_headers_and_credentials_are_sent():
    http, requests = answering(httpx.Response(200, json=TIME))
    client = Client(
        "http://proxy/exchange/", http=http, api_key="k", token="t", headers={"X-Team": "a"}
    )
    client.server_time()
    [request] = requests
    assert str(request.url) == "http://proxy/exchange/api/time"
    assert request.headers["x-api-key"] == "k"
    assert request.headers["authorization"] == "Bearer t"
    assert request.headers["x-team"] == "a"


# ----- rate limits -------------------------------------------------------------------------------


def limited(left, wait_s, name="requests"):
    return {"ratelimit": f'"{name}";r={left};t={wait_s}'}


def test_limiter_waits_for_the_budget_that_is_used_up():
    limiter, read, order = BudgetLimiter(), {"requests": 1}, {"requests": 1, "orders": 1}
    assert limiter.acquire(order, 0) == 0
    limiter.settle(order, limited(0, 12, "orders"), 0)
    assert limiter.acquire(order, 2) == 10
    assert limiter.acquire(read, 2) == 0
    limiter.settle(read, limited(5, 30), 2)
    assert limiter.acquire(order, 12) == 0


def test_limiter_counts_requests_under_way():
    limiter, read = BudgetLimiter(), {"requests": 1}
    assert limiter.acquire(read, 0) == 0
    limiter.settle(read, limited(2, 30), 0)
    assert [limiter.acquire(read, 1) for _ in range(3)] == [0, 0, 29]
    limiter.settle(read, {}, 1)  # a cached answer has no numbers
    assert limiter.acquire(read, 1) == 29


def test_limiter_lets_one_request_through_after_the_wait():
    limiter, read = BudgetLimiter(), {"requests": 1}
    limiter.acquire(read, 0)
    limiter.settle(read, limited(0, 10), 0)
    assert limiter.acquire(read, 10) == 0
    assert 0 < limiter.acquire(read, 10) < 1
    limiter.settle(read, limited(3, 1), 10)
    assert limiter.acquire(read, 10) == 0


def test_requests_beyond_the_limit_are_not_sent(tmp_path, market):
    live = started(tmp_path / "data", rate_limits=True)
    try:
        with Client(live.url, maker=MAKER, deadline_s=5) as client:
            for _ in range(30):
                client.buy(market.id, market.yes, price=40, size="1")
            with pytest.raises(Exception, match="nothing was sent") as caught:
                client.buy(market.id, market.yes, price=40, size="1")
            assert caught.value.code == "RATE_LIMITED"
            assert 0 < caught.value.retry_after_s <= 61
            assert client.cancel_all(market.id).num_cancelled == 30
    finally:
        live.http.close()
        live.stop()
        live.process.stdout.close()
