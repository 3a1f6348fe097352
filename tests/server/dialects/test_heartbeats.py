"""Heartbeats of an unmodified py-clob-client against a real server."""

import pytest

from clob import CancelAll
from clob_server.core.commands import FireSwitch, SetHeartbeat
from clob_server.dialects.polymarket.heartbeats import TIMEOUT_MS
from clob_server.dialects.polymarket.wallets import wallets_of
from tests.server.api.test_switches import logged, wait_until
from tests.server.dialects.polymarket import Market, client_of, dialect_server
from tests.signings import KEYS

types = pytest.importorskip(
    "py_clob_client.clob_types", reason="py-clob-client is not installed"
)  # fmt: skip
exceptions = pytest.importorskip("py_clob_client.exceptions")


def beat(client, heartbeat_id=None):
    """Send a heartbeat; return the id for the next one."""
    answer = client.post_heartbeat(heartbeat_id)
    assert answer.keys() == {"heartbeat_id"}
    return answer["heartbeat_id"]


def rejected(client, heartbeat_id):
    """Send a heartbeat that is rejected; return the status and the body."""
    with pytest.raises(exceptions.PolyApiException) as caught:
        client.post_heartbeat(heartbeat_id)
    return caught.value.status_code, caught.value.error_msg


def wallets(live, key):
    """Return the clients of a key for its account, its proxy and its safe."""
    owner = client_of(live, key).get_address()
    return [
        client_of(live, key, signature_type=kind, funder=wallet)
        for kind, wallet in enumerate(wallets_of(owner))
    ]


def rest(client, token, price=0.3):
    """Post an order that rests; return its id."""
    order = types.OrderArgs(token, price, 5, "BUY")
    return client.create_and_post_order(order)["orderID"]


def test_each_heartbeat_names_the_id_of_the_answer_before(live):
    client = client_of(live, KEYS[1])
    first = beat(client)
    second = beat(client, first)
    assert len({first, second, beat(client, second)}) == 3
    expected = beat(client)
    for wrong in (first, "x", "x" * 5_000):
        status, body = rejected(client, wrong)
        assert (status, body["error"], body["error_msg"]) == (400, *["Invalid Heartbeat ID"] * 2)
        assert (body["heartbeat_id"], body["code"]) == (expected, "INVALID_HEARTBEAT_ID")
    assert rejected(client, first)[1]["errors"] == [
        {
            "path": "heartbeat_id",
            "message": f'heartbeat_id must be "{expected}", as in the last answer; got "{first}"',
        }
    ]
    assert beat(client, expected) != expected


@pytest.mark.parametrize("start", [None, ""])
def test_heartbeat_without_an_id_begins_anew(live, start):
    client = client_of(live, KEYS[1])
    before = beat(client, start)
    begun = beat(client, start)
    assert rejected(client, before)[1]["heartbeat_id"] == begun


def test_first_heartbeat_names_no_id(live):
    status, body = rejected(client_of(live, KEYS[2]), "0b1c")
    assert (status, body["heartbeat_id"]) == (400, "")
    assert body["errors"][0]["message"] == 'heartbeat_id must be null; got "0b1c"'


def test_ids_of_wallets_are_separate(live):
    one, two = client_of(live, KEYS[0]), client_of(live, KEYS[1])
    first, second = beat(one), beat(two)
    assert rejected(two, first)[1]["heartbeat_id"] == second
    beat(one, first)


@pytest.mark.parametrize("value", [1, True, [], {"id": "x"}])
def test_id_is_text_or_null(live, value):
    status, body = rejected(client_of(live, KEYS[1]), value)
    assert (status, body["errors"][0]["path"]) == (422, "heartbeat_id")


def test_missing_heartbeat_cancels_the_orders_of_all_makers_of_the_wallet(tmp_path):
    with dialect_server(tmp_path) as live:
        market = Market(live)
        clients, other = wallets(live, KEYS[0]), client_of(live, KEYS[1])
        ids = {rest(client, market.yes) for client in clients}
        kept = rest(other, market.yes)
        last = beat(clients[0], beat(clients[2]))
        assert len(ids) == 3
        wait_until(lambda: not clients[0].get_orders())
        assert [each["id"] for each in other.get_orders()] == [kept]
        status, body = rejected(clients[0], last)
        assert (status, body["heartbeat_id"]) == (400, "")
        beat(clients[0])
        makers = set(wallets_of(clients[0].get_address()))
        assert live.stop() == 0
    commands = logged(tmp_path)
    for kind in (SetHeartbeat, FireSwitch, CancelAll):
        assert {each.maker for each in commands if type(each) is kind} == makers
    assert {each.timeout_ms for each in commands if type(each) is SetHeartbeat} == {TIMEOUT_MS}


def test_heartbeats_go_on_after_a_restart(tmp_path):
    with dialect_server(tmp_path) as live:
        market, client = Market(live), client_of(live, KEYS[0])
        order_id = rest(client, market.yes)
        last = beat(client)
        longer = {"maker": client.get_address(), "timeoutMs": 3_600_000}  # for a slow start
        assert live.http.post("/api/orders/heartbeat", json=longer).json()["changed"]
        live.kill()
    with dialect_server(tmp_path) as live:
        client = client_of(live, KEYS[0])
        assert [each["id"] for each in client.get_orders()] == [order_id]
        expected = beat(client, last)
        assert rejected(client, last)[1]["heartbeat_id"] == expected
        beat(client, expected)


def test_disarmed_switch_expects_no_id(live):
    client = client_of(live, KEYS[0])
    last = beat(client)
    body = {"maker": client.get_address(), "timeoutMs": 0}
    assert live.http.post("/api/orders/heartbeat", json=body).json()["changed"]
    assert rejected(client, last)[1]["heartbeat_id"] == ""
