"""Decisions 16, 18 and 26: signed cancels, nonces and delegates."""

import json

import pytest

from clob.commands import Cancel, SetNonce
from clob.signing import (
    Domain,
    InvalidAddressError,
    InvalidFieldError,
    InvalidSignatureError,
    SignedCancel,
    SignedSetDelegate,
    SignedSetNonce,
    TimestampOutOfWindowError,
    Verdict,
    order_hash,
    recover_signer,
    secp,
    sign,
    typed_data,
    verify,
    verify_batch,
)
from tests.signing.helpers import (
    ALICE,
    BOB,
    RecordingHook,
    eth_account_digest,
    outcome,
    recovered_by_eth_account,
    replace,
)
from tests.signings import DOMAIN, EXCHANGE, KEYS

NOW = 1_700_000_000_000
TOP = 2**256 - 1
CANCEL = SignedCancel(maker=ALICE, order_id="ord_1700000000_abc123", timestamp_ms=NOW)
NONCE = SignedSetNonce(maker=ALICE, nonce=7)
DELEGATE = SignedSetDelegate(maker=ALICE, delegate=BOB, allowed=True, nonce=3)
MESSAGES = (
    CANCEL, NONCE, DELEGATE, replace(DELEGATE, allowed=False), replace(NONCE, nonce=TOP),
    replace(NONCE, nonce=0), replace(CANCEL, order_id="", timestamp_ms=0),
    replace(CANCEL, order_id="é😀" * 100), replace(CANCEL, order_id="0x" + "ab" * 32),
)  # fmt: skip
TYPES = {
    SignedCancel: "Cancel(string orderId,address maker,uint256 timestamp)",
    SignedSetNonce: "SetNonce(address maker,uint256 nonce)",
    SignedSetDelegate: "SetDelegate(address maker,address delegate,bool allowed,uint256 nonce)",
}
"""Type strings of the decisions."""


def signed(message, key=KEYS[0]):
    return sign(message, DOMAIN, key)


def verdict_on(message, domain=DOMAIN):
    """Verify alone and in a batch, which must agree; return the verdict."""
    (verdict,) = verify_batch([message], domain)
    if verdict:
        with pytest.raises(InvalidSignatureError) as caught:
            verify(message, domain)
        assert caught.value.verdict == verdict
    else:
        verify(message, domain)
    return Verdict(verdict)


# ----- types and hashes ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
def test_message_types_match_the_decisions(kind):
    assert kind.SCHEMA.type_string == TYPES[kind]


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
def test_hashes_of_messages_match_eth_account(backend, message):
    typed = typed_data(message, DOMAIN)
    digest = eth_account_digest(json.loads(json.dumps(typed)))
    assert order_hash(message, DOMAIN) == digest
    made = signed(message)
    assert recovered_by_eth_account(digest, made.signature) == ALICE
    assert recover_signer(made, DOMAIN) == ALICE
    for profile in ("spec", "ctf"):
        verify(made, DOMAIN, profile=profile)
        assert made == sign(message, DOMAIN, KEYS[0], profile=profile)


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
def test_messages_round_trip_through_json(backend, message):
    made = signed(message)
    written = json.loads(json.dumps(made.to_json()))
    assert list(written) == [*(field.name for field in message.SCHEMA.fields), "signature"]
    read = type(message).from_json(written)
    assert read == made
    assert order_hash(read, DOMAIN) == order_hash(message, DOMAIN)


def test_the_json_of_a_cancel_matches_the_decision(backend):
    """Unix milliseconds are a number or a string of digits."""
    written = CANCEL.to_json()
    assert written == {
        "orderId": "ord_1700000000_abc123", "maker": ALICE, "timestamp": NOW, "signature": "",
    }  # fmt: skip
    assert SignedCancel.from_json(written | {"timestamp": str(NOW)}) == CANCEL


WRONG = {
    SignedCancel: {
        "orderId": [None, 5, 1.5, True, [], b"x", "\ud800"],
        "maker": [None, 5, "", ALICE[2:], ALICE.swapcase(), ALICE + "\n"],
        "timestamp": [
            None, -1, 1.5, True, "", "1_000", " 5", "0x10", TOP + 1, str(TOP + 1), [], 10**5000,
        ],
    },
    SignedSetNonce: {
        "maker": [None, 5, "", ALICE[2:]],
        "nonce": [None, -1, 1.5, float("nan"), True, "", "+5", "\uff15", TOP + 1, {}, b"5"],
    },
    SignedSetDelegate: {
        "maker": [None, 5],
        "delegate": [None, 5, "", BOB[:-1], "0X" + BOB[2:]],
        "allowed": [None, 0, 1, "true", "false", "", 1.0, [], {}],
        "nonce": [None, -1, "x"],
    },
}  # fmt: skip


@pytest.mark.parametrize("message", [CANCEL, NONCE, DELEGATE], ids=lambda value: value.SCHEMA.name)
def test_invalid_fields_are_rejected_as_documented(backend, message):
    kind = type(message)
    for name, values in WRONG[kind].items():
        address = name in ("maker", "delegate")
        for value in values:
            rejection = InvalidAddressError if address and value is not None else InvalidFieldError
            result = outcome(kind.from_json, signed(message).to_json() | {name: value})
            assert result[:3] == (rejection, rejection.code, name), value


UNFIT = {
    "order_id": [None, 5, b"x", "\ud800", []],
    "timestamp_ms": [-1, TOP + 1, 1.5, True, None, "5"],
    "nonce": [-1, TOP + 1, 1.5, True, None, "5"],
    "allowed": [0, 1, None, "true", 1.0],
    "delegate": ["", None, 5, BOB[2:]],
    "maker": ["", None, 5, ALICE[2:]],
}


@pytest.mark.parametrize("message", [CANCEL, NONCE, DELEGATE], ids=lambda value: value.SCHEMA.name)
def test_constructed_values_that_do_not_fit_are_not_hashed(backend, message):
    for field in message.SCHEMA.fields:
        for value in UNFIT[field.attribute]:
            built = replace(signed(message), **{field.attribute: value})
            for call in (order_hash, verify):
                result = outcome(call, built, DOMAIN)
                assert result[:3] == (InvalidFieldError, "INVALID_FIELD", field.name), value
            assert verify_batch([built], DOMAIN) == bytes([Verdict.INVALID_FIELD])


# ----- validity of signatures ----------------------------------------------------------------

OTHER_DOMAINS = (
    Domain("clob", "1", 1, EXCHANGE),
    Domain("clob", "2", 31337, EXCHANGE),
    Domain("Clob", "1", 31337, EXCHANGE),
    Domain("clob", "1", 31337, BOB),
    Domain("clob", "1", 31337),
)


@pytest.mark.parametrize("message", [CANCEL, NONCE, DELEGATE], ids=lambda value: value.SCHEMA.name)
def test_a_signature_is_invalid_for_another_domain(backend, message):
    made = signed(message)
    assert verdict_on(made) is Verdict.VALID
    for domain in OTHER_DOMAINS:
        assert verdict_on(made, domain) is Verdict.WRONG_SIGNER


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (CANCEL, {"order_id": "ord_1700000000_abc124"}),
        (CANCEL, {"order_id": "ord_1700000000_abc123 "}),
        (CANCEL, {"maker": BOB}),
        (CANCEL, {"timestamp_ms": NOW + 1}),
        (NONCE, {"maker": BOB}),
        (NONCE, {"nonce": 8}),
        (DELEGATE, {"maker": BOB}),
        (DELEGATE, {"delegate": ALICE}),
        (DELEGATE, {"allowed": False}),
        (DELEGATE, {"nonce": 4}),
    ],
)
def test_a_signature_is_invalid_for_changed_fields(backend, message, changes):
    assert verdict_on(replace(signed(message), **changes)) is Verdict.WRONG_SIGNER


def test_a_delegate_cannot_sign_messages_for_the_maker(backend):
    """Only the maker allows delegates, raises its nonce and cancels."""
    for message in (CANCEL, NONCE, DELEGATE):
        delegates = RecordingHook()
        made = signed(message, KEYS[1])
        with pytest.raises(InvalidSignatureError) as caught:
            verify(made, DOMAIN, delegates=delegates)
        assert (caught.value.verdict, caught.value.recovered) == (Verdict.WRONG_SIGNER, BOB)
        assert (caught.value.expected, delegates.calls) == (ALICE, [])


def test_a_signature_is_invalid_for_another_kind_of_message(backend):
    nonce = signed(SignedSetNonce(maker=ALICE, nonce=NOW))
    cancel = replace(CANCEL, signature=nonce.signature)
    delegate = replace(DELEGATE, nonce=NOW, signature=nonce.signature)
    assert verdict_on(cancel) is verdict_on(delegate) is Verdict.WRONG_SIGNER
    assert len({secp.hash_struct(each) for each in (nonce, cancel, delegate)}) == 3


# ----- commands ------------------------------------------------------------------------------


def test_decision_26_a_cancel_outside_60_s_is_rejected(backend):
    for off in (0, 1, 59_999, 60_000):
        for now in (NOW - off, NOW + off):
            assert CANCEL.to_command(now) == Cancel(
                order_id=CANCEL.order_id, maker=ALICE, now_ms=now
            )
    for off in (60_001, 3_600_000, NOW):
        for now in (NOW - off, NOW + off):
            result = outcome(CANCEL.to_command, now)
            assert result[:3] == (TimestampOutOfWindowError, "TIMESTAMP_OUT_OF_WINDOW", "timestamp")
            assert str(NOW) in result[3]
            assert str(now) in result[3]


def test_window_and_market_of_a_cancel_are_arguments(backend):
    command = CANCEL.to_command(NOW + 5, market="m", window_ms=5)
    assert command == Cancel(market="m", order_id=CANCEL.order_id, maker=ALICE, now_ms=NOW + 5)
    assert outcome(CANCEL.to_command, NOW + 6, window_ms=5)[0] is TimestampOutOfWindowError
    assert outcome(CANCEL.to_command, NOW - 6, window_ms=5)[0] is TimestampOutOfWindowError
    assert CANCEL.to_command(NOW, window_ms=0).now_ms == NOW
    for far in (TOP, 2**64, 0):
        late = replace(CANCEL, timestamp_ms=far)
        assert outcome(late.to_command, NOW)[0] is TimestampOutOfWindowError


def test_decision_18_a_signed_nonce_becomes_the_command(backend):
    assert NONCE.to_command(NOW) == SetNonce(maker=ALICE, nonce=7, now_ms=NOW)


def test_addresses_in_commands_are_checksummed(backend):
    """The engine gets one spelling of an address for any spelling in the message."""
    for maker in (ALICE.lower(), f"0x{ALICE[2:].upper()}", ALICE):
        cancel = SignedCancel.from_json(CANCEL.to_json() | {"maker": maker})
        nonce = SignedSetNonce.from_json(NONCE.to_json() | {"maker": maker})
        assert cancel.to_command(NOW).maker == nonce.to_command(NOW).maker == ALICE
