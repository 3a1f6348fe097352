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
    from clob.matcher.engine import Desk


class Door(NamedTuple):
    """The two halves of a command."""

    refuse: Callable[["Desk", Any, int], None]
    execute: Callable[["Desk", Any, int], list[Any]]


DOORS: dict[type, Door] = {
    Reduce: Door(amend.refuse_reduce, amend.reduce),
    Replace: Door(amend.refuse_replace, amend.replace),
    CancelAll: Door(amend.refuse_cancel_all, amend.cancel_all),
    SetNonce: Door(amend.refuse_set_nonce, amend.set_nonce),
    Expire: Door(amend.refuse_expire, amend.expire),
    AddMarket: Door(admin.refuse_add_market, admin.add_market),
    SetMarket: Door(admin.refuse_set_market, admin.set_market),
    SetMode: Door(admin.refuse_set_mode, admin.set_mode),
    SetLimits: Door(admin.refuse_set_limits, admin.set_limits),
    SetBalance: Door(settlement.refuse_set_balance, settlement.set_balance),
    Settled: Door(settlement.refuse_settled, settlement.settled),
    SettleFailed: Door(settlement.refuse_settle_failed, settlement.settle_failed),
    Batch: Door(batch.refuse_batch, batch.batch),
}


def door_of(desk: "Desk", command: Any) -> Door:
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


def execute(desk: "Desk", command: Any) -> list[Any]:
    """Refuse a command, or execute it and let its time be the last."""
    door = door_of(desk, command)
    door.refuse(desk, command, command.now_ms)
    events = door.execute(desk, command, command.now_ms)
    desk.now_ms = command.now_ms
    return events


def execute_at(desk: "Desk", command: Any, now_ms: int) -> list[Any]:
    """Refuse or execute a command of a batch, at the time of the batch."""
    door = DOORS[type(command)]
    door.refuse(desk, command, now_ms)
    return door.execute(desk, command, now_ms)
