"""``eth_call`` and ``eth_estimateGas``: transactions that are executed and undone."""

from typing import Final, cast

import msgspec
from eth.abc import ComputationAPI, SignedTransactionAPI, StateAPI
from eth.exceptions import OutOfGas, Revert
from eth.vm.forks.prague.state import PragueTransactionExecutor
from eth.vm.forks.prague.transactions import PragueTransactionBuilder
from eth.vm.spoof import SpoofTransaction
from eth_typing import Address

from clob_server.chain.devchain.errors import REVERTED, RequestError
from clob_server.chain.devchain.evm import floor_gas

SPARE_GAS: Final = 2301
"""Gas that must remain for a storage write."""
WHOLE: Final = 64
PASSED_ON: Final = 63
"""A call passes on at most ``PASSED_ON / WHOLE`` of the gas."""
ERROR_SELECTOR: Final = bytes.fromhex("08c379a0")
"""Selector of ``Error(string)``, the data of a failed ``require``."""
REASON_OFFSET: Final = 68
"""Offset of the text, after selector, offset and length."""
LENGTH_OFFSET: Final = 36
"""Offset of the length of the text."""
CLOSE_ENOUGH: Final = 66
"""Relative precision of an estimate: one part in this number."""


class UnsignedCall(msgspec.Struct, frozen=True):
    """A transaction without a signature."""

    sender: Address
    to: Address
    """The recipient; empty to create a contract."""
    gas: int
    """Gas limit."""
    gas_price_wei: int
    value_wei: int
    data: bytes
    """Call data, or initialisation code of a contract."""
    access_list: tuple[tuple[Address, tuple[int, ...]], ...] = ()


def call(state: StateAPI, wanted: UnsignedCall) -> bytes:
    """Return the output of a call; the state is restored afterwards.

    Raises:
        RequestError: the contract reverted or the call failed.
    """
    computation, _ = attempt(state, wanted, wanted.gas)
    raise_failure(computation, wanted.gas)
    return computation.output


def estimate_gas(state: StateAPI, wanted: UnsignedCall) -> int:
    """Return an amount of gas with which a transaction succeeds.

    One run with all available gas shows the gas used, which suffices for a contract that calls no
    other. A call passes on at most 63/64 of the gas, so each level of calls needs a little more.
    A binary search follows only if the behaviour depends on the gas.

    Args:
        state: the state; restored afterwards.
        wanted: the transaction; its gas is the upper limit.

    Raises:
        RequestError: the transaction fails with all available gas.
    """
    computation, used = attempt(state, wanted, wanted.gas)
    raise_failure(computation, wanted.gas)
    need = used
    if not wanted.to or state.get_code(wanted.to):
        need += SPARE_GAS
    for _ in range(depth_of(computation)):
        need = need * WHOLE // PASSED_ON + 1
    need = min(max(need, floor_gas(wanted.data)), wanted.gas)
    if not depends_on_gas(computation) or succeeds(state, wanted, need):
        return need
    return search(state, wanted, need, wanted.gas)


def depth_of(computation: ComputationAPI) -> int:
    """Return the depth of nested calls."""
    return max((1 + depth_of(each) for each in computation.children), default=0)


def depends_on_gas(computation: ComputationAPI) -> bool:
    """Return whether less gas may change the behaviour, not only stop the run.

    True if a contract reads the remaining gas, or a failed call burned all its gas.
    """
    taken = computation.is_error and computation.error.burns_gas
    looked = getattr(computation, "looks_at_gas", False)
    return taken or looked or any(map(depends_on_gas, computation.children))


def search(state: StateAPI, wanted: UnsignedCall, too_low: int, enough: int) -> int:
    """Search for sufficient gas between two amounts."""
    while (enough - too_low) * CLOSE_ENOUGH > enough:
        middle = (too_low + enough) // 2
        if succeeds(state, wanted, middle):
            enough = middle
        else:
            too_low = middle
    return enough


def succeeds(state: StateAPI, wanted: UnsignedCall, gas: int) -> bool:
    """Return whether a transaction succeeds with an amount of gas."""
    return not attempt(state, wanted, gas)[0].is_error


def attempt(state: StateAPI, wanted: UnsignedCall, gas: int) -> tuple[ComputationAPI, int]:
    """Execute a transaction without fees and signature, and undo it.

    Returns:
        The computation, and the gas used before refunds.

    Raises:
        RequestError: the sender lacks the value, or the gas is below the intrinsic gas.
    """
    transaction = as_transaction(wanted, gas)
    if state.get_balance(wanted.sender) < wanted.value_wei:
        funds = f"address 0x{wanted.sender.hex()} does not have {wanted.value_wei} wei"
        raise RequestError(f"insufficient funds for transfer: {funds}")
    if gas < transaction.intrinsic_gas:
        raise RequestError(f"intrinsic gas too low: have {gas}, want {transaction.intrinsic_gas}")
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
    """Build py-evm's transaction with a sender, without fee and signature."""
    unsigned = PragueTransactionBuilder.new_unsigned_dynamic_fee_transaction(
        chain_id=0,
        nonce=0,
        max_priority_fee_per_gas=0,
        max_fee_per_gas=0,
        gas=gas,
        to=wanted.to,
        value=wanted.value_wei,
        data=wanted.data,
        access_list=wanted.access_list,
    )
    return cast(SignedTransactionAPI, SpoofTransaction(unsigned, from_=wanted.sender))


def raise_failure(computation: ComputationAPI, gas: int) -> None:
    """Raise the error of a failed call, with the texts of real nodes."""
    if not computation.is_error:
        return
    error = computation.error
    if isinstance(error, Revert):
        output = computation.output
        reason = reason_in(output)
        raise RequestError(f"execution reverted{reason and ': '}{reason}", REVERTED, output)
    if isinstance(error, OutOfGas):
        raise RequestError(f"gas required exceeds allowance ({gas})")
    raise RequestError(f"{type(error).__name__}: {error}")


def reason_in(output: bytes) -> str:
    """Return the revert reason of a contract, or an empty text."""
    if not output.startswith(ERROR_SELECTOR):
        return ""
    length = int.from_bytes(output[LENGTH_OFFSET:REASON_OFFSET])
    return output[REASON_OFFSET : REASON_OFFSET + length].decode(errors="replace")
