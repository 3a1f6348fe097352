"""History rows of a command: its trades, and the orders that it finished."""

import logging
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from clob import (
    Batch,
    CancelAll,
    CancelSome,
    Event,
    Expire,
    OrderAdded,
    OrderRemoved,
    OrderStatus,
    Rejected,
    RejectedError,
    RemovalReason,
    Reopen,
    SetBalance,
    SetMode,
    SetNonce,
    SettleFailed,
    Submit,
    Trade,
)
from clob.errors import UnknownOrderError
from clob.journal import Outcome
from clob.status import OrderRecord
from clob_server.core.commands import SERVER, AnyCommand, EndTrades, ReviseTrades, SignatureRecord
from clob_server.core.sequencer import Steps, accepted_orders
from clob_server.core.serialize import order_body
from clob_server.core.settlement_status import settled_as
from clob_server.core.state import ServerState
from clob_server.history.candles import add_trade
from clob_server.history.positions import PositionResult, position_steps
from clob_server.history.store import EXPIRED, Row, Rows, trade_row

SETTLEMENTS: Final = frozenset({EndTrades, ReviseTrades})
"""Server commands with rows."""
BULK_COMMANDS: Final = frozenset(
    {CancelAll, CancelSome, Expire, Reopen, SetBalance, SetMode, SetNonce, SettleFailed}
)
"""Commands that may finish any number of orders, alone or in a :class:`~clob.Batch`."""

ROWS_MAX: Final = 100
"""Finished orders that are encoded in a step; each takes about 8 us."""

OrdersBefore: TypeAlias = dict[str | int, tuple[OrderRecord, SignatureRecord | None]]
"""Resting orders before a command, with their signatures."""

_REPLACED: Final = RemovalReason.REPLACED
_encode: Final = msgspec.json.Encoder().encode
_LOG: Final = logging.getLogger("clob_server.history")


class HistoryRows:
    """Rows that are not written yet."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self.waiting: Rows = Rows([], [], [], {}, [])

    def __len__(self) -> int:
        """Return the number of rows."""
        return sum(map(len, self.waiting))

    def take(self) -> Rows:
        """Return the rows, and begin with empty lists."""
        rows, self.waiting = self.waiting, Rows([], [], [], {}, [])
        return rows

    @property
    def oldest_unsettled(self) -> int:
        """Number of the oldest trade whose settlement may change; of the next trade without one."""
        ledger = self._state.registry.settling
        numbers = (next(iter(ledger.held), None), min(ledger.ended, default=None))
        known = [number for number in numbers if number is not None]
        return min(known, default=self._state.num_trades + 1)

    def orders_before(self, command: AnyCommand) -> OrdersBefore:
        """Return the resting orders if the command may finish more than the engine keeps.

        Call it before the command. Usually it returns an empty dict in O(1), else it takes
        O(resting orders).
        """
        matcher, signature = self._state.matcher, self._state.signature
        finished_max = matcher.limits.finished_max
        if len(matcher) <= finished_max or not is_bulk(command, finished_max):
            return {}
        return {
            record.order.id: (record, signature(record.order.id))
            for record in matcher.open_orders()
        }

    def add(
        self,
        seq: int,
        command: AnyCommand,
        outcome: Outcome,
        num_trades: int,
        before: OrdersBefore | None = None,
    ) -> None:
        """Add the rows of a command that was applied; see :meth:`adding`."""
        for _ in self.adding(seq, command, outcome, num_trades, before):
            pass

    def adding(
        self,
        seq: int,
        command: AnyCommand,
        outcome: Outcome,
        num_trades: int,
        before: OrdersBefore | None = None,
    ) -> Steps:
        """Add the rows of a command that was applied, ``ROWS_MAX`` orders in a step.

        Args:
            seq: number of the command.
            command: the command.
            outcome: its events, or its rejection.
            num_trades: number of trades in all markets before it.
            before: result of :meth:`orders_before`.
        """
        if isinstance(outcome, RejectedError):
            return
        now_ms = command.now_ms
        if type(command) in SERVER:
            if type(command) in SETTLEMENTS:
                for trade, tx, why in self._ends(command):  # type: ignore[arg-type]
                    self.waiting.ends.append((trade, tx, why, seq, now_ms))
                    self.waiting.positions.append(PositionResult(trade, not why))
            return
        for event in outcome:
            if isinstance(event, Trade):
                num_trades += 1
                settles = event.market in self._state.settles
                self.waiting.trades.append(
                    trade_row(event, seq, now_ms, num_trades, settles=settles)
                )
                add_trade(self.waiting.candles, event, now_ms)
                key = settled_as(event, num_trades) if settles else 0
                self.waiting.positions.extend(position_steps(event, num_trades, key))
        for number, (order_id, reason) in enumerate(finished_orders(command, outcome), 1):
            finished = self._record(order_id, reason, before or {})
            if finished is not None:
                self.waiting.orders.append(order_row(*finished, seq, now_ms))
            if number % ROWS_MAX == 0:
                yield

    def _ends(self, command: EndTrades | ReviseTrades) -> Iterator[tuple[int, str, str]]:
        """Yield number, transaction and reason of trades; both empty for a withdrawn result."""
        ledger = self._state.registry.settling
        if isinstance(command, ReviseTrades):
            yield from ((number, "", "") for number in command.trades if number in ledger.held)
            return
        kept = ledger.ended
        for end in command.ends:
            ended = kept.get(end.trade)
            if ended is None or (ended.tx, ended.reason) == (end.tx, end.reason):
                yield end.trade, end.tx, end.reason

    def _record(
        self, order_id: str | int, reason: RemovalReason | None, before: OrdersBefore
    ) -> tuple[OrderRecord, SignatureRecord | None] | None:
        """Return the record of a finished order.

        None if the engine already dropped it: one command made more trades than finished orders
        are kept.
        """
        try:
            record = self._state.matcher.order(order_id)
        except UnknownOrderError:
            if order_id not in before:
                _LOG.warning(
                    "finished order missing from history", extra={"order_id": str(order_id)}
                )
                return None
            record, signature = before[order_id]
            cancelled = msgspec.structs.replace(
                record, status=OrderStatus.CANCELLED, remaining=0, removal=reason
            )
            return cancelled, signature
        return record, self._state.signature(order_id)


def is_bulk(command: AnyCommand, finished_max: int) -> bool:
    """Return whether a command may finish more than ``finished_max`` resting orders."""
    if type(command) is not Batch:
        return type(command) in BULK_COMMANDS
    commands = command.commands
    return len(commands) > finished_max or any(type(each) in BULK_COMMANDS for each in commands)


def finished_orders(
    command: AnyCommand, events: Sequence[Event | Rejected]
) -> Iterator[tuple[str | int, RemovalReason | None]]:
    """Yield the ids of finished orders, each with its removal reason if it rested."""
    if type(command) is Submit and len(events) == 1 and type(events[0]) is OrderAdded:
        return
    rested: set[str | int] = set()
    moved: dict[str | int, None] = {}
    for event in events:
        if type(event) is OrderAdded:
            rested.add(event.order_id)
            moved.pop(event.order_id, None)
        elif type(event) is OrderRemoved:
            if event.reason is _REPLACED:
                moved[event.order_id] = None
            else:
                yield event.order_id, event.reason
    for submit in accepted_orders(command, events):
        if submit.order.id not in rested:
            yield submit.order.id, None
    for order_id in moved:
        yield order_id, None


def order_row(record: OrderRecord, signature: SignatureRecord | None, seq: int, now_ms: int) -> Row:
    """Return the row of a finished order."""
    order = record.order
    return (
        str(order.id),
        record.order_hash,
        record.market,
        order.token,
        int(order.side),
        order.maker,
        record.client_id,
        EXPIRED if record.removal is RemovalReason.EXPIRED else record.status.value,
        seq,
        now_ms,
        _encode(order_body(record, signature)),
    )
