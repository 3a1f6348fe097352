"""The methods of JSON-RPC, each with what it takes and gives."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import msgspec
from eth.abc import BlockHeaderAPI, StateAPI
from eth_typing import Address
from eth_utils.crypto import keccak

import clob
from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.errors import RefusedError, invalid
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
"""Does what a request asks for, with its parameters, and gives what JSON shows."""
METHODS: Final[dict[str, Method]] = {}
"""All of them by name."""
MINED_MAX: Final = 1000
"""How many blocks may be mined at once."""
TIME_END_S: Final = 2**53
"""The first time that is refused: beyond it, the numbers of JSON are not exact."""


def method(name: str) -> Callable[[Method], Method]:
    """Have a function answer a method."""

    def add(function: Method) -> Method:
        METHODS[name] = function
        return function

    return add


# ----- the chain itself -----------------------------------------------------------------------


@method("web3_clientVersion")
def _version(chain: DevelopmentChain, given: list[Any]) -> str:
    """Says which program answers."""
    count(given, 0, 0)
    return f"clob-devchain/{clob.__version__}"


@method("web3_sha3")
def _sha3(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives the Keccak-256 of bytes."""
    return as_data(keccak(data(count(given, 1, 1)[0], "data")))


@method("net_version")
def _network(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives the chain id as decimal digits."""
    count(given, 0, 0)
    return str(chain.chain_id)


@method("net_listening")
def _listening(chain: DevelopmentChain, given: list[Any]) -> bool:
    """Says true."""
    count(given, 0, 0)
    return True


@method("eth_chainId")
def _chain_id(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives the chain id."""
    count(given, 0, 0)
    return hex(chain.chain_id)


@method("eth_syncing")
def _syncing(chain: DevelopmentChain, given: list[Any]) -> bool:
    """Says false: there is nobody to follow."""
    count(given, 0, 0)
    return False


@method("eth_accounts")
def _accounts(chain: DevelopmentChain, given: list[Any]) -> list[str]:
    """Gives an empty list: the chain signs for nobody."""
    count(given, 0, 0)
    return []


@method("eth_blockNumber")
def _block_number(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives the number of the newest block."""
    count(given, 0, 0)
    return hex(chain.head.block_number)


@method("eth_gasPrice")
def _gas_price(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives the base fee of the next block and the suggested tip together, in wei."""
    count(given, 0, 0)
    return hex(getattr(chain.next_header(), "base_fee_per_gas", 0) + TIP_WEI)


@method("eth_maxPriorityFeePerGas")
def _tip(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives the suggested tip, in wei."""
    count(given, 0, 0)
    return hex(TIP_WEI)


@method("eth_feeHistory")
def _fee_history(chain: DevelopmentChain, given: list[Any]) -> dict[str, Any]:
    """Gives base fees, fullness and tips of the last blocks."""
    return fee_history(chain, *count(given, 2, 3))


# ----- blocks, transactions, logs -------------------------------------------------------------


@method("eth_getBlockByNumber")
def _block_by_number(chain: DevelopmentChain, given: list[Any]) -> Any:
    """Gives a block by number or name, with the hashes of its transactions or with all of them."""
    at, whole = count(given, 1, 2)
    number = block_named(at, "block")
    if number == "pending":
        return pending_record(chain.next_header())
    newest = chain.head.block_number
    wanted = newest if isinstance(number, str) else min(number, newest + 1)
    return _block(chain, "number", wanted, whole)


@method("eth_getBlockByHash")
def _block_by_hash(chain: DevelopmentChain, given: list[Any]) -> Any:
    """Gives a block by its hash, with the hashes of its transactions or with all of them."""
    block_hash, whole = count(given, 1, 2)
    return _block(chain, "hash", word(block_hash, "hash"), whole)


def _block(chain: DevelopmentChain, column: str, value: int | bytes, whole: object) -> Any:
    """Give a block as it is kept; None where there is none."""
    everything = whole is not None and flag(whole, "fullTransactions")
    row = chain.store.row(f"SELECT number, body FROM blocks WHERE {column}=?", value)
    if row is None:
        return None
    number, body = row
    if not everything:
        return msgspec.Raw(body)
    query = "SELECT body FROM transactions WHERE block=?"
    found = [msgspec.Raw(each[0]) for each in chain.store.rows(query, number)]
    return {**msgspec.json.decode(body), "transactions": found}


@method("eth_sendRawTransaction")
def _send(chain: DevelopmentChain, given: list[Any]) -> str:
    """Takes a signed transaction and mines it at once; gives its hash."""
    return as_data(chain.send(data(count(given, 1, 1)[0], "transaction")))


@method("eth_getTransactionByHash")
def _transaction(chain: DevelopmentChain, given: list[Any]) -> Any:
    """Gives a transaction, also one that waits for those before it."""
    transaction_hash = word(count(given, 1, 1)[0], "hash")
    row = chain.store.row("SELECT body FROM transactions WHERE hash=?", transaction_hash)
    if row is not None:
        return msgspec.Raw(row[0])
    waiting = chain.queued(transaction_hash)
    return None if waiting is None else transaction_record(waiting)


@method("eth_getTransactionReceipt")
def _receipt(chain: DevelopmentChain, given: list[Any]) -> Any:
    """Gives what came of a transaction."""
    transaction_hash = word(count(given, 1, 1)[0], "hash")
    row = chain.store.row("SELECT receipt FROM transactions WHERE hash=?", transaction_hash)
    return None if row is None else msgspec.Raw(row[0])


@method("eth_getLogs")
def _logs(chain: DevelopmentChain, given: list[Any]) -> Any:
    """Gives the logs of a range of blocks, or of one, by address and topics."""
    return find_logs(chain, count(given, 1, 1)[0])


# ----- state ----------------------------------------------------------------------------------


@method("eth_getBalance")
def _balance(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives what an account owns, in wei."""
    who, at = count(given, 1, 2)
    owner = cast(Address, address(who, "address"))
    return hex(_state(chain, at).get_balance(owner))


@method("eth_getTransactionCount")
def _nonce(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives the next nonce of an account."""
    who, at = count(given, 1, 2)
    owner = cast(Address, address(who, "address"))
    return hex(_state(chain, at).get_nonce(owner))


@method("eth_getCode")
def _code(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives the code of a contract."""
    who, at = count(given, 1, 2)
    contract = cast(Address, address(who, "address"))
    return as_data(_state(chain, at).get_code(contract))


@method("eth_getStorageAt")
def _storage(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives a word of a contract's storage."""
    who, slot, at = count(given, 2, 3)
    contract = cast(Address, address(who, "address"))
    place = whole_number(slot, "slot")
    return as_word(_state(chain, at).get_storage(contract, place))


@method("eth_call")
def _call(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives what a contract answers; nothing is changed."""
    wanted, at = count(given, 1, 2)
    asked = call_of(wanted, "call")
    return as_data(call(_state(chain, at), asked))


@method("eth_estimateGas")
def _estimate(chain: DevelopmentChain, given: list[Any]) -> str:
    """Gives an amount of gas with which a transaction succeeds, at most a few percent too high."""
    wanted, at = count(given, 1, 2)
    asked = call_of(wanted, "transaction")
    state = _state(chain, "pending" if at is None else at)
    return hex(estimate_gas(state, affordable(state, asked)))


def affordable(state: StateAPI, asked: UnsignedCall) -> UnsignedCall:
    """Lower the gas to what the sender can pay, where a price is given."""
    if not asked.gas_price_wei or asked.sender == ZERO_ADDRESS:
        return asked
    left_wei = max(0, state.get_balance(cast(Address, asked.sender)) - asked.value_wei)
    gas = min(asked.gas, left_wei // asked.gas_price_wei)
    return msgspec.structs.replace(asked, gas=gas)


def _state(chain: DevelopmentChain, at: object) -> StateAPI:
    """Give the state after a block that is named as EIP-1898 allows."""
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
            raise RefusedError("unknown block")
        return chain.header(row[0])
    if "blockNumber" in at:
        return chain.header(whole_number(at["blockNumber"], "block.blockNumber"))
    raise invalid(f"block: blockHash or blockNumber is needed, not {shown(at)}")


# ----- what only a development chain does -----------------------------------------------------


@method("evm_mine")
def _mine(chain: DevelopmentChain, given: list[Any]) -> str:
    """Mines an empty block, at a time if one is given, or several: ``{timestamp, blocks}``."""
    (asked,) = count(given, 0, 1)
    options = fields(asked, "options") if isinstance(asked, dict) else {}
    time_s = options.get("timestamp") if isinstance(asked, dict) else asked
    blocks = whole_number(options.get("blocks", 1), "options.blocks")
    if blocks > MINED_MAX:
        raise invalid(f"options.blocks: at most {MINED_MAX}, not {blocks}")
    if time_s is not None:
        chain.set_next_time(_time(time_s, "timestamp"))
    for _ in range(blocks):
        chain.mine_empty()
    return hex(0)


@method("evm_increaseTime")
def _increase_time(chain: DevelopmentChain, given: list[Any]) -> int:
    """Puts the clock forward by seconds, for good; gives how far ahead it is."""
    return chain.increase_time(_time(count(given, 1, 1)[0], "seconds"))


@method("evm_setNextBlockTimestamp")
def _set_time(chain: DevelopmentChain, given: list[Any]) -> None:
    """Says at what time the next block is mined, in seconds since 1970."""
    chain.set_next_time(_time(count(given, 1, 1)[0], "timestamp"))


def _time(given: object, name: str) -> int:
    """Read seconds."""
    seconds = whole_number(given, name)
    if seconds >= TIME_END_S:
        raise invalid(f"{name}: must be below {TIME_END_S}, not {seconds}")
    return seconds
