"""POST /api/orders/heartbeat and cancelOnDisconnect against running servers."""

import time

import pytest

from clob.codec import decode
from clob_server.core.commands import FireSwitch, KeepSwitches, SetHeartbeat, decode_own
from clob_server.log import SqliteLog
from tests.server.api.makers import ApiClient, Maker, MarketIds, good, problem
from tests.server.feed.connection import Connection
from tests.server.live import live_server

PATIENCE_S = 30
HEARTBEAT = "/api/orders/heartbeat"
LONG_MS = 3_600_000


def beat(http, maker, timeout_ms, **options):
    body = {"timeoutMs": timeout_ms, **({"maker": maker.address} if maker else {})}
    return http.post(HEARTBEAT, json=body, **options)


def rest(http, maker, market, count=2):
    """Place resting orders; return their ids."""
    api = ApiClient(http)
    prices = range(10, 10 + count)
    return [api.gasless(maker.gasless(market, price=price))["orderId"] for price in prices]


def open_orders(http, maker):
    answer = http.get("/api/orders", params={"maker": maker.address})
    return [each["id"] for each in good(answer)]


def wait_until(condition):
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "the condition did not hold in time"
        time.sleep(0.02)


def follow(connection, maker, **fields):
    """Subscribe with cancelOnDisconnect, and wait until that is confirmed."""
    connection.send(
        type="subscribe",
        channel="user",
        maker=maker.address,
        extended=True,
        **{"cancelOnDisconnect": True, **fields},
    )
    return connection.receive_until("orders")


def logged(folder):
    """Return the commands in the log of a server that has ended."""
    log = SqliteLog(folder)
    try:
        raws = [raw for frame in log.read(0) for raw in frame.raw]
    finally:
        log.close()
    return [decode_own(raw) if raw[0] >= 128 else decode(raw) for raw in raws]


def fired(folder, maker):
    """Return how often a switch of a maker fired."""
    commands = logged(folder)
    return sum(type(each) is FireSwitch and each.maker == maker.address for each in commands)


# ----- heartbeats ------------------------------------------------------------------------------


def test_missing_heartbeat_cancels_the_orders_of_its_maker_alone(http, alice, bob, market):
    orders, others = rest(http, alice, market), rest(http, bob, market)
    assert good(beat(http, alice, 1_000)) == {
        "success": True,
        "makers": [alice.address],
        "timeoutMs": 1_000,
        "changed": True,
    }
    wait_until(lambda: not open_orders(http, alice))
    assert open_orders(http, bob) == others
    for order_id in orders:
        order = good(http.get(f"/api/orders/{order_id}"))
        assert (order["status"], order["cancelReason"]) == ("cancelled", "cancelled")


def test_only_arming_changing_and_disarming_change_a_switch(http, alice):
    timeouts = (0, LONG_MS, LONG_MS, LONG_MS, 60_000, 60_000, 0, 0)
    changed = [good(beat(http, alice, each))["changed"] for each in timeouts]
    assert changed == [False, True, False, False, True, False, True, False]


def test_switch_that_fired_is_disarmed(http, alice, market):
    good(beat(http, alice, 1_000))
    rest(http, alice, market)
    wait_until(lambda: not open_orders(http, alice))
    orders = rest(http, alice, market)
    assert good(beat(http, alice, LONG_MS))["changed"]
    assert open_orders(http, alice) == orders


def test_zero_disarms(http, alice, bob, market):
    orders = rest(http, alice, market)
    rest(http, bob, market)
    good(beat(http, alice, 20_000))
    good(beat(http, alice, 0))
    good(beat(http, bob, 1_000))
    wait_until(lambda: not open_orders(http, bob))
    assert open_orders(http, alice) == orders


@pytest.mark.parametrize("value", [None, -1, 999, 3_600_001, 1.5, "1000", True, []])
def test_timeout_is_zero_or_within_its_bounds(http, alice, value):
    problem(beat(http, alice, value), "INVALID_FIELD", "timeoutMs")


def test_heartbeat_names_a_maker(http):
    problem(beat(http, None, 1_000), "INVALID_FIELD", "maker")


def test_key_arms_the_makers_that_it_is_bound_to(production, key_for, alice, bob):
    key = key_for(alice, bob, scopes=("cancel",))
    answer = good(beat(production.http, None, LONG_MS, headers=key))
    assert sorted(answer["makers"]) == sorted([alice.address, bob.address])
    assert answer["changed"]
    assert not good(beat(production.http, alice, LONG_MS, headers=key))["changed"]
    problem(beat(production.http, Maker(), LONG_MS, headers=key), "MAKER_NOT_ALLOWED")
    problem(beat(production.http, alice, LONG_MS), "API_KEY_REQUIRED")
    reader = key_for(alice, scopes=("read", "trade"))
    problem(beat(production.http, alice, LONG_MS, headers=reader), "SCOPE_MISSING")


# ----- cancelOnDisconnect ----------------------------------------------------------------------


def test_closing_the_last_socket_cancels_the_orders(live, http, alice, bob, market):
    others = rest(http, bob, market)
    with Connection(live) as first:
        follow(first, alice)
        orders = rest(http, alice, market)
        with Connection(live) as second:
            follow(second, alice)
        with Connection(live) as reader:
            follow(reader, alice, cancelOnDisconnect=False)
        good(http.get("/health"))
        assert open_orders(http, alice) == orders
    wait_until(lambda: not open_orders(http, alice))
    assert open_orders(http, bob) == others


def test_socket_that_withdraws_its_request_cancels_nothing(live, http, alice, bob, market):
    orders = rest(http, alice, market)
    rest(http, bob, market)
    with Connection(live) as connection:
        follow(connection, alice)
        follow(connection, alice, cancelOnDisconnect=False)
        follow(connection, alice)
        connection.send(
            type="unsubscribe", channel="user", maker=alice.address, extended=True, id=1
        )
        connection.receive_until("unsubscribed", id=1)
        follow(connection, bob)
    wait_until(lambda: not open_orders(http, bob))
    assert open_orders(http, alice) == orders


def test_disconnect_needs_the_authority_to_cancel(production, key_for, alice, bob):
    reader = key_for(alice, scopes=("read",))
    with Connection(production, additional_headers=reader) as connection:
        connection.send(
            type="subscribe",
            channel="user",
            maker=alice.address,
            extended=True,
            cancelOnDisconnect=True,
        )
        assert connection.receive_until("error")[-1]["code"] == "SCOPE_MISSING"


@pytest.mark.parametrize(
    "fields",
    [
        {"channel": "orderbook", "marketId": "m", "extended": True},
        {"channel": "settlement", "marketId": "m", "extended": True},
    ],
)
def test_only_the_user_channel_has_the_flag(live, fields):
    with Connection(live) as connection:
        connection.send(type="subscribe", cancelOnDisconnect=True, **fields)
        error = connection.receive_until("error")[-1]
    assert error["code"] == "INVALID_FIELD"
    assert "cancelOnDisconnect is for the channel user" in error["message"]


# ----- restarts --------------------------------------------------------------------------------


def test_restart_after_the_timeout_cancels_before_the_first_order(tmp_path, alice, bob):
    market = MarketIds()
    with live_server(tmp_path / "data", rate_limits=False) as live:
        rest(live.http, alice, market)
        others = rest(live.http, bob, MarketIds())
        good(beat(live.http, alice, 1_000))
        good(beat(live.http, bob, LONG_MS))
        live.kill()
    time.sleep(1.1)
    with live_server(tmp_path / "data", rate_limits=False) as live:
        crossing = bob.gasless(market, side=1, price=10)
        assert ApiClient(live.http).gasless(crossing)["status"] != "filled"
        assert open_orders(live.http, alice) == []
        assert set(others) <= set(open_orders(live.http, bob))
        live.stop()
    assert fired(tmp_path / "data", alice) == 1
    assert fired(tmp_path / "data", bob) == 0


def test_restart_within_the_timeout_begins_a_full_one(tmp_path, alice):
    with live_server(tmp_path / "data", rate_limits=False) as live:
        orders = rest(live.http, alice, MarketIds())
        good(beat(live.http, alice, LONG_MS))
        live.kill()
    with live_server(tmp_path / "data", rate_limits=False) as live:
        assert open_orders(live.http, alice) == orders
        assert not good(beat(live.http, alice, LONG_MS))["changed"]
        assert live.stop() == 0
    assert type(logged(tmp_path / "data")[-1]) is KeepSwitches


def test_orderly_stop_counts_from_its_end(tmp_path, alice):
    """A quiet market whose maker sends heartbeats has no commands before a planned restart."""
    with live_server(tmp_path / "data", rate_limits=False) as live:
        orders = rest(live.http, alice, MarketIds())
        good(beat(live.http, alice, 600_000))
        good(beat(live.http, alice, 600_000))
        live.stop()
    first = [each for each in logged(tmp_path / "data") if type(each) is SetHeartbeat]
    assert len(first) == 1
    with live_server(tmp_path / "data", rate_limits=False) as live:
        assert open_orders(live.http, alice) == orders


def test_socket_that_does_not_return_after_a_restart_cancels(tmp_path, alice, bob):
    market = MarketIds()
    with live_server(tmp_path / "data", rate_limits=False) as live:
        rest(live.http, alice, market)
        others = rest(live.http, bob, market)
        with Connection(live) as first, Connection(live) as second:
            follow(first, alice)
            follow(second, bob)
            live.stop()
    assert fired(tmp_path / "data", alice) == 0
    with live_server(tmp_path / "data", rate_limits=False) as live, Connection(live) as connection:
        follow(connection, bob)
        wait_until(lambda: not open_orders(live.http, alice))
        assert open_orders(live.http, bob) == others
        live.stop()
    assert fired(tmp_path / "data", alice) == 1
    assert fired(tmp_path / "data", bob) == 0
