"""Workers, engines and servers that go while news are taken: what was not taken is told again."""

import asyncio

from clob_server.core.commands import FollowChain
from tests.server.engines import logged
from tests.server.underway import (
    BUYER,
    SELLER,
    USD,
    UnderWay,
    begun,
    holding,
    news,
    whole,
)


async def test_what_is_on_its_way_is_waited_for_and_what_waits_is_dropped():
    async with UnderWay() as stage:
        await begun(stage, 1)
        stage.engine._max_queued = 0
        for block, amount in ((2, 20), (3, 30)):
            told = news(block, holdings=(holding("0xC", USD, amount),))
            stage.settlement.inbox.receive(told)
        await asyncio.sleep(0.02)
        stage.engine._max_queued = 100
        await stage.rise()
        assert stage.chain.watched[-1][0] == 2
        await stage.hear(whole(5))
        commands = [c for frame in logged(stage.log) for c in frame]
        assert [c.block for c in commands if isinstance(c, FollowChain)] == [1, 2, 5]
        assert stage.balance("0xC", USD) == 0


async def test_what_a_worker_said_that_is_gone_is_dropped_and_said_again():
    async with UnderWay() as stage:
        await begun(stage, 2)
        hear = stage.settlement.inbox.receive
        gone = (holding("0xGONE", USD, 5),)
        hear(news(2, settlements=(stage.settled(1),), holdings=gone, more=True))
        await stage.rise()
        assert stage.chain.watched[-1][:2] == (1, whole().hash)
        assert stage.chain.watched[-1][2] == [BUYER, SELLER]
        again = (SELLER, "0xNEW", BUYER)
        hear(whole(3, settlements=(stage.settled(1), stage.settled(2)), wallets=again))
        await stage.until(lambda: stage.settling.block == 3)
        assert not stage.settling.held
        *_, followed = (c for f in logged(stage.log) for c in f if isinstance(c, FollowChain))
        assert followed.wallets == ("0xNEW",)
        assert stage.balance("0xGONE", USD) == 0


async def test_an_engine_that_is_full_hears_it_later():
    async with UnderWay() as stage:
        await begun(stage, 1)
        stage.engine._max_queued = 0
        stage.settlement.inbox.receive(news(2, settlements=(stage.settled(1),)))
        await asyncio.sleep(0.02)
        assert stage.settling.held
        stage.engine._max_queued = 100
        await stage.until(lambda: stage.settling.block == 2)
        assert not stage.settling.held


async def test_an_engine_that_has_stopped_hears_it_at_the_next_start():
    stage = UnderWay()
    async with stage:
        await begun(stage, 1)
        stage.engine.stop()
        stage.settlement.inbox.receive(news(2, settlements=(stage.settled(1),)))
        await stage.until(lambda: not stage.settlement.inbox.is_open)
        assert stage.settlement.inbox.error == ""
    async with stage.again() as again:
        await again.rise()
        assert again.chain.watched[-1][0] == 1
        await again.hear(whole(2, settlements=(again.settled(1),)))
        assert not again.settling.held


async def test_news_that_make_no_sense_end_the_hearing_and_say_so():
    async with UnderWay() as stage:
        await begun(stage, 1)
        before = stage.exchange.snapshot()
        stage.settlement.inbox.receive(news(2, holdings=(holding(BUYER, USD, "much"),)))
        await stage.until(lambda: not stage.settlement.inbox.is_open)
        assert "not followed" in stage.settlement.detail
        assert stage.exchange.snapshot() == before
        await stage.rise()
        assert stage.settlement.detail == ""
