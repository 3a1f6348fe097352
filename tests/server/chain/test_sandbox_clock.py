"""A development chain follows the server's time when that is moved forward."""

from tests.chain.chain_server import ChainServer, wait_until
from tests.server.live import live_server

DAY_S = 86_400
PATH = "/api/test/clock"
SETTINGS = {"chain": "embedded", "chain_port": 0, "rate_limits": False}


def head_s(server):
    """Return the time of the chain's newest block, Unix seconds."""
    return int(server.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)


def now_s(server):
    return server.http.get("/api/time").json()["nowS"]


def test_chain_moves_along_and_the_faucet_window_passes(server, user):
    for _ in range(5):
        server.faucet(user)
    assert server.post("/api/gasless/faucet", {"user": user.address}).status_code == 429
    answer = server.done(PATH, {"advanceMs": DAY_S * 1000})
    assert answer["chain"] == "moved"
    assert head_s(server) == answer["nowS"]
    server.faucet(user)
    assert answer["nowS"] <= head_s(server) <= now_s(server)


def test_chain_keeps_to_the_moved_time_after_a_restart(tmp_path):
    with live_server(tmp_path, **SETTINGS) as live:
        moved_s = ChainServer(live).done(PATH, {"advanceMs": 3 * DAY_S * 1000})["nowS"]
        live.kill()
    with live_server(tmp_path, **SETTINGS) as live:
        server = ChainServer(live)
        assert server.done(PATH, {"advanceMs": DAY_S * 1000})["nowS"] >= moved_s + DAY_S
        assert head_s(server) >= moved_s + DAY_S


def test_chain_that_is_down_follows_once_it_is_ready(tmp_path):
    with live_server(tmp_path, **SETTINGS) as live:
        answer = live.http.post(PATH, json={"advanceMs": DAY_S * 1000}).json()
        assert answer["chain"] in ("moved", "unmoved")
        server = ChainServer(live)
        wait_until(lambda: head_s(server) >= answer["nowS"])
