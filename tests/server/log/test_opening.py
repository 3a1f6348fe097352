"""Opening checks the log from the newest snapshot on, and ``audit`` the rest.

Each part of a folder is damaged in turn. A start must reject the folder or recover the whole state,
and the audit must report damage that a start did not need to see.
"""

import contextlib
import struct

import apsw
import msgspec
import pytest

from clob import AddMarket
from clob.journal import ZERO_HASH, event_hash
from clob_server import cli
from clob_server.cli.verify import audit
from clob_server.core.commands import ENGINE, encode
from clob_server.core.recovery import recover, take_snapshot
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import LogDamagedError, SqliteLog, Tail, sqlite
from clob_server.log.files import encode_tip
from tests.matchers import market, sell
from tests.server.engines import signed

SNAPSHOTS = (12, 24)
"""Commands with a snapshot, of 36."""
PER_FRAME = 3


def todo():
    """Return 36 commands in frames of three."""
    placed = [signed(sell)(f"o{number}", 50, 1 + number, now_ms=number) for number in range(2, 37)]
    return [AddMarket(market=market(), now_ms=1), *placed]


def write_log(folder, dropped=0):
    """Write a log with two snapshots; return the bytes of its last state."""
    state, hashed, commands = ServerState(), ZERO_HASH, todo()
    with contextlib.closing(SqliteLog(folder)) as log:
        for start in range(0, len(commands), PER_FRAME):
            part = commands[start : start + PER_FRAME]
            log.append(list(map(encode, part)), start, event_hash=hashed)
            for command in part:
                outcome = outcome_of(state, command)
                if type(command) in ENGINE:
                    hashed = event_hash(hashed, outcome)
            if log.tail.seq in SNAPSHOTS:
                take_snapshot(log, state, hashed)
        log.drop(dropped)
    return state.snapshot()


@pytest.fixture
def state(tmp_path):
    """The last state of a log in ``tmp_path``."""
    return write_log(tmp_path)


def change_frame(folder, first, byte=60):
    """Change a byte of a frame."""
    with contextlib.closing(apsw.Connection(str(folder / "log.db"))) as db:
        ((frame,),) = db.execute("SELECT frame FROM frames WHERE first=?", (first,)).fetchall()
        changed = bytearray(frame)
        changed[byte] ^= 1
        db.execute("UPDATE frames SET frame=? WHERE first=?", (bytes(changed), first))


def delete_frame(folder, first):
    """Delete a frame."""
    with contextlib.closing(apsw.Connection(str(folder / "log.db"))) as db:
        db.execute("DELETE FROM frames WHERE first=?", (first,))


def snapshots_in(folder):
    """Return the paths of the snapshots, newest first."""
    return sorted(folder.glob("snapshot-*.bin"), reverse=True)


def change_byte(path, at):
    """Change a byte of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def start(folder):
    """Open and recover as a server does; return the state and the last command not checked."""
    with contextlib.closing(SqliteLog(folder)) as log:
        recovered, _, _ = recover(log)
        return recovered.snapshot(), log.unchecked_seq


def verify(folder, capsys):
    """Run ``clob-server verify``; return its exit code and its error."""
    code = cli.main(["verify", str(folder)])
    return code, capsys.readouterr().err


BEFORE = [(change_frame, first) for first in (1, 4, 10, 13, 19)]
BEFORE += [(delete_frame, first) for first in (1, 4, 10, 13)]
FROM_JUNCTION = [(change_frame, first) for first in (22, 25, 28, 34)]
FROM_JUNCTION += [(delete_frame, first) for first in (19, 22, 25, 28, 34)]
"""Deleted frames include the one before the junction, whose hash the junction continues."""


def test_log_without_damage_is_checked_from_the_newest_snapshot_on(tmp_path, state, capsys):
    assert start(tmp_path) == (state, 24)
    assert verify(tmp_path, capsys)[0] == 0


@pytest.mark.parametrize(("damage", "first"), BEFORE)
def test_damage_before_the_newest_snapshot_is_left_to_verify(
    tmp_path, state, capsys, damage, first
):
    damage(tmp_path, first)
    assert start(tmp_path) == (state, 24)
    code, error = verify(tmp_path, capsys)
    assert code == 1
    assert "LOG_DAMAGED: " in error
    with contextlib.closing(SqliteLog(tmp_path)) as log, pytest.raises(LogDamagedError):
        list(log.read())


@pytest.mark.parametrize(("damage", "first"), FROM_JUNCTION)
def test_damage_at_the_junction_and_after_it_is_rejected(tmp_path, state, capsys, damage, first):
    before = {path.name: path.read_bytes() for path in snapshots_in(tmp_path)}
    damage(tmp_path, first)
    with pytest.raises(LogDamagedError):
        SqliteLog(tmp_path)
    assert verify(tmp_path, capsys)[0] == 1
    assert {path.name: path.read_bytes() for path in snapshots_in(tmp_path)} == before


def test_frame_of_another_type_at_the_junction_is_rejected(tmp_path, state):
    with contextlib.closing(apsw.Connection(str(tmp_path / "log.db"))) as db:
        db.execute("UPDATE frames SET frame='text' WHERE first=22")
    with pytest.raises(LogDamagedError, match="a row is not a frame"):
        SqliteLog(tmp_path)


@pytest.mark.parametrize("at", [0, 8, 9, 16, 17, 40, 60, 100, -1])
def test_damaged_newest_snapshot_falls_back_to_the_one_before(tmp_path, state, caplog, at):
    newest, _ = snapshots_in(tmp_path)
    change_byte(newest, at)
    found, unchecked = start(tmp_path)
    assert found == state
    assert unchecked == (12 if at in (0, 9, 16, 17, 40) else 24)
    (line,) = caplog.records
    assert (line.message, line.snapshot) == ("a snapshot is passed over", newest.name)


@pytest.mark.parametrize("at", [9, 100])
def test_damage_behind_a_damaged_snapshot_is_rejected(tmp_path, state, at):
    change_byte(snapshots_in(tmp_path)[0], at)
    change_frame(tmp_path, 16)
    with pytest.raises(LogDamagedError, match=r"after command 12: .*chain hash must be"):
        start(tmp_path)
    assert len(snapshots_in(tmp_path)) == 2


def test_missing_snapshots_fall_back_to_the_rest(tmp_path, state):
    newest, older = snapshots_in(tmp_path)
    newest.unlink()
    assert start(tmp_path) == (state, 12)
    older.unlink()
    assert start(tmp_path) == (state, 0)


def test_all_snapshots_damaged_fall_back_to_the_whole_log(tmp_path, state, caplog):
    for path in snapshots_in(tmp_path):
        path.write_bytes(path.read_bytes()[:50])
    assert start(tmp_path) == (state, 0)
    reasons = [line.reason for line in caplog.records]
    assert reasons == ["not a snapshot, or truncated"] * 2


def test_snapshot_of_another_log_is_passed_over(tmp_path, state, caplog):
    newest, _ = snapshots_in(tmp_path)
    data = bytearray(newest.read_bytes())
    data[17:49] = b"\1" * 32  # the chain hash
    newest.write_bytes(data)
    assert start(tmp_path) == (state, 12)
    assert caplog.records[0].snapshot == newest.name


def test_snapshot_within_a_frame_is_passed_over(tmp_path, state):
    newest, _ = snapshots_in(tmp_path)
    data = bytearray(newest.read_bytes())
    struct.pack_into("<Q", data, 9, 23)
    newest.rename(newest.with_name(newest.name.replace("24", "23")))
    newest.with_name(newest.name.replace("24", "23")).write_bytes(data)
    assert start(tmp_path) == (state, 12)


def test_snapshot_with_a_number_beyond_every_command_is_rejected(tmp_path, state):
    newest, _ = snapshots_in(tmp_path)
    data = bytearray(newest.read_bytes())
    struct.pack_into("<Q", data, 9, 2**64 - 1)
    (tmp_path / f"snapshot-{2**64 - 1:020d}.bin").write_bytes(data)
    with pytest.raises(LogDamagedError, match="ends with command 36, but there is snapshot-1844"):
        SqliteLog(tmp_path)


def cut_log(folder, up_to):
    """Delete the frames after a command, as if the end of the log were lost."""
    with contextlib.closing(apsw.Connection(str(folder / "log.db"))) as db:
        db.execute("DELETE FROM frames WHERE first>?", (up_to,))


@pytest.mark.parametrize("up_to", [0, 12, 21, 24, 33])
def test_log_that_lost_its_end_is_rejected(tmp_path, state, up_to):
    cut_log(tmp_path, up_to)
    with pytest.raises(LogDamagedError, match=f"it ends with command {up_to}, but the tip file"):
        SqliteLog(tmp_path)


def test_log_older_than_its_snapshot_is_rejected(tmp_path, state):
    cut_log(tmp_path, 21)
    with contextlib.closing(apsw.Connection(str(tmp_path / "log.db"))) as db:
        ((frame,),) = db.execute("SELECT frame FROM frames WHERE first=19").fetchall()
    (tmp_path / "tip").write_bytes(encode_tip(Tail(21, frame[-32:])))
    with pytest.raises(LogDamagedError, match=r"ends with command 21, but there is snapshot-0+24"):
        SqliteLog(tmp_path)


@pytest.mark.parametrize("up_to", [9, 12, 18, 24, 30])
def test_old_tip_is_accepted_only_with_its_frame(tmp_path, state, up_to):
    with contextlib.closing(apsw.Connection(str(tmp_path / "log.db"))) as db:
        query = "SELECT frame FROM frames WHERE first=?"
        ((frame,),) = db.execute(query, (up_to - PER_FRAME + 1,)).fetchall()
    tip = Tail(up_to, frame[-32:])
    (tmp_path / "tip").write_bytes(encode_tip(tip))
    assert start(tmp_path) == (state, 24)
    for wrong in (Tail(up_to - 1, tip.chain_hash), Tail(up_to, b"\1" * 32)):
        (tmp_path / "tip").write_bytes(encode_tip(wrong))
        with pytest.raises(LogDamagedError, match="but the tip file records a frame"):
            SqliteLog(tmp_path)


# ----- a log without its beginning -----------------------------------------------------------


@pytest.mark.parametrize("first", [13, 19, 22, 31])
def test_verify_checks_every_frame_that_was_not_dropped(tmp_path, capsys, first):
    state = write_log(tmp_path, dropped=12)
    assert start(tmp_path) == (state, 24)
    assert verify(tmp_path, capsys)[0] == 0
    change_frame(tmp_path, first)
    code, error = verify(tmp_path, capsys)
    assert (code, "LOG_DAMAGED" in error) == (1, True)


def test_verify_checks_the_frames_before_the_oldest_snapshot(tmp_path, capsys):
    write_log(tmp_path, dropped=6)
    change_frame(tmp_path, 7)
    code, error = verify(tmp_path, capsys)
    assert (code, "after command 6" in error) == (1, True)


@pytest.mark.parametrize("dropped", [0, 12])
@pytest.mark.parametrize("age", [0, 1])
def test_verify_reports_damage_of_either_snapshot(tmp_path, capsys, dropped, age):
    write_log(tmp_path, dropped=dropped)
    path = snapshots_in(tmp_path)[age]
    change_byte(path, 100)
    code, error = verify(tmp_path, capsys)
    assert code == 1
    assert f"LOG_DAMAGED: {path.name}: wrong hash" in error


@pytest.mark.parametrize("age", [0, 1])
def test_verify_reports_the_wrong_state_of_either_snapshot(tmp_path, state, age):
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        (_, newest), (_, older) = log.snapshots()
        wrong, right = (newest, older)[age], (newest, older)[1 - age]
        log.put_snapshot(msgspec.structs.replace(wrong, state=right.state))
        with pytest.raises(Exception, match=f"state of command {wrong.seq} differs"):
            audit(log)


@pytest.mark.parametrize("bytes_max", [0, 700, 2**20])
def test_frames_that_stay_in_memory_from_the_open_are_read_like_those_of_the_file(
    tmp_path, state, monkeypatch, bytes_max
):
    monkeypatch.setattr(sqlite, "OPENED_BYTES_MAX", bytes_max)
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        start, end = SNAPSHOTS[-1], log.tail.seq
        opened = [list(log.read(after)) for after in (start, start + PER_FRAME)]
        assert recover(log)[0].snapshot() == state
        log.append([encode(todo()[-1])], end, event_hash=ZERO_HASH)
        *first, last = log.read(start)
        assert (first, last.first_seq) == (opened[0], end + 1)
        assert list(log.read(start + PER_FRAME))[:-1] == opened[1]
