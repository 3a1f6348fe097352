"""Recorder: recorded commands and outcomes, and the event hash."""

import hashlib
import re

import pytest

from clob.codec import encode
from clob.commands import Batch, Cancel, Expire
from clob.errors import (
    ChainBrokenError,
    FrameMalformedError,
    FrameTruncatedError,
    RejectedError,
    ReplayDiffersError,
    UnknownMarketError,
    UnknownOrderError,
)
from clob.events import OrderAdded, Rejected
from clob.journal import (
    ZERO_HASH,
    Recorder,
    encode_frame,
    event_hash,
    frame_hash,
    read_frames,
    run,
    verify,
)
from clob.matcher import Matcher
from clob.order import Side
from tests.journal.stories import RAIN, STORY, apply_all, journal_of, submit

pytestmark = pytest.mark.usefixtures("journal_codec")

ADDED = OrderAdded(1, "rain", "101", "a", Side.BUY, 50, 60)


def hashed(*pieces):
    return hashlib.blake2b(b"".join(pieces), digest_size=32).digest()


# ----- the event hash ------------------------------------------------------------------------


def test_event_hash_covers_the_count_and_the_events():
    assert event_hash(ZERO_HASH, []) == hashed(ZERO_HASH, b"\0\0")
    assert event_hash(b"p" * 32, [ADDED] * 2) == hashed(b"p" * 32, b"\0\x01\x02", encode(ADDED) * 2)


def test_event_hash_covers_the_code_of_a_rejection():
    code = b"UNKNOWN_ORDER"
    result = event_hash(b"p" * 32, UnknownOrderError("order 7 is unknown"))
    assert result == hashed(b"p" * 32, b"\x01\x01", bytes((len(code),)), code)
    assert result != event_hash(b"p" * 32, UnknownMarketError("order 7 is unknown"))


def test_message_of_a_rejection_does_not_change_the_hash():
    one, other = UnknownOrderError("order 7 is unknown"), UnknownOrderError("no order 7")
    assert event_hash(ZERO_HASH, one) == event_hash(ZERO_HASH, other)
    in_a_batch = [[ADDED, Rejected(1, "UNKNOWN_ORDER", message)] for message in ("", "no order 7")]
    assert event_hash(ZERO_HASH, in_a_batch[0]) == event_hash(ZERO_HASH, in_a_batch[1])
    assert event_hash(ZERO_HASH, [ADDED, Rejected(2, "UNKNOWN_ORDER", "")]) != event_hash(
        ZERO_HASH, in_a_batch[0]
    )


def test_event_hash_depends_on_all_earlier_outcomes():
    hashes = {ZERO_HASH}
    last = ZERO_HASH
    for _ in range(10):
        last = event_hash(last, [])
        hashes.add(last)
    assert len(hashes) == 11


# ----- the recorder --------------------------------------------------------------------------


def test_recorder_returns_and_raises_like_its_matcher():
    recorder, matcher = Recorder(), Matcher()
    for command in STORY:
        try:
            expected = matcher.apply(command)
        except RejectedError as error:
            message = re.escape(str(error))
            with pytest.raises(type(error), match=f"^{message}$"):
                recorder.apply(command)
        else:
            assert recorder.apply(command) == expected
    assert recorder.matcher.state_hash() == matcher.state_hash()


def test_frame_contains_every_command_with_its_outcome():
    recorder, matcher = Recorder(), Matcher()
    apply_all(recorder, STORY)
    [frame] = read_frames(recorder.frame())
    assert frame.commands() == STORY
    assert (frame.first_seq, frame.event_hash, frame.state_hash) == (1, ZERO_HASH, None)
    last = ZERO_HASH
    for command, recorded in zip(STORY, frame.outcomes, strict=True):
        try:
            outcome = matcher.apply(command)
        except RejectedError as error:
            outcome = error
        last = event_hash(last, outcome)
        assert recorded == last[:8]
    assert recorder.event_hash == last


def test_frames_are_chained_and_numbered_consecutively():
    frames, recorder = journal_of(STORY, 7)
    result = list(read_frames(frames))
    assert [frame.first_seq for frame in result] == [1, 8, 15, 22, 29, 36]
    assert recorder.chain_hash == frame_hash(frames[-1])
    assert recorder.next_seq == len(STORY) + 1
    assert [command for frame in result for command in frame.commands()] == STORY


def test_frame_size_does_not_change_event_and_state_hash():
    recorders = [journal_of(STORY, size)[1] for size in (1, 7, 100)]
    assert len({recorder.event_hash for recorder in recorders}) == 1
    assert len({recorder.matcher.state_hash() for recorder in recorders}) == 1


def test_empty_frame_contains_the_current_hashes():
    frames, recorder = journal_of(STORY, 100, state_hashes=True)
    *_, last = read_frames([*frames, recorder.frame()])
    assert (last.count, last.first_seq) == (0, len(STORY) + 1)
    assert last.event_hash == recorder.event_hash
    assert last.state_hash == recorder.matcher.state_hash()


def test_state_hash_is_taken_before_the_first_command():
    frames, _ = journal_of(STORY, 10, state_hashes=True)
    matcher = Matcher()
    for frame in read_frames(frames):
        assert frame.state_hash == matcher.state_hash()
        matcher.replay(frame.commands())


def test_recorder_continues_from_a_snapshot():
    whole, _ = journal_of(STORY, 10)
    first, recorder = journal_of(STORY[:20], 10)
    matcher = Matcher.restore(recorder.matcher.snapshot())
    second, _ = journal_of(
        STORY[20:],
        10,
        matcher=matcher,
        previous=recorder.chain_hash,
        event_hash=recorder.event_hash,
        first_seq=recorder.next_seq,
    )
    assert first + second == whole


def test_command_that_cannot_be_encoded_is_not_executed_or_recorded():
    _, recorder = journal_of(STORY[:4])
    before = recorder.matcher.state_hash(), recorder.event_hash, recorder.next_seq
    with pytest.raises(ValueError, match=r"Expire\.now_ms"):
        recorder.apply(Expire(now_ms=-1))
    with pytest.raises(TypeError, match=r"Cancel\.order_id"):
        recorder.apply(Cancel(order_id=None))
    assert (recorder.matcher.state_hash(), recorder.event_hash, recorder.next_seq) == before
    assert recorder.frame() == encode_frame(
        [], 5, frame_hash(journal_of(STORY[:4])[0][0]), event_hash=before[1], outcomes=[]
    )


def test_rejections_in_a_batch_are_recorded():
    recorder = Recorder()
    apply_all(recorder, STORY[:4])
    batch = Batch(commands=(Cancel(order_id="b"), Cancel(order_id="b")), now_ms=4)
    outcome = recorder.apply(batch)
    assert [type(event).__name__ for event in outcome] == ["OrderRemoved", "Rejected"]
    [frame] = read_frames(recorder.frame())
    assert frame.outcomes[-1] == recorder.event_hash[:8]


def test_recorder_accepts_a_matcher_with_state():
    matcher = Matcher()
    matcher.add_market(RAIN)
    recorder = Recorder(matcher)
    assert recorder.matcher is matcher
    assert len(recorder.apply(submit("a", Side.BUY, 50, 60))) == 1


# ----- resuming ------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [b"", b"C", b"CLOBFRM", b"CLOBFRM\2\xff\0\0\0abc"])
def test_resumed_recorder_continues_the_journal(torn):
    whole, _ = journal_of(STORY[:30], 10, state_hashes=True)
    data = b"".join(whole[:2]) + torn
    for pieces in (data, [whole[0], data[len(whole[0]) :]], iter([data])):
        recorder = Recorder.resume(pieces, state_hashes=True)
        assert recorder.resumed_bytes == len(data) - len(torn)
        apply_all(recorder, STORY[20:30])
        assert [recorder.frame()] == whole[2:]


def test_a_last_frame_torn_anywhere_is_cut_off():
    frames, _ = journal_of(STORY[:30], 10)
    data, start = b"".join(frames), len(frames[0] + frames[1])
    for end in range(start, len(data)):
        recorder = Recorder.resume(data[:end])
        assert (recorder.resumed_bytes, recorder.next_seq) == (start, 21)
        assert recorder.chain_hash == frame_hash(frames[1])


def test_resume_starts_at_a_snapshot():
    frames, recorder = journal_of(STORY[:20], 10)
    place = {
        "previous": recorder.chain_hash,
        "event_hash": recorder.event_hash,
        "first_seq": recorder.next_seq,
    }
    matcher = Matcher.restore(recorder.matcher.snapshot())
    apply_all(recorder, STORY[20:])
    last = recorder.frame()
    resumed = Recorder.resume(last, matcher, **place)
    assert resumed.matcher is matcher
    assert resumed.matcher.state_hash() == recorder.matcher.state_hash()
    assert (resumed.chain_hash, resumed.event_hash) == (recorder.chain_hash, recorder.event_hash)
    assert (resumed.next_seq, resumed.resumed_bytes) == (len(STORY) + 1, len(last))
    empty = Recorder.resume(b"", matcher, **place)
    assert (empty.chain_hash, empty.next_seq) == (frame_hash(frames[-1]), 21)


def test_resume_rejects_damage_that_is_not_a_torn_end():
    frames, _ = journal_of(STORY, 10)
    data = b"".join(frames)
    with pytest.raises(ChainBrokenError):
        Recorder.resume(data[:-1] + b"!")
    with pytest.raises(FrameTruncatedError):
        Recorder.resume([frames[0][:-1], *frames[1:]])
    with pytest.raises(FrameMalformedError):
        Recorder.resume(data + bytes(20))
    with pytest.raises(ReplayDiffersError):
        Recorder.resume(data, event_hash=b"x" * 32)


@pytest.mark.parametrize("wrong", [bytearray(), memoryview(b""), "CLOBFRM", [b"", "CLOBFRM"], [5]])
def test_data_of_another_type_is_rejected(wrong):
    for call in (Recorder.resume, verify, lambda data: run(data, Matcher())):
        with pytest.raises(TypeError, match="data must be bytes or an iterable of bytes; got "):
            call(wrong)
