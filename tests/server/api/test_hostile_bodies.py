"""Hostile bodies get a documented rejection, and the connection serves the next request."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from clob_server.api.problems import PROBLEMS
from tests.server.api.makers import ONE, good, raw

JSON = {"content-type": "application/json"}
LIMIT = 65_536


@pytest.fixture
def connection(live):
    """A keep-alive connection."""
    connection = http.client.HTTPConnection(urlsplit(live.url).netloc, timeout=60)
    yield connection
    connection.close()


def send(connection, path, body, method="POST"):
    """Send a body over a connection; return the status and the decoded response body."""
    connection.request(method, path, body, JSON)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def assert_rejected(connection, path, body, *codes):
    """Assert that a body is rejected and the connection stays usable."""
    socket = connection.sock
    status, rejection = send(connection, path, body)
    assert rejection["code"] in codes, rejection
    assert status == rejection["status"] == PROBLEMS[rejection["code"]].status
    assert len(rejection["detail"]) < 1_000
    assert socket is None or connection.sock is socket
    assert rejection["code"] != "INTERNAL"


PATHS = [
    "/api/orders", "/api/orders/gasless", "/api/orders/batch", "/api/orders/validate",
    "/api/orders/simulate", "/api/orders/nonce", "/api/orders/delegates", "/api/gasless/merge",
    "/api/gasless/split", "/api/gasless/faucet",
]  # fmt: skip

NOT_JSON = {
    "empty": b"",
    "a word": b"hello",
    "truncated": b'{"maker": "0x',
    "single quotes": b"{'maker': 1}",
    "a trailing comma": b'{"a": 1,}',
    "two values": b'{"a": 1} {"b": 2}',
    "NaN": b'{"salt": NaN}',
    "Infinity": b'{"salt": -Infinity}',
    "a number beyond floats": b'{"salt": 1e999}',
    "leading zeros": b'{"salt": 007}',
    "hexadecimal": b'{"salt": 0x10}',
    "bad UTF-8": b'{"salt": "\xff\xfe"}',
    "overlong UTF-8": b'{"salt": "\xc0\xaf"}',
    "UTF-8 of a surrogate": b'{"salt": "\xed\xa0\x80"}',
    "half a surrogate pair": b'{"salt": "\\ud800"}',
    "the second half of a pair": b'{"salt": "\\udc00"}',
    "a byte order mark": b'\xef\xbb\xbf{"salt": "1"}',
    "UTF-16": '{"salt": "1"}'.encode("utf-16"),
    "a control character": b'{"salt": "\x00"}',
    "deep lists": b"[" * 60_000,
    "deep objects": b'{"a":' * 12_000,
    "deep and closed": b"[" * 30_000 + b"]" * 30_000,
}


@pytest.mark.parametrize("path", PATHS)
def test_invalid_json_is_rejected(connection, path, live):
    for name, body in NOT_JSON.items():
        codes = (
            ("INVALID_JSON", "INVALID_FIELD") if name == "deep and closed" else ("INVALID_JSON",)
        )
        assert_rejected(connection, path, body, *codes)
    assert good(live.http.get("/health"))["status"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [b"[]", b"[{}]", b"5", b'"text"', b"null", b"true", b"1.5"])
def test_body_that_is_not_an_object_is_rejected(connection, path, body):
    assert_rejected(connection, path, body, "INVALID_FIELD")


ODD = [
    None, True, False, 0, -1, 1.5, -0.0, 1e308, 2**63, 2**64, 2**256, -(2**256), 10**1000, "",
    " ", "0", "-0", "x" * 5_000, "١٢", "\U0001f600" * 100, "\x7f", "\u202e", [], [[]], {},
    {"a": {}}, ["0x" + "1" * 40], "0x", "0x" + "g" * 40, "__proto__",
    "'; drop table --", "../../etc",
]  # fmt: skip
FIELDS = {
    "/api/orders": (
        "salt", "maker", "signer", "taker", "tokenId", "makerAmount", "takerAmount", "expiration",
        "nonce", "feeRateBps", "side", "signatureType", "signature", "marketId", "timeInForce",
        "postOnly", "selfTrade", "clientOrderId", "deadlineMs",
    ),
    "/api/orders/gasless": (
        "maker", "smartWallet", "tokenId", "side", "price", "size", "marketId", "timeInForce",
        "postOnly", "selfTrade", "clientOrderId", "deadlineMs",
    ),
    "/api/orders/nonce": ("maker", "nonce", "signature"),
    "/api/orders/delegates": ("maker", "delegate", "allowed", "nonce", "signature"),
    "/api/orders/batch": ("orders",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "field"), [(path, field) for path, names in FIELDS.items() for field in names]
)
def test_every_field_with_values_of_every_type(connection, market, alice, bob, path, field):
    """Any value in any field is accepted or rejected with a documented code, never with a 5xx."""
    bodies = {
        "/api/orders": lambda: alice.signed(market),
        "/api/orders/gasless": lambda: alice.gasless(market),
        "/api/orders/nonce": lambda: alice.nonce(1),
        "/api/orders/delegates": lambda: alice.delegate(bob, 0),
        "/api/orders/batch": lambda: {"orders": [alice.gasless(market)]},
    }
    for value in ODD:
        status, rejection = send(connection, path, raw(bodies[path]() | {field: value}))
        if status == 200:
            continue
        assert rejection["code"] in PROBLEMS, rejection
        assert status == rejection["status"] < 500
        assert len(rejection["detail"]) < 1_000
    assert send(connection, path, raw(bodies[path]()))[0] in (200, 422)


def test_last_of_duplicate_keys_is_used(connection, market, alice):
    body = raw(alice.gasless(market, price=30))[:-1] + b',"price":40}'
    status, reply = send(connection, "/api/orders/gasless", body)
    assert status == 200
    connection.request("GET", f"/api/orders/{reply['orderId']}")
    assert json.loads(connection.getresponse().read())["price"] == 40


def test_body_limit_is_64_kib(live, market, alice):
    body = raw(alice.gasless(market, id=""))
    full = body[:-2] + b"x" * (LIMIT - len(body)) + body[-2:]
    assert len(full) == LIMIT
    assert good(live.http.post("/api/orders/gasless", content=full, headers=JSON))["success"]
    answer = live.http.post("/api/orders/gasless", content=full + b" ", headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")


def test_chunked_body_is_read(connection, market, alice):
    body = raw(alice.gasless(market))
    parts = [body[start : start + 7] for start in range(0, len(body), 7)]
    connection.request("POST", "/api/orders/gasless", iter(parts), JSON, encode_chunked=True)
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["success"]) == (200, True)


def test_long_integers_are_read_exactly(connection, market, alice):
    body = raw(alice.gasless(market)).replace(f'"{ONE}"'.encode(), b"%d" % (10**20 + 1))
    status, reply = send(connection, "/api/orders/gasless", body)
    assert status == 200
    connection.request("GET", f"/api/orders/{reply['orderId']}")
    assert json.loads(connection.getresponse().read())["size"] == str(10**20 + 1)
    for digits in (5_000, 60_000):
        huge = body.replace(b"%d" % (10**20 + 1), b"9" * digits)
        assert_rejected(connection, "/api/orders/gasless", huge, "AMOUNT_TOO_LARGE", "INVALID_JSON")
