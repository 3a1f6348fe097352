"""A server whose clocks the tests set: no change is accepted while the time is not certain."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest

from clob import AddMarket, Cancel, Expire, TimeInForce
from clob_server.app import ROUTES, App
from clob_server.auth.api_keys import TOKENS, secret
from clob_server.auth.policy import ADMIN
from clob_server.auth.tokens import mint
from clob_server.core.clock import ClockUnsureError, wall_clock_ms
from clob_server.core.commands import GiveBack
from clob_server.service import Service
from clob_server.settings import Settings
from tests.matchers import buy, market
from tests.server.feed.harness import Client, until

DAY_MS = 86_400_000
CHANGES = [route for route in ROUTES if route.needs_time]
READS = [
    *("/", "/health", "/metrics", "/api/markets", "/api/markets/m", "/api/markets/m/orderbook"),
    *("/api/markets/m/trades", "/api/orders?maker=0x70997970C51812dc3A010C7d01b50e0d17dc79C8"),
    *("/api/orders/a", "/openapi.json", "/api/admin/keys", "/api/admin/engine", "/api/admin/clock"),
]
ORDER = {
    "maker": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "marketId": "m", "tokenId": "101",
    "side": 0, "price": 50, "size": str(10**18),
}  # fmt: skip


class Clocked:
    """A service with a market and an order, over a wall clock that the test moves."""

    def __init__(self, folder):
        self.wall_ms, self.boot_ms = wall_clock_ms(), 5_000
        self.service = Service(
            Settings(data_dir=str(folder), chain="none", history="thread"),
            lambda: self.wall_ms,
            lambda: self.boot_ms,
        )
        transport = httpx.ASGITransport(App(self.service))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def pass_s(self, count):
        """Let time pass, with two readings a second."""
        for _ in range(2 * count):
            self.wall_ms, self.boot_ms = self.wall_ms + 500, self.boot_ms + 500
            self.service.clock.check()

    def token(self):
        """Return the header of an operator."""
        key = secret(self.service.folder, TOKENS)
        made = mint(key, "alice", ADMIN, wall_clock_ms() // 1000, 30 * 86_400)
        return {"Authorization": f"Bearer {made}"}

    @property
    def seq(self):
        return self.service.sequencer.seq


@asynccontextmanager
async def clocked(folder):
    """Run a service within the block."""
    server = Clocked(folder)
    await server.service.start()
    try:
        server.pass_s(2)
        if "m" not in server.service.state.matcher.markets:
            made = AddMarket(market=market(yes="101", no="102"))
            await server.service.sequencer.submit(made)
            order = buy("a", 40, 10**18, maker=ORDER["maker"], token="101").order
            now_s = server.wall_ms // 1000
            order = msgspec.structs.replace(
                order, time_in_force=TimeInForce.GTD, expiration_s=now_s + 3_600
            )
            submit = msgspec.structs.replace(buy("a", 40, 10**18), order=order)
            await server.service.sequencer.submit(submit)
        yield server
    finally:
        await server.http.aclose()
        await server.service.close()


async def test_heartbeat_counts_while_the_time_is_not_certain(tmp_path):
    async with clocked(tmp_path) as server:
        path, beat = "/api/orders/heartbeat", {"maker": ORDER["maker"], "timeoutMs": 60_000}
        assert (await server.http.post(path, json=beat)).json()["changed"] is True
        server.wall_ms += DAY_MS
        server.service.clock.check()
        assert (await server.http.post(path, json=beat)).json()["changed"] is False
        answer = await server.http.post(path, json={**beat, "timeoutMs": 50_000})
        assert (answer.status_code, answer.json()["code"]) == (503, "CLOCK_UNSURE")


async def test_socket_rejects_changes_while_the_time_is_not_certain(tmp_path):
    async with clocked(tmp_path) as server:
        await server.http.get("/health")  # the first request makes the routes
        client = Client(server.service.feed, headers=[(b"host", b"localhost")])
        server.wall_ms += DAY_MS
        server.service.clock.check()
        before = server.seq
        await client.send(type="request", id=1, operation="create_gasless_order", body=ORDER)
        await client.send(type="request", id=2, operation="list_orders", params={"marketId": "m"})
        await until(lambda: len(client.messages) == 2)
        answers = {message["id"]: message for message in client.received()}
        client.disconnect()
        await client.task
        assert (answers[1]["status"], answers[1]["body"]["code"]) == (503, "CLOCK_UNSURE")
        assert answers[1]["headers"]["retry-after"] == "10"
        assert answers[2]["status"] == 200
        assert server.seq == before


@pytest.mark.parametrize("jump", [DAY_MS, -DAY_MS])
async def test_every_change_is_rejected_while_the_time_is_not_certain(tmp_path, jump):
    async with clocked(tmp_path) as server:
        token = server.token()
        server.wall_ms += jump
        server.service.clock.check()
        before = server.seq
        assert len(CHANGES) > 20
        for route in CHANGES:
            path = route.path.format_map({"orderId": "a", "marketId": "m", "keyId": "k",
                                          "operationId": "o", "address": "0xA"})  # fmt: skip
            answer = await server.http.request(route.method, path, json=ORDER, headers=token)
            assert (answer.status_code, answer.json()["code"]) == (503, "CLOCK_UNSURE"), route.path
            assert answer.json()["retryable"] is True
            assert answer.headers["retry-after"] == "10"
        for path in READS:
            assert (await server.http.get(path, headers=token)).status_code == 200, path
        ready = await server.http.get("/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
        assert "differs by" in ready.json()["detail"]
        assert "differs by" in (await server.http.get("/health")).json()["clock"]
        metrics = (await server.http.get("/metrics", headers=token)).text
        assert f"clob_clock_skew_seconds {jump / 1000}" in metrics
        assert "clob_ready 0.0" in metrics
        assert server.seq == before
        assert len(server.service.state.matcher) == 1


async def test_jump_between_two_checks_does_not_reach_the_log(tmp_path):
    async with clocked(tmp_path) as server:
        before = server.seq, server.service.state.now_ms
        server.wall_ms += 10 * 365 * DAY_MS
        answer = await server.http.post("/api/orders/gasless", json=ORDER)
        assert answer.json()["code"] == "CLOCK_UNSURE"
        with pytest.raises(ClockUnsureError):
            await server.service.sequencer.submit(Expire())
        assert (server.seq, server.service.state.now_ms) == before


async def test_rejected_orders_are_not_charged(tmp_path):
    async with clocked(tmp_path) as server:
        server.wall_ms += DAY_MS
        server.service.clock.check()
        for _ in range(40):  # 30 are allowed a minute
            await server.http.post("/api/orders/gasless", json=ORDER)
        server.wall_ms -= DAY_MS
        server.pass_s(2)
        answer = await server.http.post("/api/orders/gasless", json=ORDER)
        assert answer.status_code == 200, answer.text


async def test_commands_of_the_server_wait_until_the_time_is_certain(tmp_path):
    async with clocked(tmp_path) as server:
        server.wall_ms += DAY_MS
        server.service.clock.check()
        before = server.seq
        give_back = lambda now_ms: GiveBack(operation="o", now_ms=now_ms)  # noqa: E731
        waiting = asyncio.create_task(server.service.sequencer.deliver(give_back))
        with pytest.raises(ClockUnsureError):
            await server.service.sequencer.submit(Cancel(order_id="a"))
        assert (waiting.done(), server.seq) == (False, before)
        server.wall_ms -= DAY_MS
        server.pass_s(2)
        done = await asyncio.wait_for(waiting, 30)
        assert done.seq == server.seq == before + 1
        assert done.now_ms <= server.wall_ms


async def test_operator_accepts_a_jump_and_orders_expire(tmp_path):
    async with clocked(tmp_path) as server:
        token = server.token()
        server.wall_ms += DAY_MS
        server.pass_s(20)
        shown = (await server.http.get("/api/admin/clock", headers=token)).json()
        assert (shown["sure"], shown["needsOperator"], shown["skewS"]) == (False, True, 86_400.0)
        assert shown["wallTime"] - shown["time"] == DAY_MS
        assert shown["logTime"] < shown["time"]
        wrong = await server.http.post("/api/admin/clock", json={"accept": False}, headers=token)
        assert wrong.json()["code"] == "INVALID_FIELD"
        assert (await server.http.post("/api/admin/clock", json={})).status_code == 401
        assert len(server.service.state.matcher) == 1
        await server.http.post("/api/admin/clock", json={"accept": True}, headers=token)
        server.pass_s(2)
        shown = (await server.http.get("/api/admin/clock", headers=token)).json()
        assert (shown["sure"], shown["detail"], shown["skewS"]) == (True, "", 0.0)
        async with asyncio.timeout(30):
            while len(server.service.state.matcher):
                await asyncio.sleep(0.05)
        answer = await server.http.post("/api/orders/gasless", json=ORDER)
        assert answer.status_code == 200, answer.text


async def test_accepted_step_back_of_a_day_names_the_repair(tmp_path):
    async with clocked(tmp_path) as server:
        token = server.token()
        server.wall_ms -= DAY_MS
        server.pass_s(20)
        answer = await server.http.post("/api/admin/clock", json={"accept": True}, headers=token)
        server.pass_s(2)
        answer = await server.http.get("/api/admin/clock", headers=token)
        assert "clob-server repair-clock" in answer.json()["detail"]
        assert answer.json()["logAheadS"] > 86_000
        rejected = await server.http.post("/api/orders/gasless", json=ORDER)
        assert rejected.json()["code"] == "CLOCK_UNSURE"
        assert rejected.headers["retry-after"] == "60"
