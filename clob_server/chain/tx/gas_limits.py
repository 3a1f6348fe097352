"""Gas limits of steps, from the node's estimate or from a trial call with a known limit.

A node estimates gas by repeated execution, which takes anvil 2 ms for a merge of 0.1 ms. So the
highest estimate for each contract function is remembered, and the next call of it is executed once
with that limit. If that fails, the node's estimate is used.
"""

from typing import Final, NamedTuple

from clob_server.chain.eth.abi import SELECTOR_BYTES, revert_reason
from clob_server.chain.eth.rpc import (
    SHOWN,
    NodeError,
    NodeRejectedError,
    Reply,
    RpcRequest,
    content,
    integer,
    result,
)
from clob_server.chain.tx.node import failure_data, is_failure

GAS_MAX: Final = 2_000_000
"""Default maximum of the estimate for a step."""


class StepCall(NamedTuple):
    """A transaction to be sent."""

    name: str
    """Name of its hash in the answer."""
    target: str
    """Recipient; empty to create a contract."""
    data: bytes
    """Calldata."""
    expects: str = ""
    """See :attr:`steps.Step.expects`."""
    value: int = 0
    """Value, in wei."""
    gas_max: int = GAS_MAX
    """Maximum estimate. A higher one counts as a failure: the code of a token receiver could burn
    the operator's gas."""
    estimate: int | None = None
    """Gas estimate, if it was requested already."""
    gas: int | None = None
    """Fixed gas limit; no estimate is requested."""


class Probe(NamedTuple):
    """A gas request for a step whose estimate may fail and be repeated later."""

    call: StepCall
    gas: int | None
    """Gas limit of the trial call; None for an estimate."""
    request: RpcRequest


class GasEstimator:
    """Estimates the gas of the steps that an operator sends."""

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._known: dict[tuple[str, bytes], int] = {}

    def probe(self, call: StepCall) -> Probe:
        """Return the cheapest gas request for a step; :meth:`read_probe` reads its reply."""
        gas = self._known.get(function_of(call)) if call.target else None
        if gas is None or gas > call.gas_max:
            return Probe(call, None, self.estimate_request(call))
        transaction = {**self._transaction(call), "gas": hex(gas)}
        return Probe(call, gas, ("eth_call", (transaction, "latest")))

    def read_probe(self, probe: Probe, reply: Reply) -> int | None:
        """Return the gas of a step; None if the reply does not determine it."""
        try:
            if probe.gas is None:
                estimate = self.read_estimate(probe.call, reply)
                return estimate if isinstance(estimate, int) else None
            content(result(reply))
        except NodeError:
            return None
        return probe.gas

    def estimate_request(self, call: StepCall) -> RpcRequest:
        """Return the gas request for a step; :meth:`read_estimate` reads its reply."""
        return "eth_estimateGas", (self._transaction(call),)

    def read_estimate(self, call: StepCall, reply: Reply) -> int | str:
        """Return the gas of a step, or the reason why it would fail.

        Raises:
            NodeError: the reply is invalid.
        """
        if isinstance(reply, NodeRejectedError) and is_failure(reply):
            return f"the transaction would be reverted: {revert_message(reply)}"
        gas = integer(result(reply))
        if gas > call.gas_max:
            return f"the transaction would use {gas} gas; the limit is {call.gas_max}"
        if call.target and len(call.data) >= SELECTOR_BYTES:
            key = function_of(call)
            self._known[key] = max(gas, self._known.get(key, 0))
        return gas

    def _transaction(self, call: StepCall) -> dict[str, str]:
        """Return the step as a JSON-RPC transaction."""
        transaction = {"from": self._operator, "data": f"0x{call.data.hex()}"}
        if call.target:
            transaction["to"] = call.target
        if call.value:
            transaction["value"] = hex(call.value)
        return transaction


def function_of(call: StepCall) -> tuple[str, bytes]:
    """Return contract and selector of a step."""
    return call.target, call.data[:SELECTOR_BYTES]


def revert_message(error: NodeRejectedError) -> str:
    """Return the reason of a failed call: the contract's if it has one, else the node's."""
    data = failure_data(error)
    return revert_reason(data) if data else error.message[:SHOWN]
