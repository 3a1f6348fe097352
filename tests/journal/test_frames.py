"""Frames: what their bytes are, that they are chained, and how each kind of damage is named."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.codec import encode
from clob.commands import Cancel, Expire, Submit
from clob.errors import (
    ChainBrokenError,
    ClobError,
    FrameError,
    FrameMalformedError,
    FrameNewerError,
    FrameTruncatedError,
    InvalidBytesError,
)
from clob.events import Rejected
from clob.journal.frames import (
    FRAME_VERSION,
    ZERO_HASH,
    Frame,
    encode_frame,
    frame_hash,
    read_frames,
)
from tests.journal.forge import chained, commands_of, forged
from tests.journal.values import A_SUBMIT, AN_ORDER, any_command

pytestmark = pytest.mark.usefixtures("journal_codec")

FOREIGN = b"\x80anything"
"""A command of the embedder's own."""

hashes = st.binary(min_size=32, max_size=32)


def three_frames():
    """Frames of two, none and one command."""
    one = encode_frame([Expire(now_ms=1), A_SUBMIT], 1, ZERO_HASH, outcomes=[b"1" * 32, b"2" * 32])
    two = encode_frame([], 3, frame_hash(one), event_hash=b"e" * 32, state_hash=b"s" * 32)
    three = encode_frame([FOREIGN], 3, frame_hash(two), event_hash=b"e" * 32)
    return [one, two, three]


# ----- what the bytes are --------------------------------------------------------------------


def test_a_frame_is_laid_out_as_the_reference_says():
    raw = encode(Expire(now_ms=5))
    written = encode_frame(
        [Expire(now_ms=5)],
        7,
        b"p" * 32,
        event_hash=b"e" * 32,
        state_hash=b"s" * 32,
        outcomes=[b"12345678" + bytes(24)],
    )
    inner = struct.pack("<QIB", 7, 1, 7) + b"e" * 32 + b"s" * 32 + b"12345678"
    inner += struct.pack("<I", 3) + raw
    expected = b"CLOBFRM\x02" + struct.pack("<I", len(inner) + 32) + inner
    assert written == chained(expected, b"p" * 32)


def test_the_smallest_frame_has_57_bytes_that_never_change():
    assert encode_frame([], 1, ZERO_HASH).hex() == (
        "434c4f4246524d02"
        "2d000000"
        "0100000000000000"
        "00000000"
        "00"
        "257bc47d4a8aa8f532512a5a6be3f2b56214927c2ed147b8390c66045cc455da"
    )


@given(
    commands=st.lists(any_command | st.binary().map(lambda raw: b"\xff" + raw), max_size=4),
    first_seq=st.integers(1, 2**64 - 5),
    previous=hashes,
    event_hash=st.none() | hashes,
    state_hash=st.none() | hashes,
    data=st.data(),
)
def test_what_was_written_is_read(commands, first_seq, previous, event_hash, state_hash, data):
    some = st.lists(hashes, min_size=len(commands), max_size=len(commands))
    outcomes = data.draw(st.none() | some)
    raw = encode_frame(
        commands,
        first_seq,
        previous,
        event_hash=event_hash,
        state_hash=state_hash,
        outcomes=outcomes,
    )
    [frame] = read_frames(raw, previous, first_seq)
    assert frame.commands() == commands
    assert frame.raw == tuple(c if isinstance(c, bytes) else encode(c) for c in commands)
    assert frame == Frame(
        number=1,
        offset=0,
        first_seq=first_seq,
        event_hash=event_hash,
        state_hash=state_hash,
        outcomes=None if outcomes is None else tuple(one[:8] for one in outcomes),
        raw=frame.raw,
        chain_hash=frame_hash(raw),
    )


@pytest.mark.parametrize("join", [b"".join, list, iter], ids=["bytes", "list", "iterator"])
def test_a_journal_may_come_in_pieces(join):
    frames = three_frames()
    found = list(read_frames(join(frames)))
    assert [(f.number, f.first_seq, f.count) for f in found] == [(1, 1, 2), (2, 3, 0), (3, 3, 1)]
    assert [f.offset for f in found] == [0, len(frames[0]), len(frames[0] + frames[1])]
    assert [f.chain_hash for f in found] == [frame_hash(frame) for frame in frames]
    assert found[2].commands() == [FOREIGN]


def test_reading_can_begin_at_any_frame():
    one, two, three = three_frames()
    assert [f.first_seq for f in read_frames(two + three, frame_hash(one), 3)] == [3, 3]


def test_commands_may_be_given_as_their_bytes():
    raw = encode(A_SUBMIT)
    assert encode_frame([raw], 1, ZERO_HASH) == encode_frame([A_SUBMIT], 1, ZERO_HASH)


# ----- what cannot be written ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (([], 0, ZERO_HASH), {}, "first_seq must be 1 to .*, not 0"),
        (([Expire()] * 2, 2**64 - 1, ZERO_HASH), {}, "first_seq must be 1 to"),
        (([], 1, b"p"), {}, "previous must have 32 bytes, not 1"),
        (([], 1, ZERO_HASH), {"event_hash": b""}, "event_hash must have 32 bytes, not 0"),
        (([], 1, ZERO_HASH), {"state_hash": b"s" * 33}, "state_hash must have 32 bytes, not 33"),
        (([], 1, ZERO_HASH), {"outcomes": [ZERO_HASH]}, "0 commands have as many outcomes, not 1"),
        (([Expire()], 1, ZERO_HASH), {"outcomes": [b"8" * 8]}, "outcome must have 32 bytes, not 8"),
        (([b""], 1, ZERO_HASH), {}, "a frame holds commands, not kind 0"),
        (([b"\x40"], 1, ZERO_HASH), {}, "a frame holds commands, not kind 64"),
        (([Rejected(0, "", "")], 1, ZERO_HASH), {}, "a frame holds commands, not kind 68"),
        (([Expire(now_ms=-1)], 1, ZERO_HASH), {}, "Expire.now_ms must be"),
    ],
)
def test_what_would_not_be_read_is_not_written(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        encode_frame(*arguments, **options)


def test_a_frame_whose_length_does_not_fit_its_head_is_not_written(monkeypatch):
    monkeypatch.setattr("clob.journal.frames._LENGTH_MAX", 51)
    assert encode_frame([Expire()], 1, ZERO_HASH)[8] == 51
    with pytest.raises(ValueError, match="at most 51 bytes after its head, not 52"):
        encode_frame([Expire(now_ms=1)], 1, ZERO_HASH)


def test_what_is_no_command_is_not_written():
    with pytest.raises(TypeError, match="cannot be of type Order"):
        encode_frame([AN_ORDER], 1, ZERO_HASH)


# ----- damage --------------------------------------------------------------------------------


def refused(error, data, words, **place):
    with pytest.raises(error, match=words) as caught:
        list(read_frames(data))
    assert isinstance(caught.value, ClobError)
    assert str(caught.value).startswith(f"frame {caught.value.frame} at byte {caught.value.offset}")
    for name, value in place.items():
        assert getattr(caught.value, name) == value


def test_the_codes_of_the_errors():
    errors = (FrameTruncatedError, FrameMalformedError, FrameNewerError, ChainBrokenError)
    codes = ["FRAME_TRUNCATED", "FRAME_MALFORMED", "FRAME_NEWER", "CHAIN_BROKEN"]
    assert [error.code for error in errors] == codes


def test_a_frame_of_a_newer_version_is_named():
    one = three_frames()[0]
    newer = forged(b"whatever a version to come may say", version=FRAME_VERSION + 1)
    words = r"unsupported journal version 3 \(expected 2\)"
    refused(FrameNewerError, one + newer, words, frame=2, offset=len(one))
    # It may be that its head, too, is another one.
    refused(FrameNewerError, b"CLOBFRM\x03", words)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x", "must begin with b'CLOBFRM', not b'x'"),
        (b"CLOBFRm", "must begin with"),
        (forged(bytes(13), magic=b"CLOBBOOK"), "must begin with"),
        (forged(bytes(13), version=1), r"unsupported journal version 1 \(expected 2\)"),
        (forged(bytes(13), length=44), "followed by 45 bytes or more, not 44"),
        (forged(struct.pack("<QIB", 0, 0, 0)), "does not hold 0 commands from 0 on"),
        (forged(struct.pack("<QIB", 2**64 - 1, 2, 0) + bytes(8)), "does not hold 2 commands"),
        (forged(struct.pack("<QIB", 1, 0, 8)), "flags must be 0 to 7, not 8"),
        (forged(struct.pack("<QIB", 1, 0, 1)), "does not hold 0 commands from 1 on"),
        (forged(struct.pack("<QIB", 1, 0, 3) + bytes(63)), "does not hold 0 commands"),
        (forged(struct.pack("<QIB", 1, 1, 4) + bytes(8)), "does not hold 1 commands"),
        (forged(struct.pack("<QIB", 1, 2**32 - 1, 4) + bytes(99)), "does not hold 4294967295"),
        (forged(struct.pack("<QIB", 1, 0, 0) + b"x"), "does not hold 0 commands"),
        (forged(struct.pack("<QIB", 1, 2, 0) + b"\x01\0\0\0x"), "does not hold 2 commands"),
        (forged(struct.pack("<QIB", 1, 1, 0) + b"\x02\0\0\0x"), "does not hold 1 commands"),
        (forged(struct.pack("<QIB", 1, 1, 0) + b"\x01\0\0\0xy"), "does not hold 1 commands"),
    ],
)
def test_parts_that_contradict_are_named(data, words):
    refused(FrameMalformedError, data, words, frame=1, offset=0)


def test_every_end_within_a_frame_is_named():
    whole = b"".join(three_frames())
    ends = [0]
    for frame in three_frames():
        ends.append(ends[-1] + len(frame))
    for end in range(len(whole)):
        number = sum(end >= other for other in ends)
        if end in ends:
            assert len(list(read_frames(whole[:end]))) == number - 1
        else:
            words = r"bytes are left|is followed by \d+ bytes, not"
            place = {"frame": number, "offset": ends[number - 1]}
            refused(FrameTruncatedError, whole[:end], words, **place)


def test_frames_in_another_order_break_the_chain():
    one, two, three = three_frames()
    for frames, number in (
        ([two, one, three], 1),
        ([one, three], 2),
        ([one, one], 2),
        ([one, two, two, three], 3),
        ([two, three], 1),
    ):
        refused(ChainBrokenError, frames, "not the frame that follows", frame=number)


def test_a_journal_does_not_go_on_as_another_one():
    one, two, _ = three_frames()
    other = encode_frame([Expire(now_ms=2), A_SUBMIT], 1, ZERO_HASH)
    refused(ChainBrokenError, other + two, "not the frame that follows", frame=2)
    with pytest.raises(ChainBrokenError):
        list(read_frames(one, b"p" * 32))


@pytest.mark.parametrize("first_seq", [1, 2, 4])
def test_numbers_have_no_gap(first_seq):
    one = three_frames()[0]
    bad = encode_frame([Expire()], first_seq, frame_hash(one))
    words = f"begins with command {first_seq}, and 3 was to follow"
    refused(ChainBrokenError, one + bad, words, frame=2, offset=len(one))


@pytest.mark.parametrize("bad", [b"", b"\0", b"\x40", b"\x10", b"\x07\x01\0", encode(Expire()) * 2])
def test_bytes_that_are_no_command_are_named_by_their_place(bad):
    good = encode(Cancel(order_id=1))
    inner = struct.pack("<QIB", 5, 2, 6) + bytes(32 + 16) + commands_of(good, bad)
    data = forged(inner)
    [frame] = read_frames(data, first_seq=5)
    assert frame.command(0) == Cancel(order_id=1)
    with pytest.raises(InvalidBytesError, match=r"\(command 6, frame 1\)") as caught:
        frame.commands()
    start = len(data) - 32 - len(bad)
    assert start <= caught.value.offset <= start + len(bad)


# ----- any damage ----------------------------------------------------------------------------


WRITTEN = list(read_frames(three_frames()))


def taken(frames):
    """Give the frames up to the error that ends them, and the error."""
    found = []
    while True:
        try:
            found.append(next(frames))
        except FrameError as error:
            return found, error


def check_damaged(data):
    """The frames before the damage are given out as they were written, and then an error comes."""
    found, error = taken(read_frames(data))
    assert type(error) is not FrameError
    assert error.frame == len(found) + 1
    assert found == WRITTEN[: len(found)]


def test_no_turned_bit_goes_unnoticed():
    whole = b"".join(three_frames())
    for place in range(len(whole)):
        for bit in range(8):
            bad = bytearray(whole)
            bad[place] ^= 1 << bit
            check_damaged(bytes(bad))


def test_no_byte_put_in_or_left_out_goes_unnoticed():
    whole = b"".join(three_frames())
    for place in range(len(whole) + 1):
        for byte in (b"\0", b"\x01", b"C", b"\xff"):
            check_damaged(whole[:place] + byte + whole[place:])
    for place in range(len(whole)):
        check_damaged(whole[:place] + whole[place + 1 :])


@given(raw=st.binary(max_size=80), inner=st.binary(max_size=80))
def test_any_bytes_are_frames_or_refused(raw, inner):
    for data in (raw, b"CLOBFRM" + raw, b"CLOBFRM\x02" + raw, forged(inner)):
        try:
            for frame in read_frames(data):
                frame.commands()
        except (FrameError, InvalidBytesError):
            pass  # anything else would fail the test


def test_a_submit_survives_in_full():
    [frame] = read_frames(encode_frame([A_SUBMIT], 1, ZERO_HASH))
    assert frame.commands() == [A_SUBMIT]
    assert type(frame.commands()[0]) is Submit
