"""Mutable state of the engine: accounts, markets, makers, orders and pending trades.

Only :mod:`clob.matcher.order_index` changes the places of orders in lists. ``entities.pyx`` is the
compiled version of the same classes.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from clob.commands import Cancel, Submit
from clob.events import MatchType, RemovalReason, Trade
from clob.market import Funds, Market, Mode
from clob.matcher.state_records import OrderSnapshot, Terms
from clob.order import Order, SelfTrade

if TYPE_CHECKING:
    from clob.book import Book

SAVED_FIELDS = tuple(name for name in Order.__struct_fields__ if name not in ("token", "maker"))
"""Fields of an order in its snapshot, which has the index of the maker instead of the name."""


class Account:
    """Balance of one wallet in one asset, in wei."""

    def __init__(self, wallet: str, asset: str) -> None:
        self.wallet: str = wallet
        self.asset: str = asset
        self.balance: int = 0
        self.reserved: int = 0
        self.unsettled: int = 0
        # Resting orders that pay from it as their smart wallet, by number.
        self.smart_wallet_orders: dict[int, OrderEntry] = {}

    def save(self) -> tuple[int, int, int]:
        """Return the values that :meth:`restore` takes."""
        return self.balance, self.reserved, self.unsettled

    def restore(self, saved: tuple[int, int, int]) -> None:
        """Restore saved values."""
        self.balance, self.reserved, self.unsettled = saved


NO_ACCOUNT = Account("", "")
"""Placeholder account of orders in markets without accounts."""


class MarketState:
    """Terms of a market, its two books, its makers and its pending trades."""

    def __init__(self, market: Market, yes: "Book", no: "Book") -> None:
        self.yes_book: Book = yes
        self.no_book: Book = no
        # The book that holds the sequence number; it moves when the other book is used.
        self.seq_book: Book = yes
        self.makers: dict[str, MakerState] = {}
        self.pending: dict[int, PendingTrade] = {}
        self.set_terms(market)

    def move_seq(self, book: "Book") -> None:
        """Move the sequence number to ``book``."""
        book.seq = self.seq_book.seq
        self.seq_book = book

    def set_terms(self, market: Market) -> None:
        """Copy the terms of a market."""
        self.market: Market = market
        self.yes: str = market.yes
        # None until the NO token has an id, so that no order can match it.
        self.no: Any = market.no or None
        self.mode: Mode = market.mode
        self.min_size: int = market.min_size
        self.self_trade: SelfTrade = market.self_trade
        self.has_accounts: bool = market.funds is Funds.ACCOUNTS
        self.settles: bool = market.settles
        self.complementary: bool = market.complementary
        self.has_fees: bool = bool(market.resting_fee_rate_bps or market.incoming_fee_rate_bps)

    def save(self) -> tuple[Any, ...]:
        """Return the values that :meth:`restore` takes: copies of both books."""
        yes, no = self.yes_book.fork(), self.no_book.fork()
        return yes, no, yes if self.seq_book is self.yes_book else no

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Restore saved books."""
        self.yes_book, self.no_book, self.seq_book = saved

    def detach(self) -> None:
        """Drop all makers and their lists of orders."""
        for maker_state in self.makers.values():
            maker_state.first = maker_state.last = None
            maker_state.previous_market = maker_state.next_market = None
        self.makers.clear()


class MakerState:
    """A maker in one market: resting orders in the order of acceptance, and accounts.

    Without accounts, the market drops a maker that has no resting orders. Those with resting orders
    are linked with the same maker's in other markets.
    """

    def __init__(self, maker: str, market_state: MarketState) -> None:
        self.maker: str = maker
        self.market_state: MarketState = market_state
        self.first: OrderEntry | None = None
        self.last: OrderEntry | None = None
        # The places of the orders of a snapshot, some of which may be awake or finished.
        self.asleep: Any = None
        self.count: int = 0
        self.previous_market: MakerState | None = None
        self.next_market: MakerState | None = None
        # With accounts: the maker's own, opened with the first accepted order.
        self.has_accounts: bool = False
        self.collateral: Account = NO_ACCOUNT
        self.yes: Account = NO_ACCOUNT
        self.no: Account = NO_ACCOUNT


class OrderEntry:
    """An order, resting or finished; ``order.size - remaining`` of it is filled.

    ``submitted`` is the order as submitted. ``order`` is the order after reductions and
    replacements, whose size is the filled plus the remaining size.
    """

    order: Order
    submitted: Order
    maker_state: MakerState
    is_yes: bool
    number: int
    accepted_ms: int
    remaining: int
    filled_collateral: int
    client_id: str | None
    order_hash: bytes | None
    resting: bool
    removal: RemovalReason | None
    before: "OrderEntry | None"
    after: "OrderEntry | None"
    next_finished: "OrderEntry | None"
    pays: Account
    receives: Account
    reserve: int

    def save(self) -> tuple[Any, ...]:
        """Return the values that :meth:`restore` takes."""
        state = (self.order, self.remaining, self.filled_collateral)
        return (*state, self.resting, self.removal, self.reserve)

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Restore saved values; places in lists are not among them."""
        self.order, self.remaining, self.filled_collateral = saved[:3]
        self.resting, self.removal, self.reserve = saved[3:]

    def state(self, maker: int) -> OrderSnapshot:
        """Return the snapshot of the order; ``maker`` is the index of its maker there."""
        order, terms = self.order, None
        if self.submitted is not order:
            terms = Terms(self.submitted.price, self.submitted.size, self.submitted.collateral)
        return OrderSnapshot(
            maker=maker,
            remaining=self.remaining,
            filled_collateral=self.filled_collateral,
            number=self.number,
            accepted_ms=self.accepted_ms,
            client_id=self.client_id,
            order_hash=self.order_hash,
            submitted=terms,
            **{name: getattr(order, name) for name in SAVED_FIELDS},
        )

    def detach(self) -> None:
        """Drop the links to other orders."""
        self.before = self.after = self.next_finished = None


def prefetch(thing: object) -> None:
    """Load an object into the CPU cache; does nothing in plain Python."""


def make_entry(order: Order, maker_state: MakerState, is_yes: bool) -> OrderEntry:
    """Return the entry of an order without fills.

    A function instead of ``__init__``: compiled, it avoids an argument tuple per order.
    """
    entry = OrderEntry.__new__(OrderEntry)
    entry.order = entry.submitted = order
    entry.maker_state = maker_state
    entry.is_yes = is_yes
    entry.number = entry.accepted_ms = 0
    entry.remaining = order.size
    entry.filled_collateral = entry.reserve = 0
    entry.client_id = entry.order_hash = None
    entry.resting = False
    entry.removal = None
    entry.before = entry.after = entry.next_finished = None
    entry.pays = entry.receives = NO_ACCOUNT
    return entry


class PendingTrade:
    """A trade that waits for settlement: accounts and amounts of both parties."""

    buyer_pays: Account
    buyer_receives: Account
    seller_pays: Account
    seller_receives: Account
    paid: int
    size: int
    buyer_fee: int
    seller_fee: int

    def __init__(
        self,
        accounts: tuple[Account, Account, Account, Account],
        amounts: tuple[int, int, int, int],
    ) -> None:
        self.buyer_pays, self.buyer_receives, self.seller_pays, self.seller_receives = accounts
        self.paid, self.size, self.buyer_fee, self.seller_fee = amounts
        # For half of a mint or merge: its type, and the ``seq`` of the other half.
        self.match_type: MatchType = MatchType.DIRECT
        self.other_seq: int = 0


def order_from(state: OrderSnapshot, token: str, maker: str) -> Order:
    """Return the order of a snapshot."""
    fields = {name: getattr(state, name) for name in SAVED_FIELDS}
    return Order(token=token, maker=maker, **fields)


def read_fields(
    order: Order, submit: Submit, cancel: Cancel, trade: Trade, state: OrderSnapshot
) -> tuple[Any, ...]:
    """Return the fields that compiled code reads by offset, for :mod:`clob.matcher.compiled`."""
    return (
        (order.id, order.token, order.maker, order.side, order.price, order.size),
        (order.time_in_force, order.expiration_s, order.self_trade, order.nonce),
        (order.collateral, order.fee_rate_bps, order.smart_wallet, order.post_only),
        (submit.now_ms, submit.market, submit.order),
        (submit.attachment, submit.client_id, submit.order_hash, submit.deadline_ms),
        (cancel.now_ms, cancel.market, cancel.order_id, cancel.maker),
        (trade.seq, trade.resting_order_id, trade.price, trade.size, trade.resting_remaining),
        (trade.incoming_side, trade.buyer_fee, trade.seller_fee, trade.token),
        (state.remaining, state.filled_collateral, state.client_id),
        (state.order_hash, state.submitted),
        (state.number, state.accepted_ms, state.maker),
        msgspec.structs.astuple(order_from(state, order.token, order.maker)),
    )
