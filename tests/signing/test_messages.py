"""Decisions 16, 18 and 26: signed cancels, reductions, nonces and delegates."""

import json

import pytest

from clob.commands import Cancel, CancelSome, Reduce, SetNonce
from clob.errors import InvalidAmountError, InvalidSideError
from clob.order import Side
from clob.signing import (
    Domain,
    InvalidAddressError,
    InvalidFieldError,
    InvalidSignatureError,
    SignedCancel,
    SignedCancelAll,
    SignedReduce,
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
CANCEL_ALL = SignedCancelAll(maker=ALICE, market_id="rain", side=1, timestamp_ms=NOW)
REDUCE = SignedReduce(order_id="ord_1", maker=ALICE, remaining=5 * 10**18, timestamp_ms=NOW)
ONE_OF_EACH = (CANCEL, CANCEL_ALL, REDUCE, NONCE, DELEGATE)
MESSAGES = (
    CANCEL_ALL, SignedCancelAll(maker=ALICE, timestamp_ms=TOP), REDUCE,
    SignedCancelAll(maker=ALICE, market_id="é😀", token_id=str(TOP), side=0, timestamp_ms=0),
    replace(REDUCE, order_id="client:é", remaining=TOP),
    CANCEL, NONCE, DELEGATE, replace(DELEGATE, allowed=False), replace(NONCE, nonce=TOP),
    replace(NONCE, nonce=0), replace(CANCEL, order_id="", timestamp_ms=0),
    replace(CANCEL, order_id="é😀" * 100), replace(CANCEL, order_id="0x" + "ab" * 32),
)  # fmt: skip
TYPES = {
    SignedCancel: "Cancel(string orderId,address maker,uint256 timestamp)",
    SignedCancelAll: (
        "CancelAll(address maker,string marketId,string tokenId,uint8 side,uint256 timestamp)"
    ),
    SignedReduce: "Reduce(string orderId,address maker,uint256 remaining,uint256 timestamp)",
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
    SignedCancelAll: {
        "maker": [None, 5, "", ALICE[2:]],
        "marketId": [5, 1.5, True, [], "\ud800"],
        "tokenId": [5, 1.5, True, {}, "\ud800"],
        "side": [-1, 3, 2.0, True, "", "buy", "3", []],
        "timestamp": [None, -1, 1.5, True, "", TOP + 1],
    },
    SignedReduce: {
        "orderId": [None, 5, "\ud800"],
        "maker": [None, 5],
        "remaining": [None, -1, 1.5, True, "", " 5"],
        "timestamp": [None, -1, 1.5],
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


OWN_ERRORS = {
    "maker": InvalidAddressError,
    "delegate": InvalidAddressError,
    "side": InvalidSideError,
    "remaining": InvalidAmountError,
}
"""Errors of invalid fields other than ``InvalidFieldError``."""


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=lambda value: value.SCHEMA.name)
def test_invalid_fields_are_rejected_as_documented(backend, message):
    kind = type(message)
    for name, values in WRONG[kind].items():
        for value in values:
            rejection = (
                InvalidFieldError if value is None else OWN_ERRORS.get(name, InvalidFieldError)
            )
            result = outcome(kind.from_json, signed(message).to_json() | {name: value})
            assert result[:3] == (rejection, rejection.code, name), value


UNFIT = {
    "market_id": [None, 5, "\ud800"],
    "token_id": [None, 5, b"5"],
    "side": [-1, 256, True, None, "BUY"],
    "remaining": [-1, TOP + 1, 1.5, None],
    "order_id": [None, 5, b"x", "\ud800", []],
    "timestamp_ms": [-1, TOP + 1, 1.5, True, None, "5"],
    "nonce": [-1, TOP + 1, 1.5, True, None, "5"],
    "allowed": [0, 1, None, "true", 1.0],
    "delegate": ["", None, 5, BOB[2:]],
    "maker": ["", None, 5, ALICE[2:]],
}


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=lambda value: value.SCHEMA.name)
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


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=lambda value: value.SCHEMA.name)
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
        (CANCEL_ALL, {"maker": BOB}),
        (CANCEL_ALL, {"market_id": ""}),
        (CANCEL_ALL, {"token_id": "rain", "market_id": ""}),
        (CANCEL_ALL, {"side": 2}),
        (CANCEL_ALL, {"timestamp_ms": NOW + 1}),
        (REDUCE, {"order_id": "ord_2"}),
        (REDUCE, {"remaining": 6 * 10**18}),
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
    for message in ONE_OF_EACH:
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


def test_a_cancel_of_all_reaches_no_order_accepted_after_its_timestamp(backend):
    expected = CancelSome(
        maker=ALICE, market="rain", side=Side.SELL, accepted_until_ms=NOW, now_ms=NOW + 1
    )
    assert CANCEL_ALL.to_command(NOW + 1) == expected
    assert CANCEL_ALL.to_command(NOW + 60_000).accepted_until_ms == NOW
    everything = SignedCancelAll(maker=ALICE, timestamp_ms=NOW).to_command(NOW + 1)
    assert everything == CancelSome(maker=ALICE, accepted_until_ms=NOW, now_ms=NOW + 1)
    # At its own time or before it, orders could still be accepted until the timestamp.
    for now in (NOW - 60_001, NOW - 1, NOW, NOW + 60_001):
        result = outcome(CANCEL_ALL.to_command, now)
        assert result[:3] == (TimestampOutOfWindowError, "TIMESTAMP_OUT_OF_WINDOW", "timestamp")
        assert str(NOW) in result[3]
        assert str(now) in result[3]
    assert outcome(replace(CANCEL_ALL, side=3).to_command, NOW + 1)[1] == "INVALID_SIDE"


def test_a_cancel_of_all_takes_absent_filters_as_any_and_sides_by_name(backend):
    read = SignedCancelAll.from_json({"maker": ALICE, "timestamp": NOW})
    assert (read.market_id, read.token_id, read.side) == ("", "", 2)
    for number, name in enumerate(("BUY", "SELL", "BOTH")):
        for side in (name, number, str(number)):
            assert SignedCancelAll.from_json(CANCEL_ALL.to_json() | {"side": side}).side == number


def test_a_signed_reduction_becomes_the_command(backend):
    assert REDUCE.to_command(NOW - 60_000, market="m") == Reduce(
        market="m", order_id="ord_1", size=5 * 10**18, maker=ALICE, now_ms=NOW - 60_000
    )
    assert outcome(REDUCE.to_command, NOW + 60_001)[0] is TimestampOutOfWindowError


def test_decision_18_a_signed_nonce_becomes_the_command(backend):
    assert NONCE.to_command(NOW) == SetNonce(maker=ALICE, nonce=7, now_ms=NOW)


def test_addresses_in_commands_are_checksummed(backend):
    """The engine gets one spelling of an address for any spelling in the message."""
    for maker in (ALICE.lower(), f"0x{ALICE[2:].upper()}", ALICE):
        cancel = SignedCancel.from_json(CANCEL.to_json() | {"maker": maker})
        nonce = SignedSetNonce.from_json(NONCE.to_json() | {"maker": maker})
        assert cancel.to_command(NOW).maker == nonce.to_command(NOW).maker == ALICE
