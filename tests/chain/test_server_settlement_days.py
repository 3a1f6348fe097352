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
from clob_server.chain.eth.exchange_abi import CANCEL
from tests.chain.chain_server import wait_until
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.proxy import Drop, proxy_to
from tests.chain.settlements import advance_time
from tests.chain.settling_server import (
    BUY,
    SELL,
    SETTINGS,
    SettlingServer,
    accounts_of,
    settled_numbers,
)
from tests.chain.signed_fills import order_values
from tests.chain.test_node_faults import NODE_FAULTS
from tests.chain.test_server_faults import kill_child
from tests.chain.wallets import MAX, UNIT, read
from tests.server.live import live_server

DAYS = int(os.environ.get("CLOB_CHAIN_DAYS", "1"))
ROUNDS = 12
ORDERS = 6
HOUR_S = 3_600
FEES = {"restingFeeRateBps": 10, "incomingFeeRateBps": 25}
REJECTIONS = {
    "INSUFFICIENT_BALANCE", "NONCE_TOO_LOW", "GASLESS_NOT_ALLOWED", "MAKER_COOLING_DOWN"
}  # fmt: skip
COOL_S = 0.1
WORKER = "clob_server.chain.worker"


class Day:
    """A randomised day.

    Args:
        server: a server behind a proxy.
        seed: seed of the random numbers.
    """

    def __init__(self, server, seed):
        self.server, self.random = server, random.Random(seed)
        self.tokens = server.tokens()
        self.makers = [server.trader(8) for _ in range(4)]
        self.eve, self.mallory = server.trader(8), server.trader(0)
        self.users = [*self.makers, self.eve, self.mallory]
        self.makers[0].call(server.contracts.exchange, "setGasless(bool)", True)
        self.nonce = 0
        self.signed = []
        """Orders that Eve signed in this round."""
        self.expected = Counter(self.held())
        self.counted = set()
        self.ends = Counter()
        self.hostile_actions = [
            self.revoke_tokens,
            self.revoke_collateral,
            self.transfer_collateral,
            self.transfer_tokens,
            self.raise_nonce,
            self.cancel_on_chain,
        ]

    def held(self):
        """Return all balances from the chain by address and token; None is collateral."""
        ledger = self.server.ledger
        balances = {}
        for user in self.users:
            balances[user.address, None] = ledger.collateral(user.address)
            for token in self.tokens:
                balances[user.address, token] = ledger.token(user.address, token)
        return balances

    # ----- orders --------------------------------------------------------------------------------

    def order(self, user):
        """Place a random order; only rejections of :data:`REJECTIONS` are allowed."""
        draw, server = self.random, self.server
        size = draw.randint(1, 100) * UNIT // 100
        side, token = draw.choice((BUY, SELL)), draw.choice(self.tokens)
        price = draw.randint(45, 55)
        if user is self.makers[0] and draw.random() < 0.5:
            body = {"maker": user.address, "marketId": "rain", "tokenId": str(token)}
            body |= {"side": int(side), "price": price, "size": str(size)}
            answer = server.http.post("/api/orders/gasless", json=body)
        else:
            fields = {"fee_rate_bps": draw.choice((0, 20, 1_000))}
            fields["nonce"] = self.nonce if user is self.eve else 0
            body = server.signed(user, side, price, size, token=token, **fields)
            answer = server.http.post("/api/orders", json=body)
            if user is self.eve:
                self.signed.append(SignedOrder.from_json(body))
        if answer.status_code != 200:
            assert answer.json()["code"] in REJECTIONS, answer.text

    def count(self):
        """Apply each new settled trade once, and count the results."""
        trades = self.server.http.get("/api/markets/rain/trades", params={"limit": 100}).json()
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
            self.expected[trade["buyer"], None] -= cost
            self.expected[trade["buyer"], token] += size - int(trade["buyerFee"])
        if trade["seller"]:
            self.expected[trade["seller"], None] += cost - int(trade["sellerFee"])
            self.expected[trade["seller"], token] -= size

    # ----- hostile actions of Eve while trades are pending ---------------------------------------

    def revoke_tokens(self):
        self.server.allow_tokens(self.eve, False)

    def revoke_collateral(self):
        collateral, exchange = self.server.contracts.collateral, self.server.contracts.exchange
        self.eve.call(collateral, "approve(address,uint256)", exchange, 0)

    def transfer_collateral(self):
        amount = self.server.ledger.collateral(self.eve.address)
        self.eve.send_collateral(self.mallory.address, amount)
        self.record_transfer(None, amount)

    def transfer_tokens(self):
        for token in self.tokens:
            amount = self.server.ledger.token(self.eve.address, token)
            self.eve.send_token(self.mallory.address, token, amount)
            self.record_transfer(token, amount)

    def raise_nonce(self):
        self.eve.call(self.server.contracts.exchange, "incrementNonce()")
        self.nonce += 1
        advance_time(self.server, HOUR_S)  # the new nonce is effective after a delay

    def cancel_on_chain(self):
        for order in self.signed:
            self.eve.send(self.server.contracts.exchange, CANCEL.encode(order_values(order)))
        advance_time(self.server, HOUR_S)

    def record_transfer(self, token, amount):
        """Record a transfer from Eve to Mallory."""
        self.expected[self.eve.address, token] -= amount
        self.expected[self.mallory.address, token] += amount

    def restore_eve(self):
        """Return Eve's funds and approvals."""
        for token in (None, *self.tokens):
            amount = self.amount(self.mallory, token)
            if amount:
                send = self.mallory.send_collateral if token is None else self.mallory.send_token
                send(self.eve.address, *(() if token is None else (token,)), amount)
                self.expected[self.mallory.address, token] -= amount
                self.expected[self.eve.address, token] += amount
        self.server.allow(self.eve, MAX)

    def amount(self, user, token):
        """Return a balance from the chain."""
        ledger = self.server.ledger
        if token is None:
            return ledger.collateral(user.address)
        return ledger.token(user.address, token)

    # ----- a round -------------------------------------------------------------------------------

    def round(self, number):
        """Trade with a hostile action and a fault, then compare balances."""
        server, draw = self.server, self.random
        self.signed.clear()
        with self.node_fault():
            for _ in range(ORDERS):
                self.order(draw.choice(self.makers))
                self.order(self.eve)
            if draw.random() < 0.3:
                kill_child(server.live.process.pid, WORKER)
            self.hostile_actions[number % len(self.hostile_actions)]()
        wait_until(lambda: server.chain()["state"] == "ready")
        assert server.quiet().difference == 0
        self.count()
        assert dict(self.expected) == self.held()
        advance_time(server, HOUR_S)
        self.restore_eve()

    def node_fault(self):
        """Return a context with a random fault of the node."""
        if self.random.random() < 0.5:
            return self.server.proxy.inject(Drop())
        kind = self.random.choice(list(NODE_FAULTS))
        return self.server.proxy.inject(NODE_FAULTS[kind](None, times=self.random.randint(1, 6)))

    def check_backing(self):
        """Check that both token supplies equal the locked collateral."""
        supplies = {self.server.ledger.supply(token) for token in self.tokens}
        locked = read(
            self.server,
            self.server.contracts.collateral,
            "balanceOf(address)",
            self.server.contracts.conditional_tokens,
        )
        assert supplies == {locked}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(DAYS))
def test_hostile_maker_gains_nothing_and_balances_add_up(tmp_path, kind, seed):
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(running(start_node(kind, tmp_path / "devchain")))
        proxy = stack.enter_context(proxy_to(node))
        settings = {**SETTINGS, "chain": proxy.url, "chain_bump_after_s": 1}
        live = stack.enter_context(
            live_server(tmp_path / "data", maker_cool_down_s=COOL_S, **settings)
        )
        server = SettlingServer(live, node.url).set_up(complementary=True, **FEES)
        server.proxy = proxy
        day = Day(server, seed)
        for number in range(ROUNDS):
            day.round(number)
        day.check_backing()
        assert day.ends["settled"] > ROUNDS
        assert day.ends["failed"]
        numbers = settled_numbers(server)
        assert len(numbers) == len(set(numbers))
        books = server.books.accounts(*day.tokens)
        live.kill()
        assert accounts_of(tmp_path / "data")[1] == books
