"""The JSON-RPC client with every kind of response of a node, and without one."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clob_server.chain.eth.rpc import (
    NodeError,
    NodeInvalidResponseError,
    NodeRejectedError,
    NodeUnreachableError,
    Rpc,
    content,
    integer,
    number,
    parsing,
    result,
)

SECRET = "key-in-the-path"
INVALID_RESPONSES = {
    "HTML": (200, b"<html></html>"),
    "truncated JSON": (200, b'{"jsonrpc": "2.0", "id": 0, "res'),
    "not UTF-8": (200, b'"\xff"'),
    "a number": (200, b"17"),
    "null": (200, b"null"),
    "an empty list": (200, b"[]"),
    "response to another request": (200, b'{"jsonrpc": "2.0", "id": 99, "result": 1}'),
    "neither result nor error": (200, b'{"jsonrpc": "2.0", "id": 0}'),
    "not found": (404, b"no such page"),
}


class HttpServer(ThreadingHTTPServer):
    """A server with a long backlog; the default resets the sixth pending connection."""

    request_queue_size = 128


class Server:
    """An HTTP server with responses chosen by the test."""

    def __init__(self):
        self.answer = lambda request: (200, json.dumps(valid_response(request)).encode())
        self.requests = []
        self.num_connections = 0
        self.hangs_up = False
        self._server = HttpServer(("127.0.0.1", 0), handler_of(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v3/{SECRET}?a=b"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def valid_response(request):
    """Return a valid response; a batch in reverse order."""
    if isinstance(request, list):
        return [valid_response(each) for each in reversed(request)]
    if request["method"] == "reject":
        error = {"code": -32000, "message": "no", "data": "0x12"}
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}
    content = [request["method"], request["params"]]
    return {"jsonrpc": "2.0", "id": request["id"], "result": content}


def handler_of(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self):
            super().setup()
            server.num_connections += 1

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append((self.path, self.headers, request))
            answer = server.answer(request)
            if answer is None:
                self.close_connection = True
                return
            status, body = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = server.hangs_up

        def log_message(self, *_):
            pass

    return Handler


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(params=[True, False], ids=["near", "far"])
def is_near(request):
    return request.param


def run(server, is_near, work, timeout_s=5.0):
    """Run a coroutine function with a client and return its result."""

    async def run_and_close():
        rpc = Rpc(server.url, timeout_s, is_near=is_near)
        try:
            return await work(rpc)
        finally:
            await rpc.close()

    return asyncio.run(run_and_close())


def test_request_returns_the_result(server, is_near):
    response = run(server, is_near, lambda rpc: rpc.ask("eth_call", {"to": "0x1"}, "latest"))
    assert response == ["eth_call", [{"to": "0x1"}, "latest"]]
    path, headers, request = server.requests[0]
    assert path == f"/v3/{SECRET}?a=b"
    assert headers["Content-Type"] == "application/json"
    assert request["jsonrpc"] == "2.0"


def test_json_rpc_error_is_raised_with_code_message_and_data(server, is_near):
    with pytest.raises(NodeRejectedError, match="no") as raised:
        run(server, is_near, lambda rpc: rpc.ask("reject"))
    assert (raised.value.code, raised.value.message, raised.value.data) == (-32000, "no", "0x12")


def test_batch_results_are_in_request_order(server, is_near):
    requests = [("a", (1,)), ("reject", ()), ("b", (2,))]
    first, rejected, last = run(server, is_near, lambda rpc: rpc.batch(requests))
    assert (first, last) == (["a", [1]], ["b", [2]])
    with pytest.raises(NodeRejectedError):
        result(rejected)


def test_error_for_a_whole_batch_applies_to_each_request(server, is_near):
    error = {"code": -32600, "message": "no batches"}
    answer = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    server.answer = lambda request: (200, answer)
    replies = run(server, is_near, lambda rpc: rpc.batch([("a", ()), ("b", ())]))
    assert [reply.code for reply in replies] == [-32600, -32600]


@pytest.mark.parametrize("name", INVALID_RESPONSES)
def test_invalid_response_raises_an_error(server, is_near, name):
    server.answer = lambda request: INVALID_RESPONSES[name]
    with pytest.raises(NodeInvalidResponseError) as raised:
        run(server, is_near, lambda rpc: rpc.ask("a"))
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_http_error_status_is_unreachable(server, is_near, status):
    server.answer = lambda request: (status, b"{}")
    with pytest.raises(NodeUnreachableError, match=str(status)) as raised:
        run(server, is_near, lambda rpc: rpc.ask("a"))
    assert SECRET not in str(raised.value)


def test_closed_connection_is_unreachable(server, is_near):
    server.answer = lambda request: None
    with pytest.raises(NodeUnreachableError):
        run(server, is_near, lambda rpc: rpc.ask("a"))
    # httpx does not report whether the connection was new, so the request is repeated once.
    assert len(server.requests) == (1 if is_near else 2)


def test_timeout_is_unreachable(server, is_near):
    done = threading.Event()
    server.answer = lambda request: done.wait(10) and None
    with pytest.raises(NodeUnreachableError, match="in time"):
        run(server, is_near, lambda rpc: rpc.ask("a"), timeout_s=0.1)
    done.set()


def test_closed_port_is_unreachable(is_near):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        async def ask():
            rpc = Rpc(f"http://127.0.0.1:{port}", is_near=is_near)
            with pytest.raises(NodeUnreachableError, match=r"is unreachable: [A-Z][a-z]+ [a-z ]+"):
                await rpc.ask("a")
            await rpc.close()

        asyncio.run(ask())


def test_connection_is_reused(server, is_near):
    async def twice(rpc):
        await rpc.ask("a")
        await rpc.ask("b")

    run(server, is_near, twice)
    assert server.num_connections == 1


def test_idle_connection_that_was_closed_is_replaced(server, is_near):
    server.hangs_up = True

    async def several(rpc):
        for turn in range(5):
            assert await rpc.ask("a") == ["a", []]
            await asyncio.sleep(0.05 * (turn % 2))  # with and without noticing the close

    run(server, is_near, several)


def test_concurrent_requests(server, is_near):
    async def many(rpc):
        return await asyncio.gather(*(rpc.ask("a", each) for each in range(20)))

    assert run(server, is_near, many) == [["a", [each]] for each in range(20)]


@pytest.mark.parametrize("url", ["", "localhost:8545", "ftp://localhost", "http://", "ws://a"])
def test_invalid_url_is_rejected(url):
    with pytest.raises(ValueError, match="http"):
        Rpc(url)


def test_hex_numbers_and_bytes_are_parsed():
    assert (number("0x0"), number("0x10")) == (0, 16)
    assert (content("0x"), content("0x00ff")) == (b"", b"\0\xff")


@pytest.mark.parametrize("read", [number, content])
@pytest.mark.parametrize("value", [None, 1, "", "12", "0xg", "0x1 ", "0x1_00", {}, ["0x1"], True])
def test_invalid_hex_is_rejected(read, value):
    with pytest.raises(NodeInvalidResponseError):
        read(value)


@pytest.mark.parametrize("work", [lambda: {}["a"], lambda: [][0], lambda: None.a, lambda: int("x")])
def test_incomplete_response_is_invalid(work):
    words = "node: (a is missing|a member has another type)$"
    with pytest.raises(NodeInvalidResponseError, match=words), parsing():
        work()


# ----- misbehaving nodes -----------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
REPLY = b'{"jsonrpc": "2.0", "id": 0, "result": %b}'
CHUNK = b" " * 65_536


def endless(head, piece):
    """Return a script that sends a piece until the client closes the connection."""

    def send(connection):
        connection.sendall(head)
        while True:
            connection.sendall(piece)

    return send


def whole(body, head=HEAD, length=None):
    """Return a script that sends one response."""
    stated = len(body) if length is None else length
    return lambda connection: connection.sendall(
        head + b"content-length: %d\r\n\r\n%b" % (stated, body)
    )


def drip(connection):
    """Send a response byte by byte, each well before any timeout of a read."""
    connection.sendall(HEAD + b"content-length: 1000000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        if connection.recv_after(0.02):
            return


CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
MISBEHAVIOUR = {
    "endless chunks": (endless(CHUNKED, b"10000\r\n%b\r\n" % CHUNK), "more than 16777216 bytes"),
    "endless small chunks": (endless(CHUNKED, b"1\r\n \r\n" * 10_000), ""),
    "endless body": (endless(HEAD + b"content-length: 9999999999999\r\n\r\n", CHUNK), "more than"),
    "endless header": (endless(HEAD + b"x: ", CHUNK), ""),
    "endless headers": (endless(HEAD, b"x: y\r\n" * 10_000), ""),
    "drip": (drip, "did not respond in time"),
    "deep array": (whole(REPLY % (b"[" * 200_000 + b"]" * 200_000)), "invalid JSON"),
    "deep object": (whole(b'{"a":' * 200_000), "invalid JSON"),
    "large integer": (whole(REPLY % (b"1" * 1_000_000)), "invalid JSON"),
    "large negative id": (whole(b'{"id": -%b, "result": 1}' % (b"9" * 5_000)), "invalid JSON"),
    "id of another type": (whole(b'{"id": [], "result": 1}'), "no response to a request"),
    "id as text": (whole(b'{"id": "0", "result": 1}'), "no response to a request"),
    "id true": (whole(b'[{"id": false, "result": 1}]'), "no response to a request"),
    "id of another request": (whole(b'[{"id": 7, "result": 1}]'), "no response to a request"),
    "length too large": (whole(REPLY % b"1", length=500), ""),
    "length too small": (whole(REPLY % b"1", length=9), ""),
    "length not a number": (whole(b"", HEAD + b"content-length: x\r\n"), ""),
    "closed within the body": (whole(b"{", length=2), ""),
    "closed within the head": (lambda connection: connection.sendall(HEAD[:20]), ""),
    "no HTTP": (lambda connection: connection.sendall(b"\x16\x03\x01" * 50), ""),
    "HTML": (whole(b"<html>login</html>", b"HTTP/1.1 200 OK\r\n"), "invalid JSON"),
    "not UTF-8": (whole(REPLY % b'"\xff\xfe"'), "invalid JSON"),
    "redirect": (
        whole(b"moved", b"HTTP/1.1 301 Moved\r\nlocation: http://127.0.0.1:9/\r\n"),
        "HTTP status 301",
    ),
    "redirect to itself": (
        whole(b"", b"HTTP/1.1 307 Moved\r\nlocation: /\r\n"),
        "HTTP status 307",
    ),
    "compressed": (
        whole(b"\x1f\x8b\x08" * 9, HEAD + b"content-encoding: gzip\r\n"),
        "invalid JSON",
    ),
    "error of other types": (
        whole(b'{"id": 0, "error": {"code": [], "message": {"a": [1]}}}'),
        r" \(0\)",
    ),
    "error with a long message": (
        whole(b'{"id": 0, "error": {"code": 1, "message": "%b"}}' % (b"x" * 1_000_000)),
        r"^x{200} \(1\)$",
    ),
}


class Peer:
    """A connection of a misbehaving node."""

    def __init__(self, connection):
        self._connection = connection

    def sendall(self, data):
        self._connection.sendall(data)

    def recv_after(self, wait_s):
        """Wait; return whether the client has closed the connection meanwhile."""
        self._connection.settimeout(wait_s)
        try:
            return not self._connection.recv(1)
        except TimeoutError:
            return False
        finally:
            self._connection.settimeout(None)


@contextlib.contextmanager
def misbehaving(script):
    """Run a node that reads a request, runs a script, and closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    connections = []

    def serve(connection):
        with connection, contextlib.suppress(OSError):
            data = b""
            while not data.endswith(b"}"):  # an unread rest would reset the connection
                data += connection.recv(65_536)
            script(Peer(connection))

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connections.append(threading.Thread(target=serve, args=(connection,)))
                connections[-1].start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for each in connections:
            each.join()


@pytest.mark.parametrize("name", MISBEHAVIOUR)
def test_misbehaving_node_raises_a_node_error(is_near, name):
    script, expected = MISBEHAVIOUR[name]

    async def ask(url):
        rpc = Rpc(url, 60.0 if expected and name != "drip" else 1.0, is_near=is_near)
        try:
            with pytest.raises(NodeError, match=expected or None):
                await rpc.ask("eth_blockNumber")
        finally:
            await rpc.close()

    with misbehaving(script) as url:
        asyncio.run(ask(url))


MEMORY = """
import asyncio, resource, sys
from clob_server.chain.eth.rpc import NodeError, Rpc

async def main():
    rpc = Rpc(sys.argv[1], 60.0, is_near=sys.argv[2] == "near")
    for _ in range(3):
        try:
            await rpc.ask("eth_blockNumber")
        except NodeError as error:
            print(error)
    await rpc.close()

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
asyncio.run(main())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_endless_response_takes_bounded_memory(is_near):
    with misbehaving(MISBEHAVIOUR["endless chunks"][0]) as url:
        words = [sys.executable, "-c", MEMORY, url, "near" if is_near else "far"]
        out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    *errors, grown_kib = out.splitlines()
    assert [error.rpartition(" with ")[2] for error in errors] == ["more than 16777216 bytes"] * 3
    assert int(grown_kib) < 128 * 1024


@pytest.mark.parametrize("value", ["0x1" + "0" * 64, "0x" + "f" * 1_000_000])
def test_number_beyond_256_bits_is_invalid(value):
    with pytest.raises(NodeInvalidResponseError, match="got '0x"):
        number(value)


@pytest.mark.parametrize("value", ["0x8000000000000000", "0x" + "f" * 64, [], {}, 7, None, True])
def test_integer_beyond_63_bits_is_invalid(value):
    assert integer("0x7fffffffffffffff") == 2**63 - 1
    with pytest.raises(NodeInvalidResponseError):
        integer(value)


def test_malformed_value_of_any_depth_is_invalid():
    deep = None
    for _ in range(900):
        deep = [deep]
    for read in (number, content, integer):
        with pytest.raises(NodeInvalidResponseError, match="got a JSON array"):
            read(deep)
    with pytest.raises(NodeInvalidResponseError, match="malformed"), parsing():
        str(OverflowError(1 / 0))
