"""What the desk keeps: accounts, markets at work, makers in them, orders, trades to be settled.

Only :mod:`clob.matcher.engine` changes the places of orders in lists. The compiled twin is
``_entries_c.pyx``.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from clob.commands import Cancel, Submit
from clob.events import MatchType, RemovalReason, Trade
from clob.market import Funds, Market
from clob.matcher.state_records import OrderSnapshot, Terms
from clob.order import Order

if TYPE_CHECKING:
    from clob.book import Book


class Account:
    """What one wallet has of one asset, in wei."""

    def __init__(self, wallet: str, asset: str) -> None:
        self.wallet = wallet
        self.asset = asset
        self.balance = 0
        self.reserved = 0
        self.unsettled = 0
        # Resting orders that pay from it by a smart wallet, which their maker does not lead to.
        self.guests: dict[int, OrderEntry] = {}

    def saved(self) -> tuple[int, int, int]:
        """Give what :meth:`restore` takes back."""
        return self.balance, self.reserved, self.unsettled

    def restore(self, saved: tuple[int, int, int]) -> None:
        """Be as it was."""
        self.balance, self.reserved, self.unsettled = saved


NO_ACCOUNT = Account("", "")
"""What an order pays from and receives to where there are no accounts."""


class MarketState:
    """A market at work: its terms, its two books, and the makers who have orders in it."""

    def __init__(self, market: Market, yes: "Book", no: "Book") -> None:
        self.yes_book = yes
        self.no_book = no
        # The book that holds the sequence number; it is handed over when the other one is used.
        self.turn = yes
        self.traders: dict[str, MakerState] = {}
        self.pending: dict[int, PendingTrade] = {}
        self.adopt(market)

    def hand_over(self, book: "Book") -> None:
        """Let the other book have the sequence number."""
        book.seq = self.turn.seq
        self.turn = book

    def adopt(self, market: Market) -> None:
        """Take over the terms of a market."""
        self.market = market
        self.yes = market.yes
        # None until it is named: no text of an order is equal to it.
        self.no: Any = market.no or None
        self.mode = market.mode
        self.min_size = market.min_size
        self.self_trade = market.self_trade
        self.has_accounts = market.funds is Funds.ACCOUNTS
        self.settles = market.settles
        self.complementary = market.complementary
        self.charges = bool(market.resting_fee_rate_bps or market.incoming_fee_rate_bps)

    def saved(self) -> tuple[Any, ...]:
        """Give what :meth:`restore` takes back: books as they are now."""
        yes, no = self.yes_book.fork(), self.no_book.fork()
        return yes, no, yes if self.turn is self.yes_book else no

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Have the books that were kept."""
        self.yes_book, self.no_book, self.turn = saved

    def detach(self) -> None:
        """Let go of its makers, and they of their orders."""
        for trader in self.traders.values():
            trader.first = trader.last = None
        self.traders.clear()


class MakerState:
    """A maker in one market: the resting orders in the sequence of acceptance, and the accounts.

    The market forgets a maker without resting orders, but where there are accounts.
    """

    def __init__(self, maker: str, venue: MarketState) -> None:
        self.maker = maker
        self.venue = venue
        self.first: OrderEntry | None = None
        self.last: OrderEntry | None = None
        self.count = 0
        # Where there are accounts, the maker's own, opened with the first accepted order.
        self.has_accounts = False
        self.collateral = NO_ACCOUNT
        self.yes = NO_ACCOUNT
        self.no = NO_ACCOUNT


class OrderEntry:
    """An order the desk knows, resting or finished; ``size - remaining`` of it is filled.

    ``given`` is the order as it was submitted, ``order`` as it is after reductions and
    replacements: with another price, or with the size that is filled or still remains.
    """

    order: Order
    given: Order
    trader: MakerState
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
    later: "OrderEntry | None"
    pays: Account
    receives: Account
    reserve: int

    def saved(self) -> tuple[Any, ...]:
        """Give what :meth:`restore` takes back."""
        state = (self.order, self.remaining, self.filled_collateral)
        return (*state, self.resting, self.removal, self.reserve)

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Be as it was; its places in lists are not part of it."""
        self.order, self.remaining, self.filled_collateral = saved[:3]
        self.resting, self.removal, self.reserve = saved[3:]

    def state(self, maker: int) -> OrderSnapshot:
        """Give what a snapshot says of it; ``maker`` is the place of its maker there."""
        order, given = self.order, self.given
        return OrderSnapshot(
            order.id,
            maker,
            order.side,
            order.price,
            order.size,
            order.time_in_force,
            order.expiration_s,
            order.post_only,
            order.self_trade,
            order.nonce,
            order.collateral,
            order.fee_rate_bps,
            order.smart_wallet,
            self.remaining,
            self.filled_collateral,
            self.number,
            self.accepted_ms,
            self.client_id,
            self.order_hash,
            None if given is order else Terms(given.price, given.size, given.collateral),
        )

    def detach(self) -> None:
        """Let go of its neighbours."""
        self.before = self.after = self.later = None


def prefetch(thing: object) -> None:
    """Announce that a thing is read soon; compiled, it loads into the cache meanwhile."""


def make_entry(order: Order, trader: MakerState, is_yes: bool) -> OrderEntry:
    """Make the entry of an order of which nothing is filled yet.

    No ``__init__``: compiled, that would be a call with a tuple of arguments for every order.
    """
    entry = OrderEntry.__new__(OrderEntry)
    entry.order = entry.given = order
    entry.trader = trader
    entry.is_yes = is_yes
    entry.number = entry.accepted_ms = 0
    entry.remaining = order.size
    entry.filled_collateral = entry.reserve = 0
    entry.client_id = entry.order_hash = None
    entry.resting = False
    entry.removal = None
    entry.before = entry.after = entry.later = None
    entry.pays = entry.receives = NO_ACCOUNT
    return entry


class PendingTrade:
    """A trade that waits to be settled: who pays what to whom."""

    def __init__(
        self,
        accounts: tuple[Account, Account, Account, Account],
        amounts: tuple[int, int, int, int],
    ) -> None:
        self.buyer_pays, self.buyer_receives, self.seller_pays, self.seller_receives = accounts
        self.paid, self.size, self.buyer_fee, self.seller_fee = amounts
        # Of half of a mint or a merge: which, and the ``seq`` of the other half.
        self.match_type = MatchType.DIRECT
        self.other = 0


def order_from(state: OrderSnapshot, token: str, maker: str) -> Order:
    """Make an order out of what a snapshot says of it."""
    return Order(
        id=state.id,
        token=token,
        maker=maker,
        side=state.side,
        price=state.price,
        size=state.size,
        time_in_force=state.time_in_force,
        expiration_s=state.expiration_s,
        post_only=state.post_only,
        self_trade=state.self_trade,
        nonce=state.nonce,
        collateral=state.collateral,
        fee_rate_bps=state.fee_rate_bps,
        smart_wallet=state.smart_wallet,
    )


def fields_seen(
    order: Order, submit: Submit, cancel: Cancel, trade: Trade, state: OrderSnapshot
) -> tuple[Any, ...]:
    """Give the fields that the desk reads as it reads them; :mod:`clob.matcher.chooser` compares."""
    return (
        (order.id, order.token, order.maker, order.side, order.price, order.size),
        (order.time_in_force, order.expiration_s, order.self_trade, order.nonce),
        (order.collateral, order.fee_rate_bps, order.smart_wallet),
        (submit.now_ms, submit.market, submit.order),
        (submit.client_id, submit.order_hash, submit.deadline_ms),
        (cancel.now_ms, cancel.market, cancel.order_id, cancel.maker),
        (trade.seq, trade.resting_order_id, trade.price, trade.size, trade.resting_remaining),
        (trade.incoming_side, trade.buyer_fee, trade.seller_fee, trade.token),
        (state.remaining, state.filled_collateral, state.client_id, state.order_hash, state.given),
        (state.number, state.accepted_ms, state.maker),
        msgspec.structs.astuple(order_from(state, order.token, order.maker)),
    )
