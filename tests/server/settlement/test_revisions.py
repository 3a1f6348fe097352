"""Results that a reorganisation removed are withdrawn, and makers at fault cool down."""

import msgspec
import pytest

from clob import Funds, SetBalance, Side
from clob_server.core.commands import EndTrades, ReviseTrades
from clob_server.core.fills import reopened_trades
from clob_server.core.settlement_ledger import EndedTrade
from tests.matcher_model.flow import terms_of
from tests.matchers import buy, market, sell
from tests.server.core.test_fills import salted, settling
from tests.server.core.test_state import opened
from tests.server.engines import logged
from tests.server.settlement.harness import (
    BUYER,
    RICH,
    SELLER,
    SettlementHarness,
    first_update,
    is_resting,
    start_trading,
    update,
)

COOL_MS = 60_000


def in_block(result, block):
    """Return a result of another block."""
    return msgspec.structs.replace(result, block=block)


def commands_in(harness, kind):
    """Return the logged commands of a kind."""
    return [c for frame in logged(harness.log) for c in frame if type(c) is kind]


@pytest.mark.parametrize("complementary", [False, True])
def test_terms_of_a_withdrawn_result_are_those_of_the_trade(complementary):
    exchange = opened(
        market(
            funds=Funds.ACCOUNTS,
            settles=True,
            complementary=complementary,
            lot_wei=100,
            resting_fee_rate_bps=100,
            incoming_fee_rate_bps=30,
        )
    )
    for command in _funding():
        exchange.apply(command)
    salted(exchange, sell, "a1", 60, 700, smart_wallet="P")
    salted(exchange, buy, "b2", 65, 300, fee_rate_bps=10, smart_wallet="P")
    if complementary:
        salted(exchange, buy, "b3", 30, 500, token="m-no", maker="S")
        salted(exchange, buy, "b4", 70, 500)
        salted(exchange, sell, "a5", 30, 400, token="m-no", maker="B")
        salted(exchange, sell, "a6", 60, 400)
    pending = exchange.matcher._engine.markets["m"].pending
    held = exchange.registry.settling.held.values()
    found = [
        term
        for each in held
        for term in reopened_trades(
            EndedTrade(each.market, each.halves, each.traded_ms, "0x1", "", 1, each.fill)
        )
    ]
    assert found == [terms_of(seq, trade) for seq, trade in pending.items()]
    assert len(found) >= (4 if complementary else 1)


def _funding():
    """Yield large balances."""
    state = settling()
    for (wallet, asset), account in state.matcher.balances().items():
        for owner in (wallet, "P"):
            yield _balance(owner, asset, account.balance)


def _balance(wallet, asset, amount):
    return SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=1)


async def test_settled_trade_of_a_removed_block_is_pending_and_sent_again():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        before = harness.exchange.matcher.balances()
        settled = in_block(harness.settled(1), 2)
        await harness.receive(update(2, settlements=(settled,), after_block=1))
        assert not harness.settling.held
        await harness.receive(first_update(3, after_block=1))
        assert harness.exchange.matcher.balances() == before
        await harness.requested(2)
        assert harness.settlement.inbox.difference() == 0
        async with harness.recovered() as again:
            assert again.settling.snapshot() == harness.settling.snapshot()


async def test_failed_trade_settles_in_another_block_and_ends_the_cool_down():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        resting = await harness.order(SELLER, Side.SELL, price=90, size=RICH - 100)
        failed = in_block(harness.settled(1, error="NotApproved", responsible=(SELLER,)), 2)
        await harness.receive(update(2, settlements=(failed,), after_block=1))
        assert not is_resting(harness, resting)
        resting = await harness.order(BUYER, Side.BUY, price=10, size=10)
        until_ms = harness.settling.cool_until_ms(SELLER)
        assert until_ms == harness.now_ms + COOL_MS
        assert harness.settling.cool_until_ms(BUYER) == 0
        settled = in_block(harness.settled(1), 2)
        await harness.receive(first_update(3, settlements=(settled,), after_block=1))
        assert harness.settling.cool_until_ms(SELLER) == 0
        assert harness.settlement.view().failures == []
        assert harness.settlement.inbox.difference() == 0
        [revision] = commands_in(harness, ReviseTrades)
        assert revision.trades == (1,)
        assert "block 2" in revision.reason


async def test_same_result_in_another_block_is_not_a_revision():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        await harness.receive(
            update(2, settlements=(in_block(harness.settled(1), 2),), after_block=1)
        )
        moved = in_block(harness.settled(1), 3)
        await harness.receive(first_update(3, settlements=(moved,), after_block=1, final_block=3))
        assert commands_in(harness, ReviseTrades) == []
        assert [c.ends[0].block for c in commands_in(harness, EndTrades)] == [2, 3]
        assert harness.settling.ended[1].block == 3
        assert harness.settling.is_final(1)


async def test_difference_counts_results_that_differ_from_the_chain():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        settled = in_block(harness.settled(1), 2)
        await harness.receive(update(2, settlements=(settled,), after_block=1))
        await harness.receive(first_update(3, settlements=(settled,), after_block=1))
        before = harness.settlement.inbox.difference()
        ended = harness.settling.ended[1]
        wrong = EndedTrade(ended.market, ended.halves, 1, ended.tx, "why", 2, ended.fill)
        harness.settling.ended[1] = wrong
        assert harness.settlement.inbox.difference() == before + 1


async def test_cool_down_doubles_at_a_further_fault_and_faults_expire_after_a_day():
    async with SettlementHarness() as harness:
        await start_trading(harness, 4)
        settling, start_ms = harness.settling, harness.now_ms

        async def fail(number, block):
            failed = harness.settled(number, error="NotApproved", responsible=(SELLER,))
            await harness.receive(update(block, settlements=(in_block(failed, block),)))

        await fail(1, 2)
        harness.now_ms += 1_000
        await fail(2, 3)  # within the cool-down: it is extended
        assert settling.cool_until_ms(SELLER) == start_ms + 1_000 + COOL_MS
        harness.now_ms = settling.cool_until_ms(SELLER)
        await fail(3, 4)
        assert settling.cool_until_ms(SELLER) == harness.now_ms + 2 * COOL_MS
        harness.now_ms += 25 * 3_600_000
        await fail(4, 5)
        assert settling.cool_until_ms(SELLER) == harness.now_ms + COOL_MS
