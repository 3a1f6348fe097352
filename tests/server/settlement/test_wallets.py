"""Wallets that the server has the chain worker watch, drop, and read again."""

import asyncio

import pytest
from msgspec.structs import replace

from clob import Side
from clob_server.chain.events import Permission, WalletHolding, escrow_asset
from tests.server.settlement.harness import (
    BUYER,
    NO,
    NOW_MS,
    PAYEE,
    SELLER,
    USD,
    YES,
    SettlementHarness,
    first_update,
    holding,
    start_trading,
    update,
)

IDLE = "0x1D1E"
HOUR_MS = 3_600_000


class Wallets(SettlementHarness):
    """The harness, with the wallets that are dropped."""

    async def __aenter__(self):
        await super().__aenter__()
        await self.start_worker()
        wallets = (BUYER, SELLER, IDLE)
        await self.receive(first_update(wallets=wallets))
        return self

    @property
    def wallets(self):
        return self.settlement.wallets

    async def pass_time(self, hours=1):
        """Let time pass, and drop idle wallets."""
        self.now_ms += hours * HOUR_MS
        before = len(self.chain.watched_wallets)
        await self.wallets.drop_idle()
        return [name for _, names in self.chain.watched_wallets[before:] for name in names]


async def test_wallet_without_use_is_dropped_after_an_hour():
    async with Wallets() as harness:
        assert await harness.pass_time(hours=0) == []
        assert await harness.pass_time() == [IDLE]
        assert len(harness.wallets) == 2
        assert harness.settlement.view().wallets == 2
        assert list(harness.settling.wallets) == [BUYER, SELLER, IDLE]
        assert await harness.pass_time() == []


async def test_wallet_is_dropped_an_hour_after_its_last_use():
    async with Wallets() as harness:
        await harness.pass_time(hours=0)
        await harness.receive(update(2, holdings=(holding(IDLE, USD, 5),)))
        assert await harness.pass_time(hours=2) == []
        await harness.receive(update(3, holdings=(holding(IDLE, USD, 0),)))
        harness.now_ms += HOUR_MS - 1
        assert await harness.pass_time(hours=0) == []
        harness.now_ms += 1
        assert await harness.pass_time(hours=0) == [IDLE]


@pytest.mark.parametrize("kind", ["delegate", "payer", "payee", "gasless"])
async def test_wallets_with_a_permission_are_kept(kind):
    async with Wallets() as harness:
        other = IDLE if kind == "gasless" else PAYEE
        allowed = Permission(kind=kind, owner=IDLE, other=other, allowed=True)
        await harness.receive(update(2, permissions=(allowed,), wallets=(PAYEE,)))
        dropped = await harness.pass_time()
        assert IDLE not in dropped
        assert (PAYEE in dropped) is (kind == "gasless")


async def test_wallets_that_clients_follow_are_kept_and_brought_back():
    async with Wallets() as harness:
        followed = [IDLE, "0xUNKNOWN"]
        harness.wallets.followed = lambda: followed
        assert await harness.pass_time() == []
        followed.clear()
        assert await harness.pass_time() == [IDLE]
        followed.append(IDLE)
        await harness.pass_time(hours=0)
        assert harness.chain.watched_wallets[-1] == ([IDLE], [])


async def test_wallet_with_a_requested_withdrawal_is_kept():
    async with Wallets() as harness:
        cash = escrow_asset(USD)
        held = WalletHolding(wallet=IDLE, asset=cash, amount="0", balance="5", requested="5")
        await harness.receive(update(2, holdings=(held,)))
        assert await harness.pass_time() == []
        paid = WalletHolding(wallet=IDLE, asset=cash, amount="0", balance="0", requested="0")
        await harness.receive(update(3, holdings=(paid,)))
        assert await harness.pass_time() == [IDLE]


async def test_makers_of_trades_are_kept_until_the_results_are_final():
    async with SettlementHarness() as harness:
        await start_trading(harness, 1)
        empty = tuple(holding(each, asset, 0) for each in (BUYER, SELLER) for asset in (USD, YES))
        empty += holding(BUYER, NO, 0), holding(SELLER, NO, 0)
        wallets, result = harness.settlement.wallets, replace(harness.settled(1), block=2)
        results = update(2, settlements=(result,), holdings=empty, final_block=1)
        for reported in (results, update(3, final_block=2)):
            harness.now_ms += HOUR_MS
            await wallets.drop_idle()
            assert harness.chain.watched_wallets == []
            await harness.receive(reported)
        harness.now_ms += HOUR_MS
        await wallets.drop_idle()
        assert harness.chain.watched_wallets == [([], [BUYER, SELLER])]


async def test_request_has_a_dropped_wallet_read_before_its_account_counts():
    async with Wallets() as harness:
        await harness.pass_time()
        reading = harness.wallets.ask_for([IDLE, BUYER])
        assert harness.chain.watched_wallets[-1] == ([IDLE], [])
        waiting = asyncio.ensure_future(reading)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        again = asyncio.ensure_future(harness.wallets.ask_for([IDLE]))
        assert len(harness.chain.watched_wallets) == 2  # one dropped it, one asked for it
        await harness.receive(update(2, read=(IDLE,), holdings=(holding(IDLE, USD, 100),)))
        await asyncio.gather(waiting, again)
        assert harness.wallets.ask_for([IDLE]) is None
        await harness.order(IDLE, Side.BUY, price=50, size=100)


async def test_funds_reported_after_a_wallet_was_dropped_have_it_watched_again():
    async with Wallets() as harness:
        await harness.pass_time()
        await harness.receive(update(2, holdings=(holding(IDLE, USD, 7),)))
        assert harness.chain.watched_wallets[-1] == ([IDLE], [])
        assert len(harness.wallets) == 3
        assert harness.settlement.inbox.difference() == 0


async def test_empty_accounts_reported_after_a_wallet_was_dropped_are_forgotten():
    async with Wallets() as harness:
        await harness.pass_time()
        await harness.receive(update(2, holdings=(holding(IDLE, USD, 0),)))
        assert len(harness.wallets) == 2
        assert harness.settlement.inbox.holding(IDLE, USD) is None


async def test_wallet_that_approves_again_is_watched_again():
    async with Wallets() as harness:
        await harness.pass_time()
        await harness.receive(update(2, wallets=(IDLE,), holdings=(holding(IDLE, USD, 7),)))
        assert len(harness.chain.watched_wallets) == 1
        assert harness.wallets.ask_for([IDLE]) is None
        assert harness.balance(IDLE, USD) == 7


async def test_new_worker_watches_wallets_in_use_and_those_that_requests_wait_for():
    async with Wallets() as harness:
        await harness.pass_time()
        await harness.start_worker()
        assert harness.chain.watched[-1].wallets == [BUYER, SELLER]
        reading = asyncio.ensure_future(harness.wallets.ask_for([IDLE]))
        await harness.start_worker()
        assert harness.chain.watched[-1].wallets == [BUYER, SELLER, IDLE]
        assert harness.chain.watched_wallets[-1] == ([IDLE], [])
        await harness.receive(first_update(4), update(5, read=(IDLE,)))
        await reading


async def test_next_process_watches_wallets_in_use_only():
    async with Wallets() as harness:
        recovered = harness.recovered()
    async with recovered:
        await recovered.start_worker()
        assert recovered.chain.watched[-1].wallets == [BUYER, SELLER]
        assert recovered.now_ms == NOW_MS


async def test_wallet_that_the_chain_does_not_read_in_time_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("clob_server.settlement.wallets.READ_S", 0.01)
    async with Wallets() as harness:
        await harness.pass_time()
        await harness.wallets.ask_for([IDLE])
        assert harness.balance(IDLE, USD) == 0
