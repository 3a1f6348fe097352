"""What the server says in JSON, by the names of the specification.

Amounts are wei in decimal digits, times Unix milliseconds, prices cents.
"""

from typing import Any, Final

import msgspec

NO_SIGNATURE: Final = "0x" + "0" * 130
"""What a gasless order has for a signature."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """What all of them have in common: names as JSON has them."""


class OrderBody(Wire, frozen=True, kw_only=True):
    """An order (specification, "Order"), and what else there is to know of it."""

    id: str
    """``ord_{unix seconds}_{6 characters}``."""
    market_id: str
    """The market."""
    token_id: str
    """The outcome token, decimal digits."""
    maker: str
    """The wallet that owns what is traded."""
    signer: str
    """Who signed."""
    taker: str
    """Who may fill it; the zero address is anybody."""
    side: int
    """0 buys, 1 sells."""
    maker_amount: str
    """Wei. A buy: collateral. A sell: tokens."""
    taker_amount: str
    """Wei. A buy: tokens. A sell: collateral."""
    filled_amount: str
    """Wei. How much of ``takerAmount`` is filled."""
    salt: str
    """What makes it unique, as it came."""
    expiration: int
    """The last Unix second in which it may trade; 0 is never to expire."""
    nonce: str
    """The maker's nonce it was signed with."""
    fee_rate_bps: int
    """The most it may be charged, in basis points."""
    signature_type: int
    """0 or 1."""
    signature: str
    """65 bytes in hex; zeros where nobody signed."""
    status: str
    """``open``, ``partial``, ``filled`` or ``cancelled``."""
    timestamp: int
    """When it came in, Unix milliseconds."""
    price: int
    """Its limit now, in cents."""
    size: str
    """Its tokens now, filled ones included, in wei."""
    remaining: str
    """Tokens that still rest, in wei."""
    filled_tokens: str
    """Tokens traded, in wei."""
    filled_collateral: str
    """Collateral paid or received for them, in wei, fees not counted."""
    average_price: str | None
    """What a token cost on average, in cents; null while nothing traded."""
    time_in_force: str
    """``GTC``, ``GTD``, ``IOC`` or ``FOK``."""
    post_only: bool
    """If it was to be refused where it would trade at once."""
    smart_wallet: str | msgspec.UnsetType = msgspec.UNSET
    """The wallet that pays and receives the collateral."""
    cancel_reason: str | msgspec.UnsetType = msgspec.UNSET
    """Why it is cancelled."""
    order_hash: str | msgspec.UnsetType = msgspec.UNSET
    """The hash that was signed, 32 bytes in hex."""
    client_order_id: str | msgspec.UnsetType = msgspec.UNSET
    """What its maker calls it."""


class LevelBody(Wire, frozen=True, kw_only=True):
    """A price of a book (specification, "Orderbook")."""

    price: int
    """Cents."""
    size: str
    """All that rests at it, in wei."""
    num_orders: int
    """How many orders that is."""
    orders: int
    """The same number."""


class OrderbookBody(Wire, frozen=True, kw_only=True):
    """A book (specification, "Orderbook")."""

    market_id: str
    """The market."""
    token_id: str
    """The outcome token, decimal digits."""
    bids: list[LevelBody]
    """Buy orders, the highest price first."""
    asks: list[LevelBody]
    """Sell orders, the lowest price first."""
    last_update: int
    """When the market last changed, Unix milliseconds; 0 where it never did."""
    seq: int
    """The number of the last event of the market."""


class TradeBody(Wire, frozen=True, kw_only=True):
    """A trade (specification, "Trade"), and what else there is to know of it."""

    id: str
    """``trade_{unix milliseconds}_{6 characters}``."""
    market_id: str
    """The market."""
    token_id: str
    """The token that was traded."""
    price: int
    """Cents: the limit of the order that rested."""
    size: str
    """Tokens, in wei."""
    buyer: str
    """The maker of the buying order; empty where the tokens were merged, and nobody bought them."""
    seller: str
    """The maker of the selling order; empty where they were minted, and nobody sold them."""
    match_type: str
    """``direct``, ``mint`` or ``merge``."""
    timestamp: int
    """When, Unix milliseconds."""
    tx_hash: str | None
    """The transaction that settled it; null until then."""
    settlement: str
    """``none``, ``pending``, ``submitted``, ``settled`` or ``failed``."""
    seq: int
    """The number of the event."""
    resting_order_id: str
    """The order that was in the book."""
    incoming_order_id: str
    """The order that met it."""
    incoming_side: int
    """Which way that one trades: 0 buys, 1 sells."""
    buyer_fee: str
    """Tokens that the buyer is charged, in wei."""
    seller_fee: str
    """Collateral that the seller is charged, in wei."""
    settlement_reason: str | msgspec.UnsetType = msgspec.UNSET
    """Why it could not be settled; only where ``settlement`` is ``failed``."""


class TradesBody(Wire, frozen=True, kw_only=True):
    """Trades within an object, for those who ask for it (decision 10)."""

    trades: list[TradeBody]
    """The newest first."""


class MarketTerms(Wire, frozen=True, kw_only=True):
    """A market and its terms, whoever asks."""

    market_id: str
    """What names it."""
    yes_token_id: str
    """The token that is worth a unit of collateral if the answer is yes, decimal digits."""
    no_token_id: str | None
    """The other one; null while it is not known."""
    mode: str
    """``open``, ``cancelOnly``, ``halted`` or ``resolved``."""
    question: str
    """What is asked."""
    description: str
    """What else there is to know."""
    outcome: str | None
    """``yes`` or ``no``; null until it is known."""
    min_size: str
    """The smallest size of an order, in wei."""
    resting_fee_rate_bps: int
    """What the order that rested is charged, at most, in basis points."""
    incoming_fee_rate_bps: int
    """What the order that came in is charged, at most, in basis points."""
    complementary: bool
    """If orders for YES and NO meet, too: two that buy mint a pair, two that sell merge one."""
    lot_wei: str
    """What every size is a multiple of, in wei."""
    condition_id: str | None
    """Its condition on the chain, 32 bytes in hex; null where it has none."""
    question_id: str | None
    """The Keccak-256 of market id, line feed and first question; null without a condition."""
    collateral: str | None
    """The ERC-20 that backs its tokens; null without a condition."""
    chain: str | None
    """``waiting``, ``preparing``, ``prepared``, ``reporting``, ``reported`` or ``stuck``; null
    without a condition or a chain."""
    settlement: str
    """``none``: its trades settle nowhere (decision 45). ``chain``: each moves tokens and
    collateral on the chain, and orders must be covered there."""


class MarketBody(MarketTerms, frozen=True, kw_only=True):
    """A market, and where it stands."""

    best_bid: int | None
    """The highest price that is bid for the YES token, in cents; null where nobody does."""
    best_ask: int | None
    """The lowest price that is asked for it."""
    last_update: int
    """When it last changed, Unix milliseconds; 0 where it never did."""
    seq: int
    """The number of its last event."""


class OperationBody(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Where an operation of the chain stands."""

    operation: str
    """What names it."""
    kind: str
    """What it does."""
    status: str
    """``pending``, ``done``, ``failed`` (and undone) or ``stuck`` (until the operator acts)."""
    answer: msgspec.Raw | None = None
    """What was answered in the end; only where it is done."""
    detail: str | None = None
    """Which step failed, and why."""
    hashes: dict[str, str | None] | None = None
    """The transactions so far, by the names of their steps; only while it is not done."""


class TradeSummary(Wire, frozen=True, kw_only=True):
    """A trade, as the answer to a new order has it."""

    id: str
    """The trade."""
    price: int
    """Cents."""
    size: str
    """Tokens, in wei."""
    tx_hash: str | None
    """The transaction that settled it; null until then."""


class CreatedBody(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a new order."""

    success: bool
    """True."""
    order_id: str
    """The order."""
    matched: bool
    """If it traded at once."""
    trades: list[TradeSummary]
    """The trades it made at once."""
    status: str
    """Where it stood then; in a duplicate, where it stands now."""
    duplicate: bool = False
    """True where it had been accepted before, and this is the first answer again."""


class ExpectedTrade(Wire, frozen=True, kw_only=True):
    """A trade that an order would get."""

    price: int
    """Cents."""
    size: str
    """Tokens, in wei."""
    fee: str
    """What it would be charged, in wei: of the tokens if it buys, of the collateral if it sells."""


class OutlookBody(Wire, frozen=True, kw_only=True):
    """What would become of an order if it were placed now."""

    valid: bool
    """True."""
    order_hash: str | None
    """What is to be signed; null where nobody signs."""
    side: int
    """0 buys, 1 sells."""
    price: int
    """What its amounts mean, in cents."""
    size: str
    """How many tokens that is, in wei."""
    collateral: str
    """The collateral it names, in wei."""
    matched: bool
    """If it would trade at once."""
    trades: list[ExpectedTrade]
    """The trades it would get at once."""
    filled_tokens: str
    """The tokens in them, in wei."""
    filled_collateral: str
    """The collateral in them, in wei."""
    average_price: str | None
    """What a token would cost on average, in cents; null where nothing would trade."""
    remaining: str
    """What its trades would leave of it, in wei."""


class InvalidBody(Wire, frozen=True, kw_only=True):
    """What an order would be refused for."""

    valid: bool
    """False."""
    refusal: dict[str, Any]
    """The problem, as the answer to the order would have it."""
    explanation: str | None
    """What was signed instead of this, where a signature is at fault and it can be told."""


class NonceBody(Wire, frozen=True, kw_only=True):
    """The answer to a nonce that is raised."""

    success: bool
    """True."""
    maker: str
    """Whose."""
    nonce: str
    """The lowest that his orders may have from now on."""
    num_cancelled: int
    """How many orders it cancelled."""


class DelegateBody(Wire, frozen=True, kw_only=True):
    """The answer to a delegate who is allowed, or no longer."""

    success: bool
    """True."""
    maker: str
    """Who allows it."""
    delegate: str
    """Who may sign for him, or no longer may."""
    allowed: bool
    """If he may."""
    nonce: str
    """The number of this; the maker's next must be higher."""


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


# MERGED clob_server.api.schemas: What the server says of itself and of its chain, by the names in JSON.
