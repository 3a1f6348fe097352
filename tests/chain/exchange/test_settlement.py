"""Transfers of settled fills, to the wei: direct, mint and merge, with fees and other wallets."""

import pytest

from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import IS_SETTLED, USED, Party
from tests.chain.contracts.calls import APPROVE, MAX, TRANSFER
from tests.chain.exchange.venue import BOSS, BUY, FEES, MAKERS, ONE, SELL, START, Venue

ALICE, BOB, CAROL = (maker.address for maker in MAKERS[:3])
SET_PAYER = Function("setPayer(address,bool)")
SET_PAYEE = Function("setPayee(address,bool)")
RATE = 200


@pytest.fixture(scope="module")
def shared():
    return Venue()


@pytest.fixture
def venue(shared):
    """The exchange, which holds nothing before and after each test."""
    state = shared.evm.snapshot()
    yield shared
    assert shared.balances(shared.exchange) == (0, 0, 0)
    shared.evm.revert(state)


@pytest.mark.parametrize("resting_side", [BUY, SELL])
def test_direct_trade_moves_tokens_for_collateral(venue, resting_side):
    before = venue.all_balances()
    buyer, seller = (ALICE, BOB) if resting_side is BUY else (BOB, ALICE)
    buy, sell = venue.order(buyer, BUY, 60, 10 * ONE), venue.order(seller, SELL, 55, 10 * ONE)
    pair = (buy, sell) if resting_side is BUY else (sell, buy)
    assert venue.settle(venue.fill(*pair, 57, 4 * ONE)) == [""]
    paid = 57 * 4 * ONE // 100
    assert venue.changes(before) == {buyer: (-paid, 4 * ONE, 0), seller: (paid, -4 * ONE, 0)}


def test_two_buys_mint_both_tokens(venue):
    before = venue.all_balances()
    yes = venue.order(ALICE, BUY, 60, 10 * ONE)
    no = venue.order(BOB, BUY, 45, 10 * ONE, venue.no)
    assert venue.settle(venue.fill(yes, no, 57, 4 * ONE)) == [""]
    paid = 57 * 4 * ONE // 100
    assert venue.changes(before) == {
        ALICE: (-paid, 4 * ONE, 0),
        BOB: (paid - 4 * ONE, 0, 4 * ONE),
        venue.tokens: (4 * ONE, 0, 0),
    }


def test_two_sells_merge_both_tokens(venue):
    before = venue.all_balances()
    no = venue.order(ALICE, SELL, 40, 10 * ONE, venue.no)
    yes = venue.order(BOB, SELL, 55, 10 * ONE)
    assert venue.settle(venue.fill(no, yes, 43, 4 * ONE)) == [""]
    got = 43 * 4 * ONE // 100
    assert venue.changes(before) == {
        ALICE: (got, 0, -4 * ONE),
        BOB: (4 * ONE - got, -4 * ONE, 0),
        venue.tokens: (-4 * ONE, 0, 0),
    }


def fee_of_sale(price, size):
    """Return a seller's fee in collateral (decision 20)."""
    return RATE * min(price, 100 - price) * size // 1_000_000


def fee_of_buy(price, size):
    """Return a buyer's fee in tokens (decision 20)."""
    return RATE * min(price, 100 - price) * size // (10_000 * price)


def test_fees_are_taken_from_the_received_asset(venue):
    before = venue.all_balances()
    size = 4 * ONE + 7
    buy = venue.order(ALICE, BUY, 60, 10 * ONE, fee_rate_bps=RATE)
    sell = venue.order(BOB, SELL, 55, 10 * ONE, fee_rate_bps=300)
    parties = [Party(order=order, fee_rate_bps=RATE) for order in (buy, sell)]
    assert venue.settle(venue.fill(*parties, 57, size)) == [""]
    paid, tokens, cash = 57 * size // 100, fee_of_buy(57, size), fee_of_sale(57, size)
    assert venue.changes(before) == {
        ALICE: (-paid, size - tokens, 0),
        BOB: (paid - cash, -size, 0),
        FEES: (cash, tokens, 0),
    }


@pytest.mark.parametrize("side", [BUY, SELL])
def test_complementary_trades_pay_fees_at_their_own_price(venue, side):
    before = venue.all_balances()
    size, price = 4 * ONE, 20
    first = venue.order(ALICE, side, price, size, fee_rate_bps=RATE)
    second = venue.order(BOB, side, 80, size, venue.no, fee_rate_bps=RATE)
    parties = [Party(order=order, fee_rate_bps=RATE) for order in (first, second)]
    assert venue.settle(venue.fill(*parties, price, size)) == [""]
    part = price * size // 100
    changes = venue.changes(before)
    if side is BUY:
        yes, no = fee_of_buy(20, size), fee_of_buy(80, size)
        assert changes[ALICE] == (-part, size - yes, 0)
        assert changes[BOB] == (part - size, 0, size - no)
        assert changes[FEES] == (0, yes, no)
    else:
        both = fee_of_sale(20, size), fee_of_sale(80, size)
        assert changes[ALICE] == (part - both[0], -size, 0)
        assert changes[BOB] == (size - part - both[1], 0, -size)
        assert changes[FEES] == (sum(both), 0, 0)


def test_partial_fills_add_up_to_the_signed_size(venue):
    size = 3 * ONE + 1
    buy = venue.order(ALICE, BUY, 33, size)
    parts = [ONE, ONE + 1, ONE]
    fills = [venue.fill(venue.order(BOB, SELL, 33, part), buy, 33, part) for part in parts]
    assert venue.settle(*fills) == ["", "", ""]
    found = venue.evm.call(BOSS, venue.exchange, USED.encode(venue.order_hash(buy))).output
    debit = sum(33 * part // 100 for part in parts)
    assert USED.decode(found) == (size, debit, 0)
    more = venue.fill(venue.order(BOB, SELL, 33, ONE), buy, 33, 1)
    [reason] = venue.settle(more)
    assert reason.startswith("Overfilled(")


def test_permitted_wallet_pays_for_a_maker(venue):
    order, wallet = venue.order(ALICE, BUY, 50, 2 * ONE), CAROL
    sell = venue.order(BOB, SELL, 50, 2 * ONE)
    fill = venue.fill(Party(order=order, wallet=wallet), sell, 50, 2 * ONE)
    [reason] = venue.settle(fill)
    assert reason.startswith("NotPayer(")
    venue.do(wallet, venue.exchange, SET_PAYER, ALICE, True)
    before = venue.all_balances()
    assert venue.settle(fill) == [""]
    assert venue.changes(before) == {
        wallet: (-ONE, 0, 0),
        ALICE: (0, 2 * ONE, 0),
        BOB: (ONE, -2 * ONE, 0),
    }


def test_permitted_wallet_is_paid_for_a_maker(venue):
    buy, order = venue.order(ALICE, BUY, 50, 2 * ONE), venue.order(BOB, SELL, 50, 2 * ONE)
    fill = venue.fill(buy, Party(order=order, wallet=CAROL), 50, 2 * ONE)
    [reason] = venue.settle(fill)
    assert reason.startswith("NotPayee(")
    venue.do(BOB, venue.exchange, SET_PAYEE, CAROL, True)
    before = venue.all_balances()
    assert venue.settle(fill) == [""]
    assert venue.changes(before) == {
        ALICE: (-ONE, 2 * ONE, 0),
        BOB: (0, -2 * ONE, 0),
        CAROL: (ONE, 0, 0),
    }


# ----- independent fills ---------------------------------------------------------------------


def test_failed_fill_does_not_affect_others(venue):
    venue.do(CAROL, venue.wrapped, TRANSFER, BOB, START)
    venue.do(ALICE, venue.wrapped, APPROVE, venue.exchange, 0)
    dave = MAKERS[3].address
    good = venue.fill(venue.order(dave, BUY, 50, ONE), venue.order(BOB, SELL, 50, ONE), 50, ONE)
    poor = venue.fill(venue.order(CAROL, BUY, 50, ONE), venue.order(BOB, SELL, 50, ONE), 50, ONE)
    revoked = venue.fill(venue.order(ALICE, BUY, 50, ONE), venue.order(BOB, SELL, 50, ONE), 50, ONE)
    before = venue.all_balances()
    said = venue.settle(poor, good, revoked)
    assert said[0].startswith("ERC20InsufficientBalance(")
    assert said[1] == ""
    assert said[2].startswith("ERC20InsufficientAllowance(")
    assert venue.changes(before) == {dave: (-ONE // 2, ONE, 0), BOB: (ONE // 2, -ONE, 0)}
    venue.do(ALICE, venue.wrapped, APPROVE, venue.exchange, MAX)
    assert venue.settle(poor, good, revoked)[1:] == ["SettledBefore", ""]


def test_settled_fill_is_not_settled_again(venue):
    fill = venue.fill(venue.order(ALICE, BUY, 50, ONE), venue.order(BOB, SELL, 50, ONE), 50, 100)
    assert venue.settle(fill) == [""]
    before = venue.all_balances()
    assert venue.settle(fill) == ["SettledBefore"]
    assert venue.changes(before) == {}
    assert venue.evm.ask(venue.exchange, IS_SETTLED, fill.trade_id)
