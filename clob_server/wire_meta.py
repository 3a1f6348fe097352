"""What the server says of itself and of its chain, by the names in JSON."""

from clob_server.wire import Wire


class ContractsBody(Wire, frozen=True, kw_only=True):
    """The contracts of the chain; null while they are not known."""

    stablecoin: str | None
    """What the faucet mints."""
    collateral: str | None
    """Its wrapped form, which backs the outcome tokens: 18 decimals."""
    conditional_tokens: str | None
    """What issues the outcome tokens, an ERC-1155."""
    exchange: str | None
    """What settles trades: makers approve it for that; null where none do."""


class RootChain(ContractsBody, frozen=True, kw_only=True):
    """The chain, for whoever wants to speak to it."""

    id: int
    """Its chain id."""
    rpc_url: str | None
    """Its JSON-RPC, where the server has brought it along."""
    operator: str | None
    """Who pays the gas, and has to be approved for split and merge."""
    state: str
    """``starting``, ``ready``, ``unreachable`` or ``missing``."""


class RootBody(Wire, frozen=True, kw_only=True):
    """What this interface is (specification, "API information")."""

    name: str
    """Its name."""
    version: str
    """The version of the package, major.minor.patch."""
    description: str
    """What it is for."""
    documentation: str
    """The address of the documentation."""
    endpoints: dict[str, str]
    """The addresses of ``testnet`` and ``mainnet``."""
    status: str
    """``alpha``, ``beta``, ``stable`` or ``deprecated``."""
    rate_limit: dict[str, str]
    """How many requests are allowed on ``testnet`` and on ``mainnet``."""
    support: dict[str, str]
    """Where to find help."""
    environment: str
    """``test`` or ``production``."""
    websocket: str
    """The address of the WebSocket."""
    eip712: dict[str, str | int]
    """The domain that orders are signed for."""
    chain: RootChain | None
    """The chain; null where there is none."""


class HealthBody(Wire, frozen=True, kw_only=True):
    """That the server answers."""

    status: str
    """``ok``."""
    version: str
    """The version of the package."""
    command_seq: int
    """The number of the last command that is durable and done."""
    chain: str
    """``none``, ``starting``, ``ready``, ``unreachable`` or ``missing``; orders do without."""


class ReadyBody(Wire, frozen=True, kw_only=True):
    """If the server takes orders."""

    status: str
    """``ready`` or ``unavailable``."""
    phase: str
    """``recovering``, ``ready`` or ``draining``."""
