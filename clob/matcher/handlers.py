"""The handlers of all commands except ``Submit`` and ``Cancel``, which the engine executes."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from clob.commands import (
    AddMarket,
    Batch,
    CancelAll,
    Expire,
    Reduce,
    Replace,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
)
from clob.matcher import admin, amend, batch, rejections, settlement
from clob.matcher.engine import Engine


class Handler(NamedTuple):
    """The two steps of a command; both take the engine, the command and its time."""

    check: Callable[[Engine, Any, int], None]
    """Raises the error of the first broken rule; changes nothing."""
    execute: Callable[[Engine, Any, int], list[Any]]
    """Executes a command that passed the check, and returns its events."""


HANDLERS: Final[dict[type, Handler]] = {
    Reduce: Handler(rejections.check_reduce, amend.reduce),
    Replace: Handler(rejections.check_replace, amend.replace),
    CancelAll: Handler(rejections.check_cancel_all, amend.cancel_all),
    SetNonce: Handler(rejections.check_set_nonce, amend.set_nonce),
    Expire: Handler(rejections.check_expire, amend.expire),
    AddMarket: Handler(rejections.check_add_market, admin.add_market),
    SetMarket: Handler(rejections.check_set_market, admin.set_market),
    SetMode: Handler(rejections.check_set_mode, admin.set_mode),
    SetLimits: Handler(rejections.check_set_limits, admin.set_limits),
    SetBalance: Handler(rejections.check_set_balance, settlement.set_balance),
    Settled: Handler(rejections.check_settled, settlement.settled),
    SettleFailed: Handler(rejections.check_settle_failed, settlement.settle_failed),
    Batch: Handler(rejections.check_batch, batch.batch),
}
