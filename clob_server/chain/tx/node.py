"""The worker's view of the node: requests with retries, health, balance, nonces and fees."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from clob_server.chain.eth.rpc import (
    NodeClient,
    NodeError,
    NodeInvalidResponseError,
    NodeRejectedError,
    Reply,
    RpcRequest,
    content,
    integer,
    number,
    result,
)
from clob_server.chain.tx.gas_fees import REQUESTS as FEE_REQUESTS
from clob_server.chain.tx.gas_fees import Fees, suggest_fees

PAUSE_S: Final = 0.05
"""Pause before the first retry, seconds; doubled each time."""
PAUSE_MAX_S: Final = 1.0
"""Maximum pause before a retry, seconds."""
FRESH_S: Final = 2.5
"""Seconds for which state and fees are valid for new operations."""
REVERTED: Final = 3
"""JSON-RPC error code of a reverted call; the data is the revert reason."""
EXECUTION: Final = (-32000, -32003, -32015, -32603)
"""JSON-RPC error codes that nodes use for failed calls, among other errors."""
FAILS: Final = (
    "revert",
    "invalid opcode",
    "evm error",
    "out of gas",
    "gas required exceeds",
    "execution error",
)
"""Message fragments of failed calls; applied only to estimates and calls of unsent transactions."""

Result = TypeVar("Result")

_LOG: Final = logging.getLogger("clob_server.chain")


class Node:
    """Sends requests to a node and stores its last known state.

    Args:
        rpc: the JSON-RPC client.
        operator: address whose balance and transaction count are stored.
        chain_id: expected chain id.
        fee_max: maximum fee per unit of gas, in wei.
        tip: priority fee per unit of gas, in wei; 0 uses the node's suggestion.
        changed: called after a change of the stored state.
        role: the role of the account in messages.
    """

    def __init__(
        self,
        rpc: NodeClient,
        operator: str,
        chain_id: int,
        fee_max: int,
        changed: Callable[[], None],
        tip: int = 0,
        role: str = "the operator",
    ) -> None:
        self.role: Final[str] = role
        self.rpc: Final[NodeClient] = rpc
        self.operator: Final[str] = operator
        self.fee_max: Final[int] = fee_max
        self._chain_id = chain_id
        self._tip = tip
        self._changed = changed
        self._taken_s = float("-inf")
        self.is_reachable: bool = False
        """Whether the last response was valid."""
        self.detail: str = "the node has not been queried yet"
        """Description of the problem, or an empty text."""
        self.head: int | None = None
        """Number of the newest block."""
        self.gas_limit: int | None = None
        """Gas limit of a block; None if the node does not report it."""
        self.balance: int | None = None
        """The operator's balance for gas, in wei."""
        self.count: int = 0
        """The operator's transactions in blocks."""
        self.count_pending: int = 0
        """The operator's transactions in blocks and in the pool."""
        self.base_fee: int = 0
        """Base fee of the newest block, in wei; 0 on a chain with legacy gas prices."""
        self.fees: Fees = Fees(0, 0)
        """Current fees for a new transaction."""

    async def request(self, requests: Sequence[RpcRequest]) -> list[Reply]:
        """Send requests once.

        Raises:
            NodeError: no valid response.
        """
        try:
            return await self.rpc.batch(requests)
        except NodeError as error:
            self.set_health(str(error))
            raise

    async def request_until_valid(
        self, requests: Sequence[RpcRequest], read: Callable[[list[Reply]], Result]
    ) -> Result:
        """Send requests until their replies can be read.

        Args:
            requests: the requests.
            read: reads the replies; after a :class:`NodeError` all requests are sent again.
        """
        pause_s = PAUSE_S
        while True:
            try:
                value = read(await self.request(requests))
            except NodeError as error:
                self.set_health(str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
            else:
                self.set_health("")
                return value

    async def refresh(self) -> None:
        """Request and store the state.

        Raises:
            NodeError: no valid response; the stored state is unchanged.
        """
        self._taken_s = float("-inf")
        self.store_state(await self.request(self.state_requests()))

    def state_requests(self) -> list[RpcRequest]:
        """Return the requests for :meth:`store_state`; only the balance if the rest is fresh."""
        if time.monotonic() - self._taken_s < FRESH_S:
            return [("eth_getBalance", (self.operator, "latest"))]
        return [
            ("eth_chainId", ()),
            ("eth_getBalance", (self.operator, "latest")),
            ("eth_getTransactionCount", (self.operator, "latest")),
            ("eth_getTransactionCount", (self.operator, "pending")),
            *FEE_REQUESTS,
        ]

    def store_state(self, replies: Sequence[Reply]) -> None:
        """Store the replies to :meth:`state_requests`.

        Raises:
            NodeError: a reply is invalid, or the node is on another chain.
        """
        if len(replies) == 1:
            self.balance = number(result(replies[0]))
            return
        try:
            chain_id, count, pending = (integer(result(replies[place])) for place in (0, 2, 3))
            balance = number(result(replies[1]))
            if chain_id != self._chain_id:
                text = f"is on chain {chain_id}; expected chain {self._chain_id}"
                raise NodeInvalidResponseError(f"the node at {self.rpc.host} {text}")
            block = result(replies[4])
            head = integer(block.get("number") if isinstance(block, dict) else None)
            gas_limit = integer(block["gasLimit"]) if "gasLimit" in block else None
            base_fee = number(block["baseFeePerGas"]) if block.get("baseFeePerGas") else 0
            fees = suggest_fees(list(replies[4:]), self.fee_max, self._tip)
        except NodeError as error:
            self.set_health(str(error))
            raise
        self._taken_s = time.monotonic()
        self.head, self.gas_limit, self.balance = head, gas_limit, balance
        self.count, self.count_pending = count, pending
        self.base_fee, self.fees = base_fee, fees
        self.set_health("")

    def set_health(self, detail: str) -> None:
        """Store the problem of the node, or an empty text, and log changes."""
        is_reachable = not detail
        if is_reachable != self.is_reachable:
            level = logging.INFO if is_reachable else logging.WARNING
            _LOG.log(level, "the node responds" if is_reachable else detail)
        self.is_reachable, self.detail = is_reachable, detail
        self._changed()


def is_failure(error: NodeRejectedError) -> bool:
    """Return whether the node's error means that the estimated or called transaction would fail."""
    if error.code == REVERTED:
        return True
    message = error.message.lower()
    return error.code in EXECUTION and any(word in message for word in FAILS)


def failure_data(error: NodeRejectedError) -> bytes:
    """Return the data of a failed call; empty if the node does not report it."""
    data: Any = error.data
    if isinstance(data, dict):  # some nodes nest it one level deeper
        data = data.get("data")
    try:
        return content(data)
    except NodeError:
        return b""
