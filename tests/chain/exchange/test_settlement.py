"""Transfers of settled fills, to the wei: direct, mint and merge, with fees and other wallets."""

import pytest

from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import (
    IS_FAILED,
    IS_SETTLED,
    ORDER_FILLED,
    SETTLED,
    USED,
)
from tests.chain.contracts.calls import APPROVE, MAX, TRANSFER
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.evm_market import BOSS, BUY, FEES, MAKERS, ONE, SELL, START
from tests.chain.signed_fills import Party, encode_settle

ALICE, BOB, CAROL = (maker.address for maker in MAKERS[:3])
SET_PAYER = Function("setPayer(address,bool)")
SET_PAYEE = Function("setPayee(address,bool)")
RATE = 200
YEAR_S = 365 * 86_400


@pytest.fixture
def market(shared):
    """The exchange, which holds nothing before and after each test."""
    state = shared.evm.snapshot()
    yield shared
    assert shared.balances(shared.exchange) == (0, 0, 0)
    shared.evm.revert(state)


@pytest.mark.parametrize("resting_side", [BUY, SELL])
def test_direct_trade_moves_tokens_for_collateral(market, resting_side):
    before = market.all_balances()
    buyer, seller = (ALICE, BOB) if resting_side is BUY else (BOB, ALICE)
    buy, sell = market.order(buyer, BUY, 60, 10 * ONE), market.order(seller, SELL, 55, 10 * ONE)
    pair = (buy, sell) if resting_side is BUY else (sell, buy)
    assert market.settle(market.fill(*pair, 57, 4 * ONE)) == [""]
    paid = 57 * 4 * ONE // 100
    assert market.changes(before) == {buyer: (-paid, 4 * ONE, 0), seller: (paid, -4 * ONE, 0)}


def test_two_buys_mint_both_tokens(market):
    before = market.all_balances()
    yes = market.order(ALICE, BUY, 60, 10 * ONE)
    no = market.order(BOB, BUY, 45, 10 * ONE, market.no)
    assert market.settle(market.fill(yes, no, 57, 4 * ONE)) == [""]
    paid = 57 * 4 * ONE // 100
    assert market.changes(before) == {
        ALICE: (-paid, 4 * ONE, 0),
        BOB: (paid - 4 * ONE, 0, 4 * ONE),
        market.tokens: (4 * ONE, 0, 0),
    }


def test_two_sells_merge_both_tokens(market):
    before = market.all_balances()
    no = market.order(ALICE, SELL, 40, 10 * ONE, market.no)
    yes = market.order(BOB, SELL, 55, 10 * ONE)
    assert market.settle(market.fill(no, yes, 43, 4 * ONE)) == [""]
    got = 43 * 4 * ONE // 100
    assert market.changes(before) == {
        ALICE: (got, 0, -4 * ONE),
        BOB: (4 * ONE - got, -4 * ONE, 0),
        market.tokens: (-4 * ONE, 0, 0),
    }


def fee_of_sale(price, size):
    """Return a seller's fee in collateral (decision 20)."""
    return RATE * min(price, 100 - price) * size // 1_000_000


def fee_of_buy(price, size):
    """Return a buyer's fee in tokens (decision 20)."""
    return RATE * min(price, 100 - price) * size // (10_000 * price)


def test_fees_are_taken_from_the_received_asset(market):
    before = market.all_balances()
    size = 4 * ONE + 7
    buy = market.order(ALICE, BUY, 60, 10 * ONE, fee_rate_bps=RATE)
    sell = market.order(BOB, SELL, 55, 10 * ONE, fee_rate_bps=300)
    parties = [Party(order=order, fee_rate_bps=RATE) for order in (buy, sell)]
    assert market.settle(market.fill(*parties, 57, size)) == [""]
    paid, tokens, cash = 57 * size // 100, fee_of_buy(57, size), fee_of_sale(57, size)
    assert market.changes(before) == {
        ALICE: (-paid, size - tokens, 0),
        BOB: (paid - cash, -size, 0),
        FEES: (cash, tokens, 0),
    }


@pytest.mark.parametrize("side", [BUY, SELL])
def test_complementary_trades_pay_fees_at_their_own_price(market, side):
    before = market.all_balances()
    size, price = 4 * ONE, 20
    first = market.order(ALICE, side, price, size, fee_rate_bps=RATE)
    second = market.order(BOB, side, 80, size, market.no, fee_rate_bps=RATE)
    parties = [Party(order=order, fee_rate_bps=RATE) for order in (first, second)]
    assert market.settle(market.fill(*parties, price, size)) == [""]
    part = price * size // 100
    changes = market.changes(before)
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


def test_partial_fills_add_up_to_the_signed_size(market):
    size = 3 * ONE + 1
    buy = market.order(ALICE, BUY, 33, size)
    parts = [ONE, ONE + 1, ONE]
    fills = [market.fill(market.order(BOB, SELL, 33, part), buy, 33, part) for part in parts]
    assert market.settle(*fills) == ["", "", ""]
    used = market.evm.call(BOSS, market.exchange, USED.encode(market.order_hash(buy))).output
    debit = sum(33 * part // 100 for part in parts)
    assert USED.decode(used) == (size, debit, 0)
    more = market.fill(market.order(BOB, SELL, 33, ONE), buy, 33, 1)
    [reason] = market.settle(more)
    assert reason.startswith("Overfilled(")


def test_permitted_wallet_pays_for_a_maker(market):
    order, wallet = market.order(ALICE, BUY, 50, 2 * ONE), CAROL
    pair = Party(order=order, wallet=wallet), market.order(BOB, SELL, 50, 2 * ONE)
    [reason] = market.settle(market.fill(*pair, 50, 2 * ONE))
    assert reason.startswith("NotPayer(")
    market.do(wallet, market.exchange, SET_PAYER, ALICE, True)
    before = market.all_balances()
    assert market.settle(market.fill(*pair, 50, 2 * ONE)) == [""]
    assert market.changes(before) == {
        wallet: (-ONE, 0, 0),
        ALICE: (0, 2 * ONE, 0),
        BOB: (ONE, -2 * ONE, 0),
    }


def test_permitted_wallet_is_paid_for_a_maker(market):
    buy, order = market.order(ALICE, BUY, 50, 2 * ONE), market.order(BOB, SELL, 50, 2 * ONE)
    pair = buy, Party(order=order, wallet=CAROL)
    [reason] = market.settle(market.fill(*pair, 50, 2 * ONE))
    assert reason.startswith("NotPayee(")
    market.do(BOB, market.exchange, SET_PAYEE, CAROL, True)
    before = market.all_balances()
    assert market.settle(market.fill(*pair, 50, 2 * ONE)) == [""]
    assert market.changes(before) == {
        ALICE: (-ONE, 2 * ONE, 0),
        BOB: (0, -2 * ONE, 0),
        CAROL: (ONE, 0, 0),
    }


# ----- independent fills ---------------------------------------------------------------------


def test_failed_fill_does_not_affect_others(market):
    market.do(CAROL, market.wrapped, TRANSFER, BOB, START)
    market.do(ALICE, market.wrapped, APPROVE, market.exchange, 0)
    dave = MAKERS[3].address
    good = market.fill(market.order(dave, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE)
    poor = market.fill(market.order(CAROL, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE)
    revoked = market.fill(
        market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE
    )
    before = market.all_balances()
    results = market.settle(poor, good, revoked)
    assert results[0].startswith("ERC20InsufficientBalance(")
    assert results[1] == ""
    assert results[2].startswith("ERC20InsufficientAllowance(")
    assert market.changes(before) == {dave: (-ONE // 2, ONE, 0), BOB: (ONE // 2, -ONE, 0)}
    market.do(ALICE, market.wrapped, APPROVE, market.exchange, MAX)
    assert market.settle(poor, good, revoked) == ["FailedBefore", "SettledBefore", "FailedBefore"]


def test_failed_fill_never_settles_when_it_is_sent_again(market):
    buy, sell = market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE)
    fill = market.fill(buy, sell, 50, ONE)
    market.do(ALICE, market.wrapped, APPROVE, market.exchange, 0)
    assert market.settle(fill)[0].startswith("ERC20InsufficientAllowance(")
    assert market.evm.ask(market.exchange, IS_FAILED, fill.trade_id)
    market.do(ALICE, market.wrapped, APPROVE, market.exchange, MAX)
    before = market.all_balances()
    market.at(NOW_S + YEAR_S)
    assert market.settle(fill) == ["FailedBefore"]
    market.at(NOW_S)
    assert market.changes(before) == {}
    assert not market.evm.ask(market.exchange, IS_SETTLED, fill.trade_id)
    assert market.settle(market.fill(buy, sell, 50, ONE)) == [""]


def test_reverted_transaction_spends_no_trade_id(market):
    market.do(ALICE, market.wrapped, APPROVE, market.exchange, 0)
    bad, other = (
        market.fill(market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, ONE)
        for _ in range(2)
    )
    outcome = market.evm.send(BOSS, market.exchange, encode_settle([bad, other]), gas=700_000)
    assert outcome.reason.startswith("TooLittleGas(")
    assert not market.evm.ask(market.exchange, IS_FAILED, bad.trade_id)
    market.do(ALICE, market.wrapped, APPROVE, market.exchange, MAX)
    assert market.settle(bad) == [""]


@pytest.mark.parametrize("first", [126, 2**256 - 3])
def test_neighbouring_trade_ids_have_results_of_their_own(market, first):
    sells = [market.order(BOB, SELL, 50, ONE) for _ in range(3)]
    poor = market.order(ALICE, BUY, 50, ONE, expiration_s=1)
    buys = [market.order(ALICE, BUY, 50, ONE), poor, market.order(ALICE, BUY, 50, ONE)]
    fills = [
        market.fill(*pair, 50, ONE, trade_id=first + number)
        for number, pair in enumerate(zip(buys, sells, strict=True))
    ]
    assert [reason.partition("(")[0] for reason in market.settle(*fills)] == ["", "Expired", ""]
    found = [
        [market.evm.ask(market.exchange, view, first + number) for view in (IS_SETTLED, IS_FAILED)]
        for number in range(-1, 3)
    ]
    assert found == [[False, False], [True, False], [False, True], [True, False]]


def test_each_order_of_a_fill_has_an_event_with_its_amounts(market):
    size = 4 * ONE
    buy = market.order(ALICE, BUY, 60, size, fee_rate_bps=RATE)
    sell = market.order(BOB, SELL, 60, size, fee_rate_bps=RATE)
    market.do(BOB, market.exchange, SET_PAYEE, CAROL, True)
    fill = market.fill(
        Party(order=sell, fee_rate_bps=RATE, wallet=CAROL),
        Party(order=buy, fee_rate_bps=RATE),
        60,
        size,
    )
    logs = market.evm.send(BOSS, market.exchange, encode_settle([fill])).logs
    paid, cash, tokens = 60 * size // 100, fee_of_sale(60, size), fee_of_buy(60, size)
    token, hashes = market.yes, [market.order_hash(order) for order in (sell, buy)]
    assert [ORDER_FILLED.decode(log) for log in logs if ORDER_FILLED.is_in(log)] == [
        (hashes[0], BOB, CAROL, token, 1, False, size, paid - cash, cash),
        (hashes[1], ALICE, ALICE, token, 0, False, paid, size - tokens, tokens),
    ]
    assert SETTLED.is_in(logs[-1])


def test_settled_fill_is_not_settled_again(market):
    fill = market.fill(market.order(ALICE, BUY, 50, ONE), market.order(BOB, SELL, 50, ONE), 50, 100)
    assert market.settle(fill) == [""]
    before = market.all_balances()
    assert market.settle(fill) == ["SettledBefore"]
    assert market.changes(before) == {}
    assert market.evm.ask(market.exchange, IS_SETTLED, fill.trade_id)
