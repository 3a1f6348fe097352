"""What a unit of gas is offered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob_server.chain.eth.rpc import NodeNonsenseError, NodeRefusedError
from clob_server.chain.tx.gas_fees import Fees, more_than, raised, suggested

LIMIT = 500 * 10**9
FEES = st.integers(0, 2 * LIMIT)


def test_a_chain_with_a_base_fee_is_offered_twice_that_and_a_tip():
    assert suggested([{"baseFeePerGas": "0x64"}, "0x7", "0x1"], LIMIT) == Fees(207, 7)


def test_a_node_without_an_opinion_on_tips_gets_one_gwei():
    refused = NodeRefusedError(-32601, "no such method")
    assert suggested([{"baseFeePerGas": "0x64"}, refused, "0x1"], LIMIT) == Fees(200 + 10**9, 10**9)


def test_a_chain_without_a_base_fee_is_offered_its_price():
    refused = NodeRefusedError(-32601, "no such method")
    assert suggested([{"number": "0x1"}, refused, "0x9"], LIMIT) == Fees(9, 9, is_legacy=True)


def test_no_offer_is_above_the_limit():
    assert suggested([{"baseFeePerGas": "0x64"}, "0x7", "0x1"], 5) == Fees(5, 5)
    assert suggested([{}, None, "0x9"], 5) == Fees(5, 5, is_legacy=True)


def test_a_node_that_says_nothing_of_fees_is_not_guessed_about():
    with pytest.raises(NodeRefusedError):
        suggested([NodeRefusedError(0, "no"), "0x1", "0x1"], LIMIT)
    with pytest.raises(NodeNonsenseError):
        suggested([{"baseFeePerGas": "much"}, "0x1", "0x1"], LIMIT)


@given(FEES, FEES, FEES, FEES)
def test_a_raised_offer_is_an_eighth_more_in_both_fees_and_never_less_than_what_is_usual(
    a, b, c, d
):
    offered, usual = Fees(max(a, b), min(a, b)), Fees(max(c, d), min(c, d))
    fees = raised(offered, usual, LIMIT)
    if fees is None:
        assert max(more_than(offered.max_fee), usual.max_fee) > LIMIT
        return
    assert fees.max_fee * 8 >= offered.max_fee * 9
    assert fees.tip * 8 >= offered.tip * 9
    assert usual.max_fee <= fees.max_fee <= LIMIT
    assert usual.tip <= fees.tip <= fees.max_fee


def test_one_price_stays_one_price():
    assert raised(Fees(8, 8, True), Fees(1, 1, True), LIMIT) == Fees(9, 9, True)
