"""Signed bytes equal those of eth-account, and altered ones are recognised."""

import msgspec
import pytest
import rlp
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from clob.signing import ZERO_ADDRESS
from clob_server.chain.eth import accounts
from clob_server.chain.tx.gas_fees import Fees
from clob_server.chain.tx.remote_signer import difference
from clob_server.chain.tx.signer import LocalSigner, unsigned
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
    signer = LocalSigner(key, chain_id)
    offer = signer.sign_at_once(draft, fees)
    assert signer.address == Account.from_key(key).address
    assert (offer.hash, offer.raw) == by_eth_account(key, chain_id, draft, fees)
    assert (offer.max_fee, offer.tip) == (fees.max_fee, fees.tip)
    assert Account.recover_transaction(offer.raw) == signer.address


@given(st.recursive(st.binary(max_size=70) | WORDS, st.lists, max_leaves=40))
def test_rlp_equals_another_library(value):
    assert accounts.rlp(value) == rlp.encode(value)
    assert accounts.unrlp(accounts.rlp(value)) == rlp.decode(rlp.encode(value))


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda data: b"\xf8\x3a" + data))
def test_arbitrary_bytes_are_decoded_as_by_another_library_or_rejected(data):
    try:
        decoded = accounts.unrlp(data)
    except ValueError:
        with pytest.raises(rlp.exceptions.DecodingError):
            rlp.decode(data)
    else:
        assert rlp.decode(data, strict=False) == decoded or accounts.rlp(decoded) != data


def test_deeply_nested_lists_are_rejected():
    data = b""
    for _ in range(5_000):
        data = rlp.codec.length_prefix(len(data), 0xC0) + data
    with pytest.raises(RecursionError):
        accounts.unrlp(data)


@given(key=KEYS, chain_id=st.integers(1, 2**53), draft=DRAFTS, fees=FEES)
def test_signed_transaction_is_accepted_only_for_its_own_fields_and_signer(
    key, chain_id, draft, fees
):
    signer = LocalSigner(key, chain_id)
    raw = signer.sign_at_once(draft, fees).raw
    requested = unsigned(draft, fees, chain_id)
    assert difference(requested, raw, signer.address) == ""
    assert "it is signed by" in difference(requested, raw, ZERO_ADDRESS)
    for changed in (
        unsigned(draft, fees, chain_id + 1),
        unsigned(msgspec.structs.replace(draft, nonce=draft.nonce + 1), fees, chain_id),
        unsigned(msgspec.structs.replace(draft, value=draft.value ^ 1), fees, chain_id),
        unsigned(msgspec.structs.replace(draft, data=draft.data + b"x"), fees, chain_id),
        unsigned(draft, fees._replace(max_fee=fees.max_fee + 1), chain_id),
        unsigned(draft, fees._replace(is_legacy=not fees.is_legacy), chain_id),
    ):
        assert difference(changed, raw, signer.address)


@given(key=KEYS, draft=DRAFTS, fees=FEES, data=st.data())
def test_transaction_with_a_changed_byte_is_not_accepted(key, draft, fees, data):
    signer = LocalSigner(key, 137)
    raw = bytearray(signer.sign_at_once(draft, fees).raw)
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    assert difference(unsigned(draft, fees, 137), bytes(raw), signer.address)


@pytest.mark.parametrize(
    "key",
    ["", "0x", "0" * 64, f"{ORDER:064x}", "f" * 64, "1" * 63, "1" * 65, f"0x{'g' * 64}", " " * 64],
)
def test_invalid_key_is_rejected_without_showing_it(key):
    error = r"^the operator's key must be 32 bytes in hex$"
    with pytest.raises(ValueError, match=error) as rejected:
        LocalSigner(key, 1)
    assert rejected.value.__cause__ is None
    assert rejected.value.__suppress_context__
