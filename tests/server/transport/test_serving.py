"""The life of the server process: start, drain, shutdown and exit code."""

import os
import signal
import socket
import time

import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.transport.conftest import LOOPS
from tests.server.transport.process import PATIENCE_S, Process, until
from tests.server.transport.test_websocket import stalled

LOOP = pytest.mark.parametrize("loop", LOOPS)


def is_closed(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def test_server_reports_its_address_and_sends_no_server_header():
    with Process() as server:
        status, body = server.get()
        assert (status, body) == (200, b"hello ")
        head = server.send(b"GET / HTTP/1.0\r\n\r\n").lower()
        assert b"\r\ndate: " in head
        assert b"\r\nserver: " not in head
        server.signal()
        assert server.ended() == 0
        assert server.errors == ""


@LOOP
def test_sigterm_drains_answers_and_closes_with_1012(loop):
    with Process(loop=loop, drain_s=0.3) as server:
        with (
            server.open() as busy,
            server.open() as once,
            server.open() as idle,
            server.websocket("echo") as good,
        ):
            busy.send(b"GET /wait?1 HTTP/1.1\r\n\r\n")
            server.line("waiting")
            once.send(b"GET /later HTTP/1.1\r\n\r\n")
            server.line("waiting")
            idle.send(b"GET /ready HTTP/1.1\r\n\r\n")
            assert idle.answer()[0] == 200
            server.signal()
            server.line("draining")
            idle.send(b"GET /ready HTTP/1.1\r\n\r\n")
            assert idle.answer()[0] == 503
            good.send("still here")
            assert good.recv() == "still here"
            with pytest.raises(ConnectionClosed) as closed:
                good.recv(timeout=PATIENCE_S)
            assert closed.value.rcvd.code == 1012
            assert idle.rest() == b""
            until(lambda: is_closed(server.port))
            assert server.line("disconnect") == "disconnect 1012"
            server.open_gate()
            status, headers, body = busy.answer()
            assert (status, headers["connection"], body) == (200, "close", b"waited 1")
            status, headers, body = once.answer()
            assert (status, headers["connection"], body) == (200, "close", b"")
            assert once.rest() == b""
        assert server.ended() == 0
        assert server.lines() == ["later True", "ended"]
        assert server.errors == ""


@LOOP
def test_clients_that_do_not_read_do_not_delay_shutdown(loop):
    with Process(loop=loop, drain_s=0, grace_s=20) as server:
        with (
            stalled(server, b"") as feed,
            stalled(server, b"") as closed,
            server.open(receive_bytes=4_096) as page,
            server.open() as partial,
        ):
            for _ in range(2):
                server.line("buffered")
            closed.send(b"\x88\x80" + bytes(4))
            assert server.line("disconnect") == "disconnect 1005 False"
            page.send(b"GET /large HTTP/1.1\r\n\r\n")
            server.line("written")
            partial.send(b"GET / HT")
            began = time.monotonic()
            server.signal()
            assert server.ended() == 0
            assert time.monotonic() - began < 10
            assert len(feed.rest()) < 1_000_000
        assert server.lines()[-1] == "ended"
        assert server.errors == ""


def test_unanswered_request_is_aborted_within_the_grace_period():
    with Process(drain_s=0, grace_s=0.5) as server, server.open() as client:
        client.send(b"GET /wait HTTP/1.1\r\n\r\n")
        server.line("waiting")
        server.signal()
        assert server.ended() == 0
        assert client.rest() == b""
        assert server.lines()[-1] == "ended"


def test_application_that_does_not_shut_down_fails_the_exit_code():
    with Process("no-end", drain_s=0, grace_s=0.3) as server:
        server.signal()
        assert server.ended() == 1
        assert "the application did not end within 0.3 s" in server.errors


def test_blocked_event_loop_does_not_block_the_exit():
    with Process(drain_s=0.3, grace_s=0.1) as server, server.open() as client:
        server.signal()
        server.line("draining")
        client.send(b"GET /hold HTTP/1.1\r\n\r\n")
        assert server.ended() == 1
        assert "did not end within 0.1 s" in server.errors


@LOOP
def test_sigint_does_not_drain(loop):
    with Process(loop=loop, drain_s=3_600) as server:
        server.signal(signal.SIGINT)
        assert server.ended() == 0
        assert server.lines() == ["draining", "ended"]
        assert server.errors == ""


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_exits_at_once(second):
    with Process(drain_s=3_600) as server:
        server.signal()
        server.line("draining")
        server.signal(second)
        assert server.ended() == 1
        assert server.lines() == []
        assert "ended by a second signal" in server.errors


@LOOP
def test_failure_exits_at_once_with_its_reason_and_no_response(loop):
    with Process(loop=loop) as server, server.open() as client:
        client.send(b"GET /fail HTTP/1.1\r\n\r\n")
        assert server.ended() == 1
        with pytest.raises((EOFError, ConnectionError)):
            client.answer()
        assert server.lines() == []
        assert server.errors == (
            "clob-server: the server has failed: RuntimeError('the log is gone')\n"
        )


def test_failed_start_of_the_application_exits():
    process = Process("no-start")
    assert process.ended() == 1
    assert process.lines() == []
    assert "there is no log" in process.errors


def test_port_in_use_exits():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = Process(port=taken.getsockname()[1])
        assert process.ended() == 1
    assert process.lines() == ["ended"]
    assert os.strerror(98) in process.errors or "in use" in process.errors
