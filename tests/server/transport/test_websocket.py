"""WebSockets: what is pushed, what clients send meanwhile, and what becomes of those who stall."""

import re
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Opcode

from clob_server.transport import PUSH, text_frame
from tests.server.transport.process import problem, until

SIZES = [0, 1, 125, 126, 65_535, 65_536, 200_000]
MASKED_EMPTY = b"\x80" + bytes(4)


def ask_for(path, *headers):
    """The request for a WebSocket."""
    usual = (
        b"host: x",
        b"connection: Upgrade",
        b"upgrade: websocket",
        b"sec-websocket-version: 13",
        b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
    )
    return b"\r\n".join([b"GET /%s HTTP/1.1" % path, *(headers or usual), b"", b""])


def upgraded(client, path):
    client.send(ask_for(path))
    assert client.answer()[0] == 101


def test_the_extension_has_the_name_that_applications_know():
    assert PUSH == "clob.push"


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_is_a_whole_text_that_is_not_masked(size):
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


def test_nothing_is_pushed_before_the_handshake_or_after_the_close(server):
    with server.open() as client:
        client.send(ask_for(b"late"))
        assert server.line("pushed") == "pushed False"
        server.get("/go")
        assert client.answer()[0] == 101
        client.send(b"\x88" + MASKED_EMPTY)
        assert client.rest() == b"\x88\0"
    assert server.line("pushed") == "pushed False"


ENDS = {"closes": b"\x88" + MASKED_EMPTY, "errs": b"\xff" + MASKED_EMPTY, "goes": b""}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_shortest_way_leads_nowhere_once_the_client_has_gone(server, end):
    with server.open() as client:
        upgraded(client, b"shortest")
        assert client.file.read(6) == text_frame(b"here")
        if end:
            client.send(end)
            told = re.sub(rb"\x89\x04.{4}", b"", client.rest(), flags=re.DOTALL)  # the pings
            assert told[:1] == b"\x88"
            assert len(told) == 2 + told[1]  # the close, and nothing behind it
        else:
            client.reset()
        server.line("told")


def test_what_a_client_sends_amid_pushes_is_answered_and_no_push_is_missing(server):
    with server.websocket("both") as client:
        number, echoed, waiting = 0, 0, []
        while echoed < 30 or number < 200:
            if len(waiting) < 3 and echoed + len(waiting) < 30:
                waiting.append("part " * 5)
                client.send(["part "] * 5)
                pong = client.ping()
            told = client.recv(timeout=30)
            if told.startswith("part"):
                assert told == waiting.pop(0)
                echoed += 1
            else:
                assert told == f"push {number}"
                number += 1
        assert pong.wait(30)


def test_a_connection_lives_on_over_the_pings_of_the_server(server):
    with server.websocket("echo") as client:
        pings = 0

        def counted(frame, *, seen=client.protocol.recv_frame):
            nonlocal pings
            pings += frame.opcode is Opcode.PING
            seen(frame)

        client.protocol.recv_frame = counted
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
def test_what_comes_in_a_flood_is_taken_in_pieces_and_in_order(server, kind):
    frames = FLOODS[kind]
    with server.open() as client:
        upgraded(client, b"echo")
        client.send(frames * 5_000 + b"\x81\x81" + bytes(4) + b"z")
        told = b""
        while b"\x81\x01z" not in told:  # a ping of the server may come behind it
            part = client.file.read1()
            assert part, "the server has closed"
            told += part
        told = re.sub(rb"(?s)\x89\x04....", b"", told)  # the pings of the server
        assert (told.count(b"\x81\0"), told.count(b"\x8a\0")) == (
            5_000 * (kind != "pings"),
            5_000 * (kind != "messages"),
        )


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x81\xfe" + (20_000).to_bytes(2, "big") + bytes(4) + b"x" * 20_000, 1009),
        (b"\x01" + MASKED_EMPTY + (b"\0" + MASKED_EMPTY) * 5_000, 1009),
        (b"\x81\x81" + bytes(4) + b"\xff", 1007),
        (b"\xff" * 20, 1002),
        (b"\x81\0", 1002),
    ],
    ids=["too large", "too many parts", "no text", "garbage", "not masked"],
)
def test_what_is_no_message_closes(server, sent, code):
    with server.open() as client:
        upgraded(client, b"echo")
        client.send(sent)
        told = client.rest()
        assert (told[0], told[2:4]) == (0x88, code.to_bytes(2, "big"))
    assert server.line("disconnect")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (ask_for(b"echo", b"connection: upgrade", b"upgrade: websocket"), 400),
        (ask_for(b"echo", *ask_for(b"").replace(b": 13", b": 12").split(b"\r\n")[1:-2]), 400),
        (ask_for(b"\xff"), 400),
        (ask_for(b"echo", b"connection: upgrade", b"upgrade: websocket", *[b"a: b"] * 200), 431),
        (
            ask_for(b"echo", b"connection: upgrade", b"upgrade: websocket", b"content-length: 1"),
            400,
        ),
    ],
    ids=["no key", "another version", "not ASCII", "many headers", "a body"],
)
def test_a_handshake_that_is_none_is_refused_as_all_is(server, request_, status):
    assert problem(server.ask(request_))[0] == status


def test_the_application_may_refuse(server):
    with pytest.raises(InvalidStatus, match="403"), server.websocket("refuse"):
        pass


def test_a_websocket_asked_for_behind_a_request_is_not_heard(server):
    with server.open() as client:
        client.send(b"GET /wait?1 HTTP/1.1\r\n\r\n" + ask_for(b"echo"))
        server.line("waiting")
        server.get("/go")
        assert client.answer()[2] == b"waited 1"
        assert client.rest() == b""


# ----- who does not read -------------------------------------------------------------------------


def stalled(server, query):
    """A client that asks for a flood and reads nothing of it."""
    client = server.open(receive_bytes=4_096)
    client.send(ask_for(b"flood?" + query))
    return client


def test_what_waits_is_known_and_let_go_of(server):
    with stalled(server, b"abort") as client:
        num_buffered, num_hidden = map(int, server.line("buffered").split()[1:])
        assert num_buffered >= 1_000_000
        assert num_hidden < 500_000  # in the kernel
        assert server.line("disconnect") == "disconnect 1005 False"
        assert len(client.rest()) < 1_000_000  # what the kernel had


def test_the_feed_hears_when_little_waits(server):
    with stalled(server, b"") as client:
        sizes = map(int, server.line("buffered").split()[1:])
        size = -sum(sizes)
        while size < 0:
            size += len(client.file.read1(65_536))
        assert int(server.line("drained").split()[1]) <= 16_384


def test_who_takes_nothing_is_broken_off_even_while_he_is_closed(hasty):
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


def test_a_neighbour_of_a_stalled_client_misses_nothing(server):
    with stalled(server, b""), server.websocket("both") as client:
        server.line("buffered")
        for number in range(100):
            assert client.recv(timeout=30) == f"push {number}"


def test_a_close_of_the_client_is_answered(server):
    with server.websocket("echo") as client:
        client.close(4321)
        server.line("disconnect 4321")
        with pytest.raises(ConnectionClosed):
            client.recv()
