"""Hostile signatures, salts and field limits: decisions 11 and 15."""

import random  # noqa: TID251 - seeded, and outside the engine

import pytest
from eth_account import Account
from hypothesis import example, given
from hypothesis import strategies as st

from clob.errors import AmountTooLargeError
from clob.signing import (
    InvalidAddressError,
    InvalidFieldError,
    InvalidSignatureError,
    SignedOrder,
    Verdict,
    order_hash,
    personal_hash,
    recover,
    recover_signer,
    salt_number,
    verify,
    verify_batch,
)
from tests.signing.helpers import (
    ALICE,
    CURVE,
    high_twin,
    joined,
    order,
    outcome,
    parts,
    reference_keccak,
    replace,
    signed,
)
from tests.signings import DOMAIN

FIELD = 2**256 - 2**32 - 977
"""The prime of the field of secp256k1, from SEC 2."""

TOP = 2**256 - 1
ORDER = signed()
DIGEST = order_hash(ORDER, DOMAIN)
R, S, V = parts(ORDER.signature)
GOOD = ORDER.signature


def on_curve(x):
    """Return whether a point of y^2 = x^3 + 7 has this x (Euler's criterion)."""
    return pow(x**3 + 7, (FIELD - 1) // 2, FIELD) == 1


OFF_CURVE = next(x for x in range(1, 100) if not on_curve(x))
MALFORMED = {
    "empty": "", "0x": "0x", "no prefix": GOOD[2:], "0X": "0X" + GOOD[2:], "odd": GOOD[:-1],
    "odd, longer": GOOD + "0", "63 bytes": GOOD[:128], "64 bytes": GOOD[:130],
    "66 bytes": GOOD + "00", "130 bytes": GOOD + GOOD[2:], "newline after": GOOD + "\n",
    "newline before": "\n" + GOOD, "space after": GOOD + " ", "space before": " " + GOOD,
    "space within": f"{GOOD[:66]} {GOOD[66:]}", "space for a digit": f"{GOOD[:66]} {GOOD[67:]}",
    "spaces for a byte": f"{GOOD[:66]}  {GOOD[68:]}", "no digit": GOOD[:-1] + "g",
    "full-width": f"{GOOD[:-1]}\uff11", "Arabic": f"{GOOD[:-1]}\u0661", "null": GOOD[:-1] + "\0",
    "underscore": f"{GOOD[:66]}_{GOOD[67:]}", "surrogate": f"{GOOD[:-1]}\ud800",
    "two prefixes": "0x0x" + GOOD[4:], "minus": "-0x" + GOOD[3:], "long": GOOD + "0" * 10**6,
    "a text of 132 letters": "x" * 132, "6492": GOOD + "6492" * 16,
}  # fmt: skip
NOT_STRINGS = (
    None,
    5,
    True,
    1.5,
    [],
    {},
    GOOD.encode(),
    bytearray(GOOD.encode()),
    type("T", (str,), {})(GOOD),
)


def rejected(signature):
    """Return the verdict on a signature of the order; all functions must agree on it."""
    order = replace(ORDER, signature=signature)
    (verdict,) = verify_batch([order], DOMAIN)
    for call in (lambda: recover(DIGEST, signature), lambda: recover_signer(order, DOMAIN),
                 lambda: verify(order, DOMAIN)):  # fmt: skip
        with pytest.raises(InvalidSignatureError) as caught:
            call()
        error = caught.value
        assert (error.code, error.path) == ("INVALID_SIGNATURE", "signature")
        assert (error.verdict, error.digest, error.recovered) == (verdict, DIGEST, None)
        assert len(str(error)) < 600
    return Verdict(verdict)


# ----- signatures ----------------------------------------------------------------------------


def test_the_base_signature_is_valid(backend):
    assert recover(DIGEST, GOOD) == ALICE == Account._recover_hash(DIGEST, signature=GOOD)
    assert verify_batch([ORDER], DOMAIN) == b"\0"
    # Upper-case digits are the same number.
    assert recover(DIGEST, "0x" + GOOD[2:].upper()) == ALICE


@pytest.mark.parametrize("name", MALFORMED)
def test_other_texts_than_0x_and_130_hex_digits_are_malformed(backend, name):
    assert rejected(MALFORMED[name]) is Verdict.MALFORMED


@pytest.mark.parametrize("signature", NOT_STRINGS, ids=lambda value: type(value).__name__)
def test_signatures_of_other_types_are_malformed(backend, signature):
    assert rejected(signature) is Verdict.MALFORMED


def test_only_four_values_of_v_are_accepted(backend):
    for v in range(256):
        signature = joined(R, S, v)
        if v not in (0, 1, 27, 28):
            assert rejected(signature) is Verdict.INVALID_V
            continue
        right = v in (V, V - 27)
        assert (recover(DIGEST, signature) == ALICE) is right
        verdict = Verdict.VALID if right else Verdict.WRONG_SIGNER
        assert verify_batch([replace(ORDER, signature=signature)], DOMAIN) == bytes([verdict])


@pytest.mark.parametrize("bad", [0, CURVE, CURVE + 1, 2**256 - 1])
def test_r_and_s_of_0_or_beyond_n_are_rejected(backend, bad):
    assert rejected(joined(bad, S, V)) is Verdict.INVALID_R_OR_S
    assert rejected(joined(R, bad, V)) is Verdict.INVALID_R_OR_S
    assert rejected(joined(bad, bad, V)) is Verdict.INVALID_R_OR_S


def test_s_is_low_up_to_half_the_order_of_the_curve(backend):
    half = CURVE // 2
    for s in (1, 2, half - 1, half):
        for v in (0, 1, 27, 28):
            signature = joined(R, s, v)
            assert recover(DIGEST, signature) == Account._recover_hash(DIGEST, signature=signature)
    for s in (half + 1, half + 2, 2**255, CURVE - 1):
        assert rejected(joined(R, s, V)) is Verdict.HIGH_S


def test_r_must_be_the_x_of_a_point(backend):
    for r in range(1, 60):
        result = outcome(recover, DIGEST, joined(r, S, 27))
        assert isinstance(result, str) is on_curve(r), r
        if not isinstance(result, str):
            assert rejected(joined(r, S, 27)) is Verdict.NOT_RECOVERABLE
    assert rejected(joined(OFF_CURVE, S, 28)) is Verdict.NOT_RECOVERABLE


def without_key(digest):
    """Return a signature of a digest whose public key would be the point at infinity.

    The key is (s * R - digest * G) / r, which is infinity if R = G and s = digest. G has an even
    y, that is parity 0; -G with n - s is equivalent, and one of the two has a low s.
    """
    g = 0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798
    s = int.from_bytes(digest) % CURVE
    return joined(g, s, 27) if s <= CURVE // 2 else joined(g, CURVE - s, 28)


def test_a_key_at_infinity_is_not_recoverable(backend):
    assert rejected(without_key(DIGEST)) is Verdict.NOT_RECOVERABLE


def test_one_recoverable_digest_of_two_is_a_wrong_signer(backend):
    """No key has signed one of the digests, but some key has signed the other."""
    signed_by_either = order(signature_type=0)
    digest = order_hash(signed_by_either, DOMAIN)
    for each in (digest, personal_hash(digest)):
        assert outcome(recover, each, without_key(each))[0] is InvalidSignatureError
        unsigned_order = replace(signed_by_either, signature=without_key(each))
        assert verify_batch([unsigned_order], DOMAIN) == bytes([Verdict.WRONG_SIGNER])
        with pytest.raises(InvalidSignatureError) as caught:
            verify(unsigned_order, DOMAIN)
        assert caught.value.verdict is Verdict.WRONG_SIGNER


def test_checks_run_in_the_order_of_the_verdicts(backend):
    assert rejected(joined(0, CURVE - 1, 29)) is Verdict.INVALID_V
    assert rejected(joined(0, CURVE - 1, V)) is Verdict.INVALID_R_OR_S
    assert rejected(joined(OFF_CURVE, CURVE - 1, V)) is Verdict.HIGH_S
    assert rejected("0x" + "f" * 130) is Verdict.INVALID_V
    assert rejected("0x" + "0" * 130) is Verdict.INVALID_R_OR_S


@pytest.mark.parametrize("v", [0, 1, 27, 28])
def test_a_rejection_of_a_high_s_contains_the_low_s_signature(backend, v):
    high = high_twin(joined(R, S, v if v > 1 else v + 27))
    high = high[:130] + (high[130:] if v > 1 else f"{int(high[130:], 16) - 27:02x}")
    with pytest.raises(InvalidSignatureError) as caught:
        recover(DIGEST, high)
    assert caught.value.verdict is Verdict.HIGH_S
    (named,) = {word.strip(";,.") for word in str(caught.value).split() if word.startswith("0x")}
    assert parts(named)[:2] == (R, S)
    # eth-account accepts a high s and recovers the same address.
    assert recover(DIGEST, named) == Account._recover_hash(DIGEST, signature=high)
    if v in (V, V - 27):
        verify(replace(ORDER, signature=named), DOMAIN)


def test_any_text_recovers_an_address_or_is_rejected(backend):
    digits = st.text("0123456789abcdefABCDEF", min_size=130, max_size=130)

    @given(
        st.text(max_size=140)
        | digits.map("0x{}".format)
        | st.from_regex(r"\A0x[0-9a-f]{60,132}\s?\Z")
    )
    @example("0x" + "0" * 130)
    def check_text(signature):
        result = outcome(recover, DIGEST, signature)
        if isinstance(result, str):
            assert result == Account._recover_hash(DIGEST, signature=signature)
            (verdict,) = verify_batch([replace(ORDER, signature=signature)], DOMAIN)
            assert verdict == Verdict.WRONG_SIGNER
        else:
            rejected(signature)

    check_text()


def test_random_r_and_s_recover_an_address_or_are_rejected(backend):
    rng = random.Random(130)
    seen = set()
    for _ in range(400):
        r, s = (
            rng.choice((R, rng.getrandbits(256))),
            rng.getrandbits(rng.choice((8, 254, 255, 256))),
        )
        signature = joined(r, s, rng.choice((0, 1, 27, 28)))
        result = outcome(recover, DIGEST, signature)
        seen.add(type(result))
        if isinstance(result, str):
            assert result == Account._recover_hash(DIGEST, signature=signature)
        else:
            rejected(signature)
    assert seen == {str, tuple}


INVALID_DIGESTS = (None, "", DIGEST[:31], DIGEST + b"\0", DIGEST.hex(), bytearray(DIGEST))


@pytest.mark.parametrize("digest", INVALID_DIGESTS, ids=range(len(INVALID_DIGESTS)))
def test_recover_requires_32_bytes(backend, digest):
    with pytest.raises(InvalidFieldError, match="digest must be 32 bytes"):
        recover(digest, GOOD)


@pytest.mark.parametrize("digest", INVALID_DIGESTS, ids=range(len(INVALID_DIGESTS)))
def test_personal_hash_requires_32_bytes(backend, digest):
    with pytest.raises(InvalidFieldError, match="digest must be 32 bytes"):
        personal_hash(digest)


# ----- salts ---------------------------------------------------------------------------------


def hash_number(text):
    return int.from_bytes(reference_keccak(text.encode()))


SALTS = [
    (2**53 - 1, 2**53 - 1), (2**53, 2**53), (str(2**53 - 1), 2**53 - 1), (str(2**53), 2**53),
    ("0" + str(2**53), 2**53), (0, 0), (5, 5), (TOP, TOP), ("0", 0),
    ("007", 7), (str(TOP), TOP), ("0x0", 0), ("0xfF", 255),
    ("0x" + "f" * 64, TOP), ("0" * 78, 0),
    # Numbers beyond 256 bits and other spellings are hashed as text.
    *((text, hash_number(text)) for text in (
        str(TOP + 1), "9" * 78, "0x" + "f" * 65, "0x1" + "0" * 64, "0x", "0xg", "0XFF", "", " ",
        " 5", "5 ", "5\n", "+5", "-5", "1_000", "1e3", "1.0", "0b1", "\u0665", "\uff15",
        "1700000000-x7", "0xff\n", "é", "😀" * 256, "x" * 256, "\0",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("salt", "number"), SALTS, ids=range(len(SALTS)))
def test_decision_11_number_of_a_salt(backend, salt, number):
    """Decimal or 0x-hex text or integer within uint256: that number. Any other text:
    uint256(keccak256(utf-8)). The original is echoed."""
    data = ORDER.to_json() | {"salt": salt}
    read = SignedOrder.from_json(data)
    echoed = read.to_json()["salt"]
    large = type(salt) is int and salt >= 2**53
    # JavaScript would round a number beyond 2**53 - 1, so it is echoed as a string.
    assert echoed == (str(salt) if large else salt)
    assert type(echoed) is (str if large else type(salt))
    assert SignedOrder.from_json(read.to_json()) == read
    assert salt_number(salt) == number
    assert order_hash(read, DOMAIN) == order_hash(order(salt=number), DOMAIN)


def test_decision_11_an_absent_salt_is_0(backend):
    data = ORDER.to_json()
    del data["salt"]
    assert order_hash(SignedOrder.from_json(data), DOMAIN) == order_hash(order(salt=0), DOMAIN)


@pytest.mark.parametrize(
    "salt", [TOP + 1, -1, 1.0, True, "x" * 257, "\ud800", [], b"5"], ids=range(8)
)
def test_invalid_salts_are_rejected(backend, salt):
    result = outcome(SignedOrder.from_json, ORDER.to_json() | {"salt": salt})
    assert result[:3] == (InvalidFieldError, "INVALID_FIELD", "salt")


# ----- edges of the types --------------------------------------------------------------------

WIDE = {
    "token_id": "tokenId", "maker_amount": "makerAmount", "taker_amount": "takerAmount",
    "expiration_s": "expiration", "nonce": "nonce", "fee_rate_bps": "feeRateBps", "salt": "salt",
}  # fmt: skip
NARROW = {"side": "side", "signature_type": "signatureType"}
LARGEST = [*((each, TOP) for each in WIDE.items()), *((each, 255) for each in NARROW.items())]


@pytest.mark.parametrize(("names", "largest"), LARGEST)
def test_the_largest_value_of_a_type_is_signed_and_the_next_rejected(backend, names, largest):
    attribute, name = names
    top = signed(**{attribute: largest})
    assert recover_signer(top, DOMAIN) == ALICE
    assert getattr(SignedOrder.from_json(top.to_json()), attribute) == largest
    for beyond in (largest + 1, str(largest + 1)):
        if name == "salt" and type(beyond) is str:
            continue  # a text that is no number in range is a text: decision 11
        result = outcome(SignedOrder.from_json, top.to_json() | {name: beyond})
        assert result[2] == name
        assert (result[0] is AmountTooLargeError) is name.endswith("Amount")


UNFIT = [-1, TOP + 1, 1.0, True, None, b"", [], "", "5", "0x5", "1_000", "\ud800", 10**5000]


@pytest.mark.parametrize("name", [*WIDE, *NARROW])
def test_a_constructed_value_that_does_not_fit_is_not_hashed(backend, name):
    """Strings are no numbers here, even if ``int`` accepts them; a salt may be a string."""
    for value in UNFIT:
        if name == "salt" and type(value) is str and value != "\ud800":
            continue
        built = replace(ORDER, **{name: value})
        for call in (order_hash, recover_signer, verify):
            result = outcome(call, built, DOMAIN)
            field = (WIDE | NARROW)[name]
            assert result[:3] == (InvalidFieldError, "INVALID_FIELD", field), (value, call)
        assert verify_batch([built], DOMAIN) == bytes([Verdict.INVALID_FIELD])


@pytest.mark.parametrize("name", ["maker", "signer", "taker"])
def test_a_constructed_invalid_address_is_not_hashed(backend, name):
    for value in (
        "",
        "0x",
        ALICE[:-1],
        ALICE + "0",
        ALICE[2:],
        ALICE + "\n",
        None,
        5,
        ALICE.encode(),
    ):
        built = replace(ORDER, **{name: value})
        for call in (order_hash, verify):
            result = outcome(call, built, DOMAIN)
            assert result[0] in (InvalidFieldError, InvalidAddressError), (value, call)
            assert result[2] == name
        assert verify_batch([built], DOMAIN) == bytes([Verdict.INVALID_FIELD])
