"""How the settlement of trades stands: what is at hand of it, and each change as it comes.

A trade is settled under a number of its own, and both trades of a mint or a merge under that of the
first. What came to an end long ago is no longer at hand, but in history.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from clob import PairedTrade, RejectedError, Trade
from clob_server.core.commands import EndTrades, SendTrades
from clob_server.core.settlement_ledger import Ended, Held, Settling

if TYPE_CHECKING:
    from clob_server.core.sequencer import Committed

ENDED_KEPT: Final = 10_000
"""How many trades that came to an end since the process began stay at hand."""


class Fate(NamedTuple):
    """How the settlement of a trade stands."""

    settlement: str
    """``none``, ``pending``, ``submitted``, ``settled`` or ``failed``."""
    tx_hash: str | None = None
    """The transaction that settled it."""
    reason: str | None = None
    """Why it failed."""


NONE: Final = Fate("none")
"""A trade that settles nowhere."""
PENDING: Final = Fate("pending")
"""A trade that waits for its turn."""
SUBMITTED: Final = Fate("submitted")
"""A trade that the chain was asked for."""


class StatusChange(NamedTuple):
    """A trade, or both of a mint or a merge, that stand differently from now on."""

    held: Held | Ended
    """What it is."""
    fate: Fate
    """How it stands."""
    now_ms: int
    """Since when, Unix milliseconds."""


def fate_at(tx: str, reason: str) -> Fate:
    """Give how a trade stands that came to an end.

    Args:
        tx: the transaction.
        reason: why it failed; empty where it was settled.
    """
    return Fate("failed", None, reason) if reason else Fate("settled", tx)


def settled_as(trade: Trade, number: int) -> int:
    """Give the number under which a trade is settled.

    Args:
        trade: the trade.
        number: which of all trades of the server it is.
    """
    return number - (isinstance(trade, PairedTrade) and not trade.is_incoming)


class Fates:
    """How trades stand, as far as that is at hand. It has to hear of every batch.

    Args:
        settling: what changes, at the moment from which on every batch is heard of.
        kept: how many that came to an end stay at hand.
    """

    def __init__(self, settling: Settling, kept: int = ENDED_KEPT) -> None:
        self._settling = settling
        self._kept = kept
        self._sent: dict[int, Held | Ended] = {
            number: settling.held[number] for number in settling.sent
        }
        self._ended: dict[int, Fate] = {
            ended.halves[0].number: fate_at(ended.tx, ended.reason) for ended in settling.ended
        }
        self._last = settling.ended[-1] if settling.ended else None

    def of(self, number: int) -> Fate | None:
        """Give how a trade stands; None where that is not at hand.

        Args:
            number: what it is settled as.
        """
        if number in self._settling.sent:
            return SUBMITTED
        return PENDING if number in self._settling.held else self._ended.get(number)

    def hear(self, batch: "Sequence[Committed]") -> list[StatusChange]:
        """Hear of a batch that is done; give what changed with it, in its sequence."""
        changes: list[StatusChange] = []
        fresh: dict[int, Ended] | None = None
        for done in batch:
            command = done.command
            if isinstance(done.outcome, RejectedError):
                continue
            if type(command) is SendTrades:
                changes += self._send(command)
            elif type(command) is EndTrades:
                fresh = self._fresh() if fresh is None else fresh
                changes += self._end(command, fresh)
        return changes

    def _send(self, command: SendTrades) -> Iterator[StatusChange]:
        """Note what goes to the chain; what went there before stands as it did."""
        for number in command.trades:
            held = None if number in self._sent else self._settling.held.get(number)
            if held is not None:
                self._sent[number] = held
                yield StatusChange(held, SUBMITTED, command.now_ms)

    def _end(self, command: EndTrades, fresh: dict[int, Ended]) -> Iterator[StatusChange]:
        """Note what came to an end; what waited for nothing is passed over."""
        for end in command.ends:
            unsent = fresh.pop(end.trade, None)
            held = self._sent.pop(end.trade, unsent)
            if held is None:
                continue
            fate = self._ended[end.trade] = fate_at(end.tx, end.reason)
            if len(self._ended) > self._kept:
                del self._ended[next(iter(self._ended))]
            yield StatusChange(held, fate, command.now_ms)

    def _fresh(self) -> dict[int, Ended]:
        """Give what came to an end since the last time, as far as the registry still has it."""
        fresh: dict[int, Ended] = {}
        for ended in reversed(self._settling.ended):
            if ended is self._last:
                break
            fresh[ended.halves[0].number] = ended
        self._last = self._settling.ended[-1] if self._settling.ended else None
        return fresh
