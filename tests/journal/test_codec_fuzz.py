"""Damaged bytes: whatever is read has just those bytes, all else is one named error, at one place.

Both codecs must agree, on the value or on every word of the error.
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
    """The value, or what the error says and where."""
    try:
        return decode(raw)
    except InvalidBytesError as error:
        said = str(error), error.offset
    assert 0 <= said[1] <= len(raw)
    return said


def check(raw):
    """Read bytes with both codecs, and say whether there is a value."""
    twin, compiled = load("python"), load("compiled")
    found = outcome(twin.decode, raw)
    assert outcome(compiled.decode, raw) == found
    if isinstance(found, tuple):
        return False
    assert twin.encode(found) == raw
    assert compiled.encode(found) == raw
    return True


def damaged(raw):
    """Every bit turned, every byte doubled or left out, every end cut off, bytes put anywhere."""
    for place in range(len(raw)):
        for bit in range(8):
            yield raw[:place] + bytes((raw[place] ^ 1 << bit,)) + raw[place + 1 :]
        yield raw[:place]
        yield raw[:place] + raw[place + 1 :]
        for byte in (0, 1, 0x20, 0x80, 0xFF, raw[place]):
            yield raw[:place] + bytes((byte,)) + raw[place:]


@pytest.mark.parametrize("raw", RAWS, ids=lambda raw: f"kind {raw[0]}")
def test_damaged_bytes_are_another_value_or_refused(raw):
    outcomes = [check(bad) for bad in damaged(raw)]
    assert not all(outcomes)
    assert check(raw)


@given(raw=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(raw):
    check(raw)


@given(value=any_command | any_event, data=st.data())
def test_a_value_with_a_stretch_of_other_bytes_is_a_value_or_refused(value, data):
    raw = load("python").encode(value)
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, len(raw)))
    check(raw[:start] + data.draw(st.binary(max_size=6)) + raw[end:])


def test_a_part_is_read_or_refused_by_both_alike():
    twin, compiled = load("python"), load("compiled")
    raw = twin.write(A_RECORD)
    for bad in damaged(raw):
        found = outcome(lambda raw: twin.read(OrderRecord, raw), bad)
        assert outcome(lambda raw: compiled.read(OrderRecord, raw), bad) == found


@pytest.mark.parametrize("name", ["python", "compiled"])
@pytest.mark.parametrize(
    "raw",
    [
        b"\x0d\0\0" + b"\x04\xff\xff\xff\xff",  # four thousand million trades
        b"\x0d\0\0" + b"\x03\x20\xa1\x07",  # half a million of them
        b"\x0d\0\0" + b"\x08" + b"\xff" * 8,
        b"\x0d\0\0" + b"\x20" + b"\xff" * 32,
        b"\x0d\0" + b"\x04\xff\xff\xff\x7f",  # a market whose name has two thousand million bytes
        b"\x0f\0" + b"\x04\xff\xff\xff\x7f",
    ],
)
def test_an_announced_length_costs_no_memory(name, raw):
    decode = load(name).decode
    tracemalloc.start()
    try:
        with pytest.raises(InvalidBytesError, match="are announced"):
            decode(raw + b"x" * 100)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
