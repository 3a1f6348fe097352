"""Operator routes: keys, markets, limits, engine status, and cancels of any order."""

import itertools
import re

import pytest

from tests.server.auth.guard_harness import MAKER, OTHER
from tests.server.auth.servers import operated_server

NAMES = itertools.count(1)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with operated_server(tmp_path_factory.mktemp("admin"), "test", rate_limits=False) as made:
        yield made


@pytest.fixture
def market(here):
    name = f"market-{next(NAMES)}"
    terms = {"yesTokenId": f"{next(NAMES)}1", "noTokenId": f"{next(NAMES)}2", "question": "Rain?"}
    accepted(here, "POST", "/api/admin/markets", {"marketId": name, **terms})
    return name


def send(here, method, path, body=None):
    return here.http.request(method, path, json=body, headers=here.operator)


def accepted(here, method, path, body=None):
    """Send an accepted request; return the response body."""
    answer = send(here, method, path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rejected(here, code, status, method, path, body=None):
    """Send a rejected request; return the response body."""
    answer = send(here, method, path, body)
    assert (answer.json()["code"], answer.status_code) == (code, status), answer.text
    return answer.json()


def engine_status(here):
    return accepted(here, "GET", "/api/admin/engine")


def state_of(here, name):
    return next(m for m in accepted(here, "GET", "/api/admin/markets") if m["marketId"] == name)


def place(here, name, headers=None, **more):
    token = state_of(here, name)["yesTokenId"]
    body = {"maker": MAKER, "tokenId": token, "side": 0, "price": 50, "size": "100", **more}
    body["marketId"] = name
    return here.http.post("/api/orders/gasless", json=body, headers=headers)


# ----- keys ------------------------------------------------------------------------------------


def test_key_is_shown_once_and_listed_without_its_secret(here):
    body = {"name": "maker one", "scopes": ["trade", "read", "trade"], "makers": [MAKER.lower()]}
    made = accepted(here, "POST", "/api/admin/keys", {**body, "requestsPerMinute": 7})
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
    listing = send(here, "GET", "/api/admin/keys")
    assert made in listing.json()
    assert whole[18:] not in listing.text


def test_response_with_a_new_key_is_not_cacheable(here):
    answer = send(here, "POST", "/api/admin/keys", {"name": "k", "scopes": ["read"]})
    assert answer.headers["cache-control"] == "no-store"


def test_list_of_keys_shows_the_last_use(here):
    made = here.key()
    here.http.get("/", headers={"X-API-Key": made["key"]})
    [listed] = [k for k in accepted(here, "GET", "/api/admin/keys") if k["keyId"] == made["keyId"]]
    assert listed["lastUsed"] >= made["created"]


@pytest.mark.parametrize(("method", "end"), [("POST", "/deactivate"), ("DELETE", "")])
def test_key_is_deactivated_at_once_and_stays_in_the_list(here, method, end):
    made = here.key()
    path, headers = f"/api/admin/keys/{made['keyId']}{end}", {"X-API-Key": made["key"]}
    assert here.http.get("/", headers=headers).status_code == 200
    gone = accepted(here, method, path)
    assert (gone["active"], gone["deactivated"] >= made["created"]) == (False, True)
    assert here.http.get("/", headers=headers).json()["code"] == "INVALID_API_KEY"
    rejected(here, "KEY_INACTIVE", 409, method, path)
    assert gone["keyId"] in [k["keyId"] for k in accepted(here, "GET", "/api/admin/keys")]


def test_deactivating_an_unknown_key_is_rejected(here):
    rejected(here, "UNKNOWN_KEY", 404, "DELETE", "/api/admin/keys/000000000000")


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
def test_invalid_field_of_a_key_is_named(here, path, wrong):
    problem = rejected(here, "INVALID_FIELD", 422, "POST", "/api/admin/keys", wrong)
    assert [fault["path"] for fault in problem["errors"]] == [path]


def test_invalid_maker_address_is_named(here):
    body = {"name": "k", "scopes": ["read"], "makers": [MAKER, "0x12"]}
    problem = rejected(here, "INVALID_ADDRESS", 422, "POST", "/api/admin/keys", body)
    assert [fault["path"] for fault in problem["errors"]] == ["makers[1]"]


def test_body_that_is_not_an_object_is_rejected(here):
    for body in ([], "x", 7, None):
        answer = here.http.post(
            "/api/admin/keys",
            json=body,
            headers={**here.operator, "Content-Type": "application/json"},
        )
        assert answer.json()["code"] in ("INVALID_FIELD", "INVALID_JSON")


# ----- markets ---------------------------------------------------------------------------------


def test_market_is_opened_with_its_terms(here):
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
    made = accepted(here, "POST", "/api/admin/markets", body)
    texts = {"yesTokenId": "9001", "mode": "open", "outcome": None, "seq": 0}
    off_chain = dict.fromkeys(("conditionId", "questionId", "collateral", "chain"))
    alone = {"complementary": False, "lotWei": "1", "settlement": "none"}
    assert made == {**body, **texts, **alone, **off_chain}
    problem = rejected(
        here, "MARKET_EXISTS", 409, "POST", "/api/admin/markets", {**body, "question": "?"}
    )
    assert "rain" in problem["detail"]
    assert state_of(here, "rain") == made
    assert here.http.get("/api/markets/rain/orderbook").status_code == 200


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("INVALID_FIELD", {"marketId": "no spaces"}),
        ("INVALID_FIELD", {"marketId": "x" * 65}),
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
def test_invalid_market_is_rejected(here, code, wrong):
    body = {"marketId": "never", "yesTokenId": "77", **wrong}
    rejected(here, code, 422, "POST", "/api/admin/markets", body)
    assert here.http.get("/api/markets/never").status_code == 404


def test_terms_and_texts_of_a_market_change_alone_and_together(here, market):
    path, before = f"/api/admin/markets/{market}", state_of(here, market)
    assert accepted(here, "PATCH", path, {"minSize": "5"}) == {**before, "minSize": "5"}
    after = {**before, "minSize": "5", "description": "More.", "incomingFeeRateBps": 30}
    changes = {"description": "More.", "incomingFeeRateBps": 30}
    assert accepted(here, "PATCH", path, changes) == after
    after |= {"question": "", "selfTrade": "DECREMENT"}
    assert accepted(here, "PATCH", path, {"question": "", "selfTrade": "DECREMENT"}) == after
    assert accepted(here, "PATCH", path, {}) == after
    rejected(
        here, "INVALID_FIELD", 422, "PATCH", path, {"restingFeeRateBps": 2000, "question": "no"}
    )
    rejected(here, "INVALID_FIELD", 422, "PATCH", path, {"mode": "open"})
    assert state_of(here, market) == after
    rejected(here, "UNKNOWN_MARKET", 404, "PATCH", "/api/admin/markets/nowhere", {"question": "?"})


def test_second_token_can_be_set_once(here):
    made = accepted(here, "POST", "/api/admin/markets", {"marketId": "half", "yesTokenId": "8001"})
    assert made["noTokenId"] is None
    path = "/api/admin/markets/half"
    assert accepted(here, "PATCH", path, {"noTokenId": "8002"})["noTokenId"] == "8002"
    answer = send(here, "PATCH", path, {"noTokenId": "8003"})
    assert answer.status_code == 422
    assert state_of(here, "half")["noTokenId"] == "8002"


def test_market_is_halted_and_opened_again(here, market):
    path = f"/api/admin/markets/{market}"
    for step, mode, placed in (
        ("halt", "halted", 409),
        ("open", "open", 200),
        ("cancel-only", "cancelOnly", 409),
        ("open", "open", 200),
    ):
        assert accepted(here, "POST", f"{path}/{step}")["mode"] == mode
        assert place(here, market).status_code == placed
    rejected(here, "UNKNOWN_MARKET", 404, "POST", "/api/admin/markets/nowhere/halt")


def test_market_is_resolved_once_and_keeps_its_outcome(here, market):
    order = place(here, market).json()["orderId"]
    path = f"/api/admin/markets/{market}/resolve"
    rejected(here, "INVALID_FIELD", 422, "POST", path, {"outcome": "maybe"})
    ended = accepted(here, "POST", path, {"outcome": "yes"})
    assert (ended["mode"], ended["outcome"]) == ("resolved", "yes")
    assert here.http.get(f"/api/orders/{order}").json()["cancelReason"] == "market"
    for outcome in ("no", "yes"):
        rejected(here, "MARKET_NOT_OPEN", 409, "POST", path, {"outcome": outcome})
    assert state_of(here, market)["outcome"] == "yes"
    rejected(here, "MARKET_NOT_OPEN", 409, "POST", f"/api/admin/markets/{market}/open")
    rejected(
        here, "UNKNOWN_MARKET", 404, "POST", "/api/admin/markets/no/resolve", {"outcome": "no"}
    )


def test_markets_are_listed_page_by_page(here):
    whole = [m["marketId"] for m in accepted(here, "GET", "/api/admin/markets?limit=500")]
    found, path = [], "/api/admin/markets?limit=1"
    while path:
        answer = send(here, "GET", path)
        found += [m["marketId"] for m in answer.json()]
        path = answer.links.get("next", {}).get("url")
        assert (path is None) == ("x-next-cursor" not in answer.headers)
    assert found == whole
    rejected(here, "INVALID_FIELD", 422, "GET", "/api/admin/markets?limit=501")


# ----- limits, the engine, orders ----------------------------------------------------------------


def test_limits_can_be_set_separately_or_together(here):
    before = accepted(here, "GET", "/api/admin/limits")
    assert before["engine"]["ordersMax"] == 500
    assert before["budgets"] == {
        "anonymousPerMinute": 100,
        "keyPerMinute": 240,
        "ordersPerMinute": 30,
        "cancelsPerMinute": 240,
    }
    engine = {**before["engine"], "ordersMax": 501}
    assert accepted(here, "PUT", "/api/admin/limits", {"engine": engine})["engine"] == engine
    budgets = {**before["budgets"], "keyPerMinute": 241}
    after = accepted(here, "PUT", "/api/admin/limits", {"budgets": budgets})
    assert after == {"engine": engine, "budgets": budgets}
    zero = {"engine": {**engine, "ordersMax": 0}, "budgets": before["budgets"]}
    for wrong in (zero, {"engine": {"ordersMax": 1}}, {"budgets": {**budgets, "keyPerMinute": -1}}):
        rejected(here, "INVALID_FIELD", 422, "PUT", "/api/admin/limits", wrong)
    assert accepted(here, "GET", "/api/admin/limits") == after
    accepted(here, "PUT", "/api/admin/limits", before)


def test_engine_status_counts_orders_and_commands(here, market):
    before = engine_status(here)
    place(here, market)
    after = engine_status(here)
    assert after["phase"] == "ready"
    assert after["commandSeq"] > before["commandSeq"]
    assert after["openOrders"] == before["openOrders"] + 1
    assert re.fullmatch("[0-9a-f]{64}", after["eventHash"])
    assert after["eventHash"] != before["eventHash"]
    assert after["files"]["log.db"] > 0
    assert after["waiting"] == after["subscribers"] == 0


def test_every_change_is_a_command_in_the_log(here, market):
    made = here.key()
    for method, path, body in (
        ("POST", "/api/admin/keys", {"name": "k", "scopes": ["read"]}),
        ("DELETE", f"/api/admin/keys/{made['keyId']}", None),
        ("PATCH", f"/api/admin/markets/{market}", {"question": "?"}),
        ("POST", f"/api/admin/markets/{market}/halt", None),
        ("POST", f"/api/admin/markets/{market}/open", None),
        (
            "PUT",
            "/api/admin/limits",
            {"budgets": accepted(here, "GET", "/api/admin/limits")["budgets"]},
        ),
    ):
        before = engine_status(here)["commandSeq"]
        accepted(here, method, path, body)
        assert engine_status(here)["commandSeq"] == before + 1, path


def test_operator_cancels_any_order_by_id_or_hash(here, market):
    order = place(here, market, maker=OTHER).json()["orderId"]
    gone = accepted(here, "POST", f"/api/admin/orders/{order}/cancel")
    assert (gone["id"], gone["status"], gone["maker"]) == (order, "cancelled", OTHER)
    assert here.http.get(f"/api/orders/{order}").json() == gone
    rejected(here, "ORDER_NOT_OPEN", 409, "POST", f"/api/admin/orders/{order}/cancel")
    rejected(here, "UNKNOWN_ORDER", 404, "POST", "/api/admin/orders/ord_1_aaaaaa/cancel")
    rejected(here, "UNKNOWN_ORDER", 404, "POST", f"/api/admin/orders/0x{0:064x}/cancel")


def test_requests_are_neither_limited_nor_charged_with_rate_limits_off(here, market):
    nothing = {f"{name}PerMinute": 0 for name in ("anonymous", "key", "orders", "cancels")}
    before = accepted(here, "GET", "/api/admin/limits")
    accepted(here, "PUT", "/api/admin/limits", {"budgets": nothing})
    headers = {"X-API-Key": here.key(ordersPerMinute=0, requestsPerMinute=0)["key"]}
    seq = engine_status(here)["commandSeq"]
    for given in ({}, headers):
        for _ in range(3):
            assert place(here, market, headers=given).status_code == 200
    # One command per order, and none for charges.
    assert engine_status(here)["commandSeq"] == seq + 6
    accepted(here, "PUT", "/api/admin/limits", before)
