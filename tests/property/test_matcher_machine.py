"""Both kinds of matcher under random commands of every kind: whatever is asked, the rules hold.

Method: hypothesis draws kinds of commands, and seeds of a flow that fills them in, valid and
broken ones, over few markets, makers and prices, so that everything meets everything. After each
command both kinds must have told the same and be in the same state; ``check`` must have foretold
it; a refusal must have changed nothing; and a witness, which hears the commands and their events
only, must find every book, order and account as it knows it. Now and then the matchers are
restored from snapshots or forked. In the end the whole stream is replayed.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests import matchers
from tests.matcher_model.flow import Flow
from tests.matcher_model.pair import Pair, outcome
from tests.matcher_model.worlds import PAIRED, SMALL, TIGHT

# Seeds, and not choices one by one: the commands keep their mixture, and the story still shrinks.
randoms = st.randoms(use_true_random=True)
ABOUT_ORDERS = ("cancel", "reduce", "replace")
ABOUT_FUNDS = ("set_balance", "settled", "settle_failed")
ABOUT_MARKETS = ("set_market", "name_no", "set_mode", "set_limits", "add_market")
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
    def touch_an_order(self, rng, kind):
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
    def touch_many_orders(self, rng, kind):
        self.step(rng, kind)

    @rule()
    def restart(self):
        self.pair.restart()
        self.pair.compare()

    @rule(rng=randoms)
    def fork(self, rng):
        """Do the same on the forks first and then on those they were made from."""
        left = self.pair.fork()
        before = left[0].snapshot()
        command, told = self.step(rng, "submit")
        assert [matcher.snapshot() for matcher in left] == [before, before]
        assert [outcome(matcher, command) for matcher in left] == [told, told]
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
    TestBothMatchers.settings = settings(max_examples=100, stateful_step_count=40)
