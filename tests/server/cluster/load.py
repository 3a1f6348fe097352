"""Clients of a cluster: orders, cancels, reads and feeds at random nodes, and what they observed.

A request without a certain result is sent again, at any node, until it has one. All that a client
observed is noted with the times of its request and its answer; ``oracle`` judges it.
"""

import hashlib
import http.client
import json
import random  # noqa: TID251 - seeded, and outside the engine
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlencode

import websockets
from websockets.sync.client import connect

from clob.signing import order_hash
from tests.server.crash import DOMAIN, MAKERS, MARKETS, signed_order

REQUEST_S = 1.0
"""Seconds until a client sends a request again, elsewhere."""
PATIENT_S = 5.0
"""The same of the one client that sees answers that are late."""
PAUSE_S = 0.05
"""Seconds between two attempts."""
PATIENCE_S = 120
"""Seconds within which a request has to have a result."""
UNCERTAIN = frozenset(
    {
        *("OUTCOME_UNKNOWN", "NO_OWNER", "NOT_OWNER", "ENGINE_STOPPED", "ENGINE_FULL"),
        *("DRAINING", "RECOVERING", "CLOCK_UNSURE"),
    }
)
"""Codes after which the same request is sent again."""
UNKNOWN = "UNKNOWN_ORDER"
REJECTED = frozenset({"TOO_MANY_ORDERS", "ORDER_NOT_OPEN", UNKNOWN})
"""Codes that end a request."""
LOST = (OSError, http.client.HTTPException)
EVENTS = ("orderbook", "order_added", "order_removed", "trade")
PAGE = 100


@dataclass(slots=True)
class Write:
    """An order or a cancel that was acknowledged."""

    kind: str
    key: bytes | str
    """Order hash of an order, order id of a cancel."""
    node: str
    """The node that acknowledged it."""
    began: float
    ended: float
    applied: int
    """``X-Applied-Seq`` of the answer."""
    body: dict
    answer: dict
    num_tries: int


@dataclass(slots=True)
class Read:
    """A book or the open orders of a maker, as a node returned them."""

    node: str
    began: float
    ended: float
    seq: int
    """For a book the number of the last event of its market, for orders ``X-Applied-Seq``."""
    least: int
    """``minSeq`` of the request; 0 without one."""
    market: str = ""
    token: str = ""
    maker: str = ""
    content: object = None
    """Digest of the book; ids of the first orders."""
    applied: int = 0
    """``X-Applied-Seq`` of a book; 0 without it."""


@dataclass
class Observed:
    """All that the clients of a cluster observed."""

    sent: dict = field(default_factory=dict)
    """Order by hash, and the time when it was first sent."""
    writes: list = field(default_factory=list)
    not_open: list = field(default_factory=list)
    """Ids of orders whose cancel was rejected, since they are finished."""
    reads: list = field(default_factory=list)
    messages: dict = field(default_factory=dict)
    """Message of the feed by what it is about; all nodes have to send the same one."""
    denied: list = field(default_factory=list)
    """Orders that were acknowledged and then called unknown, with the node and the time."""
    acks: list = field(default_factory=list)
    """Times at which orders were acknowledged."""
    errors: list = field(default_factory=list)
    steps_back: list = field(default_factory=list)
    """Resumed feeds whose snapshot is older than what the client had."""
    num_resumed: int = 0
    num_snapshots: int = 0


class Connections:
    """The HTTP connections of one client to the nodes."""

    def __init__(self, timeout_s=REQUEST_S):
        self._open, self._timeout_s = {}, timeout_s

    def ask(self, node, method, path, body=None):
        """Return status, headers and body of a response.

        Raises:
            OSError, HTTPException: there is none.
        """
        url = node.live.url
        connection = self._open.get(url)
        if connection is None:
            connection = http.client.HTTPConnection(url.split("//")[1], timeout=self._timeout_s)
            self._open[url] = connection
        try:
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                {} if body is None else {"content-type": "application/json"},
            )
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except BaseException:
            connection.close()
            del self._open[url]
            raise

    def close(self):
        for each in self._open.values():
            each.close()


class Load:
    """Clients, each in a thread, until :meth:`end`.

    Args:
        nodes: the nodes.
        seed: decides what the clients do.
        traders: number of clients that trade and read.
        pause_s: mean pause of each of them between two requests.
    """

    def __init__(self, nodes, seed, traders=6, pause_s=0.06):
        self.seen = Observed()
        self._nodes, self._seed, self._pause_s = list(nodes), seed, pause_s
        self._stop = threading.Event()
        self._open_markets()
        work = [lambda n=n: self._trade(n) for n in range(traders)]
        work += [lambda n=n: self._follow(n) for n in range(len(self._nodes))]
        self._threads = [
            threading.Thread(target=self._run, args=(each,), daemon=True) for each in work
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, count):
        """Wait until so many further orders were acknowledged."""
        wanted = len(self.seen.acks) + count
        end = time.monotonic() + PATIENCE_S
        while len(self.seen.acks) < wanted:
            assert time.monotonic() < end, "orders are no longer acknowledged"
            assert not self.seen.errors, self.seen.errors[0]
            time.sleep(0.02)

    def end(self):
        """Let the clients finish their requests; return what they observed."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        return self.seen

    def _run(self, work):
        try:
            work()
        except BaseException as error:
            self.seen.errors.append(error)

    # ----- orders, cancels and reads ---------------------------------------------------------

    def _open_markets(self):
        """Place an order for each token, so that each has a book at every node."""
        rng, connections = random.Random(f"{self._seed} open"), Connections(PATIENCE_S)
        missing = {token for tokens in MARKETS.values() for token in tokens}
        while missing:
            order, body = signed_order(rng, {})
            if order.token_id in missing:
                self._place(connections, rng, order, body)
                missing.remove(order.token_id)
        least = max(write.applied for write in self.seen.writes)
        for node in self._nodes:
            path = f"/api/markets/{next(iter(MARKETS))}/orderbook?minSeq={least}"
            while connections.ask(node, "GET", path)[0] != 200:
                time.sleep(PAUSE_S)
        connections.close()

    def _trade(self, number):
        rng = random.Random(f"{self._seed} {number}")
        connections = Connections(REQUEST_S if number else PATIENT_S)
        placed = []
        while not self._stop.is_set():
            draw = rng.random()
            if draw < 0.15 and placed:
                self._cancel(connections, rng, *placed.pop(rng.randrange(len(placed))))
            elif draw < 0.4:
                self._read_book(connections, rng)
            elif draw < 0.5:
                self._read_orders(connections, rng)
            else:
                placed += self._place(connections, rng, *signed_order(rng, {}))
            time.sleep(rng.uniform(0, 2 * self._pause_s))
        connections.close()

    def _until_certain(self, connections, rng, method, path, body):
        """Send a request until its result is certain; return node, headers, answer and tries."""
        end = time.monotonic() + PATIENCE_S
        for tries in range(1, 100_000):
            assert time.monotonic() < end, f"{method} {path} has no result"
            node = rng.choice(self._nodes)
            try:
                status, headers, content = connections.ask(node, method, path, body)
            except LOST:
                time.sleep(PAUSE_S)
                continue
            answer = json.loads(content)
            if status < 400:
                return node.name, headers, answer, tries
            if answer["code"] == UNKNOWN:
                self.seen.denied.append((path, node.name, time.monotonic()))
            if answer["code"] in REJECTED:
                return node.name, headers, None, tries
            assert answer["code"] in UNCERTAIN, answer
            time.sleep(PAUSE_S)
        raise AssertionError

    def _write(self, connections, rng, kind, key, request):
        """Send an order or a cancel, and note it if it was acknowledged; return the answer."""
        began = time.monotonic()
        if kind == "place":
            self.seen.sent[key] = began
        node, headers, answer, tries = self._until_certain(connections, rng, *request)
        if answer is not None:
            ended, applied = time.monotonic(), int(headers["x-applied-seq"])
            self.seen.writes.append(
                Write(kind, key, node, began, ended, applied, request[2], answer, tries)
            )
            if kind == "place":
                self.seen.acks.append(ended)
        elif kind == "cancel" and not any(key in path for path, *_ in self.seen.denied):
            self.seen.not_open.append(key)
        return answer

    def _place(self, connections, rng, order, body):
        key = order_hash(order, DOMAIN)
        answer = self._write(connections, rng, "place", key, ("POST", "/api/orders", body))
        return [(answer["orderId"], order.maker)] if answer else []

    def _cancel(self, connections, rng, order_id, maker):
        request = ("DELETE", f"/api/orders/{order_id}", {"maker": maker})
        self._write(connections, rng, "cancel", order_id, request)

    def _get(self, connections, rng, path, query):
        """Send a read once; return None without an answer, else node, begin, headers and body."""
        node, began = rng.choice(self._nodes), time.monotonic()
        try:
            status, headers, content = connections.ask(node, "GET", f"{path}?{urlencode(query)}")
        except LOST:
            return None
        if status != 200:
            code = json.loads(content)["code"]
            assert code in UNCERTAIN, content
            return None
        return node.name, began, headers, content

    def _read_book(self, connections, rng):
        market = rng.choice(list(MARKETS))
        token = str(rng.choice(MARKETS[market]))
        path, query = f"/api/markets/{market}/orderbook", {"tokenId": token}
        least = self.seen.writes[-1].applied if rng.random() < 0.5 else 0
        if least:
            query["minSeq"] = least
        if found := self._get(connections, rng, path, query):
            node, began, headers, content = found
            ended, seq = time.monotonic(), json.loads(content)["seq"]
            digest = hashlib.blake2b(content, digest_size=16).digest()
            applied = int(headers.get("x-applied-seq", 0))
            self.seen.reads.append(
                Read(node, began, ended, seq, least, market, token, "", digest, applied)
            )

    def _read_orders(self, connections, rng):
        _, maker = rng.choice(MAKERS)
        least = self.seen.writes[-1].applied
        query = {"maker": maker, "status": "open", "limit": PAGE, "minSeq": least}
        if found := self._get(connections, rng, "/api/orders", query):
            node, began, headers, content = found
            applied = int(headers["x-applied-seq"])
            ids = tuple(each["id"] for each in json.loads(content))
            self.seen.reads.append(
                Read(node, began, time.monotonic(), applied, least, "", "", maker, ids)
            )

    # ----- feeds -----------------------------------------------------------------------------

    def _follow(self, number):
        """Follow the feed at one node after the other, each from where the last one ended."""
        rng, places = random.Random(f"{self._seed} feed {number}"), {}
        while not self._stop.is_set():
            node = self._nodes[number]
            number = (number + 1) % len(self._nodes)
            try:
                with connect(node.live.ws_url, open_timeout=REQUEST_S, close_timeout=0.2) as feed:
                    self._follow_at(feed, places, time.monotonic() + rng.uniform(3, 15))
            except (websockets.WebSocketException, OSError, EOFError):
                time.sleep(PAUSE_S)

    def _follow_at(self, feed, places, until):
        """Follow the feed of one node until it is silent or a time has come."""
        for market in MARKETS:
            request = {"type": "subscribe", "channel": "orderbook", "marketId": market}
            if market in places:
                seq, epoch = places[market]
                request["resume"] = {"seq": seq, "epoch": epoch}
            feed.send(json.dumps(request | {"extended": True}))
        started = {}
        silent_at = time.monotonic() + 3
        while not self._stop.is_set() and time.monotonic() < min(until, silent_at):
            try:
                message = json.loads(feed.recv(timeout=0.25))
            except TimeoutError:
                continue
            silent_at = time.monotonic() + 3
            if message["type"] == "subscribed":
                started[message["marketId"]] = message
            elif message["type"] in EVENTS:
                self._receive(message, places, started)

    def _receive(self, message, places, started):
        """Note a message; check that it follows the one before."""
        market, seq, kind = message["marketId"], message["seq"], message["type"]
        began = started[market]
        before, _ = places.get(market, (0, 0))
        if kind == "orderbook":
            self.seen.num_snapshots += 1
            if seq < before:
                self.seen.steps_back.append((market, before, seq))
        else:
            if began["resumed"]:
                self.seen.num_resumed += 1
                began["resumed"] = False
            assert seq in (before, before + 1), ("the feed has a gap", before, message)
        places[market] = seq, began["epoch"]
        order_id = message["data"].get("orderId", "")
        key = market, seq, kind, message["tokenId"], order_id
        known = self.seen.messages.setdefault(key, message)
        if kind != "orderbook":
            assert known == message, ("nodes sent different messages", known, message)
