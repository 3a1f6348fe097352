"""JSON bodies of the operator routes, and the functions that read and build them."""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from clob import Limits
from clob.signing import fields
from clob.units import FEE_RATE_MAX_BPS
from clob.wire import Wire
from clob_server.api.convert import convert
from clob_server.api.request import ApiRequest
from clob_server.auth.api_keys import NAME_MAX, new_key
from clob_server.auth.policy import SCOPES
from clob_server.core.commands import AddKey, ApiKey, Budgets

PerMinute = Annotated[int, Meta(ge=0, le=100_000)]
Limit = Annotated[int, Meta(ge=1, le=10_000_000)]
FeeRate = Annotated[int, Meta(ge=0, le=FEE_RATE_MAX_BPS)]
Scope = Literal["read", "trade", "cancel"]
Question = Annotated[str, Meta(max_length=500)]
Description = Annotated[str, Meta(max_length=10_000)]
SelfTradeWord = Literal["NONE", "CANCEL_RESTING", "CANCEL_INCOMING", "CANCEL_BOTH", "DECREMENT"]
_Kind = TypeVar("_Kind", bound="AdminBody")


class AdminBody(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request body of an operator; unknown fields are rejected."""


class KeyRequest(AdminBody, frozen=True, kw_only=True):
    """An API key to create."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
    """Display name."""
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=len(SCOPES))]
    """Permissions: ``read``, ``trade``, ``cancel``."""
    makers: Annotated[tuple[str, ...], Meta(max_length=1_000)] = ()
    """Makers whose orders the key may place and cancel without a signature."""
    requests_per_minute: PerMinute | None = None
    """Requests per minute; null uses the server's budget."""
    orders_per_minute: PerMinute | None = None
    """New orders per minute; null uses the server's budget."""


class MarketRequest(AdminBody, frozen=True, kw_only=True):
    """A market to create."""

    market_id: str
    """Id."""
    yes_token_id: str | int | None = None
    """Token that is worth a unit of collateral if the answer is yes; null with a question on a
    server with a chain: both token ids then follow from the question."""
    no_token_id: str | int | None = None
    """The other token; null if not known yet."""
    condition_id: str | None = None
    """Condition that exists on the chain, 32 bytes in hex, with ``oracle`` and ``questionId``:
    both token ids follow from it, and the market resolves once its oracle has resolved it."""
    oracle: str | None = None
    """Address of the oracle that resolves ``conditionId``."""
    question_id: str | None = None
    """Question id of ``conditionId``, 32 bytes in hex."""
    question: Question = ""
    """The question."""
    description: Description = ""
    """Further explanation of the question."""
    min_size: str | int | None = None
    """Minimum order size in wei; null is 0.01 token, 10^16."""
    resting_fee_rate_bps: FeeRate = 0
    """Maximum fee rate of the resting order, basis points."""
    incoming_fee_rate_bps: FeeRate = 0
    """Maximum fee rate of the incoming order, basis points."""
    self_trade: SelfTradeWord = "NONE"
    """Handling of an order that would trade with its own maker."""
    complementary: bool = False
    """Whether orders for YES and NO match each other; sizes are then multiples of 100 wei."""
    settles: bool = False
    """Whether trades settle on the chain; needs a question and token ids of the chain."""
    custody: Literal["wallet", "escrow"] = "wallet"
    """Where the assets of orders are: in the wallets, which approve the exchange contract, or in
    ``escrow``, deposited in it; ``escrow`` needs ``settles``. Final."""


class MarketChange(AdminBody, frozen=True, kw_only=True):
    """Changes to a market; absent fields stay as they are."""

    no_token_id: str | int | UnsetType = UNSET
    """The second token, if it was not known before."""
    question: Question | UnsetType = UNSET
    """The question."""
    description: Description | UnsetType = UNSET
    """Further explanation of the question."""
    min_size: str | int | UnsetType = UNSET
    """Minimum order size in wei."""
    resting_fee_rate_bps: FeeRate | UnsetType = UNSET
    """Maximum fee rate of the resting order, basis points."""
    incoming_fee_rate_bps: FeeRate | UnsetType = UNSET
    """Maximum fee rate of the incoming order, basis points."""
    self_trade: SelfTradeWord | UnsetType = UNSET
    """Handling of an order that would trade with its own maker."""


class OutcomeRequest(AdminBody, frozen=True, kw_only=True):
    """The outcome of a market."""

    outcome: Literal["yes", "no"]
    """Token that won."""
    now: bool = False
    """Report it on the chain although trades wait for settlement; also later, for a market that
    closes with the same outcome. Their sellers may redeem the tokens first."""


class EngineLimits(AdminBody, frozen=True, kw_only=True):
    """Limits of the engine."""

    orders_max: Limit
    """Resting orders of one maker in one market."""
    trades_max: Limit
    """Trades of one order, and of the orders of a batch together."""
    batch_max: Limit
    """Orders in a batch."""
    finished_max: Limit
    """Finished orders kept in memory."""


class RequestBudgets(AdminBody, frozen=True, kw_only=True):
    """Request budgets per minute."""

    anonymous_per_minute: PerMinute
    """Requests of an IP address without a key."""
    key_per_minute: PerMinute
    """Requests with a key that has no limit of its own."""
    orders_per_minute: PerMinute
    """New orders of an IP address, or of a key that has no limit of its own."""
    cancels_per_minute: PerMinute
    """Cancels of a key or an IP address."""


class LimitsRequest(AdminBody, frozen=True, kw_only=True):
    """Limits to set; absent parts stay as they are."""

    engine: EngineLimits | UnsetType = UNSET
    """Limits of the engine."""
    budgets: RequestBudgets | UnsetType = UNSET
    """Request budgets."""


class LimitsBody(Wire, frozen=True, kw_only=True):
    """Limits of the engine and request budgets."""

    engine: EngineLimits
    """Limits of the engine."""
    budgets: RequestBudgets
    """Request budgets."""


class ClockRequest(AdminBody, frozen=True, kw_only=True):
    """A decision about the clock."""

    accept: Literal[True]
    """``true``: the wall clock is right now."""


def read_body(call: ApiRequest, kind: type[_Kind]) -> _Kind:
    """Read the body of a request.

    Raises:
        ApiError: UNSUPPORTED_MEDIA_TYPE, INVALID_JSON, INVALID_FIELD.
    """
    body: _Kind = convert(call.object(), kind)
    return body


def draw_key(request: KeyRequest, environment: str) -> tuple[str, ApiKey]:
    """Create a random key; return its secret, and its stored record without a creation time.

    Raises:
        InvalidAddressError: a maker is not an address.
    """
    makers = [fields.address(f"makers[{at}]", maker) for at, maker in enumerate(request.makers)]
    key_id, secret, key_hash = new_key()
    return secret, ApiKey(
        id=key_id,
        hash=key_hash,
        name=request.name,
        environment=environment,
        scopes=tuple(dict.fromkeys(request.scopes)),
        makers=tuple(dict.fromkeys(makers)),
        created_ms=0,
        requests_per_minute=request.requests_per_minute,
        orders_per_minute=request.orders_per_minute,
    )


def add_key(key: ApiKey, now_ms: int) -> AddKey:
    """Return the command that adds a key, created now."""
    return AddKey(key=msgspec.structs.replace(key, created_ms=now_ms), now_ms=now_ms)


def key_fields(key: ApiKey, last_used_ms: int | None) -> dict[str, Any]:
    """Return the JSON fields of a key, without its secret."""
    return {
        "key_id": key.id,
        "name": key.name,
        "environment": key.environment,
        "scopes": list(key.scopes),
        "makers": list(key.makers),
        "requests_per_minute": key.requests_per_minute,
        "orders_per_minute": key.orders_per_minute,
        "created": key.created_ms,
        "last_used": last_used_ms,
        "active": key.deactivated_ms is None,
        "deactivated": key.deactivated_ms,
    }


def limits_body(limits: Limits, budgets: Budgets) -> LimitsBody:
    """Return the JSON of the limits and budgets."""
    return LimitsBody(
        engine=EngineLimits(**msgspec.structs.asdict(limits)),
        budgets=RequestBudgets(**msgspec.structs.asdict(budgets)),
    )
