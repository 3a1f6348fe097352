"""Workers, sequencers and servers that stop during an update: lost updates are sent again."""

import asyncio

from clob_server.core.commands import FollowChain
from tests.server.engines import logged
from tests.server.settlement.underway import (
    BUYER,
    SELLER,
    USD,
    UnderWay,
    holding,
    start_trading,
    update,
    whole,
)


async def test_new_worker_finishes_the_current_update_and_drops_queued_ones():
    async with UnderWay() as stage:
        await start_trading(stage, 1)
        stage.engine._max_queued = 0
        for block, amount in ((2, 20), (3, 30)):
            reported = update(block, holdings=(holding("0xC", USD, amount),))
            stage.settlement.inbox.receive(reported)
        await asyncio.sleep(0.02)
        stage.engine._max_queued = 100
        await stage.start_worker()
        assert stage.chain.watched[-1][0] == 2
        await stage.receive(whole(5))
        commands = [c for frame in logged(stage.log) for c in frame]
        assert [c.block for c in commands if isinstance(c, FollowChain)] == [1, 2, 5]
        assert stage.balance("0xC", USD) == 0


async def test_incomplete_update_of_a_stopped_worker_is_dropped_and_repeated():
    async with UnderWay() as stage:
        await start_trading(stage, 2)
        receive = stage.settlement.inbox.receive
        gone = (holding("0xGONE", USD, 5),)
        receive(update(2, settlements=(stage.settled(1),), holdings=gone, more=True))
        await stage.start_worker()
        assert stage.chain.watched[-1][:2] == (1, whole().hash)
        assert stage.chain.watched[-1][2] == [BUYER, SELLER]
        again = (SELLER, "0xNEW", BUYER)
        receive(whole(3, settlements=(stage.settled(1), stage.settled(2)), wallets=again))
        await stage.until(lambda: stage.settling.block == 3)
        assert not stage.settling.held
        *_, followed = (c for f in logged(stage.log) for c in f if isinstance(c, FollowChain))
        assert followed.wallets == ("0xNEW",)
        assert stage.balance("0xGONE", USD) == 0


async def test_update_waits_for_a_full_queue():
    async with UnderWay() as stage:
        await start_trading(stage, 1)
        stage.engine._max_queued = 0
        stage.settlement.inbox.receive(update(2, settlements=(stage.settled(1),)))
        await asyncio.sleep(0.02)
        assert stage.settling.held
        stage.engine._max_queued = 100
        await stage.until(lambda: stage.settling.block == 2)
        assert not stage.settling.held


async def test_update_after_the_sequencer_stopped_is_applied_at_the_next_start():
    stage = UnderWay()
    async with stage:
        await start_trading(stage, 1)
        stage.engine.stop()
        stage.settlement.inbox.receive(update(2, settlements=(stage.settled(1),)))
        await stage.until(lambda: not stage.settlement.inbox.is_open)
        assert stage.settlement.inbox.error == ""
    async with stage.again() as again:
        await again.start_worker()
        assert again.chain.watched[-1][0] == 1
        await again.receive(whole(2, settlements=(again.settled(1),)))
        assert not again.settling.held


async def test_invalid_update_stops_the_inbox_with_an_error():
    async with UnderWay() as stage:
        await start_trading(stage, 1)
        before = stage.exchange.snapshot()
        stage.settlement.inbox.receive(update(2, holdings=(holding(BUYER, USD, "much"),)))
        await stage.until(lambda: not stage.settlement.inbox.is_open)
        assert "no longer applied" in stage.settlement.detail
        assert stage.exchange.snapshot() == before
        await stage.start_worker()
        assert stage.settlement.detail == ""
