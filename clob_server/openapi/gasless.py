"""The gasless operations, described."""

from typing import Any, Final

from clob_server.openapi.described import (
    ADDRESS,
    NUMBER,
    TEXT,
    WEI,
    Described,
    Field,
    record,
)

TAG: Final = "Gasless operations"
KEY_HEADER: Final = "With an `Idempotency-Key` the same request again is answered as the first."

PAIR: Final = record(
    Field("user", ADDRESS, "The wallet.", True),
    Field("amount", WEI, "How many tokens of each, in wei.", True),
    Field("conditionId", TEXT, "The condition of the market, 32 bytes in hex.", True),
    Field("yesTokenId", NUMBER, "The YES token.", True),
    Field("noTokenId", NUMBER, "The NO token.", True),
)
CHAIN: Final = (
    "CHAIN_NOT_CONFIGURED",
    "INVALID_ADDRESS",
    "INVALID_AMOUNT",
    "AMOUNT_TOO_LARGE",
    "IDEMPOTENCY_KEY_REUSED",
    "MAKER_NOT_ALLOWED",
)

DESCRIBED: Final = {
    "gasless_split": Described(
        TAG,
        "Make YES and NO tokens of collateral",
        dict[str, Any],
        KEY_HEADER,
        body=PAIR,
        codes=CHAIN,
    ),
    "gasless_merge": Described(
        TAG,
        "Make collateral of YES and NO tokens",
        dict[str, Any],
        KEY_HEADER,
        body=PAIR,
        codes=CHAIN,
    ),
    "gasless_faucet": Described(
        TAG,
        "Get collateral for tests",
        dict[str, Any],
        "At most 500 units an address in 24 hours. " + KEY_HEADER,
        body=record(Field("user", ADDRESS, "The wallet.", True)),
        codes=(*CHAIN, "NOT_ON_THIS_ENVIRONMENT"),
    ),
}
"""What each route takes, answers and is refused for."""
