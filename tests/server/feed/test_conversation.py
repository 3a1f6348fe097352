"""What a client may ask for, what he is told, and what he is closed for."""

import pytest
from msgspec import structs

from clob import AddMarket, CancelAll, SetMarket
from clob.signing import ZERO_ADDRESS
from tests.matchers import buy, market, sell
from tests.server.feed.readers import BookReader
from tests.server.feed.stage import Stage, played, turns, until


def numbered(name="m", yes=101, **fields):
    """A market whose tokens are numbers, as on a chain."""
    return market(name, **({"yes": f"{yes}", "no": f"{yes + 1}"} | fields))


def kinds(messages):
    return [message["type"] for message in messages]


def story(tell):
    """Tell a story with a market in it, at whose end nobody is left."""

    async def whole():
        async with Stage() as stage:
            await stage.do(AddMarket(market=numbered("m"), now_ms=1))
            await tell(stage)

    played(whole())


def test_a_plain_subscribe_gets_a_snapshot_of_each_token_yes_first_and_then_events():
    async def tell(stage):
        await stage.do(sell("a", 60, 5, token="101", now_ms=2))
        client = await stage.client()
        await client.subscribe()
        first, second = client.taken()
        assert (first["tokenId"], second["tokenId"]) == ("101", "102")
        assert first["seq"] == second["seq"] == 1
        asks = [{"price": 60, "size": "5", "numOrders": 1, "orders": 1}]
        assert first["data"] == {"bids": [], "asks": asks, "lastUpdate": 2}
        await stage.do(
            buy("b", 60, 2, token="101", now_ms=3), buy("c", 40, 7, token="102", now_ms=3)
        )
        trade, added = client.taken()
        assert (trade["type"], trade["seq"], trade["timestamp"]) == ("trade", 2, 3)
        assert trade["data"]["restingRemaining"] == "3"
        assert trade["data"]["incomingRemaining"] == "0"
        assert added == {
            "type": "order_added",
            "channel": "orderbook",
            "marketId": "m",
            "tokenId": "102",
            "seq": 3,
            "timestamp": 3,
            "data": {"orderId": "c", "side": 0, "price": 40, "size": "7"},
        }
        await stage.do(CancelAll(market="m", now_ms=4))
        gone, _ = client.taken("order_removed")
        assert gone["data"] == {
            "orderId": "a",
            "side": 1,
            "price": 60,
            "size": "3",
            "reason": "admin",
        }

    story(tell)


def test_an_extended_subscribe_is_confirmed_with_its_id():
    async def tell(stage):
        client = await stage.client()
        for given in (7, "seven"):
            await client.subscribe(extended=True, id=given)
            told = client.taken()
            assert kinds(told) == ["subscribed", "orderbook", "orderbook"]
            assert told[0]["id"] == given
            assert told[0]["resumed"] is False
        await client.say(type="unsubscribe", channel="orderbook", marketId="m", id=8)
        [over] = client.taken()
        assert (over["type"], over["marketId"], over["id"]) == ("unsubscribed", "m", 8)
        await stage.do(sell("a", 60, 5, token="101", now_ms=2))
        assert client.taken() == []

    story(tell)


def test_a_plain_client_hears_nothing_of_his_unsubscribing():
    async def tell(stage):
        client = await stage.client()
        await client.subscribe()
        client.taken()
        await client.say(type="unsubscribe", channel="orderbook", marketId="m")
        await stage.do(sell("a", 60, 5, token="101", now_ms=2))
        assert client.taken() == []
        assert client.closed is None

    story(tell)


@pytest.mark.parametrize("given", ["102", "0x66", 102])
def test_a_subscription_may_be_to_one_token(given):
    async def tell(stage):
        client = await stage.client()
        await client.subscribe(tokenId=given, extended=True)
        assert kinds(client.taken()) == ["subscribed", "orderbook"]
        await stage.do(
            sell("a", 60, 5, token="101", now_ms=2), sell("b", 61, 5, token="102", now_ms=2)
        )
        [added] = client.taken()
        assert (added["tokenId"], added["seq"]) == ("102", 2)

    story(tell)


def test_a_client_who_was_gone_for_a_while_resumes():
    async def tell(stage):
        await stage.do(*(sell(f"a{n}", 60, 5, token="101", now_ms=2) for n in range(250)))
        client = await stage.client()
        await client.subscribe(extended=True, resume={"seq": 50})
        told = client.taken()
        assert (told[0]["resumed"], told[0]["seq"]) == (True, 250)
        assert [message["seq"] for message in told[1:]] == list(range(51, 251))
        await client.subscribe(extended=True, resume={"seq": 250})
        assert kinds(client.taken()) == ["subscribed"]

    story(tell)


@pytest.mark.parametrize("seq", [-1, 3, 2**63])
def test_a_number_that_cannot_be_resumed_from_gives_a_snapshot(seq):
    async def tell(stage):
        client = await stage.client()
        await stage.do(sell("a", 60, 5, token="101", now_ms=2))
        await client.subscribe(extended=True, resume={"seq": seq})
        told = client.taken()
        assert kinds(told) == ["subscribed", "orderbook", "orderbook"]
        assert told[0]["resumed"] is False

    story(tell)


def test_a_number_that_was_let_go_gives_a_snapshot():
    async def whole():
        async with Stage(ws_resume_events=2) as stage:
            await stage.do(AddMarket(market=numbered("m"), now_ms=1))
            await stage.do(*(sell(f"a{n}", 60, 5, token="101", now_ms=2) for n in range(5)))
            for seq, resumed in ((2, False), (3, True)):
                client = await stage.client()
                await client.subscribe(extended=True, resume={"seq": seq})
                assert client.taken()[0]["resumed"] is resumed

    played(whole())


def test_of_many_markets_the_one_that_was_quiet_for_longest_is_let_go_first():
    async def whole():
        async with Stage(ws_resume_events=10) as stage:
            names = [f"m{n}" for n in range(22)]
            await stage.do(
                *(AddMarket(market=numbered(f"m{n}", 1_000 + 2 * n), now_ms=1) for n in range(22))
            )
            for number, name in enumerate(names):
                await stage.do(
                    *(
                        sell(
                            f"{name}-{n}",
                            60,
                            5,
                            market=name,
                            token=f"{1_000 + 2 * number}",
                            now_ms=number + 2,
                        )
                        for n in range(10)
                    )
                )
            streams = stage.feed.streams
            assert sum(len(stream.kept) for stream in streams) <= 200
            assert [len(streams.stream(name).kept) for name in names[:4]] == [0, 0, 0, 10]

    played(whole())


def test_a_plain_client_may_come_before_his_market():
    async def tell(stage):
        early, other = await stage.client(), await stage.client()
        await early.subscribe("later")
        await other.subscribe("later")
        await other.say(type="unsubscribe", channel="orderbook", marketId="later")
        assert early.taken() == []
        submit = sell("a", 60, 5, market="later", token="201", now_ms=2)
        await stage.do(AddMarket(market=numbered("later", 201, no=""), now_ms=2), submit)
        empty, added = early.taken()
        assert (empty["type"], empty["seq"], empty["tokenId"]) == ("orderbook", 0, "201")
        assert empty["data"] == {"bids": [], "asks": [], "lastUpdate": 0}
        assert (added["type"], added["seq"]) == ("order_added", 1)
        assert other.taken() == []

    story(tell)


def test_an_extended_client_is_told_that_there_is_no_such_market():
    async def tell(stage):
        client = await stage.client()
        await client.subscribe("later", extended=True, id=1)
        [error] = client.taken()
        assert (error["type"], error["code"], error["id"]) == ("error", "UNKNOWN_MARKET", 1)
        await stage.do(AddMarket(market=numbered("later", 201), now_ms=2))
        assert client.taken() == []

    story(tell)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "INVALID_JSON"),
        ("", "INVALID_JSON"),
        ("[" * 9_000, "INVALID_JSON"),
        ("[]", "INVALID_FIELD"),
        ('{"type":"tell"}', "INVALID_FIELD"),
        ('{"channel":"orderbook"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"tape","marketId":"m"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":7}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":"a b"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":"m","tokenId":""}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":"m","tokenId":-1}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":"m","resume":4}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":"m","tokenId":"9"}',
         "TOKEN_NOT_IN_MARKET"),
        ('{"type":"subscribe","channel":"settlement"}', "INVALID_FIELD"),
        ('{"type":"unsubscribe","channel":"settlement"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"user"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"user","maker":"me"}', "INVALID_ADDRESS"),
        ('{"type":"unsubscribe","channel":"user"}', "INVALID_FIELD"),
        (None, "INVALID_JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_to_those_who_understand_and_closes_all_others(text, code):
    async def tell(stage):
        plain, extended = await stage.client(), await stage.client()
        await extended.subscribe(extended=True)
        extended.taken()
        for client in (plain, extended):
            client._in.put_nowait({"type": "websocket.receive", "text": text})
        await turns()
        [error] = extended.taken()
        assert (error["type"], error["code"], extended.closed) == ("error", code, None)
        assert (plain.closed, plain.messages) == (1008, [])
        assert plain.reason.startswith(code)
        assert len(plain.reason.encode()) <= 123

    story(tell)


def test_a_refused_request_that_says_so_is_answered_to_an_extended_client():
    async def tell(stage):
        client = await stage.client()
        await client.say(type="subscribe", channel="tape", extended=True, id="x")
        [error] = client.taken()
        assert (error["code"], error["id"]) == ("INVALID_FIELD", "x")

    story(tell)


def test_a_ping_is_answered_in_its_own_words():
    async def tell(stage):
        client = await stage.client()
        await client.say(type="ping")
        await client.say(type="ping", id=3)
        assert client.taken() == [{"type": "pong"}, {"type": "pong", "id": 3}]

    story(tell)


def test_the_subscriptions_of_a_client_are_limited():
    async def whole():
        async with Stage(ws_subscriptions_max=2) as stage:
            await stage.do(AddMarket(market=numbered("m"), now_ms=1))
            client, plain = await stage.client(), await stage.client()
            await client.subscribe(extended=True)
            await client.say(type="subscribe", channel="user", maker=ZERO_ADDRESS, extended=True)
            await client.subscribe(extended=True)  # the same again
            client.taken()
            await client.say(type="subscribe", channel="user", maker=f"0x{'1' * 40}")
            assert client.taken()[0]["code"] == "TOO_MANY_SUBSCRIPTIONS"
            for name in ("a", "b", "c"):
                await plain.subscribe(name)
            assert plain.closed == 1008

    played(whole())


def test_the_messages_of_a_client_are_limited():
    async def whole():
        async with Stage(ws_messages_per_minute=3) as stage:
            client = await stage.client()
            for _ in range(3):
                await client.say(type="ping")
            assert client.closed is None
            await client.say(type="ping")
            assert client.closed == 1008
            assert client.reason.startswith("RATE_LIMITED")

    played(whole())


def test_who_does_not_subscribe_is_closed():
    async def whole():
        async with Stage(ws_subscribe_timeout_s=1) as stage:
            silent, busy, done = [await stage.client() for _ in range(3)]
            await busy.subscribe("a")
            await done.subscribe("a")
            await done.say(type="unsubscribe", channel="orderbook", marketId="a")
            await until(lambda: silent.closed and done.closed)
            assert (silent.closed, done.closed, busy.closed) == (1008, 1008, None)

    played(whole())


def test_a_quiet_market_beats_with_its_number():
    async def whole():
        async with Stage(ws_heartbeat_s=1) as stage:
            await stage.do(AddMarket(market=numbered("m"), now_ms=1))
            plain, extended = await stage.client(), await stage.client()
            await plain.subscribe()
            await extended.subscribe(extended=True)
            await extended.say(
                type="subscribe", channel="user", maker=ZERO_ADDRESS, extended=True, marketId="m"
            )
            await stage.do(sell("a", 60, 5, token="101", now_ms=2))
            seen = []

            def heard():
                seen.extend(extended.taken("heartbeat"))
                return {message["channel"] for message in seen} == {"orderbook", "user"}

            await until(heard)
            assert {(message["marketId"], message["seq"]) for message in seen} == {("m", 1)}
            assert kinds(plain.messages) == ["orderbook", "orderbook", "order_added"]

    played(whole())


def test_a_token_that_gets_its_name_later_is_told_with_an_empty_book():
    async def tell(stage):
        await stage.do(AddMarket(market=numbered("half", 201, no=""), now_ms=2))
        client = await stage.client()
        await client.subscribe("half")
        reader = BookReader()
        reader.take(client.taken())
        assert list(reader.levels) == ["201"]
        naming = stage.exchange.matcher.market("half")
        await stage.do(
            sell("a", 60, 5, market="half", token="201", now_ms=3),
            named(naming),
            sell("b", 60, 5, market="half", token="202", now_ms=3),
        )
        told = client.taken()
        assert [(each["type"], each["seq"]) for each in told] == [
            ("order_added", 1), ("orderbook", 1), ("order_added", 2),
        ]  # fmt: skip
        assert (told[1]["tokenId"], told[1]["data"]["lastUpdate"]) == ("202", 3)

    story(tell)


def named(market_before):
    """The command that names the second token."""
    after = structs.replace(market_before, no="202")
    return SetMarket(market=after, now_ms=3)


def test_where_there_is_no_door_frames_go_through_asgi():
    async def tell(stage):
        client = await stage.client(door=False)
        await client.subscribe()
        await stage.do(*(sell(f"a{n}", 60, 5, token="101", now_ms=2) for n in range(300)))
        reader = BookReader()
        reader.take(client.taken())
        assert (reader.seq, len(reader.orders)) == (300, 300)
        assert stage.feed.buffered_bytes == 0

    story(tell)
