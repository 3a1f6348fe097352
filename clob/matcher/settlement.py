"""Execution of commands about funds: balances, settled trades and failed settlements."""

from typing import TYPE_CHECKING

from clob.commands import SetBalance, Settled, SettleFailed
from clob.events import Event, RemovalReason
from clob.matcher.amend import by_number, orders_of_maker, remove_all

if TYPE_CHECKING:
    from clob.matcher.engine import Engine
    from clob.matcher.entities import Account, MarketState, OrderEntry, PendingTrade


def set_balance(engine: "Engine", command: SetBalance, now_ms: int) -> list[Event]:
    """Set a balance and remove the orders it no longer covers, the newest first."""
    account = engine.account(command.wallet, command.asset)
    account.balance = command.amount
    events: list[Event] = []
    if account.balance >= account.reserved + account.unsettled:
        return events
    for entry in reversed(_orders_paid_from(engine, account)):
        if account.balance >= account.reserved + account.unsettled:
            break
        events += remove_all(engine, [entry], RemovalReason.SETTLEMENT, now_ms)
    return events


def _orders_paid_from(engine: "Engine", account: "Account") -> list["OrderEntry"]:
    """Return the resting orders with a reserve in an account, in the order of acceptance."""
    own = [e for state in engine.markets.values() for e in orders_of_maker(state, account.wallet)]
    entries = {entry.number: entry for entry in (*own, *account.smart_wallet_orders.values())}
    return by_number(entry for entry in entries.values() if entry.pays is account)


def _pop_pending(market_state: "MarketState", seq: int) -> "PendingTrade":
    """Remove a pending trade and release the amounts it holds."""
    pending = market_state.pending.pop(seq)
    pending.buyer_pays.unsettled -= pending.paid
    pending.seller_pays.unsettled -= pending.size
    return pending


def settled(engine: "Engine", command: Settled, now_ms: int) -> list[Event]:
    """Move the amounts of settled trades."""
    market_state = engine.markets[command.market]
    for seq in command.trades:
        trade = _pop_pending(market_state, seq)
        buyer, seller = trade.buyer_pays, trade.seller_pays
        engine.move(market_state, buyer, trade.seller_receives, trade.paid, trade.seller_fee)
        engine.move(market_state, seller, trade.buyer_receives, trade.size, trade.buyer_fee)
    return []


def settle_failed(engine: "Engine", command: SettleFailed, now_ms: int) -> list[Event]:
    """Release the amounts of a failed trade; remove the orders of the blamed wallet."""
    market_state = engine.markets[command.market]
    pending = _pop_pending(market_state, command.trade)
    if pending.other_seq:
        _pop_pending(market_state, pending.other_seq)
    if command.wallet is None:
        return []
    payer = engine.accounts.get((command.wallet, market_state.market.collateral))
    paid_for = [
        entry
        for entry in (payer.smart_wallet_orders.values() if payer else ())
        if entry.maker_state.market_state is market_state
    ]
    own = orders_of_maker(market_state, command.wallet)
    entries = {entry.number: entry for entry in own + paid_for}
    return remove_all(engine, by_number(entries.values()), RemovalReason.SETTLEMENT, now_ms)
