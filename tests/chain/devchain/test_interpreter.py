"""The interpreter returns the same stack, gas and errors as py-evm."""

import random  # noqa: TID251 - only seeded

import pytest
from eth.db.atomic import AtomicDB
from eth.exceptions import InvalidInstruction, InvalidJumpDestination
from eth.vm import opcode_values as op
from eth.vm.execution_context import ExecutionContext
from eth.vm.forks.prague.computation import PragueComputation
from eth.vm.forks.prague.opcodes import PRAGUE_OPCODES
from eth.vm.message import Message
from eth.vm.transaction_context import BaseTransactionContext

from clob_server.chain.devchain.evm import DevelopmentComputation, DevelopmentState
from clob_server.chain.devchain.interpreter import OTHER, TABLE

QUICK = [code for code in PRAGUE_OPCODES if TABLE[code].kind != OTHER]
WORDS = [0, 1, 2, 31, 32, 255, 256, 2**64, 2**160, 2**255, 2**256 - 1, 2**256 - 2]
ADDRESS = bytes.fromhex("aa" * 20)


def execute(computation_class, code, gas):
    """Run code; return the error, the gas used and, without an error, stack and output."""
    context = ExecutionContext(
        coinbase=bytes(20),
        timestamp=1,
        block_number=1,
        difficulty=0,
        mix_hash=bytes(32),
        gas_limit=30_000_000,
        prev_hashes=[],
        chain_id=31337,
        base_fee_per_gas=7,
        excess_blob_gas=0,
    )
    state = DevelopmentState(
        AtomicDB(), context, DevelopmentState.get_account_db_class()(AtomicDB()).state_root
    )
    message = Message(gas=gas, to=ADDRESS, sender=ADDRESS, value=0, data=b"", code=code)
    transaction = BaseTransactionContext(gas_price=0, origin=ADDRESS)
    computation = computation_class.apply_computation(state, message, transaction)
    if computation.is_error:
        # py-evm reports some invalid jumps as an invalid instruction.
        is_jump = isinstance(computation.error, InvalidInstruction)
        error = InvalidJumpDestination if is_jump else type(computation.error)
        return error, computation.get_gas_used()
    stack = [
        int.from_bytes(value) if isinstance(value, bytes) else value
        for value in computation._stack.values
    ]
    return None, computation.get_gas_used(), stack, bytes(computation.output)


def check_same(code, gas=100_000):
    """Run code with both interpreters and compare the results; return the error or None."""
    result = execute(DevelopmentComputation, code, gas)
    assert result == execute(PragueComputation, code, gas), code.hex()
    return result[0]


def gas_used(code):
    """Return the gas that code uses."""
    return execute(DevelopmentComputation, code, 100_000)[1]


def push(*words):
    """Return code that pushes words, each with the shortest instruction."""
    code = b""
    for each in words:
        size = max(1, (each.bit_length() + 7) // 8)
        code += bytes([op.PUSH0 + size]) + each.to_bytes(size)
    return code


@pytest.mark.parametrize("code", QUICK, ids=lambda code: f"{code:#x}")
def test_single_instruction_on_short_and_full_stacks(code):
    rng = random.Random(code)
    for _ in range(40):
        words = [rng.choice(WORDS) for _ in range(rng.choice((0, 1, 2, 3, 16, 17, 18)))]
        program = push(*words) + bytes([code])
        check_same(program)
        check_same(program + bytes([op.STOP]) * 3, gas=3 * len(words) + rng.randrange(12))
    check_same(bytes([op.PUSH0]) * 1023 + bytes([code]))
    check_same(bytes([op.PUSH0]) * 1024 + bytes([code]))


@pytest.mark.parametrize("size", range(1, 33))
def test_push_truncated_by_the_end_of_the_code(size):
    for length in range(size + 1):
        check_same(bytes([op.PUSH0 + size]) + b"\xab" * length)


def test_jumps_to_valid_and_invalid_targets():
    target = bytes([op.JUMPDEST])
    assert check_same(push(3) + bytes([op.JUMP]) + target) is None
    assert check_same(push(0, 6) + bytes([op.JUMPI, op.STOP]) + target) is None
    assert check_same(push(1, 6) + bytes([op.JUMPI, 0xFE]) + target) is None
    assert check_same(push(0) + bytes([op.PUSH1, 7, op.JUMPI, op.PC]) + target) is None
    for to in (0, 1, 4, 5, 2**255, 2**64, 10**9):
        assert check_same(push(to) + bytes([op.JUMP, op.PUSH1, op.JUMPDEST]))
    # A word read from memory is bytes on the stack, not a number.
    loaded = bytes([op.PUSH0, op.MLOAD])
    assert check_same(loaded + push(6) + bytes([op.JUMPI, op.STOP]) + target) is None
    assert check_same(loaded + bytes([op.JUMP]))


PAIRS = [
    (first, second)
    for first in (op.PUSH1, op.PUSH32, op.DUP1, op.DUP2, op.DUP16, op.SWAP1, op.SWAP2, op.SWAP16)
    for second in (op.ADD, op.SUB, op.LT, op.SLT, op.SHL, op.POP, op.JUMP, op.JUMPI, op.JUMPDEST)
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_pairs_that_run_as_one_step(first, second):
    rng = random.Random(first * 256 + second)
    for depth in (0, 1, 2, 3, 15, 16, 17, 1022, 1023, 1024):
        begin = b"".join(push(rng.choice(WORDS[:7])) for _ in range(min(depth, 17)))
        begin += bytes([op.PUSH0]) * (depth - 17)
        to = len(begin) + 3  # the JUMPDEST after a push of one byte and the second instruction
        pair = bytes([first, *([to & 255] if first == op.PUSH1 else []), second])
        pair += bytes(32) if first == op.PUSH32 else b""
        program = begin + pair + bytes([op.JUMPDEST, op.ADDRESS])
        check_same(program)
        used = gas_used(begin)
        for more in range(16):
            check_same(program, gas=used + more)


def test_jump_into_a_pair_runs_its_second_instruction():
    program = push(1, 2, 7) + bytes([op.JUMP, op.JUMPDEST, op.ADD])
    assert check_same(program) is None


def test_instructions_within_a_push_are_no_jump_targets():
    program = bytes([op.PUSH4, op.PUSH1, 1, op.ADD, op.JUMPDEST, op.PUSH1, 4, op.JUMP])
    assert check_same(program) is InvalidJumpDestination


@pytest.mark.parametrize("code", [op.MSTORE, op.MLOAD], ids=["MSTORE", "MLOAD"])
def test_memory_expansion_cost(code):
    for place in (0, 1, 31, 32, 33, 64, 1000, 22_000, 2**16, 2**64, 2**255):
        access = push(7, place) + bytes([code])
        for gas in (5, 9, 12, 15, 18, 21, 200, 100_000):
            check_same(access, gas=gas)
        check_same(access + push(9, place // 2) + bytes([code]) + push(64, 0) + bytes([op.RETURN]))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed):
    rng = random.Random(seed)
    others = [op.SDIV, op.SMOD, op.EXP, op.SIGNEXTEND, op.SLT, op.SGT, op.BYTE, op.SAR, op.PC]
    others += [op.SHA3, op.MLOAD, op.MSTORE, op.MSTORE8, op.MSIZE, op.ADDRESS, op.CALLER]
    codes = [*QUICK, *others]
    for _ in range(2500):
        program = push(*(rng.choice(WORDS) for _ in range(rng.randrange(20))))
        program += bytes(rng.choice(codes) for _ in range(rng.randrange(60)))
        check_same(program, gas=rng.choice((50, 300, 5000)))
