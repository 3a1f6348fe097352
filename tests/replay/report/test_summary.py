"""The figures of a report are compared with a simple count over the tables of the run."""

import statistics
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.replay import backtest
from clob.replay.io.streams import OWN_ID
from clob.replay.report.summary import (
    drawdowns,
    flows,
    groups,
    money_of,
    own_orders,
    ranks,
    waits_of,
)
from tests.replay.report.runs import several, several_parts


@pytest.fixture(params=["own", "many"])
def run_of(request):
    return request.getfixturevalue(request.param)


def test_money_adds_up(run_of):
    money, portfolio = money_of(run_of), run_of.portfolio
    assert money.wealth == money.initial + money.realised + money.unrealised
    assert money.profit == money.realised + money.unrealised
    assert money.collateral == portfolio.collateral == run_of.equity["collateral"][-1]
    assert money.fees == sum(run_of.own_fills["fee"]) > 0


def test_the_largest_drawdown(run_of):
    peak, deepest = None, 0
    for wealth in run_of.equity["wealth"].tolist():
        peak = wealth if peak is None else max(peak, wealth)
        deepest = max(deepest, peak - wealth)
    money = money_of(run_of)
    assert money.drawdown == deepest > 0
    assert money.drawdown_ns in run_of.equity["ts_ns"].tolist()


@given(st.lists(st.integers(-(10**25), 10**25), min_size=1))
def test_drawdown_is_the_distance_from_the_peak(wealth):
    falls = drawdowns(np.array(wealth, object)).tolist()
    assert falls == [one - max(wealth[: place + 1]) for place, one in enumerate(wealth)]


def test_no_money_without_a_strategy(plain):
    assert money_of(plain) is None
    assert ranks(own_orders(plain)) == []


def test_every_order_has_one_result(run_of):
    orders = own_orders(run_of)
    met = sum(mask.astype(int) for mask in orders.fates().values())
    assert set(met.tolist()) == {1}
    rejected = int(np.count_nonzero(orders.fates()["rejected"]))
    assert rejected == sum(run_of.rejections.values()) > 0


def test_fills_match_the_table(run_of):
    filled, first = defaultdict(int), {}
    for fill in run_of.own_fills:
        order = int(fill["order_id"]) - OWN_ID
        filled[order] += int(fill["size"])
        if fill["resting"]:
            first.setdefault(order, int(fill["ts_ns"]))
    orders = own_orders(run_of)
    for place in range(len(run_of.orders)):
        assert orders.filled[place] == filled[place]
        assert orders.resting_ns[place] == first.get(place, -1)


def test_ranks_cover_all_orders_that_rested(run_of):
    orders, found = own_orders(run_of), ranks(own_orders(run_of))
    rested = run_of.orders[run_of.orders["ahead"] >= 0]
    assert sum(rank.orders for rank in found) == len(rested)
    assert sum(rank.size for rank in found) == int(rested["size"].sum())
    for rank in found:
        mine = [
            place
            for place, row in enumerate(run_of.orders)
            if rank.low <= row["ahead"] <= rank.high
        ]
        assert rank.orders == len(mine)
        assert rank.filled == sum(int(orders.filled[place]) for place in mine)
        assert rank.whole == sum(
            int(orders.filled[place]) == int(run_of.orders["size"][place]) for place in mine
        )
        which = np.zeros(len(run_of.orders), np.bool_)
        which[mine] = True
        waits = waits_of(orders, which)
        assert rank.wait_ns == (statistics.median_low(waits) if waits else None)


@given(st.lists(st.integers(0, 10**19), max_size=40))
def test_groups_cover_every_number_once(values):
    found = groups(values)
    for value in values:
        assert sum(low <= value <= high for low, high in found) == 1
    assert found == sorted(found)
    if values:
        assert found[0][0] <= min(values) <= found[0][1]
        assert found[-1][0] <= max(values) <= found[-1][1]


def test_flows_split_the_tables(many):
    parts = flows(many)
    assert [part.name for part in parts][2] == "frost YES"
    assert sum(len(part.trades) for part in parts) == len(many.fills)
    assert sum(len(part.bests) for part in parts) == len(many.bests)
    assert sum(len(part.own_fills) for part in parts) == len(many.own_fills)
    sides = Counter(int(side) for part in parts for side in part.buys)
    wanted = Counter(
        int(many.orders["side"][int(one) - OWN_ID] == 0) for one in many.own_fills["order_id"]
    )
    assert sides == wanted


def test_the_book_of_each_recorded_trade():
    parts, whole = several_parts(), backtest(several())
    for part, flow in zip(parts, flows(whole), strict=True):
        alone = backtest(part).fills
        assert len(alone) > 0
        for field in ("resting_id", "incoming_id", "size", "price", "ts_ns"):
            assert flow.trades[field].tolist() == alone[field].tolist()


def test_the_book_of_each_own_trade(many):
    """The book of own fills is known and verifies the book of their trades."""
    numbers = many.fills["instrument"]
    assert set(numbers.tolist()) == {0, 1, 2}
    place = {
        (int(one["order_id"]), int(one["other_id"]), int(one["ts_ns"])): int(one["instrument"])
        for one in many.own_fills
    }
    for fill, number in zip(many.fills, numbers.tolist(), strict=True):
        pair = int(fill["resting_id"]), int(fill["incoming_id"])
        for one, other in (pair, pair[::-1]):
            if one >= OWN_ID:
                assert place[one, other, int(fill["ts_ns"])] == number
