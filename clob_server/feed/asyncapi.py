"""The WebSocket described as AsyncAPI 3.0 has it, made of the structs that are sent and read.

``clob_server/web/asyncapi.json`` is what :func:`document` gives; a test sees to it.
"""

from typing import Any, Final, TypeAlias

import msgspec

import clob
from clob_server.api import schemas as wire
from clob_server.feed import messages, session
from clob_server.feed.messages import EVERY, PLAIN, Message
from clob_server.feed.session import Ping, Subscribe, Unsubscribe
from clob_server.http.openapi.common import field_texts

Schema: TypeAlias = dict[str, Any]
"""A part of the document."""

ASKED: Final[tuple[type[msgspec.Struct], ...]] = (Subscribe, Unsubscribe, Ping)
"""What a client may say."""
REF: Final = "#/components/schemas/{name}"
"""Where the schema of a struct is."""
TEXT: Final = """\
What happens in the markets, as it happens. A client that sends only `{"type": "subscribe", \
"channel": "orderbook", "marketId": ...}` gets the messages `orderbook`, `order_added`, \
`order_removed` and `trade` and no others; with `"extended": true` it gets the rest of those that \
are described here. Every event of a market has the next `seq`."""
"""What there is to know of all messages."""


def document() -> Schema:
    """Make the document."""
    _, components = msgspec.json.schema_components([*EVERY, *ASKED], ref_template=REF)
    kinds = {**vars(wire), **vars(messages), **vars(session)}
    schemas = {name: described(kinds[name], schema) for name, schema in components.items()}
    sent, asked = [names(kinds) for kinds in (EVERY, ASKED)]
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "clob", "version": clob.__version__, "description": TEXT},
        "defaultContentType": "application/json",
        "servers": {"this": {"host": "127.0.0.1:8000", "protocol": "ws"}},
        "channels": {
            "feed": {
                "address": "/ws",
                "messages": {
                    name: {"$ref": f"#/components/messages/{name}"} for name in (*sent, *asked)
                },
            }
        },
        "operations": {
            "hear": operation("send", "What the server says.", sent),
            "plain": operation(
                "send", "What it says to a client that is not extended.", names(PLAIN)
            ),
            "ask": operation("receive", "What a client may say.", asked),
        },
        "components": {
            "messages": {kind.__name__: message(kind) for kind in (*EVERY, *ASKED)},
            "schemas": schemas,
        },
    }


def names(kinds: tuple[type[msgspec.Struct], ...]) -> list[str]:
    """Give the names of structs."""
    return [kind.__name__ for kind in kinds]


def message(kind: type[msgspec.Struct]) -> Schema:
    """Describe a message."""
    return {
        "name": str(kind.__struct_config__.tag),
        "summary": (kind.__doc__ or "").partition("\n")[0],
        "payload": {"$ref": REF.format(name=kind.__name__)},
    }


def described(kind: type[msgspec.Struct], schema: Schema) -> Schema:
    """Say what the fields of a struct are; what the server says has all of them but ``id``."""
    texts = field_texts(kind)
    fields = msgspec.structs.fields(kind)
    properties = dict(schema["properties"])
    for field in fields:
        found = properties[field.encode_name]
        properties[field.encode_name] = {**found, "description": texts[field.name]}
    made = {**schema, "properties": properties}
    if issubclass(kind, Message):
        made["required"] = [name for name in properties if name != "id"]
    return made


def operation(action: str, summary: str, told: list[str]) -> Schema:
    """Describe who says what."""
    return {
        "action": action,
        "channel": {"$ref": "#/channels/feed"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/feed/messages/{name}"} for name in told],
    }
