"""Every setting of a server: its name on the command line, in the environment, and its default.

``--rate-limits`` is ``CLOB_RATE_LIMITS`` in the environment; the command line wins.
"""

from typing import Final

import msgspec

from clob.signing import Domain

TEST: Final = "test"
"""The environment that is open without keys."""
PRODUCTION: Final = "production"
"""The environment in which keys are needed."""

EXCHANGE_ADDRESS: Final = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
"""Where the first contract of a development chain's first account comes to lie (decision 51)."""

NO_CHAIN: Final = "none"
"""What ``chain`` is where there is none."""
EMBEDDED: Final = "embedded"
"""What ``chain`` is where the server brings its own along."""

SECRET_BYTES_MIN: Final = 32
"""How long a secret of tokens must be."""


class SettingsError(Exception):
    """A setting is missing or wrong; its message names it, the value and what is allowed."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is to be run."""

    host: str = "127.0.0.1"
    """Where to listen."""
    port: int = 8000
    """The port; 0 is any that is free."""
    data_dir: str = "clob-data"
    """Where the log, the history and the secrets are kept; made if it is not there."""
    environment: str = TEST
    """``test``, open without keys, or ``production``."""
    demo: bool = False
    """A market with two bots that trade in it, in a folder made anew at each start."""
    chain: str = ""
    """``none``, ``embedded``, or the http or https address of a node's JSON-RPC; empty is
    ``embedded`` in the test environment and ``none`` in production."""
    chain_port: int = 8545
    """The port of the embedded chain, on loopback; another one where it is taken; 0 is any."""
    chain_confirmations: int = 1
    """In how many blocks a transaction must be, its own and those on top, to count."""
    chain_from_block: int = 0
    """The block of the exchange, or one below it: what happened before is not read."""
    chain_wait_s: float = 60.0
    """How long a request waits for its operation; the operation goes on without it."""
    chain_bump_after_s: float = 30.0
    """How long a transaction may wait before it is offered with a higher fee."""
    settle_every_s: float = 1.0
    """How long a trade waits at most until it is sent to the chain, where trades settle there."""
    settle_trades_max: int = 25
    """How many trades go into one transaction; as soon as so many wait, they are sent."""
    operator_key_file: str = ""
    """A file with the private key that pays the gas, in hex; empty is the operator's test wallet,
    on chain 31337 of the test environment alone."""
    stablecoin: str = ""
    """The contract of the stablecoin; empty, as the next two, where the operator deploys them."""
    collateral: str = ""
    """The contract of its wrapped form, the collateral."""
    conditional_tokens: str = ""
    """The contract of the outcome tokens."""
    faucet_units: int = 100
    """How many units the faucet gives at once."""
    eip712_name: str = "clob"
    """The name in the domain that orders are signed for."""
    eip712_version: str = "1"
    """The version in the domain."""
    chain_id: int = 31337
    """The chain in the domain."""
    verifying_contract: str = EXCHANGE_ADDRESS
    """The contract in the domain."""
    operators: tuple[str, ...] = ()
    """The addresses that an order may name as its taker, besides the zero address."""
    price_policy: str = "nearest"
    """``nearest`` cent, or ``strict``: amounts that are no whole number of cents are refused."""
    public_url: str = ""
    """The address that clients reach this server by; empty is where it listens."""
    mainnet_url: str = ""
    """The address of the production server that GET / names; empty where there is none yet."""
    support: str = ""
    """Where users find help, as GET / names it."""
    rate_limits: bool = True
    """If budgets of requests are kept."""
    jwt_secret: str = ""
    """The secret of HS256 tokens, 32 bytes or more; empty is one made at the first start."""
    jwt_public_key_file: str = ""
    """A PEM file with the public key of RS256 or ES256 tokens; then HS256 is not accepted."""
    cors_origins: tuple[str, ...] = ()
    """The origins whose pages may call this server; none is no CORS at all."""
    trusted_proxies: tuple[str, ...] = ()
    """The addresses whose ``X-Forwarded-For`` is believed; none is nobody's."""
    history: str = "process"
    """Where history is written: in a ``process`` of its own, or in a ``thread`` of this one."""
    history_days: int = 0
    """How many days finished orders and trades stay in history; 0 is for ever."""
    snapshot_commands: int = 100_000
    """A snapshot is taken each time so many commands came since the last."""
    trades_kept: int = 10_000
    """How many recent trades of a market are kept at hand."""
    markets_max: int = 1_000
    """How many markets orders may open in the test environment."""
    body_max_bytes: int = 65_536
    """How large a body may be."""
    body_timeout_s: int = 10
    """How long a body may take to arrive."""
    header_timeout_s: int = 10
    """How long the headers of a request may take to arrive."""
    headers_max_bytes: int = 16_384
    """How large the headers of a request may be."""
    keep_alive_s: int = 75
    """How long a connection may be idle between requests."""
    connections_max: int = 4_000
    """How many connections there may be, WebSockets included."""
    connections_per_address_max: int = 2_000
    """How many of them from one address."""
    ws_subscriptions_max: int = 100
    """How many subscriptions a WebSocket may have."""
    ws_message_max_bytes: int = 16_384
    """How large a message of a WebSocket client may be."""
    ws_messages_per_minute: int = 600
    """How many messages a WebSocket client may send in a minute."""
    ws_subscribe_timeout_s: int = 10
    """How long a WebSocket may be without a subscription."""
    ws_heartbeat_s: int = 15
    """How often an extended subscriber hears the sequence number where nothing happens."""
    ws_soft_bytes: int = 65_536
    """What may wait for a subscriber before events are left out and a snapshot follows."""
    ws_hard_bytes: int = 1_048_576
    """What may wait for a subscriber before he is dropped."""
    ws_stall_timeout_s: int = 30
    """How long a subscriber may be behind before he is dropped."""
    ws_resume_events: int = 10_000
    """How many events of a market are kept for those who resume."""
    drain_s: float = 1.0
    """How long after SIGTERM the server goes on answering, with readiness gone."""
    grace_s: float = 10.0
    """How long after that it may take to end."""
    log_level: str = "info"
    """``debug``, ``info``, ``warning`` or ``error``."""
    access_log: bool = False
    """A line in the log for every request."""

    @property
    def is_test(self) -> bool:
        """If the environment is the test environment."""
        return self.environment == TEST

    @property
    def chain_source(self) -> str:
        """Where the chain is: ``none``, ``embedded``, or the address of a node."""
        return self.chain or (EMBEDDED if self.is_test else NO_CHAIN)

    @property
    def domain(self) -> Domain:
        """The domain that orders are signed for."""
        return Domain(self.eip712_name, self.eip712_version, self.chain_id, self.verifying_contract)
