"""Helpers of the tests of budgets: an order, and checks of a rejection."""

from tests.server.auth.guard_harness import MAKER

GASLESS = {
    "maker": MAKER,
    "tokenId": "1",
    "side": 0,
    "price": 50,
    "size": "100000000000000000000",
    "marketId": "budgets",
}
BUDGETS = {
    "anonymousPerMinute": 1_000,
    "keyPerMinute": 1_000,
    "ordersPerMinute": 1_000,
    "cancelsPerMinute": 1_000,
}


def set_budgets(server, **budgets):
    body = {"budgets": {**BUDGETS, **budgets}}
    assert (
        server.http.put("/api/admin/limits", json=body, headers=server.operator).status_code == 200
    )


def assert_limited(answer, limit):
    """Check that a rejection states the limit and when to retry; return the amount left."""
    assert answer.status_code == 429
    body = answer.json()
    assert (body["code"], body["retryable"]) == ("RATE_LIMITED", True)
    wait_s = int(answer.headers["retry-after"])
    assert 0 < wait_s <= 60
    assert answer.headers["x-ratelimit-limit"] == str(limit)
    left = int(answer.headers["x-ratelimit-remaining"])
    assert answer.headers["ratelimit"].endswith(f";r={left};t={wait_s}")
    assert answer.headers["ratelimit-policy"].endswith(f";q={limit};w=60")
    assert int(answer.headers["x-ratelimit-reset"]) > 1_700_000_000
    return left


def place(server, key=None, **more):
    headers = {} if key is None else {"X-API-Key": key}
    return server.http.post("/api/orders/gasless", json={**GASLESS, **more}, headers=headers)
