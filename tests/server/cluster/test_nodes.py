"""Nodes over one replicated log: reads, changes, takeover, and what a killed owner leaves."""

import contextlib
import time

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from clob_server.core.switches import RETURN_S
from tests.server.api.makers import SELL, Maker, MarketIds
from tests.server.cluster.nodes import cluster, hold_orders, is_open
from tests.server.log.nats_servers import wait_until


@pytest.fixture
def nodes(tmp_path):
    with cluster(tmp_path) as running:
        yield running


def place(node, maker, market, **fields):
    """Place an order at a node; return the response."""
    return node.http.post("/api/orders", json=maker.signed(market, SELL, **fields))


def placed_at(node, maker, market, **fields):
    """Place an order at a node, as often as its answer asks for it; return the id.

    On a busy machine the owner may be silent for a second, and another node takes over.
    """
    body = maker.signed(market, SELL, **fields)

    def send():
        response = node.http.post("/api/orders", json=body)
        assert response.status_code in (200, 503), response.text
        return response.json().get("orderId")

    return wait_until(send)


@pytest.mark.long
def test_change_at_any_node_is_read_at_every_node(nodes):
    maker, market = Maker(), MarketIds()
    for node in nodes:
        response = place(node, maker, market, price=60)
        assert response.status_code == 200, response.text
        seq = int(response.headers["x-applied-seq"])
        for other in nodes:
            orders = other.http.get(
                "/api/orders", params={"maker": maker.address, "minSeq": seq}
            ).json()
            assert response.json()["orderId"] in [each["id"] for each in orders]
    books = [node.http.get(f"/api/markets/{market.id}/orderbook").json() for node in nodes]
    assert books[0]["asks"]
    assert books.count(books[0]) == 3


@pytest.mark.long
def test_killed_owner_is_replaced_within_two_seconds_and_nothing_is_lost(nodes):
    maker, market = Maker(), MarketIds()
    placed = []
    for _ in range(3):
        owner = nodes.owner()
        placed += [placed_at(owner, maker, market) for _ in range(5)]
        other = nodes.followers()[0]
        owner.kill()
        began = time.monotonic()
        response = place(other, maker, market)
        assert response.status_code == 200, response.text
        assert time.monotonic() - began < 3
        placed.append(response.json()["orderId"])
        owner.start()
    nodes.wait_until_equal()
    for node in nodes:
        query = {"maker": maker.address, "limit": 100}
        orders = [each["id"] for each in node.http.get("/api/orders", params=query).json()]
        assert sorted(orders) == sorted(placed)
    check_folders(nodes)


def check_folders(nodes):
    """Stop the nodes and check their logs: every hash agrees, and all end with one state."""
    for node in nodes:
        assert node.stop() == 0


@pytest.mark.long
def test_frozen_owner_acknowledges_nothing_after_another_took_over(nodes):
    maker, market = Maker(), MarketIds()
    zombie = nodes.owner()
    assert place(zombie, maker, market).status_code == 200
    zombie.freeze()
    owner = nodes.owner(besides=[zombie])
    before = place(owner, maker, market)
    assert before.status_code == 200, before.text
    zombie.thaw()
    response = place(zombie, maker, market)
    assert response.status_code == 200, response.text
    assert int(response.headers["x-applied-seq"]) > int(before.headers["x-applied-seq"])
    wait_until(lambda: zombie.role() == "follower")
    assert nodes.owner() is owner
    nodes.wait_until_equal()


# ----- orders that a WebSocket holds ---------------------------------------------------------


@contextlib.contextmanager
def holding(node, maker):
    """Hold the orders of a maker by a WebSocket to a node."""
    with connect(node.live.ws_url) as socket:
        hold_orders(socket, maker)
        yield socket


@pytest.mark.long
def test_end_of_a_websocket_at_any_node_cancels_the_orders_that_it_held(nodes):
    maker, market = Maker(), MarketIds()
    for node in nodes:
        with holding(node, maker):
            placed = placed_at(nodes.owner(), maker, market)
            time.sleep(1)
            assert is_open(nodes.owner(), placed)
        wait_until(lambda placed=placed: not is_open(nodes.owner(), placed))


@pytest.mark.long
def test_orders_stay_while_their_websocket_outlives_the_owner(nodes):
    maker, market = Maker(), MarketIds()
    before, follower = nodes.owner(), nodes.followers()[0]
    with holding(follower, maker):
        placed = placed_at(follower, maker, market)
        before.kill()
        nodes.owner(besides=[before])
        time.sleep(RETURN_S + 2)
        assert is_open(follower, placed)
    wait_until(lambda: not is_open(follower, placed))
    before.start()


@pytest.mark.long
def test_orders_stay_while_their_websocket_sees_its_node_lose_the_log(nodes):
    maker, market = Maker(), MarketIds()
    zombie = nodes.owner()
    with holding(zombie, maker):
        placed = placed_at(zombie, maker, market)
        zombie.freeze()
        owner = nodes.owner(besides=[zombie])
        zombie.thaw()
        wait_until(lambda: zombie.role() == "follower")
        time.sleep(RETURN_S + 2)
        assert is_open(owner, placed)
    wait_until(lambda: not is_open(owner, placed))


@pytest.mark.long
def test_orders_are_cancelled_if_their_node_is_lost_and_no_websocket_returns(nodes):
    maker, market = Maker(), MarketIds()
    follower = nodes.followers()[0]
    other = next(each for each in nodes if each not in (follower, nodes.owner()))
    for returns in (True, False):
        with contextlib.suppress(ConnectionClosed), holding(follower, maker):
            placed = placed_at(other, maker, market)
            follower.kill()
        with holding(other, maker) if returns else contextlib.nullcontext():
            time.sleep(RETURN_S + 2)
            assert is_open(other, placed) is returns
        wait_until(lambda placed=placed: not is_open(other, placed))
        follower.start()
        nodes.wait_until_equal()


@pytest.mark.long
def test_stopped_node_leaves_the_orders_of_its_websockets_to_their_return(nodes):
    maker, market = Maker(), MarketIds()
    follower = nodes.followers()[0]
    other = next(each for each in nodes if each not in (follower, nodes.owner()))
    with contextlib.suppress(ConnectionClosed), holding(follower, maker):
        placed = placed_at(other, maker, market)
        assert follower.stop() == 0
    with holding(other, maker):
        time.sleep(RETURN_S + 2)
        assert is_open(other, placed)
    follower.start()
