"""Answers that this server does not send: of proxies, other servers, and other versions of it."""

import asyncio
import contextlib
import gzip
import json
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from websockets.asyncio.server import serve

from clob.client import (
    AsyncClient,
    BlockingFeed,
    Client,
    ConnectionFailedError,
    Feed,
    FeedState,
    InvalidCallError,
    RequestRejectedError,
    ResponseError,
    UnauthorisedError,
    UnavailableError,
    UnexpectedReplyError,
)
from clob.client.cli import main
from clob.wire.messages import OrderAddedMessage

PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
TIME = {"nowMs": 1_767_225_600_000, "nowS": 1_767_225_600}


class Answers:
    """A server that sends the same answer to every request."""

    def __init__(self):
        self.status, self.headers, self.content = 200, {}, b""
        self.num_requests = 0
        self.paths = []
        self.ends = threading.Event()
        own = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                own.num_requests += 1
                own.paths.append(self.path)
                self.rfile.read(int(self.headers.get("content-length", 0)))
                if own.status is None:  # no answer at all
                    own.ends.wait()
                    return
                self.send_response(own.status)
                for name, value in own.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(own.content)))
                self.end_headers()
                self.wfile.write(own.content)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815

            def log_message(self, *_):
                """Write nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def send(self, status, content=b"", **headers):
        """Set the answer."""
        self.status, self.headers = status, {n.replace("_", "-"): v for n, v in headers.items()}
        self.content = content if isinstance(content, bytes) else json.dumps(content).encode()


@pytest.fixture
def answers():
    made = Answers()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.ends.set()
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def client(answers):
    with Client(answers.url, maker=f"0x{1:040x}", timeout_s=0.5, deadline_s=0.5) as made:
        yield made


# ----- proxies -----------------------------------------------------------------------------------


def test_page_of_a_proxy(answers, client):
    answers.send(502, PAGE, content_type="text/html")
    with pytest.raises(UnavailableError, match="has status 502 and is not of") as caught:
        client.server_time()
    assert caught.value.code == "HTTP_502"
    assert "a proxy on the way" in str(caught.value)
    assert answers.num_requests > 1  # it is temporary
    answers.send(403, PAGE)
    with pytest.raises(UnauthorisedError, match="HTTP_403"):
        client.server_time()
    answers.send(413, PAGE)
    with pytest.raises(RequestRejectedError, match="HTTP_413"):
        client.create_order({"signature": "0x"})


def test_error_in_another_encoding(answers, client):
    answers.send(403, '{"code": "verboten", "detail": "Zugriff für Gäste"}'.encode("latin-1"))
    with pytest.raises(UnauthorisedError, match="HTTP_403"):
        client.server_time()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_names_the_other_address(answers, client, status):
    answers.send(status, location="https://exchange.example/api/time")
    with pytest.raises(ResponseError, match="redirects to https://exchange"):
        client.server_time()
    with pytest.raises(ResponseError, match="redirects are not followed"):
        client.create_order({"signature": "0x"})
    assert answers.num_requests == 2


def test_page_instead_of_json(answers, client, capsys):
    answers.send(200, PAGE)
    with pytest.raises(UnexpectedReplyError, match="begins with <html>") as caught:
        client.server_time()
    assert "is the address that of the server?" in str(caught.value)
    assert main(["markets", "--url", answers.url]) == 1
    assert capsys.readouterr().err.startswith("clob-client: UNEXPECTED_REPLY: ")


def test_compressed_answer(answers, client):
    answers.send(200, gzip.compress(json.dumps(TIME).encode()), content_encoding="gzip")
    assert client.server_time().now_s == TIME["nowS"]
    answers.send(200, b"not gzip", content_encoding="gzip")
    with pytest.raises(ConnectionFailedError, match="ended before the answer"):
        client.server_time()


def test_path_of_a_proxy_stays_before_the_route(answers):
    answers.send(200, TIME)
    with Client(f"{answers.url}/exchange/v1/") as client:
        client.server_time()
    assert answers.paths == ["/exchange/v1/api/time"]


def test_server_without_an_answer(answers, client):
    answers.send(None)
    with pytest.raises(ConnectionFailedError, match=f"no answer from {answers.url} within 0.5 s"):
        client.server_time()


def test_address_in_an_error_has_no_password(client):
    with Client("http://user:secret@127.0.0.1:1", deadline_s=0.2) as other:
        with pytest.raises(ConnectionFailedError, match=r"http://127.0.0.1:1: ") as caught:
            other.info()
        assert "secret" not in str(caught.value)


def test_proxy_of_the_environment_is_named(monkeypatch):
    for name in ("no_proxy", "NO_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret@127.0.0.1:1")
    with Client("http://exchange.example", deadline_s=0.2) as client:
        with pytest.raises(
            ConnectionFailedError, match=r"through the proxy 127\.0\.0\.1:1"
        ) as caught:
            client.info()
        assert "secret" not in str(caught.value)
    monkeypatch.setenv("HTTP_PROXY", "socks9://127.0.0.1:1")
    with pytest.raises(InvalidCallError, match=r"the proxies \(HTTP_PROXY and others\)"):
        Client("http://exchange.example")


@pytest.mark.parametrize("make", [Client, BlockingFeed])
def test_host_that_does_not_exist_is_not_awaited(make, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with (
        pytest.raises(ConnectionFailedError, match="the host is unknown") as caught,
        make("http://exchange.invalid") as made,
    ):
        made.info()
    assert not caught.value.retryable


@pytest.mark.parametrize("make", [Client, BlockingFeed])
def test_tls_at_a_server_without_it(answers, make):
    with (
        pytest.raises(ConnectionFailedError, match="begin the address with http://"),
        make(answers.url.replace("http", "https")) as made,
    ):
        made.info()


# ----- other versions ----------------------------------------------------------------------------


def test_answers_of_a_newer_server(answers, client):
    answers.send(200, {**TIME, "leapSeconds": [1]})
    assert client.server_time().now_s == TIME["nowS"]
    answers.send(418, {"code": "TEAPOT", "detail": "short", "status": 418, "brewing": True})
    with pytest.raises(RequestRejectedError, match="TEAPOT: short") as caught:
        client.server_time()
    assert (caught.value.code, caught.value.body["brewing"]) == ("TEAPOT", True)


def test_answer_of_an_older_server(answers, client):
    answers.send(200, {"nowMs": 1})
    with pytest.raises(UnexpectedReplyError, match="missing required field `nowS`") as caught:
        client.server_time()
    assert "another version" in caught.value.hint


@contextlib.asynccontextmanager
async def feed_server(*messages):
    """Run a WebSocket server that answers every message by these; yield its URL."""

    async def answer(connection):
        async for text in connection:
            request = json.loads(text)
            for each in [PONG] if request["type"] == "ping" else messages:
                sent = each if isinstance(each, (str, bytes)) else json.dumps(each)
                if isinstance(sent, str):
                    sent = sent.replace('"ID"', str(request["id"]))
                await connection.send(sent)

    async with serve(answer, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


COMMON = {"channel": "orderbook", "marketId": "m", "timestamp": 1}
SUBSCRIBED = {"type": "subscribed", "id": "ID", "tokenId": None, "seq": 0, "resumed": False}
SUBSCRIBED |= {"epoch": 0, **COMMON}
LEVELS = {"bids": [], "asks": [], "lastUpdate": 0, "checksum": zlib.crc32(b"|")}
BOOK = {"type": "orderbook", "tokenId": "1", "seq": 0, "data": LEVELS, **COMMON}
PONG = {"type": "pong", "id": "ID"}


async def test_unknown_messages_and_fields_of_the_feed_are_skipped():
    added = {"orderId": "a", "side": 1, "price": 60, "size": "5", "flag": True}
    messages = [
        {"type": "weather", "channel": "orderbook", "rain": 1},
        {**SUBSCRIBED, "shard": 5},
        {**BOOK, "data": {**LEVELS, "venue": "x"}, "more": []},
        {"type": "order_added", "tokenId": "1", "seq": 1, "data": added, **COMMON},
    ]
    async with feed_server(*messages) as url, Feed(url, timeout_s=10) as feed:
        stream = feed.messages()
        book = await feed.orderbook("m")
        assert book.token("1").best_ask.size == 5
        kinds = [type(await anext(stream)).__name__ for _ in range(2)]
        assert kinds == ["Orderbook", OrderAddedMessage.__name__]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "subscribed", "id": "ID"},
        "no JSON",
        "[1]",
        {"channel": "orderbook"},
        b'{"type":"subscribed","id":"\xff"}',
    ],
)
async def test_message_of_another_form_ends_the_feed(message):
    async with feed_server(message) as url:
        feed = Feed(url, timeout_s=10)
        with pytest.raises(UnexpectedReplyError, match="a message of the feed"):
            async with feed:
                await feed.orderbook("m")
        assert feed.state is FeedState.CLOSED


async def test_both_clients_read_foreign_answers_alike(answers, client):
    answers.send(502, PAGE)
    async with AsyncClient(answers.url, timeout_s=0.5, deadline_s=0.5) as other:
        with pytest.raises(UnavailableError) as awaiting:
            await other.server_time()
    with pytest.raises(UnavailableError) as blocking:
        await asyncio.to_thread(client.server_time)
    assert str(awaiting.value) == str(blocking.value)
