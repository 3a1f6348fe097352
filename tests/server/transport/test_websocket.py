"""WebSockets: pushed frames, client messages, and clients that do not read."""

import re
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Opcode

from clob_server.transport.websocket import PUSH, text_frame
from tests.server.transport.process import Process, problem, until

SIZES = [0, 1, 125, 126, 65_535, 65_536, 200_000]
MASKED_EMPTY = b"\x80" + bytes(4)


def handshake(path, *headers):
    """Return a handshake request."""
    usual = (
        b"host: x",
        b"connection: Upgrade",
        b"upgrade: websocket",
        b"sec-websocket-version: 13",
        b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
    )
    return b"\r\n".join([b"GET /%s HTTP/1.1" % path, *(headers or usual), b"", b""])


def upgraded(client, path):
    client.send(handshake(path))
    assert client.answer()[0] == 101


def test_name_of_the_push_extension():
    assert PUSH == "clob.push"


@pytest.mark.parametrize("size", SIZES)
def test_frame_is_an_unmasked_unfragmented_text(size):
    frame = text_frame(b"y" * size)
    length = frame[1]
    start = {126: 4, 127: 10}.get(length, 2)
    assert frame[0] == 0x81
    assert (int.from_bytes(frame[2:start], "big") if length > 125 else length) == size
    assert frame[start:] == b"y" * size


def test_pushed_frames_of_all_sizes_arrive(server):
    with server.websocket("sizes") as client:
        for size in SIZES:
            client.send(str(size))
            assert client.recv() == "y" * size


def test_push_before_the_handshake_or_after_the_close_is_rejected(server):
    with server.open() as client:
        client.send(handshake(b"late"))
        assert server.line("pushed") == "pushed False"
        server.get("/go")
        assert client.answer()[0] == 101
        client.send(b"\x88" + MASKED_EMPTY)
        assert client.rest() == b"\x88\0"
    assert server.line("pushed") == "pushed False"


ENDS = {"closes": b"\x88" + MASKED_EMPTY, "errs": b"\xff" + MASKED_EMPTY, "goes": b""}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_unchecked_write_to_a_disconnected_client_sends_nothing(server, end):
    with server.open() as client:
        upgraded(client, b"shortest")
        assert client.file.read(6) == text_frame(b"here")
        if end:
            client.send(end)
            received = re.sub(rb"\x89\x04.{4}", b"", client.rest(), flags=re.DOTALL)  # the pings
            assert received[:1] == b"\x88"
            assert len(received) == 2 + received[1]  # only the close frame
        else:
            client.reset()
        server.line("pushed twice")


def test_client_messages_between_pushes_are_answered_and_no_push_is_lost(server):
    with server.websocket("both") as client:
        number, echoed, waiting = 0, 0, []
        while echoed < 30 or number < 200:
            if len(waiting) < 3 and echoed + len(waiting) < 30:
                waiting.append("part " * 5)
                client.send(["part "] * 5)
                pong = client.ping()
            received = client.recv(timeout=30)
            if received.startswith("part"):
                assert received == waiting.pop(0)
                echoed += 1
            else:
                assert received == f"push {number}"
                number += 1
        assert pong.wait(30)


def test_connection_stays_open_across_server_pings(server):
    with server.websocket("echo") as client:
        pings = 0

        def count_pings(frame, *, receive=client.protocol.recv_frame):
            nonlocal pings
            pings += frame.opcode is Opcode.PING
            receive(frame)

        client.protocol.recv_frame = count_pings
        began = time.monotonic()
        while pings < 3:
            assert time.monotonic() < began + 30
            time.sleep(0.01)
        client.send("here")
        assert client.recv() == "here"


FLOODS = {
    "messages": b"\x81" + MASKED_EMPTY,
    "pings": b"\x89" + MASKED_EMPTY,
    "both": b"\x89" + MASKED_EMPTY + b"\x81" + MASKED_EMPTY,
}


@pytest.mark.parametrize("kind", FLOODS)
def test_flood_of_messages_is_handled_in_order(server, kind):
    frames = FLOODS[kind]
    with server.open() as client:
        upgraded(client, b"echo")
        client.send(frames * 5_000 + b"\x81\x81" + bytes(4) + b"z")
        received = b""
        while b"\x81\x01z" not in received:  # a ping of the server may follow it
            part = client.file.read1()
            assert part, "the server has closed"
            received += part
        received = re.sub(rb"(?s)\x89\x04....", b"", received)  # the pings of the server
        assert (received.count(b"\x81\0"), received.count(b"\x8a\0")) == (
            5_000 * (kind != "pings"),
            5_000 * (kind != "messages"),
        )


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x81\xfe" + (20_000).to_bytes(2, "big") + bytes(4) + b"x" * 20_000, 1009),
        (b"\x01" + MASKED_EMPTY + (b"\0" + MASKED_EMPTY) * 5_000, 1009),
        (b"\x81\x81" + bytes(4) + b"\xff", 1007),
        (b"\x01\x81" + bytes(4) + b"\xe2" + b"\x80\x81" + bytes(4) + b"x", 1007),
        (b"\x88\x83" + bytes(4) + b"\x03\xe8\xff", 1007),
        (b"\xff" * 20, 1002),
        (b"\x81\0", 1002),
    ],
    ids=[
        "too large",
        "too many parts",
        "no text",
        "no text in parts",
        "no text in a close",
        "garbage",
        "not masked",
    ],
)
def test_invalid_message_closes_the_connection(server, sent, code):
    with server.open() as client:
        upgraded(client, b"echo")
        client.send(sent)
        received = client.rest()
        assert (received[0], received[2:4]) == (0x88, code.to_bytes(2, "big"))
    assert server.line("disconnect")


def test_text_that_is_not_utf8_leaves_no_traceback():
    with Process() as process:
        with process.open() as client:
            upgraded(client, b"echo")
            client.send(b"\x81\x81" + bytes(4) + b"\xff")
            received = client.rest()
            assert (received[0], received[2:4]) == (0x88, (1007).to_bytes(2, "big"))
        process.line("disconnect")
        process.signal()
        process.ended()
        assert "Traceback" not in process.errors
        assert "UnicodeDecodeError" not in process.errors


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (handshake(b"echo", b"connection: upgrade", b"upgrade: websocket"), 400),
        (handshake(b"echo", *handshake(b"").replace(b": 13", b": 12").split(b"\r\n")[1:-2]), 400),
        (handshake(b"\xff"), 400),
        (handshake(b"echo", b"connection: upgrade", b"upgrade: websocket", *[b"a: b"] * 200), 431),
        (
            handshake(b"echo", b"connection: upgrade", b"upgrade: websocket", b"content-length: 1"),
            400,
        ),
    ],
    ids=["no key", "another version", "not ASCII", "many headers", "a body"],
)
def test_invalid_handshake_is_rejected_with_a_problem(server, request_, status):
    assert problem(server.send(request_))[0] == status


def test_application_may_reject_the_handshake(server):
    with pytest.raises(InvalidStatus, match="403"), server.websocket("reject"):
        pass


def test_handshake_behind_a_running_request_is_ignored(server):
    with server.open() as client:
        client.send(b"GET /wait?1 HTTP/1.1\r\n\r\n" + handshake(b"echo"))
        server.line("waiting")
        server.get("/go")
        assert client.answer()[2] == b"waited 1"
        assert client.rest() == b""


# ----- clients that do not read ------------------------------------------------------------------


def stalled(server, query):
    """Return a client that requests a flood and does not read it."""
    client = server.open(receive_bytes=4_096)
    client.send(handshake(b"flood?" + query))
    return client


def test_buffered_bytes_are_reported_and_discarded_by_abort(server):
    with stalled(server, b"abort") as client:
        num_buffered, num_hidden = map(int, server.line("buffered").split()[1:])
        assert num_buffered >= 1_000_000
        assert num_hidden < 500_000  # in the kernel
        assert server.line("disconnect") == "disconnect 1005 False"
        assert len(client.rest()) < 1_000_000  # buffered by the kernel


def test_drained_is_called_when_the_buffer_is_nearly_empty(server):
    with stalled(server, b"") as client:
        sizes = map(int, server.line("buffered").split()[1:])
        size = -sum(sizes)
        while size < 0:
            size += len(client.file.read1(65_536))
        assert int(server.line("drained").split()[1]) <= 16_384


def test_client_that_does_not_read_is_aborted_even_while_closing(hasty):
    with stalled(hasty, b"") as one, stalled(hasty, b"leave") as two:
        for _ in range(2):
            hasty.line("buffered")
        assert hasty.line("disconnect").endswith(" False")
        until(two.is_reset)
        for client in (one, two):
            assert len(client.rest()) < 1_000_000


def test_pings_of_a_client_that_does_not_read_are_not_answered(server):
    with stalled(server, b"") as client:
        before = int(server.line("buffered").split()[1])
        for _ in range(100):
            client.send((b"\x89\xfd" + bytes(4) + b"p" * 125) * 100)
        client.send(b"\x81\x81" + bytes(4) + b"z")
        assert int(server.line("received").split()[1]) < before + 100_000


def test_stalled_client_does_not_affect_others(server):
    with stalled(server, b""), server.websocket("both") as client:
        server.line("buffered")
        for number in range(100):
            assert client.recv(timeout=30) == f"push {number}"


def test_close_of_the_client_is_answered(server):
    with server.websocket("echo") as client:
        client.close(4321)
        server.line("disconnect 4321")
        with pytest.raises(ConnectionClosed):
            client.recv()
