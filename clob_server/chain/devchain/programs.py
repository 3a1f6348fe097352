"""A contract's code, read once: which instruction stands where, and which are done together.

Compilers write the same few pairs again and again: a number is pushed and at once added, jumped to,
or compared. Such a pair is one step. Where the gas or the stack does not do for both of it, its
first half is done by itself.
"""

from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from eth.vm import opcode_values as op

from clob_server.chain.devchain.instructions import (
    DUP,
    GAS,
    JUMP,
    JUMPI,
    POP,
    PUSH,
    QUICK,
    STACK_MAX,
    SWAP,
    TABLE,
    TWO,
    WORD,
)

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
