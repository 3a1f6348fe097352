"""The JSON-RPC methods."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import msgspec
from eth.abc import BlockHeaderAPI, StateAPI
from eth_typing import Address
from eth_utils.crypto import keccak

import clob
from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.errors import RequestError, invalid
from clob_server.chain.devchain.eth_call import UnsignedCall, call, estimate_gas
from clob_server.chain.devchain.evm import TIP_WEI
from clob_server.chain.devchain.fee_history import fee_history
from clob_server.chain.devchain.logs import find_logs
from clob_server.chain.devchain.params import (
    ZERO_ADDRESS,
    address,
    block_named,
    call_of,
    count,
    data,
    fields,
    flag,
    shown,
    whole_number,
    word,
)
from clob_server.chain.devchain.views import data as as_data
from clob_server.chain.devchain.views import pending_record, transaction_record
from clob_server.chain.devchain.views import word as as_word

Method: TypeAlias = Callable[[DevelopmentChain, list[Any]], Any]
"""Executes a request with its parameters; returns the JSON result."""
METHODS: Final[dict[str, Method]] = {}
"""Methods by name."""
MINED_MAX: Final = 1000
"""Blocks per ``evm_mine``, at most."""
TIME_END_S: Final = 2**53
"""First invalid time: JSON numbers are exact below it."""


def method(name: str) -> Callable[[Method], Method]:
    """Register a function for a method."""

    def add(function: Method) -> Method:
        METHODS[name] = function
        return function

    return add


# ----- the chain itself -----------------------------------------------------------------------


@method("web3_clientVersion")
def _version(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the name and version of the node."""
    count(given, 0, 0)
    return f"clob-devchain/{clob.__version__}"


@method("web3_sha3")
def _sha3(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the Keccak-256 of bytes."""
    return as_data(keccak(data(count(given, 1, 1)[0], "data")))


@method("net_version")
def _network(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the chain id in decimal digits."""
    count(given, 0, 0)
    return str(chain.chain_id)


@method("net_listening")
def _listening(chain: DevelopmentChain, given: list[Any]) -> bool:
    """Return true."""
    count(given, 0, 0)
    return True


@method("eth_chainId")
def _chain_id(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the chain id."""
    count(given, 0, 0)
    return hex(chain.chain_id)


@method("eth_syncing")
def _syncing(chain: DevelopmentChain, given: list[Any]) -> bool:
    """Return false: the node has no peers."""
    count(given, 0, 0)
    return False


@method("eth_accounts")
def _accounts(chain: DevelopmentChain, given: list[Any]) -> list[str]:
    """Return an empty list: the node has no keys."""
    count(given, 0, 0)
    return []


@method("eth_blockNumber")
def _block_number(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the number of the newest block."""
    count(given, 0, 0)
    return hex(chain.head.block_number)


@method("eth_gasPrice")
def _gas_price(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the next base fee plus the suggested tip, in wei."""
    count(given, 0, 0)
    return hex(getattr(chain.next_header(), "base_fee_per_gas", 0) + TIP_WEI)


@method("eth_maxPriorityFeePerGas")
def _tip(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the suggested tip, in wei."""
    count(given, 0, 0)
    return hex(TIP_WEI)


@method("eth_feeHistory")
def _fee_history(chain: DevelopmentChain, given: list[Any]) -> dict[str, Any]:
    """Return base fees, gas used and tips of the last blocks."""
    return fee_history(chain, *count(given, 2, 3))


# ----- blocks, transactions, logs -------------------------------------------------------------


@method("eth_getBlockByNumber")
def _block_by_number(chain: DevelopmentChain, given: list[Any]) -> Any:
    """Return a block by number or name, with transaction hashes or full transactions."""
    at, whole = count(given, 1, 2)
    number = block_named(at, "block")
    if number == "pending":
        return pending_record(chain.next_header())
    newest = chain.head.block_number
    wanted = newest if isinstance(number, str) else min(number, newest + 1)
    return _block(chain, "number", wanted, whole)


@method("eth_getBlockByHash")
def _block_by_hash(chain: DevelopmentChain, given: list[Any]) -> Any:
    """Return a block by hash, with transaction hashes or full transactions."""
    block_hash, whole = count(given, 1, 2)
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


@method("eth_sendRawTransaction")
def _send(chain: DevelopmentChain, given: list[Any]) -> str:
    """Mine a signed transaction; return its hash."""
    return as_data(chain.send(data(count(given, 1, 1)[0], "transaction")))


@method("eth_getTransactionByHash")
def _transaction(chain: DevelopmentChain, given: list[Any]) -> Any:
    """Return a transaction, mined or queued."""
    transaction_hash = word(count(given, 1, 1)[0], "hash")
    row = chain.store.row("SELECT body FROM transactions WHERE hash=?", transaction_hash)
    if row is not None:
        return msgspec.Raw(row[0])
    waiting = chain.queued(transaction_hash)
    return None if waiting is None else transaction_record(waiting)


@method("eth_getTransactionReceipt")
def _receipt(chain: DevelopmentChain, given: list[Any]) -> Any:
    """Return the receipt of a transaction."""
    transaction_hash = word(count(given, 1, 1)[0], "hash")
    row = chain.store.row("SELECT receipt FROM transactions WHERE hash=?", transaction_hash)
    return None if row is None else msgspec.Raw(row[0])


@method("eth_getLogs")
def _logs(chain: DevelopmentChain, given: list[Any]) -> Any:
    """Return logs by block range or hash, address and topics."""
    return find_logs(chain, count(given, 1, 1)[0])


# ----- state ----------------------------------------------------------------------------------


@method("eth_getBalance")
def _balance(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the balance of an account, in wei."""
    who, at = count(given, 1, 2)
    owner = cast(Address, address(who, "address"))
    return hex(_state(chain, at).get_balance(owner))


@method("eth_getTransactionCount")
def _nonce(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the next nonce of an account."""
    who, at = count(given, 1, 2)
    owner = cast(Address, address(who, "address"))
    return hex(_state(chain, at).get_nonce(owner))


@method("eth_getCode")
def _code(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the code of a contract."""
    who, at = count(given, 1, 2)
    contract = cast(Address, address(who, "address"))
    return as_data(_state(chain, at).get_code(contract))


@method("eth_getStorageAt")
def _storage(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return a word of a contract's storage."""
    who, slot, at = count(given, 2, 3)
    contract = cast(Address, address(who, "address"))
    place = whole_number(slot, "slot")
    return as_word(_state(chain, at).get_storage(contract, place))


@method("eth_call")
def _call(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return the output of a call; nothing changes."""
    wanted, at = count(given, 1, 2)
    request = call_of(wanted, "call")
    return as_data(call(_state(chain, at), request))


@method("eth_estimateGas")
def _estimate(chain: DevelopmentChain, given: list[Any]) -> str:
    """Return gas with which a transaction succeeds, at most a few percent too high."""
    wanted, at = count(given, 1, 2)
    request = call_of(wanted, "transaction")
    state = _state(chain, "pending" if at is None else at)
    return hex(estimate_gas(state, affordable(state, request)))


def affordable(state: StateAPI, request: UnsignedCall) -> UnsignedCall:
    """Limit the gas to the sender's funds, if a gas price is given."""
    if not request.gas_price_wei or request.sender == ZERO_ADDRESS:
        return request
    left_wei = max(0, state.get_balance(cast(Address, request.sender)) - request.value_wei)
    gas = min(request.gas, left_wei // request.gas_price_wei)
    return msgspec.structs.replace(request, gas=gas)


def _state(chain: DevelopmentChain, at: object) -> StateAPI:
    """Return the state after a block named as in EIP-1898."""
    return chain.state_at(_header(chain, at))


def _header(chain: DevelopmentChain, at: object) -> BlockHeaderAPI:
    """Find a block."""
    if isinstance(at, dict):
        return _header_by_object(chain, fields(at, "block"))
    named = block_named("latest" if at is None else at, "block")
    if named == "pending":
        return chain.next_header()
    return chain.head if isinstance(named, str) else chain.header(named)


def _header_by_object(chain: DevelopmentChain, at: dict[str, Any]) -> BlockHeaderAPI:
    """Find a block by ``{"blockHash": ..}`` or ``{"blockNumber": ..}``."""
    if "blockHash" in at:
        block_hash = word(at["blockHash"], "block.blockHash")
        row = chain.store.row("SELECT number FROM blocks WHERE hash=?", block_hash)
        if row is None:
            raise RequestError("unknown block")
        return chain.header(row[0])
    if "blockNumber" in at:
        return chain.header(whole_number(at["blockNumber"], "block.blockNumber"))
    raise invalid(f"block: expected blockHash or blockNumber; got {shown(at)}")


# ----- development ----------------------------------------------------------------------------


@method("evm_mine")
def _mine(chain: DevelopmentChain, given: list[Any]) -> str:
    """Mine an empty block, optionally at a time, or several: ``{timestamp, blocks}``."""
    (request,) = count(given, 0, 1)
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


@method("evm_increaseTime")
def _increase_time(chain: DevelopmentChain, given: list[Any]) -> int:
    """Advance the clock by seconds, permanently; return the total offset."""
    return chain.increase_time(_time(count(given, 1, 1)[0], "seconds"))


@method("evm_setNextBlockTimestamp")
def _set_time(chain: DevelopmentChain, given: list[Any]) -> None:
    """Set the Unix time of the next block."""
    chain.set_next_time(_time(count(given, 1, 1)[0], "timestamp"))


def _time(given: object, name: str) -> int:
    """Parse seconds."""
    seconds = whole_number(given, name)
    if seconds >= TIME_END_S:
        raise invalid(f"{name}: must be below {TIME_END_S}; got {seconds}")
    return seconds
