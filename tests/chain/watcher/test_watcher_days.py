"""Randomised days: chain updates always agree with the logs.

Users approve, revoke, trade with and without funds, and transfer collateral and tokens; workers are
killed, and on anvil the chain is reorganised. ``CLOB_CHAIN_DAYS`` is the number of days.
"""

import contextlib
import os
import random  # noqa: TID251 - seeded, and outside the engine
import time

import pytest

from clob.wire.operations import SettleBody
from clob_server.chain.messages import OperationDone
from tests.chain.chains import Chain, done, split
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.server_mirror import ONE, ServerMirror, SettlingMarket

DAYS = int(os.environ.get("CLOB_CHAIN_DAYS", "1"))
ROUNDS, STEPS = 8, 5
NUM_PEOPLE = 5
PATIENCE_S = 30
ALONE = ("approve", "all", "give", "token", "permit")
WITH_WORKER = ("trade", "trade", "trade", "split")


class Day:
    """A randomised day.

    Args:
        venue: the market.
        mirror: receives the updates.
        seed: seed of the random numbers.
    """

    def __init__(self, venue, mirror, seed):
        self.venue, self.mirror, self.draw = venue, mirror, random.Random(seed)
        self.people = [
            venue.trader(100, tokens=20 * ONE, approves=False) for _ in range(NUM_PEOPLE)
        ]
        for user in self.people:
            venue.approve(user, 40 * ONE)
            venue.approve_all(user)
        self.place = venue.chain.contracts.collateral
        self.trades = set()
        """Trade ids of all fills sent for settlement."""

    def step(self, *kinds):
        """Run one random action of some kinds."""
        draw, venue = self.draw, self.venue
        one, other = draw.sample(self.people, 2)
        amount = draw.randrange(1, 30) * ONE
        token = draw.choice(venue.tokens)
        match draw.choice(kinds):
            case "approve":
                venue.approve(one, draw.choice((0, amount, 2**256 - 1)))
            case "all":
                venue.approve_all(one, draw.random() < 0.7)
            case "give":
                self.give(one, other, min(amount, venue.chain.ledger.collateral(one.address)))
            case "token":
                held = venue.chain.ledger.token(one.address, token)
                one.send_token(other.address, token, min(amount, held))
            case "permit":
                kind = draw.choice(("delegate", "payer", "payee"))
                venue.permit(one, kind, other.address, draw.random() < 0.5)
            case "trade":
                self.trade(draw.randrange(1, 4))
            case "split":
                self.split(one)

    def give(self, one, other, amount):
        """Transfer collateral."""
        one.call(self.place, "transfer(address,uint256)", other.address, amount)

    def split(self, user):
        """Split collateral after approving the operator."""
        user.approve_collateral()
        if self.venue.chain.ledger.collateral(user.address) >= ONE:
            name = f"split {self.draw.random()}"
            done(self.venue.worker, name, split(user, self.venue.condition, ONE))

    def trade(self, count):
        """Settle random trades, whether the makers have the funds or not."""
        fills = [
            self.venue.fill(*self.draw.sample(self.people, 2), self.draw.randrange(1, 9) * ONE)
            for _ in range(count)
        ]
        self.trades |= {fill.trade_id for fill in fills}
        end = self.venue.worker.do(f"day {fills[0].trade_id}", SettleBody(fills=fills))
        assert type(end) is OperationDone

    def go_back(self, snapshot):
        """Revert the chain and wait until the worker has sent its transactions again."""
        count = self.venue.chain.num_sent()
        self.venue.chain.node.ask("evm_revert", snapshot)
        end = time.monotonic() + PATIENCE_S
        while self.venue.chain.num_sent() < count:
            assert time.monotonic() < end
            time.sleep(0.05)

    def check(self):
        """Check accounts and settlements against the logs."""
        mirror, books = self.mirror, self.venue.books
        receipt = self.venue.permit(self.people[0], "delegate", self.people[1].address)
        mirror.until(lambda: mirror.is_at(self.venue.chain.node, receipt))
        assert mirror.accounts == books.accounts(*self.venue.tokens)
        assert {
            each.trade_id: each.error is None for each in mirror.settlements
        } == books.statuses()
        assert books.statuses().keys() == self.trades


@pytest.mark.long
@pytest.mark.parametrize("seed", range(DAYS))
@pytest.mark.parametrize("kind", KINDS)
def test_randomised_day_with_worker_crashes(kind, seed, tmp_path):
    with running(start_node(kind, tmp_path / "devchain")) as node, contextlib.ExitStack() as stack:
        world = Chain(node, tmp_path / "chain")
        worker = stack.enter_context(world.worker())
        venue, mirror = SettlingMarket(world, worker), ServerMirror(worker)
        mirror.watch(*venue.tokens)
        day = Day(venue, mirror, seed)
        for number in range(ROUNDS):
            snapshot = node.ask("evm_snapshot") if kind == "anvil" and number % 2 else None
            for _ in range(STEPS):
                day.step(*ALONE, *WITH_WORKER)
            if snapshot is not None:
                day.go_back(snapshot)
            elif number % 4 == 2:
                worker.kill()
                for _ in range(STEPS):
                    day.step(*ALONE)
                worker = venue.worker = stack.enter_context(world.worker())
                mirror.continue_with(worker, *venue.tokens)
            day.check()
