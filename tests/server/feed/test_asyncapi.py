"""The description of the WebSocket is true: every message that is sent or read is as it says."""

from pathlib import Path

import jsonschema_rs
import msgspec
import pytest

import clob_server
from clob import AddMarket, Limits, Reduce, SetLimits
from clob_server.feed.asyncapi import document
from clob_server.feed.messages import EVERY, PLAIN
from tests.matchers import buy, market, sell
from tests.server.feed.stage import Stage, played, until
from tests.server.settled import ALICE, BOB, YES, ended, opening, sent, settling

FILE = Path(clob_server.__file__).parent / "web" / "asyncapi.json"
MAKER = "0x" + "1" * 40


def strict(schema):
    """Allow nothing that is not described."""
    if isinstance(schema, dict):
        schema = {name: strict(part) for name, part in schema.items()}
        if schema.get("type") == "object":
            schema["additionalProperties"] = False
        return schema
    return [strict(part) for part in schema] if isinstance(schema, list) else schema


def validator(kind):
    """Give what checks messages of a type, as strictly as can be."""
    described = document()
    names = {
        message["name"]: message["payload"]["$ref"]
        for message in described["components"]["messages"].values()
    }
    schemas = strict(described["components"]["schemas"])
    return jsonschema_rs.validator_for({"$ref": names[kind], "components": {"schemas": schemas}})


def every_message():
    """Have each kind of message sent."""
    told = []

    async def story():
        async with Stage(ws_heartbeat_s=1) as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            await stage.do(SetLimits(limits=Limits(), now_ms=1), *opening(settling("n")))
            plain, extended = await stage.client(), await stage.client()
            await plain.subscribe()
            for channel in ("orderbook", "user"):
                await extended.say(
                    type="subscribe",
                    channel=channel,
                    marketId="m",
                    maker=MAKER,
                    extended=True,
                    id=1,
                )
            await extended.say(type="subscribe", channel="user", maker=MAKER, extended=True)
            await stage.do(
                sell("a", 60, 9, maker=MAKER, now_ms=2, client_id="mine"),
                sell("b", 61, 9, maker=MAKER, now_ms=2, order_hash=bytes(32)),
                buy("c", 60, 4, maker=MAKER, now_ms=2),
                Reduce(order_id="a", size=1, now_ms=2),
                buy("d", 60, 9, now_ms=2),
            )
            await extended.say(type="ping")
            await extended.say(type="subscribe", channel="settlement", id="x")
            await extended.say(type="subscribe", channel="settlement", maker=ALICE)
            fields = {"market": "n", "token": YES, "now_ms": 3}
            await stage.do(
                sell("e", 60, 100, maker=ALICE, **fields), buy("f", 60, 100, maker=BOB, **fields)
            )
            await stage.do(sent(3, now_ms=4))
            await stage.do(ended(3, reason="nothing is left", now_ms=5))

            def beats():
                return {m["channel"] for m in extended.messages if m["type"] == "heartbeat"}

            await until(lambda: beats() == {"orderbook", "user"})
            await extended.say(type="unsubscribe", channel="orderbook", marketId="m")
            told.extend((plain.taken(), extended.taken()))

    played(story())
    return told


@pytest.fixture(scope="module")
def told():
    return every_message()


def test_every_message_that_is_sent_is_as_described(told):
    checks = {str(kind.__struct_config__.tag): None for kind in EVERY}
    checks = {kind: validator(kind) for kind in checks}
    plain, extended = told
    for message in plain + extended:
        checks[message["type"]].validate(message)
    assert {message["type"] for message in plain} == {
        str(kind.__struct_config__.tag) for kind in PLAIN
    }
    assert {message["type"] for message in plain + extended} == checks.keys()


def test_the_check_is_one(told):
    message = next(each for each in told[0] if each["type"] == "trade")
    check = validator("trade")
    for wrong in ({**message, "seq": "1"}, {**message, "more": 1}, {"type": "trade"}):
        assert not check.is_valid(wrong)


@pytest.mark.parametrize(
    "said",
    [
        {"type": "subscribe", "channel": "orderbook", "marketId": "m"},
        {"type": "subscribe", "channel": "orderbook", "marketId": "m", "extended": True, "id": 1,
         "tokenId": "0x1", "resume": {"seq": 4}},
        {"type": "subscribe", "channel": "user", "maker": MAKER},
        {"type": "subscribe", "channel": "settlement", "marketId": "m", "maker": MAKER},
        {"type": "unsubscribe", "channel": "orderbook", "marketId": "m"},
        {"type": "ping"},
    ],
)  # fmt: skip
def test_what_a_client_may_say_is_as_described(said):
    validator(said["type"]).validate(said)


def test_the_file_is_the_description():
    wanted = msgspec.json.format(msgspec.json.encode(document())) + b"\n"
    assert FILE.read_bytes() == wanted, "write document() into it, in this format"


def test_every_reference_leads_somewhere():
    described = document()
    text = msgspec.json.encode(described).decode()
    for part in text.split('"$ref":"#/')[1:]:
        place = described
        for name in part.partition('"')[0].split("/"):
            place = place[name]
