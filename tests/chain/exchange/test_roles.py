"""Roles of the exchange: changes by the owner are delayed, and a pauser can only pause."""

import pytest

from clob_server.chain.eth.abi import Event, Function
from clob_server.chain.eth.exchange_abi import DELAY_S, FEE_WALLET, IS_PAUSED, OPERATOR
from tests.chain.contracts.calls import ZERO
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.evm_market import (
    BOSS,
    BUY,
    FEES,
    MAKERS,
    ONE,
    OWNER,
    PAUSER,
    SELL,
)
from tests.chain.signed_fills import Party, encode_settle

ALICE, BOB, CAROL = (maker.address for maker in MAKERS[:3])
DAY_S = 86_400
PAUSE, UNPAUSE = Function("pause()"), Function("unpause()")
RENOUNCE = Function("renounceOwnership()")
OWNED_BY = Function("owner()", returns="address")
SET_OPERATOR = Function("setOperator(address)")
SET_FEES = Function("setFeeWallet(address)")
SET_PAUSER = Function("setPauser(address)")
OWNER_DELAY = Function("OWNER_DELAY()", returns="uint256")
OPERATOR_SET = Event("OperatorSet(address indexed operator, uint256 from)")
FEES_SET = Event("FeeWalletSet(address indexed wallet, uint256 from)")
ROLES = [(SET_OPERATOR, OPERATOR, OPERATOR_SET, BOSS), (SET_FEES, FEE_WALLET, FEES_SET, FEES)]


def trade(market, taker=ZERO):
    """Return a valid fill."""
    buy = market.order(ALICE, BUY, 50, ONE, taker=taker)
    return market.fill(buy, market.order(BOB, SELL, 50, ONE), 50, ONE)


# ----- operator and fee wallet ---------------------------------------------------------------


def test_operator_changes_after_the_delay_of_the_owner(market):
    assert market.evm.ask(market.exchange, OWNER_DELAY) == DAY_S > DELAY_S
    fill = trade(market)
    market.do(OWNER, market.exchange, SET_OPERATOR, CAROL)
    market.at(NOW_S + DAY_S - 1)
    rejected = market.evm.send(CAROL, market.exchange, encode_settle([fill]))
    assert rejected.reason == f"NotOperator(sender={CAROL})"
    assert market.settle(trade(market)) == [""]
    market.at(NOW_S + DAY_S)
    rejected = market.evm.send(BOSS, market.exchange, encode_settle([fill]))
    assert rejected.reason == f"NotOperator(sender={BOSS})"
    assert market.settle(fill, sender=CAROL) == [""]
    [reason] = market.settle(trade(market, taker=BOSS), sender=CAROL)
    assert reason.startswith("TakerNotSupported(")
    assert market.settle(trade(market, taker=CAROL), sender=CAROL) == [""]


def test_fee_wallet_changes_after_the_delay_of_the_owner(market):
    def settled():
        buy = market.order(ALICE, BUY, 50, ONE, fee_rate_bps=100)
        sell = market.order(BOB, SELL, 50, ONE)
        parties = Party(order=buy, fee_rate_bps=100), Party(order=sell)
        before = market.balances(FEES), market.balances(CAROL)
        assert market.settle(market.fill(*parties, 50, ONE)) == [""]
        after = market.balances(FEES), market.balances(CAROL)
        return [new[1] - old[1] for new, old in zip(after, before, strict=True)]

    market.do(OWNER, market.exchange, SET_FEES, CAROL)
    market.at(NOW_S + DAY_S - 1)
    assert settled() == [ONE // 100, 0]
    market.at(NOW_S + DAY_S)
    assert settled() == [0, ONE // 100]


@pytest.mark.parametrize(("function", "view", "event", "holder"), ROLES)
def test_announced_change_is_withdrawn_by_naming_the_present_holder(
    market, function, view, event, holder
):
    [log] = market.do(OWNER, market.exchange, function, CAROL)
    assert event.decode(log) == (CAROL, NOW_S + DAY_S)
    market.at(NOW_S + DAY_S - 1)
    [log] = market.do(OWNER, market.exchange, function, holder)
    assert event.decode(log) == (holder, NOW_S + DAY_S - 1)
    market.at(NOW_S + 9 * DAY_S)
    assert market.evm.ask(market.exchange, view) == holder


@pytest.mark.parametrize(("function", "view", "event", "holder"), ROLES)
def test_another_announcement_replaces_one_that_is_not_due(market, function, view, event, holder):
    market.do(OWNER, market.exchange, function, CAROL)
    market.at(NOW_S + DAY_S - 1)
    market.do(OWNER, market.exchange, function, BOB)
    market.at(NOW_S + 2 * DAY_S - 2)
    assert market.evm.ask(market.exchange, view) == holder
    market.at(NOW_S + 2 * DAY_S - 1)
    assert market.evm.ask(market.exchange, view) == BOB
    market.do(OWNER, market.exchange, function, CAROL)  # one that is due stays meanwhile
    assert market.evm.ask(market.exchange, view) == BOB


@pytest.mark.parametrize(("function", "view", "event", "holder"), ROLES)
def test_only_the_owner_announces_changes_and_not_the_zero_address(
    market, function, view, event, holder
):
    for sender in (ALICE, BOSS, PAUSER):
        reason = market.evm.rejection(sender, market.exchange, function, ALICE)
        assert reason == f"OwnableUnauthorizedAccount(account={sender})"
    assert market.evm.rejection(OWNER, market.exchange, function, ZERO) == "ZeroAddress()"
    assert market.evm.ask(market.exchange, view) == holder


# ----- pausing -------------------------------------------------------------------------------


def test_pauser_pauses_but_only_the_owner_unpauses(market):
    assert market.evm.rejection(BOSS, market.exchange, PAUSE) == f"NotPauser(sender={BOSS})"
    market.do(PAUSER, market.exchange, PAUSE)
    outcome = market.evm.send(BOSS, market.exchange, encode_settle([trade(market)]))
    assert outcome.reason == "EnforcedPause()"
    reason = market.evm.rejection(PAUSER, market.exchange, UNPAUSE)
    assert reason == f"OwnableUnauthorizedAccount(account={PAUSER})"
    market.do(OWNER, market.exchange, UNPAUSE)
    assert market.settle(trade(market)) == [""]


def test_owner_replaces_the_pauser_at_once(market):
    reason = market.evm.rejection(PAUSER, market.exchange, SET_PAUSER, CAROL)
    assert reason == f"OwnableUnauthorizedAccount(account={PAUSER})"
    market.do(OWNER, market.exchange, SET_PAUSER, CAROL)
    assert market.evm.rejection(PAUSER, market.exchange, PAUSE) == f"NotPauser(sender={PAUSER})"
    market.do(CAROL, market.exchange, PAUSE)


def test_ownership_cannot_be_renounced_while_paused(market):
    market.do(PAUSER, market.exchange, PAUSE)
    assert market.evm.rejection(OWNER, market.exchange, RENOUNCE) == "EnforcedPause()"
    assert market.evm.ask(market.exchange, OWNED_BY) == OWNER
    market.do(OWNER, market.exchange, UNPAUSE)
    market.do(OWNER, market.exchange, RENOUNCE)
    assert market.evm.ask(market.exchange, OWNED_BY) == ZERO


def test_exchange_without_an_owner_cannot_be_paused(market):
    market.do(OWNER, market.exchange, RENOUNCE)
    assert market.evm.rejection(PAUSER, market.exchange, PAUSE) == "NoOwner()"
    assert not market.evm.ask(market.exchange, IS_PAUSED)
    assert market.settle(trade(market)) == [""]


# ----- fees ----------------------------------------------------------------------------------


def test_fee_above_the_maximum_is_rejected_whatever_the_order_allows(market):
    def fill(rate):
        buy = market.order(ALICE, BUY, 50, ONE, fee_rate_bps=10_000)
        party = Party(order=buy, fee_rate_bps=rate)
        return market.fill(party, market.order(BOB, SELL, 50, ONE), 50, ONE)

    [reason] = market.settle(fill(1_001))
    assert reason.startswith("FeeTooHigh(")
    assert reason.endswith("feeRateBps=1001, most=1000)")
    assert market.settle(fill(1_000)) == [""]
