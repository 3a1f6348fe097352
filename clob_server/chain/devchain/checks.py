"""What a signed transaction must be to be mined, refused in the words of real nodes."""

from typing import Final

import rlp  # type: ignore[import-untyped]
from eth.abc import BlockHeaderAPI, SignedTransactionAPI, StateAPI
from eth.exceptions import UnrecognizedTransactionType
from eth.vm.forks.prague.transactions import PragueTransactionBuilder
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

from clob_server.chain.devchain.errors import RefusedError, invalid
from clob_server.chain.devchain.evm import BLOB_TYPE
from clob_server.chain.devchain.records import kind_of

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
