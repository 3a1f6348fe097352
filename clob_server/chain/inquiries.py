"""What the chain is asked about fills that failed, as it was after their block."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clob_server.chain.abi import AbiError, Event, Function
from clob_server.chain.addresses import Addresses
from clob_server.chain.bodies import FillBody
from clob_server.chain.exchange import FILL_GAS, read_bodies
from clob_server.chain.node import Node, is_failure
from clob_server.chain.operations.calls import APPROVED, TOKEN_TRANSFERRED, TRANSFERRED
from clob_server.chain.operations.reading import Read
from clob_server.chain.rpc import (
    NodeRefusedError,
    Question,
    Reply,
    content,
    result,
    understood,
)
from clob_server.chain.suspects import buyers

TOKENS_TRANSFERRED: Final = Event(
    "TransferBatch(address indexed operator,address indexed from,address indexed to,"
    "uint256[] ids,uint256[] values)"
)
APPROVED_ALL: Final = Event(
    "ApprovalForAll(address indexed owner,address indexed operator,bool approved)"
)
RECEIVED: Final = Function("onERC1155Received(address,address,uint256,uint256,bytes)")
"""What tokens call at a wallet with code, which takes them by answering with the selector."""
OWNERS: Final = (
    (TRANSFERRED, 0),
    (APPROVED, 0),
    (TOKEN_TRANSFERRED, 1),
    (TOKENS_TRANSFERRED, 1),
    (APPROVED_ALL, 0),
)
"""Events by which wallets come to have less, or allow less, and which of their values is whose."""

_LOG: Final = logging.getLogger("clob_server.chain")


async def fills_of(node: Node, hashes: set[str]) -> dict[str, dict[int, FillBody]]:
    """Read what transactions were to settle.

    Args:
        node: who is asked.
        hashes: the transactions.

    Returns:
        The fills by transaction and number on the chain; none of a transaction that settles none.
    """
    ordered = sorted(hashes)
    replies = await node.once([("eth_getTransactionByHash", (each,)) for each in ordered])
    found: dict[str, dict[int, FillBody]] = {}
    for each, reply in zip(ordered, replies, strict=True):
        transaction = result(reply)
        if not isinstance(transaction, dict):
            continue
        try:
            fills = read_bodies(content(transaction.get("input")))
        except AbiError as error:
            _LOG.warning("the transaction %s settles nothing that can be read: %s", each, error)
            continue
        found[each] = {int(fill.trade_id): fill for fill in fills}
    return found


async def refusing(
    node: Node, addresses: Addresses, fills: Sequence[tuple[FillBody, int]]
) -> set[str]:
    """Find the buyers with code that do not take the tokens of fills.

    Args:
        node: who is asked.
        addresses: where the contracts are.
        fills: the fills, each with the block after which it is asked.
    """
    asked = [(party, fill, block) for fill, block in fills for party in buyers(fill)]
    questions: list[Question] = []
    for party, fill, block in asked:
        moved = addresses.exchange, addresses.exchange, int(party.token_id), int(fill.size)
        call = {
            "from": addresses.conditional_tokens,
            "to": party.maker,
            "data": f"0x{RECEIVED.encode(*moved, b'').hex()}",
            "gas": hex(FILL_GAS),
        }
        questions.append(("eth_call", (call, hex(block))))
    replies = await ask_at(node, questions)
    return {
        party.maker
        for (party, _, _), reply in zip(asked, replies, strict=True)
        if isinstance(reply, NodeRefusedError)
        or content(reply)[: len(RECEIVED.selector)] != RECEIVED.selector
    }


async def moves(
    node: Node, addresses: Addresses, blocks: set[int]
) -> dict[tuple[int, str], set[str]]:
    """Find who gave away what is his, or changed what he approves, in these blocks.

    Whoever lacked something in the middle of a block may have it again at its end.

    Returns:
        The transactions in which he did, by block and wallet.
    """
    if not blocks:
        return {}
    ordered = sorted(blocks)
    places = [addresses.collateral, addresses.conditional_tokens]
    asked = [{"fromBlock": hex(at), "toBlock": hex(at), "address": places} for at in ordered]
    replies = await node.once([("eth_getLogs", (each,)) for each in asked])
    found: dict[tuple[int, str], set[str]] = {}
    for at, reply in zip(ordered, replies, strict=True):
        if isinstance(reply, NodeRefusedError):
            continue  # it knows nothing of that block any more
        for log in reply:
            with understood():
                who = _mover(log)
                if who is not None:
                    found.setdefault((at, who), set()).add(str(log["transactionHash"]))
    return found


def _mover(log: Mapping[str, Any]) -> str | None:
    """Say who gave something away, or changed an approval; None where a log says neither."""
    for event, place in OWNERS:
        if event.is_in(log):
            values = event.decode(log)
            # Anybody can have nothing transferred from anybody.
            is_idle = event is TRANSFERRED and not values[2]
            return None if is_idle else str(values[place])
    return None


# ----- asking about a block ------------------------------------------------------------------


def read_at(read: Read, at: str) -> Question:
    """Ask a contract as it was after a block."""
    method, (call, _) = read.question()
    return method, (call, at)


async def read_all(node: Node, reads: Sequence[Read], blocks: Sequence[int]) -> list[Any]:
    """Ask contracts, each as it was after a block."""
    questions = [read_at(read, hex(at)) for read, at in zip(reads, blocks, strict=True)]
    replies = await ask_at(node, questions)
    return [read.answer(reply) for read, reply in zip(reads, replies, strict=True)]


async def ask_at(node: Node, questions: Sequence[Question]) -> list[Reply]:
    """Ask about blocks; where the node has forgotten how things were, about how they are now.

    Raises:
        NodeError: the node does not answer.
    """
    if not questions:
        return []
    replies = await node.once(questions)
    forgotten = [
        place
        for place, reply in enumerate(replies)
        if isinstance(reply, NodeRefusedError) and not is_failure(reply)
    ]
    if forgotten:
        again = [(questions[place][0], (questions[place][1][0], "latest")) for place in forgotten]
        for place, reply in zip(forgotten, await node.once(again), strict=True):
            replies[place] = reply
    return replies
