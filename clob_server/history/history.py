"""History: finished orders and all trades, a projection of the log that can be made again.

What is asked here is answered from the file of history, by a thread that reads it. A miss is
believed only once history is as far as the engine was when it was asked for.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import apsw
import msgspec

from clob import RejectedError, Trade
from clob_server.api.problems import ApiError
from clob_server.api.schemas import OrderBody, TradeSummary
from clob_server.core.sequencer import Committed, LogThread, Sequencer
from clob_server.core.serialize import summaries
from clob_server.core.settlement_status import (
    NONE,
    PENDING,
    SUBMITTED,
    Fate,
    Fates,
    StatusChange,
    settled_as,
)
from clob_server.history.follower import catch_up, open_store, same_end
from clob_server.history.store import (
    ForeignHistoryError,
    HistoryStore,
    StoreReader,
    TradeRow,
    put_aside,
)
from clob_server.history.supervisor import Supervisor
from clob_server.history.thread_writer import Scribe
from clob_server.log import SqliteLog
from clob_server.orders.lookup import hash_in

if TYPE_CHECKING:
    from clob_server.service import Service


class Tape:
    """The last trades of one market.

    Args:
        kept: how many.
        filled: if what was before this process is on it, or there was nothing.
    """

    def __init__(self, kept: int, filled: bool) -> None:
        self._trades: deque[TradeRow] = deque(maxlen=kept)
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

    def add(self, traded: TradeRow) -> None:
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

    def fill(self, older: Sequence[TradeRow], *, whole: bool) -> None:
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

    def newest(self, before: int | None = None, token: str | None = None) -> Iterator[TradeRow]:
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

    def listen(self, batch: Sequence[Committed]) -> None:
        """Note the trades of a batch."""
        for done in batch:
            outcome = done.outcome
            if isinstance(outcome, RejectedError):
                continue
            number = done.num_trades
            for event in outcome:
                if isinstance(event, Trade):
                    number += 1
                    self.tape(event.market).add(TradeRow(event, done.command.now_ms, number))

    def tape(self, market: str) -> Tape:
        """Give the trades of a market."""
        tape = self._tapes.get(market)
        if tape is None:
            tape = self._tapes[market] = Tape(self._kept, self._filled)
        return tape


START_S: Final = 5.0
"""How long a start waits for history; after that the server opens without it."""
WAIT_S: Final = 2.0
"""How long a request waits for history to have reached the place where the engine is."""

_ORDER: Final = msgspec.json.Decoder(OrderBody)
_T = TypeVar("_T")


class History:
    """What happened, for those who ask later.

    Args:
        service: whose history.
        log: the log, which is open.
    """

    def __init__(self, service: "Service", log: SqliteLog) -> None:
        settings = service.settings
        self._service = service
        self._log = log
        self._reached = 0
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []
        self._reader: StoreReader | None = None
        self._worker = LogThread("history reader")
        self._recent = Recent(settings.trades_kept, filled=not log.tail.seq)
        self._fates: Fates | None = None
        self._start_seq = log.tail.seq
        self._scribe: Scribe | None = None
        self._store: HistoryStore | None = None
        self._supervisor: Supervisor | None = None
        self._loop = asyncio.get_running_loop()
        service.metrics.gauge(
            "history_lag_commands", "How many commands history is behind.", lambda: self.lag
        )
        service.metrics.gauge(
            "follower_deaths", "How often the follower died.", lambda: self.num_deaths
        )

    @property
    def lag(self) -> int:
        """How many commands history is behind."""
        return max(0, self._log.tail.seq - self._reached)

    @property
    def num_deaths(self) -> int:
        """How often the follower died."""
        return 0 if self._supervisor is None else self._supervisor.num_deaths

    # ----- from start to end -------------------------------------------------------------------

    async def begin(self) -> None:
        """Start the follower; or, where a thread writes history, bring it up to the log."""
        settings = self._service.settings
        if settings.history == "thread":
            self._store = await asyncio.to_thread(self._caught_up)
            return
        self._supervisor = Supervisor(
            self._log,
            self._service.folder,
            snapshot_commands=settings.snapshot_commands,
            days=settings.history_days,
            reached=self._reach,
            begun=self._renew,
        )
        self._supervisor.begin()

    def _caught_up(self) -> HistoryStore:
        """Open history, and bring it up to the end of the log."""
        folder, log, days = self._service.folder, self._log, self._service.settings.history_days
        store = open_store(folder, days, log.tail)
        try:
            catch_up(store, folder, log)
        except ForeignHistoryError:
            store.close()
            put_aside(folder)
            store = HistoryStore(folder, days)
            catch_up(store, folder, log)
        return store

    async def start(self, engine: Sequencer) -> None:
        """Follow an engine that is about to work, and wait for history, though not for long.

        What takes longer is a history that is made again: then the server opens, and what asks for
        history is told to come again.
        """
        self._fates = Fates(engine.exchange.registry.settling)
        if self._store is not None:
            self._scribe = Scribe(
                self._store,
                self._service.folder,
                self._log,
                engine,
                snapshot_commands=self._service.settings.snapshot_commands,
                reached=self._reach_soon,
            )
            engine.listeners.append(self._scribe.listen)
            self._reach(self._start_seq)
        elif self._supervisor is not None:
            self._supervisor.feed(engine)
            with suppress(apsw.Error):
                applied = await self._worker.ask(lambda: self._open().applied())
                if same_end(applied, self._log.tail):
                    self._reach(applied.seq)
        with suppress(ApiError):
            await self.reach(self._start_seq, START_S)

    def listen(self, batch: Sequence[Committed]) -> None:
        """Hear of a batch that is durable and done."""
        self._recent.listen(batch)
        if self._service.exchange.settles:
            assert self._fates is not None
            for change in self._fates.hear(batch):
                self._note(change)

    def _note(self, change: StatusChange) -> None:
        """Note how trades stand from now on."""
        tape = self._recent.tape(change.held.market)
        tape.change()
        if change.fate is not SUBMITTED:
            for half in change.held.halves:
                tape.end(half.number, change.fate)

    async def close(self) -> None:
        """Have written what is left, within half of the grace."""
        if self._supervisor is not None:
            await self._supervisor.close(self._service.settings.grace_s / 2)
        if self._scribe is not None:
            self._scribe.hand_over()
        for last in (self._scribe, self._store if self._scribe is None else None):
            if last is not None:
                await asyncio.to_thread(last.close)
        for _, waits in self._awaited:
            waits.cancel()
        self._worker.tell(self._close_reader)
        await asyncio.to_thread(self._worker.close)

    # ----- how far it is -----------------------------------------------------------------------

    def _reach(self, seq: int) -> None:
        """Hear how far history is."""
        self._reached = seq
        if self._awaited:
            waiting, self._awaited = self._awaited, []
            for until, waits in waiting:
                if until > seq:
                    self._awaited.append((until, waits))
                elif not waits.done():
                    waits.set_result(None)

    def _reach_soon(self, seq: int) -> None:
        """Hear how far history is, from another thread."""
        self._loop.call_soon_threadsafe(self._reach, seq)

    async def reach(self, seq: int, wait_s: float = WAIT_S) -> None:
        """Wait until history has reached a command.

        Raises:
            ApiError: RECOVERING, it takes too long.
        """
        if self._reached >= seq:
            return
        if self._scribe is not None:
            self._scribe.hand_over()
        waits = self._loop.create_future()
        self._awaited.append((seq, waits))
        try:
            async with asyncio.timeout(wait_s):
                await waits
        except TimeoutError:
            raise ApiError(
                "RECOVERING",
                f"history is {seq - self._reached} commands behind; try again in a second",
            ) from None

    # ----- reading -----------------------------------------------------------------------------

    async def order(self, order_ref: str) -> OrderBody | None:
        """Give an order that the engine knows no longer.

        Args:
            order_ref: its id, or its hash in hexadecimal.

        Raises:
            ApiError: RECOVERING, history is too far behind to tell.
        """
        hashed, seq = hash_in(order_ref), self._service.engine.seq

        def look(reader: StoreReader) -> bytes | None:
            return reader.order(order_ref) if hashed is None else reader.order_by_hash(hashed)

        body = await self._ask(look) if self._reached else None
        if body is None and seq:  # before the first command there may be no file yet
            await self.reach(seq)
            body = await self._ask(look)
        return None if body is None else _ORDER.decode(body)

    async def first_trades(self, order: OrderBody) -> list[TradeSummary]:
        """Give the trades that an order made when it came in, the oldest first.

        Raises:
            ApiError: RECOVERING, history is too far behind to tell.
        """
        tape = self._recent.tape(order.market_id)
        found: list[TradeRow] = []
        for traded in tape.newest():
            if traded.now_ms < order.timestamp:
                break
            if traded.event.incoming_order_id == order.id and traded.now_ms == order.timestamp:
                found.append(traded)
        else:
            if not tape.whole:
                await self.reach(self._service.engine.seq)
                found = await self._ask(
                    lambda reader: reader.first_trades(order.id, order.timestamp)[::-1]
                )
        ids, fates = self._service.ids, await self.fates(order.market_id, found)
        return [
            summary
            for (event, now_ms, number), fate in reversed(list(zip(found, fates, strict=True)))
            for summary in summaries((event,), ids, now_ms, number - 1, fate.tx_hash)
        ]

    async def trades(
        self, market: str, limit: int, before: int | None = None, token: str | None = None
    ) -> list[TradeRow]:
        """Give trades of a market, the newest first.

        Args:
            market: the market; there must be such a one.
            limit: how many at most.
            before: the ``seq`` that all of them are below; None is no bound.
            token: which token's; None is both.

        Raises:
            ApiError: RECOVERING, history is too far behind to tell.
        """
        tape = await self.tape(market)
        found = list(islice(tape.newest(before, token), limit))
        if len(found) == limit or tape.whole:
            return found
        first = tape.first_seq
        bounds = [seq for seq in (first, before) if seq is not None]
        below = min(bounds) if bounds else self._service.exchange.matcher.seq(market) + 1
        await self.reach(self._service.engine.seq)
        return found + await self._ask(
            lambda reader: reader.trades(market, below, limit - len(found), token)
        )

    async def fates(self, market: str, found: Sequence[TradeRow]) -> list[Fate]:
        """Give how trades of a market stand, one for each.

        Raises:
            ApiError: RECOVERING, history is too far behind to tell.
        """
        assert self._fates is not None
        if market not in self._service.exchange.settles:
            return [NONE] * len(found)
        tape, places = self._recent.tape(market), places_of(found)
        stand = {
            number: tape.fate(number) or self._fates.of(place) for number, place in places.items()
        }
        long_ago = [places[number] for number, fate in stand.items() if fate is None]
        if long_ago:
            await self.reach(self._service.engine.seq)
            known = await self._ask(lambda reader: reader.fates(long_ago))
            for number, place in places.items():
                if stand[number] is None and place in known:
                    stand[number] = known[place]
                    tape.end(number, known[place])
        return [stand[each.number] or PENDING for each in found]

    async def tape(self, market: str) -> Tape:
        """Give the last trades of a market, those before this process among them.

        Raises:
            ApiError: RECOVERING, history is too far behind to tell.
        """
        tape = self._recent.tape(market)
        if tape.filled:
            return tape
        async with tape.lock:
            if not tape.filled:
                await self.reach(self._start_seq)
                first = tape.first_seq
                below = self._service.exchange.matcher.seq(market) + 1 if first is None else first
                kept = self._service.settings.trades_kept
                older: list[TradeRow] = []
                if self._start_seq:  # else there was nothing before, and may be no file yet
                    older = await self._ask(lambda reader: reader.trades(market, below, kept + 1))
                tape.fill(older[:kept], whole=len(older) <= kept)
                if older and market in self._service.exchange.settles:
                    await self._recall(tape, places_of(older[:kept]))
        return tape

    async def _recall(self, tape: Tape, places: Mapping[int, int]) -> None:
        """Note how trades stand that were put on a tape, while history still has them."""
        known = await self._ask(lambda reader: reader.fates(list(places.values())))
        for number, place in places.items():
            if place in known:
                tape.end(number, known[place])

    # ----- the connection that reads -----------------------------------------------------------

    async def _ask(self, question: Callable[[StoreReader], _T]) -> _T:
        """Ask the file, in the thread that reads it."""
        answer: _T = await self._worker.ask(lambda: question(self._open()))
        return answer

    def _open(self) -> StoreReader:
        """Give the connection; runs in the thread that reads."""
        if self._reader is None:
            self._reader = StoreReader(self._service.folder)
        return self._reader

    def _close_reader(self) -> None:
        """Let go of the connection; runs in the thread that reads."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _renew(self) -> None:
        """Hear that a follower began: the file may be another one."""
        self._reached = 0
        self._worker.tell(self._close_reader)


def places_of(found: Sequence[TradeRow]) -> dict[int, int]:
    """Give under which numbers trades are settled, by their own."""
    return {each.number: settled_as(each.event, each.number) for each in found}


# MERGED clob_server.history.history: The last trades of each market, at hand.
