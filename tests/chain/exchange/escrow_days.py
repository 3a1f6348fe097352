"""Random days of an exchange with escrow: calls of makers and roles, blocks, reorganisations.

:class:`escrow_model.Accounts` predicts each call. Blocks have several calls; after each block all
balances are compared with the chain.
"""

import msgspec

from clob.signing import SignedWithdrawal, sign
from clob_server.chain.eth import token_ids
from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import (
    CANCEL,
    DELAY_S,
    DEPOSIT,
    ESCROWS,
    FAILED,
    FAILED_BEFORE,
    REQUEST_WITHDRAWAL,
    REQUEST_WITHDRAWAL_FOR,
    SETTLED,
    SETTLED_BEFORE,
    WITHDRAW,
)
from tests.chain.contracts.calls import (
    APPROVE,
    APPROVE_ALL,
    BALANCE,
    MAX,
    ROOT,
    SEND_TOKENS,
    SPLIT,
    TRANSFER,
)
from tests.chain.contracts.evm import GAS, NOW_S, Sent, raw
from tests.chain.exchange.escrow_model import (
    CASH,
    REJECTING,
    UNUSABLE,
    WALLETS,
    Accounts,
    Rebuilt,
)
from tests.chain.exchange.evm_market import (
    BOSS,
    BUY,
    ESCROWED,
    FEES,
    KEYS,
    ONE,
    OWNER,
    PAUSER,
    SELL,
    EvmMarket,
)
from tests.chain.signed_fills import Party, encode_settle, order_values
from tests.chain.wallets import BOMB, BURNS, REVERTS, SLOW_SIGNER

UNKNOWN = 7
"""A token id without a condition."""
CALL_GAS = 1_000_000
BLOCK_CALLS = 30
DEEPEST = 5
"""Blocks of the deepest reorganisation."""
PAUSE, UNPAUSE = Function("pause()"), Function("unpause()")
RAISE_NONCE = Function("raiseNonce(uint256)")
RESCUE = Function("rescue(address,address,uint256)")
TOKENS_OF = Function("balanceOfBatch(address[],uint256[])", returns="uint256[]")
ALWAYS_TRUE = bytes.fromhex("60015f5260205ff3")
"""Code of a token that anyone has enough of."""
RETURN_SELECTOR = bytes.fromhex("5f3560e01c60e01b5f5260205ff3")
"""Code that returns the selector of the call, as receivers and signers (EIP-1271) do."""
JUNK = f"0x{'6a' * 20}"
"""Address of a worthless collateral."""


class DayMarket(EvmMarket):
    """A market with a fourth asset: a token of its condition whose collateral is worthless."""

    def __init__(self, evm=None):
        super().__init__(evm)
        self.evm.set_code(JUNK, ALWAYS_TRUE)
        self.junk, _ = token_ids.token_ids(JUNK, self.condition)

    @property
    def assets(self):
        """The assets in escrow: collateral, YES, NO, junk."""
        return CASH, self.yes, self.no, self.junk

    def all_balances_of(self, holders):
        """Return the balances of wallets by holder and asset."""
        tokens = [(holder, asset) for holder in holders for asset in self.assets if asset]
        cash, (amounts,) = (
            self.evm.ask_all([(self.wrapped, BALANCE, holder) for holder in holders]),
            self.evm.ask_all([(self.tokens, TOKENS_OF, *zip(*tokens, strict=True))]),
        )
        found = dict(zip(tokens, amounts, strict=True))
        return found | {(holder, CASH): one for holder, one in zip(holders, cash, strict=True)}

    def all_escrows_of(self, holders):
        """Return the balances in escrow by holder and asset."""
        keys = [(holder, asset) for holder in holders for asset in self.assets]
        (found,) = self.evm.ask_all([(self.exchange, ESCROWS, *zip(*keys, strict=True))])
        return {key: balance for key, (balance, _) in zip(keys, found, strict=True)}

    def all_totals(self):
        """Return the sums of all escrow by asset."""
        questions = [(self.exchange, ESCROWED, asset) for asset in self.assets]
        return dict(zip(self.assets, self.evm.ask_all(questions), strict=True))

    def reentering(self, wallet):
        """Return code that accepts tokens and signatures, and calls the exchange before.

        It withdraws collateral and YES and revokes its request for collateral, and ignores the
        results.
        """
        calls = [WITHDRAW.encode(wallet, asset) for asset in (CASH, self.yes)]
        calls.append(REQUEST_WITHDRAWAL.encode(CASH, 0))
        place = len(calls) * len(call_code(self.exchange, b"", 0)) + len(RETURN_SELECTOR)
        code = b""
        for data in calls:
            code += call_code(self.exchange, data, place)
            place += len(data)
        return code + RETURN_SELECTOR + b"".join(calls)


def call_code(contract, data, place):
    """Return code that calls a contract with data at a place of the code, and 200,000 gas."""
    size = b"\x60" + bytes([len(data)])
    copy = size + b"\x61" + place.to_bytes(2) + b"\x5f\x39"
    return copy + b"\x5f\x5f" + size + b"\x5f\x5f\x73" + raw(contract) + b"\x62\x03\x0d\x40\xf1\x50"


class EscrowDay:
    """Random calls of hostile makers, the operator, the fee wallet, the pauser and the owner.

    Args:
        market: a :class:`DayMarket`.
        rng: source of the calls.
        reorganises: whether blocks are replaced by others now and then.
    """

    def __init__(self, market, rng, *, reorganises=True):
        self.market, self.rng, self._reorganises = market, rng, reorganises
        self.accounts = Accounts(market, market.reentering)
        self.accounts.now_s = NOW_S
        self.rebuilt = Rebuilt()
        self.num_calls = self.num_replaced = 0
        """Calls that were drawn, and calls that were sent again after a reorganisation."""
        self._sent, self._checks, self._actions = [], [], []
        self._blocks = []
        """State before each of the last blocks, and its actions."""
        self._old_fills = []

    def run(self, num_calls):
        """Make blocks of random calls until there are enough; check after each."""
        acts = {
            self._deposit: 6, self._request: 3, self._request_for: 1, self._withdraw: 4,
            self._settle: 7, self._code: 1, self._pause: 1, self._transfer: 1, self._junk: 1,
            self._approve: 1, self._nonce: 1, self._cancel: 1, self._rescue: 1,
        }  # fmt: skip
        while self.num_calls < num_calls:
            size = self.rng.randint(1, BLOCK_CALLS)
            self._begin(self.rng.choice([1, 1, 1, 60, DELAY_S - 1, DELAY_S, DELAY_S + 1]))
            for act in self.rng.choices(list(acts), list(acts.values()), k=size):
                self._do(*act())
            self.num_calls += len(self._sent)
            self._end()
            if self._reorganises and self.rng.random() < 0.1:
                self._reorganise()

    # ----- blocks ------------------------------------------------------------------------------

    def _begin(self, seconds):
        """Begin a block that is later than the one before."""
        state = self.market.evm.snapshot(), self.accounts.copy(), self.rebuilt.escrow.copy()
        self._actions = []
        self._blocks = [*self._blocks, (state, self._actions)][-DEEPEST:]
        self.accounts.now_s += seconds
        self.market.at(self.accounts.now_s)

    def _do(self, name, *args):
        """Predict and queue an action, which may be done again after a reorganisation."""
        self._actions.append((name, *args))
        getattr(self, name)(*args)

    def _send(self, sender, to, data, expected, check=None, gas=CALL_GAS):
        """Queue a call with its expected success, and a check of its logs."""
        self._sent.append(Sent(sender, to, data, gas))
        self._checks.append((expected, check))

    def _end(self):
        """Execute the block, and compare its results and all balances."""
        outcomes = self.market.evm.run(self._sent)
        for sent, outcome, (expected, check) in zip(
            self._sent, outcomes, self._checks, strict=True
        ):
            assert (not outcome.reason) == expected, (sent, outcome.reason)
            self.rebuilt.process(outcome.logs)
            if check is not None:
                check(outcome.logs)
        self._sent, self._checks = [], []
        self.accounts.check()
        found = {key: amount for key, amount in self.rebuilt.escrow.items() if amount}
        assert found == {key: amount for key, amount in self.accounts.escrow.items() if amount}

    def _reorganise(self):
        """Replace the last blocks by others with most of their calls, sometimes reordered."""
        depth = self.rng.randint(1, len(self._blocks))
        (snapshot, accounts, escrow), _ = self._blocks[-depth]
        actions = [action for _, block in self._blocks[-depth:] for action in block]
        del self._blocks[-depth:]
        self.market.evm.revert(snapshot)
        for wallet in WALLETS:
            self.market.evm.set_code(wallet, accounts.codes[wallet])
        self.accounts, self.rebuilt = accounts.copy(), Rebuilt(escrow)
        actions = [action for action in actions if self.rng.random() < 0.8]
        if self.rng.random() < 0.5:
            self.rng.shuffle(actions)
        while actions:
            self._begin(self.rng.choice([1, 1, 60, DELAY_S]))
            taken, actions = actions[:BLOCK_CALLS], actions[BLOCK_CALLS:]
            for action in taken:
                self._do(*action)
            self.num_replaced += len(self._sent)
            self._end()

    # ----- effects of actions: predicted, and queued -------------------------------------------

    def deposit(self, sender, wallet, asset, amount):
        expected = self.accounts.deposit(sender, wallet, asset, amount)
        self._send(sender, self.market.exchange, DEPOSIT.encode(wallet, asset, amount), expected)

    def request(self, wallet, asset, amount):
        expected = self.accounts.request(wallet, asset, amount)
        data = REQUEST_WITHDRAWAL.encode(asset, amount)
        self._send(wallet, self.market.exchange, data, expected)

    def request_for(self, sender, request, signature, is_signed):
        expected = self.accounts.request_for(request, is_signed=is_signed)
        names = "wallet", "asset", "amount", "nonce", "deadline"
        values = [getattr(request, name) for name in names]
        data = REQUEST_WITHDRAWAL_FOR.encode(*values, bytes.fromhex(signature[2:]))
        self._send(sender, self.market.exchange, data, expected)

    def withdraw(self, sender, wallet, asset):
        expected = self.accounts.withdraw(sender, wallet, asset)
        self._send(sender, self.market.exchange, WITHDRAW.encode(wallet, asset), expected)

    def transfer(self, sender, to, asset, amount):
        expected = self.accounts.transfer(sender, to, asset, amount)
        contract, data = self.market.wrapped, TRANSFER.encode(to, amount)
        if asset != CASH:
            contract = self.market.tokens
            data = SEND_TOKENS.encode(sender, to, asset, amount, b"")
        self._send(sender, contract, data, expected)

    def make_junk(self, wallet, amount):
        expected = self.accounts.make_junk(wallet, amount)
        data = SPLIT.encode(JUNK, ROOT, self.market.condition, [1, 2], amount)
        self._send(wallet, self.market.tokens, data, expected)

    def approve(self, wallet, is_cash, is_approved):
        expected = self.accounts.approve(wallet, is_cash, is_approved)
        contract = self.market.wrapped if is_cash else self.market.tokens
        function, value = (APPROVE, MAX * is_approved) if is_cash else (APPROVE_ALL, is_approved)
        self._send(wallet, contract, function.encode(self.market.exchange, value), expected)

    def raise_nonce(self, wallet, nonce):
        expected = self.accounts.raise_nonce(wallet, nonce)
        self._send(wallet, self.market.exchange, RAISE_NONCE.encode(nonce), expected)

    def cancel(self, sender, order):
        expected = self.accounts.cancel(sender, order)
        self._send(sender, self.market.exchange, CANCEL.encode(order_values(order)), expected)

    def rescue(self, sender, to, amount):
        expected = self.accounts.rescue(sender == OWNER, to, amount)
        data = RESCUE.encode(self.market.wrapped, to, amount)
        self._send(sender, self.market.exchange, data, expected)

    def pause(self, sender):
        function = UNPAUSE if self.accounts.is_paused else PAUSE
        expected = self.accounts.pause(sender == OWNER)
        self._send(sender, self.market.exchange, function.encode(), expected)

    def change_code(self, wallet, code):
        """Change the code of a wallet at once, after the calls so far."""
        self.num_calls += len(self._sent)
        self._end()
        self.accounts.codes[wallet] = code
        self.market.evm.set_code(wallet, code)
        self.accounts.now_s += 1
        self.market.at(self.accounts.now_s)

    def settle(self, sender, custody, fills):
        is_settling = sender == BOSS and not self.accounts.is_paused
        expected = [
            (fill.trade_id, self.accounts.settle(fill, custody)) for fill in fills * is_settling
        ]

        def check(logs):
            assert [result for log in logs if (result := result_of(log))] == expected

        data = encode_settle(fills, custody)
        self._send(sender, self.market.exchange, data, is_settling, check, GAS)

    # ----- draws: a name of an action and its arguments ----------------------------------------

    def _wallet_and_asset(self):
        return self.rng.choice([*WALLETS, *WALLETS, FEES]), self.rng.choice(self.market.assets)

    def _amount(self, balance):
        """Return an amount that a balance mostly suffices for."""
        return self.rng.choice([0, 1, balance, balance + 1, *[self.rng.randint(0, balance)] * 6])

    def _deposit(self):
        sender, asset = self._wallet_and_asset()
        wallet = self.rng.choice([sender, sender, *WALLETS, FEES])
        return "deposit", sender, wallet, asset, self._amount(self.accounts.wallets[sender, asset])

    def _request(self):
        wallet, asset = self._wallet_and_asset()
        return "request", wallet, asset, self._amount(self.accounts.escrow[wallet, asset])

    def _request_for(self):
        (wallet, asset), rng = self._wallet_and_asset(), self.rng
        request = SignedWithdrawal(
            wallet=wallet,
            asset=asset,
            amount=self._amount(self.accounts.escrow[wallet, asset]),
            nonce=rng.randint(0, 30),
            deadline=self.accounts.now_s + rng.choice([-1, 0, DELAY_S, DELAY_S]),
        )
        signer = rng.choice([wallet, wallet, wallet, rng.choice(WALLETS)])
        signature = sign(request, self.market.domain, KEYS[signer]).signature
        return "request_for", rng.choice(WALLETS), request, signature, signer == wallet

    def _withdraw(self):
        wallet, asset = self._wallet_and_asset()
        if self.accounts.requests and self.rng.random() < 0.7:
            wallet, asset = self.rng.choice(sorted(self.accounts.requests))
        return "withdraw", self.rng.choice(WALLETS), wallet, asset

    def _transfer(self):
        wallet, asset = self._wallet_and_asset()
        to = self.rng.choice([*WALLETS, FEES, self.market.exchange])
        amount = self._amount(self.accounts.wallets[wallet, asset]) // self.rng.choice([1, 10])
        return "transfer", wallet, to, asset, amount

    def _junk(self):
        return "make_junk", self.rng.choice(WALLETS), self.rng.randint(0, 5 * ONE)

    def _approve(self):
        is_approved = self.rng.random() < 0.9
        return "approve", self.rng.choice(WALLETS), self.rng.random() < 0.5, is_approved

    def _nonce(self):
        wallet = self.rng.choice(WALLETS)
        return "raise_nonce", wallet, self._raised(wallet) + self.rng.choice([0, 1, 1, 2])

    def _raised(self, wallet):
        """Return the nonce that a wallet raised last."""
        return self.accounts.raises.get(wallet, ((0, 0),))[-1][1]

    def _cancel(self):
        if not self._old_fills:
            return self._nonce()
        order = self.rng.choice(self._old_fills)[1].resting.order
        return "cancel", self.rng.choice([order.maker, order.maker, *WALLETS]), order

    def _rescue(self):
        to = self.rng.choice([*WALLETS, FEES, BOSS])
        return (
            "rescue",
            self.rng.choice([OWNER, OWNER, BOSS]),
            to,
            self._amount(self.accounts.stray),
        )

    def _pause(self):
        return "pause", self.rng.choice([PAUSER, OWNER, OWNER])

    def _code(self):
        wallet = self.rng.choice(WALLETS)
        hostile = REVERTS, BURNS, BOMB, SLOW_SIGNER, self.market.reentering(wallet)
        return "change_code", wallet, self.rng.choice([*[b""] * 12, *hostile, hostile[-1]])

    def _settle(self):
        if self.accounts.is_paused and self.rng.random() < 0.5:
            return "pause", OWNER
        custody = self.rng.choice(["escrow", "escrow", "wallet"])
        fills = [self._fill(custody) for _ in range(self.rng.randint(1, 4))]
        if self.rng.random() < 0.3:
            fills.append(self._odd_fill())
        old = [fill for kept, fill in self._old_fills if kept == custody]
        if old and self.rng.random() < 0.3:
            fills.append(self.rng.choice(old))
        if old and self.rng.random() < 0.5:
            fills += [self._again(self.rng.choice(old)) for _ in range(2)]
        self.rng.shuffle(fills)
        self._old_fills = [*self._old_fills, *((custody, fill) for fill in fills)][-30:]
        return "settle", self.rng.choice([BOSS] * 9 + WALLETS[:1]), custody, fills

    def _odd_fill(self):
        """Return a fill of signed orders for any tokens and sides, which mostly cannot meet."""
        market, rng = self.market, self.rng
        tokens = [*market.assets, UNKNOWN]
        price, size = rng.randint(1, 99), 100 * rng.randint(1, ONE)
        orders = [
            market.order(maker, rng.choice([BUY, SELL]), limit, size, rng.choice(tokens))
            for maker, limit in zip(rng.sample(WALLETS, 2), (price, 100 - price), strict=True)
        ]
        return market.fill(*orders, price, size)

    def _again(self, fill):
        """Return another fill of the same orders, which may have too little left."""
        size = min(
            order.maker_amount if order.side == SELL else order.taker_amount
            for order in (fill.resting.order, fill.incoming.order)
        )
        size = 100 * self.rng.randint(1, max(1, size // 100))
        return self.market.fill(fill.resting, fill.incoming, fill.price, size)

    def _fill(self, custody):
        """Return a fill of random orders: direct, mint or merge, with fees."""
        market, rng = self.market, self.rng
        kind = rng.choice(["direct", "direct", "mint", "merge"])
        one, other = rng.sample(WALLETS, 2)
        if custody == "escrow" and rng.random() < 0.1:
            other = one
        price, size = rng.randint(1, 99), 100 * rng.randint(1, 3 * ONE // rng.choice([1, 10, 100]))
        first = {"direct": rng.choice([BUY, SELL]), "mint": BUY, "merge": SELL}[kind]
        second = first if kind != "direct" else (SELL if first is BUY else BUY)
        token, rest = rng.sample([market.yes, market.no], 2)
        if kind == "direct" and rng.random() < 0.1:
            token = market.junk
        end, at = (token, price) if kind == "direct" else (rest, 100 - price)
        slack = rng.choice([-1, *[0] * 9, 1, 5])
        limit = min(99, max(1, at + slack if second is BUY else at - slack))
        parties = [
            self._party(*values, size)
            for values in ((one, first, price, token), (other, second, limit, end))
        ]
        return market.fill(*parties, price, size // rng.choice([100, 200, 300]) * 100)

    def _party(self, maker, side, price, token, size):
        """Return an order with random nonce, expiration, fees and kind of signature."""
        rng, now_s = self.rng, self.accounts.now_s
        rate = rng.choice([*[0, 50, 300, 1_000] * 4, 1_200])
        order = self.market.order(
            maker, side, price, size, token,
            fee_rate_bps=rate,
            nonce=max(0, self._raised(maker) + rng.choice([-1, *[0] * 12, 1])),
            expiration_s=rng.choice([*[0] * 12, now_s, now_s - DELAY_S, now_s - DELAY_S - 1]),
        )  # fmt: skip
        accepts = self.accounts.codes[maker] not in (b"", *REJECTING)
        if rng.random() < (0.4 if accepts else 0.02):
            order = msgspec.structs.replace(order, signature=UNUSABLE)
        return Party(order=order, fee_rate_bps=rng.choice([0, *[rate] * 12, rate + 1]))


def result_of(log):
    """Return trade id and result that a log reports; None for another log."""
    events = {SETTLED: "", FAILED: "failure"}
    for event in (SETTLED, FAILED, SETTLED_BEFORE, FAILED_BEFORE):
        if event.is_in(log):
            return event.decode(log)[0], events.get(event, event.name)
    return None
