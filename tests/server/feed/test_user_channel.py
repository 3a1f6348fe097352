"""The user channel: orders and fills of one maker."""

import random  # noqa: TID251 - seeded, and outside the engine
from contextlib import asynccontextmanager

import msgspec
import pytest

from clob import (
    AddMarket,
    Batch,
    Cancel,
    Funds,
    Limits,
    Mode,
    SelfTrade,
    SetBalance,
    SetLimits,
    SetMode,
    Settled,
    Side,
    TimeInForce,
    Trade,
)
from clob_server.core.commands import AddKey, ApiKey, DeactivateKey
from clob_server.feed import user_channel
from tests.matcher_model.flow import Flow
from tests.matcher_model.worlds import SMALL
from tests.matchers import buy, market, sell
from tests.server.feed.harness import FeedHarness, run_loop

ALICE, BOB, SAFE = ("0x" + digit * 40 for digit in "123")
OF_ALICE = {"maker": ALICE}


async def subscribed_client(harness, maker=ALICE, **fields):
    client = await harness.client()
    await client.send(type="subscribe", channel="user", maker=maker, **fields)
    return client


@asynccontextmanager
async def running_market(**settings):
    """Run a feed with one market for the block."""
    async with FeedHarness(**settings) as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        yield harness


async def test_subscription_starts_with_the_open_orders():
    async with running_market() as harness:
        await harness.apply(
            sell("a", 60, 5, **OF_ALICE, now_ms=2), sell("b", 60, 5, maker=BOB, now_ms=2)
        )
        await harness.apply(AddMarket(market=market("n"), now_ms=2))
        client = await subscribed_client(harness)
        [orders] = client.received()
        assert (orders["type"], orders["marketId"], orders["seq"]) == ("orders", None, None)
        assert [order["id"] for order in orders["data"]] == ["a"]
        client = await subscribed_client(harness, marketId="n", extended=True)
        subscribed, orders = client.received()
        assert (subscribed["type"], subscribed["channel"]) == ("subscribed", "user")
        assert (orders["marketId"], orders["seq"], orders["data"]) == ("n", 0, [])


async def test_each_fill_is_sent_and_then_the_order():
    async with running_market() as harness:
        client, other = await subscribed_client(harness), await subscribed_client(harness, BOB)
        for each in (client, other):
            each.received()
        await harness.apply(sell("a", 60, 5, **OF_ALICE, now_ms=2))
        [order] = client.received()
        assert (order["type"], order["seq"], order["data"]["status"]) == ("order", 1, "open")
        assert order["data"]["remaining"] == "5"
        await harness.apply(buy("b", 60, 2, maker=BOB, now_ms=3))
        fill, order = client.received()
        assert (fill["type"], fill["seq"], fill["timestamp"]) == ("fill", 2, 3)
        assert fill["data"]["orderId"] == fill["data"]["restingOrderId"] == "a"
        assert (fill["data"]["role"], fill["data"]["side"]) == ("resting", 1)
        assert fill["data"]["remaining"] == "3"
        assert (order["seq"], order["data"]["status"]) == (2, "partial")
        fill, order = other.received()
        assert (fill["data"]["orderId"], fill["data"]["role"]) == ("b", "incoming")
        assert (fill["data"]["side"], fill["data"]["remaining"]) == (0, "0")
        assert (order["data"]["id"], order["data"]["status"]) == ("b", "filled")


async def test_order_that_never_rests_is_sent():
    async with running_market() as harness:
        client = await subscribed_client(harness)
        client.received()
        await harness.apply(sell("a", 60, 5, **OF_ALICE, time_in_force=TimeInForce.IOC, now_ms=2))
        [order] = client.received()
        assert (order["data"]["status"], order["seq"]) == ("cancelled", 0)


async def test_last_of_several_changes_in_a_batch_is_sent():
    async with running_market() as harness:
        client = await subscribed_client(harness)
        client.received()
        await harness.apply(sell("a", 60, 5, **OF_ALICE, now_ms=2), Cancel(order_id="a", now_ms=2))
        [order] = client.received()
        assert (order["seq"], order["data"]["cancelReason"]) == (2, "admin")


async def test_rejected_orders_of_a_batch_are_not_sent():
    async with running_market() as harness:
        client = await subscribed_client(harness)
        client.received()
        never = sell("x", 60, 5, **OF_ALICE, time_in_force=TimeInForce.FOK)
        orders = (sell("a", 60, 5, **OF_ALICE), never, sell("b", 61, 5, **OF_ALICE))
        await harness.apply(Batch(commands=orders, now_ms=2))
        assert [each["data"]["id"] for each in client.received()] == ["a", "b"]


async def test_subscription_to_one_market():
    async with running_market() as harness:
        await harness.apply(AddMarket(market=market("n"), now_ms=2))
        client = await subscribed_client(harness, marketId="n")
        await harness.apply(sell("a", 60, 5, **OF_ALICE, now_ms=2))
        await harness.apply(sell("b", 60, 5, **OF_ALICE, market="n", token="n-yes", now_ms=2))
        assert [each["data"]["id"] for each in client.received("order")] == ["b"]


async def test_unsubscribe_ends_the_subscription():
    async with running_market() as harness:
        client = await subscribed_client(harness)
        await client.send(type="unsubscribe", channel="user", maker=ALICE)
        client.received()
        await harness.apply(sell("a", 60, 5, **OF_ALICE, now_ms=2))
        assert client.received() == []
        assert not harness.feed.channels.users


async def test_open_orders_are_sent_again_if_the_engine_dropped_a_finished_order():
    async with running_market() as harness:
        await harness.apply(SetLimits(limits=Limits(finished_max=1), now_ms=2))
        client = await subscribed_client(harness)
        client.received()
        await harness.apply(*(sell(f"a{n}", 60, 5, **OF_ALICE, now_ms=2) for n in range(3)))
        await harness.apply(SetMode(market="m", mode=Mode.RESOLVED, now_ms=3))
        messages = client.received()[3:]
        assert [each["type"] for each in messages] == ["order", "orders"]
        assert messages[1]["data"] == []


async def test_too_many_open_orders_are_rejected(monkeypatch):
    monkeypatch.setattr(user_channel, "ORDERS_MAX", 2)

    async with running_market() as harness:
        await harness.apply(*(sell(f"a{n}", 60, 5, **OF_ALICE, now_ms=2) for n in range(3)))
        client = await subscribed_client(harness, extended=True)
        [error] = client.received()
        assert error["code"] == "TOO_MANY_ORDERS"
        assert not harness.feed.channels.users
        await harness.apply(sell("b", 60, 5, **OF_ALICE, now_ms=2))
        assert client.received() == []


def api_key(key_id):
    terms = {"hash": bytes(32), "name": "", "environment": "test", "created_ms": 0}
    return ApiKey(id=key_id, scopes=("read",), makers=(), **terms)


async def test_deactivated_key_closes_its_websocket():
    key = api_key("k")
    async with FeedHarness(keys={b"secret": key}) as harness:
        await harness.apply(AddKey(key=key, now_ms=1))
        with_key = await harness.client(headers=[(b"x-api-key", b"secret")])
        without = await harness.client()
        for client in (with_key, without):
            await client.send(type="subscribe", channel="user", maker=ALICE)
        await harness.apply(DeactivateKey(key_id="k", now_ms=2))
        assert (with_key.closed, without.closed) == (1008, None)
        assert with_key.reason == "INVALID_API_KEY: the key was deactivated"


async def test_deactivated_key_closes_the_websockets_with_a_subscription_of_it():
    keys = {name: api_key(name.decode()) for name in (b"one", b"two")}
    subscribe = {"type": "subscribe", "channel": "user", "extended": True}
    async with FeedHarness(keys=keys) as harness:
        for key in keys.values():
            await harness.apply(AddKey(key=key, now_ms=1))
        following, armed, replaced, left, other = [await harness.client() for _ in range(5)]
        for client in (following, replaced, left):
            await client.send(**subscribe, maker=ALICE, apiKey="one")
        await armed.send(**subscribe, maker=ALICE, apiKey="one", cancelOnDisconnect=True)
        await replaced.send(**subscribe, maker=ALICE, apiKey="two")
        await left.send(type="unsubscribe", channel="user", maker=ALICE, extended=True)
        await other.send(**subscribe, maker=ALICE, apiKey="two")
        await harness.apply(DeactivateKey(key_id="one", now_ms=2))
        closed = [each.closed for each in (following, armed, replaced, left, other)]
        assert closed == [1008, 1008, None, None, None]


@pytest.mark.parametrize("channel", ["orderbook", "settlement", "ticker", "candles"])
async def test_key_of_a_subscription_to_another_channel_is_rejected(channel):
    async with running_market() as harness:
        client = await harness.client()
        scope = {"channel": channel, "marketId": "m", "extended": True}
        await client.send(type="subscribe", **scope, apiKey="clob_secret")
        [error] = client.received()
        assert error["code"] == "INVALID_FIELD"
        assert error["message"] == f"apiKey is for the channel user, not for {channel}"


@pytest.mark.parametrize("seed", range(3))
async def test_messages_contain_every_open_order_and_fill(seed):
    rng = random.Random(seed)
    makers = [f"0x{number:040}" for number in (1, 2, 3)]
    # A server never uses an id again, also not one of a market that was removed.
    world = msgspec.structs.replace(SMALL, broken=0, odd=0, makers=tuple(makers))
    trades = []

    def on_batch(batch):
        for done in batch:
            if isinstance(done.outcome, list | tuple):
                trades.extend(event for event in done.outcome if type(event) is Trade)

    def assert_complete(harness, maker, messages):
        known = {}
        for each in messages:
            if each["type"] == "orders":
                known = {order["id"]: order for order in each["data"]}
            elif each["type"] == "order":
                known[each["data"]["id"]] = each["data"]
        for order in harness.exchange.matcher.open_orders(maker):
            sent = known.pop(str(order.order.id))
            assert (sent["remaining"], sent["price"]) == (str(order.remaining), order.price)
            assert (sent["status"], sent["filledTokens"]) == (order.status, str(order.filled))
        assert {order["status"] for order in known.values()} <= {"filled", "cancelled"}
        fills = [each["data"] for each in messages if each["type"] == "fill"]
        assert [(f["marketId"], f["seq"], f["size"]) for f in fills] == [
            (trade.market, trade.seq, str(trade.size))
            for trade in trades
            for wallet in makers_of(trade)
            if wallet == maker
        ]

    async with FeedHarness() as harness:
        harness.engine.subscribe(on_batch)
        flow = Flow(rng, world, harness.exchange.matcher)
        await harness.apply(*flow.opening())
        clients = {maker: await subscribed_client(harness, maker) for maker in makers}
        for _ in range(300):
            await harness.apply(
                *(flow.command() for _ in range(rng.choice((1, 2, 10)))), num_iterations=1
            )
        await run_loop()
        for maker, client in clients.items():
            assert_complete(harness, maker, client.received())
    assert len(trades) > 50


def makers_of(trade):
    """Return the makers of a trade, the resting order's first."""
    both = (trade.buyer, trade.seller)
    return both if trade.incoming_side is Side.SELL else both[::-1]


# ----- accounts ------------------------------------------------------------------------------


def balances(message):
    """Return balance, reserved, unsettled and available by asset."""
    names = ("balance", "reserved", "unsettled", "available")
    return {each["asset"]: tuple(int(each[name]) for name in names) for each in message["data"]}


@asynccontextmanager
async def running_accounts():
    """Run a feed with two markets with accounts, of which one settles, for the block."""
    async with FeedHarness() as harness:
        rich = {"amount": 1_000, "now_ms": 1}
        for settles, name in ((False, "m"), (True, "s")):
            own = market(name, funds=Funds.ACCOUNTS, settles=settles, collateral="usd")
            await harness.apply(AddMarket(market=own, now_ms=1))
            await harness.apply(
                SetBalance(wallet=ALICE, asset=f"{name}-yes", **rich),
                SetBalance(wallet=BOB, asset="usd", **rich),
            )
        yield harness


async def test_extended_client_gets_the_accounts_and_then_those_that_change():
    async with running_accounts() as harness:
        client = await subscribed_client(harness, extended=True)
        of_bob = await subscribed_client(harness, BOB, extended=True)
        plain = await subscribed_client(harness)
        *_, first = client.received()
        assert (first["type"], first["maker"]) == ("account", ALICE)
        full = {"m-yes": (1_000, 0, 0, 1_000), "s-yes": (1_000, 0, 0, 1_000)}
        assert balances(first) == full
        of_bob.received()
        await harness.apply(sell("a", 60, 500, **OF_ALICE, now_ms=2))
        order, account = client.received()
        assert (order["type"], account["timestamp"]) == ("order", 2)
        assert balances(account) == {"m-yes": (1_000, 500, 0, 500)}
        assert of_bob.received() == []
        await harness.apply(buy("b", 60, 200, maker=BOB, now_ms=3))
        *_, account = client.received()
        expected = {"m-yes": (800, 300, 0, 500), "usd": (120, 0, 0, 120)}
        assert balances(account) == expected
        *_, account = of_bob.received()
        assert balances(account) == {"m-yes": (200, 0, 0, 200), "usd": (880, 0, 0, 880)}
        await harness.apply(Cancel(order_id="a", now_ms=4))
        assert balances(client.received("account")[-1]) == {"m-yes": (800, 0, 0, 800)}
        await harness.apply(SetBalance(wallet=BOB, asset="usd", amount=880, now_ms=5))
        assert of_bob.received() == []
        assert "account" not in {each["type"] for each in plain.received()}


async def test_settlement_changes_accounts_of_subscriptions_to_their_market():
    async with running_accounts() as harness:
        own = await subscribed_client(harness, BOB, extended=True, marketId="s")
        other = await subscribed_client(harness, BOB, extended=True, marketId="m")
        token = {"market": "s", "token": "s-yes"}
        await harness.apply(sell("a", 60, 500, **OF_ALICE, **token, now_ms=2))
        for each in (own, other):
            assert balances(each.received("account")[-1]) == {"usd": (1_000, 0, 0, 1_000)}
        await harness.apply(buy("b", 60, 100, maker=BOB, **token, now_ms=3))
        assert balances(own.received("account")[-1]) == {"usd": (1_000, 0, 60, 940)}
        await harness.apply(Settled(market="s", trades=(2,), now_ms=4))
        [account] = own.received()
        assert balances(account) == {"s-yes": (100, 0, 0, 100), "usd": (940, 0, 0, 940)}
        shared = [balances(each) for each in other.received("account")]
        assert shared == [{"usd": (1_000, 0, 60, 940)}, {"usd": (940, 0, 0, 940)}]


async def test_wallet_that_the_order_of_another_maker_names_gets_the_changes_of_its_account():
    async with running_accounts() as harness:
        await harness.apply(SetBalance(wallet=SAFE, asset="usd", amount=1_000, now_ms=1))
        paid = {"maker": "0xD", "smart_wallet": SAFE}
        await harness.apply(buy("before", 40, 100, **paid, now_ms=2))
        of_safe = await subscribed_client(harness, SAFE, extended=True)
        of_bob = await subscribed_client(harness, BOB, extended=True)
        *_, first = of_safe.received()
        assert balances(first) == {"usd": (1_000, 40, 0, 960)}
        of_bob.received()
        await harness.apply(buy("b", 60, 500, **paid, now_ms=3))
        [account] = of_safe.received()
        assert (account["type"], account["maker"]) == ("account", SAFE)
        assert balances(account) == {"usd": (1_000, 340, 0, 660)}
        await harness.apply(sell("a", 60, 200, **OF_ALICE, now_ms=4))
        assert balances(*of_safe.received()) == {"usd": (880, 220, 0, 660)}
        await harness.apply(Cancel(order_id="b", now_ms=5))
        assert balances(*of_safe.received()) == {"usd": (880, 40, 0, 840)}
        await harness.apply(Cancel(order_id="before", now_ms=6))
        assert balances(*of_safe.received()) == {"usd": (880, 0, 0, 880)}
        assert of_bob.received() == []


@pytest.mark.parametrize("seed", range(3))
async def test_accounts_kept_from_the_messages_equal_the_engines(seed):
    async with running_accounts() as harness:
        rng, kept, clients = random.Random(seed), {ALICE: {}, BOB: {}, SAFE: {}}, {}
        await harness.apply(SetBalance(wallet=SAFE, asset="usd", amount=1_000, now_ms=1))
        for maker in kept:
            clients[maker] = await subscribed_client(harness, maker, extended=True)
        for number in range(150):
            name = rng.choice("ms")
            fields = {"market": name, "token": f"{name}-yes", "now_ms": 2 + number}
            maker, make = rng.choice(
                ((ALICE, sell), (BOB, buy), (ALICE, buy), (BOB, sell), ("0xD", buy), ("0xD", sell))
            )
            fields["smart_wallet"] = rng.choice(("", SAFE, BOB)) if maker != BOB else ""
            order = make(
                f"o{number}", rng.randint(50, 55), rng.randint(1, 9), maker=maker, **fields
            )
            waiting = harness.exchange.matcher.unsettled("s")
            settle = Settled(market="s", trades=tuple(waiting[:2]), now_ms=2 + number)
            await harness.apply(order, *([settle] if waiting and rng.random() < 0.3 else []))
            for maker, client in clients.items():
                for message in client.received("account"):
                    kept[maker] |= balances(message)
                for asset in ("usd", "m-yes", "m-no", "s-yes", "s-no"):
                    own = harness.exchange.matcher.balance(maker, asset)
                    expected = (own.balance, own.reserved, own.unsettled, own.available)
                    assert kept[maker].get(asset, (0, 0, 0, 0)) == expected
        assert harness.exchange.num_trades > 20


async def test_fee_wallet_gets_its_account_after_trades_of_others():
    async with FeedHarness() as harness:
        own = market(funds=Funds.ACCOUNTS, fee_wallet=BOB, incoming_fee_rate_bps=1_000)
        await harness.apply(AddMarket(market=own, now_ms=1))
        for asset in (own.collateral, own.yes):
            await harness.apply(SetBalance(wallet=ALICE, asset=asset, amount=1_000, now_ms=1))
        client = await subscribed_client(harness, BOB, extended=True)
        assert "account" not in {each["type"] for each in client.received()}
        fields = OF_ALICE | {"now_ms": 2, "self_trade": SelfTrade.NONE}
        await harness.apply(buy("b", 50, 1_000, **fields), sell("s", 50, 1_000, **fields))
        [account] = client.received()
        assert balances(account) == {own.collateral: (50, 0, 0, 50)}
