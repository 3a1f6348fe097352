"""What is asked of the chain worker, and who waits for which answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from clob_server.api.problems import ApiError
from clob_server.chain.events import Permit, StartWatching, WatchTokens
from clob_server.chain.messages import (
    AnyAsked,
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
    Unknown,
)
from clob_server.chain.operation_bodies import AnyBody

ANSWER_S: Final = 5.0
"""How long the worker may take to say where an operation stands."""

NAMES_MAX: Final = 4_000
"""How many wallets, and how many tokens, go into a message: half a megabyte at most."""

End: TypeAlias = OperationDone | OperationFailed | OperationRejected
"""What comes of an operation."""
Standing: TypeAlias = (
    OperationPending | OperationDone | OperationFailed | Unknown | OperationRejected
)
"""Where an operation stands."""
_Answer = TypeVar("_Answer")


class Talk:
    """The conversation with the chain worker, whichever process that is.

    Args:
        send: says something to it.
        check: refuses where there is none.
        ended: told of each end of an operation that nobody here waits for.
    """

    def __init__(
        self,
        *,
        send: Callable[[AnyAsked], None],
        check: Callable[[], None],
        ended: Callable[[OperationDone | OperationFailed], None],
    ) -> None:
        self._send = send
        self._check = check
        self._ended = ended
        self._begun: dict[str, tuple[Begin, asyncio.Future[End]]] = {}
        self._looking: dict[str, list[asyncio.Future[Standing]]] = {}
        self._asked: dict[int, asyncio.Future[Listed | NotKnown]] = {}
        self._num_asked = 0

    # ----- asking --------------------------------------------------------------------------------

    async def carry_out(self, operation: str, body: AnyBody, now_ms: int) -> End:
        """Have an operation carried out once, and hear its end, however long that takes.

        Args:
            operation: what it is called; nobody else here may wait for it by this.
            body: what to do.
            now_ms: when it was asked for, Unix milliseconds.

        Raises:
            ApiError: CHAIN_UNAVAILABLE, there is no worker, and nothing was asked.
        """
        self._check()
        message = Begin(id=operation, body=body, now_ms=now_ms)
        waits: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._begun[operation] = (message, waits)
        self._send(message)
        try:
            return await waits
        finally:
            if self._begun.get(operation) == (message, waits):  # and nobody has come after
                del self._begun[operation]

    async def look(self, operation: str) -> Standing:
        """Ask where an operation stands.

        Raises:
            ApiError: CHAIN_UNAVAILABLE.
        """
        return await self._where(Look(id=operation))

    async def retry(self, operation: str) -> Standing:
        """Have an operation that is stuck go on, and hear where it stands then.

        Raises:
            ApiError: CHAIN_UNAVAILABLE.
        """
        return await self._where(Retry(id=operation))

    async def not_known(self, operations: Sequence[str]) -> list[str]:
        """Ask which operations never came to anything.

        Raises:
            ApiError: CHAIN_UNAVAILABLE.
        """
        self._num_asked += 1
        found = await self._ask(Known(request=self._num_asked, ids=list(operations)))
        assert isinstance(found, NotKnown)
        return found.ids

    async def operations(
        self, status: Status | None, limit: int, before: int | None
    ) -> list[OperationView]:
        """List operations, the newest first.

        Args:
            status: only those; None is all.
            limit: how many at most.
            before: only those with a number below this.

        Raises:
            ApiError: CHAIN_UNAVAILABLE.
        """
        self._num_asked += 1
        message = List(request=self._num_asked, status=status, limit=limit, before=before)
        found = await self._ask(message)
        assert isinstance(found, Listed)
        return found.operations

    async def _where(self, message: Look | Retry) -> Standing:
        """Ask something about an operation."""
        self._check()
        waits: asyncio.Future[Standing] = asyncio.get_running_loop().create_future()
        self._looking.setdefault(message.id, []).append(waits)
        self._send(message)
        return await self._in_time(waits)

    async def _ask(self, message: Known | List) -> Listed | NotKnown:
        """Ask something that has a number."""
        self._check()
        waits: asyncio.Future[Listed | NotKnown] = asyncio.get_running_loop().create_future()
        self._asked[message.request] = waits
        self._send(message)
        try:
            return await self._in_time(waits)
        finally:
            self._asked.pop(message.request, None)

    async def _in_time(self, waits: asyncio.Future[_Answer]) -> _Answer:
        """Wait for an answer, though not for ever."""
        try:
            async with asyncio.timeout(ANSWER_S):
                return await waits
        except TimeoutError:
            told = f"the chain worker has not answered within {ANSWER_S:g} s"
            raise ApiError("CHAIN_UNAVAILABLE", told) from None

    # ----- the news ------------------------------------------------------------------------------

    def watch(
        self,
        after_block: int | None,
        block_hash: str,
        wallets: Sequence[str],
        tokens: Sequence[str],
        permissions: Sequence[tuple[Permit, str, str]] = (),
    ) -> None:
        """Have the worker tell the news; said once to each that is ready.

        Args:
            after_block: the block up to which all was heard; None is nothing.
            block_hash: its hash; empty where there is none.
            wallets: those that have allowed the exchange contract something so far.
            tokens: which outcome tokens are looked at.
            permissions: what is allowed, as was heard: which kind, who allows it, to whom.
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

    def look_at(self, tokens: Sequence[str]) -> None:
        """Have the worker look at more outcome tokens."""
        for begin in range(0, len(tokens), NAMES_MAX):
            self._send(WatchTokens(tokens=list(tokens[begin : begin + NAMES_MAX])))

    # ----- hearing -------------------------------------------------------------------------------

    def hear(self, message: Standing) -> None:
        """Hear where an operation stands: tell who looks, and at its end who waits."""
        for looks in self._looking.pop(message.id, ()):
            settle(looks, message)
        if isinstance(message, OperationPending | Unknown):
            return
        begun = self._begun.get(message.id)
        if begun is not None:
            settle(begun[1], message)
        elif not isinstance(message, OperationRejected):
            self._ended(message)

    def hear_answer(self, message: Listed | NotKnown) -> None:
        """Hear the answer to what has a number."""
        waits = self._asked.get(message.request)
        if waits is not None:
            settle(waits, message)

    def say_again(self) -> None:
        """Ask a new worker for every operation that somebody waits for; it does none twice."""
        for message, _ in list(self._begun.values()):
            self._send(message)

    def let_go(self, why: str) -> None:
        """Tell all who asked something that no answer comes; operations are still waited for."""
        waiting: list[asyncio.Future[Any]] = list(self._asked.values())
        for looks in self._looking.values():
            waiting += looks
        self._asked, self._looking = {}, {}
        for waits in waiting:
            if not waits.done():
                waits.set_exception(ApiError("CHAIN_UNAVAILABLE", why))

    def close(self) -> None:
        """Wait for nothing any more."""
        for _, waits in self._begun.values():
            waits.cancel()
        self.let_go("the server is about to stop")


def settle(waits: asyncio.Future[_Answer], answer: _Answer) -> None:
    """Answer, if anybody still waits."""
    if not waits.done():
        waits.set_result(answer)
