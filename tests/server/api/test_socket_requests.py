"""Requests over a WebSocket: their form, order, number, budgets and answers."""

import contextlib
import json
import signal
import socket
import time

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.server.api.makers import SELL, MarketIds
from tests.server.api.socket_client import PATIENCE_S, SocketClient
from tests.server.auth.budgets import BUDGETS, GASLESS, set_budgets
from tests.server.auth.servers import operated_server
from tests.server.live import live_server


@pytest.fixture
def client(live):
    with SocketClient(live) as made:
        yield made


def rejected(response, code, status, text):
    body = response["body"]
    assert (body["code"], body["status"], response["status"]) == (code, status, status)
    assert text in body["detail"]


def test_unknown_operation_lists_the_known_ones(client):
    response = client.ask("create_orders", body={})
    rejected(response, "INVALID_FIELD", 422, "operation must be one of create_order,")
    rejected(client.ask("admin_set_limits", body={}), "INVALID_FIELD", 422, "cancel_order")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "operation"),
        ({"operation": 5}, "operation must be a string; got 5"),
        ({"operation": "get_order", "params": 5}, "params must be an object; got 5"),
        ({"operation": "get_order", "params": {"orderId": None}}, "params.orderId must be"),
        ({"operation": "get_order", "params": {"orderId": [1]}}, "params.orderId must be"),
        ({"operation": "get_order"}, "orderId is missing"),
        ({"operation": "get_order", "params": {"orderId": "x", "a": 1}}, "unknown query parameter"),
        ({"operation": "create_order", "bodies": {}}, "bodies"),
    ],
)
def test_malformed_request_is_answered_by_a_problem(client, fields, text):
    client.socket.send(json.dumps({"type": "request", "id": "mine", **fields}))
    response = client.receive()
    assert (response["type"], response["id"]) == ("response", "mine")
    rejected(response, "INVALID_FIELD", 422, text)


def test_request_without_an_id_closes_a_plain_client(client):
    client.socket.send(json.dumps({"type": "request", "operation": "list_orders"}))
    with pytest.raises(ConnectionClosed) as closed:
        client.receive()
    assert closed.value.rcvd.code == 1008
    assert "id" in closed.value.rcvd.reason


def test_body_has_the_limit_of_http(client, live):
    body = {"orders": ["x" * 70_000]}
    rejected(client.ask("create_batch", body=body), "BODY_TOO_LARGE", 413, "65536")
    fits = {"orders": [], "x": "y" * 65_000}
    over_http = live.http.post("/api/orders/batch", json=fits).json()
    response = client.ask("create_batch", body=fits)
    assert response["body"] == over_http | {"requestId": response["headers"]["x-request-id"]}


def test_absent_body_is_rejected_as_over_http(client, live):
    headers = {"Content-Type": "application/json"}
    over_http = live.http.post("/api/orders", content=b"", headers=headers).json()
    response = client.ask("create_order")
    assert response["body"] == over_http | {"requestId": response["headers"]["x-request-id"]}


def test_requests_take_effect_in_the_order_of_arrival(client, alice, market):
    count = 60
    for _ in range(count):
        client.send("create_order", body=alice.signed(market, SELL, price=60))
    query = {"maker": alice.address, "status": "open", "marketId": market.id, "limit": 100}
    last = client.send("set_nonce", body=alice.nonce(5))
    after = client.send("create_order", body=alice.signed(market, SELL, price=61, nonce=5))
    answers = {}
    for _ in range(count + 2):
        answer = client.receive()
        answers[answer["id"]] = answer
    assert [answer["body"] for answer in answers.values() if answer["status"] != 200] == []
    assert answers[last]["body"]["numCancelled"] == count
    orders = client.ask("list_orders", query)["body"]
    assert [order["id"] for order in orders] == [answers[after]["body"]["orderId"]]


def test_more_requests_than_the_limit_wait_and_are_all_answered(client, alice, market):
    count = 400
    sent = [client.send("create_gasless_order", body=alice.gasless(market)) for _ in range(count)]
    answers = [client.receive() for _ in range(count)]
    assert sorted(answer["id"] for answer in answers) == sent
    assert [answer["body"] for answer in answers if answer["status"] != 200] == []


def test_requests_of_a_closed_socket_continue(live, api, alice, market):
    with SocketClient(live) as client:
        for _ in range(5):
            client.send("create_gasless_order", body=alice.gasless(market))
        read = client.send("list_orders", {"maker": alice.address})
        # Its response may come between those of the orders, but only once all of them have begun.
        while client.receive()["id"] != read:
            pass
    with SocketClient(live) as client:
        client.ask("set_nonce", body=alice.nonce(1))
    orders = api.orders(maker=alice.address, status="cancelled", minSeq=1)
    assert len(orders) == 5


def test_response_is_sent_beside_the_feed(client, alice, market):
    subscribe = {"type": "subscribe", "channel": "orderbook", "marketId": market.id}
    client.socket.send(json.dumps(subscribe))
    sent = client.send("create_gasless_order", body=alice.gasless(market))
    messages = {}
    while {"response", "order_added"} - messages.keys():
        message = client.receive()
        messages[message["type"]] = message
    assert messages["response"]["id"] == sent
    assert messages["response"]["body"]["orderId"] == messages["order_added"]["data"]["orderId"]


def test_key_of_the_handshake_or_of_the_message_acts_for_its_maker(
    production, production_market, key_for, alice, bob
):
    placed = {"body": alice.gasless(production_market)}
    key = key_for(alice)
    with SocketClient(production) as client:
        response = client.ask("create_gasless_order", **placed)
        rejected(response, "API_KEY_REQUIRED", 401, "trade")
        response = client.ask("create_gasless_order", **placed, apiKey="unknown")
        rejected(response, "INVALID_API_KEY", 401, "X-API-Key")
        assert (
            client.ask("create_gasless_order", **placed, apiKey=key["X-API-Key"])["status"] == 200
        )
    with SocketClient(production, additional_headers=key) as client:
        order = client.ask("create_gasless_order", **placed)["body"]["orderId"]
        other = {"body": bob.gasless(production_market)}
        rejected(client.ask("create_gasless_order", **other), "MAKER_NOT_ALLOWED", 403, "bound")
        cancelled = client.ask("cancel_order", {"orderId": order}, {"maker": alice.address})
        assert cancelled["body"]["status"] == "cancelled"


def test_budgets_are_shared_with_http(tmp_path):
    with operated_server(tmp_path, "test") as server:
        set_budgets(server, **BUDGETS)
        key = server.key(ordersPerMinute=5)["key"]
        url = f"ws://{server.http.base_url.netloc.decode()}/ws"
        with connect(url, additional_headers={"X-API-Key": key}) as socket:
            statuses, left = [], []
            for number in range(4):
                message = {"type": "request", "id": number, "operation": "create_gasless_order"}
                socket.send(json.dumps({**message, "body": GASLESS}))
                answer = json.loads(socket.recv(timeout=60))
                over_http = server.http.post(
                    "/api/orders/gasless", json=GASLESS, headers={"X-API-Key": key}
                )
                statuses += [answer["status"], over_http.status_code]
                left += [answer["headers"]["x-ratelimit-remaining"]]
            assert statuses == [200] * 5 + [429] * 3
            assert left[:3] == ["4", "2", "0"]
            assert answer["body"]["code"] == "RATE_LIMITED"
            assert answer["headers"].keys() >= {"retry-after", "ratelimit", "ratelimit-policy"}


def answers(client):
    """Yield the answers until the connection closes."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            yield client.receive()


def slow_connection(live):
    """Connect to a server with a receive buffer of a few kilobytes."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect((live.http.base_url.host, live.http.base_url.port))
    return connection


def test_client_that_does_not_read_its_answers_is_closed(tmp_path, alice, market):
    asked = 400
    with (
        live_server(tmp_path, rate_limits=False, ws_hard_bytes=200_000) as live,
        # Its thread stops reading when a message is queued.
        SocketClient(live, sock=slow_connection(live), max_queue=1) as client,
        SocketClient(live) as other,
    ):
        for _ in range(100):
            other.ask("create_gasless_order", body=alice.gasless(market))
        query = {"maker": alice.address, "limit": 100}
        with contextlib.suppress(ConnectionClosed):  # before it has sent them all
            for _ in range(asked):
                client.send("list_orders", query)
        deadline = time.monotonic() + PATIENCE_S
        while "clob_websockets 1.0" not in live.http.get("/metrics").text:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert len(list(answers(client))) < asked
        assert other.ask("list_orders", query)["status"] == 200


def test_draining_server_answers_requests_and_rejects_orders(tmp_path, alice):
    market = MarketIds()
    with live_server(tmp_path, drain_s=20, rate_limits=False) as live, SocketClient(live) as client:
        order = client.ask("create_order", body=alice.signed(market))["body"]["orderId"]
        live.process.send_signal(signal.SIGTERM)
        while live.http.get("/ready").status_code == 200:
            time.sleep(0.01)
        response = client.ask("create_order", body=alice.signed(market))
        rejected(response, "DRAINING", 503, "shutting down")
        assert response["headers"]["retry-after"] == "1"
        assert client.ask("get_order", {"orderId": order})["body"]["status"] == "open"
        assert client.ask("set_nonce", body=alice.nonce(1))["body"]["numCancelled"] == 1
