"""From a log to the state that it leads to, whatever was kept of it."""

import asyncio
import contextlib
import shutil

import msgspec
import pytest

from clob import Expire, Matcher, RejectedError
from clob.codec import encode as encode_event
from clob.errors import InvalidBytesError, InvalidSnapshotError
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
    """Put commands of the server between those of the engine: some are rejected; sign some orders."""
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
    """An exchange, and the event hash over what came of its engine's commands."""

    def __init__(self):
        self.exchange, self.event_hash = ServerState(), ZERO_HASH

    def tell(self, commands):
        """Do commands, refused ones included."""
        for command in commands:
            outcome = outcome_of(self.exchange, command)
            if type(command) in ENGINE:
                self.event_hash = event_hash(self.event_hash, outcome)


def live(log, recorder, commands, per_frame=PER_FRAME):
    """Log commands and do them, a frame after the other, with the hashes of the journal."""
    for start in range(0, len(commands), per_frame):
        part = commands[start : start + per_frame]
        log.append(list(map(encode, part)), log.tail.seq, event_hash=recorder.event_hash)
        recorder.tell(part)


def told(log, commands=STORY):
    """Log commands from the beginning; give the recorder that did them."""
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
    exchange, hashed, count = recover(log)
    assert exchange.snapshot() == ServerState().snapshot()
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
    taken = take_snapshot(log, recorder.exchange, recorder.event_hash)
    assert (taken.seq, taken.chain_hash) == (log.tail.seq, log.tail.chain_hash)
    if drops:
        assert log.drop(covered) == covered // PER_FRAME
    live(log, recorder, STORY[covered:])
    assert_recovers(log, recorder, len(STORY) - covered)


@pytest.mark.parametrize("drops", [False, True])
def test_a_snapshot_alone_leads_to_the_state(log, drops):
    recorder = told(log)
    taken = take_snapshot(log, recorder.exchange, recorder.event_hash)
    assert log.get_snapshot() == taken
    if drops:
        log.drop(log.tail.seq)
    assert_recovers(log, recorder, 0)


def test_a_snapshot_from_which_nothing_was_dropped_is_used_and_not_done_again(log):
    recorder = told(log, STORY[:8])
    other = Recorder()
    other.tell(STORY[:8])
    other.exchange.apply(SetBudgets(budgets=Budgets(key_per_minute=99), now_ms=0))
    take_snapshot(log, other.exchange, other.event_hash)
    live(log, recorder, STORY[8:])
    other.tell(STORY[8:])
    assert_recovers(log, other, len(STORY) - 8)


def test_a_folder_that_was_closed_leads_to_the_state(tmp_path):
    log = SqliteLog(tmp_path)
    recorder = told(log, STORY[:8])
    take_snapshot(log, recorder.exchange, recorder.event_hash)
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

    engine = asyncio.run(main())
    found = verify(data_of(log))
    assert found.last_seq == len(STORY) + 2
    assert found.event_hash == engine.event_hash
    assert found.state_hash == engine.state.matcher.state_hash()
    exchange, hashed, _ = recover(log)
    assert exchange.snapshot() == engine.state.snapshot()
    assert (exchange.matcher.state_hash(), hashed) == (found.state_hash, found.event_hash)


def test_what_was_dropped_leaves_a_journal_that_verifies_from_the_snapshot_on(log):
    recorder = told(log, STORY[:12])
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


# ----- what is refused -----------------------------------------------------------------------


def test_a_log_that_begins_with_another_event_hash_is_damaged(log):
    log.append([encode(STORY[0])], 0, event_hash=b"\1" * 32)
    with pytest.raises(LogDamagedError, match="before command 1 the event hash was 0101"):
        recover(log)


def test_a_log_that_states_no_event_hash_is_refused(log):
    log.append([encode(STORY[0])], 0)
    with pytest.raises(LogDamagedError, match="frame from command 1 states no event hash"):
        recover(log)


def test_a_snapshot_with_another_event_hash_is_damaged(log):
    recorder = told(log, STORY[:8])
    take_snapshot(log, recorder.exchange, b"\1" * 32)
    live(log, recorder, STORY[8:])
    with pytest.raises(LogDamagedError, match="before command 9 the event hash was"):
        recover(log)


def test_a_snapshot_that_is_none_is_refused(log):
    recorder = told(log, STORY[:8])
    take_snapshot(log, recorder.exchange, recorder.event_hash)
    log.put_snapshot(msgspec.structs.replace(log.get_snapshot(), state=b"no state"))
    with pytest.raises(InvalidSnapshotError):
        recover(log)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_command_of_the_embedders_own_is_not_known_here(log, where):
    commands = [[encode(Expire(now_ms=1))], [encode(Expire(now_ms=2))], [encode(Expire(now_ms=3))]]
    commands[where].append(b"\xffwhatever")
    matcher, hashed = Matcher(), ZERO_HASH
    for now_ms, raws in enumerate(commands, 1):
        log.append(raws, log.tail.seq, event_hash=hashed)
        hashed = event_hash(hashed, matcher.apply(Expire(now_ms=now_ms)))
    for look in (recover, audit):
        with pytest.raises(LogDamagedError, match="is of kind 255, which is not known here"):
            look(log)


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\x07\xff", encode(Expire()) + b"\x00", AN_EVENT])
def test_what_is_no_command_of_the_engine_is_refused_and_said_where(log, raw):
    log.append([encode(Expire()), encode(SetBudgets(budgets=Budgets())), encode(Expire())], 0)
    (frame,) = log.read()
    assert len(commands_of(frame)) == 3
    broken = msgspec.structs.replace(frame, raw=(*frame.raw[:2], raw))
    with pytest.raises(InvalidBytesError, match="command 3, frame 1"):
        commands_of(broken)


def with_a_snapshot_at_its_end(folder, commands):
    """Make a log in a folder, with a snapshot after the last command."""
    log = SqliteLog(folder)
    recorder = told(log, commands)
    take_snapshot(log, recorder.exchange, recorder.event_hash)
    log.close()
    return recorder


def opened_and_recovered(folder, **options):
    """Start over a folder as a server does."""
    with contextlib.closing(SqliteLog(folder, **options)) as log:
        return recover(log)


@pytest.fixture
def restored(tmp_path):
    """A folder whose database is restored from a backup, and a snapshot from later still there."""
    folder, older = tmp_path / "log", tmp_path / "older"
    with contextlib.closing(SqliteLog(folder)) as log:
        recorder = told(log, STORY[:8])
        take_snapshot(log, recorder.exchange, recorder.event_hash)
    shutil.copytree(folder, older)
    with contextlib.closing(SqliteLog(folder)) as log:
        live(log, recorder, STORY[8:12])
        take_snapshot(log, recorder.exchange, recorder.event_hash)
    for name in ("log.db", "tip"):
        shutil.copy(older / name, folder / name)
    return folder


def test_a_snapshot_of_what_the_log_has_lost_is_refused(restored):
    with pytest.raises(LogDamagedError, match=r"ends with command 8, before snapshot-0+12"):
        opened_and_recovered(restored)


def test_a_snapshot_of_what_the_log_has_lost_goes_where_the_loss_is_accepted(restored):
    expected = Recorder()
    expected.tell(STORY[:8])
    with contextlib.closing(SqliteLog(restored, accept_tail=True)) as log:
        assert_recovers(log, expected, 0)
        live(log, expected, STORY[8:20], 3)
        assert_recovers(log, expected, 12)
    exchange, hashed, _ = opened_and_recovered(restored)
    assert exchange.snapshot() == expected.exchange.snapshot()
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
    recorder.tell(STORY[:6])
    log.put_snapshot(
        Snapshot(
            seq=6,
            chain_hash=ZERO_HASH,
            event_hash=recorder.event_hash,
            state=recorder.exchange.snapshot(),
        )
    )
    with pytest.raises(LogDamagedError, match="command 7 is within the frame from 5"):
        recover(log)
