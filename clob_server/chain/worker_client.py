"""Requests to the chain worker: sends messages and resolves the futures that wait for answers."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from clob.wire.operations import AnyBody, OperationView, Status
from clob_server.api.problems import ApiError
from clob_server.chain.events import StartWatching, WatchTokens, WatchWallets
from clob_server.chain.messages import (
    AnyServerMessage,
    AskNode,
    BeginOperation,
    ClockMoved,
    FindMissing,
    GetOperation,
    ListOperations,
    MissingOperations,
    MoveClock,
    NodeAnswer,
    OperationDone,
    OperationFailed,
    OperationList,
    OperationPending,
    OperationRejected,
    OperationUnknown,
    RetryOperation,
    SendFrom,
)

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


class WorkerClient:
    """Sends requests to the current chain worker process.

    A request raises ``ApiError`` CHAIN_UNAVAILABLE if no worker is running; nothing was sent. A
    query raises it also if the worker exits or does not answer within :data:`ANSWER_S`.

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
        # Queries by the id of their operation or by their number.
        self._queries: dict[str | int, list[asyncio.Future[Any]]] = {}
        self._numbers = itertools.count(1)

    # ----- requests ------------------------------------------------------------------------------

    async def run_operation(self, operation: str, body: AnyBody, now_ms: int) -> OperationEnd:
        """Run an operation once and wait for its end, without a timeout.

        Args:
            operation: its id; only one task at a time may wait for it.
            body: its parameters.
            now_ms: time of the request, Unix milliseconds.
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
        """Return the status of an operation."""
        state: OperationState = await self._query(operation, GetOperation(id=operation))
        return state

    async def retry_operation(self, operation: str) -> OperationState:
        """Resume a stuck operation and return its status."""
        state: OperationState = await self._query(operation, RetryOperation(id=operation))
        return state

    async def find_missing(self, operations: Sequence[str]) -> list[str]:
        """Return the ids that are unknown or whose operation failed and was undone."""
        number = next(self._numbers)
        message = FindMissing(request=number, ids=list(operations))
        answer: MissingOperations = await self._query(number, message)
        return answer.ids

    async def list_operations(
        self, status: Status | None, limit: int, before: int | None
    ) -> list[OperationView]:
        """Return operations, newest first; see :class:`ListOperations`."""
        number = next(self._numbers)
        message = ListOperations(request=number, status=status, limit=limit, before=before)
        answer: OperationList = await self._query(number, message)
        return answer.operations

    async def move_clock(self, time_s: int) -> str:
        """Move the clock of a development chain to a time, Unix seconds.

        Returns:
            The reason why the chain keeps its time; empty if it has reached that one.
        """
        number = next(self._numbers)
        answer: ClockMoved = await self._query(number, MoveClock(request=number, time_s=time_s))
        return answer.problem

    async def ask_node(self, method: str, *params: Any) -> Any:
        """Send a request that only reads to the node and return its result.

        Raises:
            ApiError: CHAIN_UNAVAILABLE, the node gave no answer; REJECTED, it rejected the request.
        """
        number = next(self._numbers)
        message = AskNode(request=number, method=method, params=list(params))
        return _result(await self._query(number, message))

    async def send_from(self, account: int, to: str, data: str, value: int) -> str:
        """Send a transaction of an account of development chains and return its hash.

        Args:
            account: index of the account.
            to: recipient, EIP-55.
            data: calldata, ``0x`` and hex digits.
            value: wei.

        Raises:
            ApiError: CHAIN_UNAVAILABLE, the node gave no answer; REJECTED, it rejected the
                transaction, for example because it would fail.
        """
        number = next(self._numbers)
        message = SendFrom(request=number, account=account, to=to, data=data, value=str(value))
        return str(_result(await self._query(number, message)))

    async def _query(self, key: str | int, message: AnyServerMessage) -> Any:
        """Send a message and wait for its answer."""
        self._check()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queries.setdefault(key, []).append(future)
        self._send(message)
        try:
            async with asyncio.timeout(ANSWER_S):
                return await future
        except TimeoutError:
            detail = f"the chain worker did not answer within {ANSWER_S:g} s"
            raise ApiError("CHAIN_UNAVAILABLE", detail) from None

    # ----- the watcher ---------------------------------------------------------------------------

    def start_watching(self, message: StartWatching) -> None:
        """Start chain updates, once for each worker that is ready; long lists are split."""
        lists = message.wallets, message.tokens, message.escrow_tokens, message.permissions
        last = max(1, *(len(each) for each in lists))
        for begin in range(0, last, NAMES_MAX):
            part = slice(begin, begin + NAMES_MAX)
            self._send(
                replace(
                    message,
                    wallets=message.wallets[part],
                    tokens=message.tokens[part],
                    escrow_tokens=message.escrow_tokens[part],
                    permissions=message.permissions[part],
                    more=part.stop < last,
                )
            )

    def watch_tokens(self, tokens: Sequence[str], escrow_tokens: Sequence[str] = ()) -> None:
        """Watch additional outcome tokens, those of escrow markets apart."""
        for begin in range(0, max(len(tokens), len(escrow_tokens)), NAMES_MAX):
            part = slice(begin, begin + NAMES_MAX)
            wallet, escrow = list(tokens[part]), list(escrow_tokens[part])
            self._send(WatchTokens(tokens=wallet, escrow_tokens=escrow))

    def watch_wallets(self, message: WatchWallets) -> None:
        """Watch some wallets and drop others; long lists are split."""
        for begin in range(0, max(len(message.wallets), len(message.dropped)), NAMES_MAX):
            part = slice(begin, begin + NAMES_MAX)
            wallets, dropped = message.wallets[part], message.dropped[part]
            self._send(WatchWallets(wallets=wallets, dropped=dropped))

    # ----- answers -------------------------------------------------------------------------------

    def on_operation(self, message: OperationState) -> None:
        """Resolve the queries for an operation and, at its end, the waiting task."""
        self._resolve_queries(message.id, message)
        if isinstance(message, OperationPending | OperationUnknown):
            return
        begun = self._operations.get(message.id)
        if begun is not None:
            resolve(begun[1], message)
        elif not isinstance(message, OperationRejected):
            self._on_end(message)

    def on_answer(
        self, message: OperationList | MissingOperations | ClockMoved | NodeAnswer
    ) -> None:
        """Resolve a numbered query."""
        self._resolve_queries(message.request, message)

    def _resolve_queries(self, key: str | int, answer: object) -> None:
        for future in self._queries.pop(key, ()):
            resolve(future, answer)

    def resend(self) -> None:
        """Send every operation that a task waits for to a new worker, which runs none twice."""
        for message, _ in list(self._operations.values()):
            self._send(message)

    def fail_queries(self, detail: str) -> None:
        """Fail all queries; tasks that wait for operations keep waiting."""
        queries, self._queries = self._queries, {}
        for future in itertools.chain.from_iterable(queries.values()):
            if not future.done():
                future.set_exception(ApiError("CHAIN_UNAVAILABLE", detail))

    def close(self) -> None:
        """Cancel the tasks that wait for operations and fail all queries."""
        for _, future in self._operations.values():
            future.cancel()
        self.fail_queries("the server is shutting down")


def _result(answer: NodeAnswer) -> Any:
    """Return the result of the node, or raise its rejection."""
    if answer.problem:
        code = "REJECTED" if answer.is_rejected else "CHAIN_UNAVAILABLE"
        raise ApiError(code, answer.problem)
    return answer.result


def resolve(future: asyncio.Future[Any], answer: object) -> None:
    """Set the result unless the waiter was cancelled."""
    if not future.done():
        future.set_result(answer)
