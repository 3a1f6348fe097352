"""ServerState under random engine and server commands, against a model and a plain matcher.

Method: hypothesis draws commands as the machine of the matcher does, some orders with a signature
record, and server commands between them. A plain matcher receives the engine commands and must
return the same outcomes. A witness computes counts, times, signature records and pending fills from
these outcomes. Now and then the state is restored from a snapshot, and at the end from the log.
"""

import random  # noqa: TID251 - seeded

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from clob import Batch, Matcher, PairedTrade, Rejected, RejectedError, Side, Submit, Trade
from clob.errors import UnknownOrderError
from clob.journal import ZERO_HASH
from clob_server.core.commands import (
    SERVER,
    AddKey,
    BeginSettlement,
    BindMarket,
    Budgets,
    Condition,
    DeactivateKey,
    DescribeMarket,
    EndTrades,
    FollowChain,
    GiveBack,
    Grant,
    OrderCharge,
    SendTrades,
    SetBudgets,
    SetDelegate,
    SetOutcome,
    SignatureRecord,
    TradeEnd,
    encode,
)
from clob_server.core.recovery import commands_of
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import MemoryLog
from tests.matcher_model.flow import EVERYTHING, Flow
from tests.matcher_model.worlds import PAIRED, SMALL, TIGHT
from tests.server.core.test_registry import key
from tests.server.engines import attachment

# Seeds, and not choices one by one, as in the matcher's own machine.
randoms = st.randoms(use_true_random=True)
worlds = st.sampled_from([SMALL, TIGHT, PAIRED])
PER_FRAME = 7
CONDITION = Condition(
    question_id=bytes(32), condition_id=bytes(32), oracle="o", collateral="c", yes="1", no="2"
)


def own(rng, now_ms):
    """Draw a server command; some are rejected."""
    name = rng.choice("abc")
    return rng.choice(
        (
            AddKey(key=key(name), now_ms=now_ms),
            DeactivateKey(key_id=name, now_ms=now_ms),
            SetDelegate(
                maker=name,
                delegate=rng.choice("xyz"),
                allowed=rng.random() < 0.7,
                nonce=str(rng.choice((0, 1, 2, 2**255, 2**256))),
                now_ms=now_ms,
            ),
            DescribeMarket(market=name, question=f"{now_ms}?", now_ms=now_ms),
            SetOutcome(market=name, outcome="yes", now_ms=now_ms),
            SetBudgets(budgets=Budgets(orders_per_minute=rng.randrange(3)), now_ms=now_ms),
            Grant(operation=rng.choice("pqr"), user=name, amount=200, now_ms=now_ms),
            GiveBack(operation=rng.choice("pqr"), now_ms=now_ms),
            BindMarket(market=name, condition=CONDITION, now_ms=now_ms),
            OrderCharge(charges=((name.encode(), rng.randrange(4)),), now_ms=now_ms),
            *of_the_chain(rng, now_ms),
        )
    )


def of_the_chain(rng, now_ms):
    """Draw a command of each kind that has to do with trades on a chain."""
    numbers = tuple(rng.randrange(1, 40) for _ in range(rng.randrange(5)))
    name, allowed = rng.choice("abc"), rng.random() < 0.5
    return (
        BeginSettlement(base=bytes(16), now_ms=now_ms),
        SendTrades(operation=name, trades=numbers, now_ms=now_ms),
        EndTrades(ends=tuple(TradeEnd(trade=each, tx="0x1") for each in numbers), now_ms=now_ms),
        FollowChain(
            block=rng.randrange(9),
            hash=name,
            wallets=(name,),
            permissions=(("payer", name, "x", allowed),),
            cancelled=(name,),
            now_ms=now_ms,
        ),
    )


def submissions(command):
    """Return the submissions in a command, by their place in it."""
    inner = command.commands if type(command) is Batch else (command,)
    if type(inner) is not tuple:
        return {}
    return {place: each for place, each in enumerate(inner) if type(each) is Submit}


def shown(outcome):
    """Return an outcome as something to compare."""
    if isinstance(outcome, RejectedError):
        return type(outcome), str(outcome), outcome.index
    return outcome


def record_in(attachment):
    """Return the signature record in an attachment; None for other bytes."""
    try:
        return msgspec.msgpack.decode(attachment, type=SignatureRecord)
    except msgspec.MsgspecError:
        return None


class Witness:
    """The expected state, computed from outcomes alone."""

    def __init__(self):
        self.num_orders = self.num_trades = 0
        self.changed_ms, self.records = {}, {}
        self.orders, self.fills = {}, {}

    def hear(self, command, outcome, matcher):
        """Hear of a command of the engine, and its outcome."""
        made = submissions(command)
        self.num_orders += len(made)
        if isinstance(outcome, RejectedError):
            return
        gone = {event.index for event in outcome if type(event) is Rejected}
        for place, each in made.items():
            if place not in gone:
                own = None
                if each.attachment is not None:
                    own = self.records[each.order.id] = record_in(each.attachment)
                self.orders[each.order.id] = each.order, own
        for event in outcome:
            if type(event) is not Rejected:
                self.num_trades += isinstance(event, Trade)
                self.changed_ms[event.market] = command.now_ms
                if isinstance(event, Trade) and matcher.market(event.market).settles:
                    self.note_fill(event, matcher.market(event.market), command.now_ms)

    def note_fill(self, event, market, now_ms):
        """Note what has to be settled of a trade; of the second of two, with the first."""
        half = (self.num_trades, event.seq, event.token, event.buyer, event.seller)
        resting, incoming = (
            self.party(order_id, bps)
            for order_id, bps in (
                (event.resting_order_id, market.resting_fee_rate_bps),
                (event.incoming_order_id, market.incoming_fee_rate_bps),
            )
        )
        rest = (event.price, event.size, resting, incoming)
        if isinstance(event, PairedTrade) and not event.is_incoming:
            _, _, [first], *_ = self.fills[self.num_trades - 1]
            self.fills[self.num_trades - 1] = (market.id, now_ms, [first, half], *rest)
        else:
            self.fills[self.num_trades] = (market.id, now_ms, [half], *rest)

    def party(self, order_id, bps):
        """Return the party of an order in a fill, as submitted."""
        order, own = self.orders[order_id]
        collateral = order.collateral
        if collateral is None:
            collateral = order.size * order.price // 100
        given = (collateral, order.size) if order.side is Side.BUY else (order.size, collateral)
        charged = bps if order.fee_rate_bps is None else min(bps, order.fee_rate_bps)
        return order.maker, order.side, given, charged, own and own.salt

    def agrees(self, exchange):
        """Demand that an exchange knows the same."""
        assert exchange.num_orders == self.num_orders
        assert exchange.num_trades == self.num_trades
        assert exchange.changed_ms == self.changed_ms
        assert exchange.signed_orders == list(self.records)
        for order_id, own in self.records.items():
            assert exchange.signature(order_id) == own
        assert fills_of(exchange) == self.fills

    def let_go(self, matcher):
        """Drop the records of orders that the matcher has forgotten; an id may come again."""
        for order_id in list(self.records):
            try:
                matcher.order(order_id)
            except UnknownOrderError:
                del self.records[order_id]


def fills_of(exchange):
    """Return the pending fills of a state, in the form of the witness."""
    found = {}
    for number, held in exchange.registry.settling.held.items():
        fill, halves = held.fill, [msgspec.structs.astuple(half) for half in held.halves]
        parties = tuple(map(party_of, (fill.resting, fill.incoming)))
        assert int(fill.trade_id) == number == held.number
        traded = (held.market, held.traded_ms, halves, fill.price, int(fill.size))
        found[number] = (*traded, *parties)
    return found


def party_of(party):
    """Return an order in a fill as the witness notes it."""
    given = int(party.maker_amount), int(party.taker_amount)
    salt = None if party.signature == "0x" else party.salt
    return party.maker, party.side, given, party.charged_bps, salt


class ExchangeMachine(RuleBasedStateMachine):
    """An exchange, the bare matcher, the witness, and all that was ever asked."""

    @initialize(world=worlds, rng=randoms, before=st.integers(0, 60))
    def start(self, world, rng, before):
        self.exchange, self.matcher, self.witness = ServerState(), Matcher(), Witness()
        self.flow, self.asked, self.left = Flow(rng, world, self.matcher), [], []
        for command in self.flow.opening():
            self.step(command)
        for _ in range(before):
            self.engines(rng, None)

    @rule(rng=randoms)
    def submit(self, rng):
        self.engines(rng, "submit")

    @rule(rng=randoms, count=st.integers(2, 8))
    def submit_several(self, rng, count):
        for _ in range(count):
            self.engines(rng, "submit")

    @rule(rng=randoms)
    def batch(self, rng):
        self.engines(rng, "batch")

    @rule(rng=randoms)
    def replace(self, rng):
        self.engines(rng, "replace")

    @rule(rng=randoms)
    def any_other(self, rng):
        self.engines(rng, None)

    @rule(rng=randoms)
    def of_the_server(self, rng):
        command = own(rng, self.flow.now_ms)
        before = self.exchange.registry.snapshot()
        if isinstance(self.tell(command), RejectedError):
            assert self.exchange.registry.snapshot() == before

    @rule()
    def restart(self):
        state = self.exchange.snapshot()
        self.exchange = ServerState.restore(state)
        assert self.exchange.snapshot() == state

    @precondition(lambda self: not self.left)
    @rule()
    def leave_a_copy(self):
        """What is asked from here on leads a restored one to the same."""
        self.left = [ServerState.restore(self.exchange.snapshot())]

    @precondition(lambda self: self.left)
    @rule()
    def compare_the_copy(self):
        (copy,) = self.left
        assert copy.snapshot() == self.exchange.snapshot()
        self.left = []

    # ----- what rules do -----------------------------------------------------------------------

    def engines(self, rng, kind):
        """Draw a command of the engine and apply it, its orders with records or without."""
        self.flow.rng, self.flow.matcher = rng, self.matcher
        command = self.flow.draw(kind or self.flow.weighted(EVERYTHING))
        if rng.random() < 0.8:
            command = self.with_records(command)
        try:
            encode(command)
        except (TypeError, ValueError):
            return  # invalid in a way that no log accepts
        self.step(command)

    def with_records(self, command):
        """Attach signature records to the orders of a command."""
        made = {
            place: msgspec.structs.replace(each, attachment=attachment(salt=str(len(self.asked))))
            for place, each in submissions(command).items()
        }
        if type(command) is not Batch or not made:
            return made.get(0, command)
        inner = tuple(made.get(place, each) for place, each in enumerate(command.commands))
        return msgspec.structs.replace(command, commands=inner)

    def step(self, command):
        """Apply a command of the engine, and tell the others."""
        outcome = self.tell(command)
        assert shown(outcome) == shown(outcome_of(self.matcher, command)), command
        self.witness.let_go(self.exchange.matcher)
        self.witness.hear(command, outcome, self.exchange.matcher)
        self.witness.let_go(self.exchange.matcher)

    def tell(self, command):
        """Ask any command."""
        self.asked.append(encode(command))
        for copy in self.left:
            outcome_of(copy, command)
        outcome = outcome_of(self.exchange, command)
        if type(command) is EndTrades:
            for end in command.ends:
                self.witness.fills.pop(end.trade, None)
        assert type(command) not in SERVER or outcome == () or isinstance(outcome, RejectedError)
        return outcome

    # ----- what has to hold --------------------------------------------------------------------

    @invariant()
    def it_knows_what_it_was_told(self):
        if hasattr(self, "exchange"):
            assert self.exchange.matcher.snapshot() == self.matcher.snapshot()
            self.witness.agrees(self.exchange)

    @invariant()
    def it_has_the_orders_at_hand_that_may_have_to_settle(self):
        if hasattr(self, "exchange"):
            resting = {
                record.order.id: record.order
                for record in self.matcher.open_orders()
                if self.matcher.market(record.market).settles
            }
            assert self.exchange._fills.orders == resting

    @invariant()
    def signature_records_are_bounded_by_the_orders_that_are_known(self):
        if hasattr(self, "exchange"):
            limits = self.matcher.limits
            assert len(self.exchange.signed_orders) <= len(self.matcher) + limits.finished_max
            assert len(self.exchange._finished) <= limits.finished_max

    def teardown(self):
        """Have all of it done again, from the bytes in a log."""
        if not hasattr(self, "exchange"):
            return
        log, again = MemoryLog(), ServerState()
        for start in range(0, len(self.asked), PER_FRAME):
            log.append(self.asked[start : start + PER_FRAME], start, event_hash=ZERO_HASH)
        for frame in log.read():
            again.replay(commands_of(frame))
        assert again.snapshot() == self.exchange.snapshot()


TestExchange = ExchangeMachine.TestCase
if settings.default.max_examples < 1_000:
    TestExchange.settings = settings(max_examples=50, stateful_step_count=40)


def test_random_runs_reach_every_case():
    """Records are kept and dropped, orders trade: not everything is rejected."""
    machine, rng, ever = ExchangeMachine(), random.Random(1), set()
    machine.start(SMALL, rng, 0)
    for _ in range(1_500):
        machine.engines(rng, None)
        machine.it_knows_what_it_was_told()
        ever.update(machine.exchange.signed_orders)
    kept = len(machine.exchange.signed_orders)
    machine.teardown()
    assert kept > 5
    assert len(ever) - kept > 100
    assert machine.exchange.num_trades > 100
    assert machine.exchange.registry.settling.held
