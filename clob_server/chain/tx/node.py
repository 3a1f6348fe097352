"""The node as the worker sees it: asked patiently, and how it does."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from clob_server.chain.eth.rpc import (
    NodeError,
    NodeNonsenseError,
    NodeRefusedError,
    Question,
    Reply,
    Rpc,
    content,
    number,
    result,
)
from clob_server.chain.tx import gas_fees
from clob_server.chain.tx.gas_fees import Fees

PAUSE_S: Final = 0.05
"""How long until a node that did not answer is asked again, at first; twice as long each time."""
PAUSE_MAX_S: Final = 1.0
"""How long at most."""
FRESH_S: Final = 2.5
"""How long what the node said of fees and of itself is good for a new operation."""
REVERTED: Final = 3
"""The code of a call that is reverted, with the reason as its data."""
EXECUTION: Final = (-32000, -32003, -32015, -32603)
"""Codes by which nodes say, besides other things, that a call fails."""
FAILS: Final = (
    "revert",
    "invalid opcode",
    "evm error",
    "out of gas",
    "gas required exceeds",
    "execution error",
)
"""What they say then. Asked of a call that was not sent yet, and of nothing else."""

Found = TypeVar("Found")
"""What is made of an answer."""

_LOG: Final = logging.getLogger("clob_server.chain")


class Node:
    """Asks a node for the worker, and keeps what it last said of itself.

    Args:
        rpc: the way to it.
        operator: whose balance and count of transactions are kept.
        chain_id: the chain it must be of.
        fee_max: the most a unit of gas may ever be offered, in wei.
        changed: called after something that is kept here has changed.
    """

    def __init__(
        self, rpc: Rpc, operator: str, chain_id: int, fee_max: int, changed: Callable[[], None]
    ) -> None:
        self.rpc: Final[Rpc] = rpc
        """The way to it."""
        self.operator: Final[str] = operator
        """Whose balance and count of transactions are kept."""
        self.fee_max: Final[int] = fee_max
        """The most a unit of gas may ever be offered, in wei."""
        self._chain_id = chain_id
        self._changed = changed
        self._taken_s = float("-inf")
        self.is_reachable: bool = False
        """If it answered as it should when it was last asked."""
        self.detail: str = "the node was not asked yet"
        """What was wrong then, in a sentence; empty where nothing was."""
        self.head: int | None = None
        """The number of the newest block."""
        self.gas_limit: int | None = None
        """How much gas a block may use; None where the node does not say."""
        self.balance: int | None = None
        """What the operator has for gas, in wei."""
        self.count: int = 0
        """How many transactions of the operator are in blocks."""
        self.count_pending: int = 0
        """The same with those that wait."""
        self.offer: Fees = Fees(0, 0)
        """What a unit of gas would be offered now."""

    async def once(self, questions: Sequence[Question]) -> list[Reply]:
        """Ask once.

        Raises:
            NodeError: there is no answer.
        """
        try:
            replies = await self.rpc.batch(questions)
        except NodeError as error:
            self.set_health(str(error))
            raise
        return replies

    async def patiently(
        self, questions: Sequence[Question], read: Callable[[list[Reply]], Found]
    ) -> Found:
        """Ask until there is an answer that can be read.

        Args:
            questions: what to ask.
            read: reads what came of them; after a :class:`NodeError` all is asked again.
        """
        pause_s = PAUSE_S
        while True:
            try:
                found = read(await self.once(questions))
            except NodeError as error:
                self.set_health(str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
            else:
                self.set_health("")
                return found

    async def refresh(self) -> None:
        """Ask how things are.

        Raises:
            NodeError: it does not say; what was known stays.
        """
        self._taken_s = float("-inf")
        self.take(await self.once(self.state_questions()))

    def state_questions(self) -> list[Question]:
        """Give what :meth:`take` wants to know; less where it was asked a moment ago."""
        if time.monotonic() - self._taken_s < FRESH_S:
            return [("eth_getBalance", (self.operator, "latest"))]
        return [
            ("eth_chainId", ()),
            ("eth_getBalance", (self.operator, "latest")),
            ("eth_getTransactionCount", (self.operator, "latest")),
            ("eth_getTransactionCount", (self.operator, "pending")),
            *gas_fees.QUESTIONS,
        ]

    def take(self, replies: Sequence[Reply]) -> None:
        """Keep what came of :meth:`state_questions`.

        Raises:
            NodeError: the answers are none, or of another chain.
        """
        if len(replies) == 1:
            self.balance = number(result(replies[0]))
            return
        try:
            chain_id, balance, count, pending = (number(result(reply)) for reply in replies[:4])
            if chain_id != self._chain_id:
                raise NodeNonsenseError(
                    f"the node at {self.rpc.host} is of chain {chain_id}, not {self._chain_id}"
                )
            block = result(replies[4])
            head = number(block.get("number") if isinstance(block, dict) else None)
            gas_limit = number(block["gasLimit"]) if "gasLimit" in block else None
            offer = gas_fees.suggested(list(replies[4:]), self.fee_max)
        except NodeError as error:
            self.set_health(str(error))
            raise
        self._taken_s = time.monotonic()
        self.head, self.balance, self.offer = head, balance, offer
        self.gas_limit = gas_limit
        self.count, self.count_pending = count, pending
        self.set_health("")

    def set_health(self, detail: str) -> None:
        """Keep what is wrong with the node.

        Args:
            detail: in a sentence; empty where nothing is.
        """
        is_reachable = not detail
        if is_reachable != self.is_reachable:
            level = logging.INFO if is_reachable else logging.WARNING
            _LOG.log(level, "the node answers" if is_reachable else detail)
        self.is_reachable, self.detail = is_reachable, detail
        self._changed()


def is_failure(refusal: NodeRefusedError) -> bool:
    """Say if a node refused to estimate or to call since what it was asked for fails."""
    if refusal.code == REVERTED:
        return True
    words = refusal.message.lower()
    return refusal.code in EXECUTION and any(word in words for word in FAILS)


def failure_data(refusal: NodeRefusedError) -> bytes:
    """Give what a call that failed returned; empty where the node does not say."""
    data: Any = refusal.data
    if isinstance(data, dict):  # some put it one level deeper
        data = data.get("data")
    try:
        return content(data)
    except NodeError:
        return b""
