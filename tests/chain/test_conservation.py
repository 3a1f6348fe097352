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
from tests.chain.nodes import KINDS
from tests.chain.people import UNIT
from tests.chain.test_node_faults import QUICK, WRONG
from tests.chain.worlds import answer_of, behind_a_proxy, done, faucet, merge, redeem, report, split

DAYS = int(os.environ.get("CLOB_CHAIN_DAYS", "1"))
ROUNDS = 8
SIDE_BY_SIDE = 5
NUM_PEOPLE, NUM_CONDITIONS = 5, 3
UNITS = 20
REJECTIONS = {"INSUFFICIENT_BALANCE", "NOTHING_TO_REDEEM", "CHAIN_UNAVAILABLE", "NOT_APPROVED"}


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    with behind_a_proxy(request.param, tmp_path_factory.mktemp("conservation")) as world:
        yield world


class Day:
    """A randomised day.

    Args:
        world: the chain.
        worker: prepares users and conditions.
        seed: seed of the random numbers.
    """

    def __init__(self, world, worker, seed):
        self.world, self.random = world, random.Random(seed)
        self.people = [world.user(worker, UNITS) for _ in range(NUM_PEOPLE)]
        self.conditions = [world.condition(worker) for _ in range(NUM_CONDITIONS)]
        self.outcomes = {}
        self.has = Counter({(user.address, None): UNITS * UNIT for user in self.people})
        """Expected balances by address and token; None is collateral."""
        self.counted = Counter()

    # ----- operations ------------------------------------------------------------------------

    def drawn(self):
        """Return a random operation and its expected changes of balances."""
        draw = self.random
        user, condition = draw.choice(self.people), draw.choice(self.conditions)
        kind = draw.choices(("faucet", "split", "merge", "redeem"), (1, 6, 6, 3))[0]
        if kind == "faucet":
            return faucet(user, UNITS), {(user.address, None): UNITS * UNIT}
        if kind == "redeem":
            return redeem(user, condition), None
        amount = draw.randint(1, 8 * UNIT)
        sign = 1 if kind == "merge" else -1
        change = {(user.address, None): sign * amount}
        for token in (condition.yes, condition.no):
            change[user.address, token] = -sign * amount
        make = merge if kind == "merge" else split
        return make(user, condition, amount), change

    def hand_over(self):
        """Transfer funds between users while operations are pending."""
        giver, taker = self.random.sample(self.people, 2)
        condition = self.random.choice(self.conditions)
        token = self.random.choice((None, condition.yes, condition.no))
        held = self.amount(giver, token)
        amount = self.random.randint(0, held // 2)
        give = giver.send_collateral if token is None else giver.send_token
        arguments = (taker.address, amount) if token is None else (taker.address, token, amount)
        with contextlib.suppress(AssertionError):  # an operation took the funds first
            give(*arguments)
            self.has[giver.address, token] -= amount
            self.has[taker.address, token] += amount

    def amount(self, user, token):
        """Return a balance from the chain."""
        if token is None:
            return self.world.ledger.collateral(user.address)
        return self.world.ledger.token(user.address, token)

    # ----- a round ---------------------------------------------------------------------------

    def round(self):
        """Run operations with faults, and compare balances."""
        asked = [(next(self.world.names), *self.drawn()) for _ in range(SIDE_BY_SIDE)]
        wrong, times = self.random.choice(list(WRONG)), self.random.randint(0, 6)
        is_killed = self.random.random() < 0.3
        with contextlib.ExitStack() as stack:
            worker = stack.enter_context(self.world.worker(**QUICK))
            for name, body, _ in asked:
                worker.start(name, body)
            with self.world.proxy.inject(WRONG[wrong](None, times=times)):
                self.meanwhile(asked)
                if is_killed:
                    worker.kill()
                    worker = stack.enter_context(self.world.starting(**QUICK))
                    worker.ready()
                    for name, body, _ in asked:
                        worker.start(name, body)
                ends = [worker.end(name) for name, _, _ in asked]
            for end, (_, body, change) in zip(ends, asked, strict=True):
                self.take(end, body, change)
            self.sometimes_resolve(worker)
        self.check()

    def meanwhile(self, asked):
        """Transfer funds, unless a redemption depends on the balances."""
        if any(change is None for _, _, change in asked):
            return
        for _ in range(self.random.randrange(3)):
            self.hand_over()

    def take(self, end, body, change):
        """Apply the reported end of an operation."""
        self.counted[type(end).__name__] += 1
        if type(end) is OperationDone:
            self.has.update(self.redeemed(body, end) if change is None else change)
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
            change[body.user, token] = -self.has[body.user, token]
        winner = condition.yes if self.outcomes[condition.id] == "yes" else condition.no
        assert change[body.user, None] == self.has[body.user, winner]
        return change

    def sometimes_resolve(self, worker):
        """Resolve a condition at random."""
        condition = self.random.choice(self.conditions)
        if self.random.random() < 0.2 and condition.id not in self.outcomes:
            outcome = self.random.choice(("yes", "no"))
            done(worker, next(self.world.names), report(condition, outcome))
            self.outcomes[condition.id] = outcome

    def check(self):
        """Compare all balances and check that all tokens are backed."""
        tokens = [token for each in self.conditions for token in (each.yes, each.no)]
        for user in self.people:
            for token in (None, *tokens):
                assert self.amount(user, token) == self.has[user.address, token]
        self.world.check_conserved()


def live_through(world, seed, rounds):
    """Run a day and return the number of operations by result."""
    with world.worker() as worker:
        day = Day(world, worker, seed)
    for _ in range(rounds):
        day.round()
    return day.counted


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, DAYS + 1))
def test_random_days_conserve_all_balances(world, seed):
    # Many operations are rejected: amounts are random, and the node is often faulty.
    assert live_through(world, seed, ROUNDS)["OperationDone"] >= ROUNDS // 2
