"""Takes what the server asks for: begins operations once, goes on, says how they stand."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import msgspec

from clob_server.chain.messages import (
    AnyAsked,
    AnyTold,
    Begin,
    Known,
    List,
    Listed,
    Look,
    NotKnown,
    OperationDone,
    OperationFailed,
    OperationPending,
    OperationRejected,
    OperationView,
    Retry,
    Status,
    StepView,
    Unknown,
)
from clob_server.chain.operations.base import (
    RefusalError,
    Run,
    StepFailedError,
    StuckError,
    Work,
    World,
    encoded,
    hashes_of,
)
from clob_server.chain.operations.faucet import GapBody
from clob_server.chain.operations.registry import read_work, work_of, write_body
from clob_server.chain.tx.outbox import Outbox, clock_ms
from clob_server.chain.tx.steps import Operation, Step


class Locks:
    """A lock for each name that somebody has or waits for."""

    def __init__(self) -> None:
        self._locks: Final[dict[str, _Lock]] = {}

    async def take(self, name: str, is_exclusive: bool) -> None:
        """Wait for a lock, and take it.

        Args:
            name: which.
            is_exclusive: if nobody else may have it at the same time.
        """
        await self._locks.setdefault(name, _Lock()).take(is_exclusive)

    def give_back(self, name: str) -> None:
        """Give back what was taken."""
        lock = self._locks[name]
        lock.give_back()
        if lock.is_free:
            del self._locks[name]


class _Lock:
    """One of them."""

    def __init__(self) -> None:
        self._holders = 0
        self._is_exclusive = False
        self._queue: deque[tuple[bool, asyncio.Future[None]]] = deque()

    @property
    def is_free(self) -> bool:
        """If nobody has it, nor waits for it."""
        return not self._holders and not self._queue

    async def take(self, is_exclusive: bool) -> None:
        """Wait for it, and take it."""
        if not self._queue and self._may(is_exclusive):
            self._hold(is_exclusive)
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((is_exclusive, turn))
        await turn

    def give_back(self) -> None:
        """Give it back, and let those have it whose turn it is."""
        self._holders -= 1
        while self._queue and self._may(self._queue[0][0]):
            is_exclusive, turn = self._queue.popleft()
            if not turn.done():
                self._hold(is_exclusive)
                turn.set_result(None)

    def _may(self, is_exclusive: bool) -> bool:
        """Say if one more may have it."""
        return not self._holders or not (self._is_exclusive or is_exclusive)

    def _hold(self, is_exclusive: bool) -> None:
        """Let one more have it."""
        self._holders += 1
        self._is_exclusive = is_exclusive


def operation_view(operation: Operation, steps: list[Step]) -> OperationView:
    """Show an operation.

    Args:
        operation: the operation.
        steps: its steps, in the order they were written.
    """
    return OperationView(
        number=operation.number,
        id=operation.id,
        kind=operation.kind,
        status=cast(Status, operation.status),
        body=msgspec.Raw(operation.body),
        error=operation.error,
        begun_ms=operation.begun_ms,
        changed_ms=operation.changed_ms,
        steps=[step_view(step) for step in steps],
    )


def step_view(step: Step) -> StepView:
    """Show a step."""
    return StepView(
        name=step.name,
        status=step.status,
        nonce=step.nonce,
        hashes=[offer.hash for offer in step.offers],
        num_bumps=max(0, len(step.offers) - 1),
        block=step.block,
        error=step.error,
        changed_ms=step.changed_ms,
    )


PROMISED_S: Final = 2.0
"""How long an operation waits at most for what others take, before it is refused for that."""
COMMIT_S: Final = 0.05
"""How long the end of an operation waits at most for a sync that is needed anyway."""

_LOG: Final = logging.getLogger("clob_server.chain")


class OperationRunner:
    """All operations of a worker.

    Args:
        outbox: where they are written.
        tell: says something to the server.
        problem: says why operations cannot begin yet.
    """

    def __init__(
        self, outbox: Outbox, tell: Callable[[AnyTold], None], problem: Callable[[], str]
    ) -> None:
        self._outbox = outbox
        self._tell = tell
        self._problem = problem
        self._locks = Locks()
        self._checking: dict[str, bytes] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._committing: asyncio.TimerHandle | None = None
        self.world: World | None = None
        """What operations work with; None until they can begin."""

    def open(self, world: World) -> None:
        """Go on with what a worker before this one began, and let more begin."""
        self.world = world
        for operation in self._outbox.pending():
            self._go_on(operation)

    async def close(self) -> None:
        """Leave everything as it is, for the next worker."""
        if self._committing is not None:
            self._committing.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hear(self, asked: AnyAsked) -> None:
        """Do what the server asks for."""
        match asked:
            case Begin():
                self._begin(asked)
            case Look():
                self._tell(self._stand(asked.id))
            case Retry():
                self._tell(self._retry(asked.id))
            case List():
                found = self._outbox.newest(asked.status, asked.limit, asked.before)
                views = [operation_view(each, self._outbox.steps(each.number)) for each in found]
                self._tell(Listed(request=asked.request, operations=views))
            case Known():
                missing = [each for each in asked.ids if not self._came_to_something(each)]
                self._tell(NotKnown(request=asked.request, ids=missing))

    def _came_to_something(self, name: str) -> bool:
        """Say if an operation is under way, done, or stuck."""
        found = self._outbox.find(name)
        return name in self._checking or (found is not None and found.status != "failed")

    # ----- how they stand --------------------------------------------------------------------

    def _stand(self, name: str) -> AnyTold:
        """Say where an operation stands."""
        operation = self._outbox.find(name)
        if operation is not None:
            return self._standing(operation)
        if name in self._checking:
            return OperationPending(id=name, kind=read_work(self._checking[name]).kind, hashes={})
        return Unknown(id=name)

    def _standing(self, operation: Operation) -> AnyTold:
        """Say where an operation stands that is kept."""
        name, kind = operation.id, operation.kind
        if operation.status == "done":
            return OperationDone(
                id=name, kind=kind, answer=msgspec.Raw(operation.answer or b"null")
            )
        if operation.status == "pending":
            self._outbox.commit()  # it will come to its end: that is relied on
        steps = self._outbox.steps(operation.number)
        hashes = hashes_of(read_work(operation.body).names, steps)
        if operation.status == "pending":
            return OperationPending(id=name, kind=kind, hashes=hashes)
        return OperationFailed(
            id=name,
            kind=kind,
            code="OPERATION_FAILED",
            detail=operation.error or "",
            hashes=hashes,
            undone=operation.status == "failed",
        )

    # ----- beginning, and going on -----------------------------------------------------------

    def _begin(self, asked: Begin) -> None:
        """Begin an operation, unless there is one of that id."""
        body = write_body(asked.body)
        known = self._outbox.find(asked.id)
        before = self._checking.get(asked.id) if known is None else known.body
        if before is not None and before != body:
            detail = "the idempotency key stands for another request, which keeps it"
            self._tell(OperationRejected(id=asked.id, code="IDEMPOTENCY_KEY_REUSED", detail=detail))
        elif known is not None:
            self._tell(self._standing(known))
        elif before is not None:
            return  # the answer to the first is the answer to this
        elif self.world is None:
            detail = self._problem()
            self._tell(OperationRejected(id=asked.id, code="CHAIN_UNAVAILABLE", detail=detail))
        else:
            self._checking[asked.id] = body
            self._spawn(self._start(self.world, asked, body))

    async def _start(self, world: World, asked: Begin, body: bytes) -> None:
        """Check what is asked for, keep it, and do it."""
        work = work_of(asked.body)
        try:
            async with self._lock(work):
                estimates = await self._check(world, work)
                operation = self._outbox.begin(asked.id, work.kind, body, asked.now_ms)
                world.promises.hold(asked.id, work.promised)
                del self._checking[asked.id]
                # Said after what follows at once, so that one sync is for it and its first steps,
                # and a turn of the loop later: the node has them then, and works meanwhile.
                loop = asyncio.get_running_loop()
                loop.call_soon(loop.call_soon, self._say, operation)
                await self._do(Run(world, operation, estimates), work)
        except RefusalError as refusal:
            self._tell(
                OperationRejected(
                    id=asked.id, code=refusal.code, detail=str(refusal), more=refusal.more
                )
            )
        finally:
            self._checking.pop(asked.id, None)

    def _say(self, operation: Operation) -> None:
        """Say where an operation stands."""
        self._tell(self._standing(operation))

    async def _check(self, world: World, work: Work) -> dict[str, int] | None:
        """Refuse what cannot succeed.

        What is promised to another operation may have been taken already, and would count twice.
        So a refusal counts only once nothing is promised, or after a while.
        """
        promises, wanted = world.promises, work.promised
        try:
            return await promises.steady(wanted, lambda: work.check(world))
        except RefusalError:
            if not any(promises.total(each.user, each.asset) for each in wanted):
                raise
            await promises.wait(wanted, PROMISED_S)
            return await promises.steady(wanted, lambda: work.check(world))

    def _go_on(self, operation: Operation) -> None:
        """Go on with an operation that is kept."""
        assert self.world is not None
        work = read_work(operation.body)
        self.world.promises.hold(operation.id, work.promised)
        self._spawn(self._resume(self.world, operation, work))

    async def _resume(self, world: World, operation: Operation, work: Work) -> None:
        """Go on, with what it must have."""
        async with self._lock(work):
            await self._do(Run(world, operation), work)

    async def _do(self, run: Run, work: Work) -> None:
        """Do it, to its end, and say what came of it."""
        operation = run.operation
        try:
            answer = await work.run(run)
        except StepFailedError as failed:
            operation = self._outbox.settle(operation.number, "failed", error=str(failed))
        except StuckError as stuck:
            _LOG.error("operation %s is stuck: %s", operation.id, stuck)
            operation = self._outbox.settle(operation.number, "stuck", error=str(stuck))
        except Exception as error:
            _LOG.exception("operation %s is stuck by a mistake of ours", operation.id)
            problem = f"{type(error).__name__}: {error}"
            operation = self._outbox.settle(operation.number, "stuck", error=problem)
        else:
            operation = self._outbox.settle(operation.number, "done", answer=encoded(answer))
        finally:
            run.world.promises.release(operation.id)
        # Its steps are durable, and the same end follows from them: the answer need not wait, nor
        # what is asked for next, whose sync makes this durable, too.
        self._say(operation)
        if self._committing is None:
            self._committing = asyncio.get_running_loop().call_later(COMMIT_S, self._commit)

    def _commit(self) -> None:
        """Make durable what nothing else has by now."""
        self._committing = None
        self._outbox.commit()

    def _retry(self, name: str) -> AnyTold:
        """Go on with an operation that is stuck."""
        operation = self._outbox.find(name)
        if operation is not None and operation.status == "stuck":
            if self.world is None:
                return OperationRejected(id=name, code="CHAIN_UNAVAILABLE", detail=self._problem())
            self._outbox.forget_failures(operation.number)
            self._restart(operation)
        return self._stand(name)

    def _restart(self, operation: Operation) -> None:
        """Have an operation go on that had come to an end."""
        operation = self._outbox.settle(operation.number, "pending")
        self._outbox.commit()
        self._go_on(operation)

    def fill(self, nonce: int) -> None:
        """Have a nonce used that nobody uses, as an operation of the worker's own."""
        if self.world is None:
            return
        body = GapBody(nonce=nonce)
        now_ms = clock_ms()
        name = f"gap:{nonce}:{now_ms}"
        operation = self._outbox.begin(name, "gap", write_body(body), now_ms)
        self._outbox.commit()
        self._go_on(operation)

    def after_reorganisation(self, step: Step) -> None:
        """Take what became of a step that was in a block, and then in none any more.

        An operation under way sees it by itself. One that is done must be done again, as far as
        that step goes, or it is stuck.
        """
        operation = self._outbox.operation(step.operation)
        if operation.status != "done" or step.status == "confirmed":
            return
        _LOG.critical("a reorganisation undid %s of operation %s", step.name, operation.id)
        if step.status == "lost" and self.world is not None:
            self._restart(operation)
            return
        error = f"{step.name} failed after a reorganisation: {step.error}"
        self._outbox.settle(operation.number, "stuck", error=error)
        self._outbox.commit()

    # ----- tasks -----------------------------------------------------------------------------

    @asynccontextmanager
    async def _lock(self, work: Work) -> AsyncIterator[None]:
        """Have what an operation must have."""
        if work.lock is None:
            yield
            return
        await self._locks.take(work.lock.condition, work.lock.is_exclusive)
        try:
            yield
        finally:
            self._locks.give_back(work.lock.condition)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done besides."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        """Let go of a task; what it did not expect is for the log."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a mistake of ours", exc_info=error)


# MERGED clob_server.chain.worker.operations: Locks of conditions: many may have one together, or one alone; first come, first served.

# MERGED clob_server.chain.worker.operations: Operations as the operator of the server sees them.
