"""Frames: format, hash chain, and the error for each kind of damage."""

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
"""A command of the embedder's own kinds."""

hashes = st.binary(min_size=32, max_size=32)


def three_frames():
    """Return frames of two, zero and one commands."""
    one = encode_frame([Expire(now_ms=1), A_SUBMIT], 1, ZERO_HASH, outcomes=[b"1" * 32, b"2" * 32])
    two = encode_frame([], 3, frame_hash(one), event_hash=b"e" * 32, state_hash=b"s" * 32)
    three = encode_frame([FOREIGN], 3, frame_hash(two), event_hash=b"e" * 32)
    return [one, two, three]


# ----- format --------------------------------------------------------------------------------


def test_frame_has_the_documented_format():
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
    expected = b"CLOBFRM\x03" + struct.pack("<I", len(inner) + 32) + inner
    assert written == chained(expected, b"p" * 32)


def test_smallest_frame_has_57_fixed_bytes():
    assert encode_frame([], 1, ZERO_HASH).hex() == (
        "434c4f4246524d03"
        "2d000000"
        "0100000000000000"
        "00000000"
        "00"
        "ff070b8b67f76ab240d3f242af5d86df993a5ccc1371cb40c686d223e61ff7f5"
    )


@given(
    commands=st.lists(any_command | st.binary().map(lambda raw: b"\xff" + raw), max_size=4),
    first_seq=st.integers(1, 2**64 - 5),
    previous=hashes,
    event_hash=st.none() | hashes,
    state_hash=st.none() | hashes,
    data=st.data(),
)
def test_frame_round_trips(commands, first_seq, previous, event_hash, state_hash, data):
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
def test_journal_can_be_read_in_pieces(join):
    frames = three_frames()
    result = list(read_frames(join(frames)))
    assert [(f.number, f.first_seq, f.count) for f in result] == [(1, 1, 2), (2, 3, 0), (3, 3, 1)]
    assert [f.offset for f in result] == [0, len(frames[0]), len(frames[0] + frames[1])]
    assert [f.chain_hash for f in result] == [frame_hash(frame) for frame in frames]
    assert result[2].commands() == [FOREIGN]


def test_reading_can_start_at_any_frame():
    one, two, three = three_frames()
    assert [f.first_seq for f in read_frames(two + three, frame_hash(one), 3)] == [3, 3]


def test_encode_frame_accepts_encoded_commands():
    raw = encode(A_SUBMIT)
    assert encode_frame([raw], 1, ZERO_HASH) == encode_frame([A_SUBMIT], 1, ZERO_HASH)


# ----- encoding errors -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], 0, ZERO_HASH), {}, "first_seq must be from 1 to .*; got 0"),
        (
            ([Expire()] * 2, 2**64 - 1, ZERO_HASH),
            {},
            "from 1 to 18446744073709551614; got",
        ),
        (([], 1, b"p"), {}, "previous must have 32 bytes; got 1"),
        (([], 1, ZERO_HASH), {"event_hash": b""}, "event_hash must have 32 bytes; got 0"),
        (([], 1, ZERO_HASH), {"state_hash": b"s" * 33}, "state_hash must have 32 bytes; got 33"),
        (([], 1, ZERO_HASH), {"outcomes": [ZERO_HASH]}, "each of the 0 commands; got 1"),
        (([Expire()], 1, ZERO_HASH), {"outcomes": [b"8" * 8]}, "outcome must have 32 bytes; got 8"),
        (([b""], 1, ZERO_HASH), {}, "from 1 to 63 or from 128; got kind 0"),
        (([b"\x40"], 1, ZERO_HASH), {}, "from 1 to 63 or from 128; got kind 64"),
        (([Rejected(0, "", "")], 1, ZERO_HASH), {}, "from 1 to 63 or from 128; got kind 68"),
        (([Expire(now_ms=-1)], 1, ZERO_HASH), {}, "Expire.now_ms must be"),
    ],
)
def test_encode_frame_rejects_invalid_arguments(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        encode_frame(*arguments, **options)


def test_encode_frame_rejects_a_length_over_the_maximum(monkeypatch):
    monkeypatch.setattr("clob.journal.frames._LENGTH_MAX", 51)
    assert encode_frame([Expire()], 1, ZERO_HASH)[8] == 51
    with pytest.raises(ValueError, match="at most 51 bytes after its header; got 52"):
        encode_frame([Expire(now_ms=1)], 1, ZERO_HASH)


def test_encode_frame_rejects_other_types():
    with pytest.raises(TypeError, match="must be a command or an event; got Order"):
        encode_frame([AN_ORDER], 1, ZERO_HASH)


# ----- damage --------------------------------------------------------------------------------


def check_rejected(error, data, message, **attributes):
    with pytest.raises(error, match=message) as caught:
        list(read_frames(data))
    assert isinstance(caught.value, ClobError)
    assert str(caught.value).startswith(f"frame {caught.value.frame} at byte {caught.value.offset}")
    for name, value in attributes.items():
        assert getattr(caught.value, name) == value


def test_error_codes():
    errors = (FrameTruncatedError, FrameMalformedError, FrameNewerError, ChainBrokenError)
    codes = ["FRAME_TRUNCATED", "FRAME_MALFORMED", "FRAME_NEWER", "CHAIN_BROKEN"]
    assert [error.code for error in errors] == codes


def test_frame_of_version_2_is_still_read():
    old = forged(struct.pack("<QIB", 1, 1, 0) + commands_of(encode(Expire(now_ms=5))), version=2)
    (frame,) = read_frames(old)
    assert frame.commands() == [Expire(now_ms=5)]


def test_newer_frame_version_is_rejected():
    one = three_frames()[0]
    newer = forged(b"content of a newer version", version=FRAME_VERSION + 1)
    message = r"unsupported journal version 4 \(expected 2 to 3\)"
    check_rejected(FrameNewerError, one + newer, message, frame=2, offset=len(one))
    # The header of a newer version may differ as well.
    check_rejected(FrameNewerError, b"CLOBFRM\x04", message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x", "must begin with b'CLOBFRM'; got b'x'"),
        (b"CLOBFRm", "must begin with"),
        (forged(bytes(13), magic=b"CLOBBOOK"), "must begin with"),
        (forged(bytes(13), version=1), r"unsupported journal version 1 \(expected 2 to 3\)"),
        (forged(bytes(13), length=44), "must be at least 45; got 44"),
        (forged(struct.pack("<QIB", 0, 0, 0)), "is not 0 commands numbered from 0"),
        (forged(struct.pack("<QIB", 2**64 - 1, 2, 0) + bytes(8)), "content is not 2 commands"),
        (forged(struct.pack("<QIB", 1, 0, 8)), "flags must be from 0 to 7; got 8"),
        (forged(struct.pack("<QIB", 1, 0, 1)), "is not 0 commands numbered from 1"),
        (forged(struct.pack("<QIB", 1, 0, 3) + bytes(63)), "content is not 0 commands"),
        (forged(struct.pack("<QIB", 1, 1, 4) + bytes(8)), "content is not 1 commands"),
        (
            forged(struct.pack("<QIB", 1, 2**32 - 1, 4) + bytes(99)),
            "content is not 4294967295 commands",
        ),
        (forged(struct.pack("<QIB", 1, 0, 0) + b"x"), "content is not 0 commands"),
        (forged(struct.pack("<QIB", 1, 2, 0) + b"\x01\0\0\0x"), "content is not 2 commands"),
        (forged(struct.pack("<QIB", 1, 1, 0) + b"\x02\0\0\0x"), "content is not 1 commands"),
        (forged(struct.pack("<QIB", 1, 1, 0) + b"\x01\0\0\0xy"), "content is not 1 commands"),
    ],
)
def test_malformed_frame_is_rejected(data, message):
    check_rejected(FrameMalformedError, data, message, frame=1, offset=0)


def test_truncation_at_every_byte_is_detected():
    whole = b"".join(three_frames())
    ends = [0]
    for frame in three_frames():
        ends.append(ends[-1] + len(frame))
    for end in range(len(whole)):
        number = sum(end >= other for other in ends)
        if end in ends:
            assert len(list(read_frames(whole[:end]))) == number - 1
        else:
            message = r"header must (have|be followed by) \d+ bytes; got"
            attributes = {"frame": number, "offset": ends[number - 1]}
            check_rejected(FrameTruncatedError, whole[:end], message, **attributes)


def test_reordered_missing_or_repeated_frames_break_the_chain():
    one, two, three = three_frames()
    for frames, number in (
        ([two, one, three], 1),
        ([one, three], 2),
        ([one, one], 2),
        ([one, two, two, three], 3),
        ([two, three], 1),
    ):
        check_rejected(ChainBrokenError, frames, "does not follow", frame=number)


def test_frame_of_another_journal_breaks_the_chain():
    one, two, _ = three_frames()
    other = encode_frame([Expire(now_ms=2), A_SUBMIT], 1, ZERO_HASH)
    check_rejected(ChainBrokenError, other + two, "does not follow", frame=2)
    with pytest.raises(ChainBrokenError):
        list(read_frames(one, b"p" * 32))


@pytest.mark.parametrize("first_seq", [1, 2, 4])
def test_command_numbers_must_be_consecutive(first_seq):
    one = three_frames()[0]
    bad = encode_frame([Expire()], first_seq, frame_hash(one))
    message = f"first command must be number 3; got {first_seq}"
    check_rejected(ChainBrokenError, one + bad, message, frame=2, offset=len(one))


@pytest.mark.parametrize("bad", [b"", b"\0", b"\x40", b"\x10", b"\x07\x01\0", encode(Expire()) * 2])
def test_invalid_command_bytes_are_reported_with_their_position(bad):
    good = encode(Cancel(order_id=1))
    inner = struct.pack("<QIB", 5, 2, 6) + bytes(32 + 16) + commands_of(good, bad)
    data = forged(inner)
    [frame] = read_frames(data, first_seq=5)
    assert frame.command(0) == Cancel(order_id=1)
    with pytest.raises(InvalidBytesError, match=r"\(command 6, frame 1\)") as caught:
        frame.commands()
    start = len(data) - 32 - len(bad)
    assert start <= caught.value.offset <= start + len(bad)


# ----- exhaustive and random damage ----------------------------------------------------------


WRITTEN = list(read_frames(three_frames()))


def read_until_error(frames):
    """Return the frames before the error, and the error."""
    result = []
    while True:
        try:
            result.append(next(frames))
        except FrameError as error:
            return result, error


def check_damaged(data):
    """Check that reading returns the frames before the damage and then raises an error."""
    result, error = read_until_error(read_frames(data))
    assert type(error) is not FrameError
    assert error.frame == len(result) + 1
    assert result == WRITTEN[: len(result)]


def test_every_flipped_bit_is_detected():
    whole = b"".join(three_frames())
    for position in range(len(whole)):
        for bit in range(8):
            bad = bytearray(whole)
            bad[position] ^= 1 << bit
            check_damaged(bytes(bad))


def test_every_inserted_or_dropped_byte_is_detected():
    whole = b"".join(three_frames())
    for position in range(len(whole) + 1):
        for byte in (b"\0", b"\x01", b"C", b"\xff"):
            check_damaged(whole[:position] + byte + whole[position:])
    for position in range(len(whole)):
        check_damaged(whole[:position] + whole[position + 1 :])


@given(raw=st.binary(max_size=80), inner=st.binary(max_size=80))
def test_arbitrary_bytes_are_frames_or_rejected(raw, inner):
    for data in (raw, b"CLOBFRM" + raw, b"CLOBFRM\x03" + raw, forged(inner)):
        try:
            for frame in read_frames(data):
                frame.commands()
        except (FrameError, InvalidBytesError):
            pass  # other exceptions fail the test


def test_submit_round_trips():
    [frame] = read_frames(encode_frame([A_SUBMIT], 1, ZERO_HASH))
    assert frame.commands() == [A_SUBMIT]
    assert type(frame.commands()[0]) is Submit
