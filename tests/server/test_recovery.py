"""From a log to the state that it leads to, whatever was kept of it."""

import asyncio
import contextlib
import shutil

import msgspec
import pytest

from clob import Expire, Matcher, RejectedError
from clob.codec import encode
from clob.errors import InvalidSnapshotError
from clob.journal import ZERO_HASH, Recorder, encode_frame, event_hash, frame_hash, verify
from clob.order import Side
from clob_server.engine import Engine
from clob_server.log import LogDamagedError, MemoryLog, Snapshot, SqliteLog
from clob_server.recovery import recover, take_snapshot
from tests.journal.stories import STORY, submit, tell

PER_FRAME = 4


def live(log, recorder, commands, per_frame=PER_FRAME):
    """Log commands and do them, a frame after the other, with the hashes of the journal."""
    for start in range(0, len(commands), per_frame):
        part = commands[start : start + per_frame]
        log.append(list(map(encode, part)), log.tail.seq, event_hash=recorder.event_hash)
        tell(recorder, part)


def told(log, commands=STORY):
    """Log commands from the beginning; give the recorder that did them."""
    recorder = Recorder()
    live(log, recorder, commands)
    return recorder


def recovered(log):
    return recover(log, Matcher, Matcher.restore)


def assert_recovers(log, recorder, count):
    state, hashed, found = recovered(log)
    assert state.snapshot() == recorder.matcher.snapshot()
    assert state.state_hash() == recorder.matcher.state_hash()
    assert hashed == recorder.event_hash
    assert found == count


def data_of(log, after=0, previous=ZERO_HASH):
    """The journal that a log holds after some command, as bytes."""
    pieces = []
    for frame in log.read(after):
        pieces.append(
            encode_frame(frame.raw, frame.first_seq, previous, event_hash=frame.event_hash)
        )
        previous = frame_hash(pieces[-1])
    return b"".join(pieces)


# ----- what is recovered ---------------------------------------------------------------------


def test_an_empty_log_leads_to_the_beginning(log):
    state, hashed, count = recovered(log)
    assert state.snapshot() == Matcher().snapshot()
    assert (hashed, count) == (ZERO_HASH, 0)


@pytest.mark.parametrize("count", range(1, len(STORY) + 1))
def test_frames_alone_lead_to_the_state(count):
    log = MemoryLog()
    assert_recovers(log, told(log, STORY[:count]), count)


def test_frames_in_a_folder_lead_to_the_state_too(log):
    assert_recovers(log, told(log), len(STORY))


@pytest.mark.parametrize("covered", range(0, len(STORY), PER_FRAME))
@pytest.mark.parametrize("drops", [False, True])
def test_a_snapshot_and_the_frames_since_lead_to_the_state(log, covered, drops):
    recorder = told(log, STORY[:covered])
    taken = take_snapshot(log, recorder.matcher, recorder.event_hash)
    assert (taken.seq, taken.chain_hash) == (log.tail.seq, log.tail.chain_hash)
    if drops:
        assert log.drop(covered) == covered // PER_FRAME
    live(log, recorder, STORY[covered:])
    assert_recovers(log, recorder, len(STORY) - covered)


@pytest.mark.parametrize("drops", [False, True])
def test_a_snapshot_alone_leads_to_the_state(log, drops):
    recorder = told(log)
    taken = take_snapshot(log, recorder.matcher, recorder.event_hash)
    assert log.get_snapshot() == taken
    if drops:
        log.drop(log.tail.seq)
    assert_recovers(log, recorder, 0)


def test_a_snapshot_from_which_nothing_was_dropped_is_used_and_not_done_again(log):
    recorder = told(log, STORY[:8])
    take_snapshot(log, recorder.matcher, recorder.event_hash)
    live(log, recorder, STORY[8:])

    def new():
        raise AssertionError("there is a snapshot")

    state, _, count = recover(log, new, Matcher.restore)
    assert state.state_hash() == recorder.matcher.state_hash()
    assert count == len(STORY) - 8


def test_a_folder_that_was_closed_leads_to_the_state(tmp_path):
    log = SqliteLog(tmp_path)
    recorder = told(log, STORY[:8])
    take_snapshot(log, recorder.matcher, recorder.event_hash)
    log.drop(8)
    live(log, recorder, STORY[8:])
    log.close()
    again = SqliteLog(tmp_path)
    assert_recovers(again, recorder, len(STORY) - 8)
    again.close()


@pytest.mark.parametrize("covered", [None, 12, len(STORY)])
def test_an_engine_goes_on_from_there_and_the_whole_verifies(log, covered):
    recorder = told(log, STORY[:12])
    if covered == 12:
        take_snapshot(log, recorder.matcher, recorder.event_hash)
    live(log, recorder, STORY[12:])
    if covered == len(STORY):
        take_snapshot(log, recorder.matcher, recorder.event_hash)

    async def main():
        state, hashed, _ = recovered(log)
        engine = Engine(log, state, lambda: 5_000, hashed=hashed)
        run = asyncio.create_task(engine.run())
        await engine.ask(
            lambda now: submit("new", Side.SELL, 60, 5, "snow", "201", maker="y", now_ms=now)
        )
        with pytest.raises(RejectedError):
            await engine.ask(lambda now: submit("late", Side.SELL, 60, 5, now_ms=now))
        engine.stop()
        await run
        return engine

    engine = asyncio.run(main())
    found = verify(data_of(log))
    assert found.last_seq == len(STORY) + 2
    assert found.event_hash == engine.event_hash
    assert found.state_hash == engine.state.state_hash()
    state, hashed, _ = recovered(log)
    assert (state.state_hash(), hashed) == (found.state_hash, found.event_hash)


def test_what_was_dropped_leaves_a_journal_that_verifies_from_the_snapshot_on(log):
    recorder = told(log, STORY[:12])
    taken = take_snapshot(log, recorder.matcher, recorder.event_hash)
    log.drop(12)
    live(log, recorder, STORY[12:])
    found = verify(
        data_of(log, 12, taken.chain_hash),
        Matcher.restore(taken.state),
        previous=taken.chain_hash,
        event_hash=taken.event_hash,
        first_seq=13,
    )
    assert found.event_hash == recorder.event_hash
    assert found.state_hash == recorder.matcher.state_hash()


# ----- what is refused -----------------------------------------------------------------------


def test_a_log_that_begins_with_another_event_hash_is_damaged(log):
    log.append([encode(STORY[0])], 0, event_hash=b"\1" * 32)
    with pytest.raises(LogDamagedError, match="before command 1 the event hash was 0101"):
        recovered(log)


def test_a_log_that_states_no_event_hash_is_refused(log):
    log.append([encode(STORY[0])], 0)
    with pytest.raises(LogDamagedError, match="frame from command 1 states no event hash"):
        recovered(log)


def test_a_snapshot_with_another_event_hash_is_damaged(log):
    recorder = told(log, STORY[:8])
    take_snapshot(log, recorder.matcher, b"\1" * 32)
    live(log, recorder, STORY[8:])
    with pytest.raises(LogDamagedError, match="before command 9 the event hash was"):
        recovered(log)


def test_a_snapshot_that_is_none_is_refused(log):
    recorder = told(log, STORY[:8])
    take_snapshot(log, recorder.matcher, recorder.event_hash)
    log.put_snapshot(msgspec.structs.replace(log.get_snapshot(), state=b"no state"))
    with pytest.raises(InvalidSnapshotError):
        recovered(log)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_command_of_the_embedders_own_is_not_known_here(log, where):
    commands = [[encode(Expire(now_ms=1))], [encode(Expire(now_ms=2))], [encode(Expire(now_ms=3))]]
    commands[where].append(b"\x80whatever")
    matcher, hashed = Matcher(), ZERO_HASH
    for now_ms, raws in enumerate(commands, 1):
        log.append(raws, log.tail.seq, event_hash=hashed)
        hashed = event_hash(hashed, matcher.apply(Expire(now_ms=now_ms)))
    with pytest.raises(LogDamagedError, match="a command is of kind 128, which is not known here"):
        recovered(log)


def with_a_snapshot_at_its_end(folder, commands):
    """Make a log in a folder, with a snapshot after the last command."""
    log = SqliteLog(folder)
    recorder = told(log, commands)
    take_snapshot(log, recorder.matcher, recorder.event_hash)
    log.close()
    return recorder


def opened_and_recovered(folder, **options):
    """Start over a folder as a server does."""
    with contextlib.closing(SqliteLog(folder, **options)) as log:
        return recovered(log)


@pytest.fixture
def restored(tmp_path):
    """A folder whose database is restored from a backup, and a snapshot from later still there."""
    folder, older = tmp_path / "log", tmp_path / "older"
    with contextlib.closing(SqliteLog(folder)) as log:
        recorder = told(log, STORY[:8])
        take_snapshot(log, recorder.matcher, recorder.event_hash)
    shutil.copytree(folder, older)
    with contextlib.closing(SqliteLog(folder)) as log:
        live(log, recorder, STORY[8:12])
        take_snapshot(log, recorder.matcher, recorder.event_hash)
    for name in ("log.db", "tip"):
        shutil.copy(older / name, folder / name)
    return folder


def test_a_snapshot_of_what_the_log_has_lost_is_refused(restored):
    with pytest.raises(LogDamagedError, match=r"ends with command 8, before snapshot-0+12"):
        opened_and_recovered(restored)


def test_a_snapshot_of_what_the_log_has_lost_goes_where_the_loss_is_accepted(restored):
    expected = Recorder()
    tell(expected, STORY[:8])
    with contextlib.closing(SqliteLog(restored, accept_tail=True)) as log:
        assert_recovers(log, expected, 0)
        live(log, expected, STORY[8:20], 3)
        assert_recovers(log, expected, 12)
    state, hashed, _ = opened_and_recovered(restored)
    assert state.state_hash() == expected.matcher.state_hash()
    assert hashed == expected.event_hash


def test_a_snapshot_of_another_history_is_refused(tmp_path):
    folder, other = tmp_path / "log", tmp_path / "other"
    with_a_snapshot_at_its_end(folder, STORY[:8])
    with_a_snapshot_at_its_end(other, STORY[8:16])
    (name,) = (path.name for path in folder.glob("snapshot-*"))
    shutil.copy(other / name, folder / name)
    with pytest.raises(LogDamagedError):
        opened_and_recovered(folder)


def test_a_snapshot_within_a_frame_is_refused():
    class Loose(MemoryLog):
        """A log that keeps whatever snapshot it is given."""

        def put_snapshot(self, snapshot):
            self._snapshot = snapshot

    log = Loose()
    told(log, STORY[:8])
    recorder = Recorder()
    tell(recorder, STORY[:6])
    log.put_snapshot(
        Snapshot(
            seq=6,
            chain_hash=ZERO_HASH,
            event_hash=recorder.event_hash,
            state=recorder.matcher.snapshot(),
        )
    )
    with pytest.raises(LogDamagedError, match="command 7 is within the frame from 5"):
        recovered(log)
