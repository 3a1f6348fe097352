"""The exchange contract accepts exactly the signatures that clob.signing accepts."""

import json

import msgspec
import pytest
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from clob.errors import ClobError
from clob.signing import Domain, SignedOrder, order_hash, personal_hash, secp, sign, verify
from clob_server.chain.contracts import artifact
from clob_server.chain.eth.abi import revert_reason
from clob_server.chain.eth.exchange_abi import AUTHORISED, HASH_ORDER
from tests.chain.contracts.evm import CHAIN_ID, Evm
from tests.chain.exchange.evm_market import (
    BUY,
    CREATION_TYPES,
    KEYS,
    MAKERS,
    ONE,
    OWNER,
    SELL,
    creation_args,
)
from tests.chain.signed_fills import order_values, signature_bytes
from tests.chain.wallets import BURNS, REVERTS
from tests.signing.helpers import domain_of
from tests.signings import vectors

ALICE, BOB = (maker.address for maker in MAKERS[:2])
SIGNS = bytes.fromhex("631626ba7e60e01b60005260206000f3")
"""Code of a wallet that accepts every signature (EIP-1271)."""
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


class Judge:
    """An exchange contract at the verifying contract address of a domain."""

    def __init__(self, domain):
        self.domain = domain
        self.evm = Evm(domain.chain_id)
        addresses = self.evm.deploy_all()
        args = creation_args(domain.name, domain.version, addresses)
        made = self.evm.deploy(OWNER, "Exchange", CREATION_TYPES, args)
        self.evm.set_code(domain.verifying_contract, self.evm.code(made))

    def hash(self, order):
        """Return the contract's hash of an order."""
        return self.evm.ask(self.domain.verifying_contract, HASH_ORDER, order_values(order))

    def believes(self, order):
        """Return whether the contract accepts a signature."""
        data = AUTHORISED.encode(order_values(order), signature_bytes(order))
        outcome = self.evm.call(ALICE, self.domain.verifying_contract, data)
        if outcome.reason:
            assert outcome.reason == revert_reason(outcome.output)
            return False
        assert AUTHORISED.decode(outcome.output) == (order_hash(order, self.domain),)
        return True


def is_believed(order, domain):
    """Return whether clob.signing accepts a signature."""
    try:
        verify(order, domain)
    except ClobError:
        return False
    return True


@pytest.fixture(scope="module")
def judge():
    return Judge(Domain("clob", "1", CHAIN_ID, "0x5FbDB2315678afecb367f032d93F642f64180aa3"))


def order(**fields):
    """Return an unsigned order of Alice."""
    defaults = {"side": BUY, "price": 50, "size": ONE, "maker": ALICE, "token_id": 7, "salt": 1}
    return SignedOrder.from_price_size(**{**defaults, **fields})


def with_signature(one, signature):
    """Return the order with another signature."""
    return msgspec.structs.replace(one, signature=f"0x{signature.hex()}")


def test_vectors_have_equal_hashes_and_results():
    for vector in vectors("order_eip712"):
        domain = domain_of(vector["domain"])
        judge = Judge(domain)
        one = SignedOrder.from_json({**vector["order"], "signature": vector["signature"]})
        assert judge.hash(one) == order_hash(one, domain), vector["id"]
        assert judge.believes(one) == is_believed(one, domain), vector["id"]


@pytest.mark.parametrize("kind", [0, 1])
def test_unusual_signatures_have_equal_results(judge, kind):
    """Each vector's unusual length, v, s or r is applied to a valid signature."""
    one = sign(order(signature_type=kind), judge.domain, KEYS[ALICE])
    good = signature_bytes(one)
    for vector in vectors("recover"):
        try:
            odd = bytes.fromhex(vector["signature"].removeprefix("0x"))
        except ValueError:
            continue  # not hex, so it never reaches a contract
        for spoilt in (odd, good[:64] + odd[64:], good[:32] + odd[32:], odd[:32] + good[32:]):
            changed = with_signature(one, spoilt)
            assert judge.believes(changed) == is_believed(changed, judge.domain), vector["id"]


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
@pytest.mark.parametrize("way", ["typed", "personal", "personal of text"])
@pytest.mark.parametrize("v", ["27", "0", "other", "high s"])
def test_signature_types_and_schemes_have_equal_results(judge, kind, way, v):
    one = order(signature_type=kind)
    digest = order_hash(one, judge.domain)
    if way == "personal":
        digest = personal_hash(digest)
    elif way == "personal of text":
        digest = personal_hash(secp.keccak256(digest.hex().encode()))
    signed = bytearray(Account.from_key(KEYS[ALICE]).unsafe_sign_hash(digest).signature)
    if v == "0":
        signed[64] -= 27
    elif v == "other":
        signed[64] ^= 1
    elif v == "high s":
        signed[32:64] = (N - int.from_bytes(signed[32:64])).to_bytes(32)
        signed[64] = 55 - signed[64]
    changed = with_signature(one, bytes(signed))
    assert judge.believes(changed) == is_believed(changed, judge.domain)
    fine = v in ("27", "0") and ((way == "typed" and kind < 2) or (way == "personal" and kind == 0))
    assert judge.believes(changed) == fine


WORD = st.integers(0, 2**256 - 1)
ADDRESS = st.binary(min_size=20, max_size=20).map(lambda raw: f"0x{raw.hex()}")


@given(
    salt=WORD, taker=ADDRESS, token_id=WORD, maker_amount=WORD, taker_amount=WORD,
    expiration_s=WORD, nonce=WORD, fee_rate_bps=WORD, side=st.sampled_from([BUY, SELL]),
    signature_type=st.integers(0, 255), maker=st.sampled_from([ALICE, BOB]),
)  # fmt: skip
def test_random_orders_have_equal_hashes_and_results(judge, maker, **fields):
    one = sign(SignedOrder(maker=maker, signer=ALICE, **fields), judge.domain, KEYS[ALICE])
    assert judge.hash(one) == order_hash(one, judge.domain)
    assert judge.believes(one) == is_believed(one, judge.domain)


@given(signature=st.binary(max_size=70).filter(any))
def test_random_bytes_are_rejected(judge, signature):
    one = with_signature(order(), signature)
    assert judge.believes(one) is is_believed(one, judge.domain) is False


# ----- wallets with code (EIP-1271) ----------------------------------------------------------


@pytest.fixture
def wallet(judge):
    """Set the code of Alice; without code again after the test."""
    yield lambda code: judge.evm.set_code(ALICE, code)
    judge.evm.set_code(ALICE, b"")


def test_wallet_with_code_decides_on_signatures_of_other_keys(judge, wallet):
    one = with_signature(order(), b"any bytes at all")
    foreign = sign(order(), judge.domain, KEYS[BOB])
    foreign = msgspec.structs.replace(foreign, signer=ALICE)
    assert not judge.believes(one)
    wallet(SIGNS)
    assert judge.believes(one)
    assert judge.believes(foreign)
    assert not judge.believes(with_signature(order(), b"")), "unsigned orders need setGasless"


def test_key_of_a_wallet_with_code_signs(judge, wallet):
    """An account with delegated code (EIP-7702) has code and a key."""
    wallet(REVERTS)
    for kind in (0, 1):
        assert judge.believes(sign(order(signature_type=kind), judge.domain, KEYS[ALICE]))


@pytest.mark.parametrize("code", [
    REVERTS, BURNS, bytes.fromhex("00"),
    bytes.fromhex("631626ba7e60005260206000f3"),  # the answer at the wrong end of the word
    bytes.fromhex("631626ba7e60e01b60005260046000f3"),  # four bytes
    bytes.fromhex("60016000556000") + bytes.fromhex("631626ba7e60e01b60005260206000f3"),  # writes
    bytes.fromhex("620200005ffd"), bytes.fromhex("620200005ff3"),  # 128 KiB
])  # fmt: skip
def test_other_answers_of_a_wallet_reject_the_signature(judge, wallet, code):
    wallet(code)
    assert not judge.believes(with_signature(order(), b"any bytes at all"))


def test_order_type_hash_equals_the_ctf_exchange():
    source = json.dumps(artifact("Exchange").creation.hex())
    assert "a852566c4e14d00869b6db0220888a9090a13eccdaea03713ff0a3d27bf9767c" in source
