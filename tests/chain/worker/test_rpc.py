"""The client of JSON-RPC: what it makes of every way in which a node can answer, or not."""

import asyncio
import contextlib
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clob_server.chain.eth.rpc import (
    NodeNonsenseError,
    NodeRefusedError,
    NodeUnreachableError,
    Rpc,
    content,
    number,
    result,
    understood,
)

SECRET = "key-in-the-path"
NONSENSE = {
    "HTML": (200, b"<html></html>"),
    "half an answer": (200, b'{"jsonrpc": "2.0", "id": 0, "res'),
    "not UTF-8": (200, b'"\xff"'),
    "a number": (200, b"17"),
    "null": (200, b"null"),
    "an empty list": (200, b"[]"),
    "an answer to something else": (200, b'{"jsonrpc": "2.0", "id": 99, "result": 1}'),
    "neither result nor error": (200, b'{"jsonrpc": "2.0", "id": 0}'),
    "not found": (404, b"no such page"),
}


class Patient(ThreadingHTTPServer):
    """A server that lets many connect at once; the usual one resets the sixth."""

    request_queue_size = 128


class Server:
    """Answers over HTTP what a test wants."""

    def __init__(self):
        self.answer = lambda asked: (200, json.dumps(right(asked)).encode())
        self.asked = []
        self.num_connections = 0
        self.hangs_up = False
        self._server = Patient(("127.0.0.1", 0), handler_of(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v3/{SECRET}?a=b"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def right(asked):
    """Answer as a node does; a batch in the wrong order."""
    if isinstance(asked, list):
        return [right(each) for each in reversed(asked)]
    if asked["method"] == "refuse":
        error = {"code": -32000, "message": "no", "data": "0x12"}
        return {"jsonrpc": "2.0", "id": asked["id"], "error": error}
    return {"jsonrpc": "2.0", "id": asked["id"], "result": [asked["method"], asked["params"]]}


def handler_of(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self):
            super().setup()
            server.num_connections += 1

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.asked.append((self.path, self.headers, asked))
            answer = server.answer(asked)
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


def asking(server, is_near, work, timeout_s=5.0):
    async def ask():
        rpc = Rpc(server.url, timeout_s, is_near=is_near)
        try:
            return await work(rpc)
        finally:
            await rpc.close()

    return asyncio.run(ask())


def test_a_result_is_given(server, is_near):
    found = asking(server, is_near, lambda rpc: rpc.ask("eth_call", {"to": "0x1"}, "latest"))
    assert found == ["eth_call", [{"to": "0x1"}, "latest"]]
    path, headers, asked = server.asked[0]
    assert path == f"/v3/{SECRET}?a=b"
    assert headers["Content-Type"] == "application/json"
    assert asked["jsonrpc"] == "2.0"


def test_a_refusal_is_raised_with_what_the_node_says(server, is_near):
    with pytest.raises(NodeRefusedError, match="no") as raised:
        asking(server, is_near, lambda rpc: rpc.ask("refuse"))
    assert (raised.value.code, raised.value.message, raised.value.data) == (-32000, "no", "0x12")


def test_a_batch_is_given_in_the_order_it_was_asked_whatever_the_node_does(server, is_near):
    questions = [("a", (1,)), ("refuse", ()), ("b", (2,))]
    first, refused, last = asking(server, is_near, lambda rpc: rpc.batch(questions))
    assert (first, last) == (["a", [1]], ["b", [2]])
    with pytest.raises(NodeRefusedError):
        result(refused)


def test_a_batch_that_is_refused_as_a_whole_is_refused_in_each_part(server, is_near):
    error = {"code": -32600, "message": "no batches"}
    answer = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    server.answer = lambda asked: (200, answer)
    replies = asking(server, is_near, lambda rpc: rpc.batch([("a", ()), ("b", ())]))
    assert [reply.code for reply in replies] == [-32600, -32600]


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_called_so(server, is_near, name):
    server.answer = lambda asked: NONSENSE[name]
    with pytest.raises(NodeNonsenseError) as raised:
        asking(server, is_near, lambda rpc: rpc.ask("a"))
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_node_that_says_it_cannot_is_unreachable(server, is_near, status):
    server.answer = lambda asked: (status, b"{}")
    with pytest.raises(NodeUnreachableError, match=str(status)) as raised:
        asking(server, is_near, lambda rpc: rpc.ask("a"))
    assert SECRET not in str(raised.value)


def test_a_node_that_hangs_up_is_unreachable(server, is_near):
    server.answer = lambda asked: None
    with pytest.raises(NodeUnreachableError):
        asking(server, is_near, lambda rpc: rpc.ask("a"))
    # httpx does not say whether the connection was a new one, so it is asked once more.
    assert len(server.asked) == (1 if is_near else 2)


def test_a_node_that_does_not_answer_in_time_is_unreachable(server, is_near):
    done = threading.Event()
    server.answer = lambda asked: done.wait(10) and None
    with pytest.raises(NodeUnreachableError, match="in time"):
        asking(server, is_near, lambda rpc: rpc.ask("a"), timeout_s=0.1)
    done.set()


def test_a_node_that_is_not_there_is_unreachable(is_near):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        async def ask():
            rpc = Rpc(f"http://127.0.0.1:{port}", is_near=is_near)
            with contextlib.suppress(NodeUnreachableError):
                await rpc.ask("a")
                raise AssertionError("it answered")
            await rpc.close()

        asyncio.run(ask())


def test_a_connection_is_used_again(server, is_near):
    async def twice(rpc):
        await rpc.ask("a")
        await rpc.ask("b")

    asking(server, is_near, twice)
    assert server.num_connections == 1


def test_a_connection_that_was_closed_meanwhile_is_made_anew(server, is_near):
    server.hangs_up = True

    async def several(rpc):
        for turn in range(5):
            assert await rpc.ask("a") == ["a", []]
            await asyncio.sleep(0.05 * (turn % 2))  # it is heard of, or not yet

    asking(server, is_near, several)


def test_many_ask_at_once(server, is_near):
    async def many(rpc):
        return await asyncio.gather(*(rpc.ask("a", each) for each in range(20)))

    assert asking(server, is_near, many) == [["a", [each]] for each in range(20)]


@pytest.mark.parametrize("url", ["", "localhost:8545", "ftp://localhost", "http://", "ws://a"])
def test_what_is_no_address_of_http_is_refused(url):
    with pytest.raises(ValueError, match="http"):
        Rpc(url)


def test_numbers_and_bytes_are_read():
    assert (number("0x0"), number("0x10")) == (0, 16)
    assert (content("0x"), content("0x00ff")) == (b"", b"\0\xff")


@pytest.mark.parametrize("read", [number, content])
@pytest.mark.parametrize("value", [None, 1, "", "12", "0xg", "0x1 ", "0x1_00", {}, ["0x1"], True])
def test_what_is_neither_is_nonsense(read, value):
    with pytest.raises(NodeNonsenseError):
        read(value)


@pytest.mark.parametrize("work", [lambda: {}["a"], lambda: [][0], lambda: None.a, lambda: int("x")])
def test_what_lacks_something_is_nonsense(work):
    with pytest.raises(NodeNonsenseError), understood():
        work()
