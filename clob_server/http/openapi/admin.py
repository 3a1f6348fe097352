"""The routes of operators, described."""

from typing import Final

from clob_server.api.schemas import OperationBody, OrderBody
from clob_server.chain.messages import OperationView
from clob_server.http.admin_schemas import (
    AdminMarketBody,
    ChainBody,
    EngineBody,
    KeyAsked,
    KeyBody,
    LimitsAsked,
    LimitsBody,
    MarketAsked,
    MarketChange,
    NewKeyBody,
    OutcomeAsked,
    SettlementBody,
)
from clob_server.http.openapi.common import COMMAND, Described, Field

TAG: Final = "Operators"
ENDING: Final = ("UNKNOWN_KEY", "KEY_INACTIVE", "RECOVERING", *COMMAND)
MARKET: Final = (
    "INVALID_FIELD",
    "RECOVERING",
    "INVALID_MARKET",
    "INVALID_AMOUNT",
    "AMOUNT_TOO_LARGE",
    "INVALID_FEE_RATE",
    "TOKEN_NOT_IN_MARKET",
    *COMMAND,
)
MODE: Final = (
    "INVALID_FIELD",
    "RECOVERING",
    "UNKNOWN_MARKET",
    "MARKET_NOT_OPEN",
    "INVALID_COMMAND",
    *COMMAND,
)

DESCRIBED: Final = {
    "admin_list_keys": Described(TAG, "List API keys", list[KeyBody]),
    "admin_create_key": Described(
        TAG,
        "Make an API key",
        NewKeyBody,
        "The whole key is shown here, and never again.",
        body=KeyAsked,
        codes=("RECOVERING", "INVALID_ADDRESS", "KEY_EXISTS", *COMMAND),
        example={"name": "a market maker", "scopes": ["read", "trade", "cancel"], "makers": []},
    ),
    "admin_deactivate_key": Described(
        TAG, "Deactivate an API key", KeyBody, "At once, and for good.", codes=ENDING
    ),
    "admin_delete_key": Described(
        TAG,
        "Deactivate an API key",
        KeyBody,
        "The same as to deactivate it: it stays in the list.",
        codes=ENDING,
    ),
    "admin_list_markets": Described(
        TAG,
        "List markets with their terms",
        list[AdminMarketBody],
        "Where there are more, `Link` and `X-Next-Cursor` lead on.",
        query=(
            Field("limit", {"type": "integer", "minimum": 1}, "How many."),
            Field("cursor", {"type": "string"}, "Where to go on."),
        ),
        codes=("INVALID_FIELD",),
    ),
    "admin_create_market": Described(
        TAG,
        "Open a market",
        AdminMarketBody,
        "With a question and without tokens it is a market of the chain: the tokens are those of "
        "the question's condition, which is prepared on the chain as soon as that is there. With "
        "`settles`, its trades move tokens and collateral there.",
        body=MarketAsked,
        codes=(
            "MARKET_EXISTS",
            "CHAIN_NOT_CONFIGURED",
            "CHAIN_UNAVAILABLE",
            "EXCHANGE_NOT_DEPLOYED",
            *MARKET,
        ),
        example={
            "marketId": "rain",
            "yesTokenId": "201",
            "noTokenId": "202",
            "question": "Will it rain tomorrow?",
        },
    ),
    "admin_change_market": Described(
        TAG,
        "Change the terms or the words of a market",
        AdminMarketBody,
        body=MarketChange,
        codes=("UNKNOWN_MARKET", "MARKET_NOT_OPEN", *MARKET),
        example={"question": "Will it rain tomorrow?"},
    ),
    "admin_open_market": Described(TAG, "Let a market trade", AdminMarketBody, codes=MODE),
    "admin_halt_market": Described(
        TAG,
        "Halt a market",
        AdminMarketBody,
        "Makers can do nothing in it, nor cancel.",
        codes=MODE,
    ),
    "admin_cancel_only_market": Described(
        TAG, "Allow nothing but cancels in a market", AdminMarketBody, codes=MODE
    ),
    "admin_resolve_market": Described(
        TAG,
        "State the outcome of a market",
        AdminMarketBody,
        "All its orders are removed. It is for good. Of a market of the chain the outcome is "
        "reported there, so that its tokens can be redeemed.",
        body=OutcomeAsked,
        codes=MODE,
        example={"outcome": "yes"},
    ),
    "admin_chain": Described(
        TAG, "How the chain is, and its outbox", ChainBody, "Orders do not depend on it."
    ),
    "admin_settlement": Described(
        TAG,
        "Which trades wait to be settled, and how accounts follow the chain",
        SettlementBody,
        "Trades of markets that settle on the chain. Those that failed last are told with the "
        "reason.",
    ),
    "admin_list_operations": Described(
        TAG,
        "List operations of the chain with their transactions, the newest first",
        list[OperationView],
        "Where there are more, `Link` and `X-Next-Cursor` lead on.",
        query=(
            Field("status", {"enum": ["pending", "done", "failed", "stuck"]}, "Only those."),
            Field("limit", {"type": "integer", "minimum": 1, "maximum": 100}, "How many."),
            Field("cursor", {"type": "string"}, "Where to go on."),
        ),
        codes=("INVALID_FIELD", "CHAIN_NOT_CONFIGURED", "CHAIN_UNAVAILABLE"),
    ),
    "admin_retry_operation": Described(
        TAG,
        "Have an operation that is stuck go on",
        OperationBody,
        codes=("CHAIN_NOT_CONFIGURED", "CHAIN_UNAVAILABLE", "UNKNOWN_OPERATION"),
    ),
    "admin_get_limits": Described(TAG, "Limits and budgets", LimitsBody),
    "admin_set_limits": Described(
        TAG,
        "Change limits or budgets",
        LimitsBody,
        "What is left out stays as it is.",
        body=LimitsAsked,
        codes=("RECOVERING", "INVALID_COMMAND", *COMMAND),
    ),
    "admin_engine": Described(TAG, "The numbers of the engine", EngineBody),
    "admin_cancel_order": Described(
        TAG,
        "Cancel anybody's order",
        OrderBody,
        codes=("RECOVERING", "UNKNOWN_ORDER", "ORDER_NOT_OPEN", "MARKET_NOT_OPEN", *COMMAND),
    ),
}
"""What each route takes, answers and is refused for."""
