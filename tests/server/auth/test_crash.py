"""State after a crash: changes by operators, and budgets of new orders."""

import pytest

from tests.server.auth.budgets import assert_limited, place, set_budgets
from tests.server.auth.servers import operated_server

RESOURCES = ("markets", "keys", "limits")


def admin_state(server):
    """Return the operator's view, without the last use of keys."""
    state = {
        name: server.http.get(f"/api/admin/{name}", headers=server.operator).json()
        for name in RESOURCES
    }
    for key in state["keys"]:
        del key["lastUsed"]
    return state


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """Return a restarted server, the state before the crash, and two keys."""
    folder = tmp_path_factory.mktemp("crash")
    with operated_server(folder, "test") as first:
        first.open_market("kept")
        for method, path, body in (
            ("PATCH", "/api/admin/markets/kept", {"question": "Kept?", "minSize": "7"}),
            ("POST", "/api/admin/markets/kept/resolve", {"outcome": "no"}),
        ):
            assert first.http.request(method, path, json=body, headers=first.operator).is_success
        set_budgets(first, ordersPerMinute=3)
        key = first.key(ordersPerMinute=2, requestsPerMinute=2)["key"]
        deactivated = first.deactivated_key()
        for given, count in ((key, 2), (None, 3)):
            for _ in range(count):
                assert place(first, given, tokenId="5").status_code == 200
        assert first.http.get("/", headers={"X-API-Key": key}).status_code == 429
        before = admin_state(first)
        first.live.kill()
    with operated_server(folder, "test") as second:
        yield second, before, key, deactivated


def test_changes_by_operators_survive_a_crash(crashed):
    server, before, _, deactivated = crashed
    assert admin_state(server) == before
    assert server.http.get("/", headers={"X-API-Key": deactivated}).status_code == 401


def test_order_budgets_survive_a_crash_and_request_budgets_do_not(crashed):
    server, _, key, _ = crashed
    assert_limited(place(server, key), 2)
    assert_limited(place(server), 3)
    # The order above was one of its two requests.
    assert server.http.get("/", headers={"X-API-Key": key}).status_code == 200
    assert server.http.get("/", headers={"X-API-Key": key}).status_code == 429
