"""Deadlines: slow clients are disconnected, even if they send bytes, without affecting others."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from unittest.mock import Mock

import pytest

from clob_server.transport.connections import NEVER
from clob_server.transport.server import HttpServer, config_for
from tests.server.transport.process import PATIENCE_S, Process, problem, until

HEAD = b"GET / HTTP/1.1\r\nx: "
SLOW = {
    "a head": HEAD,
    "a URL": b"GET /",
    "a head after blank lines": b"\r\n\r\nGET /",
    "a long body": b"POST /echo HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n",
    "a body that is waited for": b"POST /joined HTTP/1.1\r\ncontent-length: 60000\r\n\r\n",
    "a chunk": b"POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffff\r\n",
}


def trickle(client, start, byte=b"a"):
    """Send single bytes until the server closes the connection; return its response."""
    client.send(start)
    client.socket.settimeout(0.02)
    received = b""
    began = time.monotonic()
    while time.monotonic() < began + PATIENCE_S:
        try:
            more = client.socket.recv(65_536)
        except TimeoutError:
            client.send(byte)
            continue
        except ConnectionResetError:  # a byte crossed the end of the connection
            return received
        if not more:
            return received
        received += more
    raise TimeoutError(received)


def kept_alive(server):
    """Open a connection whose deadlines begin with its next request, not with the connection.

    On a loaded machine the first request may miss the deadline of the connection; it is repeated.
    """
    while True:
        client = server.open()
        try:
            client.send(b"GET /hello HTTP/1.1\r\n\r\n")
            assert client.answer()[0] == 200
        except (EOFError, ConnectionError):
            client.__exit__()
        else:
            return client


def test_slow_input_is_rejected(hasty):
    def rejection_of(start):
        with hasty.open() as client:
            return problem(trickle(client, start))[:2]

    with ThreadPoolExecutor(len(SLOW)) as pool:
        received = dict(zip(SLOW, pool.map(rejection_of, SLOW.values()), strict=True))
    assert received == dict.fromkeys(SLOW, (408, "REQUEST_TIMEOUT"))
    for _ in range(2):
        hasty.line("disconnected")  # reported to the application for each body


def test_later_head_has_its_own_deadline():
    limits = {"header_timeout_s": 0.3, "keep_alive_s": 3_600}
    with Process(limits=limits) as server, server.open() as client:
        client.send(b"GET /hello HTTP/1.1\r\n\r\n")
        assert client.answer()[0] == 200
        assert problem(trickle(client, HEAD))[:2] == (408, "REQUEST_TIMEOUT")


def test_connection_without_a_request_is_closed_without_a_response(hasty):
    with hasty.open() as client:
        assert client.rest() == b""


@pytest.mark.parametrize("nothing", [b"", b"\r\n"], ids=["silent", "blank lines"])
def test_idle_connection_is_closed(hasty, nothing):
    with hasty.open() as client:
        client.send(b"GET /hello?1 HTTP/1.1\r\n\r\n")
        assert client.answer()[2] == b"hello 1"
        if nothing:
            assert trickle(client, b"", nothing) == b""
        else:
            assert client.rest() == b""


def test_running_request_has_no_deadline(hasty):
    with hasty.open() as client, hasty.open() as idle:
        client.send(b"GET /wait?1 HTTP/1.1\r\n\r\n")
        hasty.line("waiting")
        assert idle.rest() == b""  # the request has waited longer than the idle time
        hasty.get("/go")
        assert client.answer()[2] == b"waited 1"


def test_client_that_does_not_read_is_disconnected(hasty):
    with hasty.open(receive_bytes=4_096) as client:
        client.send(b"GET /large HTTP/1.1\r\n\r\n")
        hasty.line("written")
        until(client.is_reset)


def test_client_that_reads_slowly_receives_everything(hasty):
    with hasty.open(receive_bytes=65_536) as client:
        client.send(b"GET /large HTTP/1.1\r\nconnection: close\r\n\r\n")
        size, began = 0, time.monotonic()
        while part := client.socket.recv(131_072):
            size += len(part)
            time.sleep(0.015)
        assert size > 8_000_000
        assert time.monotonic() - began > 0.6  # longer than each deadline


def test_reading_pauses_behind_a_slow_request(hasty):
    with hasty.open() as client:
        client.send(b"GET /wait HTTP/1.1\r\n\r\n" * 2)
        hasty.line("waiting")
        client.socket.settimeout(0.3)
        with suppress(TimeoutError):
            client.send(b"GET /hello HTTP/1.1\r\n\r\n" * 500_000)
        assert 0 < int(hasty.get("/unparsed")[1]) < 1_000_000


def test_slow_clients_do_not_block_others():
    with Process(limits={"header_timeout_s": 0.3, "keep_alive_s": 3_600}) as server:
        clients = [kept_alive(server) for _ in range(300)]
        fast, has_served, received = kept_alive(server), threading.Event(), []

        def slow():
            for client in clients:
                client.send(HEAD)
            has_served.wait(PATIENCE_S)
            received.extend(problem(client.rest())[1] for client in clients)

        thread = threading.Thread(target=slow)
        thread.start()
        num_served = 0
        while thread.is_alive():
            fast.send(b"GET /hello?1 HTTP/1.1\r\n\r\n")
            status, _, body = fast.answer()
            assert (status, body) == (200, b"hello 1")
            num_served += 1
            has_served.set()
        thread.join()
        for client in (fast, *clients):
            client.__exit__()
    assert received == ["REQUEST_TIMEOUT"] * 300
    assert num_served > 0


def test_deadline_does_not_pass_while_the_event_loop_is_late():
    server = HttpServer(config_for(None))
    server._loop = Mock()
    connection = Mock(deadline=0.5, stalled_at=NEVER)
    connection.transport.is_closing.return_value = False
    server.server_state.connections.add(connection)

    def tick(now_s):
        server._loop.time.return_value = now_s
        asyncio.run(server.on_tick(1))
        return connection.check.called

    assert not tick(0.1)
    assert not tick(5.0)  # late: a request may have arrived since the last tick
    assert tick(5.1)
