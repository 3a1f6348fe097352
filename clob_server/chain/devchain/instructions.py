"""What the instructions do that contracts spend their time on; the others are py-evm's.

Each does what py-evm's does: the same gas, the same errors, the same stack. A stack holds numbers
and bytes side by side; these put numbers there.
"""

from collections.abc import Callable
from operator import and_, or_, xor
from typing import Any, Final, NamedTuple, TypeAlias

from eth.exceptions import OutOfGas
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
