"""What a recorder keeps of a matcher's life, and the hash over all that came of it."""

import hashlib
import re

import pytest

from clob.codec import encode
from clob.commands import Batch, Cancel, Expire
from clob.errors import RejectedError, UnknownMarketError, UnknownOrderError
from clob.events import OrderAdded, Rejected
from clob.journal import ZERO_HASH, Recorder, encode_frame, event_hash, frame_hash, read_frames
from clob.matcher import Matcher
from clob.order import Side
from tests.journal.stories import RAIN, STORY, journal_of, submit, tell

pytestmark = pytest.mark.usefixtures("journal_codec")

ADDED = OrderAdded(1, "rain", "101", "a", Side.BUY, 50, 60)


def hashed(*pieces):
    return hashlib.blake2b(b"".join(pieces), digest_size=32).digest()


# ----- the event hash ------------------------------------------------------------------------


def test_the_event_hash_takes_in_the_count_and_the_events():
    assert event_hash(ZERO_HASH, []) == hashed(ZERO_HASH, b"\0\0")
    assert event_hash(b"p" * 32, [ADDED] * 2) == hashed(b"p" * 32, b"\0\x01\x02", encode(ADDED) * 2)


def test_of_a_refusal_the_event_hash_takes_in_the_code():
    code = b"UNKNOWN_ORDER"
    found = event_hash(b"p" * 32, UnknownOrderError("there is no order 7"))
    assert found == hashed(b"p" * 32, b"\x01\x01", bytes((len(code),)), code)
    assert found != event_hash(b"p" * 32, UnknownMarketError("there is no order 7"))


def test_better_words_of_a_refusal_change_no_hash():
    one, other = UnknownOrderError("there is no order 7"), UnknownOrderError("no order 7")
    assert event_hash(ZERO_HASH, one) == event_hash(ZERO_HASH, other)
    in_a_batch = [[ADDED, Rejected(1, "UNKNOWN_ORDER", words)] for words in ("", "no order 7")]
    assert event_hash(ZERO_HASH, in_a_batch[0]) == event_hash(ZERO_HASH, in_a_batch[1])
    assert event_hash(ZERO_HASH, [ADDED, Rejected(2, "UNKNOWN_ORDER", "")]) != event_hash(
        ZERO_HASH, in_a_batch[0]
    )


def test_the_event_hash_depends_on_all_that_was_before():
    hashes = {ZERO_HASH}
    last = ZERO_HASH
    for _ in range(10):
        last = event_hash(last, [])
        hashes.add(last)
    assert len(hashes) == 11


# ----- the recorder --------------------------------------------------------------------------


def test_a_recorder_answers_as_its_matcher_does():
    recorder, matcher = Recorder(), Matcher()
    for command in STORY:
        try:
            expected = matcher.apply(command)
        except RejectedError as refusal:
            words = re.escape(str(refusal))
            with pytest.raises(type(refusal), match=f"^{words}$"):
                recorder.apply(command)
        else:
            assert recorder.apply(command) == expected
    assert recorder.matcher.state_hash() == matcher.state_hash()


def test_a_frame_holds_every_command_and_states_what_came_of_it():
    recorder, matcher = Recorder(), Matcher()
    tell(recorder, STORY)
    [frame] = read_frames(recorder.frame())
    assert frame.commands() == STORY
    assert (frame.first_seq, frame.event_hash, frame.state_hash) == (1, ZERO_HASH, None)
    last = ZERO_HASH
    for command, stated in zip(STORY, frame.outcomes, strict=True):
        try:
            outcome = matcher.apply(command)
        except RejectedError as refusal:
            outcome = refusal
        last = event_hash(last, outcome)
        assert stated == last[:8]
    assert recorder.event_hash == last


def test_frames_are_chained_and_numbered_on():
    frames, recorder = journal_of(STORY, 7)
    found = list(read_frames(frames))
    assert [frame.first_seq for frame in found] == [1, 8, 15, 22, 29]
    assert recorder.chain_hash == frame_hash(frames[-1])
    assert recorder.next_seq == len(STORY) + 1
    assert [command for frame in found for command in frame.commands()] == STORY


def test_how_commands_fall_into_frames_changes_no_hash():
    recorders = [journal_of(STORY, size)[1] for size in (1, 7, 100)]
    assert len({recorder.event_hash for recorder in recorders}) == 1
    assert len({recorder.matcher.state_hash() for recorder in recorders}) == 1


def test_a_frame_without_commands_states_where_the_journal_stands():
    frames, recorder = journal_of(STORY, 100, state_hashes=True)
    *_, last = read_frames([*frames, recorder.frame()])
    assert (last.count, last.first_seq) == (0, len(STORY) + 1)
    assert last.event_hash == recorder.event_hash
    assert last.state_hash == recorder.matcher.state_hash()


def test_state_hashes_are_those_before_the_first_command():
    frames, _ = journal_of(STORY, 10, state_hashes=True)
    matcher = Matcher()
    for frame in read_frames(frames):
        assert frame.state_hash == matcher.state_hash()
        matcher.replay(frame.commands())


def test_a_recorder_goes_on_where_another_ended():
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


def test_a_command_that_cannot_be_written_is_neither_executed_nor_kept():
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


def test_the_refusals_of_a_batch_are_kept_with_it():
    recorder = Recorder()
    tell(recorder, STORY[:4])
    batch = Batch(commands=(Cancel(order_id="b"), Cancel(order_id="b")), now_ms=4)
    outcome = recorder.apply(batch)
    assert [type(event).__name__ for event in outcome] == ["OrderRemoved", "Rejected"]
    [frame] = read_frames(recorder.frame())
    assert frame.outcomes[-1] == recorder.event_hash[:8]


def test_a_matcher_may_have_lived_before():
    matcher = Matcher()
    matcher.add_market(RAIN)
    recorder = Recorder(matcher)
    assert recorder.matcher is matcher
    assert len(recorder.apply(submit("a", Side.BUY, 50, 60))) == 1
