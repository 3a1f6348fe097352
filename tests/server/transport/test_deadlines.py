"""Whoever is slow is cut off, in the same time however he dribbles, and no one else notices."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

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


def dribble(client, start, byte=b"a"):
    """Send a byte now and then until the server has had enough, and give what it said."""
    client.send(start)
    client.socket.settimeout(0.02)
    told = b""
    began = time.monotonic()
    while time.monotonic() < began + PATIENCE_S:
        try:
            more = client.socket.recv(65_536)
        except TimeoutError:
            client.send(byte)
            continue
        except ConnectionResetError:  # a byte crossed the end of the connection
            return told
        if not more:
            return told
        told += more
    raise TimeoutError(told)


def test_what_comes_byte_by_byte_is_refused(hasty):
    def refused(start):
        with hasty.open() as client:
            return problem(dribble(client, start))[:2]

    with ThreadPoolExecutor(len(SLOW)) as pool:
        told = dict(zip(SLOW, pool.map(refused, SLOW.values()), strict=True))
    assert told == dict.fromkeys(SLOW, (408, "REQUEST_TIMEOUT"))
    for _ in range(2):
        hasty.line("disconnected")  # the application hears of its bodies


def test_a_later_head_has_its_own_time():
    limits = {"header_timeout_s": 0.3, "keep_alive_s": 3_600}
    with Process(limits=limits) as server, server.open() as client:
        client.send(b"GET /hello HTTP/1.1\r\n\r\n")
        assert client.answer()[0] == 200
        assert problem(dribble(client, HEAD))[:2] == (408, "REQUEST_TIMEOUT")


def test_a_connection_on_which_nothing_is_asked_is_closed_without_a_word(hasty):
    with hasty.open() as client:
        assert client.rest() == b""


@pytest.mark.parametrize("nothing", [b"", b"\r\n"], ids=["silent", "blank lines"])
def test_an_idle_connection_is_closed(hasty, nothing):
    with hasty.open() as client:
        client.send(b"GET /hello?1 HTTP/1.1\r\n\r\n")
        assert client.answer()[2] == b"hello 1"
        if nothing:
            assert dribble(client, b"", nothing) == b""
        else:
            assert client.rest() == b""


def test_a_request_that_is_being_answered_has_its_time(hasty):
    with hasty.open() as client, hasty.open() as idle:
        client.send(b"GET /wait?1 HTTP/1.1\r\n\r\n")
        hasty.line("waiting")
        assert idle.rest() == b""  # so long it has waited
        hasty.get("/go")
        assert client.answer()[2] == b"waited 1"


def test_a_client_that_does_not_read_is_broken_off(hasty):
    with hasty.open(receive_bytes=4_096) as client:
        client.send(b"GET /large HTTP/1.1\r\n\r\n")
        hasty.line("written")
        until(client.is_reset)


def test_a_client_that_reads_slowly_gets_everything(hasty):
    with hasty.open(receive_bytes=65_536) as client:
        client.send(b"GET /large HTTP/1.1\r\nconnection: close\r\n\r\n")
        size, began = 0, time.monotonic()
        while part := client.socket.recv(131_072):
            size += len(part)
            time.sleep(0.015)
        assert size > 8_000_000
        assert time.monotonic() - began > 0.6  # beyond each of the limits


def test_what_waits_behind_a_slow_request_is_not_read_for_ever(hasty):
    with hasty.open() as client:
        client.send(b"GET /wait HTTP/1.1\r\n\r\n" * 2)
        hasty.line("waiting")
        client.socket.settimeout(0.3)
        with suppress(TimeoutError):
            client.send(b"GET /hello HTTP/1.1\r\n\r\n" * 500_000)
        assert 0 < int(hasty.get("/unparsed")[1]) < 1_000_000


def test_many_slow_clients_keep_nobody_from_being_served(hasty):
    clients = [hasty.open() for _ in range(300)]
    told = []

    def slow():
        for client in clients:
            client.send(HEAD)
        told.extend(problem(client.rest())[1] for client in clients)

    thread = threading.Thread(target=slow)
    thread.start()
    num_served = 0
    while thread.is_alive():
        assert hasty.get("/hello?1") == (200, b"hello 1")
        num_served += 1
    thread.join()
    for client in clients:
        client.__exit__()
    assert told == ["REQUEST_TIMEOUT"] * 300
    assert num_served > 0
