"""Settlement status of trades, and the changes of each batch.

A trade settles under its own number, both trades of a mint or merge under that of the first. Trades
that ended long ago are in history only.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from clob import PairedTrade, RejectedError, Trade
from clob_server.core.commands import EndTrades, SendTrades
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


NONE: Final = SettlementStatus("none")
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


def fate_at(tx: str, reason: str) -> SettlementStatus:
    """Return the status of an ended trade; ``reason`` is empty if it settled."""
    return SettlementStatus("failed", None, reason) if reason else SettlementStatus("settled", tx)


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
            ended.number: fate_at(ended.tx, ended.reason) for ended in settling.ended
        }
        self._last = settling.ended[-1] if settling.ended else None

    def of(self, number: int) -> SettlementStatus | None:
        """Return the status of the trade that settles under a number; None if not kept."""
        if number in self._settling.sent:
            return SUBMITTED
        return PENDING if number in self._settling.held else self._ended.get(number)

    def on_batch(self, batch: Sequence[Committed]) -> list[StatusChange]:
        """Process a committed batch; return its changes in order."""
        changes: list[StatusChange] = []
        new_ends: dict[int, EndedTrade] | None = None
        for done in batch:
            command = done.command
            if isinstance(done.outcome, RejectedError):
                continue
            if type(command) is SendTrades:
                changes += self._send(command)
            elif type(command) is EndTrades:
                new_ends = self._new_ends() if new_ends is None else new_ends
                changes += self._end(command, new_ends)
        return changes

    def _send(self, command: SendTrades) -> Iterator[StatusChange]:
        """Yield trades sent for the first time."""
        for number in command.trades:
            held = None if number in self._sent else self._settling.held.get(number)
            if held is not None:
                self._sent[number] = held
                yield StatusChange(held, SUBMITTED, command.now_ms)

    def _end(self, command: EndTrades, new_ends: dict[int, EndedTrade]) -> Iterator[StatusChange]:
        """Yield ended trades; skip unknown ones."""
        for end in command.ends:
            unsent = new_ends.pop(end.trade, None)
            held = self._sent.pop(end.trade, unsent)
            if held is None:
                continue
            fate = self._ended[end.trade] = fate_at(end.tx, end.reason)
            if len(self._ended) > self._kept:
                del self._ended[next(iter(self._ended))]
            yield StatusChange(held, fate, command.now_ms)

    def _new_ends(self) -> dict[int, EndedTrade]:
        """Return trades that ended since the last call, as far as the registry keeps them."""
        new_ends: dict[int, EndedTrade] = {}
        for ended in reversed(self._settling.ended):
            if ended is self._last:
                break
            new_ends[ended.number] = ended
        self._last = self._settling.ended[-1] if self._settling.ended else None
        return new_ends
