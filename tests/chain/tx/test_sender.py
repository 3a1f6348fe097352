"""Signed bytes equal those of eth-account, for every type of transaction."""

import pytest
import rlp
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from clob_server.chain.eth import accounts
from clob_server.chain.tx.gas_fees import Fees
from clob_server.chain.tx.sender import Signer
from clob_server.chain.tx.steps import Draft

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""Order of secp256k1: keys are below."""
KEYS = st.integers(1, ORDER - 1).map(lambda value: f"0x{value:064x}")
WORDS = st.integers(0, 2**256 - 1)
FEES = st.builds(Fees, st.integers(0, 2**80), st.integers(0, 2**80), st.booleans())
TARGETS = st.just("") | st.binary(min_size=20, max_size=20).map(lambda data: f"0x{data.hex()}")
DRAFTS = st.builds(
    Draft,
    operation=st.just(1),
    name=st.just("mergeTx"),
    nonce=st.integers(0, 2**64 - 2),
    target=TARGETS,
    data=st.binary(max_size=300) | st.binary(min_size=65_500, max_size=65_600),
    value=WORDS,
    gas=st.integers(0, 2**64 - 1),
    expects=st.just(""),
    head=st.just(0),
)


def by_eth_account(key, chain_id, draft, fees):
    """Sign the same transaction with eth-account."""
    transaction = {
        "chainId": chain_id,
        "nonce": draft.nonce,
        "gas": draft.gas,
        "to": bytes.fromhex(draft.target[2:]),
        "value": draft.value,
        "data": draft.data,
    }
    if fees.is_legacy:
        transaction["gasPrice"] = fees.max_fee
    else:
        transaction |= {"maxFeePerGas": fees.max_fee, "maxPriorityFeePerGas": fees.tip}
    signed = Account.sign_transaction(transaction, key)
    return f"0x{bytes(signed.hash).hex()}", bytes(signed.raw_transaction)


@given(key=KEYS, chain_id=st.integers(1, 2**53), draft=DRAFTS, fees=FEES)
def test_signed_transactions_equal_eth_account(key, chain_id, draft, fees):
    signer = Signer(key, chain_id)
    offer = signer.sign(draft, fees)
    assert signer.address == Account.from_key(key).address
    assert (offer.hash, offer.raw) == by_eth_account(key, chain_id, draft, fees)
    assert (offer.max_fee, offer.tip) == (fees.max_fee, fees.tip)
    assert Account.recover_transaction(offer.raw) == signer.address


@given(st.recursive(st.binary(max_size=70) | WORDS, st.lists, max_leaves=40))
def test_rlp_equals_another_library(value):
    assert accounts.rlp(value) == rlp.encode(value)


@pytest.mark.parametrize(
    "key",
    ["", "0x", "0" * 64, f"{ORDER:064x}", "f" * 64, "1" * 63, "1" * 65, f"0x{'g' * 64}", " " * 64],
)
def test_invalid_key_is_rejected_without_showing_it(key):
    error = r"^the operator's key must be 32 bytes in hex$"
    with pytest.raises(ValueError, match=error) as rejected:
        Signer(key, 1)
    assert rejected.value.__cause__ is None
    assert rejected.value.__suppress_context__
