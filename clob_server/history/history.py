"""Queries of finished orders and past trades.

A thread reads the history file. The file may be behind the engine, so a miss counts only after
history has caught up with the command that was the last one at the time of the query.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import msgspec

from clob.wire.orders import MakerFill, OrderBody, TradeSummary
from clob_server.api.problems import ApiError
from clob_server.core.ids import Cursor, Ids, order_hash_in
from clob_server.core.sequencer import Committed, Sequencer, trades_in
from clob_server.core.serialize import maker_fill, summaries, trade_body
from clob_server.core.settlement_status import (
    NONE,
    PENDING,
    SUBMITTED,
    SettlementStatus,
    SettlementStatuses,
    settled_as,
)
from clob_server.core.state import ServerState
from clob_server.core.supervisor import Supervisor
from clob_server.core.threads import LogThread
from clob_server.history.candles import (
    UnwrittenTrades,
)
from clob_server.history.follower import arguments_for, catch_up, ends_at, open_store
from clob_server.history.market_data import MarketData
from clob_server.history.of_maker import (
    FillRange,
    FillRow,
    FinishedPage,
    FinishedRange,
    MissedRange,
    read_fills,
    read_fills_of,
    read_finished,
    read_missed,
)
from clob_server.history.positions import TokenPosition, read_positions
from clob_server.history.store import (
    DAMAGE,
    ForeignHistoryError,
    HistoryStore,
    StoreReader,
    TradeRow,
    move_aside,
)
from clob_server.history.thread_writer import ThreadWriter
from clob_server.log import Log, SqliteLog
from clob_server.settings import Settings
from clob_server.telemetry.metrics import Metrics

START_S: Final = 5.0
"""Seconds a start waits for history; then the server opens without it."""
NO_TABLE: Final = "no such table"
"""Message of SQLite for a file that its writer has just created."""
WAIT_S: Final = 2.0
"""Seconds a request waits for history to catch up."""

_LOG: Final = logging.getLogger("clob_server.history")
_ORDER: Final = msgspec.json.Decoder(OrderBody)
_T = TypeVar("_T")


class TradeTape:
    """The most recent trades of one market."""

    def __init__(self, kept: int, filled: bool) -> None:
        self._trades: deque[TradeRow] = deque(maxlen=kept)
        self.filled: bool = filled
        """Whether it includes the trades before this process."""
        self.whole: bool = filled
        """Whether it has every trade of the market."""
        self.lock: Final = asyncio.Lock()
        """Held while it is filled from history."""
        self.pages: Final[dict[object, Any]] = {}
        """Cached responses, cleared at each change."""
        self.version: int = 0
        """Number of changes."""
        self._statuses: dict[int, SettlementStatus] = {}

    def add(self, row: TradeRow) -> None:
        """Add a new trade."""
        trades = self._trades
        if len(trades) == trades.maxlen:
            self.whole = False
            self._statuses.pop(trades[0].number, None)
        trades.append(row)
        self.on_change()

    def set_status(self, number: int, status: SettlementStatus) -> None:
        """Store the final settlement status of a trade while the tape has it."""
        if self._trades and number >= self._trades[0].number:
            self._statuses[number] = status

    def status(self, number: int) -> SettlementStatus | None:
        """Return the final settlement status of a trade; None if none is stored."""
        return self._statuses.get(number)

    def on_change(self) -> None:
        """Clear the cached responses after a new trade or status."""
        self.version += 1
        if self.pages:
            self.pages.clear()

    def fill(self, older: Sequence[TradeRow], *, whole: bool) -> None:
        """Add older trades, newest first; ``whole`` if the market has no trades before them."""
        first = self.first_seq
        room = (self._trades.maxlen or 0) - len(self._trades)
        fitting = [each for each in older if first is None or each.event.seq < first]
        self._trades.extendleft(fitting[:room])
        self.whole = whole and len(fitting) <= room
        self.filled = True
        self.on_change()

    def newest(self, before: int | None = None, token: str | None = None) -> Iterator[TradeRow]:
        """Yield trades newest first: all, or those before a ``seq`` or of one token."""
        for row in reversed(self._trades):
            event = row.event
            if (before is None or event.seq < before) and (token is None or event.token == token):
                yield row

    @property
    def first_seq(self) -> int | None:
        """``seq`` of the oldest trade; None without trades."""
        return self._trades[0].event.seq if self._trades else None


class History:
    """Finished orders, past trades and their settlement."""

    market_data: MarketData
    """Candles and tickers, from :meth:`follow` on."""

    def __init__(
        self, log: Log, folder: Path, settings: Settings, ids: Ids, metrics: Metrics
    ) -> None:
        self._log = log
        self._folder = folder
        self._settings = settings
        self._ids = ids
        self._engine: Sequencer
        self._state: ServerState
        self._statuses: SettlementStatuses
        self._written = 0
        self._behind_until = 0
        self._is_rebuilding = False
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._reader: StoreReader | None = None
        self._reader_thread = LogThread("history reader")
        self._tapes: dict[str, TradeTape] = {}
        self._start_seq = log.tail.seq
        self._unwritten = UnwrittenTrades(self._start_seq)
        self._writer: ThreadWriter | None = None
        self._store: HistoryStore | None = None
        self._supervisor: Supervisor | None = None
        self._loop = asyncio.get_running_loop()
        metrics.gauge("history_lag_commands", "Commands that history is behind.", lambda: self.lag)
        metrics.gauge(
            "history_ready",
            "1 while history can be queried.",
            lambda: self.status == "ready",
        )
        metrics.gauge(
            "follower_deaths",
            "Unexpected exits of the history follower.",
            lambda: 0 if self._supervisor is None else self._supervisor.num_deaths,
        )

    @property
    def lag(self) -> int:
        """Number of commands that history is behind."""
        return max(0, self._log.tail.seq - self._written)

    @property
    def status(self) -> str:
        """``ready``, ``starting``, ``rebuilding``, ``frozen`` or, without a writer, ``stopped``."""
        if self._supervisor is None:
            return "stopped" if self._writer is None or self._writer.has_failed else "ready"
        if self._supervisor.is_frozen:
            return "frozen"
        if not self._supervisor.is_connected:
            return "starting"
        return "ready" if self._written >= self._behind_until else "rebuilding"

    # ----- start and end -----------------------------------------------------------------------

    async def open(self) -> None:
        """Start the follower or, with ``--history thread``, bring history up to the log."""
        settings = self._settings
        assert isinstance(self._log, SqliteLog)
        if settings.history == "thread":
            self._store = await asyncio.to_thread(self._open_store)
            return
        self._supervisor = Supervisor(
            self._log,
            "the history follower",
            arguments_for(self._folder, settings.snapshot_commands, settings.history_days),
            on_report=self._on_written,
            on_started=self._on_follower_started,
        )
        # With nothing to write, the start of its process can wait for the recovery of the server.
        if not await self._is_complete():
            self._supervisor.start()

    async def _is_complete(self) -> bool:
        """Return whether the history file has all commands of the log."""
        with suppress(ApiError):
            return ends_at(await self.read(StoreReader.applied), self._log.tail)
        return False

    def _open_store(self) -> HistoryStore:
        """Open the history file, and bring it up to the end of the log."""
        folder, log, days = self._folder, self._log, self._settings.history_days
        store = open_store(folder, days, log.tail)
        try:
            catch_up(store, folder, log)
        except ForeignHistoryError:
            store.close()
            move_aside(folder)
            store = HistoryStore(folder, days)
            catch_up(store, folder, log)
        return store

    def follow(self, engine: Sequencer) -> None:
        """Follow an engine that does not run yet; :meth:`on_batch` may be called from then on."""
        self._engine = engine
        self._state = engine.state
        self.market_data = MarketData(self, engine.state, self._unwritten)
        self._statuses = SettlementStatuses(self._state.registry.settling)
        if self._store is not None and isinstance(self._log, SqliteLog):
            self._writer = ThreadWriter(
                self._store,
                self._log,
                engine,
                snapshot_commands=self._settings.snapshot_commands,
                on_written=lambda seq: self._loop.call_soon_threadsafe(self._on_written, seq),
            )
            engine.subscribe(self._writer.on_batch)
            self._on_written(self._start_seq)

    async def start(self) -> None:
        """Send the log to the follower; wait for history up to ``START_S``.

        A rebuild takes longer: then the server opens, and queries that need history fail with
        RECOVERING until it is complete.
        """
        if self._supervisor is not None:
            self._supervisor.start()
            self._supervisor.connect(self._engine, is_urgent=False)
            with suppress(ApiError):
                applied = await self.read(StoreReader.applied)
                if ends_at(applied, self._log.tail):
                    self._on_written(applied.seq)
        with suppress(ApiError):
            await self.wait_for(self._start_seq, START_S)

    def on_batch(self, batch: Sequence[Committed]) -> None:
        """Add the trades and statuses of a batch that was written and applied."""
        if trades := trades_in(batch):
            self._unwritten.on_batch(batch)
            self.market_data.add_trades(trades)
        for number, trade, now_ms in trades:
            self._tape(trade.market).add(TradeRow(trade, now_ms, number))
        for change in self._statuses.on_batch(batch) if self._state.settles else ():
            held, status, *_ = change
            self.market_data.on_status(change, batch[-1].seq)
            tape = self._tape(held.market)
            tape.on_change()
            if status is not SUBMITTED:
                for half in held.halves:
                    tape.set_status(half.number, status)

    async def close(self) -> None:
        """Write the remaining rows, within half of the grace period."""
        if self._supervisor is not None:
            await self._supervisor.close(self._settings.grace_s / 2)
        if self._writer is not None:
            self._writer.flush()
            await asyncio.to_thread(self._writer.close)
        elif self._store is not None:
            await asyncio.to_thread(self._store.close)
        for _, future in self._waiting:
            future.cancel()
        self._reader_thread.enqueue(self._close_reader)
        await asyncio.to_thread(self._reader_thread.close)

    # ----- progress ----------------------------------------------------------------------------

    def _on_written(self, seq: int) -> None:
        """Note the last command in the file, and resume the queries that wait for it."""
        self._written = seq
        self._unwritten.on_written(seq)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for until, future in waiting:
                if until > seq:
                    self._waiting.append((until, future))
                elif not future.done():
                    future.set_result(None)

    async def wait_for(self, seq: int, wait_s: float = WAIT_S) -> None:
        """Wait until the file contains a command.

        Raises:
            ApiError: RECOVERING, it takes longer than ``wait_s``.
        """
        if self._written >= seq:
            return
        if self._writer is not None:
            self._writer.flush()
        future = self._loop.create_future()
        self._waiting.append((seq, future))
        try:
            async with asyncio.timeout(wait_s):
                await future
        except TimeoutError:
            raise behind(f"it is {seq - self._written} commands behind") from None

    # ----- queries -----------------------------------------------------------------------------

    async def order(self, order_ref: str) -> OrderBody | None:
        """Return an order that the engine no longer has, by id or hash; None if it is unknown.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        if not self._state.num_orders:  # the file may not exist
            return None
        hashed, seq = order_hash_in(order_ref), self._engine.seq

        def find(reader: StoreReader) -> bytes | None:
            return reader.order(order_ref) if hashed is None else reader.order_by_hash(hashed)

        body = await self.read(find) if self._written else None
        if body is None:
            await self.wait_for(seq)
            body = await self.read(find, seq)
        return None if body is None else _ORDER.decode(body)

    async def first_trades(self, order: OrderBody) -> list[TradeSummary]:
        """Return the trades of an order at its entry, oldest first.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        tape = self._tape(order.market_id)
        rows: list[TradeRow] = []
        for row in tape.newest():
            if row.now_ms < order.timestamp:
                break
            if row.event.incoming_order_id == order.id and row.now_ms == order.timestamp:
                rows.append(row)
        else:
            if not tape.whole:
                seq = self._engine.seq
                await self.wait_for(seq)
                rows = await self.read(
                    lambda reader: reader.first_trades(order.id, order.timestamp)[::-1], seq
                )
        statuses = await self.statuses(order.market_id, rows)
        return [
            summary
            for (event, now_ms, number), status in reversed(list(zip(rows, statuses, strict=True)))
            for summary in summaries((event,), self._ids, now_ms, number - 1, status.tx_hash)
        ]

    async def trades(
        self, market: str, limit: int, before: int | None = None, token: str | None = None
    ) -> list[TradeRow]:
        """Return up to ``limit`` trades of a market, newest first.

        Args:
            market: id of a market that exists.
            limit: maximum number of trades.
            before: exclusive upper bound of ``seq``; None for no bound.
            token: outcome token; None for both.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        tape = await self.tape(market)
        rows = list(islice(tape.newest(before, token), limit))
        if len(rows) == limit or tape.whole:
            return rows
        first = tape.first_seq
        bounds = [seq for seq in (first, before) if seq is not None]
        below = min(bounds) if bounds else self._state.matcher.seq(market) + 1
        seq = self._engine.seq
        await self.wait_for(seq)
        return rows + await self.read(
            lambda reader: reader.trades(market, below, limit - len(rows), token), seq
        )

    async def trades_after(
        self, market: str, limit: int, after: int | None = None, token: str | None = None
    ) -> list[TradeRow]:
        """Return up to ``limit`` trades of a market, oldest first.

        Args:
            market: id of a market that exists.
            limit: maximum number of trades.
            after: exclusive lower bound of ``seq``; None for no bound.
            token: outcome token; None for both.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        tape = await self.tape(market)
        after, first = after or 0, tape.first_seq
        recent = [*takewhile(lambda row: row.event.seq > after, tape.newest(token=token))][::-1]
        if tape.whole or (first is not None and first <= after):
            return recent[:limit]
        below = self._state.matcher.seq(market) + 1 if first is None else first
        seq = self._engine.seq
        await self.wait_for(seq)
        older = await self.read(
            lambda reader: reader.trades_after(market, after, below, limit, token), seq
        )
        return (older + recent)[:limit]

    async def fills(self, wanted: FillRange) -> list[FillRow]:
        """Return fills of a maker, with all trades until now.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        return await self._read_to_now(lambda reader: read_fills(reader.db, wanted))

    async def missed(
        self, maker: str, market: str | None, after: Cursor, until: Cursor, limit: int
    ) -> tuple[list[MakerFill], list[tuple[int, OrderBody]]] | None:
        """Return the fills and the finished orders of a maker between two positions, oldest first.

        Args:
            maker: the maker.
            market: only this market; None for all.
            after: exclusive begin; finished orders of its command are included.
            until: end, a position that the engine has reached.
            limit: maximum number of fills, and of finished orders.

        Returns:
            The fills, and time and body of each finished order. None if some were deleted, or there
            are more than ``limit``.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        seq = until.command_seq
        if not seq:  # the file may not exist
            return [], []
        wanted = MissedRange(maker, market, after, until, limit)
        await self.wait_for(seq)
        found = await self.read(lambda reader: read_missed(reader.db, wanted), seq)
        if found is None:
            return None
        finished = [(now_ms, _ORDER.decode(body)) for now_ms, body in found.finished]
        return await self.fill_bodies(found.fills), finished

    async def fill_bodies(self, rows: Sequence[FillRow]) -> list[MakerFill]:
        """Return the bodies of fills.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        statuses = await self.statuses_of([each.trade for each in rows])
        bodies = []
        for row in rows:
            event, now_ms, number = row.trade
            body = trade_body(event, self._ids.trade(now_ms, number), now_ms, statuses[number])
            bodies.append(
                maker_fill(event, body, row.cursor, row.side, is_incoming=row.is_incoming)
            )
        return bodies

    async def fills_of(self, order_id: str, limit: int) -> list[FillRow]:
        """Return the fills of an order, oldest first.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        return await self._read_to_now(lambda reader: read_fills_of(reader.db, order_id, limit))

    async def finished(
        self, wanted: FinishedRange
    ) -> tuple[list[tuple[int, OrderBody]], int | None]:
        """Return number and body of finished orders of a maker, newest first.

        Returns:
            The orders, and the number before which more may follow; None if no more do.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        (page,) = await self._read_to_now(lambda reader: [read_finished(reader.db, wanted)]) or (
            FinishedPage([]),
        )
        return [(number, _ORDER.decode(body)) for number, body in page.orders], page.end

    async def positions(self, maker: str, market: str | None, limit: int) -> list[TokenPosition]:
        """Return positions of a maker by market and token, with all trades until now.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        return await self._read_to_now(
            lambda reader: read_positions(reader.db, maker, market, limit)
        )

    async def statuses(self, market: str, rows: Sequence[TradeRow]) -> list[SettlementStatus]:
        """Return the settlement status of each trade of a market.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        if market not in self._state.settles:
            return [NONE] * len(rows)
        tape, keys = self._tape(market), settlement_keys(rows)
        statuses = {
            number: self._statuses.of(key) or tape.status(number) for number, key in keys.items()
        }
        missing = [keys[number] for number, status in statuses.items() if status is None]
        if missing:
            seq = self._engine.seq
            await self.wait_for(seq)
            stored = await self.read(lambda reader: reader.statuses(missing), seq)
            for number, key in keys.items():
                if statuses[number] is None and key in stored:
                    statuses[number] = stored[key]
                    tape.set_status(number, stored[key])
        return [statuses[each.number] or PENDING for each in rows]

    async def statuses_of(self, rows: Sequence[TradeRow]) -> dict[int, SettlementStatus]:
        """Return the settlement status of trades of any markets, by number.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        statuses: dict[int, SettlementStatus] = {}
        for market in dict.fromkeys(each.event.market for each in rows):
            of_market = [each for each in rows if each.event.market == market]
            found = await self.statuses(market, of_market)
            statuses.update((row.number, at) for row, at in zip(of_market, found, strict=True))
        return statuses

    def _tape(self, market: str) -> TradeTape:
        """Return the trades of a market since the start, and those that were read before."""
        tape = self._tapes.get(market)
        if tape is None:
            is_filled = not self._start_seq  # a new log has no older trades
            tape = self._tapes[market] = TradeTape(self._settings.trades_kept, is_filled)
        return tape

    async def tape(self, market: str) -> TradeTape:
        """Return the recent trades of a market, including those before this process.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        tape = self._tape(market)
        if tape.filled:
            return tape
        async with tape.lock:
            if not tape.filled:
                await self.wait_for(self._start_seq)
                first = tape.first_seq
                below = self._state.matcher.seq(market) + 1 if first is None else first
                kept = self._settings.trades_kept
                older: list[TradeRow] = []
                if self._start_seq:  # else there are no older trades, and perhaps no file
                    older = await self.read(
                        lambda reader: reader.trades(market, below, kept + 1), self._start_seq
                    )
                tape.fill(older[:kept], whole=len(older) <= kept)
                if older and market in self._state.settles:
                    await self._read_statuses(tape, settlement_keys(older[:kept]))
        return tape

    async def _read_statuses(self, tape: TradeTape, keys: Mapping[int, int]) -> None:
        """Copy final statuses to a tape, so that they stay available after pruning."""
        stored = await self.read(lambda reader: reader.statuses(list(keys.values())))
        for number, key in keys.items():
            if key in stored:
                tape.set_status(number, stored[key])

    # ----- the reading connection --------------------------------------------------------------

    async def _read_to_now(self, query: Callable[[StoreReader], list[_T]]) -> list[_T]:
        """Run a query on everything until now.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        seq = self._engine.seq
        if not seq:  # the file may not exist
            return []
        await self.wait_for(seq)
        return await self.read(query, seq)

    async def read(self, query: Callable[[StoreReader], _T], seq: int = 0) -> _T:
        """Run a query in the reader thread.

        Args:
            query: reads the file.
            seq: command that the file must contain; 0 for any.

        Raises:
            ApiError: RECOVERING, the file cannot be read, or lacks the command.
        """

        def run() -> _T:
            if self._reader is None:
                self._reader = StoreReader(self._folder)
            if seq and self._reader.applied().seq < seq:
                raise behind("the file is being rebuilt")
            return query(self._reader)

        try:
            result: _T = await self._reader_thread.run(run)
        except (apsw.Error, ForeignHistoryError) as error:
            self._reader_thread.enqueue(self._close_reader)
            is_new = isinstance(error, apsw.CantOpenError) or NO_TABLE in str(error)
            if not is_new:  # a new folder has no file yet, or an empty one
                _LOG.warning("history cannot be read", extra={"reason": repr(error)})
            if isinstance(error, DAMAGE):
                self.rebuild()
            raise behind(f"it cannot be read: {error}") from error
        return result

    def rebuild(self) -> None:
        """Move a damaged file aside, and end the follower, so that the next one starts afresh."""
        if self._supervisor is not None and self._supervisor.pid and not self._is_rebuilding:
            self._is_rebuilding = True
            move_aside(self._folder)
            self._supervisor.kill()

    def _close_reader(self) -> None:
        """Close the connection; runs in the reader thread."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _on_follower_started(self) -> None:
        """Reopen the file, which the new follower may have replaced."""
        self._written, self._behind_until = 0, self._log.tail.seq
        self._is_rebuilding = False
        self._reader_thread.enqueue(self._close_reader)


def behind(reason: str) -> ApiError:
    """Return the error of a query that history cannot answer yet."""
    return ApiError("RECOVERING", f"history is not complete: {reason}; try again in a second")


def settlement_keys(rows: Sequence[TradeRow]) -> dict[int, int]:
    """Return the number under which each trade settles, by its own number."""
    return {each.number: settled_as(each.event, each.number) for each in rows}
