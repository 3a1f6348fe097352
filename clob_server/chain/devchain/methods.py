"""The JSON-RPC methods."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeAlias

import msgspec
from eth.abc import BlockHeaderAPI, StateAPI
from eth_typing import Address
from eth_utils.crypto import keccak

import clob
from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.errors import invalid
from clob_server.chain.devchain.eth_call import UnsignedCall, call, estimate_gas
from clob_server.chain.devchain.evm import TIP_WEI
from clob_server.chain.devchain.fee_history import fee_history
from clob_server.chain.devchain.logs import find_logs
from clob_server.chain.devchain.params import (
    ZERO_ADDRESS,
    address,
    block_named,
    block_number,
    call_of,
    count,
    data,
    fields,
    flag,
    shown,
    whole_number,
    word,
)
from clob_server.chain.devchain.views import base_fee_of, pending_record, transaction_record
from clob_server.chain.devchain.views import data as as_data
from clob_server.chain.devchain.views import word as as_word

Method: TypeAlias = Callable[[DevelopmentChain, list[Any]], Any]
"""Executes a request with its parameters; returns the JSON result."""
METHODS: Final[dict[str, Method]] = {}
"""Methods by name."""
MINED_MAX: Final = 1000
"""Blocks per ``evm_mine``, at most."""
TIME_END_S: Final = 2**53
"""First invalid time: JSON numbers are exact below it."""


def method(name: str, least: int, most: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function for a method.

    The function gets the chain and ``most`` parameters, of which a request has at least ``least``;
    those that it omits are None.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(chain: DevelopmentChain, given: list[Any]) -> Any:
            return function(chain, *count(given, least, most))

        METHODS[name] = run
        return function

    return add


# ----- the chain itself -----------------------------------------------------------------------

_WITHOUT_PARAMETERS: Final[dict[str, Callable[[DevelopmentChain], Any]]] = {
    "eth_accounts": lambda chain: [],  # the node has no keys
    "eth_blockNumber": lambda chain: hex(chain.head.block_number),
    "eth_chainId": lambda chain: hex(chain.chain_id),
    "eth_gasPrice": lambda chain: hex(base_fee_of(chain.next_header()) + TIP_WEI),
    "eth_maxPriorityFeePerGas": lambda chain: hex(TIP_WEI),
    "eth_syncing": lambda chain: False,  # the node has no peers
    "net_listening": lambda chain: True,
    "net_version": lambda chain: str(chain.chain_id),
    "web3_clientVersion": lambda chain: f"clob-devchain/{clob.__version__}",
}
for _name, _function in _WITHOUT_PARAMETERS.items():
    method(_name, 0, 0)(_function)
method("eth_feeHistory", 2, 3)(fee_history)


@method("web3_sha3", 1, 1)
def _sha3(chain: DevelopmentChain, given: object) -> str:
    """Return the Keccak-256 of bytes."""
    return as_data(keccak(data(given, "data")))


# ----- blocks, transactions, logs -------------------------------------------------------------


@method("eth_getBlockByNumber", 1, 2)
def _block_by_number(chain: DevelopmentChain, at: object, whole: object) -> Any:
    """Return a block by number or name, with transaction hashes or full transactions."""
    if at == "pending":
        return pending_record(chain.next_header())
    return _block(chain, "number", block_number(chain, at, "block"), whole)


@method("eth_getBlockByHash", 1, 2)
def _block_by_hash(chain: DevelopmentChain, block_hash: object, whole: object) -> Any:
    """Return a block by hash, with transaction hashes or full transactions."""
    return _block(chain, "hash", word(block_hash, "hash"), whole)


def _block(chain: DevelopmentChain, column: str, value: int | bytes, whole: object) -> Any:
    """Return a stored block, or None."""
    everything = whole is not None and flag(whole, "fullTransactions")
    row = chain.store.row(f"SELECT number, body FROM blocks WHERE {column}=?", value)
    if row is None:
        return None
    number, body = row
    if not everything:
        return msgspec.Raw(body)
    query = "SELECT body FROM transactions WHERE block=?"
    transactions = [msgspec.Raw(each[0]) for each in chain.store.rows(query, number)]
    return {**msgspec.json.decode(body), "transactions": transactions}


@method("eth_sendRawTransaction", 1, 1)
def _send(chain: DevelopmentChain, raw: object) -> str:
    """Mine a signed transaction; return its hash."""
    return as_data(chain.send(data(raw, "transaction")))


@method("eth_getTransactionByHash", 1, 1)
def _transaction(chain: DevelopmentChain, given: object) -> Any:
    """Return a transaction, mined or queued."""
    transaction_hash = word(given, "hash")
    row = chain.store.row("SELECT body FROM transactions WHERE hash=?", transaction_hash)
    if row is not None:
        return msgspec.Raw(row[0])
    waiting = chain.queue.find(transaction_hash)
    return None if waiting is None else transaction_record(waiting)


@method("eth_getTransactionReceipt", 1, 1)
def _receipt(chain: DevelopmentChain, given: object) -> Any:
    """Return the receipt of a transaction."""
    row = chain.store.row("SELECT receipt FROM transactions WHERE hash=?", word(given, "hash"))
    return None if row is None else msgspec.Raw(row[0])


method("eth_getLogs", 1, 1)(find_logs)


# ----- state ----------------------------------------------------------------------------------


def _account_method(name: str, read: Callable[[StateAPI, Address], str]) -> None:
    """Register a method that reads an account at a block."""

    @method(name, 1, 2)
    def run(chain: DevelopmentChain, given: object, at: object) -> str:
        account = address(given, "address")
        return read(_state(chain, at), account)


_account_method("eth_getBalance", lambda state, owner: hex(state.get_balance(owner)))
_account_method("eth_getTransactionCount", lambda state, owner: hex(state.get_nonce(owner)))
_account_method("eth_getCode", lambda state, contract: as_data(state.get_code(contract)))


@method("eth_getStorageAt", 2, 3)
def _storage(chain: DevelopmentChain, given: object, slot: object, at: object) -> str:
    """Return a word of a contract's storage."""
    contract, place = address(given, "address"), whole_number(slot, "slot")
    return as_word(_state(chain, at).get_storage(contract, place))


@method("eth_call", 1, 2)
def _call(chain: DevelopmentChain, wanted: object, at: object) -> str:
    """Return the output of a call; nothing changes."""
    request = call_of(wanted, "call")
    return as_data(call(_state(chain, at), request))


@method("eth_estimateGas", 1, 2)
def _estimate(chain: DevelopmentChain, wanted: object, at: object) -> str:
    """Return gas with which a transaction succeeds, at most a few percent too high."""
    request = call_of(wanted, "transaction")
    state = _state(chain, "pending" if at is None else at)
    return hex(estimate_gas(state, affordable(state, request)))


def affordable(state: StateAPI, request: UnsignedCall) -> UnsignedCall:
    """Limit the gas to the sender's funds, if a gas price is given."""
    if not request.gas_price_wei or request.sender == ZERO_ADDRESS:
        return request
    left_wei = max(0, state.get_balance(request.sender) - request.value_wei)
    gas = min(request.gas, left_wei // request.gas_price_wei)
    return msgspec.structs.replace(request, gas=gas)


def _state(chain: DevelopmentChain, at: object) -> StateAPI:
    """Return the state after a block."""
    return chain.state_at(_header(chain, at))


def _header(chain: DevelopmentChain, at: object) -> BlockHeaderAPI:
    """Find a block by number or name, or as in EIP-1898: ``{"blockHash": ..}``."""
    if isinstance(at, dict):
        wanted = fields(at, "block")
        if "blockHash" in wanted:
            return chain.header(chain.number_of(word(wanted["blockHash"], "block.blockHash")))
        if "blockNumber" in wanted:
            return chain.header(whole_number(wanted["blockNumber"], "block.blockNumber"))
        raise invalid(f"block: expected blockHash or blockNumber; got {shown(at)}")
    named = block_named("latest" if at is None else at, "block")
    if named == "pending":
        return chain.next_header()
    return chain.head if isinstance(named, str) else chain.header(named)


# ----- development ----------------------------------------------------------------------------


@method("evm_mine", 0, 1)
def _mine(chain: DevelopmentChain, request: object) -> str:
    """Mine an empty block, optionally at a time, or several: ``{timestamp, blocks}``."""
    options = fields(request, "options") if isinstance(request, dict) else {}
    time_s = options.get("timestamp") if isinstance(request, dict) else request
    blocks = whole_number(options.get("blocks", 1), "options.blocks")
    if blocks > MINED_MAX:
        raise invalid(f"options.blocks: expected at most {MINED_MAX}; got {blocks}")
    if time_s is not None:
        chain.set_next_time(_time(time_s, "timestamp"))
    for _ in range(blocks):
        chain.mine_empty()
    return hex(0)


@method("evm_increaseTime", 1, 1)
def _increase_time(chain: DevelopmentChain, given: object) -> int:
    """Advance the clock by seconds, permanently; return the total offset."""
    return chain.increase_time(_time(given, "seconds"))


@method("evm_setNextBlockTimestamp", 1, 1)
def _set_time(chain: DevelopmentChain, given: object) -> None:
    """Set the Unix time of the next block."""
    chain.set_next_time(_time(given, "timestamp"))


def _time(given: object, name: str) -> int:
    """Parse seconds."""
    seconds = whole_number(given, name)
    if seconds >= TIME_END_S:
        raise invalid(f"{name}: must be below {TIME_END_S}; got {seconds}")
    return seconds
