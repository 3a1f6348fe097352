"""The ids of conditions and tokens, held against the contract itself."""

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
NUM_LONG = 4_000
CONDITION = bytes(range(32))
COLLATERAL = ACCOUNTS[0].address


def agree(world, num, seed):
    """Hold random conditions and sets of outcomes, and the tokens of them, against the contract."""
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


def test_collections_and_tokens_are_those_of_the_contract(world):
    agree(world, NUM_SHORT, seed=1)


@pytest.mark.long
def test_thousands_of_collections_and_tokens_are_those_of_the_contract(world):
    agree(world, NUM_LONG, seed=2)


def test_both_collections_of_every_parity_are_met(world):
    parities = {token_ids.collection_id(bytes([n] * 32), 1)[0] >> 6 & 1 for n in range(32)}
    assert parities == {0, 1}


@pytest.mark.parametrize("slots", [2, 3, 256])
def test_conditions_are_those_of_the_contract(world, slots):
    evm, addresses = world
    question = token_ids.question_id(f"Is it {slots}?")
    asked = evm.ask(addresses.conditional_tokens, CONDITION_ID, OPERATOR.address, question, slots)
    assert token_ids.condition_id(OPERATOR.address, question, slots) == asked


def test_a_condition_that_is_prepared_has_the_id_that_was_computed(world):
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


def test_capital_letters_of_an_address_change_nothing():
    assert token_ids.token_ids(COLLATERAL, CONDITION) == token_ids.token_ids(
        COLLATERAL.lower(), CONDITION
    )


def test_what_is_no_address_is_refused():
    with pytest.raises(InvalidAddressError, match="collateral"):
        token_ids.token_ids("0x12", CONDITION)
    with pytest.raises(InvalidAddressError, match="oracle"):
        token_ids.condition_id("nobody", CONDITION)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_what_is_no_id_is_refused(length):
    with pytest.raises(ValueError, match=f"is {length} bytes long, not 32"):
        token_ids.collection_id(bytes(length), 1)
    with pytest.raises(ValueError, match=f"is {length} bytes long, not 32"):
        token_ids.position_id(COLLATERAL, bytes(length))
    with pytest.raises(ValueError, match=f"is {length} bytes long, not 32"):
        token_ids.condition_id(COLLATERAL, bytes(length))


def test_nothing_heavy_is_imported_for_it():
    program = (
        "import sys, clob_server.chain.config, clob_server.chain.eth.token_ids\n"
        "heavy = {'eth', 'eth_abi', 'eth_account', 'httpx'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
