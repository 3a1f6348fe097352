"""The user channel of the polymarket dialect: news of wallets that py-clob-client trades for."""

import pytest

from tests.server.dialects.polymarket import (
    Market,
    Socket,
    client_of,
    credentials_of,
    dialect_server,
    operator,
)
from tests.server.dialects.test_orders import limit, post, types
from tests.signings import KEYS


def follow(socket, client, *markets):
    """Subscribe to the wallet of a client."""
    socket.send(auth=credentials_of(client), markets=markets, type="user")
    assert socket.news() == []


def condition_of(client, market):
    return client.get_order_book(market.yes).market


def kinds(messages):
    """Return what each message is about: an order with its change, or a trade with its status."""
    return [
        (each["type"], each["id"])
        if each["event_type"] == "order"
        else (each["status"], each["taker_order_id"])
        for each in messages
    ]


def test_order_is_placed_and_cancelled(live, alice, market):
    with Socket(live, "user") as socket:
        follow(socket, alice, condition_of(alice, market))
        order_id = post(alice, market.yes, "BUY", 0.4, 10)["orderID"]
        [placed] = socket.news()
        assert placed | {"timestamp": "", "created_at": 0} == {
            "event_type": "order",
            "type": "PLACEMENT",
            "id": order_id,
            "owner": alice.creds.api_key,
            "order_owner": alice.creds.api_key,
            "market": condition_of(alice, market),
            "asset_id": market.yes,
            "side": "BUY",
            "price": "0.4",
            "original_size": "10",
            "size_matched": "0",
            "outcome": "Yes",
            "associate_trades": [],
            "timestamp": "",
            "status": "LIVE",
            "maker_address": alice.get_address(),
            "order_type": "GTC",
            "expiration": "0",
            "created_at": 0,
        }
        alice.cancel(order_id)
        [cancelled] = socket.news()
        assert (cancelled["type"], cancelled["status"]) == ("CANCELLATION", "CANCELED")


def test_both_sides_of_a_trade_receive_it_with_their_orders(live, alice, bob, market):
    resting = post(alice, market.yes, "BUY", 0.4, 10)["orderID"]
    with Socket(live, "user") as hers, Socket(live, "user") as his:
        follow(hers, alice)
        follow(his, bob)
        incoming = post(bob, market.yes, "SELL", 0.3, 4)["orderID"]
        matched, confirmed, updated = hers.news()
        assert kinds((matched, confirmed, updated)) == [
            ("MATCHED", incoming),
            ("CONFIRMED", incoming),
            ("UPDATE", resting),
        ]
        assert (updated["size_matched"], updated["original_size"]) == ("4", "10")
        [listed] = alice.get_trades(types.TradeParams(asset_id=market.yes))
        assert matched["id"] == listed["id"]
        assert matched["type"] == "TRADE"
        assert (matched["side"], matched["size"], matched["price"]) == ("SELL", "4", "0.4")
        assert (matched["owner"], matched["trader_side"]) == (alice.creds.api_key, "MAKER")
        assert matched["trade_owner"] == bob.creds.api_key
        [maker_order] = matched["maker_orders"]
        assert (maker_order["order_id"], maker_order["matched_amount"]) == (resting, "4")
        assert maker_order["owner"] == alice.creds.api_key
        matched, _, updated = his.news()
        assert (matched["owner"], matched["trader_side"]) == (bob.creds.api_key, "TAKER")
        assert matched["maker_orders"][0]["owner"] == alice.creds.api_key
        assert kinds([updated]) == [("UPDATE", incoming)]
        assert updated["status"] == "MATCHED"


def test_order_that_trades_and_rests_is_placed_and_updated(live, alice, market):
    market.place(1, 40, 5)
    with Socket(live, "user") as socket:
        follow(socket, alice)
        order_id = post(alice, market.yes, "BUY", 0.45, 8)["orderID"]
        assert kinds(socket.news()) == [
            ("MATCHED", order_id),
            ("CONFIRMED", order_id),
            ("PLACEMENT", order_id),
            ("UPDATE", order_id),
        ]


def test_mint_names_the_token_of_each_order(live, alice, bob):
    market = Market(live, complementary=True)
    resting = post(alice, market.yes, "BUY", 0.6, 5)["orderID"]
    with Socket(live, "user") as socket:
        follow(socket, alice)
        post(bob, market.no, "BUY", 0.4, 5)
        matched, _, updated = socket.news()
        assert (matched["asset_id"], matched["outcome"], matched["price"]) == (
            market.no, "No", "0.4"
        )  # fmt: skip
        [order] = matched["maker_orders"]
        assert (order["asset_id"], order["price"], order["order_id"]) == (
            market.yes, "0.6", resting
        )  # fmt: skip
        assert (updated["type"], updated["status"]) == ("UPDATE", "MATCHED")


def test_only_the_markets_that_were_asked_for_are_followed(live, alice, market):
    other = Market(live)
    with Socket(live, "user") as socket:
        follow(socket, alice, condition_of(alice, market))
        post(alice, other.yes, "BUY", 0.4, 10)
        assert socket.news() == []
        socket.send(markets=[condition_of(alice, other)], operation="subscribe")
        post(alice, other.yes, "BUY", 0.41, 10)
        socket.send(markets=[condition_of(alice, market)], operation="unsubscribe")
        post(alice, market.yes, "BUY", 0.42, 10)
        assert [each["price"] for each in socket.news()] == ["0.41"]
        socket.send(markets=[condition_of(alice, other)], operation="unsubscribe")
        post(alice, other.yes, "BUY", 0.43, 10)
        assert socket.news() == []


def test_news_of_other_wallets_are_not_sent(live, alice, bob, market):
    with Socket(live, "user") as socket:
        follow(socket, alice)
        bob.cancel(post(bob, market.yes, "BUY", 0.4, 10)["orderID"])
        assert socket.news() == []


def test_news_of_several_orders_of_one_request(live, alice, market):
    with Socket(live, "user") as socket:
        follow(socket, alice)
        orders = [
            types.PostOrdersArgs(limit(alice, market.yes, "BUY", price, 5))
            for price in (0.2, 0.3, 0.4)
        ]
        ids = [each["orderID"] for each in alice.post_orders(orders)]
        assert kinds(socket.news()) == [("PLACEMENT", each) for each in ids]
        alice.cancel_orders(ids[:2])
        alice.cancel_all()
        news = kinds(socket.news())
        assert news[:2] == [("CANCELLATION", each) for each in ids[:2]]
        assert ("CANCELLATION", ids[2]) in news[2:]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"secret": "c2VjcmV0"}, "INVALID_API_KEY: auth has no active credentials of a wallet"),
        ({"apiKey": "1"}, "INVALID_API_KEY: auth has no active credentials of a wallet"),
        ({"passphrase": "00"}, "INVALID_API_KEY: auth has no active credentials of a wallet"),
        ({"secret": None}, "API_KEY_REQUIRED: auth must have apiKey, secret, passphrase"),
    ],
)
def test_credentials_are_checked(live, alice, change, reason):
    with Socket(live, "user") as socket:
        socket.send(auth=credentials_of(alice) | change, markets=[], type="user")
        code, given = socket.closed()
        assert code == 1008
        assert given.startswith(reason)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": "user", "markets": []}, "API_KEY_REQUIRED: "),
        ({"type": "market"}, "INVALID_FIELD: type must be user on this path"),
        ({"type": "user", "auth": "me"}, "API_KEY_REQUIRED: "),
    ],
)
def test_request_without_credentials_closes_the_connection(live, fields, reason):
    with Socket(live, "user") as socket:
        socket.send(**fields)
        assert socket.closed()[1].startswith(reason)


def test_unknown_market_closes_the_connection(live, alice):
    with Socket(live, "user") as socket:
        socket.send(auth=credentials_of(alice), markets=["0x12"], type="user")
        assert socket.closed() == (1008, 'UNKNOWN_MARKET: there is no market "0x12"')


def test_deleted_credentials_close_their_connections(live):
    client = client_of(live, KEYS[3])
    with Socket(live, "user") as socket:
        follow(socket, client)
        client.delete_api_key()
        assert socket.closed() == (1008, "INVALID_API_KEY: the credentials were deleted")


def test_client_is_closed_rather_than_left_without_an_order(tmp_path):
    with dialect_server(tmp_path) as live:
        alice, market = client_of(live, KEYS[0]), Market(live)
        for price in (0.2, 0.3, 0.4):
            post(alice, market.yes, "BUY", price, 5)
        headers = operator(live)
        limits = live.http.get("/api/admin/limits", headers=headers).json()["engine"]
        body = {"engine": limits | {"finishedMax": 1}}
        answer = live.http.put("/api/admin/limits", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        with Socket(live, "user") as socket:
            follow(socket, alice)
            alice.cancel_all()
            assert socket.closed() == (1012, "more orders finished at once than the server keeps")
