"""Plain request heads: read as the parser of HTTP reads them, or left to it."""

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clob_server.transport.plain_head import END, HEAD_MAX, read_head
from tests.server.transport.conftest import LOOPS
from tests.server.transport.process import Process

GET = b"GET /%s HTTP/1.1\r\nhost: x\r\n\r\n"
HEAD = b"POST /a HTTP/1.1\r\ncontent-length: 4\r\n\r\n"
BROWSER = (
    b"GET /api/markets/a%20b/orderbook?depth=5&x=%2F? HTTP/1.1\r\nHost: exchange.example:8000\r\n"
    b"Connection: keep-alive\r\nAccept: */*\r\nUser-Agent: Mozilla/5.0 (X11; Linux) a, b;q=0.5\r\n"
    b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n"
)


def post(path, body, more=b""):
    """Return a request with a body."""
    head = b"POST /%s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n%b\r\n"
    return head % (path, len(body), more) + body


def head_of(data):
    """Return the plain head of a whole request; None if it has none."""
    head = read_head(data[: data.find(END, 0, HEAD_MAX) + len(END)])
    return head if head is not None and len(data) == head.num_request else None


class Parsed:
    """A request as the parser of HTTP reads it."""

    def __init__(self, data):
        self.url, self.headers, self.body, self.ends = b"", [], b"", 0
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(data)
        assert self.ends == 1
        assert parser.should_keep_alive()
        assert not parser.should_upgrade()
        assert parser.get_http_version() == "1.1"
        self.method = parser.get_method().decode()
        url = httptools.parse_url(self.url)
        self.raw_path, self.query = url.path, url.query or b""

    def on_url(self, url):
        self.url += url

    def on_header(self, name, value):
        self.headers.append((name.lower(), value))

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.ends += 1


@pytest.fixture
def plain(server):
    """A request with a plain head, and a client that has sent it."""
    request = post(b"once", b"0123")
    with server.open() as client:
        client.send(request)
        assert client.answer()[2] == b"0123"
        yield request, client


# ----- heads -------------------------------------------------------------------------------------

TEXTS = st.binary(max_size=6)
TARGETS = st.one_of(
    st.sampled_from(
        [b"/", b"/a", b"/a?", b"/a?b=%20?c", b"/%2e/%0a", b"//a.b/c", b"/a#b", b"*", b"a"]
    ),
    TEXTS.map(lambda text: b"/" + text),
)
NAMES = st.one_of(
    st.sampled_from(
        [
            b"Host", b"content-length", b"Content-Length", b"transfer-encoding", b"connection",
            b"Connection", b"upgrade", b"Expect", b"Proxy-Connection", b"x-id", b"Keep-Alive",
        ]
    ),
    TEXTS,
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(
        [
            b"0", b"4", b"+4", b"04", b"4 ", b"4, 4", b"0x4", b"", b"keep-alive", b"Keep-Alive",
            b"close", b"keep-alive, Upgrade", b"chunked", b"websocket", b"100-continue",
            b"a\tb", b"a\r\n b",
        ]
    ),
    TEXTS,
)  # fmt: skip
LINES = st.tuples(NAMES, st.sampled_from([b": ", b":", b" : ", b":\t", b":  ", b""]), VALUES)


@st.composite
def requests(draw):
    """Heads with bodies of four bytes or none, a few of them broken."""
    method = draw(st.sampled_from([b"GET", b"POST", b"HEAD", b"get", b"CONNECT", b"PATCH"]))
    version = draw(st.sampled_from([b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/1.1 ", b"HTTP/2.0"]))
    end = draw(st.sampled_from([b"\r\n"] * 8 + [b"\n", b"\r"]))
    lines = [b"".join(line) for line in draw(st.lists(LINES, max_size=5))]
    head = end.join([b" ".join([method, draw(TARGETS), version]), *lines, b"", b""])
    return head + draw(st.sampled_from([b"", b"abcd"]))


@st.composite
def edited(draw):
    """Plain requests with up to three edits."""
    data = draw(st.sampled_from([BROWSER, HEAD + b"abcd", GET % b"a?b", HEAD + GET % b"a"]))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.integers(0, 2))
        data = data[:start] + draw(st.binary(max_size=2)) + data[end:]
    return data


@given(requests() | edited())
@example(BROWSER)
@example(HEAD + b"abcd")
@example(GET % b"")
def test_plain_head_is_read_as_the_parser_reads_it(data):
    head = head_of(data)
    if head is None:
        return
    parsed = Parsed(data)
    scope = head.scope
    assert scope["method"] == parsed.method
    assert (scope["raw_path"], scope["query_string"]) == (parsed.raw_path, parsed.query)
    assert scope["headers"] == parsed.headers
    assert data[head.num_bytes :] == parsed.body


def test_head_of_a_browser_is_plain():
    head = head_of(BROWSER)
    assert head.scope["path"] == "/api/markets/a b/orderbook"
    assert head.scope["query_string"] == b"depth=5&x=%2F?"
    assert (b"accept", b"*/*") in head.scope["headers"]
    assert head.num_bytes == len(BROWSER)


@pytest.mark.parametrize(
    "data",
    [HEAD, HEAD + b"abc", HEAD + b"abcde", HEAD[1:] + b"abcd", HEAD[:-1], b"\r\n" + HEAD, b""],
)
def test_partial_or_several_requests_are_left_to_the_parser(data):
    assert head_of(HEAD + b"abcd") is not None
    assert head_of(data) is None


@pytest.mark.parametrize(
    "lines",
    [
        b"transfer-encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"connection: upgrade\r\nupgrade: websocket\r\n",
        b"proxy-connection: keep-alive\r\n",
        b"expect: 100-continue\r\n",
        b"x: 1\r\nX: 2\r\n",
        b"x: 1\r\n 2\r\n",
        b"x : 1\r\n",
        b"x: 1\n",
        b"x: \xe9\r\n",
        b"content-length: 4, 4\r\n",
        b"content-length: +4\r\n",
        b"x: %b\r\n" % (HEAD_MAX * b"y"),
    ],
)
def test_heads_that_need_interpretation_are_left_to_the_parser(lines):
    plain = b"GET /a HTTP/1.1\r\n%b\r\n"
    assert head_of(plain % b"x: 1\r\n") is not None
    assert head_of(plain % lines) is None


# ----- requests ----------------------------------------------------------------------------------


def test_plain_and_parsed_requests_have_the_same_response(server, plain):
    request, client = plain
    answers = []
    for prefix in (b"", b"\r\n"):  # the second one is parsed
        client.send(prefix + request)
        answers.append(client.answer())
    for _, headers, _ in answers:
        headers.pop("date")
    assert answers[0] == answers[1]


def test_plain_head_in_parts_or_pipelined_is_parsed(server, plain):
    request, client = plain
    client.send(request[:-2])
    server.line("asgi")
    client.send(request[-2:] + request + request[:30])
    client.send(request[30:])
    assert [client.answer()[2] for _ in range(3)] == 3 * [b"0123"]
    client.send(request)
    assert client.answer()[2] == b"0123"
    assert server.line("once") == "once True"


def test_long_request_with_a_plain_head_is_handled_at_once(server):
    with server.open() as client:
        for number in range(20):
            body = b"%016d" % number * 2_000
            client.send(post(b"once", body))
            assert client.answer()[2] == body
            if server.line("") == "once True":
                return  # sometimes it arrives in several pieces
        pytest.fail("no request was handled at once")


def test_empty_lines_before_a_request_are_ignored(server):
    with server.open() as client:
        client.send(post(b"once", b"0123"))
        assert client.answer()[2] == b"0123"
        client.send(3_000 * b"\r\n")
        client.send(post(b"hello?1", 5_000 * b"x"))
        assert client.answer()[2] == b"hello 1"


def test_plain_head_behind_a_running_request_waits(server, plain):
    request, client = plain
    for body in (b"abcd", b"efgh"):
        client.send(post(b"later", body))
        server.line("waiting")
        client.send(request)
        client.send(GET % b"hello?3")
        assert server.get("/go") == (200, b"go")
        assert [client.answer()[2] for _ in range(3)] == [body, b"0123", b"hello 3"]


def test_plain_request_inside_a_body_is_body_data(server, plain):
    request, client = plain
    head = post(b"hello?1", request)[: -len(request)]
    client.send(head)
    assert client.answer()[2] == b"hello 1"  # sent before the body arrived
    client.send(request)
    client.send(GET % b"hello?2")
    assert client.answer()[2] == b"hello 2"


def test_plain_head_inside_a_head_is_part_of_it(server, plain):
    _, client = plain
    client.send(GET % b"once")
    assert client.answer()[2] == b""
    client.send(b"GET /hello?7 HTTP/1.1\r\nx: ")
    client.send(GET % b"once")
    assert client.answer()[2] == b"hello 7"
    client.send(GET % b"hello?8")
    assert client.answer()[2] == b"hello 8"


def test_disconnected_client_gets_no_response(server, plain):
    for _ in range(2):
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
