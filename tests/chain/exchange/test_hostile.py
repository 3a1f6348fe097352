"""Hostile makers affect only their own fills: gas burners, return bombs, double sales."""

import random  # noqa: TID251  # the draws of a test, from a seed

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clob_server.chain.eth.exchange_abi import encode_settle
from tests.chain.contracts.calls import APPROVE, APPROVE_ALL, MAX, TRANSFER
from tests.chain.exchange.venue import BOSS, BUY, MAKERS, ONE, SELL, START, Venue
from tests.chain.people import BURNS, REVERTS

PEOPLE = [maker.address for maker in MAKERS]
ALICE, BOB, CAROL, DAVE = PEOPLE
BOMB = bytes.fromhex("620200005ffd")
"""Code of a wallet that reverts with 128 KiB of data."""


@pytest.fixture(scope="module")
def shared():
    return Venue()


@pytest.fixture
def venue(shared):
    """The exchange, reset after each test."""
    state = shared.evm.snapshot()
    yield shared
    assert shared.balances(shared.exchange) == (0, 0, 0)
    shared.evm.revert(state)


def good(venue, size=ONE):
    """Return a valid fill."""
    buy, sell = venue.order(ALICE, BUY, 50, size), venue.order(BOB, SELL, 50, size)
    return venue.fill(buy, sell, 50, size)


@pytest.mark.parametrize("code", [REVERTS, BURNS, BOMB], ids=["reverts", "burns", "bomb"])
def test_fills_of_a_hostile_wallet_fail_alone(venue, code):
    venue.evm.set_code(CAROL, code)
    bad = venue.fill(venue.order(CAROL, BUY, 50, ONE), venue.order(BOB, SELL, 50, ONE), 50, ONE)
    fills = [good(venue), *(bad_again(venue) for _ in range(3)), bad, good(venue)]
    said = venue.settle(*fills)
    assert [not reason for reason in said] == [True, False, False, False, False, True]


def bad_again(venue):
    """Return another fill of the wallet with hostile code."""
    return venue.fill(venue.order(CAROL, BUY, 50, ONE), venue.order(BOB, SELL, 50, ONE), 50, ONE)


def test_tokens_sold_twice_settle_once(venue):
    sells = [venue.order(BOB, SELL, 50, START) for _ in range(2)]
    fills = [venue.fill(venue.order(ALICE, BUY, 50, START), one, 50, START) for one in sells]
    said = venue.settle(*fills)
    assert said[0] == ""
    assert said[1]


def test_too_little_gas_reverts_the_whole_transaction(venue):
    fills = [good(venue) for _ in range(3)]
    before = venue.all_balances()
    outcome = venue.evm.send(BOSS, venue.exchange, encode_settle(fills), gas=800_000)
    assert outcome.reason.startswith("TooLittleGas(")
    assert venue.changes(before) == {}
    assert venue.settle(*fills) == ["", "", ""]


# ----- random days ---------------------------------------------------------------------------


class Ledger:
    """Expected balances and approvals, computed independently of the chain."""

    def __init__(self, venue):
        self.venue = venue
        self.cash = {who: held[0] for who, held in venue.all_balances().items()}
        self.tokens = {
            token: {who: held[place] for who, held in venue.all_balances().items()}
            for place, token in ((1, venue.yes), (2, venue.no))
        }
        self.allowed = dict.fromkeys(PEOPLE, MAX)
        self.sells = dict.fromkeys(PEOPLE, True)

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
        self.cash[self.venue.tokens] += size * (len(buys) - 1)
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
        held = self.venue.all_balances()
        assert {who: have[0] for who, have in held.items()} == self.cash
        assert {who: have[1] for who, have in held.items()} == self.tokens[self.venue.yes]
        assert {who: have[2] for who, have in held.items()} == self.tokens[self.venue.no]
        yes, no = (sum(have[place] for have in held.values()) for place in (1, 2))
        assert yes == no == held[self.venue.tokens][0]


def drawn(venue, rng):
    """Return a fill of random orders, and whether its prices are valid."""
    kind = rng.choice(["direct", "direct", "mint", "merge"])
    one, other = rng.sample(PEOPLE, 2)
    price, size = rng.randint(1, 99), 100 * rng.randint(1, 3 * 10**18)
    first = rng.choice([BUY, SELL]) if kind == "direct" else (BUY if kind == "mint" else SELL)
    second = first if kind != "direct" else (SELL if first is BUY else BUY)
    mine, his = rng.sample([venue.yes, venue.no], 2)
    token, at = (mine, price) if kind == "direct" else (his, 100 - price)
    slack = rng.choice([-1, 0, 0, 0, 1, 5])
    limit = min(99, max(1, at + slack if second is BUY else at - slack))
    orders = (
        venue.order(one, first, price, size, mine),
        venue.order(other, second, limit, size, token),
    )
    return venue.fill(*orders, price, size), limit >= at if second is BUY else limit <= at


def upset(venue, rng, ledger):
    """Let a maker revoke an approval or transfer all its collateral away."""
    who, kind = rng.choice(PEOPLE), rng.randrange(3)
    if kind == 0:
        ledger.allowed[who] = rng.choice([0, 100 * ONE, MAX])
        venue.do(who, venue.wrapped, APPROVE, venue.exchange, ledger.allowed[who])
    elif kind == 1:
        ledger.sells[who] = not ledger.sells[who]
        venue.do(who, venue.tokens, APPROVE_ALL, venue.exchange, ledger.sells[who])
    else:
        amount, ledger.cash[who] = ledger.cash[who], 0
        ledger.cash[BOSS] += amount
        venue.do(who, venue.wrapped, TRANSFER, BOSS, amount)


def random_day(venue, seed, batches):
    """Settle random batches; the ledger predicts the result of each fill."""
    rng = random.Random(seed)
    state = venue.evm.snapshot()
    ledger = Ledger(venue)
    for _ in range(batches):
        if rng.random() < 0.4:
            upset(venue, rng, ledger)
        fills, are_right = zip(*(drawn(venue, rng) for _ in range(6)), strict=True)
        pairs = zip(fills, are_right, strict=True)
        foretold = [is_right and ledger.settles(fill) for fill, is_right in pairs]
        assert [reason == "" for reason in venue.settle(*fills)] == foretold
        ledger.check()
    venue.evm.revert(state)


@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_random_day_conserves_all_balances(shared, seed):
    random_day(shared, seed, 3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_long_random_day_conserves_all_balances(shared, seed):
    random_day(shared, seed, 40)
