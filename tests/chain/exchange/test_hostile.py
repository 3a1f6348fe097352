"""Hostile makers affect only their own fills: gas burners, return bombs, double sales."""

import random  # noqa: TID251  # the draws of a test, from a seed

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chain.contracts.calls import APPROVE, APPROVE_ALL, MAX, TRANSFER
from tests.chain.exchange.evm_market import BOSS, BUY, MAKERS, ONE, SELL, START
from tests.chain.signed_fills import encode_settle
from tests.chain.wallets import BOMB, BURNS, REVERTS, SLOW_SIGNER

WALLETS = [maker.address for maker in MAKERS]
ALICE, BOB, CAROL, DAVE = WALLETS


@pytest.fixture
def market(shared):
    """The exchange, reset after each test."""
    state = shared.evm.snapshot()
    yield shared
    assert shared.balances(shared.exchange) == (0, 0, 0)
    shared.evm.revert(state)


def good(market, size=ONE):
    """Return a valid fill."""
    buy, sell = market.order(ALICE, BUY, 50, size), market.order(BOB, SELL, 50, size)
    return market.fill(buy, sell, 50, size)


@pytest.mark.parametrize("code", [REVERTS, BURNS, BOMB], ids=["reverts", "burns", "bomb"])
def test_fills_of_a_hostile_wallet_fail_alone(market, code):
    market.evm.set_code(CAROL, code)
    bad = market.fill(market.order(CAROL, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE)
    fills = [good(market), *(bad_again(market) for _ in range(3)), bad, good(market)]
    results = market.settle(*fills)
    assert [not reason for reason in results] == [True, False, False, False, False, True]


def bad_again(market):
    """Return another fill of the wallet with hostile code."""
    return market.fill(market.order(CAROL, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE)


@pytest.mark.parametrize("code", [REVERTS, BURNS, BOMB], ids=["reverts", "burns", "bomb"])
def test_hostile_signers_with_code_fail_alone(market, code):
    for wallet in (CAROL, DAVE):
        market.evm.set_code(wallet, code)
    orders = market.order(CAROL, SELL, 50, ONE), market.order(ALICE, BUY, 50, ONE)
    orders = [msgspec.structs.replace(order, signature=f"0x{'ab' * 65}") for order in orders]
    hostile = [market.fill(*orders, 50, ONE) for _ in range(3)]
    results = market.settle(good(market), *hostile, good(market))
    assert [not reason for reason in results] == [True, False, False, False, True]


def test_two_slow_signers_with_code_leave_enough_gas_to_mint(market):
    for wallet in (CAROL, DAVE):
        market.evm.set_code(wallet, SLOW_SIGNER)
    one, other = market.order(CAROL, BUY, 60, ONE), market.order(DAVE, BUY, 40, ONE, market.no)
    orders = [msgspec.structs.replace(order, signature=f"0x{'ab' * 65}") for order in (one, other)]
    assert market.settle(market.fill(*orders, 60, ONE)) == [""]


def test_tokens_sold_twice_settle_once(market):
    sells = [market.order(BOB, SELL, 50, START) for _ in range(2)]
    fills = [market.fill(market.order(ALICE, BUY, 50, START), one, 50, START) for one in sells]
    results = market.settle(*fills)
    assert results[0] == ""
    assert results[1]


def test_too_little_gas_reverts_the_whole_transaction(market):
    fills = [good(market) for _ in range(3)]
    before = market.all_balances()
    outcome = market.evm.send(BOSS, market.exchange, encode_settle(fills), gas=800_000)
    assert outcome.reason.startswith("TooLittleGas(")
    assert market.changes(before) == {}
    assert market.settle(*fills) == ["", "", ""]


# ----- random days ---------------------------------------------------------------------------


class Ledger:
    """Expected balances and approvals, computed independently of the chain."""

    def __init__(self, market):
        self.market = market
        self.cash = {address: held[0] for address, held in market.all_balances().items()}
        self.tokens = {
            token: {address: held[index] for address, held in market.all_balances().items()}
            for index, token in ((1, market.yes), (2, market.no))
        }
        self.allowed = dict.fromkeys(WALLETS, MAX)
        self.sells = dict.fromkeys(WALLETS, True)

    def settles(self, fill):
        """Return whether a fill with valid prices settles, and apply its transfers."""
        size, price = fill.size, fill.price
        parties = [(one.order, at) for one, at in self.prices(fill)]
        paid = {order.maker: size * at // 100 for order, at in parties if order.side == BUY}
        if len(paid) == 2:  # the second buyer pays the rest
            last = parties[1][0].maker
            paid[last] = size - size * price // 100
        for order, _ in parties:
            maker = order.maker
            if order.side == BUY:
                if self.cash[maker] < paid[maker] or self.allowed[maker] < paid[maker]:
                    return False
            elif not self.sells[maker] or self.tokens[order.token_id][maker] < size:
                return False
        self._move(parties, paid, size)
        return True

    def prices(self, fill):
        """Return each order of a fill with the price of its own token."""
        first, second = fill.resting, fill.incoming
        is_direct = first.order.token_id == second.order.token_id
        return (first, fill.price), (second, fill.price if is_direct else 100 - fill.price)

    def _move(self, parties, paid, size):
        """Apply the transfers of a fill."""
        for maker, amount in paid.items():
            self.cash[maker] -= amount
            self.allowed[maker] -= amount if self.allowed[maker] < MAX else 0
        left = sum(paid.values())
        buys = [order for order, _ in parties if order.side == BUY]
        self.cash[self.market.tokens] += size * (len(buys) - 1)
        left -= size * (len(buys) - 1)
        for order, at in parties:
            tokens = self.tokens[order.token_id]
            tokens[order.maker] += size if order.side == BUY else -size
            if order.side == SELL:
                is_last = order is parties[1][0] or len(buys) == 1
                got = left if is_last else size * at // 100
                self.cash[order.maker] += got
                left -= got
        assert left == 0

    def check(self):
        """Compare with the chain, and check YES = NO = locked collateral."""
        held = self.market.all_balances()
        assert {address: have[0] for address, have in held.items()} == self.cash
        assert {address: have[1] for address, have in held.items()} == self.tokens[self.market.yes]
        assert {address: have[2] for address, have in held.items()} == self.tokens[self.market.no]
        yes, no = (sum(have[index] for have in held.values()) for index in (1, 2))
        assert yes == no == held[self.market.tokens][0]


def random_fill(market, rng):
    """Return a fill of random orders, and whether its prices are valid."""
    kind = rng.choice(["direct", "direct", "mint", "merge"])
    one, other = rng.sample(WALLETS, 2)
    price, size = rng.randint(1, 99), 100 * rng.randint(1, 3 * 10**18)
    first = rng.choice([BUY, SELL]) if kind == "direct" else (BUY if kind == "mint" else SELL)
    second = first if kind != "direct" else (SELL if first is BUY else BUY)
    own_token, other_token = rng.sample([market.yes, market.no], 2)
    token, at = (own_token, price) if kind == "direct" else (other_token, 100 - price)
    slack = rng.choice([-1, 0, 0, 0, 1, 5])
    limit = min(99, max(1, at + slack if second is BUY else at - slack))
    orders = (
        market.order(one, first, price, size, own_token),
        market.order(other, second, limit, size, token),
    )
    return market.fill(*orders, price, size), limit >= at if second is BUY else limit <= at


def act_hostile(market, rng, ledger):
    """Revoke or change an approval of a random maker, or transfer its collateral away."""
    address, kind = rng.choice(WALLETS), rng.randrange(3)
    if kind == 0:
        ledger.allowed[address] = rng.choice([0, 100 * ONE, MAX])
        market.do(address, market.wrapped, APPROVE, market.exchange, ledger.allowed[address])
    elif kind == 1:
        ledger.sells[address] = not ledger.sells[address]
        market.do(address, market.tokens, APPROVE_ALL, market.exchange, ledger.sells[address])
    else:
        amount, ledger.cash[address] = ledger.cash[address], 0
        ledger.cash[BOSS] += amount
        market.do(address, market.wrapped, TRANSFER, BOSS, amount)


def random_day(market, seed, batches):
    """Settle random batches; the ledger predicts the result of each fill."""
    rng = random.Random(seed)
    state = market.evm.snapshot()
    ledger = Ledger(market)
    for _ in range(batches):
        if rng.random() < 0.4:
            act_hostile(market, rng, ledger)
        fills, are_right = zip(*(random_fill(market, rng) for _ in range(6)), strict=True)
        pairs = zip(fills, are_right, strict=True)
        expected = [is_right and ledger.settles(fill) for fill, is_right in pairs]
        assert [reason == "" for reason in market.settle(*fills)] == expected
        ledger.check()
    market.evm.revert(state)


@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_random_day_conserves_all_balances(shared, seed):
    random_day(shared, seed, 3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_long_random_day_conserves_all_balances(shared, seed):
    random_day(shared, seed, 40)
