"""Budgets over HTTP: what is counted, what a refusal says, and what a crash does not forget."""

import pytest

from tests.server.auth.bare import MAKER
from tests.server.auth.people import town
from tests.server.auth.spending import GASLESS, assert_limited, place, set_budgets


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with town(tmp_path_factory.mktemp("budgets"), "test") as made:
        yield made


def test_requests_of_an_address_are_counted_until_the_budget_is_used_up(here):
    # The address has asked for less than 100 of these here, and nobody else asks.
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


def test_a_key_with_numbers_of_its_own_has_exactly_those(here):
    headers = {"X-API-Key": here.key(requestsPerMinute=5)["key"]}
    codes = [here.http.get("/", headers=headers).status_code for _ in range(8)]
    assert codes == [200] * 5 + [429] * 3


def test_cancels_go_on_where_requests_are_used_up(here):
    key = here.key(requestsPerMinute=1)["key"]
    order = place(here, key).json()["orderId"]
    assert_limited(place(here, key), 1)
    gone = here.http.request(
        "DELETE", f"/api/orders/{order}", json={"maker": MAKER}, headers={"X-API-Key": key}
    )
    assert gone.json()["status"] == "cancelled"


def test_orders_created_are_counted_refused_ones_and_those_of_a_batch_as_well(here):
    key = here.key(ordersPerMinute=5)["key"]
    headers = {"X-API-Key": key}
    assert place(here, key).status_code == 200
    assert place(here, key, price=0).status_code == 422
    batch = {"orders": [GASLESS] * 4}
    refused = here.http.post("/api/orders/batch", json=batch, headers=headers)
    assert assert_limited(refused, 5) == 3
    batch["orders"].pop()
    assert here.http.post("/api/orders/batch", json=batch, headers=headers).status_code == 200
    assert assert_limited(place(here, key), 5) == 0
    assert place(here).status_code == 200
    assert here.http.get("/", headers=headers).status_code == 200
