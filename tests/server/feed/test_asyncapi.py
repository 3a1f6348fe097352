"""Every sent and received message matches the AsyncAPI description."""

import asyncio

import jsonschema_rs
import msgspec
import pytest

from clob import AddMarket, Limits, Mode, Reduce, SetLimits, SetMode
from clob.wire.messages import EVERY, PLAIN
from clob_server.feed.asyncapi import document
from tests.matchers import buy, market, sell
from tests.server.feed.harness import FeedHarness, until
from tests.server.settled import ALICE, BOB, YES, ended, opening, sent, settling

MAKER = "0x" + "1" * 40


def strict(schema):
    """Reject fields that are not described."""
    if isinstance(schema, dict):
        schema = {name: strict(part) for name, part in schema.items()}
        if schema.get("type") == "object" and "properties" in schema:
            schema["additionalProperties"] = False
        return schema
    return [strict(part) for part in schema] if isinstance(schema, list) else schema


def validator(kind):
    """Return a strict validator for a message type."""
    described = document()
    names = {
        message["name"]: message["payload"]["$ref"]
        for message in described["components"]["messages"].values()
    }
    schemas = strict(described["components"]["schemas"])
    return jsonschema_rs.validator_for({"$ref": names[kind], "components": {"schemas": schemas}})


async def every_message():
    """Return messages of every type: those of a plain and those of an extended client."""
    async with FeedHarness(ws_heartbeat_s=1) as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        await harness.apply(SetLimits(limits=Limits(), now_ms=1), *opening(settling("n")))
        plain, extended = await harness.client(), await harness.client()
        await plain.subscribe()
        for channel in ("orderbook", "user"):
            await extended.send(
                type="subscribe",
                channel=channel,
                marketId="m",
                extended=True,
                id=1,
                **({"maker": MAKER} if channel == "user" else {}),
            )
        await extended.send(type="subscribe", channel="user", maker=MAKER, extended=True)
        await harness.apply(
            sell("a", 60, 9, maker=MAKER, now_ms=2, client_id="mine"),
            sell("b", 61, 9, maker=MAKER, now_ms=2, order_hash=bytes(32)),
            buy("c", 60, 4, maker=MAKER, now_ms=2),
            Reduce(order_id="a", size=1, now_ms=2),
            buy("d", 60, 9, now_ms=2),
        )
        await extended.send(type="subscribe", channel="ticker", marketId="m", extended=True)
        await extended.send(
            type="subscribe", channel="candles", marketId="m", interval="1m", extended=True
        )
        await extended.send(type="ping")
        await extended.send(type="request", id=7, operation="create_order", body={"maker": MAKER})
        await extended.send(type="subscribe", channel="settlement", id="x")
        await extended.send(type="subscribe", channel="settlement", maker=ALICE, extended=True)
        fields = {"market": "n", "token": YES, "now_ms": 3}
        await harness.apply(
            sell("e", 60, 100, maker=ALICE, **fields), buy("f", 60, 100, maker=BOB, **fields)
        )
        await harness.apply(sent(3, now_ms=4))
        await harness.apply(ended(3, reason="nothing is left", now_ms=5))
        await harness.apply(SetMode(market="n", mode=Mode.HALTED, now_ms=6))

        def heartbeats():
            return {m["channel"] for m in extended.messages if m["type"] == "heartbeat"}

        await until(lambda: heartbeats() == {"orderbook", "user", "settlement"})
        for kind in ("ticker", "candles"):
            await until(lambda kind=kind: any(m["type"] == kind for m in extended.messages))
        await extended.send(type="unsubscribe", channel="orderbook", marketId="m")
        return plain.received(), extended.received()


@pytest.fixture(scope="module")
def messages():
    return asyncio.run(asyncio.wait_for(every_message(), 120))


def test_sent_messages_match_the_description(messages):
    checks = {str(kind.__struct_config__.tag): None for kind in EVERY}
    checks = {kind: validator(kind) for kind in checks}
    plain, extended = messages
    for message in plain + extended:
        checks[message["type"]].validate(message)
    assert {message["type"] for message in plain} == {
        str(kind.__struct_config__.tag) for kind in PLAIN
    }
    assert {message["type"] for message in plain + extended} == checks.keys()


def test_validator_rejects_wrong_messages(messages):
    message = next(each for each in messages[0] if each["type"] == "trade")
    check = validator("trade")
    for wrong in ({**message, "seq": "1"}, {**message, "more": 1}, {"type": "trade"}):
        assert not check.is_valid(wrong)


@pytest.mark.parametrize(
    "request_body",
    [
        {"type": "subscribe", "channel": "orderbook", "marketId": "m"},
        {"type": "subscribe", "channel": "orderbook", "marketId": "m", "extended": True, "id": 1,
         "tokenId": "0x1", "resume": {"seq": 4}},
        {"type": "subscribe", "channel": "user", "maker": MAKER},
        {"type": "subscribe", "channel": "settlement", "marketId": "m", "maker": MAKER},
        {"type": "unsubscribe", "channel": "orderbook", "marketId": "m"},
        {"type": "subscribe", "channel": "candles", "marketId": "m", "interval": "1m",
         "tokenId": "1", "extended": True},
        {"type": "unsubscribe", "channel": "candles", "marketId": "m", "interval": "1m"},
        {"type": "ping"},
        {"type": "request", "id": 1, "operation": "create_order", "body": {"maker": MAKER}},
        {"type": "request", "id": "x", "operation": "get_order", "params": {"orderId": "1"},
         "apiKey": "k"},
    ],
)  # fmt: skip
def test_client_messages_match_the_description(request_body):
    validator(request_body["type"]).validate(request_body)


def test_every_reference_resolves():
    described = document()
    text = msgspec.json.encode(described).decode()
    for part in text.split('"$ref":"#/')[1:]:
        place = described
        for name in part.partition('"')[0].split("/"):
            place = place[name]
