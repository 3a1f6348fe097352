"""JSON bodies of the operator routes, and the functions that read and build them."""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from clob import Limits
from clob.signing import fields
from clob.units import FEE_RATE_MAX_BPS
from clob_server.api.convert import convert
from clob_server.api.request import ApiRequest
from clob_server.api.schemas import ContractsBody, MarketTerms, Wire
from clob_server.auth.api_keys import NAME_MAX, new_key
from clob_server.auth.policy import SCOPES
from clob_server.chain.messages import Counts
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


class KeyBody(Wire, frozen=True, kw_only=True):
    """An API key, without its secret."""

    key_id: str
    """Id."""
    name: str
    """Display name."""
    environment: str
    """Environment in which the key is valid."""
    scopes: list[str]
    """Permissions: ``read``, ``trade``, ``cancel``."""
    makers: list[str]
    """Makers whose orders the key may place and cancel without a signature."""
    requests_per_minute: int | None
    """Requests per minute; null uses the server's budget."""
    orders_per_minute: int | None
    """New orders per minute; null uses the server's budget."""
    created: int
    """Creation time, Unix milliseconds."""
    last_used: int | None
    """Last use since the server started, Unix milliseconds; null if not used."""
    active: bool
    """Whether the key is valid."""
    deactivated: int | None
    """Deactivation time, Unix milliseconds; null if active."""


class NewKeyBody(KeyBody, frozen=True, kw_only=True):
    """A new API key, with its secret. No other response contains the secret."""

    key: str
    """The complete key, as sent in ``X-API-Key``."""


class MarketRequest(AdminBody, frozen=True, kw_only=True):
    """A market to create."""

    market_id: str
    """Id."""
    yes_token_id: str | int | None = None
    """Token that is worth a unit of collateral if the answer is yes; null with a question on a
    server with a chain: both token ids then follow from the question."""
    no_token_id: str | int | None = None
    """The other token; null if not known yet."""
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


class ResolutionBody(AdminBody, frozen=True, kw_only=True):
    """Progress of the resolution of a market that settles on the chain."""

    state: str
    """``closing`` while trades wait for settlement, ``reporting``, ``resolved``, or ``stuck`` (the
    list of operations shows the reason)."""
    waiting: int
    """Trades that are pending or whose result is not final; a mint or a merge counts once."""
    detail: str
    """Reason why settlement is delayed; empty while it works."""


class AdminMarketBody(MarketTerms, frozen=True, kw_only=True):
    """A market and its terms."""

    self_trade: str
    """Handling of an order that would trade with its own maker."""
    seq: int
    """Number of its last event."""
    resolution: ResolutionBody | None
    """Progress of the resolution; null for a market that is not resolved or does not settle."""


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


class ChainBody(Wire, frozen=True, kw_only=True):
    """State of the chain and of the operations on it."""

    state: str
    """``none``, ``missing``, ``starting``, ``unreachable`` or ``ready``."""
    detail: str
    """Description of a problem; empty without one."""
    id: int
    """Chain id."""
    rpc_url: str | None
    """URL of the node, without path and credentials."""
    operator: str | None
    """Address that pays the gas."""
    operator_balance: str | None
    """Its balance for gas, in wei."""
    is_out_of_gas: bool
    """Whether the balance is below the gas cost of one operation."""
    contracts: ContractsBody
    """Contract addresses."""
    head: int | None
    """Newest block."""
    counts: Counts | None
    """Number of operations per status."""
    num_bumped: int
    """Transactions replaced with a higher fee, since the outbox was created."""
    num_rebroadcast: int
    """Transactions sent again because the node lost them, since the worker started."""
    num_foreign: int
    """Operator nonces used by another program."""
    num_deaths: int
    """Exits of the chain's processes since the server started."""


class EngineBody(Wire, frozen=True, kw_only=True):
    """State of the engine and of the parts that follow it."""

    phase: str
    """``recovering``, ``ready`` or ``draining``."""
    uptime_s: int
    """Time since the process started, seconds."""
    command_seq: int
    """Number of the last committed command."""
    event_hash: str
    """Event hash after that command, 32 bytes in hex."""
    waiting: int
    """Commands queued for the next batch."""
    markets: int
    """Number of markets."""
    open_orders: int
    """Number of resting orders."""
    history_lag: int
    """Commands that history has not written yet."""
    subscribers: int
    """WebSocket clients with a subscription."""
    files: dict[str, int]
    """Sizes of the files in the data folder, bytes."""


class ClockBody(Wire, frozen=True, kw_only=True):
    """The clocks of the server."""

    sure: bool
    """Whether the time is certain, so that commands are accepted."""
    needs_operator: bool
    """Whether it stays uncertain until the operator decides."""
    detail: str
    """Reason while it is not certain; empty otherwise."""
    time: int
    """Time of the server, Unix milliseconds; a jump of the wall clock does not move it."""
    wall_time: int
    """Wall clock plus ``aheadMs``, Unix milliseconds."""
    ahead_ms: int
    """How far `POST /api/test/clock` moved the server's time ahead, milliseconds."""
    log_time: int
    """Time of the last command in the log, Unix milliseconds; 0 for an empty log."""
    skew_s: float
    """How far the wall clock is ahead of the server's time, seconds."""
    log_ahead_s: float
    """How far the log is ahead of the server's time, seconds; 0 if it is behind."""


class ClockRequest(AdminBody, frozen=True, kw_only=True):
    """A decision about the clock."""

    accept: Literal[True]
    """``true``: the wall clock is right now."""


class PositionBody(Wire, frozen=True, kw_only=True):
    """A position in the log."""

    seq: int
    """Number of a command, the last of its frame; 0 before the first."""
    chain_hash: str
    """Chain hash of that frame, 64 hex digits."""


class BackupBody(Wire, frozen=True, kw_only=True):
    """Extent of the log, for a backup."""

    origin: PositionBody
    """End of the commands that were dropped from the log."""
    tail: PositionBody
    """End of the log."""
    snapshot_seq: int
    """Command of the snapshot that covers the dropped commands; 0 if none were dropped."""
    snapshot_bytes: int
    """Size of that snapshot, in bytes."""
    ids_key: str
    """Key that generates the ids of orders and trades, 64 hex digits."""


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
