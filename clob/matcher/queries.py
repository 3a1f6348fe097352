"""Reads that leave the engine unchanged: records of orders, trial execution, invariants."""

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from clob.book.validation import show
from clob.commands import Batch, Cancel, Command, Replace, SpentHash, Submit
from clob.errors import (
    InsufficientBalanceError,
    InvalidCommandError,
    InvariantError,
    RejectedError,
)
from clob.events import Trade
from clob.market import Balance
from clob.matcher import batch, complementary, rejections
from clob.matcher.amend import by_number, orders_in, resting_orders, states_of
from clob.matcher.amounts import needed, with_fees, with_policy
from clob.order import Order
from clob.status import OrderRecord, filled_amount, status_of
from clob.units import TEXT_MAX, collateral_of

if TYPE_CHECKING:
    from clob.matcher.engine import Engine
    from clob.matcher.entities import Account, MakerState, MarketState, OrderEntry


def record_of(entry: "OrderEntry") -> OrderRecord:
    """Return the public record of an order."""
    order, submitted = entry.order, entry.submitted
    filled, amount = order.size - entry.remaining, 0
    if filled:
        whole = submitted.collateral
        if whole is None:
            whole = collateral_of(submitted.size, submitted.price)
        # A replacement may have enlarged the order.
        amount = filled_amount(order.side, min(filled, submitted.size), submitted.size, whole)
    return OrderRecord(
        market=entry.maker_state.market_state.market.id,
        order=submitted,
        price=order.price,
        size=order.size,
        status=status_of(traded=filled > 0, left=entry.remaining > 0, resting=entry.resting),
        filled=filled,
        remaining=entry.remaining if entry.resting else 0,
        filled_amount=amount,
        filled_collateral=entry.filled_collateral,
        number=entry.number,
        accepted_ms=entry.accepted_ms,
        removal=entry.removal,
        client_id=entry.client_id,
        order_hash=entry.order_hash,
    )


def open_orders(engine: "Engine", maker: str | None, market: str | None) -> list["OrderEntry"]:
    """Return resting orders in the order of acceptance."""
    market_state = None if market is None else rejections.find_market(engine, market)
    return resting_orders(engine, maker, market_state, wake=False)


def awake_orders(engine: "Engine") -> list["OrderEntry"]:
    """Return the resting orders that are not asleep, see :class:`OrderIndex`."""
    entries: list[OrderEntry] = []
    for market_state in engine.markets.values():
        for maker_state in market_state.makers.values():
            entry = maker_state.first
            while entry is not None:
                entries.append(entry)
                entry = entry.after
    return by_number(entries)


def balance_of(account: "Account | None") -> Balance:
    """Return the public balance of an account; zeros for an unused one."""
    if account is None:
        return Balance(0, 0, 0)
    return Balance(account.balance, account.reserved, account.unsettled)


def next_expiry_s(engine: "Engine") -> int | None:
    """Return the earliest expiration of a resting order or a kept hash."""
    seconds = (engine.expiring, engine.spent_by_expiry)
    return min((each.peekitem(0)[0] for each in seconds if each), default=None)


def spent_hashes(engine: "Engine") -> list[SpentHash]:
    """Return the hashes of executed signed orders with the terms that end their validity."""
    spent: list[SpentHash] = []
    for order_hash, kept in engine.used_hashes.items():
        if type(kept) is tuple:
            spent.append(SpentHash(order_hash, *kept))
        else:
            entry = engine.peek(kept)
            order, maker = entry.order, entry.maker_state.maker
            spent.append(SpentHash(order_hash, maker, order.nonce, order.expiration_s))
    return spent


# ----- trial execution -----------------------------------------------------------------------


def rejection_of(engine: "Engine", command: Command) -> RejectedError | None:
    """Return the error that a command would be rejected with, or None."""
    try:
        # Exact types, as in Engine.execute: subclasses of commands are invalid.
        if type(command) is Submit:
            simulate(engine, command)
        elif type(command) is Cancel:
            engine.check_time(command.now_ms)
            rejections.check_cancel(engine, command)
        else:
            handler = engine.handler_of(command)
            handler.check(engine, command, command.now_ms)
            if type(command) is Replace:
                _check_replace_in_book(engine, command)
            elif type(command) is Batch and command.atomic:
                _try_batch(engine, command)
    except RejectedError as error:
        return error
    return None


def _try_batch(engine: "Engine", command: Batch) -> None:
    """Execute an atomic batch and roll it back; an interruption leaves the engine busy."""
    engine.busy = True
    try:
        batch.all_or_none(engine, command, command.now_ms, keep=False)
    except RejectedError:
        engine.busy = False
        raise
    engine.busy = False


def simulate(engine: "Engine", command: Submit, *, check_balance: bool = True) -> list[Trade]:
    """Return the trades an order would get, fees included."""
    if type(command) is not Submit:
        raise InvalidCommandError(f"command must be a Submit; got {show(command)}")
    engine.check_time(command.now_ms)
    order = rejections.plain_order(command, command.now_ms)
    try:
        entry = engine.admit(command, order, command.now_ms)
    except InsufficientBalanceError:  # the last rule, so the order keeps all others
        if check_balance:
            raise
        entry = engine.entry_for(engine.markets[command.market], order)
    market_state = engine.markets[command.market]
    if order.self_trade is None and market_state.self_trade:
        order = with_policy(order, market_state.self_trade)
    trades = _simulate_in_book(engine, entry, order, command.now_ms)
    if not market_state.has_fees:
        return trades
    return [
        with_fees(
            market_state.market,
            trade,
            order,
            engine.entry_of(trade.resting_order_id).order,
        )
        for trade in trades
    ]


def _simulate_in_book(
    engine: "Engine", entry: "OrderEntry", order: Order, now_ms: int
) -> list[Trade]:
    book = engine.book_of(entry)
    if entry.maker_state.market_state.complementary:
        return complementary.simulate(engine.entry_of, entry, order, now_ms, engine.trades_max)
    return book.simulate(order, now_ms, engine.trades_max)


def _check_replace_in_book(engine: "Engine", command: Replace) -> None:
    """Check the book's rules on a replacement; its own resting order cannot match it."""
    entry = engine.entry_of(command.order_id)
    market_state, order = entry.maker_state.market_state, entry.order
    if command.price == order.price and command.size < entry.remaining:
        return
    policy = command.self_trade if command.self_trade is not None else market_state.self_trade
    trial = Order(
        # Longer than any accepted id, so it is unused.
        id="?" * (TEXT_MAX + 1),
        token=order.token,
        maker=order.maker,
        side=order.side,
        price=command.price,
        size=command.size,
        post_only=command.post_only,
        self_trade=policy,
    )
    _simulate_in_book(engine, entry, trial, command.now_ms)


# ----- invariants ----------------------------------------------------------------------------


def audit(engine: "Engine") -> None:
    """Check all invariants of the engine and its books; raise ``InvariantError``."""
    for market_state in engine.markets.values():
        _audit_market(engine, market_state)
    _audit_accounts(engine)
    collaterals = Counter(each.market.collateral for each in engine.markets.values())
    if engine.collaterals != collaterals:
        raise InvariantError("the markets are miscounted by collateral")
    resting = sum(engine.peek(found).resting for found in engine.entries.values())
    states = [maker for each in engine.markets.values() for maker in each.makers.values()]
    if resting != sum(maker.count for maker in states):
        raise InvariantError("a resting order is missing from its maker's list")
    _audit_makers(engine, [maker for maker in states if maker.count])
    if len(engine.entries) - resting != engine.num_finished:
        raise InvariantError("an order is neither resting nor finished")
    expiring = {n: e for due in engine.expiring.values() for n, e in due.items()}
    for found in engine.entries.values():
        entry = engine.peek(found)
        due = entry.resting and entry.order.expiration_s > 0
        if due != (expiring.get(entry.number) == found):
            raise InvariantError(f"order {entry.order.id!r} is not indexed by its expiration")


def _audit_makers(engine: "Engine", states: "list[MakerState]") -> None:
    """Check that the states of makers with resting orders are linked."""
    linked = list(states_of(engine, None))
    if len(linked) != len(states) or set(linked) != set(states):
        raise InvariantError("a maker with resting orders is missing from the index of makers")
    for maker, first in engine.makers.items():
        state: MakerState | None = first
        previous = None
        while state is not None:
            if state.maker != maker or state.previous_market is not previous:
                raise InvariantError(f"the markets of maker {maker!r} are linked wrongly")
            state, previous = state.next_market, state


def _audit_market(engine: "Engine", market_state: "MarketState") -> None:
    market, books = market_state.market, (market_state.yes_book, market_state.no_book)
    if tuple(book.token for book in books) != (market.yes, market.no):
        raise InvariantError(f"market {market.id!r} has books of other tokens")
    if all(book is not market_state.seq_book for book in books):
        raise InvariantError(f"market {market.id!r} numbers its events in neither of its books")
    if any(engine.tokens.get(token) != market.id for token in (market.yes, market.no) if token):
        raise InvariantError(f"a token of market {market.id!r} is indexed elsewhere")
    for book in books:
        book.check()
        for resting in book.orders():
            entry = engine.entry_of(resting.order_id)
            order = complementary.on_grid(entry, entry.order)
            expected = (order.side, order.price, entry.remaining, order.maker)
            if expected != (resting.side, resting.price, resting.remaining, resting.maker):
                raise InvariantError(f"order {resting.order_id!r} differs from the resting order")
    if market_state.complementary and len(market_state.no_book):
        raise InvariantError(f"market {market.id!r} is complementary and has orders in its NO book")
    count = 0
    for maker, maker_state in market_state.makers.items():
        entries = orders_in(engine, maker_state, wake=False)
        count += len(entries)
        numbers = [entry.number for entry in entries]
        if len(entries) != maker_state.count or numbers != sorted(numbers):
            raise InvariantError(f"the orders of maker {maker!r} are miscounted or out of order")
        if not entries and not market_state.has_accounts:
            raise InvariantError(f"maker {maker!r} has no orders and was not dropped")
        for entry in entries:
            is_removed = not entry.resting or entry.removal is not None
            if entry.maker_state is not maker_state or is_removed:
                raise InvariantError(f"an order in the list of maker {maker!r} does not belong")
    if count != len(market_state.yes_book) + len(market_state.no_book):
        raise InvariantError(f"market {market.id!r} has orders without a maker")


def _audit_accounts(engine: "Engine") -> None:
    """Check that accounts hold exactly the amounts that orders and pending trades need."""
    unsettled: dict[int, int] = {}
    for market_state in engine.markets.values():
        for pending in market_state.pending.values():
            buyer, seller = pending.buyer_pays, pending.seller_pays
            for account, amount in ((buyer, pending.paid), (seller, pending.size)):
                unsettled[id(account)] = unsettled.get(id(account), 0) + amount
    reserved: dict[int, int] = {}
    for entry in map(engine.peek, engine.entries.values()):
        if entry.resting and entry.maker_state.market_state.has_accounts:
            reserved[id(entry.pays)] = reserved.get(id(entry.pays), 0) + entry.reserve
            if entry.reserve != needed(entry.order, entry.remaining, entry.order.price):
                raise InvariantError(f"order {entry.order.id!r} reserves a wrong amount")
    for account in engine.accounts.values():
        if account.reserved != reserved.get(id(account), 0):
            raise InvariantError(f"{account.wallet!r} has a reserve without an order")
        if account.unsettled != unsettled.get(id(account), 0):
            raise InvariantError(f"{account.wallet!r} holds an amount without a pending trade")


def markets_html(engine: "Engine") -> str:
    """Return the first markets of an engine with their best prices of YES, as an HTML table."""
    from clob import notebook  # noqa: PLC0415 - `import clob` starts without it

    if engine.busy:
        return notebook.table(["Matcher", "busy"], (), ())
    shown = list(islice(engine.markets.values(), notebook.ROWS_MAX))
    rows = [
        (
            notebook.short_name(state.market.id),
            state.mode.name,
            f"{len(state.yes_book) + len(state.no_book):,}",
            notebook.cents(state.yes_book.best_bid),
            notebook.cents(state.yes_book.best_ask),
            f"{state.seq_book.seq:,}",
        )
        for state in shown
    ]
    count, orders = len(engine.markets), len(engine.entries) - engine.num_finished
    head = ["Matcher", notebook.counted(count, "market"), notebook.counted(orders, "order")]
    titles = ("market", "mode", "orders", "YES bid", "YES ask", "seq")
    return notebook.table([*head, f"now_ms {engine.now_ms}"], titles, rows, more=count - len(shown))
