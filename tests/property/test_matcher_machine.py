"""Both kinds of matcher under random commands of every kind: the invariants hold after each.

Method: hypothesis draws kinds of commands, and seeds of a flow that generates valid and broken ones
over few markets, makers and prices, so that orders match and rules apply. After each command both
kinds must have the same result and the same state, and ``check`` must have predicted the result; a
rejection must change nothing; and every book, order and account must agree with a witness, which
gets only the commands and their events. Sometimes the matchers are restored from snapshots or
forked. In the end the whole stream is replayed.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests import matchers
from tests.matcher_model.flow import Flow
from tests.matcher_model.pair import Pair, outcome
from tests.matcher_model.worlds import PAIRED, SMALL, TIGHT

# Seeds instead of single choices keep the mixture of commands, and sequences still shrink.
randoms = st.randoms(use_true_random=True)
ABOUT_ORDERS = ("cancel", "reduce", "replace")
ABOUT_FUNDS = ("set_balance", "settled", "settle_failed")
ABOUT_MARKETS = (
    "set_market", "name_no", "set_mode", "set_limits", "add_market", "remove_market",
)  # fmt: skip
ABOUT_MANY = ("cancel_all", "set_nonce", "expire")


class MatcherMachine(RuleBasedStateMachine):
    """Two matchers, their witness, and the flow of commands."""

    @initialize(
        world=st.sampled_from([SMALL, TIGHT, PAIRED]), rng=randoms, before=st.integers(0, 120)
    )
    def start(self, world, rng, before):
        self.pair = Pair(matchers.load("python"), matchers.load("compiled"))
        self.flow = Flow(rng, world, self.pair.compiled)
        for command in self.flow.opening():
            self.pair.step(command)
        for _ in range(before):
            self.pair.step(self.flow.command())

    @rule(rng=randoms)
    def submit(self, rng):
        self.step(rng, "submit")

    @rule(rng=randoms, count=st.integers(2, 8))
    def submit_several(self, rng, count):
        for _ in range(count):
            self.step(rng, "submit")

    @rule(rng=randoms, kind=st.sampled_from(ABOUT_ORDERS))
    def amend_an_order(self, rng, kind):
        self.step(rng, kind)

    @rule(rng=randoms)
    def batch(self, rng):
        self.step(rng, "batch")

    @rule(rng=randoms, kind=st.sampled_from(ABOUT_FUNDS))
    def change_funds(self, rng, kind):
        self.step(rng, kind)

    @rule(rng=randoms, kind=st.sampled_from(ABOUT_MARKETS))
    def change_a_market(self, rng, kind):
        self.step(rng, kind)

    @rule(rng=randoms, kind=st.sampled_from(ABOUT_MANY))
    def remove_many_orders(self, rng, kind):
        self.step(rng, kind)

    @rule()
    def restart(self):
        self.pair.restart()
        self.pair.compare()

    @rule(rng=randoms)
    def fork(self, rng):
        """Apply a command to the forks, then to the originals; both must have the same result."""
        left = self.pair.fork()
        before = left[0].snapshot()
        command, result = self.step(rng, "submit")
        assert [matcher.snapshot() for matcher in left] == [before, before]
        assert [outcome(matcher, command) for matcher in left] == [result, result]
        after = self.pair.compiled.snapshot()
        assert [matcher.snapshot() for matcher in left] == [after, after]

    def step(self, rng, kind):
        """Draw a command and execute it."""
        self.flow.rng, self.flow.matcher = rng, self.pair.compiled
        command = self.flow.draw(kind)
        return command, self.pair.careful_step(command)

    def teardown(self):
        """Replay all of it."""
        if hasattr(self, "pair"):
            self.pair.replayed()


TestBothMatchers = MatcherMachine.TestCase
if settings.default.max_examples < 1_000:
    TestBothMatchers.settings = settings(max_examples=50, stateful_step_count=40)
