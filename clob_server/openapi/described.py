"""The words in which a route is described, and what several routes have in common."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Schema: TypeAlias = dict[str, Any]
"""A schema of JSON Schema 2020-12."""


class Field(NamedTuple):
    """A parameter, or a field of a body."""

    name: str
    """Its name."""
    schema: Schema
    """What it may be."""
    text: str
    """What it is."""
    required: bool = False
    """If it must be there."""


class Described(NamedTuple):
    """A route as its users see it."""

    tag: str
    """The part of the interface that it belongs to."""
    summary: str
    """What it does, in a few words."""
    answer: Any
    """The type or the schema of what it answers with; a text is a content type that is no JSON."""
    text: str = ""
    """What else there is to know."""
    query: tuple[Field, ...] = ()
    """What the query may have."""
    headers: tuple[Field, ...] = ()
    """The headers that are its own."""
    body: Schema | type | None = None
    """What the body must be, as a schema or a type; None where there is none."""
    codes: tuple[str, ...] = ()
    """What it may be refused for, besides :data:`EVERYWHERE` and :data:`WITH_BODY`."""
    example: Any = None
    """A body to try it with."""
    others: Mapping[int, str] = {}
    """Statuses that are no refusals, besides 200, and what they mean."""
    refers: tuple[type, ...] = ()
    """The types that its schemas refer to."""


REF: Final = "#/components/schemas/{name}"
"""Where the schema of a struct is."""

EVERYWHERE: Final = (
    "TOO_MANY_CONNECTIONS",
    "REQUEST_TIMEOUT",
    "HEADERS_TOO_LARGE",
    "BAD_REQUEST",
    "INVALID_API_KEY",
    "INTERNAL",
)
"""What any request may be refused for."""
WITH_BODY: Final = ("BODY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "INVALID_JSON", "INVALID_FIELD")
"""What a request with a body may be refused for."""
COMMAND: Final = ("CLOCK_WENT_BACK", "ENGINE_FULL", "ENGINE_STOPPED", "OUTCOME_UNKNOWN")
"""What anything that changes the state may be refused for."""
PLACING: Final = (
    "RECOVERING",
    "DRAINING",
    "MAKER_NOT_ALLOWED",
    "INVALID_ADDRESS",
    "INVALID_AMOUNT",
    "AMOUNT_TOO_LARGE",
    "AMOUNT_TOO_SMALL",
    "INVALID_SIDE",
    "PRICE_OUT_OF_RANGE",
    "INVALID_FEE_RATE",
    "INVALID_INSTRUCTION",
    "INVALID_OWNER",
    "INVALID_MARKET",
    "INVALID_TIME",
    "DEADLINE_PASSED",
    "UNKNOWN_MARKET",
    "TOO_MANY_MARKETS",
    "MARKET_NOT_OPEN",
    "TOKEN_NOT_IN_MARKET",
    "ORDER_EXPIRED",
    "ORDER_ALREADY_USED",
    "CLIENT_ID_CONFLICT",
    "DUPLICATE_ORDER",
    "NONCE_TOO_LOW",
    "TOO_MANY_ORDERS",
    "INSUFFICIENT_BALANCE",
    "POST_ONLY_WOULD_CROSS",
    "FOK_NOT_FILLABLE",
    "TOO_MANY_TRADES",
    *COMMAND,
)
"""What a new order may be refused for."""
SIGNED: Final = (
    "TAKER_NOT_SUPPORTED",
    "INVALID_SIGNATURE",
    "SIGNER_NOT_AUTHORISED",
)
"""What anything that is signed may be refused for."""
SETTLING_SIGNED: Final = ("ORDER_CANCELLED",)
"""What a signed order may be refused for besides, where trades settle on the chain."""
SETTLING_UNSIGNED: Final = ("GASLESS_NOT_ALLOWED", "WALLET_NOT_ALLOWED")
"""What an order that nobody signed may be refused for there."""

DEMO_YES: Final = "33747699482999741211057248734870703683728110990217420620715930816243639114186"
"""The YES token of the demo's market, for examples; a test compares it."""
DEMO_NO: Final = "76015094852125177241226232461556628983912573251501616130079667903426009906507"
"""The NO token."""
DEMO_CONDITION: Final = "0x23ed6334206b3841a6b30ef99c7c15a3e068dec17d86d1fe63bd8e6e66e457cf"
"""Its condition."""
DEMO_USER: Final = "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
"""A test wallet that nobody uses."""
ADDRESS: Final[Schema] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"}
"""An address. In mixed case it must be as EIP-55 writes it."""
WEI: Final[Schema] = {
    "anyOf": [{"type": "string", "pattern": "^[0-9]{1,78}$"}, {"type": "integer", "minimum": 0}]
}
"""An amount in wei: decimal digits, or an integer."""
TOKEN: Final[Schema] = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]}
"""The id of an outcome token: digits, or an integer."""
TOKEN_TEXT: Final[Schema] = {
    "type": "string",
    "pattern": "^(0x[0-9a-fA-F]{1,64}|[0-9]{1,78})$",
    "example": DEMO_YES,
}
"""The id of an outcome token in a query: decimal, or 0x and hexadecimal."""
SIDE: Final[Schema] = {"enum": [0, 1, "0", "1", "BUY", "SELL"]}
"""0 or BUY, 1 or SELL."""
NUMBER: Final[Schema] = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]}
"""A number of up to 256 bits: digits, or an integer."""
SIGNATURE: Final[Schema] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{130}$"}
"""A signature: r, s and v."""
MARKET_ID: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,64}$"}
"""The id of a market."""
MILLISECONDS: Final[Schema] = {"type": "integer", "minimum": 0}
"""A Unix time in milliseconds."""
TEXT: Final[Schema] = {"type": "string"}
"""Any text."""
FLAG: Final[Schema] = {"type": "boolean"}
"""True or false."""


def record(*fields: Field) -> Schema:
    """Give the schema of an object with these fields."""
    made: Schema = {
        "type": "object",
        "properties": {f.name: {**f.schema, "description": f.text} for f in fields},
    }
    required = [field.name for field in fields if field.required]
    return {**made, "required": required} if required else made


def array(items: Schema, most: int) -> Schema:
    """Give the schema of an array of at least one."""
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


def optional(schema: Schema) -> Schema:
    """Give the schema of what may also be null, which is as good as absent."""
    return {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}


def refer(kind: type) -> Schema:
    """Give the schema that refers to a struct."""
    return {"$ref": REF.format(name=kind.__name__)}


def results(kind: type, refusal: type) -> Schema:
    """Give the schema of the answer to a batch."""
    each = {"anyOf": [refer(kind), refer(refusal)]}
    listed = Field("results", {"type": "array", "items": each}, "One for each, in sequence.", True)
    return record(listed)
