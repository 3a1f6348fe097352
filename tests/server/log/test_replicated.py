"""ReplicatedLog: appends and pulls of several nodes on one stream, reopening, and losses."""

import contextlib
import json
import time

import pytest

from clob import Expire
from clob.codec import encode
from clob.journal import ZERO_HASH, encode_frame, frame_hash
from clob_server.log import (
    ClusterLostError,
    FencedError,
    FrameTooLargeError,
    LogBehindError,
    LogDamagedError,
    LogDivergedError,
    LogFailedError,
    LogNewerError,
    ReplicatedLog,
    Snapshot,
    SqliteLog,
    Tail,
    put_back,
)
from clob_server.log.jetstream import HEADER_BYTES, PAGE_BYTES
from tests.server.log.nats_servers import MAX_PAYLOAD

SHORT_S = 0.3


def raws(*times):
    """Return commands in canonical bytes, with different times."""
    return [encode(Expire(now_ms=now_ms)) for now_ms in times]


def filled(log, *sizes):
    """Append frames with these numbers of commands."""
    for size in sizes:
        first = log.tail.seq + 1
        log.append(raws(*range(first, first + size)), log.tail.seq)
    return log


def seqs(frames):
    """Return the first number and the length of each frame."""
    return [(frame.first_seq, frame.count) for frame in frames]


def pulled(log, seq):
    """Pull until a log ends with a command; return the frames."""
    frames = []
    while log.tail.seq < seq:
        found = log.pull(5)
        assert found, f"nothing came after command {log.tail.seq}"
        frames += found
    return frames


def snapshot_of(log):
    """Return a snapshot after the last command."""
    tail = log.tail
    return Snapshot(seq=tail.seq, chain_hash=tail.chain_hash, event_hash=b"\1" * 32, state=b"state")


@pytest.fixture
def open_log(open_stream, tmp_path):
    """Open the log of a node by its name; all nodes share the stream of the test."""
    with contextlib.ExitStack() as stack:

        def open_one(name, **options):
            log = ReplicatedLog(tmp_path / name, open_stream(**options))
            stack.callback(log.close)
            return log

        yield open_one


# ----- appending and pulling -----------------------------------------------------------------


def test_pull_returns_and_stores_the_frames_of_another_node(open_log):
    one, two = open_log("one"), open_log("two")
    filled(one, 3, 1, 2)
    assert seqs(pulled(two, 6)) == [(1, 3), (4, 1), (5, 2)]
    assert two.tail == one.tail
    assert list(two.read()) == list(one.read())
    filled(one, 4)
    (frame,) = two.pull(5)
    assert frame == next(one.read(6))
    assert two.pull(0) == []


def test_pull_without_new_frames_returns_after_the_timeout(open_log):
    log = filled(open_log("one"), 2)
    start = time.monotonic()
    assert log.pull(SHORT_S) == []
    assert SHORT_S <= time.monotonic() - start < SHORT_S + 1


def test_pull_waits_for_a_frame_without_polling(open_log):
    """A frame that is stored while a pull waits arrives before the next read would find it."""
    one, two = open_log("one"), open_log("two")
    two.pull(0)
    waits_s = []
    for _ in range(20):
        filled(one, 1)
        start = time.monotonic()
        assert two.pull(5)
        waits_s.append(time.monotonic() - start)
    assert sorted(waits_s)[10] < 0.1


def test_frames_of_many_reads_are_pulled_in_order(open_log):
    one = filled(open_log("one"), *[1] * 600)
    two = open_log("two")
    frames = pulled(two, 600)
    assert [frame.first_seq for frame in frames] == list(range(1, 601))
    assert two.tail == one.tail


def test_frames_larger_than_a_read_are_pulled(open_log):
    one, two = open_log("one"), open_log("two")
    two.pull(0)
    large = [b"\x80" + bytes(PAGE_BYTES)]
    one.append(large, 0)
    one.append(large, 1)
    assert seqs(pulled(two, 2)) == [(1, 1), (2, 1)]
    three = open_log("three")
    assert seqs(pulled(three, 2)) == [(1, 1), (2, 1)]


def test_frame_larger_than_a_message_is_rejected_before_it_is_sent(open_log):
    log, other = filled(open_log("one"), 1), open_log("two")
    with pytest.raises(FrameTooLargeError, match=f"accept at most {MAX_PAYLOAD - HEADER_BYTES}"):
        log.append([b"\x80" + bytes(MAX_PAYLOAD)], 1)
    assert log.tail.seq == 1
    assert filled(log, 1).tail.seq == 2
    pulled(other, 2)
    assert other.tail == log.tail


def test_reopened_log_is_unchanged(open_log):
    log = filled(open_log("one"), 3, 1)
    before = log.tail, list(log.read())
    log.close()
    again = open_log("one")
    assert (again.tail, list(again.read())) == before
    assert filled(again, 2).tail.seq == 6
    other = open_log("two")
    pulled(other, 6)
    assert other.tail == again.tail


def test_log_opened_behind_the_stream_pulls_the_rest(open_log):
    one, two = open_log("one"), open_log("two")
    filled(one, 3)
    pulled(two, 3)
    two.close()
    filled(one, 1, 2)
    again = open_log("two")
    assert again.tail.seq == 3
    assert seqs(pulled(again, 6)) == [(4, 1), (5, 2)]


# ----- several writers -----------------------------------------------------------------------


def test_append_of_a_node_that_has_not_caught_up_is_fenced(open_log):
    one, two = open_log("one"), open_log("two")
    filled(one, 2)
    with pytest.raises(FencedError, match="another writer has appended commands 1 to 2 as frame 1"):
        two.append(raws(9), 0)
    assert two.tail.seq == 0
    assert seqs(pulled(two, 2)) == [(1, 2)]
    assert filled(two, 1).tail.seq == 3
    with pytest.raises(FencedError, match="commands 3 to 3 as frame 2"):
        one.append(raws(9), 2)
    pulled(one, 3)
    assert one.tail == two.tail


def test_equal_frames_of_two_writers_are_accepted_once(open_log):
    one, two = open_log("one"), open_log("two")
    one.append(raws(1), 0)
    with pytest.raises(FencedError):
        two.append(raws(1), 0)


def test_frame_stored_without_its_local_copy_is_pulled(open_log, open_stream, tmp_path):
    """A process that ends between the append to the stream and to the folder loses nothing."""
    one = filled(open_log("one"), 1)
    one.close()
    frame = encode_frame(raws(2), 2, one.tail.chain_hash)
    with contextlib.closing(open_stream()) as stream:
        assert stream.append(frame, 2, 2, 1) == 2
    again = open_log("one")
    assert seqs(pulled(again, 2)) == [(2, 1)]


# ----- logs that do not fit ------------------------------------------------------------------


def cut(open_stream, frames):
    """Delete the stream of a test and write a new one with the first frames of the old one."""
    with contextlib.closing(open_stream()) as stream:
        stored = stream.read(0, frames) if frames else []
        stream._run(stream._api(f"STREAM.DELETE.{stream.name}"))
    with contextlib.closing(open_stream()) as stream:
        for each in stored:
            stream.append(each.frame, each.first, each.last, each.place - 1)


@pytest.mark.parametrize(
    ("frames", "end", "lost"), [(0, "has no", 6), (2, "ends with command 4", 2)]
)
def test_commands_that_the_cluster_lost_are_counted_and_put_back(
    open_log, open_stream, tmp_path, frames, end, lost
):
    log = filled(open_log("one"), 3, 1, 2)
    log.close()
    cut(open_stream, frames)
    expected = f"lost {lost} acknowledged commands: stream .* {end}.* ends with command 6; `clob-"
    with pytest.raises(ClusterLostError, match=expected):
        open_log("one", timeout_s=0.5)
    with (
        contextlib.closing(SqliteLog(tmp_path / "one")) as local,
        contextlib.closing(open_stream()) as stream,
    ):
        assert put_back(local, stream) == lost
        assert put_back(local, stream) == 0
    again = open_log("one")
    assert again.tail == log.tail
    other = open_log("two")
    pulled(other, 6)
    assert list(other.read()) == list(again.read())


def test_running_node_notices_other_frames_in_place_of_lost_ones(open_log, open_stream):
    """The stream is as long as before, so the servers would accept the append."""
    log, other = filled(open_log("one"), 1), open_log("other")
    pulled(other, 1)
    other.close()
    filled(log, 1)
    cut(open_stream, 1)
    open_log("other").append(raws(99), 1)
    log._next_check = 0
    with pytest.raises(LogDivergedError, match=r"part after command 1"):
        filled(log, 1)
    log._next_check = 0
    with pytest.raises(LogDivergedError, match=r"part after command 1"):
        log.pull(0.1)


def test_running_node_notices_that_the_cluster_lost_commands(open_log, open_stream):
    log = filled(open_log("one", timeout_s=0.5), 1, 1)
    cut(open_stream, 1)
    log._next_check = 0
    with pytest.raises(ClusterLostError, match="lost 1 acknowledged"):
        log.pull(1)


def test_append_to_a_stream_that_lost_commands_fails(open_log, open_stream):
    log = filled(open_log("one", append_timeout_s=0.5), 1, 1)
    cut(open_stream, 1)
    with pytest.raises(LogFailedError, match=r"may or may not be stored.*wrong last sequence: 1"):
        filled(log, 1)
    with pytest.raises(LogFailedError, match="an append failed before"):
        filled(log, 1)


def test_logs_that_part_are_rejected_with_the_last_common_command(open_log, open_stream, tmp_path):
    one, two = open_log("one"), open_log("two")
    filled(one, 3)
    pulled(two, 3)
    for log in (one, two):
        log.close()
    with contextlib.closing(SqliteLog(tmp_path / "two")) as local:
        local.append(raws(77), 3)
        filled(local, 1)
    filled(open_log("one"), 1, 1, 1).close()
    with pytest.raises(LogDivergedError, match=r"part after command 3.*local log up to 5"):
        open_log("two")
    with (
        contextlib.closing(SqliteLog(tmp_path / "two")) as local,
        contextlib.closing(open_stream()) as stream,
        pytest.raises(LogDivergedError),
    ):
        put_back(local, stream)


def test_log_of_another_exchange_is_rejected(open_log, tmp_path):
    filled(open_log("one"), 1, 1)
    with contextlib.closing(SqliteLog(tmp_path / "two")) as local:
        local.append(raws(5, 6, 7), 0)
    with pytest.raises(LogDivergedError, match="part after command 0"):
        open_log("two", timeout_s=0.5)


def test_frame_that_does_not_follow_is_rejected_by_a_pull(open_log, open_stream):
    log = open_log("one")
    frame = encode_frame(raws(1), 1, b"\7" * 32)
    with contextlib.closing(open_stream()) as stream:
        stream.append(frame, 1, 1, 0)
    with pytest.raises(LogDivergedError, match=r"after command 0 .* does not follow"):
        log.pull(5)
    assert log.tail == Tail()


def test_frame_of_a_newer_version_is_rejected_by_a_pull(open_log, open_stream):
    log = open_log("one")
    frame = bytearray(encode_frame(raws(1), 1, ZERO_HASH))
    frame[7] += 1
    with contextlib.closing(open_stream()) as stream:
        stream.append(bytes(frame), 1, 1, 0)
    with pytest.raises(LogNewerError, match="unsupported journal version"):
        log.pull(5)


def test_message_that_is_not_a_frame_is_rejected(open_log, open_stream):
    log = open_log("one")
    with contextlib.closing(open_stream()) as stream:
        message = json.dumps({"not": "a frame"}).encode()
        stream._run(stream._request(f"clob.log.{stream.name}", message, 2))
    with pytest.raises(LogDamagedError, match=r"message 1 of stream .* is not a frame"):
        log.pull(5)


# ----- dropping and filling ------------------------------------------------------------------


def test_drop_removes_the_frames_of_the_stream_too(open_log, open_stream):
    log = filled(open_log("one"), 3, 1, 2)
    log.put_snapshot(snapshot_of(log))
    assert log.drop(5) == 2
    with contextlib.closing(open_stream()) as stream:
        assert stream.extent() == (3, 3)
    log.close()
    again = open_log("one")
    assert again.origin.seq == 4
    assert filled(again, 1).tail.seq == 7


def test_drop_of_everything_keeps_the_end_of_the_stream(open_log, open_stream):
    log = filled(open_log("one"), 3, 1)
    log.put_snapshot(snapshot_of(log))
    assert log.drop(4) == 2
    with contextlib.closing(open_stream()) as stream:
        assert stream.extent() == (2, 2)
    log.close()
    assert filled(open_log("one"), 1).tail.seq == 5


def test_log_without_the_dropped_commands_is_rejected(open_log):
    log = filled(open_log("one"), 3)
    late = open_log("late")
    pulled(late, 3)
    late.close()
    late = open_log("late")  # and pulls nothing before the frames are dropped
    filled(log, 1, 1)
    log.put_snapshot(snapshot_of(log))
    log.drop(4)
    with pytest.raises(LogBehindError, match=r"ends with command 3, .* dropped .* up to 4; instal"):
        late.pull(1)
    late.close()
    with pytest.raises(LogBehindError, match="ends with command 3"):
        open_log("late")
    with pytest.raises(
        LogBehindError, match=r"local log is empty.*up to 4; .*`clob-server backup`"
    ):
        open_log("new")


def test_local_log_of_before_is_brought_into_a_new_stream(open_log, open_stream, tmp_path):
    with contextlib.closing(SqliteLog(tmp_path / "one")) as local:
        filled(local, 3, 1, 2)
        local.put_snapshot(snapshot_of(local))
        local.drop(3)
        with contextlib.closing(open_stream()) as stream:
            assert put_back(local, stream) == 3
    log = open_log("one")
    assert filled(log, 1).tail.seq == 7
    with pytest.raises(LogBehindError, match="up to 3"):
        open_log("two")


def test_local_log_without_the_missing_commands_cannot_be_put_back(open_stream, tmp_path):
    with contextlib.closing(open_stream()) as stream:
        frame = encode_frame(raws(1), 1, ZERO_HASH)
        stream.append(frame, 1, 1, 0)
        with contextlib.closing(SqliteLog(tmp_path / "one")) as local:
            local.append(raws(1), 0)
            assert local.tail.chain_hash == frame_hash(frame)
            filled(local, 1, 1)
            local.put_snapshot(snapshot_of(local))
            local.drop(2)
            with pytest.raises(LogBehindError, match="ends with command 1, and the local log"):
                put_back(local, stream)
