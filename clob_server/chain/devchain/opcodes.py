"""The run of a contract's code, in fewer steps than py-evm takes for it."""

from typing import Any

from eth.exceptions import (
    FullStack,
    Halt,
    InsufficientStack,
    InvalidJumpDestination,
    OutOfGas,
)

from clob_server.chain.devchain.instructions import (
    DUP,
    GAS,
    JUMP,
    JUMPI,
    ONE,
    OTHER,
    POP,
    PUSH,
    QUICK,
    SWAP,
    TWO,
    number_of,
)
from clob_server.chain.devchain.programs import (
    DUP_TWO,
    LANDING_GAS,
    PUSH_JUMP,
    PUSH_JUMPI,
    PUSH_TWO,
    SWAP_POP,
    program_of,
)


def run(computation: Any) -> None:
    """Run the code of a computation to its end.

    This is the loop that everything waits for, hence one long function with names of its own.

    Args:
        computation: py-evm's, at its beginning.

    Raises:
        VMError: what ends it early.
    """
    code, meter = computation.code, computation._gas_meter
    values: list[Any] = computation._stack.values
    joined, plain, landings = program_of(code._raw_code_bytes)
    at, left = code.program_counter, meter.gas_remaining
    while True:
        kind, gas, least, most, size, act, behind = joined[at]
        left -= gas
        if left < 0 or not least <= len(values) <= most:
            kind, cost, least, most, size, act, behind = plain[at]
            left = charged(left + gas, cost, len(values), least, most)
        if kind == PUSH:
            values.append(size)
        elif kind == DUP:
            values.append(values[-size])
        elif kind == SWAP:
            values[-1], values[size] = values[size], values[-1]
        elif kind == PUSH_TWO:
            second = values[-1]
            values[-1] = act(size, int.from_bytes(second) if type(second) is bytes else second)
        elif kind == DUP_TWO:
            first, second = values[-size], values[-1]
            values[-1] = act(
                int.from_bytes(first) if type(first) is bytes else first,
                int.from_bytes(second) if type(second) is bytes else second,
            )
        elif kind == TWO:
            first, second = values.pop(), values[-1]
            values[-1] = act(
                int.from_bytes(first) if type(first) is bytes else first,
                int.from_bytes(second) if type(second) is bytes else second,
            )
        elif kind == OTHER:
            code.program_counter, meter.gas_remaining = behind, left
            try:
                act(computation=computation)
            except Halt:
                return
            behind, left = code.program_counter, meter.gas_remaining
        elif kind == QUICK:
            left = act(computation, values, left)
        elif kind == SWAP_POP:
            values[size] = values.pop()
        elif kind == PUSH_JUMPI:
            condition = values.pop()
            if any(condition) if type(condition) is bytes else condition:
                # What the mark costs may be missing; the next step finds that out.
                behind, left = size, left - LANDING_GAS
        elif kind == PUSH_JUMP:
            behind = size
        elif kind == POP:
            values.pop()
        elif JUMP <= kind <= JUMPI:
            to = values.pop()
            if kind == JUMP or number_of(values.pop()):
                behind, left = landing(landings, to), left - LANDING_GAS
        elif kind == ONE:
            values[-1] = act(number_of(values[-1]))
        elif kind == GAS:
            values.append(left)
            computation.looks_at_gas |= bool(size)
        at = behind


def charged(left: int, gas: int, depth: int, least: int, most: int) -> int:
    """Pay for an instruction, and give what gas is left.

    Raises:
        OutOfGas: it costs more than is left.
        InsufficientStack, FullStack: there is too little or too much on the stack.
    """
    left -= gas
    if left < 0:
        raise OutOfGas(f"Out of gas: Needed {gas} - Remaining {left + gas}")
    if not least <= depth <= most:
        raise unfit(depth, least)
    return left


def unfit(depth: int, least: int) -> Exception:
    """Make the error of a stack that holds too little or too much."""
    if depth < least:
        return InsufficientStack(f"Wanted {least} stack items, only had {depth}")
    return FullStack("Stack limit reached")


def landing(places: frozenset[int], to: int | bytes) -> int:
    """Check where a jump goes, and give what is behind the mark there."""
    place = number_of(to)
    if place not in places:
        raise InvalidJumpDestination(f"Invalid Jump Destination: {place}")
    return place + 1
