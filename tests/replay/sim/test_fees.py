"""Fees: the rate of the specification, a curve, and a custom function."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob import Side
from clob.matcher.amounts import buyer_fee, seller_fee
from clob.replay.sim.fees import (
    BalanceFees,
    Charge,
    Commission,
    CurveFees,
    RateFees,
    Traded,
    no_fees,
)
from clob.replay.sim.portfolio import Portfolio

cents = st.integers(1, 99)
wei = st.integers(1, 10**24)
rates = st.integers(0, 1_000)


@given(cents, wei, rates, rates)
def test_rate_fees_equal_the_fees_of_the_engine(price, size, incoming, resting):
    fees = RateFees(incoming_bps=incoming, resting_bps=resting)
    for rests, bps in ((False, incoming), (True, resting)):
        bought = fees(Traded(Side.BUY, price, size, rests, 100))
        sold = fees(Traded(Side.SELL, price, size, rests, 100))
        assert bought == Charge(0, buyer_fee(bps, price, size))
        assert sold == Charge(seller_fee(bps, price, size), 0)


def test_finer_scale_charges_the_same_fee():
    fees = RateFees(incoming_bps=200)
    for side in Side:
        cent = fees(Traded(side, 42, 10**18, False, 100))
        assert fees(Traded(side, 420, 10**18, False, 1_000)) == cent


@pytest.mark.parametrize("price", [0, 100, 150, -3])
def test_price_outside_the_scale_is_free(price):
    assert RateFees(incoming_bps=100)(Traded(Side.SELL, price, 10**18, False, 100)) == (0, 0)


@pytest.mark.parametrize(
    ("price", "tokens", "cents_charged"),
    # Calculated: 7 % of size * p * (1 - p), rounded up to the cent.
    [(50, 100, 175), (1, 1, 1), (99, 100, 7), (20, 100, 112), (35, 3, 5)],
)
def test_curve_rounds_each_fill_up(price, tokens, cents_charged):
    fees = CurveFees(incoming_bps=700, step_wei=10**16)
    for side in Side:
        charge = fees(Traded(side, price, tokens * 10**18, False, 100))
        assert charge == Charge(cents_charged * 10**16, 0)
        assert fees(Traded(side, price, tokens * 10**18, True, 100)) == Charge(0, 0)


def test_negative_rate_is_a_rebate():
    fees = CurveFees(resting_bps=-100)
    assert fees(Traded(Side.SELL, 50, 10**18, True, 100)) == Charge(-25 * 10**14, 0)


@pytest.mark.parametrize("bps", [-1, 10_001, 1.0, True])
def test_rate_out_of_range_is_rejected(bps):
    with pytest.raises(ValueError, match="a fee rate must be an integer from 0 to 10000"):
        RateFees(incoming_bps=bps)


@pytest.mark.parametrize("step", [0, -1, 0.5])
def test_step_out_of_range_is_rejected(step):
    with pytest.raises(ValueError, match="step_wei must be an integer of 1 or more"):
        CurveFees(step_wei=step)


def test_exponent_out_of_range_is_rejected():
    with pytest.raises(ValueError, match="exponent must be an integer of 1 or more; got 0"):
        CurveFees(exponent=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"incoming_ppm": -1}, "incoming_ppm must be an integer from 0 to 1000000; got -1"),
        ({"resting_ppm": 0.07}, "resting_ppm must be an integer from 0 to 1000000; got 0.07"),
        ({"unit_wei": 0}, "unit_wei must be an integer of 1 or more; got 0"),
        ({"step_wei": True}, "step_wei must be an integer of 1 or more; got True"),
    ],
)
def test_balance_fees_out_of_range_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        BalanceFees(**options)


@pytest.mark.parametrize("bps", [-1, 10_001, 5.0])
def test_commission_out_of_range_is_rejected(bps):
    with pytest.raises(ValueError, match="a commission must be an integer from 0 to 10000"):
        Commission(bps)


def test_market_in_two_groups_is_rejected():
    with pytest.raises(ValueError, match="a market must be in one group"):
        Commission(500, ((0, 1), (1, 2)))


@given(st.integers(-50, 150), wei, st.sampled_from(list(Side)))
def test_balance_fees_are_never_negative(price, size, side):
    charge = BalanceFees(incoming_ppm=70_000)(Traded(side, price, size, False, 100))
    assert charge.collateral >= 0


def test_custom_fee_function():
    def a_wei_a_trade(traded):
        return Charge(1, 0) if traded.side == Side.BUY else no_fees(traded)

    mine = Portfolio(1_000, fees=a_wei_a_trade)
    mine.trade(0, Side.BUY, 50, 100, False)
    mine.trade(0, Side.SELL, 50, 100, False)
    assert (mine.collateral, mine.fees_paid, mine.realised) == (999, 1, -1)
