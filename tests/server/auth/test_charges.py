"""Charges of orders: given back if rejected, raised for much work, the same after a restart."""

import pytest

from clob import Batch, Limits, SetLimits, TimeInForce
from clob_server.auth.rate_limit import MINUTE_MS
from clob_server.core.commands import Budgets, SetBudgets
from clob_server.core.recovery import recover
from clob_server.core.sequencer import NewOrder, NewOrders, Sequencer
from clob_server.core.state import ServerState
from clob_server.log import MemoryLog
from tests.matchers import buy, sell
from tests.server.api.makers import Maker
from tests.server.auth.budgets import GASLESS, place, set_budgets
from tests.server.auth.guard_harness import MAKER, OTHER, GuardHarness
from tests.server.auth.servers import operated_server
from tests.server.engines import working

LIMIT = 30


class Charged:
    """A sequencer whose orders a guard charges."""

    def __init__(self, folder, log=None, exchange=None, **clocks):
        self.log = log or MemoryLog()
        self.guard = GuardHarness(folder, exchange, **clocks)
        self.engine = Sequencer(
            self.log,
            self.guard.exchange,
            self.guard.clock_ms,
            charges=self.guard.limiter.take_charges,
        )
        self.engine.next_order_id = self.next_order_id
        self.ids = iter(range(10**6))

    def next_order_id(self, now_ms):
        return f"o{next(self.ids)}"

    def usage(self, address="192.0.2.1"):
        """Return the usage of a new request that creates an order."""
        return self.guard.admit("create_order", address=address).usage

    async def place(self, submit, address="192.0.2.1"):
        """Place an order of an address; return its outcome."""
        new = NewOrder(submit, payer=self.usage(address).payer)
        return (await self.engine.try_submit(new)).outcome

    def left(self, address="192.0.2.1"):
        """Return the number of orders left, without a request."""
        limiter = self.guard.limiter
        return limiter._orders.left(limiter._payer(address), LIMIT)

    def restarted(self, folder, down_ms=0):
        """Return the number of orders left after a restart from the log."""
        state, _, _ = recover(self.log)
        snapshot = ServerState.restore(state.snapshot())
        lefts = []
        for exchange in (state, snapshot):
            again = Charged(
                folder, self.log, exchange, now_ms=self.guard.now_ms + down_ms, tick_ms=17
            )
            again.guard.limiter._orders.take(again.guard.limiter._payer("192.0.2.1"), LIMIT, 17, 0)
            lefts.append(again.left())
        assert lefts[0] == lefts[1]
        return lefts[0]


@pytest.fixture
def charged(tmp_path):
    return Charged(tmp_path)


async def prepared(engine, **limits):
    await engine.submit(SetBudgets(budgets=Budgets(orders_per_minute=LIMIT), now_ms=0))
    await engine.submit(SetLimits(limits=Limits(orders_max=10_000, **limits)))


async def test_order_that_the_matcher_rejects_gives_its_charge_back(charged, tmp_path):
    async with working(charged.engine):
        await prepared(charged.engine)
        assert (await charged.place(buy("?", 50, 10)))[0].order_id == "o0"
        assert charged.left() == LIMIT - 1
        duplicate = buy("?", 50, 10)
        charged.ids = iter([0, *range(100, 200)])
        assert (await charged.place(duplicate)).code == "DUPLICATE_ORDER"
        assert charged.left() == LIMIT - 1
        assert charged.restarted(tmp_path) == LIMIT - 1


async def test_orders_without_a_fill_count(charged, tmp_path):
    async with working(charged.engine):
        await prepared(charged.engine)
        ioc = buy("?", 50, 10, time_in_force=TimeInForce.IOC)
        fok = buy("?", 50, 10, time_in_force=TimeInForce.FOK)
        assert len(await charged.place(ioc)) == 0
        assert (await charged.place(fok)).code == "FOK_NOT_FILLABLE"
        assert charged.left() == charged.restarted(tmp_path) == LIMIT - 2


async def test_rejected_orders_of_a_batch_are_given_back_one_by_one(charged, tmp_path):
    async with working(charged.engine):
        await prepared(charged.engine)
        usage = charged.guard.admit("create_batch").usage
        charged.guard.limiter.charge_orders(None, "192.0.2.1", 5, usage)
        # Two of the five were rejected before the commit, and are not given back.
        charged.ids = iter([1, 1, 2])
        orders = [NewOrder(sell("?", 50, 10), payer=usage.payer) for _ in range(3)]
        outcome = (await charged.engine.submit(NewOrders(orders))).outcome
        assert [type(each).__name__ for each in outcome] == ["OrderAdded", "Rejected", "OrderAdded"]
        assert charged.left() == charged.restarted(tmp_path) == LIMIT - 4


async def test_batch_that_is_rejected_whole_gives_all_charges_back(charged, tmp_path):
    async with working(charged.engine):
        await prepared(charged.engine, batch_max=1)
        usage = charged.guard.admit("create_batch").usage
        charged.guard.limiter.charge_orders(None, "192.0.2.1", 2, usage)
        orders = [NewOrder(sell("?", 50, 10), payer=usage.payer) for _ in range(2)]
        assert (await charged.engine.try_submit(NewOrders(orders))).outcome.code
        assert charged.left() == charged.restarted(tmp_path) == LIMIT
        # The charges of the next orders are not mixed up.
        await charged.place(sell("?", 50, 10), address="192.0.2.2")
        assert (charged.left(), charged.left("192.0.2.2")) == (LIMIT, LIMIT - 1)


async def test_payers_of_one_commit_are_told_apart(charged, tmp_path):
    async with working(charged.engine):
        await prepared(charged.engine)
        await charged.engine.submit(buy("mine", 50, 10))  # of the server, without a charge
        charged.ids = iter(["x", "x", "y"])
        results = []
        for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
            new = NewOrder(buy("?", 50, 10), payer=charged.usage(address).payer)
            charged.engine.enqueue(new, results.append)
            charged.engine.enqueue(buy("mine", 50, 10), results.append)  # rejected, without one
        await charged.engine.try_submit(buy("other", 50, 10))
        assert len(results) == 6
        assert [charged.left(f"192.0.2.{n}") for n in (1, 2, 3)] == [LIMIT - 1, LIMIT, LIMIT - 1]
        assert charged.restarted(tmp_path) == LIMIT - 1


async def test_order_with_many_trades_is_charged_for_them(charged, tmp_path):
    async with working(charged.engine):
        await prepared(charged.engine)
        for start in range(0, 350, 20):
            orders = tuple(sell(f"s{n}", 60, 10, maker=OTHER) for n in range(start, start + 20))
            await charged.engine.submit(Batch(commands=orders))
        await charged.place(buy("?", 60, 990, maker=MAKER))
        assert charged.left() == LIMIT - 1
        await charged.place(buy("?", 60, 2_000, maker=MAKER))
        assert charged.left() == charged.restarted(tmp_path) == LIMIT - 4
        # They leave the window with the others.
        assert charged.restarted(tmp_path, down_ms=MINUTE_MS) == LIMIT


async def test_charge_for_work_may_exceed_the_limit(charged):
    usage = charged.guard.admit("set_nonce").usage
    charged.guard.limiter.charge_work(usage, 10**9)
    assert len(usage.taken) == 101
    assert charged.guard.limiter.header_lines(usage).startswith(b'ratelimit: "requests";r=0;t=60')


# ----- headers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with operated_server(tmp_path_factory.mktemp("charges"), "test") as made:
        set_budgets(made)
        yield made


def shown(answer):
    """Return the name of the limit that a reply shows, and the amount left."""
    name, left, wait = answer.headers["ratelimit"].split(";")
    policy, limit, window = answer.headers["ratelimit-policy"].split(";")
    assert (name, window, left[:2], wait[:2], limit[:2]) == (policy, "w=60", "r=", "t=", "q=")
    assert 0 <= int(wait[2:]) <= 60
    assert answer.headers["x-ratelimit-limit"] == limit[2:]
    assert answer.headers["x-ratelimit-remaining"] == left[2:]
    assert int(answer.headers["x-ratelimit-reset"]) > 1_700_000_000
    return name.strip('"'), int(left[2:]), int(limit[2:])


def test_replies_of_counted_routes_show_what_is_left(server):
    headers = {"X-API-Key": server.key(requestsPerMinute=50, ordersPerMinute=9)["key"]}
    for count, (method, path, status) in enumerate(
        [("GET", "/", 200), ("GET", "/api/markets", 200), ("GET", "/api/orders/none", 404),
         ("GET", "/nothing", 404), ("PUT", "/api/orders", 405), ("POST", "/api/orders/nonce", 422)],
        1,
    ):  # fmt: skip
        answer = server.http.request(
            method, path, headers=headers, json={} if method == "POST" else None
        )
        assert answer.status_code == status, path
        assert shown(answer) == ("requests", 50 - count, 50)
        assert "retry-after" not in answer.headers


def test_replies_to_new_orders_show_the_limit_with_less_left(server):
    key = server.key(requestsPerMinute=20, ordersPerMinute=9)["key"]
    headers = {"X-API-Key": key}
    placed = place(server, key)
    assert (placed.status_code, shown(placed)) == (200, ("orders", 8, 9))
    # Rejected by the matcher: the order is given back in the reply already.
    rejected = place(server, key, deadlineMs=1)
    assert (rejected.json()["code"], shown(rejected)) == ("DEADLINE_PASSED", ("orders", 8, 9))
    # Rejected before the commit: it counts.
    rejected = place(server, key, price=0)
    assert (rejected.status_code, shown(rejected)) == (422, ("orders", 7, 9))
    batch = server.http.post("/api/orders/batch", json={"orders": [{}, {}]}, headers=headers)
    assert shown(batch) == ("orders", 5, 9)
    cancelled = server.http.request(
        "DELETE", f"/api/orders/{placed.json()['orderId']}", json={"maker": MAKER}, headers=headers
    )
    assert shown(cancelled)[0] == "cancels"
    for _ in range(12):
        server.http.get("/", headers=headers)
    assert shown(place(server, key)) == ("requests", 3, 20)


def test_nonce_that_cancels_many_orders_is_charged_for_them(server):
    alice = Maker()
    key = server.key(requestsPerMinute=50)["key"]
    order = {**GASLESS, "maker": alice.address}
    for _ in range(11):
        batch = {"orders": [order] * 20}
        assert server.http.post("/api/orders/batch", json=batch).status_code == 200
    answer = server.http.post("/api/orders/nonce", json=alice.nonce(5), headers={"X-API-Key": key})
    assert answer.json()["numCancelled"] == 220
    assert shown(answer) == ("requests", 50 - 1 - 2, 50)


def test_rejection_beyond_a_limit_has_each_header_once(server):
    headers = {"X-API-Key": server.key(requestsPerMinute=50, ordersPerMinute=1)["key"]}
    place(server, headers["X-API-Key"])
    for path, body in (("/api/orders/gasless", {}), ("/api/orders/batch", {"orders": [{}]})):
        answer = server.http.post(path, json=body, headers=headers)
        assert answer.status_code == 429
        names = [name.lower() for name, _ in answer.headers.multi_items()]
        for name in ("ratelimit", "ratelimit-policy", "x-ratelimit-limit", "retry-after"):
            assert names.count(name) == 1
        assert answer.headers["ratelimit"].startswith('"orders";')


@pytest.mark.parametrize(
    "path",
    ["/api/markets/budgets/orderbook", "/api/markets/budgets/trades", "/openapi.json",
     "/asyncapi.json", "/docs", "/health", "/ready", "/metrics"],
)  # fmt: skip
def test_cached_reads_and_uncounted_routes_have_no_headers_of_limits(server, path):
    place(server)
    answer = server.http.get(path)
    assert answer.status_code == 200
    assert not [name for name in answer.headers if "ratelimit" in name.lower()]
