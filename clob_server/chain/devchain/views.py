"""Blocks, transactions, receipts and logs as JSON-RPC objects."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import rlp  # type: ignore[import-untyped]
from eth._utils.address import generate_contract_address
from eth.abc import BlockAPI, BlockHeaderAPI, LogAPI, ReceiptAPI, SignedTransactionAPI

Record: TypeAlias = dict[str, Any]
"""A JSON object."""
LEGACY, ACCESS_LIST, SET_CODE = 0, 1, 4
"""Types of transactions."""
UNPROTECTED: Final = (27, 28)
"""v of signatures without chain id."""


def data(value: bytes) -> str:
    """Format bytes as hex."""
    return f"0x{value.hex()}"


def word(number: int) -> str:
    """Format a number as 32 bytes of hex."""
    return f"0x{number:064x}"


# ----- blocks ---------------------------------------------------------------------------------


def block_record(block: BlockAPI) -> Record:
    """Return a block with transaction hashes."""
    return {
        **header_record(block.header),
        "hash": data(block.hash),
        "size": hex(len(rlp.encode(block))),
        "transactions": [data(each.hash) for each in block.transactions],
    }


def pending_record(header: BlockHeaderAPI) -> Record:
    """Return the next block, without transactions and hash."""
    return {**header_record(header), "hash": None, "size": hex(0), "transactions": []}


def base_fee_of(header: BlockHeaderAPI) -> int:
    """Return the base fee of a block, in wei."""
    return int(getattr(header, "base_fee_per_gas", 0))


def header_record(header: BlockHeaderAPI) -> Record:
    """Return the fields of a Prague header."""
    shown: Any = header
    return {
        "number": hex(header.block_number),
        "parentHash": data(header.parent_hash),
        "timestamp": hex(header.timestamp),
        "stateRoot": data(header.state_root),
        "transactionsRoot": data(header.transaction_root),
        "receiptsRoot": data(header.receipt_root),
        "logsBloom": f"0x{header.bloom:0512x}",
        "gasLimit": hex(header.gas_limit),
        "gasUsed": hex(header.gas_used),
        "baseFeePerGas": hex(base_fee_of(header)),
        "miner": data(header.coinbase),
        "difficulty": hex(header.difficulty),
        "totalDifficulty": hex(0),
        "extraData": data(header.extra_data),
        "mixHash": data(header.mix_hash),
        "nonce": data(header.nonce),
        "sha3Uncles": data(header.uncles_hash),
        "uncles": [],
        "withdrawals": [],
        "withdrawalsRoot": data(shown.withdrawals_root),
        "blobGasUsed": hex(shown.blob_gas_used),
        "excessBlobGas": hex(shown.excess_blob_gas),
        "parentBeaconBlockRoot": data(shown.parent_beacon_block_root),
        "requestsHash": data(shown.requests_hash),
    }


# ----- transactions ---------------------------------------------------------------------------


def kind_of(transaction: SignedTransactionAPI) -> int:
    """Return the type of a transaction."""
    return getattr(transaction, "type_id", None) or LEGACY


def price_of(transaction: SignedTransactionAPI, base_fee_wei: int) -> int:
    """Return the effective gas price, in wei."""
    tip_wei = transaction.max_priority_fee_per_gas + base_fee_wei
    return min(transaction.max_fee_per_gas, tip_wei)


def transaction_record(transaction: SignedTransactionAPI) -> Record:
    """Return a transaction without a block."""
    return {
        "hash": data(transaction.hash),
        "type": hex(kind_of(transaction)),
        "from": data(transaction.sender),
        "to": data(transaction.to) if transaction.to else None,
        "nonce": hex(transaction.nonce),
        "gas": hex(transaction.gas),
        "gasPrice": hex(transaction.max_fee_per_gas),
        "value": hex(transaction.value),
        "input": data(transaction.data),
        "r": hex(transaction.r),
        "s": hex(transaction.s),
        **_by_type(transaction),
        "blockHash": None,
        "blockNumber": None,
        "transactionIndex": None,
    }


def _by_type(transaction: SignedTransactionAPI) -> Record:
    """Return the fields of specific types."""
    kind = kind_of(transaction)
    if kind == LEGACY:
        v = getattr(transaction, "v", 0)
        chain = {} if v in UNPROTECTED else {"chainId": hex(transaction.chain_id or 0)}
        return {"v": hex(v), **chain}
    shown: Record = {
        "chainId": hex(transaction.chain_id or 0),
        "v": hex(transaction.y_parity),
        "yParity": hex(transaction.y_parity),
        "accessList": [
            {"address": data(address), "storageKeys": [word(slot) for slot in slots]}
            for address, slots in transaction.access_list
        ],
    }
    if kind != ACCESS_LIST:
        shown["maxFeePerGas"] = hex(transaction.max_fee_per_gas)
        shown["maxPriorityFeePerGas"] = hex(transaction.max_priority_fee_per_gas)
    if kind == SET_CODE:
        shown["authorizationList"] = [*map(_authorization, transaction.authorization_list)]
    return shown


def _authorization(shown: Any) -> Record:
    """Return an authorisation of an account."""
    return {
        "chainId": hex(shown.chain_id),
        "address": data(shown.address),
        "nonce": hex(shown.nonce),
        "yParity": hex(shown.y_parity),
        "r": hex(shown.r),
        "s": hex(shown.s),
    }


def mined_record(transaction: SignedTransactionAPI, block: BlockAPI, index: int) -> Record:
    """Return a mined transaction."""
    return {
        **transaction_record(transaction),
        "gasPrice": hex(price_of(transaction, base_fee_of(block.header))),
        "blockHash": data(block.hash),
        "blockNumber": hex(block.number),
        "transactionIndex": hex(index),
    }


# ----- receipts and logs ----------------------------------------------------------------------


def receipt_records(block: BlockAPI, receipts: Sequence[ReceiptAPI]) -> Iterator[Record]:
    """Yield the receipts of a block."""
    used = num_logs = 0
    base_fee_wei = base_fee_of(block.header)
    for index, receipt in enumerate(receipts):
        transaction = block.transactions[index]
        place = {
            "blockHash": data(block.hash),
            "blockNumber": hex(block.number),
            "transactionHash": data(transaction.hash),
            "transactionIndex": hex(index),
        }
        yield {
            **place,
            "type": hex(kind_of(transaction)),
            "status": hex(int.from_bytes(receipt.state_root)),
            "from": data(transaction.sender),
            "to": data(transaction.to) if transaction.to else None,
            "contractAddress": created_by(transaction),
            "cumulativeGasUsed": hex(receipt.gas_used),
            "gasUsed": hex(receipt.gas_used - used),
            "effectiveGasPrice": hex(price_of(transaction, base_fee_wei)),
            "logsBloom": f"0x{receipt.bloom:0512x}",
            "logs": [
                log_record(log, number, block, place)
                for number, log in enumerate(receipt.logs, num_logs)
            ],
        }
        used, num_logs = receipt.gas_used, num_logs + len(receipt.logs)


def created_by(transaction: SignedTransactionAPI) -> str | None:
    """Return the address of a created contract, or None."""
    if transaction.to:
        return None
    return data(generate_contract_address(transaction.sender, transaction.nonce))


def log_record(log: LogAPI, number: int, block: BlockAPI, place: Record) -> Record:
    """Return one log."""
    return {
        **place,
        "address": data(log.address),
        "topics": [word(topic) for topic in log.topics],
        "data": data(log.data),
        "blockTimestamp": hex(block.header.timestamp),
        "logIndex": hex(number),
        "removed": False,
    }
