"""The commands beside submitting and cancelling: for each, what refuses it and what executes it.

``refuse`` looks and raises, ``execute`` does what nothing refused, so that a matcher can say what
it would refuse without doing it. Both take the desk, the command and its time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from clob import _batches, _funds, _markets, _orders
from clob._checks import show
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

if TYPE_CHECKING:
    from clob._desk_py import Desk


class Door(NamedTuple):
    """The two halves of a command."""

    refuse: Callable[["Desk", Any, int], None]
    execute: Callable[["Desk", Any, int], list[Any]]


DOORS: dict[type, Door] = {
    Reduce: Door(_orders.refuse_reduce, _orders.reduce),
    Replace: Door(_orders.refuse_replace, _orders.replace),
    CancelAll: Door(_orders.refuse_cancel_all, _orders.cancel_all),
    SetNonce: Door(_orders.refuse_set_nonce, _orders.set_nonce),
    Expire: Door(_orders.refuse_expire, _orders.expire),
    AddMarket: Door(_markets.refuse_add_market, _markets.add_market),
    SetMarket: Door(_markets.refuse_set_market, _markets.set_market),
    SetMode: Door(_markets.refuse_set_mode, _markets.set_mode),
    SetLimits: Door(_markets.refuse_set_limits, _markets.set_limits),
    SetBalance: Door(_funds.refuse_set_balance, _funds.set_balance),
    Settled: Door(_funds.refuse_settled, _funds.settled),
    SettleFailed: Door(_funds.refuse_settle_failed, _funds.settle_failed),
    Batch: Door(_batches.refuse_batch, _batches.batch),
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
