"""The inbox: balances of the engine after updates of the chain."""

import asyncio

import pytest

from clob import Side
from clob.errors import InsufficientBalanceError
from clob_server.chain.events import (
    NonceRaised,
    Permission,
    SettlementResult,
    WalletHolding,
    escrow_asset,
)
from clob_server.core.commands import EndTrades, FollowChain
from clob_server.core.state import ServerState
from clob_server.settlement import inbox, reconcile
from tests.server.engines import assert_as_logged, logged
from tests.server.settlement.harness import (
    BUYER,
    NO,
    PAYEE,
    RICH,
    SELLER,
    TX,
    USD,
    YES,
    SettlementHarness,
    done,
    first_update,
    holding,
    is_resting,
    start_trading,
    update,
)

PIECE = 4
ESCROW = escrow_asset(USD)


def cost(count):
    """Return the price of some trades of 100 wei at 50 cents."""
    return 50 * count


async def test_one_batch_ends_trades_and_sets_balances():
    async with SettlementHarness() as harness:
        await start_trading(harness, 2)
        reported = (
            holding(BUYER, USD, RICH - cost(2)),
            holding(BUYER, YES, 200),
            holding(SELLER, USD, cost(2)),
            holding(SELLER, YES, RICH - 200),
        )
        frames = len(logged(harness.log))
        await harness.receive(
            update(2, settlements=(harness.settled(1), harness.settled(2)), holdings=reported)
        )
        [batch] = logged(harness.log)[frames:]
        assert isinstance(batch[-1], FollowChain)
        assert not harness.settling.held
        assert [each.tx for each in harness.settling.ended.values()] == [TX, TX]
        for each in reported:
            assert harness.balance(each.wallet, each.asset) == int(each.amount)
        assert harness.settlement.inbox.difference() == 0
        assert_as_logged(harness.engine, harness.log)


async def test_failed_trade_is_undone_and_the_orders_of_the_responsible_maker_are_cancelled():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        own = await harness.order(SELLER, Side.SELL, price=60)
        other = await harness.order(BUYER, Side.BUY, price=40)
        failed = harness.settled(1, "not approved", (SELLER,))
        reported = holding(SELLER, YES, 0)
        await harness.receive(update(2, settlements=(failed,), holdings=(reported,)))
        assert (is_resting(harness, own), is_resting(harness, other)) == (False, True)
        matcher = harness.exchange.matcher
        assert matcher.balance(BUYER, USD).unsettled == 0
        assert harness.balance(SELLER, YES) == 0
        [ended] = harness.settling.ended.values()
        assert ended.reason == "not approved"
        [failure] = harness.settlement.view().failures
        assert (failure.market_id, failure.reason) == ("m", "not approved")
        assert harness.settlement.inbox.difference() == 0


async def test_orders_of_both_responsible_makers_are_cancelled():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        orders = [
            await harness.order(SELLER, Side.SELL, price=60),
            await harness.order(BUYER, Side.BUY, price=40),
        ]
        await harness.receive(update(2, settlements=(harness.settled(1, "no", (SELLER, BUYER)),)))
        assert not any(is_resting(harness, each) for each in orders)


async def test_both_halves_of_a_mint_end_together():
    async with SettlementHarness() as harness:
        await harness.open("p", complementary=True, lot_wei=100)
        await harness.start_worker()
        await harness.receive(first_update())
        for _ in range(2):
            for token, price in (("p-yes", 40), ("p-no", 60)):
                await harness.order(BUYER, Side.BUY, token=token, price=price)
        await harness.wait_until(lambda: len(harness.settling.sent) == 2)
        ends = (harness.settled(1), harness.settled(3, "no"))
        tokens = [holding(BUYER, token, 100) for token in ("p-yes", "p-no")]
        reported = (*tokens, holding(BUYER, USD, RICH - 100))
        await harness.receive(update(2, settlements=ends, holdings=reported))
        assert harness.exchange.matcher.unsettled("p") == []
        assert harness.settlement.inbox.difference() == 0


async def test_repeated_and_unknown_results_change_nothing():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        reported = (harness.settled(1), harness.settled(77))
        foreign = harness.settled(1)
        base, harness.settling.base = harness.settling.base, bytes(16)
        foreign = harness.settled(1)
        harness.settling.base = base
        await harness.receive(update(2, settlements=(*reported, foreign)))
        before = harness.balance(SELLER, USD)
        await harness.receive(update(3, settlements=reported))
        assert harness.balance(SELLER, USD) == before
        ends = [c for frame in logged(harness.log) for c in frame if isinstance(c, EndTrades)]
        assert [len(each.ends) for each in ends] == [1]


async def test_trade_that_failed_and_then_settled_is_settled():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        await harness.receive(update(2, settlements=(harness.settled(1, "no"), harness.settled(1))))
        [ended] = harness.settling.ended.values()
        assert ended.reason == ""


async def test_whole_update_empties_accounts_that_it_does_not_contain():
    async with SettlementHarness() as harness:
        await start_trading(harness, 2)
        reported = (holding(BUYER, USD, 7), holding(SELLER, YES, RICH))
        settled = (harness.settled(1),)
        await harness.receive(first_update(5, holdings=reported, settlements=settled))
        kept = {
            account: held.balance
            for account, held in harness.exchange.matcher.balances().items()
            if held.balance
        }
        assert kept == {(BUYER, USD): 7, (SELLER, YES): RICH}
        assert harness.settlement.inbox.difference() == 0


async def test_accounts_in_other_assets_are_unchanged():
    async with SettlementHarness() as harness:
        await harness.start_worker()
        account = {"wallet": BUYER, "asset": "points", "amount": 5}
        await harness.do(reconcile.SetBalance, **account)
        await harness.receive(first_update())
        assert harness.balance(BUYER, "points") == 5
        assert harness.settlement.inbox.difference() == 0


async def test_messages_of_one_update_are_applied_together():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        frames = len(logged(harness.log))
        first = update(2, settlements=(harness.settled(1),), more=True)
        second = update(2, holdings=(holding(SELLER, USD, cost(1)),), more=True)
        third = update(2, holdings=(holding(BUYER, USD, RICH - cost(1)),))
        await harness.receive(first, second, third)
        assert len(logged(harness.log)) == frames + 1
        assert harness.balance(SELLER, USD) == cost(1)


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
async def test_large_update_is_split_into_batches(monkeypatch, is_whole):
    monkeypatch.setattr(reconcile, "CHUNK", PIECE)

    async with SettlementHarness() as harness:
        await start_trading(harness, 9)
        reported = [holding(f"0x{place}", USD, place) for place in range(1, 11)]
        reported += [holding(BUYER, USD, RICH - cost(9)), holding(BUYER, YES, 900)]
        reported += [holding(SELLER, YES, RICH - 900), holding(SELLER, USD, cost(9))]
        reported += [holding(maker, NO, RICH) for maker in (BUYER, SELLER)]
        ends = tuple(harness.settled(number) for number in range(1, 10))
        frames = len(logged(harness.log))
        await harness.receive(update(2, settlements=ends, holdings=tuple(reported), whole=is_whole))
        assert not harness.settling.held
        assert harness.settlement.inbox.difference() == 0
        batches = logged(harness.log)[frames:]
        assert len(batches) > 4
        assert all(len(batch) <= PIECE + 2 for batch in batches)
        assert [isinstance(c, FollowChain) for c in batches[-1]] == [True]
        assert_as_logged(harness.engine, harness.log)


async def test_unwatched_accounts_are_emptied_after_settlement():
    async with SettlementHarness() as harness:
        terms = {"incoming_fee_rate_bps": 100, "resting_fee_rate_bps": 100}
        await harness.open("f", **terms)
        await harness.do(reconcile.SetBalance, wallet=SELLER, asset="f-yes", amount=10**6)
        await harness.start_worker()
        await harness.order(SELLER, Side.SELL, token="f-yes", size=10**6, smart_wallet=PAYEE)
        await harness.order(BUYER, Side.BUY, token="f-yes", size=10**6)
        await harness.wait_until(lambda: harness.settling.sent)
        reported = [holding(BUYER, USD, RICH - 500_000), holding(BUYER, "f-yes", 990_000)]
        reported += [holding(SELLER, "f-yes", 0)]
        await harness.receive(
            first_update(holdings=(*first_update().holdings, holding(SELLER, "f-yes", 10**6)))
        )
        await harness.receive(
            update(2, settlements=(harness.settled(1),), holdings=tuple(reported))
        )
        assert harness.balance(PAYEE, USD) == harness.balance("fees", USD) == 0
        assert harness.balance("fees", "f-yes") == 0
        assert harness.settlement.inbox.difference() == 0


# ----- escrow --------------------------------------------------------------------------------


async def start_escrow(harness):
    """Open an escrow market, and report deposits of a buyer and a seller."""
    await harness.open("e", collateral=ESCROW)
    await harness.start_worker()
    rich = (in_escrow(BUYER, ESCROW, RICH), in_escrow(SELLER, "e-yes", RICH))
    await harness.receive(first_update(holdings=(*first_update().holdings, *rich)))


def in_escrow(wallet, asset, balance, requested=0):
    """Return the report of an escrow."""
    return WalletHolding(
        wallet=wallet,
        asset=asset,
        amount=str(balance - requested),
        balance=str(balance),
        requested=str(requested),
    )


async def test_escrow_and_wallet_are_two_accounts():
    async with SettlementHarness(settle_every_s=3600.0) as harness:
        await start_escrow(harness)
        await harness.receive(update(2, holdings=(holding(BUYER, USD, 0),)))
        await harness.order(BUYER, Side.BUY, token="e-yes")
        with pytest.raises(InsufficientBalanceError, match="0 wei of 'usd' available"):
            await harness.order(BUYER, Side.BUY)
        assert harness.balance(BUYER, ESCROW) == RICH
        assert harness.settlement.inbox.difference() == 0
        await harness.do(reconcile.SetBalance, wallet=BUYER, asset=ESCROW, amount=1)
        assert harness.settlement.inbox.difference() == 1


async def test_collateral_of_wallets_counts_without_a_wallet_market():
    async with SettlementHarness(ServerState()) as harness:
        await harness.open("e", collateral=ESCROW)
        await harness.start_worker()
        reported = (holding(BUYER, USD, 7), in_escrow(BUYER, ESCROW, 5))
        await harness.receive(first_update(holdings=reported))
        assert (harness.balance(BUYER, USD), harness.balance(BUYER, ESCROW)) == (7, 5)
        assert harness.settlement.inbox.difference() == 0


async def test_requested_withdrawal_cancels_the_newest_orders_that_it_uncovers():
    async with SettlementHarness(settle_every_s=3600.0) as harness:
        await start_escrow(harness)
        await harness.receive(update(2, holdings=(in_escrow(BUYER, ESCROW, 100),)))
        old, new = [await harness.order(BUYER, Side.BUY, token="e-yes") for _ in "ab"]
        await harness.receive(update(3, holdings=(in_escrow(BUYER, ESCROW, 100, requested=40),)))
        assert (is_resting(harness, old), is_resting(harness, new)) == (True, False)
        account = harness.exchange.matcher.balance(BUYER, ESCROW)
        assert (account.balance, account.reserved, account.available) == (60, 50, 10)
        assert_as_logged(harness.engine, harness.log)


async def test_trade_before_a_request_settles_from_the_requested_amount():
    async with SettlementHarness() as harness:
        await start_escrow(harness)
        await harness.receive(update(2, holdings=(in_escrow(BUYER, ESCROW, 50),)))
        await harness.order(SELLER, Side.SELL, token="e-yes")
        await harness.order(BUYER, Side.BUY, token="e-yes")
        await harness.receive(update(3, holdings=(in_escrow(BUYER, ESCROW, 50, requested=50),)))
        assert harness.exchange.matcher.balance(BUYER, ESCROW).available == -50
        await harness.wait_until(lambda: harness.settling.sent)
        reported = (in_escrow(BUYER, "e-yes", 100), in_escrow(SELLER, ESCROW, 50))
        left = WalletHolding(wallet=BUYER, asset=ESCROW, amount="0", balance="0", requested="50")
        sold = in_escrow(SELLER, "e-yes", RICH - 100)
        ends = (harness.settled(1),)
        await harness.receive(update(4, settlements=ends, holdings=(*reported, left, sold)))
        assert harness.balance(BUYER, "e-yes") == 100
        assert harness.exchange.matcher.balance(BUYER, ESCROW).available == 0
        assert harness.settlement.inbox.difference() == 0
        assert harness.settlement.inbox.holding(BUYER, ESCROW).requested == "50"


# ----- status --------------------------------------------------------------------------------


async def test_difference_counts_accounts_and_trades():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        assert harness.settlement.inbox.difference() == 0
        for wallet, amount in ((BUYER, 1), ("0xNEW", 2)):
            await harness.do(reconcile.SetBalance, wallet=wallet, asset=USD, amount=amount)
        assert harness.settlement.inbox.difference() == 2
        harness.settling.held.clear()
        assert harness.settlement.inbox.difference() == 3


async def test_background_comparison_finds_differences(monkeypatch):
    monkeypatch.setattr(inbox, "COMPARE_S", 0.001)
    monkeypatch.setattr(reconcile, "CHUNK", PIECE)

    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        reported = tuple(holding(f"0x{number}", USD, number) for number in range(3 * PIECE))
        await harness.receive(update(2, holdings=reported))
        await asyncio.sleep(0.05)
        assert harness.settlement.inbox.num_differences == 0
        for wallet in ("0x1", "0x9"):
            await harness.do(reconcile.SetBalance, wallet=wallet, asset=USD, amount=77)
        await harness.wait_until(lambda: harness.settlement.inbox.num_differences == 2)
        await harness.receive(update(3, holdings=reported))
        await harness.wait_until(lambda: harness.settlement.inbox.num_differences == 0)


async def test_view_shows_pending_trades():
    async with SettlementHarness(settle_every_s=3600.0) as harness:
        await harness.start_worker()
        await harness.receive(first_update())
        await harness.trade(4)
        await harness.requested(1)
        harness.now_ms += 500
        view = harness.settlement.view()
        assert (view.pending, view.submitted, view.oldest_ms) == (1, 3, 500)
        assert view.operations == [harness.chain.requests[0][0]]
        assert (view.block, view.wallets, view.difference) == (1, 2, 0)
        harness.chain.answer(0, done)
        reported = tuple(harness.settled(number) for number in (1, 2, 3))
        await harness.receive(update(2, settlements=reported))
        page = harness.metrics.page().decode()
        assert 'clob_settlements_total{outcome="settled"} 3.0' in page
        assert "clob_settlement_seconds_count 3.0" in page
