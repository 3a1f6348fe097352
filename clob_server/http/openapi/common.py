"""Building blocks of route descriptions: fields, schemas, shared error codes."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from clob_server.auth.policy import Budget, Needs, RouteRule, Rule

Schema: TypeAlias = dict[str, Any]
"""A schema of JSON Schema 2020-12."""


class FieldDoc(NamedTuple):
    """A parameter or a field of a body."""

    name: str
    schema: Schema
    text: str
    required: bool = False


class RouteDoc(NamedTuple):
    """The public description of a route."""

    tag: str
    summary: str
    answer: Any
    """Type or schema of the response; a text is a content type other than JSON."""
    text: str = ""
    query: tuple[FieldDoc, ...] = ()
    headers: tuple[FieldDoc, ...] = ()
    headers_sent: tuple[str, ...] = ()
    """Further headers of the answer, as named in :data:`ANSWER_HEADERS`."""
    body: Schema | type | None = None
    """Type or schema of the request body; None without a body."""
    codes: tuple[str, ...] = ()
    """Error codes besides :data:`EVERYWHERE` and :data:`WITH_BODY`."""
    example: Any = None
    """Example body."""
    others: Mapping[int, str] = {}
    """Other statuses besides 200 and errors, with descriptions."""
    refers: tuple[type, ...] = ()
    """Types referenced by the schemas."""


REF: Final = "#/components/schemas/{name}"
"""Reference to the schema of a struct."""

EVERYWHERE: Final = (
    "TOO_MANY_CONNECTIONS", "REQUEST_TIMEOUT", "HEADERS_TOO_LARGE", "BAD_REQUEST",
    "INVALID_API_KEY", "INTERNAL",
)  # fmt: skip
"""Errors of any request."""
WITH_BODY: Final = ("BODY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "INVALID_JSON", "INVALID_FIELD")
"""Errors of any request with a body."""
COMMAND: Final = ("CLOCK_WENT_BACK", "ENGINE_FULL", "ENGINE_STOPPED", "OUTCOME_UNKNOWN")
"""Errors of any change of state."""
PLACING: Final = (
    "RECOVERING", "DRAINING", "MAKER_NOT_ALLOWED", "INVALID_ADDRESS", "INVALID_AMOUNT",
    "AMOUNT_TOO_LARGE", "AMOUNT_TOO_SMALL", "INVALID_SIDE", "PRICE_OUT_OF_RANGE",
    "INVALID_FEE_RATE", "INVALID_INSTRUCTION", "INVALID_OWNER", "INVALID_MARKET", "INVALID_TIME",
    "DEADLINE_PASSED", "UNKNOWN_MARKET", "TOO_MANY_MARKETS", "MARKET_NOT_OPEN", "MARKET_STALLED",
    "TOKEN_NOT_IN_MARKET", "ORDER_EXPIRED", "ORDER_ALREADY_USED", "CLIENT_ID_CONFLICT",
    "DUPLICATE_ORDER", "NONCE_TOO_LOW", "TOO_MANY_ORDERS", "INSUFFICIENT_BALANCE",
    "POST_ONLY_WOULD_CROSS", "FOK_NOT_FILLABLE", "TOO_MANY_TRADES", *COMMAND,
)  # fmt: skip
"""Errors of a new order."""
SIGNED: Final = ("TAKER_NOT_SUPPORTED", "INVALID_SIGNATURE", "SIGNER_NOT_AUTHORISED")
"""Errors of anything signed."""
SETTLING_SIGNED: Final = ("ORDER_CANCELLED", "WALLET_NOT_ALLOWED", "MAKER_COOLING_DOWN")
"""Further errors of a signed order in settling markets."""
SETTLING_UNSIGNED: Final = (
    "GASLESS_NOT_ALLOWED", "WALLET_NOT_ALLOWED", "MAKER_COOLING_DOWN"
)  # fmt: skip
"""Further errors of a gasless order in settling markets."""

DEMO_YES: Final = "33747699482999741211057248734870703683728110990217420620715930816243639114186"
"""YES token of the demo market, for examples; a test compares it."""
DEMO_NO: Final = "76015094852125177241226232461556628983912573251501616130079667903426009906507"
DEMO_CONDITION: Final = "0x23ed6334206b3841a6b30ef99c7c15a3e068dec17d86d1fe63bd8e6e66e457cf"
DEMO_USER: Final = "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
"""An unused test wallet."""
ADDRESS: Final[Schema] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"}
"""An address; mixed case must match EIP-55."""
WEI: Final[Schema] = {
    "anyOf": [{"type": "string", "pattern": "^[0-9]{1,78}$"}, {"type": "integer", "minimum": 0}]
}
"""An amount in wei: decimal digits, or an integer."""
NUMBER: Final[Schema] = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]}
"""A number of up to 256 bits, such as a token id: digits, or an integer."""
TOKEN_TEXT: Final[Schema] = {
    "type": "string",
    "pattern": "^(0x[0-9a-fA-F]{1,64}|[0-9]{1,78})$",
    "example": DEMO_YES,
}
"""The id of an outcome token in a query: decimal, or 0x and hexadecimal."""
SIDE: Final[Schema] = {
    "anyOf": [
        {"type": "integer", "enum": [0, 1]},
        {"type": "string", "enum": ["0", "1", "BUY", "SELL"]},
    ]
}
"""A side; one type per enumeration, since generators of clients drop routes with mixed ones."""
SIGNATURE: Final[Schema] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{130}$"}
"""A signature: r, s and v."""
MARKET_ID: Final[Schema] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9._:-]{1,64}$",
    "not": {"enum": [".", ".."]},
}
MILLISECONDS: Final[Schema] = {"type": "integer", "minimum": 0}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TEXT: Final[Schema] = {"type": "string"}
SWITCH: Final[Schema] = {"type": "string", "enum": ["true", "false"]}
FLAG: Final[Schema] = {"type": "boolean"}

ANSWER_HEADERS: Final[Mapping[str, FieldDoc]] = {
    each.name.lower(): each
    for each in (
        FieldDoc("X-Request-Id", TEXT, "Id of the request, also in the server's log."),
        FieldDoc("RateLimit", TEXT, '`"budget";r=left;t=seconds`: what is left of the budget.'),
        FieldDoc("RateLimit-Policy", TEXT, '`"budget";q=limit;w=60`: the budget per minute.'),
        FieldDoc("X-RateLimit-Limit", COUNT, "The budget per minute."),
        FieldDoc("X-RateLimit-Remaining", COUNT, "Requests or orders left in this minute."),
        FieldDoc("X-RateLimit-Reset", COUNT, "Unix second at which the whole budget is back."),
        FieldDoc("Retry-After", COUNT, "Seconds to wait before the request is repeated."),
        FieldDoc("X-Applied-Seq", COUNT, "Number of the last command that the answer contains."),
        FieldDoc("Link", TEXT, 'The next page, with `rel="next"`; absent on the last one.'),
        FieldDoc("X-Next-Cursor", TEXT, "`cursor` of the next page; absent on the last one."),
    )
}
"""Headers of answers, by name in lower case."""
LIMITED: Final = (
    "ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining",
    "x-ratelimit-reset",
)  # fmt: skip
"""Headers of answers of routes with a budget; cached reads lack them."""
NEXT_PAGE: Final = ("link", "x-next-cursor")
"""Headers of an answer in pages."""

PAGED: Final = "`Link` and `X-Next-Cursor` lead to the next page."
"""Description of a list that is returned in pages."""
CURSOR: Final = FieldDoc("cursor", TEXT, "`X-Next-Cursor` of the previous page.")
MIN_SEQ: Final = FieldDoc(
    "minSeq", COUNT, "Wait until this command was applied: `X-Applied-Seq` of another answer."
)


def page_size(**limits: int) -> FieldDoc:
    """Return the parameter that sets the size of a page."""
    return FieldDoc("limit", {"type": "integer", "minimum": 1, **limits}, "Page size.")


def record(*fields: FieldDoc) -> Schema:
    """Return the schema of an object with these fields."""
    schema: Schema = {
        "type": "object",
        "properties": {f.name: {**f.schema, "description": f.text} for f in fields},
    }
    required = [field.name for field in fields if field.required]
    return {**schema, "required": required} if required else schema


def array(items: Schema, most: int) -> Schema:
    """Return the schema of a non-empty array."""
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


def optional(schema: Schema) -> Schema:
    """Return a schema that also allows null, which means absent."""
    return {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}


def refer(kind: type) -> Schema:
    """Return a reference to the schema of a struct."""
    return {"$ref": REF.format(name=kind.__name__)}


def results(kind: type, problem: type) -> Schema:
    """Return the schema of the response to a batch."""
    each = {"type": "array", "items": {"anyOf": [refer(kind), refer(problem)]}}
    return record(FieldDoc("results", each, "One result per item, in order.", True))


Scheme: TypeAlias = dict[str, list[str]]
NOTHING: Final[Scheme] = {}
KEY: Final[Scheme] = {"key": []}
BEARER: Final[Scheme] = {"token": []}

KEY_ERRORS: Final = ("API_KEY_REQUIRED", "SCOPE_MISSING")
MAKER_ERRORS: Final = (*KEY_ERRORS, "MAKER_NOT_ALLOWED")
TOKEN_ERRORS: Final = ("INVALID_TOKEN", "RATE_LIMITED", "TOKEN_REQUIRED", "SCOPE_MISSING")
CREDENTIALS: Final[Mapping[Needs, tuple[list[Scheme], tuple[str, ...]]]] = {
    Needs.KEY: ([KEY], KEY_ERRORS),
    Needs.KEY_OF_MAKER: ([KEY], MAKER_ERRORS),
    Needs.SIGNATURE_OR_KEY: ([NOTHING, KEY], MAKER_ERRORS),
    Needs.SIGNATURE_OR_KEY_FOR_ACCOUNT: ([NOTHING, KEY], ()),
    Needs.TOKEN: ([BEARER], TOKEN_ERRORS),
    Needs.TOKEN_UNLESS_LOCAL: ([NOTHING, BEARER], TOKEN_ERRORS),
    Needs.UNAVAILABLE: ([NOTHING], ("NOT_ON_THIS_ENVIRONMENT",)),
}
"""Security scheme and errors of each requirement; others have none."""


def security(rule: Rule) -> list[Scheme]:
    """Return the accepted credentials; an empty object means none."""
    schemes, _ = CREDENTIALS.get(rule.needs, ([NOTHING, KEY], ()))
    return list(schemes)


def codes_of(row: RouteRule, environment: str) -> tuple[str, ...]:
    """Return the errors raised before the route runs."""
    _, codes = CREDENTIALS.get(row.rule(environment).needs, ([], ()))
    return codes if row.budget is Budget.NONE else (*codes, "RATE_LIMITED")


DIGITS: Final[Schema] = {"type": "string", "pattern": "^[0-9]+$"}
ADDRESSES: Final = ("maker", "signer", "taker", "buyer", "seller", "smartWallet")
NUMBERS: Final = (
    "makerAmount", "takerAmount", "filledAmount", "size", "remaining", "filledTokens",
    "filledCollateral", "buyerFee", "sellerFee", "nonce",
)  # fmt: skip
FORMATS: Final[dict[str, Schema]] = {
    **dict.fromkeys(ADDRESSES, ADDRESS),
    **dict.fromkeys(NUMBERS, DIGITS),
    "tokenId": {"type": "string", "pattern": "^[0-9]{1,78}$"},
    "marketId": {"type": "string", "pattern": MARKET_ID["pattern"]},
    "signature": {"type": "string", "pattern": "^0x[0-9a-f]{130}$"},
    "orderHash": {"type": "string", "pattern": "^0x[0-9a-f]{64}$"},
    "txHash": {"type": "string", "pattern": "^0x[0-9a-f]{64}$"},
    "type": {"type": "string", "pattern": "^/docs#[A-Z_]+$"},
}
"""Schemas of texts by field name; other fields may be any text."""
