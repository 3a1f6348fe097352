"""Which trades go to the chain when, under which name, and what happens when it does not take them.

The chain here does as the test says; ``tests/chain/test_server_settlement.py`` has real ones.
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
from tests.server.underway import (
    BUYER,
    NO,
    RICH,
    SELLER,
    YES,
    UnderWay,
    done,
    failed,
    news,
    refused,
    stuck,
    whole,
)

SOON_S = 0.02


@pytest.fixture
def impatient(monkeypatch):
    """Pauses that a test can wait for."""
    monkeypatch.setattr(sender, "PAUSE_S", SOON_S)
    monkeypatch.setattr(sender, "HOLD_MAX_S", SOON_S)
    monkeypatch.setattr(sender, "POLL_S", SOON_S)


async def test_a_full_batch_goes_at_once_and_the_rest_after_its_time():
    async with UnderWay(settle_every_s=0.3) as stage:
        await stage.rise()
        await stage.trade(4)
        assert await stage.asked(1) == [1, 2, 3]
        assert list(stage.settling.sent) == [1, 2, 3]
        await asyncio.sleep(SOON_S)
        assert len(stage.chain.asked) == 1
        stage.now_ms += 300
        assert await stage.asked(2) == [4]


async def test_a_clock_that_steps_back_holds_nothing_up():
    async with UnderWay() as stage:
        await stage.rise()
        stage.now_ms += 3_600_000
        await stage.order(SELLER, Side.SELL)
        await stage.order(BUYER, Side.BUY)
        stage.now_ms -= 3_600_000
        assert await stage.asked(1) == [1]


async def test_it_is_noted_before_the_chain_is_asked():
    async with UnderWay() as stage:
        await stage.rise()
        await stage.trade(2)
        await stage.asked(1)
        noted = [c for frame in logged(stage.log) for c in frame if isinstance(c, SendTrades)]
        [command] = noted
        assert command.operation == stage.chain.asked[0][0]
        assert list(command.trades) == stage.numbers(0)


async def test_a_mint_goes_as_one():
    async with UnderWay() as stage:
        await stage.open("p", complementary=True, lot_wei=100)
        await stage.rise()
        for token, price in (("p-yes", 40), ("p-no", 60)):
            await stage.order(BUYER, Side.BUY, token=token, price=price)
        assert await stage.asked(1) == [1]
        [held] = stage.settling.held.values()
        assert [half.number for half in held.halves] == [1, 2]


def test_trades_wait_until_their_market_is_on_the_chain(impatient):
    async def story():
        async with UnderWay() as stage:
            await stage.open("n")
            for maker, asset in ((BUYER, "usd"), (SELLER, "n-yes")):
                await stage.do(SetBalance, wallet=maker, asset=asset, amount=RICH)
            stage.states["m"] = OnChain.PREPARING
            await stage.rise()
            await stage.trade(2)
            await stage.trade(1, token="n-yes")
            assert await stage.asked(1) == [3]
            stage.states["m"] = OnChain.PREPARED
            assert await stage.asked(2) == [1, 2]


async def test_what_cannot_be_prepared_is_not_sent_and_what_cannot_be_reported_is(impatient):
    async with UnderWay() as stage:
        stage.states["m"] = OnChain.STUCK
        await stage.rise()
        await stage.trade(2)
        await asyncio.sleep(3 * SOON_S)
        assert not stage.chain.asked
        await stage.do(SetOutcome, market="m", outcome="yes")
        assert await stage.asked(1) == [1, 2]


@pytest.mark.parametrize("gone", ["worker", "exchange"])
async def test_trades_wait_where_nothing_can_be_asked(impatient, gone):
    async with UnderWay() as stage:
        if gone == "exchange":
            stage.chain.addresses.exchange = ""
        await stage.rise()
        stage.chain.is_open = gone == "exchange"
        await stage.trade(2)
        await asyncio.sleep(3 * SOON_S)
        assert not stage.chain.asked
        assert stage.settlement.view().pending == 2
        stage.chain.addresses.exchange = "0xE"
        await stage.rise()
        assert await stage.asked(1) == [1, 2]


async def test_no_more_operations_are_under_way_than_so_many():
    async with UnderWay() as stage:
        await stage.rise()
        await stage.trade(3 * sender.OPERATIONS_MAX + 3)
        await stage.asked(sender.OPERATIONS_MAX)
        await asyncio.sleep(SOON_S)
        assert len(stage.chain.asked) == sender.OPERATIONS_MAX
        stage.chain.answer(0, done)
        assert len(await stage.asked(sender.OPERATIONS_MAX + 1)) == 3


async def test_what_failed_as_a_whole_goes_again_under_another_name(impatient):
    async with UnderWay() as stage:
        await stage.rise()
        await stage.trade(2)
        await stage.asked(1)
        stage.chain.answer(0, failed)
        assert await stage.asked(2) == [1, 2]
        names = [name for name, *_ in stage.chain.asked]
        assert len(set(names)) == 2
        assert list(stage.settling.operations) == names[1:]
        assert "settleTx: paused" in stage.settlement.detail
        stage.chain.answer(1, done)
        await stage.until(lambda: not stage.settlement.detail)


async def test_a_trade_that_no_transaction_takes_is_alone_in_the_end(impatient):
    async with UnderWay() as stage:
        await stage.rise()
        await stage.hear(whole())
        await stage.trade(3)
        seen, left = 0, {1, 2, 3}
        while left != {2}:
            await stage.until(lambda: len(stage.chain.asked) > seen)  # noqa: B023
            numbers = stage.numbers(seen)
            stage.chain.answer(seen, failed if 2 in numbers else done)
            seen += 1
            if 2 not in numbers:
                left -= set(numbers)
        assert seen <= 6
        await stage.until(lambda: len(stage.chain.asked) > seen)
        assert stage.numbers(seen) == [2]


async def test_new_trades_go_before_those_that_failed(impatient):
    async with UnderWay(settle_every_s=0.001) as stage:
        await stage.rise()
        await stage.trade(1)
        await stage.asked(1)
        stage.chain.answer(0, failed)
        await stage.trade(1)
        stage.now_ms += 10
        await stage.until(lambda: len(stage.chain.asked) == 3)
        assert [stage.numbers(place) for place in (1, 2)] == [[2], [1]]


async def test_what_is_refused_is_asked_for_again_under_its_name(impatient):
    async with UnderWay() as stage:
        await stage.rise()
        await stage.trade(2)
        for place in range(3):
            assert await stage.asked(place + 1) == [1, 2]
            stage.chain.answer(place, refused)
        await stage.asked(4)
        assert len({name for name, *_ in stage.chain.asked}) == 1
        assert "no money for gas" in stage.settlement.detail


async def test_a_name_that_stands_for_more_trades_is_given_up(impatient):
    async with UnderWay() as stage:
        await stage.rise()
        await stage.trade(2)
        await stage.asked(1)
        stage.chain.answer(0, lambda name: refused(name, "IDEMPOTENCY_KEY_REUSED"))
        assert await stage.asked(2) == [1, 2]
        assert len({name for name, *_ in stage.chain.asked}) == 2


@pytest.mark.parametrize("end", [done, failed])
async def test_what_is_stuck_waits_for_the_operator(impatient, end):
    async with UnderWay() as stage:
        await stage.rise()
        await stage.trade(2)
        await stage.asked(1)
        stage.chain.answer(0, stuck)
        await asyncio.sleep(3 * SOON_S)
        name = stage.chain.asked[0][0]
        assert list(stage.settling.operations) == [name]
        stage.settlement.sender.on_operation_end(end(name))
        if end is failed:
            assert await stage.asked(2) == [1, 2]
        else:
            assert not stage.settlement.detail


async def test_a_worker_that_comes_again_is_asked_for_the_same(impatient):
    async with UnderWay() as stage:
        await stage.rise()
        await stage.trade(3)
        await stage.asked(1)
        stage.chain.lose_worker()
        await stage.until(lambda: not stage.settlement.sender._running)
        await stage.rise()
        assert await stage.asked(2) == [1, 2, 3]
        assert stage.chain.asked[0][:2] == stage.chain.asked[1][:2]


async def test_what_is_still_waited_for_is_not_begun_twice(impatient):
    async with UnderWay() as stage:
        await stage.rise()
        await stage.trade(3)
        await stage.asked(1)
        await stage.rise()  # who waits is asked for by the link itself
        await asyncio.sleep(SOON_S)
        assert len(stage.chain.asked) == 1


async def test_a_server_that_comes_again_asks_for_the_same(impatient):
    async with UnderWay() as stage:
        await stage.rise()
        await stage.trade(3)
        await stage.asked(1)
    async with stage.again() as again:
        await again.rise()
        await again.asked(1)
        assert again.chain.asked[0][:2] == stage.chain.asked[0][:2]


async def test_what_failed_is_not_asked_for_by_its_old_name(impatient, monkeypatch):
    monkeypatch.setattr(sender, "PAUSE_S", 0.2)
    async with UnderWay() as stage:
        await stage.rise()
        await stage.trade(3)
        await stage.asked(1)
        stage.chain.answer(0, failed)
        await stage.until(lambda: not stage.settlement.sender._running)
        await stage.rise()
        assert await stage.asked(2) == [1, 2, 3]
        assert stage.chain.asked[0][0] != stage.chain.asked[1][0]


async def test_trades_of_which_nothing_is_heard_go_again(impatient, monkeypatch):
    monkeypatch.setattr(sender, "RESEND_AFTER_S", SOON_S)
    async with UnderWay() as stage:
        await stage.rise()
        await stage.hear(whole())
        await stage.trade(3)
        await stage.asked(1)
        stage.chain.answer(0, done)
        assert await stage.asked(2) == [1, 2, 3]
        stage.chain.answer(1, done)
        await stage.hear(news(2, settlements=tuple(map(stage.settled, (1, 2, 3)))))
        count = len(stage.chain.asked)
        await asyncio.sleep(3 * SOON_S)
        assert len(stage.chain.asked) == count


async def test_an_engine_that_is_full_is_asked_again(impatient):
    async with UnderWay() as stage:
        await stage.trade(2)
        stage.engine._max_queued = 0
        await stage.rise()
        await asyncio.sleep(SOON_S)
        assert not stage.chain.asked
        stage.engine._max_queued = 100
        assert await stage.asked(1) == [1, 2]


async def test_both_tokens_go_to_the_worker():
    async with UnderWay() as stage:
        await stage.rise()
        assert stage.chain.watched == [(None, "", [], ["m-yes", NO], [])]
        await stage.open("n")
        await stage.trade(2)
        assert stage.chain.looked_at == [["n-yes", "n-no"]]


async def test_the_first_market_begins_it_all():
    stage = UnderWay()
    stage.is_new = False
    async with stage:
        await stage.rise()
        assert not stage.chain.watched
        await stage.open("n")
        assert stage.chain.watched == [(None, "", [], ["n-yes", "n-no"], [])]


async def test_a_market_that_does_not_settle_costs_nothing_here():
    async with UnderWay() as stage:
        await stage.open("x", settles=False, funds=Funds.NONE)
        await stage.rise()
        await stage.trade(3, token="x-yes")
        await stage.do(CancelAll, market="x")
        assert not stage.settling.held
        assert stage.chain.watched[0][3] == [YES, NO]


def test_a_transaction_takes_no_more_trades_than_the_contract():
    assert read_settings({"settle_trades_max": str(FILLS_MAX)}, {}).settle_trades_max == FILLS_MAX
    with pytest.raises(SettingsError):
        read_settings({"settle_trades_max": str(FILLS_MAX + 1)}, {})
