"""The bytes that are signed are those of eth-account, for every kind of transaction."""

import pytest
import rlp as other
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from clob_server.chain.eth import accounts
from clob_server.chain.tx.gas_fees import Fees
from clob_server.chain.tx.sender import Signer
from clob_server.chain.tx.steps import Draft

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""How many points secp256k1 has: keys are below."""
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
    """The same transaction, signed by another library."""
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
def test_what_is_signed_is_what_eth_account_signs(key, chain_id, draft, fees):
    signer = Signer(key, chain_id)
    offer = signer.sign(draft, fees)
    assert signer.address == Account.from_key(key).address
    assert (offer.hash, offer.raw) == by_eth_account(key, chain_id, draft, fees)
    assert (offer.max_fee, offer.tip) == (fees.max_fee, fees.tip)
    assert Account.recover_transaction(offer.raw) == signer.address


@given(st.recursive(st.binary(max_size=70) | WORDS, st.lists, max_leaves=40))
def test_rlp_is_as_another_library_writes_it(value):
    def written(each):
        if isinstance(each, list):
            return accounts.listed(map(written, each))
        return accounts.integer(each) if isinstance(each, int) else accounts.string(each)

    assert written(value) == other.encode(value)


@pytest.mark.parametrize(
    "key",
    ["", "0x", "0" * 64, f"{ORDER:064x}", "f" * 64, "1" * 63, "1" * 65, f"0x{'g' * 64}", " " * 64],
)
def test_what_is_no_key_is_refused_and_not_repeated(key):
    with pytest.raises(ValueError, match=r"^the operator's key is not 32 bytes in hex$") as refused:
        Signer(key, 1)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
