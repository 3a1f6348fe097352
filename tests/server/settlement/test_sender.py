"""The sender: which trades go to the chain, when, under which operation id, and retries.

The chain is a stub here; ``tests/chain/test_server_settlement.py`` uses real ones.
"""

import asyncio

import pytest

from clob import CancelAll, Funds, SetBalance, Side
from clob_server.chain.eth.exchange_abi import FILLS_MAX
from clob_server.cli.options import read_settings
from clob_server.core.commands import SendTrades, SetOutcome
from clob_server.settings import SettingsError
from clob_server.settlement import sender
from clob_server.settlement.markets import OnChain
from tests.server.engines import logged
from tests.server.settlement.underway import (
    BUYER,
    NO,
    RICH,
    SELLER,
    YES,
    UnderWay,
    done,
    failed,
    rejected,
    stuck,
    update,
    whole,
)

SOON_S = 0.02


@pytest.fixture
def impatient(monkeypatch):
    """Short pauses."""
    monkeypatch.setattr(sender, "PAUSE_S", SOON_S)
    monkeypatch.setattr(sender, "HOLD_MAX_S", SOON_S)
    monkeypatch.setattr(sender, "POLL_S", SOON_S)


async def test_full_batch_is_sent_at_once_and_the_rest_after_settle_every_s():
    async with UnderWay(settle_every_s=0.3) as stage:
        await stage.start_worker()
        await stage.trade(4)
        assert await stage.requested(1) == [1, 2, 3]
        assert list(stage.settling.sent) == [1, 2, 3]
        await asyncio.sleep(SOON_S)
        assert len(stage.chain.requests) == 1
        stage.now_ms += 300
        assert await stage.requested(2) == [4]


async def test_clock_that_steps_back_delays_no_trade():
    async with UnderWay() as stage:
        await stage.start_worker()
        stage.now_ms += 3_600_000
        await stage.order(SELLER, Side.SELL)
        await stage.order(BUYER, Side.BUY)
        stage.now_ms -= 3_600_000
        assert await stage.requested(1) == [1]


async def test_operation_is_logged_before_it_is_requested():
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.trade(2)
        await stage.requested(1)
        noted = [c for frame in logged(stage.log) for c in frame if isinstance(c, SendTrades)]
        [command] = noted
        assert command.operation == stage.chain.requests[0][0]
        assert list(command.trades) == stage.numbers(0)


async def test_both_trades_of_a_mint_are_sent_as_one():
    async with UnderWay() as stage:
        await stage.open("p", complementary=True, lot_wei=100)
        await stage.start_worker()
        for token, price in (("p-yes", 40), ("p-no", 60)):
            await stage.order(BUYER, Side.BUY, token=token, price=price)
        assert await stage.requested(1) == [1]
        [held] = stage.settling.held.values()
        assert [half.number for half in held.halves] == [1, 2]


async def test_trades_wait_until_their_market_is_prepared(impatient):
    async with UnderWay() as stage:
        await stage.open("n")
        for maker, asset in ((BUYER, "usd"), (SELLER, "n-yes")):
            await stage.do(SetBalance, wallet=maker, asset=asset, amount=RICH)
        stage.states["m"] = OnChain.PREPARING
        await stage.start_worker()
        await stage.trade(2)
        await stage.trade(1, token="n-yes")
        assert await stage.requested(1) == [3]
        stage.states["m"] = OnChain.PREPARED
        assert await stage.requested(2) == [1, 2]


async def test_stuck_market_settles_only_if_it_has_an_outcome(impatient):
    async with UnderWay() as stage:
        stage.states["m"] = OnChain.STUCK
        await stage.start_worker()
        await stage.trade(2)
        await asyncio.sleep(3 * SOON_S)
        assert not stage.chain.requests
        await stage.do(SetOutcome, market="m", outcome="yes")
        assert await stage.requested(1) == [1, 2]


@pytest.mark.parametrize("gone", ["worker", "exchange"])
async def test_trades_wait_without_a_worker_or_an_exchange_contract(impatient, gone):
    async with UnderWay() as stage:
        if gone == "exchange":
            stage.chain.addresses.exchange = ""
        await stage.start_worker()
        stage.chain.is_open = gone == "exchange"
        await stage.trade(2)
        await asyncio.sleep(3 * SOON_S)
        assert not stage.chain.requests
        assert stage.settlement.view().pending == 2
        stage.chain.addresses.exchange = "0xE"
        await stage.start_worker()
        assert await stage.requested(1) == [1, 2]


async def test_number_of_running_operations_is_limited():
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.trade(3 * sender.OPERATIONS_MAX + 3)
        await stage.requested(sender.OPERATIONS_MAX)
        await asyncio.sleep(SOON_S)
        assert len(stage.chain.requests) == sender.OPERATIONS_MAX
        stage.chain.answer(0, done)
        assert len(await stage.requested(sender.OPERATIONS_MAX + 1)) == 3


async def test_failed_trades_are_sent_again_with_a_new_operation_id(impatient):
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.trade(2)
        await stage.requested(1)
        stage.chain.answer(0, failed)
        assert await stage.requested(2) == [1, 2]
        names = [name for name, *_ in stage.chain.requests]
        assert len(set(names)) == 2
        assert list(stage.settling.operations) == names[1:]
        assert "settleTx: paused" in stage.settlement.detail
        stage.chain.answer(1, done)
        await stage.until(lambda: not stage.settlement.detail)


async def test_trade_that_always_fails_is_isolated_by_halving(impatient):
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.receive(whole())
        await stage.trade(3)
        seen, left = 0, {1, 2, 3}
        while left != {2}:
            await stage.until(lambda: len(stage.chain.requests) > seen)  # noqa: B023
            numbers = stage.numbers(seen)
            stage.chain.answer(seen, failed if 2 in numbers else done)
            seen += 1
            if 2 not in numbers:
                left -= set(numbers)
        assert seen <= 6
        await stage.until(lambda: len(stage.chain.requests) > seen)
        assert stage.numbers(seen) == [2]


async def test_unsent_trades_are_sent_before_retries(impatient):
    async with UnderWay(settle_every_s=0.001) as stage:
        await stage.start_worker()
        await stage.trade(1)
        await stage.requested(1)
        stage.chain.answer(0, failed)
        await stage.trade(1)
        stage.now_ms += 10
        await stage.until(lambda: len(stage.chain.requests) == 3)
        assert [stage.numbers(place) for place in (1, 2)] == [[2], [1]]


async def test_rejected_operation_is_retried_with_the_same_id(impatient):
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.trade(2)
        for place in range(3):
            assert await stage.requested(place + 1) == [1, 2]
            stage.chain.answer(place, rejected)
        await stage.requested(4)
        assert len({name for name, *_ in stage.chain.requests}) == 1
        assert "no money for gas" in stage.settlement.detail


async def test_operation_id_that_was_used_for_more_trades_is_replaced(impatient):
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.trade(2)
        await stage.requested(1)
        stage.chain.answer(0, lambda name: rejected(name, "IDEMPOTENCY_KEY_REUSED"))
        assert await stage.requested(2) == [1, 2]
        assert len({name for name, *_ in stage.chain.requests}) == 2


@pytest.mark.parametrize("end", [done, failed])
async def test_stuck_operation_waits_for_the_operator(impatient, end):
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.trade(2)
        await stage.requested(1)
        stage.chain.answer(0, stuck)
        await asyncio.sleep(3 * SOON_S)
        name = stage.chain.requests[0][0]
        assert list(stage.settling.operations) == [name]
        stage.settlement.sender.on_operation_end(end(name))
        if end is failed:
            assert await stage.requested(2) == [1, 2]
        else:
            assert not stage.settlement.detail


async def test_new_worker_gets_the_same_operation(impatient):
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.trade(3)
        await stage.requested(1)
        stage.chain.lose_worker()
        await stage.until(lambda: not stage.settlement.sender._running)
        await stage.start_worker()
        assert await stage.requested(2) == [1, 2, 3]
        assert stage.chain.requests[0][:2] == stage.chain.requests[1][:2]


async def test_running_operation_is_not_started_twice(impatient):
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.trade(3)
        await stage.requested(1)
        await stage.start_worker()  # the chain client repeats running operations itself
        await asyncio.sleep(SOON_S)
        assert len(stage.chain.requests) == 1


async def test_restarted_server_requests_the_same_operation(impatient):
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.trade(3)
        await stage.requested(1)
    async with stage.again() as again:
        await again.start_worker()
        await again.requested(1)
        assert again.chain.requests[0][:2] == stage.chain.requests[0][:2]


async def test_failed_operation_is_not_requested_again_by_its_old_id(impatient, monkeypatch):
    monkeypatch.setattr(sender, "PAUSE_S", 0.2)
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.trade(3)
        await stage.requested(1)
        stage.chain.answer(0, failed)
        await stage.until(lambda: not stage.settlement.sender._running)
        await stage.start_worker()
        assert await stage.requested(2) == [1, 2, 3]
        assert stage.chain.requests[0][0] != stage.chain.requests[1][0]


async def test_trades_without_a_result_are_sent_again(impatient, monkeypatch):
    monkeypatch.setattr(sender, "RESEND_AFTER_S", SOON_S)
    async with UnderWay() as stage:
        await stage.start_worker()
        await stage.receive(whole())
        await stage.trade(3)
        await stage.requested(1)
        stage.chain.answer(0, done)
        assert await stage.requested(2) == [1, 2, 3]
        stage.chain.answer(1, done)
        await stage.receive(update(2, settlements=tuple(map(stage.settled, (1, 2, 3)))))
        count = len(stage.chain.requests)
        await asyncio.sleep(3 * SOON_S)
        assert len(stage.chain.requests) == count


async def test_sender_retries_after_a_full_queue(impatient):
    async with UnderWay() as stage:
        await stage.trade(2)
        stage.engine._max_queued = 0
        await stage.start_worker()
        await asyncio.sleep(SOON_S)
        assert not stage.chain.requests
        stage.engine._max_queued = 100
        assert await stage.requested(1) == [1, 2]


async def test_worker_watches_both_tokens_of_a_market():
    async with UnderWay() as stage:
        await stage.start_worker()
        assert stage.chain.watched == [(None, "", [], ["m-yes", NO], [])]
        await stage.open("n")
        await stage.trade(2)
        assert stage.chain.watched_tokens == [["n-yes", "n-no"]]


async def test_first_market_that_settles_starts_watching():
    stage = UnderWay()
    stage.is_new = False
    async with stage:
        await stage.start_worker()
        assert not stage.chain.watched
        await stage.open("n")
        assert stage.chain.watched == [(None, "", [], ["n-yes", "n-no"], [])]


async def test_market_that_does_not_settle_holds_no_trades():
    async with UnderWay() as stage:
        await stage.open("x", settles=False, funds=Funds.NONE)
        await stage.start_worker()
        await stage.trade(3, token="x-yes")
        await stage.do(CancelAll, market="x")
        assert not stage.settling.held
        assert stage.chain.watched[0][3] == [YES, NO]


def test_settle_trades_max_is_limited_by_the_contract():
    assert read_settings({"settle_trades_max": str(FILLS_MAX)}, {}).settle_trades_max == FILLS_MAX
    with pytest.raises(SettingsError):
        read_settings({"settle_trades_max": str(FILLS_MAX + 1)}, {})
