"""Rows of history: each order once it is finished and then only, each trade, whatever the command.

What an order finished by is told here from the state before and after a command, where the
projection goes by the events.
"""

import random  # noqa: TID251 - seeded
from collections import Counter

import msgspec
import pytest

from clob import (
    AddMarket,
    Batch,
    CancelAll,
    Limits,
    Market,
    Rejected,
    RejectedError,
    SetLimits,
    Submit,
    Trade,
)
from clob.errors import UnknownOrderError
from clob_server.api.schemas import OrderBody
from clob_server.core.commands import encode
from clob_server.core.serialize import order_body
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.rows import HistoryRows
from clob_server.history.store import traded
from tests.matcher_model.flow import Flow
from tests.matcher_model.worlds import PAIRED, SMALL, TIGHT
from tests.matchers import buy, sell
from tests.server.engines import papers

SEEDS = range(12)
COMMANDS = 400
ID, STATUS, BODY = 0, 5, 8
ROOM = (Limits(finished_max=40, trades_max=8, batch_max=4), Limits(finished_max=60, batch_max=4))
"""Limits by which trades never finish more orders than stay readable."""


class Follower:
    """An exchange with its rows, and a look at the state around each command."""

    def __init__(self):
        self.exchange, self.seq = ServerState(), 0
        self.rows = HistoryRows(self.exchange)
        self.reasons, self.kinds = Counter(), Counter()

    def resting(self):
        return {each.order.id: each for each in self.exchange.matcher.open_orders()}

    def do(self, command):
        """Do a command, and compare its rows with what the state says."""
        self.seq += 1
        before, num_trades = self.resting(), self.exchange.num_trades
        known = self.rows.known(command)
        outcome = outcome_of(self.exchange, command)
        events = [] if isinstance(outcome, RejectedError) else outcome
        self.rows.take(self.seq, command, outcome, num_trades, known)
        after = self.resting()
        came = accepted(command, events) if not isinstance(outcome, RejectedError) else []
        gone = [each for each in (*before, *came) if each not in after]
        found = {row[ID]: row for row in self.rows.orders}
        assert len(found) == len(self.rows.orders)
        assert set(found) == set(map(str, gone))
        for order_id in gone:
            self.check(found[str(order_id)], order_id, before.get(order_id), type(command))
        self.check_trades(events, num_trades)
        self.rows.clear()

    def check(self, row, order_id, before, kind):
        body = msgspec.json.decode(row[BODY], type=OrderBody)
        assert row[STATUS] == body.status in ("filled", "cancelled")
        self.reasons[body.cancel_reason if body.status == "cancelled" else "filled"] += 1
        try:
            record = self.exchange.matcher.order(order_id)
        except UnknownOrderError:
            self.kinds[kind] += 1
            assert body.status == "cancelled"
            assert body.filled_tokens == str(before.filled)
            assert body.remaining == "0"
        else:
            held = self.exchange.registry.papers.get(order_id)
            assert body == order_body(record, held)

    def check_trades(self, events, num_trades):
        trades = [event for event in events if isinstance(event, Trade)]
        for number, (event, row) in enumerate(
            zip(trades, self.rows.trades, strict=True), num_trades + 1
        ):
            kept = traded(row)
            same = {"resting_order_id": str, "incoming_order_id": str}
            texts = {name: str(getattr(event, name)) for name in same}
            assert kept.event == msgspec.structs.replace(event, **texts)
            assert kept.number == number


def accepted(command, events):
    """Name the orders that a command brought in."""
    if type(command) is Submit:
        return [command.order.id]
    if type(command) is not Batch:
        return []
    refused = {event.index for event in events if type(event) is Rejected}
    return [
        each.order.id
        for index, each in enumerate(command.commands)
        if type(each) is Submit and index not in refused
    ]


@pytest.mark.parametrize("world", [SMALL, TIGHT, PAIRED], ids=["small", "tight", "paired"])
def test_an_order_has_its_row_when_it_is_finished_and_not_before(world):
    reasons = Counter()
    world = msgspec.structs.replace(world, limits=ROOM)
    for seed in SEEDS:
        follower = Follower()
        flow = Flow(random.Random(seed), world, follower.exchange.matcher)
        for command in flow.opening():
            follower.do(command)
        for _ in range(COMMANDS):
            command = flow.command()
            try:
                encode(command)
            except (TypeError, ValueError):
                continue
            follower.do(command)
        reasons += follower.reasons
    assert set(reasons) >= {"filled", "cancelled", "expired", "self_trade", "nonce"}


def crowded(finished_max, count):
    """Orders at rest, and room for fewer finished ones."""
    follower = Follower()
    follower.do(SetLimits(limits=Limits(finished_max=finished_max)))
    follower.do(AddMarket(market=Market(id="m", yes="m-yes", no="m-no")))
    for number in range(count):
        order_id = f"o{number}"
        follower.do(papers(order_id, now_ms=0))
        follower.do(Submit(market="m", order=buy(order_id, 40, 10 + number).order))
    return follower


def test_orders_that_one_command_cancels_are_kept_though_the_engine_lets_go_of_most():
    follower = crowded(2, 9)
    follower.do(CancelAll(market="m", now_ms=5))
    assert follower.kinds == {CancelAll: 7}


def test_papers_of_such_orders_are_kept():
    follower = crowded(2, 9)
    known = follower.rows.known(CancelAll(market="m"))
    outcome = outcome_of(follower.exchange, CancelAll(market="m", now_ms=5))
    follower.rows.take(99, CancelAll(market="m", now_ms=5), outcome, 0, known)
    bodies = [msgspec.json.decode(row[BODY], type=OrderBody) for row in follower.rows.orders]
    assert [body.signer for body in bodies] == ["0xA"] * 9


def test_nothing_is_noted_beforehand_where_all_stays_readable():
    assert crowded(9, 9).rows.known(CancelAll(market="m")) == {}
    assert len(crowded(8, 9).rows.known(CancelAll(market="m"))) == 9


def test_an_order_that_is_gone_before_it_can_be_seen_is_left_out(caplog):
    follower = crowded(1, 3)
    command = Submit(market="m", order=sell("s", 40, 100).order, now_ms=3)
    outcome = outcome_of(follower.exchange, command)
    follower.rows.take(9, command, outcome, 0)
    assert len(follower.rows.trades) == 3
    assert len(follower.rows.orders) == 1
    assert "an order finished unseen" in caplog.text
