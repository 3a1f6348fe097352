"""What is there after a crash: what operators did, and whose budgets of orders are used up."""

import pytest

from tests.server.auth.people import town
from tests.server.auth.spending import assert_limited, place, set_budgets

WHAT = ("markets", "keys", "limits")


def seen(here):
    """What operators see of it all, but for when a key was last used."""
    found = {
        what: here.http.get(f"/api/admin/{what}", headers=here.operator).json() for what in WHAT
    }
    for key in found["keys"]:
        del key["lastUsed"]
    return found


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """A server after the crash of the one before it, what was seen of that, and two of its keys."""
    folder = tmp_path_factory.mktemp("crash")
    with town(folder, "test") as first:
        first.market("kept")
        for method, path, body in (
            ("PATCH", "/api/admin/markets/kept", {"question": "Kept?", "minSize": "7"}),
            ("POST", "/api/admin/markets/kept/resolve", {"outcome": "no"}),
        ):
            assert first.http.request(method, path, json=body, headers=first.operator).is_success
        set_budgets(first, ordersPerMinute=3)
        key = first.key(ordersPerMinute=2, requestsPerMinute=2)["key"]
        gone = first.revoked()
        for given, count in ((key, 2), (None, 3)):
            for _ in range(count):
                assert place(first, given, tokenId="5").status_code == 200
        assert first.http.get("/", headers={"X-API-Key": key}).status_code == 429
        before = seen(first)
        first.live.kill()
    with town(folder, "test") as second:
        yield second, before, key, gone


def test_what_operators_did_is_there_after_a_crash(crashed):
    here, before, _, gone = crashed
    assert seen(here) == before
    assert here.http.get("/", headers={"X-API-Key": gone}).status_code == 401


def test_budgets_of_orders_survive_a_crash_and_those_of_requests_do_not(crashed):
    here, _, key, _ = crashed
    assert_limited(place(here, key), 2)
    assert_limited(place(here), 3)
    # One of its two requests was the order.
    assert here.http.get("/", headers={"X-API-Key": key}).status_code == 200
    assert here.http.get("/", headers={"X-API-Key": key}).status_code == 429
