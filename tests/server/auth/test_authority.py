"""Access rules: every route with every kind of credential, in both environments."""

import json
import re

import pytest
import websockets.exceptions
import websockets.sync.client

from clob_server.api.problems import PROBLEMS
from clob_server.app import ROUTES
from clob_server.auth.policy import CHANNEL_RULES, NO_ROUTE, ROUTE_RULES, Needs
from tests.server.auth.budgets import set_budgets
from tests.server.auth.guard_harness import MAKER
from tests.server.auth.servers import operated_server

ENVIRONMENTS = ("test", "production")
CREDENTIALS = (
    "nothing",
    "a bad key",
    "a deactivated key",
    "a key of another maker",
    "the right key",
    "a key without read",
    "a key without trade",
    "a key without cancel",
    "the right token",
    "an expired token",
    "a token of another algorithm",
    "an unsigned token",
    "a token of a confused algorithm",
    "a token of another scope",
    "a token for metrics",
    "a token without exp",
    "a password",
)
SCOPES = {
    "the right token": "admin",
    "a token for metrics": "metrics",
    "a token of another scope": "reader",
}
DENIALS = {
    "INVALID_API_KEY",
    "INVALID_TOKEN",
    "API_KEY_REQUIRED",
    "TOKEN_REQUIRED",
    "SCOPE_MISSING",
    "MAKER_NOT_ALLOWED",
    "NOT_ON_THIS_ENVIRONMENT",
}
CONVERSION = {
    "user": MAKER,
    "amount": "1",
    "conditionId": "0x" + "0" * 64,
    "yesTokenId": "1",
    "noTokenId": "2",
}
GASLESS = {
    "maker": MAKER,
    "tokenId": "1",
    "side": 0,
    "price": 50,
    "size": "100000000000000000000",
    "marketId": "authority",
}
CANCEL = {"orderId": "ord_1_aaaaaa", "maker": MAKER}
BODIES = {
    "create_gasless_order": GASLESS,
    "create_batch": {"orders": [GASLESS]},
    "validate_order": GASLESS,
    "simulate_order": GASLESS,
    "cancel_order": {"maker": MAKER},
    "cancel_batch": {"orders": [CANCEL]},
    "cancel_orders": {"maker": MAKER},
    "reduce_order": {"maker": MAKER, "remaining": "1"},
    "replace_order": GASLESS,
    "heartbeat": {"maker": MAKER, "timeoutMs": 0},
    "gasless_split": CONVERSION,
    "gasless_merge": CONVERSION,
    "gasless_redeem": {"user": MAKER, "conditionId": CONVERSION["conditionId"]},
    "gasless_wrap": {"user": MAKER, "amount": "1000000000000"},
    "gasless_unwrap": {"user": MAKER, "amount": "1000000000000"},
    "gasless_deposit": {"user": MAKER, "asset": "collateral", "amount": "1"},
    "gasless_withdraw_request": {
        "user": MAKER,
        "asset": "collateral",
        "amount": "1",
        "nonce": "1",
        "deadline": "4000000000",
        "signature": "0x12",
    },
    "gasless_withdraw": {"user": MAKER, "asset": "collateral"},
    "gasless_faucet": {"user": MAKER},
}
QUERIES = {"cancel_orders": {"all": "true"}}
OPEN = (
    Needs.NOTHING, Needs.SIGNATURE, Needs.MAKER_ADDRESS, Needs.SIGNATURE_OR_KEY_FOR_ACCOUNT,
)  # fmt: skip
BY_NAME = {route.name: route for route in ROUTES}


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("servers")
    with (
        operated_server(folder, "test", rate_limits=False) as test,
        operated_server(folder, "production", rate_limits=False) as production,
    ):
        made = {"test": test, "production": production}
        for each in made.values():
            each.open_market(GASLESS["marketId"])
        yield {name: (each, each.credentials()) for name, each in made.items()}


def expected(rule, credential):
    """Return the expected code of a denial; None if access is allowed."""
    if credential in ("a bad key", "a deactivated key"):
        return "INVALID_API_KEY"
    if rule.needs is Needs.UNAVAILABLE:
        return "NOT_ON_THIS_ENVIRONMENT"
    if rule.needs in (Needs.TOKEN, Needs.TOKEN_UNLESS_LOCAL):
        if "token" not in credential:
            return "TOKEN_REQUIRED"
        if credential in SCOPES:
            return None if SCOPES[credential] == rule.scope else "SCOPE_MISSING"
        return "INVALID_TOKEN"
    if rule.needs in OPEN:
        return None
    if "key" not in credential:
        return "API_KEY_REQUIRED"
    if credential == f"a key without {rule.scope}":
        return "SCOPE_MISSING"
    if credential == "a key of another maker" and rule.needs is not Needs.KEY:
        return "MAKER_NOT_ALLOWED"
    return None


def ask(client, name, headers):
    """Send a plausible request to a route."""
    route = BY_NAME[name]
    path = re.sub(r"\{(\w+)\}", "ord_1_aaaaaa", route.path)
    body = BODIES.get(name, {}) if route.reads_body else None
    if name == "metrics":
        headers = {**headers, "X-Forwarded-For": "192.0.2.1"}
    query = QUERIES.get(name)
    return client.request(route.method, path, params=query, json=body, headers=headers)


def code_of(response):
    """Return the code of a rejected request, of the only item of a batch, or of a preview."""
    if not response.headers["content-type"].endswith("json"):
        return None
    body = response.json()
    if isinstance(body, dict) and "results" in body:
        [body] = body["results"]
    if isinstance(body, dict) and "refusal" in body:
        body = body["refusal"]
    return body.get("code") if isinstance(body, dict) else None


@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_route_applies_its_rule(servers, environment, name, credential):
    server, credentials = servers[environment]
    answer = ask(server.http, name, credentials[credential])
    code, rule = code_of(answer), ROUTE_RULES[name].rule(environment)
    expected_status = expected(rule, credential)
    if name == "replace_order" and credential == "a key without trade" and rule.scope:
        expected_status = "SCOPE_MISSING"  # the new order has no signature
    if expected_status is None:
        assert code not in DENIALS, answer.text
        assert answer.status_code not in (401, 500), answer.text
    else:
        assert code == expected_status, answer.text
        inside = answer.json().keys() & {"results", "refusal"}
        assert answer.status_code == (200 if inside else PROBLEMS[expected_status].status)
        if answer.status_code == 401:
            assert "www-authenticate" in answer.headers


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_kind_of_credential_is_tested(servers, environment):
    assert tuple(servers[environment][1]) == CREDENTIALS


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_metrics_need_no_token_from_loopback(servers, environment):
    server, _ = servers[environment]
    answer = server.http.get("/metrics")
    assert answer.status_code == 200
    assert b"clob_refusals_total" in answer.content


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_unknown_path_and_method_are_reported_except_to_an_invalid_key(servers, environment):
    server, credentials = servers[environment]
    assert server.http.get("/nothing").json()["code"] == "NOT_FOUND"
    assert server.http.put("/health").json()["code"] == "METHOD_NOT_ALLOWED"
    for path in ("/nothing", "/"):
        answer = server.http.get(path, headers=credentials["a deactivated key"])
        assert answer.json()["code"] == "INVALID_API_KEY"


def test_deactivating_a_key_closes_its_user_channel(servers):
    server, _ = servers["production"]
    made = server.key(scopes=["read"])
    headers = {"X-API-Key": made["key"]}
    with websockets.sync.client.connect(server.live.ws_url, additional_headers=headers) as socket:
        socket.send(json.dumps({"type": "subscribe", "channel": "user", "maker": MAKER}))
        assert json.loads(socket.recv(10))["channel"] == "user"
        response = server.http.delete(f"/api/admin/keys/{made['keyId']}", headers=server.operator)
        assert response.status_code == 200
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            socket.recv(10)
        assert closed.value.rcvd.code == 1008


def subscribe_to(socket, **fields):
    """Subscribe to the orders of the maker; return the first message."""
    request = {"type": "subscribe", "channel": "user", "maker": MAKER, "extended": True, **fields}
    socket.send(json.dumps(request))
    return json.loads(socket.recv(10))


KEY_OF_SUBSCRIPTION = (
    (None, "API_KEY_REQUIRED", "apiKey must be a key with the scope read"),
    ("a bad key", "INVALID_API_KEY", "apiKey is not a key of this server"),
    ("a deactivated key", "INVALID_API_KEY", "was deactivated"),
    ("a key of another maker", "MAKER_NOT_ALLOWED", f"is not bound to maker {MAKER}"),
    ("a key without read", "SCOPE_MISSING", "must have the scope read"),
)


def test_key_of_a_subscription_counts_for_it_alone(servers):
    server, credentials = servers["production"]
    with websockets.sync.client.connect(server.live.ws_url) as socket:
        for credential, code, text in KEY_OF_SUBSCRIPTION:
            key = credentials.get(credential, {}).get("X-API-Key")
            error = subscribe_to(socket, apiKey=key)
            assert (error["type"], error["code"]) == ("error", code)
            assert text in error["message"]
            assert key is None or key[18:] not in json.dumps(error)
        right = credentials["the right key"]["X-API-Key"]
        assert subscribe_to(socket, apiKey=right)["type"] == "subscribed"
        assert json.loads(socket.recv(10))["type"] == "orders"
        assert subscribe_to(socket)["code"] == "API_KEY_REQUIRED"


def test_key_of_a_subscription_replaces_that_of_the_handshake(servers):
    server, credentials = servers["production"]
    right, wrong = credentials["the right key"], credentials["a key without read"]
    for sent, kind in ((wrong, "error"), (right, "subscribed")):
        other = {"X-API-Key": (right if sent is wrong else wrong)["X-API-Key"]}
        with websockets.sync.client.connect(server.live.ws_url, additional_headers=other) as socket:
            assert subscribe_to(socket, apiKey=sent["X-API-Key"])["type"] == kind


def test_subscription_with_an_invalid_key_closes_a_plain_client_without_repeating_it(servers):
    server, credentials = servers["production"]
    for key in (credentials["a deactivated key"]["X-API-Key"], "clob_secret" + "0" * 90, 7):
        with websockets.sync.client.connect(server.live.ws_url) as socket:
            with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
                subscribe_to(socket, apiKey=key, extended=False)
            close = closed.value.rcvd
            assert close.code == 1008
            assert "key" in close.reason.lower()
            assert "secret" not in close.reason
            assert key == 7 or key[18:] not in close.reason


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_deactivating_a_key_closes_the_websockets_of_its_subscriptions(servers, environment):
    server, _ = servers[environment]
    made = server.key(scopes=["read"])
    with websockets.sync.client.connect(server.live.ws_url) as socket:
        assert subscribe_to(socket, apiKey=made["key"])["type"] == "subscribed"
        assert json.loads(socket.recv(10))["type"] == "orders"
        response = server.http.delete(f"/api/admin/keys/{made['keyId']}", headers=server.operator)
        assert response.status_code == 200
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            socket.recv(10)
        assert closed.value.rcvd.code == 1008
        assert closed.value.rcvd.reason == "INVALID_API_KEY: the key was deactivated"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_invalid_keys_of_websockets_count_as_requests_of_the_address(tmp_path, environment):
    with operated_server(tmp_path, environment) as server:
        set_budgets(server, anonymousPerMinute=6)
        bad, right = "clob_" + "0" * 77, server.key()["key"]
        with websockets.sync.client.connect(server.live.ws_url) as socket:  # one request
            for _ in range(2):
                assert subscribe_to(socket, apiKey=right)["type"] == "subscribed"
                assert json.loads(socket.recv(10))["type"] == "orders"
            codes = [subscribe_to(socket, apiKey=bad)["code"] for _ in range(6)]
            assert codes == ["INVALID_API_KEY"] * 5 + ["RATE_LIMITED"]
            for headers in ({"X-API-Key": bad}, {}):
                with pytest.raises(websockets.exceptions.InvalidStatus) as rejected:
                    websockets.sync.client.connect(server.live.ws_url, additional_headers=headers)
                assert rejected.value.response.status_code == 429
            assert subscribe_to(socket, apiKey=right)["type"] == "subscribed"


# ----- the table -------------------------------------------------------------------------------


def test_every_route_has_exactly_one_rule():
    assert set(ROUTE_RULES) == {*BY_NAME, NO_ROUTE}


@pytest.mark.parametrize(
    ("name", "test", "production"),
    [
        ("health", Needs.NOTHING, Needs.NOTHING),
        ("list_orders", Needs.NOTHING, Needs.KEY),
        ("create_gasless_order", Needs.NOTHING, Needs.KEY_OF_MAKER),
        ("gasless_split", Needs.NOTHING, Needs.KEY_OF_MAKER),
        ("gasless_merge", Needs.NOTHING, Needs.KEY_OF_MAKER),
        ("gasless_redeem", Needs.NOTHING, Needs.KEY_OF_MAKER),
    ],
)
def test_rules_match_the_table_of_the_specification(name, test, production):
    assert (ROUTE_RULES[name].test.needs, ROUTE_RULES[name].production.needs) == (test, production)


def test_decision_49_authority():
    def rules(*names):
        return {(ROUTE_RULES[name].test, ROUTE_RULES[name].production) for name in names}

    def needs(*names):
        return {(test.needs, production.needs) for test, production in rules(*names)}

    reads = ("get_orderbook", "get_trades", "list_markets", "get_market", "root", "ready", "health")
    assert needs(*reads) == {(Needs.NOTHING, Needs.NOTHING)}
    [(_, looking)] = rules("list_orders", "get_order", "gasless_operation")
    assert looking == (Needs.KEY, "read")
    assert needs("create_order") == {(Needs.SIGNATURE, Needs.SIGNATURE)}
    assert needs("create_batch", "validate_order") == {(Needs.NOTHING, Needs.SIGNATURE_OR_KEY)}
    [(_, simulating)] = rules("simulate_order")
    assert simulating == (Needs.SIGNATURE_OR_KEY_FOR_ACCOUNT, "trade")
    converting = (
        "gasless_split", "gasless_merge", "gasless_redeem", "gasless_wrap", "gasless_unwrap",
        "gasless_deposit", "gasless_withdraw_request", "gasless_withdraw",
    )  # fmt: skip
    [(_, gasless)] = rules("create_gasless_order", *converting)
    assert gasless == (Needs.KEY_OF_MAKER, "trade")
    assert needs("gasless_faucet") == {(Needs.NOTHING, Needs.UNAVAILABLE)}
    ways_out = ("cancel_order", "cancel_batch", "cancel_orders", "reduce_order", "replace_order")
    [(naming, cancelling)] = rules(*ways_out)
    assert (naming.needs, cancelling) == (Needs.MAKER_ADDRESS, (Needs.SIGNATURE_OR_KEY, "cancel"))
    assert CHANNEL_RULES["user"].test.needs is Needs.MAKER_ADDRESS
    assert CHANNEL_RULES["user"].production == (Needs.KEY_OF_MAKER, "read")
    operators = [name for name in ROUTE_RULES if name.startswith("admin_") and name != "admin_page"]
    assert len(operators) == 26
    assert rules(*operators) == {((Needs.TOKEN, "admin"), (Needs.TOKEN, "admin"))}
    assert needs("metrics") == {(Needs.TOKEN_UNLESS_LOCAL, Needs.TOKEN_UNLESS_LOCAL)}
