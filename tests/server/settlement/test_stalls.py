"""Escrow markets stop matching while trades or blocks are late, and open again by themselves."""

import asyncio
import contextlib

import pytest

from clob import Cancel, Mode, RemoveMarket, SetBalance, SetMode, Side
from clob.errors import MarketNotOpenError
from clob_server.chain.eth import exchange_abi
from clob_server.chain.events import Watched, escrow_asset
from clob_server.core.commands import (
    AdvanceClock,
    RecordCustody,
    StallMarket,
    decode_own,
    encode,
)
from clob_server.core.registry import Stall
from clob_server.log import LogDamagedError
from clob_server.settlement import stalls
from clob_server.settlement.stalls import LIMIT_MS
from tests.server.engines import assert_as_logged, logged
from tests.server.settlement.harness import (
    BUYER,
    NOW_MS,
    RICH,
    SELLER,
    SettlementHarness,
    first_update,
    holding,
    is_resting,
    update,
)

ESCROW = escrow_asset("usd")
OTHER_CHAIN = 137
TOKEN = "e-yes"


@contextlib.asynccontextmanager
async def running_escrow(**settings):
    """Run an escrow market ``e`` beside the wallet market, with blocks that were just seen."""
    async with SettlementHarness(**settings) as harness:
        harness.engine.subscribe(harness.settlement.stalls.on_batch)
        await harness.open("e", collateral=ESCROW)
        await harness.start_worker()
        await harness.receive(complete_update())
        await see_block(harness)
        yield harness


def complete_update(block=1, **fields):
    """Return a complete update, with the escrow of a buyer and a seller."""
    rich = (holding(BUYER, ESCROW, RICH), holding(SELLER, TOKEN, RICH))
    return first_update(block, holdings=(*first_update().holdings, *rich), **fields)


async def see_block(harness, age_ms=0):
    """Have the worker read the chain up to a block of some age."""
    before = harness.settlement.stalls._seen_ms
    time_s = (harness.now_ms - age_ms) // 1_000
    harness.settlement.inbox.receive(Watched(block=1, time_s=time_s))
    await asyncio.sleep(0.01)
    return harness.settlement.stalls._seen_ms != before


def mode_of(harness, name="e"):
    return harness.exchange.markets[name].mode


def stops(harness):
    """Return the markets that the logged commands stopped, and the mode before each, in order."""
    commands = [command for frame in logged(harness.log) for command in frame]
    return [
        (commands[place - 1].mode, command.market)
        for place, command in enumerate(commands)
        if isinstance(command, StallMarket)
    ]


async def buy(harness, **fields):
    return await harness.order(BUYER, Side.BUY, token=TOKEN, **fields)


async def sell(harness, **fields):
    return await harness.order(SELLER, Side.SELL, token=TOKEN, **fields)


def test_delay_is_that_of_the_contract():
    assert stalls.DELAY_S == exchange_abi.DELAY_S


async def test_first_order_after_the_limit_is_rejected_and_cancels_go_on():
    async with running_escrow(settle_every_s=3600.0) as harness:
        await sell(harness)
        resting = await sell(harness, price=60)
        await buy(harness)
        harness.now_ms += LIMIT_MS
        await see_block(harness)
        await buy(harness, price=40)  # not older than the limit yet
        harness.now_ms += 1
        with pytest.raises(MarketNotOpenError):
            await buy(harness, price=60)
        assert stops(harness) == [(Mode.CANCEL_ONLY, "e")]
        stall = harness.exchange.registry.stalls["e"]
        assert stall == Stall(harness.now_ms, "a trade is unsettled for more than 150 s")
        await harness.do(Cancel, order_id=resting, maker=SELLER)
        assert not is_resting(harness, resting)
        assert_as_logged(harness.engine, harness.log)


async def test_wallet_market_goes_on_matching():
    async with running_escrow(settle_every_s=3600.0) as harness:
        await harness.trade()
        harness.now_ms += 10 * LIMIT_MS
        await harness.order(SELLER, Side.SELL)
        assert (mode_of(harness, "m"), mode_of(harness)) == (Mode.OPEN, Mode.CANCEL_ONLY)


async def test_market_opens_again_once_its_trades_are_settled():
    async with running_escrow(settle_every_s=3600.0) as harness:
        await sell(harness)
        await buy(harness)
        harness.now_ms += LIMIT_MS + 1
        await see_block(harness)
        with pytest.raises(MarketNotOpenError):
            await buy(harness)
        assert mode_of(harness) is Mode.CANCEL_ONLY
        await harness.receive(update(2, settlements=(harness.settled(1),)))
        harness.now_ms += stalls.PAUSE_MS
        resting = await buy(harness)
        assert (mode_of(harness), is_resting(harness, resting)) == (Mode.OPEN, True)
        assert harness.exchange.registry.stalls == {}
        assert_as_logged(harness.engine, harness.log)


async def test_market_stops_while_no_block_is_seen():
    async with running_escrow() as harness:
        harness.now_ms += LIMIT_MS + 1
        with pytest.raises(MarketNotOpenError):
            await buy(harness)
        reason = harness.exchange.registry.stalls["e"].reason
        assert reason == "no block of the chain was seen for more than 150 s"
        await see_block(harness)
        harness.now_ms += stalls.PAUSE_MS
        await buy(harness)


async def test_block_counts_by_its_time_except_on_a_development_chain():
    async with running_escrow(chain_id=OTHER_CHAIN) as harness:
        harness.now_ms += LIMIT_MS
        assert not await see_block(harness, age_ms=2 * LIMIT_MS)
        assert await see_block(harness, age_ms=10_000)
        assert harness.settlement.stalls.block_age_ms == 10_000
        await see_block(harness, age_ms=-60_000)  # the clock of the node is ahead
        assert harness.settlement.stalls.block_age_ms == 0
    async with running_escrow() as harness:
        harness.now_ms += LIMIT_MS
        await see_block(harness, age_ms=2 * LIMIT_MS)
        assert harness.settlement.stalls.block_age_ms == 0


async def test_reading_that_is_not_applied_yet_does_not_count():
    async with running_escrow() as harness:
        harness.now_ms += LIMIT_MS + 1
        harness.settlement.inbox.error = "broken"
        harness.settlement.inbox._queue = None
        assert not await see_block(harness)


async def test_quiet_market_stops_and_opens_without_orders(monkeypatch):
    monkeypatch.setattr(stalls, "TICK_S", 0.01)
    async with running_escrow() as harness:
        running = asyncio.create_task(harness.settlement.stalls.run())
        harness.now_ms += LIMIT_MS + 1
        await harness.wait_until(lambda: mode_of(harness) is Mode.CANCEL_ONLY)
        assert harness.settlement.view().stalled == ["e"]
        await see_block(harness)
        await harness.wait_until(lambda: mode_of(harness) is Mode.OPEN)
        num_commands = harness.engine.seq
        await asyncio.sleep(0.1)
        assert harness.engine.seq == num_commands
        running.cancel()


@pytest.mark.parametrize("mode", [Mode.HALTED, Mode.CANCEL_ONLY, Mode.RESOLVED])
async def test_mode_of_an_operator_stays(mode):
    async with running_escrow() as harness:
        harness.now_ms += LIMIT_MS + 1
        with pytest.raises(MarketNotOpenError):
            await buy(harness)
        await harness.do(SetMode, market="e", mode=mode)
        assert harness.exchange.registry.stalls == {}
        await see_block(harness)
        harness.now_ms += 1_000
        await harness.do(SetBalance, wallet="0x1", asset=ESCROW, amount=1)
        assert mode_of(harness) is mode


async def test_market_that_is_opened_too_early_stops_again():
    async with running_escrow() as harness:
        await harness.do(SetMode, market="e", mode=Mode.HALTED)
        harness.now_ms += LIMIT_MS + 1
        await harness.do(SetMode, market="e", mode=Mode.OPEN)
        with pytest.raises(MarketNotOpenError):
            await buy(harness)
        assert stops(harness) == [(Mode.CANCEL_ONLY, "e")]


async def test_time_moved_forward_is_no_missing_block():
    async with running_escrow() as harness:
        await harness.do(AdvanceClock, advance_ms=10 * LIMIT_MS)
        harness.now_ms += 10 * LIMIT_MS
        await buy(harness)
        assert mode_of(harness) is Mode.OPEN


async def test_withdrawn_result_of_an_old_trade_stops_the_market():
    async with running_escrow(settle_every_s=3600.0) as harness:
        await sell(harness)
        await buy(harness)
        result = harness.settled(1)
        result = type(result)(trade_id=result.trade_id, tx=result.tx, block=2)
        await harness.receive(update(2, settlements=(result,)))
        harness.now_ms += LIMIT_MS + 1
        await see_block(harness)
        await buy(harness, price=30)
        await harness.receive(complete_update(3, after_block=1))
        with pytest.raises(MarketNotOpenError):
            await buy(harness, price=30)


async def test_restart_after_a_long_stop_stops_markets_before_the_first_order():
    async with running_escrow() as harness:
        resting = await sell(harness)
    async with harness.recovered() as again:
        again.now_ms = NOW_MS + LIMIT_MS + 1
        with pytest.raises(MarketNotOpenError):
            await buy(again)
        assert is_resting(again, resting)
        await again.start_worker()
        await again.receive(complete_update(2))
        await see_block(again)
        again.now_ms += stalls.PAUSE_MS
        await buy(again, price=30)
        assert mode_of(again.recovered()) is Mode.OPEN


async def test_restart_within_the_limit_stops_nothing():
    async with running_escrow() as harness:
        await sell(harness)
    async with harness.recovered() as again:
        again.now_ms = NOW_MS + LIMIT_MS
        await buy(again, price=30)
        assert mode_of(again) is Mode.OPEN


async def test_restart_opens_no_market_before_a_new_block_was_seen():
    async with running_escrow(chain_id=OTHER_CHAIN) as harness:
        harness.now_ms += LIMIT_MS + 1
        with pytest.raises(MarketNotOpenError):
            await buy(harness)
    async with harness.recovered(chain_id=OTHER_CHAIN) as again:
        again.now_ms = harness.now_ms + stalls.PAUSE_MS
        with pytest.raises(MarketNotOpenError):
            await buy(again)
        await again.start_worker()
        await again.receive(complete_update(2))
        await see_block(again, age_ms=LIMIT_MS + 1_000)
        again.now_ms += stalls.PAUSE_MS
        with pytest.raises(MarketNotOpenError):
            await buy(again)
        await see_block(again)
        again.now_ms += stalls.PAUSE_MS
        await buy(again)
        assert mode_of(again) is Mode.OPEN


async def test_removed_market_is_forgotten():
    async with running_escrow() as harness:
        await harness.do(SetMode, market="e", mode=Mode.RESOLVED)
        await harness.do(RemoveMarket, market="e")
        harness.now_ms += LIMIT_MS + 1
        await harness.do(SetBalance, wallet="0x1", asset=ESCROW, amount=1)
        assert stops(harness) == []


async def test_stop_outlives_a_crash():
    async with running_escrow() as harness:
        harness.now_ms += LIMIT_MS + 1
        with pytest.raises(MarketNotOpenError):
            await buy(harness)
        again = harness.recovered()
        assert again.exchange.registry.stalls == harness.exchange.registry.stalls
        assert mode_of(again) is Mode.CANCEL_ONLY


def test_older_server_rejects_the_commands_in_words(monkeypatch):
    newer = (RecordCustody(market="e", custody="escrow"), StallMarket(market="e", reason="r"))
    encoded = [encode(command) for command in newer]
    monkeypatch.setattr("clob_server.core.commands._UNPACK", {})
    for raw, kind in zip(encoded, (146, 147), strict=True):
        with pytest.raises(LogDamagedError, match=f"unknown command kind {kind}"):
            decode_own(raw)
