"""HTTP over plain sockets: valid requests are answered, everything else is rejected."""

import json

import pytest

from tests.server.transport.conftest import LOOPS
from tests.server.transport.process import Process, parse, problem

GET = b"GET /%s HTTP/1.1\r\nhost: x\r\n\r\n"
LAST = b"GET /%s HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
CHUNKED = b"POST /%s HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


def head_of_size(size, *, first=b"GET /hello HTTP/1.1\r\n", last=b"\r\n\r\n"):
    """Return a head of exactly this size."""
    start = first + b"connection: close\r\nx: "
    return start + b"a" * (size - len(start) - len(last)) + last


# ----- valid requests ----------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(server):
    with server.open() as client:
        client.send(b"".join(GET % (b"hello?%d" % number) for number in range(2_000)))
        for number in range(2_000):
            assert client.answer()[2] == b"hello %d" % number


def test_response_in_one_write_equals_the_asgi_response(server):
    with server.open() as client:
        for turn in range(3):
            client.send(GET % b"hello?7" + GET % b"whole?7" + GET % b"hello?8")
            parts, whole, after = (client.answer() for _ in range(3))
            assert (parts[0], parts[2]) == (whole[0], whole[2]) == (200, b"hello 7")
            assert parts[1].keys() == whole[1].keys(), turn
            assert after[2] == b"hello 8"
            assert server.line("whole") == "whole True False"


@pytest.mark.parametrize("head", [LAST % b"whole?7", b"HEAD" + (LAST % b"whole?7")[3:]])
def test_last_response_and_head_response_go_through_asgi(server, head):
    assert server.send(head).partition(b" ")[2].startswith(b"200 ")
    server.line("asgi")


def post(path, body, head=b""):
    """Return a request with a body."""
    return b"POST /%s HTTP/1.1\r\nhost: x\r\n%bcontent-length: %d\r\n\r\n%b" % (
        path, head, len(body), body,
    )  # fmt: skip


def test_whole_single_request_is_handled_at_once(server):
    with server.open() as client:
        for number in range(3):
            client.send(post(b"once", b"%d" % number))
            assert client.answer()[2] == b"%d" % number
            assert server.line("once") == "once True"


def test_partial_pipelined_and_last_requests_go_through_asgi(server):
    with server.open() as client:
        whole = post(b"once", b"abcd")
        client.send(whole[:-2])
        client.send(whole[-2:] + post(b"once", b"e") + GET % b"hello?3")
        client.send(post(b"once", b"last", b"connection: close\r\n"))
        answers = [client.answer()[2] for _ in range(4)]
        assert answers == [b"abcd", b"e", b"hello 3", b"last"]
        assert client.rest() == b""


def test_a_late_body_is_waited_for_on_the_routes_that_ask_for_it(server):
    with server.open() as client:
        whole = post(b"joined", b"abcd")
        for end in (4, 3, 1, 2 + len(whole) // 2):
            client.send(whole[:-end])
            assert server.get("/hello") == (200, b"hello ")  # the loop has seen the first part
            client.send(whole[-end:])
            assert client.answer()[2] == b"abcd"
            assert server.line("once") == "once True"
        client.send(whole[:-2])
        client.send(whole[-2:] + GET % b"hello?3" + post(b"once", b"e"))
        assert [client.answer()[2] for _ in range(3)] == [b"abcd", b"hello 3", b"e"]


def test_a_late_body_that_is_long_or_in_chunks_is_left_to_the_application(server):
    head = b"POST /joined HTTP/1.1\r\nhost: x\r\n"
    with server.open() as client:
        client.send(head + b"transfer-encoding: chunked\r\n\r\n")
        assert server.line("asgi")
        client.send(b"2\r\nab\r\n0\r\n\r\n")
        assert client.answer()[2] == b"ab"
    with server.open() as client:
        body = b"x" * 70_000
        client.send(head + b"content-length: 70000\r\n\r\n")
        assert server.line("asgi")
        client.send(body)
        assert client.answer()[2] == body
    with server.open() as client:
        client.send(head + b"content-length: 2\r\nexpect: 100-continue\r\n\r\n")
        assert server.line("asgi")
        assert client.answer()[0] == 100
        client.send(b"ab")
        assert client.answer()[2] == b"ab"


def test_a_client_that_leaves_within_a_late_body_is_forgotten(server):
    with server.open() as client:
        client.send(post(b"joined", b"abcd")[:-1])
    with server.open() as client:
        client.send(post(b"joined", b"abcd")[:-1])
        client.reset()
    with server.open() as client:
        client.send(post(b"joined", b"abcd")[:-1])
        client.half_close()
        assert client.rest() == b""
    assert server.get("/hello") == (200, b"hello ")


def test_request_handled_at_once_may_be_answered_later(server):
    with server.open() as client:
        client.send(post(b"later", b"first"))
        server.line("waiting")
        client.send(post(b"once", b"second") + GET % b"hello?3")
        assert server.get("/go") == (200, b"go")
        assert [client.answer()[2] for _ in range(3)] == [b"first", b"second", b"hello 3"]


def test_late_response_to_a_disconnected_client_is_not_sent(server):
    with server.open() as client:
        client.send(post(b"later", b"first"))
        server.line("waiting")
        client.reset()
    with server.open() as client:  # by now the server has seen the disconnect
        client.send(GET % b"hello")
        client.answer()
    assert server.get("/go") == (200, b"go")
    assert server.line("later") == "later False"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("path", [b"hello", b"whole", b"once", b"echo"])
def test_answered_request_is_freed_without_the_garbage_collector(loop, path):
    with Process(loop=loop) as process, process.open() as client:
        for turn in range(2):  # the first turn creates objects that stay
            process.get("/garbage")
            for number in range(50):
                client.send(post(path, b"%d" % number))
                client.answer()
            count = int(process.get("/garbage")[1])
            assert not turn or count < 50


def test_requests_behind_a_slow_one_wait(server):
    with server.open() as client:
        client.send(GET % b"wait?1" + b"POST /echo HTTP/1.1\r\ncontent-length: 4\r\n\r\nab")
        server.line("waiting")
        client.send(b"cd" + GET % b"hello?3" + b"GET / HTTP/1.1\r\nx: " + b"y" * 500)
        client.send(b"y" * 500 + b"\r\nconnection: close\r\n\r\n")
        assert server.get("/go") == (200, b"go")
        answers = [client.answer()[2] for _ in range(4)]
        assert answers == [b"waited 1", b"abcd", b"hello 3", b"hello "]
        assert client.rest() == b""


def test_chunked_body_is_read_whole(server):
    with server.open() as client:
        client.send(CHUNKED % b"echo" + b"3\r\nabc\r\n1000;x=y\r\n")
        client.send(b"d" * 4096 + b"\r\n0\r\nlate: 1\r\n\r\n" + LAST % b"hello")
        assert client.answer()[2] == b"abc" + b"d" * 4096
        assert client.answer()[0] == 200


def test_long_body_may_arrive_byte_by_byte(server):
    body = bytes(range(256)) * 4_000
    with server.open() as client:
        for byte in b"POST /echo HTTP/1.1\r\ncontent-length: 1024000\r\n\r\n" + body[:30]:
            client.send(bytes((byte,)))
        client.send(body[30:] + LAST % b"hello")
        assert client.answer()[2] == body
        assert client.answer()[0] == 200


def test_expect_100_continue_is_answered(server):
    with server.open() as client:
        head = b"POST /echo HTTP/1.1\r\ncontent-length: 2\r\nexpect: 100-continue\r\n"
        client.send(head + b"connection: close\r\n\r\n")
        assert client.answer()[0] == 100
        client.send(b"ab")
        assert client.answer()[2] == b"ab"


def test_head_response_has_no_body(server):
    with server.open() as client:
        client.send(b"HEAD /hello HTTP/1.1\r\n\r\n" + LAST % b"hello?2")
        assert client.file.readline() == b"HTTP/1.1 200 OK\r\n"
        response = client.rest()
        assert response.count(b"HTTP/1.1 200 OK") == 1
        assert response.endswith(b"hello 2")


def test_http_1_0_is_answered_and_closed(server):
    assert parse(server.send(b"GET /hello?x HTTP/1.0\r\n\r\n")) == (200, b"hello x")


def test_half_closed_client_gets_its_responses(server):
    with server.open() as client:
        client.send(GET % b"wait?1" + GET % b"hello?2")
        client.half_close()
        server.line("waiting")
        server.get("/go")
        assert [client.answer()[2] for _ in range(2)] == [b"waited 1", b"hello 2"]
        assert client.rest() == b""


def test_connection_continues_after_a_response_before_the_body(server):
    with server.open() as client:
        client.send(b"POST /early HTTP/1.1\r\ncontent-length: 60000\r\n\r\n")
        assert client.answer()[0] == 401
        client.send(b"x" * 60_000 + LAST % b"hello?2")
        assert client.answer()[2] == b"hello 2"


def test_application_is_notified_of_a_disconnect_with_queued_requests(server):
    with server.open() as client:
        client.send(GET % b"gone" + GET % b"hello")
        server.line("waiting")
        client.reset()
    server.line("disconnected")


# ----- rejections --------------------------------------------------------------------------------

GARBAGE = {
    "no method": b"GARBAGE\r\n\r\n",
    "nul": b"\0\0\0\0\0\0\r\n\r\n",
    "nul in a header": b"GET / HTTP/1.1\r\nx: a\0b\r\n\r\n",
    "tls": bytes.fromhex("16030100f8010000f40303") + b"\x80" * 64,
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nhost\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    "length and chunks": CHUNKED[:-2] % b"echo" + b"content-length: 3\r\n\r\n0\r\n\r\n",
    "the same length twice": (
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na"
    ),
    "lengths in a list": b"POST / HTTP/1.1\r\ncontent-length: 1, 1\r\n\r\na",
    "chunks, then a length": (
        b"POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "two encodings": CHUNKED[:-2] % b"echo" + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown encoding": b"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\nabc",
    "an encoding behind chunks": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n"
    ),
    "two hosts": b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    "the same host twice": b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
    "two origins": b"GET / HTTP/1.1\r\norigin: http://a\r\norigin: http://b\r\n\r\n",
    "two types": b"POST / HTTP/1.1\r\ncontent-type: a/b\r\ncontent-type: a/b\r\n\r\n",
    "two tokens": b"GET / HTTP/1.1\r\nauthorization: a\r\nauthorization: b\r\n\r\n",
    "two keys": b"GET / HTTP/1.1\r\nx-api-key: a\r\nx-api-key: b\r\n\r\n",
    "a handshake with two hosts": (
        b"GET /ws HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ),
    "a length below 0": b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
    "a length beyond 64 bits": b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
    "no URL": b"GET  HTTP/1.1\r\n\r\n",
    "a tunnel": b"CONNECT a:1 HTTP/1.1\r\n\r\n",
    "a URL beyond ASCII": b"GET /\xff HTTP/1.1\r\n\r\n",
    "bad chunk": CHUNKED % b"echo" + b"zz\r\n",
    "bad chunk after a good one": CHUNKED % b"echo" + b"1\r\na\r\nzz\r\n",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_malformed_request_is_rejected(server, data):
    assert problem(server.send(data + GET % b"hello"))[:2] == (400, "BAD_REQUEST")


def test_rejection_of_a_repeated_header_names_it(server):
    data = b"GET /hello HTTP/1.1\r\nhost: a\r\nx: 1\r\nx: 2\r\nHost: b\r\n\r\n"
    assert b"it has several host headers" in server.send(data)
    repeated = b"GET /hello HTTP/1.1\r\nhost: a\r\nx: 1\r\nx: 2\r\nconnection: close\r\n\r\n"
    assert server.send(repeated).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("start", [b"GET http://a", b"CONNECT a:1", b"OPTIONS http://a?b"])
def test_rejection_of_a_target_without_a_path_states_the_rule(server, start):
    answer = server.send(start + b" HTTP/1.1\r\nhost: a\r\n\r\n")
    assert b"its target must be a path, or a URL with one" in answer


def test_requests_before_malformed_input_are_answered_first(server):
    with server.open() as client:
        client.send(GET % b"wait?1" + GET % b"hello?2" + b"GARBAGE\r\n\r\n" + GET % b"hello?3")
        server.line("waiting")
        server.get("/go")
        assert [client.answer()[2] for _ in range(2)] == [b"waited 1", b"hello 2"]
        assert problem(client.rest())[:2] == (400, "BAD_REQUEST")


def test_queued_request_with_a_malformed_body_is_not_started(server):
    with server.open() as client:
        client.send(GET % b"wait?1" + CHUNKED % b"echo" + b"zz\r\n")
        server.line("waiting")
        server.get("/go")
        assert client.answer()[2] == b"waited 1"
        assert problem(client.rest())[:2] == (400, "BAD_REQUEST")


UPGRADE = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
CHUNKED_BODY = CHUNKED[:-2] % b"echo" + UPGRADE + b"\r\n3\r\nabc\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "data", [post(b"echo", b"abc", UPGRADE), CHUNKED_BODY], ids=["length", "chunks"]
)
@pytest.mark.parametrize("size", [1, 40, 1_000])
def test_body_of_a_request_with_an_ignored_upgrade_is_read(server, data, size):
    data = data * 2 + LAST % b"hello?1"
    with server.open() as client:
        for start in range(0, len(data), size):
            client.send(data[start : start + size])
        assert [client.answer()[2] for _ in range(3)] == [b"abc", b"abc", b"hello 1"]
        assert client.rest() == b""


def test_ignored_upgrade_keeps_the_version_of_the_request(server):
    old = b"GET /hello?1 HTTP/1.0\r\n" + UPGRADE + b"\r\n"
    assert parse(server.send(old)) == (200, b"hello 1")


def test_ignored_upgrades_of_pipelined_requests_are_answered_in_order(server):
    with server.open() as client:
        get = (GET[:-2] % b"hello") + UPGRADE + b"\r\n"
        client.send(get * 2_000 + LAST % b"hello?1")
        assert [client.answer()[2] for _ in range(2_000)] == [b"hello "] * 2_000
        assert client.answer()[2] == b"hello 1"


@pytest.mark.parametrize("size", [1_000, 2_047, 2_048])
def test_head_within_the_limit_is_accepted(server, size):
    assert parse(server.send(head_of_size(size)))[0] == 200


TOO_LARGE = {
    "one more": head_of_size(2_049),
    "one long header": head_of_size(300_000),
    "one that never ends": head_of_size(100_000, last=b""),
    "many headers": b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
    "a long URL": head_of_size(5_000, first=b"GET /hello?" + b"a" * 3_000 + b" HTTP/1.1\r\n"),
    "blank lines": b"\r\n" * 3_000,
}


@pytest.mark.parametrize("data", TOO_LARGE.values(), ids=TOO_LARGE)
def test_head_beyond_the_limit_is_rejected(server, data):
    status, code, _ = problem(server.send(data))
    assert (status, code) == (431, "HEADERS_TOO_LARGE")


def test_later_head_has_the_same_limit(server):
    with server.open() as client:
        client.send(GET % b"hello?1")
        assert client.answer()[2] == b"hello 1"
        client.send(head_of_size(2_048, last=b"")[:-1])
        client.send(b"\r\n")
        client.send(b"y: " + b"a" * 5_000)
        assert problem(client.rest())[:2] == (431, "HEADERS_TOO_LARGE")


@pytest.mark.parametrize("tail", [b"0\r\n" + b"a: b\r\n" * 30_000, b"1;" + b"x" * 100_000])
def test_oversized_chunk_framing_is_rejected(server, tail):
    assert problem(server.send(CHUNKED % b"echo" + tail))[:2] == (400, "BAD_REQUEST")


def test_long_body_after_an_early_response_closes_the_connection(server):
    with server.open() as client:
        client.send(b"POST /early HTTP/1.1\r\ncontent-length: 10000000000\r\n\r\n")
        assert client.answer()[0] == 401
        client.send(b"x" * 100_000)
        assert client.rest() == b""


def test_disconnect_within_a_request_does_not_affect_others(server):
    for data in (
        b"",
        b"GET",
        b"GET / HTTP/1.1\r\nx:",
        b"POST /echo HTTP/1.1\r\ncontent-length: 9\r\n\r\na",
    ):
        with server.open() as client:
            client.send(data)
    server.line("disconnected")
    assert server.get() == (200, b"hello ")


def test_rejections_are_counted(server):
    server.send(b"GARBAGE\r\n\r\n")
    before = json.loads(server.get("/rejected")[1])
    server.send(b"GARBAGE\r\n\r\n")
    after = json.loads(server.get("/rejected")[1])
    assert after == {**before, "BAD_REQUEST": before["BAD_REQUEST"] + 1}
