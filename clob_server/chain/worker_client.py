"""Requests to the chain worker: sends messages and resolves the futures that wait for answers."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from clob_server.api.problems import ApiError
from clob_server.chain.events import PermissionKind, StartWatching, WatchTokens
from clob_server.chain.messages import (
    AnyServerMessage,
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
)
from clob_server.chain.operation_bodies import AnyBody

ANSWER_S: Final = 5.0
"""Timeout of a query to the worker, seconds."""

NAMES_MAX: Final = 4_000
"""Maximum number of wallets and of tokens in one message: at most half a megabyte."""

OperationEnd: TypeAlias = OperationDone | OperationFailed | OperationRejected
"""End of an operation."""
OperationState: TypeAlias = (
    OperationPending | OperationDone | OperationFailed | OperationUnknown | OperationRejected
)
"""Answer to a status query."""
_Answer = TypeVar("_Answer")


class WorkerClient:
    """Sends requests to the current chain worker process.

    Args:
        send: sends a message to the worker.
        check: raises ``ApiError`` if no worker is running.
        on_end: called with the end of an operation that no task here waits for.
    """

    def __init__(
        self,
        *,
        send: Callable[[AnyServerMessage], None],
        check: Callable[[], None],
        on_end: Callable[[OperationDone | OperationFailed], None],
    ) -> None:
        self._send = send
        self._check = check
        self._on_end = on_end
        self._operations: dict[str, tuple[BeginOperation, asyncio.Future[OperationEnd]]] = {}
        self._queries: dict[str, list[asyncio.Future[OperationState]]] = {}
        self._requests: dict[int, asyncio.Future[OperationList | MissingOperations]] = {}
        self._num_requests = 0

    # ----- requests ------------------------------------------------------------------------------

    async def run_operation(self, operation: str, body: AnyBody, now_ms: int) -> OperationEnd:
        """Run an operation once and wait for its end, without a timeout.

        Args:
            operation: its id; only one task at a time may wait for it.
            body: its parameters.
            now_ms: time of the request, Unix milliseconds.

        Raises:
            ApiError: CHAIN_UNAVAILABLE, no worker is running; nothing was sent.
        """
        self._check()
        message = BeginOperation(id=operation, body=body, now_ms=now_ms)
        future: asyncio.Future[OperationEnd] = asyncio.get_running_loop().create_future()
        self._operations[operation] = (message, future)
        self._send(message)
        try:
            return await future
        finally:
            if self._operations.get(operation) == (message, future):  # not a later request's
                del self._operations[operation]

    async def get_operation(self, operation: str) -> OperationState:
        """Return the status of an operation.

        Raises:
            ApiError: CHAIN_UNAVAILABLE.
        """
        return await self._query(GetOperation(id=operation))

    async def retry_operation(self, operation: str) -> OperationState:
        """Resume a stuck operation and return its status.

        Raises:
            ApiError: CHAIN_UNAVAILABLE.
        """
        return await self._query(RetryOperation(id=operation))

    async def find_missing(self, operations: Sequence[str]) -> list[str]:
        """Return the ids that are unknown or whose operation failed and was undone.

        Raises:
            ApiError: CHAIN_UNAVAILABLE.
        """
        self._num_requests += 1
        message = FindMissing(request=self._num_requests, ids=list(operations))
        answer = await self._request(message)
        assert isinstance(answer, MissingOperations)
        return answer.ids

    async def list_operations(
        self, status: Status | None, limit: int, before: int | None
    ) -> list[OperationView]:
        """Return operations, newest first.

        Args:
            status: only operations with this status; None for all.
            limit: maximum number of operations.
            before: only operations with a lower number.

        Raises:
            ApiError: CHAIN_UNAVAILABLE.
        """
        self._num_requests += 1
        message = ListOperations(
            request=self._num_requests, status=status, limit=limit, before=before
        )
        answer = await self._request(message)
        assert isinstance(answer, OperationList)
        return answer.operations

    async def _query(self, message: GetOperation | RetryOperation) -> OperationState:
        """Send a message that is answered by operation id."""
        self._check()
        future: asyncio.Future[OperationState] = asyncio.get_running_loop().create_future()
        self._queries.setdefault(message.id, []).append(future)
        self._send(message)
        return await self._wait(future)

    async def _request(
        self, message: FindMissing | ListOperations
    ) -> OperationList | MissingOperations:
        """Send a message that is answered by request number."""
        self._check()
        future: asyncio.Future[OperationList | MissingOperations]
        future = asyncio.get_running_loop().create_future()
        self._requests[message.request] = future
        self._send(message)
        try:
            return await self._wait(future)
        finally:
            self._requests.pop(message.request, None)

    async def _wait(self, future: asyncio.Future[_Answer]) -> _Answer:
        """Wait for an answer, at most :data:`ANSWER_S`."""
        try:
            async with asyncio.timeout(ANSWER_S):
                return await future
        except TimeoutError:
            detail = f"the chain worker did not answer within {ANSWER_S:g} s"
            raise ApiError("CHAIN_UNAVAILABLE", detail) from None

    # ----- the watcher ---------------------------------------------------------------------------

    def start_watching(
        self,
        after_block: int | None,
        block_hash: str,
        wallets: Sequence[str],
        tokens: Sequence[str],
        permissions: Sequence[tuple[PermissionKind, str, str]] = (),
    ) -> None:
        """Start chain updates; called once for each worker that is ready.

        Args:
            after_block: last block that was processed; None for none.
            block_hash: its hash; empty for none.
            wallets: wallets that have approved or permitted something so far.
            tokens: outcome tokens to watch.
            permissions: known permissions: kind, owner, other address.
        """
        last = max(len(wallets), len(tokens), len(permissions), 1)
        for begin in range(0, last, NAMES_MAX):
            end = begin + NAMES_MAX
            self._send(
                StartWatching(
                    after_block=after_block,
                    block_hash=block_hash,
                    wallets=list(wallets[begin:end]),
                    tokens=list(tokens[begin:end]),
                    permissions=list(permissions[begin:end]),
                    more=end < last,
                )
            )

    def watch_tokens(self, tokens: Sequence[str]) -> None:
        """Watch additional outcome tokens."""
        for begin in range(0, len(tokens), NAMES_MAX):
            self._send(WatchTokens(tokens=list(tokens[begin : begin + NAMES_MAX])))

    # ----- answers -------------------------------------------------------------------------------

    def on_operation(self, message: OperationState) -> None:
        """Resolve the queries for an operation and, at its end, the waiting task."""
        for future in self._queries.pop(message.id, ()):
            resolve(future, message)
        if isinstance(message, OperationPending | OperationUnknown):
            return
        begun = self._operations.get(message.id)
        if begun is not None:
            resolve(begun[1], message)
        elif not isinstance(message, OperationRejected):
            self._on_end(message)

    def on_answer(self, message: OperationList | MissingOperations) -> None:
        """Handle the answer to a numbered request."""
        future = self._requests.get(message.request)
        if future is not None:
            resolve(future, message)

    def resend(self) -> None:
        """Send every operation that a task waits for to a new worker, which runs none twice."""
        for message, _ in list(self._operations.values()):
            self._send(message)

    def fail_queries(self, detail: str) -> None:
        """Fail all queries; tasks that wait for operations keep waiting."""
        waiting: list[asyncio.Future[Any]] = list(self._requests.values())
        for futures in self._queries.values():
            waiting += futures
        self._requests, self._queries = {}, {}
        for future in waiting:
            if not future.done():
                future.set_exception(ApiError("CHAIN_UNAVAILABLE", detail))

    def close(self) -> None:
        """Cancel the tasks that wait for operations and fail all queries."""
        for _, future in self._operations.values():
            future.cancel()
        self.fail_queries("the server is shutting down")


def resolve(future: asyncio.Future[_Answer], answer: _Answer) -> None:
    """Set the result unless the waiter was cancelled."""
    if not future.done():
        future.set_result(answer)
