"""Decisions on amounts and fees, where the specification is silent: one test or more for each.

A test has the number of its decision in its name, and the decision in its docstring. Other
decisions are in ``test_decisions.py``.
"""

import pytest

from clob import Funds, OrderStatus, Reduce, RemovalReason, TimeInForce, Trade, tokens
from clob.errors import (
    AmountTooLargeError,
    FokNotFillableError,
    InvalidAmountError,
    InvalidFeeRateError,
)
from clob.units import SIZE_MAX, collateral_of
from tests.books import event_lines
from tests.matchers import buy, funded, market, opened, rejected, sell

WEI = 10**18


@pytest.fixture
def matcher(matcher_class):
    """A matcher with a market called ``m``."""
    return opened(matcher_class)


@pytest.fixture
def covered(matcher_class):
    """A matcher whose market ``m`` has accounts, with 1000 wei of everything for B and S."""
    return funded(opened(matcher_class, market(funds=Funds.ACCOUNTS)), ("B", "S"), 1_000)


def trades_of(events):
    return [event for event in events if isinstance(event, Trade)]


# ----- prices and amounts --------------------------------------------------------------------


def test_decision_01_trades_are_at_the_resting_price_and_improvement_is_refunded(covered):
    """The resting order's price; improvement goes to the incoming order. A BUY's improvement is
    refunded collateral, its size stays takerAmount tokens."""
    covered.apply(sell("a", 40, 100))
    (trade,) = trades_of(covered.apply(buy("b", 70, 100)))
    assert (trade.price, trade.size, trade.incoming_remaining) == (40, 100, 0)
    assert covered.balance("B", "collateral").available == 1_000 - 40
    assert covered.balance("B", "m-yes").balance == 1_000 + 100
    # A SELL's improvement is collateral received above its limit.
    covered.apply(buy("c", 70, 100))
    (trade,) = trades_of(covered.apply(sell("d", 40, 100)))
    assert trade.price == 70
    assert covered.balance("S", "collateral").balance == 1_000 + 40 + 70


@pytest.mark.parametrize("collateral", [None, WEI])
def test_decision_02_filled_amount_of_a_market_sell_at_1(matcher, collateral):
    """Counting collateral received would stop the specification's own market sell at price 1 after
    2 of 100 tokens."""
    matcher.apply(buy("b", 50, tokens(2)))
    # 100 tokens at 1 are for 1 token of collateral; 2 tokens at 50 pay all of it.
    matcher.apply(sell("s", 1, tokens(100), collateral=collateral))
    record = matcher.order("s")
    assert record.filled_collateral == WEI
    assert (record.status, record.remaining) == (OrderStatus.PARTIAL, tokens(98))
    assert record.filled_amount == WEI * 2 // 100
    matcher.apply(buy("rest", 50, tokens(98)))
    record = matcher.order("s")
    assert (record.status, record.filled_amount, record.filled) == (
        OrderStatus.FILLED,
        WEI,
        tokens(100),
    )
    # It rests at 1 by then, so the other 98 trade at its own price.
    assert record.filled_collateral == WEI + WEI * 98 // 100


def test_decision_02_filled_amount_is_tokens_for_a_buy_and_rounded_down_for_a_sell(matcher):
    """BUY: filled tokens. SELL: floor(filledTokens * takerAmount / makerAmount), and exactly
    takerAmount when complete."""
    matcher.apply(sell("s", 33, 7, collateral=5))
    amounts = []
    for number in range(7):
        matcher.apply(buy(number, 33, 1))
        amounts.append(matcher.order("s").filled_amount)
        assert matcher.order(number).filled_amount == 1
    assert amounts == [0, 1, 2, 2, 3, 4, 5]


def test_decision_02_filled_amount_never_falls(matcher):
    """filledAmount is the portion of takerAmount already filled; a reduction does not lower it."""
    matcher.apply(sell("s", 50, 6, collateral=3))
    matcher.apply(buy("b", 50, 2))
    assert matcher.order("s").filled_amount == 1
    matcher.apply(Reduce(order_id="s", size=1))
    assert matcher.order("s").filled_amount == 1


@pytest.mark.parametrize(("size", "price"), [(3, 50), (1, 99), (199, 1), (10**18 + 1, 33), (7, 15)])
def test_decision_04_one_formula_for_collateral(covered, size, price):
    """One formula in matcher, twin, portfolio and contract: collateral = size * price // 100."""
    by_hand = {(3, 50): 1, (1, 99): 0, (199, 1): 1, (10**18 + 1, 33): 33 * 10**16, (7, 15): 1}
    assert collateral_of(size, price) == by_hand[size, price]
    funded(covered, ("B", "S"), 10**18 + 1)
    covered.apply(sell("a", price, size))
    covered.apply(buy("b", price, size))
    assert covered.order("b").filled_collateral == by_hand[size, price]
    assert covered.balance("S", "collateral").balance == 10**18 + 1 + by_hand[size, price]


def test_decision_04_a_buy_never_pays_more_than_its_maker_amount(covered):
    """Cumulative debit of a BUY at most makerAmount."""
    covered.apply(buy("b", 33, 100))
    for number in range(100):
        covered.apply(sell(number, 33, 1))
    # A hundred trades of 33 / 100 wei each, rounded down to 0.
    assert (covered.order("b").status, covered.order("b").filled_collateral) == (
        OrderStatus.FILLED,
        0,
    )
    covered.apply(buy("c", 33, 100))
    for number in range(25):
        covered.apply(sell(200 + number, 33, 4))
    assert covered.order("c").filled_collateral == 25 <= collateral_of(100, 33)
    total = sum(covered.balance(wallet, "collateral").balance for wallet in "BS")
    assert total == 2_000


def test_decision_05_invalid_amounts_are_rejected(matcher):
    """Zero or negative amounts, more than uint256, more than SIZE_MAX: INVALID_AMOUNT /
    AMOUNT_TOO_LARGE, with the limit in the message."""
    for size in (0, -1, -(2**256)):
        with rejected(matcher, InvalidAmountError, "1 wei or more"):
            matcher.apply(buy("a", 50, size))
    for size in (SIZE_MAX + 1, 2**256, 10**300):
        with rejected(matcher, AmountTooLargeError, SIZE_MAX):
            matcher.apply(buy("a", 50, size))
    matcher.apply(buy("a", 50, SIZE_MAX))


def test_decision_06_remainder_of_a_market_order_rests(matcher):
    """The remainder rests, as specified, unless the optional timeInForce or postOnly forbids it."""
    matcher.apply(sell("s", 60, 5))
    assert event_lines(matcher.apply(buy("gtc", 99, 7)))[-1] == "added gtc 2"
    matcher.cancel("gtc")
    for tif in (TimeInForce.IOC, TimeInForce.FOK):
        matcher.apply(sell(f"s {tif!r}", 60, 5))
        if tif is TimeInForce.FOK:
            with rejected(matcher, FokNotFillableError, 5, 7):
                matcher.apply(buy("fok", 99, 7, time_in_force=tif))
        else:
            matcher.apply(buy("ioc", 99, 7, time_in_force=tif))
            assert matcher.order("ioc").removal is RemovalReason.CANCELLED
    assert matcher.depth("m").bids == ()


def test_decision_07_equal_times_are_ordered_by_sequence(matcher):
    """By sequence. timestamp is informative."""
    for name in "zay":
        matcher.apply(buy(name, 50, 1, now_ms=7))
    trades = trades_of(matcher.apply(sell("s", 50, 3, now_ms=7)))
    assert [trade.resting_order_id for trade in trades] == ["z", "a", "y"]
    assert [matcher.order(name).number for name in "zay"] == [1, 2, 3]


def test_decision_08_times_are_milliseconds(matcher):
    """Always milliseconds."""
    matcher.apply(buy("a", 50, 1, now_ms=1_700_000_000_123))
    assert matcher.order("a").accepted_ms == matcher.now_ms == 1_700_000_000_123


# ----- fees ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("price", "seller_fee", "buyer_fee"),
    [
        # 250 bps on 7 tokens. Seller: 0.025 * min(p, 1-p) * 7. Buyer: that / p.
        (50, "0.0875", "0.175"),
        (10, "0.0175", "0.175"),
        (90, "0.0175", "0.019444444444444444"),
        (1, "0.00175", "0.175"),
        (99, "0.00175", "0.001767676767676767"),
    ],
)
def test_decision_20_fees(matcher_class, price, seller_fee, buyer_fee):
    """SELL pays floor(bps * min(p, 100-p) * size / 1_000_000) collateral out of the proceeds, BUY
    floor(bps * min(p, 100-p) * size / (10_000 * p)) of the tokens received. Fees never change
    the size."""
    terms = {"resting_fee_rate_bps": 250, "incoming_fee_rate_bps": 250}
    matcher = opened(matcher_class, market(funds=Funds.ACCOUNTS, **terms))
    funded(matcher, ("B", "S"), tokens(100))
    matcher.apply(sell("s", price, tokens(7)))
    (trade,) = trades_of(matcher.apply(buy("b", price, tokens(7))))
    assert trade.size == tokens(7)
    assert (trade.seller_fee, trade.buyer_fee) == (tokens(seller_fee), tokens(buyer_fee))
    paid = tokens(7) * price // 100
    assert matcher.balance("S", "collateral").balance == tokens(100) + paid - tokens(seller_fee)
    assert matcher.balance("B", "m-yes").balance == tokens(107) - tokens(buyer_fee)
    assert matcher.balance("fees", "collateral").balance == tokens(seller_fee)
    assert matcher.balance("fees", "m-yes").balance == tokens(buyer_fee)


def test_decision_20_signed_rate_caps_the_rate_of_each_side(matcher_class):
    """Per side, at its own signed rate as the cap; the charged rate is a market setting, default
    0."""
    plain = opened(matcher_class)
    plain.apply(sell("s", 50, 10_000, fee_rate_bps=1000))
    (trade,) = trades_of(plain.apply(buy("b", 50, 10_000, fee_rate_bps=1000)))
    assert (trade.seller_fee, trade.buyer_fee) == (0, 0)
    terms = {"resting_fee_rate_bps": 100, "incoming_fee_rate_bps": 200}
    matcher = opened(matcher_class, market(**terms))
    charged = {}
    for number, (resting, incoming) in enumerate([(None, None), (50, 50), (1000, 0), (0, 1000)]):
        matcher.apply(sell(f"s{number}", 50, 10_000, fee_rate_bps=resting))
        (trade,) = trades_of(matcher.apply(buy(f"b{number}", 50, 10_000, fee_rate_bps=incoming)))
        charged[resting, incoming] = (trade.seller_fee, trade.buyer_fee)
    assert charged == {
        (None, None): (50, 200),
        (50, 50): (25, 50),
        (1000, 0): (50, 0),
        (0, 1000): (0, 200),
    }


def test_decision_20_signed_rate_above_1000_is_rejected(matcher):
    """A signed fee rate is at most 1000."""
    with rejected(matcher, InvalidFeeRateError, 1000, 1001):
        matcher.apply(buy("a", 50, 1, fee_rate_bps=1001))
