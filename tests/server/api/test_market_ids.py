"""Ids that clients remove from paths are rejected; markets of old logs that have them stay."""

import http.client
import json

import pytest
from websockets.sync.client import connect

from tests.server.api.makers import MarketIds, good, problem
from tests.server.engines import write_markets
from tests.server.live import live_server
from tests.server.meta.operators import authority_of

VANISHING = (".", "..")
NEAR = ("...", ".a", "a.", "..a", "-", "_", ":", "a:b", "x" * 64)
RULE = "marketId must not be . or .., which clients remove from paths"


def named(name):
    ids = MarketIds()
    ids.id = name
    return ids


@pytest.mark.parametrize("name", VANISHING)
def test_market_whose_id_vanishes_from_paths_is_not_created(production, name):
    body = {"marketId": name, "yesTokenId": "77001", "noTokenId": "77002"}
    answer = production.operator.post("/api/admin/markets", json=body)
    assert RULE in problem(answer, "INVALID_FIELD", "marketId")["detail"]
    listed = good(production.operator.get("/api/admin/markets", params={"limit": 100}))
    assert name not in [market["marketId"] for market in listed]


@pytest.mark.parametrize("name", VANISHING)
def test_order_opens_no_market_whose_id_vanishes_from_paths(live, alice, name):
    market = named(name)
    signed, gasless = alice.signed(market), alice.gasless(market)
    for path, body in (("", signed), ("/gasless", gasless), ("/simulate", signed)):
        answer = live.http.post(f"/api/orders{path}", json=body)
        assert RULE in problem(answer, "INVALID_FIELD", "marketId")["detail"]
    outlook = good(live.http.post("/api/orders/validate", json=signed))
    assert RULE in outlook["refusal"]["detail"]
    batch = good(live.http.post("/api/orders/batch", json={"orders": [signed]}))
    assert [each["code"] for each in batch["results"]] == ["INVALID_FIELD"]
    known = good(live.http.get("/api/markets", params={"limit": 100}))
    assert name not in [each["marketId"] for each in known]


@pytest.mark.parametrize("name", VANISHING)
def test_subscription_to_a_market_whose_id_vanishes_from_paths_is_rejected(live, name):
    request = {"type": "subscribe", "channel": "orderbook", "marketId": name, "extended": True}
    with connect(live.ws_url) as socket:
        socket.send(json.dumps(request))
        error = json.loads(socket.recv(timeout=60))
    assert (error["type"], error["code"]) == ("error", "INVALID_FIELD")
    assert RULE in error["message"]


@pytest.mark.parametrize("name", NEAR)
def test_market_with_another_unusual_id_has_an_address(live, alice, name):
    good(live.http.post("/api/orders/gasless", json=alice.gasless(named(name))))
    assert good(live.http.get(f"/api/markets/{name}"))["marketId"] == name
    assert good(live.http.get(f"/api/markets/{name}/orderbook"))["marketId"] == name


def test_markets_of_an_old_log_are_served_and_an_operator_can_close_them(tmp_path):
    folder = tmp_path / "data"
    write_markets(folder, *VANISHING, "sound")
    with live_server(folder, rate_limits=False) as live:
        listed = good(live.http.get("/api/markets"))
        assert [market["marketId"] for market in listed] == [*VANISHING, "sound"]
        as_sent = http.client.HTTPConnection(live.url.removeprefix("http://"), timeout=60)
        for method, path, body in (
            ("POST", "/api/admin/markets/./resolve", b'{"outcome": "yes"}'),
            ("DELETE", "/api/admin/markets/..", b""),
        ):
            headers = authority_of(live) | {"Content-Type": "application/json"}
            as_sent.request(method, path, body, headers)
            answer = as_sent.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        as_sent.close()
        modes = {
            market["marketId"]: market["mode"] for market in good(live.http.get("/api/markets"))
        }
        assert modes == {".": "resolved", "sound": "open"}
        assert live.stop() == 0
    with live_server(folder, rate_limits=False) as live:
        assert len(good(live.http.get("/api/markets"))) == 2
