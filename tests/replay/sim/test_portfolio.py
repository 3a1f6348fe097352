"""The portfolio: every wei is accounted for through trades, splits, merges and settlement."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob import Side
from clob.replay.sim.fees import BalanceFees, Charge, Commission, CurveFees, RateFees, no_fees
from clob.replay.sim.portfolio import Holding, Portfolio, PortfolioError, share
from clob.units import WEI_PER_TOKEN

TOKEN = WEI_PER_TOKEN
YES, NO = 0, 1

wei = st.integers(1, 10**22) | st.integers(1, 200)


def state(mine):
    return mine.collateral, mine.size(YES), mine.size(NO), mine.realised, mine.cost


# ----- examples ----------------------------------------------------------------------------------


def test_buy_and_sell():
    mine = Portfolio(100 * TOKEN)
    mine.trade(YES, Side.BUY, 40, 100 * TOKEN, False)
    assert state(mine) == (60 * TOKEN, 100 * TOKEN, 0, 0, 40 * TOKEN)
    mine.trade(YES, Side.BUY, 60, 100 * TOKEN, True)
    assert state(mine) == (0, 200 * TOKEN, 0, 0, 100 * TOKEN)
    # A quarter is sold for 35; its share of the cost is 25.
    mine.trade(YES, Side.SELL, 70, 50 * TOKEN, True)
    assert state(mine) == (35 * TOKEN, 150 * TOKEN, 0, 10 * TOKEN, 75 * TOKEN)
    assert mine.unrealised({YES: 2 * 70}) == 30 * TOKEN
    assert mine.wealth({YES: 2 * 70}) == 140 * TOKEN


def test_mark_between_two_ticks():
    mine = Portfolio(0)
    mine.holdings[YES] = Holding()
    mine.holdings[YES].size = 200
    assert mine.value({YES: 41 + 42}) == 83


def test_holding_without_a_mark_is_valued_at_cost():
    mine = Portfolio(1_000)
    mine.trade(YES, Side.BUY, 40, 100, False)
    assert mine.wealth({}) == 1_000


def test_short_position_bought_back_through_zero():
    mine = Portfolio()
    mine.trade(YES, Side.SELL, 60, 100, False)
    assert state(mine) == (60, -100, 0, 0, -60)
    assert mine.unrealised({YES: 2 * 70}) == -10
    # The first 100 close at 50 and earn 10; the other 50 open at 50.
    mine.trade(YES, Side.BUY, 50, 150, False)
    assert state(mine) == (60 - 75, 50, 0, 10, 25)
    mine.trade(YES, Side.SELL, 80, 150, False)
    assert state(mine) == (-15 + 120, -100, 0, 10 + 40 - 25, -80)


def test_last_token_takes_the_rest_of_the_cost():
    mine = Portfolio(100)
    mine.trade(YES, Side.BUY, 34, 30, False)
    assert mine.cost == 10
    for left in (6, 3, 0):
        mine.trade(YES, Side.SELL, 0, 10, False)
        assert mine.holdings[YES].cost in (left, left + 1)
    assert (mine.cost, mine.realised) == (0, -10)


def test_split_and_merge_are_free():
    mine = Portfolio(101)
    mine.split(0, 101)
    assert state(mine) == (0, 101, 101, 0, 101)
    assert (mine.holdings[YES].cost, mine.holdings[NO].cost) == (50, 51)
    mine.merge(0, 101)
    assert state(mine) == (101, 0, 0, 0, 0)


def test_buying_a_pair_below_one_and_merging_earns_the_difference():
    mine = Portfolio(1_000)
    mine.trade(YES, Side.BUY, 44, 100, False)
    mine.trade(NO, Side.BUY, 53, 100, False)
    mine.merge(0, 100)
    assert state(mine) == (1_003, 0, 0, 3, 0)


@pytest.mark.parametrize(("price", "collateral"), [(100, 100), (0, 50), (50, 75)])
def test_settlement(price, collateral):
    mine = Portfolio(60)
    mine.trade(YES, Side.BUY, 40, 50, False)
    mine.split(0, 10)
    mine.trade(NO, Side.BUY, 50, 20, False)
    mine.trade(NO, Side.SELL, 100, 20, False)
    assert state(mine) == (50 - 20 + 10 + 0, 60, 10, 10, 30)
    mine.settle(0, price)
    assert (mine.size(YES), mine.size(NO), mine.cost) == (0, 0, 0)
    assert (mine.collateral, mine.realised) == (collateral, collateral - 60)


def test_fees_of_both_sides():
    mine = Portfolio(10**9, fees=RateFees(incoming_bps=100, resting_bps=50))
    assert mine.trade(YES, Side.BUY, 40, 1_000_000, False) == Charge(0, 10_000)
    assert state(mine) == (10**9 - 400_000, 990_000, 0, 0, 400_000)
    assert mine.trade(YES, Side.SELL, 40, 990_000, True) == Charge(1_980, 0)
    assert state(mine) == (10**9 - 400_000 + 396_000 - 1_980, 0, 0, -5_980, 0)
    assert mine.fees_paid == 1_980


# ----- rejections --------------------------------------------------------------------------------


def test_uncovered_reservation_is_rejected():
    mine = Portfolio(100)
    assert not mine.reserve(YES, Side.BUY, 50, 202)
    assert mine.reserve(YES, Side.BUY, 50, 120)
    assert mine.reserved == 60
    with pytest.raises(PortfolioError, match=r"size must be at most 40 \(wei\); got 41"):
        mine.split(0, 41)
    mine.split(0, 40)
    assert not mine.reserve(NO, Side.SELL, 50, 41)
    assert mine.reserve(NO, Side.SELL, 50, 30)
    with pytest.raises(PortfolioError, match=r"size must be at most 10 \(wei\); got 11"):
        mine.merge(0, 11)
    mine.merge(0, 10)
    mine.release(NO, Side.SELL, 50, 30, left=10)
    assert mine.free(NO) == 20
    mine.release(YES, Side.BUY, 50, 120)
    assert mine.reserved == 0


def test_partial_fill_releases_the_excess_reservation():
    mine = Portfolio(100)
    assert mine.reserve(YES, Side.BUY, 33, 10)
    mine.release(YES, Side.BUY, 33, 10, left=7)
    assert mine.reserved == 7 * 33 // 100
    mine.release(YES, Side.BUY, 33, 7)
    assert mine.reserved == 0


def test_unlimited_credit_reserves_nothing():
    mine = Portfolio()
    assert mine.reserve(YES, Side.SELL, 50, 10**30)
    mine.release(YES, Side.SELL, 50, 10**30)
    mine.split(0, 100)
    assert mine.collateral == -100


def test_fork_is_independent():
    mine = Portfolio(1_000, fees=RateFees(incoming_bps=100))
    mine.trade(YES, Side.BUY, 40, 1_000, False)
    mine.reserve(YES, Side.SELL, 60, 500)
    other = mine.fork()
    assert state(other) == state(mine)
    assert (other.free(YES), other.covered, other.fees) == (mine.free(YES), True, mine.fees)
    before = state(mine)
    other.trade(YES, Side.SELL, 60, 100, True)
    assert state(mine) == before != state(other)


@pytest.mark.parametrize("size", [0, -1, 1.0])
def test_invalid_size_is_rejected(size):
    for act in (Portfolio().split, Portfolio().merge):
        with pytest.raises(PortfolioError, match="size must be an integer of 1 or more"):
            act(0, size)


@pytest.mark.parametrize("price", [-1, 101])
def test_outcome_outside_the_scale_is_rejected(price):
    with pytest.raises(PortfolioError, match="an outcome must be from 0 to 100"):
        Portfolio().settle(0, price)


@pytest.mark.parametrize("arguments", [{"collateral": -1}, {"collateral": 1.5}, {"scale": 0}])
def test_invalid_arguments_are_rejected(arguments):
    with pytest.raises(ValueError, match="must be"):
        Portfolio(**arguments)


# ----- commission --------------------------------------------------------------------------------


def test_commission_is_charged_when_the_market_settles():
    mine = Portfolio(fees=Commission(500))
    mine.trade(YES, Side.BUY, 40, 10 * TOKEN, False)
    mine.trade(YES, Side.SELL, 70, 10 * TOKEN, True)
    assert (mine.collateral, mine.fees_paid) == (3 * TOKEN, 0)
    mine.settle(0, 0)
    # Five per cent of a profit of 3, although nothing was held at the end.
    assert (mine.collateral, mine.fees_paid) == (285 * TOKEN // 100, 15 * TOKEN // 100)


def test_markets_of_a_group_pay_on_their_net_winnings():
    runners = Portfolio(fees=Commission(500, ((0, 1),)))
    alone = Portfolio(fees=Commission(500))
    for mine in (runners, alone):
        mine.trade(0, Side.BUY, 40, 100 * TOKEN, False)
        mine.trade(2, Side.BUY, 30, 100 * TOKEN, False)
        mine.settle(0, 100)
        assert mine.fees_paid == 3 * TOKEN
        mine.settle(1, 0)
    # A profit of 60 and a loss of 30: five per cent of 30 together, of 60 alone.
    assert (runners.collateral, runners.fees_paid) == (285 * TOKEN // 10, 15 * TOKEN // 10)
    assert (alone.collateral, alone.fees_paid) == (27 * TOKEN, 3 * TOKEN)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(list(Side)), st.integers(0, 100), wei),
        max_size=30,
    ),
    st.lists(st.sampled_from([0, 37, 100]), min_size=3, max_size=3),
    st.permutations([0, 1, 2]),
    st.integers(0, 10_000),
    st.sampled_from([(), ((0, 1),), ((2, 0, 1),)]),
)
def test_commission_equals_that_of_an_independent_ledger(trades, prices, order, bps, groups):
    mine = Portfolio(fees=Commission(bps, groups))
    cash, tokens = [0, 0, 0], [0] * 6
    for instrument, side, price, size in trades:
        mine.trade(instrument, side, price, size, False)
        sign = 1 if side == Side.BUY else -1
        cash[instrument // 2] -= sign * (size * price // 100)
        tokens[instrument] += sign * size
    for market in order:
        mine.settle(market, prices[market])
        for outcome, worth in ((0, prices[market]), (1, 100 - prices[market])):
            cash[market] += share(worth, tokens[2 * market + outcome], 100)
    alone = [(market,) for market in range(3) if not any(market in group for group in groups)]
    due = sum(max(sum(cash[one] for one in group), 0) * bps // 10_000 for group in groups)
    due += sum(max(cash[market], 0) * bps // 10_000 for (market,) in alone)
    assert mine.fees_paid == due
    assert mine.collateral == mine.realised == sum(cash) - due


def test_fork_keeps_what_an_order_carries():
    mine = Portfolio(fees=BalanceFees(incoming_ppm=24_000))
    mine.trade(YES, Side.BUY, 50, TOKEN, False, 1)
    mine.trade(YES, Side.BUY, 50, TOKEN, False, 1)
    other = mine.fork()
    # The third fill of an order is refunded a cent; the first of another is not.
    assert other.trade(YES, Side.BUY, 50, TOKEN, False, 1).collateral == 0
    assert mine.trade(YES, Side.BUY, 50, TOKEN, False, 2).collateral == 10**16
    assert mine.trade(YES, Side.BUY, 50, TOKEN, False).collateral == 10**16


# ----- whatever happens --------------------------------------------------------------------------

marks = st.dictionaries(st.integers(0, 3), st.integers(0, 200))
schedules = st.sampled_from(
    [
        no_fees,
        RateFees(incoming_bps=200, resting_bps=10),
        CurveFees(incoming_bps=700, step_wei=10**16),
    ]
)


@dataclasses.dataclass
class Action:
    """An action of one of several traders, or of two."""

    kind: str
    trader: int
    other: int
    instrument: int
    price: int
    size: int


actions = st.lists(
    st.builds(
        Action,
        kind=st.sampled_from(["trade", "trade", "trade", "split", "merge", "settle"]),
        trader=st.integers(0, 2),
        other=st.integers(0, 2),
        instrument=st.integers(0, 3),
        price=st.integers(0, 100),
        size=wei,
    ),
    max_size=40,
)


def execute(action, traders):
    """Execute an action; return the fees in collateral and in tokens."""
    if action.kind == "trade":
        bought = traders[action.trader].trade(
            action.instrument, Side.BUY, action.price, action.size, False
        )
        sold = traders[action.other].trade(
            action.instrument, Side.SELL, action.price, action.size, True
        )
        return bought.collateral + sold.collateral, bought.tokens + sold.tokens
    market = action.instrument // 2
    if action.kind == "settle":
        for trader in traders:
            trader.settle(market, 100 * (action.price % 2))
        return 0, 0
    holdings = [traders[action.trader].free(2 * market + outcome) for outcome in (YES, NO)]
    if action.kind == "split":
        traders[action.trader].split(market, action.size)
    elif min(holdings) > 0:
        traders[action.trader].merge(market, min(action.size, *holdings))
    return 0, 0


commissions = st.builds(Commission, st.integers(0, 10_000), st.sampled_from([(), ((0, 1),)]))


@given(actions, schedules | commissions, marks)
def test_collateral_equals_initial_plus_realised_minus_cost(history, fees, marks):
    mine = Portfolio(fees=fees)
    for action in history:
        execute(dataclasses.replace(action, trader=0, other=1), [mine, Portfolio(fees=fees)])
        assert mine.collateral == mine.initial + mine.realised - mine.cost
        assert mine.wealth(marks) == mine.initial + mine.realised + mine.unrealised(marks)
        for holding in mine.holdings.values():
            assert holding.size or not holding.cost


@given(actions, schedules)
def test_collateral_and_tokens_are_conserved(history, fees):
    traders = [Portfolio(fees=fees) for _ in range(3)]
    kept = dict.fromkeys(["collateral", 0, 1, 2, 3], 0)
    for action in history:
        collateral, tokens = execute(action, traders)
        kept["collateral"] += collateral
        kept[action.instrument] += tokens
        if action.kind == "settle":
            market, won = action.instrument // 2, 1 - action.price % 2
            kept["collateral"] += kept[2 * market + won]
            kept[2 * market] = kept[2 * market + 1] = 0
        # Every pair of tokens was split from the same amount of collateral.
        for market in (0, 1):
            yes, no = (
                sum(trader.size(2 * market + outcome) for trader in traders)
                + kept[2 * market + outcome]
                for outcome in (YES, NO)
            )
            assert yes == no
        pairs = sum(
            sum(trader.size(2 * market) for trader in traders) + kept[2 * market]
            for market in (0, 1)
        )
        assert sum(trader.collateral for trader in traders) + kept["collateral"] + pairs == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 100), wei), max_size=30))
def test_settled_wealth_equals_the_sum_of_the_trades(trades):
    for outcome in (0, 100):
        mine = Portfolio(10**30)
        by_hand = 10**30
        for buys, price, size in trades:
            mine.trade(YES, Side.BUY if buys else Side.SELL, price, size, True)
            worth = size if outcome else 0
            cost = size * price // 100
            by_hand += worth - cost if buys else cost - worth
        mine.settle(0, outcome)
        assert mine.collateral == by_hand
        assert mine.realised == by_hand - 10**30


@given(st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6)), max_size=20))
def test_holding_conserves_every_wei(moves):
    holding = Holding()
    paid = realised = 0
    for size, price in moves:
        realised += holding.move(size, price)
        paid += price
        assert holding.cost == paid + realised


@given(st.integers(), st.integers(0, 10**9), st.integers(1, 10**9))
def test_share_is_symmetric_in_the_sign(amount, part, whole):
    assert share(-amount, part, whole) == -share(amount, part, whole)
    assert share(amount, whole, whole) == amount
