"""Execution of commands about funds: balances, settled trades and failed settlements."""

from typing import TYPE_CHECKING

from clob.commands import Reopen, ReopenedTrade, SetBalance, Settled, SettleFailed
from clob.events import Event, MatchType, RemovalReason
from clob.matcher.amend import by_number, orders_in, remove_all, resting_orders
from clob.matcher.state_records import PairState, PendingState

if TYPE_CHECKING:
    from clob.matcher.engine import Engine
    from clob.matcher.entities import Account, MarketState, OrderEntry, PendingTrade


def set_balance(engine: "Engine", command: SetBalance, now_ms: int) -> list[Event]:
    """Set a balance and remove the orders it no longer covers, the newest first."""
    account = engine.account(command.wallet, command.asset)
    account.balance = command.amount
    return _uncover(engine, account, now_ms)


def _uncover(engine: "Engine", account: "Account", now_ms: int) -> list[Event]:
    """Remove the orders that the balance of an account does not cover, the newest first."""
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
    own = resting_orders(engine, account.wallet)
    paid_for = map(engine.awake, list(account.smart_wallet_orders.values()))
    entries = {entry.number: entry for entry in (*own, *paid_for)}
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
        for entry in map(engine.awake, list(payer.smart_wallet_orders.values()) if payer else ())
        if entry.maker_state.market_state is market_state
    ]
    own = orders_in(engine, market_state.makers.get(command.wallet))
    entries = {entry.number: entry for entry in own + paid_for}
    return remove_all(engine, by_number(entries.values()), RemovalReason.SETTLEMENT, now_ms)


# ----- withdrawn results ---------------------------------------------------------------------


def reopen(engine: "Engine", command: Reopen, now_ms: int) -> list[Event]:
    """Hold the amounts of trades again; move them back first if the trades had settled."""
    market_state = engine.markets[command.market]
    accounts: dict[int, Account] = {}
    for each in command.trades:
        hold(engine, market_state, each, each)
        trade = market_state.pending[each.seq]
        buyer, seller = trade.buyer_pays, trade.seller_pays
        if command.settled:
            back = -trade.paid, -trade.seller_fee, -trade.size, -trade.buyer_fee
            engine.move(market_state, buyer, trade.seller_receives, back[0], back[1])
            engine.move(market_state, seller, trade.buyer_receives, back[2], back[3])
        changed = (buyer, trade.seller_receives, seller, trade.buyer_receives)
        accounts |= {id(account): account for account in changed}
    events: list[Event] = []
    for account in accounts.values():
        events += _uncover(engine, account, now_ms)
    return events


def hold(
    engine: "Engine",
    market_state: "MarketState",
    terms: PendingState | ReopenedTrade,
    pair: PairState | ReopenedTrade,
) -> None:
    """Add a trade to the pending ones, by the names of its wallets."""
    collateral, token = market_state.market.collateral, terms.token
    amounts = (terms.paid, terms.size, terms.buyer_fee, terms.seller_fee)
    if pair.match_type is MatchType.MINT:
        accounts = engine.paired_accounts(
            engine.account(terms.buyer_pays, collateral),
            engine.account(terms.buyer_receives, token),
            True,
        )
    elif pair.match_type is MatchType.MERGE:
        accounts = engine.paired_accounts(
            engine.account(terms.seller_pays, token),
            engine.account(terms.seller_receives, collateral),
            False,
        )
    else:
        accounts = (
            engine.account(terms.buyer_pays, collateral),
            engine.account(terms.buyer_receives, token),
            engine.account(terms.seller_pays, token),
            engine.account(terms.seller_receives, collateral),
        )
    engine.add_pending(market_state, terms.seq, accounts, amounts)
    engine.link_pair(market_state, terms.seq, pair.match_type, pair.other_seq)
