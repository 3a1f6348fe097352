"""Verification of a journal: it succeeds, or reports the first difference."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.codec import encode
from clob.commands import AddMarket, Cancel, Reduce
from clob.errors import (
    ChainBrokenError,
    FrameError,
    FrameTruncatedError,
    InvalidBytesError,
    ReplayDiffersError,
)
from clob.journal import (
    ZERO_HASH,
    Verified,
    encode_frame,
    event_hash,
    frame_hash,
    read_frames,
    run,
    verify,
)
from clob.matcher import Matcher, Replayed
from clob.order import Side
from tests.journal.forge import commands_of, forged
from tests.journal.stories import RAIN, SNOW, STORY, journal_of, submit

pytestmark = pytest.mark.usefixtures("journal_codec")

REJECTED = {
    "MARKET_EXISTS": 1,
    "DUPLICATE_ORDER": 1,
    "PRICE_OUT_OF_RANGE": 1,
    "TOKEN_NOT_IN_MARKET": 1,
    "UNKNOWN_ORDER": 1,
    "ORDER_NOT_OPEN": 1,
    "NONCE_TOO_LOW": 1,
    "MARKET_NOT_OPEN": 2,
    "CLOCK_WENT_BACK": 1,
}
"""Rejections of STORY by error code."""


def rewritten(frames, change):
    """Re-encode frames with a valid chain after ``change`` modified the content of each."""
    result, previous = [], ZERO_HASH
    for frame in read_frames(frames):
        content = {
            "commands": list(frame.raw),
            "event_hash": frame.event_hash,
            "state_hash": frame.state_hash,
            "outcomes": None if frame.outcomes is None else [o + bytes(24) for o in frame.outcomes],
        }
        change(frame, content)
        commands = content.pop("commands")
        result.append(encode_frame(commands, frame.first_seq, previous, **content))
        previous = frame_hash(result[-1])
    return result


def assert_differs(frames, name, command_seq):
    with pytest.raises(ReplayDiffersError) as caught:
        verify(frames)
    assert caught.value.code == "REPLAY_DIFFERS"
    assert (caught.value.what, caught.value.command_seq) == (name, command_seq)
    assert caught.value.expected != caught.value.found
    assert f"{name} of command {command_seq}" in str(caught.value)
    return caught.value


# ----- valid journals ------------------------------------------------------------------------


@pytest.mark.parametrize("state_hashes", [False, True])
@pytest.mark.parametrize("per_frame", [1, 7, 100])
def test_recorded_journal_is_verified(per_frame, state_hashes):
    frames, recorder = journal_of(STORY, per_frame, state_hashes=state_hashes)
    assert verify(b"".join(frames)) == Verified(
        frames=len(frames),
        commands=len(STORY),
        rejected=REJECTED,
        last_seq=len(STORY),
        event_hash=recorder.event_hash,
        state_hash=recorder.matcher.state_hash(),
        chain_hash=recorder.chain_hash,
    )


def test_empty_journal_is_verified():
    result = verify(b"")
    assert (result.frames, result.commands, result.last_seq, result.rejected) == (0, 0, 0, {})
    assert (result.event_hash, result.chain_hash) == (ZERO_HASH, ZERO_HASH)
    assert result.state_hash == Matcher().state_hash()


def test_journal_without_hashes_is_replayed():
    frames, recorder = journal_of(STORY)
    bare = rewritten(frames, lambda _, content: content.update(event_hash=None, outcomes=None))
    result = verify(bare)
    assert result.event_hash == recorder.event_hash
    assert result.state_hash == recorder.matcher.state_hash()


def test_verification_can_start_at_a_snapshot():
    frames, half = journal_of(STORY[:14])
    whole, recorder = journal_of(STORY)
    result = verify(
        whole[len(frames) :],
        Matcher.restore(half.matcher.snapshot()),
        previous=half.chain_hash,
        event_hash=half.event_hash,
        first_seq=half.next_seq,
    )
    assert (result.commands, result.last_seq) == (len(STORY) - 14, len(STORY))
    assert result.state_hash == recorder.matcher.state_hash()
    assert result.event_hash == recorder.event_hash


def test_commands_of_the_embedders_own_kinds_are_skipped():
    matcher = Matcher()
    first = event_hash(ZERO_HASH, matcher.apply(AddMarket(market=RAIN)))
    second = event_hash(first, matcher.apply(submit("a", Side.BUY, 50, 60)))
    commands = [AddMarket(market=RAIN), b"\x80 pause", submit("a", Side.BUY, 50, 60), b"\xff"]
    outcomes = [first, first, second, second]
    data = encode_frame(commands, 1, ZERO_HASH, outcomes=outcomes)
    result = verify(data)
    assert (result.commands, result.last_seq, result.event_hash) == (4, 4, second)
    assert result.state_hash == matcher.state_hash()
    again = Matcher()
    assert run(data, again) == Replayed(2, {}, 1)
    assert again.state_hash() == matcher.state_hash()


some_ids = st.sampled_from(["a", "b", "c", 4, 5])
some_makers = st.sampled_from(["x", "y"])
some_commands = st.one_of(
    st.builds(
        submit, some_ids, st.sampled_from(Side), st.integers(48, 52), st.integers(0, 9),
        maker=some_makers,
    ),
    st.builds(Cancel, order_id=some_ids, maker=st.none() | some_makers),
    st.builds(Reduce, order_id=some_ids, size=st.integers(0, 9)),
)  # fmt: skip


@given(commands=st.lists(some_commands, max_size=30), per_frame=st.integers(1, 10))
def test_journal_of_random_commands_is_verified(commands, per_frame):
    frames, recorder = journal_of([AddMarket(market=RAIN), *commands], per_frame)
    result = verify(frames)
    assert result.state_hash == recorder.matcher.state_hash()
    assert result.event_hash == recorder.event_hash
    matcher = Matcher()
    assert run(frames, matcher).rejected == result.rejected
    assert matcher.state_hash() == result.state_hash


# ----- differences ---------------------------------------------------------------------------


@pytest.mark.parametrize("command_seq", range(1, len(STORY) + 1))
def test_first_different_outcome_is_reported(command_seq):
    def change(frame, content):
        for seq in (command_seq, command_seq + 3):  # the later difference must not be reported
            if 0 <= seq - frame.first_seq < frame.count:
                content["outcomes"][seq - frame.first_seq] = b"x" * 32

    error = assert_differs(rewritten(journal_of(STORY)[0], change), "outcome", command_seq)
    assert (error.expected, len(error.found)) == (b"x" * 8, 8)


def test_replaced_command_is_detected():
    def change(frame, content):
        if frame.first_seq == 1:
            content["commands"][3] = submit("b", Side.BUY, 55, 101, now_ms=4)

    assert_differs(rewritten(journal_of(STORY)[0], change), "outcome", 4)


def test_different_rejection_code_is_detected():
    def change(frame, content):
        if frame.first_seq == 1:
            content["commands"][4] = Cancel(order_id="b", maker="another", now_ms=4)

    assert_differs(rewritten(journal_of(STORY)[0], change), "outcome", 5)


def test_different_event_hash_is_reported_with_the_next_command():
    def change(frame, content):
        if frame.first_seq == 15:
            content["event_hash"] = b"x" * 32

    error = assert_differs(rewritten(journal_of(STORY)[0], change), "event hash", 15)
    assert error.expected == b"x" * 32


def test_different_state_hash_is_reported_with_the_next_command():
    def change(frame, content):
        content["state_hash"] = b"x" * 32 if frame.first_seq == 8 else None

    assert_differs(rewritten(journal_of(STORY)[0], change), "state hash", 8)


def test_state_difference_without_events_is_detected_by_the_state_hash():
    def change(frame, content):
        content["event_hash"] = content["outcomes"] = None
        if frame.first_seq == 1:  # this order never trades, so no event contains its maker
            content["commands"][2] = submit("a", Side.SELL, 50, 60, now_ms=3, client_id="other")

    frames = rewritten(journal_of(STORY, state_hashes=True)[0], change)
    assert_differs(frames, "state hash", 8)


def test_matcher_in_another_state_is_detected():
    frames, _ = journal_of(STORY)
    matcher = Matcher()
    matcher.add_market(RAIN)
    with pytest.raises(ReplayDiffersError, match="outcome of command 1"):
        verify(frames, matcher)


# ----- damage --------------------------------------------------------------------------------


def test_damaged_journal_is_rejected():
    whole = b"".join(journal_of(STORY[:6], 3)[0])
    for position in range(len(whole)):
        bad = whole[:position] + bytes((whole[position] ^ 0x11,)) + whole[position + 1 :]
        with pytest.raises(FrameError):
            verify(bad)


def test_run_stops_before_a_damaged_frame():
    frames, _ = journal_of(STORY, 11)
    matcher, expected = Matcher(), Matcher()
    with pytest.raises(FrameTruncatedError, match="frame 4"):
        run(b"".join(frames)[:-1], matcher)
    run(frames[:3], expected)
    assert matcher.state_hash() == expected.state_hash()
    with pytest.raises(ChainBrokenError, match="frame 2"):
        run([frames[0], frames[2]], Matcher())


@pytest.mark.parametrize("bad", [b"", b"\x07\x01\0", b"\x10", b"\x41"])
@pytest.mark.parametrize("foreign", [[], [b"\x80"]])
def test_invalid_command_bytes_are_reported_and_stop_the_replay(bad, foreign):
    later = AddMarket(market=SNOW)
    raws = [encode(AddMarket(market=RAIN)), *foreign, bad, encode(later)]
    data = forged(struct.pack("<QIB", 1, len(raws), 0) + commands_of(*raws))
    message = rf"\(command {2 + len(foreign)}, frame 1\)"
    for do in (verify, run):
        matcher = Matcher()
        with pytest.raises(InvalidBytesError, match=message):
            do(data, matcher)
        assert later.market not in matcher.markets
