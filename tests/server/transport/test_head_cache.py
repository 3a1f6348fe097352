"""The cache of request heads: hits, and input that must not hit."""

import pytest

from clob_server.transport.head_cache import HEAD_MAX, HEADS_MAX, HeadCache
from tests.server.transport.conftest import LOOPS
from tests.server.transport.process import Process

GET = b"GET /%s HTTP/1.1\r\nhost: x\r\n\r\n"
SCOPE = {"method": "POST", "path": "/a", "headers": [(b"host", b"x")], "client": ("1.2.3.4", 5)}
HEAD = b"POST /a HTTP/1.1\r\ncontent-length: 4\r\n\r\n"


def post(path, body, more=b""):
    """Return a request with a body."""
    head = b"POST /%s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n%b\r\n"
    return head % (path, len(body), more) + body


@pytest.fixture
def known(server):
    """A request with a cached head, and a client to repeat it."""
    request = post(b"once", b"0123")
    with server.open() as client:
        client.send(request)
        assert client.answer()[2] == b"0123"
        yield request, client


# ----- storing -----------------------------------------------------------------------------------


def test_cached_head_is_found_with_any_body_of_its_size():
    heads = HeadCache()
    assert heads.find(HEAD + b"abcd") is None
    heads.store(HEAD + b"abcd", 4, SCOPE)
    head = heads.find(HEAD + b"efgh")
    assert (head.num_head, head.num_bytes) == (len(HEAD), len(HEAD) + 4)
    assert head.scope == {"method": "POST", "path": "/a", "headers": [(b"host", b"x")]}


def test_head_requests_are_not_cached():
    heads = HeadCache()
    heads.store(HEAD.replace(b"POST", b"HEAD"), 0, SCOPE | {"method": "HEAD"})
    assert not heads.heads


@pytest.mark.parametrize("data", [HEAD, HEAD + b"abc", HEAD + b"abcde", HEAD[1:] + b"abcd", b""])
def test_partial_or_different_requests_are_not_found(data):
    heads = HeadCache()
    heads.store(HEAD + b"abcd", 4, SCOPE)
    assert heads.find(data) is None


@pytest.mark.parametrize(
    ("data", "num_body"),
    [
        (b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n", 4),
        (b"POST /a HTTP/1.1\ncontent-length: 4\n\nabcd", 4),
        (b"GET /a HTTP/1.1\r\nx: " + HEAD_MAX * b"y" + b"\r\n\r\n", 0),
    ],
)
def test_long_heads_and_chunked_bodies_are_not_cached(data, num_body):
    heads = HeadCache()
    heads.store(data, num_body, SCOPE)
    assert not heads.heads


def test_number_of_cached_heads_is_bounded():
    heads = HeadCache()
    for number in range(3 * HEADS_MAX):
        heads.store(GET % (b"%d" % number), 0, SCOPE)
        assert 0 < len(heads.heads) <= HEADS_MAX
        assert heads.find(GET % (b"%d" % number)) is not None


# ----- requests ----------------------------------------------------------------------------------


def test_cached_heads_are_shared_by_connections(server):
    before = int(server.get("/heads")[1])
    for number in range(3):
        with server.open() as client:
            for turn in range(3):
                body = b"%d %d" % (number, turn)
                client.send(post(b"once", body, b"x-of: this test\r\n"))
                assert client.answer()[2] == body
                assert server.line("once") == "once True"
    assert int(server.get("/heads")[1]) == before + 1


def test_cached_and_parsed_requests_have_the_same_response(server, known):
    request, client = known
    answers = []
    for prefix in (b"", b"\r\n"):  # the second one is parsed
        client.send(prefix + request)
        answers.append(client.answer())
    for _, headers, _ in answers:
        headers.pop("date")
    assert answers[0] == answers[1]


def test_cached_head_in_parts_or_pipelined_is_parsed(server, known):
    request, client = known
    client.send(request[:-2])
    server.line("asgi")
    client.send(request[-2:] + request + request[:30])
    client.send(request[30:])
    assert [client.answer()[2] for _ in range(3)] == 3 * [b"0123"]
    client.send(request)
    assert client.answer()[2] == b"0123"
    assert server.line("once") == "once True"


def test_long_request_with_a_cached_head_is_handled_at_once(server):
    with server.open() as client:
        for number in range(20):
            body = b"%016d" % number * 2_000
            client.send(post(b"once", body))
            assert client.answer()[2] == body
            if number and server.line("") == "once True":
                return  # sometimes it arrives in several pieces
            if not number:
                server.line("asgi")
        pytest.fail("the cached head was never used")


def test_empty_lines_before_a_request_are_ignored(server):
    with server.open() as client:
        client.send(post(b"once", b"0123"))
        assert client.answer()[2] == b"0123"
        client.send(3_000 * b"\r\n")
        client.send(post(b"hello?1", 5_000 * b"x"))
        assert client.answer()[2] == b"hello 1"


def test_cached_head_behind_a_running_request_waits(server, known):
    request, client = known
    for body in (b"abcd", b"efgh"):  # the second head is cached
        client.send(post(b"later", body))
        server.line("waiting")
        client.send(request)
        client.send(GET % b"hello?3")
        assert server.get("/go") == (200, b"go")
        assert [client.answer()[2] for _ in range(3)] == [body, b"0123", b"hello 3"]


def test_cached_request_inside_a_body_is_body_data(server, known):
    request, client = known
    head = post(b"hello?1", request)[: -len(request)]
    client.send(head)
    assert client.answer()[2] == b"hello 1"  # sent before the body arrived
    client.send(request)
    client.send(GET % b"hello?2")
    assert client.answer()[2] == b"hello 2"


def test_cached_head_inside_a_head_is_part_of_it(server, known):
    _, client = known
    client.send(GET % b"once")
    assert client.answer()[2] == b""
    client.send(b"GET /hello?7 HTTP/1.1\r\nx: ")
    client.send(GET % b"once")
    assert client.answer()[2] == b"hello 7"
    client.send(GET % b"hello?8")
    assert client.answer()[2] == b"hello 8"


def test_disconnected_client_gets_no_response(server, known):
    for _ in range(2):  # the second time the head is cached
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
def test_last_response_at_shutdown_has_connection_close(loop):
    with Process(loop=loop) as process, process.open() as idle, process.open() as client:
        for body in (b"abcd", b"efgh"):
            client.send(post(b"once", body))
            assert client.answer()[2] == body
        client.send(post(b"later", b"abcd"))
        process.line("waiting")
        process.open_gate()
        assert client.answer()[2] == b"abcd"
        client.send(post(b"later", b"efgh"))
        process.line("waiting")
        process.signal()
        assert idle.rest() == b""  # the server has begun to close connections
        process.open_gate()
        status, headers, body = client.answer()
        assert (status, headers["connection"], body) == (200, "close", b"efgh")
        assert client.rest() == b""
