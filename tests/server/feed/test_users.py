"""The user channel: what becomes of a maker's orders, and nobody else's."""

import random  # noqa: TID251 - seeded, and outside the engine

import msgspec
import pytest

from clob import (
    AddMarket,
    Batch,
    Cancel,
    Limits,
    Mode,
    SetLimits,
    SetMode,
    Side,
    TimeInForce,
    Trade,
)
from clob_server.core.commands import AddKey, ApiKey, DeactivateKey
from clob_server.feed import user_channel
from tests.matcher_model.flow import Flow
from tests.matcher_model.worlds import SMALL
from tests.matchers import buy, market, sell
from tests.server.feed.stage import Stage, played, turns

ALICE, BOB = "0x" + "1" * 40, "0x" + "2" * 40
ME = {"maker": ALICE}


async def watching(stage, maker=ALICE, **fields):
    client = await stage.client()
    await client.say(type="subscribe", channel="user", maker=maker, **fields)
    return client


def story(tell, **settings):
    async def whole():
        async with Stage(**settings) as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            await tell(stage)

    played(whole())


def test_it_begins_with_the_open_orders_of_the_maker():
    async def tell(stage):
        await stage.do(sell("a", 60, 5, **ME, now_ms=2), sell("b", 60, 5, maker=BOB, now_ms=2))
        await stage.do(AddMarket(market=market("n"), now_ms=2))
        client = await watching(stage)
        [orders] = client.taken()
        assert (orders["type"], orders["marketId"], orders["seq"]) == ("orders", None, None)
        assert [order["id"] for order in orders["data"]] == ["a"]
        client = await watching(stage, marketId="n", extended=True)
        subscribed, orders = client.taken()
        assert (subscribed["type"], subscribed["channel"]) == ("subscribed", "user")
        assert (orders["marketId"], orders["seq"], orders["data"]) == ("n", 0, [])

    story(tell)


def test_a_maker_hears_of_each_fill_and_of_his_order_after_it():
    async def tell(stage):
        client, other = await watching(stage), await watching(stage, BOB)
        for each in (client, other):
            each.taken()
        await stage.do(sell("a", 60, 5, **ME, now_ms=2))
        [order] = client.taken()
        assert (order["type"], order["seq"], order["data"]["status"]) == ("order", 1, "open")
        assert order["data"]["remaining"] == "5"
        await stage.do(buy("b", 60, 2, maker=BOB, now_ms=3))
        fill, order = client.taken()
        assert (fill["type"], fill["seq"], fill["timestamp"]) == ("fill", 2, 3)
        assert fill["data"]["orderId"] == fill["data"]["restingOrderId"] == "a"
        assert (fill["data"]["role"], fill["data"]["side"]) == ("resting", 1)
        assert fill["data"]["remaining"] == "3"
        assert (order["seq"], order["data"]["status"]) == (2, "partial")
        fill, order = other.taken()
        assert (fill["data"]["orderId"], fill["data"]["role"]) == ("b", "incoming")
        assert (fill["data"]["side"], fill["data"]["remaining"]) == (0, "0")
        assert (order["data"]["id"], order["data"]["status"]) == ("b", "filled")

    story(tell)


def test_an_order_that_never_rests_is_told_as_well():
    async def tell(stage):
        client = await watching(stage)
        client.taken()
        await stage.do(sell("a", 60, 5, **ME, time_in_force=TimeInForce.IOC, now_ms=2))
        [order] = client.taken()
        assert (order["data"]["status"], order["seq"]) == ("cancelled", 0)

    story(tell)


def test_of_several_changes_at_once_the_last_is_told():
    async def tell(stage):
        client = await watching(stage)
        client.taken()
        await stage.do(sell("a", 60, 5, **ME, now_ms=2), Cancel(order_id="a", now_ms=2))
        [order] = client.taken()
        assert (order["seq"], order["data"]["cancelReason"]) == (2, "admin")

    story(tell)


def test_the_orders_of_a_batch_are_told_and_what_it_refused_is_not():
    async def tell(stage):
        client = await watching(stage)
        client.taken()
        never = sell("x", 60, 5, **ME, time_in_force=TimeInForce.FOK)
        orders = (sell("a", 60, 5, **ME), never, sell("b", 61, 5, **ME))
        await stage.do(Batch(commands=orders, now_ms=2))
        assert [each["data"]["id"] for each in client.taken()] == ["a", "b"]

    story(tell)


def test_a_market_may_be_named():
    async def tell(stage):
        await stage.do(AddMarket(market=market("n"), now_ms=2))
        client = await watching(stage, marketId="n")
        await stage.do(sell("a", 60, 5, **ME, now_ms=2))
        await stage.do(sell("b", 60, 5, **ME, market="n", token="n-yes", now_ms=2))
        assert [each["data"]["id"] for each in client.taken("order")] == ["b"]

    story(tell)


def test_unsubscribing_ends_it():
    async def tell(stage):
        client = await watching(stage)
        await client.say(type="unsubscribe", channel="user", maker=ALICE)
        client.taken()
        await stage.do(sell("a", 60, 5, **ME, now_ms=2))
        assert client.taken() == []
        assert not stage.feed.users

    story(tell)


def test_where_the_engine_has_let_go_of_an_order_all_that_are_open_are_told_again():
    async def tell(stage):
        await stage.do(SetLimits(limits=Limits(finished_max=1), now_ms=2))
        client = await watching(stage)
        client.taken()
        await stage.do(*(sell(f"a{n}", 60, 5, **ME, now_ms=2) for n in range(3)))
        await stage.do(SetMode(market="m", mode=Mode.RESOLVED, now_ms=3))
        told = client.taken()[3:]
        assert [each["type"] for each in told] == ["order", "orders"]
        assert told[1]["data"] == []

    story(tell)


def test_orders_that_are_too_many_to_be_told_at_once_are_refused(monkeypatch):
    monkeypatch.setattr(user_channel, "ORDERS_MAX", 2)

    async def tell(stage):
        await stage.do(*(sell(f"a{n}", 60, 5, **ME, now_ms=2) for n in range(3)))
        client = await watching(stage, extended=True)
        [error] = client.taken()
        assert error["code"] == "TOO_MANY_ORDERS"
        assert not stage.feed.users
        await stage.do(sell("b", 60, 5, **ME, now_ms=2))
        assert client.taken() == []

    story(tell)


def test_a_key_that_is_deactivated_ends_its_websocket():
    key = ApiKey(
        id="k",
        hash=bytes(32),
        name="",
        environment="test",
        scopes=("read",),
        makers=(),
        created_ms=0,
    )

    async def whole():
        async with Stage(keys={b"secret": key}) as stage:
            await stage.do(AddKey(key=key, now_ms=1))
            with_key = await stage.client(headers=[(b"x-api-key", b"secret")])
            without = await stage.client()
            for client in (with_key, without):
                await client.say(type="subscribe", channel="user", maker=ALICE)
            await stage.do(DeactivateKey(key_id="k", now_ms=2))
            assert (with_key.closed, without.closed) == (1008, None)
            assert with_key.reason == "INVALID_API_KEY: the key was deactivated"

    played(whole())


@pytest.mark.parametrize("seed", range(3))
def test_a_maker_who_only_listens_knows_his_orders_and_all_of_his_fills(seed):
    rng = random.Random(seed)
    makers = [f"0x{number:040}" for number in (1, 2, 3)]
    world = msgspec.structs.replace(SMALL, broken=0, makers=tuple(makers))
    trades = []

    def note(batch):
        for done in batch:
            if isinstance(done.outcome, list | tuple):
                trades.extend(event for event in done.outcome if type(event) is Trade)

    async def whole():
        async with Stage() as stage:
            stage.engine.listeners.append(note)
            flow = Flow(rng, world, stage.exchange.matcher)
            await stage.do(*flow.opening())
            clients = {maker: await watching(stage, maker) for maker in makers}
            for _ in range(300):
                await stage.do(
                    *(flow.command() for _ in range(rng.choice((1, 2, 10)))), num_turns=1
                )
            await turns()
            for maker, client in clients.items():
                assert_told(stage, maker, client.taken())

    def assert_told(stage, maker, told):
        known = {}
        for each in told:
            if each["type"] == "orders":
                known = {order["id"]: order for order in each["data"]}
            elif each["type"] == "order":
                known[each["data"]["id"]] = each["data"]
        for order in stage.exchange.matcher.open_orders(maker):
            mine = known.pop(str(order.order.id))
            assert (mine["remaining"], mine["price"]) == (str(order.remaining), order.price)
            assert (mine["status"], mine["filledTokens"]) == (order.status, str(order.filled))
        assert {order["status"] for order in known.values()} <= {"filled", "cancelled"}
        fills = [each["data"] for each in told if each["type"] == "fill"]
        assert [(f["marketId"], f["seq"], f["size"]) for f in fills] == [
            (trade.market, trade.seq, str(trade.size))
            for trade in trades
            for wallet in sides(trade)
            if wallet == maker
        ]

    played(whole())
    assert len(trades) > 50


def sides(trade):
    """The makers of a trade, that of the order that rested first."""
    both = (trade.buyer, trade.seller)
    return both if trade.incoming_side is Side.SELL else both[::-1]
