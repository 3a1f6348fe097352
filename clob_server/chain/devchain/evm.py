"""The rules of the chain: py-evm's newest fork, ten funded accounts, and a constant gas limit."""

from typing import Any, Final, cast

import rlp  # type: ignore[import-untyped]
from eth.abc import (
    BlockHeaderAPI,
    ComputationAPI,
    MessageAPI,
    SignedTransactionAPI,
    StateAPI,
    TransactionContextAPI,
    VirtualMachineAPI,
)
from eth.chains.base import Chain
from eth.exceptions import UnrecognizedTransactionType
from eth.typing import AccountState
from eth.vm.forks.prague import PragueVM
from eth.vm.forks.prague.computation import PragueComputation
from eth.vm.forks.prague.state import PragueState
from eth.vm.forks.prague.transactions import PragueTransactionBuilder
from eth_hash.auto import keccak
from eth_keys.exceptions import BadSignature
from eth_typing import BlockNumber
from eth_utils.exceptions import ValidationError

from clob.signing import keccak256
from clob_server.chain.devchain.errors import RefusedError, invalid
from clob_server.chain.devchain.interpreter import run
from clob_server.chain.devchain.state import ChainStore
from clob_server.chain.devchain.views import kind_of
from clob_server.chain.eth.accounts import ACCOUNTS, GENESIS_WEI

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


def open_evm(store: ChainStore, chain_id: int, now_s: int) -> Chain:
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


TRANSACTION_GAS: Final = 21_000
"""What the smallest transaction costs."""
FLOOR_GAS_PER_TOKEN: Final = 10
"""What data costs at least, EIP-7623; a zero byte is one token."""
TOKENS_PER_BYTE: Final = 4
"""How many tokens any other byte is."""
CREATION_BYTES_MAX: Final = 49_152
"""How long the code may be that creates a contract, EIP-3860."""


def decode(raw: bytes) -> SignedTransactionAPI:
    """Read a signed transaction.

    Raises:
        RefusedError: it is none, of an unknown type, or its signature is none.
    """
    try:
        transaction = PragueTransactionBuilder.decode(raw)
        if kind_of(transaction) == BLOB_TYPE:
            raise RefusedError("transaction type not supported: it carries blobs")
        transaction.validate()
        transaction.check_signature_validity()
    except UnrecognizedTransactionType as error:
        raise RefusedError(f"transaction type not supported: {error}") from error
    except (rlp.RLPException, ValidationError, BadSignature, ValueError, TypeError) as error:
        raise invalid(f"failed to decode the transaction: {error}") from error
    return transaction


def check(
    raw: bytes, header: BlockHeaderAPI, state: StateAPI, chain_id: int
) -> SignedTransactionAPI:
    """Read a signed transaction, and refuse it if it cannot be mined now or later.

    Args:
        raw: its bytes.
        header: the block that it would be in.
        state: what is there before that block.
        chain_id: the chain.

    Raises:
        RefusedError: why not.
    """
    transaction = decode(raw)
    if transaction.chain_id not in (None, chain_id):
        raise RefusedError(
            f"invalid chain id for signer: have {transaction.chain_id} want {chain_id}"
        )
    check_gas(transaction, header)
    check_fees(transaction, header)
    check_sender(transaction, state)
    return transaction


def floor_gas(data: bytes) -> int:
    """Say how much gas a transaction with this data uses at least."""
    tokens = TOKENS_PER_BYTE * len(data) - (TOKENS_PER_BYTE - 1) * data.count(0)
    return TRANSACTION_GAS + FLOOR_GAS_PER_TOKEN * tokens


def check_gas(transaction: SignedTransactionAPI, header: BlockHeaderAPI) -> None:
    """Refuse a gas limit that no block has, or that is too low to begin with."""
    gas = transaction.gas
    if gas > header.gas_limit:
        raise RefusedError(f"exceeds block gas limit: have {gas}, limit {header.gas_limit}")
    if gas < transaction.intrinsic_gas:
        raise RefusedError(f"intrinsic gas too low: have {gas}, want {transaction.intrinsic_gas}")
    if gas < (floor := floor_gas(transaction.data)):
        raise RefusedError(f"insufficient gas for floor data gas cost: have {gas}, want {floor}")
    if not transaction.to and len(transaction.data) > CREATION_BYTES_MAX:
        raise RefusedError(
            f"max initcode size exceeded: code size {len(transaction.data)}, "
            f"limit {CREATION_BYTES_MAX}"
        )


def check_fees(transaction: SignedTransactionAPI, header: BlockHeaderAPI) -> None:
    """Refuse fees that contradict each other, or that the block does not take."""
    fee, tip = transaction.max_fee_per_gas, transaction.max_priority_fee_per_gas
    base_fee = getattr(header, "base_fee_per_gas", 0)
    if tip > fee:
        raise RefusedError(
            "max priority fee per gas higher than max fee per gas: "
            f"maxPriorityFeePerGas: {tip}, maxFeePerGas: {fee}"
        )
    if fee < base_fee:
        raise RefusedError(
            f"max fee per gas less than block base fee: maxFeePerGas: {fee}, baseFee: {base_fee}"
        )


def check_sender(transaction: SignedTransactionAPI, state: StateAPI) -> None:
    """Refuse a nonce that was used, and a sender who cannot pay."""
    sender, nonce = transaction.sender, transaction.nonce
    have = state.get_nonce(sender)
    if nonce < have:
        raise RefusedError(f"nonce too low: next nonce {have}, tx nonce {nonce}")
    balance_wei = state.get_balance(sender)
    want_wei = transaction.gas * transaction.max_fee_per_gas + transaction.value
    if balance_wei < want_wei:
        raise RefusedError(
            f"insufficient funds for gas * price + value: address 0x{sender.hex()} "
            f"have {balance_wei} want {want_wei}"
        )


# MERGED clob_server.chain.devchain.evm: What a signed transaction must be to be mined, refused in the words of real nodes.
