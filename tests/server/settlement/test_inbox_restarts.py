"""Workers, sequencers and servers that stop during an update: lost updates are sent again."""

import asyncio

from clob_server.core.commands import FollowChain
from tests.server.engines import logged
from tests.server.settlement.harness import (
    BUYER,
    SELLER,
    USD,
    SettlementHarness,
    first_update,
    holding,
    start_trading,
    update,
)


async def test_new_worker_finishes_the_current_update_and_drops_queued_ones():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        harness.engine._max_queued = 0
        for block, amount in ((2, 20), (3, 30)):
            reported = update(block, holdings=(holding("0xC", USD, amount),))
            harness.settlement.inbox.receive(reported)
        await asyncio.sleep(0.02)
        harness.engine._max_queued = 100
        await harness.start_worker()
        assert harness.chain.watched[-1].after_block == 2
        await harness.receive(first_update(5))
        commands = [c for frame in logged(harness.log) for c in frame]
        assert [c.block for c in commands if isinstance(c, FollowChain)] == [1, 2, 5]
        assert harness.balance("0xC", USD) == 0


async def test_incomplete_update_of_a_stopped_worker_is_dropped_and_repeated():
    async with SettlementHarness() as harness:
        await start_trading(harness, 2)
        receive = harness.settlement.inbox.receive
        holdings = (holding("0xGONE", USD, 5),)
        receive(update(2, settlements=(harness.settled(1),), holdings=holdings, more=True))
        await harness.start_worker()
        message = harness.chain.watched[-1]
        assert (message.after_block, message.block_hash) == (1, first_update().hash)
        assert message.wallets == [BUYER, SELLER]
        wallets = (SELLER, "0xNEW", BUYER)
        receive(
            first_update(3, settlements=(harness.settled(1), harness.settled(2)), wallets=wallets)
        )
        await harness.wait_until(lambda: harness.settling.block == 3)
        assert not harness.settling.held
        *_, followed = (c for f in logged(harness.log) for c in f if isinstance(c, FollowChain))
        assert followed.wallets == ("0xNEW",)
        assert harness.balance("0xGONE", USD) == 0


async def test_update_waits_for_a_full_queue():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        harness.engine._max_queued = 0
        harness.settlement.inbox.receive(update(2, settlements=(harness.settled(1),)))
        await asyncio.sleep(0.02)
        assert harness.settling.held
        harness.engine._max_queued = 100
        await harness.wait_until(lambda: harness.settling.block == 2)
        assert not harness.settling.held


async def test_update_after_the_sequencer_stopped_is_applied_at_the_next_start():
    harness = SettlementHarness()
    async with harness:
        await start_trading(harness, 1)
        harness.engine.stop()
        harness.settlement.inbox.receive(update(2, settlements=(harness.settled(1),)))
        await harness.wait_until(lambda: harness.settlement.inbox._queue is None)
        assert harness.settlement.inbox.error == ""
    async with harness.recovered() as recovered:
        await recovered.start_worker()
        assert recovered.chain.watched[-1].after_block == 1
        await recovered.receive(first_update(2, settlements=(recovered.settled(1),)))
        assert not recovered.settling.held


async def test_invalid_update_stops_the_inbox_with_an_error():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        before = harness.exchange.snapshot()
        harness.settlement.inbox.receive(update(2, holdings=(holding(BUYER, USD, "much"),)))
        await harness.wait_until(lambda: harness.settlement.inbox._queue is None)
        assert "no longer applied" in harness.settlement.detail
        assert harness.exchange.snapshot() == before
        await harness.start_worker()
        assert harness.settlement.detail == ""
