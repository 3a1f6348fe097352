"""Ids of conditions and tokens, compared with the contract."""

import random  # noqa: TID251  # the draws of a test, from a seed
import subprocess
import sys

import pytest

from clob.signing import InvalidAddressError
from clob_server.chain.eth import token_ids
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR
from tests.chain.contracts.calls import (
    COLLECTION_ID,
    CONDITION_ID,
    POSITION_ID,
    PREPARE,
    PREPARED,
    ROOT,
    SLOTS,
)

NUM_SHORT = 50
NUM_LONG = 1_000
CONDITION = bytes(range(32))
COLLATERAL = ACCOUNTS[0].address


def compare(world, num, seed):
    """Compare random conditions, outcome sets and tokens with the contract."""
    evm, addresses = world
    tokens = addresses.conditional_tokens
    draw = random.Random(seed)
    for _ in range(num):
        condition = draw.randbytes(32)
        index_set = draw.choice([1, 2, 3, draw.randrange(1, 2**256)])
        collateral = "0x" + draw.randbytes(20).hex()
        collection = evm.ask(tokens, COLLECTION_ID, ROOT, condition, index_set)
        assert token_ids.collection_id(condition, index_set) == collection
        token = evm.ask(tokens, POSITION_ID, collateral, collection)
        assert token_ids.position_id(collateral, collection) == token


def test_collections_and_tokens_equal_the_contract(world):
    compare(world, NUM_SHORT, seed=1)


@pytest.mark.long
def test_a_thousand_collections_and_tokens_equal_the_contract(world):
    compare(world, NUM_LONG, seed=2)


def test_both_parities_occur(world):
    parities = {token_ids.collection_id(bytes([n] * 32), 1)[0] >> 6 & 1 for n in range(32)}
    assert parities == {0, 1}


@pytest.mark.parametrize("slots", [2, 3, 256])
def test_condition_ids_equal_the_contract(world, slots):
    evm, addresses = world
    question = token_ids.question_id(f"Is it {slots}?")
    condition = evm.ask(
        addresses.conditional_tokens, CONDITION_ID, OPERATOR.address, question, slots
    )
    assert token_ids.condition_id(OPERATOR.address, question, slots) == condition


def test_prepared_condition_has_the_computed_id(world):
    evm, addresses = world
    question = token_ids.question_id("Will it be prepared?")
    oracle = OPERATOR.address
    condition = token_ids.condition_id(oracle, question)
    tokens = addresses.conditional_tokens
    assert evm.ask(tokens, SLOTS, condition) == 0
    (log,) = evm.do(ACCOUNTS[1].address, tokens, PREPARE, oracle, question, 2).logs
    assert PREPARED.decode(log) == (condition, oracle, question, 2)
    assert evm.ask(tokens, SLOTS, condition) == 2


def test_yes_and_no_are_the_first_and_the_second_outcome():
    yes, no = token_ids.token_ids(COLLATERAL, CONDITION)
    first, second = (token_ids.collection_id(CONDITION, part) for part in (1, 2))
    assert yes == token_ids.position_id(COLLATERAL, first)
    assert no == token_ids.position_id(COLLATERAL, second)
    assert yes != no


def test_address_case_is_ignored():
    assert token_ids.token_ids(COLLATERAL, CONDITION) == token_ids.token_ids(
        COLLATERAL.lower(), CONDITION
    )


def test_invalid_address_is_rejected():
    with pytest.raises(InvalidAddressError, match="collateral"):
        token_ids.token_ids("0x12", CONDITION)
    with pytest.raises(InvalidAddressError, match="oracle"):
        token_ids.condition_id("nobody", CONDITION)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_id_of_wrong_length_is_rejected(length):
    with pytest.raises(ValueError, match=f"must be 32 bytes long; got {length}"):
        token_ids.collection_id(bytes(length), 1)
    with pytest.raises(ValueError, match=f"must be 32 bytes long; got {length}"):
        token_ids.position_id(COLLATERAL, bytes(length))
    with pytest.raises(ValueError, match=f"must be 32 bytes long; got {length}"):
        token_ids.condition_id(COLLATERAL, bytes(length))


def test_chain_libraries_are_not_imported():
    program = (
        "import sys, clob_server.chain.config, clob_server.chain.eth.token_ids\n"
        "heavy = {'eth', 'eth_abi', 'eth_account', 'httpx'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
