"""Permissions of makers take effect at once; revocations take effect after a delay."""

import pytest

from clob.signing import SignedOrder
from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import CANCEL, DELAY_S, NONCE_OF, Party, order_values
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.venue import BUY, MAKERS, ONE, SELL, Venue

ALICE, BOB, CAROL = (maker.address for maker in MAKERS[:3])
DELEGATE = Function("setDelegate(address,bool)")
GASLESS = Function("setGasless(bool)")
PAYER = Function("setPayer(address,bool)")
PAYEE = Function("setPayee(address,bool)")
RAISE = Function("raiseNonce(uint256)")
INCREMENT = Function("incrementNonce()")


@pytest.fixture(scope="module")
def shared():
    return Venue()


@pytest.fixture
def venue(shared):
    """The exchange, reset after each test."""
    state = shared.evm.snapshot()
    shared.at(NOW_S)
    yield shared
    shared.at(NOW_S)
    shared.evm.revert(state)


def settles(venue, buy, sell):
    """Return whether a hundred wei of two orders settle."""
    return venue.settle(venue.fill(buy, sell, 50, 100)) == [""]


def sell(venue):
    return venue.order(BOB, SELL, 50, ONE)


def by_delegate(venue):
    return venue.order(ALICE, BUY, 50, ONE, signer=CAROL), sell(venue)


def unsigned(venue):
    venue.salt += 1
    price = {"side": BUY, "price": 50, "size": ONE, "maker": ALICE, "token_id": venue.yes}
    return SignedOrder.from_price_size(**price, salt=venue.salt), sell(venue)


def paid_by_another(venue):
    return Party(order=venue.order(ALICE, BUY, 50, ONE), wallet=CAROL), sell(venue)


def paid_to_another(venue):
    buy = venue.order(BOB, BUY, 50, ONE)
    return buy, Party(order=venue.order(ALICE, SELL, 50, ONE), wallet=CAROL)


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
    venue, function, who, whom, orders
):
    pair = orders(venue)
    venue.do(who, venue.exchange, function, *whom, False)
    assert not settles(venue, *pair)  # revoking a missing permission does not set it
    venue.do(who, venue.exchange, function, *whom, True)
    assert settles(venue, *pair)
    venue.do(who, venue.exchange, function, *whom, False)
    venue.at(NOW_S + DELAY_S - 1)
    venue.do(who, venue.exchange, function, *whom, False)  # does not restart the delay
    assert settles(venue, *pair)
    venue.at(NOW_S + DELAY_S)
    assert not settles(venue, *pair)
    venue.do(who, venue.exchange, function, *whom, True)
    assert settles(venue, *pair)


@pytest.mark.parametrize(
    ("function", "who", "whom", "orders"), PERMISSIONS, ids=[row[0].name for row in PERMISSIONS]
)
def test_permission_of_another_account_has_no_effect(venue, function, who, whom, orders):
    pair = orders(venue)
    for other in (ALICE, BOB, CAROL):
        if other != who:
            venue.do(other, venue.exchange, function, *whom, True)
    assert not settles(venue, *pair)


def test_raised_nonce_rejects_orders_after_the_delay(venue):
    old, new = venue.order(ALICE, BUY, 50, ONE), venue.order(ALICE, BUY, 50, ONE, nonce=1)
    other = sell(venue)
    venue.do(ALICE, venue.exchange, INCREMENT)
    venue.at(NOW_S + DELAY_S - 1)
    assert venue.evm.ask(venue.exchange, NONCE_OF, ALICE) == 0
    assert settles(venue, old, other)
    venue.at(NOW_S + DELAY_S)
    assert venue.evm.ask(venue.exchange, NONCE_OF, ALICE) == 1
    assert not settles(venue, old, other)
    assert settles(venue, new, other)


def test_effective_nonce_stays_while_another_raise_is_pending(venue):
    venue.do(ALICE, venue.exchange, RAISE, 5)
    venue.at(NOW_S + DELAY_S)
    venue.do(ALICE, venue.exchange, RAISE, 9)
    assert venue.evm.ask(venue.exchange, NONCE_OF, ALICE) == 5
    assert not settles(venue, venue.order(ALICE, BUY, 50, ONE, nonce=4), sell(venue))
    assert settles(venue, venue.order(ALICE, BUY, 50, ONE, nonce=5), sell(venue))
    venue.at(NOW_S + 2 * DELAY_S)
    assert venue.evm.ask(venue.exchange, NONCE_OF, ALICE) == 9


def test_cancelled_order_settles_until_the_delay_ends(venue):
    buy, other = venue.order(ALICE, BUY, 50, ONE), sell(venue)
    venue.do(ALICE, venue.exchange, CANCEL, order_values(buy))
    venue.at(NOW_S + DELAY_S - 1)
    venue.do(ALICE, venue.exchange, CANCEL, order_values(buy))  # does not restart the delay
    assert settles(venue, buy, other)
    venue.at(NOW_S + DELAY_S)
    assert not settles(venue, buy, other)


def test_expired_order_settles_until_the_delay_ends(venue):
    buy, other = venue.order(ALICE, BUY, 50, ONE, expiration_s=NOW_S), sell(venue)
    venue.at(NOW_S + DELAY_S)
    assert settles(venue, buy, other)
    venue.at(NOW_S + DELAY_S + 1)
    assert not settles(venue, buy, other)
    late = venue.order(ALICE, BUY, 50, ONE, expiration_s=2**256 - 1)
    assert settles(venue, late, other)
