"""Settlement status against a model: each change once, in order, and correct."""

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
    """A server state, the reported changes, and the expected status of each trade."""

    def __init__(self, **terms):
        self.exchange, self.now_ms, self.orders = ServerState(), 1, 0
        self.exchange.replay(opening(settling(complementary=True, **terms)))
        self.fates = SettlementStatuses(self.exchange.registry.settling, KEPT)
        self.expected = {}
        self.reported = defaultdict(list)

    def do(self, *commands):
        """Apply commands as one batch."""
        batch = []
        for command in commands:
            num_trades = self.exchange.num_trades
            batch.append(Committed(0, command, outcome_of(self.exchange, command), num_trades))
        for change in self.fates.on_batch(batch):
            self.reported[change.held.halves[0].number].append(change.fate)

    def trade(self, *, mint=False):
        """Make a trade or a mint; return the number under which it settles."""
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
        self.expected[number] = PENDING
        return number

    def end(self, numbers, reason=""):
        """Return the command that ends trades; the first end of a trade counts."""
        for number in numbers:
            if self.expected.get(number) in (PENDING, SUBMITTED):
                self.expected[number] = fate_at(tx_of(number), reason)
        return ended(*numbers, reason=reason, now_ms=self.now_ms)


@pytest.mark.parametrize("seed", range(8))
def test_status_matches_the_model_and_every_change_is_reported_once(seed):
    rng, story = random.Random(seed), Story()
    for step in range(STEPS):
        story.now_ms += 1
        numbers = [rng.randint(1, story.exchange.num_trades + 2) for _ in range(rng.randint(1, 4))]
        action = rng.random()
        if action < 0.5:
            story.trade(mint=rng.random() < 0.3)
        elif action < 0.75:
            for number in numbers:
                if story.expected.get(number) is PENDING:
                    story.expected[number] = SUBMITTED
            story.do(sent(*numbers, operation=f"settle-{step // 3}", now_ms=story.now_ms))
        else:
            story.do(
                story.end(numbers),
                story.end(numbers[:2], reason="why"),
            )
        for number, expected in story.expected.items():
            assert story.fates.of(number) in (expected, None)
            if expected in (PENDING, SUBMITTED):
                assert story.fates.of(number) == expected
    assert len(story.reported) > 20
    for number, reported in story.reported.items():
        assert reported in (
            [SUBMITTED],
            [story.expected[number]],
            [SUBMITTED, story.expected[number]],
        )
    waiting = {number for number, expected in story.expected.items() if expected is PENDING}
    assert story.reported.keys() == story.expected.keys() - waiting


def test_status_of_recently_ended_trades_is_kept():
    story = Story()
    numbers = [story.trade() for _ in range(ENDED_MAX + 3)]
    for number in numbers:
        story.do(story.end([number]))
    kept = [number for number in numbers if story.fates.of(number) is not None]
    assert kept == numbers[-ENDED_MAX:]
    assert NONE not in map(story.fates.of, numbers)


def test_more_trades_than_the_ledger_keeps_may_end_at_once():
    story = Story()
    numbers = [story.trade() for _ in range(ENDED_MAX + 20)]
    story.do(sent(*numbers, now_ms=2))
    story.do(story.end(numbers))
    assert all(story.reported[number] == [SUBMITTED, story.expected[number]] for number in numbers)


def test_mint_settles_under_the_number_of_its_first_trade():
    story = Story()
    first, second, direct = story.trade(mint=True), story.exchange.num_trades, story.trade()
    held = story.exchange.registry.settling.held
    assert list(held) == [first, direct]
    assert [half.number for half in held[first].halves] == [first, second]
    events = story.exchange.matcher.apply(buy("x", 60, SIZE, maker=ALICE, token=YES, now_ms=9))
    events = story.exchange.matcher.apply(buy("y", 40, SIZE, maker=BOB, token=NO, now_ms=9))
    trades = [event for event in events if hasattr(event, "match_type")]
    assert [settled_as(trade, number) for number, trade in enumerate(trades[:2], 7)] == [7, 7]
