"""The gasless operations, described."""

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
    Described,
    Field,
    Schema,
    optional,
    record,
)

TAG: Final = "Gasless operations"
WORD: Final[Schema] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{64}$"}
"""32 bytes in hex."""
IDEMPOTENCY_KEY: Final = Field(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "What you call the request: the same one again is the same operation, and has its answer.",
)
TOLD: Final = (
    "It answers once all has happened on the chain. `OPERATION_PENDING` says that it is still "
    "under way, and names it. Who hangs up changes nothing."
)
CONDITION: Final = Field("conditionId", WORD, "The condition of the market, 32 bytes in hex.", True)
USER: Final = Field("user", ADDRESS, "The wallet.", True)
PAIR: Final = (
    USER,
    Field("amount", WEI, "How many tokens of each, in wei.", True),
    CONDITION,
    Field("yesTokenId", NUMBER, "The YES token.", True),
    Field("noTokenId", NUMBER, "The NO token.", True),
)
PERMIT: Final = Field(
    "permit",
    optional(
        record(
            Field("value", WEI, "How much collateral is approved, in wei.", True),
            Field("deadline", NUMBER, "The last Unix second in which it can be used.", True),
            Field("v", {"enum": [27, 28]}, "Of the signature.", True),
            Field("r", WORD, "Of the signature.", True),
            Field("s", WORD, "Of the signature.", True),
        )
    ),
    "A signed approval of collateral (EIP-2612) for the operator, to be used first.",
)
EXAMPLE: Final = {
    "user": DEMO_USER,
    "amount": "1000000000000000000",
    "conditionId": DEMO_CONDITION,
    "yesTokenId": DEMO_YES,
    "noTokenId": DEMO_NO,
}
"""Tokens of the demo, for a wallet that has to approve the operator first."""
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
    "gasless_split": Described(
        TAG,
        "Make YES and NO tokens of collateral",
        SplitAnswer,
        f"The wallet approves the operator for its collateral, or signs a permit. {TOLD}",
        headers=(IDEMPOTENCY_KEY,),
        body=record(*PAIR, PERMIT),
        codes=CONVERTING,
        example=EXAMPLE,
    ),
    "gasless_merge": Described(
        TAG,
        "Make collateral of YES and NO tokens",
        MergeAnswer,
        f"The wallet approves the operator for its outcome tokens. {TOLD}",
        headers=(IDEMPOTENCY_KEY,),
        body=record(*PAIR),
        codes=CONVERTING,
        example=EXAMPLE,
    ),
    "gasless_redeem": Described(
        TAG,
        "Have the tokens of a resolved market paid out",
        RedeemAnswer,
        f"All that the wallet has of both. It approves the operator for its tokens. {TOLD}",
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
    "gasless_faucet": Described(
        TAG,
        "Get collateral for tests",
        FaucetAnswer,
        f"At most 500 units a wallet in 24 hours. {TOLD}",
        headers=(IDEMPOTENCY_KEY,),
        body=record(USER),
        codes=(*CHAIN, "FAUCET_LIMIT", "NOT_ON_THIS_ENVIRONMENT", "CLOCK_WENT_BACK", "ENGINE_FULL"),
        example={"user": DEMO_USER},
    ),
    "gasless_operation": Described(
        TAG,
        "Where an operation stands",
        OperationBody,
        codes=("CHAIN_NOT_CONFIGURED", "CHAIN_UNAVAILABLE", "UNKNOWN_OPERATION"),
    ),
}
"""What each route takes, answers and is refused for."""
