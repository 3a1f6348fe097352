"""Makers with keys, markets and requests for tests over HTTP."""

import itertools
import time

import jwt
import msgspec

from clob import Side
from clob.signing import (
    SignedCancel,
    SignedOrder,
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
"""Seconds to come, and gone by."""

_numbers = itertools.count(1)
load_eth_account()  # once, and not in the middle of a test


class Person:
    """A wallet of its own, and what it signs."""

    def __init__(self):
        self.key = f"0x{0xC10B_0000 + next(_numbers):064x}"
        self.address = load_eth_account().from_key(self.key).address

    def signed(self, place, side=BUY, price=50, size=ONE, token=None, also=(), **fields):
        """The body of a signed order; ``also`` is what is said beside it."""
        made = SignedOrder.from_price_size(
            side=side,
            price=price,
            size=size,
            token_id=token or place.yes,
            **{"maker": self.address, "salt": next(_numbers), **fields},
        )
        return self.body(made, place, **dict(also))

    def body(self, order, place, **also):
        """The body of an order, signed by this person."""
        return {**sign(order, DOMAIN, self.key).to_json(), "marketId": place.id, **also}

    def gasless(self, place, side=BUY, price=50, size=ONE, token=None, **also):
        """The body of a gasless order."""
        return {
            "maker": self.address,
            "tokenId": str(token or place.yes),
            "side": int(side),
            "price": price,
            "size": str(size),
            "marketId": place.id,
            **also,
        }

    def cancel(self, order_id, timestamp_ms):
        """The body of a signed cancel."""
        wish = SignedCancel(order_id=order_id, maker=self.address, timestamp_ms=timestamp_ms)
        return sign(wish, DOMAIN, self.key).to_json()

    def nonce(self, nonce):
        """The body that raises the nonce."""
        return sign(SignedSetNonce(maker=self.address, nonce=nonce), DOMAIN, self.key).to_json()

    def delegate(self, to, nonce, allowed=True):
        """The body that allows a delegate, or no longer."""
        wish = SignedSetDelegate(
            maker=self.address, delegate=to.address, allowed=allowed, nonce=nonce
        )
        return sign(wish, DOMAIN, self.key).to_json()


class Place:
    """The id of a market that nobody used before, and two tokens."""

    def __init__(self, prefix="m"):
        number = next(_numbers)
        self.id = f"{prefix}{number}"
        self.yes, self.no = 10**6 + 2 * number, 10**6 + 2 * number + 1


class Shop:
    """Short ways to ask a server, each of which expects to be served."""

    def __init__(self, http):
        self.http = http

    def post(self, path, body, **options):
        return good(self.http.post(path, json=body, **options))

    def place(self, body):
        """Place a signed order; return the answer."""
        return self.post("/api/orders", body)

    def gasless(self, body):
        return self.post("/api/orders/gasless", body)

    def order(self, order_id):
        return good(self.http.get(f"/api/orders/{order_id}"))

    def orders(self, **query):
        return good(self.http.get("/api/orders", params=query))

    def book(self, place, token=None):
        query = {} if token is None else {"tokenId": str(token)}
        return good(self.http.get(f"/api/markets/{place.id}/orderbook", params=query))

    def cancel(self, order_id, person):
        return good(delete(self.http, f"/api/orders/{order_id}", {"maker": person.address}))


def delete(http, path, body=None, **options):
    """Send a DELETE with a body, which httpx has no short way for."""
    if body is not None:
        options["json"] = body
    return http.request("DELETE", path, **options)


def good(response):
    """Return the body of a response that is not a rejection."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    return response.json()


FIELDS = {"type", "title", "status", "detail", "code", "error", "errors", "requestId", "retryable"}


def problem(response, code, path=None):
    """Check the shape of a rejection (decision 30); return its body."""
    said = response.json()
    assert said["code"] == code, said
    known = PROBLEMS[code]
    assert response.headers["content-type"] == CONTENT_TYPE.decode()
    assert response.status_code == said["status"] == known.status
    assert said.keys() >= FIELDS
    check_problem(said, code, path)
    assert said["requestId"] == response.headers["x-request-id"]
    if known.retryable and known.status == 503:
        assert int(response.headers["retry-after"]) >= 1
    return said


def check_problem(said, code, path=None):
    """Check the body of a rejection, in a response or in a batch result."""
    known = PROBLEMS[code]
    assert said["code"] == code, said
    assert said["type"].endswith(f"#{code}")
    assert (said["title"], said["status"]) == (known.title, known.status)
    assert said["retryable"] is known.retryable
    assert said["detail"]
    assert said["error"] == said["detail"]
    assert len(said["detail"]) < 1_000
    assert all(fault.keys() == {"path", "message"} for fault in said["errors"])
    if path is not None:
        assert [fault["path"] for fault in said["errors"]] == [path]


def hash_of(body):
    """The hash of a signed order, as the paths take it."""
    return f"0x{order_hash(SignedOrder.from_json(body), DOMAIN).hex()}"


def raw(body):
    """Write a body in JSON, surrogates and all."""
    return msgspec.json.encode(body)


def assert_rejected(http, body, code, path=None):
    """Assert that a signed order is rejected with this code."""
    return problem(http.post("/api/orders", json=body), code, path)


def with_amounts(person, place, side, maker_amount, taker_amount, **fields):
    """A signed order of any amounts, as a program that rounds may send it."""
    made = SignedOrder(
        maker=person.address,
        signer=person.address,
        token_id=place.yes,
        maker_amount=maker_amount,
        taker_amount=taker_amount,
        side=side,
        **fields,
    )
    return person.body(made, place)


def now_ms():
    """The time, Unix milliseconds."""
    return time.time_ns() // 10**6


def operators_token(secret):
    """A token that opens the routes of the operator."""
    now_s = now_ms() // 1000
    claims = {"sub": "tests", "scope": "admin", "iat": now_s, "exp": now_s + 3_600}
    return jwt.encode(claims, secret, "HS256")
