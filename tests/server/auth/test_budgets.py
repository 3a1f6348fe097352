"""Rate limits over HTTP: what counts, and the content of a rejection."""

import pytest

from tests.server.auth.budgets import GASLESS, assert_limited, place, set_budgets
from tests.server.auth.guard_harness import MAKER
from tests.server.auth.servers import operated_server


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with operated_server(tmp_path_factory.mktemp("budgets"), "test") as made:
        yield made


def test_address_is_limited_once_its_budget_is_used_up(here):
    # The address has sent fewer than 100 requests so far, and there are no other clients.
    set_budgets(here, anonymousPerMinute=20)
    answers = [here.http.get("/") for _ in range(30)]
    served = [answer.status_code for answer in answers].count(200)
    assert [answer.status_code for answer in answers] == [200] * served + [429] * (30 - served)
    assert 0 < served <= 20
    assert assert_limited(answers[-1], 20) == 0
    for path in ("/health", "/ready", "/metrics"):
        assert here.http.get(path).status_code == 200
    key = here.key()["key"]
    assert here.http.get("/", headers={"X-API-Key": key}).status_code == 200
    set_budgets(here)
    assert here.http.get("/").status_code == 200


def test_key_with_its_own_limit_uses_that_limit(here):
    headers = {"X-API-Key": here.key(requestsPerMinute=5)["key"]}
    codes = [here.http.get("/", headers=headers).status_code for _ in range(8)]
    assert codes == [200] * 5 + [429] * 3


def test_cancels_are_accepted_after_requests_are_used_up(here):
    key = here.key(requestsPerMinute=1)["key"]
    order = place(here, key).json()["orderId"]
    assert_limited(place(here, key), 1)
    gone = here.http.request(
        "DELETE", f"/api/orders/{order}", json={"maker": MAKER}, headers={"X-API-Key": key}
    )
    assert gone.json()["status"] == "cancelled"


def test_rejected_orders_and_orders_of_a_batch_count_as_created(here):
    key = here.key(ordersPerMinute=5)["key"]
    headers = {"X-API-Key": key}
    assert place(here, key).status_code == 200
    assert place(here, key, price=0).status_code == 422
    batch = {"orders": [GASLESS] * 4}
    rejected = here.http.post("/api/orders/batch", json=batch, headers=headers)
    assert assert_limited(rejected, 5) == 3
    batch["orders"].pop()
    assert here.http.post("/api/orders/batch", json=batch, headers=headers).status_code == 200
    assert assert_limited(place(here, key), 5) == 0
    assert place(here).status_code == 200
    assert here.http.get("/", headers=headers).status_code == 200
