"""What the engine moves is what the contract moves, to the wei, for whatever orders meet."""

import os

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from clob import ClobError, MatchType, Side, Trade
from clob.signing import ZERO_ADDRESS, SignedOrder, order_hash
from clob_server.chain.eth.exchange_abi import USED
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.beside import (
    ALICE,
    BASE,
    BOB,
    CAROL,
    SAFE,
    Beside,
    allowing,
    amounts,
)
from tests.chain.exchange.venue import BOSS, BUY, FEES, ONE, SELL, START

EXAMPLES = 400 if os.environ.get("CLOB_LONG") else 5
PRICES = {BUY: (1, 49, 50, 51, 60, 70, 98, 99), SELL: (1, 2, 30, 40, 49, 50, 51, 99)}
"""Most who buy offer more than most who sell ask for, so that most orders trade."""


@pytest.fixture(scope="module")
def shared():
    return allowing()


@pytest.fixture
def venue(shared):
    """The contract, as it was before the test."""
    state = shared.evm.snapshot()
    yield shared
    shared.evm.revert(state)


def whole(side, price, size):
    """The amounts of so much at a whole price."""
    return amounts(side, size * price // 100, size)


# ----- every kind of trade ---------------------------------------------------------------------


def test_a_direct_trade_is_one_fill_with_both_orders_as_signed(venue):
    beside = Beside(venue, incoming_fee_rate_bps=300, resting_fee_rate_bps=100)
    ask = beside.signed(ALICE, SELL, *whole(SELL, 55, 4 * ONE), salt="text", fee_rate_bps=40)
    bid = beside.signed(BOB, BUY, *whole(BUY, 60, ONE), fee_rate_bps=200, signature_type=0)
    assert len(beside.place(ask)) == 1
    trade = beside.place(bid)[0]
    assert isinstance(trade, Trade)
    [held] = beside.settling.held.values()
    assert (held.number, held.market, held.traded_ms) == (1, "rain", beside.now_ms)
    [half] = held.halves
    assert (half.number, half.seq, half.token) == (1, trade.seq, str(venue.yes))
    assert (half.buyer, half.seller) == (BOB, ALICE)
    fill = held.fill
    assert int(fill.trade_id) == int.from_bytes(BASE) << 128 | 1
    assert (fill.price, fill.size) == (55, str(ONE))
    assert (fill.resting.signature, fill.incoming.signature) == (ask["signature"], bid["signature"])
    assert (fill.resting.charged_bps, fill.incoming.charged_bps) == (40, 200)
    beside.settle_all()
    assert beside.accounts() == beside.chain()
    assert beside.accounts()[FEES] > (0, 0, 0)


def test_both_halves_of_a_mint_and_of_a_merge_are_one_fill(venue):
    beside = Beside(venue, complementary=True, lot_wei=100, resting_fee_rate_bps=100)
    for number, side in ((1, BUY), (3, SELL)):
        price, other = (60, 45) if side is BUY else (55, 40)
        given = whole(side, other, 4 * ONE)
        beside.place(beside.signed(ALICE, side, *given, token=venue.no, fee_rate_bps=1000))
        first, second = beside.place(beside.signed(BOB, side, *whole(side, price, 4 * ONE)))[:2]
        [held] = beside.settling.held.values()
        assert held.number == number
        assert [half.number for half in held.halves] == [number, number + 1]
        assert [half.seq for half in held.halves] == [first.seq, second.seq]
        assert [half.token for half in held.halves] == [str(venue.yes), str(venue.no)]
        assert first.match_type is (MatchType.MINT if side is BUY else MatchType.MERGE)
        assert held.fill.price == second.price == other
        assert held.fill.resting.token_id == str(venue.no)
        beside.settle_all()
        assert beside.accounts() == beside.chain()


@pytest.mark.parametrize("side", [BUY, SELL])
def test_a_wallet_pays_and_is_paid_for_a_maker_who_does_not_sign(venue, side):
    beside = Beside(venue)
    other = Side(1 - side)
    beside.place(beside.signed(ALICE, other, *whole(other, 40, 5 * ONE)))
    assert beside.place(beside.unsigned(CAROL, side, 40, 2 * ONE, wallet=SAFE))
    [held] = beside.settling.held.values()
    party = held.fill.incoming
    assert (party.wallet, party.signature, party.signature_type) == (SAFE, "0x", 1)
    assert (party.signer, party.taker) == (CAROL, ZERO_ADDRESS)
    before = beside.chain()
    beside.settle_all()
    assert beside.accounts() == beside.chain()
    paid = 40 * 2 * ONE // 100 * (-1 if side is BUY else 1)
    assert beside.chain()[SAFE][0] - before[SAFE][0] == paid
    assert beside.chain()[CAROL][0] == before[CAROL][0]


def test_an_order_that_nobody_signed_has_one_hash_in_all_its_fills(venue):
    beside = Beside(venue)
    beside.place(beside.unsigned(CAROL, SELL, 40, 5 * ONE))
    for size in (ONE, 3 * ONE, ONE):
        beside.place(beside.signed(ALICE, BUY, *whole(BUY, 40, size)))
    parties = [held.fill.resting for held in beside.settling.held.values()]
    assert len(set(parties)) == 1
    beside.settle_all()
    party = parties[0]
    unsigned = SignedOrder(
        salt=int(party.salt),
        maker=CAROL,
        signer=CAROL,
        token_id=venue.yes,
        maker_amount=int(party.maker_amount),
        taker_amount=int(party.taker_amount),
        fee_rate_bps=1000,
        side=SELL,
    )
    hashed = order_hash(unsigned, venue.domain)
    found = venue.evm.call(BOSS, venue.exchange, USED.encode(hashed)).output
    assert USED.decode(found) == (5 * ONE, 0, 0)


def test_a_buy_at_better_prices_stays_within_what_was_signed(venue):
    """Each part of it rounds down by itself, so that the whole is never above what was signed."""
    beside = Beside(venue)
    for price in (30, 31, 33):
        beside.place(beside.signed(ALICE, SELL, *whole(SELL, price, 7 * ONE + 33)))
    size = 21 * ONE + 98
    beside.place(beside.signed(BOB, BUY, size * 33 // 100, size))
    assert len(beside.settling.held) == 3
    beside.settle_all()
    assert beside.accounts() == beside.chain()


def test_what_is_forgiven_off_the_chain_alone_is_not_forgiven_here(venue):
    """A billionth over the cent: off the chain it counts as the cent, here as the one below."""
    beside = Beside(venue)
    size = 10 * ONE
    over = size * 50 // 100 - 1_000
    beside.place(beside.signed(ALICE, SELL, *whole(SELL, 50, size)))
    beside.place(beside.signed(BOB, BUY, over, size))
    assert not beside.settling.held
    (bid,) = beside.exchange.matcher.depth("rain", str(venue.yes)).bids
    assert bid.price == 49


# ----- whatever meets --------------------------------------------------------------------------


@st.composite
def wishes(draw):
    """Somebody's order: who, which way, for which token, at what price, how much, how signed."""
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


def body_of(beside, wish, lot):
    """Write the body of an order."""
    venue, side = beside.venue, wish["side"]
    token = venue.yes if wish["token"] == "y" else venue.no
    size = wish["size"] - wish["size"] % lot
    if wish["how"] in ("unsigned", "wallet"):
        wallet = SAFE if wish["how"] == "wallet" else None
        return beside.unsigned(CAROL, side, wish["price"], size, token=token, wallet=wallet)
    maker, fields = wish["maker"], {}
    if wish["how"] == "delegate":
        maker, fields = ALICE, {"signer": BOB}
    collateral = max(size * wish["price"] // 100 + wish["off"], 1)
    return beside.signed(
        maker,
        side,
        *amounts(side, collateral, size),
        token=token,
        fee_rate_bps=wish["fee"],
        signature_type=wish["kind"],
        expiration_s=wish["expires"],
        taker=wish["taker"],
        **fields,
    )


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    orders=st.lists(wishes(), min_size=4, max_size=12),
    fees=st.tuples(*[st.sampled_from((0, 1, 150, 1000))] * 2),
    complementary=st.booleans(),
)
def test_whatever_meets_moves_the_same_in_both(shared, orders, fees, complementary):
    state = shared.evm.snapshot()
    try:
        lot = 100 if complementary else 1
        beside = Beside(
            shared,
            resting_fee_rate_bps=fees[0],
            incoming_fee_rate_bps=fees[1],
            complementary=complementary,
            lot_wei=lot,
        )
        for wish in orders:
            outcome = beside.place(body_of(beside, wish, lot))
            note(f"{wish}: {outcome}")
            assert not isinstance(outcome, ClobError) or outcome.code in EXPECTED
        untouched = beside.chain()
        assert set(untouched.values()) == {(START, START, START), (0, 0, 0)}
        beside.settle_all()
        assert beside.accounts() == beside.chain()
        assert shared.holds(shared.exchange) == (0, 0, 0)
        beside.exchange.matcher.audit()
    finally:
        shared.evm.revert(state)


EXPECTED = {"PRICE_OUT_OF_RANGE", "INVALID_AMOUNT"}
"""What an order at random may be refused for: it is never for want of money, nor of a right."""
