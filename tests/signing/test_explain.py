"""``explain`` recognises each known mistake and guesses no others."""

from typing import ClassVar

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from clob import Side
from clob.signing import (
    KNOWN_DOMAINS,
    Domain,
    Field,
    InvalidDomainError,
    InvalidFieldError,
    Schema,
    Signed,
    SignedCancel,
    SignedSetNonce,
    Written,
    explain,
    fields,
    keccak256,
    order_hash,
    personal_hash,
    secp,
    sign,
)
from tests.signing import helpers
from tests.signing.helpers import ALICE, BOB, high_twin, replace
from tests.signings import DOMAIN, KEYS

pytestmark = pytest.mark.usefixtures("backend")

ALICE_KEY, BOB_KEY = KEYS[:2]
OTHER = Domain("clob", "1", 137, DOMAIN.verifying_contract)


@pytest.fixture
def order():
    """An unsigned order of Alice."""
    return helpers.order()


def signed_over(order, digest, key=ALICE_KEY):
    """Return the order with a signature of this digest."""
    signature = Account.unsafe_sign_hash(digest, key).signature
    return replace(order, signature=signature.to_0x_hex())


def explanation_of(order, domains=DOMAIN):
    """Return the text of an explanation that must recognise the signed digest."""
    explanation = explain(order, domains)
    assert explanation.found
    assert str(explanation) == explanation.text
    assert explanation.digest is not None
    return explanation.text


def test_a_valid_order_is_explained_as_signed_for_the_domain(order):
    explanation = explain(sign(order, DOMAIN, ALICE_KEY), DOMAIN)
    assert explanation.text == f"signed by {ALICE} for {DOMAIN}, by EIP-712"
    assert (explanation.domain, explanation.digest) == (DOMAIN, order_hash(order, DOMAIN))


@pytest.mark.parametrize("domain", [OTHER, *KNOWN_DOMAINS], ids=str)
def test_an_order_for_another_exchange_is_recognised(order, domain):
    explanation = explain(sign(order, domain, ALICE_KEY), [DOMAIN, OTHER])
    assert explanation.domain == domain
    assert explanation.text.startswith(f"signed by {ALICE} for {domain}, by EIP-712; another ")
    assert f"chain {domain.chain_id}, contract {domain.verifying_contract}" in explanation.text
    assert explanation.text.endswith(f"expected domain {DOMAIN}")


def test_personal_sign_of_bytes_and_of_text_are_distinguished(order):
    digest = order_hash(order, DOMAIN)
    as_text = f"0x{digest.hex()}"
    over_text = Account.sign_message(encode_defunct(text=as_text), ALICE_KEY).signature
    assert "by personal_sign of its hash" in explanation_of(
        signed_over(order, personal_hash(digest))
    )
    explanation = explanation_of(replace(order, signature=over_text.to_0x_hex()))
    assert "by personal_sign of its hash as text" in explanation


def test_a_signature_without_any_domain_is_recognised(order):
    struct = secp.hash_struct(order)
    for digest, how in (
        (struct, "the bare hash of the struct"),
        (personal_hash(struct), "personal_sign of the struct's hash"),
    ):
        explanation = explain(signed_over(order, digest), DOMAIN)
        assert explanation.domain is None
        assert explanation.text == f"signed by {ALICE} without any domain: {how}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"signature_type": 0}, "by EIP-712, but with signatureType 0"),
        ({"signature_type": 2}, "by EIP-712, but with signatureType 2"),
        ({"side": Side.SELL}, "by EIP-712, but with side SELL"),
        ({"salt": 0}, "by EIP-712, but with salt 0"),
    ],
    ids=str,
)
def test_a_field_changed_after_signing_is_named(order, change, words):
    signed = sign(replace(order, **change), DOMAIN, ALICE_KEY, profile="ctf")
    assert words in explanation_of(replace(order, signature=signed.signature))


@pytest.mark.parametrize("salt", [2**53 + 1, 2**60 + 77, 2**255 + 12345])
def test_a_salt_rounded_by_a_float_is_named(order, salt):
    as_float = int(salt + 0.0)
    signed = sign(replace(order, salt=as_float), DOMAIN, ALICE_KEY)
    posted = replace(order, salt=salt, signature=signed.signature)
    assert f"with salt {as_float}" in explanation_of(posted)


def test_exchanged_maker_and_signer_are_named(order):
    # Bob signs for Alice; the wallet used one of the addresses for both fields.
    for change, words in (
        ({"maker": BOB}, "with the signer as maker"),
        ({"signer": ALICE}, "with the maker as signer"),
    ):
        posted = replace(order, signer=BOB)
        key = BOB_KEY if "maker" in change else ALICE_KEY
        signed = sign(replace(posted, **change), DOMAIN, key)
        assert words in explanation_of(replace(posted, signature=signed.signature))


def test_messages_are_explained():
    for message in (
        SignedSetNonce(maker=ALICE, nonce=1),
        SignedCancel(order_id="ord_1", maker=ALICE, timestamp_ms=5),
    ):
        assert f"for {OTHER}" in explanation_of(sign(message, OTHER, ALICE_KEY), [DOMAIN, OTHER])
        assert not explain(sign(message, DOMAIN, BOB_KEY), DOMAIN).found


def test_an_unknown_mistake_is_not_guessed(order):
    for posted in (
        sign(order, DOMAIN, BOB_KEY),
        replace(sign(order, DOMAIN, ALICE_KEY), maker_amount=order.maker_amount ^ 1),
        signed_over(order, keccak256(b"something else")),
    ):
        explanation = explain(posted, DOMAIN)
        assert (explanation.found, explanation.domain, explanation.digest) == (False, None, None)
        assert "a field changed after signing, or another key signed" in explanation.text
        assert "JavaScript" not in explanation.text


def test_a_salt_that_looks_rounded_is_mentioned(order):
    """clob-client posts 17 digits of the salt, so the others are lost."""
    lost = sign(replace(order, salt=2**200 + 3), DOMAIN, ALICE_KEY)
    posted = replace(order, salt=16069380442589902 * 10**44, signature=lost.signature)
    assert "The salt seems rounded by a JavaScript number" in explain(posted, DOMAIN).text


@pytest.mark.parametrize(
    ("signature", "words"),
    [("", "0x and 130 hex digits"), ("0x" + "00" * 65, "r and s of the signature must be above 0")],
)
def test_a_malformed_signature_is_described(order, signature, words):
    explanation = explain(replace(order, signature=signature), DOMAIN)
    assert not explanation.found
    assert words in explanation.text
    high = replace(order, signature=high_twin(sign(order, DOMAIN, ALICE_KEY).signature))
    assert "s must be at most half the order of the curve" in explain(high, DOMAIN).text


@pytest.mark.parametrize(("field", "value"), [("maker", None), ("signer", 5), ("nonce", "x")])
def test_explain_names_a_field_that_cannot_be_hashed(order, field, value):
    broken = replace(sign(order, DOMAIN, ALICE_KEY), **{field: value})
    with pytest.raises(InvalidFieldError, match=f"{field} must fit"):
        explain(broken, DOMAIN)


def test_explain_without_a_domain_raises(order):
    with pytest.raises(InvalidDomainError):
        explain(sign(order, DOMAIN, ALICE_KEY), [])


class Receipt(Signed, frozen=True, kw_only=True):
    """A struct with a text as salt and with other names for maker and signer."""

    SCHEMA: ClassVar[Schema] = Schema(
        "Receipt",
        (
            Field("salt", "bytes32", "salt", fields.word, Written.HEX),
            Field("holder", "address", "holder", fields.address, Written.AS_IT_IS),
            Field("agent", "address", "agent", fields.address, Written.AS_IT_IS),
        ),
        owner="holder",
        signer="agent",
    )
    salt: bytes
    holder: str
    agent: str


def test_another_struct_is_explained_with_its_own_field_names():
    receipt = Receipt(salt=bytes(32), holder=ALICE, agent=BOB)
    assert f"for {OTHER}" in explanation_of(sign(receipt, OTHER, BOB_KEY), [DOMAIN, OTHER])
    swapped = sign(replace(receipt, agent=ALICE), DOMAIN, ALICE_KEY)
    posted = replace(receipt, signature=swapped.signature)
    assert "with the holder as signer" in explanation_of(posted)
    assert not explain(sign(receipt, DOMAIN, KEYS[2]), DOMAIN).found


# ----- the commonest mistakes ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "apart"),
    [
        (Domain("Polymarket CTF Exchange", "1", 31337, DOMAIN.verifying_contract), "name"),
        (
            Domain("Polymarket CTF Exchange", "1", 80002, DOMAIN.verifying_contract),
            "name and chain",
        ),
        (Domain("CLOB", "1", 31337, DOMAIN.verifying_contract), "name"),
        (Domain("clob", "2", 31337, DOMAIN.verifying_contract), "version"),
        (Domain("clob", "1", 31337), "verifyingContract"),
        (Domain("clob", "1", 31337, f"0x{0:040x}"), "verifyingContract"),
        *(
            (Domain("clob", "1", chain_id, DOMAIN.verifying_contract), "chainId")
            for chain_id in (1, 137, 80002, 8453, 56, 97, 42161, 10, 11155111, 1337)
        ),
    ],
    ids=str,
)
def test_a_domain_that_resembles_ours_is_recognised(order, domain, apart):
    explanation = explain(sign(order, domain, ALICE_KEY), DOMAIN)
    assert explanation.domain == domain
    assert f"; another {apart}" in explanation.text


@pytest.mark.parametrize(
    ("digest_of", "words"),
    [
        (lambda digest: personal_hash(personal_hash(digest)), "applied twice"),
        (keccak256, "hashed twice"),
        (lambda digest: keccak256(b"0x" + digest.hex().encode()), "Keccak-256 of its hash as text"),
    ],
)
def test_a_hash_that_was_hashed_again_is_recognised(order, digest_of, words):
    assert words in explanation_of(signed_over(order, digest_of(order_hash(order, DOMAIN))))


def test_personal_sign_of_the_hash_without_0x_is_recognised(order):
    text = order_hash(order, DOMAIN).hex()
    signature = Account.sign_message(encode_defunct(text=text), ALICE_KEY).signature
    posted = replace(order, signature=signature.to_0x_hex())
    assert "as text without 0x" in explanation_of(posted)


def test_small_integers_typed_as_uint256_are_recognised(order):
    kinds = secp.keccak256(type(order).SCHEMA.type_string.replace("uint8", "uint256").encode())
    assert kinds != type(order).SCHEMA.type_hash
    wide = Schema(
        "Order",
        tuple(
            replace(field, type="uint256") if field.type == "uint8" else field
            for field in type(order).SCHEMA.fields
        ),
    )
    assert wide.type_hash == kinds
    digest = keccak256(b"\x19\x01" + DOMAIN.separator + wide.hash_of(order))
    words = "side and signatureType typed uint256"
    assert words in explanation_of(signed_over(order, digest))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expiration_s": 0}, "with expiration 0"),
        ({"expiration_s": 2_000_000_000_000}, "with expiration 2000000000000"),
        ({"nonce": 0}, "with nonce 0"),
        ({"fee_rate_bps": 0}, "with feeRateBps 0"),
    ],
    ids=str,
)
def test_a_term_in_another_unit_is_named(order, change, words):
    order = replace(order, expiration_s=2_000_000_000, nonce=7, fee_rate_bps=30)
    signed = sign(replace(order, **change), DOMAIN, ALICE_KEY)
    assert words in explanation_of(replace(order, signature=signed.signature))


def test_exchanged_and_small_amounts_are_named(order):
    order = replace(order, maker_amount=30 * 10**18, taker_amount=60 * 10**18)
    for change, words in (
        ({"maker_amount": 60 * 10**18, "taker_amount": 30 * 10**18}, "exchanged"),
        ({"maker_amount": 30 * 10**6, "taker_amount": 60 * 10**6}, "six decimals"),
    ):
        signed = sign(replace(order, **change), DOMAIN, ALICE_KEY)
        assert words in explanation_of(replace(order, signature=signed.signature))


def test_a_signature_in_another_form_is_repaired(order):
    right = sign(order, DOMAIN, ALICE_KEY).signature
    v = int(right[130:], 16)
    s = f"{int(right[66:68], 16) | (v - 27) << 7:02x}{right[68:130]}"
    for given, words in {
        right[2:]: "it must begin with 0x",
        right[:130]: "v, is missing and must be",
        f"{right[:130]}{v - 27 + 35:02x}": "v has the form of a transaction",
        f"{right[:66]}{s}": "EIP-2098" if v == 28 else "v, is missing",
    }.items():
        explanation = explain(replace(order, signature=given), DOMAIN)
        assert not explanation.found
        assert words in explanation.text
        assert right in explanation.text
