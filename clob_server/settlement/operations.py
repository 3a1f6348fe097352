"""Gasless operations, the allowance of the faucet, and the base of all parts that run operations.

A request becomes an operation with an id, which the chain worker runs once; it continues when the
client disconnects. The faucet's grant is logged before the operation, so that neither a crash nor a
second request exceeds the allowance; the grant of a failed operation is revoked.
"""

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from clob import ClobError
from clob.signing.fields import received
from clob.wire.operations import AnyBody, FaucetBody, kind_of
from clob_server.api.problems import PROBLEMS, ApiError
from clob_server.chain.client import ChainClient
from clob_server.chain.messages import (
    Hashes,
    OperationDone,
    OperationFailed,
    OperationPending,
    OperationRejected,
    OperationUnknown,
)
from clob_server.chain.worker_client import OperationEnd, OperationState
from clob_server.core.commands import GiveBack, Grant
from clob_server.core.sequencer import Sequencer
from clob_server.core.settlement_ledger import SettlementLedger
from clob_server.settings import Settings
from clob_server.telemetry.metrics import Metrics

ID_BYTES: Final = 16
"""Bytes in an operation id."""
LOOKUP_MAX: Final = 1_000
"""Operations that the worker is asked about at once."""
DRAIN_S: Final = 0.5
"""Time that open requests get to finish after the drain started, seconds."""

_LOG: Final = logging.getLogger("clob_server.chain")


class ChainContext(NamedTuple):
    """Everything that the parts of settlement work with."""

    settings: Settings
    clock_ms: Callable[[], int]
    """Returns the time, Unix milliseconds."""
    sequencer: Sequencer
    """Commits commands."""
    chain: ChainClient
    metrics: Metrics
    """Counts operations and settlements."""


class ChainPart:
    """Base of the parts that work with the chain."""

    def __init__(self, context: ChainContext) -> None:
        self._settings, self._clock_ms, self._sequencer, self._chain, self._metrics = context
        self._state = context.sequencer.state

    @property
    def ledger(self) -> SettlementLedger:
        """The trades that are not settled yet, and the state of the chain as last applied."""
        return self._state.registry.settling

    async def _run_operation(self, operation: str, body: AnyBody) -> OperationEnd:
        """Run an operation once and count it.

        Raises:
            ApiError: no chain worker is running.
        """
        begin = time.perf_counter()
        end = await self._execute(operation, body)
        self._metrics.operation(kind_of(body), outcome_of(end), time.perf_counter() - begin)
        return end

    async def _execute(self, operation: str, body: AnyBody) -> OperationEnd:
        return await self._chain.worker.run_operation(operation, body, self._clock_ms())


class Operations(ChainPart):
    """Runs operations that requests wait for."""

    def __init__(self, context: ChainContext) -> None:
        super().__init__(context)
        self._running: dict[str, tuple[AnyBody, asyncio.Task[OperationEnd]]] = {}
        self._revoking: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()

    # ----- start and stop ----------------------------------------------------------------------

    async def on_worker_ready(self) -> None:
        """Revoke the grants of operations that a new worker does not know."""
        grants = self._state.registry.grants
        left = [each.operation for each in grants if each.operation not in self._running]
        for begin in range(0, len(left), LOOKUP_MAX):
            ids = left[begin : begin + LOOKUP_MAX]
            for operation in await self._chain.worker.find_missing(ids):
                await self._revoke_grant(operation)

    def on_operation_end(self, end: OperationDone | OperationFailed) -> None:
        """Handle the end of an operation that no request waits for."""
        if isinstance(end, OperationFailed) and end.undone and end.kind == "faucet":
            task = asyncio.create_task(self._revoke_grant(end.id))
            self._revoking.add(task)
            task.add_done_callback(self._revoking.discard)

    def drain(self) -> None:
        """Answer the waiting requests soon: the server is about to stop."""
        with suppress(RuntimeError):  # no event loop, so no requests
            asyncio.get_running_loop().call_later(DRAIN_S, self._draining.set)

    @property
    def num_running(self) -> int:
        """Number of operations whose end is not known yet."""
        return len(self._running)

    async def close(self) -> None:
        """Cancel all waits; the worker continues the operations."""
        self._draining.set()
        await cancel([*self._revoking, *(task for _, task in self._running.values())])

    # ----- operations --------------------------------------------------------------------------

    async def run(self, operation: str, body: AnyBody, wait_s: int | None = None) -> OperationDone:
        """Run an operation and wait for its end, at most ``chain_wait_s``.

        Args:
            operation: its id; a second call with the same id joins the same operation.
            body: the parameters.
            wait_s: seconds to wait at most; None for ``chain_wait_s``.

        Raises:
            ApiError: it was rejected, has failed, or is still pending.
            RejectedError: the faucet's allowance is used up.
        """
        running = self._running.get(operation)
        if running is None:
            task = asyncio.create_task(self._run_operation(operation, body))
            self._running[operation] = (body, task)
            task.add_done_callback(lambda _: self._forget(operation, task))
        elif running[0] != body:
            detail = "the Idempotency-Key was already used for a request with another body"
            raise ApiError("IDEMPOTENCY_KEY_REUSED", detail)
        else:
            task = running[1]
        longest_s = self._settings.chain_wait_s
        waits_s = longest_s if wait_s is None else min(wait_s, longest_s)
        return await self._wait(operation, task, waits_s)

    def _forget(self, operation: str, task: "asyncio.Task[OperationEnd]") -> None:
        """Remove an operation that has ended; waiting requests keep its task."""
        del self._running[operation]
        if not task.cancelled():
            task.exception()  # marks it as retrieved, in case all clients disconnected

    async def _wait(
        self, operation: str, task: "asyncio.Task[OperationEnd]", wait_s: float
    ) -> OperationDone:
        """Wait for the end of an operation, at most as long as a request may take."""
        draining = asyncio.create_task(self._draining.wait())
        try:
            either = task, draining
            await asyncio.wait(either, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            draining.cancel()
        if task.done() and not task.cancelled():
            return result_of(task.result())
        state: OperationState = OperationUnknown(id=operation)
        with suppress(ApiError):
            state = await self._chain.worker.get_operation(operation)
        if isinstance(state, OperationPending):
            raise pending_error(operation, state.hashes, state.detail)
        raise pending_error(operation, {})

    # ----- the faucet --------------------------------------------------------------------------

    async def _execute(self, operation: str, body: AnyBody) -> OperationEnd:
        """Run an operation; grant the units of a new faucet operation before."""
        if not isinstance(body, FaucetBody):
            return await super()._execute(operation, body)
        state = await self._chain.worker.get_operation(operation)
        if not isinstance(state, OperationUnknown):
            return await super()._execute(operation, body)
        self._chain.check_ready()
        user, units = body.user, body.units

        def grant(now_ms: int) -> Grant:
            limit = self._settings.faucet_daily_units
            self._state.registry.grants.check_total(units, limit, now_ms)
            return Grant(operation=operation, user=user, amount=units, now_ms=now_ms)

        await self._sequencer.submit(grant)
        try:
            end = await super()._execute(operation, body)
        except ApiError:  # the worker has gone
            await self._revoke_grant(operation)
            raise
        if isinstance(end, OperationRejected) or (isinstance(end, OperationFailed) and end.undone):
            await self._revoke_grant(operation)
        return end

    async def _revoke_grant(self, operation: str) -> None:
        """Revoke a grant; if that fails now, the next start does it."""
        try:
            await self._sequencer.deliver(
                lambda now_ms: GiveBack(operation=operation, now_ms=now_ms)
            )
        except ClobError as error:
            _LOG.warning("a faucet grant could not be revoked yet", extra={"reason": str(error)})


def operation_id(key_id: str, user: str, idempotency_key: bytes | None) -> str:
    """Return the id of an operation.

    Args:
        key_id: id of the caller's API key; empty without one.
        user: the wallet, so that two clients without a key do not share an id.
        idempotency_key: the client's name for the request; None draws a random id.
    """
    if idempotency_key is None:
        return f"op_{os.urandom(ID_BYTES).hex()}"
    text = f"{key_id}\n{user}\n".encode() + idempotency_key
    return f"op_{hashlib.blake2b(text, digest_size=ID_BYTES).hexdigest()}"


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end."""
    for task in (tasks := list(tasks)):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def outcome_of(end: OperationEnd) -> str:
    """Return the metric label of an operation's end: ``done``, ``failed``, or a code."""
    if isinstance(end, OperationRejected):
        return end.code
    return "done" if isinstance(end, OperationDone) else "failed"


def result_of(end: OperationState) -> OperationDone:
    """Return the successful end of an operation.

    Raises:
        ApiError: it was rejected, has failed, is pending or unknown.
    """
    if isinstance(end, OperationDone):
        return end
    if isinstance(end, OperationRejected):
        code = end.code if end.code in PROBLEMS else "OPERATION_FAILED"
        raise ApiError(code, end.detail, more=end.more)
    if isinstance(end, OperationFailed):
        more = {"operation": end.id, "hashes": end.hashes, "undone": end.undone}
        raise ApiError("OPERATION_FAILED", end.detail, more=more)
    if isinstance(end, OperationPending):
        raise pending_error(end.id, end.hashes, end.detail)
    raise ApiError("UNKNOWN_OPERATION", f"unknown operation {received(end.id[:140])}")


def pending_error(operation: str, hashes: Hashes, detail: str = "") -> ApiError:
    """Return the error of a pending operation."""
    reason = f" ({detail})" if detail else ""
    return ApiError(
        "OPERATION_PENDING",
        f"the operation is pending{reason} and continues by itself: repeat the request with the "
        f"same Idempotency-Key, or poll GET /api/gasless/operations/{operation}",
        more={"operation": operation, "hashes": hashes},
    )
