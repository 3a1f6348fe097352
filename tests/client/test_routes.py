"""The client has a method for every route, and both clients behave alike."""

import inspect
import subprocess
import sys

import pytest

from clob.client import AsyncClient, Client, InvalidCallError, NotFoundError
from clob.client.calls import CANCEL, FREE, ORDER, READ, ROUTES
from clob.client.order_routes import LimitOrder
from clob.client.steps import IteratorMethod, Method
from clob_server.auth.policy import ROUTE_RULES, Budget
from tests.client.conftest import SECRET
from tests.server.api.makers import operator_token

KEY = f"0x{0xABC:064x}"


@pytest.fixture
def client(live):
    with Client(live.url, signer=KEY, token=operator_token(SECRET)) as made:
        yield made


@pytest.fixture
async def async_client(live):
    async with AsyncClient(live.url, signer=KEY, token=operator_token(SECRET)) as made:
        yield made


def methods():
    """Return the methods of both clients by name."""
    return {
        name: value
        for kind in Client.__mro__
        for name, value in vars(kind).items()
        if isinstance(value, Method | IteratorMethod)
    }


def is_page(path, operation):
    """Return whether a route returns a page for a browser, a file of one, or serves pages only."""
    is_for_pages = path.startswith("/web/") or operation["tags"] == ["Development wallets"]
    return is_for_pages or "text/html" in str(operation["responses"])


def test_every_documented_route_has_a_method(client):
    documented = {
        (each["operationId"], method.upper(), path)
        for path, operations in client.openapi()["paths"].items()
        for method, each in operations.items()
        if isinstance(each, dict) and "operationId" in each and not is_page(path, each)
    }
    known = {(each.operation, each.method, each.template) for each in ROUTES.values()}
    assert known == documented


def test_charges_are_those_of_the_server():
    charged = {Budget.NONE: FREE, Budget.REQUESTS: READ, Budget.CANCELS: CANCEL}
    for name, route in ROUTES.items():
        rule = ROUTE_RULES[name]
        expected = ORDER if rule.creates_order else charged[rule.budget]
        assert route.costs == (ORDER if name == "create_batch" else expected), name


def test_methods_are_documented():
    for name, method in methods().items():
        assert method.function.__doc__, name
        assert next(iter(inspect.signature(method.function).parameters)) in ("self", "sender"), name


def test_names_in_a_path_are_encoded(client):
    with pytest.raises(NotFoundError) as caught:
        client.market("a/b?c#d e")
    assert "a/b?c#d e" in str(caught.value)


def test_lists_are_read_over_all_pages(client, market):
    for price in range(10, 17):
        client.buy(market.id, market.yes, price=price, size="1")
    assert [each.price for each in client.orders(market=market.id, limit=3)] == [*range(10, 17)]
    client.cancel_all(market.id)
    finished = [each.price for each in client.orders(market=market.id, status="all", limit=2)]
    assert sorted(finished) == [*range(10, 17)]


def test_pages_continue_after_a_position(client, market):
    client.buy(market.id, market.yes, price=40, size="5")
    for _ in range(5):
        client.sell(market.id, "YES", price=40, size="1", time_in_force="IOC")
    cursors = [each.cursor for each in client.fills(market=market.id, after="", limit=2)]
    assert len(cursors) == 10
    rest = [each.cursor for each in client.fills(market=market.id, after=cursors[3], limit=2)]
    assert rest == cursors[4:]
    assert [each.cursor for each in client.fills(market=market.id, limit=3)] == cursors[::-1]
    seqs = [each.seq for each in client.trades(market.id, limit=2)]
    assert [each.seq for each in client.trades(market.id, after=0, limit=2)] == seqs[::-1]
    assert len(seqs) == 5


def test_operator_methods(client, market):
    terms = {"yesTokenId": str(market.yes), "noTokenId": str(market.no), "question": "Rain?"}
    made = client.admin_create_market(market.id, terms)
    assert (made.mode, made.question) == ("open", "Rain?")
    assert client.admin_change_market(market.id, {"question": "Snow?"}).question == "Snow?"
    assert client.admin_halt_market(market.id).mode == "halted"
    assert client.admin_cancel_only_market(market.id).mode == "cancelOnly"
    assert client.admin_open_market(market.id).mode == "open"
    placed = client.buy(market.id, "NO", price=5, size="1")
    assert client.admin_cancel_order(placed.order_id).status == "cancelled"
    assert market.id in [each.market_id for each in client.admin_list_markets(limit=1)]
    assert client.admin_resolve_market(market.id, "yes").outcome == "yes"
    assert client.admin_get_market(market.id).mode == "resolved"
    key = client.admin_create_key("bot", ["read"])
    assert key.key
    assert key.key_id in [each.key_id for each in client.admin_list_keys()]
    assert not client.admin_deactivate_key(key.key_id).active
    limits = client.admin_get_limits()
    assert client.admin_set_limits(budgets=limits["budgets"]) == limits
    assert client.admin_engine().phase == "ready"
    assert client.admin_get_clock().sure
    assert client.admin_chain().state == "none"
    assert client.admin_backup().tail.seq >= 1
    assert client.admin_backup_frames(after=0)


def test_public_methods(client, market):
    client.buy(market.id, market.yes, price=40, size="2")
    client.sell(market.id, "YES", price=40, size="1")
    assert client.market(market.id).best_bid == 40
    assert [each.price for each in client.trades(market.id)] == [40]
    assert client.trades(market.id, after=0)
    assert client.candles(market.id, interval="1d").candles[0].close == 40
    assert client.ticker(market.id).yes.last_price == 40
    assert client.orderbook(market.id, depth=1).bids[0].size == str(10**18)
    assert client.health().status == client.health().status == "ok"
    assert client.ready().status == "ready"
    assert "clob_" in client.metrics()
    assert client.asyncapi()["asyncapi"]
    [order] = client.orders(market=market.id)
    assert len(client.order(order.id, fills=True).fills) == 1
    assert client.account(market=market.id).positions[0].net_size == "0"


async def test_both_clients_return_the_same(client, async_client, market):
    client.buy(market.id, market.yes, price=40, size="2", client_order_id="a")
    assert await async_client.market(market.id) == client.market(market.id)
    assert await async_client.orderbook(market.id) == client.orderbook(market.id)
    assert [each async for each in async_client.orders()] == list(client.orders())
    assert [each async for each in async_client.fills()] == list(client.fills())
    assert await async_client.order("client:a") == client.order("client:a")
    order = LimitOrder(market.id, "YES", "BUY", 39, "1")
    assert (await async_client.simulate(order)).remaining == client.simulate(order).remaining
    with pytest.raises(NotFoundError) as blocking:
        client.order("nothing")
    with pytest.raises(NotFoundError) as awaiting:
        await async_client.order("nothing")
    assert str(blocking.value) == str(awaiting.value)


async def test_both_clients_have_the_same_methods():
    def public(kind):
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(Client) == public(AsyncClient)


@pytest.mark.parametrize("url", ["localhost:8000", "ws://localhost", "http://", "http://a:b", ""])
def test_address_must_be_one_of_http(url):
    with pytest.raises(InvalidCallError, match="url "):
        Client(url)


def test_key_that_cannot_be_sent_is_not_in_the_error(live):
    assert Client(live.url, api_key=" \n", deadline_s=5).headers["x-api-key"] == ""
    with pytest.raises(InvalidCallError, match="characters that HTTP does not allow") as caught:
        Client(live.url, api_key="secret\nkey")
    assert "secret" not in str(caught.value)


def test_client_needs_its_extra_only():
    names = "{each.partition('.')[0] for each in sys.modules}"
    program = f"import sys, clob.client.cli; print(*{names})"
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert loaded >= {"httpx", "websockets", "coincurve"}
    assert not loaded & {"clob_server", "starlette", "uvicorn", "apsw", "jwt", "eth_account"}
