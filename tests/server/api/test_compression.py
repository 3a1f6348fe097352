"""Replies above 1 kB are compressed for clients that accept gzip; small ones and secrets never."""

import gzip as standard
import re

import httpx
import pytest

from clob_server.api.request import Reply
from clob_server.http.compression import COMPRESS_MIN, accepts_gzip, compressed, gzip, has_current
from clob_server.http.routes.admin_chain import NO_STORE
from tests.server.api.makers import BUY, ApiClient

GZIP = {"Accept-Encoding": "gzip"}


def raw(live, path, method="GET", **headers):
    """Send a request and return the reply without decoding its body."""
    fields = {"Accept-Encoding": "identity", **headers}
    with live.http.stream(method, path, headers=fields) as reply:
        return reply, b"".join(reply.iter_raw())


@pytest.mark.parametrize(
    "path", ["/openapi.json", "/asyncapi.json", "/web/style.css", "/web/admin.js"]
)
def test_documents_are_compressed(live, path):
    plain, body = raw(live, path)
    assert "content-encoding" not in plain.headers
    packed, bytes_ = raw(live, path, **GZIP)
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) == len(bytes_) < len(body) / 2
    assert standard.decompress(bytes_) == body
    assert all("accept-encoding" in each.headers["vary"].lower() for each in (plain, packed))
    head, nothing = raw(live, path, "HEAD", **GZIP)
    assert (head.headers["content-length"], nothing) == (str(len(bytes_)), b"")
    strong, weak = plain.headers["etag"], packed.headers["etag"]
    assert weak == f"W/{strong}"
    for tags in (strong, weak, f'"x", {weak}', "*"):
        again, nothing = raw(live, path, **GZIP, **{"If-None-Match": tags})
        assert (again.status_code, nothing) == (304, b"")
        assert "accept-encoding" in again.headers["vary"].lower()
    assert raw(live, path, **{"If-None-Match": '"x"'})[0].status_code == 200


def test_order_book_and_lists_are_compressed(live, market, alice):
    api = ApiClient(live.http)
    for price in range(1, 21):
        api.gasless(alice.gasless(market, BUY, price))
    path = f"/api/markets/{market.id}/orderbook"
    small, body = raw(live, f"/api/markets/{market.id}", **GZIP)
    assert len(body) <= COMPRESS_MIN
    assert "content-encoding" not in small.headers
    book, first = raw(live, path, **GZIP)
    assert re.fullmatch('W/"[0-9a-f]{8}-0-20"', book.headers["etag"])
    assert standard.decompress(first) == raw(live, path)[1]
    known = {"If-None-Match": book.headers["etag"]}
    assert raw(live, path, **GZIP, **known)[0].status_code == 304
    api.gasless(alice.gasless(market, BUY, 21))
    second = raw(live, path, **GZIP, **{"If-None-Match": 'W/"20"'})[1]
    assert standard.decompress(second) == raw(live, path)[1] != standard.decompress(first)
    orders, body = raw(live, f"/api/orders?marketId={market.id}", **GZIP)
    assert orders.headers["content-encoding"] == "gzip"
    assert len(standard.decompress(body)) > 5 * len(body)


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (b"", False),
        (b"identity", False),
        (b"gzip", True),
        (b"GZIP", True),
        (b"br, gzip;q=0.5", True),
        (b"gzip;q=0", False),
        (b"gzip; q=0.000, br", False),
        (b"*", True),
        (b"*;q=0", False),
        (b"gzip;q=0, *", False),
        (b"deflate, br", False),
    ],
)
def test_accepted_encodings(header, accepted):
    assert accepts_gzip(header) is accepted


class Call:
    """A request that accepts gzip."""

    headers = {b"accept-encoding": b"gzip"}  # noqa: RUF012


def test_reply_that_may_hold_a_secret_is_not_compressed():
    body = b"x" * 5_000
    assert compressed(Reply(body, headers=NO_STORE), Call).body is body
    assert compressed(Reply(body), Call).body == gzip(body)


def test_current_etag():
    assert has_current(b'"5"', b'"5"')
    assert has_current(b'W/"4", W/"5"', b'"5"')
    assert not has_current(b'"55"', b'"5"')
    assert not has_current(None, b'"5"')


def test_client_decodes_by_itself(live):
    assert httpx.get(f"{live.url}/openapi.json").json()["openapi"].startswith("3.1")
