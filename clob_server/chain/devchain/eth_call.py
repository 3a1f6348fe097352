"""Transactions that are only tried: what a contract answers, and how much gas one needs."""

from typing import Final, cast

import msgspec
from eth.abc import ComputationAPI, SignedTransactionAPI, StateAPI
from eth.exceptions import OutOfGas, Revert
from eth.vm.forks.prague.state import PragueTransactionExecutor
from eth.vm.forks.prague.transactions import PragueTransactionBuilder
from eth.vm.spoof import SpoofTransaction
from eth_typing import Address

from clob_server.chain.devchain.errors import REVERTED, RefusedError
from clob_server.chain.devchain.evm import floor_gas

SPARE_GAS: Final = 2301
"""How much must be left, unused, where a contract writes to its storage."""
WHOLE: Final = 64
"""Of so many parts of the gas,"""
HANDED_ON: Final = 63
"""a call hands on so many at most."""
ERROR_SELECTOR: Final = bytes.fromhex("08c379a0")
"""How the data of ``Error(string)`` begins, which is what ``require`` reverts with."""
REASON_OFFSET: Final = 68
"""Where its text begins, after the selector, an offset and a length."""
LENGTH_OFFSET: Final = 36
"""Where the length of the text stands."""
CLOSE_ENOUGH: Final = 66
"""An estimate is too high by at most one part in so many."""


class UnsignedCall(msgspec.Struct, frozen=True):
    """A transaction that nobody signed."""

    sender: bytes
    """Who would send it."""
    to: bytes
    """To whom; empty to create a contract."""
    gas: int
    """How much gas it may use."""
    gas_price_wei: int
    """What it would pay for a unit of gas."""
    value_wei: int
    """What it would bring along."""
    data: bytes
    """Its data, or the code that creates the contract."""
    access_list: tuple[tuple[bytes, tuple[int, ...]], ...] = ()
    """What it says that it touches."""


def call(state: StateAPI, wanted: UnsignedCall) -> bytes:
    """Give what a contract answers to a call.

    Args:
        state: what is there; it is left as it is.
        wanted: the call.

    Raises:
        RefusedError: the contract reverted, with what it said, or the call failed.
    """
    computation, _ = attempt(state, wanted, wanted.gas)
    raise_failure(computation, wanted.gas)
    return computation.output


def estimate_gas(state: StateAPI, wanted: UnsignedCall) -> int:
    """Say with how much gas a transaction succeeds.

    It is tried once, with all the gas there is. What it used is enough for a contract that calls no
    other. A call hands on 63 of 64 parts at most, so each level of calls needs a little more. Only
    where what is done depends on the gas, the figure is searched by trying.

    Args:
        state: what is there; it is left as it is.
        wanted: the transaction; its gas is the most that is tried.

    Returns:
        An amount of gas with which it succeeds.

    Raises:
        RefusedError: it fails with all the gas there is.
    """
    computation, used = attempt(state, wanted, wanted.gas)
    raise_failure(computation, wanted.gas)
    need = used
    if not wanted.to or state.get_code(cast(Address, wanted.to)):
        need += SPARE_GAS
    for _ in range(depth_of(computation)):
        need = need * WHOLE // HANDED_ON + 1
    need = min(max(need, floor_gas(wanted.data)), wanted.gas)
    if not depends_on_gas(computation) or succeeds(state, wanted, need):
        return need
    return search(state, wanted, need, wanted.gas)


def depth_of(computation: ComputationAPI) -> int:
    """Say through how many calls the deepest contract was reached."""
    return max((1 + depth_of(each) for each in computation.children), default=0)


def depends_on_gas(computation: ComputationAPI) -> bool:
    """Say whether less gas may lead to something else than just its end.

    So it is where a contract looks at what is left, and where a call that failed took all it got.
    """
    taken = computation.is_error and computation.error.burns_gas
    looked = getattr(computation, "looks_at_gas", False)
    return taken or looked or any(map(depends_on_gas, computation.children))


def search(state: StateAPI, wanted: UnsignedCall, too_low: int, enough: int) -> int:
    """Find an amount of gas with which a transaction succeeds, between two."""
    while (enough - too_low) * CLOSE_ENOUGH > enough:
        middle = (too_low + enough) // 2
        if succeeds(state, wanted, middle):
            enough = middle
        else:
            too_low = middle
    return enough


def succeeds(state: StateAPI, wanted: UnsignedCall, gas: int) -> bool:
    """Say whether a transaction succeeds with an amount of gas."""
    return not attempt(state, wanted, gas)[0].is_error


def attempt(state: StateAPI, wanted: UnsignedCall, gas: int) -> tuple[ComputationAPI, int]:
    """Try a transaction, without its fees and its signature.

    Returns:
        What came of it, and how much gas was used before anything was given back.

    Raises:
        RefusedError: the sender does not have what it brings along, or the gas is too little to
            begin with.
    """
    transaction = as_transaction(wanted, gas)
    if state.get_balance(cast(Address, wanted.sender)) < wanted.value_wei:
        raise RefusedError(
            f"insufficient funds for transfer: address 0x{wanted.sender.hex()} "
            f"does not have {wanted.value_wei} wei"
        )
    if gas < transaction.intrinsic_gas:
        raise RefusedError(f"intrinsic gas too low: have {gas}, want {transaction.intrinsic_gas}")
    executor = PragueTransactionExecutor(state)
    state.lock_changes()
    snapshot = state.snapshot()
    try:
        message = executor.build_evm_message(transaction)
        computation = executor.build_computation(message, transaction)
    finally:
        state.revert(snapshot)
    return computation, gas - computation.get_gas_remaining()


def as_transaction(wanted: UnsignedCall, gas: int) -> SignedTransactionAPI:
    """Make the transaction that py-evm tries: without a fee, and with a sender and no signature."""
    unsigned = PragueTransactionBuilder.new_unsigned_dynamic_fee_transaction(
        chain_id=0,
        nonce=0,
        max_priority_fee_per_gas=0,
        max_fee_per_gas=0,
        gas=gas,
        to=cast(Address, wanted.to),
        value=wanted.value_wei,
        data=wanted.data,
        access_list=[(cast(Address, each), slots) for each, slots in wanted.access_list],
    )
    spoofed = SpoofTransaction(unsigned, from_=wanted.sender)
    return cast(SignedTransactionAPI, spoofed)


def raise_failure(computation: ComputationAPI, gas: int) -> None:
    """Refuse a call that failed, as real nodes do."""
    if not computation.is_error:
        return
    error = computation.error
    if isinstance(error, Revert):
        said = computation.output
        reason = reason_in(said)
        raise RefusedError(f"execution reverted{reason and ': '}{reason}", REVERTED, said)
    if isinstance(error, OutOfGas):
        raise RefusedError(f"gas required exceeds allowance ({gas})")
    raise RefusedError(f"{type(error).__name__}: {error}")


def reason_in(said: bytes) -> str:
    """Give the text that a contract reverted with, empty where it gave none."""
    if not said.startswith(ERROR_SELECTOR):
        return ""
    length = int.from_bytes(said[LENGTH_OFFSET:REASON_OFFSET])
    return said[REASON_OFFSET : REASON_OFFSET + length].decode(errors="replace")
