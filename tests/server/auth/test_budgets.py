"""Rate limits over HTTP: what counts, and the content of a rejection."""

import pytest

from tests.server.auth.budgets import GASLESS, assert_limited, place, set_budgets
from tests.server.auth.guard_harness import MAKER
from tests.server.auth.servers import operated_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with operated_server(tmp_path_factory.mktemp("budgets"), "test") as made:
        yield made


def test_address_is_limited_once_its_budget_is_used_up(server):
    # The address has sent fewer than 100 requests so far, and there are no other clients.
    set_budgets(server, anonymousPerMinute=20)
    answers = [server.http.get("/") for _ in range(30)]
    served = [answer.status_code for answer in answers].count(200)
    assert [answer.status_code for answer in answers] == [200] * served + [429] * (30 - served)
    assert 0 < served <= 20
    assert assert_limited(answers[-1], 20) == 0
    for path in ("/health", "/ready", "/metrics"):
        assert server.http.get(path).status_code == 200
    key = server.key()["key"]
    assert server.http.get("/", headers={"X-API-Key": key}).status_code == 200
    set_budgets(server)
    assert server.http.get("/").status_code == 200


def test_key_with_its_own_limit_uses_that_limit(server):
    headers = {"X-API-Key": server.key(requestsPerMinute=5)["key"]}
    codes = [server.http.get("/", headers=headers).status_code for _ in range(8)]
    assert codes == [200] * 5 + [429] * 3


def test_cancels_are_accepted_after_requests_are_used_up(server):
    key = server.key(requestsPerMinute=1)["key"]
    order = place(server, key).json()["orderId"]
    assert_limited(place(server, key), 1)
    cancelled = server.http.request(
        "DELETE", f"/api/orders/{order}", json={"maker": MAKER}, headers={"X-API-Key": key}
    )
    assert cancelled.json()["status"] == "cancelled"


def test_rejected_orders_and_orders_of_a_batch_count_as_created(server):
    key = server.key(ordersPerMinute=5)["key"]
    headers = {"X-API-Key": key}
    assert place(server, key).status_code == 200
    assert place(server, key, price=0).status_code == 422
    batch = {"orders": [GASLESS] * 4}
    rejected = server.http.post("/api/orders/batch", json=batch, headers=headers)
    assert assert_limited(rejected, 5) == 3
    batch["orders"].pop()
    assert server.http.post("/api/orders/batch", json=batch, headers=headers).status_code == 200
    assert assert_limited(place(server, key), 5) == 0
    assert place(server).status_code == 200
    assert server.http.get("/", headers=headers).status_code == 200
