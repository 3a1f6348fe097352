"""The canonical bytes: a value has one spelling, and reading it gives the value back."""

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
    """A codec that gets no help: what the compiled one passes on to its twin fails the test."""
    found = load(request.param)
    if request.param == "compiled":
        for name in PUBLIC:
            monkeypatch.setattr(load("python"), name, no_help)
    return found


def no_help(*_):
    raise AssertionError("the compiled codec asked its twin")


def same(one, other):
    """Equal in value and in type, all the way down."""
    if isinstance(one, msgspec.Struct):
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__
        )
    if isinstance(one, tuple):
        return type(other) is tuple and all(map(same, one, other)) and len(one) == len(other)
    return type(one) is type(other) and one == other


# ----- round trips ---------------------------------------------------------------------------


def test_the_one_that_is_chosen_is_the_compiled_one_where_it_is_built():
    expected = load("compiled" if codec.CODEC_COMPILED else "python")
    assert all(getattr(codec, name) is getattr(expected, name) for name in PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_both_codecs_take_the_same_parameters_and_are_documented(name):
    twin, compiled = (getattr(load(which), name) for which in ("python", "compiled"))
    one, other = (inspect.signature(function).parameters.values() for function in (twin, compiled))
    assert [(p.name, p.default) for p in one] == [(p.name, p.default) for p in other]
    assert twin.__doc__
    assert compiled.__doc__


@pytest.mark.parametrize("value", ONE_OF_EACH, ids=lambda value: type(value).__name__)
def test_reading_gives_back_one_of_each(own, value):
    assert same(own.decode(own.encode(value)), value)


@given(value=any_command | any_event)
def test_reading_gives_back_any_value_and_both_codecs_write_the_same(value):
    twin, compiled = load("python"), load("compiled")
    raw = twin.encode(value)
    assert compiled.encode(value) == raw
    assert same(twin.decode(raw), value)
    assert same(compiled.decode(raw), value)


@given(data=st.data(), kind=st.sampled_from([*COMMANDS, *EVENTS, *PARTS]))
def test_structs_without_a_kind_can_stand_among_other_bytes(data, kind):
    value = data.draw(values_of(kind))
    before, after = data.draw(st.binary(max_size=3)), data.draw(st.binary(max_size=3))
    for each in (load("python"), load("compiled")):
        raw = each.write(value)
        found, end = each.read(kind, before + raw + after, len(before))
        assert same(found, value)
        assert end == len(before) + len(raw)


@given(value=any_command | any_event)
def test_a_kind_is_a_byte_in_front_of_the_fields(value):
    number = layout.NUMBERS[type(value)]
    assert codec.encode(value) == bytes((number,)) + codec.write(value)


@given(values=st.lists(any_command | any_event, max_size=4))
def test_several_values_are_their_count_and_then_each_of_them(values):
    for each in (load("python"), load("compiled")):
        raw = bytes((len(values) > 0, len(values)))[len(values) == 0 :]
        assert each.encode_all(values) == raw + b"".join(map(codec.encode, values))
        assert each.encode_all(tuple(values)) == each.encode_all(values)


def test_several_values_need_no_help(own):
    assert own.encode_all(ONE_OF_EACH)[:2] == b"\x01\x15"
    assert own.encode_all([ONE_OF_EACH[16]] * 300)[:3] == b"\x02\x2c\x01"
    assert own.encode_all(()) == b"\0"


def test_several_values_are_refused_for_one(any_codec):
    for bad, words in ((AN_ORDER, "of type Order"), (7, "of type int")):
        with pytest.raises(TypeError, match=words):
            any_codec.encode_all([ONE_OF_EACH[0], bad])
    with pytest.raises(ValueError, match=r"Expire\.now_ms"):
        any_codec.encode_all([Expire(now_ms=-1)] * 2)


@given(one=any_event, other=any_event)
def test_equal_bytes_mean_equal_values(one, other):
    assert (codec.encode(one) == codec.encode(other)) == same(one, other)


@given(record=values_of(OrderRecord))
def test_the_compiled_codec_needs_no_help_with_a_record(record):
    twin, compiled = load("python"), load("compiled")
    with pytest.MonkeyPatch.context() as patch:
        for name in PUBLIC:
            patch.setattr(twin, name, no_help)
        raw = compiled.write(record)
        assert compiled.read(OrderRecord, raw) == (record, len(raw))


def test_a_structure_the_collector_watches_is_made_by_its_constructor(own):
    class Watched(msgspec.Struct, frozen=True):
        level: Level
        side: Side

    value = Watched(Level(50, 2**70, 3), Side.SELL)
    raw = own.write(value)
    assert own.read(Watched, raw) == (value, len(raw))


def test_a_structure_that_does_something_when_it_is_made_does_it(own):
    made = []

    class Telling(msgspec.Struct, frozen=True, gc=False):
        price: int

        def __post_init__(self):
            made.append(self.price)

    own.read(Telling, own.write(Telling(50)))
    assert made[0] == made[-1] == 50
    assert made.count(50) == 2


def test_texts_that_share_a_place_in_the_cache_stay_apart(own):
    # Far more texts than the cache has places, each twice.
    texts = [f"{n:05d}-maker-of-some-length" for n in range(10_000)] * 2
    for text in texts:
        assert own.decode(own.encode(Cancel(order_id=1, maker=text))).maker == text


def test_a_text_that_comes_again_is_the_same_object():
    compiled = load("compiled")
    raw = compiled.encode(Cancel(order_id=1, maker="0xA11CE" * 6))
    assert compiled.decode(raw).maker is compiled.decode(raw).maker


def test_a_long_value_is_written_whole(own):
    many = Settled(market="m" * 100_000, trades=tuple(range(0, 10**18, 10**14)))
    assert own.decode(own.encode(many)) == many


# ----- what cannot be written ----------------------------------------------------------------


class Text(str):
    """A text that is more than a text."""

    __slots__ = ()


def replaced(**fields):
    return msgspec.structs.replace(AN_ORDER, **fields)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Expire(now_ms=-1), "Expire.now_ms must be an integer from 0 below 2**256, not -1"),
        (Expire(now_ms=2**256), "Expire.now_ms must be .*, not 1157"),
        (Expire(now_ms=-(2**90)), "Expire.now_ms must be .*, not -12379"),
        (Expire(now_ms=1 << 100_000), "Expire.now_ms must be .*, not one of 100001 bits"),
        (Submit(order=replaced(nonce=-1)), "Order.nonce must be .*, not -1"),
        (Cancel(order_id=-1), "Cancel.order_id must be .*, not -1"),
        (Settled(market="", trades=(1, -1)), "Settled.trades must be .*, not -1"),
    ],
)
def test_an_integer_out_of_range_cannot_be_written(any_codec, value, words):
    with pytest.raises(ValueError, match="^" + words.replace("**", r"\*\*")):
        any_codec.encode(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1, "a command or an event cannot be of type int"),
        (None, "a command or an event cannot be of type NoneType"),
        (AN_ORDER, "a command or an event cannot be of type Order"),
        (Submit, "a command or an event cannot be of type StructMeta"),
        (Submit(order=None), "Submit.order cannot be of type NoneType"),
        (Submit(order=replaced(price=50.0)), "Order.price cannot be of type float"),
        (Submit(order=replaced(price=True)), "Order.price cannot be of type bool"),
        (Submit(order=replaced(side=1)), "Order.side cannot be of type int"),
        (Submit(order=replaced(side=SelfTrade.NONE)), "Order.side cannot be of type SelfTrade"),
        (Submit(order=replaced(post_only=1)), "Order.post_only cannot be of type int"),
        (Submit(order=replaced(maker=b"a")), "Order.maker cannot be of type bytes"),
        (Submit(order=replaced(maker=Text("a"))), "Order.maker cannot be of type Text"),
        (Submit(order=AN_ORDER, order_hash="a"), "Submit.order_hash cannot be of type str"),
        (Cancel(order_id=None), "Cancel.order_id cannot be of type NoneType"),
        (Cancel(order_id=True), "Cancel.order_id cannot be of type bool"),
        (Cancel(order_id=RemovalReason.NONCE), "Cancel.order_id cannot be of type RemovalReason"),
        (Settled(market="", trades=[1]), "Settled.trades cannot be of type list"),
        (Settled(market="", trades=("1",)), "Settled.trades cannot be of type str"),
    ],
)
def test_a_field_of_another_type_cannot_be_written(any_codec, value, words):
    with pytest.raises(TypeError, match=f"^{words}$"):
        any_codec.encode(value)


def test_a_structure_that_looks_like_the_one_it_should_be_cannot_be_written(any_codec):
    class Limits(msgspec.Struct, frozen=True, gc=False):
        orders_max: int = 1
        trades_max: int = 1
        batch_max: int = 1
        finished_max: int = 1

    with pytest.raises(TypeError, match=r"^SetLimits\.limits cannot be of type Limits$"):
        any_codec.encode(SetLimits(limits=Limits()))


def test_a_batch_in_a_batch_cannot_be_written(any_codec):
    batch = ONE_OF_EACH[14]
    with pytest.raises(TypeError, match=r"^Batch\.commands cannot be of type Batch$"):
        any_codec.encode(msgspec.structs.replace(batch, commands=(batch,)))


def test_what_is_no_frozen_structure_has_no_bytes(any_codec):
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

    for value, words in (
        (1, "only a Struct has a layout, not"),
        (Loose(1), "only a frozen Struct has a layout, and Loose is not"),
        (Odd({}), "values of dict.* have no bytes"),
        (Either(""), "values of one of .* have no bytes"),
        (High(Tall.TOP), "Tall has a member whose number does not fit a byte"),
    ):
        with pytest.raises(TypeError, match=words):
            any_codec.write(value)
        with pytest.raises(TypeError, match=words):
            any_codec.read(type(value), b"")


# ----- what cannot be read -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "offset", "words"),
    [
        ("", 0, "the bytes end too early"),
        ("00", 0, "there is no kind 0 here"),
        ("80", 0, "there is no kind 128 here"),
        ("07", 1, "the bytes end too early"),
        ("0721", 1, "an integer has at most 32 bytes, not 33"),
        ("070205", 1, "the bytes end inside an integer"),
        ("07020500", 1, "an integer has a zero too many at its end"),
        ("070000", 2, "1 bytes too many"),
        ("0200000200", 3, "a flag is 0 or 1, not 2"),
        ("02000105", 2, "5 bytes are announced, and 0 are left"),
        ("02000101ff000000", 4, "a text is not valid UTF-8: invalid start byte"),
        ("02000102c0af000000", 4, "a text is not valid UTF-8: invalid start byte"),
        ("0a000004", 3, "Mode has no member 4"),
        ("0d00000109", 3, "9 items are announced, and 0 bytes are left"),
        ("0d000020" + "ff" * 32, 3, f"{2**256 - 1} items are announced, and 0 bytes are left"),
        ("0f0001010f", 4, "there is no kind 15 here"),
    ],
)
def test_bytes_that_are_not_canonical_are_refused(any_codec, raw, offset, words):
    with pytest.raises(InvalidBytesError, match=words) as caught:
        any_codec.decode(bytes.fromhex(raw))
    assert caught.value.code == "INVALID_BYTES"
    assert caught.value.offset == offset
    assert str(caught.value).startswith(f"byte {offset}: {caught.value.reason}")


@pytest.mark.parametrize("data", [bytearray(b"\x07\0"), memoryview(b"\x07\0"), "\x07\0", None])
def test_only_bytes_are_read(any_codec, data):
    for read in (any_codec.decode, lambda data: any_codec.read(Expire, data)):
        with pytest.raises(TypeError, match=r"data must be bytes, not of type"):
            read(data)


@pytest.mark.parametrize("offset", [-1, 3, 2**70])
def test_an_offset_lies_in_the_data(any_codec, offset):
    with pytest.raises(ValueError, match=f"offset must be 0 to 2, not {offset}"):
        any_codec.read(Expire, b"\0\0", offset)


def test_pieces_are_cut_where_their_lengths_say(own):
    raw = b"x\x01\0\0\0a\0\0\0\0\x02\0\0\0bcy"
    assert own.split(raw, 1, 16, 3) == (b"a", b"", b"bc")
    assert own.split(raw, 0, 0, 0) == ()
    assert own.split(b"\xff\xff\xff\x7fx", 0, 5, 1) is None
    for offset, end, count in ((1, 16, 2), (1, 16, 4), (1, 17, 3), (1, 15, 3), (0, 16, 3)):
        assert own.split(raw, offset, end, count) is None


def test_pieces_are_cut_within_the_data(any_codec):
    for offset, end in ((-1, 0), (0, 2), (2, 0)):
        with pytest.raises(ValueError, match="offset and end must be 0 to 1"):
            any_codec.split(b"x", offset, end, 0)
    with pytest.raises(TypeError, match="data must be bytes"):
        any_codec.split(bytearray(1), 0, 0, 0)


# ----- the table -----------------------------------------------------------------------------


def test_every_command_and_every_event_has_its_number():
    assert tuple(layout.KINDS.values()) == (*COMMANDS, *EVENTS)
    assert all(0 < layout.NUMBERS[kind] < layout.FIRST_EVENT_KIND for kind in COMMANDS)
    assert all(64 <= layout.NUMBERS[kind] < layout.FIRST_FOREIGN_KIND for kind in EVENTS)


def test_balances_and_records_have_bytes_too(own):
    for value in (Balance(3, 2, 1), A_RECORD, AN_ORDER):
        raw = own.write(value)
        assert own.read(type(value), raw) == (value, len(raw))


def test_members_of_an_enumeration_of_texts_go_by_their_place(own):
    assert own.encode(OrderAdded(1, "", "", 1, Side.SELL, 1, 1))[-5] == Side.SELL
    for place, reason in enumerate(RemovalReason):
        raw = own.write(msgspec.structs.replace(ONE_OF_EACH[18], reason=reason, remaining=0))
        assert raw[-2] == place
