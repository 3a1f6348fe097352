"""Optimised instructions equal those of py-evm: stack, gas and errors of random programs."""

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
PLACE = bytes.fromhex("aa" * 20)


def ran(kind, code, gas):
    """Run code; return what is seen of it afterwards."""
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
    message = Message(gas=gas, to=PLACE, sender=PLACE, value=0, data=b"", code=code)
    transaction = BaseTransactionContext(gas_price=0, origin=PLACE)
    done = kind.apply_computation(state, message, transaction)
    stack = [
        int.from_bytes(each) if isinstance(each, bytes) else each for each in done._stack.values
    ]
    if done.is_error:  # nobody sees more of it
        kind = (
            InvalidJumpDestination
            if isinstance(done.error, InvalidInstruction)
            else type(done.error)
        )
        return kind, done.get_gas_used()
    return None, done.get_gas_used(), stack, bytes(done.output)


def same(code, gas=100_000):
    """Run code with both interpreters, compare the results and return one."""
    ours, theirs = (ran(kind, code, gas) for kind in (DevelopmentComputation, PragueComputation))
    assert ours == theirs, code.hex()
    return ours


def pushed(*words):
    """Write the code that puts words on the stack, each in as few bytes as it needs."""
    code = b""
    for each in words:
        size = max(1, (each.bit_length() + 7) // 8)
        code += bytes([op.PUSH0 + size]) + each.to_bytes(size)
    return code


@pytest.mark.parametrize("code", QUICK, ids=lambda code: f"{code:#x}")
def test_single_instructions_on_every_kind_of_stack(code):
    drawn = random.Random(code)
    for _ in range(40):
        words = [drawn.choice(WORDS) for _ in range(drawn.choice((0, 1, 2, 3, 16, 17, 18)))]
        program = pushed(*words) + bytes([code])
        same(program)
        same(program + bytes([op.STOP]) * 3, gas=3 * len(words) + drawn.randrange(12))
    same(bytes([op.PUSH0]) * 1023 + bytes([code]))
    same(bytes([op.PUSH0]) * 1024 + bytes([code]))


@pytest.mark.parametrize("size", range(1, 33))
def test_push_truncated_by_the_end_of_the_code(size):
    for length in range(size + 1):
        same(bytes([op.PUSH0 + size]) + b"\xab" * length)


def test_jumps():
    land = bytes([op.JUMPDEST])
    assert same(pushed(3) + bytes([op.JUMP]) + land)[0] is None
    assert same(pushed(0, 6) + bytes([op.JUMPI, op.STOP]) + land)[0] is None
    assert same(pushed(1, 6) + bytes([op.JUMPI, 0xFE]) + land)[0] is None
    assert same(pushed(0) + bytes([op.PUSH1, 7, op.JUMPI, op.PC]) + land)[0] is None
    for to in (0, 1, 4, 5, 2**255, 2**64, 10**9):
        assert same(pushed(to) + bytes([op.JUMP, op.PUSH1, op.JUMPDEST]))[0]
    # What memory gave is bytes, and not a number, on the stack.
    loaded = bytes([op.PUSH0, op.MLOAD])
    assert same(loaded + pushed(6) + bytes([op.JUMPI, op.STOP]) + land)[0] is None
    assert same(loaded + bytes([op.JUMP]))[0]


PAIRS = [
    (first, second)
    for first in (op.PUSH1, op.PUSH32, op.DUP1, op.DUP2, op.DUP16, op.SWAP1, op.SWAP2, op.SWAP16)
    for second in (op.ADD, op.SUB, op.LT, op.SLT, op.SHL, op.POP, op.JUMP, op.JUMPI, op.JUMPDEST)
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_fused_instruction_pairs(first, second):
    drawn = random.Random(first * 256 + second)
    for depth in (0, 1, 2, 3, 15, 16, 17, 1022, 1023, 1024):
        begin = b"".join(pushed(drawn.choice(WORDS[:7])) for _ in range(min(depth, 17)))
        begin += bytes([op.PUSH0]) * (depth - 17)
        to = len(begin) + 3  # behind a push of one byte, where it goes
        pair = bytes([first, *([to & 255] if first == op.PUSH1 else []), second])
        pair += bytes(32) if first == op.PUSH32 else b""
        program = begin + pair + bytes([op.JUMPDEST, op.ADDRESS])
        same(program)
        spent = same(begin)[1]
        for more in range(16):
            same(program, gas=spent + more)


def test_jump_into_a_fused_pair_runs_its_second_instruction():
    land, add = op.JUMPDEST, op.ADD
    into = pushed(1, 2, 7) + bytes([op.JUMP, land, add])
    assert same(into)[0] is None
    # What looks like a pair within a push is none.
    inside = bytes([op.PUSH4, op.PUSH1, 1, add, land, op.PUSH1, 4, op.JUMP])
    assert same(inside)[0] is InvalidJumpDestination


@pytest.mark.parametrize("code", [op.MSTORE, op.MLOAD], ids=["MSTORE", "MLOAD"])
def test_memory_expansion_cost(code):
    for place in (0, 1, 31, 32, 33, 64, 1000, 22_000, 2**16, 2**64, 2**255):
        put = pushed(7, place) + bytes([code])
        for gas in (5, 9, 12, 15, 18, 21, 200, 100_000):
            same(put, gas=gas)
        same(put + pushed(9, place // 2) + bytes([code]) + pushed(64, 0) + bytes([op.RETURN]))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed):
    drawn = random.Random(seed)
    others = [op.SDIV, op.SMOD, op.EXP, op.SIGNEXTEND, op.SLT, op.SGT, op.BYTE, op.SAR, op.PC]
    others += [op.SHA3, op.MLOAD, op.MSTORE, op.MSTORE8, op.MSIZE, op.ADDRESS, op.CALLER]
    codes = [*QUICK, *others]
    for _ in range(2500):
        program = pushed(*(drawn.choice(WORDS) for _ in range(drawn.randrange(20))))
        program += bytes(drawn.choice(codes) for _ in range(drawn.randrange(60)))
        same(program, gas=drawn.choice((50, 300, 5000)))
