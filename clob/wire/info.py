"""Information about a server: addresses, budgets, health, time, settlement."""

from typing import Annotated, Final

import msgspec

from clob.wire import Wire

ADVANCE_MAX_MS: Final = 3_650 * 86_400_000
"""The largest sum of all moves of the server's time, milliseconds: ten years."""


class ContractsBody(Wire, frozen=True, kw_only=True):
    """Contract addresses; null until known."""

    stablecoin: str | None
    """The token that the faucet mints."""
    collateral: str | None
    """The wrapped stablecoin with 18 decimals that backs the outcome tokens."""
    conditional_tokens: str | None
    """The ERC-1155 contract of the outcome tokens."""
    exchange: str | None
    """The contract that settles trades, which makers approve; null if trades are not settled."""


class RootChain(ContractsBody, frozen=True, kw_only=True):
    """Connection details of the chain."""

    id: int
    """Chain id."""
    rpc_url: str | None
    """JSON-RPC address of the development chain; null for an external chain."""
    operator: str | None
    """The address that pays gas and needs approval for split and merge."""
    state: str
    """``starting``, ``ready``, ``unreachable`` or ``missing``."""


class RootBody(Wire, frozen=True, kw_only=True):
    """API information (specification, "API information")."""

    name: str
    """Name of the API."""
    version: str
    """Package version, major.minor.patch."""
    description: str
    """Purpose of the API."""
    documentation: str
    """URL of the documentation."""
    endpoints: dict[str, str]
    """URLs of ``testnet`` and ``mainnet``."""
    status: str
    """``alpha``, ``beta``, ``stable`` or ``deprecated``."""
    rate_limit: dict[str, str]
    """Rate limits of ``testnet`` and ``mainnet``."""
    support: dict[str, str]
    """Support contacts."""
    environment: str
    """``test`` or ``production``."""
    websocket: str
    """URL of the WebSocket."""
    eip712: dict[str, str | int]
    """EIP-712 domain of signed orders."""
    chain: RootChain | None
    """The chain; null without one."""


class NodeBody(Wire, frozen=True, kw_only=True):
    """A node of a cluster."""

    name: str
    """Its name."""
    role: str
    """``owner``, which appends to the log, or ``follower``."""
    epoch: int
    """Number of the last ownership, rising by one with each owner."""
    owner: str | None
    """URL of the owner; null while there is none."""
    lag: int
    """Commands that the owner has applied and this node has not."""


class HealthBody(Wire, frozen=True, kw_only=True):
    """Liveness of the server."""

    status: str
    """``ok``."""
    version: str
    """Package version."""
    command_seq: int
    """Log position of the last applied command."""
    chain: str
    """``none``, ``starting``, ``ready``, ``frozen``, ``unreachable`` or ``missing``; orders do not
    need it."""
    history: str
    """``ready``, ``starting``, ``rebuilding``, ``frozen`` or ``stopped``; orders do not need it."""
    clock: str
    """``sure``, or the reason why the time is not certain and changes are rejected."""
    node: NodeBody | None
    """The node; null without a cluster."""


class TimeBody(Wire, frozen=True, kw_only=True):
    """The server's time, by which orders expire and commands are accepted."""

    now_ms: int
    """Unix milliseconds."""
    now_s: int
    """Unix seconds, rounded down."""


class AdvancedClockBody(TimeBody, frozen=True, kw_only=True):
    """The server's time after it was moved forward."""

    ahead_ms: int
    """How far it is ahead of the wall clock, milliseconds: the sum of all moves."""
    chain: str
    """``none``: the server has no chain. ``moved``: the time of the chain's newest block is that of
    the server. ``unmoved``: the chain keeps its time."""


class AdvanceRequest(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A move of the server's time."""

    advance_ms: Annotated[int, msgspec.Meta(ge=1, le=ADVANCE_MAX_MS)]
    """Milliseconds to move it forward; all moves together at most 3,650 days."""


class DevWallet(Wire, frozen=True, kw_only=True):
    """An account of development chains, whose private key is public."""

    address: str
    """Its address."""
    name: str
    """A name to tell it from the others."""


class DevWallets(Wire, frozen=True, kw_only=True):
    """The development wallets."""

    wallets: list[DevWallet]
    """Accounts that no part of the server uses."""


class SignatureBody(Wire, frozen=True, kw_only=True):
    """A signature by a development wallet."""

    signature: str
    """0x and 130 hex digits: r, s, v."""


class SentBody(Wire, frozen=True, kw_only=True):
    """A transaction that the node has accepted."""

    tx_hash: str
    """Its hash."""


class CallResults(Wire, frozen=True, kw_only=True):
    """Results of contract calls that only read."""

    results: list[str]
    """The returned bytes of each call, 0x and hex digits."""


class ReceiptBody(Wire, frozen=True, kw_only=True):
    """State of a transaction on the chain."""

    tx_hash: str
    """Its hash."""
    status: str
    """``pending``: not in a block, or unknown. ``confirmed``: succeeded. ``reverted``: failed."""
    block: int | None
    """Number of its block; null while it is pending."""


class ReadyBody(Wire, frozen=True, kw_only=True):
    """Readiness of the server for orders."""

    status: str
    """``ready`` or ``unavailable``."""
    phase: str
    """``recovering``, ``ready`` or ``draining``."""
    detail: str
    """Reason why the time is not certain; empty while it is."""
    chain: str
    """As in ``GET /health``; without effect on ``status``."""
    history: str
    """As in ``GET /health``; without effect on ``status``."""


class FailureBody(Wire, frozen=True, kw_only=True):
    """A trade that failed to settle on the chain."""

    market_id: str
    """Market id."""
    trades: list[int]
    """Its ``seq``; both for a mint or a merge."""
    traded: int
    """Time of the trade, Unix milliseconds."""
    tx_hash: str
    """Transaction in which it failed."""
    reason: str
    """Reason of the failure."""


class SettlementBody(Wire, frozen=True, kw_only=True):
    """State of settlement: pending trades, and the comparison with the chain."""

    detail: str
    """Reason why settlement is delayed; empty while it works."""
    pending: int
    """Trades not sent to the chain yet; a mint or a merge counts once."""
    submitted: int
    """Trades sent to the chain without a result yet."""
    operations: list[str]
    """Their operation ids."""
    oldest_ms: int
    """Age of the oldest unsettled trade, milliseconds."""
    block: int | None
    """Last applied block of the chain; null before the first."""
    block_hash: str | None
    """Its block hash."""
    wallets: int
    """Watched wallets: those in use that approved or permitted something to the exchange."""
    difference: int
    """Accounts that differ from the chain; anything but 0 is a fault."""
    stalled: list[str]
    """Escrow markets that stopped matching because settlement or the blocks are late."""
    failures: list[FailureBody]
    """Failed trades, newest first."""
