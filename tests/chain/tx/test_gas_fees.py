"""Fees per unit of gas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob_server.chain.eth.rpc import NodeInvalidResponseError, NodeRejectedError
from clob_server.chain.tx.gas_fees import Fees, gwei, raise_fee, raise_fees, suggest_fees

LIMIT = 500 * 10**9
FEES = st.integers(0, 2 * LIMIT)


def test_fee_is_twice_the_base_fee_plus_the_tip():
    assert suggest_fees([{"baseFeePerGas": "0x64"}, "0x7", "0x1"], LIMIT) == Fees(207, 7)


def test_tip_defaults_to_one_gwei():
    rejected = NodeRejectedError(-32601, "no such method")
    assert suggest_fees([{"baseFeePerGas": "0x64"}, rejected, "0x1"], LIMIT) == Fees(
        200 + 10**9, 10**9
    )


def test_tip_may_be_set():
    replies = [{"baseFeePerGas": "0x64"}, "0x7", "0x1"]
    assert suggest_fees(replies, LIMIT, tip_wei=30) == Fees(230, 30)
    assert suggest_fees(replies, 20, tip_wei=30) == Fees(20, 20)


def test_fee_in_gwei():
    assert gwei(500 * 10**9) == "500 gwei"
    assert gwei(1_500_000_000) == "1.5 gwei"
    assert gwei(7) == "0.000000007 gwei"
    assert gwei(0) == "0 gwei"


def test_legacy_chain_uses_its_gas_price():
    rejected = NodeRejectedError(-32601, "no such method")
    assert suggest_fees([{"number": "0x1"}, rejected, "0x9"], LIMIT) == Fees(9, 9, is_legacy=True)


def test_fees_do_not_exceed_the_limit():
    assert suggest_fees([{"baseFeePerGas": "0x64"}, "0x7", "0x1"], 5) == Fees(5, 5)
    assert suggest_fees([{}, None, "0x9"], 5) == Fees(5, 5, is_legacy=True)


def test_missing_or_malformed_fees_raise_an_error():
    with pytest.raises(NodeRejectedError):
        suggest_fees([NodeRejectedError(0, "no"), "0x1", "0x1"], LIMIT)
    with pytest.raises(NodeInvalidResponseError):
        suggest_fees([{"baseFeePerGas": "much"}, "0x1", "0x1"], LIMIT)


@given(FEES, FEES, FEES, FEES)
def test_raised_fees_are_an_eighth_higher_and_at_least_the_current_fees(a, b, c, d):
    offered, usual = Fees(max(a, b), min(a, b)), Fees(max(c, d), min(c, d))
    fees = raise_fees(offered, usual, LIMIT)
    if fees is None:
        assert max(raise_fee(offered.max_fee), usual.max_fee) > LIMIT
        return
    assert fees.max_fee * 8 >= offered.max_fee * 9
    assert fees.tip * 8 >= offered.tip * 9
    assert usual.max_fee <= fees.max_fee <= LIMIT
    assert usual.tip <= fees.tip <= fees.max_fee


def test_raised_legacy_fees_stay_legacy():
    assert raise_fees(Fees(8, 8, True), Fees(1, 1, True), LIMIT) == Fees(9, 9, True)
