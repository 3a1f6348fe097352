"""Descriptions of the order routes."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from clob.wire.orders import (
    CancelledBody,
    CreatedBody,
    DelegateBody,
    InvalidBody,
    NonceBody,
    OrderBody,
    OutlookBody,
    ReplacedBody,
    SwitchBody,
)
from clob_server.api.problems import ProblemBody
from clob_server.http.openapi.common import (
    ADDRESS,
    COMMAND,
    DEMO_YES,
    FLAG,
    MARKET_ID,
    MILLISECONDS,
    NUMBER,
    PLACING,
    SETTLING_SIGNED,
    SETTLING_UNSIGNED,
    SIDE,
    SIGNATURE,
    SIGNED,
    TEXT,
    TOKEN_TEXT,
    WEI,
    FieldDoc,
    RouteDoc,
    Schema,
    array,
    optional,
    record,
    refer,
    results,
)

TAG: Final = "Orders"
BATCH_MAX: Final = 20
GRANTING: Final = ("RECOVERING", "DRAINING", "INVALID_ADDRESS", *SIGNED, *COMMAND)
"""Errors of signed requests other than orders and cancels."""

MAKER: Final = FieldDoc("maker", ADDRESS, "The maker.", True)
MARKET: Final = FieldDoc("marketId", MARKET_ID, "The market.", True)
TOKEN: Final = FieldDoc("tokenId", NUMBER, "The outcome token, YES or NO.", True)
OPTIONS: Final = (
    FieldDoc(
        "timeInForce",
        optional({"enum": ["GTC", "GTD", "IOC", "FOK"]}),
        "Handling of the size that does not trade immediately. Default GTC: it rests.",
    ),
    FieldDoc("postOnly", optional(FLAG), "Reject the order if it would trade immediately."),
    FieldDoc(
        "selfTrade",
        optional(
            {"enum": ["NONE", "CANCEL_RESTING", "CANCEL_INCOMING", "CANCEL_BOTH", "DECREMENT"]}
        ),
        "Handling of matches with the maker's own orders; default: that of the market.",
    ),
    FieldDoc(
        "clientOrderId",
        optional({"type": "string", "minLength": 1, "maxLength": 64}),
        "The maker's name for the order. Repeating the order returns the first response.",
    ),
    FieldDoc("deadlineMs", optional(MILLISECONDS), "Reject the order after this Unix millisecond."),
)
"""Options of an order besides its signed fields."""

EXPIRATION: Final = FieldDoc(
    "expiration",
    optional(NUMBER),
    "Last Unix second in which the order may trade; 0: no expiration.",
)
FEE_RATE: Final = FieldDoc(
    "feeRateBps", optional(NUMBER), "Highest fee rate, 0 to 1000 basis points."
)
SIGNED_ORDER: Final = record(
    FieldDoc("maker", ADDRESS, "The wallet that trades.", True),
    TOKEN,
    FieldDoc("makerAmount", WEI, "In wei. Buy: collateral. Sell: tokens.", True),
    FieldDoc("takerAmount", WEI, "In wei. Buy: tokens. Sell: collateral.", True),
    MARKET,
    FieldDoc("signature", SIGNATURE, "The signature of the order by the signer.", True),
    FieldDoc("signer", optional(ADDRESS), "The signing wallet; default: the maker."),
    FieldDoc("side", optional(SIDE), "0 or BUY (default); 1 or SELL."),
    FieldDoc(
        "signatureType",
        optional({"enum": [0, 1]}),
        "1 (default): EIP-712; 0: EIP-712 or personal_sign of the order hash.",
    ),
    EXPIRATION,
    FEE_RATE,
    FieldDoc("salt", optional(NUMBER), "Makes the order unique: a number or any text."),
    FieldDoc("nonce", optional(NUMBER), "The maker's nonce; rejected if below the current one."),
    FieldDoc("taker", optional(ADDRESS), "The zero address (any taker) or the operator."),
    *OPTIONS,
)
GASLESS_ORDER: Final = record(
    FieldDoc("maker", ADDRESS, "The caller's wallet.", True),
    FieldDoc("smartWallet", optional(ADDRESS), "The wallet that holds the collateral."),
    TOKEN,
    FieldDoc("side", SIDE, "0 or BUY; 1 or SELL.", True),
    FieldDoc("price", NUMBER, "Price in cents, 1 to 99.", True),
    FieldDoc("size", WEI, "Tokens in wei; 10^18 is one token.", True),
    MARKET,
    EXPIRATION,
    FEE_RATE,
    FieldDoc(
        "nonce",
        optional(NUMBER),
        "Default: the maker's current nonce; rejected if below it.",
    ),
    *OPTIONS,
)


def authority(struct: str) -> tuple[FieldDoc, ...]:
    """Return the fields that prove the authority to cancel, with a signed struct."""
    return (
        FieldDoc("maker", optional(ADDRESS), "The maker."),
        FieldDoc("timestamp", optional(NUMBER), "The signed Unix milliseconds."),
        FieldDoc("signature", optional(SIGNATURE), f"EIP-712 of {struct}."),
    )


CANCEL: Final = authority("Cancel(orderId, maker, timestamp)")
IN_QUERY: Final = (
    FieldDoc("maker", TEXT, "The maker, for requests without a body."),
    FieldDoc("timestamp", TEXT, "The signed Unix milliseconds, likewise."),
    FieldDoc("signature", TEXT, "The signature, likewise."),
)
"""The authority to cancel in a query."""
REFERENCE: Final = " The order is named by its id, its hash, or `client:` and its `clientOrderId`."
"""Ways to name an order of a maker."""
BOTH_SIDES: Final[Schema] = {"type": "integer", "enum": [0, 1, 2]}
"""A side as a cancel of several orders signs it; 2 for both."""
REMAINING_NOW: Final = FieldDoc(
    "ifRemaining",
    optional(WEI),
    "The remaining size that the order must have, in wei; else nothing happens and the response is "
    "`REMAINING_CHANGED` with the `order`. Signatures do not cover it.",
)
REPLACED: Final = (
    FieldDoc(
        "cancel",
        optional(
            record(
                FieldDoc("timestamp", NUMBER, "The signed Unix milliseconds.", True),
                FieldDoc(
                    "signature", SIGNATURE, "EIP-712 of Cancel(orderId, maker, timestamp).", True
                ),
                FieldDoc("orderId", optional(TEXT), "The order as in the path, if present."),
                FieldDoc("maker", optional(ADDRESS), "The maker of the order, if present."),
            )
        ),
        "The signature of the cancel, by the maker.",
    ),
    REMAINING_NOW,
)
"""The fields of a replacement that are about the order to cancel."""

Example: TypeAlias = Mapping[str, str | int]
BUY_EXAMPLE: Final[Example] = {
    "maker": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "marketId": "demo",
    "tokenId": DEMO_YES,
    "side": 0,
}
GASLESS_EXAMPLE: Final[Example] = {**BUY_EXAMPLE, "price": 50, "size": "5000000000000000000"}
"""A gasless order that the demo accepts."""
SIGNED_EXAMPLE: Final[Example] = {
    **BUY_EXAMPLE,
    "makerAmount": "2500000000000000000",
    "takerAmount": "5000000000000000000",
    "salt": "1",
    "signatureType": 1,
    "signature": "0x735e115096b434834e661e71566ff5a5bb3b3b08fdf8299a2fc4e1c8fa2a66ea"
    "141a41652d600e54b405765de00745652e4574a53eeaf8f73cda597161b6d2081b",
}
"""A signed order that a server with the default domain accepts."""

CANCELLING: Final = (
    "MAKER_NOT_ALLOWED", "INVALID_ADDRESS", "TIMESTAMP_OUT_OF_WINDOW", "INVALID_SIGNATURE",
    "SIGNER_NOT_AUTHORISED", "INVALID_ORDER_ID", "UNKNOWN_ORDER", "NOT_THE_MAKER",
    "ORDER_NOT_OPEN", "MARKET_NOT_OPEN", *COMMAND,
)  # fmt: skip
EITHER_ORDER: Final = {"anyOf": [SIGNED_ORDER, GASLESS_ORDER]}
PLACING_EITHER: Final = tuple(
    dict.fromkeys((*SIGNED, *SETTLING_SIGNED, *SETTLING_UNSIGNED, *PLACING))
)


def orders_of(item: Schema, text: str, *more: FieldDoc) -> Schema:
    """Return the schema of the body of a batch."""
    return record(FieldDoc("orders", array(item, BATCH_MAX), text, True), *more)


DESCRIBED: Final = {
    "create_order": RouteDoc(
        TAG,
        "Place a signed order",
        CreatedBody,
        "The order matches immediately; the remainder rests. Repeating a signed order returns the "
        "first response with `duplicate: true`. The other fields of the order resource are "
        "accepted, too, so that an order can be sent as it was returned.",
        body=SIGNED_ORDER,
        codes=(*SIGNED, *SETTLING_SIGNED, *PLACING),
        example=SIGNED_EXAMPLE,
    ),
    "create_gasless_order": RouteDoc(
        TAG,
        "Place an order without a signature",
        CreatedBody,
        "The other fields of the order resource are accepted if they say nothing else, such as "
        "the maker as `signer`, or a `signature` of zeros.",
        body=GASLESS_ORDER,
        codes=(*SETTLING_UNSIGNED, *PLACING),
        example=GASLESS_EXAMPLE,
    ),
    "cancel_order": RouteDoc(
        TAG,
        "Cancel an order",
        OrderBody,
        "Production requires a key bound to the maker or the maker's signature." + REFERENCE,
        query=IN_QUERY,
        body=record(*CANCEL),
        codes=CANCELLING,
        example={"maker": GASLESS_EXAMPLE["maker"]},
    ),
    "cancel_orders": RouteDoc(
        TAG,
        "Cancel the orders of a maker",
        CancelledBody,
        "Cancels the orders that pass the filters, or with `all=true` every one, in one command. "
        "Production requires a key bound to the maker, or the maker's signature, which covers the "
        "filters (absent: empty text, or side 2) and cancels only orders accepted until "
        "`timestamp`. If that is ahead of the server's time (by 5 seconds at most), the orders are "
        "cancelled at once and the response comes when it has passed.",
        query=(
            FieldDoc("marketId", MARKET_ID, "Only orders of this market."),
            FieldDoc("tokenId", TOKEN_TEXT, "Only orders of this outcome token."),
            FieldDoc(
                "side", {"type": "string", "enum": ["0", "BUY", "1", "SELL"]}, "Only this side."
            ),
            FieldDoc("all", {"type": "string", "enum": ["true"]}, "Required without a filter."),
            *IN_QUERY,
        ),
        body=record(
            *authority("CancelAll(maker, marketId, tokenId, side, timestamp)"),
            *(
                FieldDoc(name, optional(schema), "As signed, if present: the filter of the query.")
                for name, schema in (("marketId", TEXT), ("tokenId", TEXT), ("side", BOTH_SIDES))
            ),
        ),
        codes=(
            "UNKNOWN_MARKET",
            "TOKEN_NOT_IN_MARKET",
            "MARKET_NOT_OPEN",
            "MAKER_NOT_ALLOWED",
            "INVALID_ADDRESS",
            "TIMESTAMP_OUT_OF_WINDOW",
            "INVALID_SIGNATURE",
            "SIGNER_NOT_AUTHORISED",
            *COMMAND,
        ),
        example={"maker": GASLESS_EXAMPLE["maker"]},
    ),
    "reduce_order": RouteDoc(
        TAG,
        "Reduce an order",
        OrderBody,
        "Sets the remaining size, which must fall; the order keeps its priority. Production "
        "requires a key bound to the maker or the maker's signature." + REFERENCE,
        body=record(
            FieldDoc("remaining", WEI, "The new remaining size, in wei, above 0.", True),
            REMAINING_NOW,
            *authority("Reduce(orderId, maker, remaining, timestamp)"),
        ),
        codes=(
            "INVALID_AMOUNT",
            "AMOUNT_TOO_LARGE",
            "AMOUNT_TOO_SMALL",
            "SIZE_NOT_REDUCED",
            "REMAINING_CHANGED",
            *CANCELLING,
        ),
        example={"maker": GASLESS_EXAMPLE["maker"], "remaining": "1000000000000000000"},
    ),
    "replace_order": RouteDoc(
        TAG,
        "Replace an order",
        ReplacedBody,
        "Cancels the order and places the one in the body, for the same maker, market and token: "
        "both or neither. It counts as one new order. Repeating it returns the first response with "
        "`duplicate: true`." + REFERENCE,
        body={
            "anyOf": [
                {**each, "properties": {**each["properties"], **record(*REPLACED)["properties"]}}
                for each in (SIGNED_ORDER, GASLESS_ORDER)
            ]
        },
        codes=("REMAINING_CHANGED", *PLACING_EITHER, *CANCELLING),
        example=GASLESS_EXAMPLE,
    ),
    "create_batch": RouteDoc(
        TAG,
        "Place up to 20 orders",
        results(CreatedBody, ProblemBody),
        "Each order has its own result, in order: the response to a new order or a problem. In an "
        "atomic batch with a rejected order, the others are rejected with `BATCH_REJECTED`, and "
        "`causedBy` is the index of the first rejected one.",
        body=orders_of(
            EITHER_ORDER,
            "Signed and gasless orders.",
            FieldDoc("atomic", optional(FLAG), "Whether to place all orders or none."),
        ),
        codes=("BATCH_TOO_LARGE", "BATCH_REJECTED", *PLACING_EITHER),
        example={"orders": [GASLESS_EXAMPLE]},
    ),
    "cancel_batch": RouteDoc(
        TAG,
        "Cancel up to 20 orders",
        results(OrderBody, ProblemBody),
        "Each cancel has its own result, in order: the order or a problem.",
        body=orders_of(
            record(FieldDoc("orderId", TEXT, "The order.", True), *CANCEL), "Orders to cancel."
        ),
        codes=("BATCH_TOO_LARGE", *CANCELLING),
    ),
    "validate_order": RouteDoc(
        TAG,
        "Check an order without placing it",
        {"anyOf": [refer(OutlookBody), refer(InvalidBody)]},
        "An error is part of the response, with an explanation of the signature. Needs the "
        "authority to place the order.",
        refers=(OutlookBody, InvalidBody),
        body=EITHER_ORDER,
        codes=PLACING_EITHER,
        example=SIGNED_EXAMPLE,
    ),
    "simulate_order": RouteDoc(
        TAG,
        "Simulate an order",
        OutlookBody,
        "Returns the trades that the order would make now and the resting remainder. The account "
        "of the maker is checked only with its signature, or a key bound to it: `accountChecked`.",
        body=EITHER_ORDER,
        codes=PLACING_EITHER,
        example=GASLESS_EXAMPLE,
    ),
    "heartbeat": RouteDoc(
        TAG,
        "Cancel all orders of a maker unless heartbeats follow",
        SwitchBody,
        "Unless another heartbeat arrives within `timeoutMs`, all resting orders of the maker are "
        "cancelled, and no heartbeat is awaited any more. Production requires a key, scope "
        "`cancel`, bound to the maker.",
        body=record(
            FieldDoc(
                "timeoutMs",
                {"anyOf": [{"const": 0}, {"type": "integer", "minimum": 1000, "maximum": 3600000}]},
                "Milliseconds until the next heartbeat at most; 0: await none.",
                True,
            ),
            FieldDoc(
                "maker", optional(ADDRESS), "The maker; default: all makers that the key has."
            ),
        ),
        codes=("MAKER_NOT_ALLOWED", "INVALID_ADDRESS", *COMMAND),
        example={"maker": GASLESS_EXAMPLE["maker"], "timeoutMs": 10_000},
    ),
    "set_nonce": RouteDoc(
        TAG,
        "Raise the nonce of a maker",
        NonceBody,
        "Cancels orders with a lower nonce and rejects them from then on.",
        body=record(
            MAKER,
            FieldDoc("nonce", NUMBER, "The new nonce.", True),
            FieldDoc("signature", SIGNATURE, "EIP-712 of SetNonce(maker, nonce).", True),
        ),
        codes=("NONCE_TOO_LOW", *GRANTING),
    ),
    "set_delegate": RouteDoc(
        TAG,
        "Allow or forbid a delegate to sign for a maker",
        DelegateBody,
        body=record(
            MAKER,
            FieldDoc("delegate", ADDRESS, "The delegate.", True),
            FieldDoc("allowed", FLAG, "Whether the delegate may sign.", True),
            FieldDoc("nonce", NUMBER, "A number above that of the previous delegation.", True),
            FieldDoc("signature", SIGNATURE, "EIP-712 of SetDelegate by the maker.", True),
        ),
        codes=("DELEGATE_NONCE_TOO_LOW", *GRANTING),
    ),
}
