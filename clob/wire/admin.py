"""Bodies of the operator routes: API keys, markets, engine, chain, clock, backup."""

from clob.wire import Wire
from clob.wire.info import ContractsBody
from clob.wire.markets import MarketTerms
from clob.wire.operations import Counts


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


class ResolutionBody(Wire, frozen=True, kw_only=True):
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
