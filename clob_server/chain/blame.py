"""Who is to blame for a fill that failed: what its reason says, and what the chain says to that.

A wallet with code that receives tokens can have the fill fail with any words, those of an honest
contract among them. So where there is such a wallet, a reason counts only if the chain bears it
out, and otherwise it is that wallet which is to blame.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from clob_server.chain.addresses import Addresses
from clob_server.chain.bodies import FillBody
from clob_server.chain.exchange import DELAY_S
from clob_server.chain.inquiries import ask_at, fills_of, moves, read_all, read_at, refusing
from clob_server.chain.node import Node
from clob_server.chain.reasons import Reason, parties, read_reason, sentence
from clob_server.chain.rpc import Question, content, number, result
from clob_server.chain.suspects import Places, Suspect, buyers, hash_reads, suspects

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


class Verdict(NamedTuple):
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


async def judge(node: Node, addresses: Addresses, failures: Sequence[Failure]) -> list[Verdict]:
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
        Verdict(sentence(read_reason(failure.reason)), ()) if case is None else next(verdicts)
        for failure, case in zip(failures, cases, strict=True)
    ]


# ----- what the chain says to it -------------------------------------------------------------


async def _verdicts(node: Node, addresses: Addresses, cases: Sequence[_Case]) -> list[Verdict]:
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


def _verdict(case: _Case, evidence: _Evidence, proven: tuple[str, ...]) -> Verdict:
    """Judge one, by what was asked."""
    if proven:
        return Verdict(sentence(case.reason, case.fill, proven), proven)
    if evidence.coded and not evidence.was_late:
        return Verdict(sentence(NOT_ACCEPTED, case.fill, evidence.coded), evidence.coded)
    named = _names(evidence.suspects)
    # Two who cannot be told apart are both let off: nobody loses his orders for another.
    blamed = named if len(named) == 1 else ()
    return Verdict(sentence(case.reason, case.fill, named), blamed)


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
