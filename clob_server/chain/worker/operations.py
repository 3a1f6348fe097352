"""Runs operations for the server: starts each once, resumes pending ones, reports their status."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import msgspec

from clob_server.chain.messages import (
    AnyServerMessage,
    AnyWorkerMessage,
    BeginOperation,
    FindMissing,
    GetOperation,
    ListOperations,
    MissingOperations,
    OperationDone,
    OperationFailed,
    OperationList,
    OperationPending,
    OperationRejected,
    OperationUnknown,
    OperationView,
    RetryOperation,
    Status,
    StepView,
)
from clob_server.chain.operations.base import (
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    StuckError,
    Work,
    encode_json,
    step_hashes,
)
from clob_server.chain.operations.faucet import GapBody
from clob_server.chain.operations.registry import create_work, decode_work, encode_body
from clob_server.chain.tx.outbox import Outbox, clock_ms
from clob_server.chain.tx.steps import Operation, Step


class Locks:
    """Shared or exclusive locks by name, granted in order of request."""

    def __init__(self) -> None:
        self._locks: Final[dict[str, _Lock]] = {}

    async def acquire(self, name: str, is_exclusive: bool) -> None:
        """Acquire a lock.

        Args:
            name: name of the lock.
            is_exclusive: whether no other holder is allowed.
        """
        await self._locks.setdefault(name, _Lock()).acquire(is_exclusive)

    def release(self, name: str) -> None:
        """Release a lock."""
        lock = self._locks[name]
        lock.release()
        if lock.is_free:
            del self._locks[name]


class _Lock:
    """A shared or exclusive lock."""

    def __init__(self) -> None:
        self._holders = 0
        self._is_exclusive = False
        self._queue: deque[tuple[bool, asyncio.Future[None]]] = deque()

    @property
    def is_free(self) -> bool:
        """Whether the lock has neither holders nor waiters."""
        return not self._holders and not self._queue

    async def acquire(self, is_exclusive: bool) -> None:
        """Wait for the lock and acquire it."""
        if not self._queue and self._may(is_exclusive):
            self._hold(is_exclusive)
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((is_exclusive, turn))
        await turn

    def release(self) -> None:
        """Release the lock and grant it to waiters in order."""
        self._holders -= 1
        while self._queue and self._may(self._queue[0][0]):
            is_exclusive, turn = self._queue.popleft()
            if not turn.done():
                self._hold(is_exclusive)
                turn.set_result(None)

    def _may(self, is_exclusive: bool) -> bool:
        """Return whether another holder is allowed."""
        return not self._holders or not (self._is_exclusive or is_exclusive)

    def _hold(self, is_exclusive: bool) -> None:
        """Add a holder."""
        self._holders += 1
        self._is_exclusive = is_exclusive


def operation_view(operation: Operation, steps: list[Step]) -> OperationView:
    """Return an operation for the admin API.

    Args:
        operation: the operation.
        steps: its steps in insertion order.
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
    """Return a step for the admin API."""
    return StepView(
        name=step.name,
        status=step.status,
        nonce=step.nonce,
        hashes=[offer.hash for offer in step.transactions],
        num_bumps=max(0, len(step.transactions) - 1),
        block=step.block,
        error=step.error,
        changed_ms=step.changed_ms,
    )


RESERVED_S: Final = 2.0
"""Seconds that an operation waits for amounts reserved by others before it is rejected."""
COMMIT_S: Final = 0.05
"""Maximum delay of the commit after an operation ends, seconds; usually another commit is first."""

_LOG: Final = logging.getLogger("clob_server.chain")


class OperationRunner:
    """Runs all operations of a worker.

    Args:
        outbox: storage of the operations.
        send: sends a message to the server.
        problem: returns the reason why operations cannot begin yet.
    """

    def __init__(
        self, outbox: Outbox, send: Callable[[AnyWorkerMessage], None], problem: Callable[[], str]
    ) -> None:
        self._outbox = outbox
        self._send = send
        self._problem = problem
        self._locks = Locks()
        self._checking: dict[str, bytes] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._committing: asyncio.TimerHandle | None = None
        self.context: OperationContext | None = None
        """Context of the operations; None until they can begin."""

    def start(self, context: OperationContext) -> None:
        """Resume pending operations and accept new ones."""
        self.context = context
        for operation in self._outbox.pending():
            self._resume(operation)

    async def close(self) -> None:
        """Cancel all tasks; the next worker resumes the operations."""
        if self._committing is not None:
            self._committing.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def handle(self, request: AnyServerMessage) -> None:
        """Handle a message of the server."""
        match request:
            case BeginOperation():
                self._begin(request)
            case GetOperation():
                self._send(self._status(request.id))
            case RetryOperation():
                self._send(self._retry(request.id))
            case ListOperations():
                found = self._outbox.newest(request.status, request.limit, request.before)
                views = [operation_view(each, self._outbox.steps(each.number)) for each in found]
                self._send(OperationList(request=request.request, operations=views))
            case FindMissing():
                missing = [each for each in request.ids if not self._is_active(each)]
                self._send(MissingOperations(request=request.request, ids=missing))

    def _is_active(self, name: str) -> bool:
        """Return whether an operation is pending, done or stuck."""
        found = self._outbox.find(name)
        return name in self._checking or (found is not None and found.status != "failed")

    # ----- status ----------------------------------------------------------------------------

    def _status(self, name: str) -> AnyWorkerMessage:
        """Return the status of an operation."""
        operation = self._outbox.find(name)
        if operation is not None:
            return self._stored_status(operation)
        if name in self._checking:
            return OperationPending(id=name, kind=decode_work(self._checking[name]).kind, hashes={})
        return OperationUnknown(id=name)

    def _stored_status(self, operation: Operation) -> AnyWorkerMessage:
        """Return the status of a stored operation."""
        name, kind = operation.id, operation.kind
        if operation.status == "done":
            return OperationDone(
                id=name, kind=kind, answer=msgspec.Raw(operation.answer or b"null")
            )
        if operation.status == "pending":
            self._outbox.commit()  # the server relies on a pending operation
        steps = self._outbox.steps(operation.number)
        hashes = step_hashes(decode_work(operation.body).step_names, steps)
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

    # ----- starting and resuming -------------------------------------------------------------

    def _begin(self, request: BeginOperation) -> None:
        """Start an operation unless its id is known."""
        body = encode_body(request.body)
        known = self._outbox.find(request.id)
        before = self._checking.get(request.id) if known is None else known.body
        if before is not None and before != body:
            detail = "the idempotency key was already used for a request with another body"
            self._send(
                OperationRejected(id=request.id, code="IDEMPOTENCY_KEY_REUSED", detail=detail)
            )
        elif known is not None:
            self._send(self._stored_status(known))
        elif before is not None:
            return  # the answer to the first message answers this one
        elif self.context is None:
            detail = self._problem()
            self._send(OperationRejected(id=request.id, code="CHAIN_UNAVAILABLE", detail=detail))
        else:
            self._checking[request.id] = body
            self._spawn(self._start(self.context, request, body))

    async def _start(self, context: OperationContext, request: BeginOperation, body: bytes) -> None:
        """Check, store and run an operation."""
        work = create_work(request.body)
        try:
            async with self._lock(work):
                estimates = await self._check(context, work)
                operation = self._outbox.begin(request.id, work.kind, body, request.now_ms)
                context.reserved.reserve(request.id, work.reservations)
                del self._checking[request.id]
                # Reported after the code that follows at once, so that one fsync covers the
                # operation and its first steps, and one loop turn later, when they are sent.
                loop = asyncio.get_running_loop()
                loop.call_soon(loop.call_soon, self._report, operation)
                await self._run(Run(context, operation, estimates), work)
        except OperationRejectedError as error:
            self._send(
                OperationRejected(
                    id=request.id, code=error.code, detail=str(error), more=error.more
                )
            )
        finally:
            self._checking.pop(request.id, None)

    def _report(self, operation: Operation) -> None:
        """Send the status of an operation."""
        self._send(self._stored_status(operation))

    async def _check(self, context: OperationContext, work: Work) -> dict[str, int] | None:
        """Reject an operation that cannot succeed.

        Amounts reserved by another operation may be taken already, and would count twice. So a
        rejection counts only without reservations, or after :data:`RESERVED_S`.
        """
        reserved, wanted = context.reserved, work.reservations
        try:
            return await reserved.read_unchanged(wanted, lambda: work.check(context))
        except OperationRejectedError:
            if not any(reserved.total(each.user, each.asset) for each in wanted):
                raise
            await reserved.wait(wanted, RESERVED_S)
            return await reserved.read_unchanged(wanted, lambda: work.check(context))

    def _resume(self, operation: Operation) -> None:
        """Resume a stored operation."""
        assert self.context is not None
        work = decode_work(operation.body)
        self.context.reserved.reserve(operation.id, work.reservations)
        self._spawn(self._run_resumed(self.context, operation, work))

    async def _run_resumed(
        self, context: OperationContext, operation: Operation, work: Work
    ) -> None:
        """Resume an operation with its lock."""
        async with self._lock(work):
            await self._run(Run(context, operation), work)

    async def _run(self, run: Run, work: Work) -> None:
        """Run an operation to its end and report it."""
        operation = run.operation
        try:
            answer = await work.run(run)
        except StepFailedError as failed:
            operation = self._outbox.set_status(operation.number, "failed", error=str(failed))
        except StuckError as stuck:
            _LOG.error("operation %s is stuck: %s", operation.id, stuck)
            operation = self._outbox.set_status(operation.number, "stuck", error=str(stuck))
        except Exception as error:
            _LOG.exception("operation %s is stuck after an unexpected error", operation.id)
            problem = f"unexpected error: {type(error).__name__}: {error}"
            operation = self._outbox.set_status(operation.number, "stuck", error=problem)
        else:
            operation = self._outbox.set_status(
                operation.number, "done", answer=encode_json(answer)
            )
        finally:
            run.context.reserved.release(operation.id)
        # The steps are durable and determine the end, so the report need not wait for a commit;
        # the commit of the next operation usually includes this one.
        self._report(operation)
        if self._committing is None:
            self._committing = asyncio.get_running_loop().call_later(COMMIT_S, self._commit)

    def _commit(self) -> None:
        """Commit if no other commit came first."""
        self._committing = None
        self._outbox.commit()

    def _retry(self, name: str) -> AnyWorkerMessage:
        """Resume a stuck operation."""
        operation = self._outbox.find(name)
        if operation is not None and operation.status == "stuck":
            if self.context is None:
                return OperationRejected(id=name, code="CHAIN_UNAVAILABLE", detail=self._problem())
            self._outbox.discard_failures(operation.number)
            self._restart(operation)
        return self._status(name)

    def _restart(self, operation: Operation) -> None:
        """Resume an operation that has ended."""
        operation = self._outbox.set_status(operation.number, "pending")
        self._outbox.commit()
        self._resume(operation)

    def fill_gap(self, nonce: int) -> None:
        """Use a missing nonce, as an operation of the worker's own."""
        if self.context is None:
            return
        body = GapBody(nonce=nonce)
        now_ms = clock_ms()
        name = f"gap:{nonce}:{now_ms}"
        operation = self._outbox.begin(name, "gap", encode_body(body), now_ms)
        self._outbox.commit()
        self._resume(operation)

    def after_reorganisation(self, step: Step) -> None:
        """Handle a step that was in a block before a reorganisation.

        A pending operation handles it by itself. A completed operation runs the step again if its
        nonce was lost; otherwise it becomes stuck.
        """
        operation = self._outbox.operation(step.operation)
        if operation.status != "done" or step.status == "confirmed":
            return
        _LOG.critical("a reorganisation undid %s of operation %s", step.name, operation.id)
        if step.status == "lost" and self.context is not None:
            self._restart(operation)
            return
        error = f"{step.name} failed after a reorganisation: {step.error}"
        self._outbox.set_status(operation.number, "stuck", error=error)
        self._outbox.commit()

    # ----- tasks -----------------------------------------------------------------------------

    @asynccontextmanager
    async def _lock(self, work: Work) -> AsyncIterator[None]:
        """Hold the lock of an operation."""
        if work.lock is None:
            yield
            return
        await self._locks.acquire(work.lock.condition, work.lock.is_exclusive)
        try:
            yield
        finally:
            self._locks.release(work.lock.condition)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        """Remove a task and log an unexpected error."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("unexpected error", exc_info=error)
