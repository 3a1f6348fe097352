"""The AsyncAPI 3.0 description of the WebSocket, generated from the message structs.

``clob_server/web/asyncapi.json`` is the output of :func:`document`; a test compares them.
"""

from typing import Any, Final, TypeAlias

import msgspec

import clob
from clob.wire import accounts, markets, messages, orders
from clob.wire.messages import EVERY, PLAIN, Message
from clob_server.api.docstrings import field_texts
from clob_server.feed import session
from clob_server.feed.requests import SocketRequest
from clob_server.feed.session import Ping, Subscribe, Unsubscribe

Schema: TypeAlias = dict[str, Any]
"""A part of the document."""

REQUESTS: Final[tuple[type[msgspec.Struct], ...]] = (Subscribe, Unsubscribe, Ping, SocketRequest)
"""Messages sent by clients."""
REF: Final = "#/components/schemas/{name}"
"""Reference to the schema of a struct."""
TEXT: Final = """\
Live order books, trades, orders of a maker and settlement of trades. A client that sends only \
`{"type": "subscribe", "channel": "orderbook", "marketId": ...}` receives `orderbook`, \
`order_added`, `order_removed` and `trade` messages; with `"extended": true` it also receives the \
other types. The events of a market are numbered by `seq` without gaps. A `request` places and \
cancels orders as the HTTP interface does; its answer is a `response`."""
"""Introduction."""


def document() -> Schema:
    """Return the AsyncAPI document."""
    _, components = msgspec.json.schema_components([*EVERY, *REQUESTS], ref_template=REF)
    modules = (accounts, markets, orders, messages, session)
    kinds = {name: kind for module in modules for name, kind in vars(module).items()}
    described = {name: described_schema(kinds[name], each) for name, each in components.items()}
    sent, received = [names(kinds) for kinds in (EVERY, REQUESTS)]
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "clob", "version": clob.__version__, "description": TEXT},
        "defaultContentType": "application/json",
        "servers": {"this": {"host": "127.0.0.1:8000", "protocol": "ws"}},
        "channels": {
            "feed": {
                "address": "/ws",
                "messages": {
                    name: {"$ref": f"#/components/messages/{name}"} for name in (*sent, *received)
                },
            }
        },
        "operations": {
            "sendMessages": operation("send", "Messages sent by the server.", sent),
            "sendPlainMessages": operation(
                "send", "Messages sent to a client that is not extended.", names(PLAIN)
            ),
            "receiveRequests": operation("receive", "Messages sent by a client.", received),
        },
        "components": {
            "messages": {kind.__name__: message(kind) for kind in (*EVERY, *REQUESTS)},
            "schemas": described,
        },
    }


def names(kinds: tuple[type[msgspec.Struct], ...]) -> list[str]:
    """Return the names of structs."""
    return [kind.__name__ for kind in kinds]


def message(kind: type[msgspec.Struct]) -> Schema:
    """Describe a message."""
    return {
        "name": str(kind.__struct_config__.tag),
        "summary": (kind.__doc__ or "").partition("\n")[0],
        "payload": {"$ref": REF.format(name=kind.__name__)},
    }


def described_schema(kind: type[msgspec.Struct], schema: Schema) -> Schema:
    """Add the docstrings of the fields; a server message has all fields that have no default."""
    texts = field_texts(kind)
    properties = dict(schema["properties"])
    optional = set()
    for field in msgspec.structs.fields(kind):
        if field.default is msgspec.UNSET:
            optional.add(field.encode_name)
        name = field.encode_name
        properties[name] = {**properties[name], "description": texts[field.name]}
    described = {**schema, "properties": properties}
    if issubclass(kind, Message):
        described["required"] = [name for name in properties if name not in optional]
    return described


def operation(action: str, summary: str, message_names: list[str]) -> Schema:
    """Describe the messages of one direction."""
    return {
        "action": action,
        "channel": {"$ref": "#/channels/feed"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/feed/messages/{name}"} for name in message_names],
    }
