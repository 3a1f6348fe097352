"""Handlers of all commands except ``Submit`` and ``Cancel``; those about markets are here."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from clob import commands
from clob.events import Event, OrderRemoved, RemovalReason
from clob.market import Mode
from clob.matcher import (
    amend,
    batch,
    complementary,
    fund_rejections,
    order_index,
    rejections,
    settlement,
)
from clob.matcher.engine import Engine


class Handler(NamedTuple):
    """The two steps of a command; both take the engine, the command and its time."""

    check: Callable[[Engine, Any, int], None]
    """Raises the error of the first broken rule; changes nothing."""
    execute: Callable[[Engine, Any, int], list[Any]]
    """Executes a command that passed the check, and returns its events."""


def add_market(engine: Engine, command: commands.AddMarket, now_ms: int) -> list[Event]:
    """Add a market."""
    engine.open_market(command.market).seq_book.seq = engine.seq_base
    return []


def set_market(engine: Engine, command: commands.SetMarket, now_ms: int) -> list[Event]:
    """Change the terms of a market, and set its NO token if it had none."""
    market = command.market
    market_state = engine.markets[market.id]
    if market.no != market_state.market.no:
        engine.name_no(market)
    market_state.set_terms(market)
    return []


def set_mode(engine: Engine, command: commands.SetMode, now_ms: int) -> list[Event]:
    """Change the mode of a market; resolving it removes every order."""
    market_state = engine.markets[command.market]
    market_state.set_terms(msgspec.structs.replace(market_state.market, mode=command.mode))
    if command.mode is not Mode.RESOLVED:
        return []
    events: list[Event] = []
    yes, no = market_state.yes_book, market_state.no_book
    for book in (yes,) if market_state.complementary else (yes, no):
        market_state.move_seq(book)
        events += book.clear(RemovalReason.MARKET)
    if market_state.complementary:
        complementary.convert_events(engine.entry_of, market_state, events, True)
    for event in events:
        if isinstance(event, OrderRemoved):
            engine.finish(engine.awake(engine.entries[event.order_id]), event.reason)
    return events


def remove_market(engine: Engine, command: commands.RemoveMarket, now_ms: int) -> list[Event]:
    """Remove a market with its finished orders."""
    market_state = engine.drop_market(command.market)
    # One more, so that the first state of another market with this id has a number of its own.
    engine.seq_base = max(engine.seq_base, market_state.seq_book.seq + 1)
    order_index.drop_orders_of(engine, market_state)
    market_state.detach()
    return []


def set_limits(engine: Engine, command: commands.SetLimits, now_ms: int) -> list[Event]:
    """Change the limits."""
    engine.set_limits(command.limits)
    return []


def reset_clock(engine: Engine, command: commands.ResetClock, now_ms: int) -> list[Event]:
    """Keep the hashes of executed orders that are valid again; the engine sets the time."""
    for each in command.spent:
        if each.order_hash not in engine.used_hashes:
            engine.add_spent(each.order_hash, each.maker, each.nonce, each.expiration_s)
    return []


HANDLERS: Final[dict[type, Handler]] = {
    commands.Reduce: Handler(rejections.check_reduce, amend.reduce),
    commands.Replace: Handler(rejections.check_replace, amend.replace),
    commands.CancelAll: Handler(rejections.check_cancel_all, amend.cancel_all),
    commands.CancelSome: Handler(rejections.check_cancel_some, amend.cancel_some),
    commands.SetNonce: Handler(rejections.check_set_nonce, amend.set_nonce),
    commands.Expire: Handler(rejections.check_expire, amend.expire),
    commands.AddMarket: Handler(rejections.check_add_market, add_market),
    commands.SetMarket: Handler(rejections.check_set_market, set_market),
    commands.SetMode: Handler(rejections.check_set_mode, set_mode),
    commands.RemoveMarket: Handler(rejections.check_remove_market, remove_market),
    commands.SetLimits: Handler(rejections.check_set_limits, set_limits),
    commands.SetBalance: Handler(fund_rejections.check_set_balance, settlement.set_balance),
    commands.Settled: Handler(fund_rejections.check_settled, settlement.settled),
    commands.SettleFailed: Handler(fund_rejections.check_settle_failed, settlement.settle_failed),
    commands.Reopen: Handler(fund_rejections.check_reopen, settlement.reopen),
    commands.Batch: Handler(rejections.check_batch, batch.batch),
    commands.ResetClock: Handler(rejections.check_reset_clock, reset_clock),
}
