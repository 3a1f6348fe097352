"""Descriptions of the gasless operations."""

from typing import Final

from clob_server.api.schemas import OperationBody
from clob_server.chain.operation_bodies import FaucetAnswer, MergeAnswer, RedeemAnswer, SplitAnswer
from clob_server.http.openapi.common import (
    ADDRESS,
    DEMO_CONDITION,
    DEMO_NO,
    DEMO_USER,
    DEMO_YES,
    NUMBER,
    WEI,
    FieldDoc,
    RouteDoc,
    Schema,
    optional,
    record,
)

TAG: Final = "Gasless operations"
WORD: Final[Schema] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{64}$"}
"""32 bytes in hex."""
IDEMPOTENCY_KEY: Final = FieldDoc(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "Your name for the request. Repeating it returns the answer of the same operation.",
)
COMPLETION: Final = (
    "Responds when the operation is complete on the chain. `OPERATION_PENDING` means that it is "
    "still running and names it. Closing the connection does not stop it."
)
CONDITION: Final = FieldDoc(
    "conditionId", WORD, "The condition of the market, 32 bytes in hex.", True
)
USER: Final = FieldDoc("user", ADDRESS, "The wallet.", True)
PAIR: Final = (
    USER,
    FieldDoc("amount", WEI, "Number of tokens of each outcome, in wei.", True),
    CONDITION,
    FieldDoc("yesTokenId", NUMBER, "The YES token.", True),
    FieldDoc("noTokenId", NUMBER, "The NO token.", True),
)
PERMIT: Final = FieldDoc(
    "permit",
    optional(
        record(
            FieldDoc("value", WEI, "Approved collateral, in wei.", True),
            FieldDoc("deadline", NUMBER, "Last Unix second of validity.", True),
            FieldDoc("v", {"enum": [27, 28]}, "v of the signature.", True),
            FieldDoc("r", WORD, "r of the signature.", True),
            FieldDoc("s", WORD, "s of the signature.", True),
        )
    ),
    "A signed approval of collateral for the operator (EIP-2612), applied first.",
)
EXAMPLE: Final = {
    "user": DEMO_USER,
    "amount": "1000000000000000000",
    "conditionId": DEMO_CONDITION,
    "yesTokenId": DEMO_YES,
    "noTokenId": DEMO_NO,
}
"""Demo tokens; the wallet must approve the operator first."""
CHAIN: Final = (
    "RECOVERING",
    "DRAINING",
    "INVALID_ADDRESS",
    "MAKER_NOT_ALLOWED",
    "IDEMPOTENCY_KEY_REUSED",
    "CHAIN_NOT_CONFIGURED",
    "CHAIN_UNAVAILABLE",
    "OPERATOR_OUT_OF_GAS",
    "OPERATION_PENDING",
    "OPERATION_FAILED",
    "OUTCOME_UNKNOWN",
)
CONVERTING: Final = (
    *CHAIN,
    "INVALID_AMOUNT",
    "AMOUNT_TOO_LARGE",
    "UNKNOWN_CONDITION",
    "TOKENS_NOT_OF_CONDITION",
    "INSUFFICIENT_BALANCE",
    "NOT_APPROVED",
)

DESCRIBED: Final = {
    "gasless_split": RouteDoc(
        TAG,
        "Split collateral into YES and NO tokens",
        SplitAnswer,
        f"The wallet must approve the operator for its collateral or sign a permit. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY,),
        body=record(*PAIR, PERMIT),
        codes=CONVERTING,
        example=EXAMPLE,
    ),
    "gasless_merge": RouteDoc(
        TAG,
        "Merge YES and NO tokens into collateral",
        MergeAnswer,
        f"The wallet must approve the operator for its outcome tokens. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY,),
        body=record(*PAIR),
        codes=CONVERTING,
        example=EXAMPLE,
    ),
    "gasless_redeem": RouteDoc(
        TAG,
        "Redeem the tokens of a resolved market",
        RedeemAnswer,
        f"Redeems all of the wallet's tokens; the operator must be approved. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY,),
        body=record(USER, CONDITION),
        codes=(
            *CHAIN,
            "UNKNOWN_CONDITION",
            "NOT_APPROVED",
            "CONDITION_NOT_RESOLVED",
            "NOTHING_TO_REDEEM",
        ),
        example={"user": DEMO_USER, "conditionId": DEMO_CONDITION},
    ),
    "gasless_faucet": RouteDoc(
        TAG,
        "Request test collateral",
        FaucetAnswer,
        f"At most 500 units per wallet in 24 hours. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY,),
        body=record(USER),
        codes=(*CHAIN, "FAUCET_LIMIT", "NOT_ON_THIS_ENVIRONMENT", "CLOCK_WENT_BACK", "ENGINE_FULL"),
        example={"user": DEMO_USER},
    ),
    "gasless_operation": RouteDoc(
        TAG,
        "Get the status of an operation",
        OperationBody,
        codes=("CHAIN_NOT_CONFIGURED", "CHAIN_UNAVAILABLE", "UNKNOWN_OPERATION"),
    ),
}
"""Descriptions by route name."""
