"""The commands beside submitting and cancelling: for each, what refuses it and what executes it.

``refuse`` looks and raises, ``execute`` does what nothing refused, so that a matcher can say what
it would refuse without doing it. Both take the desk, the command and its time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from clob.book.validation import show
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
from clob.errors import InvalidCommandError
from clob.matcher import admin, amend, batch, settlement

if TYPE_CHECKING:
    from clob.matcher.engine import Engine


class Handler(NamedTuple):
    """The two halves of a command."""

    refuse: Callable[["Engine", Any, int], None]
    execute: Callable[["Engine", Any, int], list[Any]]


DOORS: dict[type, Handler] = {
    Reduce: Handler(amend.refuse_reduce, amend.reduce),
    Replace: Handler(amend.refuse_replace, amend.replace),
    CancelAll: Handler(amend.refuse_cancel_all, amend.cancel_all),
    SetNonce: Handler(amend.refuse_set_nonce, amend.set_nonce),
    Expire: Handler(amend.refuse_expire, amend.expire),
    AddMarket: Handler(admin.refuse_add_market, admin.add_market),
    SetMarket: Handler(admin.refuse_set_market, admin.set_market),
    SetMode: Handler(admin.refuse_set_mode, admin.set_mode),
    SetLimits: Handler(admin.refuse_set_limits, admin.set_limits),
    SetBalance: Handler(settlement.refuse_set_balance, settlement.set_balance),
    Settled: Handler(settlement.refuse_settled, settlement.settled),
    SettleFailed: Handler(settlement.refuse_settle_failed, settlement.settle_failed),
    Batch: Handler(batch.refuse_batch, batch.batch),
}


def door_of(desk: "Engine", command: Any) -> Handler:
    """Find the door of a command and check its time.

    Raises:
        InvalidCommandError: it is no command.
        InvalidTimeError: its time is none.
        ClockWentBackError: its time lies before that of the last command applied.
    """
    door = DOORS.get(type(command))
    if door is None:
        raise InvalidCommandError(f"a command is needed, not {show(command)}")
    desk.check_time(command.now_ms)
    return door


def execute(desk: "Engine", command: Any) -> list[Any]:
    """Refuse a command, or execute it and let its time be the last."""
    door = door_of(desk, command)
    door.refuse(desk, command, command.now_ms)
    events = door.execute(desk, command, command.now_ms)
    desk.now_ms = command.now_ms
    return events


def execute_at(desk: "Engine", command: Any, now_ms: int) -> list[Any]:
    """Refuse or execute a command of a batch, at the time of the batch."""
    door = DOORS[type(command)]
    door.refuse(desk, command, now_ms)
    return door.execute(desk, command, now_ms)
