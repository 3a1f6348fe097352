"""Settlement messages on the settlement and user channels: each status change once."""

from contextlib import asynccontextmanager

import pytest

from clob import AddMarket, Mode, SetMode
from clob_server.core.commands import StallMarket
from clob_server.feed import settlement_channel
from clob_server.feed.settlement_channel import WRITES_MAX
from tests.matchers import buy, market, sell
from tests.server.feed.harness import FeedHarness, run_loop, until
from tests.server.settled import (
    ALICE,
    BOB,
    CAROL,
    NO,
    YES,
    ended,
    opening,
    sent,
    settling,
    tx_of,
)

SIZE = 1_000


@asynccontextmanager
async def running_markets(*markets, **settings):
    """Run a feed with markets that settle for the block; by default one."""
    async with FeedHarness(**settings) as harness:
        await harness.apply(*opening(*markets))
        yield harness


async def subscribed_client(harness, channel="settlement", **fields):
    """Connect a client and subscribe."""
    client = await harness.client()
    await client.send(type="subscribe", channel=channel, **fields)
    return client


async def trade(harness, name="a", *, now_ms=2, market="m", token=YES, buyer=BOB, seller=ALICE):
    """Make one trade."""
    fields = {"market": market, "token": token, "now_ms": now_ms}
    await harness.apply(sell(f"{name}-sell", 60, SIZE, maker=seller, **fields))
    await harness.apply(buy(f"{name}-buy", 60, SIZE, maker=buyer, **fields))


def statuses(client):
    """Return the received statuses: seq, status, transaction, reason."""
    found = [each for each in client.received() if each["type"] == "settlement"]
    return [
        (
            each["seq"],
            each["data"]["settlement"],
            each["data"]["txHash"],
            each["data"].get("reason"),
        )
        for each in found
    ]


async def test_each_status_from_pending_to_settled_is_sent_once():
    async with running_markets() as harness:
        client = await subscribed_client(harness, marketId="m")
        await trade(harness)
        [message] = client.received()
        trade_id = harness.ids.trade(2, 1)
        assert message == {
            "type": "settlement",
            "channel": "settlement",
            "marketId": "m",
            "tokenId": YES,
            "seq": 2,
            "timestamp": 2,
            "data": {
                "tradeId": trade_id,
                "matchType": "direct",
                "settlement": "pending",
                "txHash": None,
                "buyer": BOB,
                "seller": ALICE,
                "final": False,
            },
        }
        await harness.apply(sent(1, now_ms=5))
        [message] = client.received()
        assert (message["timestamp"], message["data"]["settlement"]) == (5, "submitted")
        assert message["data"]["tradeId"] == trade_id
        await harness.apply(sent(1, operation="settle-2", now_ms=6))  # the first failed as a whole
        assert client.received() == []
        await harness.apply(ended(1, now_ms=9))
        assert statuses(client) == [(2, "settled", tx_of(1), None)]
        await harness.apply(ended(1, reason="of another branch", now_ms=10), sent(1, now_ms=10))
        assert client.received() == []


async def test_failed_trade_has_a_reason_and_no_transaction():
    async with running_markets() as harness:
        client = await subscribed_client(harness, marketId="m")
        await trade(harness)
        await harness.apply(sent(1, now_ms=5))
        client.received()
        await harness.apply(ended(1, reason="Alice has 3 of 1000 tokens", now_ms=9))
        assert statuses(client) == [(2, "failed", None, "Alice has 3 of 1000 tokens")]


async def test_trades_submitted_before_a_restart_are_sent_when_they_settle():
    async with FeedHarness() as before:
        await before.apply(*opening())
        await trade(before, "a")
        await trade(before, "b")
        await before.apply(sent(1, now_ms=3))
    async with FeedHarness(before.exchange) as harness:
        client = await subscribed_client(harness, marketId="m")
        await harness.apply(ended(1, now_ms=9), ended(2, now_ms=9))
        assert statuses(client) == [
            (2, "settled", tx_of(1), None),
            (5, "settled", tx_of(2), None),
        ]
        await harness.apply(ended(1, now_ms=9), ended(2, now_ms=9), ended(7, now_ms=9))
        assert statuses(client) == []


@pytest.mark.parametrize(
    ("make", "kind", "prices"), [(buy, "mint", (60, 40)), (sell, "merge", (60, 40))]
)
async def test_both_trades_of_a_mint_or_merge_have_one_transaction(make, kind, prices):
    async with running_markets(settling(complementary=True)) as harness:
        client = await subscribed_client(harness, marketId="m")
        alice, bob = (
            await subscribed_client(harness, maker=ALICE),
            await subscribed_client(harness, maker=BOB),
        )
        fields = {"now_ms": 2}
        await harness.apply(make("a", prices[0], SIZE, maker=ALICE, token=YES, **fields))
        await harness.apply(make("b", prices[1], SIZE, maker=BOB, token=NO, **fields))
        await harness.apply(sent(1, now_ms=5))
        await harness.apply(ended(1, now_ms=9))
        messages = client.received()
        assert [each["data"]["settlement"] for each in messages] == [
            *("pending", "pending", "submitted", "submitted", "settled", "settled")
        ]
        assert {each["data"]["matchType"] for each in messages} == {kind}
        assert [each["seq"] for each in messages] == [2, 3] * 3
        assert [each["tokenId"] for each in messages] == [NO, YES] * 3
        names = [harness.ids.trade(2, number) for number in (1, 2)]
        assert [each["data"]["tradeId"] for each in messages] == names * 3
        assert {each["data"]["txHash"] for each in messages[-2:]} == {tx_of(1)}
        filled, empty = ("buyer", "seller") if kind == "mint" else ("seller", "buyer")
        assert [each["data"][filled] for each in messages] == [BOB, ALICE] * 3
        assert {each["data"][empty] for each in messages} == {""}
        assert [each["seq"] for each in alice.received()] == [3] * 3
        assert [each["seq"] for each in bob.received()] == [2] * 3


async def test_scope_is_a_market_a_maker_or_both():
    async with running_markets(settling(), settling("n", 201)) as harness:
        everywhere = await subscribed_client(harness, maker=ALICE)
        market_m = await subscribed_client(harness, marketId="m")
        alice_in_n = await subscribed_client(harness, marketId="n", maker=ALICE)
        alice_in_n_again = await subscribed_client(harness, marketId="n", maker=ALICE)
        other = await subscribed_client(harness, maker=CAROL)
        await trade(harness, "a")
        await trade(harness, "b", market="n", token="201")
        await trade(harness, "c", market="n", token="201", buyer=BOB, seller=BOB)
        await trade(harness, "d", market="n", token="201", buyer=ALICE, seller=ALICE)
        n, m = [("n", 2), ("n", 8)], [("m", 2)]
        places = {
            client: [(each["marketId"], each["seq"]) for each in client.received()]
            for client in (everywhere, market_m, alice_in_n, alice_in_n_again, other)
        }
        assert places == {
            everywhere: [*m, *n],
            market_m: m,
            alice_in_n: n,
            alice_in_n_again: n,
            other: [],
        }


async def test_user_channel_sends_settlement_after_the_fill_and_no_second_trade():
    async with running_markets(settling(), settling("n", 201)) as harness:
        client, other = (
            await subscribed_client(harness, "user", maker=ALICE),
            await harness.client(),
        )
        elsewhere = await subscribed_client(harness, "user", maker=ALICE, marketId="n")
        await other.subscribe()
        await trade(harness)
        kinds = [each["type"] for each in client.received()]
        assert kinds == ["orders", "order", "fill", "order"]
        other.received()
        elsewhere.received()
        await harness.apply(sent(1, now_ms=5))
        await harness.apply(ended(1, now_ms=9))
        messages = client.received()
        assert [each["channel"] for each in messages] == ["user", "user"]
        assert [each["type"] for each in messages] == ["settlement", "settlement"]
        assert [each["data"]["settlement"] for each in messages] == ["submitted", "settled"]
        assert other.received() == elsewhere.received() == []


async def test_trades_and_fills_have_the_settlement_status():
    async with running_markets() as harness:
        await harness.apply(AddMarket(market=market("free"), now_ms=1))
        book, user = await harness.client(), await subscribed_client(harness, "user", maker=ALICE)
        for name in ("m", "free"):
            await book.subscribe(name)
        await trade(harness)
        await trade(harness, "b", market="free", token="free-yes")
        for client, kind in ((book, "trade"), (user, "fill")):
            fields = [each["data"] for each in client.received(kind)]
            assert [(each["settlement"], each["txHash"]) for each in fields] == [
                ("pending", None),
                ("none", None),
            ]
            assert all("settlementReason" not in each for each in fields)


async def test_extended_client_receives_subscribed_heartbeat_and_unsubscribed():
    async with running_markets(ws_heartbeat_s=1) as harness:
        client = await subscribed_client(harness, marketId="m", extended=True, id=7)
        [subscribed] = client.received()
        assert (subscribed["type"], subscribed["channel"]) == ("subscribed", "settlement")
        assert (subscribed["marketId"], subscribed["seq"], subscribed["id"]) == ("m", 0, 7)
        await client.send(type="subscribe", channel="settlement", maker=ALICE, extended=True)
        await until(lambda: len(client.messages) >= 3)
        beats = [each for each in client.received() if each["type"] == "heartbeat"]
        assert {(each["channel"], each["marketId"], each["seq"]) for each in beats} == {
            ("settlement", "m", 0),
            ("settlement", None, None),
        }
        await client.send(type="unsubscribe", channel="settlement", marketId="m")
        await client.send(type="unsubscribe", channel="settlement", maker=ALICE)
        assert [each["type"] for each in client.received()] == ["unsubscribed", "unsubscribed"]
        await trade(harness)
        assert client.received() == []
        assert not harness.feed.channels.settlements


def modes(client):
    """Return the received modes: market, mode, and the reason of a stop."""
    found = [each for each in client.received() if each["type"] == "mode"]
    return [
        (each["marketId"], each["data"]["mode"], (each["data"]["stalled"] or {}).get("reason"))
        for each in found
    ]


async def test_extended_clients_receive_the_modes_of_markets_that_settle():
    async with running_markets(settling(), settling("n", 201)) as harness:
        await harness.apply(AddMarket(market=market("plain", yes="7", no="8"), now_ms=1))
        of_market = await subscribed_client(harness, marketId="m", extended=True)
        of_maker = await subscribed_client(harness, maker=ALICE, extended=True)
        plain = await subscribed_client(harness, marketId="m")
        for client in (of_market, of_maker):
            client.received()
        stall = StallMarket(market="m", reason="late", now_ms=2)
        await harness.apply(SetMode(market="m", mode=Mode.CANCEL_ONLY, now_ms=2), stall)
        stopped = ("m", "cancelOnly", "late")
        assert modes(of_market) == modes(of_maker) == [stopped]
        await harness.apply(SetMode(market="m", mode=Mode.OPEN, now_ms=3))
        await harness.apply(SetMode(market="n", mode=Mode.HALTED, now_ms=4))
        await harness.apply(SetMode(market="plain", mode=Mode.HALTED, now_ms=4))
        assert modes(of_market) == [("m", "open", None)]
        assert modes(of_maker) == [("m", "open", None), ("n", "halted", None)]
        assert plain.received() == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "INVALID_FIELD"),
        ({"marketId": "nowhere"}, "UNKNOWN_MARKET"),
        ({"marketId": "a b"}, "INVALID_FIELD"),
        ({"marketId": "m", "maker": "me"}, "INVALID_ADDRESS"),
    ],
)
async def test_invalid_scope_is_rejected(fields, code):
    async with running_markets() as harness:
        client = await subscribed_client(harness, extended=True, **fields)
        [error] = client.received()
        assert (error["type"], error["code"]) == ("error", code)
        plain = await subscribed_client(harness, **fields)
        await run_loop()
        assert (plain.closed, plain.reason.partition(":")[0]) == (1008, code)


async def test_subscription_without_a_chain_is_rejected():
    async with running_markets(chain="none") as harness:
        client = await subscribed_client(harness, marketId="m", extended=True)
        [error] = client.received()
        assert (error["type"], error["code"]) == ("error", "CHAIN_NOT_CONFIGURED")


async def test_writes_are_split_and_skip_clients_that_disconnected(monkeypatch):
    assert WRITES_MAX > 2
    monkeypatch.setattr(settlement_channel, "WRITES_MAX", 2)
    async with running_markets() as harness:
        clients = [await subscribed_client(harness, marketId="m") for _ in range(5)]
        first, last = clients[0], clients[-1]
        write, counts = first.write, []

        def counting_write(frame):
            counts.append([len(client.messages) for client in clients])
            last.disconnect()
            return write(frame)

        first.write = counting_write
        await trade(harness)
        assert counts == [[0, 0, 0, 0, 0]]
        assert [len(client.messages) for client in clients] == [1, 1, 1, 1, 0]


async def test_client_that_does_not_read_is_closed_and_misses_no_message_before():
    async with running_markets(ws_hard_bytes=2000, ws_soft_bytes=1000) as harness:
        client = await harness.client(reads=False)
        await client.send(type="subscribe", channel="settlement", marketId="m")
        for number in range(30):
            await trade(harness, f"{number}")
        await until(lambda: client.closed is not None or client.aborted)
        assert not harness.feed.channels.settlements
