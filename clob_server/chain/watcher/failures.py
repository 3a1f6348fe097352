"""Causes of failed fills: the decoded reason, checked against the chain, and the responsible maker.

A receiving wallet with code can revert with any data, including the error of an honest contract. If
a buyer has code, a reason counts only if the chain confirms it; otherwise that buyer is
responsible. In escrow no wallet is called, so reasons come from trusted contracts.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from clob.wire.operations import FillBody, PartyBody
from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import AbiError, Function
from clob_server.chain.eth.exchange_abi import (
    DELAY_S,
    FILL_GAS,
    decode_settle,
    is_settle_escrow,
)
from clob_server.chain.eth.rpc import (
    NodeRejectedError,
    Reply,
    RpcRequest,
    content,
    integer,
    parsing,
    result,
)
from clob_server.chain.operations.calls import (
    APPROVED,
    APPROVED_ALL,
    TOKEN_TRANSFERRED,
    TRANSFERRED,
)
from clob_server.chain.operations.preconditions import Read
from clob_server.chain.tx.node import Node, is_failure
from clob_server.chain.watcher.failure_checks import (
    CheckInput,
    FailureCheck,
    buyers,
    failure_checks,
    hash_calls,
)
from clob_server.chain.watcher.failure_reasons import Reason, describe, parties, read_reason
from clob_server.chain.watcher.logs import TOKENS_TRANSFERRED

RECEIVED: Final = Function("onERC1155Received(address,address,uint256,uint256,bytes)")
"""Callback that ConditionalTokens calls on a receiver with code; it returns the selector to
accept."""
OWNERS: Final = (
    (TRANSFERRED, 0),
    (APPROVED, 0),
    (TOKEN_TRANSFERRED, 1),
    (TOKENS_TRANSFERRED, 1),
    (APPROVED_ALL, 0),
)
"""Events that reduce a balance or change an approval, each with the index of the owner."""

_LOG: Final = logging.getLogger("clob_server.chain")


class SentFill(NamedTuple):
    """A fill that was sent."""

    fill: FillBody
    in_escrow: bool
    """Whether it moves balances in escrow."""


async def fills_of(node: Node, hashes: set[str]) -> dict[str, dict[int, SentFill]]:
    """Read the fills of transactions, by hash and trade id; skip those that settle nothing."""
    ordered = sorted(hashes)
    replies = await node.request([("eth_getTransactionByHash", (each,)) for each in ordered])
    fills_by_tx: dict[str, dict[int, SentFill]] = {}
    for each, reply in zip(ordered, replies, strict=True):
        transaction = result(reply)
        if not isinstance(transaction, dict):
            continue
        try:
            calldata = content(transaction.get("input"))
            fills = decode_settle(calldata)
        except AbiError as error:
            _LOG.warning("the transaction %s is not a readable settlement: %s", each, error)
            continue
        in_escrow = is_settle_escrow(calldata)
        fills_by_tx[each] = {int(fill.trade_id): SentFill(fill, in_escrow) for fill in fills}
    return fills_by_tx


async def rejecting_buyers(
    node: Node, addresses: Addresses, fills: Sequence[tuple[FillBody, int]]
) -> set[str]:
    """Find the buyers with code that reject the tokens of their fill, at the block of the fill."""
    queries = [(party, fill, block) for fill, block in fills for party in buyers(fill)]
    requests: list[RpcRequest] = []
    for party, fill, block in queries:
        moved = addresses.exchange, addresses.exchange, int(party.token_id), int(fill.size)
        call = {
            "from": addresses.conditional_tokens,
            "to": party.maker,
            "data": f"0x{RECEIVED.encode(*moved, b'').hex()}",
            "gas": hex(FILL_GAS),
        }
        requests.append(("eth_call", (call, hex(block))))
    replies = await request_at(node, requests)
    return {
        party.maker
        for (party, _, _), reply in zip(queries, replies, strict=True)
        if isinstance(reply, NodeRejectedError)
        or content(reply)[: len(RECEIVED.selector)] != RECEIVED.selector
    }


async def find_movers(
    node: Node, addresses: Addresses, blocks: set[int]
) -> dict[tuple[int, str], set[str]]:
    """Return the transactions that sent funds or changed approvals, by block and wallet.

    A balance that was too low within a block may be sufficient again at its end.
    """
    if not blocks:
        return {}
    ordered = sorted(blocks)
    places = [addresses.collateral, addresses.conditional_tokens]
    queries = [{"fromBlock": hex(at), "toBlock": hex(at), "address": places} for at in ordered]
    replies = await node.request([("eth_getLogs", (each,)) for each in queries])
    movers: dict[tuple[int, str], set[str]] = {}
    for at, reply in zip(ordered, replies, strict=True):
        if isinstance(reply, NodeRejectedError):
            continue  # the node has pruned the logs of that block
        for log in reply:
            with parsing():
                wallet = _mover(log)
                if wallet is not None:
                    movers.setdefault((at, wallet), set()).add(str(log["transactionHash"]))
    return movers


def _mover(log: Mapping[str, Any]) -> str | None:
    """Return the wallet that sent funds or changed an approval; None for other logs."""
    for event, place in OWNERS:
        if event.is_in(log):
            values = event.decode(log)
            # Anyone can emit a transfer of 0 from any wallet.
            is_idle = event is TRANSFERRED and not values[2]
            return None if is_idle else str(values[place])
    return None


# ----- state after a block -------------------------------------------------------------------


def call_at(read: Read, at: str) -> RpcRequest:
    """Return the request of a call at a block."""
    method, (call, _) = read.request()
    return method, (call, at)


async def call_all(node: Node, reads: Sequence[Read], blocks: Sequence[int]) -> list[Any]:
    """Call contracts, each at its block."""
    requests = [call_at(read, hex(at)) for read, at in zip(reads, blocks, strict=True)]
    replies = await request_at(node, requests)
    return [read.decode(reply) for read, reply in zip(reads, replies, strict=True)]


async def request_at(node: Node, requests: Sequence[RpcRequest]) -> list[Reply]:
    """Send requests for past blocks; if the node has pruned the state, for the latest block.

    Raises:
        NodeError: the node does not respond.
    """
    if not requests:
        return []
    replies = await node.request(requests)
    pruned = [
        place
        for place, reply in enumerate(replies)
        if isinstance(reply, NodeRejectedError) and not is_failure(reply)
    ]
    if pruned:
        again = [(requests[place][0], (requests[place][1][0], "latest")) for place in pruned]
        for place, reply in zip(pruned, await node.request(again), strict=True):
            replies[place] = reply
    return replies


NOT_ACCEPTED: Final = Reason("TokensNotAccepted", {})
"""Reason if the receiver's code is responsible, for any return value."""
EXPIRED: Final = "Expired"
"""Order expired before settlement: the server was late and no maker is responsible."""


class Failure(NamedTuple):
    """A failed fill from the logs of the exchange."""

    trade_id: int
    reason: bytes
    """First 256 bytes of the revert data."""
    tx: str
    """Hash of the transaction."""
    block: int
    """Number of its block."""


class FailureCause(NamedTuple):
    """Explanation of a failed fill."""

    error: str
    """Error text: stable name, rule, value and limit."""
    responsible: tuple[str, ...]
    """Responsible makers or wallets; may be empty."""


class _Case(NamedTuple):
    """A failure with its decoded reason and fill."""

    failure: Failure
    reason: Reason
    fill: FillBody
    in_escrow: bool

    @property
    def receivers(self) -> list[PartyBody]:
        """Orders whose makers receive a call of the token contract; none in escrow."""
        return [] if self.in_escrow else buyers(self.fill)


class _Evidence(NamedTuple):
    """Data of the first batch of requests for a case."""

    receivers: tuple[str, ...]
    """Buyers whose wallets have code."""
    checks: list[FailureCheck]
    """Checks for the makers that the reason points at."""
    was_late: bool
    """Whether one of the orders had expired."""


async def explain_failures(
    node: Node, addresses: Addresses, failures: Sequence[Failure]
) -> list[FailureCause]:
    """Return the cause of each failed fill, from a few batches of requests.

    Raises:
        NodeError: the node does not respond; try again.
    """
    if not failures:
        return []
    fills_by_tx = await fills_of(node, {failure.tx for failure in failures})
    cases = [
        None
        if (sent := fills_by_tx.get(failure.tx, {}).get(failure.trade_id)) is None
        else _Case(failure, read_reason(failure.reason), *sent)
        for failure in failures
    ]
    known = [case for case in cases if case is not None]
    causes = iter(await _find_causes(node, addresses, known))
    return [
        FailureCause(describe(read_reason(failure.reason)), ()) if case is None else next(causes)
        for failure, case in zip(failures, cases, strict=True)
    ]


# ----- evidence ------------------------------------------------------------------------------


async def _find_causes(
    node: Node, addresses: Addresses, cases: Sequence[_Case]
) -> list[FailureCause]:
    evidences = await _evidence(node, addresses, cases)
    to_check = [
        (place, check)
        for place, evidence in enumerate(evidences)
        if evidence.receivers or len(_names(evidence.checks)) > 1
        for check in evidence.checks
    ]
    blocks = [cases[place].failure.block for place, _ in to_check]
    results = await call_all(node, [check.call for _, check in to_check], blocks)
    proven: dict[int, list[FailureCheck]] = {}
    for (place, check), answer in zip(to_check, results, strict=True):
        if check.confirms(answer):
            proven.setdefault(place, []).append(check)
    unproven = [(place, check) for place, check in to_check if place not in proven]
    blocks_left = {cases[place].failure.block for place, _ in unproven}
    moved = await find_movers(node, addresses, blocks_left)
    for place, check in unproven:
        failure = cases[place].failure
        if moved.get((failure.block, check.wallet), set()) - {failure.tx}:
            proven.setdefault(place, []).append(check)
    with_code = [
        (case.fill, case.failure.block)
        for place, (case, evidence) in enumerate(zip(cases, evidences, strict=True))
        if len(evidence.receivers) > 1 and place not in proven
    ]
    rejecting = await rejecting_buyers(node, addresses, with_code)
    return [
        _cause(case, _drop_accepting(evidence, rejecting), _names(proven.get(place, [])))
        for place, (case, evidence) in enumerate(zip(cases, evidences, strict=True))
    ]


def _drop_accepting(evidence: _Evidence, rejecting: set[str]) -> _Evidence:
    """Drop buyers whose code accepts tokens if another buyer's code rejects them."""
    rejecting_receivers = tuple(wallet for wallet in evidence.receivers if wallet in rejecting)
    return evidence._replace(receivers=rejecting_receivers) if rejecting_receivers else evidence


def _cause(case: _Case, evidence: _Evidence, proven: tuple[str, ...]) -> FailureCause:
    """Determine the cause of one case."""
    if proven:
        return FailureCause(describe(case.reason, case.fill, proven), proven)
    if evidence.receivers and not evidence.was_late:
        error = describe(NOT_ACCEPTED, case.fill, evidence.receivers)
        return FailureCause(error, evidence.receivers)
    wallets = _names(evidence.checks)
    # With two possible makers neither is responsible: neither may lose orders for the other.
    responsible = wallets if len(wallets) == 1 else ()
    return FailureCause(describe(case.reason, case.fill, wallets), responsible)


def _names(checks: Sequence[FailureCheck]) -> tuple[str, ...]:
    """Return the wallets, without duplicates."""
    return tuple(dict.fromkeys(check.wallet for check in checks))


async def _evidence(node: Node, addresses: Addresses, cases: Sequence[_Case]) -> list[_Evidence]:
    """Read the code of buyers, order hashes and block times."""
    requests: list[RpcRequest] = []
    for case in cases:
        at = hex(case.failure.block)
        requests += [("eth_getCode", (party.maker, at)) for party in case.receivers]
        requests += [call_at(read, at) for read in hash_calls(addresses, case.reason, case.fill)]
        if case.reason.name == EXPIRED:
            requests.append(("eth_getBlockByNumber", (at, False)))
    replies = iter(await request_at(node, requests))
    evidences = []
    for case in cases:
        with_code = (each for each in case.receivers if content(result(next(replies))))
        receivers = tuple(party.maker for party in with_code)
        reads = hash_calls(addresses, case.reason, case.fill)
        hashes = [read.decode(next(replies)) for read in reads]
        was_late = case.reason.name == EXPIRED and _was_late(case.fill, result(next(replies)))
        checks = failure_checks(case.reason, CheckInput(addresses, case.fill, hashes))
        evidences.append(_Evidence(receivers, checks, was_late))
    return evidences


def _was_late(fill: FillBody, block: Any) -> bool:
    """Return whether an order had expired before a block."""
    now_s = integer(block.get("timestamp") if isinstance(block, dict) else None)
    ends = [int(party.expiration) for party in parties(fill)]
    return any(end and end + DELAY_S < now_s for end in ends)
