"""A condition from its preparation to its payout, on the contracts alone."""

import random  # noqa: TID251  # the draws of a test, from a seed

import pytest

from clob_server.chain.eth import token_ids
from clob_server.chain.eth.accounts import OPERATOR, WALLETS
from tests.chain.contracts.calls import (
    APPROVE,
    APPROVE_ALL,
    BALANCE,
    MAX,
    MERGE,
    MINT,
    PREPARE,
    REDEEM,
    REPORT,
    ROOT,
    SEND_TOKENS,
    SPLIT,
    SPLIT_DONE,
    SUPPLY,
    TOKENS,
    TOKENS_SENT,
    TRANSFER,
    TRANSFER_FROM,
    UNWRAP,
    WRAP,
    ZERO,
)
from tests.chain.contracts.evm import Evm

BOSS = OPERATOR.address
USERS = [wallet.address for wallet in WALLETS[:4]]
ALICE, BOB = USERS[:2]
ONE = 10**18
BOTH = [1, 2]


class Market:
    """A condition on its own chain, and users who have approved the operator."""

    def __init__(self, question="Will it be so?"):
        self.evm = Evm()
        self.addresses = self.evm.deploy_all()
        self.tokens = self.addresses.conditional_tokens
        self.wrapped = self.addresses.collateral
        self.question = token_ids.question_id(question)
        self.condition = token_ids.condition_id(BOSS, self.question)
        self.ids = token_ids.token_ids(self.wrapped, self.condition)
        dollar = self.addresses.stablecoin
        self.do(BOSS, self.tokens, PREPARE, BOSS, self.question, 2)
        self.do(BOSS, dollar, APPROVE, self.wrapped, MAX)
        for user in (BOSS, *USERS):
            self.do(user, self.wrapped, APPROVE, self.tokens, MAX)
            self.do(user, self.wrapped, APPROVE, BOSS, MAX)
            self.do(user, self.tokens, APPROVE_ALL, BOSS, True)

    def do(self, *call):
        """Send a call that must succeed and return its logs."""
        return self.evm.do(*call).logs

    def faucet(self, user, units):
        """Mint stablecoin for the operator and wrap it for a user."""
        self.do(BOSS, self.addresses.stablecoin, MINT, BOSS, units * 10**6)
        self.do(BOSS, self.wrapped, WRAP, user, units * 10**6)

    def split(self, user, amount):
        """Convert a user's collateral into tokens, as the operator does."""
        self.do(BOSS, self.wrapped, TRANSFER_FROM, user, BOSS, amount)
        args = (self.wrapped, ROOT, self.condition, BOTH, amount)
        logs = self.do(BOSS, self.tokens, SPLIT, *args)
        for token in self.ids:
            self.send(BOSS, user, token, amount)
        return logs

    def merge(self, user, amount):
        """Convert a user's tokens into collateral, as the operator does."""
        for token in self.ids:
            self.do(BOSS, self.tokens, SEND_TOKENS, user, BOSS, token, amount, b"")
        args = (self.wrapped, ROOT, self.condition, BOTH, amount)
        self.do(BOSS, self.tokens, MERGE, *args)
        self.do(BOSS, self.wrapped, TRANSFER, user, amount)

    def send(self, sender, receiver, token, amount):
        """Send outcome tokens."""
        call = (SEND_TOKENS, sender, receiver, token, amount, b"")
        (log,) = self.do(sender, self.tokens, *call)
        assert TOKENS_SENT.decode(log) == (sender, sender, receiver, token, amount)

    def balances(self, token):
        """Return the balances of a token."""
        return [self.evm.ask(self.tokens, TOKENS, user, token) for user in (BOSS, *USERS)]

    def wealth(self, user):
        """Return a user's collateral."""
        return self.evm.ask(self.wrapped, BALANCE, user)

    def conserved(self):
        """Check that all tokens are backed and the operator keeps nothing."""
        yes, no = (self.balances(token) for token in self.ids)
        held = self.wealth(self.tokens)
        assert sum(yes) == sum(no) == held
        assert yes[0] == no[0] == self.wealth(BOSS) == 0
        backing = self.evm.ask(self.addresses.stablecoin, BALANCE, self.wrapped)
        assert self.evm.ask(self.wrapped, SUPPLY) == backing * 10**12


@pytest.fixture
def market():
    return Market()


def test_split_trade_merge_report_and_redeem(market):
    yes, no = market.ids
    market.faucet(ALICE, 100)
    assert market.wealth(ALICE) == 100 * ONE
    *_, log = market.split(ALICE, 60 * ONE)
    split = (BOSS, market.wrapped, ROOT, market.condition, (1, 2), 60 * ONE)
    assert SPLIT_DONE.decode(log) == split
    market.conserved()
    market.send(ALICE, BOB, yes, 25 * ONE)
    market.conserved()
    market.merge(ALICE, 10 * ONE)
    market.conserved()
    assert market.balances(yes) == [0, 25 * ONE, 25 * ONE, 0, 0]
    assert market.balances(no) == [0, 50 * ONE, 0, 0, 0]
    market.do(BOSS, market.tokens, REPORT, market.question, [1, 0])
    for user in (ALICE, BOB):
        before = market.wealth(user)
        had = market.evm.ask(market.tokens, TOKENS, user, yes)
        args = (market.wrapped, ROOT, market.condition, BOTH)
        market.do(user, market.tokens, REDEEM, *args)
        assert market.wealth(user) == before + had
    assert market.wealth(market.tokens) == 0
    assert market.balances(yes) == market.balances(no) == [0] * 5
    market.do(BOB, market.wrapped, UNWRAP, BOB, 25 * ONE)
    assert market.evm.ask(market.addresses.stablecoin, BALANCE, BOB) == 25 * 10**6


def test_operator_needs_approval_for_tokens(market):
    market.faucet(ALICE, 5)
    market.split(ALICE, 5 * ONE)
    market.do(ALICE, market.tokens, APPROVE_ALL, BOSS, False)
    yes, _ = market.ids
    args = (SEND_TOKENS, ALICE, BOSS, yes, ONE, b"")
    reason = market.evm.rejection(BOSS, market.tokens, *args)
    assert reason == "ERC1155: need operator approval for 3rd party transfers."


def test_redeeming_burns_the_whole_balance_of_a_condition(market):
    # The reason why a redemption excludes other operations on the same condition.
    market.faucet(ALICE, 5)
    market.faucet(BOB, 5)
    market.split(ALICE, 5 * ONE)
    yes, _ = market.ids
    market.do(BOSS, market.wrapped, TRANSFER_FROM, BOB, BOSS, 5 * ONE)
    args = (market.wrapped, ROOT, market.condition)
    market.do(BOSS, market.tokens, SPLIT, *args, BOTH, 5 * ONE)
    market.do(BOSS, market.tokens, REPORT, market.question, [1, 0])
    market.do(BOSS, market.tokens, SEND_TOKENS, ALICE, BOSS, yes, ONE, b"")
    market.do(BOSS, market.tokens, REDEEM, *args, [1])
    assert market.wealth(BOSS) == 6 * ONE


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_random_operations_conserve_all_balances(seed, market):
    draw = random.Random(seed)
    for _ in range(60 if seed == 1 else 600):
        user, other = draw.sample(USERS, 2)
        tokens = [market.evm.ask(market.tokens, TOKENS, user, token) for token in market.ids]
        kind = draw.choice(["faucet", "split", "split", "merge", "send", "unwrap"])
        if kind == "faucet":
            market.faucet(user, draw.randrange(500))
        elif kind == "split":
            market.split(user, draw.randint(0, market.wealth(user)))
        elif kind == "merge":
            market.merge(user, draw.randint(0, min(tokens)))
        elif kind == "send":
            index = draw.randrange(2)
            market.send(user, other, market.ids[index], draw.randint(0, tokens[index]))
        else:
            units = draw.randint(0, market.wealth(user) // 10**12)
            market.do(user, market.wrapped, UNWRAP, other, units * 10**12)
        market.conserved()


def test_transfer_to_the_zero_address_is_rejected(market):
    market.faucet(ALICE, 5)
    market.split(ALICE, 5 * ONE)
    args = (SEND_TOKENS, ALICE, ZERO, market.ids[0], ONE, b"")
    reason = market.evm.rejection(ALICE, market.tokens, *args)
    assert reason == "ERC1155: target address must be non-zero"
