"""The sender: which trades go to the chain, when, under which operation id, and retries.

The chain is a stub here; ``tests/chain/test_server_settlement.py`` uses real ones.
"""

import asyncio

import pytest

from clob import CancelAll, Funds, Mode, RemoveMarket, SetBalance, SetMode, Side
from clob_server.chain.eth.exchange_abi import FILLS_MAX
from clob_server.chain.events import StartWatching, escrow_asset
from clob_server.cli.options import read_settings
from clob_server.core.commands import SendTrades, SetOutcome
from clob_server.settings import SettingsError
from clob_server.settlement import sender
from clob_server.settlement.markets import OnChain
from tests.server.engines import logged
from tests.server.settlement.harness import (
    BUYER,
    NO,
    RICH,
    SELLER,
    YES,
    SettlementHarness,
    done,
    failed,
    first_update,
    rejected,
    stuck,
    update,
)

SOON_S = 0.02
ESCROW = escrow_asset("usd")


@pytest.fixture
def short_pauses(monkeypatch):
    """Short pauses."""
    monkeypatch.setattr(sender, "PAUSE_S", SOON_S)
    monkeypatch.setattr(sender, "HOLD_MAX_S", SOON_S)
    monkeypatch.setattr(sender, "POLL_S", SOON_S)


async def test_full_batch_is_sent_at_once_and_the_rest_after_settle_every_s():
    async with SettlementHarness(settle_every_s=0.3) as harness:
        await harness.start_worker()
        await harness.trade(4)
        assert await harness.requested(1) == [1, 2, 3]
        assert list(harness.settling.sent) == [1, 2, 3]
        await asyncio.sleep(SOON_S)
        assert len(harness.chain.requests) == 1
        harness.now_ms += 300
        assert await harness.requested(2) == [4]


async def open_escrow(harness):
    """Open an escrow market ``e`` whose seller and buyer are rich."""
    await harness.open("e", collateral=ESCROW)
    for wallet, asset in ((BUYER, ESCROW), (SELLER, "e-yes")):
        await harness.do(SetBalance, wallet=wallet, asset=asset, amount=RICH)


async def test_operation_has_trades_of_one_custody():
    async with SettlementHarness(settle_every_s=0.05) as harness:
        await open_escrow(harness)
        await harness.start_worker()
        await harness.trade(1)
        await harness.trade(4, token="e-yes")
        await harness.trade(1)
        await harness.wait_until(lambda: len(harness.chain.requests) == 3)
        sent = [(body.custody, harness.numbers(index)) for index, body in bodies(harness)]
        assert sent == [("escrow", [2, 3, 4]), ("wallet", [1, 6]), ("escrow", [5])]


async def test_full_batches_of_one_custody_do_not_delay_the_other():
    async with SettlementHarness(settle_every_s=0.05, settle_trades_max=2) as harness:
        await open_escrow(harness)
        await harness.trade(1)
        harness.now_ms += 50
        await harness.trade(4, token="e-yes")
        await harness.start_worker()
        await harness.wait_until(lambda: len(harness.chain.requests) == 3)
        assert [body.custody for _, body in bodies(harness)] == ["wallet", "escrow", "escrow"]


async def test_worker_gets_the_tokens_of_escrow_markets_apart():
    async with SettlementHarness() as harness:
        await open_escrow(harness)
        await harness.start_worker()
        [message] = harness.chain.watched
        assert message.tokens == ["m-yes", "m-no"]
        assert message.escrow_tokens == ["e-yes", "e-no"]
        await harness.open("e2", collateral=ESCROW)
        assert harness.chain.watched_tokens == [([], ["e2-yes", "e2-no"])]


def bodies(harness):
    """Yield the requested operations: index and body."""
    return ((index, body) for index, (_, body, _) in enumerate(harness.chain.requests))


async def test_clock_that_steps_back_delays_no_trade():
    async with SettlementHarness() as harness:
        await harness.start_worker()
        harness.now_ms += 3_600_000
        await harness.order(SELLER, Side.SELL)
        await harness.order(BUYER, Side.BUY)
        harness.now_ms -= 3_600_000
        assert await harness.requested(1) == [1]


async def test_operation_is_logged_before_it_is_requested():
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.trade(2)
        await harness.requested(1)
        noted = [c for frame in logged(harness.log) for c in frame if isinstance(c, SendTrades)]
        [command] = noted
        assert command.operation == harness.chain.requests[0][0]
        assert list(command.trades) == harness.numbers(0)


async def test_both_trades_of_a_mint_are_sent_as_one():
    async with SettlementHarness() as harness:
        await harness.open("p", complementary=True, lot_wei=100)
        await harness.start_worker()
        for token, price in (("p-yes", 40), ("p-no", 60)):
            await harness.order(BUYER, Side.BUY, token=token, price=price)
        assert await harness.requested(1) == [1]
        [held] = harness.settling.held.values()
        assert [half.number for half in held.halves] == [1, 2]


async def test_trades_wait_until_their_market_is_prepared(short_pauses):
    async with SettlementHarness() as harness:
        await harness.open("n")
        for maker, asset in ((BUYER, "usd"), (SELLER, "n-yes")):
            await harness.do(SetBalance, wallet=maker, asset=asset, amount=RICH)
        harness.states["m"] = OnChain.PREPARING
        await harness.start_worker()
        await harness.trade(2)
        await harness.trade(1, token="n-yes")
        assert await harness.requested(1) == [3]
        harness.states["m"] = OnChain.PREPARED
        assert await harness.requested(2) == [1, 2]


async def test_stuck_market_settles_only_if_it_has_an_outcome(short_pauses):
    async with SettlementHarness() as harness:
        harness.states["m"] = OnChain.STUCK
        await harness.start_worker()
        await harness.trade(2)
        await asyncio.sleep(3 * SOON_S)
        assert not harness.chain.requests
        await harness.do(SetOutcome, market="m", outcome="yes")
        assert await harness.requested(1) == [1, 2]


@pytest.mark.parametrize("gone", ["worker", "exchange"])
async def test_trades_wait_without_a_worker_or_an_exchange_contract(short_pauses, gone):
    async with SettlementHarness() as harness:
        if gone == "exchange":
            harness.chain.addresses.exchange = ""
        await harness.start_worker()
        harness.chain.is_open = gone == "exchange"
        await harness.trade(2)
        await asyncio.sleep(3 * SOON_S)
        assert not harness.chain.requests
        assert harness.settlement.view().pending == 2
        harness.chain.addresses.exchange = "0xE"
        await harness.start_worker()
        assert await harness.requested(1) == [1, 2]


async def test_number_of_running_operations_is_limited():
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.trade(3 * sender.OPERATIONS_MAX + 3)
        await harness.requested(sender.OPERATIONS_MAX)
        await asyncio.sleep(SOON_S)
        assert len(harness.chain.requests) == sender.OPERATIONS_MAX
        harness.chain.answer(0, done)
        assert len(await harness.requested(sender.OPERATIONS_MAX + 1)) == 3


async def test_failed_trades_are_sent_again_with_a_new_operation_id(short_pauses):
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.trade(2)
        await harness.requested(1)
        harness.chain.answer(0, failed)
        assert await harness.requested(2) == [1, 2]
        names = [name for name, *_ in harness.chain.requests]
        assert len(set(names)) == 2
        assert list(harness.settling.operations) == names[1:]
        assert "settleTx: paused" in harness.settlement.detail
        harness.chain.answer(1, done)
        await harness.wait_until(lambda: not harness.settlement.detail)


async def test_trade_that_always_fails_is_isolated_by_halving(short_pauses):
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.receive(first_update())
        await harness.trade(3)
        seen, left = 0, {1, 2, 3}
        while left != {2}:
            await harness.wait_until(lambda: len(harness.chain.requests) > seen)  # noqa: B023
            numbers = harness.numbers(seen)
            harness.chain.answer(seen, failed if 2 in numbers else done)
            seen += 1
            if 2 not in numbers:
                left -= set(numbers)
        assert seen <= 6
        await harness.wait_until(lambda: len(harness.chain.requests) > seen)
        assert harness.numbers(seen) == [2]


async def test_unsent_trades_are_sent_before_retries(short_pauses):
    async with SettlementHarness(settle_every_s=0.001) as harness:
        await harness.start_worker()
        await harness.trade(1)
        await harness.requested(1)
        harness.chain.answer(0, failed)
        await harness.trade(1)
        harness.now_ms += 10
        await harness.wait_until(lambda: len(harness.chain.requests) == 3)
        assert [harness.numbers(index) for index in (1, 2)] == [[2], [1]]


async def test_rejected_operation_is_retried_with_the_same_id(short_pauses):
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.trade(2)
        for index in range(3):
            assert await harness.requested(index + 1) == [1, 2]
            harness.chain.answer(index, rejected)
        await harness.requested(4)
        assert len({name for name, *_ in harness.chain.requests}) == 1
        assert "no money for gas" in harness.settlement.detail


async def test_operation_id_that_was_used_for_more_trades_is_replaced(short_pauses):
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.trade(2)
        await harness.requested(1)
        harness.chain.answer(0, lambda name: rejected(name, "IDEMPOTENCY_KEY_REUSED"))
        assert await harness.requested(2) == [1, 2]
        assert len({name for name, *_ in harness.chain.requests}) == 2


@pytest.mark.parametrize("end", [done, failed])
async def test_stuck_operation_waits_for_the_operator(short_pauses, end):
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.trade(2)
        await harness.requested(1)
        harness.chain.answer(0, stuck)
        await asyncio.sleep(3 * SOON_S)
        name = harness.chain.requests[0][0]
        assert list(harness.settling.operations) == [name]
        harness.settlement.sender.on_operation_end(end(name))
        if end is failed:
            assert await harness.requested(2) == [1, 2]
        else:
            assert not harness.settlement.detail


async def test_new_worker_gets_the_same_operation(short_pauses):
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.trade(3)
        await harness.requested(1)
        harness.chain.lose_worker()
        await harness.wait_until(lambda: not harness.settlement.sender._running)
        await harness.start_worker()
        assert await harness.requested(2) == [1, 2, 3]
        assert harness.chain.requests[0][:2] == harness.chain.requests[1][:2]


async def test_running_operation_is_not_started_twice(short_pauses):
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.trade(3)
        await harness.requested(1)
        await harness.start_worker()  # the chain client repeats running operations itself
        await asyncio.sleep(SOON_S)
        assert len(harness.chain.requests) == 1


async def test_restarted_server_requests_the_same_operation(short_pauses):
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.trade(3)
        await harness.requested(1)
    async with harness.recovered() as recovered:
        await recovered.start_worker()
        await recovered.requested(1)
        assert recovered.chain.requests[0][:2] == harness.chain.requests[0][:2]


async def test_failed_operation_is_not_requested_again_by_its_old_id(short_pauses, monkeypatch):
    monkeypatch.setattr(sender, "PAUSE_S", 0.2)
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.trade(3)
        await harness.requested(1)
        harness.chain.answer(0, failed)
        await harness.wait_until(lambda: not harness.settlement.sender._running)
        await harness.start_worker()
        assert await harness.requested(2) == [1, 2, 3]
        assert harness.chain.requests[0][0] != harness.chain.requests[1][0]


async def test_trades_without_a_result_are_sent_again(short_pauses, monkeypatch):
    monkeypatch.setattr(sender, "RESEND_AFTER_S", SOON_S)
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.receive(first_update())
        await harness.trade(3)
        await harness.requested(1)
        harness.chain.answer(0, done)
        assert await harness.requested(2) == [1, 2, 3]
        harness.chain.answer(1, done)
        await harness.receive(update(2, settlements=tuple(map(harness.settled, (1, 2, 3)))))
        count = len(harness.chain.requests)
        await asyncio.sleep(3 * SOON_S)
        assert len(harness.chain.requests) == count


async def test_sender_retries_after_a_full_queue(short_pauses):
    async with SettlementHarness() as harness:
        await harness.trade(2)
        harness.engine._max_queued = 0
        await harness.start_worker()
        await asyncio.sleep(SOON_S)
        assert not harness.chain.requests
        harness.engine._max_queued = 100
        assert await harness.requested(1) == [1, 2]


def start_watching(*tokens):
    """Return the first message to a worker of a new server."""
    return StartWatching(after_block=None, block_hash="", wallets=[], tokens=list(tokens))


async def test_worker_watches_both_tokens_of_a_market():
    async with SettlementHarness() as harness:
        await harness.start_worker()
        assert harness.chain.watched == [start_watching("m-yes", NO)]
        await harness.open("n")
        await harness.trade(2)
        assert harness.chain.watched_tokens == [(["n-yes", "n-no"], [])]


async def test_removed_market_is_watched_again_once_it_is_created_again():
    async with SettlementHarness() as harness:
        await harness.start_worker()
        await harness.open("n")
        await harness.do(SetMode, market="n", mode=Mode.RESOLVED)
        await harness.do(RemoveMarket, market="n")
        await harness.trade(1)
        assert harness.chain.watched_tokens == [(["n-yes", "n-no"], [])]
        await harness.open("n", yes="other")
        assert harness.chain.watched_tokens[1:] == [(["other", "n-no"], [])]


async def test_first_market_that_settles_starts_watching():
    harness = SettlementHarness()
    harness.is_new = False
    async with harness:
        await harness.start_worker()
        assert not harness.chain.watched
        await harness.open("n")
        assert harness.chain.watched == [start_watching("n-yes", "n-no")]


async def test_market_that_does_not_settle_holds_no_trades():
    async with SettlementHarness() as harness:
        await harness.open("x", settles=False, funds=Funds.NONE)
        await harness.start_worker()
        await harness.trade(3, token="x-yes")
        await harness.do(CancelAll, market="x")
        assert not harness.settling.held
        assert harness.chain.watched[0].tokens == [YES, NO]


def test_settle_trades_max_is_limited_by_the_contract():
    assert read_settings({"settle_trades_max": str(FILLS_MAX)}, {}).settle_trades_max == FILLS_MAX
    with pytest.raises(SettingsError):
        read_settings({"settle_trades_max": str(FILLS_MAX + 1)}, {})
