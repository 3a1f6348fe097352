"""Decisions 13 and 16: signature types, delegates, and calls of hooks."""

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from clob.signing import (
    InvalidSignatureError,
    Profile,
    SignedSetNonce,
    SignerNotAuthorisedError,
    Verdict,
    order_hash,
    recover_signer,
    sign,
    verify,
    verify_batch,
)
from tests.signing.helpers import (
    ALICE,
    BOB,
    CAROL,
    RecordingHook,
    high_twin,
    recovered_by_eth_account,
    replace,
    signed,
)
from tests.signings import DOMAIN, KEYS

ALICE_KEY = KEYS[0]
BOB_KEY = KEYS[1]
HOOKS = ("delegates", "proxies", "contracts")


def verdict_and_error(order, **options):
    """Verify alone and in a batch, which must agree; return the verdict and the error."""
    (verdict,) = verify_batch([order], DOMAIN, **options)
    if verdict == Verdict.VALID:
        verify(order, DOMAIN, **options)
        return Verdict.VALID, None
    with pytest.raises(InvalidSignatureError) as caught:
        verify(order, DOMAIN, **options)
    assert caught.value.verdict == verdict
    not_authorised = verdict == Verdict.NOT_AUTHORISED
    assert type(caught.value) is (
        SignerNotAuthorisedError if not_authorised else InvalidSignatureError
    )
    return Verdict(verdict), caught.value


def verdict_on(order, **options):
    return verdict_and_error(order, **options)[0]


def accepting_hooks():
    return {name: RecordingHook() for name in HOOKS}


def by_eip712(key=ALICE_KEY, **fields):
    return signed(key, profile="ctf", **fields)


def by_personal_sign(key=ALICE_KEY, **fields):
    """Sign the hash of an order of any signature type by personal_sign."""
    whole = signed(key, profile="spec", **{**fields, "signature_type": 0})
    if not fields.get("signature_type"):
        return whole
    # sign() uses personal_sign for type 0 only.
    other = by_eip712(key, **fields)
    made = Account.sign_message(encode_defunct(order_hash(other, DOMAIN)), key)
    return replace(other, signature=f"0x{bytes(made.signature).hex()}")


# ----- profile spec --------------------------------------------------------------------------


def test_decision_13_type_0_is_eip712_or_personal_sign_and_type_1_is_eip712(backend):
    """0 accepts an EIP-712 signature of the order or a personal_sign of its hash; 1 is EIP-712."""
    assert verdict_on(by_eip712(signature_type=0)) is Verdict.VALID
    assert verdict_on(by_personal_sign(signature_type=0)) is Verdict.VALID
    assert verdict_on(by_eip712(signature_type=1)) is Verdict.VALID
    assert verdict_on(by_personal_sign(signature_type=1)) is Verdict.WRONG_SIGNER
    assert by_eip712(signature_type=0).signature != by_personal_sign(signature_type=0).signature


@pytest.mark.parametrize("kind", [2, 3, 4, 27, 255])
def test_decision_13_other_types_are_rejected_despite_hooks(backend, kind):
    for order in (by_eip712(signature_type=kind), by_personal_sign(signature_type=kind)):
        hooks = accepting_hooks()
        verdict, error = verdict_and_error(order, **hooks)
        assert verdict is Verdict.UNSUPPORTED_TYPE
        assert f"signatureType must be 0 or 1 in profile spec; got {kind}" in str(error)
        assert not any(hook.calls for hook in hooks.values())


def test_decision_13_both_methods_cover_the_whole_order_and_its_type(backend):
    for order in (by_eip712(signature_type=0), by_personal_sign(signature_type=0)):
        for changes in ({"signature_type": 1}, {"side": 1}, {"salt": 1}, {"taker": BOB}):
            assert verdict_on(replace(order, **changes)) is Verdict.WRONG_SIGNER


def test_recover_signer_supports_both_methods(backend):
    assert recover_signer(by_personal_sign(signature_type=0), DOMAIN) == ALICE
    assert recover_signer(by_eip712(signature_type=0), DOMAIN) == ALICE
    # If neither method recovers the signer, the result is that of EIP-712.
    for order in (
        by_personal_sign(BOB_KEY, signature_type=0),
        by_eip712(BOB_KEY, signature_type=0),
    ):
        digest = order_hash(order, DOMAIN)
        assert recover_signer(order, DOMAIN) == recovered_by_eth_account(digest, order.signature)


def test_the_default_profile_is_spec(backend):
    order = by_personal_sign(signature_type=0)
    for profile in ("spec", Profile.SPEC):
        assert verdict_on(order, profile=profile) is Verdict.VALID
    assert verdict_on(order) is Verdict.VALID
    assert verdict_on(order, profile="ctf") is Verdict.WRONG_SIGNER
    for call, argument in ((verify, order), (verify_batch, [order]), (verify_batch, [])):
        with pytest.raises(ValueError, match="'x' is not a valid Profile"):
            call(argument, DOMAIN, profile="x")


# ----- delegates -----------------------------------------------------------------------------


def test_decision_16_a_delegate_must_be_allowed(backend):
    """Signer is not maker: needs an explicit authorisation; rejected by default."""
    for order in (
        by_eip712(BOB_KEY, signer=BOB),
        by_eip712(BOB_KEY, signer=BOB, signature_type=0),
        by_personal_sign(BOB_KEY, signer=BOB, signature_type=0),
    ):
        verdict, error = verdict_and_error(order)
        assert verdict is Verdict.NOT_AUTHORISED
        assert error.code == "SIGNER_NOT_AUTHORISED"
        assert f"is by {BOB}, which may not sign for the maker {ALICE}" in str(error)
        for answer in (True, False):
            delegates = RecordingHook(answer)
            right = Verdict.VALID if answer else Verdict.NOT_AUTHORISED
            assert verdict_on(order, delegates=delegates) is right
            assert delegates.calls == [(ALICE, BOB)] * 2
        assert (
            verdict_on(order, proxies=RecordingHook(), contracts=RecordingHook())
            is Verdict.NOT_AUTHORISED
        )


def test_delegates_are_not_called_for_invalid_signatures(backend):
    delegates = RecordingHook()
    bobs_order = by_eip712(BOB_KEY, signer=BOB)
    for order in (
        by_eip712(),
        by_eip712(KEYS[2], signer=BOB),
        by_eip712(ALICE_KEY, signer=BOB),
        replace(bobs_order, salt=1),
        replace(bobs_order, signature=high_twin(bobs_order.signature)),
        replace(bobs_order, signature=""),
    ):
        verify_batch([order], DOMAIN, delegates=delegates)
    assert delegates.calls == []


def test_the_case_of_addresses_does_not_matter_for_maker_and_signer(backend):
    for maker, signer in ((ALICE.lower(), ALICE), (ALICE, f"0x{ALICE[2:].upper()}")):
        assert verdict_on(by_eip712(maker=maker, signer=signer)) is Verdict.VALID


# ----- profile ctf ---------------------------------------------------------------------------


def test_ctf_type_0_is_signed_by_the_maker_with_eip712(backend):
    assert verdict_on(by_eip712(signature_type=0), profile="ctf") is Verdict.VALID
    personal = by_personal_sign(signature_type=0)
    assert verdict_on(personal, profile="ctf") is Verdict.WRONG_SIGNER
    hooks = accepting_hooks()
    for_another = by_eip712(BOB_KEY, signer=BOB, signature_type=0)
    assert verdict_on(for_another, profile="ctf", **hooks) is Verdict.NOT_AUTHORISED
    assert not any(hook.calls for hook in hooks.values())


@pytest.mark.parametrize("kind", [1, 2])
def test_ctf_types_1_and_2_call_proxies(backend, kind):
    for order in (
        by_eip712(BOB_KEY, signer=BOB, signature_type=kind),
        by_eip712(signature_type=kind),
    ):
        assert verdict_on(order, profile="ctf") is Verdict.NOT_AUTHORISED
        others = {"delegates": RecordingHook(), "contracts": RecordingHook()}
        assert verdict_on(order, profile="ctf", **others) is Verdict.NOT_AUTHORISED
        assert not any(hook.calls for hook in others.values())
        for answer in (True, False):
            proxies = RecordingHook(answer)
            right = Verdict.VALID if answer else Verdict.NOT_AUTHORISED
            assert verdict_on(order, profile="ctf", proxies=proxies) is right
            assert proxies.calls == [(ALICE, order.signer, kind)] * 2
    personal = by_personal_sign(signature_type=kind)
    assert verdict_on(personal, profile="ctf", **accepting_hooks()) is Verdict.WRONG_SIGNER


def test_ctf_type_3_is_verified_by_the_contract_only(backend):
    order = by_eip712(signature_type=3)
    assert verdict_on(order, profile="ctf") is Verdict.CONTRACT_WALLET
    others = {"delegates": RecordingHook(), "proxies": RecordingHook()}
    assert verdict_on(order, profile="ctf", **others) is Verdict.CONTRACT_WALLET
    for answer in (True, False):
        contracts = RecordingHook(answer)
        right = Verdict.VALID if answer else Verdict.CONTRACT_WALLET
        assert verdict_on(order, profile="ctf", contracts=contracts) is right
        question = (ALICE, order_hash(order, DOMAIN), bytes.fromhex(order.signature[2:]))
        assert contracts.calls == [question] * 2


def test_ctf_type_3_with_another_signer_is_rejected(backend):
    order = by_eip712(BOB_KEY, signer=BOB, signature_type=3)
    assert verdict_on(order, profile="ctf") is Verdict.CONTRACT_WALLET
    hooks = accepting_hooks()
    assert verdict_on(order, profile="ctf", **hooks) is Verdict.NOT_AUTHORISED
    assert {question[0] for question in hooks["contracts"].calls} == {BOB}
    assert hooks["delegates"].calls == hooks["proxies"].calls == []


@pytest.mark.parametrize("kind", [4, 27, 255])
def test_ctf_rejects_other_types(backend, kind):
    hooks = accepting_hooks()
    verdict, error = verdict_and_error(by_eip712(signature_type=kind), profile="ctf", **hooks)
    assert verdict is Verdict.UNSUPPORTED_TYPE
    assert f"must be 0, 1, 2 or 3 in profile ctf; got {kind}" in str(error)
    assert not any(hook.calls for hook in hooks.values())


# ----- contract wallets ----------------------------------------------------------------------

LENGTHS = (0, 1, 20, 64, 65, 66, 130, 1000)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("profile", "kind"), [("spec", 0), ("spec", 1), ("ctf", 3)])
def test_a_contract_wallet_is_called_with_signatures_of_any_length(backend, profile, kind, length):
    blob = bytes(7 + at % 200 for at in range(length))
    order = replace(by_eip712(signature_type=kind), signature=f"0x{blob.hex()}")
    for answer in (True, False):
        contracts = RecordingHook(answer)
        verdict = verdict_on(order, profile=profile, contracts=contracts)
        assert (verdict is Verdict.VALID) is answer
        assert contracts.calls == [(ALICE, order_hash(order, DOMAIN), blob)] * 2


NO_BYTES = ("", "0x0", "0X00", "00", "0xgg", "0x00\n", "0x 00", None, b"", b"0x00", 5)


@pytest.mark.parametrize("signature", NO_BYTES, ids=repr)
def test_a_contract_wallet_is_not_called_with_invalid_hex(backend, signature):
    for kind, profile in ((1, "spec"), (3, "ctf")):
        contracts = RecordingHook()
        order = replace(by_eip712(signature_type=kind), signature=signature)
        assert verdict_on(order, profile=profile, contracts=contracts) is not Verdict.VALID
        assert contracts.calls == []


def test_a_contract_wallet_is_not_called_after_a_valid_signature(backend):
    contracts = RecordingHook(False)
    for order in (by_eip712(), by_personal_sign(signature_type=0)):
        assert verdict_on(order, contracts=contracts) is Verdict.VALID
    assert (
        verdict_on(by_eip712(BOB_KEY, signer=BOB), contracts=RecordingHook())
        is Verdict.NOT_AUTHORISED
    )
    assert contracts.calls == []


def test_a_contract_wallet_that_signs_for_another_must_be_allowed(backend):
    order = replace(by_eip712(signer=CAROL), signature="0x1234")
    contracts = RecordingHook()
    assert verdict_on(order) is Verdict.MALFORMED
    assert verdict_on(order, contracts=contracts) is Verdict.NOT_AUTHORISED
    assert {question[0] for question in contracts.calls} == {CAROL}
    for answer in (True, False):
        delegates = RecordingHook(answer)
        verdict = verdict_on(order, contracts=RecordingHook(), delegates=delegates)
        assert (verdict is Verdict.VALID) is answer
        assert delegates.calls == [(ALICE, CAROL)] * 2
    uncalled = RecordingHook()
    assert (
        verdict_on(order, contracts=RecordingHook(False), delegates=uncalled) is Verdict.MALFORMED
    )
    assert uncalled.calls == []


def test_a_contract_wallet_signs_messages_too(backend):
    message = SignedSetNonce(maker=ALICE, nonce=5, signature="0x12")
    contracts = RecordingHook()
    assert verdict_on(message) is Verdict.MALFORMED
    assert verdict_on(message, contracts=contracts) is Verdict.VALID
    assert contracts.calls == [(ALICE, order_hash(message, DOMAIN), b"\x12")] * 2
    signed_message = sign(replace(message, signature=""), DOMAIN, ALICE_KEY, profile="ctf")
    assert verdict_on(signed_message, profile="ctf") is Verdict.VALID


# ----- arguments and errors of hooks ---------------------------------------------------------


@pytest.mark.parametrize("written", [str.lower, lambda text: f"0x{text[2:].upper()}", str])
def test_hooks_get_checksummed_addresses(backend, written):
    maker, signer = written(ALICE), written(BOB)
    hooks = accepting_hooks()
    fields = {"maker": maker, "signer": signer}
    assert verdict_on(by_eip712(BOB_KEY, **fields), **hooks) is Verdict.VALID
    assert hooks["delegates"].calls == [(ALICE, BOB)] * 2
    proxied = by_eip712(BOB_KEY, **fields, signature_type=2)
    assert verdict_on(proxied, profile="ctf", **hooks) is Verdict.VALID
    assert hooks["proxies"].calls == [(ALICE, BOB, 2)] * 2
    contract = by_eip712(maker=maker, signer=maker, signature_type=3)
    assert verdict_on(contract, profile="ctf", **hooks) is Verdict.VALID
    assert [question[0] for question in hooks["contracts"].calls] == [ALICE] * 2


def test_errors_of_hooks_propagate(backend):
    def down(*_):
        raise ConnectionError("the chain is down")

    for options, order in (
        ({"delegates": down}, by_eip712(BOB_KEY, signer=BOB)),
        ({"contracts": down}, by_eip712(BOB_KEY)),
        ({"proxies": down, "profile": "ctf"}, by_eip712(BOB_KEY, signer=BOB)),
    ):
        for call, argument in ((verify, order), (verify_batch, [order])):
            with pytest.raises(ConnectionError, match="the chain is down"):
                call(argument, DOMAIN, **options)
