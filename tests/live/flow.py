"""Random orders of several makers at a real server, and strategies that act at random."""

import random  # noqa: TID251 - seeded

from clob.replay import Strategy
from tests.server.dialects.polymarket import operator

ONE = 10**18
MAKERS = [f"0x{number:040x}" for number in range(0xA1, 0xA6)]
POLICIES = ("NONE", "CANCEL_INCOMING", "CANCEL_RESTING", "CANCEL_BOTH")
KINDS = ({}, {}, {}, {"timeInForce": "IOC"}, {"timeInForce": "FOK"}, {"postOnly": True})


class Flow:
    """Random orders, cancels, reductions and replacements in a market.

    Args:
        live: the server.
        market: the ids of the market, which opens with the first order.
        seed: of the randomness.
        complementary: whether both tokens share a book.
    """

    def __init__(self, live, market, seed, *, complementary=False):
        self.live, self.market, self.rng = live, market, random.Random(seed)
        self.placed = []
        if complementary:
            tokens = {"yesTokenId": str(market.yes), "noTokenId": str(market.no)}
            body = {"marketId": market.id, **tokens, "complementary": True}
            answer = live.http.post("/api/admin/markets", json=body, headers=operator(live))
            assert answer.status_code == 200, answer.text
        else:
            for token in (market.yes, market.no):
                self.send("POST", "gasless", self.order(token=str(token), side=0, price=1))

    def send(self, method, path, body):
        """Send a request; return its body, or None if it was rejected."""
        answer = self.live.http.request(method, f"/api/orders/{path}", json=body)
        if answer.status_code == 200:
            found = answer.json()
            if "orderId" in found:
                self.placed.append((found["orderId"], body))
            return found
        assert answer.status_code in (400, 404, 409, 422), answer.text
        return None

    def order(self, **fields):
        """Return the body of a random order."""
        rng = self.rng
        token = str(rng.choice((self.market.yes, self.market.no)))
        kind = {} if "token" in fields else rng.choice(KINDS)
        if "token" in fields:
            token = fields.pop("token")
        return {
            "maker": rng.choice(MAKERS),
            "tokenId": token,
            "side": rng.randrange(2),
            "price": rng.randint(44, 56),
            "size": str(rng.randint(1, 12) * ONE),
            "marketId": self.market.id,
            "selfTrade": rng.choice(POLICIES),
            **kind,
            **fields,
        }

    def step(self):
        """Send one random request."""
        rng = self.rng
        if self.placed and rng.random() < 0.35:
            order_id, order = self.placed.pop(rng.randrange(len(self.placed)))
            maker = order["maker"]
            kind = rng.randrange(3)
            if kind == 0:
                self.send("DELETE", order_id, {"maker": maker})
            elif kind == 1:
                remaining = str(rng.randint(1, 4) * ONE)
                self.send("PATCH", order_id, {"maker": maker, "remaining": remaining})
            else:
                same = {name: order[name] for name in ("maker", "tokenId")}
                self.send("POST", f"{order_id}/replace", {**self.order(), **same})
            return
        self.send("POST", "gasless", self.order())

    def run(self, count):
        """Send random requests."""
        for _ in range(count):
            self.step()

    def levels(self):
        """Return the books as the server states them: levels in wei by token, bids first."""
        found = []
        for token in (self.market.yes, self.market.no):
            query = {"tokenId": str(token)}
            book = self.live.http.get(f"/api/markets/{self.market.id}/orderbook", params=query)
            sides = (book.json()[side] for side in ("bids", "asks"))
            found.append([[(each["price"], int(each["size"])) for each in side] for side in sides])
        return found

    def seq(self):
        """Return the number of the last event."""
        return self.live.http.get(f"/api/markets/{self.market.id}").json()["seq"]


class RandomTrader(Strategy):
    """Places and cancels random orders in every method that is called.

    Args:
        on_start: called at the start of the run.
    """

    SIZES = (1, 3, 10)
    LOTS = 10**6

    def __init__(self, started=None):
        self.rng = random.Random(7)
        self.started = started
        self.calls = []

    def on_start(self, market):
        if self.started is not None:
            self.started.set()

    def act(self, market, name):
        """Send a random order to a random book that exists, or cancel one."""
        self.calls.append((name, market.number, market.now_ns))
        rng = self.rng
        for outcome in (market.yes, market.no):
            if not outcome.has_book or outcome.best_bid is None or outcome.best_ask is None:
                continue
            draw = rng.random()
            if draw < 0.4 and outcome.open_orders:
                market.cancel(rng.choice(outcome.open_orders))
            elif draw < 0.8:
                size = rng.choice(self.SIZES) * self.LOTS
                offset = rng.randint(-1, 1)
                if rng.random() < 0.5:
                    outcome.buy(outcome.best_bid + offset, size)
                else:
                    outcome.sell(outcome.best_ask + offset, size)


class Waking(RandomTrader):
    """Acts on a timer alone."""

    def on_wake(self, market):
        self.act(market, "wake")


class Reacting(RandomTrader):
    """Acts on books, fills and replies alone."""

    def on_book(self, market):
        self.act(market, "book")

    def on_fill(self, market, fill):
        self.calls.append(("fill", fill.price, fill.size, fill.ts_ns))

    def on_order(self, market, order):
        self.calls.append(("order", order.id, order.state, market.now_ns))


class Both(Waking, Reacting):
    """Acts on everything."""
