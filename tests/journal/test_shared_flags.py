"""Consecutive flags share a byte: adding a flag after a flag does not change the encoding."""

import msgspec
import pytest

from clob import AddMarket, Funds, Market
from clob.codec.layout import layout_of
from clob.errors import InvalidBytesError


class Three(msgspec.Struct, frozen=True, gc=False):
    """Three flags between integers."""

    before: int
    one: bool
    two: bool
    three: bool
    after: int


class Apart(msgspec.Struct, frozen=True, gc=False):
    """Flags that are not consecutive, or optional."""

    one: bool
    between: int
    two: bool
    maybe: bool | None
    three: bool


class Ten(msgspec.Struct, frozen=True, gc=False):
    """More flags than a byte holds."""

    a: bool
    b: bool
    c: bool
    d: bool
    e: bool
    f: bool
    g: bool
    h: bool
    i: bool
    j: bool


@pytest.mark.parametrize("number", range(8))
def test_first_flag_is_the_lowest_bit(any_codec, number):
    flags = [bool(number >> bit & 1) for bit in range(3)]
    value = Three(0, *flags, 5)
    raw = any_codec.write(value)
    assert raw == bytes((0, number, 1, 5))
    assert any_codec.read(Three, raw) == (value, len(raw))


@pytest.mark.parametrize("byte", [8, 16, 128, 255])
def test_unused_bit_of_a_flag_byte_is_rejected(any_codec, byte):
    with pytest.raises(InvalidBytesError, match=f"a byte of 3 flags must be below 8; got {byte}"):
        any_codec.read(Three, bytes((0, byte, 1, 5)))
    with pytest.raises(InvalidBytesError, match="unexpected end of the data"):
        any_codec.read(Three, bytes((0,)))


def test_separate_flags_have_a_byte_each(any_codec):
    value = Apart(True, 0, True, True, False)
    assert any_codec.write(value) == bytes((1, 0, 1, 1, 1, 0))
    assert any_codec.read(Apart, bytes((1, 0, 1, 1, 1, 0))) == (value, 6)
    with pytest.raises(InvalidBytesError, match="a flag must be 0 or 1; got 2"):
        any_codec.read(Apart, bytes((2, 0, 1, 1, 1, 0)))


def test_byte_contains_at_most_eight_flags(any_codec):
    value = Ten(*(position % 3 == 0 for position in range(10)))
    raw = any_codec.write(value)
    assert raw == bytes((0b01001001, 0b10))
    assert any_codec.read(Ten, raw) == (value, 2)
    assert [form.bits for _, form in layout_of(Ten)][0::8] == [8, 2]
    with pytest.raises(InvalidBytesError, match="a byte of 2 flags must be below 4"):
        any_codec.read(Ten, bytes((0, 4)))


@pytest.mark.parametrize("position", [1, 2, 3])
def test_flag_of_another_type_is_rejected(any_codec, position):
    fields = [0, True, True, True, 5]
    fields[position] = 1
    with pytest.raises(TypeError, match="must be bool; got int"):
        any_codec.write(Three(*fields))


def test_market_without_the_second_flag_keeps_its_bytes(any_codec):
    def bytes_of(**terms):
        market = Market(id="m", yes="1", no="2", lot_wei=100, funds=Funds.ACCOUNTS, **terms)
        raw = any_codec.encode(AddMarket(market=market))
        assert any_codec.decode(raw).market == market
        return raw

    plain = bytes_of()
    for number in range(1, 4):
        raw = bytes_of(settles=bool(number & 1), complementary=bool(number & 2))
        assert raw == plain[:-1] + bytes((number,))
    with pytest.raises(InvalidBytesError, match="a byte of 2 flags must be below 4; got 4"):
        any_codec.decode(plain[:-1] + b"\x04")
