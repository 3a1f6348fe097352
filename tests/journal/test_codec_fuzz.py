"""Damaged bytes decode to a value with exactly those bytes, or raise InvalidBytesError.

Both codecs must return the same value or the same error text.
"""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.errors import InvalidBytesError
from clob.status import OrderRecord
from tests.journal.values import A_RECORD, ONE_OF_EACH, any_command, any_event, load

RAWS = [load("python").encode(value) for value in ONE_OF_EACH]


def outcome(decode, raw):
    """Return the value, or the text and the position of the error."""
    try:
        return decode(raw)
    except InvalidBytesError as error:
        failure = str(error), error.offset
    assert 0 <= failure[1] <= len(raw)
    return failure


def check(raw):
    """Decode bytes with both codecs and return whether they are valid."""
    twin, compiled = load("python"), load("compiled")
    result = outcome(twin.decode, raw)
    assert outcome(compiled.decode, raw) == result
    if isinstance(result, tuple):
        return False
    assert twin.encode(result) == raw
    assert compiled.encode(result) == raw
    return True


def damaged(raw):
    """Flip every bit, drop and duplicate every byte, cut at every length, insert bytes anywhere."""
    for position in range(len(raw)):
        for bit in range(8):
            yield raw[:position] + bytes((raw[position] ^ 1 << bit,)) + raw[position + 1 :]
        yield raw[:position]
        yield raw[:position] + raw[position + 1 :]
        for byte in (0, 1, 0x20, 0x80, 0xFF, raw[position]):
            yield raw[:position] + bytes((byte,)) + raw[position:]


@pytest.mark.parametrize("raw", RAWS, ids=lambda raw: f"kind {raw[0]}")
def test_damaged_bytes_are_another_value_or_rejected(raw):
    outcomes = [check(bad) for bad in damaged(raw)]
    assert not all(outcomes)
    assert check(raw)


@given(raw=st.binary(max_size=60))
def test_arbitrary_bytes_are_a_value_or_rejected(raw):
    check(raw)


@given(value=any_command | any_event, data=st.data())
def test_value_with_a_replaced_range_is_a_value_or_rejected(value, data):
    raw = load("python").encode(value)
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, len(raw)))
    check(raw[:start] + data.draw(st.binary(max_size=6)) + raw[end:])


def test_both_codecs_read_damaged_records_alike():
    twin, compiled = load("python"), load("compiled")
    raw = twin.write(A_RECORD)
    for bad in damaged(raw):
        expected = outcome(lambda raw: twin.read(OrderRecord, raw), bad)
        assert outcome(lambda raw: compiled.read(OrderRecord, raw), bad) == expected


@pytest.mark.parametrize("name", ["python", "compiled"])
@pytest.mark.parametrize(
    "raw",
    [
        b"\x0d\0\0" + b"\x04\xff\xff\xff\xff",  # 4 billion trades
        b"\x0d\0\0" + b"\x03\x20\xa1\x07",  # 500,000 trades
        b"\x0d\0\0" + b"\x08" + b"\xff" * 8,
        b"\x0d\0\0" + b"\x20" + b"\xff" * 32,
        b"\x0d\0" + b"\x04\xff\xff\xff\x7f",  # a market id of 2 billion bytes
        b"\x0f\0" + b"\x04\xff\xff\xff\x7f",
    ],
)
def test_large_length_or_count_allocates_no_memory(name, raw):
    decode = load(name).decode
    tracemalloc.start()
    try:
        with pytest.raises(InvalidBytesError, match=r"exceeds? the remaining"):
            decode(raw + b"x" * 100)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
