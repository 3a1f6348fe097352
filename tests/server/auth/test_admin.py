"""Operator routes: keys, markets, limits, engine status, and cancels of any order."""

import itertools
import re

import pytest

from tests.server.auth.guard_harness import MAKER, OTHER
from tests.server.auth.servers import operated_server

NAMES = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with operated_server(tmp_path_factory.mktemp("admin"), "test", rate_limits=False) as made:
        yield made


@pytest.fixture
def market(server):
    name = f"market-{next(NAMES)}"
    terms = {"yesTokenId": f"{next(NAMES)}1", "noTokenId": f"{next(NAMES)}2", "question": "Rain?"}
    accepted(server, "POST", "/api/admin/markets", {"marketId": name, **terms})
    return name


def send(server, method, path, body=None):
    return server.http.request(method, path, json=body, headers=server.operator)


def accepted(server, method, path, body=None):
    """Send an accepted request; return the response body."""
    answer = send(server, method, path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rejected(server, code, status, method, path, body=None):
    """Send a rejected request; return the response body."""
    answer = send(server, method, path, body)
    assert (answer.json()["code"], answer.status_code) == (code, status), answer.text
    return answer.json()


def engine_status(server):
    return accepted(server, "GET", "/api/admin/engine")


def state_of(server, name):
    return next(m for m in accepted(server, "GET", "/api/admin/markets") if m["marketId"] == name)


def place(server, name, headers=None, **more):
    token = state_of(server, name)["yesTokenId"]
    body = {"maker": MAKER, "tokenId": token, "side": 0, "price": 50, "size": str(10**20), **more}
    body["marketId"] = name
    return server.http.post("/api/orders/gasless", json=body, headers=headers)


# ----- keys ------------------------------------------------------------------------------------


def test_key_is_shown_once_and_listed_without_its_secret(server):
    body = {"name": "maker one", "scopes": ["trade", "read", "trade"], "makers": [MAKER.lower()]}
    made = accepted(server, "POST", "/api/admin/keys", {**body, "requestsPerMinute": 7})
    whole = made.pop("key")
    assert re.fullmatch(f"clob_{made['keyId']}_[0-9a-f]{{64}}", whole)
    assert made == {
        "keyId": made["keyId"],
        "name": "maker one",
        "environment": "test",
        "scopes": ["trade", "read"],
        "makers": [MAKER],
        "requestsPerMinute": 7,
        "ordersPerMinute": None,
        "created": made["created"],
        "lastUsed": None,
        "active": True,
        "deactivated": None,
    }
    listing = send(server, "GET", "/api/admin/keys")
    assert made in listing.json()
    assert whole[18:] not in listing.text


def test_response_with_a_new_key_is_not_cacheable(server):
    answer = send(server, "POST", "/api/admin/keys", {"name": "k", "scopes": ["read"]})
    assert answer.headers["cache-control"] == "no-store"


def test_list_of_keys_shows_the_last_use(server):
    made = server.key()
    server.http.get("/", headers={"X-API-Key": made["key"]})
    [listed] = [
        k for k in accepted(server, "GET", "/api/admin/keys") if k["keyId"] == made["keyId"]
    ]
    assert listed["lastUsed"] >= made["created"]


@pytest.mark.parametrize(("method", "end"), [("POST", "/deactivate"), ("DELETE", "")])
def test_key_is_deactivated_at_once_and_stays_in_the_list(server, method, end):
    made = server.key()
    path, headers = f"/api/admin/keys/{made['keyId']}{end}", {"X-API-Key": made["key"]}
    assert server.http.get("/", headers=headers).status_code == 200
    deactivated = accepted(server, method, path)
    assert (deactivated["active"], deactivated["deactivated"] >= made["created"]) == (False, True)
    assert server.http.get("/", headers=headers).json()["code"] == "INVALID_API_KEY"
    rejected(server, "KEY_INACTIVE", 409, method, path)
    assert deactivated["keyId"] in [k["keyId"] for k in accepted(server, "GET", "/api/admin/keys")]


def test_deactivating_an_unknown_key_is_rejected(server):
    rejected(server, "UNKNOWN_KEY", 404, "DELETE", "/api/admin/keys/000000000000")


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("name", {"scopes": ["read"]}),
        ("scopes", {"name": "k"}),
        ("colour", {"name": "k", "scopes": ["read"], "colour": "red"}),
        ("name", {"name": "", "scopes": ["read"]}),
        ("name", {"name": "n" * 101, "scopes": ["read"]}),
        ("name", {"name": None, "scopes": ["read"]}),
        ("scopes", {"name": "k", "scopes": []}),
        ("scopes", {"name": "k", "scopes": "read"}),
        ("scopes[0]", {"name": "k", "scopes": ["admin"]}),
        ("makers", {"name": "k", "scopes": ["read"], "makers": MAKER}),
        ("requestsPerMinute", {"name": "k", "scopes": ["read"], "requestsPerMinute": -1}),
        ("ordersPerMinute", {"name": "k", "scopes": ["read"], "ordersPerMinute": 1.5}),
        ("ordersPerMinute", {"name": "k", "scopes": ["read"], "ordersPerMinute": 10**9}),
    ],
    ids=str,
)
def test_invalid_field_of_a_key_is_named(server, path, wrong):
    problem = rejected(server, "INVALID_FIELD", 422, "POST", "/api/admin/keys", wrong)
    assert [fault["path"] for fault in problem["errors"]] == [path]


def test_invalid_maker_address_is_named(server):
    body = {"name": "k", "scopes": ["read"], "makers": [MAKER, "0x12"]}
    problem = rejected(server, "INVALID_ADDRESS", 422, "POST", "/api/admin/keys", body)
    assert [fault["path"] for fault in problem["errors"]] == ["makers[1]"]


def test_body_that_is_not_an_object_is_rejected(server):
    for body in ([], "x", 7, None):
        answer = server.http.post(
            "/api/admin/keys",
            json=body,
            headers={**server.operator, "Content-Type": "application/json"},
        )
        assert answer.json()["code"] in ("INVALID_FIELD", "INVALID_JSON")


# ----- markets ---------------------------------------------------------------------------------


def test_market_is_opened_with_its_terms(server):
    body = {
        "marketId": "rain",
        "yesTokenId": 9001,
        "noTokenId": "9002",
        "question": "Will it rain?",
        "description": "In London.",
        "minSize": "10",
        "restingFeeRateBps": 10,
        "incomingFeeRateBps": 20,
        "selfTrade": "CANCEL_RESTING",
    }
    made = accepted(server, "POST", "/api/admin/markets", body)
    texts = {"yesTokenId": "9001", "mode": "open", "outcome": None, "seq": 0, "resolution": None}
    off_chain = dict.fromkeys(("conditionId", "questionId", "oracle", "collateral", "chain"))
    alone = {"complementary": False, "lotWei": "1", "settlement": "none"}
    alone |= {"custody": None, "stalled": None}
    assert made == {**body, **texts, **alone, **off_chain}
    problem = rejected(
        server, "MARKET_EXISTS", 409, "POST", "/api/admin/markets", {**body, "question": "?"}
    )
    assert "rain" in problem["detail"]
    assert state_of(server, "rain") == made
    assert server.http.get("/api/markets/rain/orderbook").status_code == 200


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("INVALID_FIELD", {"marketId": "no spaces"}),
        ("INVALID_FIELD", {"marketId": "x" * 65}),
        ("INVALID_FIELD", {"marketId": "."}),
        ("INVALID_FIELD", {"marketId": ".."}),
        ("INVALID_FIELD", {"yesTokenId": "0x1"}),
        ("INVALID_FIELD", {"yesTokenId": 1.5}),
        ("INVALID_FIELD", {"yesTokenId": None}),
        ("INVALID_FIELD", {"selfTrade": "SOMETIMES"}),
        ("INVALID_FIELD", {"question": "?" * 501}),
        ("INVALID_FIELD", {"fee": 1}),
        ("INVALID_AMOUNT", {"minSize": "-1"}),
        ("INVALID_AMOUNT", {"minSize": "ten"}),
        ("INVALID_AMOUNT", {"minSize": "0"}),
        ("INVALID_AMOUNT", {"minSize": str(2**96)}),
        ("AMOUNT_TOO_LARGE", {"minSize": str(2**256)}),
        ("INVALID_FIELD", {"restingFeeRateBps": 1001}),
        ("INVALID_FIELD", {"incomingFeeRateBps": -1}),
        ("INVALID_MARKET", {"noTokenId": "77"}),
    ],
    ids=str,
)
def test_invalid_market_is_rejected(server, code, wrong):
    body = {"marketId": "never", "yesTokenId": "77", **wrong}
    rejected(server, code, 422, "POST", "/api/admin/markets", body)
    assert server.http.get("/api/markets/never").status_code == 404


def test_terms_and_texts_of_a_market_change_alone_and_together(server, market):
    path, before = f"/api/admin/markets/{market}", state_of(server, market)
    assert accepted(server, "PATCH", path, {"minSize": "5"}) == {**before, "minSize": "5"}
    after = {**before, "minSize": "5", "description": "More.", "incomingFeeRateBps": 30}
    changes = {"description": "More.", "incomingFeeRateBps": 30}
    assert accepted(server, "PATCH", path, changes) == after
    after |= {"question": "", "selfTrade": "DECREMENT"}
    assert accepted(server, "PATCH", path, {"question": "", "selfTrade": "DECREMENT"}) == after
    assert accepted(server, "PATCH", path, {}) == after
    rejected(
        server, "INVALID_FIELD", 422, "PATCH", path, {"restingFeeRateBps": 2000, "question": "no"}
    )
    rejected(server, "INVALID_FIELD", 422, "PATCH", path, {"mode": "open"})
    assert state_of(server, market) == after
    rejected(
        server, "UNKNOWN_MARKET", 404, "PATCH", "/api/admin/markets/nowhere", {"question": "?"}
    )


def test_second_token_can_be_set_once(server):
    made = accepted(
        server, "POST", "/api/admin/markets", {"marketId": "half", "yesTokenId": "8001"}
    )
    assert made["noTokenId"] is None
    path = "/api/admin/markets/half"
    assert accepted(server, "PATCH", path, {"noTokenId": "8002"})["noTokenId"] == "8002"
    answer = send(server, "PATCH", path, {"noTokenId": "8003"})
    assert answer.status_code == 422
    assert state_of(server, "half")["noTokenId"] == "8002"


def test_market_is_halted_and_opened_again(server, market):
    path = f"/api/admin/markets/{market}"
    for step, mode, placed in (
        ("halt", "halted", 409),
        ("open", "open", 200),
        ("cancel-only", "cancelOnly", 409),
        ("open", "open", 200),
    ):
        assert accepted(server, "POST", f"{path}/{step}")["mode"] == mode
        assert place(server, market).status_code == placed
    rejected(server, "UNKNOWN_MARKET", 404, "POST", "/api/admin/markets/nowhere/halt")


def test_market_is_resolved_once_and_keeps_its_outcome(server, market):
    order = place(server, market).json()["orderId"]
    path = f"/api/admin/markets/{market}/resolve"
    rejected(server, "INVALID_FIELD", 422, "POST", path, {"outcome": "maybe"})
    ended = accepted(server, "POST", path, {"outcome": "yes"})
    assert (ended["mode"], ended["outcome"]) == ("resolved", "yes")
    assert server.http.get(f"/api/orders/{order}").json()["cancelReason"] == "market"
    for outcome in ("no", "yes"):
        rejected(server, "MARKET_NOT_OPEN", 409, "POST", path, {"outcome": outcome})
    assert state_of(server, market)["outcome"] == "yes"
    rejected(server, "MARKET_NOT_OPEN", 409, "POST", f"/api/admin/markets/{market}/open")
    rejected(
        server, "UNKNOWN_MARKET", 404, "POST", "/api/admin/markets/no/resolve", {"outcome": "no"}
    )


def test_markets_are_listed_page_by_page(server):
    whole = [m["marketId"] for m in accepted(server, "GET", "/api/admin/markets?limit=500")]
    names, path = [], "/api/admin/markets?limit=1"
    while path:
        answer = send(server, "GET", path)
        names += [m["marketId"] for m in answer.json()]
        path = answer.links.get("next", {}).get("url")
        assert (path is None) == ("x-next-cursor" not in answer.headers)
    assert names == whole
    rejected(server, "INVALID_FIELD", 422, "GET", "/api/admin/markets?limit=501")


# ----- limits, the engine, orders ----------------------------------------------------------------


def test_limits_can_be_set_separately_or_together(server):
    before = accepted(server, "GET", "/api/admin/limits")
    assert before["engine"]["ordersMax"] == 500
    assert before["budgets"] == {
        "anonymousPerMinute": 100,
        "keyPerMinute": 240,
        "ordersPerMinute": 30,
        "cancelsPerMinute": 240,
    }
    engine = {**before["engine"], "ordersMax": 501}
    assert accepted(server, "PUT", "/api/admin/limits", {"engine": engine})["engine"] == engine
    budgets = {**before["budgets"], "keyPerMinute": 241}
    after = accepted(server, "PUT", "/api/admin/limits", {"budgets": budgets})
    assert after == {"engine": engine, "budgets": budgets}
    zero = {"engine": {**engine, "ordersMax": 0}, "budgets": before["budgets"]}
    for wrong in (zero, {"engine": {"ordersMax": 1}}, {"budgets": {**budgets, "keyPerMinute": -1}}):
        rejected(server, "INVALID_FIELD", 422, "PUT", "/api/admin/limits", wrong)
    assert accepted(server, "GET", "/api/admin/limits") == after
    accepted(server, "PUT", "/api/admin/limits", before)


def test_engine_status_counts_orders_and_commands(server, market):
    before = engine_status(server)
    place(server, market)
    after = engine_status(server)
    assert after["phase"] == "ready"
    assert after["commandSeq"] > before["commandSeq"]
    assert after["openOrders"] == before["openOrders"] + 1
    assert re.fullmatch("[0-9a-f]{64}", after["eventHash"])
    assert after["eventHash"] != before["eventHash"]
    assert after["files"]["log.db"] > 0
    assert after["waiting"] == after["subscribers"] == 0


def test_every_change_is_a_command_in_the_log(server, market):
    made = server.key()
    for method, path, body in (
        ("POST", "/api/admin/keys", {"name": "k", "scopes": ["read"]}),
        ("DELETE", f"/api/admin/keys/{made['keyId']}", None),
        ("PATCH", f"/api/admin/markets/{market}", {"question": "?"}),
        ("POST", f"/api/admin/markets/{market}/halt", None),
        ("POST", f"/api/admin/markets/{market}/open", None),
        (
            "PUT",
            "/api/admin/limits",
            {"budgets": accepted(server, "GET", "/api/admin/limits")["budgets"]},
        ),
    ):
        before = engine_status(server)["commandSeq"]
        accepted(server, method, path, body)
        assert engine_status(server)["commandSeq"] == before + 1, path


def test_operator_cancels_any_order_by_id_or_hash(server, market):
    order = place(server, market, maker=OTHER).json()["orderId"]
    cancelled = accepted(server, "POST", f"/api/admin/orders/{order}/cancel")
    assert (cancelled["id"], cancelled["status"], cancelled["maker"]) == (order, "cancelled", OTHER)
    assert server.http.get(f"/api/orders/{order}").json() == cancelled
    rejected(server, "ORDER_NOT_OPEN", 409, "POST", f"/api/admin/orders/{order}/cancel")
    rejected(server, "UNKNOWN_ORDER", 404, "POST", "/api/admin/orders/ord_1_aaaaaa/cancel")
    rejected(server, "UNKNOWN_ORDER", 404, "POST", f"/api/admin/orders/0x{0:064x}/cancel")


def test_requests_are_neither_limited_nor_charged_with_rate_limits_off(server, market):
    nothing = {f"{name}PerMinute": 0 for name in ("anonymous", "key", "orders", "cancels")}
    before = accepted(server, "GET", "/api/admin/limits")
    accepted(server, "PUT", "/api/admin/limits", {"budgets": nothing})
    headers = {"X-API-Key": server.key(ordersPerMinute=0, requestsPerMinute=0)["key"]}
    seq = engine_status(server)["commandSeq"]
    for given in ({}, headers):
        for _ in range(3):
            assert place(server, market, headers=given).status_code == 200
    # One command per order, and none for charges.
    assert engine_status(server)["commandSeq"] == seq + 6
    accepted(server, "PUT", "/api/admin/limits", before)
