"""Order books with a depth and a checksum, and the server's time."""

import time

import pytest

from clob import AddMarket
from clob_server.core.serialize import book_checksum
from clob_server.core.state import ServerState
from clob_server.http.book_cache import BOOKS_MIN, BookCache
from tests.matchers import market as market_terms
from tests.server.api.makers import ApiClient, Maker, good, problem
from tests.server.feed.book_reader import book_in, checksum_of
from tests.server.live import live_server


def book_at(http, market, **query):
    """Request an order book."""
    return http.get(f"/api/markets/{market.id}/orderbook", params=query)


@pytest.fixture
def deep(api, market, alice):
    """A market with twelve bids and twelve asks for YES, and a bid for NO."""
    for step in range(12):
        api.gasless(alice.gasless(market, side=0, price=40 - step))
        api.gasless(alice.gasless(market, side=1, price=60 + step))
    api.gasless(alice.gasless(market, token=market.no, price=30))
    return market


@pytest.mark.parametrize("depth", [1, 2, 11, 12, 13, 99])
def test_book_with_depth_has_the_best_levels(http, deep, depth):
    whole, part = good(book_at(http, deep)), good(book_at(http, deep, depth=depth))
    for side in ("bids", "asks"):
        assert part[side] == whole[side][:depth]
    assert part["seq"] == whole["seq"] == 25
    other = good(book_at(http, deep, depth=depth, tokenId=hex(deep.no)))
    assert [level["price"] for level in other["bids"]] == [30]


@pytest.mark.parametrize("depth", ["0", "100", "-1", "x", "", "1.5"])
def test_depth_that_is_no_number_of_levels_is_rejected(http, market, depth):
    problem(book_at(http, market, depth=depth), "INVALID_FIELD", "depth")


def test_book_waits_for_a_command_and_names_the_last_one(http, deep, alice):
    created = http.post("/api/orders", json=alice.signed(deep, price=45))
    seq = int(created.headers["x-applied-seq"])
    book = book_at(http, deep, minSeq=seq)
    assert good(book)["bids"][0]["price"] == 45
    assert int(book.headers["x-applied-seq"]) >= seq
    tag = {"If-None-Match": book.headers["etag"]}
    path = f"/api/markets/{deep.id}/orderbook"
    unchanged = http.get(path, params={"minSeq": seq}, headers=tag)
    assert unchanged.status_code == 304
    assert "x-applied-seq" in unchanged.headers
    problem(book_at(http, deep, minSeq="x"), "INVALID_FIELD", "minSeq")


def test_checksum_covers_the_levels_shown(http, deep):
    for query in ({}, {"depth": 3}, {"tokenId": str(deep.no)}):
        body = good(book_at(http, deep, **query))
        sizes = {place: size for place, (size, _) in book_in(body).items()}
        assert body["checksum"] == checksum_of(sizes)


def test_checksum_of_an_empty_book_is_that_of_the_separator():
    assert book_checksum((), ()) == checksum_of({}) == 2343686810


def test_book_with_depth_follows_the_market(http, api, deep, alice):
    before = book_at(http, deep, depth=1)
    tag = {"If-None-Match": before.headers["etag"]}
    path = f"/api/markets/{deep.id}/orderbook?depth=1"
    assert http.get(path, headers=tag).status_code == 304
    api.gasless(alice.gasless(deep, side=0, price=41))
    after = http.get(path, headers=tag)
    assert good(after)["bids"][0]["price"] == 41
    assert good(after)["checksum"] != good(before)["checksum"]


def test_book_of_another_exchange_is_not_the_current_one(tmp_path, market, alice):
    books = []
    for name, price in (("first", 33), ("second", 44)):
        with live_server(tmp_path / name, log_level="error") as live:
            ApiClient(live.http).gasless(alice.gasless(market, price=price))
            tag = {"If-None-Match": books[0].headers["etag"]} if books else {}
            books.append(live.http.get(f"/api/markets/{market.id}/orderbook", headers=tag))
    assert [good(each)["bids"][0]["price"] for each in books] == [33, 44]


def test_cache_drops_books_with_a_depth_first():
    state = ServerState()
    state.apply(AddMarket(market=market_terms("m"), now_ms=1))
    cache = BookCache(state, "exchange")
    assert cache.book("m", None).body
    for depth in range(1, BOOKS_MIN + 3):
        cache.book("m", None, depth)
    assert len(cache._books) < 5
    assert ("m", None, None) in cache._books


def test_time_is_that_of_the_next_command(http, api, market, alice):
    before_ms = time.time_ns() // 1_000_000
    answer = http.get("/api/time")
    body = good(answer)
    assert before_ms - 60_000 < body["nowMs"] < before_ms + 60_000
    assert body["nowS"] == body["nowMs"] // 1000
    assert answer.headers["cache-control"] == "no-store"
    order = api.order(api.gasless(alice.gasless(market))["orderId"])
    assert body["nowMs"] <= order["timestamp"] <= good(http.get("/api/time"))["nowMs"]


def test_time_rejects_a_query(http):
    problem(http.get("/api/time", params={"zone": "UTC"}), "INVALID_FIELD", "zone")


def test_no_token_of_a_ticker_is_null_until_it_has_an_id(api, http, market, alice):
    path = f"/api/markets/{market.id}/ticker"
    api.gasless(alice.gasless(market, side=1, price=60))
    assert good(http.get(path))["no"] is None
    api.gasless(alice.gasless(market, side=1, price=30, token=market.no))
    api.gasless(Maker().gasless(market, side=0, price=30, token=market.no))
    found = good(http.get(path))
    assert (found["no"]["tokenId"], found["no"]["lastPrice"]) == (str(market.no), 30)
    assert (found["yes"]["bestAsk"]["price"], found["yes"]["lastPrice"]) == (60, None)
