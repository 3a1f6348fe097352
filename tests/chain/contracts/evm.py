"""An in-process EVM without blocks, signatures and node.

Gas figures are not exact: storage stays warm from one transaction to the next.
"""

from typing import Any, NamedTuple

import pytest

from clob_server.chain.config import Addresses
from clob_server.chain.contracts import artifact
from clob_server.chain.eth.abi import AbiError, encode, revert_reason
from clob_server.chain.eth.accounts import ACCOUNTS, ETHER_WEI, OPERATOR, create_address
from clob_server.chain.operations.deploy import WRAPPER_ARGUMENTS

GAS = 20_000_000
GAS_PRICE = 10**10
NOW_S = 1_800_000_000
CHAIN_ID = 31337
RECOVERY = bytes(19) + b"\1"
"""Address of the precompile that recovers signatures."""


class Sent(NamedTuple):
    """A transaction of a block."""

    sender: str
    to: str
    data: bytes
    gas: int


class Outcome(NamedTuple):
    """Result of a transaction."""

    output: bytes
    reason: str
    """Revert reason; empty for a success."""
    logs: list[dict[str, Any]]
    """Logs in JSON-RPC form."""


class Evm:
    """The state of a chain on which the ten accounts have ether."""

    def __init__(self, chain_id=CHAIN_ID):
        base = pytest.importorskip("eth.chains.base", reason="py-evm is not installed")
        prague = pytest.importorskip("eth.vm.forks.prague")
        database = pytest.importorskip("eth.db.atomic")
        configured = base.MiningChain.configure(
            vm_configuration=((0, prague.PragueVM),), chain_id=chain_id
        )
        rich = {"balance": 10_000 * ETHER_WEI, "nonce": 0, "code": b"", "storage": {}}
        params = {"difficulty": 0, "gas_limit": 2 * GAS, "timestamp": NOW_S}
        state = {raw(account.address): rich for account in ACCOUNTS}
        # An account without balance is deleted after each call, which breaks snapshots.
        state[RECOVERY] = {**rich, "balance": 1}
        self._vm = configured.from_genesis(database.AtomicDB(), params, state).get_vm()
        self._spoof = pytest.importorskip("eth.vm.spoof").SpoofTransaction

    def send(self, sender, to, data=b"", value=0, *, gas=GAS):
        """Send a transaction; an empty address deploys."""
        state = self._vm.state
        plain = self._vm.create_unsigned_transaction(
            nonce=state.get_nonce(raw(sender)),
            gas_price=GAS_PRICE,
            gas=gas,
            to=raw(to),
            value=value,
            data=data,
        )
        done = state.apply_transaction(self._spoof(plain, from_=raw(sender), y_parity=0, s=1, r=1))
        reason = revert_reason(done.output) if done.is_error else ""
        logs = [json_log(*entry) for entry in done.get_log_entries()]
        return Outcome(done.output, reason, logs)

    def run(self, sent):
        """Execute transactions in order, as those of one block, and return their outcomes."""
        return [self.send(each.sender, each.to, each.data, gas=each.gas) for each in sent]

    def snapshot(self):
        """Take a snapshot of the state."""
        return self._vm.state.snapshot()

    def revert(self, snapshot):
        """Restore a snapshot."""
        self._vm.state.revert(snapshot)

    def set_time(self, now_s):
        """Set the time in seconds."""
        self._vm.state.execution_context._timestamp = now_s

    def ask(self, to, function, *args, sender=ACCOUNTS[0].address):
        """Call a view function and return its single value."""
        (answer,) = function.decode(self.call(sender, to, function.encode(*args)).output)
        return answer

    def ask_all(self, questions):
        """Call view functions, each with a contract and arguments; return their values."""
        return [self.ask(*question) for question in questions]

    def call(self, sender, to, data):
        """Execute a transaction and revert its changes."""
        before = self.snapshot()
        outcome = self.send(sender, to, data)
        self.revert(before)
        return outcome

    def do(self, sender, to, function, *args):
        """Send a call that must succeed."""
        outcome = self.send(sender, to, function.encode(*args))
        assert outcome.reason == ""
        return outcome

    def rejection(self, sender, to, function, *args):
        """Send a call that must be reverted and return the reason."""
        outcome = self.send(sender, to, function.encode(*args))
        assert outcome.reason
        assert not outcome.logs
        return outcome.reason

    def deploy(self, sender, name, types=(), args=()):
        """Deploy a contract and return its address."""
        address = create_address(sender, self.nonce_of(sender))
        outcome = self.send(sender, "", artifact(name).creation + encode(types, args))
        if outcome.reason:
            raise AbiError(outcome.reason)
        assert self.code(address)
        return address

    def wrapper(self, stablecoin, decimals, name="Wrapped Test Dollar", symbol="wtUSD"):
        """Deploy the collateral that wraps a stablecoin and return its address."""
        arguments = stablecoin, decimals, name, symbol
        return self.deploy(OPERATOR.address, "WrappedCollateral", WRAPPER_ARGUMENTS, arguments)

    def nonce_of(self, address):
        """Return the number of transactions that an account sent."""
        return self._vm.state.get_nonce(raw(address))

    def code(self, address):
        """Return the code at an address."""
        return self._vm.state.get_code(raw(address))

    def set_code(self, address, code):
        """Set the code at an address."""
        self._vm.state.set_code(raw(address), code)

    def deploy_all(self):
        """Deploy the three contracts as the operator does."""
        operator = OPERATOR.address
        tokens = self.deploy(operator, "ConditionalTokens")
        dollar = self.deploy(operator, "TestDollar", ["uint8"], [6])
        collateral = self.wrapper(dollar, 6)
        return Addresses(stablecoin=dollar, collateral=collateral, conditional_tokens=tokens)


def raw(address):
    """Return the bytes of an address."""
    return bytes.fromhex(address[2:])


def json_log(address, topics, data):
    """Return a log in JSON-RPC form."""
    return {
        "address": f"0x{address.hex()}",
        "topics": [f"0x{topic:064x}" for topic in topics],
        "data": f"0x{data.hex()}",
    }
