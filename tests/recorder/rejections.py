"""Requests that a server rejects, over HTTP and on the WebSocket, for the recorder of behaviour."""

import json
from collections.abc import Iterator
from typing import Any

from websockets.exceptions import ConnectionClosed

from clob.signing import SignedCancel, SignedSetDelegate, SignedSetNonce, sign
from tests.recorder.session import (
    ADDRESSES,
    ALICE,
    BOB,
    BUY,
    CAROL,
    FAR_S,
    KEYS,
    LONG_AGO_S,
    ORDERS,
    SELL,
    Feed,
    Session,
    subscribe,
)

GASLESS, BATCH = f"{ORDERS}/gasless", f"{ORDERS}/batch"
WRONG_GASLESS = {
    "maker": ("0x12", 5, None, ""),
    "tokenId": ("abc", -1, "999", None, 1.5),
    "side": (2, "BUY", None, True),
    "price": (0, 100, 50.5, "x", True, None),
    "size": ("0", "-1", "1.5", str(2**96), "abc", None, True),
    "marketId": (None, "no/such", 5, ""),
    "timeInForce": ("GTX", 1, "FOK", "GTD"),
    "postOnly": ("yes", 1),
    "selfTrade": ("SOMETIMES", 0),
    "clientOrderId": ("", "x" * 65, 7),
    "deadlineMs": ("soon", 1, -1),
    "smartWallet": ("0x12", 5),
    "expiration": (LONG_AGO_S, -1, "never"),
    "nonce": ("-1", "x"),
    "feeRateBps": (1_001, -1, "x"),
}
"""Fields of a gasless order, and values that most of the time are wrong."""

WRONG_SIGNED = {
    "salt": (-1, "x", None, 2**256),
    "maker": ("0x12", None, ADDRESSES[BOB]),
    "signer": (ADDRESSES[BOB], None, "x"),
    "taker": (ADDRESSES[BOB], "x"),
    "tokenId": ("x", "102", None),
    "makerAmount": ("0", "1", "x", None, str(2**255)),
    "takerAmount": ("0", "1", "x", None, str(2**255)),
    "expiration": (LONG_AGO_S, "x"),
    "nonce": ("9", "x", None),
    "feeRateBps": ("2000", -1, "x"),
    "side": (1, 2, "SELL"),
    "signatureType": (1, 2, "x", None),
    "signature": ("0x", "x", None, "0x" + "1" * 130, "0x" + "00" * 65),
}
"""Fields of a signed order, and values that the signature does not cover or that are wrong."""

BODIES = {
    "empty": b"",
    "not JSON": b"{",
    "a list": b"[]",
    "a text": b'"x"',
    "not UTF-8": b'{"maker": "\xff"}',
    "nested": b"[" * 5_000,
    "too large": b'{"maker": "' + b"x" * 70_000 + b'"}',
}
"""Bodies that are no order at all."""

FRAMES = (
    {"type": "subscribe"},
    {"type": "subscribe", "channel": "weather"},
    {"type": "subscribe", "channel": "orderbook"},
    {"type": "subscribe", "channel": "orderbook", "marketId": 5},
    {"type": "subscribe", "channel": "orderbook", "marketId": "nowhere"},
    {"type": "subscribe", "channel": "orderbook", "marketId": "rain", "tokenId": "999"},
    {"type": "subscribe", "channel": "orderbook", "marketId": "rain", "resume": 5},
    {"type": "subscribe", "channel": "orderbook", "marketId": "rain", "resume": {"seq": -1}},
    {"type": "subscribe", "channel": "orderbook", "marketId": "rain", "id": [1]},
    {"type": "subscribe", "channel": "user"},
    {"type": "subscribe", "channel": "user", "maker": "0x12"},
    {"type": "subscribe", "channel": "settlement"},
    {"type": "subscribe", "channel": "settlement", "marketId": "rain"},
    {"type": "unsubscribe", "channel": "orderbook", "marketId": "pair"},
    {"type": "unsubscribe", "channel": "user"},
    {"type": "publish"},
    {},
)
"""Messages of a client; the server rejects most of them."""


def field_cases(session: Session) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a path and a body for each wrong value of a field, and for each missing one."""
    for field, values in WRONG_GASLESS.items():
        for value in values:
            yield GASLESS, session.gasless(BOB, BUY, 30, 2) | {field: value}
    signed = session.signed(CAROL, BUY, 30, 2)
    for field, values in WRONG_SIGNED.items():
        for value in values:
            yield ORDERS, signed | {field: value}
    for field in signed:
        yield ORDERS, {name: value for name, value in signed.items() if name != field}
    for path in (GASLESS, f"{ORDERS}/validate", f"{ORDERS}/simulate"):
        yield path, signed | {"side": 1}
        yield path, session.gasless(BOB, SELL, 1, 2, postOnly=True)
    yield GASLESS, session.gasless(BOB, BUY, 99, 9_999, timeInForce="FOK")
    yield GASLESS, session.gasless(BOB, BUY, 50, 1, postOnly=True, timeInForce="IOC")
    yield GASLESS, session.gasless(BOB, BUY, 50, 1, clientOrderId="his")
    yield ORDERS, session.signed(ALICE, BUY, 50, 1, nonce=0)
    yield ORDERS, session.signed(ALICE, BUY, 50, 1, expiration_s=LONG_AGO_S, nonce=3)
    yield ORDERS, session.signed(ALICE, BUY, 50, 1, expiration_s=FAR_S, timeInForce="IOC", nonce=2)
    yield ORDERS, session.signed(BOB, BUY, 50, 1, market="late")
    yield BATCH, {"orders": []}
    yield BATCH, {"orders": [session.gasless(BOB, BUY, 5, 1)] * 21}
    yield BATCH, {"orders": {}}
    yield BATCH, {"orders": [5, {}, session.gasless(BOB, BUY, 0, 1), signed | {"side": 1}]}


def reject_orders(session: Session) -> None:
    """Send orders that are wrong."""
    for path, body in field_cases(session):
        session.ask("POST", path, body)
    json_type = {"content-type": "application/json"}
    for raw in BODIES.values():
        session.ask("POST", ORDERS, content=raw, headers=json_type)
    session.ask("POST", ORDERS, content=b"{}", headers={"content-type": "text/plain"})
    session.ask("POST", ORDERS, content=b"{}", headers=json_type | {"X-API-Key": "clob_x"})


def reject_others(session: Session, final_id: str) -> None:
    """Send cancels, signatures, queries and paths that are wrong.

    Args:
        session: the session.
        final_id: an order of Alice that no longer rests.
    """
    ask, domain = session.ask, session.domain
    resting = session.place(CAROL, BUY, 3, 1)["orderId"]
    for order_id in (final_id, "ord_1_aaaaaa", "x", resting):
        for maker in (ADDRESSES[ALICE], "0x12", ""):
            ask("DELETE", f"{ORDERS}/{order_id}?maker={maker}")
        ask("GET", f"{ORDERS}/{order_id}/x")
    ask("DELETE", BATCH, {"orders": [{"orderId": resting}, {"maker": ADDRESSES[CAROL]}, 5]})
    ask("DELETE", BATCH, {"orders": []})
    carol = {"maker": ADDRESSES[CAROL]}
    late = SignedCancel(order_id=resting, timestamp_ms=LONG_AGO_S, **carol)
    bodies = {
        f"{ORDERS}/nonce": SignedSetNonce(nonce=0, **carol),
        f"{ORDERS}/delegates": SignedSetDelegate(
            delegate=ADDRESSES[ALICE], allowed=True, nonce=0, **carol
        ),
    }
    ask("DELETE", f"{ORDERS}/{resting}", sign(late, domain, KEYS[CAROL]).to_json())
    for path, wish in bodies.items():
        good = sign(wish, domain, KEYS[CAROL]).to_json()
        for body in (good, sign(wish, domain, KEYS[BOB]).to_json(), good | {"nonce": "x"}, {}):
            ask("POST", path, body)
    for query in ("limit=0", "limit=501", "limit=x", "cursor=x", "maker=0x12", "marketId=nowhere"):
        ask("GET", f"{ORDERS}?{query}")
        ask("GET", f"/api/markets/rain/trades?{query}")
    for path in ("nowhere", "nowhere/orderbook", "nowhere/trades", "rain/orderbook?tokenId=9"):
        ask("GET", f"/api/markets/{path}")
    for path in ("split", "merge", "redeem", "faucet"):
        ask("POST", f"/api/gasless/{path}", {**carol, "marketId": "rain", "amount": "5"})
        ask("POST", f"/api/gasless/{path}", {})
    ask("GET", "/api/gasless/operations/x")
    for method in ("GET", "PUT", "DELETE", "HEAD"):
        for path in ("/", "/nowhere", ORDERS, "/health", "/ready"):
            ask(method, path)
    ask("GET", f"{ORDERS}/{'x' * 20_000}")


def reject_operators(session: Session) -> None:
    """Send requests of an operator that are wrong."""
    for header in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic x"}):
        session.ask("GET", "/api/admin/keys", headers=header)
    market = {"marketId": "new", "yesTokenId": 501}
    wrong = ({"feeBps": 1}, {"restingFeeRateBps": 1_001}, {"yesTokenId": None}, {"settles": True})
    wrong += ({"marketId": "rain"}, {"yesTokenId": 101}, {"minSize": "0"}, {"selfTrade": "X"})
    for each in (*wrong, {"complementary": True, "minSize": "150"}, {"noTokenId": 501}):
        session.admin("POST", "/markets", market | each)
    for path, body in {
        "/markets/nowhere": {"question": "?"},
        "/markets/rain": {"noTokenId": 999},
        "/markets/pair": {"minSize": "x"},
    }.items():
        session.admin("PATCH", path, body)
    for path in ("nowhere/open", "late/open", "rain/close"):
        session.admin("POST", f"/markets/{path}")
    session.admin("POST", "/markets/rain/resolve", {"outcome": "maybe"})
    key = {"name": "k", "scopes": ["read"]}
    for each in ({"name": ""}, {"scopes": []}, {"scopes": ["x"]}, {"makers": ["0x12"]}, {"x": 1}):
        session.admin("POST", "/keys", key | each)
    session.admin("DELETE", "/keys/000000000000")
    session.admin("POST", "/orders/ord_1_aaaaaa/cancel")
    session.admin("PUT", "/limits", {"budgets": {"keyPerMinute": -1}})
    session.admin("GET", "/chain/operations")
    session.admin("GET", "/chain/settlement")


def reject_frames(session: Session) -> dict[str, list[Any]]:
    """Send wrong messages on WebSockets; a plain client is closed after the first."""
    extended = Feed(session, subscribe("orderbook", marketId="late"))
    for frame in FRAMES:
        extended.socket.send(json.dumps(frame | {"extended": True}))
    for text in ("PING", "x", "[]", '{"type": 5, "extended": true}'):
        extended.socket.send(text)
    answers = {"extended": extended.received()}
    for number, frame in enumerate([*FRAMES[:3], FRAMES[7], FRAMES[10], FRAMES[15]]):
        answers[f"plain {number}"] = Feed(session, frame).received()
    large = Feed(session)
    try:
        large.socket.send("x" * 20_000)
    except ConnectionClosed:
        answers["closed early"] = []
    answers["too large"] = large.received()
    return answers


def every_route(session: Session) -> dict[str, list[Any]]:
    """Call every published route without a key, with keys of one scope, and as an operator.

    Returns:
        For each route and kind of caller the status, the code and the fields of the answer.
    """
    callers = {"anonymous": {}, "operator": session.operator}
    for scope in ("read", "trade", "cancel"):
        body = {"name": scope, "scopes": [scope], "makers": [ADDRESSES[ALICE]]}
        made = session.http.post("/api/admin/keys", json=body, headers=session.operator).json()
        callers[scope] = {"X-API-Key": made["key"]}
    results: dict[str, list[Any]] = {}
    for path, methods in session.http.get("/openapi.json").json()["paths"].items():
        for method in sorted(methods.keys() & {"get", "post", "put", "patch", "delete"}):
            for caller, headers in callers.items():
                url = path.replace("{marketId}", "rain").replace("{", "").replace("}", "")
                body = session.gasless(ALICE, BUY, 50, 1)
                options = {} if method == "get" else {"json": body}
                answer = session.http.request(method, url, headers=headers, **options)
                fields: Any = answer.headers.get("content-type", "").partition(";")[0]
                if "json" in fields and isinstance(answer.json(), dict):
                    fields = answer.json().get("code") or sorted(answer.json())
                results[f"{method} {path} {caller}"] = [answer.status_code, fields]
    return results
