"""What operators send and are told, by the names in JSON."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from clob import Limits, Market, SelfTrade
from clob.signing import fields
from clob.units import FEE_RATE_MAX_BPS
from clob_server.api.problems import ApiError, Fault
from clob_server.api.request import ApiRequest
from clob_server.api.schemas import ContractsBody, MarketTerms, Wire
from clob_server.auth.api_keys import NAME_MAX, new_key
from clob_server.auth.policy import SCOPES
from clob_server.chain.messages import Counts
from clob_server.core.commands import AddKey, ApiKey, Budgets
from clob_server.core.registry import MarketText
from clob_server.core.serialize import market_terms

QUESTION_MAX: Final = 500
"""How long the question of a market may be."""
DESCRIPTION_MAX: Final = 10_000
"""How long its description may be."""
MAKERS_MAX: Final = 1_000
"""How many makers a key may be bound to."""
PER_MINUTE_MAX: Final = 100_000
"""How much a budget of a minute may be."""
LIMIT_MAX: Final = 10_000_000
"""How much a limit of the engine may be."""

PerMinute = Annotated[int, Meta(ge=0, le=PER_MINUTE_MAX)]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]
FeeRate = Annotated[int, Meta(ge=0, le=FEE_RATE_MAX_BPS)]
Scope = Literal["read", "trade", "cancel"]
Question = Annotated[str, Meta(max_length=QUESTION_MAX)]
Description = Annotated[str, Meta(max_length=DESCRIPTION_MAX)]
SelfTradeWord = Literal["NONE", "CANCEL_RESTING", "CANCEL_INCOMING", "CANCEL_BOTH", "DECREMENT"]
_Kind = TypeVar("_Kind", bound="AdminBody")


class AdminBody(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator sends; a name that is not known is refused."""


class KeyAsked(AdminBody, frozen=True, kw_only=True):
    """A key to be made."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
    """What people call it."""
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=len(SCOPES))]
    """What it may do."""
    makers: Annotated[tuple[str, ...], Meta(max_length=MAKERS_MAX)] = ()
    """Whose orders it may place and cancel without a signature."""
    requests_per_minute: PerMinute | None = None
    """How many requests it may make; null leaves it to the budgets."""
    orders_per_minute: PerMinute | None = None
    """How many orders it may create; null leaves it to the budgets."""


class KeyBody(Wire, frozen=True, kw_only=True):
    """A key, without its secret."""

    key_id: str
    """What names it."""
    name: str
    """What people call it."""
    environment: str
    """Where it opens something."""
    scopes: list[str]
    """What it may do."""
    makers: list[str]
    """Whose orders it may place and cancel without a signature."""
    requests_per_minute: int | None
    """How many requests it may make; null leaves it to the budgets."""
    orders_per_minute: int | None
    """How many orders it may create; null leaves it to the budgets."""
    created: int
    """When it was made, Unix milliseconds."""
    last_used: int | None
    """When it was last used since the server started, Unix milliseconds."""
    active: bool
    """If it still opens anything."""
    deactivated: int | None
    """When it was deactivated, Unix milliseconds."""


class NewKeyBody(KeyBody, frozen=True, kw_only=True):
    """A key that was just made: the only time that it is shown."""

    key: str
    """The whole key, as ``X-API-Key`` takes it."""


class MarketAsked(AdminBody, frozen=True, kw_only=True):
    """A market to be opened."""

    market_id: str
    """What names it."""
    yes_token_id: str | int | None = None
    """The token that is worth a unit of collateral if the answer is yes; null with a question and a
    chain: both tokens are then those of the question."""
    no_token_id: str | int | None = None
    """The other one; null where it is not known yet."""
    question: Question = ""
    """What is asked."""
    description: Description = ""
    """What else there is to know."""
    min_size: str | int | None = None
    """The smallest size of an order, in wei; null is 1, or a hundredth of a token where trades
    settle on the chain."""
    resting_fee_rate_bps: FeeRate = 0
    """What the order that rested is charged, at most."""
    incoming_fee_rate_bps: FeeRate = 0
    """What the order that came in is charged, at most."""
    self_trade: SelfTradeWord = "NONE"
    """What happens where an order meets its maker's own."""
    complementary: bool = False
    """If orders for YES and NO meet, too; sizes are then multiples of 100 wei."""
    settles: bool = False
    """If trades settle on the chain; for a market with a question and tokens of the chain."""


class MarketChange(AdminBody, frozen=True, kw_only=True):
    """What is to be different about a market; the rest stays."""

    no_token_id: str | int | UnsetType = UNSET
    """The second token, where it was not known."""
    question: Question | UnsetType = UNSET
    """What is asked."""
    description: Description | UnsetType = UNSET
    """What else there is to know."""
    min_size: str | int | UnsetType = UNSET
    """The smallest size of an order, in wei."""
    resting_fee_rate_bps: FeeRate | UnsetType = UNSET
    """What the order that rested is charged, at most."""
    incoming_fee_rate_bps: FeeRate | UnsetType = UNSET
    """What the order that came in is charged, at most."""
    self_trade: SelfTradeWord | UnsetType = UNSET
    """What happens where an order meets its maker's own."""


class OutcomeAsked(AdminBody, frozen=True, kw_only=True):
    """How a market ends."""

    outcome: Literal["yes", "no"]
    """The token that won."""


class AdminMarketBody(MarketTerms, frozen=True, kw_only=True):
    """A market, with its terms."""

    self_trade: str
    """What happens where an order meets its maker's own."""
    seq: int
    """The number of its last event."""


class EngineLimits(AdminBody, frozen=True, kw_only=True):
    """How much of everything the engine allows."""

    orders_max: Limit
    """Resting orders of one maker in one market."""
    trades_max: Limit
    """Trades of one order."""
    batch_max: Limit
    """Orders in a batch."""
    finished_max: Limit
    """Finished orders at hand."""


class RequestBudgets(AdminBody, frozen=True, kw_only=True):
    """How many requests of which kind somebody may make in a minute."""

    anonymous_per_minute: PerMinute
    """Requests of an address without a key."""
    key_per_minute: PerMinute
    """Requests with a key that has no number of its own."""
    orders_per_minute: PerMinute
    """Orders created by a key that has no number of its own, or an address."""
    cancels_per_minute: PerMinute
    """Cancels of a key or an address."""


class LimitsAsked(AdminBody, frozen=True, kw_only=True):
    """Limits to be set; what is left out stays."""

    engine: EngineLimits | UnsetType = UNSET
    """The limits of the engine."""
    budgets: RequestBudgets | UnsetType = UNSET
    """The budgets of requests."""


class LimitsBody(Wire, frozen=True, kw_only=True):
    """The limits as they are."""

    engine: EngineLimits
    """The limits of the engine."""
    budgets: RequestBudgets
    """The budgets of requests."""


class ChainBody(Wire, frozen=True, kw_only=True):
    """The chain and its outbox."""

    state: str
    """``none``, ``missing``, ``starting``, ``unreachable`` or ``ready``."""
    detail: str
    """What is wrong; empty where nothing is."""
    id: int
    """The chain id."""
    rpc_url: str | None
    """Where the node is, without path and user."""
    operator: str | None
    """The address that pays the gas."""
    operator_balance: str | None
    """What it has for gas, in wei."""
    is_out_of_gas: bool
    """If that does not cover what one operation may take."""
    contracts: ContractsBody
    """The contracts."""
    head: int | None
    """The newest block."""
    counts: Counts | None
    """How many operations there are."""
    num_bumped: int
    """Transactions that were offered again with a higher fee, ever."""
    num_rebroadcast: int
    """Transactions that the node forgot, since the worker began."""
    num_foreign: int
    """Nonces of the operator that somebody else used."""
    num_deaths: int
    """How often a process of the chain died since the server started."""


class EngineBody(Wire, frozen=True, kw_only=True):
    """The numbers of the engine and of what follows it."""

    phase: str
    """``recovering``, ``ready`` or ``draining``."""
    uptime_s: int
    """How long the process runs."""
    command_seq: int
    """The last command that is durable and done."""
    event_hash: str
    """The event hash after it, 32 bytes in hex."""
    waiting: int
    """Commands that wait for the next batch."""
    markets: int
    """How many markets there are."""
    open_orders: int
    """How many orders rest."""
    history_lag: int
    """How many commands history is behind."""
    subscribers: int
    """How many WebSockets have a subscription."""
    files: dict[str, int]
    """The files of the data folder, in bytes."""


def read_body(call: ApiRequest, kind: type[_Kind]) -> _Kind:
    """Read the body of a request.

    Raises:
        ApiError: UNSUPPORTED_MEDIA_TYPE, INVALID_JSON, INVALID_FIELD.
    """
    return read_object(call.object(), kind)


def read_object(content: Mapping[str, Any], kind: type[_Kind]) -> _Kind:
    """Read what was asked for.

    Raises:
        ApiError: INVALID_FIELD.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        path, rule = place_of(str(error))
        raise ApiError("INVALID_FIELD", f"{path}: {rule}", faults=(Fault(path, rule),)) from None


def place_of(told: str) -> tuple[str, str]:
    """Take apart what msgspec says is wrong: the field, and the rule."""
    rule, _, place = told.partition(" - at `$")
    _, _, name = rule.partition(" field `")  # one that is missing, or not known
    return f"{place.strip('`')}.{name.strip('`')}".strip("."), rule


def draw_key(asked: KeyAsked, environment: str) -> tuple[str, ApiKey]:
    """Draw a key as it was asked for.

    Args:
        asked: what it may do, and for whom.
        environment: where it opens something.

    Returns:
        The whole key, and what is kept of it; the time of its making is still to be set.

    Raises:
        InvalidAddressError: a maker is no address.
    """
    makers = [fields.address(f"makers[{at}]", maker) for at, maker in enumerate(asked.makers)]
    key_id, whole, hashed = new_key()
    return whole, ApiKey(
        id=key_id,
        hash=hashed,
        name=asked.name,
        environment=environment,
        scopes=tuple(dict.fromkeys(asked.scopes)),
        makers=tuple(dict.fromkeys(makers)),
        created_ms=0,
        requests_per_minute=asked.requests_per_minute,
        orders_per_minute=asked.orders_per_minute,
    )


def add_key(key: ApiKey, now_ms: int) -> AddKey:
    """Make the command that lets a key in, made now."""
    return AddKey(key=msgspec.structs.replace(key, created_ms=now_ms), now_ms=now_ms)


def key_fields(key: ApiKey, last_used_ms: int | None) -> dict[str, Any]:
    """Describe a key, without its secret."""
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


def market_body(
    market: Market, words: MarketText, seq: int, on_chain: Mapping[str, Any]
) -> AdminMarketBody:
    """Describe a market."""
    return AdminMarketBody(
        **market_terms(market, words),
        **on_chain,
        self_trade=SelfTrade(market.self_trade).name,
        seq=seq,
    )


def limits_body(limits: Limits, budgets: Budgets) -> LimitsBody:
    """Describe the limits."""
    return LimitsBody(
        engine=EngineLimits(**msgspec.structs.asdict(limits)),
        budgets=RequestBudgets(**msgspec.structs.asdict(budgets)),
    )
