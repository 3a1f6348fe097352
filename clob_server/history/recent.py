"""The last trades of each market, at hand."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from clob import RejectedError, Trade
from clob_server.engine import Done
from clob_server.fates import Fate
from clob_server.history.store import Traded


class Tape:
    """The last trades of one market.

    Args:
        kept: how many.
        filled: if what was before this process is on it, or there was nothing.
    """

    def __init__(self, kept: int, filled: bool) -> None:
        self._trades: deque[Traded] = deque(maxlen=kept)
        self.filled: bool = filled
        """If what was before this process is on it."""
        self.whole: bool = filled
        """If there was never a trade that is not on it."""
        self.lock: Final = asyncio.Lock()
        """Held by whoever fills it."""
        self.pages: Final[dict[object, Any]] = {}
        """What was made of it, to be used again until it changes."""
        self.version: int = 0
        """How often it changed."""
        self._ends: dict[int, Fate] = {}

    def add(self, traded: Traded) -> None:
        """Add a trade."""
        trades = self._trades
        if len(trades) == trades.maxlen:
            self.whole = False
            self._ends.pop(trades[0].number, None)
        trades.append(traded)
        self.change()

    def end(self, number: int, fate: Fate) -> None:
        """Keep how a trade stands that came to an end, as long as it is on it.

        Args:
            number: which of all trades of the server it is.
            fate: how it stands.
        """
        if self._trades and number >= self._trades[0].number:
            self._ends[number] = fate

    def fate(self, number: int) -> Fate | None:
        """Give how a trade on it stands that came to an end; None where that is not known here."""
        return self._ends.get(number)

    def change(self) -> None:
        """Hear that a trade is new, or stands differently."""
        self.version += 1
        if self.pages:
            self.pages.clear()

    def fill(self, older: Sequence[Traded], *, whole: bool) -> None:
        """Put trades before the first one.

        Args:
            older: the newest first.
            whole: if there were no others before them.
        """
        first = self._trades[0].event.seq if self._trades else None
        room = (self._trades.maxlen or 0) - len(self._trades)
        fitting = [each for each in older if first is None or each.event.seq < first]
        self._trades.extendleft(fitting[:room])
        self.whole = whole and len(fitting) <= room
        self.filled = True
        self.change()

    def newest(self, before: int | None = None, token: str | None = None) -> Iterator[Traded]:
        """Give trades, the newest first.

        Args:
            before: the ``seq`` that all of them are below; None is no bound.
            token: which token's; None is both.
        """
        for traded in reversed(self._trades):
            event = traded.event
            if (before is None or event.seq < before) and (token is None or event.token == token):
                yield traded

    @property
    def first_seq(self) -> int | None:
        """The ``seq`` of the oldest trade on it; None where there is none."""
        return self._trades[0].event.seq if self._trades else None


class Recent:
    """The last trades of each market.

    Args:
        kept: how many of each.
        filled: if nothing was before this process.
    """

    def __init__(self, kept: int, *, filled: bool) -> None:
        self._kept = kept
        self._filled = filled
        self._tapes: dict[str, Tape] = {}

    def listen(self, batch: Sequence[Done]) -> None:
        """Note the trades of a batch."""
        for done in batch:
            outcome = done.outcome
            if isinstance(outcome, RejectedError):
                continue
            number = done.num_trades
            for event in outcome:
                if isinstance(event, Trade):
                    number += 1
                    self.tape(event.market).add(Traded(event, done.command.now_ms, number))

    def tape(self, market: str) -> Tape:
        """Give the trades of a market."""
        tape = self._tapes.get(market)
        if tape is None:
            tape = self._tapes[market] = Tape(self._kept, self._filled)
        return tape
