"""The engine and the exchange contract move the same amounts, to the wei, for any orders."""

import os

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from clob import ClobError, MatchType, Side, Trade
from clob.signing import ZERO_ADDRESS, SignedOrder, order_hash
from clob_server.chain.eth.exchange_abi import USED
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.comparison import (
    ALICE,
    BASE,
    BOB,
    CAROL,
    SAFE,
    Comparison,
    amounts,
    permissive_market,
)
from tests.chain.exchange.evm_market import BOSS, BUY, FEES, ONE, SELL, START

EXAMPLES = 400 if os.environ.get("CLOB_LONG") else 5
PRICES = {BUY: (1, 49, 50, 51, 60, 70, 98, 99), SELL: (1, 2, 30, 40, 49, 50, 51, 99)}
"""Most buyers bid more than most sellers ask, so that most orders trade."""


@pytest.fixture(scope="module")
def shared():
    return permissive_market()


@pytest.fixture
def market(shared):
    """The contract, reset after each test."""
    state = shared.evm.snapshot()
    yield shared
    shared.evm.revert(state)


def whole(side, price, size):
    """Return the amounts of a size at a whole price."""
    return amounts(side, size * price // 100, size)


# ----- every kind of trade ---------------------------------------------------------------------


def test_direct_trade_is_one_fill_with_both_signed_orders(market):
    comparison = Comparison(market, incoming_fee_rate_bps=300, resting_fee_rate_bps=100)
    ask = comparison.signed(ALICE, SELL, *whole(SELL, 55, 4 * ONE), salt="text", fee_rate_bps=40)
    bid = comparison.signed(BOB, BUY, *whole(BUY, 60, ONE), fee_rate_bps=200, signature_type=0)
    assert len(comparison.place(ask)) == 1
    trade = comparison.place(bid)[0]
    assert isinstance(trade, Trade)
    [held] = comparison.settling.held.values()
    assert (held.number, held.market, held.traded_ms) == (1, "rain", comparison.now_ms)
    [half] = held.halves
    assert (half.number, half.seq, half.token) == (1, trade.seq, str(market.yes))
    assert (half.buyer, half.seller) == (BOB, ALICE)
    fill = held.fill
    assert int(fill.trade_id) == int.from_bytes(BASE) << 128 | 1
    assert (fill.price, fill.size) == (55, str(ONE))
    assert (fill.resting.signature, fill.incoming.signature) == (ask["signature"], bid["signature"])
    assert (fill.resting.charged_bps, fill.incoming.charged_bps) == (40, 200)
    comparison.settle_all()
    assert comparison.accounts() == comparison.chain()
    assert comparison.accounts()[FEES] > (0, 0, 0)


def test_mint_and_merge_trades_are_one_fill(market):
    comparison = Comparison(market, complementary=True, lot_wei=100, resting_fee_rate_bps=100)
    for number, side in ((1, BUY), (3, SELL)):
        price, other = (60, 45) if side is BUY else (55, 40)
        signed_amounts = whole(side, other, 4 * ONE)
        comparison.place(
            comparison.signed(ALICE, side, *signed_amounts, token=market.no, fee_rate_bps=1000)
        )
        first, second = comparison.place(
            comparison.signed(BOB, side, *whole(side, price, 4 * ONE))
        )[:2]
        [held] = comparison.settling.held.values()
        assert held.number == number
        assert [half.number for half in held.halves] == [number, number + 1]
        assert [half.seq for half in held.halves] == [first.seq, second.seq]
        assert [half.token for half in held.halves] == [str(market.yes), str(market.no)]
        assert first.match_type is (MatchType.MINT if side is BUY else MatchType.MERGE)
        assert held.fill.price == second.price == other
        assert held.fill.resting.token_id == str(market.no)
        comparison.settle_all()
        assert comparison.accounts() == comparison.chain()


@pytest.mark.parametrize("side", [BUY, SELL])
def test_smart_wallet_pays_and_is_paid_for_an_unsigned_order(market, side):
    comparison = Comparison(market)
    other = Side(1 - side)
    comparison.place(comparison.signed(ALICE, other, *whole(other, 40, 5 * ONE)))
    assert comparison.place(comparison.unsigned(CAROL, side, 40, 2 * ONE, wallet=SAFE))
    [held] = comparison.settling.held.values()
    party = held.fill.incoming
    assert (party.wallet, party.signature, party.signature_type) == (SAFE, "0x", 1)
    assert (party.signer, party.taker) == (CAROL, ZERO_ADDRESS)
    before = comparison.chain()
    comparison.settle_all()
    assert comparison.accounts() == comparison.chain()
    paid = 40 * 2 * ONE // 100 * (-1 if side is BUY else 1)
    assert comparison.chain()[SAFE][0] - before[SAFE][0] == paid
    assert comparison.chain()[CAROL][0] == before[CAROL][0]


def test_unsigned_order_has_one_hash_in_all_fills(market):
    comparison = Comparison(market)
    comparison.place(comparison.unsigned(CAROL, SELL, 40, 5 * ONE))
    for size in (ONE, 3 * ONE, ONE):
        comparison.place(comparison.signed(ALICE, BUY, *whole(BUY, 40, size)))
    parties = [held.fill.resting for held in comparison.settling.held.values()]
    assert len(set(parties)) == 1
    comparison.settle_all()
    party = parties[0]
    unsigned = SignedOrder(
        salt=int(party.salt),
        maker=CAROL,
        signer=CAROL,
        token_id=market.yes,
        maker_amount=int(party.maker_amount),
        taker_amount=int(party.taker_amount),
        fee_rate_bps=1000,
        side=SELL,
    )
    hashed = order_hash(unsigned, market.domain)
    used = market.evm.call(BOSS, market.exchange, USED.encode(hashed)).output
    assert USED.decode(used) == (5 * ONE, 0, 0)


def test_buy_at_better_prices_stays_within_the_signed_amount(market):
    """Each fill rounds down, so the total never exceeds the signed amount."""
    comparison = Comparison(market)
    for price in (30, 31, 33):
        comparison.place(comparison.signed(ALICE, SELL, *whole(SELL, price, 7 * ONE + 33)))
    size = 21 * ONE + 98
    comparison.place(comparison.signed(BOB, BUY, size * 33 // 100, size))
    assert len(comparison.settling.held) == 3
    comparison.settle_all()
    assert comparison.accounts() == comparison.chain()


def test_price_tolerance_does_not_apply_to_settling_markets(market):
    """An amount slightly above a cent counts as that cent off chain, and as the lower one here."""
    comparison = Comparison(market)
    size = 10 * ONE
    over = size * 50 // 100 - 1_000
    comparison.place(comparison.signed(ALICE, SELL, *whole(SELL, 50, size)))
    comparison.place(comparison.signed(BOB, BUY, over, size))
    assert not comparison.settling.held
    (bid,) = comparison.exchange.matcher.depth("rain", str(market.yes)).bids
    assert bid.price == 49


# ----- random orders ---------------------------------------------------------------------------


@st.composite
def drafts(draw):
    """Draw an order: maker, side, token, price, size, kind of signature."""
    side = draw(st.sampled_from((BUY, SELL)))
    price = draw(st.sampled_from(PRICES[side]))
    size = draw(st.integers(1, 20)) * ONE // draw(st.sampled_from((1, 3, 7, 20)))
    size += draw(st.sampled_from((0, 1, 50, 99, 12_345)))
    return {
        "maker": draw(st.sampled_from((ALICE, BOB, CAROL, SAFE))),
        "side": side,
        "token": draw(st.sampled_from("yn")),
        "price": price,
        "size": size,
        "off": draw(st.sampled_from((0, 0, 1, -1, 99, 10**9, 10**15))),
        "fee": draw(st.sampled_from((0, 1, 37, 1000))),
        "kind": draw(st.sampled_from((0, 1))),
        "how": draw(st.sampled_from(("signed", "signed", "delegate", "unsigned", "wallet"))),
        "expires": draw(st.sampled_from((0, NOW_S, NOW_S + 9))),
        "taker": draw(st.sampled_from((ZERO_ADDRESS, BOSS))),
    }


def body_of(comparison, draft, lot):
    """Return the body of an order."""
    market, side = comparison.market, draft["side"]
    token = market.yes if draft["token"] == "y" else market.no
    size = draft["size"] - draft["size"] % lot
    if draft["how"] in ("unsigned", "wallet"):
        wallet = SAFE if draft["how"] == "wallet" else None
        return comparison.unsigned(CAROL, side, draft["price"], size, token=token, wallet=wallet)
    maker, fields = draft["maker"], {}
    if draft["how"] == "delegate":
        maker, fields = ALICE, {"signer": BOB}
    collateral = max(size * draft["price"] // 100 + draft["off"], 1)
    return comparison.signed(
        maker,
        side,
        *amounts(side, collateral, size),
        token=token,
        fee_rate_bps=draft["fee"],
        signature_type=draft["kind"],
        expiration_s=draft["expires"],
        taker=draft["taker"],
        **fields,
    )


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    orders=st.lists(drafts(), min_size=4, max_size=12),
    fees=st.tuples(*[st.sampled_from((0, 1, 150, 1000))] * 2),
    complementary=st.booleans(),
)
def test_random_orders_move_equal_amounts_in_engine_and_contract(
    shared, orders, fees, complementary
):
    state = shared.evm.snapshot()
    try:
        lot = 100 if complementary else 1
        comparison = Comparison(
            shared,
            resting_fee_rate_bps=fees[0],
            incoming_fee_rate_bps=fees[1],
            complementary=complementary,
            lot_wei=lot,
        )
        for draft in orders:
            outcome = comparison.place(body_of(comparison, draft, lot))
            note(f"{draft}: {outcome}")
            assert not isinstance(outcome, ClobError) or outcome.code in EXPECTED
        untouched = comparison.chain()
        assert set(untouched.values()) == {(START, START, START), (0, 0, 0)}
        comparison.settle_all()
        assert comparison.accounts() == comparison.chain()
        assert shared.balances(shared.exchange) == (0, 0, 0)
        comparison.exchange.matcher.audit()
    finally:
        shared.evm.revert(state)


EXPECTED = {"PRICE_OUT_OF_RANGE", "INVALID_AMOUNT"}
"""Allowed rejections of random orders; funds and permissions are always sufficient."""
