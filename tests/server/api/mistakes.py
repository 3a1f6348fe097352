"""Mistakes of newcomers, each as a request to a real server, and the table of their answers.

``python -m tests.server.api.mistakes`` writes the table into docs/reference/mistakes.md.
"""

import gzip
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import httpx
import websockets.sync.client
from eth_account import Account
from eth_account.messages import encode_defunct

from clob.signing import Domain, SignedOrder, order_hash, sign
from clob.wire.orders import NO_SIGNATURE
from tests.server.api.makers import (
    FAR,
    LONG_AGO,
    ONE,
    SELL,
    ZERO,
    Maker,
    MarketIds,
    delete,
    now_ms,
    operator_token,
)
from tests.server.live import live_server
from tests.signings import DOMAIN, EXCHANGE

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "mistakes.md"
HEAD = "| Mistake | Request | Status | Code | Answer |"
SECRET = "a secret for tests, of more than 32 bytes"
GASLESS, SIGNED, BATCH = "/api/orders/gasless", "/api/orders", "/api/orders/batch"
VARYING = (
    (r"0x[0-9a-fA-F]{65,}", "0x…"),
    (r"0x[0-9a-fA-F]{64}", "0x…"),
    (r"0x(?!0{40}\b)[0-9a-fA-F]{40}\b", "0x…"),
    (r"ord_[0-9]+_[0-9a-z]{6}", "ord_…"),
    (r"\b1[78][0-9]{8}(?:[0-9]{3})?\b", "…"),
    (r"[0-9a-f]{60,}\.\.\.", "…"),
    (r"…\.\.\.", "…"),
    (r"missing and must be 2[78]", "missing and must be …"),
)
"""Parts of an answer that differ each time."""


class Answer(NamedTuple):
    """The answer to a request."""

    status: str
    code: str
    text: str
    path: str = ""


class World:
    """A server of each environment, two makers, and a market with a resting order."""

    def __init__(self, test, production):
        self.test, self.production = test, production
        self.http = test.http
        self.alice, self.bob = Maker(), Maker()
        self.market = MarketIds("rain")
        self.market.id, self.market.yes, self.market.no = "rain", 101, 102
        self.resting = self.gasless(side=int(SELL), price=60).json()["orderId"]
        self.gasless(tokenId="102", price=10)

    def gasless(self, **fields):
        """Send an order without a signature; a field of None is left out."""
        body = self.alice.gasless(self.market) | fields
        return self.http.post(GASLESS, json={k: v for k, v in body.items() if v is not None})

    def signed(self, change=None, **terms):
        """Send a signed order, with fields changed after it was signed."""
        body = self.alice.signed(self.market, **terms) | (change or {})
        return self.http.post(SIGNED, json={k: v for k, v in body.items() if v is not None})

    def explained(self, body):
        """Validate an order; the answer is the explanation of its signature."""
        answer = self.http.post("/api/orders/validate", json=body).json()
        assert answer["refusal"]["code"] == "INVALID_SIGNATURE"
        return Answer("200", "INVALID_SIGNATURE", answer["explanation"], "signature")

    def for_domain(self, domain):
        """Validate an order that is signed for another domain."""
        order = SignedOrder.from_json(self.alice.signed(self.market))
        body = sign(order, domain, self.alice.key).to_json()
        return self.explained({**body, "marketId": "rain"})

    def over(self, make):
        """Validate an order whose signature covers something else."""
        body = self.alice.signed(self.market)
        digest = order_hash(SignedOrder.from_json(body), DOMAIN)
        return self.explained(body | {"signature": make(digest, self.alice.key)})

    def cancel(self, order=None, **fields):
        return delete(self.http, f"/api/orders/{order or self.resting}", fields)

    def socket(self, text):
        """Send a message on a WebSocket that reports errors."""
        with websockets.sync.client.connect(self.test.ws_url) as socket:
            socket.send('{"type": "ping", "extended": true}')
            assert json.loads(socket.recv())["type"] == "pong"
            socket.send(text)
            error = json.loads(socket.recv(timeout=60))
            return Answer("message", error["code"], error["message"])


def personal(text=None, primitive=None):
    """Return a function that signs by personal_sign."""

    def make(digest, key):
        message = encode_defunct(text=text(digest)) if text else encode_defunct(primitive(digest))
        return Account.sign_message(message, key).signature.to_0x_hex()

    return make


def raw(path, content, kind="application/json"):
    return lambda w: w.http.post(path, content=content, headers={"content-type": kind})


def field(name, value):
    """Return an order without a signature with one field."""
    return f"`POST {GASLESS}` `{json.dumps({name: value})}`", lambda w: w.gasless(**{name: value})


def absent(name):
    return f"`POST {GASLESS}` without `{name}`", lambda w: w.gasless(**{name: None})


def on_signed(name, value):
    return (
        f"`POST {SIGNED}` `{json.dumps({name: value})}`",
        lambda w: w.signed({name: value}),
    )


def message(text):
    return f"`{text}`", lambda w: w.socket(text)


def lines(w):
    return {"orders": [w.alice.gasless(w.market)] * 21}


def operator(w, method, path, body):
    token = operator_token(SECRET)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.request(
        method, f"{w.production.url}{path}", json=body, headers=headers, timeout=60
    )


GZIP = {"content-type": "application/json", "content-encoding": "gzip"}
CONVERSION = {
    "user": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "amount": "1",
    "conditionId": "0x" + "5c" * 32, "yesTokenId": "101", "noTokenId": "102",
}  # fmt: skip
MISTAKES = {
    "JSON": [
        ("Single quotes", f"`POST {GASLESS}` `{{'price': 1}}`", raw(GASLESS, b"{'price': 1}")),
        ("No body", f"`POST {GASLESS}`", raw(GASLESS, b"")),
        ("A list instead of an object", f"`POST {GASLESS}` `[]`", raw(GASLESS, b"[]")),
        ("A form", "`Content-Type: application/x-www-form-urlencoded`",
         raw(GASLESS, b"price=1", "application/x-www-form-urlencoded")),
        ("Text in another encoding", "a byte that is not UTF-8", raw(GASLESS, b'{"a": "\xff"}')),
        ("A byte order mark", "EF BB BF before the JSON", raw(GASLESS, b"\xef\xbb\xbf{}")),
        ("A compressed body", "`Content-Encoding: gzip`",
         lambda w: w.http.post(GASLESS, content=gzip.compress(b"{}"), headers=GZIP)),
        ("A body of 70 kB", f"`POST {GASLESS}`", raw(GASLESS, b" " * 70_000)),
    ],
    "Paths, methods and queries": [
        ("Unknown path", "`GET /api/order`", lambda w: w.http.get("/api/order")),
        ("Wrong method", "`PUT /api/orders`", lambda w: w.http.put("/api/orders", json={})),
        ("Other name of a parameter", "`GET /api/orders?market_id=rain`",
         lambda w: w.http.get("/api/orders?market_id=rain")),
        ("A parameter twice", "`GET /api/orders?status=open&status=filled`",
         lambda w: w.http.get("/api/orders?status=open&status=filled")),
        ("Limit too high", "`GET /api/orders?limit=1000`",
         lambda w: w.http.get("/api/orders?limit=1000")),
        ("Unknown market", "`GET /api/markets/snow/orderbook`",
         lambda w: w.http.get("/api/markets/snow/orderbook")),
        ("Token of another market", "`GET /api/markets/rain/orderbook?tokenId=5`",
         lambda w: w.http.get("/api/markets/rain/orderbook?tokenId=5")),
        ("Unknown order", "`GET /api/orders/17`", lambda w: w.http.get("/api/orders/17")),
    ],
    "Names of fields": [
        ("Snake case", *field("time_in_force", "IOC")),
        ("Order type of another exchange", *field("orderType", "FOK")),
        ("Order in a field of its own", *field("order", {"price": 50})),
        ("Market order", *field("type", "MARKET")),
        ("Other name of the size", *field("amount", "5")),
        ("Other name of the market", *field("market", "rain")),
        ("Typing error", *field("pirce", 50)),
        ("Unknown option", *field("reduceOnly", True)),
        ("No maker", *absent("maker")),
        ("No side", *absent("side")),
        ("No size", *absent("size")),
        ("No market", *absent("marketId")),
        ("Unsigned order to the route of signed ones", f"`POST {SIGNED}` with `price`, `size`",
         lambda w: w.http.post(SIGNED, json=w.alice.gasless(w.market))),
        ("Signed order to the gasless route", f"`POST {GASLESS}` with `makerAmount`, `signature`",
         lambda w: w.http.post(GASLESS, json=w.alice.signed(w.market))),
    ],
    "Units and values": [
        ("Size in tokens", *field("size", "100")),
        ("Size with decimals", *field("size", "1.5")),
        ("Size with an exponent", *field("size", "1e18")),
        ("Size of six decimals", *field("size", "5000000")),
        ("Size of 0", *field("size", "0")),
        ("Negative size", *field("size", -5)),
        ("Price as a fraction", *field("price", 0.5)),
        ("Price as text", *field("price", "50")),
        ("Price of 100 cents", *field("price", 100)),
        ("Side in lower case", *field("side", "buy")),
        ("Address without 0x", *field("maker", "7" * 40)),
        ("Wrong capitals in an address",
         *field("maker", "0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266")),
        ("Zero address as maker", *field("maker", ZERO)),
        ("Expiration in milliseconds", *field("expiration", FAR * 1000)),
        ("Expiration in the past", *field("expiration", LONG_AGO)),
        ("Deadline in seconds", *field("deadlineMs", FAR)),
        ("Good till date without a date", *field("timeInForce", "GTD")),
        ("Unknown time in force", *field("timeInForce", "DAY")),
        ("Flag as text", *field("postOnly", "true")),
        ("Fee rate above the limit", *field("feeRateBps", 2_000)),
        ("Token as name", *field("tokenId", "YES")),
        ("Third token of a market", *field("tokenId", "5")),
        ("Signer other than the maker", *field("signer", "0x" + "1" * 40)),
    ],
    "Options that cannot be met": [
        ("Post-only order that would trade", f"`POST {GASLESS}` `postOnly` at the best ask",
         lambda w: w.gasless(postOnly=True, price=60)),
        ("Fill-or-kill larger than the book", f"`POST {GASLESS}` `FOK` for 5 of 1 tokens",
         lambda w: w.gasless(timeInForce="FOK", price=60, size=str(5 * ONE))),
        ("Post-only and immediate", f"`POST {GASLESS}` `postOnly` with `IOC`",
         lambda w: w.gasless(timeInForce="IOC", postOnly=True)),
        ("Own id for two orders", f"`POST {GASLESS}` one `clientOrderId`, two prices",
         lambda w: [w.gasless(clientOrderId="one", price=p) for p in (1, 2)][-1]),
    ],
    "Signed orders": [
        ("No signature", f"`POST {SIGNED}` without `signature`",
         lambda w: w.signed({"signature": None})),
        ("Placeholder signature", f"`POST {SIGNED}` with zeros as `signature`",
         lambda w: w.signed({"signature": NO_SIGNATURE})),
        ("Signature of another key", f"`POST {SIGNED}`",
         lambda w: w.signed({"signature": w.bob.signed(w.market)["signature"]})),
        ("Field changed after signing", f"`POST {SIGNED}` with another `takerAmount`",
         lambda w: w.signed({"takerAmount": str(3 * ONE)})),
        ("Amounts without a price", *on_signed("makerAmount", str(5 * ONE))),
        ("Amounts in tokens", f"`POST {SIGNED}` `makerAmount` 50, `takerAmount` 100",
         lambda w: w.signed({"makerAmount": "50", "takerAmount": "100", "salt": 1},
                            size=100, salt=1)),
        ("Smart wallet", *on_signed("smartWallet", "0x" + "1" * 40)),
        ("Order for one taker", f"`POST {SIGNED}` with a `taker`",
         lambda w: w.signed(taker=w.bob.address)),
        ("Signed by a stranger", f"`POST {SIGNED}` with another `signer`",
         lambda w: w.http.post(SIGNED, json=w.bob.signed(
             w.market, maker=w.alice.address, signer=w.bob.address))),
        ("Old nonce", f"`POST {SIGNED}` after the nonce was raised to 5", lambda w: (
            w.http.post("/api/orders/nonce", json=w.bob.nonce(5)),
            w.http.post(SIGNED, json=w.bob.signed(w.market)))[-1]),
    ],
    "Signatures, explained by POST /api/orders/validate": [
        ("Name of another exchange", "domain of Polymarket with our chain and contract",
         lambda w: w.for_domain(Domain("Polymarket CTF Exchange", "1", 31337, EXCHANGE))),
        ("Another chain", "chainId 137",
         lambda w: w.for_domain(Domain("clob", "1", 137, EXCHANGE))),
        ("No contract", "domain without verifyingContract",
         lambda w: w.for_domain(Domain("clob", "1", 31337))),
        ("Another signature type", "signed as type 1, sent as type 0", lambda w: w.explained(
            w.alice.signed(w.market) | {"signatureType": 0})),
        ("Hash signed as text", "personal_sign of `0x` and 64 digits",
         lambda w: w.over(personal(text=lambda digest: f"0x{digest.hex()}"))),
        ("Signature without v", "128 hex digits", lambda w: w.explained(
            (body := w.alice.signed(w.market)) | {"signature": body["signature"][:130]})),
        ("Signature without 0x", "130 hex digits", lambda w: w.explained(
            (body := w.alice.signed(w.market)) | {"signature": body["signature"][2:]})),
    ],
    "Cancels and batches": [
        ("Cancel without a maker", "`DELETE /api/orders/ord_…` `{}`", lambda w: w.cancel()),
        ("Cancel of another maker's order", "`DELETE /api/orders/ord_…`",
         lambda w: w.cancel(maker=w.bob.address)),
        ("Cancel of an unknown order", "`DELETE /api/orders/17`",
         lambda w: w.cancel("17", maker=w.alice.address)),
        ("Cancel of another order than that of the path", "`DELETE /api/orders/ord_…`",
         lambda w: w.cancel(maker=w.alice.address, orderId="ord_1_other0")),
        ("Signed cancel with a time in seconds", "`DELETE /api/orders/ord_…`",
         lambda w: w.cancel(**w.alice.cancel(w.resting, now_ms() // 1000))),
        ("21 orders", f"`POST {BATCH}`", lambda w: w.http.post(BATCH, json=lines(w))),
        ("No orders", f"`POST {BATCH}` `[]`", raw(BATCH, b"[]")),
        ("Empty batch", f'`POST {BATCH}` `{{"orders": []}}`', raw(BATCH, b'{"orders": []}')),
    ],
    "Operations of the chain": [
        ("Amount with decimals", '`POST /api/gasless/split` `{"amount": "1.5"}`',
         lambda w: w.http.post("/api/gasless/split", json=CONVERSION | {"amount": "1.5"})),
        ("Short condition", '`POST /api/gasless/merge` `{"conditionId": "0x5c"}`',
         lambda w: w.http.post("/api/gasless/merge", json=CONVERSION | {"conditionId": "0x5c"})),
        ("Other name of the wallet", '`POST /api/gasless/faucet` `{"address": "0x…"}`',
         lambda w: w.http.post("/api/gasless/faucet", json={"address": w.alice.address})),
        ("Server without a chain", "`POST /api/gasless/faucet`",
         lambda w: w.http.post("/api/gasless/faucet", json={"user": w.alice.address})),
    ],
    "The WebSocket": [
        ("Not JSON", *message("hello")),
        ("Binary message", "a binary frame", lambda w: w.socket(b"{}")),
        ("Unknown type", *message('{"type": "sub", "channel": "orderbook"}')),
        ("Unknown channel", *message('{"type": "subscribe", "channel": "books"}')),
        ("No channel", *message('{"type": "subscribe", "marketId": "rain"}')),
        ("Other name of the market",
         *message('{"type": "subscribe", "channel": "orderbook", "market": "rain"}')),
        ("Unknown market",
         *message('{"type": "subscribe", "channel": "orderbook", "marketId": "snow"}')),
        ("User channel without a maker", *message('{"type": "subscribe", "channel": "user"}')),
    ],
    "Access": [
        ("Unknown key", "`X-API-Key: 123`",
         lambda w: w.http.get("/api/orders", headers={"X-API-Key": "123"})),
        ("No key in production", "`GET /api/orders`",
         lambda w: w.production.http.get("/api/orders")),
        ("Operator's route without a token", "`GET /api/admin/keys`",
         lambda w: w.http.get("/api/admin/keys")),
        ("Bad token", "`Authorization: Bearer x`",
         lambda w: w.http.get("/api/admin/keys", headers={"Authorization": "Bearer x"})),
        ("Faucet in production", "`POST /api/gasless/faucet`", lambda w: w.production.http.post(
            "/api/gasless/faucet", json={"user": w.alice.address})),
        ("Order in a market that no operator opened", f"`POST {SIGNED}` in production",
         lambda w: w.production.http.post(SIGNED, json=w.alice.signed(w.market))),
        ("Market with a field of another name", '`POST /api/admin/markets` `{"min_size": "1"}`',
         lambda w: operator(w, "POST", "/api/admin/markets", {"min_size": "1"})),
        ("Unknown scope", '`POST /api/admin/keys` `{"scopes": ["all"]}`',
         lambda w: operator(w, "POST", "/api/admin/keys", {"name": "a", "scopes": ["all"]})),
    ],
}  # fmt: skip
"""Section, then mistake, request in words, and the function that makes it."""


def answer_of(response):
    """Return the answer of a response."""
    if isinstance(response, Answer):
        return response
    body = response.json()
    if "code" not in body:
        raise AssertionError(f"accepted: {response.request.content!r} {body}")
    assert body["errors"], body
    return Answer(
        str(response.status_code), body["code"], body["detail"], body["errors"][0]["path"]
    )


def shown(text):
    """Return an answer without the parts that differ each time."""
    for pattern, sign_ in VARYING:
        text = re.sub(pattern, sign_, text)
    return text.replace("|", "\\|")


def row_of(mistake, request, answer):
    """Return a row of the table."""
    return f"| {mistake} | {request} | {answer.status} | `{answer.code}` | {shown(answer.text)} |"


def servers(folder):
    """Return the settings of the two servers."""
    common = {"rate_limits": False, "jwt_secret": SECRET}
    test = live_server(folder / "test", **common)
    production = live_server(
        folder / "production",
        environment="production",
        eip712_name=DOMAIN.name,
        eip712_version=DOMAIN.version,
        chain_id=DOMAIN.chain_id,
        verifying_contract=EXCHANGE,
        **common,
    )
    return test, production


def write():
    """Write the tables into the page, below its introduction."""
    introduction = PAGE.read_text().partition("\n## ")[0].rstrip()
    parts = [introduction]
    with tempfile.TemporaryDirectory() as folder:
        test, production = servers(Path(folder))
        with test as one, production as other:
            world = World(one, other)
            for section, mistakes in MISTAKES.items():
                rows = [row_of(*each[:2], answer_of(each[2](world))) for each in mistakes]
                parts.append("\n".join((f"## {section}\n", HEAD, "|---|---|---|---|---|", *rows)))
    PAGE.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    sys.exit(write())
