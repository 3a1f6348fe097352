"""Canonical bytes: each value has one encoding, and decoding returns the value."""

import enum
import inspect

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob import codec
from clob.codec import layout
from clob.commands import Cancel, Expire, SetLimits, Settled, Submit
from clob.depth import Level
from clob.errors import InvalidBytesError
from clob.events import OrderAdded, RemovalReason
from clob.market import Balance
from clob.order import SelfTrade, Side
from clob.status import OrderRecord
from tests.journal.values import (
    A_RECORD,
    AN_ORDER,
    COMMANDS,
    EVENTS,
    ONE_OF_EACH,
    PARTS,
    any_command,
    any_event,
    load,
    values_of,
)

PUBLIC = [name for name in codec.__all__ if name != "CODEC_COMPILED"]


@pytest.fixture(params=["python", "compiled"])
def own(request, monkeypatch):
    """Each codec alone: the test fails if the compiled one falls back to its twin."""
    module = load(request.param)
    if request.param == "compiled":
        for name in PUBLIC:
            monkeypatch.setattr(load("python"), name, fail_on_fallback)
    return module


def fail_on_fallback(*_):
    raise AssertionError("the compiled codec called its pure-Python twin")


def same(one, other):
    """Return whether two values are equal in value and type, recursively."""
    if isinstance(one, msgspec.Struct):
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__
        )
    if isinstance(one, tuple):
        return type(other) is tuple and all(map(same, one, other)) and len(one) == len(other)
    return type(one) is type(other) and one == other


# ----- round trips ---------------------------------------------------------------------------


def test_codec_is_the_compiled_one_if_built():
    expected = load("compiled" if codec.CODEC_COMPILED else "python")
    assert all(getattr(codec, name) is getattr(expected, name) for name in PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_both_codecs_have_equal_parameters_and_docstrings(name):
    twin, compiled = (getattr(load(which), name) for which in ("python", "compiled"))
    one, other = (inspect.signature(function).parameters.values() for function in (twin, compiled))
    assert [(p.name, p.default) for p in one] == [(p.name, p.default) for p in other]
    assert twin.__doc__
    assert compiled.__doc__


@pytest.mark.parametrize("value", ONE_OF_EACH, ids=lambda value: type(value).__name__)
def test_decode_returns_the_encoded_value(own, value):
    assert same(own.decode(own.encode(value)), value)


@given(value=any_command | any_event)
def test_both_codecs_encode_and_decode_any_value_alike(value):
    twin, compiled = load("python"), load("compiled")
    raw = twin.encode(value)
    assert compiled.encode(value) == raw
    assert same(twin.decode(raw), value)
    assert same(compiled.decode(raw), value)


@given(data=st.data(), kind=st.sampled_from([*COMMANDS, *EVENTS, *PARTS]))
def test_read_returns_a_struct_at_an_offset_and_its_end(data, kind):
    value = data.draw(values_of(kind))
    before, after = data.draw(st.binary(max_size=3)), data.draw(st.binary(max_size=3))
    for each in (load("python"), load("compiled")):
        raw = each.write(value)
        result, end = each.read(kind, before + raw + after, len(before))
        assert same(result, value)
        assert end == len(before) + len(raw)


@given(value=any_command | any_event)
def test_encode_is_the_kind_byte_followed_by_the_fields(value):
    number = layout.NUMBERS[type(value)]
    assert codec.encode(value) == bytes((number,)) + codec.write(value)


@given(values=st.lists(any_command | any_event, max_size=4))
def test_encode_all_is_the_count_followed_by_each_value(values):
    for each in (load("python"), load("compiled")):
        raw = bytes((len(values) > 0, len(values)))[len(values) == 0 :]
        assert each.encode_all(values) == raw + b"".join(map(codec.encode, values))
        assert each.encode_all(tuple(values)) == each.encode_all(values)


def test_encode_all_without_fallback(own):
    assert own.encode_all(ONE_OF_EACH)[:2] == bytes((1, len(ONE_OF_EACH)))
    assert own.encode_all([ONE_OF_EACH[18]] * 300)[:3] == b"\x02\x2c\x01"
    assert own.encode_all(()) == b"\0"


def test_encode_all_rejects_one_invalid_value(any_codec):
    for bad, message in ((AN_ORDER, "got Order"), (7, "got int")):
        with pytest.raises(TypeError, match=message):
            any_codec.encode_all([ONE_OF_EACH[0], bad])
    with pytest.raises(ValueError, match=r"Expire\.now_ms"):
        any_codec.encode_all([Expire(now_ms=-1)] * 2)


@given(one=any_event, other=any_event)
def test_equal_bytes_mean_equal_values(one, other):
    assert (codec.encode(one) == codec.encode(other)) == same(one, other)


@given(record=values_of(OrderRecord))
def test_compiled_codec_handles_order_records_without_fallback(record):
    twin, compiled = load("python"), load("compiled")
    with pytest.MonkeyPatch.context() as patch:
        for name in PUBLIC:
            patch.setattr(twin, name, fail_on_fallback)
        raw = compiled.write(record)
        assert compiled.read(OrderRecord, raw) == (record, len(raw))


def test_gc_tracked_struct_is_decoded_by_its_constructor(own):
    class Watched(msgspec.Struct, frozen=True):
        level: Level
        side: Side

    value = Watched(Level(50, 2**70, 3), Side.SELL)
    raw = own.write(value)
    assert own.read(Watched, raw) == (value, len(raw))


def test_post_init_runs_when_a_struct_is_decoded(own):
    constructed = []

    class Counted(msgspec.Struct, frozen=True, gc=False):
        price: int

        def __post_init__(self):
            constructed.append(self.price)

    own.read(Counted, own.write(Counted(50)))
    assert constructed[0] == constructed[-1] == 50
    assert constructed.count(50) == 2


def test_texts_with_the_same_cache_index_are_decoded_correctly(own):
    # Twice as many texts as cache entries, each decoded twice.
    texts = [f"{n:05d}-maker-of-some-length" for n in range(10_000)] * 2
    for text in texts:
        assert own.decode(own.encode(Cancel(order_id=1, maker=text))).maker == text


def test_repeated_text_is_decoded_to_the_same_object():
    compiled = load("compiled")
    raw = compiled.encode(Cancel(order_id=1, maker="0xA11CE" * 6))
    assert compiled.decode(raw).maker is compiled.decode(raw).maker


def test_value_larger_than_the_stack_buffer(own):
    many = Settled(market="m" * 100_000, trades=tuple(range(0, 10**18, 10**14)))
    assert own.decode(own.encode(many)) == many


# ----- encoding errors -----------------------------------------------------------------------


class Text(str):
    """A subclass of str."""

    __slots__ = ()


def replaced(**fields):
    return msgspec.structs.replace(AN_ORDER, **fields)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Expire(now_ms=-1), "Expire.now_ms must be an integer from 0 to 2**256 - 1; got -1"),
        (Expire(now_ms=2**256), "Expire.now_ms must be .*; got 1157"),
        (Expire(now_ms=-(2**90)), "Expire.now_ms must be .*; got -12379"),
        (Expire(now_ms=1 << 100_000), "Expire.now_ms must be .*; got an integer of 100001 bits"),
        (Submit(order=replaced(nonce=-1)), "Order.nonce must be .*; got -1"),
        (Cancel(order_id=-1), "Cancel.order_id must be .*; got -1"),
        (Settled(market="", trades=(1, -1)), "Settled.trades must be .*; got -1"),
    ],
)
def test_encode_rejects_integer_out_of_range(any_codec, value, message):
    with pytest.raises(ValueError, match="^" + message.replace("**", r"\*\*")):
        any_codec.encode(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1, "value must be a command or an event; got int"),
        (None, "value must be a command or an event; got NoneType"),
        (AN_ORDER, "value must be a command or an event; got Order"),
        (Submit, "value must be a command or an event; got StructMeta"),
        (Submit(order=None), "Submit.order must be Order; got NoneType"),
        (Submit(order=replaced(price=50.0)), "Order.price must be int; got float"),
        (Submit(order=replaced(price=True)), "Order.price must be int; got bool"),
        (Submit(order=replaced(side=1)), "Order.side must be Side; got int"),
        (Submit(order=replaced(side=SelfTrade.NONE)), "Order.side must be Side; got SelfTrade"),
        (Submit(order=replaced(post_only=1)), "Order.post_only must be bool; got int"),
        (Submit(order=replaced(maker=b"a")), "Order.maker must be str; got bytes"),
        (Submit(order=replaced(maker=Text("a"))), "Order.maker must be str; got Text"),
        (
            Submit(order=AN_ORDER, order_hash="a"),
            "Submit.order_hash must be bytes or None; got str",
        ),
        (Cancel(order_id=None), "Cancel.order_id must be str or int; got NoneType"),
        (Cancel(order_id=True), "Cancel.order_id must be str or int; got bool"),
        (
            Cancel(order_id=RemovalReason.NONCE),
            "Cancel.order_id must be str or int; got RemovalReason",
        ),
        (Settled(market="", trades=[1]), "Settled.trades must be tuple; got list"),
        (Settled(market="", trades=("1",)), "Settled.trades must be int; got str"),
    ],
)
def test_encode_rejects_field_of_another_type(any_codec, value, message):
    with pytest.raises(TypeError, match=f"^{message}$"):
        any_codec.encode(value)


def test_encode_rejects_another_struct_of_the_same_name_and_fields(any_codec):
    class Limits(msgspec.Struct, frozen=True, gc=False):
        orders_max: int = 1
        trades_max: int = 1
        batch_max: int = 1
        finished_max: int = 1

    with pytest.raises(TypeError, match=r"^SetLimits\.limits must be Limits; got Limits$"):
        any_codec.encode(SetLimits(limits=Limits()))


def test_encode_rejects_a_batch_inside_a_batch(any_codec):
    batch = ONE_OF_EACH[14]
    with pytest.raises(TypeError, match=r"^Batch\.commands must be one of Submit, .*; got Batch$"):
        any_codec.encode(msgspec.structs.replace(batch, commands=(batch,)))


def test_write_and_read_reject_unsupported_types(any_codec):
    class Loose(msgspec.Struct):
        a: int

    class Odd(msgspec.Struct, frozen=True):
        a: dict[str, int]

    class Either(msgspec.Struct, frozen=True):
        a: str | bytes

    class Tall(enum.IntEnum):
        TOP = 256

    class High(msgspec.Struct, frozen=True):
        a: Tall

    for value, message in (
        (1, "kind must be a Struct class; got"),
        (Loose(1), "kind must be a frozen Struct class; Loose is not frozen"),
        (Odd({}), "fields of type dict.* are not supported"),
        (Either(""), "unions of .* are not supported"),
        (High(Tall.TOP), "the members of Tall must be numbered from 0 to 255"),
    ):
        with pytest.raises(TypeError, match=message):
            any_codec.write(value)
        with pytest.raises(TypeError, match=message):
            any_codec.read(type(value), b"")


# ----- decoding errors -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "offset", "message"),
    [
        ("", 0, "unexpected end of the data"),
        ("00", 0, "unexpected kind 0"),
        ("80", 0, "unexpected kind 128"),
        ("07", 1, "unexpected end of the data"),
        ("0721", 1, "an integer must have at most 32 bytes; got 33"),
        ("070205", 1, "unexpected end of the data inside an integer"),
        ("07020500", 1, "the last byte of an integer must not be 0"),
        ("070000", 2, "bytes left after the value: 1"),
        ("0200000200", 3, "a flag must be 0 or 1; got 2"),
        ("02000105", 2, "length 5 exceeds the remaining 0 bytes"),
        ("02000101ff000000", 4, "a text must be valid UTF-8: invalid start byte"),
        ("02000102c0af000000", 4, "a text must be valid UTF-8: invalid start byte"),
        ("0a000004", 3, "Mode has no member number 4"),
        ("0d00000109", 3, "9 items exceed the remaining 0 bytes"),
        ("0d000020" + "ff" * 32, 3, f"{2**256 - 1} items exceed the remaining 0 bytes"),
        ("0f0001010f", 4, "unexpected kind 15"),
    ],
)
def test_decode_rejects_non_canonical_bytes(any_codec, raw, offset, message):
    with pytest.raises(InvalidBytesError, match=message) as caught:
        any_codec.decode(bytes.fromhex(raw))
    assert caught.value.code == "INVALID_BYTES"
    assert caught.value.offset == offset
    assert str(caught.value).startswith(f"byte {offset}: {caught.value.reason}")


@pytest.mark.parametrize("data", [bytearray(b"\x07\0"), memoryview(b"\x07\0"), "\x07\0", None])
def test_decode_accepts_only_bytes(any_codec, data):
    with pytest.raises(TypeError, match=r"data must be bytes; got"):
        any_codec.decode(data)


VIEW = memoryview(b"\0" * 8)


@pytest.mark.parametrize(
    "data",
    [
        bytearray(b"\0" * 8),
        memoryview(bytearray(b"\0" * 8)),
        VIEW[::2],
        VIEW.cast("b"),
        VIEW.cast("I"),
        VIEW.cast("B", (2, 4)),
        "\0" * 8,
        None,
    ],
)
def test_read_rejects_other_types_and_views_that_may_change_or_have_gaps(any_codec, data):
    with pytest.raises(TypeError, match=r"data must be bytes; got"):
        any_codec.read(Expire, data)


def test_read_from_a_view_equals_read_from_bytes(any_codec):
    for value in (AN_ORDER, A_RECORD):
        raw, kind = b"x" + any_codec.write(value), type(value)
        view = memoryview(b"y" + raw)[1:]
        assert any_codec.read(kind, view, 1) == any_codec.read(kind, raw, 1) == (value, len(raw))
        with pytest.raises(InvalidBytesError):
            any_codec.read(kind, view[:-1], 1)


@pytest.mark.parametrize("offset", [-1, 3, 2**70])
def test_read_rejects_an_offset_outside_the_data(any_codec, offset):
    with pytest.raises(ValueError, match=f"offset must be from 0 to 2; got {offset}"):
        any_codec.read(Expire, b"\0\0", offset)


def test_split_returns_the_pieces_or_none(own):
    raw = b"x\x01\0\0\0a\0\0\0\0\x02\0\0\0bcy"
    assert own.split(raw, 1, 16, 3) == (b"a", b"", b"bc")
    assert own.split(raw, 0, 0, 0) == ()
    assert own.split(b"\xff\xff\xff\x7fx", 0, 5, 1) is None
    for offset, end, count in ((1, 16, 2), (1, 16, 4), (1, 17, 3), (1, 15, 3), (0, 16, 3)):
        assert own.split(raw, offset, end, count) is None


def test_split_rejects_positions_outside_the_data(any_codec):
    for offset, end in ((-1, 0), (0, 2), (2, 0)):
        with pytest.raises(ValueError, match="offset and end must be from 0 to 1"):
            any_codec.split(b"x", offset, end, 0)
    with pytest.raises(TypeError, match="data must be bytes"):
        any_codec.split(bytearray(1), 0, 0, 0)


# ----- layout --------------------------------------------------------------------------------


def test_every_command_and_event_has_a_number():
    assert tuple(layout.KINDS.values()) == tuple(
        layout.KINDS[number] for number in sorted(layout.KINDS)
    )
    assert set(layout.KINDS.values()) == {*COMMANDS, *EVENTS}
    assert all(0 < layout.NUMBERS[kind] < layout.FIRST_EVENT_KIND for kind in COMMANDS)
    assert all(64 <= layout.NUMBERS[kind] < layout.FIRST_FOREIGN_KIND for kind in EVENTS)


def test_balances_orders_and_records_round_trip(own):
    for value in (Balance(3, 2, 1), A_RECORD, AN_ORDER):
        raw = own.write(value)
        assert own.read(type(value), raw) == (value, len(raw))


def test_text_enumeration_members_are_encoded_by_position(own):
    assert own.encode(OrderAdded(1, "", "", 1, Side.SELL, 1, 1))[-5] == Side.SELL
    for position, reason in enumerate(RemovalReason):
        raw = own.write(msgspec.structs.replace(ONE_OF_EACH[22], reason=reason, remaining=0))
        assert raw[-2] == position
