"""Decision 31: a rejected signature names the failed check, the expected and the actual signer."""

import pytest

from clob.signing import InvalidFieldError, InvalidSignatureError, Verdict, order_hash, verify
from tests.signing.helpers import (
    ALICE,
    BOB,
    RecordingHook,
    high_twin,
    recovered_by_eth_account,
    replace,
    signed,
)
from tests.signings import DOMAIN, KEYS

GOOD = signed()
SHORT = replace(GOOD, signature=GOOD.signature[:-2])
CASES = {
    Verdict.UNSUPPORTED_TYPE: (signed(signature_type=2), "signatureType must be 0 or 1"),
    Verdict.MALFORMED: (SHORT, "must be 0x and 130 hex digits"),
    Verdict.INVALID_V: (replace(GOOD, signature=GOOD.signature[:-2] + "1d"), "got 29"),
    Verdict.INVALID_R_OR_S: (replace(GOOD, signature="0x" + "0" * 130), "must be above 0"),
    Verdict.HIGH_S: (replace(GOOD, signature=high_twin(GOOD.signature)), "signature is 0x"),
    Verdict.NOT_RECOVERABLE: (
        replace(GOOD, signature=f"0x{5:064x}{GOOD.signature[66:]}"), "r is not on the curve",
    ),
    Verdict.WRONG_SIGNER: (signed(KEYS[1]), f"must be by {ALICE}"),
    Verdict.NOT_AUTHORISED: (signed(KEYS[1], signer=BOB), f"may not sign for the maker {ALICE}"),
}  # fmt: skip


def raised(order, **options):
    with pytest.raises(InvalidSignatureError) as caught:
        verify(order, DOMAIN, **options)
    return caught.value


@pytest.mark.parametrize("verdict", CASES)
def test_a_rejection_names_digest_signer_and_domain(backend, verdict):
    order, words = CASES[verdict]
    error, digest = raised(order), order_hash(order, DOMAIN)
    path = "signatureType" if verdict is Verdict.UNSUPPORTED_TYPE else "signature"
    assert (error.verdict, error.path, error.digest) == (verdict, path, digest)
    assert error.expected == order.signer
    for part in (
        words, f"0x{digest.hex()}", '"clob"', "31337", DOMAIN.verifying_contract,
        f"signatureType {order.signature_type}",
    ):  # fmt: skip
        assert part in str(error)


@pytest.mark.parametrize("verdict", CASES)
def test_a_rejection_names_the_signer_recovered_by_eth_account(backend, verdict):
    order, _ = CASES[verdict]
    error = raised(order)
    if verdict in (Verdict.UNSUPPORTED_TYPE, Verdict.WRONG_SIGNER, Verdict.NOT_AUTHORISED):
        result = recovered_by_eth_account(order_hash(order, DOMAIN), order.signature)
        assert error.recovered == result
    else:
        assert error.recovered is None


def test_a_contract_wallet_is_named(backend):
    order = signed(signature_type=3)
    error = raised(order, profile="ctf")
    assert error.verdict is Verdict.CONTRACT_WALLET
    assert f"only the contract wallet {ALICE} can verify this signature" in str(error)
    assert (error.expected, error.digest) == (ALICE, order_hash(order, DOMAIN))
    rejected_by_it = raised(order, profile="ctf", contracts=RecordingHook(False))
    assert rejected_by_it.verdict is Verdict.CONTRACT_WALLET
    assert "is not called" not in str(rejected_by_it)


def test_the_low_s_signature_in_a_rejection_is_accepted(backend):
    for salt in range(8):  # both parities of the low one come up
        order = signed(salt=salt)
        error = raised(replace(order, signature=high_twin(order.signature)))
        (named,) = [word for word in str(error).replace(";", " ").split() if len(word) == 132]
        assert named == order.signature
        verify(replace(order, signature=named), DOMAIN)


def test_expected_and_recovered_addresses_are_checksummed(backend):
    """Decision 15: output EIP-55."""
    error = raised(signed(KEYS[1], maker=ALICE.lower(), signer=BOB.lower()))
    assert (error.expected, error.recovered) == (BOB, BOB)


def test_a_field_that_does_not_fit_is_named_instead_of_the_signature(backend):
    with pytest.raises(InvalidFieldError) as caught:
        verify(replace(GOOD, token_id=2**256), DOMAIN)
    assert caught.value.path == "tokenId"
    assert "tokenId must fit uint256" in str(caught.value)
