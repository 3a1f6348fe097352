"""Limits of connections, in total and per address."""

import ipaddress

import pytest

from clob_server.transport.config import TransportLimits
from clob_server.transport.connections import Connections
from clob_server.transport.server import config_for
from tests.server.transport.conftest import LOOPS
from tests.server.transport.process import Process, problem, until

CROWD = {"connections_max": 4, "linger_s": 0.3}


def wait_for_capacity(server):
    """Wait until a new connection is accepted."""
    until(lambda: server.get("/hello") == (200, b"hello "))


@pytest.mark.parametrize("loop", LOOPS)
def test_excess_connection_is_rejected_and_websockets_count(loop):
    with Process(loop=loop, limits=CROWD) as server:
        one = server.websocket("echo")
        with one, server.websocket("echo"), server.open() as three:
            three.send(b"GET /hello HTTP/1.1\r\n\r\n")
            assert three.answer()[0] == 200
            with server.open() as four:
                four.send(b"GET /hello HTTP/1.1\r\n\r\n")
                assert four.answer()[0] == 200
                for _ in range(10):
                    status, code, headers = problem(server.send(b"GET / HTTP/1.1\r\n\r\n"))
                    assert (status, code) == (503, "TOO_MANY_CONNECTIONS")
                    assert headers["retry-after"] == "1"
            one.send("still there")
            assert one.recv() == "still there"
            wait_for_capacity(server)
            with server.websocket("echo"):
                assert server.get()[0] == 503
            wait_for_capacity(server)


def test_excess_connection_from_an_address_is_rejected():
    with Process(limits={"connections_per_address_max": 1}) as server:
        with server.open() as one:
            one.send(b"GET /hello HTTP/1.1\r\n\r\n")
            assert one.answer()[0] == 200
            assert problem(server.send(b""))[1] == "TOO_MANY_CONNECTIONS"
        wait_for_capacity(server)


def test_forwarded_address_is_used_behind_a_trusted_proxy_only():
    request = b"GET /client HTTP/1.1\r\nx-forwarded-for: 192.0.2.7\r\nconnection: close\r\n\r\n"
    limits = {"connections_per_address_max": 1}
    with Process(limits=limits, proxies=["127.0.0.0/8"]) as server, server.open(), server.open():
        assert server.send(request).endswith(b"192.0.2.7")
    with Process() as server:
        assert server.send(request).endswith(b"127.0.0.1")


def test_enter_counts_until_leave():
    connections = Connections(
        config_for(None, limits=TransportLimits(connections_per_address_max=2))
    )
    assert [connections.enter("a"), connections.enter("a"), connections.enter("b")] == [None] * 3
    assert connections.enter("a") == "the server allows at most 2 connections from a"
    connections.leave("a")
    assert connections.enter("a") is None
    assert connections.num_open == 3


def test_proxy_is_an_address_or_a_network():
    config = config_for(None, proxies=["10.0.0.0/8", "2001:db8::1"])
    results = map(config.is_proxy, ("10.1.2.3", "11.1.2.3", "2001:db8::1"))
    assert list(results) == [True, False, True]
    assert config.proxies[1] == ipaddress.ip_network("2001:db8::1/128")
    with pytest.raises(ValueError, match="localhost"):
        config_for(None, proxies=["localhost"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"connections_max": 0}, "connections_max must be at least 1; got 0"),
        ({"connections_per_address_max": -1}, "must be at least 0; got -1"),
        ({"header_timeout_s": 0}, "header_timeout_s must be above 0; got 0"),
        ({"linger_s": float("nan")}, "linger_s must be above 0; got nan"),
        ({"headers_max_bytes": 100}, "headers_max_bytes must be at least 1024; got 100"),
    ],
)
def test_invalid_limit_is_rejected(wrong, message):
    with pytest.raises(ValueError, match=message):
        TransportLimits(**wrong)
