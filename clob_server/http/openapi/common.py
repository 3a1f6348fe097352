"""The words in which a route is described, and what several routes have in common."""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from clob_server.auth.policy import Budget, Needs, RouteRule, Rule

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


NOTHING: Final[dict[str, list[str]]] = {}
KEY: Final[dict[str, list[str]]] = {"key": []}
BEARER: Final[dict[str, list[str]]] = {"token": []}

ASKED: Final[Mapping[Needs, tuple[list[dict[str, list[str]]], tuple[str, ...]]]] = {
    Needs.KEY: ([KEY], ("API_KEY_REQUIRED", "SCOPE_MISSING")),
    Needs.KEY_OF_MAKER: (
        [KEY],
        ("API_KEY_REQUIRED", "SCOPE_MISSING", "MAKER_NOT_ALLOWED"),
    ),
    Needs.SIGNATURE_OR_KEY: (
        [NOTHING, KEY],
        ("API_KEY_REQUIRED", "SCOPE_MISSING", "MAKER_NOT_ALLOWED"),
    ),
    Needs.TOKEN: ([BEARER], ("INVALID_TOKEN", "RATE_LIMITED", "TOKEN_REQUIRED", "SCOPE_MISSING")),
    Needs.TOKEN_FROM_AFAR: (
        [NOTHING, BEARER],
        ("INVALID_TOKEN", "RATE_LIMITED", "TOKEN_REQUIRED", "SCOPE_MISSING"),
    ),
    Needs.ABSENCE: ([NOTHING], ("NOT_ON_THIS_ENVIRONMENT",)),
}
"""What a need is called, and what is told to who does not meet it; of all others nothing."""


def security(rule: Rule) -> list[dict[str, list[str]]]:
    """Give what a request may come with; an empty one is nothing."""
    schemes, _ = ASKED.get(rule.needs, ([NOTHING, KEY], ()))
    return list(schemes)


def codes_of(row: RouteRule, environment: str) -> tuple[str, ...]:
    """Give what a request may be refused for before its route sees it."""
    _, codes = ASKED.get(row.rule(environment).needs, ([], ()))
    return codes if row.budget is Budget.NONE else (*codes, "RATE_LIMITED")


DIGITS: Final[Schema] = {"type": "string", "pattern": "^[0-9]+$"}
"""A number in decimal digits."""

FORMATS: Final[dict[str, Schema]] = {
    **dict.fromkeys(("maker", "signer", "taker", "buyer", "seller", "smartWallet"), ADDRESS),
    **dict.fromkeys(
        (
            "makerAmount",
            "takerAmount",
            "filledAmount",
            "size",
            "remaining",
            "filledTokens",
            "filledCollateral",
            "buyerFee",
            "sellerFee",
            "nonce",
        ),
        DIGITS,
    ),
    "tokenId": {"type": "string", "pattern": "^[0-9]{1,78}$"},
    "marketId": MARKET_ID,
    "signature": {"type": "string", "pattern": "^0x[0-9a-f]{130}$"},
    "orderHash": {"type": "string", "pattern": "^0x[0-9a-f]{64}$"},
    "type": {"type": "string", "pattern": "^/docs#[A-Z_]+$"},
}
"""The schema of a text, by the name of its field."""


def format_of(name: str) -> Schema | None:
    """Give the schema of a text by the name of its field; None where it may be any."""
    return FORMATS.get(name)


def field_texts(kind: type) -> dict[str, str]:
    """Give what is said of each field of a class, its bases' included, each in one line.

    Args:
        kind: a class of a module whose source is there; each text stands beneath its field.
    """
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        found |= texts_in(each.__module__).get(each.__name__, {})
    return found


@cache
def texts_in(module: str) -> dict[str, dict[str, str]]:
    """Give the same for every class of a module. It reads the source, once."""
    if module == "builtins" or module.partition(".")[0] == "msgspec":
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: own_texts(each) for each in tree.body if isinstance(each, ast.ClassDef)}


def own_texts(described: ast.ClassDef) -> dict[str, str]:
    """Give what is said of the fields that a class itself has."""
    found = {}
    for field, text in zip(described.body, described.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            assert isinstance(text.value, ast.Constant)
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found


# MERGED clob_server.http.openapi.common: What a route asks of who calls, from the table of authority, as OpenAPI says it.

# MERGED clob_server.http.openapi.common: What the texts of the interface look like, by the name of the field: one spelling everywhere.

# MERGED clob_server.http.openapi.common: What is said of the fields of a struct: the texts that stand beneath them in the source.
