"""Flags that follow one another share a byte, so that a flag behind a flag changes no bytes."""

import msgspec
import pytest

from clob import AddMarket, Funds, Market
from clob.codec.layout import layout_of
from clob.errors import InvalidBytesError


class Three(msgspec.Struct, frozen=True, gc=False):
    """Three flags between other things."""

    before: int
    one: bool
    two: bool
    three: bool
    after: int


class Apart(msgspec.Struct, frozen=True, gc=False):
    """Flags that do not follow one another, or may be missing."""

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
def test_the_first_is_the_lowest_bit(any_codec, number):
    flags = [bool(number >> bit & 1) for bit in range(3)]
    value = Three(0, *flags, 5)
    raw = any_codec.write(value)
    assert raw == bytes((0, number, 1, 5))
    assert any_codec.read(Three, raw) == (value, len(raw))


@pytest.mark.parametrize("byte", [8, 16, 128, 255])
def test_a_bit_that_is_no_flag_is_refused(any_codec, byte):
    with pytest.raises(InvalidBytesError, match=f"3 flags are below 8, not {byte}"):
        any_codec.read(Three, bytes((0, byte, 1, 5)))
    with pytest.raises(InvalidBytesError, match="end too early"):
        any_codec.read(Three, bytes((0,)))


def test_flags_apart_have_a_byte_each(any_codec):
    value = Apart(True, 0, True, True, False)
    assert any_codec.write(value) == bytes((1, 0, 1, 1, 1, 0))
    assert any_codec.read(Apart, bytes((1, 0, 1, 1, 1, 0))) == (value, 6)
    with pytest.raises(InvalidBytesError, match="a flag is 0 or 1, not 2"):
        any_codec.read(Apart, bytes((2, 0, 1, 1, 1, 0)))


def test_a_byte_has_eight_flags(any_codec):
    value = Ten(*(place % 3 == 0 for place in range(10)))
    raw = any_codec.write(value)
    assert raw == bytes((0b01001001, 0b10))
    assert any_codec.read(Ten, raw) == (value, 2)
    assert [form.bits for _, form in layout_of(Ten)][0::8] == [8, 2]
    with pytest.raises(InvalidBytesError, match="2 flags are below 4"):
        any_codec.read(Ten, bytes((0, 4)))


@pytest.mark.parametrize("place", [1, 2, 3])
def test_what_is_no_flag_is_not_written(any_codec, place):
    fields = [0, True, True, True, 5]
    fields[place] = 1
    with pytest.raises(TypeError, match="cannot be of type int"):
        any_codec.write(Three(*fields))


def test_a_market_without_the_second_flag_has_the_bytes_it_always_had(any_codec):
    def bytes_of(**terms):
        market = Market(id="m", yes="1", no="2", lot_wei=100, funds=Funds.ACCOUNTS, **terms)
        raw = any_codec.encode(AddMarket(market=market))
        assert any_codec.decode(raw).market == market
        return raw

    plain = bytes_of()
    for number in range(1, 4):
        raw = bytes_of(settles=bool(number & 1), complementary=bool(number & 2))
        assert raw == plain[:-1] + bytes((number,))
    with pytest.raises(InvalidBytesError, match="2 flags are below 4, not 4"):
        any_codec.decode(plain[:-1] + b"\x04")
