"""Who is to blame for a fill that failed: what its reason says, and what the chain says to that.

A wallet with code that receives tokens can have the fill fail with any words, those of an honest
contract among them. So where there is such a wallet, a reason counts only if the chain bears it
out, and otherwise it is that wallet which is to blame.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import AbiError, Event, Function
from clob_server.chain.eth.exchange_abi import DELAY_S, FILL_GAS, read_bodies
from clob_server.chain.eth.rpc import (
    NodeRefusedError,
    Question,
    Reply,
    content,
    number,
    result,
    understood,
)
from clob_server.chain.operation_bodies import FillBody
from clob_server.chain.operations.calls import APPROVED, TOKEN_TRANSFERRED, TRANSFERRED
from clob_server.chain.operations.preconditions import Read
from clob_server.chain.tx.node import Node, is_failure
from clob_server.chain.watcher.failure_checks import Places, Suspect, buyers, hash_reads, suspects
from clob_server.chain.watcher.failure_reasons import Reason, parties, read_reason, sentence

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


NOT_ACCEPTED: Final = Reason("TokensNotAccepted", {})
"""What is said where a wallet's own code is to blame, whatever it said itself."""
EXPIRED: Final = "Expired"
"""An order that expired before it was settled: nobody is to blame, the server was late."""


class Failure(NamedTuple):
    """A fill that failed, as the log of the exchange has it."""

    trade_id: int
    """Its number on the chain."""
    reason: bytes
    """What it reverted with, its first 256 bytes."""
    tx: str
    """The transaction."""
    block: int
    """The block of that."""


class FailureCause(NamedTuple):
    """What is to be said of it."""

    error: str
    """Why nothing moved: a name that stays the same, rule, value and limit."""
    blamed: tuple[str, ...]
    """Because of whom; may be nobody."""


class _Case(NamedTuple):
    """A failure with what was to be settled."""

    failure: Failure
    reason: Reason
    fill: FillBody


class _Evidence(NamedTuple):
    """What the chain says of a case at first."""

    coded: tuple[str, ...]
    """The buyers whose wallets have code."""
    suspects: list[Suspect]
    """Whom the reason points at."""
    was_late: bool
    """If an order of the two had expired."""


async def judge(
    node: Node, addresses: Addresses, failures: Sequence[Failure]
) -> list[FailureCause]:
    """Say why fills failed, and who is to blame.

    Args:
        node: who is asked, in a few batches.
        addresses: where the contracts are.
        failures: the fills, of any number of transactions.

    Returns:
        One for each, in their order.

    Raises:
        NodeError: the node does not answer; to be tried again.
    """
    if not failures:
        return []
    found = await fills_of(node, {failure.tx for failure in failures})
    cases = [
        None
        if (fill := found.get(failure.tx, {}).get(failure.trade_id)) is None
        else _Case(failure, read_reason(failure.reason), fill)
        for failure in failures
    ]
    known = [case for case in cases if case is not None]
    verdicts = iter(await _verdicts(node, addresses, known))
    return [
        FailureCause(sentence(read_reason(failure.reason)), ()) if case is None else next(verdicts)
        for failure, case in zip(failures, cases, strict=True)
    ]


# ----- what the chain says to it -------------------------------------------------------------


async def _verdicts(node: Node, addresses: Addresses, cases: Sequence[_Case]) -> list[FailureCause]:
    """Judge fills that are known."""
    gathered = await _evidence(node, addresses, cases)
    doubtful = [
        (place, suspect)
        for place, evidence in enumerate(gathered)
        if evidence.coded or len(_names(evidence.suspects)) > 1
        for suspect in evidence.suspects
    ]
    blocks = [cases[place].failure.block for place, _ in doubtful]
    answers = await read_all(node, [suspect.read for _, suspect in doubtful], blocks)
    proven: dict[int, list[Suspect]] = {}
    for (place, suspect), answer in zip(doubtful, answers, strict=True):
        if suspect.is_so(answer):
            proven.setdefault(place, []).append(suspect)
    unproven = [(place, suspect) for place, suspect in doubtful if place not in proven]
    moved = await moves(node, addresses, {cases[place].failure.block for place, _ in unproven})
    for place, suspect in unproven:
        failure = cases[place].failure
        if moved.get((failure.block, suspect.who), set()) - {failure.tx}:
            proven.setdefault(place, []).append(suspect)
    several = [
        (case.fill, case.failure.block)
        for place, (case, evidence) in enumerate(zip(cases, gathered, strict=True))
        if len(evidence.coded) > 1 and place not in proven
    ]
    refused = await refusing(node, addresses, several)
    return [
        _verdict(case, _without(evidence, refused), _names(proven.get(place, [])))
        for place, (case, evidence) in enumerate(zip(cases, gathered, strict=True))
    ]


def _without(evidence: _Evidence, refused: set[str]) -> _Evidence:
    """Leave out whose code takes tokens, where that of another one does not."""
    left = tuple(who for who in evidence.coded if who in refused)
    return evidence._replace(coded=left) if left else evidence


def _verdict(case: _Case, evidence: _Evidence, proven: tuple[str, ...]) -> FailureCause:
    """Judge one, by what was asked."""
    if proven:
        return FailureCause(sentence(case.reason, case.fill, proven), proven)
    if evidence.coded and not evidence.was_late:
        return FailureCause(sentence(NOT_ACCEPTED, case.fill, evidence.coded), evidence.coded)
    named = _names(evidence.suspects)
    # Two who cannot be told apart are both let off: nobody loses his orders for another.
    blamed = named if len(named) == 1 else ()
    return FailureCause(sentence(case.reason, case.fill, named), blamed)


def _names(found: Sequence[Suspect]) -> tuple[str, ...]:
    """Name them, each once."""
    return tuple(dict.fromkeys(suspect.who for suspect in found))


async def _evidence(node: Node, addresses: Addresses, cases: Sequence[_Case]) -> list[_Evidence]:
    """Ask which buyers have code, which order is which, and what time it was."""
    questions: list[Question] = []
    for case in cases:
        at = hex(case.failure.block)
        questions += [("eth_getCode", (party.maker, at)) for party in buyers(case.fill)]
        questions += [read_at(read, at) for read in hash_reads(addresses, case.reason, case.fill)]
        if case.reason.name == EXPIRED:
            questions.append(("eth_getBlockByNumber", (at, False)))
    replies = iter(await ask_at(node, questions))
    found = []
    for case in cases:
        coded = tuple(party.maker for party in buyers(case.fill) if content(result(next(replies))))
        hashes = [
            read.answer(next(replies)) for read in hash_reads(addresses, case.reason, case.fill)
        ]
        was_late = case.reason.name == EXPIRED and _was_late(case.fill, result(next(replies)))
        named = suspects(case.reason, Places(addresses, case.fill, hashes))
        found.append(_Evidence(coded, named, was_late))
    return found


def _was_late(fill: FillBody, block: Any) -> bool:
    """Say if one of the orders had expired in a block."""
    now_s = number(block.get("timestamp") if isinstance(block, dict) else None)
    ends = [int(party.expiration) for party in parties(fill)]
    return any(end and end + DELAY_S < now_s for end in ends)


# MERGED clob_server.chain.watcher.failures: What the chain is asked about fills that failed, as it was after their block.
