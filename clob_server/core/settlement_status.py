"""Settlement status of trades, and the changes of each batch.

A trade settles under its own number, both trades of a mint or merge under that of the first. Trades
that ended long ago are in history only.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from clob import PairedTrade, RejectedError, Trade
from clob_server.core.commands import EndTrades, FollowChain, ReviseTrades, SendTrades, TradeEnd
from clob_server.core.sequencer import Committed
from clob_server.core.settlement_ledger import EndedTrade, SettlementLedger, SettlingTrade

ENDED_KEPT: Final = 10_000
"""Ended trades kept in memory."""


class SettlementStatus(NamedTuple):
    """Settlement status of a trade."""

    settlement: str
    """``none``, ``pending``, ``submitted``, ``settled`` or ``failed``."""
    tx_hash: str | None = None
    """The settling transaction."""
    reason: str | None = None
    """Reason of a failure."""
    is_final: bool = False
    """Whether it stays: no reorganisation of the chain removes it."""


NONE: Final = SettlementStatus("none", is_final=True)
"""The market does not settle."""
PENDING: Final = SettlementStatus("pending")
"""The trade is not sent yet."""
SUBMITTED: Final = SettlementStatus("submitted")
"""The trade was sent to the chain."""


class StatusChange(NamedTuple):
    """A change of status of a trade, or of both trades of a mint or merge."""

    held: SettlingTrade
    fate: SettlementStatus
    """The new status."""
    now_ms: int
    """Time of the change, Unix milliseconds."""
    revision: str = ""
    """Reason for which an earlier result was withdrawn; empty if none was."""
    before: SettlementStatus = PENDING
    """The status until then."""


def fate_at(tx: str, reason: str, *, is_final: bool = True) -> SettlementStatus:
    """Return the status of an ended trade; ``reason`` is empty if it settled.

    Without a transaction its result was withdrawn, and it is pending again.
    """
    if not tx:
        return PENDING
    if reason:
        return SettlementStatus("failed", None, reason, is_final)
    return SettlementStatus("settled", tx, None, is_final)


def settled_as(trade: Trade, number: int) -> int:
    """Return the number under which a trade settles, from its number among all trades."""
    return number - (isinstance(trade, PairedTrade) and not trade.is_incoming)


class SettlementStatuses:
    """Status of recent trades; must receive every batch.

    Args:
        settling: the ledger, before the first batch.
    """

    def __init__(self, settling: SettlementLedger, kept: int = ENDED_KEPT) -> None:
        self._settling = settling
        self._kept = kept
        self._sent: dict[int, SettlingTrade] = {
            number: settling.held[number] for number in settling.sent
        }
        self._ended: dict[int, SettlementStatus] = {
            number: self._fate(ended) for number, ended in settling.ended.items()
        }
        self._open: dict[int, None] = dict.fromkeys(
            number for number, fate in self._ended.items() if not fate.is_final
        )

    def of(self, number: int) -> SettlementStatus | None:
        """Return the status of the trade that settles under a number; None if not kept."""
        settling = self._settling
        if number in settling.sent:
            return SUBMITTED
        if number in settling.held:
            return PENDING
        ended = settling.ended.get(number)
        if ended is not None:
            return self._fate(ended)
        known = self._ended.get(number)  # the ledger drops final ones only
        return known if known is None or known.is_final else known._replace(is_final=True)

    def _fate(self, ended: EndedTrade) -> SettlementStatus:
        """Return the status of an ended trade."""
        is_final = self._settling.is_final(ended.number)
        return fate_at(ended.tx, ended.reason, is_final=is_final)

    def on_batch(self, batch: Sequence[Committed]) -> list[StatusChange]:
        """Process a committed batch; return the changes of its trades, one for each trade."""
        touched: dict[int, int] = {}
        revised: dict[int, str] = {}
        ends: dict[int, TradeEnd] = {}
        for done in batch:
            command = done.command
            if isinstance(done.outcome, RejectedError):
                continue
            if type(command) is SendTrades:
                touched |= dict.fromkeys(command.trades, command.now_ms)
            elif type(command) is EndTrades:
                ends |= {end.trade: end for end in command.ends}
                touched |= dict.fromkeys(ends, command.now_ms)
            elif type(command) is ReviseTrades:
                touched |= dict.fromkeys(command.trades, command.now_ms)
                revised |= dict.fromkeys(command.trades, command.reason)
            elif type(command) is FollowChain:
                touched |= dict.fromkeys(self._open, command.now_ms)
        changes = []
        for number, now_ms in touched.items():
            change = self._change(number, now_ms, ends.get(number))
            if change is not None:
                changes.append(change._replace(revision=revised.get(number, "")))
        return changes

    def _change(self, number: int, now_ms: int, end: TradeEnd | None) -> StatusChange | None:
        """Return the change of a trade since its last one; None without one."""
        settling = self._settling
        before = self._ended.get(number, SUBMITTED if number in self._sent else PENDING)
        trade = settling.held.get(number) or settling.ended.get(number) or self._sent.get(number)
        status = self.of(number)
        if status is None and trade is not None and end is not None:  # the ledger dropped it
            status = fate_at(end.tx, end.reason)
        if status is None or status == before:
            return None
        self._sent.pop(number, None)
        self._open.pop(number, None)
        if status in (SUBMITTED, PENDING):
            self._ended.pop(number, None)
        else:
            self._ended[number] = status
            if not status.is_final:
                self._open[number] = None
            first = next(iter(self._ended))
            if len(self._ended) > self._kept and first not in settling.ended:
                del self._ended[first]
        if trade is None:
            return None
        if status is SUBMITTED:
            self._sent[number] = trade
        return StatusChange(trade, status, now_ms, before=before)
