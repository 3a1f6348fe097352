"""Whatever people ask for, and whatever goes wrong meanwhile, everything stays backed.

A day is drawn from a seed: people have things done side by side and hand each other what they
have, while calls to the node go wrong and workers are killed. After each round it is compared, to
the wei, what everybody has with what he was told. ``CLOB_CHAIN_DAYS`` is how many days.
"""

import contextlib
import os
import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

import pytest

from clob_server.chain.messages import OperationDone, OperationFailed, OperationRejected
from tests.chain.nodes import KINDS
from tests.chain.people import UNIT
from tests.chain.test_hard_edges import QUICK, WRONG
from tests.chain.worlds import answer_of, behind_a_proxy, done, faucet, merge, redeem, report, split

DAYS = int(os.environ.get("CLOB_CHAIN_DAYS", "1"))
ROUNDS = 8
SIDE_BY_SIDE = 5
NUM_PEOPLE, NUM_CONDITIONS = 5, 3
UNITS = 20
REFUSALS = {"INSUFFICIENT_BALANCE", "NOTHING_TO_REDEEM", "CHAIN_UNAVAILABLE", "NOT_APPROVED"}


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    with behind_a_proxy(request.param, tmp_path_factory.mktemp("conservation")) as world:
        yield world


class Day:
    """A day, drawn from a seed.

    Args:
        world: where it happens.
        worker: has everything prepared.
        seed: what is drawn.
    """

    def __init__(self, world, worker, seed):
        self.world, self.random = world, random.Random(seed)
        self.people = [world.user(worker, UNITS) for _ in range(NUM_PEOPLE)]
        self.conditions = [world.condition(worker) for _ in range(NUM_CONDITIONS)]
        self.outcomes = {}
        self.has = Counter({(user.address, None): UNITS * UNIT for user in self.people})
        """What people have: by address and token, and with None for the token, collateral."""
        self.counted = Counter()

    # ----- what is asked for -----------------------------------------------------------------

    def drawn(self):
        """An operation, and what it adds to what people have if it is done."""
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
        """Somebody hands something to somebody else, while operations are under way."""
        giver, taker = self.random.sample(self.people, 2)
        condition = self.random.choice(self.conditions)
        token = self.random.choice((None, condition.yes, condition.no))
        held = self.amount(giver, token)
        amount = self.random.randint(0, held // 2)
        give = giver.give_collateral if token is None else giver.give_token
        arguments = (taker.address, amount) if token is None else (taker.address, token, amount)
        with contextlib.suppress(AssertionError):  # it was taken meanwhile
            give(*arguments)
            self.has[giver.address, token] -= amount
            self.has[taker.address, token] += amount

    def amount(self, user, token):
        """What the chain says that somebody has."""
        if token is None:
            return self.world.ledger.collateral(user.address)
        return self.world.ledger.token(user.address, token)

    # ----- a round ---------------------------------------------------------------------------

    def round(self):
        """Have some operations done while things go wrong, and compare."""
        asked = [(next(self.world.names), *self.drawn()) for _ in range(SIDE_BY_SIDE)]
        wrong, times = self.random.choice(list(WRONG)), self.random.randint(0, 6)
        is_killed = self.random.random() < 0.3
        with contextlib.ExitStack() as stack:
            worker = stack.enter_context(self.world.worker(**QUICK))
            for name, body, _ in asked:
                worker.start(name, body)
            with self.world.proxy.goes_wrong(WRONG[wrong](None, times=times)):
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
        """People do something themselves, unless that would make it unclear what is redeemed."""
        if any(change is None for _, _, change in asked):
            return
        for _ in range(self.random.randrange(3)):
            self.hand_over()

    def take(self, end, body, change):
        """Note what somebody was told."""
        self.counted[type(end).__name__] += 1
        if type(end) is OperationDone:
            self.has.update(self.redeemed(body, end) if change is None else change)
        elif type(end) is OperationFailed:
            assert end.undone, end
        else:
            assert type(end) is OperationRejected
            assert end.code in REFUSALS | {"CONDITION_NOT_RESOLVED"}, end

    def redeemed(self, body, end):
        """What a redemption adds: the tokens are gone."""
        [condition] = [each for each in self.conditions if each.id == body.condition_id]
        change = {(body.user, None): int(answer_of(end)["amount"])}
        for token in (condition.yes, condition.no):
            change[body.user, token] = -self.has[body.user, token]
        winner = condition.yes if self.outcomes[condition.id] == "yes" else condition.no
        assert change[body.user, None] == self.has[body.user, winner]
        return change

    def sometimes_resolve(self, worker):
        """A question finds its answer."""
        condition = self.random.choice(self.conditions)
        if self.random.random() < 0.2 and condition.id not in self.outcomes:
            outcome = self.random.choice(("yes", "no"))
            done(worker, next(self.world.names), report(condition, outcome))
            self.outcomes[condition.id] = outcome

    def check(self):
        """Everybody has what he was told, and everything is backed."""
        tokens = [token for each in self.conditions for token in (each.yes, each.no)]
        for user in self.people:
            for token in (None, *tokens):
                assert self.amount(user, token) == self.has[user.address, token]
        self.world.check_conserved()


def live_through(world, seed, rounds):
    """Go through a day, and give what people were told."""
    with world.worker() as worker:
        day = Day(world, worker, seed)
    for _ in range(rounds):
        day.round()
    return day.counted


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, DAYS + 1))
def test_random_days_conserve(world, seed):
    # Many are refused: amounts are drawn, and the node is away at times.
    assert live_through(world, seed, ROUNDS)["OperationDone"] >= ROUNDS // 2
