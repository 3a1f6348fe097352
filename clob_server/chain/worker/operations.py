"""Runs operations for the server: starts each once, resumes pending ones, reports their status."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

import msgspec

from clob.wire.operations import OperationView, Status, StepView
from clob_server.chain import messages
from clob_server.chain.operations.base import (
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    StuckError,
    Work,
    run_to_end,
    step_hashes,
)
from clob_server.chain.operations.faucet import GapBody
from clob_server.chain.operations.registry import create_work, decode_work
from clob_server.chain.tx.outbox import Outbox, clock_ms
from clob_server.chain.tx.steps import Operation, Step

SETTLES: Final = "settle"
"""Kind of the operation that settles trades."""
RESERVED_S: Final = 2.0
"""Seconds that an operation waits for amounts reserved by others before it is rejected."""
COMMIT_S: Final = 0.05
"""Maximum delay of the commit after an operation ends, seconds; usually another commit is first."""

_LOG: Final = logging.getLogger("clob_server.chain")


def operation_view(operation: Operation, steps: list[Step]) -> OperationView:
    """Return an operation and its steps for the admin API."""
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


def wait_of(step: Step) -> str:
    """Return why a step waits; empty once it has ended."""
    return f"{step.name} waits: {step.error}" if step.status == "signed" else ""


class OperationRunner:
    """Runs all operations of a worker.

    Args:
        outbox: storage of the operations.
        send: sends a message to the server.
        problem: returns the reason why operations cannot begin yet.
    """

    def __init__(
        self,
        outbox: Outbox,
        send: Callable[[messages.AnyWorkerMessage], None],
        problem: Callable[[], str],
    ) -> None:
        self._outbox = outbox
        self._send = send
        self._problem = problem
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

    def handle(self, request: messages.AnyServerMessage) -> None:
        """Handle a message of the server."""
        match request:
            case messages.BeginOperation():
                self._begin(request)
            case messages.GetOperation():
                self._send(self._status(request.id))
            case messages.RetryOperation():
                self._send(self._retry(request.id))
            case messages.ListOperations():
                found = self._outbox.newest(request.status, request.limit, request.before)
                views = [operation_view(each, self._outbox.steps(each.number)) for each in found]
                self._send(messages.OperationList(request=request.request, operations=views))
            case messages.FindMissing():
                missing = [each for each in request.ids if not self._is_active(each)]
                self._send(messages.MissingOperations(request=request.request, ids=missing))

    def _is_active(self, name: str) -> bool:
        """Return whether an operation is pending, done or stuck."""
        found = self._outbox.find(name)
        return name in self._checking or (found is not None and found.status != "failed")

    # ----- status ----------------------------------------------------------------------------

    def _status(self, name: str) -> messages.AnyWorkerMessage:
        """Return the status of an operation."""
        operation = self._outbox.find(name)
        if operation is not None:
            return self._stored_status(operation)
        if name in self._checking:
            return messages.OperationPending(
                id=name, kind=decode_work(self._checking[name]).kind, hashes={}
            )
        return messages.OperationUnknown(id=name)

    def _stored_status(self, operation: Operation) -> messages.AnyWorkerMessage:
        """Return the status of a stored operation."""
        name, kind = operation.id, operation.kind
        if operation.status == "done":
            answer = msgspec.Raw(operation.answer or b"null")
            return messages.OperationDone(id=name, kind=kind, answer=answer)
        if operation.status == "pending":
            self._outbox.commit()  # the server relies on a pending operation
        steps = self._outbox.steps(operation.number)
        hashes = step_hashes(decode_work(operation.body).step_names, steps)
        if operation.status == "pending":
            waits = (wait_of(step) for step in steps if step.error and step.counts)
            signing = "" if self.context is None else self.context.sender.problem
            detail = next(waits, signing)
            return messages.OperationPending(id=name, kind=kind, hashes=hashes, detail=detail)
        return messages.OperationFailed(
            id=name,
            kind=kind,
            code="OPERATION_FAILED",
            detail=operation.error or "",
            hashes=hashes,
            undone=operation.status == "failed",
        )

    def _report(self, operation: Operation) -> None:
        self._send(self._stored_status(operation))

    # ----- starting and resuming -------------------------------------------------------------

    def _begin(self, request: messages.BeginOperation) -> None:
        """Start an operation unless its id is known."""
        name, body = request.id, msgspec.json.encode(request.body)
        known = self._outbox.find(name)
        before = self._checking.get(name) if known is None else known.body
        if before is not None and before != body:
            detail = "the idempotency key was already used for a request with another body"
            self._send(
                messages.OperationRejected(id=name, code="IDEMPOTENCY_KEY_REUSED", detail=detail)
            )
        elif known is not None:
            self._send(self._stored_status(known))
        elif before is not None:
            return  # the answer to the first message answers this one
        elif self.context is None:
            self._send(self._not_ready(name))
        else:
            self._checking[name] = body
            self._spawn(self._start(self.context, request, body))

    def _not_ready(self, name: str) -> messages.OperationRejected:
        return messages.OperationRejected(id=name, code="CHAIN_UNAVAILABLE", detail=self._problem())

    async def _start(
        self, context: OperationContext, request: messages.BeginOperation, body: bytes
    ) -> None:
        """Check, store and run an operation."""
        name, work = request.id, create_work(request.body)
        try:
            if problem := context.sender.problem:
                raise OperationRejectedError("CHAIN_UNAVAILABLE", problem)
            async with context.locks.hold(work.lock):
                estimates = await self._check(context, work)
                operation = self._outbox.begin(name, work.kind, body, request.now_ms)
                context.reserved.reserve(name, work.reservations)
                del self._checking[name]
                # Reported after the code that follows at once, so that one fsync covers the
                # operation and its first steps, and one loop turn later, when they are sent.
                loop = asyncio.get_running_loop()
                loop.call_soon(loop.call_soon, self._report, operation)
                await self._run(Run(context, operation, estimates), work)
        except OperationRejectedError as error:
            self._send(
                messages.OperationRejected(
                    id=name, code=error.code, detail=str(error), more=error.more
                )
            )
        finally:
            self._checking.pop(name, None)

    async def _check(self, context: OperationContext, work: Work[Any]) -> dict[str, int] | None:
        """Reject an operation that cannot succeed.

        Amounts reserved by another operation may be taken already, and would count twice. So a
        rejection counts only without reservations, or after :data:`RESERVED_S`.
        """
        reserved, wanted = context.reserved, work.reservations
        try:
            return await reserved.read_unchanged(wanted, lambda: work.check(context))
        except OperationRejectedError:
            if not reserved.holders(wanted):
                raise
            await reserved.wait(wanted, RESERVED_S)
            return await reserved.read_unchanged(wanted, lambda: work.check(context))

    def _resume(self, operation: Operation) -> None:
        """Resume a stored operation."""
        assert self.context is not None
        work = decode_work(operation.body)
        self.context.reserved.reserve(operation.id, work.reservations)
        self._spawn(self._run_resumed(Run(self.context, operation), work))

    async def _run_resumed(self, run: Run, work: Work[Any]) -> None:
        async with run.context.locks.hold(work.lock):
            await self._run(run, work)

    async def _run(self, run: Run, work: Work[Any]) -> None:
        """Run an operation to its end and report it."""
        operation, problem = run.operation, None
        try:
            await run_to_end(run, work)
        except StepFailedError:
            pass  # run_to_end has stored it
        except (StuckError, OperationRejectedError) as stuck:  # the key of a resumed one is gone
            problem = str(stuck)
            _LOG.error("operation %s is stuck: %s", operation.id, stuck)
        except Exception as error:
            problem = f"unexpected error: {type(error).__name__}: {error}"
            _LOG.exception("operation %s is stuck after an unexpected error", operation.id)
        finally:
            run.context.reserved.release(operation.id)
        if problem is not None:
            self._outbox.set_status(operation.number, "stuck", error=problem)
        # The steps are durable and determine the end, so the report need not wait for a commit;
        # the commit of the next operation usually includes this one.
        self._report(self._outbox.operation(operation.number))
        if self._committing is None:
            self._committing = asyncio.get_running_loop().call_later(COMMIT_S, self._commit)

    def _commit(self) -> None:
        """Commit if no other commit came first."""
        self._committing = None
        self._outbox.commit()

    def _retry(self, name: str) -> messages.AnyWorkerMessage:
        """Resume a stuck operation."""
        operation = self._outbox.find(name)
        if operation is not None and operation.status == "stuck":
            if self.context is None:
                return self._not_ready(name)
            self._outbox.discard_failures(operation.number)
            self._restart(operation)
        return self._status(name)

    def _restart(self, operation: Operation) -> None:
        """Resume an operation that has ended."""
        operation = self._outbox.set_status(operation.number, "pending")
        self._outbox.commit()
        self._resume(operation)

    def fill_gap(self, nonce: int, account: str = "") -> None:
        """Use a missing nonce of an account, as an operation of the worker's own."""
        if self.context is None:
            return
        now_ms = clock_ms()
        body = msgspec.json.encode(GapBody(nonce=nonce, account=account))
        operation = self._outbox.begin(f"gap:{nonce}:{now_ms}", "gap", body, now_ms)
        self._outbox.commit()
        self._resume(operation)

    def after_reorganisation(self, step: Step) -> None:
        """Handle a step that was in a block before a reorganisation.

        A pending operation handles it by itself. A completed settlement fails, since a reverted one
        moves nothing. Any other completed operation runs the step again if its nonce was lost;
        otherwise it becomes stuck.
        """
        operation = self._outbox.operation(step.operation)
        if operation.status != "done" or step.status == "confirmed":
            return
        if operation.kind == SETTLES:  # it moved nothing, and its trades are sent again
            error = f"{step.name} failed after a reorganisation: {step.error}"
            failed = self._outbox.set_status(operation.number, "failed", error=error)
            self._outbox.commit()
            self._report(failed)
            return
        _LOG.critical("a reorganisation undid %s of operation %s", step.name, operation.id)
        if step.status == "lost" and self.context is not None:
            self._restart(operation)
            return
        error = f"{step.name} failed after a reorganisation: {step.error}"
        self._outbox.set_status(operation.number, "stuck", error=error)
        self._outbox.commit()

    # ----- tasks -----------------------------------------------------------------------------

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
