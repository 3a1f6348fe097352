"""Orders and trades of an unmodified py-clob-client against a real server."""

import time

import httpx
import pytest

from clob import CancelSome
from clob.signing import Domain, SignedOrder, order_hash
from clob_server.dialects.polymarket.wallets import EXCHANGES, wallets_of
from tests.server.api.test_switches import logged
from tests.server.dialects.polymarket import (
    CHAIN_ID,
    TOKEN,
    HiddenMarket,
    Market,
    client_of,
    dialect_server,
    error_of,
    operator,
)
from tests.signings import KEYS

types = pytest.importorskip(
    "py_clob_client.clob_types", reason="py-clob-client is not installed"
)  # fmt: skip


def limit(client, token, side, price, size, **more):
    """Return a signed order."""
    return client.create_order(types.OrderArgs(token, price, size, side, **more))


def post(client, token, side, price, size, kind="GTC", *, post_only=False, **more):
    """Post an order; return the answer."""
    return client.post_order(limit(client, token, side, price, size, **more), kind, post_only)


def test_order_that_rests_is_live_and_read_by_both_interfaces(alice, market):
    answer = post(alice, market.yes, "BUY", 0.52, 12.34)
    assert answer == {
        "success": True,
        "errorMsg": "",
        "orderID": answer["orderID"],
        "transactionsHashes": [],
        "status": "live",
        "makingAmount": "",
        "takingAmount": "",
    }
    order = alice.get_order(answer["orderID"])
    condition = alice.get_order_book(market.yes).market
    assert order | {"created_at": 0} == {
        "id": answer["orderID"],
        "status": "LIVE",
        "owner": alice.creds.api_key,
        "maker_address": alice.get_address(),
        "market": condition,
        "asset_id": market.yes,
        "side": "BUY",
        "original_size": "12.34",
        "size_matched": "0",
        "price": "0.52",
        "associate_trades": [],
        "outcome": "Yes",
        "created_at": 0,
        "expiration": "0",
        "order_type": "GTC",
    }
    [own] = market.orders()
    assert (own["orderHash"], own["price"]) == (answer["orderID"], 52)
    assert own["size"] == str(1234 * TOKEN // 100)
    assert own["makerAmount"] == str(1234 * 52 * TOKEN // 10_000)
    assert alice.get_order_book(market.yes).bids[-1].size == "12.34"


def test_id_of_an_order_is_the_hash_that_was_signed(alice, market):
    signed = limit(alice, market.yes, "SELL", 0.6, 3)
    answer = alice.post_order(signed)
    domain = Domain("Polymarket CTF Exchange", "1", CHAIN_ID, EXCHANGES[CHAIN_ID])
    assert (
        answer["orderID"] == f"0x{order_hash(SignedOrder.from_json(signed.dict()), domain).hex()}"
    )
    again = alice.post_order(signed)
    assert (again["orderID"], again["status"]) == (answer["orderID"], "live")
    assert len(market.orders()) == 1


def test_orders_of_both_interfaces_trade_with_each_other(alice, market):
    market.place(1, 40, 5)
    answer = post(alice, market.yes, "BUY", 0.45, 8)
    assert answer["status"] == "matched"
    assert (answer["makingAmount"], answer["takingAmount"]) == ("2", "5")
    order = alice.get_order(answer["orderID"])
    assert (order["status"], order["original_size"], order["size_matched"]) == ("LIVE", "8", "5")
    market.place(1, 45, 3)
    assert alice.get_order(answer["orderID"])["status"] == "MATCHED"
    [first, second] = market.live.http.get(f"/api/markets/{market.name}/trades").json()
    assert (first["price"], second["price"], second["buyer"]) == (45, 40, alice.get_address())


def test_gtd_order_keeps_its_expiration(alice, market):
    expiration = int(time.time()) + 600  # noqa: TID251 - the server uses this clock
    answer = post(alice, market.no, "BUY", 0.1, 5, "GTD", expiration=expiration)
    order = alice.get_order(answer["orderID"])
    assert (order["order_type"], order["expiration"]) == ("GTD", str(expiration))
    assert market.orders()[0]["expiration"] == expiration
    assert order["outcome"] == "No"


def test_gtd_order_without_an_expiration_is_rejected(alice, market):
    signed = limit(alice, market.yes, "BUY", 0.1, 5)
    assert error_of(alice.post_order, signed, "GTD")[0] == 422
    assert market.orders() == []


def test_fok_market_order_trades_whole_or_is_rejected(alice, bob, market):
    post(bob, market.yes, "SELL", 0.5, 10)
    args = types.MarketOrderArgs(market.yes, 3, "BUY")
    answer = alice.post_order(alice.create_market_order(args), "FOK")
    assert (answer["status"], answer["makingAmount"], answer["takingAmount"]) == (
        "matched", "3", "6"
    )  # fmt: skip
    args = types.MarketOrderArgs(market.yes, 30, "BUY", price=0.5)
    status, text = error_of(alice.post_order, alice.create_market_order(args), "FOK")
    assert status == 422
    assert "can trade at 50 or better" in text
    assert [each["remaining"] for each in market.orders()] == [str(4 * TOKEN)]


def test_fak_market_order_trades_what_there_is(alice, bob, market):
    post(bob, market.yes, "BUY", 0.37, 4)
    args = types.MarketOrderArgs(market.yes, 10, "SELL", price=0.3, order_type="FAK")
    answer = alice.post_order(alice.create_market_order(args), "FAK")
    assert (answer["status"], answer["makingAmount"], answer["takingAmount"]) == (
        "matched", "4", "1.48"
    )  # fmt: skip
    assert market.orders() == []
    order = alice.get_order(answer["orderID"])
    assert (order["status"], order["size_matched"], order["order_type"]) == ("CANCELED", "4", "FAK")
    answer = alice.post_order(alice.create_market_order(args), "FAK")
    assert (answer["status"], answer["makingAmount"]) == ("unmatched", "")


@pytest.mark.parametrize("price", [0.01, 0.07, 0.29, 0.33, 0.57, 0.58, 0.99])
def test_market_order_keeps_its_price(alice, market, price):
    """Its amounts have few decimals, so their quotient is not exactly the price."""
    args = types.MarketOrderArgs(market.yes, 100, "BUY", price=price)
    args.order_type = "FAK"
    answer = alice.post_order(alice.create_market_order(args), "FAK")
    assert float(alice.get_order(answer["orderID"])["price"]) == price


def test_post_only_order_that_would_trade_is_rejected(alice, market):
    market.place(1, 40, 5)
    signed = limit(alice, market.yes, "BUY", 0.4, 1)
    assert error_of(alice.post_order, signed, "GTC", True)[0] == 422
    assert post(alice, market.yes, "BUY", 0.39, 1, post_only=True)["status"] == "live"


def test_several_orders_get_a_result_each(alice, market):
    good, crossing = (
        limit(alice, market.yes, "BUY", 0.3, 5),
        limit(alice, market.yes, "SELL", 0.3, 2),
    )
    wrong = limit(alice, market.yes, "BUY", 0.3, 5)
    wrong.signature = good.signature
    answers = alice.post_orders(
        [types.PostOrdersArgs(each, "GTC") for each in (good, wrong, crossing)]
    )
    assert [each["status"] for each in answers] == ["live", "", "matched"]
    assert [each["success"] for each in answers] == [True, False, True]
    assert "signature" in answers[1]["errorMsg"]
    assert alice.get_order(answers[0]["orderID"])["size_matched"] == "2"
    assert alice.get_order(answers[2]["orderID"])["status"] == "MATCHED"
    again = alice.post_orders([types.PostOrdersArgs(good, "GTC")])
    assert again[0]["orderID"] == answers[0]["orderID"]


def test_too_many_orders_at_once_are_rejected(alice, market):
    orders = [types.PostOrdersArgs(limit(alice, market.yes, "BUY", 0.3, 5))] * 21
    assert error_of(alice.post_orders, orders)[0] == 422
    assert error_of(alice.post_orders, [])[0] == 422


def test_one_order_is_cancelled_once_and_by_its_wallet_only(alice, bob, market):
    order_id = post(alice, market.yes, "BUY", 0.3, 5)["orderID"]
    answer = bob.cancel(order_id)
    assert answer["canceled"] == []
    assert "not found" in answer["not_canceled"][order_id]
    assert alice.cancel(order_id) == {"canceled": [order_id], "not_canceled": {}}
    assert alice.get_order(order_id)["status"] == "CANCELED"
    answer = alice.cancel(order_id)
    assert answer == {
        "canceled": [], "not_canceled": {order_id: "the order is cancelled already"}
    }  # fmt: skip
    assert market.orders() == []


def test_several_orders_are_cancelled(alice, market):
    ids = [post(alice, market.yes, "BUY", 0.3, size)["orderID"] for size in range(1, 24)]
    answer = alice.cancel_orders([*ids, "0x12"])
    assert answer["canceled"] == ids
    assert list(answer["not_canceled"]) == ["0x12"]
    assert market.orders() == []


def test_orders_of_a_market_or_token_are_cancelled(alice, bob, market):
    ids = {token: post(alice, token, "BUY", 0.3, 5)["orderID"] for token in (market.yes, market.no)}
    kept = post(bob, market.yes, "BUY", 0.3, 5)["orderID"]
    assert alice.cancel_market_orders(asset_id=market.no)["canceled"] == [ids[market.no]]
    condition = alice.get_order_book(market.yes).market
    assert alice.cancel_market_orders(market=condition)["canceled"] == [ids[market.yes]]
    assert [each["orderHash"] for each in market.orders()] == [kept]
    assert error_of(alice.cancel_market_orders)[0] == 422
    assert error_of(alice.cancel_market_orders, "0x12")[0] == 404


def test_all_orders_of_a_wallet_are_cancelled(alice, bob, market):
    other = Market(market.live)
    kept = post(bob, market.yes, "BUY", 0.2, 5)["orderID"]
    ids = {post(alice, each.yes, "BUY", 0.3, 5)["orderID"] for each in (market, other)}
    assert ids <= set(alice.cancel_all()["canceled"])
    assert alice.get_orders() == []
    assert kept in {each["id"] for each in bob.get_orders()}
    assert alice.cancel_all() == {"canceled": [], "not_canceled": {}}


def test_orders_of_all_makers_of_a_wallet_are_cancelled_by_a_command_each(tmp_path):
    with dialect_server(tmp_path) as live:
        market, alice, bob = Market(live), client_of(live, KEYS[0]), client_of(live, KEYS[1])
        owner, _, safe = wallets_of(alice.get_address())
        clients = [alice, client_of(live, KEYS[0], signature_type=2, funder=safe)]
        ids = [
            post(client, market.yes, "BUY", 0.3, size)["orderID"]
            for size in range(1, 13)
            for client in clients
        ]
        kept = post(bob, market.yes, "BUY", 0.3, 5)["orderID"]
        assert alice.cancel_market_orders(asset_id=market.no)["canceled"] == []
        assert alice.cancel_market_orders(asset_id="12")["canceled"] == []
        assert alice.cancel_all() == {"canceled": ids, "not_canceled": {}}
        again = [post(alice, token, "BUY", 0.3, 5)["orderID"] for token in (market.yes, market.no)]
        assert alice.cancel_market_orders(asset_id=market.yes)["canceled"] == again[:1]
        condition = alice.get_order_book(market.no).market
        assert alice.cancel_market_orders(market=condition)["canceled"] == again[1:]
        assert [each["orderHash"] for each in market.orders()] == [kept]
        assert live.stop() == 0
    commands = [each for each in logged(tmp_path) if type(each) is CancelSome]
    assert [(each.maker, each.market, each.token) for each in commands] == [
        (owner, None, None),
        (safe, None, None),
        (owner, market.name, market.yes),
        (owner, market.name, None),
    ]


def test_orders_of_a_halted_market_are_left_with_the_reason(live):
    carol, open_market, halted = client_of(live, KEYS[2]), Market(live), Market(live)
    ids = [post(carol, each.yes, "BUY", 0.3, 5)["orderID"] for each in (halted, open_market)]
    condition = carol.get_order_book(halted.yes).market
    path = f"/api/admin/markets/{halted.name}"
    assert live.http.post(f"{path}/halt", headers=operator(live)).status_code == 200
    left = {ids[0]: f"market {halted.name} allows no cancels now"}
    assert carol.cancel_market_orders(condition) == {"canceled": [], "not_canceled": left}
    assert carol.cancel_all() == {"canceled": ids[1:], "not_canceled": left}
    assert live.http.post(f"{path}/open", headers=operator(live)).status_code == 200
    assert carol.cancel_all() == {"canceled": ids[:1], "not_canceled": {}}


def test_orders_of_markets_that_the_dialect_does_not_show_are_left(live):
    carol, hidden, shown = client_of(live, KEYS[2]), HiddenMarket(live), Market(live)
    left = hidden.place(0, 30, 5, maker=carol.get_address())
    order_id = post(carol, shown.yes, "BUY", 0.3, 5)["orderID"]
    assert carol.cancel_all() == {"canceled": [order_id], "not_canceled": {}}
    assert [each["id"] for each in hidden.orders()] == [left]
    hidden.cancel(left, carol.get_address())


def test_open_orders_are_listed_by_market_token_and_id(alice, market):
    first = post(alice, market.yes, "BUY", 0.3, 5)["orderID"]
    second = post(alice, market.no, "SELL", 0.6, 5)["orderID"]
    condition = alice.get_order_book(market.yes).market
    listed = alice.get_orders(types.OpenOrderParams(market=condition))
    assert [each["id"] for each in listed] == [first, second]
    assert listed[0] == alice.get_order(first)
    for params, expected in (
        ({"asset_id": market.no}, [second]),
        ({"id": first}, [first]),
        ({"market": condition, "id": "0x12"}, []),
    ):
        found = alice.get_orders(types.OpenOrderParams(**params))
        assert [each["id"] for each in found] == expected


def test_order_of_another_wallet_is_unknown(alice, bob, market):
    order_id = post(alice, market.yes, "BUY", 0.3, 5)["orderID"]
    assert error_of(bob.get_order, order_id)[0] == 404
    assert error_of(alice.get_order, "0x12")[0] == 404
    assert bob.get_orders(types.OpenOrderParams(id=order_id)) == []


def test_trades_name_both_orders_and_the_role_of_the_wallet(alice, bob, market):
    resting = post(bob, market.yes, "SELL", 0.5, 10)["orderID"]
    taken = post(alice, market.yes, "BUY", 0.55, 4)["orderID"]
    condition = alice.get_order_book(market.yes).market
    [trade] = alice.get_trades(types.TradeParams(market=condition))
    assert trade["trader_side"] == "TAKER"
    assert (trade["taker_order_id"], trade["owner"]) == (taken, alice.creds.api_key)
    assert (trade["side"], trade["price"], trade["size"]) == ("BUY", "0.5", "4")
    assert (trade["asset_id"], trade["outcome"]) == (market.yes, "Yes")
    assert (trade["maker_address"], trade["status"]) == (alice.get_address(), "CONFIRMED")
    assert trade["maker_orders"] == [
        {
            "order_id": resting,
            "owner": "",
            "maker_address": bob.get_address(),
            "matched_amount": "4",
            "price": "0.5",
            "fee_rate_bps": "0",
            "asset_id": market.yes,
            "outcome": "Yes",
            "side": "SELL",
        }
    ]
    [same] = bob.get_trades(types.TradeParams(market=condition))
    assert (same["id"], same["trader_side"], same["owner"]) == (trade["id"], "MAKER", "")
    assert same["maker_orders"][0]["owner"] == bob.creds.api_key
    assert client_of(market.live, KEYS[2]).get_trades() == []


def test_trades_are_listed_newest_first_and_filtered(alice, market):
    market.place(1, 50, 10)
    for size in (1, 2, 3):
        post(alice, market.yes, "BUY", 0.5, size)
    found = alice.get_trades(types.TradeParams(asset_id=market.yes))
    assert [each["size"] for each in found] == ["3", "2", "1"]
    assert alice.get_trades()[:3] == found
    now_s = int(found[0]["match_time"])
    for params, count in (
        ({"id": found[1]["id"]}, 1),
        ({"maker_address": alice.get_address()}, 3),
        ({"maker_address": "0x12"}, 0),
        ({"after": now_s - 60}, 3),
        ({"after": now_s + 60}, 0),
        ({"before": now_s - 60}, 0),
        ({"before": now_s + 60}, 3),
    ):
        chosen = alice.get_trades(types.TradeParams(asset_id=market.yes, **params))
        assert len(chosen) == count, params


def test_wallet_signs_for_its_proxy_and_its_safe(live, market):
    owner = client_of(live, KEYS[0]).get_address()
    for kind in (1, 2):
        wallet = wallets_of(owner)[kind]
        client = client_of(live, KEYS[0], signature_type=kind, funder=wallet)
        order_id = post(client, market.yes, "BUY", 0.3, 5)["orderID"]
        assert client.get_order(order_id)["maker_address"] == wallet
        assert market.orders()[0]["maker"] == wallet
        assert client.cancel(order_id)["canceled"] == [order_id]
    other = client_of(live, KEYS[0], signature_type=2, funder=wallets_of(owner)[1])
    status, text = error_of(post, other, market.yes, "BUY", 0.3, 5)
    assert status == 422
    assert "sign" in text


def test_order_that_does_not_belong_to_the_credentials_is_rejected(alice, bob, market):
    signed = limit(alice, market.yes, "BUY", 0.3, 5)
    assert "order.signer must be the wallet in POLY_ADDRESS" in error_of(bob.post_order, signed)[1]
    key = alice.creds.api_key
    alice.creds.api_key = bob.creds.api_key
    assert error_of(alice.post_order, signed)[0] == 401
    alice.creds.api_key = key
    signed.order["makerAmount"] += 10**4
    assert "signature" in error_of(alice.post_order, signed)[1]
    assert market.orders() == []


def test_order_of_unknown_fields_types_or_tokens_is_rejected_in_words(alice, market):
    from py_clob_client.clob_types import RequestArgs  # noqa: PLC0415
    from py_clob_client.headers.headers import create_level_2_headers  # noqa: PLC0415

    signed = limit(alice, market.yes, "BUY", 0.3, 5).dict()
    whole = {"order": signed, "owner": alice.creds.api_key, "orderType": "GTC"}
    for changed, words in (
        ({"orderType": "IOC"}, "orderType must be one of GTC, GTD, FOK, FAK"),
        ({"postOnly": 1}, "postOnly must be true or false"),
        ({"owner": "me"}, "owner must be the key in POLY_API_KEY"),
        ({"order": []}, "order must be the signed order"),
        ({"tif": "GTC"}, "unknown field"),
        ({"order": signed | {"timestamp": "1"}}, "unknown field"),
        ({"order": signed | {"makerAmount": 1.5}}, "makerAmount"),
    ):
        body = httpx.Request("POST", "http://x", json=whole | changed).content.decode()
        args = RequestArgs("POST", "/order", None, body)
        headers = create_level_2_headers(alice.signer, alice.creds, args)
        headers["Content-Type"] = "application/json"
        answer = market.live.http.post("/order", content=body, headers=headers)
        assert answer.status_code == 422, changed
        assert words in answer.json()["error"]
    assert market.orders() == []


def test_balances_scores_and_notifications_have_neutral_answers(alice, market):
    params = types.BalanceAllowanceParams("COLLATERAL")
    assert alice.get_balance_allowance(params)["balance"] == str(10**15)
    assert alice.update_balance_allowance(params)["allowance"] == str(10**15)
    order_id = post(alice, market.yes, "BUY", 0.3, 5)["orderID"]
    assert alice.is_order_scoring(types.OrderScoringParams(order_id)) == {"scoring": False}
    assert alice.are_orders_scoring(types.OrdersScoringParams([order_id])) == {order_id: False}
    assert alice.get_notifications() == []
    assert alice.drop_notifications(types.DropNotificationParams(["1"])) == "OK"


def test_request_without_credentials_reads_and_changes_nothing(live):
    for method, path in (
        ("POST", "/order"), ("DELETE", "/order"), ("POST", "/orders"), ("DELETE", "/orders"),
        ("DELETE", "/cancel-all"), ("DELETE", "/cancel-market-orders"), ("GET", "/data/orders"),
        ("POST", "/v1/heartbeats"),
        ("GET", "/data/order/0x12"), ("GET", "/data/trades"), ("GET", "/balance-allowance"),
        ("GET", "/balance-allowance/update"), ("GET", "/order-scoring"),
        ("POST", "/orders-scoring"),
        ("GET", "/notifications"), ("DELETE", "/notifications"), ("GET", "/auth/api-keys"),
        ("DELETE", "/auth/api-key"), ("POST", "/auth/api-key"), ("GET", "/auth/derive-api-key"),
    ):  # fmt: skip
        answer = live.http.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (401, "API_KEY_REQUIRED"), path


def test_orders_and_trades_survive_a_restart(tmp_path):
    with dialect_server(tmp_path) as live:
        market, alice = Market(live), client_of(live, KEYS[0])
        market.place(1, 50, 2)
        order_id = post(alice, market.yes, "BUY", 0.5, 5)["orderID"]
        order, trades = alice.get_order(order_id), alice.get_trades()
        assert live.stop() == 0
    with dialect_server(tmp_path) as live:
        alice = client_of(live, KEYS[0])
        assert alice.get_order(order_id) == order
        assert alice.get_trades() == trades
        assert alice.cancel_all() == {"canceled": [order_id], "not_canceled": {}}
