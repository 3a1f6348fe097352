"""The dialect in a cluster: credentials, orders, heartbeats and news at any node."""

import contextlib

import pytest

from tests.server.cluster.nodes import cluster
from tests.server.dialects.polymarket import (
    CHAIN_ID,
    Market,
    Socket,
    client_of,
    close_connections,
    credentials_of,
)
from tests.server.log.nats_servers import wait_until
from tests.signings import KEYS

types = pytest.importorskip(
    "py_clob_client.clob_types", reason="py-clob-client is not installed"
)  # fmt: skip


@pytest.mark.long
def test_client_of_any_node_keeps_its_credentials_orders_and_heartbeats(tmp_path):
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(
            cluster(tmp_path, 3, 1, dialect="polymarket", chain_id=CHAIN_ID)
        )
        stack.callback(close_connections)
        owner = nodes.owner()
        second, third = nodes.followers()
        market = Market(second.live)
        nodes.wait_until_equal()
        at_owner = client_of(owner.live, KEYS[0])
        others = [client_of(node.live, KEYS[0], login=False) for node in (second, third)]
        for client in others:
            assert client.derive_api_key() == at_owner.creds
            client.set_api_creds(at_owner.creds)
        with Socket(third.live, "user") as socket:
            socket.send(auth=credentials_of(at_owner), markets=[], type="user")
            assert socket.news() == []
            order = types.OrderArgs(market.yes, 0.4, 10, "BUY")
            order_id = others[0].create_and_post_order(order)["orderID"]
            nodes.wait_until_equal()
            [placed] = socket.news()
            assert (placed["type"], placed["id"]) == ("PLACEMENT", order_id)
        assert [each["id"] for each in others[1].get_orders()] == [order_id]
        beat = others[0].post_heartbeat(None)["heartbeat_id"]
        beat = others[1].post_heartbeat(beat)["heartbeat_id"]
        owner.kill()
        wait_until(lambda: nodes.owner(besides=[owner]))
        others[0].post_heartbeat(beat)
        assert [each["id"] for each in others[0].get_orders()] == [order_id]
        assert others[1].cancel(order_id)["canceled"] == [order_id]
