"""A simulated day: makers trade over HTTP while nodes lie, die and reorganise.

A minute of the day is a round: time passes, makers place orders in an escrow market and in a wallet
market, hostile ones withdraw from their trades, and the chain replaces its last blocks.
"""

import contextlib
import itertools
import random  # noqa: TID251 - seeded, and outside the engine
import time
from collections import Counter

from clob.signing import SignedOrder, order_hash
from clob_server.chain.eth.exchange_abi import CANCEL, FAILED, FEE_WALLET, SETTLED
from tests.chain.chain_server import wait_until
from tests.chain.exchange.escrow_model import Rebuilt
from tests.chain.proxy import Drop, Lie
from tests.chain.settling_server import BUY, SELL
from tests.chain.signed_fills import order_values
from tests.chain.test_server_faults import kill_child
from tests.chain.wallets import UNIT

MARKETS = {"rain": "escrow", "snow": "wallet"}
REJECTIONS = {
    "INSUFFICIENT_BALANCE", "NONCE_TOO_LOW", "MAKER_COOLING_DOWN", "MARKET_STALLED",
    "ORDER_CANCELLED", "SELF_TRADE",
}  # fmt: skip
WORKER = "clob_server.chain.worker"
CLOCK = "/api/test/clock"
MINUTE_MS = 60_000
QUIET_S = 0.1
"""Time in which anvil ends the block that it mines."""
DEEPEST = 5
"""Blocks of the deepest reorganisation."""


class MarketDay:
    """The makers, their orders, and the expected sums of their balances.

    Args:
        server: an :class:`EscrowServer` with ``proxies`` of its nodes.
        lies: changes of results by method.
        restart: kills the server and starts it again.
        seed: seed of the day.
        num_makers: number of makers, of which a tenth is hostile.
    """

    def __init__(self, server, lies, restart, seed, num_makers):
        self.server, self.lies, self.restart = server, lies, restart
        self.random = random.Random(seed)
        self.tokens = {name: server.tokens(name) for name in MARKETS}
        self.makers = [self._maker() for _ in range(num_makers)]
        self.hostile = self.makers[::10]
        self.accomplice = server.trader(0, allows=False)
        self.nonces, self.orders = Counter(), {}
        """Signed orders by order id."""
        self.counts = Counter()
        """Orders, rejections by code, hostile actions, faults and reorganisations."""
        self.start = self._held()
        self.hostile_actions = [
            self.request, self.withdraw, self.raise_nonce, self.cancel, self.revoke, self.allow,
            self.transfer_collateral, self.transfer_token, self.deposit,
        ]  # fmt: skip

    def _maker(self):
        """Return a maker with a unit of each asset in its wallet and in escrow."""
        server = self.server
        user = server.depositor(1)
        server.source.send_collateral(user.address, UNIT)
        for token in self.tokens["snow"]:
            server.source.send_token(user.address, token, UNIT)
        return user

    @property
    def assets(self):
        """Collateral and all tokens."""
        return 0, *itertools.chain(*self.tokens.values())

    def _held(self):
        """Return balances in wallet and escrow together, by address and asset, from the chain."""
        server, held = self.server, Counter()
        tokens = server.ledger.token_holders()
        for user in (*self.makers, self.accomplice):
            held[user.address, 0] = server.ledger.collateral(user.address)
            for asset in self.assets:
                held[user.address, asset] += tokens[asset, user.address] if asset else 0
                held[user.address, asset] += server.escrow_of(user, asset)[0]
        return held

    # ----- a minute ----------------------------------------------------------------------------

    def minute(self, number, num_orders):
        """Trade for a minute, with one endpoint that lies and faults of others."""
        draw, server = self.random, self.server
        liar, other, _ = (server.proxies[(number + place) % 3] for place in range(3))
        with contextlib.ExitStack() as stack:
            for method, change in self.lies.items():
                stack.enter_context(liar.inject(Lie(change, method)))
            self._pass_minute()
            if draw.random() < 0.2:
                stack.enter_context(other.inject(Drop()))
                self.counts["node gone"] += 1
            if draw.random() < 0.1:
                self.counts["worker killed"] += kill_child(server.live.process.pid, WORKER)
            for _ in range(num_orders):
                maker = draw.choice([*self.makers, *self.hostile * 3])
                self.order(maker)
                if maker in self.hostile and draw.random() < 0.5:
                    # It reverts if a settlement comes between its reading and its transaction.
                    with contextlib.suppress(AssertionError):
                        draw.choice(self.hostile_actions)(maker)
        if draw.random() < 0.05:
            self.restart()
            self.counts["server killed"] += 1
        # It takes a while, so that no request is answered by the liars of two minutes.
        self.reorganise()
        if number % 5 == 4:
            self.settled()

    def _pass_minute(self):
        """Let a minute pass on server and chain, once the chain worker is ready."""
        wait_until(lambda: self.server.chain()["state"] == "ready")
        wait_until(lambda: self.server.done(CLOCK, {"advanceMs": MINUTE_MS})["chain"] == "moved")

    def reorganise(self):
        """Replace some of the last blocks by empty ones, and add a block."""
        depth = self.random.randint(1, DEEPEST)
        # A block that anvil mines meanwhile would stay in the chain without its state.
        self.server.ask("evm_setAutomine", False)
        time.sleep(QUIET_S)
        self.server.ask("anvil_reorg", depth, [])
        self.server.ask("evm_setAutomine", True)
        self.server.ask("anvil_mine", "0x1")
        self.counts[f"depth {depth}"] += 1

    def settled(self):
        """Wait until all trades are settled or failed."""
        wait_until(lambda: self.server.chain()["state"] == "ready")
        return self.server.until_settled()

    def order(self, maker):
        """Place a random order; a hostile maker sometimes sends it twice."""
        draw, server = self.random, self.server
        name = draw.choice(list(MARKETS))
        body = server.signed(
            maker, draw.choice((BUY, SELL)), draw.randint(48, 52),
            draw.randint(1, 25) * UNIT // 100, token=draw.choice(self.tokens[name]),
            nonce=self.nonces[maker.address], fee_rate_bps=draw.choice((20, 1_000)),
        )  # fmt: skip
        body["marketId"] = name
        self._post(body)
        if maker in self.hostile and draw.random() < 0.2:
            self._post(body)

    def _post(self, body):
        """Place an order; the same one again places no other."""
        answer = self.server.http.post("/api/orders", json=body)
        found = answer.json()
        if answer.status_code == 200:
            order, number = SignedOrder.from_json(body), found["orderId"]
            assert (number in self.orders) == found.get("duplicate", False)
            assert self.orders.setdefault(number, order) == order
        else:
            assert found["code"] in REJECTIONS, answer.text
        self.counts[found.get("code") or ("again" if "duplicate" in found else "placed")] += 1

    # ----- hostile actions, right after an order -------------------------------------------------

    def request(self, maker):
        asset = self.random.choice((0, *self.tokens["rain"]))
        amount = self.server.escrow_of(maker, asset)[0]
        self.server.request(maker, asset, amount)
        self.counts["request"] += 1

    def withdraw(self, maker):
        """Withdraw; it reverts if nothing is due."""
        asset = self.random.choice((0, *self.tokens["rain"]))
        self.server.withdraw(maker, asset)
        self.counts["withdrawal"] += 1

    def deposit(self, maker):
        amount = self.server.ledger.collateral(maker.address) // 2
        if amount:
            self.server.allow(maker)
            self.server.deposit(maker, 0, amount)
            self.counts["deposit"] += 1

    def raise_nonce(self, maker):
        maker.call(self.server.contracts.exchange, "incrementNonce()")
        self.nonces[maker.address] += 1
        self.counts["nonce"] += 1

    def cancel(self, maker):
        own = [order for order in self.orders.values() if order.maker == maker.address]
        for order in own[-2:]:
            maker.send(self.server.contracts.exchange, CANCEL.encode(order_values(order)))
            self.counts["cancel"] += 1

    def revoke(self, maker):
        self.server.allow(maker, 0, tokens=False)
        self.counts["approvals removed"] += 1

    def allow(self, maker):
        self.server.allow(maker)

    def transfer_collateral(self, maker):
        amount = self.server.ledger.collateral(maker.address) // 2
        maker.send_collateral(self.accomplice.address, amount)
        self.counts["transfer"] += 1

    def transfer_token(self, maker):
        token = self.random.choice(self.tokens["snow"])
        amount = self.server.ledger.token(maker.address, token) // 2
        maker.send_token(self.accomplice.address, token, amount)
        self.counts["transfer"] += 1

    # ----- the oracle ----------------------------------------------------------------------------

    def check(self, final_blocks):
        """Compare results, balances and accounts with the final chain."""
        server = self.server
        self.settled()
        server.ask("anvil_mine", hex(final_blocks + 1))
        wait_until(lambda: all(trade.final for trade in self.trades()))
        wait_until(lambda: server.settlement().difference == 0)
        trades = self.trades()
        self._check_fates(trades)
        self._check_balances(trades)
        self._check_escrow()

    def trades(self):
        """Return all trades of the server."""
        with self.server.live.client() as client:
            return [trade for name in MARKETS for trade in client.trades(name, limit=100)]

    def _check_fates(self, trades):
        """Compare the result of each trade with the logs of the chain; escrow trades settle."""
        on_chain = Counter()
        for log in self._logs():
            if SETTLED.is_in(log):
                _, *orders, price, size = SETTLED.decode(log)
                on_chain[*orders, price, size] += 1
            self.counts["failed on chain"] += FAILED.is_in(log)
        found, num_failed, hostile = Counter(), 0, {maker.address for maker in self.hostile}
        for trade in trades:
            resting, incoming = (
                self.orders[each] for each in (trade.resting_order_id, trade.incoming_order_id)
            )
            is_first = str(resting.token_id) == trade.token_id
            self.counts[f"{trade.settlement} {trade.match_type} {trade.market_id}"] += 1
            if trade.settlement == "settled":
                hashes = [order_hash(each, self.server.domain) for each in (resting, incoming)]
                found[*hashes, trade.price, int(trade.size)] += is_first
            else:
                assert trade.settlement == "failed"
                num_failed += is_first
                assert trade.settlement_reason
                assert MARKETS[trade.market_id] == "wallet", trade
                assert {resting.maker, incoming.maker} & hostile, trade
        wrong = found - on_chain, on_chain - found
        assert not any(wrong), wrong
        assert num_failed == self.counts["failed on chain"]

    def _check_balances(self, trades):
        """Check that honest makers have what their trades moved, and all hostile ones together."""
        expected = self.start.copy()
        for trade in trades:
            if trade.settlement == "settled":
                size, token = int(trade.size), int(trade.token_id)
                cost = size * trade.price // 100
                if trade.buyer:
                    expected[trade.buyer, 0] -= cost
                    expected[trade.buyer, token] += size - int(trade.buyer_fee)
                if trade.seller:
                    expected[trade.seller, 0] += cost - int(trade.seller_fee)
                    expected[trade.seller, token] -= size
        held = self._held()
        for asset in self.assets:
            group = [user.address for user in (*self.hostile, self.accomplice)]
            for balances in (held, expected):
                balances["hostile", asset] = sum(balances.pop((each, asset)) for each in group)
        assert held == expected

    def _check_escrow(self):
        """Compare escrow rebuilt from logs with the contract."""
        server = self.server
        call = {"to": server.contracts.exchange, "data": f"0x{FEE_WALLET.encode().hex()}"}
        (fee_wallet,) = FEE_WALLET.decode(bytes.fromhex(server.ask("eth_call", call, "latest")[2:]))
        rebuilt = Rebuilt(fee_wallet=fee_wallet)
        rebuilt.process(self._logs())
        self.escrow = {key: amount for key, amount in rebuilt.escrow.items() if amount}
        """Balances in escrow by wallet and asset, from logs alone."""
        addresses = {user.address: user for user in self.makers}
        for asset in self.assets:
            for address in (*addresses, fee_wallet):
                amount = self.escrow.get((address, asset), 0)
                assert server.escrow_at(address, asset)[0] == amount
        assert {address for address, _ in self.escrow} <= {*addresses, fee_wallet}

    def available_escrow(self, collateral_account):
        """Return what the server's accounts have of escrow: balances without requests."""
        found = {}
        for (address, asset), amount in self.escrow.items():
            account = str(asset) if asset else collateral_account
            requested = self.server.escrow_at(address, asset)[1]
            found[address, account] = amount - min(amount, requested)
        return {account: amount for account, amount in found.items() if amount}

    def _logs(self):
        """Return all logs of the exchange."""
        query = {"address": self.server.contracts.exchange, "fromBlock": "0x0"}
        return self.server.ask("eth_getLogs", query | {"toBlock": "latest"})
