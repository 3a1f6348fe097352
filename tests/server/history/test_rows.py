"""History rows: one per trade, and one per order when it finishes.

The tests find finished orders from the state before and after a command; the code under test uses
the events.
"""

import random  # noqa: TID251 - seeded
from collections import Counter

import msgspec
import pytest

from clob import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    CancelSome,
    Limits,
    Market,
    Rejected,
    RejectedError,
    SetLimits,
    Submit,
    Trade,
)
from clob.errors import UnknownOrderError
from clob.wire.orders import OrderBody
from clob_server.core.commands import encode
from clob_server.core.serialize import order_body
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.rows import HistoryRows
from clob_server.history.store import trade_from_row
from tests.matcher_model.flow import Flow
from tests.matcher_model.worlds import PAIRED, SMALL, TIGHT
from tests.matchers import buy, sell
from tests.server.engines import signed

SEEDS = range(12)
COMMANDS = 400
ID, STATUS, BODY = 0, 7, 10
LIMITS = (Limits(finished_max=40, trades_max=8, batch_max=4), Limits(finished_max=60, batch_max=4))
"""Limits under which the engine keeps every order that one command fills."""


class RowChecker:
    """Applies commands, and compares their rows with the change of the state."""

    def __init__(self):
        self.exchange, self.seq = ServerState(), 0
        self.rows = HistoryRows(self.exchange)
        self.reasons, self.kinds = Counter(), Counter()

    def resting(self):
        return {each.order.id: each for each in self.exchange.matcher.open_orders()}

    def apply(self, command):
        """Apply a command, and compare its rows with the change of the state."""
        self.seq += 1
        before, num_trades = self.resting(), self.exchange.num_trades
        bulk = self.rows.orders_before(command)
        outcome = outcome_of(self.exchange, command)
        events = [] if isinstance(outcome, RejectedError) else outcome
        self.rows.add(self.seq, command, outcome, num_trades, bulk)
        after = self.resting()
        entered = accepted(command, events) if not isinstance(outcome, RejectedError) else []
        finished = [each for each in (*before, *entered) if each not in after]
        found = {row[ID]: row for row in self.rows.waiting.orders}
        assert len(found) == len(self.rows.waiting.orders)
        assert set(found) == set(map(str, finished))
        for order_id in finished:
            self.check(found[str(order_id)], order_id, before.get(order_id), type(command))
        self.check_trades(events, num_trades)
        self.rows.take()

    def check(self, row, order_id, before, kind):
        body = msgspec.json.decode(row[BODY], type=OrderBody)
        assert body.status in ("filled", "cancelled")
        assert row[STATUS] == ("expired" if body.cancel_reason == "expired" else body.status)
        self.reasons[body.cancel_reason if body.status == "cancelled" else "filled"] += 1
        try:
            record = self.exchange.matcher.order(order_id)
        except UnknownOrderError:
            self.kinds[kind] += 1
            assert body.status == "cancelled"
            assert body.filled_tokens == str(before.filled)
            assert body.remaining == "0"
        else:
            held = self.exchange.signature(order_id)
            assert body == order_body(record, held)

    def check_trades(self, events, num_trades):
        trades = [event for event in events if isinstance(event, Trade)]
        for number, (event, row) in enumerate(
            zip(trades, self.rows.waiting.trades, strict=True), num_trades + 1
        ):
            kept = trade_from_row(row)
            same = {"resting_order_id": str, "incoming_order_id": str}
            texts = {name: str(getattr(event, name)) for name in same}
            assert kept.event == msgspec.structs.replace(event, **texts)
            assert kept.number == number


def accepted(command, events):
    """Return the ids of the accepted orders of a command."""
    if type(command) is Submit:
        return [command.order.id]
    if type(command) is not Batch:
        return []
    rejected = {event.index for event in events if type(event) is Rejected}
    return [
        each.order.id
        for index, each in enumerate(command.commands)
        if type(each) is Submit and index not in rejected
    ]


@pytest.mark.parametrize("world", [SMALL, TIGHT, PAIRED], ids=["small", "tight", "paired"])
def test_order_gets_its_row_when_it_finishes(world):
    reasons = Counter()
    world = msgspec.structs.replace(world, limits=LIMITS)
    for seed in SEEDS:
        checker = RowChecker()
        flow = Flow(random.Random(seed), world, checker.exchange.matcher)
        for command in flow.opening():
            checker.apply(command)
        for _ in range(COMMANDS):
            command = flow.command()
            try:
                encode(command)
            except (TypeError, ValueError):
                continue
            checker.apply(command)
        reasons += checker.reasons
    assert set(reasons) >= {"filled", "cancelled", "expired", "self_trade", "nonce"}


def with_resting_orders(finished_max, count):
    """Return a checker with resting orders and a limit for finished ones."""
    checker = RowChecker()
    checker.apply(SetLimits(limits=Limits(finished_max=finished_max)))
    checker.apply(AddMarket(market=Market(id="m", yes="m-yes", no="m-no")))
    for number in range(count):
        order_id = f"o{number}"
        checker.apply(signed(buy)(order_id, 40, 10 + number))
    return checker


def test_rows_include_cancelled_orders_that_the_engine_dropped():
    checker = with_resting_orders(2, 9)
    checker.apply(CancelAll(market="m", now_ms=5))
    assert checker.kinds == {CancelAll: 7}


def test_rows_include_orders_that_a_batch_cancelled_and_the_engine_dropped():
    cancels = tuple(Cancel(order_id=f"o{number}") for number in range(9))
    for commands in (cancels, (CancelAll(market="m"),), (*cancels[:1], CancelSome(market="m"))):
        checker = with_resting_orders(2, 9)
        checker.apply(Batch(commands=commands, now_ms=5))
        assert checker.kinds == {Batch: 7}


def test_batch_that_the_engine_keeps_needs_no_orders_before():
    rows = with_resting_orders(8, 9).rows
    few = Batch(commands=(Cancel(order_id="o1"), Cancel(order_id="o2")))
    assert rows.orders_before(few) == {}
    assert len(rows.orders_before(Batch(commands=(*few.commands, CancelAll(market="m"))))) == 9


def test_rows_include_signatures_of_dropped_orders():
    checker = with_resting_orders(2, 9)
    before = checker.rows.orders_before(CancelAll(market="m"))
    outcome = outcome_of(checker.exchange, CancelAll(market="m", now_ms=5))
    checker.rows.add(99, CancelAll(market="m", now_ms=5), outcome, 0, before)
    bodies = [msgspec.json.decode(row[BODY], type=OrderBody) for row in checker.rows.waiting.orders]
    assert [body.signer for body in bodies] == ["0xA"] * 9


def test_orders_before_is_empty_if_the_engine_keeps_all():
    assert with_resting_orders(9, 9).rows.orders_before(CancelAll(market="m")) == {}
    assert len(with_resting_orders(8, 9).rows.orders_before(CancelAll(market="m"))) == 9


def test_order_that_the_engine_already_dropped_is_skipped_with_a_warning(caplog):
    checker = with_resting_orders(1, 3)
    command = Submit(market="m", order=sell("s", 40, 100).order, now_ms=3)
    outcome = outcome_of(checker.exchange, command)
    checker.rows.add(9, command, outcome, 0)
    assert len(checker.rows.waiting.trades) == 3
    assert len(checker.rows.waiting.orders) == 1
    assert "finished order missing from history" in caplog.text
