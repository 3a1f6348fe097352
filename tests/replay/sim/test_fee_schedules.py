"""Named fee schedules, compared with the examples that the venues publish."""

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob import Side
from clob.replay.sim.fee_schedules import FEE_SCHEDULES, describe_fees, fee_schedule
from clob.replay.sim.fees import BalanceFees, Charge, RateFees, Traded, no_fees
from clob.replay.sim.portfolio import Portfolio

USD = 10**18


def taken(price, tokens, side=Side.BUY, scale=100):
    """Return an incoming trade."""
    return Traded(side, price, tokens * USD, False, scale)


def rested(price, tokens, side=Side.BUY, scale=100):
    return Traded(side, price, tokens * USD, True, scale)


def nearest_cent(wei):
    return (wei + USD // 200) // (USD // 100)


# ----- Polymarket ----------------------------------------------------------------------------

# The tables of https://docs.polymarket.com/trading/fees: the fee on 100 shares, in cents, at each
# multiple of five cents from 5 to 50; it is the same at 100 minus the price.
TABLES = {
    "polymarket-2026-crypto": [33, 63, 89, 112, 131, 147, 159, 168, 173, 175],
    "polymarket-2026-sports": [24, 45, 64, 80, 94, 105, 114, 120, 124, 125],
    "polymarket-2026-politics": [19, 36, 51, 64, 75, 84, 91, 96, 99, 100],
    "polymarket-2026": [24, 45, 64, 80, 94, 105, 114, 120, 124, 125],
}


@pytest.mark.parametrize("name", TABLES)
def test_polymarket_charges_the_published_fees(name):
    fees = fee_schedule(name)
    for price, cents in zip(range(5, 51, 5), TABLES[name], strict=True):
        for at in (price, 100 - price):
            for side in Side:
                charge = fees(taken(at, 100, side))
                assert (nearest_cent(charge.collateral), charge.tokens) == (cents, 0)
                assert fees(rested(at, 100, side)) == Charge(0, 0)


def test_polymarket_charges_no_fee_below_the_fifth_decimal():
    fees = fee_schedule("polymarket-2026")
    # 0.05 * 0.01 * 0.99 * size: 0.0000099 for 0.02 tokens, 0.00001485 for 0.03 tokens.
    assert fees(Traded(Side.BUY, 1, USD // 50, False, 100)) == Charge(0, 0)
    assert fees(Traded(Side.BUY, 1, 3 * USD // 100, False, 100)) == Charge(10**13, 0)


# The tables of https://docs.polymarket.com/market-makers/maker-rebates in March 2026: the fee on
# 100 shares in cents, at 10, 20, ..., 90 cents.
EARLY = {
    "polymarket-2026-03-crypto": [2, 13, 33, 58, 78, 86, 77, 51, 18],
    "polymarket-2026-03-sports": [2, 6, 11, 17, 22, 25, 26, 22, 14],
}


@pytest.mark.parametrize("name", EARLY)
def test_early_polymarket_takes_the_fee_out_of_the_received_amount(name):
    fees = fee_schedule(name)
    for price, cents in zip(range(10, 91, 10), EARLY[name], strict=True):
        sold, bought = (fees(taken(price, 100, side)) for side in (Side.SELL, Side.BUY))
        assert sold.tokens == bought.collateral == 0
        # Sports at 80 cents: 100 * 0.8 * 0.0175 * 0.16 = 0.224; 20 cents: 0.056; crypto: 0.128.
        assert abs(sold.collateral * 100 - cents * USD) <= 0.51 * USD
        assert abs(bought.tokens * price - cents * USD) <= 0.51 * USD
    assert fees(rested(50, 100)) == Charge(0, 0)


def test_geopolitics_is_free():
    assert fee_schedule("polymarket-2026-geopolitics")(taken(50, 100)) == Charge(0, 0)


# ----- Kalshi --------------------------------------------------------------------------------

# The general table of the fee schedule of 2026-02-05: the fee in cents for 1 and for 100 contracts.
GENERAL = {
    1: (1, 7),
    5: (1, 34),
    10: (1, 63),
    20: (2, 112),
    25: (2, 132),
    30: (2, 147),
    40: (2, 168),
    50: (2, 175),
    85: (1, 90),
    90: (1, 63),
    95: (1, 34),
    99: (1, 7),
}


@pytest.mark.parametrize("price", GENERAL)
def test_kalshi_rounds_up_to_the_cent(price):
    fees = fee_schedule("kalshi-2026")
    for tokens, cents in zip((1, 100), GENERAL[price], strict=True):
        for side in Side:
            assert fees(taken(price, tokens, side)) == Charge(cents * USD // 100, 0)
    assert fees(rested(price, 100)) == Charge(0, 0)


@pytest.mark.parametrize(
    ("name", "price", "cents"),
    # Stated for 100 contracts: index markets 0.88 and 0.32; a maker fee of 0.0175 * 25 = 0.4375.
    [
        ("kalshi-2026-index", 50, 88),
        ("kalshi-2026-index", 10, 32),
        ("kalshi-2026-index", 90, 32),
        ("kalshi-2026-half", 50, 88),
    ],
)
def test_kalshi_charges_lower_rates_in_some_markets(name, price, cents):
    assert fee_schedule(name)(taken(price, 100)) == Charge(cents * USD // 100, 0)


def test_kalshi_charges_makers_where_it_says_so():
    assert fee_schedule("kalshi-2026-maker")(rested(50, 100)) == Charge(44 * USD // 100, 0)
    assert fee_schedule("kalshi-2026-half-maker")(rested(50, 100)) == Charge(22 * USD // 100, 0)


def test_kalshi_rounds_the_balance_of_one_contract_below_a_cent():
    # https://docs.kalshi.com/getting_started/fee_rounding: one contract at 0.055 has a fee of
    # 0.00363825, rounded to 0.003639, and a rounding fee of 0.001361.
    charge, carried = fee_schedule("kalshi-2026").fees.charge(taken(55, 1, scale=1_000), 0)
    assert (charge, carried) == (Charge(5 * 10**15, 0), 1_361 * 10**12)
    charge, carried = fee_schedule("kalshi-2026-direct").fees.charge(taken(55, 1, scale=1_000), 0)
    assert (charge, carried) == (Charge(37 * 10**14, 0), 61 * 10**12)


def test_kalshi_refunds_whole_cents_of_rounding_within_an_order():
    # Same page: three fills that each add 0.004 of rounding carry 0.004, 0.008 and 0.002.
    fees = BalanceFees(incoming_ppm=24_000)
    kept = []
    carried = 0
    for _ in range(3):
        charge, carried = fees.charge(taken(50, 1), carried)
        kept.append((charge.collateral, carried))
    assert kept == [(10**16, 4 * 10**15), (10**16, 8 * 10**15), (0, 2 * 10**15)]


@pytest.mark.parametrize(
    ("ppm", "price", "scale", "size", "net", "changes"),
    # An earlier edition of that page, whose examples have fees of 0.0085, 0.0041 and 0.0005 per
    # fill: the net fees in millionths, and the changes of the balance in cents.
    [
        (163_540, 55, 1_000, USD, [15_000, 5_000, 15_000], [-7, -6, -7]),
        (54_660, 50, 100, 3 * USD // 10, [10_000, 0, 10_000], [-16, -15, -16]),
        (75_360, 3_301, 10_000, 3 * USD // 100, [10_097, 97, 97], [-2, -1, -1]),
    ],
)
def test_kalshi_net_fees_of_three_equal_fills(ppm, price, scale, size, net, changes):
    mine = Portfolio(fees=BalanceFees(incoming_ppm=ppm, step_wei=10**14), scale=scale)
    charges, balances = [], [0]
    for _ in range(3):
        charges.append(mine.trade(0, Side.BUY, price, size, False, 7).collateral // 10**12)
        balances.append(mine.collateral)
    assert charges == net
    moves = [after - before for before, after in itertools.pairwise(balances)]
    assert moves == [cents * 10**16 for cents in changes]


@given(
    st.lists(st.tuples(st.integers(1, 99), st.integers(1, 500)), min_size=1, max_size=40),
    st.sampled_from([10**16, 10**14]),
    st.sampled_from(list(Side)),
)
def test_fills_of_an_order_cost_at_most_a_unit_more_than_their_exact_fees(fills, unit, side):
    fees = BalanceFees(incoming_ppm=70_000, unit_wei=unit)
    carried = paid = exact = balance = 0
    for price, size in fills:
        traded = Traded(side, price, size * 10**16, False, 100)
        charge, carried = fees.charge(traded, carried)
        assert charge.collateral >= 0 == charge.tokens
        money = traded.size * price // 100
        balance += (money if side == Side.SELL else -money) - charge.collateral
        paid += charge.collateral
        exact += -(-70_000 * traded.size * price * (100 - price) // (10**10 * 10**12)) * 10**12
        # The balance stays on its grid after each fill.
        assert balance % unit == 0
    assert exact <= paid <= exact + carried


# ----- Betfair -------------------------------------------------------------------------------


def test_betfair_takes_its_share_of_net_winnings():
    # https://www.betfair.com.au/hub/help/account-help/commissions-and-charges/: net winnings of
    # 100 at 7 % cost 7. Fifty at odds of 3.00 are 150 tokens at a third.
    mine = Portfolio(fees=fee_schedule("betfair-7"), scale=3)
    mine.trade(0, Side.BUY, 1, 150 * USD, False)
    assert (mine.collateral, mine.fees_paid) == (-50 * USD, 0)
    mine.settle(0, 3)
    assert (mine.collateral, mine.realised, mine.fees_paid) == (93 * USD, 93 * USD, 7 * USD)


def test_betfair_charges_no_commission_on_a_loss():
    mine = Portfolio(fees=fee_schedule("betfair-5"))
    mine.trade(0, Side.BUY, 40, 100 * USD, False)
    mine.settle(0, 0)
    assert (mine.collateral, mine.fees_paid) == (-40 * USD, 0)


# ----- names ---------------------------------------------------------------------------------


def test_every_schedule_states_its_source_and_date():
    for name, one in FEE_SCHEDULES.items():
        assert one.name == name
        assert re.fullmatch(r"\d{4}-\d\d(-\d\d)?|undated", one.stated)
        assert one.source.startswith("https://")
        assert str(one) == f"{name} ({one.stated}, {one.source})"


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"fees must be one of polymarket-2026, .*; got 'kalshi'"):
        fee_schedule("kalshi")


def test_unnamed_schedules_are_described_by_their_code():
    assert describe_fees(no_fees) == "none"
    assert describe_fees(RateFees(1)) == "RateFees(incoming_bps=1, resting_bps=0)"
    assert describe_fees(lambda traded: Charge(0, 0)) == "<lambda>"


def test_the_page_lists_every_schedule():
    page = Path(__file__, "../../../../docs/reference/fees.md").resolve().read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{one.name}` | {one.terms.replace('**', '^').replace('*', '·')} | {one.stated} | "
        f"[{one.source.split('/')[2]}]({one.source}) |"
        for one in FEE_SCHEDULES.values()
    ]
