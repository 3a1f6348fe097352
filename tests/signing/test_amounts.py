"""Decision 3: price and size of two signed amounts, and the amounts of a price and a size.

The oracle uses exact fractions and follows the text of the decision. Amounts of real clients are
tested in ``tests/clients/test_client_amounts.py``.
"""

import random  # noqa: TID251 - seeded, and outside the engine
import re
from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob import SIZE_MAX, Side
from clob.errors import (
    AmountTooLargeError,
    InvalidAmountError,
    InvalidSideError,
    PriceOutOfRangeError,
    RejectedError,
)
from clob.signing import PriceSize, amounts_of, price_and_size

PRICES = range(1, 100)
BILLION = 10**9
ALWAYS_DISTINCT = 198
"""From this size in wei on, each price in cents is recovered from its amounts."""

sides = st.sampled_from(Side)
cents = st.integers(1, 99)
sizes = st.integers(1, SIZE_MAX) | st.integers(1, 10**20) | st.integers(1, 1_000)


@st.composite
def amounts(draw):
    """Draw a side and two amounts, mostly near the boundaries of the rule."""
    size = draw(sizes)
    cent = draw(st.integers(0, 101))
    line = cent * size // 100
    edges = (0, 1, cent * size // (100 * BILLION), size // 200, size // 100)
    near = draw(st.sampled_from(edges)) + draw(st.integers(-2, 2))
    collateral = max(1, line + draw(st.sampled_from((-1, 1))) * near)
    side = draw(sides)
    return (side, *((collateral, size) if side is Side.BUY else (size, collateral)))


def price_by_decision(side, maker, taker, *, settles):
    """Return the price of decision 3; None for PRICE_OUT_OF_RANGE."""
    collateral, tokens = (maker, taker) if side == Side.BUY else (taker, maker)
    signed = Fraction(100 * collateral, tokens)
    c = floor(signed + Fraction(1, 2))
    d = abs(100 * collateral - c * tokens)
    if not (d < 100 or (not settles and Fraction(d) <= Fraction(c * tokens, BILLION))):
        c = floor(signed) if side == Side.BUY else ceil(signed)
    return c if 1 <= c <= 99 else None


def price_or_none(side, maker, taker, **how):
    try:
        price, size = price_and_size(side, maker, taker, **how)
    except PriceOutOfRangeError:
        return None
    assert size == (taker if side == Side.BUY else maker)
    return price


def id_of(value):
    """Return a test id; integers of thousands of digits are too long for one."""
    return f"{value.bit_length()} bits" if type(value) is int else repr(value)


def path_of(call, error):
    """Assert a rejection of exactly this class; return the path of its field."""
    with pytest.raises(RejectedError) as caught:
        call()
    assert type(caught.value) is error, caught.value
    return caught.value.path


# ----- the rule ------------------------------------------------------------------------------


@given(amounts(), st.booleans())
def test_decision_03_price_from_amounts(drawn, settles):
    """n = 100 * collateral; c = (2n + tokens) // (2 * tokens); d = abs(n - c * tokens). c counts
    as signed when d < 100, and off chain also when d * 10**9 <= c * tokens. Otherwise BUY floors
    and SELL ceils. c outside 1..99: PRICE_OUT_OF_RANGE."""
    assert price_or_none(*drawn, settles=settles) == price_by_decision(*drawn, settles=settles)


@pytest.mark.parametrize("settles", [False, True])
def test_every_pair_of_small_amounts_follows_the_decision(settles):
    for side in Side:
        for maker in range(1, 130):
            for taker in range(1, 130):
                expected = price_by_decision(side, maker, taker, settles=settles)
                assert price_or_none(side, maker, taker, settles=settles) == expected


@pytest.mark.parametrize(
    ("side", "maker", "taker", "settles", "price"),
    [
        (Side.BUY, 30 * 10**18, 60 * 10**18, True, 50),
        (Side.SELL, 60 * 10**18, 30 * 10**18, True, 50),
        # A wei below or above the exact amount; and amounts half a wei from a cent.
        (Side.BUY, 30 * 10**18 - 1, 60 * 10**18, False, 50),
        (Side.BUY, 30 * 10**18 - 1, 60 * 10**18, True, 49),
        (Side.SELL, 60 * 10**18, 30 * 10**18 + 1, False, 50),
        (Side.SELL, 60 * 10**18, 30 * 10**18 + 1, True, 51),
        (Side.BUY, 49, 99, True, 49),
        (Side.SELL, 99, 49, True, 49),
        # A deviation of exactly a billionth, and a wei more.
        (Side.BUY, 10**18 // 2 + 5 * 10**8, 10**18, False, 50),
        (Side.SELL, 10**18, 10**18 // 2 + 5 * 10**8, False, 50),
        (Side.SELL, 10**18, 10**18 // 2 + 5 * 10**8 + 1, False, 51),
        (Side.BUY, 10**18 // 2 - 5 * 10**8, 10**18, False, 50),
        (Side.BUY, 10**18 // 2 - 5 * 10**8 - 1, 10**18, False, 49),
        # Half a cent is rounded.
        (Side.BUY, 505, 1_000, False, 50),
        (Side.SELL, 1_000, 505, False, 51),
        (Side.BUY, 505 * 10**15, 10**18, False, 50),
        (Side.SELL, 10**18, 505 * 10**15, False, 51),
        # Limits: a buy above 99 is at 99, a sell below 1 is at 1.
        (Side.BUY, 999 * 10**15, 10**18, False, 99),
        (Side.SELL, 10**18, 10**15, False, 1),
    ],
)
def test_amounts_computed_by_hand(side, maker, taker, settles, price):
    assert price_and_size(side, maker, taker, settles=settles).price == price


@given(amounts(), st.booleans())
def test_price_is_never_worse_than_signed_beyond_the_tolerance(drawn, settles):
    side, maker, taker = drawn
    price = price_or_none(*drawn, settles=settles)
    if price is None:
        return
    tokens, collateral = (taker, maker) if side is Side.BUY else (maker, taker)
    worse = price * tokens - 100 * collateral
    worse = worse if side is Side.BUY else -worse
    assert worse < 100 or (not settles and worse * BILLION <= price * tokens)


@given(amounts())
def test_decision_04_the_contract_accepts_the_price_of_every_settling_order(drawn):
    """BUY price * takerAmount < 100 * makerAmount + 100; SELL price * makerAmount > 100 *
    takerAmount - 100."""
    side, maker, taker = drawn
    price = price_or_none(*drawn, settles=True)
    if price is None:
        return
    if side is Side.BUY:
        assert price * taker < 100 * maker + 100
    else:
        assert price * maker > 100 * taker - 100


# ----- amounts for a price and back ----------------------------------------------------------


@given(sides, cents, st.integers(ALWAYS_DISTINCT, SIZE_MAX) | st.integers(198, 10**20))
def test_amounts_of_a_price_round_trip(side, price, size):
    maker, taker = amounts_of(side, price, size)
    collateral = size * price // 100
    assert (maker, taker) == ((collateral, size) if side is Side.BUY else (size, collateral))
    for settles in (False, True):
        assert price_and_size(side, maker, taker, settles=settles) == PriceSize(price, size)


@pytest.mark.parametrize("side", Side)
def test_amounts_of_a_few_wei_return_the_nearest_cent(side):
    """Two wei at 99 cents cost one wei, as at 50 cents, so the amounts have one price."""
    num_other = 0
    for price in PRICES:
        for size in range(ceil(Fraction(100, price)), 2 * ALWAYS_DISTINCT):
            signed = Fraction(100 * (size * price // 100), size)
            back = price_and_size(side, *amounts_of(side, price, size), settles=True)
            assert back == (floor(signed + Fraction(1, 2)), size)
            num_other += back.price != price
            assert back.price == price or size < ALWAYS_DISTINCT
    assert num_other > 1_000
    assert price_and_size(side, *amounts_of(side, 99, 2)) == PriceSize(50, 2)


@pytest.mark.parametrize("price", PRICES)
def test_the_smallest_size_costs_one_wei(price):
    least = ceil(Fraction(100, price))
    assert amounts_of(Side.BUY, price, least) == (1, least)
    assert amounts_of(Side.SELL, price, SIZE_MAX) == (SIZE_MAX, SIZE_MAX * price // 100)
    with pytest.raises(InvalidAmountError, match=f"at least {least} wei at {price} cents"):
        amounts_of(Side.BUY, price, least - 1)


@given(sides, cents, st.integers(1, SIZE_MAX // 100))
def test_strict_accepts_whole_cents(side, price, hundreds):
    maker, taker = amounts_of(side, price, 100 * hundreds)
    assert price_and_size(side, maker, taker, strict=True) == PriceSize(price, 100 * hundreds)


# ----- strict --------------------------------------------------------------------------------

NAMED = re.compile(r"(\d+) for (\d+) \((\d+) cents\)")


@given(amounts())
def test_strict_rejects_other_prices_and_names_valid_amounts(drawn):
    side, maker, taker = drawn
    collateral, tokens = (maker, taker) if side is Side.BUY else (taker, maker)
    signed = Fraction(100 * collateral, tokens)
    try:
        price, _ = price_and_size(*drawn, strict=True)
    except PriceOutOfRangeError:
        assert signed.denominator == 1
        assert not 1 <= signed <= 99
    except InvalidAmountError as error:
        assert signed.denominator > 1
        near = [tuple(map(int, each)) for each in NAMED.findall(str(error))]
        around = (floor(signed), floor(signed) + 1)
        assert [cent for *_, cent in near] == [cent for cent in around if 1 <= cent <= 99]
        for maker_amount, taker_amount, cent in near:
            assert price_and_size(side, maker_amount, taker_amount, strict=True).price == cent
            size = taker_amount if side is Side.BUY else maker_amount
            assert abs(size - tokens) < Fraction(cent, 100).denominator
    else:
        assert price == signed == price_and_size(*drawn)[0]


# ----- rejections ----------------------------------------------------------------------------

BOUNDS = re.compile(r"need (\d+) to (\d+)")


def outside(side, collateral, tokens):
    """Return the lowest and highest collateral that the rejection of a price states."""
    maker, taker = (collateral, tokens) if side is Side.BUY else (tokens, collateral)
    with pytest.raises(PriceOutOfRangeError) as caught:
        price_and_size(side, maker, taker)
    assert caught.value.path in ("makerAmount", "takerAmount")
    return tuple(map(int, BOUNDS.search(str(caught.value)).groups()))


@given(sides, st.integers(2, SIZE_MAX) | st.integers(2, 300))
def test_a_price_out_of_range_is_rejected_with_valid_amounts(side, tokens):
    low, high = outside(side, tokens, tokens)
    for collateral in (low, high):
        pair = (collateral, tokens) if side is Side.BUY else (tokens, collateral)
        assert 1 <= price_and_size(side, *pair).price <= 99


@given(sides, st.integers(200, SIZE_MAX))
def test_prices_outside_1_to_99_cents_are_rejected(side, tokens):
    assert outside(side, 10 * tokens, tokens) == (tokens // 100, 99 * tokens // 100)
    assert outside(side, tokens, tokens) == (tokens // 100, 99 * tokens // 100)


@pytest.mark.parametrize(
    ("side", "maker", "taker"),
    [
        (Side.BUY, 10**15, 10**18),
        (Side.SELL, 10**18, 999 * 10**15),
        (Side.BUY, 1, SIZE_MAX),
        (Side.SELL, 1, 1),
        (Side.SELL, 100, 2**256 - 1),
        (Side.BUY, 2**256 - 1, 1),
        (Side.BUY, 10**5_000, 1),
    ],
    ids=[
        "buy at 0.1",
        "sell at 99.9",
        "buy at 0",
        "sell at 100",
        "sell at huge",
        "buy at huge",
        "huge",
    ],
)
def test_amounts_without_a_valid_price_are_rejected(side, maker, taker):
    path = path_of(lambda: price_and_size(side, maker, taker), PriceOutOfRangeError)
    assert path in ("makerAmount", "takerAmount")


@pytest.mark.parametrize("wrong", [0, -1, -(2**256), True, False, 1.0, 10.0**18, "1", None, b"1"])
def test_amounts_other_than_positive_integers_are_rejected(wrong):
    def path(call):
        return path_of(call, InvalidAmountError)

    for side in Side:
        assert path(lambda side=side: price_and_size(side, wrong, 10)) == "makerAmount"
        assert path(lambda side=side: price_and_size(side, 10, wrong)) == "takerAmount"
        assert path(lambda side=side: price_and_size(side, wrong, wrong)) == "makerAmount"
        assert path(lambda side=side: amounts_of(side, 50, wrong)) == "size"


@pytest.mark.parametrize("wide", [SIZE_MAX + 1, 2**256, 10**300, 10**5_000], ids=id_of)
def test_sizes_above_the_maximum_are_rejected(wide):
    def path(call):
        return path_of(call, AmountTooLargeError)

    assert path(lambda: price_and_size(Side.BUY, wide // 2, wide)) == "takerAmount"
    assert path(lambda: price_and_size(Side.SELL, wide, wide // 2)) == "makerAmount"
    assert path(lambda: amounts_of(Side.BUY, 50, wide)) == "size"
    for side in Side:
        pair = amounts_of(side, 50, SIZE_MAX)
        assert price_and_size(side, *pair) == PriceSize(50, SIZE_MAX)


@pytest.mark.parametrize("wrong", [2, -1, 255, True, False, 0.0, "BUY", "0", None])
def test_invalid_sides_are_rejected(wrong):
    assert path_of(lambda: price_and_size(wrong, 50, 100), InvalidSideError) == "side"
    assert path_of(lambda: amounts_of(wrong, 50, 100), InvalidSideError) == "side"


@pytest.mark.parametrize("wrong", [0, 100, -1, 10**5_000, True, 50.0, "50", None], ids=id_of)
def test_invalid_prices_are_rejected(wrong):
    assert path_of(lambda: amounts_of(Side.BUY, wrong, 100), PriceOutOfRangeError) == "price"


# ----- naive clients -------------------------------------------------------------------------


def in_integers(size, price):
    """Sign ``size * price // 100`` in wei."""
    return int(size * 10**16) * price // 100, int(size * 10**16)


def in_floats(size, price):
    """Sign ``int(size * price * 1e18)`` without regard to rounding."""
    return int(size / 100 * (price / 100) * 1e18), int(size / 100 * 1e18)


def in_odd_integers(size, price):
    """Sign a size of an odd number of wei, which rarely costs a whole number of wei."""
    tokens = size * 10**16 + size * 7_919 % 10**16
    return tokens * price // 100, tokens


@pytest.mark.parametrize("count", [1_000, pytest.param(40_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("client", [in_integers, in_odd_integers, in_floats])
def test_the_cent_intended_by_a_naive_client_is_recovered(client, count):
    rng = random.Random(3)
    inexact = 0
    for _ in range(count):
        side, meant = Side(rng.randrange(2)), rng.randrange(1, 100)
        collateral, tokens = client(rng.randrange(1, 10 ** rng.randrange(2, 9)), meant)
        pair = (collateral, tokens) if side is Side.BUY else (tokens, collateral)
        assert price_and_size(side, *pair) == PriceSize(meant, tokens)
        inexact += 100 * collateral != meant * tokens
        # On a chain the tolerance of a billionth does not apply: the price is a cent to the safe
        # side, which is out of range for buying at 1 and selling at 99.
        safe = meant - 1 if side is Side.BUY else meant + 1
        allowed = {meant, safe if 1 <= safe <= 99 else None} if client is in_floats else {meant}
        assert price_or_none(side, *pair, settles=True) in allowed
    # Exact amounts would not test the rounding.
    assert inexact > count // 2 or client is in_integers
