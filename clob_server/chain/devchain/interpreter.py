"""The run of a contract's code, in fewer steps than py-evm takes for it."""

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
"""How many values a stack holds."""
WORD: Final = 32
"""How many bytes a word has."""
WORD_BITS: Final = 8 * WORD
"""How many bits."""
WORD_MASK: Final = 2**WORD_BITS - 1
"""The greatest number that a word holds."""
SIGN: Final = 2 ** (WORD_BITS - 1)
"""The bit that stands for the sign."""
DUP_SWAP_MAX: Final = 16
"""How deep the instructions reach that move values on the stack."""

OTHER, PUSH, DUP, SWAP, ONE, TWO, POP, JUMP, JUMPI, JUMPDEST, GAS, QUICK = range(12)
"""The kinds of instructions; ``QUICK`` are those with a function of their own here."""

Quick: TypeAlias = Callable[[Any, list[Any], int], int]
"""Does an instruction: with the computation, the values on its stack and the gas that is left; what
is left then is given back."""


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


# ----- numbers -------------------------------------------------------------------------------


def number_of(value: int | bytes) -> int:
    """Give what is on a stack as a number."""
    return value if isinstance(value, int) else int.from_bytes(value)


def shifted_left(by: int, value: int) -> int:
    """Move the bits of a word up."""
    return value << by & WORD_MASK if by < WORD_BITS else 0


def shifted_right(by: int, value: int) -> int:
    """Move the bits of a word down."""
    return value >> by if by < WORD_BITS else 0


def modular(function: Callable[[int, int], int]) -> Quick:
    """Make the instruction that computes modulo its third value."""

    def quick(computation: Any, values: list[Any], left: int) -> int:
        """Do it."""
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
    op.SHL: shifted_left,
    op.SHR: shifted_right,
}


# ----- memory --------------------------------------------------------------------------------


def held(computation: Any, place: int, left: int) -> tuple[bytearray, int]:
    """Give a memory that reaches as far as the word at a place, and how much gas is left then.

    Raises:
        OutOfGas: it costs more than is left.
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
    """Put a word into memory."""
    place, value = number_of(values.pop()), values.pop()
    memory, left = held(computation, place, left)
    memory[place : place + WORD] = number_of(value).to_bytes(WORD)
    return left


def mload(computation: Any, values: list[Any], left: int) -> int:
    """Read a word of memory."""
    place = number_of(values[-1])
    memory, left = held(computation, place, left)
    values[-1] = int.from_bytes(memory[place : place + WORD])
    return left


def calldataload(computation: Any, values: list[Any], left: int) -> int:
    """Read a word of what came with the call."""
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
"""How many values they need, and what they do."""


# ----- the table -----------------------------------------------------------------------------


def made(code: int) -> Instruction:
    """Make an instruction."""
    known: Any = PRAGUE_OPCODES.get(code, InvalidOpcode(code))
    kind, least, growth, size, act = described(code)
    if kind == OTHER:
        # A method is called without the stack of C, which ends before 1,024 calls in each other do.
        return Instruction(OTHER, 0, 0, STACK_MAX, 0, known.__call__)
    return Instruction(kind, known.gas_cost, least, STACK_MAX - growth, size, act)


def described(code: int) -> tuple[int, int, int, int, Any]:
    """Say what one does: kind, values needed, growth of the stack, size, and function."""
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


TABLE: Final[list[Instruction]] = [made(code) for code in range(256)]
"""All instructions by their byte."""


CALLS: Final = (op.CALL, op.CALLCODE, op.DELEGATECALL, op.STATICCALL)
"""The instructions that call another contract."""
PROGRAMS_KEPT: Final = 64
"""Of how many contracts the steps are remembered."""
LANDING_GAS: Final = TABLE[op.JUMPDEST].gas
"""What the mark costs that a jump goes to, which is passed over."""

PUSH_TWO, DUP_TWO, SWAP_POP, PUSH_JUMP, PUSH_JUMPI = range(QUICK + 1, QUICK + 6)
"""The kinds of pairs."""

Step: TypeAlias = tuple[int, int, int, int, int, Any, int]
"""What an instruction has: kind, gas, least, most, size, act; and where the next one is. The size
of a push is what it pushes, that of a jump behind a push is where it goes, that of ``GAS`` says
whether what follows is no call."""


class Program(NamedTuple):
    """A contract's code."""

    joined: list[Step]
    """What is done at each place, pairs as one."""
    plain: list[Step]
    """What is done there by one instruction."""
    landings: frozenset[int]
    """Where a jump may go: to a mark that is no part of what is pushed."""


@lru_cache(PROGRAMS_KEPT)
def program_of(raw: bytes) -> Program:
    """Read a contract's code.

    Args:
        raw: the code.
    """
    # The code ends in as many stops as the last push may reach beyond it.
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
    """Give the step of one instruction."""
    kind, gas, least, most, size, act = TABLE[code[at]]
    behind = at + 1
    if kind == PUSH:
        behind += size
        size = int.from_bytes(code[at + 1 : behind])
    elif kind == GAS:
        size = int(behind >= length or code[behind] not in CALLS)
    return kind, gas, least, most, size, act, behind


def _joined(plain: list[Step], at: int, landings: set[int]) -> Step:
    """Give the step at a place: of a pair, if it begins one."""
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


# MERGED clob_server.chain.devchain.interpreter: What the instructions do that contracts spend their time on; the others are py-evm's.
#
# Each does what py-evm's does: the same gas, the same errors, the same stack. A stack holds numbers
# and bytes side by side; these put numbers there.

# MERGED clob_server.chain.devchain.interpreter: A contract's code, read once: which instruction stands where, and which are done together.
#
# Compilers write the same few pairs again and again: a number is pushed and at once added, jumped to,
# or compared. Such a pair is one step. Where the gas or the stack does not do for both of it, its
# first half is done by itself.
