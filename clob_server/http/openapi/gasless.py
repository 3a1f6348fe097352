"""Descriptions of the gasless operations."""

from typing import Final

from clob.wire.operations import (
    DepositAnswer,
    FaucetAnswer,
    MergeAnswer,
    OperationBody,
    RedeemAnswer,
    SplitAnswer,
    UnwrapAnswer,
    WithdrawAnswer,
    WithdrawRequestAnswer,
    WrapAnswer,
)
from clob_server.http.openapi import common

TAG: Final = "Gasless operations"
WORD: Final[common.Schema] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{64}$"}
"""32 bytes in hex."""
IDEMPOTENCY_KEY: Final = common.FieldDoc(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "Your name for the request. Repeating it returns the answer of the same operation.",
)
PREFER: Final = common.FieldDoc(
    "Prefer",
    {"type": "string", "pattern": "^ *wait *= *[0-9]{1,6} *$"},
    "`wait=1`: answer after a second at the latest, with `OPERATION_PENDING` and the transactions "
    "so far if the operation is still running. Repeat the request with the same `Idempotency-Key` "
    "to follow it (RFC 7240).",
)
COMPLETION: Final = (
    "Responds when the operation is complete on the chain. `OPERATION_PENDING` means that it is "
    "still running and names it. Closing the connection does not stop it."
)
CONDITION: Final = common.FieldDoc(
    "conditionId", WORD, "The condition of the market, 32 bytes in hex.", True
)
USER: Final = common.FieldDoc("user", common.ADDRESS, "The wallet.", True)
PAIR: Final = (
    USER,
    common.FieldDoc("amount", common.WEI, "Number of tokens of each outcome, in wei.", True),
    CONDITION,
    common.FieldDoc("yesTokenId", common.NUMBER, "The YES token.", True),
    common.FieldDoc("noTokenId", common.NUMBER, "The NO token.", True),
)
PERMIT: Final = common.FieldDoc(
    "permit",
    common.optional(
        common.record(
            common.FieldDoc("value", common.WEI, "Approved collateral, in wei.", True),
            common.FieldDoc("deadline", common.NUMBER, "Last Unix second of validity.", True),
            common.FieldDoc("v", {"enum": [27, 28]}, "v of the signature.", True),
            common.FieldDoc("r", WORD, "r of the signature.", True),
            common.FieldDoc("s", WORD, "s of the signature.", True),
        )
    ),
    "A signed approval of collateral for the operator (EIP-2612), applied first.",
)
ASSET: Final = common.FieldDoc(
    "asset",
    {"anyOf": [{"const": "collateral"}, common.NUMBER]},
    "`collateral`, or the id of an outcome token.",
    True,
)
WITHDRAWAL_REQUEST: Final = (
    USER,
    ASSET,
    common.FieldDoc(
        "amount", common.WEI, "Amount, in wei; replaces an earlier request, 0 ends it.", True
    ),
    common.FieldDoc("nonce", common.NUMBER, "A number that the wallet uses once.", True),
    common.FieldDoc("deadline", common.NUMBER, "Last Unix second of validity.", True),
    common.FieldDoc(
        "signature",
        {"type": "string", "pattern": "^0x([0-9a-fA-F]{2})+$"},
        "Signature of the wallet by EIP-712 in the domain of orders: `Withdrawal(address "
        "wallet,uint256 asset,uint256 amount,uint256 nonce,uint256 deadline)`; the asset of "
        "collateral is 0.",
        True,
    ),
)
STABLECOIN_PERMIT: Final = PERMIT._replace(
    text="A signed approval of stablecoin for the operator (EIP-2612), in its smallest unit, "
    "applied first.",
)
WRAPPING: Final = (
    USER,
    common.FieldDoc(
        "amount",
        common.WEI,
        "Amount of collateral, in wei: a multiple of the smallest unit of the stablecoin, which is "
        "10^12 wei for 6 decimals.",
        True,
    ),
)
EXAMPLE: Final = {
    "user": common.DEMO_USER,
    "amount": "1000000000000000000",
    "conditionId": common.DEMO_CONDITION,
    "yesTokenId": common.DEMO_YES,
    "noTokenId": common.DEMO_NO,
}
"""Demo tokens; the wallet must approve the operator first."""
CHAIN: Final = (
    "RECOVERING", "DRAINING", "INVALID_ADDRESS", "MAKER_NOT_ALLOWED", "IDEMPOTENCY_KEY_REUSED",
    "CHAIN_NOT_CONFIGURED", "CHAIN_UNAVAILABLE", "OPERATOR_OUT_OF_GAS", "OPERATION_PENDING",
    "OPERATION_FAILED", "OUTCOME_UNKNOWN",
)  # fmt: skip
"""Errors of any operation on the chain."""
CONVERTING: Final = (
    *CHAIN, "INVALID_AMOUNT", "AMOUNT_TOO_LARGE", "UNKNOWN_CONDITION", "TOKENS_NOT_OF_CONDITION",
    "INSUFFICIENT_BALANCE", "NOT_APPROVED",
)  # fmt: skip
"""Errors of split and merge."""
ESCROW: Final = (*CHAIN, "INVALID_FIELD", "ESCROW_NOT_SUPPORTED")
"""Errors of operations on escrow."""
WRAPS: Final = (
    *CHAIN, "INVALID_AMOUNT", "AMOUNT_TOO_LARGE", "WRONG_COLLATERAL", "INSUFFICIENT_BALANCE",
    "NOT_APPROVED",
)  # fmt: skip
"""Errors of wrap and unwrap."""
REDEEMING: Final = (
    *CHAIN, "UNKNOWN_CONDITION", "NOT_APPROVED", "CONDITION_NOT_RESOLVED", "NOTHING_TO_REDEEM",
)  # fmt: skip

FAUCET: Final = (
    *CHAIN, "NO_FAUCET", "FAUCET_LIMIT", "NOT_ON_THIS_ENVIRONMENT", "CLOCK_WENT_BACK",
    "ENGINE_FULL",
)  # fmt: skip

DESCRIBED: Final = {
    "gasless_split": common.RouteDoc(
        TAG,
        "Split collateral into YES and NO tokens",
        SplitAnswer,
        f"The wallet must approve the operator for its collateral or sign a permit. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY, PREFER),
        body=common.record(*PAIR, PERMIT),
        codes=CONVERTING,
        example=EXAMPLE,
    ),
    "gasless_merge": common.RouteDoc(
        TAG,
        "Merge YES and NO tokens into collateral",
        MergeAnswer,
        f"The wallet must approve the operator for its outcome tokens. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY, PREFER),
        body=common.record(*PAIR),
        codes=CONVERTING,
        example=EXAMPLE,
    ),
    "gasless_redeem": common.RouteDoc(
        TAG,
        "Redeem the tokens of a resolved market",
        RedeemAnswer,
        f"Redeems all of the wallet's tokens; the operator must be approved. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY, PREFER),
        body=common.record(USER, CONDITION),
        codes=REDEEMING,
        example={"user": common.DEMO_USER, "conditionId": common.DEMO_CONDITION},
    ),
    "gasless_deposit": common.RouteDoc(
        TAG,
        "Deposit collateral or outcome tokens into escrow",
        DepositAnswer,
        "The wallet must approve the operator for the asset; for collateral a permit does as well. "
        "A deposit covers orders of escrow markets once its block is final. If the deposit fails, "
        f"the asset goes back to the wallet. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY, PREFER),
        body=common.record(USER, ASSET, PAIR[1]._replace(text="Amount, in wei."), PERMIT),
        codes=(
            *ESCROW,
            "INVALID_AMOUNT",
            "AMOUNT_TOO_LARGE",
            "INSUFFICIENT_BALANCE",
            "NOT_APPROVED",
            "UNKNOWN_CONDITION",
        ),
        example={"user": common.DEMO_USER, "asset": "collateral", "amount": EXAMPLE["amount"]},
    ),
    "gasless_withdraw_request": common.RouteDoc(
        TAG,
        "Request a withdrawal from escrow",
        WithdrawRequestAnswer,
        "The requested amount covers no more orders at once, and orders that it uncovers are "
        f"cancelled. It can be withdrawn from the second `from` on. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY, PREFER),
        body=common.record(*WITHDRAWAL_REQUEST),
        codes=(
            *ESCROW,
            "INVALID_AMOUNT",
            "AMOUNT_TOO_LARGE",
            "INVALID_SIGNATURE",
            "NONCE_USED",
            "DEADLINE_PASSED",
            "INSUFFICIENT_BALANCE",
        ),
        example={
            "user": common.DEMO_USER,
            "asset": "collateral",
            "amount": EXAMPLE["amount"],
            "nonce": "1",
            "deadline": "4000000000",
            "signature": f"0x{'12' * 65}",
        },
    ),
    "gasless_withdraw": common.RouteDoc(
        TAG,
        "Withdraw a requested amount from escrow",
        WithdrawAnswer,
        "Pays to the wallet itself, at most its balance in escrow. Anybody may send the same "
        f"transaction without this server. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY, PREFER),
        body=common.record(USER, ASSET),
        codes=(*ESCROW, "NOTHING_TO_WITHDRAW", "WITHDRAWAL_NOT_DUE"),
        example={"user": common.DEMO_USER, "asset": "collateral"},
    ),
    "gasless_wrap": common.RouteDoc(
        TAG,
        "Wrap stablecoin into collateral",
        WrapAnswer,
        f"The wallet must approve the operator for its stablecoin or sign a permit. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY, PREFER),
        body=common.record(
            *WRAPPING,
            STABLECOIN_PERMIT,
        ),
        codes=WRAPS,
        example={"user": common.DEMO_USER, "amount": "1000000000000000000"},
    ),
    "gasless_unwrap": common.RouteDoc(
        TAG,
        "Unwrap collateral into stablecoin",
        UnwrapAnswer,
        f"The wallet must approve the operator for its collateral or sign a permit. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY, PREFER),
        body=common.record(*WRAPPING, PERMIT),
        codes=WRAPS,
        example={"user": common.DEMO_USER, "amount": "1000000000000000000"},
    ),
    "gasless_faucet": common.RouteDoc(
        TAG,
        "Request test collateral",
        FaucetAnswer,
        f"At most 500 units per wallet in 24 hours. {COMPLETION}",
        headers=(IDEMPOTENCY_KEY, PREFER),
        body=common.record(USER),
        codes=FAUCET,
        example={"user": common.DEMO_USER},
    ),
    "gasless_operation": common.RouteDoc(
        TAG,
        "Get the status of an operation",
        OperationBody,
        codes=("CHAIN_NOT_CONFIGURED", "CHAIN_UNAVAILABLE", "UNKNOWN_OPERATION"),
    ),
}
