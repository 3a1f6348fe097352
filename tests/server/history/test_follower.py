"""A follower writes the same history however often it is interrupted or restarted."""

import os
import random  # noqa: TID251 - seeded
import shutil
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from clob.errors import ReplayDiffersError
from clob.journal import encode_frame, read_frames
from clob_server.core.recovery import recover
from clob_server.history.follower import Replica, arguments_for, catch_up, follow, open_store
from clob_server.history.store import (
    ASIDE,
    DAY_MS,
    FILE,
    ForeignHistoryError,
    HistoryStore,
    Rows,
    StoreReader,
)
from clob_server.log import Folder, LogDamagedError, SqliteLog, Tail
from clob_server.log.files import snapshot_names
from clob_server.log.pipe import NUMBER, FrameSplitter, Pipe
from tests.server.history.logs import dump, follow_log, random_log


@pytest.fixture(scope="module")
def log_and_rows(tmp_path_factory):
    """A log and the rows of its history."""
    folder = tmp_path_factory.mktemp("log")
    random_log(folder)
    follow_log(folder)
    whole = dump(folder)
    assert len(whole["orders"]) > 100
    assert len(whole["trades"]) > 50
    (folder / FILE).unlink()
    return folder, whole


@pytest.fixture
def folder(log_and_rows, tmp_path):
    """A copy of the log without history."""
    return shutil.copytree(log_and_rows[0], tmp_path / "log")


def test_interrupted_follower_writes_the_same_history(log_and_rows, folder):
    rng, reached = random.Random(1), 0
    while reached < 500:
        position = follow_log(folder, stop=reached + rng.randrange(1, 90), snapshot_commands=40)
        assert position.seq > reached
        reached = position.seq
    follow_log(folder)
    assert dump(folder) == log_and_rows[1]
    assert len(snapshot_names(Folder(folder))) == 2


def test_deleted_history_is_rebuilt_from_the_beginning(log_and_rows, folder):
    follow_log(folder, snapshot_commands=40)
    names = snapshot_names(Folder(folder))
    (folder / FILE).unlink()
    follow_log(folder)
    assert dump(folder) == log_and_rows[1]
    assert snapshot_names(Folder(folder)) == names


def test_recovery_from_a_follower_snapshot_equals_full_replay(folder):
    with closing(SqliteLog(folder)) as log:
        plain, hashed, count = recover(log)
        assert count == log.tail.seq
    follow_log(folder, snapshot_commands=100)
    with closing(SqliteLog(folder)) as log:
        again, same, fewer = recover(log)
        assert fewer < 110
        assert (again.snapshot(), same) == (plain.snapshot(), hashed)


def test_damaged_snapshots_are_passed_over(log_and_rows, folder):
    follow_log(folder, stop=500, snapshot_commands=40)
    newest, older = sorted(folder.glob("snapshot-*"), reverse=True)
    for path in (newest, older):
        path.write_bytes(path.read_bytes()[:-1])
        with closing(HistoryStore(folder)) as store:
            Replica(folder, store, origin=0, tail=Tail())
    follow_log(folder)
    assert dump(folder) == log_and_rows[1]


def test_history_of_another_log_is_detected_at_its_end(log_and_rows, folder, tmp_path):
    other = tmp_path / "other"
    random_log(other, seed=2)
    position = follow_log(other, stop=300)
    for name in (FILE, f"{FILE}-wal"):
        if (other / name).exists():
            shutil.copy(other / name, folder / name)
    with pytest.raises(ForeignHistoryError, match=str(position.seq)):
        follow_log(folder)
    with closing(SqliteLog(folder)) as log:
        store = open_store(folder, 0, log.tail)
        with closing(store), pytest.raises(ForeignHistoryError):
            catch_up(store, folder, log)
    assert dump(folder)["applied"][0][0] == position.seq


def test_history_beyond_its_log_is_moved_aside(log_and_rows, folder):
    reached = follow_log(folder)
    with closing(open_store(folder, 0, Tail(reached.seq - 1, bytes(32)))) as store:
        assert store.applied.seq == 0
    assert (folder / ASIDE).exists()


def test_history_with_another_chain_hash_is_moved_aside(log_and_rows, folder):
    reached = follow_log(folder)
    with closing(open_store(folder, 0, Tail(reached.seq, b"x" * 32))) as store:
        assert store.applied.seq == 0


def test_history_of_another_version_is_moved_aside(folder):
    follow_log(folder)
    with closing(HistoryStore(folder)) as store:
        store._db.execute("PRAGMA user_version=99")
    with pytest.raises(ForeignHistoryError, match="unsupported version 99"):
        HistoryStore(folder)
    with closing(open_store(folder, 0, Tail())) as store:
        assert store.applied.seq == 0


def test_frame_with_wrong_event_hash_is_rejected(folder, tmp_path):
    with closing(SqliteLog(folder)) as log:
        first, second, *_ = log.read()
    altered = encode_frame(second.raw, second.first_seq, first.chain_hash, event_hash=b"?" * 32)
    (frame,) = read_frames(altered, first.chain_hash, second.first_seq)
    with closing(HistoryStore(tmp_path)) as store:
        replica = Replica(tmp_path, store, origin=0, tail=Tail())
        replica.apply(first)
        with pytest.raises(ReplayDiffersError):
            replica.apply(frame)


def test_history_starts_at_the_snapshot_if_the_beginning_was_dropped(log_and_rows, folder):
    follow_log(folder, snapshot_commands=300)
    with closing(SqliteLog(folder)) as log:
        kept = log.get_snapshot().seq
        assert log.drop(kept) > 0
        with pytest.raises(LogDamagedError, match="were dropped"):
            log.frames(kept - 1, 1)
    whole = dump(folder)
    (folder / FILE).unlink()
    follow_log(folder)
    rest = dump(folder)
    assert rest["applied"] == whole["applied"]
    assert rest["orders"] == [row for row in whole["orders"] if row[8] > kept]
    assert rest["orders"]
    assert rest["pruned"] == [(kept,)]
    for name in snapshot_names(Folder(folder)):
        (folder / name).unlink()
    (folder / FILE).unlink()
    with (
        closing(HistoryStore(folder)) as store,
        pytest.raises(LogDamagedError, match="no snapshot"),
    ):
        Replica(folder, store, origin=kept, tail=Tail())


def test_old_rows_are_pruned_by_whole_days_also_in_a_rebuild(tmp_path):
    rows = {"late": [], "early": []}
    for name, many in (("late", False), ("early", True)):
        (tmp_path / name).mkdir()
        with closing(HistoryStore(tmp_path / name, days=2)) as store:
            for day in range(10):
                position = store.applied._replace(seq=day + 1)
                row = (
                    f"o{day}",
                    None,
                    "m",
                    "y",
                    0,
                    "A",
                    None,
                    "filled",
                    day + 1,
                    day * DAY_MS + 5,
                    b"{}",
                )
                rows[name].append(row)
                if many or day == 9:
                    store.write(Rows(rows[name], [], [], {}, []), position, day * DAY_MS + 5)
                    rows[name] = []
    assert dump(tmp_path / "late") == dump(tmp_path / "early")
    assert [row[0] for row in dump(tmp_path / "late")["orders"]] == ["o7", "o8", "o9"]
    assert dump(tmp_path / "late")["pruned"] == [(7,)]


# ----- the pipe --------------------------------------------------------------------------------


def test_frames_are_split_at_any_chunk_size(folder):
    with closing(SqliteLog(folder)) as log:
        frames = list(log.read())[:6]
        data = b"".join(frame for _, frame in log.frames(0, 1 << 20)[:6])
    for size in (1, 2, 3, 57, 500, len(data)):
        splitter = FrameSplitter(0, bytes(32))
        found = [
            frame
            for position in range(0, len(data), size)
            for frame in splitter.split(data[position : position + size])
        ]
        assert [frame.chain_hash for frame in found] == [frame.chain_hash for frame in frames]


def test_full_pipe_continues_where_it_stopped(folder):
    source, target = os.pipe()
    full_pipes = []
    with closing(SqliteLog(folder)) as log:
        whole = b"".join(frame for _, frame in log.frames(0, 1 << 30))
        pipe = Pipe(log, target, 0, full_pipes.append)
        data = b""
        while not pipe.send(log.tail.seq):
            assert full_pipes[-1] is pipe
            data += os.read(source, 1_000)
        pipe.close()
        while piece := os.read(source, 65_536):
            data += piece
    os.close(source)
    assert data == whole[: len(data)]
    assert len(data) == len(whole)


def test_pipe_sends_no_frame_beyond_a_command(folder):
    source, target = os.pipe()
    with closing(SqliteLog(folder)) as log:
        frames = log.frames(0, 1 << 20)[:4]
        pipe = Pipe(log, target, 0, lambda _: None)
        for place in (2, 4):
            assert pipe.send(log.frames(0, 1 << 20)[place][0] - 1)
            sent = os.read(source, 65_536)
            assert sent == b"".join(frame for _, frame in frames[place - 2 : place])
        pipe.close()
    os.close(source)


def test_pipe_to_a_dead_follower_is_closed(folder):
    source, target = os.pipe()
    os.close(source)
    with closing(SqliteLog(folder)) as log:
        pipe = Pipe(log, target, 0, lambda _: None)
        assert pipe.send(log.tail.seq)
        assert pipe.send(log.tail.seq)
        pipe.close()


def test_finish_sends_the_remaining_frames(log_and_rows, folder):
    source, target = os.pipe()
    with closing(SqliteLog(folder)) as log, closing(HistoryStore(folder)) as store:
        replica = Replica(folder, store, origin=0, tail=log.tail)
        numbers = []
        thread = threading.Thread(target=follow, args=(replica, source, numbers.append))
        thread.start()
        Pipe(log, target, 0, lambda _: None).finish(30)
        thread.join(30)
        assert not thread.is_alive()
        os.close(source)
        assert store.applied.seq == log.tail.seq
    assert dump(folder) == log_and_rows[1]
    assert numbers == sorted(numbers)
    assert NUMBER.size == 8


def test_reader_finds_orders_by_id_and_hash_and_trades_by_market_and_order(log_and_rows, folder):
    follow_log(folder)
    with closing(StoreReader(folder)) as reader:
        for row in log_and_rows[1]["orders"]:
            assert reader.order(row[0]) == row[-1]
            if row[1] is not None:
                assert reader.order_by_hash(row[1]) == row[-1]
        assert reader.order("unknown") is None
        market, seq, token = log_and_rows[1]["trades"][-1][:3]
        found = reader.trades(market, seq + 1, 5)
        assert [each.event.seq for each in found] == sorted(
            (row[1] for row in log_and_rows[1]["trades"] if row[0] == market and row[1] <= seq),
            reverse=True,
        )[:5]
        assert all(each.event.token == token for each in reader.trades(market, seq, 9, token))
        incoming, now_ms = found[0].event.incoming_order_id, found[0].now_ms
        assert found[0] in reader.first_trades(incoming, now_ms)
        assert reader.first_trades(incoming, now_ms + 1) == []


def test_follower_of_a_folder_that_is_gone_says_so_in_a_line(tmp_path):
    ran = subprocess.run(
        [sys.executable, *arguments_for(tmp_path / "gone", 100, 0), "0", "0", "00" * 32],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 1
    (line,) = ran.stderr.decode().splitlines()
    assert line.startswith("CRITICAL:clob_server.history")
    assert "history stops: FileNotFoundError" in line
