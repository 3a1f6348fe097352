"""Fills of a maker, and lists of orders by status, side, token and client id, over HTTP."""

import httpx

from tests.server.api.makers import BUY, ONE, SELL, Maker, MarketIds, good, problem


def fills(http, maker, **query):
    response = http.get("/api/fills", params={"maker": maker.address, **query})
    return good(response), response.headers


def test_a_fill_shows_role_side_and_remaining_of_the_maker(api, http, market, alice, bob):
    sold = api.place(alice.signed(market, SELL, 40, 3 * ONE))
    bought = api.place(bob.signed(market, BUY, 60, ONE))
    (of_alice,), headers = fills(http, alice)
    (of_bob,), _ = fills(http, bob)
    shown = {"orderId": sold["orderId"], "side": 1, "role": "resting", "remaining": str(2 * ONE)}
    assert shown.items() <= of_alice.items()
    shown = {"orderId": bought["orderId"], "side": 0, "role": "incoming", "remaining": "0"}
    assert shown.items() <= of_bob.items()
    for fill in (of_alice, of_bob):
        assert (fill["price"], fill["size"], fill["settlement"]) == (40, str(ONE), "none")
        assert fill["id"] == bought["trades"][0]["id"]
        assert (fill["fee"], fill["marketId"]) == ("0", market.id)
    assert (of_alice["maker"], of_bob["maker"]) == (alice.address, bob.address)
    assert int(headers["x-applied-seq"]) >= int(of_alice["cursor"].partition("-")[0])


def test_a_trade_between_two_orders_of_a_maker_is_two_fills(api, http, market, alice):
    api.place(alice.signed(market, SELL, 40, also={"selfTrade": "NONE"}))
    api.place(alice.signed(market, BUY, 40, also={"selfTrade": "NONE"}))
    found, _ = fills(http, alice, order="asc")
    assert [(fill["role"], fill["side"]) for fill in found] == [("resting", 1), ("incoming", 0)]
    assert len({fill["cursor"] for fill in found}) == 2


def test_fills_after_a_cursor_are_the_new_ones(api, http, market, alice, bob):
    api.place(alice.signed(market, SELL, 40, 9 * ONE))
    seen, after = [], None
    for _ in range(3):
        for _ in range(2):
            api.place(bob.signed(market, BUY, 40))
        query = {} if after is None else {"after": after}
        new, _ = fills(http, alice, order="asc", **query)
        assert len(new) == 2
        seen += new
        after = seen[-1]["cursor"]
    newest, _ = fills(http, alice)
    assert newest == seen[::-1]
    pages, query = [], {"limit": 4}
    while True:
        page, headers = fills(http, alice, **query)
        pages += page
        if "x-next-cursor" not in headers:
            break
        query["cursor"] = headers["x-next-cursor"]
    assert pages == newest
    elsewhere, _ = fills(http, alice, marketId=MarketIds().id)
    assert elsewhere == []


def test_an_order_is_returned_with_its_fills(api, http, market, alice, bob):
    order = api.place(alice.signed(market, SELL, 40, 3 * ONE))["orderId"]
    for _ in range(2):
        api.place(bob.signed(market, BUY, 40))
    plain = good(http.get(f"/api/orders/{order}"))
    assert "fills" not in plain
    found = good(http.get(f"/api/orders/{order}", params={"fills": "true"}))
    assert {**plain, "fills": found["fills"]} == found
    assert [fill["remaining"] for fill in found["fills"]] == [str(2 * ONE), str(ONE)]
    problem(http.get(f"/api/orders/{order}", params={"fills": "yes"}), "INVALID_FIELD", "fills")


def test_an_order_is_returned_by_the_name_that_its_maker_gave_it(api, http, market, alice, bob):
    path, maker = "/api/orders/client:q-1", {"maker": alice.address}
    order_id = api.gasless(alice.gasless(market, SELL, 40, clientOrderId="q-1"))["orderId"]
    found = good(http.get(path, params=maker))
    assert (found["id"], found["status"]) == (order_id, "open")
    problem(http.get(path), "INVALID_FIELD", "maker")
    for unknown in (path, f"/api/orders/{order_id}"):
        problem(http.get(unknown, params={"maker": bob.address}), "UNKNOWN_ORDER")
    api.place(bob.signed(market, BUY, 40))
    found = good(http.get(path, params={**maker, "fills": "true"}))
    assert (found["id"], found["status"], len(found["fills"])) == (order_id, "filled", 1)


def test_orders_are_listed_by_status_open_ones_first(api, http, market, alice, bob):
    def listed(**query):
        return [each["id"] for each in api.orders(maker=alice.address, **query)]

    first, second, third, fourth = (
        api.place(alice.signed(market, SELL, price))["orderId"] for price in (41, 42, 43, 44)
    )
    api.place(bob.signed(market, BUY, 41))
    api.cancel(second, alice)
    assert listed() == listed(status="open") == [third, fourth]
    assert listed(status="filled") == [first]
    assert listed(status="cancelled") == [second]
    assert listed(status="expired") == []
    assert listed(status="all") == [third, fourth, second, first]
    pages, query = [], {"maker": alice.address, "status": "all", "limit": 1}
    while len(pages) < 9:
        response = http.get("/api/orders", params=query)
        pages += [each["id"] for each in good(response)]
        if "x-next-cursor" not in response.headers:
            break
        query["cursor"] = response.headers["x-next-cursor"]
    assert pages == [third, fourth, second, first]


def test_orders_are_selected_by_side_token_and_client_id(api, market, alice):
    def listed(**query):
        return [each["id"] for each in api.orders(maker=alice.address, **query)]

    named = {"clientOrderId": "a name & more"}
    sell = api.place(alice.signed(market, SELL, 60, also=named))["orderId"]
    buy = api.place(alice.signed(market, BUY, 40))["orderId"]
    other = api.place(alice.signed(market, BUY, 30, token=market.no))["orderId"]
    assert listed(side="SELL") == listed(side="1") == [sell]
    assert listed(side="BUY") == [buy, other]
    assert listed(tokenId=str(market.no)) == [other]
    assert listed(clientOrderId="a name & more") == [sell]
    assert listed(clientOrderId="another") == []
    api.cancel(sell, alice)
    assert listed(clientOrderId="a name & more") == [sell]
    assert listed(clientOrderId="a name & more", status="open") == []
    assert listed(status="cancelled", side="BUY") == []


def test_invalid_queries_name_the_parameter(http, alice):
    maker = {"maker": alice.address}
    for path, query, name in (
        ("/api/fills", {}, "maker"),
        ("/api/fills", {**maker, "order": "up"}, "order"),
        ("/api/fills", {**maker, "after": "12-x"}, "after"),
        ("/api/fills", {**maker, "cursor": "1-" + "9" * 30}, "cursor"),
        ("/api/fills", {**maker, "after": "-"}, "after"),
        ("/api/fills", {**maker, "after": "-5"}, "after"),
        ("/api/fills", {**maker, "after": "1-2-3"}, "after"),
        ("/api/orders", {"status": "filled"}, "maker"),
        ("/api/orders", {"clientOrderId": "a"}, "maker"),
        ("/api/orders", {**maker, "status": "done"}, "status"),
        ("/api/orders", {**maker, "side": "2"}, "side"),
        ("/api/orders", {**maker, "clientOrderId": ""}, "clientOrderId"),
        ("/api/orders", {**maker, "status": "all", "cursor": "fx"}, "cursor"),
        ("/api/orders", {**maker, "minSeq": "-1"}, "minSeq"),
    ):
        problem(http.get(path, params=query), "INVALID_FIELD", name)


def test_a_number_beyond_the_last_command_is_waited_for_and_rejected(api, live, http, market):
    maker = Maker()
    api.place(maker.signed(market))
    for path in ("/api/fills", "/api/orders"):
        headers = http.get(path, params={"maker": maker.address}).headers
        applied = int(headers["x-applied-seq"])
        query = {"maker": maker.address, "minSeq": applied}
        assert http.get(path, params=query).status_code == 200
    query["minSeq"] += 1_000
    with httpx.Client(base_url=live.url) as impatient:
        sender = impatient if http is live.http else http
        problem(sender.get("/api/fills", params=query), "RECOVERING")
