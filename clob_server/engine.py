"""One owner of the state behind a log: what is asked is made durable, then done, then answered.

There is no timer and no size of a batch: while one batch is being made durable, the next gathers.
Nobody hears of anything that is not durable. The clock is read here, once for a batch.
"""

import asyncio
import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from clob import ClobError, Command, RejectedError
from clob.codec import encode
from clob.journal import ZERO_HASH, Outcome, event_hash
from clob_server.log import Log
from clob_server.state import State, outcome_of
from clob_server.worker import Worker

WAITING_MAX: Final = 10_000
"""How many commands may wait to be made durable; more are turned away at once."""


class EngineStoppedError(ClobError):
    """The engine takes nothing more: it is draining, has stopped, or its log has failed."""

    code = "ENGINE_STOPPED"


class OutcomeUnknownError(ClobError):
    """The engine was broken off while the command was on its way: it may or may not be done."""

    code = "OUTCOME_UNKNOWN"


class EngineFullError(ClobError):
    """As many commands as are allowed wait already."""

    code = "ENGINE_FULL"


Make: TypeAlias = Callable[[int], Command]
"""Takes the time of its batch and gives the command, so that ids and times are chosen in order."""


class Done(NamedTuple):
    """A command that is durable and done."""

    seq: int
    """Its place in the log."""
    command: Command
    """The command."""
    outcome: Outcome
    """Its events, or its refusal."""


Answer: TypeAlias = "asyncio.Future[Outcome]"
"""What the one who asked waits for."""

Asked: TypeAlias = tuple[Make, Answer]
"""What waits for its batch."""

COMMANDS: Final = frozenset(typing.get_args(Command))
"""The types of the commands; their canonical bytes alone may be appended."""

Listener: TypeAlias = Callable[[Sequence[Done]], None]
"""Hears of each batch, in sequence, before those who asked do. It must not raise."""


class Engine:
    """Takes commands from many, and does them in one sequence.

    Args:
        log: where they are made durable; nobody else may append to it.
        state: what they change; it must have taken in the whole log.
        clock_ms: tells the time, Unix milliseconds.
        hashed: the event hash after the last command of the log.
        waiting_max: how many may wait.
    """

    def __init__(
        self,
        log: Log,
        state: State,
        clock_ms: Callable[[], int],
        *,
        hashed: bytes = ZERO_HASH,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self.state: Final = state
        self.listeners: Final[list[Listener]] = []
        self._log = log
        self._clock_ms = clock_ms
        self._seq = log.tail.seq
        self._hashed = hashed
        self._waiting_max = waiting_max
        self._waiting: list[Asked] = []
        self._wake = asyncio.Event()
        self._open = True
        self._worker: Worker

    @property
    def seq(self) -> int:
        """The number of the last command that is durable and done."""
        return self._seq

    @property
    def event_hash(self) -> bytes:
        """The event hash after the last command that was done."""
        return self._hashed

    @property
    def num_waiting(self) -> int:
        """How many commands wait for the next batch."""
        return len(self._waiting)

    async def ask(self, make: Make) -> Outcome:
        """Have a command done, and hear what came of it.

        Args:
            make: gives the command for the time of its batch. If it raises, so does this, and
                nothing was asked.

        Returns:
            The events.

        Raises:
            EngineStoppedError: it takes nothing more.
            EngineFullError: too many wait.
            OutcomeUnknownError: the engine was broken off meanwhile.
            LogFailedError: nobody knows whether it is durable; the process has to end.
            RejectedError: the command was refused. The refusal is in the log.
        """
        if not self._open:
            raise EngineStoppedError("the engine takes nothing more")
        if len(self._waiting) >= self._waiting_max:
            raise EngineFullError(f"{self._waiting_max} commands wait already")
        answer: Answer = asyncio.get_running_loop().create_future()
        self._waiting.append((make, answer))
        self._wake.set()
        outcome = await answer
        if isinstance(outcome, RejectedError):
            raise outcome
        return outcome

    async def run(self) -> None:
        """Work until :meth:`stop`, and then until nothing waits.

        Raises:
            LogFailedError: a commit failed. Who was in it has heard so, who waited for the next
                one that the engine has stopped, and the process has to end.
        """
        self._worker = Worker("log")
        try:
            while self._open or self._waiting:
                await self._wake.wait()
                self._wake.clear()
                if self._waiting:
                    batch, self._waiting = self._waiting, []
                    await self._commit(batch)
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            self._open = False
            self._worker.close()

    def stop(self) -> None:
        """Take nothing more; what waits is still done, and then :meth:`run` returns."""
        self._open = False
        self._wake.set()

    # ----- a batch ---------------------------------------------------------------------------

    async def _commit(self, batch: list[Asked]) -> None:
        """Make a batch durable, do it, and answer."""
        try:
            commands, raws, answers = self._build(batch)
            if not commands:
                return
            await self._worker.ask(partial(self._append, raws))
            done = self._do(commands)
            for listener in self.listeners:
                listener(done)
        except BaseException as error:
            for _, answer in batch:
                fail(answer, error)
            raise
        for answer, each in zip(answers, done, strict=True):
            if not answer.done():  # who asked may have gone
                answer.set_result(each.outcome)
        # In the same thread, so that it is over before the next batch is written.
        self._worker.tell(self._log.tidy)

    def _build(self, batch: list[Asked]) -> tuple[list[Command], list[bytes], list[Answer]]:
        """Make the commands of a batch; what cannot be asked fails for the one who asked it."""
        now_ms = max(self._clock_ms(), self.state.now_ms)
        commands, raws, answers = [], [], []
        for make, answer in batch:
            try:
                command = make(now_ms)
                if type(command) not in COMMANDS:
                    raise TypeError(f"a command is asked for, not {command!r:.99}")
                raws.append(encode(command))
            except Exception as error:  # whatever it is, it is his
                fail(answer, error)
            else:
                commands.append(command)
                answers.append(answer)
        return commands, raws, answers

    def _append(self, raws: Sequence[bytes]) -> None:
        """Make a batch durable, with the event hash before it; runs in the thread of the log.

        It follows what was done here, so that the log refuses it if anybody else has appended.
        """
        self._log.append(raws, self._seq, event_hash=self._hashed)

    def _do(self, commands: Sequence[Command]) -> list[Done]:
        """Do what is durable."""
        done = []
        for seq, command in enumerate(commands, self._seq + 1):
            outcome = outcome_of(self.state, command)
            self._hashed = event_hash(self._hashed, outcome)
            done.append(Done(seq, command, outcome))
        self._seq += len(done)
        return done

    def _give_up(self, error: BaseException) -> None:
        """Tell all who wait that nothing will come."""
        self._open = False
        waiting, self._waiting = self._waiting, []
        for _, answer in waiting:
            fail(answer, EngineStoppedError(f"the engine has stopped: {error!r}"))


def fail(answer: Answer, error: BaseException) -> None:
    """Tell the one who asked that nothing will come, if he still waits."""
    if answer.done():
        return
    if isinstance(error, StopIteration):  # no future takes it
        error = RuntimeError(repr(error))
    if not isinstance(error, Exception):
        error = OutcomeUnknownError(f"the engine was broken off: {error!r}")
    answer.set_exception(error)
