"""The behaviour of every log: MemoryLog, SqliteLog and ReplicatedLog."""

import pytest

from clob import ClobError, Expire
from clob.codec import encode
from clob.journal import ZERO_HASH, encode_frame, frame_hash, verify
from clob_server.log import (
    FencedError,
    LogDamagedError,
    LogError,
    LogFailedError,
    LogLockedError,
    LogNewerError,
    LogOlderError,
    Snapshot,
    Tail,
)

ONE, OTHER = b"\1" * 32, b"\2" * 32


def raws(*times):
    """Return commands in canonical bytes, with different times."""
    return [encode(Expire(now_ms=now_ms)) for now_ms in times]


def filled(log, *sizes):
    """Append frames with these numbers of commands."""
    for size in sizes:
        first = log.tail.seq + 1
        log.append(raws(*range(first, first + size)), log.tail.seq)
    return log


def ends(log):
    """Append frames of 3, 1 and 2 commands; return the tail after each."""
    found = [log.tail]
    for size in (3, 1, 2):
        filled(log, size)
        found.append(log.tail)
    return found


def seqs(log, after=0):
    """Return the first number and the length of each frame."""
    return [(frame.first_seq, frame.count) for frame in log.read(after)]


def all_of(log):
    """Return all readable data of a log."""
    return log.tail, list(log.read()), log.get_snapshot()


def snapshot_at(end, state=b"a state", event_hash=ONE):
    return Snapshot(seq=end.seq, chain_hash=end.chain_hash, event_hash=event_hash, state=state)


# ----- appending and reading -----------------------------------------------------------------


def test_empty_log_ends_at_zero(log):
    assert log.tail == Tail(0, ZERO_HASH)
    assert list(log.read()) == []
    assert log.get_snapshot() is None


def test_commands_are_numbered_from_one(log):
    assert log.append(raws(1, 2), 0) == log.tail.seq == 2
    assert log.append(raws(3), 2) == log.tail.seq == 3
    assert seqs(log) == [(1, 2), (3, 1)]
    assert [raw for frame in log.read() for raw in frame.raw] == raws(1, 2, 3)


def test_frames_equal_journal_frames(log):
    batches = [(raws(1, 2), None, None), (raws(3), ONE, None), (raws(4, 5), ONE, OTHER)]
    previous, seq = ZERO_HASH, 0
    for commands, event_hash, state_hash in batches:
        log.append(commands, seq, event_hash=event_hash, state_hash=state_hash)
        frame = encode_frame(
            commands, seq + 1, previous, event_hash=event_hash, state_hash=state_hash
        )
        previous, seq = frame_hash(frame), seq + len(commands)
        assert log.tail == Tail(seq, previous)
    stated = [(frame.event_hash, frame.state_hash) for frame in log.read()]
    assert stated == [(None, None), (ONE, None), (ONE, OTHER)]
    assert [frame.outcomes for frame in log.read()] == [None] * 3


def test_concatenated_frames_are_a_valid_journal(log):
    filled(log, 3, 1, 2)
    previous, pieces = ZERO_HASH, []
    for frame in log.read():
        pieces.append(encode_frame(frame.raw, frame.first_seq, previous))
        previous = frame.chain_hash
    found = verify(b"".join(pieces))
    assert (found.frames, found.last_seq) == (3, 6)
    assert found.chain_hash == log.tail.chain_hash


def test_commands_of_embedder_kinds_are_stored_unchanged(log):
    foreign = [bytes((kind,)) + b"whatever" for kind in (128, 255)] + [b"\x80"]
    log.append([*foreign, *raws(4)], 0)
    (frame,) = log.read()
    assert list(frame.raw) == [*foreign, *raws(4)]
    assert frame.commands() == [*foreign, Expire(now_ms=4)]


@pytest.mark.parametrize("after", [0, 3, 5, 7, -1])
def test_append_after_a_wrong_command_is_rejected(log, after):
    filled(log, 3, 1)
    before = all_of(log)
    with pytest.raises(FencedError, match=rf"ends with command 4, not {after}$"):
        log.append(raws(9), after)
    assert all_of(log) == before
    assert log.append(raws(5), 4) == 5


@pytest.mark.parametrize(
    ("commands", "hashes", "words"),
    [
        ([], {}, "at least one command"),
        ([b""], {}, "got kind 0"),
        ([b"\0"], {}, "got kind 0"),
        ([raws(1)[0], b"\x7f"], {}, "got kind 127"),
        (raws(1), {"event_hash": b"short"}, "event_hash must have 32 bytes; got 5"),
        (raws(1), {"state_hash": bytes(33)}, "state_hash must have 32 bytes; got 33"),
        (raws(1), {"event_hash": b""}, "event_hash must have 32 bytes; got 0"),
    ],
)
def test_invalid_frame_is_rejected_without_effect(log, commands, hashes, words):
    filled(log, 2)
    before = all_of(log)
    with pytest.raises(ValueError, match=words):
        log.append(commands, 2, **hashes)
    assert all_of(log) == before
    assert log.append(raws(3), 2) == 3


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (0, [(1, 3), (4, 1), (5, 2)]),
        (1, [(1, 3), (4, 1), (5, 2)]),
        (2, [(1, 3), (4, 1), (5, 2)]),
        (3, [(4, 1), (5, 2)]),
        (4, [(5, 2)]),
        (5, [(5, 2)]),
        (6, []),
        (7, []),
        (10**12, []),
    ],
)
def test_read_starts_with_the_frame_of_the_next_command(log, after, expected):
    filled(log, 3, 1, 2)
    assert seqs(log, after) == expected


def test_unfinished_read_does_not_block_appends(log):
    filled(log, *[1] * 1_200)
    reading = log.read()
    assert next(reading).first_seq == 1
    log.tidy()
    filled(log, 1)
    assert log.tail.seq == 1_201
    assert log.append(raws(9), 1_201) == 1_202


# ----- snapshots and dropping ----------------------------------------------------------------


def test_get_snapshot_returns_the_newest(log):
    _, first, second, third = ends(log)
    for end in (first, third, second):
        log.put_snapshot(snapshot_at(end))
    assert log.get_snapshot() == snapshot_at(third)


def test_snapshot_is_returned_unchanged(log):
    end = ends(log)[-1]
    for state in (b"", b"a state", bytes(range(256)) * 5_000):
        log.put_snapshot(snapshot_at(end, state, OTHER))
        assert log.get_snapshot() == snapshot_at(end, state, OTHER)


def test_snapshot_of_an_empty_log(log):
    log.put_snapshot(snapshot_at(Tail()))
    assert log.get_snapshot() == snapshot_at(Tail())


@pytest.mark.parametrize("seq", [1, 2, 5, 7])
def test_snapshot_within_a_frame_or_beyond_the_end_is_rejected(log, seq):
    end = ends(log)[-1]
    with pytest.raises(ValueError, match=f"no frame ends with command {seq} and"):
        log.put_snapshot(snapshot_at(Tail(seq, end.chain_hash)))
    assert log.get_snapshot() is None


@pytest.mark.parametrize("seq", [0, 3, 6])
def test_snapshot_of_another_log_is_rejected(log, seq):
    ends(log)
    with pytest.raises(ValueError, match=f"no frame ends with command {seq} and"):
        log.put_snapshot(snapshot_at(Tail(seq, ONE)))
    assert log.get_snapshot() is None


@pytest.mark.parametrize(
    ("up_to", "count", "begin"), [(0, 0, 0), (2, 0, 0), (3, 1, 3), (4, 2, 4), (5, 2, 4), (6, 3, 6)]
)
def test_drop_deletes_whole_frames(log, up_to, count, begin):
    log.put_snapshot(snapshot_at(ends(log)[-1]))
    everything = list(log.read())
    assert log.drop(up_to) == count
    kept = [each.chain_hash for each in everything[count:]]
    assert [frame.chain_hash for frame in log.read(begin)] == kept
    for after in range(begin):
        with pytest.raises(LogDamagedError, match=f"up to {begin} were dropped"):
            list(log.read(after))
    assert log.drop(up_to) == 0


def test_drop_beyond_the_snapshot_is_rejected(log):
    _, first, second, _ = ends(log)
    with pytest.raises(ValueError, match="up to 0, not 1"):
        log.drop(1)
    log.put_snapshot(snapshot_at(first))
    log.put_snapshot(snapshot_at(second))
    with pytest.raises(ValueError, match="up to 4, not 5"):
        log.drop(5)
    assert seqs(log) == [(1, 3), (4, 1), (5, 2)]


def test_numbers_and_hashes_continue_after_everything_was_dropped(log):
    end = ends(log)[-1]
    log.put_snapshot(snapshot_at(end))
    log.drop(6)
    assert log.tail == end
    assert log.append(raws(7), 6) == 7
    (frame,) = log.read(6)
    assert frame.chain_hash == frame_hash(encode_frame(raws(7), 7, end.chain_hash))


def test_snapshot_of_dropped_frames_is_rejected(log):
    _, first, second, third = ends(log)
    log.put_snapshot(snapshot_at(third))
    log.drop(4)
    with pytest.raises(ValueError, match="no frame ends with command 3 and"):
        log.put_snapshot(snapshot_at(first))
    log.put_snapshot(snapshot_at(second))
    assert log.get_snapshot() == snapshot_at(third)


# ----- errors ----------------------------------------------------------------------------------


def test_errors_have_distinct_codes():
    kinds = [
        FencedError,
        LogDamagedError,
        LogFailedError,
        LogLockedError,
        LogNewerError,
        LogOlderError,
    ]
    assert all(issubclass(kind, LogError) for kind in kinds)
    assert issubclass(LogError, ClobError)
    assert len({kind.code for kind in [*kinds, LogError, ClobError]}) == 8
