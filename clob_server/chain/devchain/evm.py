"""Rules of the chain: the fork Prague, funded accounts, a constant gas limit, validation."""

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
from eth.constants import GAS_TX
from eth.exceptions import UnrecognizedTransactionType
from eth.typing import AccountState
from eth.vm.forks.prague import PragueVM
from eth.vm.forks.prague.computation import PragueComputation
from eth.vm.forks.prague.constants import TOTAL_COST_FLOOR_PER_TOKEN
from eth.vm.forks.prague.state import PragueState
from eth.vm.forks.prague.transactions import PragueTransactionBuilder
from eth.vm.forks.shanghai.constants import MAX_INITCODE_SIZE
from eth_hash.auto import keccak
from eth_keys.exceptions import BadSignature
from eth_typing import BlockNumber
from eth_utils.exceptions import ValidationError

from clob.signing import keccak256
from clob_server.chain.devchain.errors import RequestError, invalid
from clob_server.chain.devchain.interpreter import run
from clob_server.chain.devchain.state import ChainStore
from clob_server.chain.devchain.views import base_fee_of, kind_of
from clob_server.chain.eth.accounts import ACCOUNTS, GENESIS_WEI

GAS_LIMIT: Final = 30_000_000
"""Gas limit of a block and of a call."""
BASE_FEE_WEI: Final = 10**9
"""Base fee of the first block; nearly empty blocks lower it to 7 wei."""
TIP_WEI: Final = 10**9
"""Suggested priority fee."""
BLOB_TYPE: Final = 3
"""Type of blob transactions, which are rejected."""
TOKENS_PER_BYTE: Final = 4
"""Data tokens of a non-zero byte; a zero byte is one token."""
CONSTANT: Final[dict[str, Any]] = {
    "gas_limit": GAS_LIMIT,
    "parent_beacon_block_root": bytes(32),
}
"""Constant header fields."""

# Tries consist of hashes, and the compiled hash takes a tenth of the time of py-evm's default.
keccak.hasher = keccak256  # type: ignore[assignment]


class DevelopmentComputation(PragueComputation):
    """Execution of a contract."""

    looks_at_gas = False
    """Whether the code reads the remaining gas."""

    @classmethod
    def apply_computation(
        cls,
        state: StateAPI,
        message: MessageAPI,
        transaction_context: TransactionContextAPI,
        parent_computation: ComputationAPI | None = None,
    ) -> ComputationAPI:
        """Prepare as py-evm does, then run the code in our interpreter."""
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
    """State of a block without Prague's two system contracts, used by consensus clients only."""

    computation_class: type[PragueComputation] = DevelopmentComputation

    def set_system_contracts(self) -> None:
        """Skip them: looking them up in each block and call takes time."""


class DevelopmentVM(PragueVM):
    """Block rules: Prague."""

    _state_class = DevelopmentState


class DevelopmentEvm(Chain):
    """py-evm chain with these rules."""

    vm_configuration: tuple[tuple[BlockNumber, type[VirtualMachineAPI]], ...] = (
        (BlockNumber(0), DevelopmentVM),
    )


def open_evm(store: ChainStore, chain_id: int, now_s: int) -> Chain:
    """Open the chain of a store, or create it with a first block at ``now_s``."""
    kind = DevelopmentEvm.configure(f"Chain{chain_id}", chain_id=chain_id)
    if store.row("SELECT 1 FROM blocks WHERE number=0") is not None:
        return cast(Chain, kind(store))
    rich = {"balance": GENESIS_WEI, "nonce": 0, "code": b"", "storage": {}}
    state = {bytes.fromhex(each.address[2:]): rich for each in ACCOUNTS}
    first = {"timestamp": now_s, "base_fee_per_gas": BASE_FEE_WEI, "difficulty": 0, **CONSTANT}
    return cast(Chain, kind.from_genesis(store, first, cast(AccountState, state)))


def decode(raw: bytes) -> SignedTransactionAPI:
    """Decode a signed transaction.

    Raises:
        RequestError: not a valid signed transaction of a supported type.
    """
    try:
        transaction = PragueTransactionBuilder.decode(raw)
        if kind_of(transaction) == BLOB_TYPE:
            raise RequestError("transaction type not supported: it carries blobs")
        transaction.validate()
        transaction.check_signature_validity()
    except UnrecognizedTransactionType as error:
        raise RequestError(f"transaction type not supported: {error}") from error
    except (rlp.RLPException, ValidationError, BadSignature, ValueError, TypeError) as error:
        raise invalid(f"failed to decode the transaction: {error}") from error
    return transaction


def check(
    raw: bytes, header: BlockHeaderAPI, state: StateAPI, chain_id: int
) -> SignedTransactionAPI:
    """Decode a signed transaction and check that it can be mined, now or later.

    Args:
        raw: the signed bytes.
        header: the block to include it in.
        state: the state before that block.
        chain_id: the chain id.

    Raises:
        RequestError: the first failed check, with the text of real nodes.
    """
    transaction = decode(raw)
    if transaction.chain_id not in (None, chain_id):
        ids = f"have {transaction.chain_id} want {chain_id}"
        raise RequestError(f"invalid chain id for signer: {ids}")
    check_gas(transaction, header)
    check_fees(transaction, header)
    check_sender(transaction, state)
    return transaction


def floor_gas(data: bytes) -> int:
    """Return the minimum gas of a transaction with this data (EIP-7623)."""
    tokens = data.count(0) + TOKENS_PER_BYTE * (len(data) - data.count(0))
    return GAS_TX + TOTAL_COST_FLOOR_PER_TOKEN * tokens


def check_gas(transaction: SignedTransactionAPI, header: BlockHeaderAPI) -> None:
    """Reject a gas limit above the block's or below the intrinsic gas."""
    gas = transaction.gas
    if gas > header.gas_limit:
        raise RequestError(f"exceeds block gas limit: have {gas}, limit {header.gas_limit}")
    if gas < transaction.intrinsic_gas:
        raise RequestError(f"intrinsic gas too low: have {gas}, want {transaction.intrinsic_gas}")
    if gas < (floor := floor_gas(transaction.data)):
        raise RequestError(f"insufficient gas for floor data gas cost: have {gas}, want {floor}")
    if not transaction.to and (length := len(transaction.data)) > MAX_INITCODE_SIZE:
        size = f"code size {length}, limit {MAX_INITCODE_SIZE}"
        raise RequestError(f"max initcode size exceeded: {size}")


def check_fees(transaction: SignedTransactionAPI, header: BlockHeaderAPI) -> None:
    """Reject inconsistent fees and fees below the base fee."""
    fee, tip = transaction.max_fee_per_gas, transaction.max_priority_fee_per_gas
    base_fee = base_fee_of(header)
    if tip > fee:
        fees = f"maxPriorityFeePerGas: {tip}, maxFeePerGas: {fee}"
        raise RequestError(f"max priority fee per gas higher than max fee per gas: {fees}")
    if fee < base_fee:
        fees = f"maxFeePerGas: {fee}, baseFee: {base_fee}"
        raise RequestError(f"max fee per gas less than block base fee: {fees}")


def check_sender(transaction: SignedTransactionAPI, state: StateAPI) -> None:
    """Reject a used nonce and a sender without sufficient funds."""
    sender, nonce = transaction.sender, transaction.nonce
    have = state.get_nonce(sender)
    if nonce < have:
        raise RequestError(f"nonce too low: next nonce {have}, tx nonce {nonce}")
    balance_wei = state.get_balance(sender)
    want_wei = transaction.gas * transaction.max_fee_per_gas + transaction.value
    if balance_wei < want_wei:
        funds = f"address 0x{sender.hex()} have {balance_wei} want {want_wei}"
        raise RequestError(f"insufficient funds for gas * price + value: {funds}")
