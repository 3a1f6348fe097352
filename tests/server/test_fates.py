"""How trades stand, against a model: each change once and in its sequence, and nothing untrue."""

import random  # noqa: TID251 - seeded
from collections import defaultdict

import pytest

from clob_server.core.sequencer import Committed
from clob_server.core.settlement_ledger import ENDED_MAX
from clob_server.core.settlement_status import (
    NONE,
    PENDING,
    SUBMITTED,
    SettlementStatuses,
    fate_at,
    settled_as,
)
from clob_server.core.state import ServerState, outcome_of
from tests.matchers import buy, sell
from tests.server.settled import ALICE, BOB, NO, YES, ended, opening, sent, settling, tx_of

SIZE, KEPT, STEPS = 100, 5, 400


class Story:
    """An exchange, what it is heard of, and what must be true of each trade."""

    def __init__(self, **terms):
        self.exchange, self.now_ms, self.orders = ServerState(), 1, 0
        self.exchange.replay(opening(settling(complementary=True, **terms)))
        self.fates = SettlementStatuses(self.exchange.registry.settling, KEPT)
        self.truth = {}
        self.told = defaultdict(list)

    def do(self, *commands):
        """Have commands done as one batch."""
        batch = []
        for command in commands:
            num_trades = self.exchange.num_trades
            batch.append(Committed(0, command, outcome_of(self.exchange, command), num_trades))
        for change in self.fates.hear(batch):
            self.told[change.held.halves[0].number].append(change.fate)

    def trade(self, *, mint=False):
        """Make a trade, or both of a mint; give the number it is settled as."""
        self.orders += 2
        second = buy if mint else sell
        number = self.exchange.num_trades + 1
        fields = {"now_ms": self.now_ms}
        self.do(
            buy(f"a{self.orders}", 60, SIZE, maker=ALICE, token=YES, **fields),
            second(
                f"b{self.orders}", 40 if mint else 60, SIZE, maker=BOB,
                token=NO if mint else YES, **fields,
            ),
        )  # fmt: skip
        assert self.exchange.num_trades == number + mint
        self.truth[number] = PENDING
        return number

    def end(self, numbers, reason=""):
        """Have trades end; of each the first end is the true one."""
        for number in numbers:
            if self.truth.get(number) in (PENDING, SUBMITTED):
                self.truth[number] = fate_at(tx_of(number), reason)
        return ended(*numbers, reason=reason, now_ms=self.now_ms)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_at_hand_is_true_and_every_change_is_told_once(seed):
    rng, story = random.Random(seed), Story()
    for step in range(STEPS):
        story.now_ms += 1
        numbers = [rng.randint(1, story.exchange.num_trades + 2) for _ in range(rng.randint(1, 4))]
        what = rng.random()
        if what < 0.5:
            story.trade(mint=rng.random() < 0.3)
        elif what < 0.75:
            for number in numbers:
                if story.truth.get(number) is PENDING:
                    story.truth[number] = SUBMITTED
            story.do(sent(*numbers, operation=f"settle-{step // 3}", now_ms=story.now_ms))
        else:
            story.do(
                story.end(numbers),
                story.end(numbers[:2], reason="why"),
            )
        for number, truth in story.truth.items():
            assert story.fates.of(number) in (truth, None)
            if truth in (PENDING, SUBMITTED):
                assert story.fates.of(number) == truth
    assert len(story.told) > 20
    for number, told in story.told.items():
        assert told in ([SUBMITTED], [story.truth[number]], [SUBMITTED, story.truth[number]])
    waiting = {number for number, truth in story.truth.items() if truth is PENDING}
    assert story.told.keys() == story.truth.keys() - waiting


def test_of_what_ended_so_many_stay_at_hand():
    story = Story()
    numbers = [story.trade() for _ in range(KEPT + 3)]
    for number in numbers:
        story.do(story.end([number]))
    at_hand = [number for number in numbers if story.fates.of(number) is not None]
    assert at_hand == numbers[-KEPT:]
    assert NONE not in map(story.fates.of, numbers)


def test_more_may_end_at_once_than_the_registry_keeps():
    story = Story()
    numbers = [story.trade() for _ in range(ENDED_MAX + 20)]
    story.do(sent(*numbers, now_ms=2))
    story.do(story.end(numbers))
    assert all(story.told[number] == [SUBMITTED, story.truth[number]] for number in numbers)


def test_a_mint_is_settled_as_its_first_trade():
    story = Story()
    first, second, direct = story.trade(mint=True), story.exchange.num_trades, story.trade()
    held = story.exchange.registry.settling.held
    assert list(held) == [first, direct]
    assert [half.number for half in held[first].halves] == [first, second]
    events = story.exchange.matcher.apply(buy("x", 60, SIZE, maker=ALICE, token=YES, now_ms=9))
    events = story.exchange.matcher.apply(buy("y", 40, SIZE, maker=BOB, token=NO, now_ms=9))
    trades = [event for event in events if hasattr(event, "match_type")]
    assert [settled_as(trade, number) for number, trade in enumerate(trades[:2], 7)] == [7, 7]
