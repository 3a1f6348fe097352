"""Interpreter of contract code, faster than py-evm's.

Frequent instructions are implemented here with the gas, errors and stack effects of py-evm; the
others call py-evm. A stack may hold numbers and bytes; these instructions push numbers. Compilers
emit the same few pairs of instructions (push and add, push and jump), which run as one step; if gas
or stack do not suffice for both, the first runs alone. A contract's code is decoded once.
"""

from collections.abc import Callable
from functools import lru_cache
from operator import and_, or_, xor
from typing import Any, Final, NamedTuple, TypeAlias

from eth.exceptions import (
    FullStack,
    Halt,
    InsufficientStack,
    InvalidJumpDestination,
    OutOfGas,
)
from eth.vm import opcode_values as op
from eth.vm.computation import memory_gas_cost
from eth.vm.forks.prague.opcodes import PRAGUE_OPCODES
from eth.vm.logic.invalid import InvalidOpcode

STACK_MAX: Final = 1024
"""Values on a stack, at most."""
WORD: Final = 32
"""Bytes of a word."""
WORD_BITS: Final = 8 * WORD
WORD_MASK: Final = 2**WORD_BITS - 1
SIGN: Final = 2 ** (WORD_BITS - 1)
"""Sign bit."""
DUP_SWAP_MAX: Final = 16
"""Depth that DUP and SWAP reach."""

OTHER, PUSH, DUP, SWAP, ONE, TWO, POP, JUMP, JUMPI, JUMPDEST, GAS, QUICK = range(12)
"""Kinds of instructions; ``QUICK`` has a function in this module."""

Quick: TypeAlias = Callable[[Any, list[Any], int], int]
"""Executes an instruction on computation, stack and remaining gas; returns the remaining gas."""


class Instruction(NamedTuple):
    """One of the 256 instructions."""

    kind: int
    gas: int
    least: int
    """Minimum stack depth."""
    most: int
    """Maximum stack depth."""
    size: int
    """Bytes pushed, or depth reached."""
    act: Any
    """Function of the result; py-evm's for the kind ``OTHER``."""


# ----- numbers -------------------------------------------------------------------------------


def number_of(value: int | bytes) -> int:
    """Return a stack value as a number."""
    return value if isinstance(value, int) else int.from_bytes(value)


def modular(function: Callable[[int, int], int]) -> Quick:
    """Return an instruction that computes modulo its third value."""

    def quick(computation: Any, values: list[Any], left: int) -> int:
        """Execute the instruction."""
        modulus, *operands = map(number_of, values[-3:])
        values[-3:] = [function(*operands) % modulus if modulus else 0]
        return left

    return quick


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
    op.SLT: lambda left, right: 1 if left ^ SIGN < right ^ SIGN else 0,
    op.SGT: lambda left, right: 1 if left ^ SIGN > right ^ SIGN else 0,
    op.EQ: lambda left, right: 1 if left == right else 0,
    op.AND: and_,
    op.OR: or_,
    op.XOR: xor,
    op.SHL: lambda by, value: value << by & WORD_MASK if by < WORD_BITS else 0,
    op.SHR: lambda by, value: value >> by if by < WORD_BITS else 0,
}


# ----- memory --------------------------------------------------------------------------------


def reserve(computation: Any, place: int, left: int) -> tuple[bytearray, int]:
    """Extend memory to a word at ``place``; return it and the remaining gas.

    Raises:
        OutOfGas: the extension costs more than the remaining gas.
    """
    memory = computation._memory
    if place + WORD > len(memory):
        size = -(-(place + WORD) // WORD) * WORD
        left -= memory_gas_cost(size) - memory_gas_cost(len(memory))
        if left < 0:
            raise OutOfGas(f"Out of gas: Needed {-left} more for a memory of {size} bytes")
        memory.extend(place, WORD)
    return memory._bytes, left


def mstore(computation: Any, values: list[Any], left: int) -> int:
    """Write a word to memory."""
    place, value = number_of(values.pop()), values.pop()
    memory, left = reserve(computation, place, left)
    memory[place : place + WORD] = number_of(value).to_bytes(WORD)
    return left


def mload(computation: Any, values: list[Any], left: int) -> int:
    """Read a word from memory."""
    place = number_of(values[-1])
    memory, left = reserve(computation, place, left)
    values[-1] = int.from_bytes(memory[place : place + WORD])
    return left


def calldataload(computation: Any, values: list[Any], left: int) -> int:
    """Read a word of the call data."""
    place = number_of(values[-1])
    word = bytes(computation.msg.data[place : place + WORD])
    values[-1] = int.from_bytes(word.ljust(WORD, b"\0"))
    return left


_QUICK: Final[dict[int, tuple[int, Quick]]] = {
    op.ADDMOD: (3, modular(lambda right, left: left + right)),
    op.MULMOD: (3, modular(lambda right, left: left * right)),
    op.MSTORE: (2, mstore),
    op.MLOAD: (1, mload),
    op.CALLDATALOAD: (1, calldataload),
}
"""Stack depth needed and function."""


# ----- the table -----------------------------------------------------------------------------


def kind_of(code: int) -> tuple[int, int, int, int, Any]:
    """Return kind, stack depth needed, stack growth, size and function."""
    if op.PUSH0 <= code <= op.PUSH32:
        return PUSH, 0, 1, code - op.PUSH0, None
    if op.DUP1 <= code < op.DUP1 + DUP_SWAP_MAX:
        return DUP, code - op.DUP1 + 1, 1, code - op.DUP1 + 1, None
    if op.SWAP1 <= code < op.SWAP1 + DUP_SWAP_MAX:
        place = code - op.SWAP1 + 2
        return SWAP, place, 0, -place, None
    if code in _ONE:
        return ONE, 1, 0, 0, _ONE[code]
    if code in _TWO:
        return TWO, 2, 0, 0, _TWO[code]
    if code in _QUICK:
        least, act = _QUICK[code]
        return QUICK, least, 0, 0, act
    if code == op.GAS:
        return GAS, 0, 1, 0, None
    plain = {op.POP: (POP, 1), op.JUMP: (JUMP, 1), op.JUMPI: (JUMPI, 2), op.JUMPDEST: (JUMPDEST, 0)}
    kind, least = plain.get(code, (OTHER, 0))
    return kind, least, 0, 0, None


def instruction_of(code: int) -> Instruction:
    """Build an instruction."""
    known: Any = PRAGUE_OPCODES.get(code, InvalidOpcode(code))
    kind, least, growth, size, act = kind_of(code)
    if kind == OTHER:
        # A bound method avoids C recursion, which overflows before 1,024 nested calls.
        return Instruction(OTHER, 0, 0, STACK_MAX, 0, known.__call__)
    return Instruction(kind, known.gas_cost, least, STACK_MAX - growth, size, act)


TABLE: Final[list[Instruction]] = [instruction_of(code) for code in range(256)]
"""Instructions by byte."""


CALLS: Final = (op.CALL, op.CALLCODE, op.DELEGATECALL, op.STATICCALL)
"""Instructions that call another contract."""
PROGRAMS_KEPT: Final = 64
"""Cached programs."""
LANDING_GAS: Final = TABLE[op.JUMPDEST].gas
"""Gas of the JUMPDEST that a jump skips."""

PUSH_TWO, DUP_TWO, SWAP_POP, PUSH_JUMP, PUSH_JUMPI = range(QUICK + 1, QUICK + 6)
"""Kinds of pairs."""

Step: TypeAlias = tuple[int, int, int, int, int, Any, int]
"""Kind, gas, least, most, size, act and position of the next instruction. ``size`` is the value of
a push, the target of a jump after a push, and for ``GAS`` whether no call follows."""


class Program(NamedTuple):
    """Decoded code of a contract."""

    joined: list[Step]
    """Steps by position, pairs combined."""
    plain: list[Step]
    """Steps by position, single instructions."""
    landings: frozenset[int]
    """Valid jump targets."""


@lru_cache(PROGRAMS_KEPT)
def program_of(raw: bytes) -> Program:
    """Decode a contract's code."""
    # Pad with STOP as far as the last push may reach.
    code = raw + bytes(WORD + 2)
    plain = [_step(code, len(raw), len(raw))] * len(code)
    landings, at = set(), 0
    while at < len(raw):
        plain[at] = step = _step(code, at, len(raw))
        if code[at] == op.JUMPDEST:
            landings.add(at)
        at = step[-1]
    joined, at = list(plain), 0
    while at < len(raw):
        joined[at] = _joined(plain, at, landings)
        at = plain[at][-1]
    return Program(joined, plain, frozenset(landings))


def _step(code: bytes, at: int, length: int) -> Step:
    """Return the step of one instruction."""
    kind, gas, least, most, size, act = TABLE[code[at]]
    behind = at + 1
    if kind == PUSH:
        behind += size
        size = int.from_bytes(code[at + 1 : behind])
    elif kind == GAS:
        size = int(behind >= length or code[behind] not in CALLS)
    return kind, gas, least, most, size, act, behind


def _joined(plain: list[Step], at: int, landings: set[int]) -> Step:
    """Return the step at a position, combined with the next if they form a pair."""
    first = plain[at]
    kind, gas, least, most, size, _, after = first
    then, more, _, _, _, act, behind = plain[after]
    gas += more
    if kind == PUSH and then == TWO:
        return PUSH_TWO, gas, 1, most, size, act, behind
    if kind == DUP and then == TWO:
        return DUP_TWO, gas, least, most, size, act, behind
    if kind == SWAP and then == POP:
        return SWAP_POP, gas, least, STACK_MAX, size + 1, None, behind
    if kind == PUSH and then == JUMP and size in landings:
        return PUSH_JUMP, gas + LANDING_GAS, 0, most, size + 1, None, behind
    if kind == PUSH and then == JUMPI and size in landings:
        return PUSH_JUMPI, gas, 1, most, size + 1, None, behind
    return first


def run(computation: Any) -> None:
    """Run the code of py-evm's computation from its start to its end.

    One long function with local names, since this loop is the hot path.

    Raises:
        VMError: the run ends early.
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
                # Gas may now be negative; the next step checks it.
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
    """Charge an instruction and return the remaining gas.

    Raises:
        OutOfGas: the cost exceeds the remaining gas.
        InsufficientStack, FullStack: the stack depth does not fit.
    """
    left -= gas
    if left < 0:
        raise OutOfGas(f"Out of gas: Needed {gas} - Remaining {left + gas}")
    if depth < least:
        raise InsufficientStack(f"Wanted {least} stack items, only had {depth}")
    if depth > most:
        raise FullStack("Stack limit reached")
    return left


def landing(places: frozenset[int], to: int | bytes) -> int:
    """Check a jump target and return the position after its JUMPDEST."""
    place = number_of(to)
    if place not in places:
        raise InvalidJumpDestination(f"Invalid Jump Destination: {place}")
    return place + 1
