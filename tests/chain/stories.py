"""Operations with their preconditions and their expected changes of balances."""

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
    """A prepared operation."""

    body: AnyBody
    user: User
    condition: Condition | None
    """None if it does not exist before."""
    change: tuple[int, ...]
    """Change of the user's collateral, YES and NO, in wei; other balances are unchanged."""
    ether: int = 0
    """Change of the user's ether, in wei."""


STEPS = {
    "faucet": ("faucetTx", "transferTx", "gasTx"),
    "split": ("permitTx", "collateralTransferTx", "splitTx", "yesTransferTx", "noTransferTx"),
    "merge": ("yesTransferTx", "noTransferTx", "mergeTx", "returnTx"),
    "redeem": ("yesTransferTx", "noTransferTx", "redeemTx", "returnTx"),
    "prepare": ("prepareTx", "registerTx"),
    "report": ("reportTx",),
    "settle": ("settleTx",),
}
"""Steps of an operation that needs all of them."""
POINTS = ("before_insert", "after_insert", "after_broadcast", "after_receipt")
"""Failpoints of each step."""


def a_faucet(world, worker):
    """Faucet for a user without ether."""
    user = world.stranger()
    condition = world.condition(worker)
    return Story(faucet(user, UNITS), user, condition, (UNITS * UNIT, 0, 0), GIFT)


def a_split(world, worker):
    """Split with a signed approval."""
    user = world.user(worker, UNITS, approved=False)
    condition = world.condition(worker)
    body = split(user, condition, AMOUNT, user.permit(AMOUNT))
    return Story(body, user, condition, (-AMOUNT, AMOUNT, AMOUNT))


def split_before(world, worker):
    """Return a user with tokens, and the condition."""
    user = world.user(worker, UNITS)
    condition = world.condition(worker)
    done(worker, next(world.names), split(user, condition, 2 * AMOUNT))
    return user, condition


def a_merge(world, worker):
    """Merge of half of the user's tokens."""
    user, condition = split_before(world, worker)
    return Story(merge(user, condition, AMOUNT), user, condition, (AMOUNT, -AMOUNT, -AMOUNT))


def a_redeem(world, worker):
    """Redemption of both tokens; the user has transferred a third of the YES tokens away."""
    user, condition = split_before(world, worker)
    user.send_token(world.stranger().address, condition.yes, AMOUNT)
    done(worker, next(world.names), report(condition, "yes"))
    return Story(redeem(user, condition), user, condition, (AMOUNT, -AMOUNT, -2 * AMOUNT))


def a_prepare(world, worker):
    """Preparation of a new question."""
    question = f"0x{keccak(text=next(world.names)).hex()}"
    return Story(PrepareBody(question_id=question), world.stranger(), None, (0,))


def a_report(world, worker):
    """Report for a condition with token holders."""
    user, condition = split_before(world, worker)
    return Story(report(condition, "no"), user, condition, (0, 0, 0))


def a_settle(world, worker):
    """Two trades of a buyer: with a seller who has tokens, and with one who has none."""
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
    """Stories prepared together, to save worker starts.

    Args:
        world: the world of the stories.
        size: minimum number of stories of a kind to prepare at once.
    """

    def __init__(self, world, size=1):
        self._world, self._size = world, size
        self._stories = {kind: [] for kind in STORIES}

    def take(self, *kinds):
        """Return a story for each kind."""
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
    """Balances before stories, compared with those after them.

    Args:
        world: the world of the stories.
        stories: the stories.
    """

    def __init__(self, world, stories):
        self._world, self._stories = world, stories
        self._held = [self._holdings(story) for story in stories]
        self._ether = [world.ledger.ether(story.user.address) for story in stories]
        self.num_sent = world.num_sent()
        """Number of the operator's transactions in blocks."""

    def _holdings(self, story):
        conditions = [] if story.condition is None else [story.condition]
        return self._world.holdings([story.user], *conditions)

    def check_happened(self, num_steps):
        """Check that all stories happened exactly once, in ``num_steps`` transactions."""
        assert self._world.num_sent() - self.num_sent == num_steps
        for story, held, ether in zip(self._stories, self._held, self._ether, strict=True):
            before = held[story.user.address]
            wanted = tuple(old + more for old, more in zip(before, story.change, strict=True))
            found = self._holdings(story)
            assert found[story.user.address] == wanted
            assert set(found[self._world.operator]) == {0}
            assert self._world.ledger.ether(story.user.address) == ether + story.ether

    def check_done(self, kind, result):
        """Check that the only story happened as reported."""
        hashes = hashes_of(answer_of(result))
        assert len(hashes) == len(STEPS[kind])
        self.check_happened(len(hashes))
        self._world.check_happened(hashes)

    def check_undone(self, num_steps):
        """Check that no story changed a balance.

        Args:
            num_steps: number of transactions.
        """
        assert self._world.num_sent() - self.num_sent == num_steps
        for story, held in zip(self._stories, self._held, strict=True):
            assert self._holdings(story) == held
