"""Fuzzed reading of signed structs from JSON: the documented value or rejection."""

import json
import string

import pytest
from eth_utils import to_checksum_address
from hypothesis import example, given
from hypothesis import strategies as st

from clob import Side
from clob.errors import AmountTooLargeError, InvalidAmountError, InvalidSideError
from clob.signing import (
    InvalidAddressError,
    InvalidFieldError,
    InvalidSignatureError,
    SignedCancel,
    SignedCancelAll,
    SignedOrder,
    SignedReduce,
    SignedSetNonce,
    Verdict,
    _secp_py,
    fields,
    secp,
)
from clob.signing.signed_struct import cached_checksum, read_address
from tests.signing.helpers import ALICE, BOB, outcome, replace, signed
from tests.signings import DOMAIN

TOP = 2**256 - 1
GOOD = signed(taker=BOB, expiration_s=2**31, nonce=3, fee_rate_bps=100, salt=5).to_json()
"""All thirteen fields with values other than the defaults."""


class Text(str):
    """A subclass of str."""


class Number(int):
    """A subclass of int."""


class WithoutRepr:
    """A value whose repr raises."""

    def __repr__(self):
        raise RuntimeError("no")


# ----- independent implementation of the rules -----------------------------------------------


def number_of(value):
    """Return an integer of 0 or more, or the number in 1 to 78 ASCII digits; else None."""
    if type(value) is str and 1 <= len(value) <= 78 and not set(value) - set(string.digits):
        return int(value)
    return value if type(value) is int and value >= 0 else None


def uint(largest, wrong=InvalidFieldError, too_large=InvalidFieldError):
    def rule(value):
        number = number_of(value)
        if number is None:
            return wrong
        return too_large if number > largest else number

    return rule


def address(value):
    if type(value) is not str or value[:2] != "0x" or len(value) != 42:
        return InvalidAddressError
    digits = value[2:]
    if set(digits) - set(string.hexdigits):
        return InvalidAddressError
    right = to_checksum_address(value.lower())
    return right if digits in (digits.lower(), digits.upper(), right[2:]) else InvalidAddressError


def salt(value):
    if type(value) is not str:
        return uint(TOP)(value)
    if number_of(value) is not None and str(number_of(value)) == value:
        # A number beyond 2**53 - 1, which JavaScript would round, becomes an int.
        return int(value) if 2**53 <= int(value) <= TOP else value
    whole = not any("\ud800" <= character <= "\udfff" for character in value)
    return value if whole and len(value) <= 256 else InvalidFieldError


def side(value):
    named = {"BUY": 0, "SELL": 1}.get(value) if type(value) is str else None
    return uint(255, InvalidSideError, InvalidSideError)(value) if named is None else named


amount = uint(TOP, InvalidAmountError, AmountTooLargeError)
RULES = {
    "salt": ("salt", salt, 0),
    "maker": ("maker", address, InvalidFieldError),
    "signer": ("signer", address, "maker"),
    "taker": ("taker", address, f"0x{0:040x}"),
    "tokenId": ("token_id", uint(TOP), InvalidFieldError),
    "makerAmount": ("maker_amount", amount, InvalidFieldError),
    "takerAmount": ("taker_amount", amount, InvalidFieldError),
    "expiration": ("expiration_s", uint(TOP), 0),
    "nonce": ("nonce", uint(TOP), 0),
    "feeRateBps": ("fee_rate_bps", uint(TOP), 0),
    "side": ("side", side, 0),
    "signatureType": ("signature_type", uint(255), 1),
    "signature": (
        "signature",
        lambda value: value if type(value) is str else InvalidSignatureError,
        "",
    ),
}
"""Attribute, rule and default of each field; a rule returns a value or an error class."""


def expected(data):
    """Return the expected order, or class and path of the first rejection."""
    values = {}
    for name, (attribute, rule, absent) in RULES.items():
        given_value = data.get(name)
        result = rule(given_value) if given_value is not None else absent
        if isinstance(result, type):
            return result, name
        values[attribute] = values["maker"] if result == "maker" else result
    return SignedOrder(**values)


CODES = {
    InvalidFieldError: "INVALID_FIELD",
    InvalidAddressError: "INVALID_ADDRESS",
    InvalidAmountError: "INVALID_AMOUNT",
    AmountTooLargeError: "AMOUNT_TOO_LARGE",
    InvalidSideError: "INVALID_SIDE",
    InvalidSignatureError: "INVALID_SIGNATURE",
}


def check(data):
    """Compare the order or rejection with the expected one."""
    result, right = outcome(SignedOrder.from_json, data), expected(data)
    if isinstance(right, SignedOrder):
        assert result == right
        assert type(result.side) is Side or result.side > 1
        assert all(type(getattr(result, name)) is str for name in ("maker", "signer", "taker"))
        return
    kind, path = right
    assert result[:3] == (kind, CODES[kind], path)
    assert len(result[3]) < 400
    assert path in result[3]
    assert result == outcome(_secp_py.read, SignedOrder, data), "the backends differ"


# ----- lists ---------------------------------------------------------------------------------

NUMBERS = [
    "1_000", " 5", "5 ", "+5", "-5", "", "5\n", "\t5", "0x10", "0X10", "1e18", "1.0", "5.", "5\0",
    "١٢", "\uff11\uff12", "²", "Ⅷ", "๕", "0b1", "0o7", "nan", "inf", "None", "null", "5,0", "--5",
    "0", "00", "007", "5", "0" * 78, "0" * 79, "9" * 78, "1" + "0" * 78,
    str(TOP), str(TOP + 1), "0" + str(TOP), "0" * 50 + "5", "\ud800", "5\udfff",
    0, 1, 5, 255, 256, 300, 2**53, 2**64, TOP, TOP + 1, -1, -(2**300), 2**1024,
    10**5000, -(10**5000),
    1.0, 0.0, -0.0, 1e18, float("nan"), float("inf"), True, False, None,
    [], [5], ["5"], {}, {"5": 5}, (), (5,), b"5", b"", bytearray(b"5"), 5j, Text("5"), Number(5),
    [10**5000], WithoutRepr(), object, Ellipsis, Side.BUY, Side.SELL, "BUY", "SELL", "buy", "Sell",
    " BUY", "BUY\n", "\uff22UY", Text("BUY"), "1", "2",
]  # fmt: skip
DIGITS = ALICE[2:]
ADDRESSES = [
    ALICE, ALICE.lower(), f"0x{DIGITS.upper()}", f"0X{DIGITS}", f"0X{DIGITS.lower()}", DIGITS,
    ALICE.upper(), f"0x{DIGITS.swapcase()}", ALICE[:-1], ALICE + "0", ALICE + "\n", " " + ALICE,
    ALICE + " ", "0x" + DIGITS[:-1] + "g", "0x\uff11" + DIGITS[1:].lower(), "0x", "", "\n", "0x0",
    "0x" + "0" * 40, "0x" + "f" * 40, "0x" + "F" * 40, "0x" + "1" * 40, "0x" + "a" * 39 + "A",
    "0x" + "a" * 41, "0x" + "a" * 39, "0x" + "0" * 64, f"0x{'0' * 24}{DIGITS.lower()}",
    "0x" + "a" * 20 + " " + "a" * 19, "0x" + "a_" * 20, "0x" + "\u0430" * 40, ALICE + "\0",
    "vitalik.eth", ALICE.encode(), bytes.fromhex(DIGITS), int(DIGITS, 16), Text(ALICE), [ALICE],
    {"address": ALICE}, 0, 1, 1.5, True, False, None, "\ud800" * 42, "0x" + "\ud83d" * 40,
]  # fmt: skip
SALTS = [
    "0x", "0x0", "0xff", "0xFF", "0Xff", "0x" + "f" * 64, "0x" + "f" * 65, "0x" + "0" * 65, "0xg",
    "1700000000-x7", "é" * 256, "é" * 257, "x" * 256, "x" * 257, "x" * 100_000, "9" * 257, " ",
    "\0", "\ud800", "\udfff", "ok\ud83d", "😀", "true",
]  # fmt: skip
SIGNATURES = ["", "0x", "no", "\ud800", b"0x", 0, 7, True, False, [], {}, 1.5, None, Text("0x")]


@pytest.mark.parametrize("field", RULES)
def test_every_listed_value_in_every_field(backend, field):
    for value in [*NUMBERS, *ADDRESSES, *SALTS, *SIGNATURES]:
        check(GOOD | {field: value})


@pytest.mark.parametrize("field", RULES)
def test_null_counts_as_absent(backend, field):
    without = {name: value for name, value in GOOD.items() if name != field}
    assert outcome(SignedOrder.from_json, without) == outcome(
        SignedOrder.from_json, GOOD | {field: None}
    )
    check(without)


def test_the_first_invalid_field_in_schema_order_is_named(backend):
    names = list(RULES)
    for at, name in enumerate(names):
        result = outcome(SignedOrder.from_json, GOOD | dict.fromkeys(names[at:], 1.5))
        assert result[2] == name
        backwards = dict.fromkeys(reversed(names[at:]), 1.5) | dict.fromkeys(names[:at])
        check(GOOD | backwards)


def test_unknown_fields_are_ignored(backend):
    more = {"owner": 1.5, "orderType": "GTC", "marketId": None, "token_id": 9, 5: 5}
    assert SignedOrder.from_json(more | GOOD) == SignedOrder.from_json(GOOD)


@pytest.mark.parametrize("data", [None, 5, "{}", b"{}", [], [GOOD], (), 1.5, True, {1}], ids=repr)
def test_other_types_than_objects_are_rejected(backend, data):
    for kind in (SignedOrder, SignedCancel, SignedCancelAll, SignedReduce, SignedSetNonce):
        with pytest.raises(InvalidFieldError, match=f"{kind.SCHEMA.name} must be a JSON object"):
            kind.from_json(data)


@pytest.mark.parametrize("signature", [b"0x", 0, 7, True, [], {}, 1.5, Text("0x")], ids=repr)
def test_a_signature_of_another_type_is_malformed(backend, signature):
    with pytest.raises(InvalidSignatureError) as caught:
        SignedOrder.from_json(GOOD | {"signature": signature})
    assert caught.value.verdict is Verdict.MALFORMED


def test_orders_from_real_clients(backend):
    """Clients in Python send the side as a word, order-utils as a number."""
    as_sent = [
        {"salt": 5, "side": "BUY", "expiration": "2147483648", "feeRateBps": "100"},
        {"salt": "5", "side": 0, "signatureType": 1, "nonce": "3"},
        {"salt": 5, "side": "0", "signatureType": "1", "nonce": 3, "tokenId": 1234},
    ]
    for changes in as_sent:
        read = SignedOrder.from_json(GOOD | changes)
        assert secp.hash_struct(read) == secp.hash_struct(SignedOrder.from_json(GOOD))
        assert read.to_json() == GOOD | {"salt": changes["salt"]}
        assert SignedOrder.from_json(json.loads(json.dumps(read.to_json()))) == read


@pytest.mark.parametrize("field", RULES)
def test_backends_agree_on_every_listed_constructed_value(backend, field):
    """The constructor checks nothing, so any value can reach hashing and verification."""
    good = SignedOrder.from_json(GOOD)
    for value in [*NUMBERS, *ADDRESSES, *SALTS, *SIGNATURES]:
        built = replace(good, **{RULES[field][0]: value})
        for name, arguments in (
            ("hash_struct", (built,)),
            ("digest_of", (built, DOMAIN.separator)),
            ("verdict_of", (built, DOMAIN.separator, bytes([3, 1]))),
            ("verdicts_of", ([good, built], DOMAIN.separator, bytes([1, 5, 5, 8]))),
        ):
            right = outcome(getattr(_secp_py, name), *arguments)
            assert outcome(getattr(backend, name), *arguments) == right


# ----- random values -------------------------------------------------------------------------

near_numbers = st.from_regex(r"\A[ +\-0]?[0-9_]{0,80}[ \n]?\Z")
near_addresses = st.from_regex(r"\A0[xX]?[0-9a-fA-F]{38,42}\n?\Z") | st.builds(
    lambda raw, at: "0x" + raw.hex()[:at] + raw.hex()[at:].upper(),
    st.binary(min_size=20, max_size=20),
    st.integers(0, 40),
)
surrogates = st.text(st.characters(codec=None), max_size=300)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(TOP - 2, TOP + 2), st.integers(0, TOP),
    st.floats(), surrogates, st.binary(), near_numbers, near_addresses,
    st.text("0123456789", max_size=80), st.sampled_from([*NUMBERS, *ADDRESSES, *SALTS]),
)  # fmt: skip
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(surrogates, scalars, max_size=2)
objects = st.dictionaries(st.sampled_from(list(RULES)), values, max_size=13)


def test_cached_addresses_are_read_by_the_same_rule(backend):
    @given(near_addresses | values)
    def one(value):
        cached_checksum.cache_clear()
        slow = outcome(fields.address, "maker", value)
        assert outcome(read_address, "maker", value) == slow
        assert outcome(read_address, "maker", value) == slow, "the second time"

    one()


def test_texts_of_another_length_are_not_cached():
    cached_checksum.cache_clear()
    for length in (0, 41, 43, 60_000):
        assert outcome(read_address, "maker", "0" * length)[1] == "INVALID_ADDRESS"
    assert cached_checksum.cache_info().currsize == 0
    assert read_address("maker", ALICE.lower()) == ALICE
    assert cached_checksum.cache_info().currsize == 1


def test_random_json_is_read_or_rejected_by_the_rule(backend):
    @given(st.sampled_from(list(RULES)), values)
    def one_field(field, value):
        check(GOOD | {field: value})

    @given(objects)
    @example({})
    def all_fields(data):
        check(data)
        check(GOOD | data)

    one_field()
    all_fields()


def test_reading_round_trips_through_json(backend):
    @given(objects)
    def there_and_back(data):
        result = outcome(SignedOrder.from_json, GOOD | data)
        if isinstance(result, SignedOrder):
            second = SignedOrder.from_json(json.loads(json.dumps(result.to_json())))
            assert second == result
            assert second.to_json() == result.to_json()
            assert secp.hash_struct(second) == secp.hash_struct(result)

    there_and_back()
