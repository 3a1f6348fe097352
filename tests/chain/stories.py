"""What each operation does to balances: what has to be there before it, and what it changes."""

from collections import Counter
from typing import NamedTuple

from eth_utils import keccak

from clob_server.chain.operation_bodies import AnyBody, PrepareBody, SettleBody
from tests.chain.people import UNIT, User
from tests.chain.settlements import BUY, PRICE, SELL, fill_of, may_settle, party
from tests.chain.worlds import (
    GIFT,
    Condition,
    answer_of,
    done,
    faucet,
    hashes_of,
    merge,
    redeem,
    report,
    split,
)

UNITS = 100
AMOUNT = 37 * UNIT + 11


class Story(NamedTuple):
    """An operation that is about to be asked for."""

    body: AnyBody
    user: User
    condition: Condition | None
    """None where it is not there before."""
    change: tuple[int, ...]
    """What it adds to the user's collateral, YES and NO, in wei; other people's stay."""
    ether: int = 0
    """What it adds to what he has for gas, in wei."""


STEPS = {
    "faucet": ("faucetTx", "transferTx", "gasTx"),
    "split": ("permitTx", "collateralTransferTx", "splitTx", "yesTransferTx", "noTransferTx"),
    "merge": ("yesTransferTx", "noTransferTx", "mergeTx", "returnTx"),
    "redeem": ("yesTransferTx", "noTransferTx", "redeemTx", "returnTx"),
    "prepare": ("prepareTx", "registerTx"),
    "report": ("reportTx",),
    "settle": ("settleTx",),
}
"""The steps of an operation in which all of them are needed."""
POINTS = ("before_insert", "after_insert", "after_broadcast", "after_receipt")
"""Where a worker may die in each step."""


def a_faucet(world, worker):
    """A stranger, who has nothing to pay gas with either."""
    user = world.stranger()
    condition = world.condition(worker)
    return Story(faucet(user, UNITS), user, condition, (UNITS * UNIT, 0, 0), GIFT)


def a_split(world, worker):
    """With a signed approval."""
    user = world.user(worker, UNITS, approved=False)
    condition = world.condition(worker)
    body = split(user, condition, AMOUNT, user.permit(AMOUNT))
    return Story(body, user, condition, (-AMOUNT, AMOUNT, AMOUNT))


def split_before(world, worker):
    """Somebody who has tokens."""
    user = world.user(worker, UNITS)
    condition = world.condition(worker)
    done(worker, next(world.names), split(user, condition, 2 * AMOUNT))
    return user, condition


def a_merge(world, worker):
    """Of half of what the user has."""
    user, condition = split_before(world, worker)
    return Story(merge(user, condition, AMOUNT), user, condition, (AMOUNT, -AMOUNT, -AMOUNT))


def a_redeem(world, worker):
    """Of all that the user has of both tokens; a third of the YES he has given away."""
    user, condition = split_before(world, worker)
    user.give_token(world.stranger().address, condition.yes, AMOUNT)
    done(worker, next(world.names), report(condition, "yes"))
    return Story(redeem(user, condition), user, condition, (AMOUNT, -AMOUNT, -2 * AMOUNT))


def a_prepare(world, worker):
    """Of a question that nobody has asked before."""
    question = f"0x{keccak(text=next(world.names)).hex()}"
    return Story(PrepareBody(question_id=question), world.stranger(), None, (0,))


def a_report(world, worker):
    """Of the outcome of a condition whose tokens somebody has."""
    user, condition = split_before(world, worker)
    return Story(report(condition, "no"), user, condition, (0, 0, 0))


def a_settle(world, worker):
    """Two trades of a buyer: one with somebody who has tokens, one with somebody who has none."""
    seller, condition = split_before(world, worker)
    buyer, poor = world.user(worker, UNITS, approved=False), world.user(worker)
    for user in (buyer, seller, poor):
        may_settle(user)
    size, token = 100 * 10**15, condition.yes
    fills = [
        fill_of(
            world,
            party(buyer, BUY, PRICE, size, token),
            party(each, SELL, PRICE, size, token),
            size,
        )
        for each in (seller, poor)
    ]
    return Story(SettleBody(fills=fills), buyer, condition, (-size * PRICE // 100, size, 0))


STORIES = {
    "faucet": a_faucet,
    "split": a_split,
    "merge": a_merge,
    "redeem": a_redeem,
    "prepare": a_prepare,
    "report": a_report,
    "settle": a_settle,
}


class Stock:
    """Stories that were prepared together, so that not each of them needs a worker for that.

    Args:
        world: where they happen.
        size: how many of a kind are prepared at once, at least.
    """

    def __init__(self, world, size=1):
        self._world, self._size = world, size
        self._stories = {kind: [] for kind in STORIES}

    def take(self, *kinds):
        """Give a story of each of these kinds."""
        wanted = Counter(kinds)
        missing = {
            kind: max(count - len(self._stories[kind]), self._size)
            for kind, count in wanted.items()
            if count > len(self._stories[kind])
        }
        if missing:
            with self._world.worker() as worker:
                for kind, count in missing.items():
                    made = (STORIES[kind](self._world, worker) for _ in range(count))
                    self._stories[kind] += made
        return [self._stories[kind].pop() for kind in kinds]


class Before:
    """What was there before stories happened, to be compared with what is there after.

    Args:
        world: where they happen.
        stories: those that are about to.
    """

    def __init__(self, world, stories):
        self._world, self._stories = world, stories
        self._held = [self._holdings(story) for story in stories]
        self._ether = [world.ledger.ether(story.user.address) for story in stories]
        self.num_sent = world.num_sent()
        """How many transactions of the operator were in blocks."""

    def _holdings(self, story):
        conditions = [] if story.condition is None else [story.condition]
        return self._world.holdings([story.user], *conditions)

    def check_happened(self, num_steps):
        """All of them happened, exactly once, and in so many transactions."""
        assert self._world.num_sent() - self.num_sent == num_steps
        for story, held, ether in zip(self._stories, self._held, self._ether, strict=True):
            before = held[story.user.address]
            wanted = tuple(old + more for old, more in zip(before, story.change, strict=True))
            found = self._holdings(story)
            assert found[story.user.address] == wanted
            assert set(found[self._world.operator]) == {0}
            assert self._world.ledger.ether(story.user.address) == ether + story.ether

    def check_done(self, kind, told):
        """The operation of the only story has happened, as it was told."""
        hashes = hashes_of(answer_of(told))
        assert len(hashes) == len(STEPS[kind])
        self.check_happened(len(hashes))
        self._world.check_happened(hashes)

    def check_undone(self, num_steps):
        """None of them happened: nobody has lost anything, nor has the operator gained.

        Args:
            num_steps: how many transactions that took.
        """
        assert self._world.num_sent() - self.num_sent == num_steps
        for story, held in zip(self._stories, self._held, strict=True):
            assert self._holdings(story) == held
