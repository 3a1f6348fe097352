"""The rules of the chain: py-evm's newest fork, ten funded accounts, and a constant gas limit."""

from typing import Any, Final, cast

from eth.abc import (
    ComputationAPI,
    MessageAPI,
    StateAPI,
    TransactionContextAPI,
    VirtualMachineAPI,
)
from eth.chains.base import Chain
from eth.typing import AccountState
from eth.vm.forks.prague import PragueVM
from eth.vm.forks.prague.computation import PragueComputation
from eth.vm.forks.prague.state import PragueState
from eth_hash.auto import keccak
from eth_typing import BlockNumber

from clob.signing import keccak256
from clob_server.chain.accounts import ACCOUNTS, GENESIS_WEI
from clob_server.chain.devchain.opcodes import run
from clob_server.chain.devchain.state import Store

GAS_LIMIT: Final = 30_000_000
"""How much gas a block may use, and a call."""
BASE_FEE_WEI: Final = 10**9
"""The base fee of the first block; blocks that are nearly empty bring it down to 7 wei."""
TIP_WEI: Final = 10**9
"""The priority fee that is suggested."""
BLOB_TYPE: Final = 3
"""The type of the transactions that carry blobs, which are refused."""
CONSTANT: Final[dict[str, Any]] = {
    "gas_limit": GAS_LIMIT,
    "parent_beacon_block_root": bytes(32),
}
"""What every header has."""

# The compiled one takes a tenth of the time of the one that py-evm finds, and a trie is all hashes.
keccak.hasher = keccak256  # type: ignore[assignment]


class DevelopmentComputation(PragueComputation):
    """The run of a contract."""

    looks_at_gas = False
    """Whether what it does may depend on how much gas it has left."""

    @classmethod
    def apply_computation(
        cls,
        state: StateAPI,
        message: MessageAPI,
        transaction_context: TransactionContextAPI,
        parent_computation: ComputationAPI | None = None,
    ) -> ComputationAPI:
        """Do what py-evm does before it runs the code, and run it here."""
        computation = cls(state, message, transaction_context)
        with computation:
            if parent_computation is not None:
                computation.contracts_created = parent_computation.contracts_created
            else:
                computation.contracts_created = []
                if message.is_create:
                    cls.consume_initcode_gas_cost(computation)
            if message.is_create:
                computation.contracts_created.append(message.storage_address)
            built_in = computation.precompiles.get(message.code_address)
            if built_in is None:
                run(computation)
            elif not message.is_delegation:
                built_in(computation)
        return computation


class DevelopmentState(PragueState):
    """The state of a block, without the two contracts of Prague that only consensus clients use."""

    computation_class: type[PragueComputation] = DevelopmentComputation

    def set_system_contracts(self) -> None:
        """Leave them out: looking for them in each block and call takes time."""


class DevelopmentVM(PragueVM):
    """The rules of a block: Prague."""

    _state_class = DevelopmentState


class DevelopmentEvm(Chain):
    """py-evm's chain of these blocks."""

    vm_configuration: tuple[tuple[BlockNumber, type[VirtualMachineAPI]], ...] = (
        (BlockNumber(0), DevelopmentVM),
    )


def open_evm(store: Store, chain_id: int, now_s: int) -> Chain:
    """Open the chain in a store, and begin it where there is none.

    Args:
        store: its keys.
        chain_id: what its transactions are signed for.
        now_s: the time of the first block, if it is not there yet, in seconds.
    """
    kind = DevelopmentEvm.configure(f"Chain{chain_id}", chain_id=chain_id)
    if store.row("SELECT 1 FROM blocks WHERE number=0") is not None:
        return cast(Chain, kind(store))
    state = {
        bytes.fromhex(each.address[2:]): {
            "balance": GENESIS_WEI,
            "nonce": 0,
            "code": b"",
            "storage": {},
        }
        for each in ACCOUNTS
    }
    first = {"timestamp": now_s, "base_fee_per_gas": BASE_FEE_WEI, "difficulty": 0, **CONSTANT}
    return cast(Chain, kind.from_genesis(store, first, cast(AccountState, state)))
