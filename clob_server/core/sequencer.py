"""Group commit: append a batch of commands to the log, apply it to the state, answer the callers.

While one batch is being written, new commands queue up and form the next one, so batch size follows
the load and needs no timer. Results and events leave this module only after the batch is durable.
The clock is read once per batch.
"""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from clob import (
    Batch,
    Cancel,
    ClobError,
    Event,
    Expire,
    Market,
    Rejected,
    RejectedError,
    Submit,
    Trade,
)
from clob.codec import encode as encode_command
from clob.journal import ZERO_HASH, Outcome, event_hash
from clob_server.core.clock import ClockUnsureError
from clob_server.core.commands import ENGINE, KINDS, AnyCommand, ServerCommand, encode, pack
from clob_server.core.ids import Ids
from clob_server.core.state import ServerState
from clob_server.core.threads import LogThread, resolve, run_all
from clob_server.log import Log

MAX_QUEUED: Final = 10_000
"""Commands that may wait for the next batch."""
ROUNDS_MAX: Final = 8
"""Rounds of the loop that a batch waits at most for requests that are already readable."""
COMMANDS_MAX: Final = 1_000
"""Commands of a batch at most; the others wait for the next one."""
WORK_MAX: Final = 1_000
"""Commands and events after which the event loop gets a turn within a batch."""
UPKEEP_S: Final = 0.005
"""Seconds from a batch to the work on the log that other processes and callers can wait for."""
EXPIRY_INTERVAL_S: Final = 0.25
"""Seconds between two looks for expired orders."""
RETRY_S: Final = 0.05
"""Seconds until a command of the server itself is tried again."""

_T = TypeVar("_T")


# ----- commands on their way -----------------------------------------------------------------


class SequencerStoppedError(ClobError, code="ENGINE_STOPPED"):
    """The server is shutting down, or its log has failed: no command is accepted."""


class CommitUnknownError(ClobError, code="OUTCOME_UNKNOWN"):
    """The server was interrupted while it wrote the command, which may or may not be durable."""


class QueueFullError(ClobError, code="ENGINE_FULL"):
    """Too many commands wait for the next batch."""


class NoOrderLeftError(ClobError, code="REJECTED"):
    """Every order of a batch was rejected before it was written."""


class NewOrder(msgspec.Struct, frozen=True, gc=False):
    """An order to place; the sequencer assigns its time, number and id."""

    submit: Submit
    """The command, with any id and time."""
    opener: bytes | None = None
    """The client that pays for it, if its market did not exist or lacked its token when the order
    was read; else None."""
    payer: bytes | None = None
    """The budget that it was charged to; None without rate limits."""


class NewOrders(msgspec.Struct):
    """Orders to place as one :class:`~clob.Batch`."""

    orders: list[NewOrder]
    rejected: dict[int, ClobError] = {}
    """The orders that the sequencer left out of the batch, by their index in ``orders``."""
    cancels: tuple[Cancel, ...] = ()
    """Cancels that the batch begins with."""
    atomic: bool = False
    """Whether all commands of the batch are executed or none; then no market opens with it."""


class GuardedWork(msgspec.Struct, frozen=True):
    """A command that is made only if the state allows it, after all commands before it."""

    work: "AnyCommand | NewOrders"
    check: Callable[[], None]
    """Raises the rejection, and reads the state; then nothing is written. The commands of a batch
    are made before any of them is applied, so a guarded one begins a batch of its own."""


Build: TypeAlias = Callable[[int], AnyCommand | tuple[AnyCommand, ...]]
"""Returns commands for the time of their batch, from the state just before it."""

Work: TypeAlias = AnyCommand | tuple[AnyCommand, ...] | NewOrder | NewOrders | GuardedWork | Build
"""Anything that can be submitted. Commands get the time of their batch, except those that a
:data:`~clob_server.core.sequencer.Build` returns. Of several commands, the last one's result is
returned."""


class Committed(msgspec.Struct, frozen=True):
    """A command after its batch was written and applied."""

    seq: int
    """Position in the log."""
    command: AnyCommand
    outcome: Outcome
    """Its events, or its rejection."""
    num_trades: int
    """Number of trades in all markets before this command."""

    @property
    def now_ms(self) -> int:
        """The time of the command, Unix milliseconds."""
        return self.command.now_ms


def trades_in(batch: Sequence[Committed]) -> list[tuple[int, Trade, int]]:
    """Return the trades of a batch: number in all markets, trade, time in Unix milliseconds."""
    trades = []
    for done in batch:
        if not isinstance(done.outcome, RejectedError):
            number = done.num_trades
            for event in done.outcome:
                if isinstance(event, Trade):
                    number += 1
                    trades.append((number, event, done.command.now_ms))
    return trades


def accepted_orders(command: AnyCommand, events: Sequence[Event | Rejected]) -> Iterator[Submit]:
    """Yield the accepted orders of a command that was not rejected as a whole."""
    if type(command) is Submit:
        yield command
    elif type(command) is Batch:
        rejected = {event.index for event in events if type(event) is Rejected}
        for index, each in enumerate(command.commands):
            if type(each) is Submit and index not in rejected:
                yield each


class QueuedCommand(msgspec.Struct, frozen=True):
    """The result of a handler that needs a command committed before it can reply."""

    work: Work
    then: Callable[[Committed], Any]
    """Returns the reply for the committed command, or raises its rejection."""


Callback: TypeAlias = Callable[[Committed | Exception], None]
"""Receives the command with its events or its rejection, or an error. The listeners were not called
with the command yet. Must not raise."""

Steps: TypeAlias = Iterator[None]
"""Work that is left, in parts; the event loop gets a turn before each part."""

Listener: TypeAlias = Callable[[Sequence[Committed]], Steps | None]
"""Called with the commands of a batch, in log order. The callers have their results, and the event
loop has no turn before each listener was called, so no request finds only one of the two done. A
large batch comes in several calls. A listener with much work returns the rest of it; no further
command is applied before that is done. Must not raise."""


def begin(steps: Steps) -> Steps | None:
    """Do the first part of some work now; return the rest, or None if that was all."""
    for _ in steps:
        return steps
    return None


class Opening(NamedTuple):
    """A market that opens with an order of a batch."""

    market: Market
    opener: bytes
    """The client of the order that opens it first."""


OpenMarket: TypeAlias = Callable[[Submit, bytes, dict[str, Opening], int], tuple[AnyCommand, ...]]
"""Returns the commands that open the market of an order; none if there is nothing to open.
Takes the order, its client, the markets that earlier orders of the batch open, and the time."""

TakeCharges: TypeAlias = Callable[[int, Sequence[bytes | None]], Sequence[ServerCommand]]


# ----- the sequencer -------------------------------------------------------------------------


class Sequencer:
    """Accepts commands from many callers and commits them in one order.

    Args:
        log: the log of the commands; nothing else may append to it.
        clock_ms: returns the time of a batch, or raises ``ClockUnsureError``.
        event_hash: the event hash after the whole log.
        charges: returns the server's own commands that go into a batch before all others, from the
            time of the batch and the budget of each order in it.
        open_market: opens the markets of orders that name unknown ones; None where none opens.
        on_commit: called on the log thread with the seconds that writing a batch took. Must not
            raise.
    """

    def __init__(
        self,
        log: Log,
        state: ServerState,
        clock_ms: Callable[[], int],
        *,
        ids: Ids | None = None,
        event_hash: bytes = ZERO_HASH,
        max_queued: int = MAX_QUEUED,
        charges: TakeCharges = lambda now_ms, payers: (),
        open_market: OpenMarket | None = None,
        on_commit: Callable[[float], object] = lambda _: None,
    ) -> None:
        self.state: Final = state
        self.after_commit: Final[list[Callable[[], object]]] = []
        """Run on the log thread when the sequencer starts and after each batch, once the callers
        have their results. Errors are ignored."""
        self.upkeep: Final[list[Callable[[], object]]] = [log.tidy]
        """Run like ``after_commit``, within ``UPKEEP_S`` of a batch: once for all batches until
        then, since the next request would wait for it."""
        self.prelude: Callable[[int], Sequence[AnyCommand]] | None = None
        """Returns commands that precede all others of the next batch, from its time; called
        once."""
        self.before_batch: Callable[[int], Sequence[AnyCommand]] = lambda now_ms: ()
        """Returns commands that precede those of the callers of each batch, from its time."""
        self._listeners: list[Listener] = []
        self._log = log
        self._clock_ms = clock_ms
        self._ids = ids
        self.seq: int = log.tail.seq
        """Number of the last command that was committed."""
        self.complete_seq: int = log.tail.seq
        """Number of the last command of a batch that was applied as a whole; the log may have the
        next one already."""
        self.event_hash: bytes = event_hash
        """The event hash after that command."""
        self.is_owner: bool = True
        """Whether this process appends to the log; in a cluster one node does."""
        self._max_queued = max_queued
        self._charges = charges
        self._open_market = open_market
        self._on_commit = on_commit
        self._order_number = 0
        self._queue: list[tuple[Work, Callback]] = []
        self._has_work = asyncio.Event()
        self._is_open = True
        self._thread: LogThread | None = None
        self._upkeep_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def num_queued(self) -> int:
        """Number of commands that wait for the next batch."""
        return len(self._queue)

    def subscribe(self, *listeners: Listener) -> None:
        """Call ``listeners`` with each committed batch."""
        self._listeners.extend(listeners)

    def next_order_id(self, now_ms: int) -> str:
        """Return the id of the next order.

        Call it from a :data:`~clob_server.core.sequencer.Build`, which runs in log order.
        """
        assert self._ids is not None, "a sequencer that places orders needs ids"
        self._order_number = max(self._order_number, self.state.num_orders) + 1
        return self._ids.order(now_ms, self._order_number)

    async def submit(self, work: Work) -> Committed:
        """Queue a command and wait for its result.

        Returns:
            The command with its events; of several commands the last.

        Raises:
            SequencerStoppedError: the server is shutting down.
            QueueFullError: too many commands wait.
            ClockUnsureError: the time is not certain; nothing was written.
            CommitUnknownError: the server was interrupted while it wrote the command.
            LogFailedError: writing failed, so the process has to end.
            RejectedError: the command was rejected. The rejection is in the log.
            Exception: raised by ``work`` while it built its command; nothing was written.
        """
        committed = await self.try_submit(work)
        if isinstance(committed.outcome, RejectedError):
            raise committed.outcome
        return committed

    async def try_submit(self, work: Work) -> Committed:
        """Queue a command like :meth:`submit`, but return a rejection instead of raising it."""
        if self._loop is None:  # looking it up each time costs a system call
            self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Committed] = self._loop.create_future()
        self.enqueue(work, partial(resolve, future))
        return await future

    async def deliver(self, work: Work) -> Committed:
        """Submit a command that the server itself makes, like :meth:`try_submit`.

        Waits while the queue is full or the time is not certain: such a command must not get lost.
        """
        while True:
            try:
                return await self.try_submit(work)
            except (QueueFullError, ClockUnsureError):
                await asyncio.sleep(RETRY_S)

    def enqueue(self, work: Work, callback: Callback) -> None:
        """Queue a command; ``callback`` receives the result.

        Raises:
            SequencerStoppedError: the server is shutting down.
            QueueFullError: too many commands wait.
        """
        if not self._is_open:
            raise SequencerStoppedError("the server is shutting down and accepts no new commands")
        if len(self._queue) >= self._max_queued:
            raise QueueFullError(
                f"queue full: {self._max_queued:,} commands are waiting; retry later"
            )
        if not self._queue:
            self._has_work.set()
        self._queue.append((work, callback))

    async def run(self) -> None:
        """Commit batches until :meth:`stop` was called and the queue is empty.

        Raises:
            LogFailedError: a commit failed. Its callers got this error, queued callers got
                ``SequencerStoppedError``, and the process has to end.
        """
        self._thread = thread = LogThread("log")
        try:
            self._follow_up(thread)
            await self._work(thread)
        except BaseException as error:
            self._fail_queued(error)
            raise
        finally:
            self._is_open = False
            self._thread = None
            if self._upkeep_timer is not None:
                self._upkeep_timer.cancel()
                self._run_upkeep(thread)
            thread.close()

    async def _work(self, thread: LogThread) -> None:
        """Commit batches while commands are accepted, and those that are queued then."""
        while self._accepts or self._queue:
            await self._has_work.wait()
            for _ in range(ROUNDS_MAX):  # 30 of 32 clients share a batch; 13 without this
                count = len(self._queue)
                await asyncio.sleep(0)  # requests that are already readable join
                if len(self._queue) == count:
                    break
            self._has_work.clear()
            if self._queue:
                await self._commit(self._take_batch(), thread)

    @property
    def _accepts(self) -> bool:
        """Whether commands are accepted."""
        return self._is_open

    def stop(self) -> None:
        """Reject new commands, finish the queued ones, then return from :meth:`run`."""
        self._is_open = False
        self._has_work.set()

    def run_on_log_thread(self, work: Callable[[], object]) -> None:
        """Run ``work`` on the log thread between two batches, if it runs; errors are ignored."""
        if self._thread is not None:
            self._thread.enqueue(work)

    async def read_log(self, work: Callable[[], _T]) -> _T:
        """Return the result of ``work``, which reads the log on its thread between two batches.

        Raises:
            SequencerStoppedError: the server is shutting down.
        """
        if self._thread is None:
            raise SequencerStoppedError("the server is shutting down")
        result: _T = await self._thread.run(work)
        return result

    # ----- a batch ---------------------------------------------------------------------------

    def _take_batch(self) -> list[tuple[Work, Callback]]:
        """Remove the commands of the next batch from the queue, at most ``COMMANDS_MAX``.

        A guarded command is the first of its batch.
        """
        queue, count = self._queue, 0
        for place, (work, _) in enumerate(queue):
            count += num_commands(work)
            if place and (count > COMMANDS_MAX or type(work) is GuardedWork):
                self._queue = queue[place:]
                self._has_work.set()
                return queue[:place]
        self._queue = []
        return queue

    async def _commit(self, batch: list[tuple[Work, Callback]], thread: LogThread) -> None:
        """Write a batch, apply it, and answer its callers."""
        callbacks = [callback for _, callback in batch]
        try:
            now_ms = max(self._clock_ms(), self.state.now_ms)
            commands, encoded, indexes, callbacks = self._assign(batch, now_ms)
            if not commands:
                return
            await thread.run(partial(self._append, encoded))
            first, last = 0, len(commands)
            while first < last:
                committed = self._apply(commands, first)
                after = first + len(committed)
                count = bisect_left(indexes, after)
                for index, callback in zip(indexes[:count], callbacks, strict=False):
                    callback(committed[index - first])
                indexes, callbacks, first = indexes[count:], callbacks[count:], after
                await self._notify(committed)  # a client prepares its next request meanwhile
                if first < last:
                    await asyncio.sleep(0)
        except ClockUnsureError as error:  # nothing was written
            for callback in callbacks:
                callback(error)
            return
        except BaseException as error:
            failure: Exception = CommitUnknownError(
                "the server was interrupted while it wrote the command"
            )
            if isinstance(error, Exception):
                failure = error
            for callback in callbacks:
                callback(failure)
            raise
        self._follow_up(thread)

    def _assign(
        self, batch: list[tuple[Work, Callback]], now_ms: int
    ) -> tuple[list[AnyCommand], list[bytes], list[int], list[Callback]]:
        """Assign time, numbers and ids to a batch, and encode it.

        Returns:
            The commands, their bytes, and for each caller the index of its command and its
            callback. Callers are left out if their command could not be built; they got the error.
        """
        commands: list[AnyCommand] = []
        encoded: list[bytes] = []
        payers: list[bytes | None] = []
        indexes, callbacks = [], []
        opening: dict[str, Opening] = {}
        if self.prelude is not None:
            commands += self.prelude(now_ms)
            self.prelude = None
        commands += self.before_batch(now_ms)
        encoded += map(encode, commands)
        for work, callback in batch:
            try:
                if type(work) is GuardedWork:
                    work.check()
                    work = work.work
                if type(work) is NewOrder:
                    built = self._with_ids(work, opening, now_ms)
                elif type(work) is NewOrders:
                    built = self._batch_with_ids(work, opening, now_ms)
                else:
                    built = _build(work, now_ms)
                encoded += [
                    encode_command(command) if type(command) in ENGINE else encode(command)
                    for command in built
                ]
            except Exception as error:  # belongs to the caller of this command alone
                callback(error)
            else:
                commands += built
                payers += payers_of(work, built)
                indexes.append(len(commands) - 1)
                callbacks.append(callback)
        if charges := self._charges(now_ms, payers):
            commands[:0] = charges
            # They come from the server itself, so encode's check of their types is not needed.
            encoded[:0] = [KINDS[type(command)] + pack(command) for command in charges]
            indexes = [index + len(charges) for index in indexes]
        return commands, encoded, indexes, callbacks

    def _with_ids(
        self, new: NewOrder, opening: dict[str, Opening], now_ms: int
    ) -> tuple[AnyCommand, ...]:
        """Return the command that places an order, after those that open its market, if any.

        Raises:
            ClobError: the market cannot be opened.
        """
        before: tuple[AnyCommand, ...] = ()
        if new.opener is not None and self._open_market is not None:
            before = self._open_market(new.submit, new.opener, opening, now_ms)
        order = replace(new.submit.order, id=self.next_order_id(now_ms))
        submit = replace(new.submit, order=order, now_ms=now_ms)
        return (*before, submit) if before else (submit,)

    def _batch_with_ids(
        self, new: NewOrders, opening: dict[str, Opening], now_ms: int
    ) -> tuple[AnyCommand, ...]:
        """Return the batch that places several orders, after the commands that open their markets.

        Raises:
            NoOrderLeftError: each of them was rejected; ``new.rejected`` has the reasons.
        """
        before: list[AnyCommand] = []
        submits: list[Submit] = []
        for index, each in enumerate(new.orders):
            try:
                *opened, submit = self._with_ids(each, opening, now_ms)
            except ClobError as error:
                new.rejected[index] = error
            else:
                before += opened
                submits.append(submit)  # type: ignore[arg-type]
        if not submits:
            raise NoOrderLeftError("every order of the batch was rejected")
        commands: tuple[Cancel | Submit, ...] = (*new.cancels, *submits)
        return (*before, Batch(commands=commands, atomic=new.atomic, now_ms=now_ms))

    def _append(self, encoded: Sequence[bytes]) -> None:
        """Write a batch, with the event hash before it; runs on the log thread.

        The log rejects it if something else has appended since the last batch.
        """
        start = time.perf_counter()
        self._log.append(encoded, self.seq, event_hash=self.event_hash)
        self._on_commit(time.perf_counter() - start)

    def _apply(self, commands: Sequence[AnyCommand], first: int) -> list[Committed]:
        """Apply commands of a durable batch from an index on, up to ``WORK_MAX`` of work.

        The event hash covers the commands of the engine.
        """
        committed, state, outcome, work = [], self.state, None, 0
        for seq, command in enumerate(islice(commands, first, None), self.seq + 1):
            num_trades = state.num_trades
            try:
                outcome = state.apply(command)
            except RejectedError as rejection:
                outcome = rejection
            else:
                work += len(outcome)  # type: ignore[arg-type]
            if type(command) in ENGINE:
                self.event_hash = event_hash(self.event_hash, outcome)
            committed.append(Committed(seq, command, outcome, num_trades))
            work += 1
            if work >= WORK_MAX:
                break
        self.seq += len(committed)
        return committed

    async def _notify(self, committed: Sequence[Committed]) -> None:
        """Call the listeners with commands that were applied, and do the work that they leave."""
        for rest in [listener(committed) for listener in self._listeners]:
            if rest is not None:
                await asyncio.sleep(0)
                for _ in rest:
                    await asyncio.sleep(0)

    def _follow_up(self, thread: LogThread) -> None:
        """Queue the work after a batch on the log thread."""
        self.complete_seq = self.seq
        if self.after_commit:
            thread.enqueue(partial(run_all, self.after_commit))
        if self._upkeep_timer is None:
            loop = asyncio.get_running_loop()
            self._upkeep_timer = loop.call_later(UPKEEP_S, self._run_upkeep, thread)

    def _run_upkeep(self, thread: LogThread) -> None:
        self._upkeep_timer = None
        thread.enqueue(partial(run_all, self.upkeep))

    def _fail_queued(self, error: BaseException) -> None:
        self._is_open = False
        queued, self._queue = self._queue, []
        for _, callback in queued:
            callback(SequencerStoppedError("the server has stopped"))


def num_commands(work: Work) -> int:
    """Return the number of commands that a caller submitted; a batch counts each of its own."""
    if type(work) is GuardedWork:
        return num_commands(work.work)
    if type(work) is NewOrders:
        return len(work.orders)
    return len(work.commands) if type(work) is Batch else 1


def payers_of(work: Work, built: Sequence[AnyCommand]) -> Sequence[bytes | None]:
    """Return the budget of each order in the commands that were built for a caller."""
    if type(work) is NewOrder:
        return (work.payer,)
    payer = work.orders[0].payer if type(work) is NewOrders else None
    count = 0
    for command in built:
        if type(command) is Batch:
            count += sum(type(each) is Submit for each in command.commands)
        else:
            count += type(command) is Submit
    return (payer,) * count


def _build(work: Work, now_ms: int) -> tuple[AnyCommand, ...]:
    """Return the commands of a caller for the time of their batch."""
    if callable(work):
        built = work(now_ms)
        commands = built if isinstance(built, tuple) else (built,)
    else:
        given = work if isinstance(work, tuple) else (work,)
        commands = tuple(replace(command, now_ms=now_ms) for command in given)  # type: ignore[misc]
    if not commands:
        raise TypeError("expected at least one command; got an empty tuple")
    return commands


async def expire_orders(sequencer: Sequencer, clock_ms: Callable[[], int]) -> None:
    """Expire orders within two seconds of falling due, until cancelled (decision 50).

    Args:
        sequencer: commits the command.
        clock_ms: returns the confirmed time, or raises ``ClockUnsureError``.
    """
    while True:
        await asyncio.sleep(EXPIRY_INTERVAL_S)
        with suppress(ClobError):  # the next round tries again
            await expire_due(sequencer, clock_ms)


async def expire_due(sequencer: Sequencer, clock_ms: Callable[[], int]) -> None:
    """Expire the orders that are due, if any; see :func:`expire_orders`.

    Raises:
        ClockUnsureError: the time is not certain.
        SequencerStoppedError, QueueFullError: see :meth:`Sequencer.submit`.
    """
    next_s = sequencer.state.matcher.next_expiry_s
    if next_s is not None and clock_ms() // 1000 > next_s:
        await sequencer.submit(Expire())
