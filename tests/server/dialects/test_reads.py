"""Markets, books and prices as py-clob-client reads them."""

import time

import pytest

from tests.server.dialects.polymarket import Market, client_of, error_of
from tests.server.live import live_server


@pytest.fixture(scope="module")
def client(live):
    return client_of(live, login=False)


@pytest.fixture(scope="module")
def market(live):
    made = Market(live)
    made.place(0, 40, 10)
    made.place(0, 45, 5.25)
    made.place(1, 60, 3)
    made.place(1, 55, 7)
    made.place(1, 50, 2)
    made.place(0, 50, 2)
    return made


def params(*items):
    from py_clob_client.clob_types import BookParams  # noqa: PLC0415 - may be missing

    return [BookParams(*item) for item in items]


def test_time_and_health(client):
    assert client.get_ok()["name"] == "clob"
    assert abs(client.get_server_time() - time.time()) < 60  # noqa: TID251 - the server's clock


def test_market_is_listed_with_its_tokens_and_its_own_id_as_slug(client, market):
    listed = client.get_markets()
    assert (listed["next_cursor"], listed["count"]) == ("LTE=", len(listed["data"]))
    [found] = [each for each in listed["data"] if each["market_slug"] == market.name]
    assert [token["token_id"] for token in found["tokens"]] == [market.yes, market.no]
    assert [token["outcome"] for token in found["tokens"]] == ["Yes", "No"]
    assert (found["minimum_tick_size"], found["minimum_order_size"]) == (0.01, 0.01)
    assert (found["accepting_orders"], found["closed"], found["neg_risk"]) == (True, False, False)
    assert client.get_market(found["condition_id"]) == found
    assert len(bytes.fromhex(found["condition_id"][2:])) == 32
    for short in (client.get_simplified_markets(), client.get_sampling_simplified_markets()):
        assert found["condition_id"] in {each["condition_id"] for each in short["data"]}
    assert client.get_sampling_markets() == listed


def test_market_with_one_token_is_hidden_until_it_has_both(live, client):
    market = Market.__new__(Market)
    market.live, market.name, market.yes, market.no = live, "half", "77001", "77002"
    market.place(0, 40, 1)
    assert "half" not in {each["market_slug"] for each in client.get_markets()["data"]}
    assert error_of(client.get_tick_size, "77001")[0] == 404
    market.place(0, 40, 1, market.no)
    assert "half" in {each["market_slug"] for each in client.get_markets()["data"]}
    assert client.get_tick_size("77001") == "0.01"


def test_book_has_the_best_levels_last_and_the_hash_of_the_client(client, market):
    book = client.get_order_book(market.yes)
    assert [(level.price, level.size) for level in book.bids] == [("0.4", "10"), ("0.45", "5.25")]
    assert [(level.price, level.size) for level in book.asks] == [("0.6", "3"), ("0.55", "7")]
    assert (book.tick_size, book.min_order_size, book.neg_risk) == ("0.01", "0.01", False)
    assert book.last_trade_price == "0.5"
    sent = book.hash
    assert client.get_order_book_hash(book) == sent
    both = client.get_order_books(params((market.yes,), (market.no,)))
    assert [each.asset_id for each in both] == [market.yes, market.no]
    assert both[0].hash == sent
    assert both[1].bids == both[1].asks == []


def test_terms_of_a_token(client, market):
    assert client.get_tick_size(market.no) == "0.01"
    assert client.get_neg_risk(market.no) is False
    assert client.get_fee_rate_bps(market.no) == 0


def test_prices_of_one_token_and_of_several(client, market):
    yes, no = market.yes, market.no
    assert client.get_price(yes, "BUY") == {"price": "0.45"}
    assert client.get_price(yes, "SELL") == {"price": "0.55"}
    assert client.get_midpoint(yes) == {"mid": "0.5"}
    assert client.get_spread(yes) == {"spread": "0.1"}
    assert client.get_last_trade_price(yes) == {"price": "0.5", "side": "BUY"}
    asked = params((yes, "BUY"), (yes, "SELL"), (no, "SELL"))
    assert client.get_prices(asked) == {yes: {"BUY": "0.45", "SELL": "0.55"}, no: {"SELL": "1"}}
    assert client.get_midpoints(asked) == {yes: "0.5", no: "0.5"}
    assert client.get_spreads(asked) == {yes: "0.1", no: "1"}
    assert client.get_last_trades_prices(asked[1:]) == [
        {"price": "0.5", "side": "BUY", "token_id": yes},
        {"price": "0.5", "side": "", "token_id": no},
    ]


def test_unknown_token_is_rejected_with_an_error_that_the_client_shows(client):
    assert error_of(client.get_order_book, "1") == (
        404, 'there is no order book of token "1"'
    )  # fmt: skip
    assert error_of(client.get_market, "0x12") == (404, 'there is no market "0x12"')
    assert error_of(client.get_price, "1", "UP")[0] == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [("/books", {"token_id": "1"}), ("/prices", [1]), ("/midpoints", [{}]), ("/spreads", "all")],
)
def test_body_of_another_shape_is_rejected_in_words(live, path, body):
    answer = live.http.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_FIELD")
    assert "token_id" in answer.json()["error"]


def test_invalid_side_and_cursor_are_rejected(live, market):
    answer = live.http.get("/price", params={"token_id": market.yes, "side": "UP"})
    assert answer.json()["error"] == 'side must be BUY or SELL; got "UP"'
    answer = live.http.get("/markets", params={"next_cursor": "?"})
    assert answer.json()["errors"][0]["path"] == "next_cursor"
    answer = live.http.get("/markets", params={"next_cursor": "LTE="})
    assert answer.json() == {"limit": 500, "count": 0, "next_cursor": "LTE=", "data": []}


@pytest.mark.parametrize("path", ["/rfq/data/requests", "/rewards/user", "/builder/trades"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_parts_that_the_dialect_lacks_answer_404_in_words(live, method, path):
    answer = live.http.request(method, path)
    assert answer.status_code == 404
    assert f"{path} is not served: the polymarket dialect has no rfq" in answer.json()["error"]


def test_server_without_the_dialect_has_none_of_its_routes(tmp_path):
    with live_server(tmp_path) as live:
        assert live.http.get("/markets").json()["code"] == "NOT_FOUND"
