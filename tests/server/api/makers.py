"""Makers that sign requests, market ids and a client, for tests over HTTP."""

import itertools
import re
import time

import jwt
import msgspec

from clob import Side
from clob.signing import (
    SignedCancel,
    SignedCancelAll,
    SignedOrder,
    SignedReduce,
    SignedSetDelegate,
    SignedSetNonce,
    order_hash,
    sign,
)
from clob.signing.wallet import load_eth_account
from clob_server.api.problems import CONTENT_TYPE, PROBLEMS
from tests.signings import DOMAIN

ONE = 10**18
"""One token, in wei."""
BUY, SELL = Side.BUY, Side.SELL
ZERO = f"0x{0:040x}"
FAR, LONG_AGO = 4_000_000_000, 1_700_000_000
"""Unix seconds in the future and in the past."""

_numbers = itertools.count(1)
load_eth_account()  # imported here, because the import is slow


class Maker:
    """A maker with a key of its own; its methods return request bodies."""

    def __init__(self):
        self.key = f"0x{0xC10B_0000 + next(_numbers):064x}"
        self.address = load_eth_account().from_key(self.key).address

    def signed(self, market, side=BUY, price=50, size=ONE, token=None, also=(), **fields):
        """Return the body of a signed order; ``also`` holds unsigned fields such as options."""
        order = SignedOrder.from_price_size(
            side=side,
            price=price,
            size=size,
            token_id=token or market.yes,
            **{"maker": self.address, "salt": next(_numbers), **fields},
        )
        return self.body(order, market, **dict(also))

    def body(self, order, market, **also):
        """Return the body of an order, signed by this maker."""
        return {**sign(order, DOMAIN, self.key).to_json(), "marketId": market.id, **also}

    def gasless(self, market, side=BUY, price=50, size=ONE, token=None, **also):
        """Return the body of a gasless order."""
        return {
            "maker": self.address,
            "tokenId": str(token or market.yes),
            "side": int(side),
            "price": price,
            "size": str(size),
            "marketId": market.id,
            **also,
        }

    def cancel(self, order_id, timestamp_ms):
        """Return the body of a signed cancel."""
        cancel = SignedCancel(order_id=order_id, maker=self.address, timestamp_ms=timestamp_ms)
        return sign(cancel, DOMAIN, self.key).to_json()

    def cancel_all(self, timestamp_ms, **filters):
        """Return the authority of a signed cancel of all orders that pass the filters."""
        cancel = SignedCancelAll(maker=self.address, timestamp_ms=timestamp_ms, **filters)
        signed = sign(cancel, DOMAIN, self.key).to_json()
        return {name: signed[name] for name in ("maker", "timestamp", "signature")}

    def reduce(self, order_id, remaining, timestamp_ms):
        """Return the body of a signed reduction."""
        reduction = SignedReduce(
            order_id=order_id, maker=self.address, remaining=remaining, timestamp_ms=timestamp_ms
        )
        return sign(reduction, DOMAIN, self.key).to_json()

    def nonce(self, nonce):
        """Return the body that raises the nonce."""
        return sign(SignedSetNonce(maker=self.address, nonce=nonce), DOMAIN, self.key).to_json()

    def delegate(self, to, nonce, allowed=True):
        """Return the body that allows or revokes a delegate."""
        permission = SignedSetDelegate(
            maker=self.address, delegate=to.address, allowed=allowed, nonce=nonce
        )
        return sign(permission, DOMAIN, self.key).to_json()


class MarketIds:
    """A new market id and the ids of its two tokens."""

    def __init__(self, prefix="m"):
        number = next(_numbers)
        self.id = f"{prefix}{number}"
        self.yes, self.no = 10**6 + 2 * number, 10**6 + 2 * number + 1


class ApiClient:
    """Short forms of requests; each asserts that the server accepted it."""

    def __init__(self, http):
        self.http = http

    def post(self, path, body, **options):
        return good(self.http.post(path, json=body, **options))

    def place(self, body):
        """Place a signed order; return the response body."""
        return self.post("/api/orders", body)

    def gasless(self, body):
        return self.post("/api/orders/gasless", body)

    def order(self, order_id):
        return good(self.http.get(f"/api/orders/{order_id}"))

    def orders(self, **query):
        return good(self.http.get("/api/orders", params=query))

    def book(self, market, token=None):
        query = {} if token is None else {"tokenId": str(token)}
        return good(self.http.get(f"/api/markets/{market.id}/orderbook", params=query))

    def cancel(self, order_id, maker):
        return good(delete(self.http, f"/api/orders/{order_id}", {"maker": maker.address}))


def delete(http, path, body=None, **options):
    """Send a DELETE with a body, which `httpx.Client.delete` does not accept."""
    if body is not None:
        options["json"] = body
    return http.request("DELETE", path, **options)


def good(response):
    """Assert that a response has status 200; return its body."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    return response.json()


FIELDS = {"type", "title", "status", "detail", "code", "error", "errors", "requestId", "retryable"}


def problem(response, code, path=None):
    """Check the shape of a rejection (decision 30); return its body."""
    body = response.json()
    assert body["code"] == code, body
    known = PROBLEMS[code]
    assert response.headers["content-type"] == CONTENT_TYPE.decode()
    assert response.status_code == body["status"] == known.status
    assert body.keys() >= FIELDS
    check_problem(body, code, path)
    assert body["requestId"] == response.headers["x-request-id"]
    if known.retryable and known.status == 503:
        assert int(response.headers["retry-after"]) >= 1
    return body


def check_problem(body, code, path=None):
    """Check the body of a rejection, in a response or in a batch result."""
    known = PROBLEMS[code]
    assert body["code"] == code, body
    assert body["type"].endswith(f"#{code}")
    assert (body["title"], body["status"]) == (known.title, known.status)
    assert body["retryable"] is known.retryable
    assert body["detail"]
    assert body["error"] == body["detail"]
    assert len(body["detail"]) < 1_000
    assert all(error.keys() == {"path", "message"} for error in body["errors"])
    if path is not None:
        assert [error["path"] for error in body["errors"]] == [path]


PYTHON = re.compile(
    r"\b(?:None|True|False|float|int|str|dict|tuple|Struct|object at|msgspec|[A-Z][a-z]+Error)\b"
    r"|(?<!\w)'[^']*'|\b(?!personal_sign\b)[a-z]+_[a-z_]+\b|\*\*|<"
)
"""Words and quotes of Python."""


def words_of_python(text):
    """Return the words of Python in a message, except in the values that it quotes."""
    return PYTHON.findall(re.sub(r'"(?:[^"\\]|\\.)*("|$)', "", text))


def hash_of(body):
    """Return the hash of a signed order as used in paths: 0x and 64 hex digits."""
    return f"0x{order_hash(SignedOrder.from_json(body), DOMAIN).hex()}"


def raw(body):
    """Encode a body as JSON bytes."""
    return msgspec.json.encode(body)


def assert_rejected(http, body, code, path=None):
    """Assert that a signed order is rejected with this code; return the response body."""
    return problem(http.post("/api/orders", json=body), code, path)


def with_amounts(maker, market, side, maker_amount, taker_amount, **fields):
    """Return the body of an order with any amounts, as a rounding client may send it."""
    order = SignedOrder(
        maker=maker.address,
        signer=maker.address,
        token_id=market.yes,
        maker_amount=maker_amount,
        taker_amount=taker_amount,
        side=side,
        **fields,
    )
    return maker.body(order, market)


def now_ms():
    """Return the time in Unix milliseconds."""
    return time.time_ns() // 10**6


def operator_token(secret):
    """Return a token for the routes of the operator."""
    now_s = now_ms() // 1000
    claims = {"sub": "tests", "scope": "admin", "iat": now_s, "exp": now_s + 3_600}
    return jwt.encode(claims, secret, "HS256")
