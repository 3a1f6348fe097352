"""The proxy of the tests forwards, cuts and stalls as its users expect."""

import httpx
import pytest

from tests.client.chaos_proxy import ChaosProxy, Faults
from tests.server.live import live_server


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("proxy"), rate_limits=False) as server:
        yield server


def order(price):
    return {
        "maker": "0x" + "1" * 40,
        "marketId": "proxied",
        "tokenId": "7",
        "side": 0,
        "price": price,
        "size": str(10**18),
    }


def test_split_and_delayed_requests_arrive(live):
    faults = Faults(delay_max_s=0.005, split_max=50)
    with ChaosProxy(live.url, faults) as proxy, httpx.Client(base_url=proxy.url) as http:
        assert http.post("/api/orders/gasless", json=order(3)).status_code == 200
        assert http.get("/api/markets/proxied/orderbook").json()["bids"][-1]["price"] == 3
    assert proxy.num_links == 1


def test_lost_answer_leaves_an_accepted_order(live):
    with ChaosProxy(live.url) as proxy, httpx.Client(base_url=proxy.url, timeout=30) as http:
        before = http.get("/api/time")
        assert before.status_code == 200
        proxy.lose_next_answer()
        with pytest.raises(httpx.TransportError):
            http.post("/api/orders/gasless", json=order(4))
        bids = http.get("/api/markets/proxied/orderbook").json()["bids"]
        assert 4 in [each["price"] for each in bids]
        assert (proxy.num_links, proxy.num_cuts) == (2, 1)


def test_cut_connection_fails_and_the_next_one_works(live):
    with ChaosProxy(live.url, Faults(cut_rate=1)) as proxy:
        with httpx.Client(base_url=proxy.url) as http, pytest.raises(httpx.TransportError):
            http.get("/api/time")
        proxy.faults = Faults()
        with httpx.Client(base_url=proxy.url) as http:
            assert http.get("/api/time").status_code == 200


def test_stalled_connection_continues(live):
    with ChaosProxy(live.url) as proxy, httpx.Client(base_url=proxy.url, timeout=0.3) as http:
        proxy.stall()
        with pytest.raises(httpx.TimeoutException):
            http.get("/api/time")
        proxy.flow()
        assert http.get("/api/time", timeout=30).status_code == 200
