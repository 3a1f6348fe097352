"""JSON bodies of responses and feed messages, with the field names of the specification.

Amounts are wei in decimal digits, times Unix milliseconds, prices cents.
"""

from typing import Annotated, Any, Final

import msgspec

NO_SIGNATURE: Final = "0x" + "0" * 130
"""The ``signature`` field of an unsigned order."""


ADVANCE_MAX_MS: Final = 3_650 * 86_400_000
"""The largest sum of all moves of the server's time, milliseconds: ten years."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """Base of all bodies: camel-case names in JSON."""


class OrderBody(Wire, frozen=True, kw_only=True):
    """An order (specification, "Order") with additional fields."""

    id: str
    """``ord_{unix seconds}_{6 characters}``."""
    market_id: str
    """Market id."""
    token_id: str
    """The outcome token, decimal digits."""
    maker: str
    """The wallet that owns what is traded."""
    signer: str
    """The address that signed the order."""
    taker: str
    """The only address that may fill it; the zero address allows any."""
    side: int
    """0 buys, 1 sells."""
    maker_amount: str
    """Wei; collateral of a buy, tokens of a sell."""
    taker_amount: str
    """Wei; tokens of a buy, collateral of a sell."""
    filled_amount: str
    """The filled part of ``takerAmount``, in wei."""
    salt: str
    """Salt of the order, as received."""
    expiration: int
    """The last Unix second in which it may trade; 0: never expires."""
    nonce: str
    """The maker's nonce in the signed order."""
    fee_rate_bps: int
    """Maximum fee rate, in basis points."""
    signature_type: int
    """0 or 1."""
    signature: str
    """65 bytes in hex; zeros for an unsigned order."""
    status: str
    """``open``, ``partial``, ``filled`` or ``cancelled``."""
    timestamp: int
    """Time of arrival, Unix milliseconds."""
    price: int
    """Current limit price, in cents."""
    size: str
    """Current size in tokens, including filled ones, in wei."""
    remaining: str
    """Resting tokens, in wei."""
    filled_tokens: str
    """Tokens traded, in wei."""
    filled_collateral: str
    """Collateral paid or received for them, in wei, without fees."""
    average_price: str | None
    """Average price per token, in cents; null before the first trade."""
    time_in_force: str
    """``GTC``, ``GTD``, ``IOC`` or ``FOK``."""
    post_only: bool
    """Whether the order is rejected if it would trade at once."""
    smart_wallet: str | msgspec.UnsetType = msgspec.UNSET
    """The wallet that pays and receives the collateral."""
    cancel_reason: str | msgspec.UnsetType = msgspec.UNSET
    """Reason of the cancellation."""
    order_hash: str | msgspec.UnsetType = msgspec.UNSET
    """The signed EIP-712 hash, 32 bytes in hex."""
    client_order_id: str | msgspec.UnsetType = msgspec.UNSET
    """Id chosen by the client."""


class LevelBody(Wire, frozen=True, kw_only=True):
    """A price level (specification, "Orderbook")."""

    price: int
    """Cents."""
    size: str
    """Total resting size, in wei."""
    num_orders: int
    """Number of resting orders."""
    orders: int
    """Same as ``numOrders``."""


class OrderbookBody(Wire, frozen=True, kw_only=True):
    """An order book (specification, "Orderbook")."""

    market_id: str
    """Market id."""
    token_id: str
    """The outcome token, decimal digits."""
    bids: list[LevelBody]
    """Buy levels, highest price first."""
    asks: list[LevelBody]
    """Sell levels, lowest price first."""
    last_update: int
    """Time of the market's last event, Unix milliseconds; 0 before the first."""
    seq: int
    """Sequence number of the market's last event."""
    checksum: int
    """CRC-32 of the levels shown."""


class TradeBody(Wire, frozen=True, kw_only=True):
    """A trade (specification, "Trade") with additional fields."""

    id: str
    """``trade_{unix milliseconds}_{6 characters}``."""
    market_id: str
    """Market id."""
    token_id: str
    """The traded token, decimal digits."""
    price: int
    """Limit price of the resting order, in cents."""
    size: str
    """Tokens, in wei."""
    buyer: str
    """Maker of the buy order; empty in a merge, which has no buyer."""
    seller: str
    """Maker of the sell order; empty in a mint, which has no seller."""
    match_type: str
    """``direct``, ``mint`` or ``merge``."""
    timestamp: int
    """Time of the trade, Unix milliseconds."""
    tx_hash: str | None
    """Hash of the settlement transaction; null until settled."""
    settlement: str
    """``none``, ``pending``, ``submitted``, ``settled`` or ``failed``."""
    final: bool
    """Whether ``settlement`` stays; a reorganisation of the chain may change a result before."""
    seq: int
    """Sequence number of the event."""
    resting_order_id: str
    """Id of the resting order."""
    incoming_order_id: str
    """Id of the incoming order."""
    incoming_side: int
    """Side of the incoming order: 0 buys, 1 sells."""
    buyer_fee: str
    """Fee of the buyer in tokens, in wei."""
    seller_fee: str
    """Fee of the seller in collateral, in wei."""
    settlement_reason: str | msgspec.UnsetType = msgspec.UNSET
    """Reason of the failure; only if ``settlement`` is ``failed``."""


class CandleBody(Wire, frozen=True, kw_only=True):
    """The trades of a token in an interval."""

    timestamp: int
    """Begin of the interval, Unix milliseconds."""
    open: int
    """Price of the first trade, in cents."""
    high: int
    """Highest price, in cents."""
    low: int
    """Lowest price, in cents."""
    close: int
    """Price of the last trade, in cents."""
    volume: str
    """Tokens traded, in wei."""
    num_trades: int
    """Number of trades."""


class CandlesBody(Wire, frozen=True, kw_only=True):
    """Candles of a token, without the intervals that have no trade."""

    market_id: str
    """Market id."""
    token_id: str
    """The outcome token, decimal digits."""
    interval: str
    """``1m``, ``5m``, ``1h`` or ``1d``."""
    candles: list[CandleBody]
    """Candles, oldest first."""


class MakerFill(TradeBody, frozen=True, kw_only=True, gc=False):
    """A trade from the view of the maker of one of its orders."""

    order_id: str
    """Id of the maker's order."""
    role: str
    """``resting`` or ``incoming``."""
    side: int
    """Side of the maker's order: 0 buy, 1 sell."""
    remaining: str
    """Remaining size of the maker's order, in wei."""
    maker: str
    """The maker of the order."""
    fee: str
    """Fee of the maker, in wei: of tokens for a buy, of collateral for a sell."""
    cursor: str
    """Place of the fill: ``{number of the command}-{index}``, rising with time."""


class OrderWithFills(OrderBody, frozen=True, kw_only=True):
    """An order with its trades, on request."""

    fills: list[MakerFill] | msgspec.UnsetType = msgspec.UNSET
    """The trades of the order, oldest first; only if requested."""


class AssetBalance(Wire, frozen=True, kw_only=True):
    """The account of a wallet in an asset, in wei."""

    asset: str
    """Address or name of the collateral, or an outcome token in decimal digits."""
    balance: str
    """The whole balance."""
    reserved: str
    """Reserved by resting orders."""
    unsettled: str
    """Held by trades that wait for settlement."""
    available: str
    """The rest, for new orders; negative if the balance fell below the held amounts."""


class ChainBalance(Wire, frozen=True, kw_only=True):
    """What the chain reported of a wallet, in wei."""

    balance: str
    """Balance; of a token 0 while the exchange contract is not approved."""
    allowance: str | None
    """Collateral that the exchange contract may take; null for a token, which has no amount."""


class AccountBalance(AssetBalance, frozen=True, kw_only=True):
    """An account, with the amounts on the chain."""

    chain: ChainBalance | None
    """Amounts on the chain; null without a report, as in markets that do not settle."""


class MakerPosition(Wire, frozen=True, kw_only=True):
    """The trades of a maker in a token, summed up; amounts in wei."""

    market_id: str
    """Market id."""
    token_id: str
    """The outcome token, decimal digits."""
    net_size: str
    """Tokens bought, less the fees in tokens, minus those sold; may be negative."""
    cost: str
    """Collateral paid for them; minus the collateral received if ``netSize`` is negative."""
    average_price: str | None
    """Cost per token, in cents with up to four decimals, rounded down; null without tokens."""
    realised: str
    """Collateral gained by trades that reduced the position, before fees; may be negative."""
    fees: str
    """Fees of sells, in collateral."""
    token_fees: str
    """Fees of buys, in tokens."""
    redemption_value: str | None
    """Value of ``netSize`` in a resolved market; null until the outcome is known."""


class AccountBody(Wire, frozen=True, kw_only=True):
    """Balances and positions of a wallet."""

    maker: str
    """The wallet."""
    balances: list[AccountBalance]
    """Accounts that are not empty: collateral, then tokens by market."""
    positions: list[MakerPosition]
    """Positions by market and token, closed ones included."""


class TradesBody(Wire, frozen=True, kw_only=True):
    """Trades wrapped in an object, on request (decision 10)."""

    trades: list[TradeBody]
    """Trades, newest first."""


class MarketTerms(Wire, frozen=True, kw_only=True):
    """A market and its terms, for public and operator routes."""

    market_id: str
    """Market id."""
    yes_token_id: str
    """The token worth one unit of collateral if the outcome is yes, decimal digits."""
    no_token_id: str | None
    """The other token; null until known."""
    mode: str
    """``open``, ``cancelOnly``, ``halted`` or ``resolved``."""
    question: str
    """The question of the market."""
    description: str
    """Additional information."""
    outcome: str | None
    """``yes`` or ``no``; null until resolved."""
    min_size: str
    """Minimum order size, in wei."""
    resting_fee_rate_bps: int
    """Maximum fee rate of the resting order, in basis points."""
    incoming_fee_rate_bps: int
    """Maximum fee rate of the incoming order, in basis points."""
    complementary: bool
    """Whether YES and NO orders also match: two buys mint a pair, two sells merge one."""
    lot_wei: str
    """Every size is a multiple of this, in wei."""
    condition_id: str | None
    """Condition on the chain, 32 bytes in hex; null without one."""
    question_id: str | None
    """Keccak-256 of market id, line feed and first question; null without a condition."""
    collateral: str | None
    """The ERC-20 token that backs its tokens; null without a condition."""
    chain: str | None
    """``waiting``, ``preparing``, ``prepared``, ``closing``, ``reporting``, ``reported`` or
    ``stuck``; null without a condition or a chain."""
    settlement: str
    """``none``: trades are not settled (decision 45). ``chain``: each trade moves tokens and
    collateral on the chain, and orders must be covered there."""


class MarketBody(MarketTerms, frozen=True, kw_only=True):
    """A market with its best prices."""

    best_bid: int | None
    """Highest bid for the YES token, in cents; null without bids."""
    best_ask: int | None
    """Lowest ask for the YES token, in cents; null without asks."""
    last_update: int
    """Time of the last event, Unix milliseconds; 0 before the first."""
    seq: int
    """Sequence number of its last event."""


class OperationBody(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Status of a chain operation."""

    operation: str
    """Operation id."""
    kind: str
    """Kind of operation."""
    status: str
    """``pending``, ``done``, ``failed`` (and undone) or ``stuck`` (needs the operator)."""
    answer: msgspec.Raw | None = None
    """Final response; only if ``done``."""
    detail: str | None = None
    """The step that failed, or that waits for its block, and the reason."""
    hashes: dict[str, str | None] | None = None
    """Transaction hashes so far, by step; absent once ``done``."""


class TradeSummary(Wire, frozen=True, kw_only=True):
    """A trade in the response to a new order."""

    id: str
    """Trade id."""
    price: int
    """Cents."""
    size: str
    """Tokens, in wei."""
    tx_hash: str | None
    """Hash of the settlement transaction; null until settled."""


class CreatedBody(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Response to a new order."""

    success: bool
    """True."""
    order_id: str
    """Order id."""
    matched: bool
    """Whether the order traded at once."""
    trades: list[TradeSummary]
    """Its immediate trades."""
    status: str
    """Status after placement; in a duplicate, the current status."""
    duplicate: bool = False
    """True if the order was accepted before; this repeats the first response."""


class ReplacedBody(CreatedBody, frozen=True, kw_only=True, omit_defaults=True):
    """Response to a new order that replaces another one."""

    replaced: OrderBody
    """The order that it replaced, as it is now."""


class ExpectedTrade(Wire, frozen=True, kw_only=True):
    """A trade that an order would make."""

    price: int
    """Cents."""
    size: str
    """Tokens, in wei."""
    fee: str
    """Fee in wei; tokens for a buy, collateral for a sell."""


class OutlookBody(Wire, frozen=True, kw_only=True):
    """Result that an order would have if placed now."""

    valid: bool
    """True."""
    order_hash: str | None
    """EIP-712 hash to sign; null for an unsigned order."""
    side: int
    """0 buys, 1 sells."""
    price: int
    """Limit price, in cents."""
    size: str
    """Size in tokens, in wei."""
    collateral: str
    """Collateral of the order, in wei."""
    matched: bool
    """Whether it would trade at once."""
    trades: list[ExpectedTrade]
    """Trades it would make at once."""
    filled_tokens: str
    """Tokens in these trades, in wei."""
    filled_collateral: str
    """Collateral in these trades, in wei."""
    average_price: str | None
    """Average price per token, in cents; null without trades."""
    remaining: str
    """Tokens left after these trades, in wei."""
    account_checked: bool
    """Whether balance, nonce, open orders and own resting orders of the maker were checked."""


class InvalidBody(Wire, frozen=True, kw_only=True):
    """Reason why an order would be rejected."""

    valid: bool
    """False."""
    rejection: dict[str, Any] = msgspec.field(name="refusal")
    """The problem that placing the order would return."""
    explanation: str | None
    """For an invalid signature, the difference to the signed data if it can be determined."""


class NonceBody(Wire, frozen=True, kw_only=True):
    """Response to a raised nonce."""

    success: bool
    """True."""
    maker: str
    """The maker."""
    nonce: str
    """Minimum nonce of the maker's orders from now on."""
    num_cancelled: int
    """Number of orders cancelled."""


class CancelledBody(Wire, frozen=True, kw_only=True):
    """Response to a cancel of all orders that pass its filters."""

    success: bool
    """True."""
    maker: str
    """The maker."""
    num_cancelled: int
    """Number of orders cancelled."""
    order_ids: list[str]
    """Their ids in order of acceptance, the first 10,000."""


class SwitchBody(Wire, frozen=True, kw_only=True):
    """Response to a heartbeat."""

    success: bool
    """True."""
    makers: list[str]
    """The makers whose orders stay."""
    timeout_ms: int
    """Milliseconds until the next heartbeat at most; 0 if no heartbeat is awaited."""
    changed: bool
    """Whether the request armed, changed or disarmed a switch; true as well after it fired."""


class DelegateBody(Wire, frozen=True, kw_only=True):
    """Response to a granted or withdrawn delegation."""

    success: bool
    """True."""
    maker: str
    """The maker."""
    delegate: str
    """Address of the delegate."""
    allowed: bool
    """Whether the delegate may sign for the maker."""
    nonce: str
    """Nonce of this change; the maker's next must be higher."""


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
    """Watched wallets: those that approved the exchange contract."""
    difference: int
    """Accounts that differ from the chain; anything but 0 is a fault."""
    failures: list[FailureBody]
    """Failed trades, newest first."""
