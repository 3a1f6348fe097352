"""ServerState agrees with a model and a plain matcher under random commands.

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

from clob import (
    Batch,
    Matcher,
    PairedTrade,
    Rejected,
    RejectedError,
    RemoveMarket,
    Side,
    Submit,
    Trade,
)
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
    RecordCustody,
    RecordOpener,
    SendTrades,
    SetBudgets,
    SetDelegate,
    SetOutcome,
    SignatureRecord,
    StallMarket,
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

# Seeds instead of single choices keep the mixture of commands, as in test_matcher_machine.py.
randoms = st.randoms(use_true_random=True)
worlds = st.sampled_from([SMALL, TIGHT, PAIRED])
PER_FRAME = 7
CONDITION = Condition(
    question_id=bytes(32), condition_id=bytes(32), oracle="o", collateral="c", yes="1", no="2"
)


def server_command(rng, now_ms):
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
            RecordOpener(market=name, payer=name.encode(), now_ms=now_ms),
            BindMarket(market=name, condition=CONDITION, now_ms=now_ms),
            RecordCustody(market=name, custody="escrow", now_ms=now_ms),
            StallMarket(market=rng.choice(("m", "n", name)), reason="late", now_ms=now_ms),
            OrderCharge(charges=((name.encode(), rng.randrange(4)),), now_ms=now_ms),
            *chain_commands(rng, now_ms),
        )
    )


def chain_commands(rng, now_ms):
    """Draw one command of each kind about settlement on a chain."""
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
    """Return the submissions in a command by their index."""
    inner = command.commands if type(command) is Batch else (command,)
    if type(inner) is not tuple:
        return {}
    return {index: each for index, each in enumerate(inner) if type(each) is Submit}


def comparable(outcome):
    """Return an outcome in a form that compares by value."""
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

    def record(self, command, outcome, matcher):
        """Record a command of the engine and its outcome."""
        submitted = submissions(command)
        self.num_orders += len(submitted)
        if isinstance(outcome, RejectedError):
            return
        if type(command) is RemoveMarket:
            self.changed_ms.pop(command.market, None)
        rejected = {event.index for event in outcome if type(event) is Rejected}
        for index, each in submitted.items():
            if index not in rejected:
                record = None
                if each.attachment is not None:
                    record = self.records[each.order.id] = record_in(each.attachment)
                self.orders[each.order.id] = each.order, record
        for event in outcome:
            if type(event) is not Rejected:
                self.num_trades += isinstance(event, Trade)
                self.changed_ms[event.market] = command.now_ms
                if isinstance(event, Trade) and matcher.market(event.market).settles:
                    self.add_fill(event, matcher.market(event.market), command.now_ms)

    def add_fill(self, event, market, now_ms):
        """Add a trade to the pending fills; both trades of a mint or merge make one fill."""
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
        order, record = self.orders[order_id]
        collateral = order.collateral
        if collateral is None:
            collateral = order.size * order.price // 100
        amounts = (collateral, order.size) if order.side is Side.BUY else (order.size, collateral)
        charged = bps if order.fee_rate_bps is None else min(bps, order.fee_rate_bps)
        return order.maker, order.side, amounts, charged, record and record.salt

    def check(self, exchange):
        """Assert that a server state has the expected contents."""
        assert exchange.num_orders == self.num_orders
        assert exchange.num_trades == self.num_trades
        assert exchange.changed_ms == self.changed_ms
        assert set(exchange._attachments) <= set(self.records)
        for order_id, record in self.records.items():
            assert exchange.signature(order_id) == record
        assert fills_of(exchange) == self.fills

    def prune(self, matcher):
        """Drop the records of orders that the matcher pruned; their ids may be used again."""
        for order_id in list(self.records):
            try:
                matcher.order(order_id)
            except UnknownOrderError:
                del self.records[order_id]


def fills_of(exchange):
    """Return the pending fills of a state, in the form of the witness."""
    fills = {}
    for number, held in exchange.registry.settling.held.items():
        fill, halves = held.fill, [msgspec.structs.astuple(half) for half in held.halves]
        parties = tuple(map(party_of, (fill.resting, fill.incoming)))
        assert int(fill.trade_id) == number == held.number
        traded = (held.market, held.traded_ms, halves, fill.price, int(fill.size))
        fills[number] = (*traded, *parties)
    return fills


def party_of(party):
    """Return the party of a fill in the form of the witness."""
    amounts = int(party.maker_amount), int(party.taker_amount)
    salt = None if party.signature == "0x" else party.salt
    return party.maker, party.side, amounts, party.charged_bps, salt


class ExchangeMachine(RuleBasedStateMachine):
    """A server state, a plain matcher, the witness, and all commands so far."""

    @initialize(world=worlds, rng=randoms, before=st.integers(0, 60))
    def start(self, world, rng, before):
        self.exchange, self.matcher, self.witness = ServerState(), Matcher(), Witness()
        self.flow, self.commands, self.copies = Flow(rng, world, self.matcher), [], []
        for command in self.flow.opening():
            self.step(command)
        for _ in range(before):
            self.engine_command(rng, None)

    @rule(rng=randoms)
    def submit(self, rng):
        self.engine_command(rng, "submit")

    @rule(rng=randoms, count=st.integers(2, 8))
    def submit_several(self, rng, count):
        for _ in range(count):
            self.engine_command(rng, "submit")

    @rule(rng=randoms)
    def batch(self, rng):
        self.engine_command(rng, "batch")

    @rule(rng=randoms)
    def replace(self, rng):
        self.engine_command(rng, "replace")

    @rule(rng=randoms)
    def any_engine_command(self, rng):
        self.engine_command(rng, None)

    @rule(rng=randoms)
    def server_command(self, rng):
        command = server_command(rng, self.flow.now_ms)
        before = self.exchange.registry.snapshot()
        if isinstance(self.apply(command), RejectedError):
            assert self.exchange.registry.snapshot() == before

    @rule()
    def restart(self):
        state = self.exchange.snapshot()
        self.exchange = ServerState.restore(state)
        assert self.exchange.snapshot() == state

    @precondition(lambda self: not self.copies)
    @rule()
    def restore_copy(self):
        """Restore a copy that receives all further commands and must stay equal."""
        self.copies = [ServerState.restore(self.exchange.snapshot())]

    @precondition(lambda self: self.copies)
    @rule()
    def compare_copy(self):
        (copy,) = self.copies
        assert copy.snapshot() == self.exchange.snapshot()
        self.copies = []

    # ----- commands --------------------------------------------------------------------------

    def engine_command(self, rng, kind):
        """Draw and apply a command of the engine, with or without signature records."""
        self.flow.rng, self.flow.matcher = rng, self.matcher
        command = self.flow.draw(kind or self.flow.weighted(EVERYTHING))
        if rng.random() < 0.8:
            command = self.with_records(command)
        try:
            encode(command)
        except (TypeError, ValueError):
            return  # no log accepts this command
        self.step(command)

    def with_records(self, command):
        """Attach signature records to the orders of a command."""
        signed = {
            index: msgspec.structs.replace(
                each, attachment=attachment(salt=str(len(self.commands)))
            )
            for index, each in submissions(command).items()
        }
        if type(command) is not Batch or not signed:
            return signed.get(0, command)
        inner = tuple(signed.get(index, each) for index, each in enumerate(command.commands))
        return msgspec.structs.replace(command, commands=inner)

    def step(self, command):
        """Apply a command of the engine to the state, the matcher and the witness."""
        outcome = self.apply(command)
        assert comparable(outcome) == comparable(outcome_of(self.matcher, command)), command
        self.witness.prune(self.exchange.matcher)
        self.witness.record(command, outcome, self.exchange.matcher)
        self.witness.prune(self.exchange.matcher)

    def apply(self, command):
        """Apply any command to the state and its copy."""
        self.commands.append(encode(command))
        for copy in self.copies:
            outcome_of(copy, command)
        outcome = outcome_of(self.exchange, command)
        if type(command) is EndTrades:
            for end in command.ends:
                self.witness.fills.pop(end.trade, None)
        assert type(command) not in SERVER or outcome == () or isinstance(outcome, RejectedError)
        return outcome

    # ----- invariants ------------------------------------------------------------------------

    @invariant()
    def state_equals_matcher_and_witness(self):
        if hasattr(self, "exchange"):
            assert self.exchange.matcher.snapshot() == self.matcher.snapshot()
            self.witness.check(self.exchange)

    @invariant()
    def resting_orders_of_settling_markets_are_kept_unless_they_are_as_restored(self):
        if hasattr(self, "exchange"):
            entries = self.exchange.matcher._engine.entries
            resting = {
                record.order.id: record.order
                for record in self.matcher.open_orders()
                if self.matcher.market(record.market).settles
            }
            kept = self.exchange._fills.orders
            assert kept == {name: resting[name] for name in kept}
            assert all(type(entries[name]) is int for name in resting if name not in kept)

    @invariant()
    def signature_records_are_bounded_by_readable_orders(self):
        if hasattr(self, "exchange"):
            limits = self.matcher.limits
            assert len(self.exchange._attachments) <= len(self.matcher) + limits.finished_max
            assert len(self.exchange._finished) <= limits.finished_max

    def teardown(self):
        """Replay all commands from a log; the state must be the same."""
        if not hasattr(self, "exchange"):
            return
        log, replayed = MemoryLog(), ServerState()
        for start in range(0, len(self.commands), PER_FRAME):
            log.append(self.commands[start : start + PER_FRAME], start, event_hash=ZERO_HASH)
        for frame in log.read():
            replayed.replay(commands_of(frame))
        assert replayed.snapshot() == self.exchange.snapshot()


TestExchange = ExchangeMachine.TestCase
if settings.default.max_examples < 1_000:
    TestExchange.settings = settings(max_examples=50, stateful_step_count=40)


def test_random_runs_reach_every_case():
    """Random runs keep and drop signature records, trade, and hold pending fills."""
    machine, rng, all_records = ExchangeMachine(), random.Random(2), set()
    machine.start(SMALL, rng, 0)
    for _ in range(1_500):
        machine.engine_command(rng, None)
        machine.state_equals_matcher_and_witness()
        all_records.update(machine.exchange._attachments)
    kept = len(machine.exchange._attachments)
    machine.teardown()
    assert kept > 5
    assert len(all_records) - kept > 100
    assert machine.exchange.num_trades > 100
    assert machine.exchange.registry.settling.held
