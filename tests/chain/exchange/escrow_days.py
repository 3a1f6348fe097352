"""Random days of an exchange with escrow: actions of makers, and a ledger that predicts them."""

from collections import Counter

from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import (
    COLLATERAL_ASSET,
    DELAY_S,
    DEPOSIT,
    DEPOSITED,
    FAILED,
    FAILED_BEFORE,
    ORDER_FILLED,
    REQUEST_WITHDRAWAL,
    SETTLED,
    SETTLED_BEFORE,
    WITHDRAW,
    WITHDRAWN,
)
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.evm_market import BOSS, BUY, FEES, MAKERS, ONE, OWNER, PAUSER, SELL
from tests.chain.signed_fills import Party, encode_settle
from tests.chain.wallets import BURNS, REVERTS

WALLETS = [maker.address for maker in MAKERS]
CASH = COLLATERAL_ASSET
MOST_FEE_BPS = 1_000
UNKNOWN = 7
"""A token id without a condition."""
CALL_GAS = 1_000_000
PAUSE, UNPAUSE = Function("pause()"), Function("unpause()")
CODES = (b"", REVERTS, BURNS)
"""Codes of hostile wallets: none, one that rejects tokens, and one that burns gas."""


class Accounts:
    """Balances in wallets and in escrow, requests, and results of trades, without the chain."""

    def __init__(self, market):
        self.market = market
        self.wallets = Counter()
        """Balances by holder and asset."""
        self.escrow = Counter()
        """Balances in escrow by wallet and asset."""
        for holder in (*WALLETS, FEES, BOSS):
            balances = market.balances(holder)
            self.wallets.update(
                {
                    (holder, asset): balance
                    for asset, balance in zip(market.assets, balances, strict=True)
                }
            )
        self.requests = {}
        """Requested amount and time by wallet and asset."""
        self.locked = market.balances(market.tokens)[0]
        self.codes = dict.fromkeys(WALLETS, b"")
        self.ended = {}
        """The event that repeats the result of a trade, by trade id."""
        self.is_paused = False

    # ----- actions of makers -----------------------------------------------------------------

    def deposits(self, sender, wallet, asset, amount):
        """Return whether a deposit succeeds, and apply it."""
        if not 0 < amount <= self.wallets[sender, asset]:
            return False
        self.wallets[sender, asset] -= amount
        self.escrow[wallet, asset] += amount
        return True

    def is_requested(self, wallet, asset, amount, now_s):
        """Return whether a request succeeds, and apply it."""
        if amount > self.escrow[wallet, asset]:
            return False
        self.requests[wallet, asset] = (amount, now_s + DELAY_S)
        return True

    def withdraws(self, wallet, asset, now_s):
        """Return whether a withdrawal succeeds, and apply it."""
        amount, due_s = self.requests.get((wallet, asset), (0, 0))
        if amount == 0 or now_s < due_s:
            return False
        amount = min(amount, self.escrow[wallet, asset])
        if asset != CASH and amount and self.codes[wallet]:
            return False
        del self.requests[wallet, asset]
        self.escrow[wallet, asset] -= amount
        self.wallets[wallet, asset] += amount
        return True

    # ----- fills -----------------------------------------------------------------------------

    def settles(self, fill, custody):
        """Return the result of a fill, and apply it: empty, a failure, or a repeated result."""
        if fill.trade_id in self.ended:
            return self.ended[fill.trade_id]
        is_done = self._is_rated(fill) and self._moves(fill, custody)
        self.ended[fill.trade_id] = "SettledBefore" if is_done else "FailedBefore"
        return "" if is_done else "failure"

    def _is_rated(self, fill):
        """Return whether both orders allow the fees and the price."""
        return not self._is_odd(fill) and all(
            party.fee_rate_bps <= min(party.order.fee_rate_bps, MOST_FEE_BPS)
            and self._is_priced(party.order, price)
            for party, price in self.legs(fill)
        )

    def _is_odd(self, fill):
        """Return whether the orders cannot meet."""
        one, other = fill.resting.order, fill.incoming.order
        if one.token_id == other.token_id:
            return one.token_id == CASH or one.side == other.side
        pair = {self.market.yes, self.market.no}
        return {one.token_id, other.token_id} != pair or one.side != other.side

    def _is_priced(self, order, price):
        limit_wei, size = order.maker_amount, order.taker_amount
        if order.side == BUY:
            return price * size < 100 * limit_wei + 100
        return price * limit_wei + 100 > 100 * size

    def legs(self, fill):
        """Return both orders of a fill with the price of their own token."""
        first, second = fill.resting, fill.incoming
        is_direct = first.order.token_id == second.order.token_id
        return (first, fill.price), (second, fill.price if is_direct else 100 - fill.price)

    def _moves(self, fill, custody):
        """Apply the transfers of a fill if both makers have enough; return whether they do."""
        before = self.wallets.copy(), self.escrow.copy(), self.locked
        balances = self.escrow if custody == "escrow" else self.wallets
        size, part = fill.size, fill.size * fill.price // 100
        legs = self.legs(fill)
        is_direct = legs[0][0].order.token_id == legs[1][0].order.token_id
        amounts = part, part if is_direct else size - part
        sides = [party.order.side for party, _ in legs]
        moves = []
        for (party, price), amount in zip(legs, amounts, strict=True):
            order, rate = party.order, party.fee_rate_bps * min(price, 100 - price)
            if order.side == BUY:
                fee = rate * size // (10_000 * price)
                moves.append((order.maker, CASH, amount, order.token_id, size - fee, fee))
            else:
                fee = rate * size // 1_000_000
                moves.append((order.maker, order.token_id, size, CASH, amount - fee, fee))
        for maker, paid_asset, paid, got_asset, got, fee in self._in_order(moves, custody):
            balances[maker, paid_asset] -= paid
            if balances[maker, paid_asset] < 0:
                self.wallets, self.escrow, self.locked = before
                return False
            balances[maker, got_asset] += got
            balances[FEES, got_asset] += fee
        self.locked += size * (sides.count(BUY) - 1)
        buyers = {party.order.maker for party, _ in legs if party.order.side == BUY}
        if custody == "wallet" and any(self.codes[buyer] for buyer in buyers):
            self.wallets, self.escrow, self.locked = before
            return False
        return True

    def _in_order(self, moves, custody):
        """Return the moves in the order of the contract: between wallets the buyer pays first."""
        if custody == "escrow":
            return moves
        return sorted(moves, key=lambda move: move[1] != CASH)

    # ----- comparison ------------------------------------------------------------------------

    def check(self):
        """Compare with the chain, to the wei, per wallet and asset."""
        market = self.market
        totals = [0, 0, 0]
        for holder in (*WALLETS, FEES, BOSS):
            wanted = tuple(self.wallets[holder, asset] for asset in market.assets)
            assert market.balances(holder) == wanted
            found = market.escrows(holder)
            assert found == tuple(self.escrow[holder, asset] for asset in market.assets)
            totals = [total + one for total, one in zip(totals, found, strict=True)]
        assert market.totals() == tuple(totals)
        assert market.balances(market.exchange) == tuple(totals)
        yes, no = (
            totals[place] + sum(self.wallets[holder, asset] for holder in (*WALLETS, FEES, BOSS))
            for place, asset in ((1, market.yes), (2, market.no))
        )
        assert yes == no == self.locked == market.balances(market.tokens)[0]


class Rebuilt:
    """Balances in escrow, rebuilt from the logs of the exchange alone."""

    def __init__(self):
        self.escrow = {}

    def process(self, logs):
        """Apply logs in chain order."""
        for log in logs:
            if DEPOSITED.is_in(log):
                wallet, asset, amount, _ = DEPOSITED.decode(log)
                self._add(wallet, asset, amount)
            elif WITHDRAWN.is_in(log):
                wallet, asset, amount = WITHDRAWN.decode(log)
                self._add(wallet, asset, -amount)
            elif ORDER_FILLED.is_in(log):
                _, maker, wallet, token, side, in_escrow, *amounts = ORDER_FILLED.decode(log)
                if in_escrow:
                    self._fill(maker, wallet, token, side, *amounts)

    def _fill(self, maker, wallet, token, side, paid, received, fee):
        if side == BUY:
            moves = (wallet, CASH, -paid), (maker, token, received), (FEES, token, fee)
        else:
            moves = (maker, token, -paid), (wallet, CASH, received), (FEES, CASH, fee)
        for move in moves:
            self._add(*move)

    def _add(self, wallet, asset, amount):
        self.escrow[wallet, asset] = self.escrow.get((wallet, asset), 0) + amount


class EscrowDay:
    """Random actions of hostile makers, the operator, the pauser and the owner.

    Args:
        market: the exchange and its makers.
        rng: source of the actions.
    """

    def __init__(self, market, rng):
        self.market = market
        self.rng = rng
        self.now_s = NOW_S
        self.accounts = Accounts(market)
        self.rebuilt = Rebuilt()
        self.num_calls = 0
        self._old_fills = []

    def step(self):
        """Do one random action and compare its result with the prediction."""
        acts = {
            self.deposit: 6, self.request: 3, self.withdraw: 4, self.settle: 6, self.pass_time: 2,
            self.change_code: 1, self.pause: 1,
        }  # fmt: skip
        (act,) = self.rng.choices(list(acts), list(acts.values()))
        act()

    def check(self):
        """Compare all balances with the chain and with those rebuilt from the logs."""
        self.accounts.check()
        found = {key: amount for key, amount in self.rebuilt.escrow.items() if amount}
        assert found == {key: amount for key, amount in self.accounts.escrow.items() if amount}

    def _send(self, sender, function, *args, expected):
        """Send a call that succeeds or not as predicted."""
        data = function.encode(*args)
        self._sent(self.market.evm.send(sender, self.market.exchange, data, gas=CALL_GAS))
        assert self._succeeded == expected, (function.name, args)

    def _sent(self, outcome):
        """Record the result of a transaction."""
        self.num_calls += 1
        self._succeeded = not outcome.reason
        self.rebuilt.process(outcome.logs)

    def _wallet_and_asset(self):
        return self.rng.choice(WALLETS), self.rng.choice(self.market.assets)

    def _amount(self, balance):
        """Return an amount that a balance mostly suffices for."""
        return self.rng.choice([0, 1, balance, balance + 1, *[self.rng.randint(0, balance)] * 6])

    # ----- actions ---------------------------------------------------------------------------

    def deposit(self):
        sender, asset = self._wallet_and_asset()
        wallet = self.rng.choice([sender, sender, *WALLETS, FEES])
        amount = self._amount(self.accounts.wallets[sender, asset])
        expected = self.accounts.deposits(sender, wallet, asset, amount)
        self._send(sender, DEPOSIT, wallet, asset, amount, expected=expected)

    def request(self):
        wallet, asset = self._wallet_and_asset()
        amount = self._amount(self.accounts.escrow[wallet, asset])
        expected = self.accounts.is_requested(wallet, asset, amount, self.now_s)
        self._send(wallet, REQUEST_WITHDRAWAL, asset, amount, expected=expected)

    def withdraw(self):
        wallet, asset = self._wallet_and_asset()
        if self.accounts.requests and self.rng.random() < 0.7:
            wallet, asset = self.rng.choice(sorted(self.accounts.requests))
        expected = self.accounts.withdraws(wallet, asset, self.now_s)
        sender = self.rng.choice(WALLETS)
        self._send(sender, WITHDRAW, wallet, asset, expected=expected)

    def settle(self):
        custody = self.rng.choice(["escrow", "escrow", "wallet"])
        fills = [self._fill(custody) for _ in range(self.rng.randint(1, 4))]
        if self.rng.random() < 0.3:
            fills.append(self._odd_fill())
        if self._old_fills and self.rng.random() < 0.3:
            fills.append(self.rng.choice(self._old_fills))
        sender = self.rng.choice([BOSS] * 9 + WALLETS[:1])
        outcome = self.market.evm.send(sender, self.market.exchange, encode_settle(fills, custody))
        self._sent(outcome)
        if self.accounts.is_paused or sender != BOSS:
            assert not self._succeeded
            return
        self._old_fills = [*self._old_fills, *fills][-20:]
        expected = [self.accounts.settles(fill, custody) for fill in fills]
        assert [self._result(log) for log in outcome.logs if self._result(log)] == [
            (fill.trade_id, result) for fill, result in zip(fills, expected, strict=True)
        ]

    def _result(self, log):
        """Return trade id and result that a log reports; None for another log."""
        events = {SETTLED: "", FAILED: "failure"}
        for event in (SETTLED, FAILED, SETTLED_BEFORE, FAILED_BEFORE):
            if event.is_in(log):
                return event.decode(log)[0], events.get(event, event.name)
        return None

    def pass_time(self):
        self.now_s += self.rng.choice([1, 60, DELAY_S - 1, DELAY_S, DELAY_S + 1])
        self.market.at(self.now_s)

    def change_code(self):
        wallet = self.rng.choice(WALLETS)
        code = self.rng.choice(CODES)
        self.accounts.codes[wallet] = code
        self.market.evm.set_code(wallet, code)

    def pause(self):
        sender = self.rng.choice([PAUSER, OWNER])
        function = UNPAUSE if self.accounts.is_paused else PAUSE
        expected = sender == OWNER or function is PAUSE
        self._send(sender, function, expected=expected)
        if expected:
            self.accounts.is_paused = not self.accounts.is_paused

    def _odd_fill(self):
        """Return a fill of signed orders for any tokens and sides, which mostly cannot meet."""
        market, rng = self.market, self.rng
        tokens = [market.yes, market.no, CASH, UNKNOWN]
        price, size = rng.randint(1, 99), 100 * rng.randint(1, ONE)
        orders = [
            market.order(maker, rng.choice([BUY, SELL]), limit, size, rng.choice(tokens))
            for maker, limit in zip(rng.sample(WALLETS, 2), (price, 100 - price), strict=True)
        ]
        return market.fill(*orders, price, size)

    def _fill(self, custody):
        """Return a fill of random orders: direct, mint or merge, with fees."""
        market, rng = self.market, self.rng
        kind = rng.choice(["direct", "direct", "mint", "merge"])
        one, other = rng.sample(WALLETS, 2)
        if custody == "escrow" and rng.random() < 0.1:
            other = one
        price, size = rng.randint(1, 99), 100 * rng.randint(1, 3 * ONE)
        first = {"direct": rng.choice([BUY, SELL]), "mint": BUY, "merge": SELL}[kind]
        second = first if kind != "direct" else (SELL if first is BUY else BUY)
        token, rest = rng.sample([market.yes, market.no], 2)
        end, at = (token, price) if kind == "direct" else (rest, 100 - price)
        slack = rng.choice([-1, 0, 0, 0, 1, 5])
        limit = min(99, max(1, at + slack if second is BUY else at - slack))
        rates = [rng.choice([0, 0, 50, 1_000, 1_200]) for _ in range(2)]
        charged = [rng.choice([0, rate, rate, rate + 1]) for rate in rates]
        orders = (
            market.order(one, first, price, size, token, fee_rate_bps=rates[0]),
            market.order(other, second, limit, size, end, fee_rate_bps=rates[1]),
        )
        parties = [
            Party(order=order, fee_rate_bps=rate)
            for order, rate in zip(orders, charged, strict=True)
        ]
        return market.fill(*parties, price, size)
