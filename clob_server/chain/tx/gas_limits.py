"""How much gas a step takes: the node is asked, or tries it with what such a step took before.

A node finds the least that is enough by trying again and again, which takes anvil 2 ms for a merge
of 0.1 ms. So what it found for one call of a function is remembered, and the next such call is
tried once with just that. Where it fails then, the node is asked, and what it says counts.
"""

from typing import Final, NamedTuple

from clob_server.chain.eth.abi import SELECTOR_BYTES, revert_reason
from clob_server.chain.eth.rpc import (
    SHOWN,
    NodeError,
    NodeRefusedError,
    Question,
    Reply,
    content,
    number,
    result,
)
from clob_server.chain.tx.node import failure_data, is_failure

GAS_MAX: Final = 2_000_000
"""How much gas a step may take by the estimate, unless it says otherwise."""


class GasEstimateCall(NamedTuple):
    """A transaction that is wanted."""

    name: str
    """What the answer calls its hash."""
    target: str
    """Where it goes; empty to make a contract."""
    data: bytes
    """The call."""
    expects: str = ""
    """As in :attr:`rows.Step.expects`."""
    value: int = 0
    """What it takes along, in wei."""
    gas_max: int = GAS_MAX
    """How much gas it may take by the estimate. More is as good as a failure: whoever receives a
    token may have code that burns the operator's gas."""
    estimate: int | None = None
    """How much gas it takes, where the node was asked already."""
    gas: int | None = None
    """How much gas it is given, where a rule says so and the node is not to be asked."""


class Probe(NamedTuple):
    """What the node is asked about a step that can wait for a better answer."""

    call: GasEstimateCall
    """The step."""
    gas: int | None
    """What it is tried with; None where the node is asked how much it takes."""
    question: Question
    """The question itself."""


class Estimates:
    """How much gas the steps of one operator take.

    Args:
        operator: who sends them.
    """

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._known: dict[tuple[str, bytes], int] = {}

    def probe(self, call: GasEstimateCall) -> Probe:
        """Ask about a step, as cheaply as it can be done; for :meth:`probed`."""
        gas = self._known.get(function_of(call)) if call.target else None
        if gas is None or gas > call.gas_max:
            return Probe(call, None, self.question(call))
        asked = {**self._transaction(call), "gas": hex(gas)}
        return Probe(call, gas, ("eth_call", (asked, "latest")))

    def probed(self, probe: Probe, reply: Reply) -> int | None:
        """Give the gas of a step; None where it cannot be told from this."""
        try:
            if probe.gas is None:
                found = self.estimated(probe.call, reply)
                return found if isinstance(found, int) else None
            content(result(reply))
        except NodeError:
            return None
        return probe.gas

    def question(self, call: GasEstimateCall) -> Question:
        """Ask how much gas a step takes; for :meth:`estimated`."""
        return "eth_estimateGas", (self._transaction(call),)

    def estimated(self, call: GasEstimateCall, reply: Reply) -> int | str:
        """Give the gas of a step, or why it fails.

        Raises:
            NodeError: the node says neither.
        """
        if isinstance(reply, NodeRefusedError) and is_failure(reply):
            return f"it would be reverted: {fault_of(reply)}"
        gas = number(result(reply))
        if gas > call.gas_max:
            return f"it would take {gas} gas, more than {call.gas_max}"
        if call.target and len(call.data) >= SELECTOR_BYTES:
            key = function_of(call)
            self._known[key] = max(gas, self._known.get(key, 0))
        return gas

    def _transaction(self, call: GasEstimateCall) -> dict[str, str]:
        """Write a step as a node is told of it."""
        asked = {"from": self._operator, "data": f"0x{call.data.hex()}"}
        if call.target:
            asked["to"] = call.target
        if call.value:
            asked["value"] = hex(call.value)
        return asked


def function_of(call: GasEstimateCall) -> tuple[str, bytes]:
    """Give the contract and the selector of a step."""
    return call.target, call.data[:SELECTOR_BYTES]


def fault_of(refusal: NodeRefusedError) -> str:
    """Say why a call fails, in the contract's words where it has any."""
    data = failure_data(refusal)
    return revert_reason(data) if data else refusal.message[:SHOWN]
