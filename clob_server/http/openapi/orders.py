"""The routes of orders, described."""

from collections.abc import Mapping
from typing import Final

from clob_server.api.problems import ProblemBody
from clob_server.api.schemas import (
    CreatedBody,
    DelegateBody,
    InvalidBody,
    NonceBody,
    OrderBody,
    OutlookBody,
)
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
    TOKEN,
    WEI,
    Described,
    Field,
    array,
    optional,
    record,
    refer,
    results,
)

TAG: Final = "Orders"
BATCH_MAX: Final = 20
SETTLING: Final = (*SETTLING_SIGNED, *SETTLING_UNSIGNED)

MARKET: Final = Field("marketId", MARKET_ID, "The market.", True)
WANTED: Final = (
    Field(
        "timeInForce",
        optional({"enum": ["GTC", "GTD", "IOC", "FOK"]}),
        "What becomes of the part that does not trade at once. GTC, the default: it rests.",
    ),
    Field("postOnly", optional(FLAG), "Refused if it would trade at once."),
    Field(
        "selfTrade",
        optional(
            {"enum": ["NONE", "CANCEL_RESTING", "CANCEL_INCOMING", "CANCEL_BOTH", "DECREMENT"]}
        ),
        "What happens where it meets its maker's own orders; absent leaves it to the market.",
    ),
    Field(
        "clientOrderId",
        optional({"type": "string", "minLength": 1, "maxLength": 64}),
        "What its maker calls it. The same again is the first answer again.",
    ),
    Field("deadlineMs", optional(MILLISECONDS), "The last Unix millisecond it is welcome at."),
)
"""What may be said of an order besides its fields."""

SIGNED_ORDER: Final = record(
    Field("maker", ADDRESS, "The wallet that owns what is traded.", True),
    Field("tokenId", TOKEN, "The outcome token, YES or NO.", True),
    Field("makerAmount", WEI, "Wei. A buy: collateral. A sell: tokens.", True),
    Field("takerAmount", WEI, "Wei. A buy: tokens. A sell: collateral.", True),
    MARKET,
    Field("signature", SIGNATURE, "The signature of the order by the signer.", True),
    Field("signer", optional(ADDRESS), "Who signed; the maker where it is absent."),
    Field("side", optional(SIDE), "0 or BUY, the default; 1 or SELL."),
    Field(
        "signatureType",
        optional({"enum": [0, 1]}),
        "1, the default, is EIP-712; 0 is that or a personal_sign of the order's hash.",
    ),
    Field("expiration", optional(NUMBER), "The last Unix second it may trade in; 0 is never."),
    Field("feeRateBps", optional(NUMBER), "The most it may be charged, 0 to 1000 basis points."),
    Field("salt", optional(NUMBER), "What makes it unique: a number, or any text."),
    Field("nonce", optional(NUMBER), "The maker's nonce; below his current one it is refused."),
    Field("taker", optional(ADDRESS), "The zero address, which is anybody, or the operator."),
    *WANTED,
)
GASLESS_ORDER: Final = record(
    Field("maker", ADDRESS, "The caller's wallet.", True),
    Field("smartWallet", optional(ADDRESS), "The wallet that holds the collateral."),
    Field("tokenId", TOKEN, "The outcome token, YES or NO.", True),
    Field("side", SIDE, "0 or BUY; 1 or SELL.", True),
    Field("price", NUMBER, "Cents, 1 to 99.", True),
    Field("size", WEI, "Tokens, in wei: 10^18 is one.", True),
    MARKET,
    *WANTED,
)
CANCEL: Final = (
    Field("maker", optional(ADDRESS), "The order's maker."),
    Field("timestamp", optional(NUMBER), "Unix milliseconds, as signed."),
    Field("signature", optional(SIGNATURE), "EIP-712 of Cancel(orderId, maker, timestamp)."),
)

GASLESS_EXAMPLE: Final[Mapping[str, str | int]] = {
    "maker": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "marketId": "demo",
    "tokenId": DEMO_YES,
    "side": 0,
    "price": 50,
    "size": "5000000000000000000",
}
"""A gasless order that the demo takes."""
SIGNED_EXAMPLE: Final[Mapping[str, str | int]] = {
    "maker": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "marketId": "demo",
    "tokenId": DEMO_YES,
    "side": 0,
    "makerAmount": "2500000000000000000",
    "takerAmount": "5000000000000000000",
    "salt": "1",
    "signatureType": 1,
    "signature": "0x735e115096b434834e661e71566ff5a5bb3b3b08fdf8299a2fc4e1c8fa2a66ea"
    "141a41652d600e54b405765de00745652e4574a53eeaf8f73cda597161b6d2081b",
}
"""A signed order that a server with the default domain takes."""

LISTED: Final = (
    Field("maker", ADDRESS, "Only the orders of this wallet."),
    Field("marketId", MARKET_ID, "Only those of this market."),
    Field("limit", {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}, "How many."),
    Field("cursor", TEXT, "Where to go on: the X-Next-Cursor of the answer before."),
)
CANCELLING: Final = (
    "MAKER_NOT_ALLOWED",
    "INVALID_ADDRESS",
    "TIMESTAMP_OUT_OF_WINDOW",
    "INVALID_SIGNATURE",
    "SIGNER_NOT_AUTHORISED",
    "INVALID_ORDER_ID",
    "UNKNOWN_ORDER",
    "NOT_THE_MAKER",
    "ORDER_NOT_OPEN",
    "MARKET_NOT_OPEN",
    *COMMAND,
)

DESCRIBED: Final = {
    "create_order": Described(
        TAG,
        "Place a signed order",
        CreatedBody,
        "It is matched at once, and what is left rests. The same signed order again is answered "
        "as the first time, with `duplicate: true`.",
        body=SIGNED_ORDER,
        codes=(*SIGNED, *SETTLING_SIGNED, *PLACING),
        example=SIGNED_EXAMPLE,
    ),
    "create_gasless_order": Described(
        TAG,
        "Place an order that nobody signed",
        CreatedBody,
        body=GASLESS_ORDER,
        codes=(*SETTLING_UNSIGNED, *PLACING),
        example=GASLESS_EXAMPLE,
    ),
    "get_order": Described(
        TAG,
        "Look up an order",
        OrderBody,
        "By its id, or by the hash that was signed.",
        codes=("UNKNOWN_ORDER", "INVALID_ORDER_ID", "INVALID_FIELD", "RECOVERING"),
    ),
    "list_orders": Described(
        TAG,
        "List orders that rest",
        list[OrderBody],
        "Where there are more, `Link` and `X-Next-Cursor` lead on.",
        query=LISTED,
        codes=("INVALID_FIELD", "INVALID_ADDRESS", "UNKNOWN_MARKET", "MAKER_NOT_ALLOWED"),
    ),
    "cancel_order": Described(
        TAG,
        "Cancel an order",
        OrderBody,
        "In production a key that is bound to the maker, or the maker's signature, is needed.",
        query=(Field("maker", TEXT, "The order's maker, where there is no body."),),
        body=record(*CANCEL),
        codes=CANCELLING,
        example={"maker": GASLESS_EXAMPLE["maker"]},
    ),
    "create_batch": Described(
        TAG,
        "Place up to 20 orders",
        results(CreatedBody, ProblemBody),
        "Each has its own result, in their sequence: the answer to a new order, or a problem.",
        body=record(
            Field(
                "orders",
                array({"anyOf": [SIGNED_ORDER, GASLESS_ORDER]}, BATCH_MAX),
                "Signed and gasless orders.",
                True,
            )
        ),
        codes=("BATCH_TOO_LARGE", *SIGNED, *SETTLING, *PLACING),
        example={"orders": [GASLESS_EXAMPLE]},
    ),
    "cancel_batch": Described(
        TAG,
        "Cancel up to 20 orders",
        results(OrderBody, ProblemBody),
        "Each has its own result, in their sequence: the order, or a problem.",
        body=record(
            Field(
                "orders",
                array(record(Field("orderId", TEXT, "The order.", True), *CANCEL), BATCH_MAX),
                "What is to be cancelled.",
                True,
            )
        ),
        codes=("BATCH_TOO_LARGE", *CANCELLING),
    ),
    "validate_order": Described(
        TAG,
        "Check an order without placing it",
        {"anyOf": [refer(OutlookBody), refer(InvalidBody)]},
        "A refusal comes as part of the answer, with an explanation of the signature.",
        refers=(OutlookBody, InvalidBody),
        body={"anyOf": [SIGNED_ORDER, GASLESS_ORDER]},
        codes=(*SIGNED, *SETTLING, *PLACING),
        example=SIGNED_EXAMPLE,
    ),
    "simulate_order": Described(
        TAG,
        "Say what an order would do",
        OutlookBody,
        "The trades that it would make now and what would rest. Nothing changes.",
        body={"anyOf": [SIGNED_ORDER, GASLESS_ORDER]},
        codes=(*SIGNED, *SETTLING, *PLACING),
        example=GASLESS_EXAMPLE,
    ),
    "set_nonce": Described(
        TAG,
        "Raise the nonce of a maker",
        NonceBody,
        "Orders with a lower nonce are cancelled, and refused from now on.",
        body=record(
            Field("maker", ADDRESS, "The maker.", True),
            Field("nonce", NUMBER, "His nonce from now on.", True),
            Field("signature", SIGNATURE, "EIP-712 of SetNonce(maker, nonce).", True),
        ),
        codes=("RECOVERING", "DRAINING", "INVALID_ADDRESS", "NONCE_TOO_LOW", *SIGNED, *COMMAND),
    ),
    "set_delegate": Described(
        TAG,
        "Let somebody sign for a maker, or no longer",
        DelegateBody,
        body=record(
            Field("maker", ADDRESS, "Who allows it.", True),
            Field("delegate", ADDRESS, "Who may sign.", True),
            Field("allowed", FLAG, "If he may.", True),
            Field("nonce", NUMBER, "A number above that of the delegation before.", True),
            Field("signature", SIGNATURE, "EIP-712 of SetDelegate by the maker.", True),
        ),
        codes=(
            "RECOVERING",
            "DRAINING",
            "INVALID_ADDRESS",
            "DELEGATE_NONCE_TOO_LOW",
            *SIGNED,
            *COMMAND,
        ),
    ),
}
"""What each route takes, answers and is refused for."""
