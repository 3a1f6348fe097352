"""The Structs that a snapshot is made of; their definitions are its layout, see the codec.

Integers of the layout are unsigned and below 2**256.
"""

import msgspec

from clob.events import MatchType, RemovalReason
from clob.market import Limits, Market
from clob.order import SelfTrade, Side, TimeInForce


class SnapshotHeader(msgspec.Struct, frozen=True, gc=False):
    """What a desk is, and how many of each follow."""

    now_ms: int
    number: int
    limits: Limits
    markets: int
    finished: int
    nonces: int
    accounts: int
    spent: int


class Text(msgspec.Struct, frozen=True, gc=False):
    """The name of a maker, behind the first order of it; orders name the place in that sequence."""

    text: str


class VenueState(msgspec.Struct, frozen=True, gc=False):
    """A market, and how many orders rest in either book and how many trades wait.

    Those of a complementary market all stand in the book of YES.
    """

    market: Market
    seq: int
    yes: int
    no: int
    pending: int


class Terms(msgspec.Struct, frozen=True, gc=False):
    """What an order said when it was submitted, where it says something else now."""

    price: int
    size: int
    collateral: int | None


class OrderSnapshot(msgspec.Struct, frozen=True, gc=False):
    """An order without its market and token, which are those of the book it stands in."""

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
    given: "Terms | None"


class FinishedState(msgspec.Struct, frozen=True, gc=False):
    """Where a finished order was, and why it left; its ``OrderSnapshot`` follows."""

    market: str
    is_yes: bool
    removal: RemovalReason


class PendingState(msgspec.Struct, frozen=True, gc=False):
    """A trade that waits to be settled, by the wallets of its accounts."""

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


class HalfState(msgspec.Struct, frozen=True, gc=False):
    """Behind a trade that waits in a complementary market: what it is, and its other half or 0."""

    match_type: MatchType
    other: int


class OutcomeState(msgspec.Struct, frozen=True, gc=False):
    """In front of an order in a complementary market: which token it is for."""

    is_yes: bool


class NonceState(msgspec.Struct, frozen=True, gc=False):
    """A maker's nonce."""

    maker: str
    nonce: int


class AccountState(msgspec.Struct, frozen=True, gc=False):
    """What a wallet has of an asset, or owes where a settlement took more than it had.

    Sums of many amounts may be longer than an integer of the layout, hence two words.
    """

    wallet: str
    asset: str
    owes: bool
    high: int
    low: int


class SpentState(msgspec.Struct, frozen=True, gc=False):
    """The hash of a signed order whose details are gone."""

    order_hash: bytes
    maker: str
    nonce: int
    expiration_s: int
