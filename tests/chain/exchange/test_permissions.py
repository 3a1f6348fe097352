"""Permissions of makers take effect at once; revocations take effect after a delay."""

import pytest

from clob.signing import SignedOrder
from clob_server.chain.eth.abi import Event, Function
from clob_server.chain.eth.exchange_abi import CANCEL, DELAY_S, NONCE_OF
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.evm_market import BUY, MAKERS, ONE, SELL
from tests.chain.signed_fills import Party, order_values

ALICE, BOB, CAROL = (maker.address for maker in MAKERS[:3])
DELEGATE = Function("setDelegate(address,bool)")
GASLESS = Function("setGasless(bool)")
PAYER = Function("setPayer(address,bool)")
PAYEE = Function("setPayee(address,bool)")
RAISE = Function("raiseNonce(uint256)")
INCREMENT = Function("incrementNonce()")
RAISED = Event("NonceRaised(address indexed maker, uint256 nonce, uint256 from)")
STEP_S = 60
"""Raised nonces count at multiples of as many seconds."""


def settles(market, buy, sell):
    """Return whether a hundred wei of two orders settle."""
    return market.settle(market.fill(buy, sell, 50, 100)) == [""]


def sell(market):
    return market.order(BOB, SELL, 50, ONE)


def by_delegate(market):
    return market.order(ALICE, BUY, 50, ONE, signer=CAROL), sell(market)


def unsigned(market):
    market.salt += 1
    price = {"side": BUY, "price": 50, "size": ONE, "maker": ALICE, "token_id": market.yes}
    return SignedOrder.from_price_size(**price, salt=market.salt), sell(market)


def paid_by_another(market):
    return Party(order=market.order(ALICE, BUY, 50, ONE), wallet=CAROL), sell(market)


def paid_to_another(market):
    buy = market.order(BOB, BUY, 50, ONE)
    return buy, Party(order=market.order(ALICE, SELL, 50, ONE), wallet=CAROL)


PERMISSIONS = [
    (DELEGATE, ALICE, (CAROL,), by_delegate),
    (GASLESS, ALICE, (), unsigned),
    (PAYER, CAROL, (ALICE,), paid_by_another),
    (PAYEE, ALICE, (CAROL,), paid_to_another),
]


@pytest.mark.parametrize(
    ("function", "who", "whom", "orders"), PERMISSIONS, ids=[row[0].name for row in PERMISSIONS]
)
def test_permission_is_effective_at_once_and_revoked_after_the_delay(
    market, function, who, whom, orders
):
    pair = orders(market)
    market.do(who, market.exchange, function, *whom, False)
    assert not settles(market, *pair)  # revoking a missing permission does not set it
    market.do(who, market.exchange, function, *whom, True)
    assert settles(market, *pair)
    market.do(who, market.exchange, function, *whom, False)
    market.at(NOW_S + DELAY_S - 1)
    market.do(who, market.exchange, function, *whom, False)  # does not restart the delay
    assert settles(market, *pair)
    market.at(NOW_S + DELAY_S)
    assert not settles(market, *pair)
    market.do(who, market.exchange, function, *whom, True)
    assert settles(market, *pair)


@pytest.mark.parametrize(
    ("function", "who", "whom", "orders"), PERMISSIONS, ids=[row[0].name for row in PERMISSIONS]
)
def test_permission_of_another_account_has_no_effect(market, function, who, whom, orders):
    pair = orders(market)
    for other in (ALICE, BOB, CAROL):
        if other != who:
            market.do(other, market.exchange, function, *whom, True)
    assert not settles(market, *pair)


def test_raised_nonce_rejects_orders_after_the_delay(market):
    old, new = market.order(ALICE, BUY, 50, ONE), market.order(ALICE, BUY, 50, ONE, nonce=1)
    other = sell(market)
    market.do(ALICE, market.exchange, INCREMENT)
    market.at(NOW_S + DELAY_S - 1)
    assert market.evm.ask(market.exchange, NONCE_OF, ALICE) == 0
    assert settles(market, old, other)
    market.at(NOW_S + DELAY_S)
    assert market.evm.ask(market.exchange, NONCE_OF, ALICE) == 1
    assert not settles(market, old, other)
    assert settles(market, new, other)


def test_effective_nonce_stays_while_another_raise_is_pending(market):
    market.do(ALICE, market.exchange, RAISE, 5)
    market.at(NOW_S + DELAY_S)
    market.do(ALICE, market.exchange, RAISE, 9)
    assert market.evm.ask(market.exchange, NONCE_OF, ALICE) == 5
    assert not settles(market, market.order(ALICE, BUY, 50, ONE, nonce=4), sell(market))
    assert settles(market, market.order(ALICE, BUY, 50, ONE, nonce=5), sell(market))
    market.at(NOW_S + 2 * DELAY_S)
    assert market.evm.ask(market.exchange, NONCE_OF, ALICE) == 9


def test_raising_again_and_again_does_not_postpone_an_earlier_raise(market):
    old = market.order(ALICE, BUY, 50, ONE)
    [log] = market.do(ALICE, market.exchange, RAISE, 1)
    due_s = RAISED.decode(log)[2]
    assert due_s - NOW_S == DELAY_S
    for nonce in range(2, 13):
        market.at(NOW_S + nonce * DELAY_S // 13)
        [log] = market.do(ALICE, market.exchange, RAISE, nonce)
        wait_s = RAISED.decode(log)[2] - NOW_S - nonce * DELAY_S // 13
        assert DELAY_S <= wait_s < DELAY_S + STEP_S
    assert settles(market, old, sell(market))
    market.at(due_s)
    assert market.evm.ask(market.exchange, NONCE_OF, ALICE) == 1
    assert not settles(market, old, sell(market))


def test_each_raised_nonce_counts_from_the_time_that_its_event_names(market):
    raises = []
    for number, after_s in enumerate((0, 1, 59, 60, 61, 150, 299, 300, 1000, 1001), 1):
        market.at(NOW_S + after_s)
        [log] = market.do(ALICE, market.exchange, RAISE, number * 10)
        raises.append(RAISED.decode(log)[1:])
    for now_s in range(NOW_S + 1001, NOW_S + 1001 + 2 * DELAY_S, 7):
        market.at(now_s)
        due = [nonce for nonce, due_s in raises if due_s <= now_s]
        assert market.evm.ask(market.exchange, NONCE_OF, ALICE) == max(due)


def test_every_nonce_can_be_cancelled_by_a_raise(market):
    last = 2**256 - 1
    old = market.order(ALICE, BUY, 50, ONE, nonce=last - 1)
    assert settles(market, old, sell(market))
    market.do(ALICE, market.exchange, RAISE, last)
    market.at(NOW_S + DELAY_S)
    assert not settles(market, old, sell(market))
    assert market.evm.ask(market.exchange, NONCE_OF, ALICE) == last


def test_cancelled_order_settles_until_the_delay_ends(market):
    buy, other = market.order(ALICE, BUY, 50, ONE), sell(market)
    market.do(ALICE, market.exchange, CANCEL, order_values(buy))
    market.at(NOW_S + DELAY_S - 1)
    market.do(ALICE, market.exchange, CANCEL, order_values(buy))  # does not restart the delay
    assert settles(market, buy, other)
    market.at(NOW_S + DELAY_S)
    assert not settles(market, buy, other)


def test_expired_order_settles_until_the_delay_ends(market):
    buy, other = market.order(ALICE, BUY, 50, ONE, expiration_s=NOW_S), sell(market)
    market.at(NOW_S + DELAY_S)
    assert settles(market, buy, other)
    market.at(NOW_S + DELAY_S + 1)
    assert not settles(market, buy, other)
    late = market.order(ALICE, BUY, 50, ONE, expiration_s=2**256 - 1)
    assert settles(market, late, other)
