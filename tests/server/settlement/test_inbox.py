"""The inbox: balances of the engine after updates of the chain."""

import asyncio

import pytest

from clob import Side
from clob_server.chain.events import NonceRaised, Permission, SettlementResult
from clob_server.core.commands import EndTrades, FollowChain
from clob_server.settlement import inbox, reconcile
from tests.server.engines import assert_as_logged, logged
from tests.server.settlement.underway import (
    BUYER,
    NO,
    PAYEE,
    RICH,
    SELLER,
    TX,
    USD,
    YES,
    UnderWay,
    done,
    holding,
    rests,
    run,
    start_trading,
    update,
    whole,
)

PIECE = 4


def cost(count):
    """Return the price of some trades of 100 wei at 50 cents."""
    return 50 * count


def test_one_batch_ends_trades_and_sets_balances():
    async def story():
        async with UnderWay() as stage:
            await start_trading(stage, 2)
            reported = (
                holding(BUYER, USD, RICH - cost(2)),
                holding(BUYER, YES, 200),
                holding(SELLER, USD, cost(2)),
                holding(SELLER, YES, RICH - 200),
            )
            frames = len(logged(stage.log))
            await stage.receive(
                update(2, settlements=(stage.settled(1), stage.settled(2)), holdings=reported)
            )
            [batch] = logged(stage.log)[frames:]
            assert isinstance(batch[-1], FollowChain)
            assert not stage.settling.held
            assert [each.tx for each in stage.settling.ended] == [TX, TX]
            for each in reported:
                assert stage.balance(each.wallet, each.asset) == int(each.amount)
            assert stage.settlement.inbox.difference() == 0
            assert_as_logged(stage.engine, stage.log)

    run(story())


def test_failed_trade_is_undone_and_the_orders_of_the_responsible_maker_are_cancelled():
    async def story():
        async with UnderWay() as stage:
            await start_trading(stage, 1)
            own = await stage.order(SELLER, Side.SELL, price=60)
            other = await stage.order(BUYER, Side.BUY, price=40)
            failed = stage.settled(1, "not approved", (SELLER,))
            reported = holding(SELLER, YES, 0)
            await stage.receive(update(2, settlements=(failed,), holdings=(reported,)))
            assert (rests(stage, own), rests(stage, other)) == (False, True)
            matcher = stage.exchange.matcher
            assert matcher.balance(BUYER, USD).unsettled == 0
            assert stage.balance(SELLER, YES) == 0
            [ended] = stage.settling.ended
            assert ended.reason == "not approved"
            [failure] = stage.settlement.view().failures
            assert (failure.market_id, failure.reason) == ("m", "not approved")
            assert stage.settlement.inbox.difference() == 0

    run(story())


def test_orders_of_both_responsible_makers_are_cancelled():
    async def story():
        async with UnderWay() as stage:
            await start_trading(stage, 1)
            orders = [
                await stage.order(SELLER, Side.SELL, price=60),
                await stage.order(BUYER, Side.BUY, price=40),
            ]
            await stage.receive(update(2, settlements=(stage.settled(1, "no", (SELLER, BUYER)),)))
            assert not any(rests(stage, each) for each in orders)

    run(story())


def test_both_halves_of_a_mint_end_together():
    async def story():
        async with UnderWay() as stage:
            await stage.open("p", complementary=True, lot_wei=100)
            await stage.start_worker()
            await stage.receive(whole())
            for _ in range(2):
                for token, price in (("p-yes", 40), ("p-no", 60)):
                    await stage.order(BUYER, Side.BUY, token=token, price=price)
            await stage.until(lambda: len(stage.settling.sent) == 2)
            ends = (stage.settled(1), stage.settled(3, "no"))
            tokens = [holding(BUYER, token, 100) for token in ("p-yes", "p-no")]
            reported = (*tokens, holding(BUYER, USD, RICH - 100))
            await stage.receive(update(2, settlements=ends, holdings=reported))
            assert stage.exchange.matcher.unsettled("p") == []
            assert stage.settlement.inbox.difference() == 0

    run(story())


def test_repeated_and_unknown_results_change_nothing():
    async def story():
        async with UnderWay() as stage:
            await start_trading(stage, 1)
            reported = (stage.settled(1), stage.settled(77))
            foreign = stage.settled(1)
            base, stage.settling.base = stage.settling.base, bytes(16)
            foreign = stage.settled(1)
            stage.settling.base = base
            await stage.receive(update(2, settlements=(*reported, foreign)))
            before = stage.balance(SELLER, USD)
            await stage.receive(update(3, settlements=reported))
            assert stage.balance(SELLER, USD) == before
            ends = [c for frame in logged(stage.log) for c in frame if isinstance(c, EndTrades)]
            assert [len(each.ends) for each in ends] == [1]

    run(story())


def test_trade_that_failed_and_then_settled_is_settled():
    async def story():
        async with UnderWay() as stage:
            await start_trading(stage, 1)
            await stage.receive(update(2, settlements=(stage.settled(1, "no"), stage.settled(1))))
            [ended] = stage.settling.ended
            assert ended.reason == ""

    run(story())


def test_whole_update_empties_accounts_that_it_does_not_contain():
    async def story():
        async with UnderWay() as stage:
            await start_trading(stage, 2)
            reported = (holding(BUYER, USD, 7), holding(SELLER, YES, RICH))
            settled = (stage.settled(1),)
            await stage.receive(whole(5, holdings=reported, settlements=settled))
            kept = {
                account: held.balance
                for account, held in stage.exchange.matcher.balances().items()
                if held.balance
            }
            assert kept == {(BUYER, USD): 7, (SELLER, YES): RICH}
            assert stage.settlement.inbox.difference() == 0

    run(story())


def test_accounts_in_other_assets_are_unchanged():
    async def story():
        async with UnderWay() as stage:
            await stage.start_worker()
            account = {"wallet": BUYER, "asset": "points", "amount": 5}
            await stage.do(reconcile.SetBalance, **account)
            await stage.receive(whole())
            assert stage.balance(BUYER, "points") == 5
            assert stage.settlement.inbox.difference() == 0

    run(story())


def test_messages_of_one_update_are_applied_together():
    async def story():
        async with UnderWay() as stage:
            await start_trading(stage, 1)
            frames = len(logged(stage.log))
            first = update(2, settlements=(stage.settled(1),), more=True)
            second = update(2, holdings=(holding(SELLER, USD, cost(1)),), more=True)
            third = update(2, holdings=(holding(BUYER, USD, RICH - cost(1)),))
            await stage.receive(first, second, third)
            assert len(logged(stage.log)) == frames + 1
            assert stage.balance(SELLER, USD) == cost(1)

    run(story())


def test_merge_messages_keeps_every_field():
    one = update(2, wallets=("0x1",), cancelled=("0xa",), whole=True, more=True)
    fields = {
        "settlements": (SettlementResult(trade_id="1", tx=TX),),
        "holdings": (holding(BUYER, USD, 1),),
        "permissions": (Permission(kind="gasless", owner=BUYER, other=BUYER, allowed=True),),
        "raised": (NonceRaised(maker=BUYER, nonce="1"),),
    }
    two = update(3, wallets=("0x1", "0x2"), cancelled=("0xb",), **fields)
    both = {"wallets": ("0x1", "0x2"), "cancelled": ("0xa", "0xb")}
    assert reconcile.merge_messages([one, two]) == update(3, whole=True, **both, **fields)
    assert reconcile.merge_messages([two]) is two


@pytest.mark.parametrize("is_whole", [False, True])
def test_large_update_is_split_into_batches(monkeypatch, is_whole):
    monkeypatch.setattr(reconcile, "CHUNK", PIECE)

    async def story():
        async with UnderWay() as stage:
            await start_trading(stage, 9)
            reported = [holding(f"0x{place}", USD, place) for place in range(1, 11)]
            reported += [holding(BUYER, USD, RICH - cost(9)), holding(BUYER, YES, 900)]
            reported += [holding(SELLER, YES, RICH - 900), holding(SELLER, USD, cost(9))]
            reported += [holding(maker, NO, RICH) for maker in (BUYER, SELLER)]
            ends = tuple(stage.settled(number) for number in range(1, 10))
            frames = len(logged(stage.log))
            await stage.receive(
                update(2, settlements=ends, holdings=tuple(reported), whole=is_whole)
            )
            assert not stage.settling.held
            assert stage.settlement.inbox.difference() == 0
            batches = logged(stage.log)[frames:]
            assert len(batches) > 4
            assert all(len(batch) <= PIECE + 2 for batch in batches)
            assert [isinstance(c, FollowChain) for c in batches[-1]] == [True]
            assert_as_logged(stage.engine, stage.log)

    run(story())


def test_unwatched_accounts_are_emptied_after_settlement():
    async def story():
        async with UnderWay() as stage:
            terms = {"incoming_fee_rate_bps": 100, "resting_fee_rate_bps": 100}
            await stage.open("f", **terms)
            await stage.do(reconcile.SetBalance, wallet=SELLER, asset="f-yes", amount=10**6)
            await stage.start_worker()
            await stage.order(SELLER, Side.SELL, token="f-yes", size=10**6, smart_wallet=PAYEE)
            await stage.order(BUYER, Side.BUY, token="f-yes", size=10**6)
            await stage.until(lambda: stage.settling.sent)
            reported = [holding(BUYER, USD, RICH - 500_000), holding(BUYER, "f-yes", 990_000)]
            reported += [holding(SELLER, "f-yes", 0)]
            await stage.receive(
                whole(holdings=(*whole().holdings, holding(SELLER, "f-yes", 10**6)))
            )
            await stage.receive(
                update(2, settlements=(stage.settled(1),), holdings=tuple(reported))
            )
            assert stage.balance(PAYEE, USD) == stage.balance("fees", USD) == 0
            assert stage.balance("fees", "f-yes") == 0
            assert stage.settlement.inbox.difference() == 0

    run(story())


# ----- status --------------------------------------------------------------------------------


def test_difference_counts_accounts_and_trades():
    async def story():
        async with UnderWay() as stage:
            await start_trading(stage, 1)
            assert stage.settlement.inbox.difference() == 0
            for wallet, amount in ((BUYER, 1), ("0xNEW", 2)):
                await stage.do(reconcile.SetBalance, wallet=wallet, asset=USD, amount=amount)
            assert stage.settlement.inbox.difference() == 2
            stage.settling.held.clear()
            assert stage.settlement.inbox.difference() == 3

    run(story())


def test_background_comparison_finds_differences(monkeypatch):
    monkeypatch.setattr(inbox, "COMPARE_S", 0.001)
    monkeypatch.setattr(reconcile, "CHUNK", PIECE)

    async def story():
        async with UnderWay() as stage:
            await start_trading(stage, 1)
            reported = tuple(holding(f"0x{place}", USD, place) for place in range(3 * PIECE))
            await stage.receive(update(2, holdings=reported))
            await asyncio.sleep(0.05)
            assert stage.settlement.inbox.num_differences == 0
            for wallet in ("0x1", "0x9"):
                await stage.do(reconcile.SetBalance, wallet=wallet, asset=USD, amount=77)
            await stage.until(lambda: stage.settlement.inbox.num_differences == 2)
            await stage.receive(update(3, holdings=reported))
            await stage.until(lambda: stage.settlement.inbox.num_differences == 0)

    run(story())


def test_view_shows_pending_trades():
    async def story():
        async with UnderWay(settle_every_s=3600.0) as stage:
            await stage.start_worker()
            await stage.receive(whole())
            await stage.trade(4)
            await stage.requested(1)
            stage.now_ms += 500
            view = stage.settlement.view()
            assert (view.pending, view.submitted, view.oldest_ms) == (1, 3, 500)
            assert view.operations == [stage.chain.requests[0][0]]
            assert (view.block, view.wallets, view.difference) == (1, 2, 0)
            stage.chain.answer(0, done)
            reported = tuple(stage.settled(number) for number in (1, 2, 3))
            await stage.receive(update(2, settlements=reported))
            page = stage.metrics.page().decode()
            assert 'clob_settlements_total{outcome="settled"} 3.0' in page
            assert "clob_settlement_seconds_count 3.0" in page

    run(story())
