"""Cancels of many orders, reductions, replacements and atomic batches over HTTP."""

import concurrent.futures
import re

import pytest

from clob.signing import SignedCancelAll, sign
from tests.server.api.makers import (
    BUY,
    DOMAIN,
    ONE,
    SELL,
    ApiClient,
    Maker,
    MarketIds,
    check_problem,
    delete,
    good,
    hash_of,
    now_ms,
    problem,
)
from tests.server.api.test_switches import wait_until

PATH = "/api/orders"


def cancel_all(http, maker, body=None, headers=None, **query):
    """Send a cancel of several orders; the maker is in the body."""
    body = {"maker": maker.address} if body is None else body
    return delete(http, PATH, body, params=query, headers=headers)


def statuses(api, *order_ids):
    return [api.order(order_id)["status"] for order_id in order_ids]


def past_ms(http):
    """Return the time of the server, once it has passed."""
    before = server_ms = good(http.get("/api/time"))["nowMs"]
    while server_ms <= before + 1:
        server_ms = good(http.get("/api/time"))["nowMs"]
    return before


@pytest.fixture
def replace(http):
    """Replace an order."""

    def send(order_id, body, **options):
        return http.post(f"{PATH}/{order_id}/replace", json=body, **options)

    return send


# ----- cancel all ----------------------------------------------------------------------------


@pytest.fixture
def quotes(api, alice, bob):
    """Orders of two makers in two markets, by market, token, side and maker."""
    markets, placed = [MarketIds(), MarketIds()], {}
    for number, market in enumerate(markets):
        for name, token in (("yes", market.yes), ("no", market.no)):
            for side, price in ((BUY, 40), (SELL, 60)):
                for maker in (alice, bob):
                    body = maker.gasless(market, side, price, token=token)
                    placed[number, name, side, maker] = api.gasless(body)["orderId"]
    return markets, placed


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"all": "true"}, lambda market, token, side: True),
        ({"marketId": 0}, lambda market, token, side: market == 0),
        ({"side": "SELL"}, lambda market, token, side: side is SELL),
        ({"side": "0"}, lambda market, token, side: side is BUY),
        ({"tokenId": "no"}, lambda market, token, side: (market, token) == (0, "no")),
        ({"tokenId": "hex"}, lambda market, token, side: (market, token) == (0, "no")),
        (
            {"marketId": 0, "tokenId": "no", "side": "1"},
            lambda market, token, side: (market, token, side) == (0, "no", SELL),
        ),
    ],
    ids=["all", "market", "sells", "buys", "token", "hexadecimal", "several"],
)
def test_orders_that_pass_the_filters_are_cancelled(
    http, api, quotes, alice, bob, filters, expected
):
    markets, placed = quotes
    texts = {"no": str(markets[0].no), "hex": hex(markets[0].no), 0: markets[0].id}
    before = good(http.get("/health"))["commandSeq"]
    query = {name: texts.get(value, value) for name, value in filters.items()}
    reply = good(cancel_all(http, alice, **query))
    assert good(http.get("/health"))["commandSeq"] == before + 1
    gone = [
        order_id
        for (market, token, side, maker), order_id in placed.items()
        if maker is alice and expected(market, token, side)
    ]
    assert reply == {
        "success": True, "maker": alice.address, "numCancelled": len(gone), "orderIds": gone,
    }  # fmt: skip
    for order_id in placed.values():
        assert api.order(order_id)["status"] == ("cancelled" if order_id in gone else "open")
    assert good(cancel_all(http, alice, **query))["numCancelled"] == 0


def test_maker_and_filters_of_a_cancel_can_be_in_the_query_alone(http, api, market, alice):
    order_id = api.gasless(alice.gasless(market))["orderId"]
    query = {"maker": alice.address, "marketId": market.id}
    assert good(http.delete(PATH, params=query))["orderIds"] == [order_id]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({}, "all"),
        ({"all": "false"}, "all"),
        ({"all": ""}, "all"),
        ({"all": "true", "side": "BUY"}, "all"),
        ({"marketId": ""}, "marketId"),
        ({"marketId": "a b"}, "marketId"),
        ({"tokenId": ""}, "tokenId"),
        ({"tokenId": "-1"}, "tokenId"),
        ({"side": ""}, "side"),
        ({"side": "2"}, "side"),
        ({"side": "buy"}, "side"),
        ({"marketID": "m"}, "marketID"),
    ],
    ids=str,
)
def test_missing_or_invalid_filter_cancels_nothing(http, api, market, alice, query, path):
    order_id = api.gasless(alice.gasless(market))["orderId"]
    problem(cancel_all(http, alice, **query), "INVALID_FIELD", path)
    assert statuses(api, order_id) == ["open"]


def test_cancel_for_an_unknown_market_or_token_is_rejected(http, api, market, alice):
    api.gasless(alice.gasless(market))
    problem(cancel_all(http, alice, marketId=MarketIds().id), "UNKNOWN_MARKET")
    problem(cancel_all(http, alice, tokenId=str(market.no)), "TOKEN_NOT_IN_MARKET")
    problem(cancel_all(http, alice, body={}, all="true"), "INVALID_FIELD", "maker")


def test_cancel_of_all_in_production_needs_a_key_with_scope_cancel_of_the_maker(
    production, production_market, alice, bob, key_for
):
    http, api = production.http, ApiClient(production.http)
    placed = [
        api.place(maker.signed(production_market))["orderId"] for maker in (alice, alice, bob)
    ]
    problem(cancel_all(http, alice, all="true"), "API_KEY_REQUIRED")
    for scopes, maker, code in (
        (("read", "trade"), alice, "SCOPE_MISSING"),
        (("cancel",), bob, "MAKER_NOT_ALLOWED"),
    ):
        headers = key_for(maker, scopes=scopes)
        problem(cancel_all(http, alice, headers=headers, all="true"), code)
    reply = good(cancel_all(http, alice, headers=key_for(alice, scopes=("cancel",)), all="true"))
    assert reply["orderIds"] == placed[:2]


def test_signed_cancel_covers_its_filters_and_only_earlier_orders(
    production, production_market, alice, bob
):
    http, api = production.http, ApiClient(production.http)
    market = production_market
    buys, sells = (
        [api.place(alice.signed(market, side, price))["orderId"] for _ in range(2)]
        for side, price in ((BUY, 40), (SELL, 60))
    )
    signed_ms = past_ms(http)
    sell_side = alice.cancel_all(signed_ms, market_id=market.id, side=1)
    for query in ({"all": "true"}, {"marketId": market.id}, {"side": "SELL"}):
        problem(cancel_all(http, alice, sell_side, **query), "INVALID_SIGNATURE")
    forged = {**bob.cancel_all(signed_ms), "maker": alice.address}
    problem(cancel_all(http, alice, forged, all="true"), "INVALID_SIGNATURE")
    query = {"marketId": market.id, "side": "1"}
    assert good(cancel_all(http, alice, sell_side, **query))["orderIds"] == sells
    later = api.place(alice.signed(market, SELL, 60))["orderId"]
    assert good(cancel_all(http, alice, sell_side, **query))["orderIds"] == []
    everything = alice.cancel_all(signed_ms)
    assert good(cancel_all(http, alice, everything, all="true"))["orderIds"] == buys
    by_token = alice.cancel_all(past_ms(http), token_id=str(market.yes))
    reply = good(cancel_all(http, alice, by_token, tokenId=hex(market.yes)))
    assert reply["orderIds"] == [later]


def test_signed_cancel_of_all_is_sent_as_it_was_signed(http, api, market, alice):
    order_id = api.gasless(alice.gasless(market))["orderId"]
    for filters, query in (
        ({"market_id": market.id, "side": 1}, {"marketId": market.id, "side": "SELL"}),
        ({"token_id": str(market.yes)}, {"tokenId": hex(market.yes)}),
        ({}, {"all": "true"}),
    ):
        cancel = SignedCancelAll(maker=alice.address, timestamp_ms=past_ms(http), **filters)
        body = sign(cancel, DOMAIN, alice.key).to_json()
        expected = [] if filters.get("side") else [order_id]
        for name, value in (("marketId", "x"), ("tokenId", 5), ("side", 0)):
            forged = {**body, name: value}
            problem(cancel_all(http, alice, forged, **query), "INVALID_FIELD", name)
        assert good(cancel_all(http, alice, body, **query))["orderIds"] == expected
        order_id = api.gasless(alice.gasless(market))["orderId"] if expected else order_id


def test_filter_in_the_body_alone_cancels_nothing(http, api, market, alice):
    order_id = api.gasless(alice.gasless(market))["orderId"]
    body = {"maker": alice.address, "marketId": market.id}
    reply = problem(cancel_all(http, alice, body), "INVALID_FIELD", "all")
    assert "marketId, tokenId or side in the query must choose" in reply["detail"]
    problem(cancel_all(http, alice, body, all="true"), "INVALID_FIELD", "marketId")
    assert statuses(api, order_id) == ["open"]


@pytest.mark.parametrize("shift_ms", [-61_000, 60_000, 10**18])
def test_signed_cancel_of_all_must_be_recent_and_not_of_the_future(production, alice, shift_ms):
    body = alice.cancel_all(now_ms() + shift_ms)
    problem(cancel_all(production.http, alice, body, all="true"), "TIMESTAMP_OUT_OF_WINDOW")


def test_rejection_of_a_time_ahead_names_the_time_of_the_server_and_the_difference(http, alice):
    body = alice.cancel_all(signed_ms := now_ms() + 59_000)
    rejection = problem(
        cancel_all(http, alice, body, all="true"), "TIMESTAMP_OUT_OF_WINDOW", "timestamp"
    )
    found = re.search(r"which is (\d+) \(GET /api/time\); got (\d+), (\d+) ms", rejection["detail"])
    server_ms, received_ms, ahead_ms = map(int, found.groups())
    assert (received_ms, received_ms - server_ms) == (signed_ms, ahead_ms)


def test_clock_that_is_a_little_ahead_cancels_at_once_and_no_copy_reaches_a_later_order(
    live, http, api, market, alice
):
    first = api.gasless(alice.gasless(market))["orderId"]
    signed_ms = good(http.get("/api/time"))["nowMs"] + 4_000
    body = alice.cancel_all(signed_ms)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        sent = pool.submit(cancel_all, live.http, alice, body, all="true")
        wait_until(lambda: statuses(api, first) == ["cancelled"])
        between = api.gasless(alice.gasless(market))["orderId"]
        copy = pool.submit(cancel_all, live.http, alice, body, all="true")
        replies = [good(each.result()) for each in (sent, copy)]
    assert good(http.get("/api/time"))["nowMs"] > signed_ms
    if api.order(between)["timestamp"] <= signed_ms:
        assert statuses(api, between) == ["cancelled"]
        assert sorted(replies[0]["orderIds"] + replies[1]["orderIds"]) == sorted([first, between])
    later = api.gasless(alice.gasless(market))["orderId"]
    assert good(cancel_all(http, alice, body, all="true"))["numCancelled"] == 0
    assert statuses(api, later) == ["open"]


# ----- by the maker's own id -----------------------------------------------------------------


def test_orders_are_cancelled_and_reduced_by_client_order_id(http, api, market, alice, bob):
    mine, theirs = (
        api.gasless(maker.gasless(market, size=3 * ONE, clientOrderId="quote 1"))["orderId"]
        for maker in (alice, bob)
    )
    path, body = f"{PATH}/client:quote 1", {"maker": alice.address}
    reduced = good(http.patch(path, json={**body, "remaining": str(ONE)}))
    assert (reduced["id"], reduced["remaining"]) == (mine, str(ONE))
    assert good(delete(http, path, body))["id"] == mine
    assert problem(delete(http, path, body), "ORDER_NOT_OPEN")["order"]["id"] == mine
    problem(delete(http, f"{PATH}/client:quote 2", body), "UNKNOWN_ORDER", "orderId")
    assert statuses(api, theirs) == ["open"]
    items = [{"orderId": "client:quote 1", "maker": bob.address}]
    [result] = good(delete(http, f"{PATH}/batch", {"orders": items}))["results"]
    assert result["id"] == theirs


def test_signature_covers_the_client_order_id(production, production_market, alice):
    api = ApiClient(production.http)
    order_id = api.place(alice.signed(production_market, also={"clientOrderId": "q"}))["orderId"]
    body = alice.cancel("client:q", now_ms())
    problem(delete(production.http, f"{PATH}/{order_id}", body), "INVALID_FIELD", "orderId")
    assert good(delete(production.http, f"{PATH}/client:q", body))["id"] == order_id


# ----- reduce --------------------------------------------------------------------------------


def test_reduced_order_keeps_its_priority(http, api, market, alice, bob):
    first, second = (
        api.gasless(maker.gasless(market, SELL, 60, 3 * ONE))["orderId"] for maker in (alice, bob)
    )
    body = {"maker": alice.address, "remaining": str(2 * ONE)}
    order = good(http.patch(f"{PATH}/{first}", json=body))
    assert order == api.order(first)
    assert (order["remaining"], order["status"]) == (str(2 * ONE), "open")
    api.gasless(Maker().gasless(market, BUY, 60, 2 * ONE))
    assert statuses(api, first, second) == ["filled", "open"]


def test_reduction_is_rejected_unless_the_remaining_size_falls(http, api, market, alice, bob):
    body = alice.signed(market, SELL, 60, 2 * ONE)
    order_id = api.place(body)["orderId"]
    path = f"{PATH}/{hash_of(body)}"

    def reduce(remaining, maker=alice, **fields):
        given = {"maker": maker.address, "remaining": remaining, **fields}
        return http.patch(path, json=given)

    for remaining in (2 * ONE, str(3 * ONE)):
        rejection = problem(reduce(remaining), "SIZE_NOT_REDUCED", "remaining")
        assert rejection["order"]["id"] == order_id
    problem(reduce(0), "INVALID_FIELD", "remaining")
    problem(reduce(None), "INVALID_FIELD", "remaining")
    problem(reduce("x"), "INVALID_AMOUNT", "remaining")
    problem(reduce(-1), "INVALID_AMOUNT", "remaining")
    problem(reduce(2**256), "AMOUNT_TOO_LARGE", "remaining")
    problem(reduce(ONE, size=1), "INVALID_FIELD", "size")
    problem(reduce(ONE, bob), "NOT_THE_MAKER")
    problem(http.patch(f"{PATH}/ord_1_x", json={"maker": alice.address, "remaining": 1}),
            "UNKNOWN_ORDER")  # fmt: skip
    assert api.order(order_id)["remaining"] == str(2 * ONE)
    good(reduce(ONE))
    assert problem(reduce(ONE), "SIZE_NOT_REDUCED")["order"]["remaining"] == str(ONE)
    api.cancel(order_id, alice)
    assert problem(reduce(1), "ORDER_NOT_OPEN")["order"]["status"] == "cancelled"


def test_reduction_in_production_needs_a_signature_or_a_key(
    production, production_market, alice, bob, key_for
):
    http, api = production.http, ApiClient(production.http)
    order_id = api.place(alice.signed(production_market, size=3 * ONE))["orderId"]
    path = f"{PATH}/{order_id}"
    plain = {"maker": alice.address, "remaining": str(2 * ONE)}
    problem(http.patch(path, json=plain), "API_KEY_REQUIRED")
    scopes = ("read", "trade")
    problem(http.patch(path, json=plain, headers=key_for(alice, scopes=scopes)), "SCOPE_MISSING")
    problem(http.patch(path, json=plain, headers=key_for(bob)), "MAKER_NOT_ALLOWED")
    good(http.patch(path, json=plain, headers=key_for(alice, scopes=("cancel",))))
    signed = alice.reduce(order_id, ONE, now_ms())
    problem(http.patch(path, json={**signed, "remaining": "1"}), "INVALID_SIGNATURE")
    cancel = {**alice.cancel(order_id, now_ms()), "remaining": "1"}
    problem(http.patch(path, json=cancel), "INVALID_SIGNATURE")
    problem(http.patch(path, json=alice.reduce(order_id, ONE, 1)), "TIMESTAMP_OUT_OF_WINDOW")
    assert good(http.patch(path, json=signed))["remaining"] == str(ONE)


def test_order_that_was_filled_on_the_way_is_not_reduced(http, api, market, alice, bob):
    order_id = api.gasless(alice.gasless(market, SELL, 60, 5 * ONE))["orderId"]

    def reduce(remaining, expected, maker=alice):
        body = {"maker": maker.address, "remaining": str(remaining), "ifRemaining": expected}
        return http.patch(f"{PATH}/{order_id}", json=body)

    api.gasless(bob.gasless(market, BUY, 60, ONE))
    before = good(http.get("/health"))["commandSeq"]
    rejection = problem(reduce(2 * ONE, str(5 * ONE)), "REMAINING_CHANGED", "ifRemaining")
    assert f"{4 * ONE} wei" in rejection["detail"]
    assert rejection["order"] == api.order(order_id)
    assert good(http.get("/health"))["commandSeq"] == before
    for invalid, code in ((0, "INVALID_FIELD"), ("x", "INVALID_AMOUNT"), (-1, "INVALID_AMOUNT")):
        problem(reduce(ONE, invalid), code, "ifRemaining")
    problem(reduce(ONE, str(4 * ONE), bob), "NOT_THE_MAKER")
    assert good(reduce(2 * ONE, str(4 * ONE)))["remaining"] == str(2 * ONE)
    problem(reduce(2 * ONE, str(2 * ONE)), "SIZE_NOT_REDUCED")
    assert good(reduce(ONE, None))["remaining"] == str(ONE)
    api.cancel(order_id, alice)
    problem(reduce(ONE, str(ONE)), "ORDER_NOT_OPEN")


def test_no_trade_comes_between_the_comparison_and_the_reduction(live, api, market, alice, bob):
    outcomes = set()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            order_id = api.gasless(alice.gasless(market, SELL, 60, 3 * ONE))["orderId"]
            body = {"maker": alice.address, "remaining": str(ONE), "ifRemaining": str(3 * ONE)}
            buy = bob.gasless(market, BUY, 60, ONE)
            sent = pool.submit(live.http.post, f"{PATH}/gasless", json=buy)
            answer = live.http.patch(f"{PATH}/{order_id}", json=body)
            good(sent.result())
            order = api.order(order_id)
            if answer.status_code == 200:
                assert (order["status"], order["filledTokens"]) == ("filled", str(ONE))
            else:
                assert problem(answer, "REMAINING_CHANGED")["order"] == order
                assert order["remaining"] == str(2 * ONE)
                api.cancel(order_id, alice)
            outcomes.add(answer.status_code)
    assert outcomes <= {200, 409}


# ----- replace -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["signed", "gasless"])
def test_replacement_cancels_one_order_and_places_another_in_one_command(
    http, api, replace, market, alice, kind
):
    old = api.place(alice.signed(market, BUY, 40))["orderId"]
    body = getattr(alice, kind)(market, BUY, 45, 2 * ONE, **(
        {"clientOrderId": "new"} if kind == "gasless" else {}
    ))  # fmt: skip
    before = good(http.get("/health"))["commandSeq"]
    reply = good(replace(old, body))
    assert good(http.get("/health"))["commandSeq"] == before + 1
    assert reply["replaced"] == api.order(old)
    assert (reply["status"], reply["replaced"]["status"]) == ("open", "cancelled")
    assert api.orders(maker=alice.address) == [api.order(reply["orderId"])]
    assert good(replace(old, body)) == reply | {"duplicate": True}
    assert good(http.get("/health"))["commandSeq"] == before + 1


def test_replacement_may_trade(api, replace, market, alice, bob):
    api.gasless(bob.gasless(market, SELL, 50))
    old = api.gasless(alice.gasless(market, BUY, 40, 3 * ONE))["orderId"]
    reply = good(replace(old, alice.gasless(market, BUY, 50, 2 * ONE)))
    assert (reply["matched"], reply["status"], len(reply["trades"])) == (True, "partial", 1)


def test_rejected_replacement_leaves_the_old_order(api, replace, market, alice, bob):
    api.gasless(bob.gasless(market, SELL, 50))
    old = api.gasless(alice.gasless(market, BUY, 40, clientOrderId="old"))["orderId"]
    order, other = api.order(old), MarketIds()
    api.gasless(alice.gasless(other))
    for body, code, path in (
        (alice.gasless(market, BUY, 50, postOnly=True), "POST_ONLY_WOULD_CROSS", "postOnly"),
        (alice.gasless(market, BUY, 50, 9 * ONE, timeInForce="FOK"), "FOK_NOT_FILLABLE", None),
        (alice.gasless(market, BUY, 45, clientOrderId="old"), "CLIENT_ID_CONFLICT", None),
        (alice.signed(market, expiration_s=1), "ORDER_EXPIRED", None),
        (alice.gasless(market, price=0), "PRICE_OUT_OF_RANGE", "price"),
        (alice.gasless(other), "INVALID_FIELD", "marketId"),
        (alice.gasless(market, token=market.no), "INVALID_FIELD", "tokenId"),
        (alice.gasless(market) | {"cancel": 5}, "INVALID_FIELD", "cancel"),
        (alice.gasless(market) | {"cancel": {}}, "INVALID_FIELD", "cancel.signature"),
        (alice.gasless(market) | {"cancel": {"sig": 1}}, "INVALID_FIELD", "cancel.sig"),
        (alice.gasless(market) | {"cancels": {}}, "INVALID_FIELD", "cancels"),
        (alice.signed(market) | {"signature": bob.signed(market)["signature"]},
         "INVALID_SIGNATURE", None),
        (bob.gasless(market), "NOT_THE_MAKER", None),
    ):  # fmt: skip
        problem(replace(old, body), code, path)
    assert api.order(old) == order
    assert api.orders(maker=alice.address, marketId=market.id) == [order]


@pytest.mark.parametrize("kind", ["signed", "gasless"])
def test_order_that_was_filled_on_the_way_is_not_replaced(api, replace, market, alice, bob, kind):
    old = api.gasless(alice.gasless(market, BUY, 40, 3 * ONE))["orderId"]
    named = {"clientOrderId": "new"} if kind == "gasless" else {}
    body = getattr(alice, kind)(market, BUY, 45, 3 * ONE, **named)
    api.gasless(bob.gasless(market, SELL, 40))
    stale, fresh = ({**body, "ifRemaining": str(each * ONE)} for each in (3, 2))
    rejection = problem(replace(old, stale), "REMAINING_CHANGED", "ifRemaining")
    assert rejection["order"] == api.order(old)
    assert api.orders(maker=alice.address) == [api.order(old)]
    problem(replace(old, {**body, "ifRemaining": "0"}), "INVALID_FIELD", "ifRemaining")
    reply = good(replace(old, fresh))
    assert reply["replaced"] == api.order(old)
    for repeated in (fresh, stale, body):
        assert good(replace(old, repeated)) == reply | {"duplicate": True}


def test_order_that_is_gone_is_not_replaced(api, replace, market, alice):
    old = api.place(alice.signed(market))["orderId"]
    api.cancel(old, alice)
    body = alice.signed(market)
    assert problem(replace(old, body), "ORDER_NOT_OPEN")["order"] == api.order(old)
    problem(replace("ord_1_x", body), "UNKNOWN_ORDER")
    assert api.orders(maker=alice.address) == []


def test_order_that_was_placed_on_its_own_replaces_nothing(api, replace, market, alice):
    old = api.place(alice.signed(market))["orderId"]
    body = alice.signed(market, BUY, 45)
    api.place(body)
    problem(replace(old, body), "ORDER_ALREADY_USED")
    assert statuses(api, old) == ["open"]


def test_replacement_sent_many_times_at_once_happens_once(live, api, market, alice):
    old = api.place(alice.signed(market))["orderId"]
    body = alice.signed(market, BUY, 45)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sent = [pool.submit(live.http.post, f"{PATH}/{old}/replace", json=body) for _ in range(16)]
    replies = [good(each.result()) for each in sent]
    assert len({reply["orderId"] for reply in replies}) == 1
    assert sum("duplicate" not in reply for reply in replies) == 1
    assert len(api.orders(maker=alice.address)) == 1


def test_cancel_of_a_replacement_is_sent_as_it_was_signed(replace, api, market, alice, bob):
    old = api.place(alice.signed(market))["orderId"]
    body, signed = alice.signed(market, BUY, 45), alice.cancel(old, now_ms())
    for name, value in (("orderId", "ord_1_x"), ("maker", bob.address)):
        forged = {**body, "cancel": {**signed, name: value}}
        problem(replace(old, forged), "INVALID_FIELD", f"cancel.{name}")
    signed["maker"] = alice.address.lower()
    assert good(replace(old, {**body, "cancel": signed}))["replaced"]["id"] == old


def test_replacement_in_production_needs_the_authority_for_both_parts(
    production, production_market, alice, bob, key_for
):
    http, api, market = production.http, ApiClient(production.http), production_market
    old = api.place(alice.signed(market))["orderId"]
    path = f"{PATH}/{old}/replace"
    signed, plain = alice.signed(market, BUY, 45), alice.gasless(market, BUY, 45)
    for body, headers, code in (
        (signed, {}, "API_KEY_REQUIRED"),
        (signed, key_for(alice, scopes=("trade",)), "SCOPE_MISSING"),
        (signed, key_for(bob), "MAKER_NOT_ALLOWED"),
        (plain, {}, "API_KEY_REQUIRED"),
        (plain, key_for(alice, scopes=("cancel",)), "SCOPE_MISSING"),
    ):
        problem(http.post(path, json=body, headers=headers), code)

    def cancel(maker, order_id, timestamp_ms):
        made = maker.cancel(order_id, timestamp_ms)
        return {"cancel": {name: made[name] for name in ("timestamp", "signature")}}

    for given, code in (
        (cancel(bob, old, now_ms()), "INVALID_SIGNATURE"),
        (cancel(alice, "ord_1_x", now_ms()), "INVALID_SIGNATURE"),
        (cancel(alice, old, 1), "TIMESTAMP_OUT_OF_WINDOW"),
    ):
        problem(http.post(path, json=signed | given), code)
    reply = good(http.post(path, json=signed | cancel(alice, old, now_ms())))
    assert reply["replaced"]["id"] == old
    again = f"{PATH}/{reply['orderId']}/replace"
    good(http.post(again, json=plain, headers=key_for(alice, scopes=("cancel", "trade"))))


# ----- atomic batches ------------------------------------------------------------------------


@pytest.fixture
def place_atomic(api):
    """Place orders as one atomic batch; return their results."""

    def place(*bodies):
        return api.post(f"{PATH}/batch", {"orders": list(bodies), "atomic": True})["results"]

    return place


def test_atomic_batch_places_all_orders_and_repeats_its_first_result(
    http, api, place_atomic, market, alice, bob
):
    api.gasless(alice.gasless(market, SELL, 50))
    bodies = [
        bob.signed(market, BUY, 50, 2 * ONE), alice.gasless(market, SELL, 60, clientOrderId="a"),
    ]  # fmt: skip
    before = good(http.get("/health"))["commandSeq"]
    results = place_atomic(*bodies)
    assert [each["status"] for each in results] == ["partial", "open"]
    again = place_atomic(*bodies)
    assert again == [each | {"duplicate": True} for each in results]
    assert good(http.get("/health"))["commandSeq"] == before + 1


def assert_all_rejected(results, cause, code):
    for index, each in enumerate(results):
        check_problem(each, code if index == cause else "BATCH_REJECTED")
        if index != cause:
            assert each["causedBy"] == cause
            assert f"orders[{cause}]" in each["detail"]
            assert code in each["detail"]


def test_rejected_order_of_an_atomic_batch_leaves_the_book_as_it_was(
    api, place_atomic, market, alice, bob
):
    resting = api.gasless(alice.gasless(market, SELL, 50, 5 * ONE))["orderId"]
    book, good_order = api.book(market), lambda: bob.signed(market, BUY, 50)
    for cause, body, code in (
        (2, bob.gasless(market, BUY, 50, postOnly=True), "POST_ONLY_WOULD_CROSS"),
        (0, bob.gasless(market, BUY, 50, 9 * ONE, timeInForce="FOK"), "FOK_NOT_FILLABLE"),
        (1, bob.signed(market, expiration_s=1), "ORDER_EXPIRED"),
        (1, bob.gasless(market, price=0), "PRICE_OUT_OF_RANGE"),
        (2, bob.signed(market) | {"signature": alice.signed(market)["signature"]},
         "INVALID_SIGNATURE"),
        (1, 5, "INVALID_FIELD"),
        (1, bob.gasless(MarketIds()), "UNKNOWN_MARKET"),
        (0, bob.gasless(market, token=market.no), "UNKNOWN_MARKET"),
    ):  # fmt: skip
        bodies = [good_order() for _ in range(3)]
        bodies[cause] = body
        assert_all_rejected(place_atomic(*bodies), cause, code)
        assert api.book(market) == book
    assert statuses(api, resting) == ["open"]
    assert api.orders(maker=bob.address) == []
    twice = good_order()
    assert_all_rejected(place_atomic(twice, twice), 1, "ORDER_ALREADY_USED")
    api.place(twice)
    assert_all_rejected(place_atomic(good_order(), twice), 1, "ORDER_ALREADY_USED")


@pytest.mark.parametrize("atomic", [1, "true", {}])
def test_atomic_must_be_a_boolean(http, market, alice, atomic):
    body = {"orders": [alice.gasless(market)], "atomic": atomic}
    problem(http.post(f"{PATH}/batch", json=body), "INVALID_FIELD", "atomic")
