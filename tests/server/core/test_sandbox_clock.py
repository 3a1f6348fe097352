"""Servers whose time is moved forward, as bots do to test expiry without waiting."""

import shutil
import time

import pytest

from clob.wire.info import ADVANCE_MAX_MS
from clob_server import cli
from tests.server.api.makers import SELL, Maker, MarketIds, good, problem
from tests.server.auth.servers import operated_server
from tests.server.live import live_server
from tests.server.meta.operators import authority_of

PATH = "/api/test/clock"
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
SLACK_MS = 2 * MINUTE_MS
"""Time that a test may take."""


@pytest.fixture
def live(tmp_path):
    with live_server(tmp_path / "data", rate_limits=False) as live:
        yield live


@pytest.fixture
def production(tmp_path):
    with operated_server(tmp_path, "production") as server:
        yield server.http


def wall_ms():
    return time.time_ns() // 1_000_000


def advance(live, by_ms):
    """Move the time of a server forward."""
    return good(live.http.post(PATH, json={"advanceMs": by_ms}))


def assert_ahead(live, by_ms):
    """Check that the time of a server, its guard included, is that far ahead and certain."""
    now_ms = good(live.http.get("/api/time"))["nowMs"]
    assert abs(now_ms - wall_ms() - by_ms) < SLACK_MS
    clock = good(live.http.get("/api/admin/clock", headers=authority_of(live)))
    assert (clock["sure"], clock["needsOperator"], clock["aheadMs"]) == (True, False, by_ms)
    assert abs(clock["time"] - clock["wallTime"]) < SLACK_MS
    assert clock["logAheadS"] == 0
    assert good(live.http.get("/health"))["clock"] == "sure"
    assert good(live.http.get("/ready"))["status"] == "ready"


def test_orders_that_fall_due_are_expired_before_the_answer(live):
    alice, market = Maker(), MarketIds()
    due_s = good(live.http.get("/api/time"))["nowS"] + 3_600
    dated = {"also": {"timeInForce": "GTD"}}
    due, later = (
        good(live.http.post("/api/orders", json=alice.signed(market, expiration_s=end_s, **dated)))
        for end_s in (due_s, due_s + 3_600)
    )
    answer = advance(live, HOUR_MS + MINUTE_MS)
    assert answer["chain"] == "none"
    assert answer["nowS"] == answer["nowMs"] // 1000 > due_s
    shown = [
        good(live.http.get(f"/api/orders/{each['orderId']}"))["status"] for each in (due, later)
    ]
    assert shown == ["cancelled", "open"]
    assert_ahead(live, HOUR_MS + MINUTE_MS)


def test_timestamps_candles_and_expiry_checks_follow(live):
    alice, bob, market = Maker(), Maker(), MarketIds()
    for _ in range(2):
        placed = good(live.http.post("/api/orders/gasless", json=alice.gasless(market)))
        good(live.http.post("/api/orders/gasless", json=bob.gasless(market, SELL)))
        order = good(live.http.get(f"/api/orders/{placed['orderId']}"))
        advance(live, DAY_MS)
    assert abs(order["timestamp"] - wall_ms() - DAY_MS) < SLACK_MS
    path = f"/api/markets/{market.id}/candles"
    query = {"interval": "1d", "tokenId": market.yes}
    candles = good(live.http.get(path, params=query))["candles"]
    begins = sorted(each["timestamp"] for each in candles)
    assert [begins[-1] - begins[0], len(begins)] == [DAY_MS, 2]
    passed_s = wall_ms() // 1000 + 3_600
    late = live.http.post("/api/orders", json=alice.signed(market, expiration_s=passed_s))
    problem(late, "ORDER_EXPIRED")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_offset_survives_a_restart(tmp_path, end, capsys):
    folder = tmp_path / "data"
    with live_server(folder, rate_limits=False) as live:
        advance(live, 2 * DAY_MS)
        assert advance(live, DAY_MS)["aheadMs"] == 3 * DAY_MS
        getattr(live, end)()
    with live_server(folder, rate_limits=False) as live:
        assert_ahead(live, 3 * DAY_MS)
        advance(live, DAY_MS)
        assert live.stop() == 0
    assert cli.main(["verify", str(folder)]) == 0
    assert cli.main(["repair-clock", "--data-dir", str(folder)]) == 0
    assert "not ahead of the clock" in capsys.readouterr().out
    key = ("key", "create", "--name", "bot", "--scopes", "read", "--data-dir", str(folder))
    assert cli.main(key) == 0  # a command of a server at rest
    with live_server(folder, rate_limits=False) as live:
        assert_ahead(live, 4 * DAY_MS)


def test_restore_takes_back_the_moves_after_the_backup(tmp_path):
    folder, copy = tmp_path / "data", tmp_path / "copy"
    with live_server(folder, rate_limits=False) as live:
        advance(live, DAY_MS)
        live.stop()
    shutil.copytree(folder, copy)
    with live_server(folder, rate_limits=False) as live:
        advance(live, DAY_MS)
        live.stop()
    assert cli.main(["restore", str(copy), "--data-dir", str(folder)]) == 0
    with live_server(folder, rate_limits=False) as live:
        assert_ahead(live, DAY_MS)
        advance(live, DAY_MS)


def test_tokens_of_operators_keep_to_the_wall_clock(live):
    token = authority_of(live)
    advance(live, 60 * DAY_MS)
    assert good(live.http.get("/api/admin/clock", headers=token))["sure"]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"advanceMs": 0}, {"advanceMs": -1}, {"advanceMs": 1.5}, {"advanceMs": "1"},
        {"advanceMs": None}, {"advanceMs": True}, {"advanceMs": ADVANCE_MAX_MS + 1},
        {"advanceMs": 1, "nowMs": 1}, {"advancems": 1},
    ],
)  # fmt: skip
def test_invalid_moves_are_rejected_and_change_nothing(live, body):
    before = good(live.http.get("/health"))["commandSeq"]
    problem(live.http.post(PATH, json=body), "INVALID_FIELD")
    assert good(live.http.get("/health"))["commandSeq"] == before
    assert_ahead(live, 0)


def test_all_moves_together_are_bounded(live):
    advance(live, ADVANCE_MAX_MS - 5)
    rejected = live.http.post(PATH, json={"advanceMs": 6})
    problem(rejected, "INVALID_FIELD", "advanceMs")
    assert "from 1 to 5 " in rejected.json()["detail"]
    assert advance(live, 5)["aheadMs"] == ADVANCE_MAX_MS
    assert_ahead(live, ADVANCE_MAX_MS)


def test_requests_are_charged(tmp_path):
    with live_server(tmp_path) as live:
        answer = live.http.post(PATH, json={"advanceMs": 1})
        assert "x-ratelimit-remaining" in answer.headers


def test_production_has_no_such_route(production):
    problem(production.post(PATH, json={"advanceMs": 1}), "NOT_ON_THIS_ENVIRONMENT")
    assert abs(good(production.get("/api/time"))["nowMs"] - wall_ms()) < SLACK_MS
