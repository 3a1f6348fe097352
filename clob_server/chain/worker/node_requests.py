"""Answers requests to the node, and sends transactions of the accounts of development chains.

Only the operator's transactions are tracked in the outbox; these are signed, sent once and left to
their sender.
"""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any

from clob_server.chain import messages
from clob_server.chain.config import DEVELOPMENT_CHAIN
from clob_server.chain.eth.accounts import ACCOUNTS
from clob_server.chain.eth.rpc import NodeError, NodeRejectedError, integer, result
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.sender import gas_limit
from clob_server.chain.tx.signer import LocalSigner
from clob_server.chain.tx.steps import Draft


class NodeRequests:
    """Runs requests side by side, and the transactions one after the other, as their nonces need.

    Args:
        node: the node.
        chain_id: chain id of the transactions.
        send: sends a message to the server.
    """

    def __init__(
        self, node: Node, chain_id: int, send: Callable[[messages.AnyWorkerMessage], None]
    ) -> None:
        self._node = node
        self._chain_id = chain_id
        self._send = send
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, message: messages.AskNode | messages.SendFrom) -> None:
        """Start a request; its answer is sent to the server."""
        task = asyncio.create_task(self._answer(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Cancel the running requests."""
        for task in self._tasks:
            task.cancel()

    async def _answer(self, message: messages.AskNode | messages.SendFrom) -> None:
        """Send the result of a request to the server, or the reason of its failure."""
        try:
            if isinstance(message, messages.AskNode):
                value = await self._node.rpc.ask(message.method, *message.params)
            else:
                async with self._sending:
                    value = await self._transact(message)
            answer = messages.NodeAnswer(request=message.request, result=value)
        except NodeError as error:
            answer = messages.NodeAnswer(
                request=message.request,
                problem=str(error),
                is_rejected=isinstance(error, NodeRejectedError),
            )
        self._send(answer)

    async def _transact(self, message: messages.SendFrom) -> Any:
        """Sign a transaction and send it; return its hash.

        Raises:
            NodeError: it was not sent.
        """
        if self._chain_id != DEVELOPMENT_CHAIN:
            raise NodeRejectedError(0, f"chain {self._chain_id} is not a development chain")
        account = ACCOUNTS[message.account]
        call = {
            "from": account.address,
            "to": message.to,
            "data": message.data,
            "value": hex(int(message.value)),
        }
        nonce, gas = await self._node.rpc.batch(
            [
                ("eth_getTransactionCount", (account.address, "pending")),
                ("eth_estimateGas", (call,)),
            ]
        )
        draft = Draft(
            operation=0,
            name="",
            nonce=integer(result(nonce)),
            target=message.to,
            data=bytes.fromhex(message.data[2:]),
            value=int(message.value),
            gas=gas_limit(integer(result(gas))),
            expects="",
            head=0,
        )
        signed = signer_of(message.account, self._chain_id).sign_at_once(draft, self._node.fees)
        return await self._node.rpc.ask("eth_sendRawTransaction", f"0x{signed.raw.hex()}")


@cache
def signer_of(account: int, chain_id: int) -> LocalSigner:
    """Return the signer of an account."""
    return LocalSigner(ACCOUNTS[account].private_key, chain_id)
