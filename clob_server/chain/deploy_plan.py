"""Plan of a deployment: the transaction, costs and addresses that a real one would have.

Nothing is signed, sent or stored.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from clob_server.chain.config import DEVELOPMENT_CHAIN
from clob_server.chain.deploy import exchange_work, operation_id
from clob_server.chain.eth.accounts import create_address
from clob_server.chain.eth.rpc import Rpc
from clob_server.chain.messages import Config
from clob_server.chain.operations.base import OperationContext, OperationRejectedError
from clob_server.chain.operations.deploy import (
    EXCHANGE_STEP,
    DeployExchange,
    DeployExchangeAnswer,
    DeployExchangeBody,
    ExchangeRoles,
    code_requests,
    without_code,
)
from clob_server.chain.operations.preconditions import gas_needed
from clob_server.chain.tx.gas_fees import Fees, ether, gwei
from clob_server.chain.tx.outbox import FILE, Outbox
from clob_server.chain.tx.sender import gas_limit
from clob_server.chain.tx.signer import SignerError
from clob_server.chain.tx.steps import Operation, Step
from clob_server.chain.worker.setup import (
    GENESIS,
    ForeignChainError,
    build_parts,
    build_signer,
    is_known,
    read_genesis,
)

GAS_MARGIN_PERCENT: Final = 2
"""Largest difference between the gas that the transaction uses and the estimate, percent."""


class PlannedTransaction(NamedTuple):
    """The transaction that the deployment would send."""

    name: str
    """Name of the step."""
    nonce: int
    creates: str
    """Address of the contract that it creates, EIP-55."""
    gas: int
    """Estimated gas, exact to :data:`GAS_MARGIN_PERCENT`; 0 if the node could not estimate it."""
    gas_limit: int
    """Most gas that it can use."""
    hash: str = ""
    """Hash if an interrupted deployment has signed it already."""


class DeployPlan(NamedTuple):
    """A planned deployment."""

    operator: str
    """Address that signs, pays, and will settle trades."""
    body: DeployExchangeBody
    """Owner, domain and contracts of the exchange."""
    chain_id: int
    contracts: tuple[tuple[str, str, bool], ...]
    """Name and address of each required contract, and whether it exists."""
    deployed: DeployExchangeAnswer | None
    """The exchange if an earlier run has deployed it; nothing would be sent."""
    transaction: PlannedTransaction | None
    """The transaction; None if nothing would be sent."""
    fees: Fees
    """Fees per unit of gas of a new transaction."""
    price: int
    """Expected price per unit of gas, in wei: that of a transaction in the newest block."""
    balance: int
    """The operator's balance, in wei."""
    needed: int
    """Balance without which the deployment would not start, in wei."""
    problem: str
    """Why the deployment would be rejected, with its code; empty if it would start."""


async def plan_deployment(config: Config, folder: Path, roles: ExchangeRoles) -> DeployPlan:
    """Plan what :func:`~clob_server.chain.deploy.deploy` would do with the same arguments.

    Raises:
        ValueError: the key or the address of the node is invalid.
        OutboxError: the outbox cannot be opened.
        ForeignChainError: the outbox belongs to another chain or operator.
        NodeError: the node does not respond, or is on another chain.
    """
    signer = build_signer(config)
    rpc = Rpc(config.url, config.rpc_timeout_s)
    try:
        with _outbox_to_read(folder, config, signer.address) as outbox:
            parts = build_parts(
                config, outbox, signer, rpc, changed=lambda: None, on_gap=lambda nonce: None
            )
            work = exchange_work(config, roles, signer.address)
            plan = await _plan(parts.context, work, config.chain_id)
            with contextlib.suppress(SignerError):
                await signer.check()
            problem = f"CHAIN_UNAVAILABLE: {signer.problem}" if signer.problem else plan.problem
            return plan._replace(problem=problem)
    finally:
        await rpc.close()
        await signer.close()


@contextlib.contextmanager
def _outbox_to_read(folder: Path, config: Config, operator: str) -> Iterator[Outbox]:
    """Open the outbox; if the deployment would create one, an empty one in a temporary folder."""
    with contextlib.ExitStack() as stack:
        if (folder / FILE).exists():
            outbox = stack.enter_context(contextlib.closing(Outbox(folder)))
            try:
                is_known(outbox, "chain", str(config.chain_id))
                is_known(outbox, "operator", operator)
            except ForeignChainError:
                if config.chain_id != DEVELOPMENT_CHAIN:
                    raise
            else:
                yield outbox
                return
        temporary = stack.enter_context(tempfile.TemporaryDirectory())
        yield stack.enter_context(contextlib.closing(Outbox(Path(temporary))))


async def _plan(context: OperationContext, work: DeployExchange, chain_id: int) -> DeployPlan:
    """Read the chain and the outbox, and return the plan."""
    node, body = context.node, work.body
    contracts = body.collateral, body.conditional_tokens
    await node.refresh()
    genesis, *codes = await node.request([GENESIS, *code_requests(contracts)])
    is_known(context.outbox, "genesis", read_genesis(genesis))
    missing = without_code(contracts, codes)
    known = context.outbox.find(operation_id(work))
    deployed = None
    if known is not None and known.status == "done":
        deployed = msgspec.json.decode(known.answer or b"", type=DeployExchangeAnswer)
    transaction, problem = None, ""
    if deployed is None:
        transaction, problem = await _transaction(context, work, known)
    return DeployPlan(
        operator=node.operator,
        body=body,
        chain_id=chain_id,
        contracts=tuple(
            (name, address, address not in missing)
            for name, address in zip(("collateral", "conditional tokens"), contracts, strict=True)
        ),
        deployed=deployed,
        transaction=transaction,
        fees=node.fees,
        price=min(node.base_fee + node.fees.tip, node.fees.max_fee),
        balance=node.balance or 0,
        needed=gas_needed(context, work.gas),
        problem=problem,
    )


async def _transaction(
    context: OperationContext, work: DeployExchange, known: Operation | None
) -> tuple[PlannedTransaction | None, str]:
    """Return the transaction of a deployment that is not done, and why it would be rejected."""
    problem = ""
    if known is None or known.status == "failed":
        try:
            await work.check(context)
        except OperationRejectedError as error:
            problem = f"{error.code}: {error}"
    signed = None if known is None else _signed_step(context, known)
    if signed is not None and signed.status == "confirmed":
        return None, problem
    estimate = await _estimate(context, work)
    if isinstance(estimate, str):
        problem = problem or f"CHAIN_UNAVAILABLE: {EXCHANGE_STEP} failed: {estimate}"
        estimate = 0
    if signed is not None and signed.nonce is not None:
        nonce, most, tx_hash = signed.nonce, signed.gas, signed.transactions[-1].hash
    else:
        nonce = max(context.node.count_pending, context.outbox.next_nonce())
        most, tx_hash = gas_limit(estimate), ""
    creates = create_address(context.node.operator, nonce)
    return PlannedTransaction(EXCHANGE_STEP, nonce, creates, estimate, most, tx_hash), problem


def _signed_step(context: OperationContext, operation: Operation) -> Step | None:
    """Return the step of an interrupted deployment if it was signed."""
    step = context.outbox.current_steps(operation.number).get(EXCHANGE_STEP)
    return step if step is not None and step.status in ("signed", "confirmed") else None


async def _estimate(context: OperationContext, work: DeployExchange) -> int | str:
    """Return the gas of the transaction, or the reason why it would fail."""
    call, estimator = work.call(context.node.operator), context.sender.gas_estimator
    (reply,) = await context.node.request([estimator.estimate_request(call)])
    return estimator.read_estimate(call, reply)


# ----- text ----------------------------------------------------------------------------------


def as_text(plan: DeployPlan, node: str) -> str:
    """Format a plan for people.

    Args:
        plan: the plan.
        node: URL of the node, without secrets.
    """
    body, problem = plan.body, plan.problem
    contracts = (
        f"{name}: {address} {'exists' if is_there else 'does not exist'}"
        for name, address, is_there in plan.contracts
    )
    act = "start" if plan.transaction else "send nothing"
    is_enough = "enough" if plan.balance >= plan.needed else "not enough"
    lines = [
        f"plan of the deployment on {node}, chain {plan.chain_id}; nothing was sent",
        f"operator, which signs and pays: {plan.operator}",
        f"owner of the exchange: {body.owner}",
        f"fee wallet: {body.fee_wallet}; pauser: {body.pauser}",
        f"domain of orders: name {body.name}, version {body.version}, chain {plan.chain_id}",
        *contracts,
        *_transaction_lines(plan),
        f"balance of the operator: {ether(plan.balance)}, {is_enough}; "
        f"to start, the deployment needs {ether(plan.needed)}",
        f"result: it would be rejected: {problem}" if problem else f"result: it would {act}",
    ]
    return "\n".join(lines) + "\n"


def _transaction_lines(plan: DeployPlan) -> list[str]:
    """Format the transaction, or why there is none."""
    if plan.deployed is not None:
        place, tx_hash = plan.deployed.exchange, plan.deployed.exchange_tx
        return [f"exchange: {place} exists, created by transaction {tx_hash}", "transactions: none"]
    if plan.transaction is None:
        return ["transactions: none; that of an interrupted deployment is confirmed"]
    sent, most = plan.transaction, plan.fees.max_fee
    state = f"continues {sent.hash}" if sent.hash else "new"
    lines = [
        f"exchange: {sent.creates} will be created",
        f"transactions: 1, {sent.name}, {state}, nonce {sent.nonce}",
    ]
    if not sent.gas:
        return [*lines, "gas: unknown"]
    return [
        *lines,
        f"gas: {sent.gas} expected (+-{GAS_MARGIN_PERCENT} %), at most {sent.gas_limit}",
        f"price per unit of gas: {gwei(plan.price)} expected, at most {gwei(most)}",
        f"cost: {ether(sent.gas * plan.price)} expected, at most {ether(sent.gas_limit * most)}",
    ]
