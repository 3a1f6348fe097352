"""The Structs of a snapshot; their definitions are its binary layout (:mod:`clob.codec.layout`).

Integers of the layout are unsigned and below 2**256.
"""

import msgspec

from clob.events import MatchType, RemovalReason
from clob.market import Limits, Market
from clob.order import SelfTrade, Side, TimeInForce


class OldSnapshotHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a snapshot of version 2, before markets could be removed."""

    now_ms: int
    number: int
    limits: Limits
    markets: int
    finished: int
    nonces: int
    accounts: int
    spent: int


class SnapshotHeader(OldSnapshotHeader, frozen=True, gc=False):
    """Time, limits and counters of a matcher, and how many records of each kind follow."""

    seq_base: int
    """Number before the first event of the next market."""


class Text(msgspec.Struct, frozen=True, gc=False):
    """The name of a maker, after its first order; orders refer to makers by index."""

    text: str


class MarketSnapshot(msgspec.Struct, frozen=True, gc=False):
    """A market with the number of resting orders per book and of pending trades.

    All orders of a complementary market are in the book of YES.
    """

    market: Market
    seq: int
    yes: int
    no: int
    pending: int


class Terms(msgspec.Struct, frozen=True, gc=False):
    """Terms of an order as submitted, if they changed since."""

    price: int
    size: int
    collateral: int | None


class OrderSnapshot(msgspec.Struct, frozen=True, gc=False):
    """An order without its market and token, which follow from its book."""

    id: str | int
    maker: int
    side: Side
    price: int
    size: int
    time_in_force: TimeInForce
    expiration_s: int
    post_only: bool
    self_trade: SelfTrade | None
    nonce: int
    collateral: int | None
    fee_rate_bps: int | None
    smart_wallet: str
    remaining: int
    filled_collateral: int
    number: int
    accepted_ms: int
    client_id: str | None
    order_hash: bytes | None
    submitted: "Terms | None"


class FinishedState(msgspec.Struct, frozen=True, gc=False):
    """Market, token and removal reason of a finished order; its ``OrderSnapshot`` follows."""

    market: str
    is_yes: bool
    removal: RemovalReason


class PendingState(msgspec.Struct, frozen=True, gc=False):
    """A trade that waits for settlement, with the wallets of its accounts."""

    seq: int
    token: str
    buyer_pays: str
    buyer_receives: str
    seller_pays: str
    seller_receives: str
    paid: int
    size: int
    buyer_fee: int
    seller_fee: int


class PairState(msgspec.Struct, frozen=True, gc=False):
    """Type of a pending trade of a complementary market, and the ``seq`` of its other half or 0.

    Follows each ``PendingState`` of such a market.
    """

    match_type: MatchType
    other_seq: int


class OutcomeState(msgspec.Struct, frozen=True, gc=False):
    """Token of an order in a complementary market; precedes its ``OrderSnapshot``."""

    is_yes: bool


class NonceState(msgspec.Struct, frozen=True, gc=False):
    """A maker's nonce."""

    maker: str
    nonce: int


class AccountState(msgspec.Struct, frozen=True, gc=False):
    """Balance of a wallet in an asset; negative if a settlement took more than it had.

    The sum of many amounts may exceed 256 bits, hence two words.
    """

    wallet: str
    asset: str
    owes: bool
    high: int
    low: int


class SpentState(msgspec.Struct, frozen=True, gc=False):
    """The hash of a signed order whose entry was evicted."""

    order_hash: bytes
    maker: str
    nonce: int
    expiration_s: int
