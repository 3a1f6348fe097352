"""The settlement channel and what the user channel has of it: each change of a trade, once."""

import pytest

from clob import AddMarket
from clob_server.feed import settlement_channel
from clob_server.feed.settlement_channel import WRITES_MAX
from tests.matchers import buy, market, sell
from tests.server.feed.stage import Stage, played, turns, until
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


def story(tell, *markets, **settings):
    """Tell a story with markets that settle, one where none is named."""

    async def whole():
        async with Stage(**settings) as stage:
            await stage.do(*opening(*markets))
            await tell(stage)

    played(whole())


async def following(stage, channel="settlement", **fields):
    """Connect somebody who subscribes."""
    client = await stage.client()
    await client.say(type="subscribe", channel=channel, **fields)
    return client


async def traded(stage, name="a", *, now_ms=2, market="m", token=YES, buyer=BOB, seller=ALICE):
    """Have two orders make a trade; it is one trade more."""
    fields = {"market": market, "token": token, "now_ms": now_ms}
    await stage.do(sell(f"{name}-sell", 60, SIZE, maker=seller, **fields))
    await stage.do(buy(f"{name}-buy", 60, SIZE, maker=buyer, **fields))


def told(client):
    """Give what was said of settlement since the last time: number, how it stands, why."""
    found = [each for each in client.taken() if each["type"] == "settlement"]
    return [
        (
            each["seq"],
            each["data"]["settlement"],
            each["data"]["txHash"],
            each["data"].get("reason"),
        )
        for each in found
    ]


def test_a_trade_is_told_from_pending_to_settled_each_step_once():
    async def tell(stage):
        client = await following(stage, marketId="m")
        await traded(stage)
        [message] = client.taken()
        trade_id = stage.service.ids.trade(2, 1)
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
            },
        }
        await stage.do(sent(1, now_ms=5))
        [message] = client.taken()
        assert (message["timestamp"], message["data"]["settlement"]) == (5, "submitted")
        assert message["data"]["tradeId"] == trade_id
        await stage.do(sent(1, operation="settle-2", now_ms=6))  # the first failed as a whole
        assert client.taken() == []
        await stage.do(ended(1, now_ms=9))
        assert told(client) == [(2, "settled", tx_of(1), None)]
        await stage.do(ended(1, reason="of another branch", now_ms=10), sent(1, now_ms=10))
        assert client.taken() == []

    story(tell)


def test_a_trade_that_failed_says_why_and_has_no_transaction():
    async def tell(stage):
        client = await following(stage, marketId="m")
        await traded(stage)
        await stage.do(sent(1, now_ms=5))
        client.taken()
        await stage.do(ended(1, reason="Alice has 3 of 1000 tokens", now_ms=9))
        assert told(client) == [(2, "failed", None, "Alice has 3 of 1000 tokens")]

    story(tell)


def test_what_was_under_way_at_the_start_is_told_when_it_comes_to_an_end():
    async def whole():
        async with Stage() as before:
            await before.do(*opening())
            await traded(before, "a")
            await traded(before, "b")
            await before.do(sent(1, now_ms=3))
        async with Stage(before.exchange) as stage:
            client = await following(stage, marketId="m")
            await stage.do(ended(1, now_ms=9), ended(2, now_ms=9))
            assert told(client) == [
                (2, "settled", tx_of(1), None),
                (5, "settled", tx_of(2), None),
            ]
            await stage.do(ended(1, now_ms=9), ended(2, now_ms=9), ended(7, now_ms=9))
            assert told(client) == []

    played(whole())


@pytest.mark.parametrize(
    ("make", "kind", "prices"), [(buy, "mint", (60, 40)), (sell, "merge", (60, 40))]
)
def test_both_trades_of_a_mint_or_a_merge_are_told_with_one_transaction(make, kind, prices):
    async def tell(stage):
        client = await following(stage, marketId="m")
        hers, his = await following(stage, maker=ALICE), await following(stage, maker=BOB)
        fields = {"now_ms": 2}
        await stage.do(make("a", prices[0], SIZE, maker=ALICE, token=YES, **fields))
        await stage.do(make("b", prices[1], SIZE, maker=BOB, token=NO, **fields))
        await stage.do(sent(1, now_ms=5))
        await stage.do(ended(1, now_ms=9))
        messages = client.taken()
        assert [each["data"]["settlement"] for each in messages] == [
            *("pending", "pending", "submitted", "submitted", "settled", "settled")
        ]
        assert {each["data"]["matchType"] for each in messages} == {kind}
        assert [each["seq"] for each in messages] == [2, 3] * 3
        assert [each["tokenId"] for each in messages] == [NO, YES] * 3
        names = [stage.service.ids.trade(2, number) for number in (1, 2)]
        assert [each["data"]["tradeId"] for each in messages] == names * 3
        assert {each["data"]["txHash"] for each in messages[-2:]} == {tx_of(1)}
        own, nobody = ("buyer", "seller") if kind == "mint" else ("seller", "buyer")
        assert [each["data"][own] for each in messages] == [BOB, ALICE] * 3
        assert {each["data"][nobody] for each in messages} == {""}
        assert [each["seq"] for each in hers.taken()] == [3] * 3
        assert [each["seq"] for each in his.taken()] == [2] * 3

    story(tell, settling(complementary=True))


def test_a_subscription_is_of_a_market_a_maker_or_both():
    async def tell(stage):
        everywhere = await following(stage, maker=ALICE)
        market_m = await following(stage, marketId="m")
        hers_in_n = await following(stage, marketId="n", maker=ALICE)
        hers_in_n_again = await following(stage, marketId="n", maker=ALICE)
        other = await following(stage, maker=CAROL)
        await traded(stage, "a")
        await traded(stage, "b", market="n", token="201")
        await traded(stage, "c", market="n", token="201", buyer=BOB, seller=BOB)
        await traded(stage, "d", market="n", token="201", buyer=ALICE, seller=ALICE)
        n, m = [("n", 2), ("n", 8)], [("m", 2)]
        places = {
            client: [(each["marketId"], each["seq"]) for each in client.taken()]
            for client in (everywhere, market_m, hers_in_n, hers_in_n_again, other)
        }
        assert places == {
            everywhere: [*m, *n],
            market_m: m,
            hers_in_n: n,
            hers_in_n_again: n,
            other: [],
        }

    story(tell, settling(), settling("n", 201))


def test_a_maker_hears_on_the_user_channel_after_his_fill_and_never_a_second_trade():
    async def tell(stage):
        client, other = await following(stage, "user", maker=ALICE), await stage.client()
        elsewhere = await following(stage, "user", maker=ALICE, marketId="n")
        await other.subscribe()
        await traded(stage)
        kinds = [each["type"] for each in client.taken()]
        assert kinds == ["orders", "order", "fill", "order"]
        other.taken()
        elsewhere.taken()
        await stage.do(sent(1, now_ms=5))
        await stage.do(ended(1, now_ms=9))
        messages = client.taken()
        assert [each["channel"] for each in messages] == ["user", "user"]
        assert [each["type"] for each in messages] == ["settlement", "settlement"]
        assert [each["data"]["settlement"] for each in messages] == ["submitted", "settled"]
        assert other.taken() == elsewhere.taken() == []

    story(tell, settling(), settling("n", 201))


def test_trades_and_fills_say_whether_they_are_to_be_settled():
    async def tell(stage):
        await stage.do(AddMarket(market=market("free"), now_ms=1))
        book, user = await stage.client(), await following(stage, "user", maker=ALICE)
        for name in ("m", "free"):
            await book.subscribe(name)
        await traded(stage)
        await traded(stage, "b", market="free", token="free-yes")
        for client, kind in ((book, "trade"), (user, "fill")):
            said = [each["data"] for each in client.taken(kind)]
            assert [(each["settlement"], each["txHash"]) for each in said] == [
                ("pending", None),
                ("none", None),
            ]
            assert all("settlementReason" not in each for each in said)

    story(tell)


def test_an_extended_client_is_told_that_it_begins_ends_and_works():
    async def tell(stage):
        client = await following(stage, marketId="m", extended=True, id=7)
        [subscribed] = client.taken()
        assert (subscribed["type"], subscribed["channel"]) == ("subscribed", "settlement")
        assert (subscribed["marketId"], subscribed["seq"], subscribed["id"]) == ("m", 0, 7)
        await client.say(type="subscribe", channel="settlement", maker=ALICE, extended=True)
        await until(lambda: len(client.messages) >= 3)
        beats = [each for each in client.taken() if each["type"] == "heartbeat"]
        assert {(each["channel"], each["marketId"], each["seq"]) for each in beats} == {
            ("settlement", "m", 0),
            ("settlement", None, None),
        }
        await client.say(type="unsubscribe", channel="settlement", marketId="m")
        await client.say(type="unsubscribe", channel="settlement", maker=ALICE)
        assert [each["type"] for each in client.taken()] == ["unsubscribed", "unsubscribed"]
        await traded(stage)
        assert client.taken() == []
        assert not stage.feed.settlements

    story(tell, ws_heartbeat_s=1)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({}, "INVALID_FIELD"),
        ({"marketId": "nowhere"}, "UNKNOWN_MARKET"),
        ({"marketId": "a b"}, "INVALID_FIELD"),
        ({"marketId": "m", "maker": "me"}, "INVALID_ADDRESS"),
    ],
)
def test_what_cannot_be_followed_is_refused(said, code):
    async def tell(stage):
        client = await following(stage, extended=True, **said)
        [error] = client.taken()
        assert (error["type"], error["code"]) == ("error", code)
        plain = await following(stage, **said)
        await turns()
        assert (plain.closed, plain.reason.partition(":")[0]) == (1008, code)

    story(tell)


def test_where_there_is_no_chain_nothing_can_be_followed():
    async def tell(stage):
        client = await following(stage, marketId="m", extended=True)
        [error] = client.taken()
        assert (error["type"], error["code"]) == ("error", "CHAIN_NOT_CONFIGURED")

    story(tell, chain="none")


def test_many_are_told_some_at_a_time_and_who_left_meanwhile_is_not(monkeypatch):
    async def tell(stage):
        clients = [await following(stage, marketId="m") for _ in range(5)]
        first, last = clients[0], clients[-1]
        write, told_when = first.write, []

        def wrote(frame):
            told_when.append([len(client.messages) for client in clients])
            last.go_away()
            return write(frame)

        first.write = wrote
        await traded(stage)
        assert told_when == [[0, 0, 0, 0, 0]]
        assert [len(client.messages) for client in clients] == [1, 1, 1, 1, 0]

    assert WRITES_MAX > 2
    monkeypatch.setattr(settlement_channel, "WRITES_MAX", 2)
    story(tell)


def test_of_a_client_that_does_not_read_nothing_is_left_out_and_he_is_closed():
    async def tell(stage):
        client = await stage.client(reads=False)
        await client.say(type="subscribe", channel="settlement", marketId="m")
        for number in range(30):
            await traded(stage, f"{number}")
        await until(lambda: client.closed is not None or client.aborted)
        assert not stage.feed.settlements

    story(tell, ws_hard_bytes=2_000, ws_soft_bytes=1_000)
