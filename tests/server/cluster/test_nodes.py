"""Nodes over one replicated log: reads, changes, takeover, and what a killed owner leaves."""

import time

import pytest

from tests.server.api.makers import SELL, Maker, MarketIds
from tests.server.cluster.nodes import cluster
from tests.server.log.nats_servers import wait_until


@pytest.fixture
def nodes(tmp_path):
    with cluster(tmp_path) as running:
        yield running


def place(node, maker, market, **fields):
    """Place an order at a node; return the response."""
    return node.http.post("/api/orders", json=maker.signed(market, SELL, **fields))


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
        placed += [place(owner, maker, market).json()["orderId"] for _ in range(5)]
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
