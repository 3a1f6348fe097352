"""The settings of a server, with their defaults.

Each has a command line option and an environment variable: ``--rate-limits`` and
``CLOB_RATE_LIMITS``. The command line wins.
"""

from typing import Final

import msgspec

from clob.signing import Domain

TEST: Final = "test"
"""The environment that works without API keys."""
PRODUCTION: Final = "production"
"""The environment that requires API keys."""

EXCHANGE_ADDRESS: Final = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
"""First contract address of a development chain's first account (decision 51)."""

NO_CHAIN: Final = "none"
"""Value of ``chain`` for a server without a chain."""
EMBEDDED: Final = "embedded"
"""Value of ``chain`` for a development chain that the server starts itself."""

ANVIL: Final = "anvil"
"""Value of ``chain_node`` for the anvil on the PATH."""

AUTO: Final = "auto"
"""Value of ``role`` for a node that may own the log."""
FOLLOWER: Final = "follower"
"""Value of ``role`` for a node that never owns the log."""

NO_DIALECT: Final = "none"
"""Value of ``dialect`` for a server without one."""
POLYMARKET: Final = "polymarket"
"""Value of ``dialect`` for the interface of Polymarket's clients."""

ANY: Final = "*"
"""Value of ``allowed_hosts`` and ``cors_origins`` that allows every one."""

SECRET_BYTES_MIN: Final = 32
"""Shortest token secret, bytes."""


class SettingsError(Exception):
    """A setting is missing or invalid; the message names it, its value and the allowed values."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """Port to listen on; 0 picks a free one."""
    data_dir: str = "clob-data"
    """Folder of the log, the history and the secrets; created if missing."""
    workers: int = 1
    """Processes that answer clients. The first one commits; others verify orders, and answer reads
    and WebSockets from copies of its state."""
    environment: str = TEST
    """``test``, open without API keys, or ``production``."""
    log: tuple[str, ...] = ()
    """Servers of the replicated log of a cluster, nats URLs separated by commas; empty stores the
    log in the data folder alone."""
    log_name: str = "clob"
    """Name of the replicated log, which several exchanges on the same servers must not share."""
    log_replicas: int = 3
    """Servers that store each command of the replicated log."""
    log_monitors: tuple[str, ...] = ()
    """Monitoring endpoints of these servers, http URLs separated by commas; empty uses port 8222 of
    each."""
    role: str = "auto"
    """Role of the node in a cluster: ``auto`` owns the log when no other node does, ``follower``
    never."""
    node: str = ""
    """Name of the node in a cluster, in its log lines as well; empty makes one up."""
    node_count: int = 1
    """Nodes of the cluster that answer clients; each enforces its part of the request budgets."""
    node_url: str = ""
    """Base URL of this node; the others reach it at its host. Empty uses the listening address."""
    node_port: int = 0
    """Port that the other nodes send changes to; 0 picks a free one."""
    dialect: str = "none"
    """``polymarket`` serves the interface of Polymarket's clients as well, in their EIP-712 domain
    and without a chain; ``none`` serves no other interface."""
    demo: bool = False
    """Open a market with two trading bots, in a data folder emptied at each start."""
    chain: str = ""
    """``none``, ``embedded``, or the http or https URL of a node's JSON-RPC; empty means
    ``embedded`` in the test environment and ``none`` in production."""
    chain_port: int = 8545
    """Port of the embedded chain on loopback; another one if it is taken; 0 picks a free one."""
    chain_node: str = ""
    """Node of the embedded chain: ``embedded`` for py-evm, ``anvil`` for the one on the PATH, or
    the path of an anvil; empty takes the node that the data folder began with, else an anvil on the
    PATH, else py-evm."""
    chain_confirmations: int = 1
    """Confirmations that a transaction needs, its own block included."""
    chain_final_blocks: int = 0
    """Confirmations that make a result final; 0 uses the node's ``finalized`` block, or 64
    confirmations if it has none. On chain 31337, 0 means ``chain_confirmations``."""
    chain_from_block: int = 0
    """First block to read: the block in which the exchange contract was created, or an earlier
    one."""
    chain_nodes: tuple[str, ...] = ()
    """More nodes of the chain than ``chain``, http or https URLs separated by commas."""
    chain_quorum: int = 0
    """Nodes that must agree on what changes accounts, orders and operations; 0 means more than
    half of them."""
    chain_wait_s: float = 60.0
    """Seconds that a request waits for its operation; the operation continues afterwards."""
    chain_bump_after_s: float = 30.0
    """Seconds until a pending transaction is replaced with a higher fee."""
    chain_fee_max_gwei: float = 500.0
    """Most that a transaction may pay per unit of gas, gwei; above it the chain's work waits."""
    chain_tip_gwei: float = 0.0
    """Priority fee per unit of gas, gwei; 0 uses the node's suggestion."""
    settle_every_s: float = 1.0
    """Seconds until a trade is sent to the chain, in markets that settle there."""
    settle_trades_max: int = 25
    """Trades per settlement transaction; a full batch is sent at once."""
    maker_cool_down_s: float = 60.0
    """Seconds without new orders for a maker at whose fault a trade failed to settle; doubled at
    each further fault of a day, up to 64 times."""
    wallet_idle_s: float = 3_600.0
    """Seconds after which a wallet without account, orders, trades and permissions is no longer
    watched on the chain; requests bring it back."""
    operator_key_file: str = ""
    """File with the operator's private key in hex, which pays the gas, mode 0600, or 0640 if it
    belongs to root; empty uses a test wallet, only on chain 31337 of the test environment."""
    operator_key: str = ""
    """The operator's private key in hex, instead of a file; set it in the environment, since other
    users of the machine can read the command line."""
    operator_signer: str = ""
    """http or https URL of a signer that holds the operator's key and speaks the JSON-RPC of
    web3signer, instead of the key."""
    operator_address: str = ""
    """Address of the operator, required with ``operator_signer``."""
    oracle_key_file: str = ""
    """File with the private key of the oracle, which reports the outcomes of markets and pays the
    gas for that, in the same form; empty, like the next three, if the operator is the oracle."""
    oracle_key: str = ""
    """The oracle's private key in hex, instead of a file; set it in the environment."""
    oracle_signer: str = ""
    """http or https URL of a signer that holds the oracle's key, instead of the key."""
    oracle_address: str = ""
    """Address of the oracle, required with ``oracle_signer``."""
    stablecoin: str = ""
    """Contract of the stablecoin; empty, like the next two, if the operator deploys it."""
    collateral: str = ""
    """Contract of the wrapped stablecoin, which is the collateral."""
    conditional_tokens: str = ""
    """Contract of the outcome tokens."""
    faucet_units: int = 100
    """Units of collateral that the faucet sends per request."""
    faucet_daily_units: int = 50_000
    """Units that the faucet sends to all wallets in any 24 hours."""
    eip712_name: str = "clob"
    """Name in the EIP-712 domain of signed orders."""
    eip712_version: str = "1"
    """Version in the EIP-712 domain."""
    chain_id: int = 31337
    """Chain id in the EIP-712 domain."""
    verifying_contract: str = EXCHANGE_ADDRESS
    """Verifying contract in the EIP-712 domain."""
    operators: tuple[str, ...] = ()
    """Addresses that an order may name as its taker, in addition to the zero address."""
    price_policy: str = "nearest"
    """``nearest`` rounds amounts to the nearest cent; ``strict`` rejects prices that are not whole
    cents."""
    public_url: str = ""
    """Base URL for clients; empty uses the listening address."""
    mainnet_url: str = ""
    """URL of the production server shown by ``GET /``; empty if there is no such server yet."""
    support: str = ""
    """Support contact shown by ``GET /``."""
    clock_skew_max_s: float = 2.0
    """Largest difference of the wall clock from the time since boot before commands are held,
    seconds."""
    rate_limits: bool = True
    """Enforce the request budgets."""
    jwt_secret: str = ""
    """Secret of HS256 tokens, at least 32 bytes; empty generates one at the first start."""
    jwt_public_key_file: str = ""
    """PEM file with the public key of RS256 or ES256 tokens; HS256 is then not accepted."""
    allowed_hosts: tuple[str, ...] = ()
    """Names in ``Host`` that requests are accepted for, with a port or for any port, in addition to
    loopback, ``host`` and the host of ``public_url``; ``*`` for any name."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may call this server, in addition to its own; empty disables CORS,
    ``*`` allows every page."""
    trusted_proxies: tuple[str, ...] = ()
    """Proxy addresses whose ``X-Forwarded-For`` is trusted; empty trusts no proxy."""
    history: str = "process"
    """Write history in a separate ``process`` or in a ``thread`` of the server."""
    history_days: int = 0
    """Days that finished orders and trades stay in history; 0 keeps them forever."""
    snapshot_commands: int = 100_000
    """Fewest commands between two snapshots; a large state has more, until the log since has an
    eighth of its bytes. 0 takes none."""
    trades_kept: int = 10_000
    """Recent trades of a market kept in memory."""
    auto_markets: bool = True
    """Whether orders open unknown markets in the test environment."""
    markets_max: int = 1_000
    """Markets that orders have opened and that are not resolved, at most."""
    auto_markets_per_address: int = 100
    """Of these, markets that one address or API key has opened, at most."""
    auto_market_unused_s: int = 86_400
    """Seconds without an event after which such a market is removed if it never had a trade."""
    body_max_bytes: int = 65_536
    """Largest request body, bytes."""
    body_timeout_s: int = 10
    """Seconds for a request body to arrive."""
    header_timeout_s: int = 10
    """Seconds for the headers of a request to arrive."""
    headers_max_bytes: int = 16_384
    """Largest headers of a request, bytes."""
    keep_alive_s: int = 75
    """Seconds that a connection may be idle between requests."""
    connections_max: int = 4_000
    """Open connections, WebSockets included."""
    connections_per_address_max: int = 2_000
    """Open connections per client address."""
    ws_subscriptions_max: int = 100
    """Subscriptions per WebSocket."""
    ws_message_max_bytes: int = 73_728
    """Largest message from a WebSocket client, bytes: a request with the largest body fits in."""
    ws_messages_per_minute: int = 600
    """Messages per minute from a WebSocket client."""
    ws_subscribe_timeout_s: int = 10
    """Seconds that a WebSocket may stay without a subscription."""
    ws_heartbeat_s: int = 15
    """Seconds between heartbeats with the sequence number to an idle extended subscriber."""
    ws_soft_bytes: int = 65_536
    """Bytes buffered for a subscriber before events are skipped and a snapshot follows."""
    ws_hard_bytes: int = 1_048_576
    """Bytes buffered for a subscriber before it is disconnected."""
    ws_stall_timeout_s: int = 30
    """Seconds that a subscriber may be behind before it is disconnected."""
    ws_resume_events: int = 10_000
    """Events of a market kept for clients that resume."""
    drain_s: float = 1.0
    """Seconds after SIGTERM that the server keeps answering while it reports not ready."""
    grace_s: float = 10.0
    """Seconds after that until the process must exit."""
    log_level: str = "info"
    """``debug``, ``info``, ``warning`` or ``error``."""
    access_log: bool = False
    """Log a line for every request."""

    @property
    def is_test(self) -> bool:
        """Whether the environment is the test environment."""
        return self.environment == TEST

    @property
    def opens_markets(self) -> bool:
        """Whether orders open unknown markets."""
        return self.is_test and self.auto_markets

    @property
    def chain_source(self) -> str:
        """Source of the chain: ``none``, ``embedded``, or the URL of a node."""
        return self.chain or (EMBEDDED if self.is_test else NO_CHAIN)

    @property
    def domain(self) -> Domain:
        """EIP-712 domain of signed orders."""
        return Domain(self.eip712_name, self.eip712_version, self.chain_id, self.verifying_contract)
