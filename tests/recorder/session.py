"""Records a session with a real server: documents, answers, rejections, and frames of the feed.

The script of requests is fixed, keys and salts too. Ids and times differ from run to run; they are
replaced by their order of appearance and by ``<time>``.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from clob import Side
from clob.signing import (
    Domain,
    SignedCancel,
    SignedOrder,
    SignedSetDelegate,
    SignedSetNonce,
    sign,
)

SECRET, ONE, WAIT_S, DAY_S = "a secret for tests, of 32 bytes or more", 10**18, 30, 86_400
FAR_S, LONG_AGO_S = 4_000_000_000, 1_600_000_000
DOMAIN = {
    "eip712-name": "clob", "eip712-version": "1", "chain-id": 31_337,
    "verifying-contract": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
}  # fmt: skip
KEYS = tuple(f"0x{0xC10B + number:064x}" for number in range(3))
ADDRESSES = (
    "0xBdDE3ACdf8F71fEc764a59216451a2730C5a7cCA",
    "0x3568E6867e18535a7189bb4A57F4F37Ff3ad0E3e",
    "0xfB510Fa45FC47Af191C724938527320c3B5F7184",
)
"""The wallets of :data:`KEYS`."""
ALICE, BOB, CAROL = range(3)
BUY, SELL = Side.BUY, Side.SELL
ZERO = f"0x{0:040x}"
ORDERS = "/api/orders"
SIGNED_FIELDS = ("maker", "signer", "nonce", "expiration_s", "fee_rate_bps", "signature_type")
NUMBER = re.compile(r"(?<![\w.])\d{10,19}(?![\w.])")
REQUEST_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]+")
ID = re.compile(r"\b(?:ord_\d+|trade_\d+)_[0-9a-z]{6}\b|\bclob_[0-9a-f]{12}_[0-9a-f]{64}\b")


class Names:
    """Replaces values that differ between two runs: ids, times, the address of the server."""

    def __init__(self) -> None:
        self.host = ""
        self.known: dict[str, str] = {}

    def plain(self, value: Any) -> Any:
        """Copy JSON with all volatile values replaced."""
        if isinstance(value, dict):
            return {self.text(key): self.plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.plain(each) for each in value]
        if isinstance(value, int) and not isinstance(value, bool):
            return "<time>" if is_now(value) else value
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Replace volatile parts of a text."""
        if REQUEST_ID.fullmatch(text):
            return "<request>"
        text = ID.sub(lambda match: self.name(match.group()), text.replace(self.host, "<host>"))
        return NUMBER.sub(lambda m: "<time>" if is_now(int(m.group())) else m.group(), text)

    def name(self, original: str) -> str:
        """Name an id by its kind and the order of its appearance."""
        return self.known.setdefault(original, f"{original.split('_')[0]}#{len(self.known) + 1}")


def is_now(number: int) -> bool:
    """Return whether a number is a time within a day of now, in s, ms, us or ns."""
    return any(abs(number / unit - time.time_ns() / 10**9) < DAY_S for unit in (1, 1e3, 1e6, 1e9))


def environment() -> dict[str, str]:
    """Return the environment without settings of the server."""
    kept = ("CLOB_PURE_PYTHON",)
    return {k: v for k, v in os.environ.items() if k in kept or not k.startswith("CLOB_")}


class Server:
    """A server process on a free port, without a chain."""

    def __init__(self, folder: Path, kind: str = "test") -> None:
        options = {
            "port": 0, "chain": "none", "data-dir": folder, "rate-limits": "off", "drain-s": 0.001,
            "log-level": "error", "jwt-secret": SECRET, "ws-heartbeat-s": 3_600,
            "environment": kind, **DOMAIN,
        }  # fmt: skip
        arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clob_server", "run", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1]

    def stop(self) -> int:
        """End the server as an operator would; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WAIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def serving(folder: Path, kind: str = "test") -> Iterator[Server]:
    """Run a server for a block."""
    server = Server(folder, kind)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


class Session:
    """Requests to a server, with a log of the answers in which volatile values are replaced."""

    def __init__(self, server: Server) -> None:
        self.names = Names()
        self.move(server)
        self.log: list[Any] = []
        domain = self.http.get("/").json()["eip712"]
        contract = domain.get("verifyingContract")
        self.domain = Domain(domain["name"], domain["version"], domain["chainId"], contract)
        now_s = time.time_ns() // 10**9
        claims = {"sub": "recorder", "scope": "admin", "iat": now_s, "exp": now_s + 3_600}
        self.operator = {"Authorization": f"Bearer {jwt.encode(claims, SECRET, 'HS256')}"}
        self.salt = 0

    def move(self, server: Server) -> None:
        """Go on with another server."""
        self.http = httpx.Client(base_url=server.url, timeout=WAIT_S)
        self.ws_url = f"{server.url.replace('http', 'ws', 1)}/ws"
        self.names.host = server.url.partition("://")[2]

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Send a request, log the answer, and return its body."""
        headers = {"X-Request-Id": f"r{len(self.log)}", **options.pop("headers", {})}
        if body is not None:
            options["json"] = body
        answer = self.http.request(method, path, headers=headers, **options)
        is_json = answer.content and "json" in answer.headers.get("content-type", "")
        content = answer.json() if is_json else None
        kept = ("content-type", "retry-after", "allow", "link", "x-next-cursor", "cache-control")
        entry = {
            "request": f"{method} {path}",
            "status": answer.status_code,
            "headers": {name: answer.headers[name] for name in kept if name in answer.headers},
            "body": content,
        }
        self.log.append(self.names.plain(entry))
        return content

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request of an operator."""
        return self.ask(method, f"/api/admin{path}", body, headers=self.operator)

    def taken(self) -> list[Any]:
        """Return the log so far, and begin another."""
        log, self.log = self.log, []
        return log

    # ----- bodies ------------------------------------------------------------------------------

    def signed(
        self, who: int, side: Side, price: int, tokens: int, market: str = "rain", **more: Any
    ) -> dict[str, Any]:
        """Make the body of a signed order; other keywords become unsigned JSON fields."""
        self.salt += 1
        fields = {"maker": ADDRESSES[who], "salt": self.salt}
        fields |= {name: more.pop(name) for name in SIGNED_FIELDS if name in more}
        token = more.pop("token", TOKENS[market])
        order = SignedOrder.from_price_size(
            side=side, price=price, size=tokens * ONE, token_id=token, **fields
        )
        return {**sign(order, self.domain, KEYS[who]).to_json(), "marketId": market, **more}

    def gasless(
        self, who: int, side: Side, price: int, tokens: int, market: str = "rain", **more: Any
    ) -> dict[str, Any]:
        """Make the body of a gasless order."""
        body = {"maker": ADDRESSES[who], "tokenId": str(more.pop("token", TOKENS[market]))}
        body |= {"side": int(side), "price": price, "size": str(tokens * ONE), "marketId": market}
        return {**body, **more}

    def place(self, *arguments: Any, **more: Any) -> Any:
        """Place a signed order."""
        return self.ask("POST", ORDERS, self.signed(*arguments, **more))


TOKENS = {"rain": 101, "pair": 201, "auto": 301, "late": 401}


class Feed:
    """A WebSocket, with all that it receives."""

    def __init__(self, session: Session, *requests: dict[str, Any]) -> None:
        self.socket: ClientConnection = connect(session.ws_url, max_size=None)
        self.names = session.names
        for request in requests:
            self.socket.send(json.dumps(request))

    def received(self) -> list[Any]:
        """Return everything received so far, up to the answer to a ping."""
        frames: list[Any] = []
        try:
            self.socket.send(json.dumps({"type": "ping"}))
            while not frames or frames[-1].get("type") != "pong":
                text = str(self.socket.recv(timeout=WAIT_S))
                frames.append(json.loads(text) if text != "PONG" else {"type": text})
        except ConnectionClosed as closed:
            frame = closed.rcvd
            frames.append({"closed": frame and frame.code, "message": frame and frame.reason})
        return [self.names.plain(frame) for frame in frames]


def subscribe(channel: str, *, extended: bool = True, **fields: Any) -> dict[str, Any]:
    """Make a request to subscribe."""
    flag = {"extended": True} if extended else {}
    return {"type": "subscribe", "channel": channel, **flag, **fields}


def feeds_of(session: Session) -> dict[str, Feed]:
    """Open the WebSockets that listen to the script."""
    alice = {"maker": ADDRESSES[ALICE]}
    book = {name: {"marketId": name} for name in TOKENS}
    requests = {
        "plain": [subscribe("orderbook", extended=False, **book["rain"])],
        "plain-pair": [subscribe("orderbook", extended=False, **book["pair"])],
        "plain-waiting": [subscribe("orderbook", extended=False, **book["auto"])],
        "plain-user": [subscribe("user", extended=False, **alice)],
        "plain-settlement": [subscribe("settlement", extended=False, **book["rain"])],
        "extended": [subscribe("orderbook", id=1, **book["rain"])],
        "extended-pair": [subscribe("orderbook", id="two", **book["pair"])],
        "extended-token": [subscribe("orderbook", tokenId="0xc9", **book["pair"])],
        "extended-user": [subscribe("user", id=3, **alice)],
        "extended-user-market": [subscribe("user", **alice, **book["pair"])],
        "extended-settlement": [subscribe("settlement", id=4, **alice)],
        "several": [
            subscribe("orderbook", **book["rain"]),
            subscribe("user", maker=ADDRESSES[BOB]),
            {"type": "unsubscribe", "channel": "user", "maker": ADDRESSES[BOB], "extended": True},
            subscribe("orderbook", **book["late"]),
        ],
    }
    return {name: Feed(session, *each) for name, each in requests.items()}


# ----- the script ------------------------------------------------------------------------------


def open_markets(session: Session) -> None:
    """Open the markets of the script, as an operator."""
    terms = {"question": "Rain?", "restingFeeRateBps": 100, "incomingFeeRateBps": 250}
    pair = {"yesTokenId": 201, "noTokenId": "202", "complementary": True, "minSize": "200"}
    session.admin("POST", "/markets", {"marketId": "rain", "yesTokenId": 101, **terms})
    session.admin("PATCH", "/markets/rain", {"noTokenId": "102", "description": "In Rome."})
    session.admin("POST", "/markets", {"marketId": "pair", **pair, **terms})
    late = {"marketId": "late", "yesTokenId": 401, "selfTrade": "DECREMENT"}
    session.admin("POST", "/markets", late)
    session.admin("GET", "/markets")


def trade(session: Session) -> list[dict[str, Any]]:
    """Place, trade and cancel in all ways; return some of the answers."""
    place, ask = session.place, session.ask
    rested = [place(ALICE, SELL, 60, 10), place(ALICE, SELL, 60, 5, signature_type=1)]
    rested += [place(ALICE, SELL, 62, 7, timeInForce="GTD", expiration_s=FAR_S)]
    rested += [place(BOB, BUY, 55, 9, postOnly=True), place(BOB, BUY, 54, 3, token=102)]
    place(BOB, BUY, 60, 12)
    place(CAROL, BUY, 62, 4, timeInForce="IOC", fee_rate_bps=50)
    place(CAROL, BUY, 61, 99, timeInForce="IOC")
    place(CAROL, SELL, 55, 2, timeInForce="FOK")
    place(ALICE, BUY, 62, 8, selfTrade="CANCEL_RESTING")
    same = session.signed(ALICE, BUY, 40, 20, clientOrderId="mine")
    rested += [ask("POST", ORDERS, same), ask("POST", ORDERS, same)]
    gasless = session.gasless(BOB, SELL, 70, 6, clientOrderId="his")
    rested += [ask("POST", f"{ORDERS}/gasless", gasless), ask("POST", f"{ORDERS}/gasless", gasless)]
    mixed = [
        session.signed(ALICE, SELL, 45, 3),
        session.gasless(CAROL, BUY, 45, 1),
        session.signed(BOB, BUY, 45, 1, timeInForce="FOK", token=102),
        session.gasless(CAROL, SELL, 80, 2, token=102),
    ]
    ask("POST", f"{ORDERS}/batch", {"orders": mixed})
    for maker, side, price in (
        (ALICE, BUY, 40),
        (BOB, BUY, 65),
        (ALICE, SELL, 30),
        (BOB, SELL, 60),
    ):
        token = 202 if maker == BOB else 201
        place(maker, side, price, 8, market="pair", token=token)
        place(CAROL, Side(1 - side), price, 3, market="pair", token=token)
    place(ALICE, BUY, 33, 2, market="auto")
    place(BOB, SELL, 33, 1, market="auto", token=302, timeInForce="GTC")
    rested += [place(ALICE, BUY, 20, 5, market="late"), place(ALICE, SELL, 20, 2, market="late")]
    return rested


def change(session: Session, rested: list[dict[str, Any]]) -> None:
    """Cancel orders, raise nonces, name delegates, and send requests of an operator."""
    ask, ids = session.ask, [each["orderId"] for each in rested]
    bob, carol = ({"maker": address} for address in ADDRESSES[1:])
    now_ms = time.time_ns() // 10**6
    ask("DELETE", f"{ORDERS}/{ids[3]}?maker={ADDRESSES[BOB]}")
    cancels = [{"orderId": ids[4], **bob}, {"orderId": ids[4], **bob}, {"orderId": ids[5], **carol}]
    ask("DELETE", f"{ORDERS}/batch", {"orders": cancels})
    cancel = SignedCancel(order_id=ids[5], maker=ADDRESSES[ALICE], timestamp_ms=now_ms)
    ask("DELETE", f"{ORDERS}/{ids[5]}", sign(cancel, session.domain, KEYS[ALICE]).to_json())
    delegate = SignedSetDelegate(
        maker=ADDRESSES[BOB], delegate=ADDRESSES[CAROL], allowed=True, nonce=1
    )
    ask("POST", f"{ORDERS}/delegates", sign(delegate, session.domain, KEYS[BOB]).to_json())
    fields = {"maker": ADDRESSES[BOB], "signer": ADDRESSES[CAROL], "signature_type": 1}
    session.place(CAROL, BUY, 21, 4, **fields)
    nonce = SignedSetNonce(maker=ADDRESSES[ALICE], nonce=3)
    ask("POST", f"{ORDERS}/nonce", sign(nonce, session.domain, KEYS[ALICE]).to_json())
    session.place(ALICE, BUY, 22, 4, nonce=3)
    ask("POST", f"{ORDERS}/validate", session.signed(BOB, SELL, 21, 1))
    ask("POST", f"{ORDERS}/simulate", session.gasless(BOB, SELL, 21, 9))
    session.admin("POST", f"/orders/{ids[7]}/cancel")
    for mode in ("halt", "cancel-only", "open"):
        session.admin("POST", f"/markets/pair/{mode}")
        session.place(BOB, BUY, 2, 1, market="pair")
    session.admin("POST", "/markets/late/resolve", {"outcome": "yes"})
    session.admin("PUT", "/limits", {"budgets": dict.fromkeys(BUDGETS, 90)})
    session.admin("GET", "/limits")


BUDGETS = ("anonymousPerMinute", "keyPerMinute", "ordersPerMinute", "cancelsPerMinute")


def read(session: Session, rested: list[dict[str, Any]]) -> None:
    """Read everything that can be read."""
    for name, token in TOKENS.items():
        session.ask("GET", f"/api/markets/{name}")
        session.ask("GET", f"/api/markets/{name}/trades?limit=50")
        for each in (token, token + 1):
            session.ask("GET", f"/api/markets/{name}/orderbook?tokenId={each}")
    for each in rested:
        session.ask("GET", f"{ORDERS}/{each['orderId']}")
    page = session.http.get(ORDERS, params={"limit": 2})
    cursor = page.headers.get("x-next-cursor")
    for query in ("", f"?maker={ADDRESSES[BOB]}", "?marketId=pair", "?limit=2"):
        session.ask("GET", f"{ORDERS}{query}")
    session.log.append(len(session.http.get(ORDERS, params={"limit": 3, "cursor": cursor}).json()))
    session.ask("GET", "/api/markets")
