"""Descriptions of the operator routes."""

from typing import Final

from clob.wire.admin import (
    AdminMarketBody,
    BackupBody,
    ChainBody,
    ClockBody,
    EngineBody,
    KeyBody,
    NewKeyBody,
)
from clob.wire.info import SettlementBody
from clob.wire.operations import OperationBody, OperationView
from clob.wire.orders import OrderBody
from clob_server.http.admin_schemas import (
    ClockRequest,
    KeyRequest,
    LimitsBody,
    LimitsRequest,
    MarketChange,
    MarketRequest,
    OutcomeRequest,
)
from clob_server.http.openapi.common import (
    COMMAND,
    CURSOR,
    MILLISECONDS,
    PAGED,
    FieldDoc,
    RouteDoc,
    page_size,
)

TAG: Final = "Operators"
ENDING: Final = ("UNKNOWN_KEY", "KEY_INACTIVE", "RECOVERING", *COMMAND)
MARKET: Final = (
    "INVALID_FIELD", "RECOVERING", "INVALID_MARKET", "INVALID_AMOUNT", "AMOUNT_TOO_LARGE",
    "INVALID_FEE_RATE", "TOKEN_NOT_IN_MARKET", *COMMAND,
)  # fmt: skip
MODE: Final = (
    "INVALID_FIELD", "RECOVERING", "UNKNOWN_MARKET", "MARKET_NOT_OPEN", "INVALID_COMMAND", *COMMAND,
)  # fmt: skip
ADOPTING: Final = ("INVALID_ADDRESS", "NEG_RISK_NOT_SUPPORTED", "UNKNOWN_CONDITION")
CHAIN: Final = ("CHAIN_NOT_CONFIGURED", "CHAIN_UNAVAILABLE")

DESCRIBED: Final = {
    "admin_list_keys": RouteDoc(TAG, "List API keys", list[KeyBody]),
    "admin_create_key": RouteDoc(
        TAG,
        "Create an API key",
        NewKeyBody,
        "The key is shown in this response only.",
        body=KeyRequest,
        codes=("RECOVERING", "INVALID_ADDRESS", "KEY_EXISTS", *COMMAND),
        example={"name": "a market maker", "scopes": ["read", "trade", "cancel"], "makers": []},
    ),
    "admin_deactivate_key": RouteDoc(
        TAG,
        "Deactivate an API key",
        KeyBody,
        "Takes effect immediately and permanently.",
        codes=ENDING,
    ),
    "admin_delete_key": RouteDoc(
        TAG,
        "Deactivate an API key",
        KeyBody,
        "Deactivates the key; it stays in the list.",
        codes=ENDING,
    ),
    "admin_list_markets": RouteDoc(
        TAG,
        "List markets with their terms",
        list[AdminMarketBody],
        PAGED,
        query=(page_size(), CURSOR),
        codes=("INVALID_FIELD",),
    ),
    "admin_create_market": RouteDoc(
        TAG,
        "Open a market",
        AdminMarketBody,
        "With a question and without tokens, the market gets the tokens of the question's "
        "condition, which is prepared on the chain as soon as the chain is available. With "
        "`settles`, trades move tokens and collateral on the chain, with `custody` `escrow` those "
        "that makers have deposited in the exchange contract. A market of the same id is "
        "removed first, with its resting orders, if an order opened it and it never had a trade. "
        "With `conditionId`, `oracle` and `questionId`, the market adopts a condition that exists "
        "on the chain, and resolves once the payouts of its oracle are final.",
        body=MarketRequest,
        codes=(
            "MARKET_EXISTS",
            *CHAIN,
            "EXCHANGE_NOT_DEPLOYED",
            "ESCROW_NOT_SUPPORTED",
            *ADOPTING,
            *MARKET,
        ),
        example={
            "marketId": "rain",
            "yesTokenId": "201",
            "noTokenId": "202",
            "question": "Will it rain tomorrow?",
        },
    ),
    "admin_get_market": RouteDoc(
        TAG,
        "Get a market with the progress of its resolution",
        AdminMarketBody,
        codes=("INVALID_FIELD", "UNKNOWN_MARKET"),
    ),
    "admin_change_market": RouteDoc(
        TAG,
        "Change the terms or texts of a market",
        AdminMarketBody,
        body=MarketChange,
        codes=("UNKNOWN_MARKET", "MARKET_NOT_OPEN", *MARKET),
        example={"question": "Will it rain tomorrow?"},
    ),
    "admin_open_market": RouteDoc(
        TAG, "Open a market for trading", AdminMarketBody, codes=(*MODE, "MARKET_STALLED")
    ),
    "admin_halt_market": RouteDoc(
        TAG,
        "Halt a market",
        AdminMarketBody,
        "Makers can neither place nor cancel orders.",
        codes=MODE,
    ),
    "admin_cancel_only_market": RouteDoc(
        TAG, "Allow only cancels in a market", AdminMarketBody, codes=MODE
    ),
    "admin_resolve_market": RouteDoc(
        TAG,
        "Resolve a market",
        AdminMarketBody,
        "Removes all orders; cannot be undone. In a market of the chain the outcome is reported "
        "there, so that tokens can be redeemed. If the market settles, this happens once the "
        "results of its trades are final; the market at `Location` shows the progress. A market "
        "of an adopted condition has the outcome of its oracle, and rejects any other.",
        body=OutcomeRequest,
        codes=(
            "CHAIN_UNAVAILABLE",
            "CONDITION_NOT_RESOLVED",
            "CONDITION_RESOLVED",
            "ORACLE_KEY_MISSING",
            *MODE,
        ),
        others={202: "The market closes; its outcome is reported after its trades."},
        example={"outcome": "yes"},
    ),
    "admin_remove_market": RouteDoc(
        TAG,
        "Remove a market that never had a trade",
        AdminMarketBody,
        "Cancels its resting orders, and returns the market as it was. Its id and its tokens are "
        "free again. A market with a condition on the chain stays.",
        codes=("INVALID_FIELD", "UNKNOWN_MARKET", "MARKET_IN_USE"),
    ),
    "admin_chain": RouteDoc(
        TAG,
        "Get the state of the chain and the outbox",
        ChainBody,
        "Orders do not depend on the chain.",
    ),
    "admin_settlement": RouteDoc(
        TAG,
        "Get trades pending settlement and the state of account updates",
        SettlementBody,
        "Trades of settling markets. The latest failures include the reason.",
    ),
    "admin_list_operations": RouteDoc(
        TAG,
        "List chain operations with their transactions, newest first",
        list[OperationView],
        PAGED,
        query=(
            FieldDoc(
                "status",
                {"enum": ["pending", "done", "failed", "stuck"]},
                "Only operations with this status.",
            ),
            page_size(maximum=100),
            CURSOR,
        ),
        codes=("INVALID_FIELD", *CHAIN),
    ),
    "admin_retry_operation": RouteDoc(
        TAG, "Retry a stuck operation", OperationBody, codes=(*CHAIN, "UNKNOWN_OPERATION")
    ),
    "admin_backup": RouteDoc(
        TAG,
        "Get the extent of the log",
        BackupBody,
        "For `clob-server backup --url`, like the next two routes.",
        codes=("ENGINE_STOPPED", "OUTCOME_UNKNOWN"),
    ),
    "admin_backup_frames": RouteDoc(
        TAG,
        "Get stored frames of the log",
        "application/msgpack",
        "A MessagePack array of byte strings, about 1 MiB; empty at the end of the log.",
        query=(FieldDoc("after", MILLISECONDS, "Last command already read; default 0."),),
        codes=("INVALID_FIELD", "ENGINE_STOPPED", "OUTCOME_UNKNOWN"),
    ),
    "admin_backup_snapshot": RouteDoc(
        TAG,
        "Get a part of a snapshot",
        "application/octet-stream",
        "At most 1 MiB; empty at the end of the snapshot.",
        query=(
            FieldDoc("seq", MILLISECONDS, "Command of the snapshot."),
            FieldDoc("offset", MILLISECONDS, "First byte; default 0."),
        ),
        codes=("NOT_FOUND", "INVALID_FIELD"),
    ),
    "admin_get_limits": RouteDoc(TAG, "Get limits and budgets", LimitsBody),
    "admin_set_limits": RouteDoc(
        TAG,
        "Change limits or budgets",
        LimitsBody,
        "Omitted fields stay unchanged.",
        body=LimitsRequest,
        codes=("RECOVERING", "INVALID_COMMAND", *COMMAND),
    ),
    "admin_engine": RouteDoc(TAG, "Get the numbers of the engine", EngineBody),
    "admin_get_clock": RouteDoc(TAG, "Get the clocks of the server", ClockBody),
    "admin_accept_clock": RouteDoc(
        TAG,
        "Accept the wall clock after a jump",
        ClockBody,
        "The log keeps its time: if it is ahead of the clock, commands stay rejected until the "
        "clock has reached it. By more than 15 minutes, stop the server and run "
        "`clob-server repair-clock`.",
        body=ClockRequest,
    ),
    "admin_cancel_order": RouteDoc(
        TAG,
        "Cancel any order",
        OrderBody,
        codes=("RECOVERING", "UNKNOWN_ORDER", "ORDER_NOT_OPEN", "MARKET_NOT_OPEN", *COMMAND),
    ),
}
