"""The run of a contract's code, in fewer steps than py-evm takes for it.

The instructions that contracts spend their time on are done here, the others by py-evm. Each does
what py-evm's does: the same gas, the same errors, the same stack. A stack holds numbers and bytes
side by side; these put numbers there.
"""

from collections.abc import Callable
from functools import lru_cache
from operator import and_, or_, xor
from typing import Any, Final, NamedTuple

from eth.exceptions import (
    FullStack,
    Halt,
    InsufficientStack,
    InvalidJumpDestination,
    OutOfGas,
)
from eth.vm import opcode_values as op
from eth.vm.forks.prague.opcodes import PRAGUE_OPCODES
from eth.vm.logic.invalid import InvalidOpcode

STACK_MAX: Final = 1024
"""How many values a stack holds."""
WORD_MASK: Final = 2**256 - 1
"""The greatest number that a word holds."""
WORD_BITS: Final = 256
"""How many bits it has."""
DUP_SWAP_MAX: Final = 16
"""How deep the instructions reach that move values on the stack."""
PUSH_MAX: Final = 32
"""How many bytes an instruction puts on the stack at most."""
CALLS: Final = (op.CALL, op.CALLCODE, op.DELEGATECALL, op.STATICCALL)
"""The instructions that call another contract."""
CODES_KEPT: Final = 256
"""Of how many contracts the places are remembered that one may jump to."""

OTHER, PUSH, DUP, SWAP, ONE, TWO, THREE, POP, JUMP, JUMPI, JUMPDEST, GAS = range(12)
"""The kinds of instructions."""


class Instruction(NamedTuple):
    """One of the 256."""

    kind: int
    """What is done: one of the kinds."""
    gas: int
    """What it costs."""
    least: int
    """How many values must be on the stack."""
    most: int
    """How many may be."""
    size: int
    """How many bytes it pushes, or how deep it reaches."""
    act: Any
    """What computes its result; of the kind ``OTHER``, what py-evm does for it."""


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
    raw: bytes = code._raw_code_bytes
    length, table = len(raw), TABLE
    pushed, landing_at = pushed_values(raw), landing_places(raw)
    at, left = code.program_counter, meter.gas_remaining
    while True:
        kind, gas, least, most, size, act = table[raw[at]] if at < length else STOPPING
        if kind == OTHER:
            code.program_counter, meter.gas_remaining = at + 1, left
            try:
                act(computation=computation)
            except Halt:
                return
            at, left = code.program_counter, meter.gas_remaining
            continue
        left -= gas
        if left < 0:
            raise OutOfGas(f"Out of gas: Needed {gas} - Remaining {left + gas}")
        if not least <= len(values) <= most:
            raise unfit(len(values), least)
        at += 1
        if kind == DUP:
            values.append(values[-size])
        elif kind == PUSH:
            values.append(pushed[at])
            at += size
        elif kind == TWO:
            first, second = values.pop(), values[-1]
            values[-1] = act(
                int.from_bytes(first) if type(first) is bytes else first,
                int.from_bytes(second) if type(second) is bytes else second,
            )
        elif kind == SWAP:
            values[-1], values[size] = values[size], values[-1]
        elif kind == POP:
            values.pop()
        elif kind == JUMP:
            at = landing(landing_at, values.pop())
        elif kind == JUMPI:
            to, condition = values.pop(), values.pop()
            if any(condition) if type(condition) is bytes else condition:
                at = landing(landing_at, to)
        elif kind == ONE:
            first = values[-1]
            values[-1] = act(int.from_bytes(first) if type(first) is bytes else first)
        elif kind == THREE:
            values[-3:] = [
                act(*(int.from_bytes(v) if type(v) is bytes else v for v in values[-3:]))
            ]
        elif kind == GAS:
            values.append(left)
            computation.looks_at_gas |= at >= length or raw[at] not in CALLS


def unfit(depth: int, least: int) -> Exception:
    """Make the error of a stack that holds too little or too much."""
    if depth < least:
        return InsufficientStack(f"Wanted {least} stack items, only had {depth}")
    return FullStack("Stack limit reached")


def landing(places: frozenset[int], to: int | bytes) -> int:
    """Check where a jump goes."""
    place = to if isinstance(to, int) else int.from_bytes(to)
    if place not in places:
        raise InvalidJumpDestination(f"Invalid Jump Destination: {place}")
    return place


@lru_cache(CODES_KEPT)
def landing_places(raw: bytes) -> frozenset[int]:
    """Find where a jump may go: to a mark that is no part of what is pushed."""
    found, at = set(), 0
    while at < len(raw):
        if raw[at] == op.JUMPDEST:
            found.add(at)
        at += max(1, raw[at] - op.PUSH0 + 1) if raw[at] <= op.PUSH32 else 1
    return frozenset(found)


@lru_cache(CODES_KEPT)
def pushed_values(raw: bytes) -> dict[int, int]:
    """Find what is pushed, by where it begins; beyond the end there are zeros."""
    found, at = {}, 0
    while at < len(raw):
        code = raw[at]
        at += 1
        if op.PUSH0 <= code <= op.PUSH32:
            size = code - op.PUSH0
            found[at] = int.from_bytes(raw[at : at + size].ljust(size, b"\0"))
            at += size
    return found


def shifted_left(by: int, value: int) -> int:
    """Move the bits of a word up."""
    return value << by & WORD_MASK if by < WORD_BITS else 0


def shifted_right(by: int, value: int) -> int:
    """Move the bits of a word down."""
    return value >> by if by < WORD_BITS else 0


_ONE: Final[dict[int, Callable[[int], int]]] = {
    op.ISZERO: lambda value: 0 if value else 1,
    op.NOT: lambda value: WORD_MASK - value,
}
_TWO: Final[dict[int, Callable[[int, int], int]]] = {
    op.ADD: lambda left, right: left + right & WORD_MASK,
    op.SUB: lambda left, right: left - right & WORD_MASK,
    op.MUL: lambda left, right: left * right & WORD_MASK,
    op.DIV: lambda left, right: left // right if right else 0,
    op.MOD: lambda left, right: left % right if right else 0,
    op.LT: lambda left, right: 1 if left < right else 0,
    op.GT: lambda left, right: 1 if left > right else 0,
    op.EQ: lambda left, right: 1 if left == right else 0,
    op.AND: and_,
    op.OR: or_,
    op.XOR: xor,
    op.SHL: shifted_left,
    op.SHR: shifted_right,
}
# The values come as they lie on the stack, the modulus first.
_THREE: Final[dict[int, Callable[[int, int, int], int]]] = {
    op.ADDMOD: lambda mod, right, left: (left + right) % mod if mod else 0,
    op.MULMOD: lambda mod, right, left: left * right % mod if mod else 0,
}


def made(code: int) -> Instruction:
    """Make an instruction."""
    known: Any = PRAGUE_OPCODES.get(code)
    if known is None:
        return Instruction(OTHER, 0, 0, STACK_MAX, 0, InvalidOpcode(code))
    kind, least, growth, size, act = described(code)
    if kind == OTHER:
        return Instruction(OTHER, 0, 0, STACK_MAX, 0, known)
    return Instruction(kind, known.gas_cost, least, STACK_MAX - growth, size, act)


def described(code: int) -> tuple[int, int, int, int, Any]:
    """Say what one does: kind, values needed, growth of the stack, size, and function."""
    if op.PUSH0 <= code <= op.PUSH0 + PUSH_MAX:
        return PUSH, 0, 1, code - op.PUSH0, None
    if op.DUP1 <= code < op.DUP1 + DUP_SWAP_MAX:
        return DUP, code - op.DUP1 + 1, 1, code - op.DUP1 + 1, None
    if op.SWAP1 <= code < op.SWAP1 + DUP_SWAP_MAX:
        place = code - op.SWAP1 + 2
        return SWAP, place, 0, -place, None
    for kind, functions in ((ONE, _ONE), (TWO, _TWO), (THREE, _THREE)):
        if code in functions:
            return kind, kind - ONE + 1, 0, 0, functions[code]
    plain = {op.POP: (POP, 1), op.JUMP: (JUMP, 1), op.JUMPI: (JUMPI, 2), op.JUMPDEST: (JUMPDEST, 0)}
    if code == op.GAS:
        return GAS, 0, 1, 0, None
    kind, least = plain.get(code, (OTHER, 0))
    return kind, least, 0, 0, None


TABLE: Final[list[Instruction]] = [made(code) for code in range(256)]
"""All instructions by their byte."""
STOPPING: Final = TABLE[op.STOP]
"""What is done where the code ends."""
