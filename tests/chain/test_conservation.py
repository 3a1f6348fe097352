"""Randomised days with faults and crashes: all tokens stay backed.

Users run concurrent operations and transfer funds, while calls to the node fail and workers are
killed. After each round all balances are compared with the reported results, to the wei.
``CLOB_CHAIN_DAYS`` is the number of days.
"""

import contextlib
import os
import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

import pytest

from clob_server.chain.messages import OperationDone, OperationFailed, OperationRejected
from tests.chain.chains import (
    answer_of,
    chain_behind_proxy,
    done,
    faucet,
    merge,
    redeem,
    report,
    split,
    unwrap,
    wrap,
)
from tests.chain.nodes import KINDS
from tests.chain.test_node_faults import NODE_FAULTS, settings_for
from tests.chain.wallets import STABLE_UNIT, UNIT

DAYS = int(os.environ.get("CLOB_CHAIN_DAYS", "1"))
ROUNDS = 8
CONCURRENT = 5
NUM_USERS, NUM_CONDITIONS = 5, 3
UNITS = 20
STABLE = "stablecoin"
"""Stands for a token; balances of it are in its smallest unit."""
REJECTIONS = {"INSUFFICIENT_BALANCE", "NOTHING_TO_REDEEM", "CHAIN_UNAVAILABLE", "NOT_APPROVED"}


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    with chain_behind_proxy(request.param, tmp_path_factory.mktemp("conservation")) as chain:
        yield chain


class Day:
    """A randomised day.

    Args:
        chain: the chain.
        worker: prepares users and conditions.
        seed: seed of the random numbers.
    """

    def __init__(self, chain, worker, seed):
        self.chain, self.random = chain, random.Random(seed)
        self.users = [chain.user(worker, UNITS) for _ in range(NUM_USERS)]
        for user in self.users:
            user.approve_stablecoin()
        self.conditions = [chain.condition(worker) for _ in range(NUM_CONDITIONS)]
        self.outcomes = {}
        self.expected = Counter({(user.address, None): UNITS * UNIT for user in self.users})
        """Expected balances by address and token; the token None is collateral."""
        self.num_ends = Counter()

    # ----- operations ------------------------------------------------------------------------

    def random_operation(self):
        """Return a random operation and its expected changes of balances."""
        draw = self.random
        user, condition = draw.choice(self.users), draw.choice(self.conditions)
        kinds = ("faucet", "split", "merge", "redeem", "wrap", "unwrap")
        kind = draw.choices(kinds, (1, 6, 6, 3, 3, 3))[0]
        if kind == "faucet":
            return faucet(user, UNITS), {(user.address, None): UNITS * UNIT}
        if kind == "redeem":
            return redeem(user, condition), None
        if kind in ("wrap", "unwrap"):
            stable = draw.randint(1, 4 * STABLE_UNIT)
            amount, sign = stable * UNIT // STABLE_UNIT, 1 if kind == "wrap" else -1
            change = {(user.address, None): sign * amount, (user.address, STABLE): -sign * stable}
            return (wrap if kind == "wrap" else unwrap)(user, amount), change
        amount = draw.randint(1, 8 * UNIT)
        sign = 1 if kind == "merge" else -1
        change = {(user.address, None): sign * amount}
        for token in (condition.yes, condition.no):
            change[user.address, token] = -sign * amount
        make = merge if kind == "merge" else split
        return make(user, condition, amount), change

    def transfer_funds(self):
        """Transfer funds between users while operations are pending."""
        sender, receiver = self.random.sample(self.users, 2)
        condition = self.random.choice(self.conditions)
        token = self.random.choice((None, condition.yes, condition.no))
        held = self.amount(sender, token)
        amount = self.random.randint(0, held // 2)
        transfer = sender.send_collateral if token is None else sender.send_token
        arguments = (
            (receiver.address, amount) if token is None else (receiver.address, token, amount)
        )
        with contextlib.suppress(AssertionError):  # an operation spent the funds first
            transfer(*arguments)
            self.expected[sender.address, token] -= amount
            self.expected[receiver.address, token] += amount

    def amount(self, user, token):
        """Return a balance from the chain."""
        if token == STABLE:
            return self.chain.ledger.stable(user.address)
        if token is None:
            return self.chain.ledger.collateral(user.address)
        return self.chain.ledger.token(user.address, token)

    # ----- a round ---------------------------------------------------------------------------

    def round(self):
        """Run operations with faults, and compare balances."""
        operations = [(next(self.chain.names), *self.random_operation()) for _ in range(CONCURRENT)]
        fault, times = self.random.choice(list(NODE_FAULTS)), self.random.randint(0, 6)
        is_killed = self.random.random() < 0.3
        with contextlib.ExitStack() as stack:
            worker = stack.enter_context(self.chain.worker(**settings_for(fault)))
            for name, body, _ in operations:
                worker.start(name, body)
            with self.chain.proxy.inject(NODE_FAULTS[fault](None, times=times)):
                self.transfer_meanwhile(operations)
                if is_killed:
                    worker.kill()
                    worker = stack.enter_context(self.chain.starting(**settings_for(fault)))
                    worker.ready()
                    for name, body, _ in operations:
                        worker.start(name, body)
                ends = [worker.end(name) for name, _, _ in operations]
            for end, (_, body, change) in zip(ends, operations, strict=True):
                self.apply(end, body, change)
            self.maybe_resolve(worker)
        self.check()

    def transfer_meanwhile(self, operations):
        """Transfer funds, unless a redemption depends on the balances."""
        if any(change is None for _, _, change in operations):
            return
        for _ in range(self.random.randrange(3)):
            self.transfer_funds()

    def apply(self, end, body, change):
        """Apply the reported end of an operation."""
        self.num_ends[type(end).__name__] += 1
        if type(end) is OperationDone:
            self.expected.update(self.redeemed(body, end) if change is None else change)
        elif type(end) is OperationFailed:
            assert end.undone, end
        else:
            assert type(end) is OperationRejected
            assert end.code in REJECTIONS | {"CONDITION_NOT_RESOLVED"}, end

    def redeemed(self, body, end):
        """Return the changes of a redemption."""
        [condition] = [each for each in self.conditions if each.id == body.condition_id]
        change = {(body.user, None): int(answer_of(end)["amount"])}
        for token in (condition.yes, condition.no):
            change[body.user, token] = -self.expected[body.user, token]
        winner = condition.yes if self.outcomes[condition.id] == "yes" else condition.no
        assert change[body.user, None] == self.expected[body.user, winner]
        return change

    def maybe_resolve(self, worker):
        """Resolve a random condition in a fifth of the rounds."""
        condition = self.random.choice(self.conditions)
        if self.random.random() < 0.2 and condition.id not in self.outcomes:
            outcome = self.random.choice(("yes", "no"))
            done(worker, next(self.chain.names), report(condition, outcome))
            self.outcomes[condition.id] = outcome

    def check(self):
        """Compare all balances and check that all tokens are backed."""
        tokens = [token for each in self.conditions for token in (each.yes, each.no)]
        for user in self.users:
            for token in (None, STABLE, *tokens):
                assert self.amount(user, token) == self.expected[user.address, token]
        self.chain.check_conserved()


def run_day(chain, seed, rounds):
    """Run a day and return the number of operations by result."""
    with chain.worker() as worker:
        day = Day(chain, worker, seed)
    for _ in range(rounds):
        day.round()
    return day.num_ends


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, DAYS + 1))
def test_random_days_conserve_all_balances(chain, seed):
    # Many operations are rejected: amounts are random, and the node is often faulty.
    assert run_day(chain, seed, ROUNDS)["OperationDone"] >= ROUNDS // 2
