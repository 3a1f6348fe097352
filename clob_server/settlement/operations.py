"""Gasless operations: begun once, carried to their end whoever waits, and the faucet's allowance.

What a client asks for becomes an operation with a name; under it the chain worker carries it out
once. The faucet is granted in the log first, so that no crash and no second request gives more than
the allowance, and what has brought nothing is given back.
"""

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from clob import ClobError
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
from clob_server.chain.operation_bodies import AnyBody, FaucetBody
from clob_server.chain.worker_client import OperationEnd, OperationState
from clob_server.core.commands import GiveBack, Grant
from clob_server.core.sequencer import Sequencer
from clob_server.settings import Settings
from clob_server.telemetry.metrics import Metrics

ID_BYTES: Final = 16
"""How many bytes the name of an operation is made of."""
ASKED_MAX: Final = 1_000
"""How many operations the worker is asked about at once."""
LAST_S: Final = 0.5
"""How long those who wait still may, once the server is about to stop, seconds."""

_LOG: Final = logging.getLogger("clob_server.chain")


class Operations:
    """The operations that somebody here waits for.

    Args:
        settings: settings of the server.
        clock_ms: returns the time, Unix milliseconds.
        sequencer: commits commands.
        chain: connection to the chain.
        metrics: counts operations and settlements.
    """

    def __init__(
        self,
        settings: Settings,
        clock_ms: Callable[[], int],
        sequencer: Sequencer,
        chain: ChainClient,
        metrics: Metrics,
    ) -> None:
        self._settings: Final = settings
        self._clock_ms: Final = clock_ms
        self._state: Final = sequencer.state
        self._sequencer: Final = sequencer
        self._chain: Final = chain
        self._metrics: Final = metrics
        self._running: dict[str, tuple[AnyBody, asyncio.Task[OperationEnd]]] = {}
        self._giving: set[asyncio.Task[None]] = set()
        self._leaving = asyncio.Event()

    # ----- from start to end -------------------------------------------------------------------

    async def rise(self) -> None:
        """Give back what was granted for operations that a new worker knows nothing of."""
        grants = self._state.registry.grants
        left = [each.operation for each in grants if each.operation not in self._running]
        for begin in range(0, len(left), ASKED_MAX):
            asked = left[begin : begin + ASKED_MAX]
            for operation in await self._chain.worker.find_missing(asked):
                await self._give_back(operation)

    def hear_end(self, end: OperationDone | OperationFailed) -> None:
        """Hear of the end of an operation that nobody waits for."""
        if isinstance(end, OperationFailed) and end.undone and end.kind == "faucet":
            task = asyncio.create_task(self._give_back(end.id))
            self._giving.add(task)
            task.add_done_callback(self._giving.discard)

    def drain(self) -> None:
        """Have those who wait be answered soon: the server is about to stop."""
        with suppress(RuntimeError):  # no loop: nobody waits
            asyncio.get_running_loop().call_later(LAST_S, self._leaving.set)

    async def close(self) -> None:
        """Wait for nothing any more; what is under way is the worker's."""
        self._leaving.set()
        tasks = [*self._giving, *(task for _, task in self._running.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ----- an operation ------------------------------------------------------------------------

    async def carry_out(self, operation: str, body: AnyBody) -> OperationDone:
        """Carry out an operation, and wait for its end, though not for ever.

        Args:
            operation: its name; the same one again is the same operation.
            body: what to do.

        Raises:
            ApiError: it was refused, has failed, or is still under way.
            RejectedError: the faucet gives no more.
        """
        running = self._running.get(operation)
        if running is None:
            task = asyncio.create_task(self._run(operation, body))
            self._running[operation] = (body, task)
            task.add_done_callback(lambda _: self._forget(operation, task))
        elif running[0] != body:
            told = "the Idempotency-Key stands for a request with another body"
            raise ApiError("IDEMPOTENCY_KEY_REUSED", told)
        else:
            task = running[1]
        return await self._wait(operation, task)

    def _forget(self, operation: str, task: "asyncio.Task[OperationEnd]") -> None:
        """Let go of an operation that has ended; who waits has its task."""
        del self._running[operation]
        if not task.cancelled():
            task.exception()  # where everybody has gone, nobody asks for it

    async def _wait(self, operation: str, task: "asyncio.Task[OperationEnd]") -> OperationDone:
        """Wait for the end of an operation, or for as long as a request may."""
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            wait_s = self._settings.chain_wait_s
            await asyncio.wait((task, leaving), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
        if task.done() and not task.cancelled():
            return result_of(task.result())
        raise pending(operation, await self._sent(operation))

    async def _sent(self, operation: str) -> Hashes:
        """Give the hashes so far, if the worker says them."""
        with suppress(ApiError):
            standing = await self._chain.worker.get_operation(operation)
            if isinstance(standing, OperationPending):
                return standing.hashes
        return {}

    async def _run(self, operation: str, body: AnyBody) -> OperationEnd:
        """Go with an operation from its beginning to its end."""
        kind = kind_of(body)
        begin = time.perf_counter()
        if isinstance(body, FaucetBody):
            end = await self._give(operation, body)
        else:
            end = await self._ask(operation, body)
        self._metrics.operation(kind, outcome_of(end), time.perf_counter() - begin)
        return end

    async def _ask(self, operation: str, body: AnyBody) -> OperationEnd:
        """Ask the worker."""
        return await self._chain.worker.run_operation(operation, body, self._clock_ms())

    # ----- the faucet --------------------------------------------------------------------------

    async def _give(self, operation: str, body: FaucetBody) -> OperationEnd:
        """Grant units, have them brought, and take the grant back where they were not."""
        if not isinstance(await self._chain.worker.get_operation(operation), OperationUnknown):
            return await self._ask(operation, body)
        self._chain.check_ready()
        await self._sequencer.submit(
            lambda now_ms: Grant(
                operation=operation, user=body.user, amount=body.units, now_ms=now_ms
            )
        )
        try:
            end = await self._ask(operation, body)
        except ApiError:  # there was no worker to ask any more
            await self._give_back(operation)
            raise
        if isinstance(end, OperationRejected) or (isinstance(end, OperationFailed) and end.undone):
            await self._give_back(operation)
        return end

    async def _give_back(self, operation: str) -> None:
        """Take back what was granted; where it cannot be now, the next start does it."""
        try:
            await self._sequencer.submit(
                lambda now_ms: GiveBack(operation=operation, now_ms=now_ms)
            )
        except ClobError as error:
            _LOG.warning("a grant was not taken back yet", extra={"reason": str(error)})


def name_of(key_id: str, user: str, idempotency_key: bytes | None) -> str:
    """Name an operation.

    Args:
        key_id: the API key of who asks; empty without one.
        user: the wallet it is for, so that two people without a key do not meet.
        idempotency_key: what he calls his request; None is a request that is like no other.
    """
    if idempotency_key is None:
        return f"op_{os.urandom(ID_BYTES).hex()}"
    text = f"{key_id}\n{user}\n".encode() + idempotency_key
    return f"op_{hashlib.blake2b(text, digest_size=ID_BYTES).hexdigest()}"


def kind_of(body: AnyBody) -> str:
    """Say what an operation does, in a word."""
    return type(body).__struct_config__.tag or ""  # type: ignore[return-value]


def outcome_of(end: OperationEnd) -> str:
    """Return the metric label of an operation's end: ``done``, ``failed``, or a code."""
    if isinstance(end, OperationRejected):
        return end.code
    return "done" if isinstance(end, OperationDone) else "failed"


def result_of(end: OperationState) -> OperationDone:
    """Give what an operation has led to.

    Raises:
        ApiError: it was refused, has failed, is under way or is not there.
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
        raise pending(end.id, end.hashes)
    raise ApiError("UNKNOWN_OPERATION", f"there is no operation {end.id!r:.140}")


def pending(operation: str, hashes: Hashes) -> ApiError:
    """Say that an operation is under way."""
    return ApiError(
        "OPERATION_PENDING",
        "the operation is under way and comes to its end by itself: ask again with the same "
        f"Idempotency-Key, or GET /api/gasless/operations/{operation}",
        more={"operation": operation, "hashes": hashes},
    )
