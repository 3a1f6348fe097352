"""Plan of a deployment: the transactions, costs and addresses that a real one would have.

Nothing is signed, sent or stored.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from clob_server.chain.config import DEVELOPMENT_CHAIN
from clob_server.chain.deploy import exchange_work, operation_id
from clob_server.chain.eth.accounts import create_address
from clob_server.chain.eth.rpc import Rpc, number, result
from clob_server.chain.messages import Config
from clob_server.chain.operations.base import OperationContext, OperationRejectedError, Work
from clob_server.chain.operations.calls import ALLOWANCE
from clob_server.chain.operations.collateral import (
    COLLATERAL_STEP,
    DeployCollateral,
    DeployCollateralAnswer,
    DeployCollateralBody,
)
from clob_server.chain.operations.deploy import (
    EXCHANGE_STEP,
    DeployExchange,
    DeployExchangeAnswer,
    DeployExchangeBody,
    ExchangeRoles,
    approvals,
    code_requests,
    is_unlimited,
    without_code,
)
from clob_server.chain.operations.preconditions import Read, gas_needed, read_once
from clob_server.chain.tx.gas_fees import Fees, ether, gwei
from clob_server.chain.tx.gas_limits import StepCall
from clob_server.chain.tx.outbox import FILE, Outbox
from clob_server.chain.tx.sender import gas_limit
from clob_server.chain.tx.signer import SignerError
from clob_server.chain.tx.steps import Step
from clob_server.chain.worker.setup import (
    GENESIS,
    ForeignChainError,
    build_oracle_signer,
    build_parts,
    build_signer,
    is_known,
    read_genesis,
)

GAS_MARGIN_PERCENT: Final = 2
"""Largest difference between the gas that a transaction uses and the estimate, percent."""
CREATED: Final = {COLLATERAL_STEP: "collateral", EXCHANGE_STEP: "exchange"}
"""Contract that a step creates."""
APPROVAL_GAS: Final = 46_400
"""Gas of the approval of collateral that does not exist yet."""


class PlannedTransaction(NamedTuple):
    """A transaction that the deployment would send."""

    name: str
    """Name of the step."""
    nonce: int
    creates: str
    """Address of the contract that it creates, EIP-55; empty for none."""
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
    oracle: str
    """Address that will report outcomes; the deployment sends nothing of it."""
    oracle_balance: int
    """Its balance, in wei."""
    body: DeployExchangeBody
    """Owner, domain and contracts of the exchange."""
    chain_id: int
    contracts: tuple[tuple[str, str, bool], ...]
    """Name and address of each required contract, and whether it exists."""
    wrapper: DeployCollateralBody | None
    """Collateral that is deployed, or checked and approved; None uses it unchanged."""
    deployed: DeployExchangeAnswer | None
    """The exchange if an earlier run has deployed it; nothing would be sent."""
    transactions: tuple[PlannedTransaction, ...]
    """The transactions in order; empty if nothing would be sent."""
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


async def plan_deployment(
    config: Config,
    folder: Path,
    roles: ExchangeRoles,
    wrapper: DeployCollateralBody | None = None,
) -> DeployPlan:
    """Plan what :func:`~clob_server.chain.deploy.deploy` would do with the same arguments.

    Raises:
        ValueError: the key or the address of the node is invalid.
        OutboxError: the outbox cannot be opened.
        ForeignChainError: the outbox belongs to another chain or operator.
        NodeError: the node does not respond, or is on another chain.
    """
    signer = build_signer(config)
    oracle = build_oracle_signer(config) or signer
    rpc = Rpc(config.url, config.rpc_timeout_s)
    try:
        with _outbox_to_read(folder, config, signer.address) as outbox:
            parts = build_parts(
                config, outbox, signer, rpc, changed=lambda: None, on_gap=lambda nonce: None
            )
            planner = _Planner(parts.context, config, roles, wrapper, oracle.address)
            plan = await planner.plan()
            with contextlib.suppress(SignerError):
                await signer.check()
            problem = f"CHAIN_UNAVAILABLE: {signer.problem}" if signer.problem else plan.problem
            return plan._replace(problem=problem)
    finally:
        await rpc.close()
        for each in {signer, oracle}:
            await each.close()


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


class _Planner:
    """Plans the operations of a deployment one after the other."""

    def __init__(
        self,
        context: OperationContext,
        config: Config,
        roles: ExchangeRoles,
        wrapper: DeployCollateralBody | None,
        oracle: str,
    ) -> None:
        self._context, self._config, self._roles = context, config, roles
        self._oracle = oracle
        self._wrapper = None if wrapper is None else DeployCollateral(wrapper)
        self._nonce = 0
        self._planned: list[PlannedTransaction] = []
        self._problem = ""

    async def plan(self) -> DeployPlan:
        """Read the chain and the outbox, and return the plan."""
        context, config = self._context, self._config
        node, addresses = context.node, config.addresses
        assert addresses is not None
        await node.refresh()
        (genesis,) = await node.request([GENESIS])
        is_known(context.outbox, "genesis", read_genesis(genesis))
        self._nonce = max(node.count_pending, context.outbox.next_nonce())
        collateral, will_exist = addresses.collateral, False
        if self._wrapper is not None:
            collateral = await self._plan_collateral(self._wrapper)
            will_exist = any(each.creates == collateral for each in self._planned)
        exchange = exchange_work(config, self._roles, node.operator, collateral)
        deployed = self._answer(exchange, DeployExchangeAnswer)
        if deployed is None:
            await self._plan_exchange(exchange, will_exist)
        works: list[Work[Any]] = [exchange] if self._wrapper is None else [self._wrapper, exchange]
        (balance,) = await node.request([("eth_getBalance", (self._oracle, "latest"))])
        return DeployPlan(
            operator=node.operator,
            oracle=self._oracle,
            oracle_balance=number(result(balance)),
            body=exchange.body,
            chain_id=config.chain_id,
            contracts=await self._contracts(collateral, will_exist),
            wrapper=None if self._wrapper is None else self._wrapper.body,
            deployed=deployed,
            transactions=tuple(self._planned),
            fees=node.fees,
            price=min(node.base_fee + node.fees.tip, node.fees.max_fee),
            balance=node.balance or 0,
            needed=gas_needed(context, sum(work.gas for work in works)),
            problem=self._problem,
        )

    async def _contracts(
        self, collateral: str, will_exist: bool
    ) -> tuple[tuple[str, str, bool], ...]:
        """Return the required contracts that are not planned, and whether they exist."""
        addresses, wrapper = self._config.addresses, self._wrapper
        assert addresses is not None
        wanted = [("conditional tokens", addresses.conditional_tokens)]
        wanted = wanted if will_exist else [("collateral", collateral), *wanted]
        if wrapper is not None:
            wanted.insert(0, ("stablecoin", wrapper.body.stablecoin))
        places = [address for _, address in wanted]
        missing = without_code(places, await self._context.node.request(code_requests(places)))
        return tuple((name, address, address not in missing) for name, address in wanted)

    async def _check(self, work: Work[Any]) -> None:
        """Note why an operation would be rejected, unless it has begun."""
        known = self._context.outbox.find(operation_id(work))
        if self._problem or (known is not None and known.status != "failed"):
            return
        try:
            await work.check(self._context)
        except OperationRejectedError as error:
            self._problem = f"{error.code}: {error}"

    def _answer(self, work: Work[Any], answer_type: type[Any]) -> Any:
        """Return the stored answer of an operation; None if it is not done."""
        known = self._context.outbox.find(operation_id(work))
        if known is None or known.status != "done":
            return None
        return msgspec.json.decode(known.answer or b"", type=answer_type)

    async def _plan_collateral(self, work: DeployCollateral) -> str:
        """Plan the deployment of the collateral and the approvals; return its address."""
        answer = self._answer(work, DeployCollateralAnswer)
        if answer is not None:
            return str(answer.collateral)
        await self._check(work)
        collateral = work.body.collateral
        if self._problem and not collateral:  # its constructor would fail
            return create_address(self._context.node.operator, self._nonce)
        if not collateral:
            creation = await work.creation(self._context)
            collateral = await self._plan_step(work, creation)
        await self._plan_approvals(work, collateral)
        return collateral

    async def _plan_approvals(self, work: DeployCollateral, collateral: str) -> None:
        """Plan the approvals that the operator has not given."""
        context, addresses = self._context, work.addresses(collateral)
        for name, token, spender in approvals(addresses):
            exists = not any(each.creates == token for each in self._planned)
            if exists:
                reads = [Read(token, ALLOWANCE, (context.node.operator, spender), if_reverted=0)]
                with contextlib.suppress(OperationRejectedError):
                    (allowance,) = await read_once(context, *reads)
                    if is_unlimited(allowance):
                        continue
            call = context.builder.approve(name, token, spender)
            await self._plan_step(work, call, None if exists else APPROVAL_GAS)

    async def _plan_exchange(self, work: DeployExchange, will_exist: bool) -> None:
        """Plan the deployment of the exchange.

        Its constructor calls the collateral. If that does not exist yet, the stablecoin, which is
        an ERC-20 as well, stands for it in the estimate.
        """
        call = estimated = work.call(self._context.node.operator)
        if will_exist and self._wrapper is not None:
            body = msgspec.structs.replace(work.body, collateral=self._wrapper.body.stablecoin)
            estimated = DeployExchange(body).call(self._context.node.operator)
        else:
            await self._check(work)
        signed = self._signed_step(work, call.name)
        if signed is not None and signed.status == "confirmed":
            return
        estimate = await self._estimate(estimated)
        await self._plan_step(work, call, estimate)

    async def _plan_step(self, work: Work[Any], call: StepCall, estimate: int | None = None) -> str:
        """Plan a step unless it is confirmed; return the address of the contract it creates."""
        signed, operator = self._signed_step(work, call.name), self._context.node.operator
        nonce = self._nonce if signed is None or signed.nonce is None else signed.nonce
        creates = "" if call.target else create_address(operator, nonce)
        if signed is not None and signed.status == "confirmed":
            return creates
        if estimate is None:
            estimate = await self._estimate(call)
        if signed is not None and signed.nonce is not None:
            most, tx_hash = signed.gas, signed.transactions[-1].hash
        else:
            most, tx_hash = gas_limit(estimate), ""
            self._nonce += 1
        self._planned.append(PlannedTransaction(call.name, nonce, creates, estimate, most, tx_hash))
        return creates

    async def _estimate(self, call: StepCall) -> int:
        """Return the gas of a step; 0, and a problem, if it would fail."""
        estimator = self._context.sender.gas_estimator
        (reply,) = await self._context.node.request([estimator.estimate_request(call)])
        estimate = estimator.read_estimate(call, reply)
        if isinstance(estimate, int):
            return estimate
        self._problem = self._problem or f"CHAIN_UNAVAILABLE: {call.name} failed: {estimate}"
        return 0

    def _signed_step(self, work: Work[Any], name: str) -> Step | None:
        """Return a step of an interrupted deployment if it was signed."""
        known = self._context.outbox.find(operation_id(work))
        if known is None:
            return None
        step = self._context.outbox.current_steps(known.number).get(name)
        return step if step is not None and step.status in ("signed", "confirmed") else None


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
    act = "start" if plan.transactions else "send nothing"
    is_enough = "enough" if plan.balance >= plan.needed else "not enough"
    lines = [
        f"plan of the deployment on {node}, chain {plan.chain_id}; nothing was sent",
        f"operator, which signs and pays: {plan.operator}",
        f"oracle, which reports outcomes and pays for that: {plan.oracle}, "
        f"with {ether(plan.oracle_balance)}",
        f"owner of the exchange: {body.owner}",
        f"fee wallet: {body.fee_wallet}; pauser: {body.pauser}",
        f"domain of orders: name {body.name}, version {body.version}, chain {plan.chain_id}",
        *contracts,
        *_creation_lines(plan),
        *_transaction_lines(plan),
        f"balance of the operator: {ether(plan.balance)}, {is_enough}; "
        f"to start, the deployment needs {ether(plan.needed)}",
        f"result: it would be rejected: {problem}" if problem else f"result: it would {act}",
    ]
    return "\n".join(lines) + "\n"


def _creation_lines(plan: DeployPlan) -> list[str]:
    """Format the contracts that the transactions create, and the known exchange."""
    lines = [
        f"{CREATED[each.name]}: {each.creates} will be created"
        for each in plan.transactions
        if each.creates
    ]
    if plan.deployed is not None:
        place, tx_hash = plan.deployed.exchange, plan.deployed.exchange_tx
        lines.append(f"exchange: {place} exists, created by transaction {tx_hash}")
    return lines


def _transaction_lines(plan: DeployPlan) -> list[str]:
    """Format the transactions, or why there are none."""
    if not plan.transactions:
        is_done = plan.deployed is not None
        reason = "" if is_done else "; that of an interrupted deployment is confirmed"
        return [f"transactions: none{reason}"]
    words = [
        f"{each.name}, {f'continues {each.hash}' if each.hash else 'new'}, nonce {each.nonce}"
        for each in plan.transactions
    ]
    lines = [f"transactions: {len(words)}, {'; '.join(words)}"]
    if not all(each.gas for each in plan.transactions):
        return [*lines, "gas: unknown"]
    gas = sum(each.gas for each in plan.transactions)
    gas_max, most = sum(each.gas_limit for each in plan.transactions), plan.fees.max_fee
    if len(words) > 1:
        lines += [f"gas of {each.name}: {each.gas} expected" for each in plan.transactions]
    return [
        *lines,
        f"gas: {gas} expected (+-{GAS_MARGIN_PERCENT} %), at most {gas_max}",
        f"price per unit of gas: {gwei(plan.price)} expected, at most {gwei(most)}",
        f"cost: {ether(gas * plan.price)} expected, at most {ether(gas_max * most)}",
    ]
