"""Recovery of the state from a log, with and without a snapshot."""

import asyncio
import contextlib
import re
import shutil

import msgspec
import pytest

from clob import Cancel, Expire, Matcher, RejectedError
from clob.codec import encode as encode_event
from clob.errors import InvalidBytesError
from clob.events import OrderRemoved, RemovalReason
from clob.journal import ZERO_HASH, encode_frame, event_hash, frame_hash, verify
from clob.order import Side
from clob_server.cli.verify import audit
from clob_server.core.commands import ENGINE, Budgets, SetBudgets, SetDelegate, encode
from clob_server.core.recovery import commands_of, recover, take_snapshot
from clob_server.core.sequencer import Sequencer
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import LogDamagedError, MemoryLog, Snapshot, SqliteLog
from tests.journal.stories import STORY as ENGINES
from tests.journal.stories import submit
from tests.server.engines import attachment


def with_own(commands):
    """Insert server commands between engine commands, some invalid; sign some orders."""
    for number, command in enumerate(commands):
        order = getattr(command, "order", None)
        if order is not None and number % 3:
            command = msgspec.structs.replace(command, attachment=attachment())
        if number % 5 == 0:
            yield SetDelegate(maker="M", delegate="D", allowed=True, nonce="7", now_ms=number)
        elif number % 7 == 0:
            yield SetBudgets(budgets=Budgets(key_per_minute=number), now_ms=number)
        yield command


STORY = list(with_own(ENGINES))
PER_FRAME = 4


class Recorder:
    """A server state, and the event hash over the outcomes of its engine commands."""

    def __init__(self):
        self.exchange, self.event_hash = ServerState(), ZERO_HASH

    def apply_all(self, commands):
        """Apply commands, including rejected ones."""
        for command in commands:
            outcome = outcome_of(self.exchange, command)
            if type(command) in ENGINE:
                self.event_hash = event_hash(self.event_hash, outcome)


def live(log, recorder, commands, per_frame=PER_FRAME):
    """Log and apply commands frame by frame, with the hashes of the journal."""
    for start in range(0, len(commands), per_frame):
        part = commands[start : start + per_frame]
        log.append(list(map(encode, part)), log.tail.seq, event_hash=recorder.event_hash)
        recorder.apply_all(part)


def write_log(log, commands=STORY):
    """Log commands from the beginning; return the recorder that applied them."""
    recorder = Recorder()
    live(log, recorder, commands)
    return recorder


def assert_recovers(log, recorder, count):
    exchange, hashed, found = recover(log)
    assert exchange.snapshot() == recorder.exchange.snapshot()
    assert exchange.matcher.state_hash() == recorder.exchange.matcher.state_hash()
    assert hashed == recorder.event_hash
    assert found == count


def data_of(log, after=0, previous=ZERO_HASH):
    """Return the journal of a log after a command, as bytes."""
    pieces = []
    for frame in log.read(after):
        pieces.append(
            encode_frame(frame.raw, frame.first_seq, previous, event_hash=frame.event_hash)
        )
        previous = frame_hash(pieces[-1])
    return b"".join(pieces)


# ----- recovered -----------------------------------------------------------------------------


def test_empty_log_recovers_the_initial_state(log):
    exchange, hashed, count = recover(log)
    assert exchange.snapshot() == ServerState().snapshot()
    assert (hashed, count) == (ZERO_HASH, 0)


@pytest.mark.parametrize("count", range(1, len(STORY) + 1))
def test_frames_without_a_snapshot_recover_the_state(count):
    log = MemoryLog()
    assert_recovers(log, write_log(log, STORY[:count]), count)


def test_frames_of_either_log_recover_the_state(log):
    assert_recovers(log, write_log(log), len(STORY))


@pytest.mark.parametrize("covered", range(0, len(STORY), PER_FRAME))
@pytest.mark.parametrize("drops", [False, True])
def test_snapshot_and_later_frames_recover_the_state(log, covered, drops):
    recorder = write_log(log, STORY[:covered])
    taken = take_snapshot(log, recorder.exchange, recorder.event_hash)
    assert (taken.seq, taken.chain_hash) == (log.tail.seq, log.tail.chain_hash)
    if drops:
        assert log.drop(covered) == covered // PER_FRAME
    live(log, recorder, STORY[covered:])
    assert_recovers(log, recorder, len(STORY) - covered)


@pytest.mark.parametrize("drops", [False, True])
def test_snapshot_alone_recovers_the_state(log, drops):
    recorder = write_log(log)
    taken = take_snapshot(log, recorder.exchange, recorder.event_hash)
    assert log.get_snapshot() == taken
    if drops:
        log.drop(log.tail.seq)
    assert_recovers(log, recorder, 0)


def test_frames_before_a_snapshot_are_not_replayed(log):
    recorder = write_log(log, STORY[:8])
    other = Recorder()
    other.apply_all(STORY[:8])
    other.exchange.apply(SetBudgets(budgets=Budgets(key_per_minute=99), now_ms=0))
    take_snapshot(log, other.exchange, other.event_hash)
    live(log, recorder, STORY[8:])
    other.apply_all(STORY[8:])
    assert_recovers(log, other, len(STORY) - 8)


def test_reopened_folder_recovers_the_state(tmp_path):
    log = SqliteLog(tmp_path)
    recorder = write_log(log, STORY[:8])
    take_snapshot(log, recorder.exchange, recorder.event_hash)
    log.drop(8)
    live(log, recorder, STORY[8:])
    log.close()
    again = SqliteLog(tmp_path)
    assert_recovers(again, recorder, len(STORY) - 8)
    again.close()


def test_state_continues_after_the_snapshot_it_came_from_is_deleted(tmp_path):
    log = SqliteLog(tmp_path)
    recorder = write_log(log)
    take_snapshot(log, recorder.exchange, recorder.event_hash)
    exchange, _, _ = recover(log)
    for each in tmp_path.glob("snapshot-*"):
        each.unlink()
    order_ids = recorder.exchange.matcher.order_ids()
    signed = [recorder.exchange.signature(each) for each in order_ids]
    assert any(signed)
    assert [exchange.signature(each) for each in order_ids] == signed
    for state in (exchange, recorder.exchange):
        for record in state.matcher.open_orders():
            state.apply(Cancel(order_id=record.order.id, now_ms=state.now_ms))
    assert exchange.snapshot() == recorder.exchange.snapshot()
    log.close()


@pytest.mark.parametrize("covered", [None, 12, len(STORY)])
async def test_journal_verifies_after_recovery_and_more_commands(log, covered):
    recorder = write_log(log, STORY[:12])
    if covered == 12:
        take_snapshot(log, recorder.exchange, recorder.event_hash)
    live(log, recorder, STORY[12:])
    if covered == len(STORY):
        take_snapshot(log, recorder.exchange, recorder.event_hash)

    async def main():
        exchange, hashed, _ = recover(log)
        engine = Sequencer(log, exchange, lambda: 5_000, event_hash=hashed)
        run = asyncio.create_task(engine.run())
        await engine.submit(
            lambda now: submit("new", Side.SELL, 60, 5, "snow", "201", maker="y", now_ms=now)
        )
        with pytest.raises(RejectedError):
            await engine.submit(lambda now: submit("late", Side.SELL, 60, 5, now_ms=now))
        engine.stop()
        await run
        return engine

    engine = await main()
    found = verify(data_of(log))
    assert found.last_seq == len(STORY) + 2
    assert found.event_hash == engine.event_hash
    assert found.state_hash == engine.state.matcher.state_hash()
    exchange, hashed, _ = recover(log)
    assert exchange.snapshot() == engine.state.snapshot()
    assert (exchange.matcher.state_hash(), hashed) == (found.state_hash, found.event_hash)


def test_journal_verifies_from_the_snapshot_after_frames_are_dropped(log):
    recorder = write_log(log, STORY[:12])
    taken = take_snapshot(log, recorder.exchange, recorder.event_hash)
    log.drop(12)
    live(log, recorder, STORY[12:])
    found = verify(
        data_of(log, 12, taken.chain_hash),
        ServerState.restore(taken.state).matcher,
        previous=taken.chain_hash,
        event_hash=taken.event_hash,
        first_seq=13,
    )
    assert found.event_hash == recorder.event_hash
    assert found.state_hash == recorder.exchange.matcher.state_hash()


AN_EVENT = encode_event(OrderRemoved(1, "m", "m-yes", "s", RemovalReason.CANCELLED, 1))


# ----- rejected ------------------------------------------------------------------------------


def test_log_with_another_first_event_hash_is_rejected(log):
    log.append([encode(STORY[0])], 0, event_hash=b"\1" * 32)
    expected = "event hash before command 1: expected 0000.*; the frame has 0101"
    with pytest.raises(LogDamagedError, match=expected):
        recover(log)


def test_log_without_an_event_hash_is_rejected(log):
    log.append([encode(STORY[0])], 0)
    with pytest.raises(LogDamagedError, match="frame from command 1 has no event hash"):
        recover(log)


def test_snapshot_with_another_event_hash_is_passed_over(log, caplog):
    recorder = write_log(log, STORY[:8])
    take_snapshot(log, recorder.exchange, b"\1" * 32)
    live(log, recorder, STORY[8:])
    assert_recovers(log, recorder, len(STORY))
    expected = "event hash before command 9: expected 0101.*; the frame has "
    assert re.match(expected, caplog.records[-1].reason)


def test_undecodable_snapshot_is_passed_over(log, caplog):
    recorder = write_log(log, STORY[:8])
    take_snapshot(log, recorder.exchange, recorder.event_hash)
    log.put_snapshot(msgspec.structs.replace(log.get_snapshot(), state=b"no state"))
    assert_recovers(log, recorder, 8)
    assert caplog.records[-1].message == "a snapshot is passed over"


def with_two_snapshots(folder):
    """Write a log with snapshots after commands 8 and 12, and 16 commands."""
    with contextlib.closing(SqliteLog(folder)) as log:
        recorder = write_log(log, STORY[:8])
        take_snapshot(log, recorder.exchange, recorder.event_hash)
        live(log, recorder, STORY[8:12])
        take_snapshot(log, recorder.exchange, recorder.event_hash)
        live(log, recorder, STORY[12:16])
    return recorder, sorted(folder.glob("snapshot-*"), reverse=True)


def damage(path, how):
    """Damage a file."""
    data = bytearray(path.read_bytes())
    if how == "truncated":
        del data[len(data) // 2 :]
    elif how == "empty":
        data.clear()
    else:
        data[how] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["truncated", "empty", 0, 8, 20, 50, 88, 95, -1])
def test_damaged_snapshot_is_passed_over_for_the_one_before(tmp_path, how, caplog):
    recorder, (newest, older) = with_two_snapshots(tmp_path)
    damage(newest, how)
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        assert_recovers(log, recorder, 8)
        (warning,) = caplog.records
        assert (warning.levelname, warning.snapshot) == ("WARNING", newest.name)
        assert not newest.exists()
        assert newest.with_name(f"{newest.name}.damaged").exists()
        take_snapshot(log, recorder.exchange, recorder.event_hash)
        assert older.exists()  # it is one of the two kept ones
        assert_recovers(log, recorder, 0)
    assert len(caplog.records) == 1


def test_log_is_replayed_from_its_beginning_if_every_snapshot_is_damaged(tmp_path, caplog):
    recorder, snapshots = with_two_snapshots(tmp_path)
    for path in snapshots:
        damage(path, -1)
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        assert_recovers(log, recorder, 16)
    assert [each.reason for each in caplog.records] == ["wrong hash", "wrong hash"]


@pytest.mark.parametrize("kept", [0, 1])
def test_damaged_snapshot_of_a_log_without_its_beginning(tmp_path, kept):
    recorder, snapshots = with_two_snapshots(tmp_path)
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        log.drop(8)
    for path in snapshots[: 2 - kept]:
        damage(path, -1)
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        if kept:
            assert_recovers(log, recorder, 8)
            return
        expected = "commands up to 8 were dropped and no usable snapshot covers them .*wrong hash"
        with pytest.raises(LogDamagedError, match=expected):
            recover(log)
    assert all(path.exists() for path in snapshots)  # a log that is rejected stays as it was


@pytest.mark.parametrize("where", [0, 1, 2])
def test_unknown_command_kind_is_rejected(log, where):
    commands = [[encode(Expire(now_ms=1))], [encode(Expire(now_ms=2))], [encode(Expire(now_ms=3))]]
    commands[where].append(b"\xffwhatever")
    matcher, hashed = Matcher(), ZERO_HASH
    for now_ms, raws in enumerate(commands, 1):
        log.append(raws, log.tail.seq, event_hash=hashed)
        hashed = event_hash(hashed, matcher.apply(Expire(now_ms=now_ms)))
    for look in (recover, audit):
        with pytest.raises(LogDamagedError, match="unknown command kind 255"):
            look(log)


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\x07\xff", encode(Expire()) + b"\x00", AN_EVENT])
def test_invalid_engine_command_is_rejected_with_its_position(log, raw):
    log.append([encode(Expire()), encode(SetBudgets(budgets=Budgets())), encode(Expire())], 0)
    (frame,) = log.read()
    assert len(commands_of(frame)) == 3
    broken = msgspec.structs.replace(frame, raw=(*frame.raw[:2], raw))
    with pytest.raises(InvalidBytesError, match="command 3, frame 1"):
        commands_of(broken)


def with_a_snapshot_at_its_end(folder, commands):
    """Write a log to a folder, with a snapshot after the last command."""
    log = SqliteLog(folder)
    recorder = write_log(log, commands)
    take_snapshot(log, recorder.exchange, recorder.event_hash)
    log.close()
    return recorder


def opened_and_recovered(folder, **options):
    """Start over a folder as a server does."""
    with contextlib.closing(SqliteLog(folder, **options)) as log:
        return recover(log)


@pytest.fixture
def restored(tmp_path):
    """A folder whose database is restored from a backup older than its snapshot."""
    folder, older = tmp_path / "log", tmp_path / "older"
    with contextlib.closing(SqliteLog(folder)) as log:
        recorder = write_log(log, STORY[:8])
        take_snapshot(log, recorder.exchange, recorder.event_hash)
    shutil.copytree(folder, older)
    with contextlib.closing(SqliteLog(folder)) as log:
        live(log, recorder, STORY[8:12])
        take_snapshot(log, recorder.exchange, recorder.event_hash)
    for name in ("log.db", "tip"):
        shutil.copy(older / name, folder / name)
    return folder


def test_snapshot_newer_than_the_log_is_rejected(restored):
    with pytest.raises(LogDamagedError, match=r"ends with command 8, but there is snapshot-0+12"):
        opened_and_recovered(restored)


def test_snapshot_newer_than_the_log_is_discarded_with_accept_tail(restored):
    expected = Recorder()
    expected.apply_all(STORY[:8])
    with contextlib.closing(SqliteLog(restored, accept_tail=True)) as log:
        assert_recovers(log, expected, 0)
        live(log, expected, STORY[8:20], 3)
        assert_recovers(log, expected, 12)
    exchange, hashed, _ = opened_and_recovered(restored)
    assert exchange.snapshot() == expected.exchange.snapshot()
    assert hashed == expected.event_hash


def test_snapshot_of_another_log_is_passed_over(tmp_path):
    folder, other = tmp_path / "log", tmp_path / "other"
    recorder = with_a_snapshot_at_its_end(folder, STORY[:8])
    with_a_snapshot_at_its_end(other, STORY[8:16])
    (name,) = (path.name for path in folder.glob("snapshot-*"))
    shutil.copy(other / name, folder / name)
    with contextlib.closing(SqliteLog(folder)) as log:
        assert_recovers(log, recorder, 8)


def test_snapshot_inside_a_frame_is_passed_over(caplog):
    class Loose(MemoryLog):
        """A log that stores any snapshot."""

        def put_snapshot(self, snapshot):
            self._snapshot = snapshot

    log = Loose()
    whole = write_log(log, STORY[:8])
    recorder = Recorder()
    recorder.apply_all(STORY[:6])
    log.put_snapshot(
        Snapshot(
            seq=6,
            chain_hash=ZERO_HASH,
            event_hash=recorder.event_hash,
            state=recorder.exchange.snapshot(),
        )
    )
    assert_recovers(log, whole, 8)
    assert caplog.records[-1].reason == "command 7 is within the frame from 5"
