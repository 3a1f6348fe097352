"""What one may ask of a desk without changing it."""

from typing import TYPE_CHECKING

from clob.book.validation import show
from clob.commands import Batch, Cancel, Command, Replace, Submit
from clob.errors import InvalidCommandError, InvariantError, RejectedError
from clob.events import Trade
from clob.market import Balance, Mode
from clob.matcher import amend, batch, complementary, handlers, rejections
from clob.matcher.amounts import needed, with_fees
from clob.order import Order
from clob.status import OrderRecord, filled_amount, status_of
from clob.units import TEXT_MAX, collateral_of

if TYPE_CHECKING:
    from clob.matcher.engine import Engine
    from clob.matcher.entities import Account, MarketState, OrderEntry


def record_of(entry: "OrderEntry") -> OrderRecord:
    """Show an order to the outside."""
    order, given = entry.order, entry.given
    filled = order.size - entry.remaining
    whole = given.collateral
    if whole is None:
        whole = collateral_of(given.size, given.price)
    return OrderRecord(
        market=entry.trader.venue.market.id,
        order=given,
        price=order.price,
        size=order.size,
        status=status_of(traded=filled > 0, left=entry.remaining > 0, resting=entry.resting),
        filled=filled,
        remaining=entry.remaining if entry.resting else 0,
        # A replacement may have made it larger than it was submitted.
        filled_amount=filled_amount(order.side, min(filled, given.size), given.size, whole),
        filled_collateral=entry.filled_collateral,
        number=entry.number,
        accepted_ms=entry.accepted_ms,
        removal=entry.removal,
        client_id=entry.client_id,
        order_hash=entry.order_hash,
    )


def open_orders(desk: "Engine", maker: str | None, market: str | None) -> list["OrderEntry"]:
    """List resting orders in the sequence of acceptance."""
    venues = list(desk.venues.values()) if market is None else [rejections.venue_of(desk, market)]
    return amend.by_number(
        entry
        for venue in venues
        for name in ([maker] if maker is not None else list(venue.traders))
        for entry in amend.of_maker(venue, name)
    )


def balance_of(account: "Account | None") -> Balance:
    """Show an account to the outside; one that was never used has nothing."""
    if account is None:
        return Balance(0, 0, 0)
    return Balance(account.balance, account.reserved, account.unsettled)


def next_expiry_s(desk: "Engine") -> int | None:
    """Give the first second after which ``Expire`` has something to do."""
    due = [seconds.peekitem(0)[0] for seconds in (desk.expiring, desk.spent_until) if seconds]
    return min(due, default=None)


# ----- what would be -------------------------------------------------------------------------


def refusal_of(desk: "Engine", command: Command) -> RejectedError | None:
    """Give what a command would be refused for, or None."""
    try:
        # The exact types, as at the door: a subclass of a command is none.
        if type(command) is Submit:
            simulate(desk, command)
        elif type(command) is Cancel:
            desk.check_time(command.now_ms)
            rejections.check_order_command(desk, command, Mode.CANCEL_ONLY)
        else:
            door = handlers.door_of(desk, command)
            door.refuse(desk, command, command.now_ms)
            if type(command) is Replace:
                _check_replace(desk, command)
            elif type(command) is Batch and command.atomic:
                batch.all_or_none(desk, command, command.now_ms, keep=False)
    except RejectedError as error:
        return error
    return None


def simulate(desk: "Engine", command: Submit) -> list[Trade]:
    """Say which trades an order would get, fees included."""
    if type(command) is not Submit:
        raise InvalidCommandError(f"a Submit is needed, not {show(command)}")
    desk.check_time(command.now_ms)
    order = rejections.order_of(command, command.now_ms)
    entry = desk.admit(command, order, command.now_ms)
    venue = desk.venues[command.market]
    if order.self_trade is None and venue.self_trade:
        order = rejections.with_policy(order, venue.self_trade)
    trades = _simulated(desk, entry, order, command.now_ms)
    if not venue.charges:
        return trades
    return [
        with_fees(venue.market, trade, order, desk.entries[trade.resting_order_id].order)
        for trade in trades
    ]


def _simulated(desk: "Engine", entry: "OrderEntry", order: Order, now_ms: int) -> list[Trade]:
    """Say which trades an order would get, fees not included."""
    book = desk.book_of(entry)
    if entry.trader.venue.complementary:
        return complementary.simulate(desk, entry, order, now_ms, desk.trades_max)
    return book.simulate(order, now_ms, desk.trades_max)


def _check_replace(desk: "Engine", command: Replace) -> None:
    """Refuse what only the book can; the order's own place is not among those it would meet."""
    entry = desk.entries[command.order_id]
    venue, order = entry.trader.venue, entry.order
    if command.price == order.price and command.size < entry.remaining:
        return
    policy = command.self_trade if command.self_trade is not None else venue.self_trade
    trial = Order(
        # No order of a desk has so long an id.
        id="?" * (TEXT_MAX + 1),
        token=order.token,
        maker=order.maker,
        side=order.side,
        price=command.price,
        size=command.size,
        post_only=command.post_only,
        self_trade=policy,
    )
    _simulated(desk, entry, trial, command.now_ms)


# ----- invariants ----------------------------------------------------------------------------


def audit(desk: "Engine") -> None:
    """Check all invariants of the desk and of its books.

    Raises:
        InvariantError: one is broken, which is a bug of this package.
    """
    for venue in desk.venues.values():
        _audit_venue(desk, venue)
    _audit_accounts(desk)
    resting = sum(entry.resting for entry in desk.entries.values())
    if resting != sum(trader.count for v in desk.venues.values() for trader in v.traders.values()):
        raise InvariantError("an order rests that no maker has")
    if len(desk.entries) - resting != desk.num_finished:
        raise InvariantError("an order is neither resting nor finished")
    expiring = {n: e for due in desk.expiring.values() for n, e in due.items()}
    for entry in desk.entries.values():
        due = entry.resting and entry.order.expiration_s > 0
        if due != (expiring.get(entry.number) is entry):
            raise InvariantError(f"order {entry.order.id!r} is not where its expiration says")


def _audit_venue(desk: "Engine", venue: "MarketState") -> None:
    """Check one market against its books."""
    market, books = venue.market, (venue.yes_book, venue.no_book)
    if tuple(book.token for book in books) != (market.yes, market.no):
        raise InvariantError(f"market {market.id!r} has the books of other tokens")
    if all(book is not venue.turn for book in books):
        raise InvariantError(f"market {market.id!r} counts its events in neither of its books")
    if any(desk.tokens.get(token) != market.id for token in (market.yes, market.no) if token):
        raise InvariantError(f"a token of market {market.id!r} is not known to be its own")
    for book in books:
        book.check()
        for resting in book.orders():
            entry = desk.entries[resting.order_id]
            order = complementary.on_grid(entry, entry.order)
            seen = (order.side, order.price, entry.remaining, order.maker)
            if seen != (resting.side, resting.price, resting.remaining, resting.maker):
                raise InvariantError(f"order {resting.order_id!r} is not what rests")
    if venue.complementary and len(venue.no_book):
        raise InvariantError(f"market {market.id!r} has orders beside the one book of both tokens")
    count = 0
    for maker, trader in venue.traders.items():
        entries = amend.of_maker(venue, maker)
        count += len(entries)
        numbers = [entry.number for entry in entries]
        if len(entries) != trader.count or numbers != sorted(numbers):
            raise InvariantError(f"the orders of maker {maker!r} are miscounted or out of order")
        if not entries and not venue.has_accounts:
            raise InvariantError(f"maker {maker!r} has no orders and was not forgotten")
        if any(e.trader is not trader or not e.resting or e.removal is not None for e in entries):
            raise InvariantError(f"an order of maker {maker!r} is not what its list says")
    if count != len(venue.yes_book) + len(venue.no_book):
        raise InvariantError(f"market {venue.market.id!r} has orders of no maker")


def _audit_accounts(desk: "Engine") -> None:
    """Check that accounts hold what orders and trades need, and nothing else."""
    unsettled: dict[int, int] = {}
    for venue in desk.venues.values():
        for held in venue.pending.values():
            for account, amount in (
                (held.buyer_pays, held.paid),
                (held.seller_pays, held.size),
            ):
                unsettled[id(account)] = unsettled.get(id(account), 0) + amount
    reserved: dict[int, int] = {}
    for entry in desk.entries.values():
        if entry.resting and entry.trader.venue.has_accounts:
            reserved[id(entry.pays)] = reserved.get(id(entry.pays), 0) + entry.reserve
            if entry.reserve != needed(entry.order, entry.remaining, entry.order.price):
                raise InvariantError(f"order {entry.order.id!r} reserves what it does not need")
    for account in desk.accounts.values():
        if account.reserved != reserved.get(id(account), 0):
            raise InvariantError(f"{account.wallet!r} has reserves of no order")
        if account.unsettled != unsettled.get(id(account), 0):
            raise InvariantError(f"{account.wallet!r} holds for trades that do not wait")
