"""A client of several nodes of one chain, which believes what enough of them agree on.

A node that lies, or is on another branch, could otherwise report trades that never settled, or a
transfer that never happened and is then refunded. Each request goes to all nodes, and the reply
depends on the method:

======================  =========================================================================
method                  reply
======================  =========================================================================
transaction to send     accepted, once one node accepts it; all of them receive it
newest or final block   the highest block that enough nodes have reached, as they agree on it
count of transactions   the highest number that enough nodes have reached
fees, gas, balances     that of the first node that responds, in the order of the configuration
all others              the one that enough nodes agree on
======================  =========================================================================

Nodes agree on a reply if the members that this package reads are equal.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from clob_server.chain.eth.rpc import (
    NodeClient,
    NodeError,
    NodeRejectedError,
    NodeUnreachableError,
    Reply,
    Rpc,
    RpcRequest,
    integer,
)

SEND: Final = "eth_sendRawTransaction"
"""Sends a signed transaction."""
BLOCK: Final = "eth_getBlockByNumber"
"""Returns a block by its number or a tag."""
TAGS: Final = ("latest", "safe", "finalized")
"""Tags of blocks whose numbers only rise."""
COUNTS: Final = ("eth_blockNumber", "eth_getTransactionCount")
"""Methods that return a number that only rises."""
ESTIMATES: Final = frozenset(
    {"eth_estimateGas", "eth_feeHistory", "eth_gasPrice", "eth_getBalance",
     "eth_maxPriorityFeePerGas", "evm_mine", "evm_setNextBlockTimestamp"}
)  # fmt: skip
"""Methods whose reply no account or operation depends on."""
READ: Final = frozenset(
    {"address", "blockHash", "blockNumber", "data", "from", "hash", "input", "logIndex", "logs",
     "nonce", "number", "status", "timestamp", "to", "topics", "transactionHash", "transactions"}
)  # fmt: skip
"""Members of results that this package reads, except fees; nodes add others of their own."""

LATE_MAX: Final = 16
"""Late requests that may be on their way at a time."""

_LOG: Final = logging.getLogger("clob_server.chain")


class NodesDisagreeError(NodeUnreachableError):
    """Too few nodes agree on a reply."""


class Quorum(NodeClient):
    """JSON-RPC client of several nodes of one chain.

    Args:
        nodes: a client of each node, the preferred one first.
        least: how many nodes must agree, at least 1 and at most all.
    """

    def __init__(self, nodes: Sequence[Rpc], least: int) -> None:
        if not 1 <= least <= len(nodes):
            raise ValueError(f"least must be from 1 to {len(nodes)}, the nodes; got {least}")
        self._nodes: Final = tuple(nodes)
        self._least: Final = least
        self._late: set[asyncio.Task[list[Reply]]] = set()
        self._differing: set[str] = set()
        self.host: str = ", ".join(node.host for node in nodes)

    async def batch(self, requests: Sequence[RpcRequest]) -> list[Reply]:
        """Send requests to all nodes, and return once the replies are decided.

        Raises:
            NodeError: no node responds validly.
            NodesDisagreeError: too few nodes agree on a reply.
        """
        tasks = [asyncio.ensure_future(node.batch(requests)) for node in self._nodes]
        try:
            decided = await self._decide(requests, tasks)
        finally:
            self._leave(tasks, sends=any(method == SEND for method, _ in requests))
        self._compare(requests, decided, tasks)
        for place, reply in enumerate(decided):
            if isinstance(reply, _BlockAt):
                ((method, (_, *rest)), number) = requests[place], hex(reply.number)
                (decided[place],) = await self.batch([(method, (number, *rest))])
        return decided

    async def _decide(
        self, requests: Sequence[RpcRequest], tasks: Sequence["asyncio.Task[list[Reply]]"]
    ) -> list[Reply]:
        """Wait for nodes until every reply is decided."""
        waiting = set(tasks)
        while True:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answers = [_answers_of(task) for task in tasks]
            if not waiting and all(each is None for each in answers):
                raise tasks[0].exception() or NodeUnreachableError("no node responds")
            decided: list[Reply] = []
            for place, (method, params) in enumerate(requests):
                replies = [None if each is None else (each[place],) for each in answers]
                if method in ESTIMATES:
                    reply = self._preferred(tasks, replies)
                else:
                    reply = self._reply(method, params, replies, is_last=not waiting)
                if reply is None:
                    break
                decided.append(reply[0])
            else:
                return decided
            if not waiting:
                raise NodesDisagreeError(
                    f"{self._least} of {len(tasks)} nodes must agree on the reply to {method}, "
                    f"and fewer do: {self.host}"
                )

    def _reply(
        self,
        method: str,
        params: Sequence[Any],
        replies: Sequence[tuple[Reply] | None],
        *,
        is_last: bool,
    ) -> tuple[Reply] | None:
        """Return the reply to a request; None while it is not decided."""
        found = [reply[0] for reply in replies if reply is not None]
        if method == SEND:
            accepted = [each for each in found if not isinstance(each, NodeRejectedError)]
            return (accepted[0],) if accepted else (found[0],) if is_last and found else None
        agreed = self._agreed(found)
        if agreed is not None:
            return agreed
        if method in COUNTS:
            number = self._reached(found, integer)
            return None if number is None or not is_last else (hex(number),)
        if method == BLOCK and params[0] in TAGS:
            number = self._reached(found, lambda block: integer(block["number"]))
            return None if number is None or not is_last else (_BlockAt(number),)
        return None

    @staticmethod
    def _preferred(
        tasks: Sequence["asyncio.Task[list[Reply]]"], replies: Sequence[tuple[Reply] | None]
    ) -> tuple[Reply] | None:
        """Return the reply of the first node that has not failed; None while it is on its way."""
        pairs = zip(tasks, replies, strict=True)
        return next((reply for task, reply in pairs if reply or not task.done()), None)

    def _agreed(self, found: Sequence[Reply]) -> tuple[Reply] | None:
        """Return the reply that enough nodes agree on, or None."""
        alike: dict[bytes, int] = {}
        for reply in found:
            key = msgspec.json.encode(essence(reply), order="sorted")
            alike[key] = alike.get(key, 0) + 1
            if alike[key] == self._least:
                return (reply,)
        return None

    def _reached(self, found: Sequence[Reply], read: Callable[[Any], int]) -> int | None:
        """Return the highest number that enough nodes have reached; None if too few have one."""
        numbers = []
        for reply in found:
            try:
                numbers.append(read(reply))
            except (NodeError, LookupError, TypeError):
                continue
        return (
            sorted(numbers, reverse=True)[self._least - 1] if len(numbers) >= self._least else None
        )

    def _leave(self, tasks: Sequence["asyncio.Task[list[Reply]]"], *, sends: bool) -> None:
        """Leave late requests running, so that their connections stay open; a few at most.

        A transaction is sent to every node, however late it responds.
        """
        for task in tasks:
            if task.done():
                continue
            self._late.add(task)
            task.add_done_callback(self._forget)
            if not sends and len(self._late) > LATE_MAX:
                task.cancel()

    def _forget(self, task: "asyncio.Task[list[Reply]]") -> None:
        """Drop a late request, whose replies are not needed."""
        self._late.discard(task)
        if not task.cancelled():
            task.exception()

    def _compare(
        self,
        requests: Sequence[RpcRequest],
        decided: Sequence[Reply],
        tasks: Sequence["asyncio.Task[list[Reply]]"],
    ) -> None:
        """Log each node that differs from the others, once."""
        for node, task in zip(self._nodes, tasks, strict=True):
            answers = None if node.host in self._differing else _answers_of(task)
            if answers is None:
                continue
            differs = [
                method
                for (method, params), reply, answer in zip(requests, decided, answers, strict=True)
                if is_lasting(method, params)
                and answer is not None
                and not isinstance(answer, NodeRejectedError)
                and essence(answer) != essence(reply)
            ]
            if differs:
                _LOG.warning(
                    "a node differs from the others",
                    extra={"node": node.host, "method": differs[0]},
                )
                self._differing.add(node.host)

    async def close(self) -> None:
        """Close the connections."""
        for task in list(self._late):
            task.cancel()
        for node in self._nodes:
            await node.close()


class _BlockAt(msgspec.Struct, frozen=True):
    """Stands for a block that the nodes are asked for again, by its number."""

    number: int


def is_lasting(method: str, params: Sequence[Any]) -> bool:
    """Return whether a reply other than null stays the same, whichever block is the newest."""
    if method == BLOCK:
        return params[0] not in (*TAGS, "pending")
    return method in ("eth_chainId", "eth_getLogs", "eth_getTransactionReceipt") or (
        method in ("eth_call", "eth_getCode") and params[-1] != "latest"
    )


def _answers_of(task: "asyncio.Task[list[Reply]]") -> list[Reply] | None:
    """Return the replies of a node; None if it has not responded, or not validly."""
    if not task.done() or task.cancelled():
        return None
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, NodeError):
        return None
    raise error


def essence(reply: Reply) -> Any:
    """Return the part of a reply in which agreeing nodes do not differ."""
    if isinstance(reply, NodeRejectedError):
        return ["rejected", essence(reply.data) if isinstance(reply.data, str) else ""]
    if isinstance(reply, dict):
        return {name: essence(value) for name, value in reply.items() if name in READ}
    if isinstance(reply, list):
        return [essence(each) for each in reply]
    return reply.lower() if isinstance(reply, str) else reply
