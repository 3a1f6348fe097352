"""Randomised days with a hostile maker and a faulty chain: only the hostile maker's trades fail.

Balances are computed from settled trades and direct transfers, and compared with the chain to the
wei. ``CLOB_CHAIN_DAYS`` is the number of days.
"""

import contextlib
import os
import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

import pytest

from clob.signing import SignedOrder
from clob_server.chain.eth.exchange_abi import CANCEL, order_values
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.people import MAX, UNIT, read
from tests.chain.proxy import Drop, in_front_of
from tests.chain.settlements import advance_time
from tests.chain.settling_venues import (
    BUY,
    SELL,
    SETTINGS,
    SettlingVenue,
    accounts_of,
    settled_numbers,
)
from tests.chain.test_node_faults import WRONG
from tests.chain.test_server_faults import kill_child
from tests.chain.venues import wait_until
from tests.server.live import live_server

DAYS = int(os.environ.get("CLOB_CHAIN_DAYS", "1"))
ROUNDS = 12
ORDERS = 6
HOUR_S = 3_600
FEES = {"restingFeeRateBps": 10, "incomingFeeRateBps": 25}
REJECTIONS = {"INSUFFICIENT_BALANCE", "NONCE_TOO_LOW", "GASLESS_NOT_ALLOWED"}
WORKER = "clob_server.chain.worker"


class Day:
    """A randomised day.

    Args:
        venue: a server behind a proxy.
        seed: seed of the random numbers.
    """

    def __init__(self, venue, seed):
        self.venue, self.random = venue, random.Random(seed)
        self.tokens = venue.tokens()
        self.people = [venue.trader(8) for _ in range(4)]
        self.eve, self.mallory = venue.trader(8), venue.trader(0)
        self.everybody = [*self.people, self.eve, self.mallory]
        self.people[0].call(venue.contracts.exchange, "setGasless(bool)", True)
        self.nonce = 0
        self.signed = []
        """Orders that Eve signed in this round."""
        self.has = Counter(self.held())
        self.counted = set()
        self.ends = Counter()
        self.hostilities = [
            self.takes_back_tokens,
            self.takes_back_collateral,
            self.gives_away_collateral,
            self.gives_away_tokens,
            self.raises_her_nonce,
            self.cancels_on_the_chain,
        ]

    def held(self):
        """Return all balances from the chain by address and token; None is collateral."""
        ledger = self.venue.ledger
        found = {}
        for user in self.everybody:
            found[user.address, None] = ledger.collateral(user.address)
            for token in self.tokens:
                found[user.address, token] = ledger.token(user.address, token)
        return found

    # ----- orders --------------------------------------------------------------------------------

    def order(self, user):
        """Place a random order; only rejections of :data:`REJECTIONS` are allowed."""
        draw, venue = self.random, self.venue
        size = draw.randint(1, 100) * UNIT // 100
        side, token = draw.choice((BUY, SELL)), draw.choice(self.tokens)
        price = draw.randint(45, 55)
        if user is self.people[0] and draw.random() < 0.5:
            body = {"maker": user.address, "marketId": "rain", "tokenId": str(token)}
            body |= {"side": int(side), "price": price, "size": str(size)}
            answer = venue.http.post("/api/orders/gasless", json=body)
        else:
            fields = {"fee_rate_bps": draw.choice((0, 20, 1_000))}
            fields["nonce"] = self.nonce if user is self.eve else 0
            body = venue.signed(user, side, price, size, token=token, **fields)
            answer = venue.http.post("/api/orders", json=body)
            if user is self.eve:
                self.signed.append(SignedOrder.from_json(body))
        if answer.status_code != 200:
            assert answer.json()["code"] in REJECTIONS, answer.text

    def count(self):
        """Apply each new settled trade once, and count the results."""
        trades = self.venue.http.get("/api/markets/rain/trades", params={"limit": 100}).json()
        for trade in trades:
            if trade["id"] not in self.counted:
                self.counted.add(trade["id"])
                self.ends[trade["settlement"]] += 1
                hostile = self.eve.address in (trade["buyer"], trade["seller"])
                if trade["settlement"] == "settled":
                    self.move(trade)
                else:
                    assert trade["settlement"] == "failed"
                    assert hostile or trade["matchType"] != "direct", trade
                    assert trade["settlementReason"]

    def move(self, trade):
        """Apply the transfers of a trade."""
        size, token = int(trade["size"]), int(trade["tokenId"])
        cost = size * trade["price"] // 100
        if trade["buyer"]:
            self.has[trade["buyer"], None] -= cost
            self.has[trade["buyer"], token] += size - int(trade["buyerFee"])
        if trade["seller"]:
            self.has[trade["seller"], None] += cost - int(trade["sellerFee"])
            self.has[trade["seller"], token] -= size

    # ----- hostile actions of Eve while trades are pending ---------------------------------------

    def takes_back_tokens(self):
        self.venue.allow_tokens(self.eve, False)

    def takes_back_collateral(self):
        place, exchange = self.venue.contracts.collateral, self.venue.contracts.exchange
        self.eve.call(place, "approve(address,uint256)", exchange, 0)

    def gives_away_collateral(self):
        amount = self.venue.ledger.collateral(self.eve.address)
        self.eve.send_collateral(self.mallory.address, amount)
        self.given(None, amount)

    def gives_away_tokens(self):
        for token in self.tokens:
            amount = self.venue.ledger.token(self.eve.address, token)
            self.eve.send_token(self.mallory.address, token, amount)
            self.given(token, amount)

    def raises_her_nonce(self):
        self.eve.call(self.venue.contracts.exchange, "incrementNonce()")
        self.nonce += 1
        advance_time(self.venue, HOUR_S)  # now it is effective

    def cancels_on_the_chain(self):
        for order in self.signed:
            self.eve.send(self.venue.contracts.exchange, CANCEL.encode(order_values(order)))
        advance_time(self.venue, HOUR_S)

    def given(self, token, amount):
        """Record a transfer from Eve to Mallory."""
        self.has[self.eve.address, token] -= amount
        self.has[self.mallory.address, token] += amount

    def returns(self):
        """Return Eve's funds and approvals."""
        for token in (None, *self.tokens):
            amount = self.amount(self.mallory, token)
            if amount:
                give = self.mallory.send_collateral if token is None else self.mallory.send_token
                give(self.eve.address, *(() if token is None else (token,)), amount)
                self.has[self.mallory.address, token] -= amount
                self.has[self.eve.address, token] += amount
        self.venue.allow(self.eve, MAX)

    def amount(self, user, token):
        """Return a balance from the chain."""
        ledger = self.venue.ledger
        if token is None:
            return ledger.collateral(user.address)
        return ledger.token(user.address, token)

    # ----- a round -------------------------------------------------------------------------------

    def round(self, number):
        """Trade with a hostile action and a fault, then compare balances."""
        venue, draw = self.venue, self.random
        self.signed.clear()
        with self.wrong():
            for _ in range(ORDERS):
                self.order(draw.choice(self.people))
                self.order(self.eve)
            if draw.random() < 0.3:
                kill_child(venue.live.process.pid, WORKER)
            self.hostilities[number % len(self.hostilities)]()
        wait_until(lambda: venue.chain()["state"] == "ready")
        assert venue.quiet()["difference"] == 0
        self.count()
        assert dict(self.has) == self.held()
        advance_time(venue, HOUR_S)
        self.returns()

    def wrong(self):
        """Return a context with a random fault of the node."""
        if self.random.random() < 0.5:
            return self.venue.proxy.inject(Drop())
        kind = self.random.choice(list(WRONG))
        return self.venue.proxy.inject(WRONG[kind](None, times=self.random.randint(1, 6)))

    def check_backing(self):
        """Check that both token supplies equal the locked collateral."""
        supplies = {self.venue.ledger.supply(token) for token in self.tokens}
        locked = read(
            self.venue,
            self.venue.contracts.collateral,
            "balanceOf(address)",
            self.venue.contracts.conditional_tokens,
        )
        assert supplies == {locked}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(DAYS))
def test_hostile_maker_gains_nothing_and_balances_add_up(tmp_path, kind, seed):
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(running(start_node(kind, tmp_path / "devchain")))
        proxy = stack.enter_context(in_front_of(node))
        settings = {**SETTINGS, "chain": proxy.url, "chain_bump_after_s": 1}
        live = stack.enter_context(live_server(tmp_path / "data", **settings))
        venue = SettlingVenue(live, node.url).set_up(complementary=True, **FEES)
        venue.proxy = proxy
        day = Day(venue, seed)
        for number in range(ROUNDS):
            day.round(number)
        day.check_backing()
        assert day.ends["settled"] > ROUNDS
        assert day.ends["failed"]
        numbers = settled_numbers(venue)
        assert len(numbers) == len(set(numbers))
        books = venue.books.accounts(*day.tokens)
        live.kill()
        assert accounts_of(tmp_path / "data")[1] == books
