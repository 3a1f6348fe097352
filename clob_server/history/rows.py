"""From what came of a command to the rows of history: trades, and what finished by it."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from clob import (
    Batch,
    CancelAll,
    Event,
    Expire,
    OrderAdded,
    OrderRemoved,
    OrderStatus,
    Rejected,
    RejectedError,
    RemovalReason,
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
from clob_server.core.commands import SERVER, AnyCommand, EndTrades, SignatureRecord
from clob_server.core.serialize import order_body
from clob_server.core.state import ServerState
from clob_server.history.store import Row, trade_row

MANY: Final = frozenset({CancelAll, Expire, SetBalance, SetMode, SetNonce, SettleFailed})
"""The commands that may finish any number of orders at once."""

Known: TypeAlias = dict[str | int, tuple[OrderRecord, SignatureRecord | None]]
"""Resting orders as they were before a command, with their papers."""

_REPLACED: Final = RemovalReason.REPLACED
_encode: Final = msgspec.json.Encoder().encode
_LOG: Final = logging.getLogger("clob_server.history")


class HistoryRows:
    """Rows that wait to be written.

    Args:
        exchange: what the commands change.
    """

    def __init__(self, exchange: ServerState) -> None:
        self._exchange = exchange
        self.orders: list[Row] = []
        """Rows of orders."""
        self.trades: list[Row] = []
        """Rows of trades."""
        self.ends: list[Row] = []
        """Rows of settlements that came to an end."""

    def __len__(self) -> int:
        """How many rows wait."""
        return len(self.orders) + len(self.trades) + len(self.ends)

    def clear(self) -> None:
        """Let go of the rows."""
        self.orders, self.trades, self.ends = [], [], []

    def known(self, command: AnyCommand) -> Known:
        """Note, before a command, the orders of which it may finish more than stay readable.

        In most cases it is none. O(resting orders) where it is not.
        """
        matcher, papers = self._exchange.matcher, self._exchange.registry.papers
        if type(command) not in MANY or len(matcher) <= matcher.limits.finished_max:
            return {}
        return {
            record.order.id: (record, papers.get(record.order.id))
            for record in matcher.open_orders()
        }

    def take(
        self,
        seq: int,
        command: AnyCommand,
        outcome: Outcome,
        num_trades: int,
        known: Known | None = None,
    ) -> None:
        """Make the rows of a command that is done.

        Args:
            seq: its number.
            command: the command.
            outcome: what came of it.
            num_trades: how many trades there were before it.
            known: what was noted before it.
        """
        if isinstance(outcome, RejectedError):
            return
        now_ms = command.now_ms
        if type(command) in SERVER:
            if type(command) is EndTrades:
                ends = command.ends
                self.ends += [(each.trade, each.tx, each.reason, seq, now_ms) for each in ends]
            return
        for event in outcome:
            if isinstance(event, Trade):
                num_trades += 1
                settles = event.market in self._exchange.settles
                self.trades.append(trade_row(event, seq, now_ms, num_trades, settles=settles))
        for order_id, reason in finished_by(command, outcome):
            found = self._record(order_id, reason, known or {})
            if found is not None:
                self.orders.append(order_row(*found, seq, now_ms))

    def _record(
        self, order_id: str | int, reason: RemovalReason | None, known: Known
    ) -> tuple[OrderRecord, SignatureRecord | None] | None:
        """Give all that is known of an order that was just finished.

        None where one command made more trades than finished orders stay readable, so that the
        engine has let go of this one already.
        """
        try:
            record = self._exchange.matcher.order(order_id)
        except UnknownOrderError:
            if order_id not in known:
                _LOG.warning("an order finished unseen", extra={"order_id": str(order_id)})
                return None
            record, papers = known[order_id]
            cancelled = msgspec.structs.replace(
                record, status=OrderStatus.CANCELLED, remaining=0, removal=reason
            )
            return cancelled, papers
        return record, self._exchange.registry.papers.get(order_id)


def finished_by(
    command: AnyCommand, events: Sequence[Event | Rejected]
) -> Iterator[tuple[str | int, RemovalReason | None]]:
    """Name the orders that a command finished, each with why it left the book, if it was in one."""
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
    for order_id in submitted(command, events):
        if order_id not in rested:
            yield order_id, None
    for order_id in moved:
        yield order_id, None


def submitted(command: AnyCommand, events: Sequence[Event | Rejected]) -> Iterable[str | int]:
    """Name the orders that a command brought in and that were accepted."""
    if type(command) is Submit:
        return (command.order.id,)
    if type(command) is not Batch:
        return ()
    refused = {event.index for event in events if type(event) is Rejected}
    return [
        each.order.id
        for index, each in enumerate(command.commands)
        if type(each) is Submit and index not in refused
    ]


def order_row(record: OrderRecord, papers: SignatureRecord | None, seq: int, now_ms: int) -> Row:
    """Write a finished order as a row."""
    order = record.order
    return (
        str(order.id),
        record.order_hash,
        record.market,
        order.maker,
        record.client_id,
        record.status.value,
        seq,
        now_ms,
        _encode(order_body(record, papers)),
    )
