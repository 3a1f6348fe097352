"""Unknown names are rejected with the nearest known one, and an order means all that it says."""

import json

import pytest
import websockets.sync.client

from clob.wire.orders import NO_SIGNATURE, OrderBody
from clob_server.app import ROUTES
from clob_server.http.openapi.document import DESCRIBED
from clob_server.orders.resource import KNOWN
from tests.server.api.makers import (
    BUY,
    FAR,
    LONG_AGO,
    ONE,
    SELL,
    ZERO,
    Maker,
    delete,
    good,
    now_ms,
    problem,
)

GUESSES = {
    ("time_in_force", "GTC"): 'did you mean "timeInForce": "GTC"?',
    ("orderType", "FOK"): 'did you mean "timeInForce": "FOK"?',
    ("orderType", "FAK"): 'did you mean "timeInForce": "IOC"?',
    ("type", "MARKET"): "a market order is one at price 99 (buy) or 1 (sell)",
    ("order_type", "limit"): "every order is a limit order",
    ("post_only", True): "did you mean postOnly?",
    ("shares", "5"): "did you mean size?",
    ("clOrdID", "5"): "did you mean clientOrderId?",
    ("expiry", 5): "did you mean expiration?",
    ("fee_rate_bps", 5): "did you mean feeRateBps?",
    ("token_id", "5"): "did you mean tokenId?",
    ("market", "5"): "did you mean marketId?",
    ("owner", "me"): "did you mean maker?",
    ("makerAmuont", "5"): "did you mean makerAmount?",
    ("xyzzy", "?"): "expected averagePrice, cancelReason,",
}


def bodies(alice, market):
    """Return a body of each kind of order by its path."""
    return {"/api/orders": alice.signed(market), "/api/orders/gasless": alice.gasless(market)}


@pytest.mark.parametrize(("given", "words"), GUESSES.items(), ids=lambda each: str(each)[:24])
def test_unknown_field_of_an_order_is_rejected_with_the_nearest(http, market, alice, given, words):
    name, value = given
    for path, body in bodies(alice, market).items():
        rejection = problem(http.post(path, json=body | {name: value}), "INVALID_FIELD", name)
        assert f'unknown field "{name}"' in rejection["detail"]
        assert words in rejection["detail"]
    problem(http.get(f"/api/markets/{market.id}"), "UNKNOWN_MARKET")


def test_order_in_a_field_of_its_own_is_told_where_its_fields_belong(http, market, alice):
    for path, body in bodies(alice, market).items():
        wrapped = {"order": body, "owner": "key", "orderType": "GTC"}
        rejection = problem(http.post(path, json=wrapped), "INVALID_FIELD")
        words = 'unknown field "order"; its fields belong to the body itself'
        assert rejection["detail"] == words


def test_every_unknown_field_is_listed_up_to_ten(http, market, alice):
    body = alice.gasless(market) | {f"x{number}": 0 for number in range(3_000)}
    rejection = problem(http.post("/api/orders/gasless", json=body), "INVALID_FIELD")
    assert [each["path"] for each in rejection["errors"]] == [f"x{number}" for number in range(10)]


def test_long_unknown_name_is_shortened(http, market, alice):
    body = alice.gasless(market) | {"x" * 50_000: 0}
    rejection = problem(http.post("/api/orders/gasless", json=body), "INVALID_FIELD", "x" * 64)
    assert len(rejection["detail"]) < 800


def test_unknown_field_of_a_batch_names_its_order(http, market, alice):
    good_one, bad = alice.gasless(market), alice.gasless(market) | {"tif": "IOC"}
    results = good(http.post("/api/orders/batch", json={"orders": [good_one, bad]}))["results"]
    assert results[0]["success"]
    assert [each["path"] for each in results[1]["errors"]] == ["orders[1].tif"]
    cancel = {"order_id": results[0]["orderId"], "maker": alice.address}
    answer = good(delete(http, "/api/orders/batch", {"orders": [cancel]}))
    (result,) = answer["results"]
    assert result["errors"] == [
        {"path": "orders[0].order_id", "message": 'unknown field "order_id"; did you mean orderId?'}
    ]
    problem(
        http.post("/api/orders/batch", json={"orders": [good_one], "order": 1}),
        "INVALID_FIELD",
        "order",
    )


@pytest.mark.parametrize("path", ["/api/orders/validate", "/api/orders/simulate"])
def test_previews_reject_unknown_fields(http, market, alice, path):
    answer = http.post(path, json=alice.signed(market) | {"post_only": True})
    rejection = good(answer)["refusal"] if "validate" in path else answer.json()
    assert (rejection["code"], rejection["errors"][0]["path"]) == ("INVALID_FIELD", "post_only")


OTHERS = {
    "/api/orders/nonce": ("noncee", "nonce"),
    "/api/orders/delegates": ("is_allowed", "allowed"),
    "/api/gasless/split": ("condition_id", "conditionId"),
    "/api/gasless/merge": ("size", None),
    "/api/gasless/redeem": ("wallet", "user"),
    "/api/gasless/wrap": ("units", None),
    "/api/gasless/unwrap": ("permits", "permit"),
    "/api/gasless/faucet": ("address", "user"),
}


@pytest.mark.parametrize("path", OTHERS)
def test_every_other_body_rejects_unknown_fields(http, path):
    name, meant = OTHERS[path]
    rejection = problem(http.post(path, json={name: 1}), "INVALID_FIELD", name)
    assert meant is None or rejection["detail"].endswith(f"did you mean {meant}?")


def test_unknown_field_of_a_permit_names_the_permit(http, alice):
    body = {
        "user": alice.address, "amount": "1", "conditionId": "0x" + "5c" * 32, "yesTokenId": "1",
        "noTokenId": "2", "permit": {"owner": alice.address},
    }  # fmt: skip
    problem(http.post("/api/gasless/split", json=body), "INVALID_FIELD", "permit.owner")


def test_unknown_field_of_an_operator_is_rejected(production):
    answer = production.operator.post("/api/admin/markets", json={"min_size": "1"})
    rejection = problem(answer, "INVALID_FIELD", "min_size")
    assert rejection["detail"] == 'unknown field "min_size"; did you mean minSize?'
    answer = production.operator.put("/api/admin/limits", json={"engine": {"orderMax": 1}})
    assert (
        "did you mean ordersMax?" in problem(answer, "INVALID_FIELD", "engine.orderMax")["detail"]
    )


def test_cancel_reads_its_fields_and_the_order_of_its_path(http, api, market, alice):
    order_id = api.place(alice.signed(market))["orderId"]
    path, mine = f"/api/orders/{order_id}", {"maker": alice.address}
    problem(delete(http, path, {"owner": alice.address}), "INVALID_FIELD", "owner")
    problem(delete(http, path, mine | {"orderId": "ord_1_other0"}), "INVALID_FIELD", "orderId")
    assert good(delete(http, path, mine | {"orderId": order_id}))["status"] == "cancelled"


# ----- queries -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "route", [each for each in ROUTES if each.path.startswith("/api/")], ids=lambda each: each.name
)
def test_documented_parameters_are_those_that_a_route_takes(route):
    assert [each.name for each in DESCRIBED[route.name].query] == list(route.query)


@pytest.mark.parametrize(("path", "meant"), [
    ("/api/orders?market_id=x", "marketId"), ("/api/orders?pageSize=5", "limit"),
    ("/api/markets?offset=5", "cursor"), ("/api/markets/m/orderbook?token=5", "tokenId"),
    ("/api/markets/m/trades?tokenID=5", "tokenId"),
])  # fmt: skip
def test_unknown_parameter_is_rejected_with_the_nearest(http, path, meant):
    rejection = problem(http.get(path), "INVALID_FIELD")
    assert rejection["detail"].startswith('unknown query parameter "')
    assert rejection["detail"].endswith(f"did you mean {meant}?")


def test_parameter_of_an_order_is_rejected(http, market, alice):
    answer = http.post("/api/orders/gasless?postOnly=true", json=alice.gasless(market))
    problem(answer, "INVALID_FIELD", "postOnly")


def test_probes_and_pages_take_any_query(http):
    for path in ("/health", "/ready", "/docs", "/"):
        assert http.get(f"{path}?cache=1").status_code == 200


# ----- the WebSocket -------------------------------------------------------------------------

MESSAGES = {
    '{"type": "subscribe", "channel": "orderbook", "market": "m"}': "did you mean marketId?",
    '{"type": "subscribe", "channel": "books", "marketId": "m"}': (
        'channel must be one of candles, orderbook, settlement, ticker, user; got "books"'
    ),
    '{"type": "subscribe", "marketId": "m"}': (
        "channel is missing; it must be one of candles, orderbook, settlement, ticker, user"
    ),
    '{"type": "sub"}': 'type must be one of subscribe, unsubscribe, ping, request; got "sub"',
    '{"channel": "orderbook"}': (
        "type is missing; it must be one of subscribe, unsubscribe, ping, request"
    ),
    '{"type": "subscribe", "channel": "orderbook", "marketId": "m", "maker": "0x"}': (
        "maker is for the channels user and settlement, not for orderbook"
    ),
    '{"type": "subscribe", "channel": "user", "maker": "0x", "tokenId": "5"}': (
        "tokenId is for the channels orderbook and candles, not for user"
    ),
    '{"type": "subscribe", "channel": "orderbook", "marketId": "m", "resume": {"sequence": 1}}': (
        'unknown field "resume.sequence"; expected'
    ),
    '{"type": "subscribe", "channel": "user"}': (
        "maker is missing; it is required for the channel user"
    ),
    '{"type": "subscribe", "channel": "orderbook"}': "marketId is missing",
    '{"type": "subscribe", "channel": "orderbook", "marketId": "m", "resume": {}}': (
        "resume.seq is missing; it is required for the channel orderbook"
    ),
    "[]": "the message must be a JSON object; got an array",
}


def test_message_with_an_unknown_name_is_rejected(live):
    with websockets.sync.client.connect(live.ws_url) as socket:
        socket.send('{"type": "ping", "extended": true}')
        assert json.loads(socket.recv())["type"] == "pong"
        for text, words in MESSAGES.items():
            socket.send(text)
            error = json.loads(socket.recv())
            assert (error["type"], error["code"]) == ("error", "INVALID_FIELD")
            assert words in error["message"]


# ----- gasless orders ------------------------------------------------------------------------


def test_gasless_order_expires(http, api, market, alice, bob):
    """An order must not trade after the second that it names."""
    answer = http.post("/api/orders/gasless", json=alice.gasless(market, expiration=LONG_AGO))
    problem(answer, "ORDER_EXPIRED", "expiration")
    soon = now_ms() // 1000 + 1
    order_id = api.gasless(alice.gasless(market, SELL, 50, expiration=soon))["orderId"]
    assert api.order(order_id)["expiration"] == soon
    while good(http.get("/api/time"))["nowS"] <= soon:  # may be behind the clock of the test
        pass
    assert not api.gasless(bob.gasless(market, BUY, 50))["matched"]
    assert (api.order(order_id)["status"], api.order(order_id)["cancelReason"]) == (
        "cancelled", "expired",
    )  # fmt: skip


def test_good_till_date_needs_its_date(http, api, market, alice):
    body = alice.gasless(market, timeInForce="GTD")
    rejection = problem(http.post("/api/orders/gasless", json=body), "INVALID_INSTRUCTION")
    assert rejection["detail"] == "timeInForce GTD needs expiration above 0; got 0"
    assert api.order(api.gasless(body | {"expiration": FAR})["orderId"])["timeInForce"] == "GTD"


def test_gasless_fee_rate_is_the_highest_that_is_charged(production, key_for, alice, bob):
    body = {
        "marketId": "fees", "yesTokenId": "7001", "noTokenId": "7002", "incomingFeeRateBps": 500,
    }  # fmt: skip
    assert production.operator.post("/api/admin/markets", json=body).status_code == 200
    key, http = key_for(alice, bob), production.http

    class Fees:
        id, yes, no = "fees", 7001, 7002

    paid = []
    for terms in ({}, {"feeRateBps": 100}, {"feeRateBps": "0"}):
        for maker, side in ((alice, SELL), (bob, BUY)):
            order = maker.gasless(Fees, side, 50, **(terms if side is BUY else {}))
            good(http.post("/api/orders/gasless", json=order, headers=key))
        paid.append(int(good(http.get("/api/markets/fees/trades"))[0]["buyerFee"]))
    assert paid == [ONE * 500 // 10_000, ONE * 100 // 10_000, 0]
    too_high = bob.gasless(Fees, BUY, 50, feeRateBps=1001)
    answer = http.post("/api/orders/gasless", json=too_high, headers=key)
    problem(answer, "INVALID_FEE_RATE", "feeRateBps")


def test_gasless_nonce_is_that_of_the_maker_or_higher(http, api, market, alice):
    api.post("/api/orders/nonce", alice.nonce(5))
    assert api.order(api.gasless(alice.gasless(market))["orderId"])["nonce"] == "5"
    answer = http.post("/api/orders/gasless", json=alice.gasless(market, nonce="4"))
    problem(answer, "NONCE_TOO_LOW", "nonce")
    kept = api.gasless(alice.gasless(market, nonce=7))["orderId"]
    assert api.post("/api/orders/nonce", alice.nonce(7))["numCancelled"] == 1
    assert api.order(kept)["status"] == "open"


def test_repeated_gasless_order_keeps_its_own_nonce(http, api, market, alice):
    body = alice.gasless(market, clientOrderId="one", nonce=3)
    assert "duplicate" not in api.gasless(body)
    assert api.gasless(body)["duplicate"]
    answer = http.post("/api/orders/gasless", json=body | {"nonce": 4})
    problem(answer, "CLIENT_ID_CONFLICT", "clientOrderId")


NEUTRAL = {
    "signer": ("maker", "0x" + "1" * 40),
    "taker": (ZERO, "0x" + "1" * 40),
    "makerAmount": (str(ONE // 2), str(ONE)),
    "takerAmount": (ONE, ONE // 2),
    "remaining": (str(ONE), "0"),
    "filledAmount": ("0", "1"),
    "filledTokens": ("0", 0),
    "filledCollateral": ("0", "5"),
    "status": ("open", "filled"),
    "signatureType": (0, 2),
    "signature": (NO_SIGNATURE, "0x" + "1" * 130),
    "salt": ("1700000000-abc", 1.5),
    "averagePrice": (None, "50"),
    "orderHash": (None, "0x" + "1" * 64),
    "cancelReason": (None, "expired"),
}


@pytest.mark.parametrize("name", NEUTRAL)
def test_gasless_order_takes_a_field_of_the_resource_in_its_neutral_value(
    http, api, market, alice, name
):
    neutral, other = NEUTRAL[name]
    neutral = alice.address if neutral == "maker" else neutral
    assert api.gasless(alice.gasless(market, **{name: neutral}))["success"]
    answer = http.post("/api/orders/gasless", json=alice.gasless(market, **{name: other}))
    problem(answer, "INVALID_FIELD", name)


def test_smart_wallet_that_may_not_be_one_is_rejected(http, market, alice):
    answer = http.post("/api/orders/gasless", json=alice.gasless(market, smartWallet=ZERO))
    problem(answer, "INVALID_ADDRESS", "smartWallet")


# ----- orders sent back ----------------------------------------------------------------------


def test_known_fields_are_those_of_the_resource_and_the_options():
    assert set(OrderBody.__struct_encode_fields__) <= KNOWN


def orders_of_many_kinds(api, market, alice, bob):
    """Place orders with every status; return their makers and ids."""
    ids = [
        api.place(alice.signed(market, SELL, 60, 3 * ONE, also={"clientOrderId": "mine"})),
        api.place(alice.signed(market, SELL, 70, ONE, expiration_s=FAR, nonce=4, fee_rate_bps=9)),
        api.place(alice.signed(market, BUY, 20, ONE, also={"postOnly": True})),
        api.place(bob.signed(market, BUY, 65, ONE, also={"timeInForce": "IOC"})),
        api.place(bob.signed(market, BUY, 60, 2 * ONE, also={"timeInForce": "FOK"})),
        api.place(bob.signed(market, BUY, 30, ONE, signature_type=0)),
        api.place(bob.signed(market, SELL, 31, ONE, also={"timeInForce": "GTD"}, expiration_s=FAR)),
    ]
    cancelled = ids[1]["orderId"]
    assert api.cancel(cancelled, alice)["status"] == "cancelled"
    return [each["orderId"] for each in ids]


def test_signed_order_can_be_sent_back_as_it_was_returned(http, api, market, alice, bob):
    for order_id in orders_of_many_kinds(api, market, alice, bob):
        order = api.order(order_id)
        again = api.place(order)
        assert (again["orderId"], again["duplicate"]) == (order_id, True)
        preview = good(http.post("/api/orders/validate", json=order))
        assert preview["refusal"]["code"] == "ORDER_ALREADY_USED"


def test_reduced_order_can_be_sent_back(api, market, alice):
    resting = api.place(alice.signed(market, SELL, 60, 3 * ONE))["orderId"]
    api.place(alice.signed(market, BUY, 60, ONE, also={"selfTrade": "DECREMENT"}))
    order = api.order(resting)
    assert order["size"] == str(2 * ONE)
    assert api.place(order)["duplicate"]


def test_gasless_order_can_be_sent_back_while_it_is_unfilled(http, api, market, alice, bob):
    order = api.order(api.gasless(alice.gasless(market, SELL, 60))["orderId"])
    again = api.order(api.gasless(order)["orderId"])
    assert again["id"] != order["id"]
    ignored = {"id": "", "timestamp": 0}
    assert again | ignored == order | ignored
    api.gasless(bob.gasless(market, BUY, 60))
    answer = http.post("/api/orders/gasless", json=api.order(order["id"]))
    problem(answer, "INVALID_FIELD")


def test_output_fields_of_a_new_signed_order_must_agree_with_it(http, api, market, alice):
    body = alice.signed(market, BUY, 50, 2 * ONE)
    for name, value in {"price": 60, "size": str(ONE)}.items():
        problem(http.post("/api/orders", json=body | {name: value}), "INVALID_FIELD", name)
    assert api.place(body | {"price": 50, "size": str(2 * ONE), "status": "open", "id": "x"})


def test_smart_wallet_of_a_signed_order_is_rejected_unless_it_is_the_maker(
    http, api, market, alice
):
    body = alice.signed(market) | {"smartWallet": Maker().address}
    rejection = problem(http.post("/api/orders", json=body), "INVALID_FIELD", "smartWallet")
    assert "the signature does not cover it" in rejection["detail"]
    for wallet in (alice.address.lower(), "", None):
        assert api.place(alice.signed(market) | {"smartWallet": wallet})["success"]


def test_order_at_the_route_of_the_other_kind_is_told_the_right_one(http, api, market, alice):
    rejection = problem(
        http.post("/api/orders", json=alice.gasless(market)), "INVALID_FIELD", "makerAmount"
    )
    assert "goes to POST /api/orders/gasless" in rejection["detail"]
    rejection = problem(
        http.post("/api/orders/gasless", json=alice.signed(market)), "INVALID_FIELD", "price"
    )
    assert "goes to POST /api/orders" in rejection["detail"]
    placeholder = alice.signed(market) | {"signature": NO_SIGNATURE}
    rejection = problem(http.post("/api/orders", json=placeholder), "INVALID_SIGNATURE")
    assert "only zeros" in rejection["detail"]
