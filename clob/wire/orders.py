"""Orders, fills, and the responses of the routes that place, preview and cancel orders."""

from typing import Any, Final

import msgspec

from clob.wire import Wire
from clob.wire.markets import TradeBody

NO_SIGNATURE: Final = "0x" + "0" * 130
"""The ``signature`` field of an unsigned order."""


class OrderBody(Wire, frozen=True, kw_only=True):
    """An order (specification, "Order") with additional fields."""

    id: str
    """``ord_{unix seconds}_{6 characters}``."""
    market_id: str
    """Market id."""
    token_id: str
    """The outcome token, decimal digits."""
    maker: str
    """The wallet that owns the traded tokens or collateral."""
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
