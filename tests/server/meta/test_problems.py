"""Every rejection is a problem with a code and a request id, whatever bytes a client sends."""

import json
import re
import socket

import pytest

from clob_server.api.problems import CONTENT_TYPE, PROBLEMS
from tests.server.api.makers import check_problem
from tests.server.live import live_server

WAIT_S = 60
HOST = b"Host: 127.0.0.1\r\n"
JSON = b"Content-Type: application/json\r\n"
SOCKET = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
KEYED = SOCKET + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
LONG = b"A: " + b"a" * 20_000 + b"\r\n"
RATHER_LONG = b"A: " + b"a" * 9_000 + b"\r\n"
WRONG = b"X-API-Key: x\r\n"

REQUESTS = {
    "line break in the path": (b"GET /a%0Ab", HOST, "NOT_FOUND"),
    "line break at the end of a route": (b"GET /health%0A", HOST, "NOT_FOUND"),
    "line break at the end of a route of the API": (b"GET /api/markets%0A", HOST, "NOT_FOUND"),
    "line break at the end of a market": (b"GET /api/markets/a%0A", HOST, "NOT_FOUND"),
    "line break in a market": (b"GET /api/markets/a%0Ab", HOST, "UNKNOWN_MARKET"),
    "line break at the end of a write": (b"POST /api/orders%0A", HOST, "NOT_FOUND"),
    "other line breaks": (b"GET /a%0Db%C2%85%E2%80%A8", HOST, "NOT_FOUND"),
    "not UTF-8": (b"GET /a%FFb", HOST, "NOT_FOUND"),
    "bytes that are not ASCII": (b"GET /a\xff", HOST, "BAD_REQUEST"),
    "two slashes": (b"GET //health", HOST, "NOT_FOUND"),
    "slash at the end": (b"GET /health/", HOST, "NOT_FOUND"),
    "the whole server": (b"OPTIONS *", HOST, "NOT_FOUND"),
    "a tunnel": (b"CONNECT 127.0.0.1:80", HOST, "BAD_REQUEST"),
    "another site": (b"GET /nothing", b"Host: elsewhere\r\n", "HOST_NOT_ALLOWED"),
    "no site": (b"GET /nothing", b"", "HOST_NOT_ALLOWED"),
    "another method": (b"PUT /health", HOST, "METHOD_NOT_ALLOWED"),
    "tracing": (b"TRACE /health", HOST, "METHOD_NOT_ALLOWED"),
    "an unknown method": (b"BREW /health", HOST, "BAD_REQUEST"),
    "long head": (b"GET /health", HOST + LONG, "HEADERS_TOO_LARGE"),
    "long body": (b"POST /api/orders", HOST + b"Content-Length: 999999\r\n", "BODY_TOO_LARGE"),
    "length that is no number": (b"POST /a", HOST + b"Content-Length: x\r\n", "BAD_REQUEST"),
    "body that does not arrive": (
        b"POST /api/orders", HOST + JSON + b"Content-Length: 2\r\n", "REQUEST_TIMEOUT",
    ),
    "WebSocket elsewhere": (b"GET /nothing", HOST + KEYED, "NOT_FOUND"),
    "WebSocket at a route": (b"GET /health", HOST + KEYED, "NOT_FOUND"),
    "WebSocket with a line break": (b"GET /ws%0A", HOST + KEYED, "NOT_FOUND"),
    "WebSocket with a line break within": (b"GET /w%0As", HOST + KEYED, "NOT_FOUND"),
    "WebSocket of another site": (b"GET /ws", b"Host: elsewhere\r\n" + KEYED, "HOST_NOT_ALLOWED"),
    "WebSocket elsewhere of another site": (
        b"GET /nothing", b"Host: elsewhere\r\n" + KEYED, "HOST_NOT_ALLOWED",
    ),
    "WebSocket with a wrong key": (b"GET /ws", HOST + KEYED + WRONG, "INVALID_API_KEY"),
    "WebSocket without a nonce": (b"GET /ws", HOST + SOCKET, "BAD_REQUEST"),
    "WebSocket by another method": (b"POST /ws", HOST + KEYED, "METHOD_NOT_ALLOWED"),
    "WebSocket with a long head": (b"GET /ws", HOST + KEYED + RATHER_LONG, "HEADERS_TOO_LARGE"),
    "request without an upgrade": (b"GET /ws", HOST, "NOT_FOUND"),
}  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    with (tmp_path_factory.mktemp("log") / "log").open("w+") as file:
        yield file


@pytest.fixture(scope="module")
def live(tmp_path_factory, log):
    folder = tmp_path_factory.mktemp("data")
    limits = {"header_timeout_s": 1, "body_timeout_s": 1}
    with live_server(folder, rate_limits=False, stderr=log, **limits) as live:
        yield live


def ask(live, data):
    """Send bytes; return the status, headers and body of the first answer."""
    with socket.create_connection(("127.0.0.1", int(live.url.rpartition(":")[2]))) as client:
        client.settimeout(WAIT_S)
        client.sendall(data)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += received(client)
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (each.partition(": ") for each in lines)
        }
        while len(body) < int(headers["content-length"]):
            body += received(client)
    return int(first.split()[1]), headers, body


def received(client):
    data = client.recv(65_536)
    assert data, "the connection was closed within the answer"
    return data


def check(answer, code):
    """Check that an answer is the problem of a code; return its headers."""
    status, headers, content = answer
    body = json.loads(content)
    check_problem(body, code)
    assert headers["content-type"] == CONTENT_TYPE.decode()
    assert status == PROBLEMS[code].status
    assert body["requestId"] == headers["x-request-id"]
    assert body["requestId"]
    return headers


@pytest.mark.parametrize("name", REQUESTS)
def test_rejection_is_a_problem(live, name):
    line, fields, code = REQUESTS[name]
    headers = check(ask(live, line + b" HTTP/1.1\r\n" + fields + b"\r\n"), code)
    assert ("allow" in headers) == (code == "METHOD_NOT_ALLOWED")


def test_input_that_is_no_request_is_rejected_with_a_problem(live):
    for data in (
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\nx y\r\n",
    ):
        check(ask(live, data), "BAD_REQUEST")
    check(ask(live, b"GET /heal"), "REQUEST_TIMEOUT")


def test_rejected_handshake_repeats_the_request_id_of_the_client(live):
    fields = HOST + KEYED + b"X-Request-Id: mine-1\r\n"
    headers = check(ask(live, b"GET /nothing HTTP/1.1\r\n" + fields + b"\r\n"), "NOT_FOUND")
    assert headers["x-request-id"] == "mine-1"


def test_rejections_are_no_errors_of_the_server(live, log):
    for line, fields, _ in REQUESTS.values():
        ask(live, line + b" HTTP/1.1\r\n" + fields + b"\r\n")
    log.seek(0)
    assert re.findall(r'"level":"(?:error|critical)".*', log.read()) == []
