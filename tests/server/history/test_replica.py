"""What follows a log writes the same history, however often it is broken off or made again."""

import os
import random  # noqa: TID251 - seeded
import shutil
import threading
from contextlib import closing

import pytest

from clob.errors import ReplayDiffersError
from clob.journal import encode_frame, read_frames
from clob_server.core.recovery import recover
from clob_server.history.follower import Frames, Replica, catch_up, follow, open_store
from clob_server.history.store import (
    ASIDE,
    DAY_MS,
    FILE,
    ForeignHistoryError,
    HistoryStore,
    StoreReader,
)
from clob_server.history.supervisor import NUMBER, Pipe
from clob_server.log import Folder, LogDamagedError, SqliteLog, Tail
from clob_server.log.files import snapshot_names
from tests.server.history.logs import dump, followed, told


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A log, and the history that it leads to."""
    folder = tmp_path_factory.mktemp("story")
    told(folder)
    followed(folder)
    whole = dump(folder)
    assert len(whole["orders"]) > 100
    assert len(whole["trades"]) > 50
    (folder / FILE).unlink()
    return folder, whole


@pytest.fixture
def folder(story, tmp_path):
    """A copy of the log, without a history."""
    return shutil.copytree(story[0], tmp_path / "log")


def test_history_is_the_same_however_often_it_is_broken_off(story, folder):
    rng, reached = random.Random(1), 0
    while reached < 500:
        place = followed(folder, stop=reached + rng.randrange(1, 90), snapshot_commands=40)
        assert place.seq > reached
        reached = place.seq
    followed(folder)
    assert dump(folder) == story[1]
    assert len(snapshot_names(Folder(folder))) == 2


def test_history_that_is_deleted_is_made_again_though_there_are_snapshots(story, folder):
    followed(folder, snapshot_commands=40)
    names = snapshot_names(Folder(folder))
    (folder / FILE).unlink()
    followed(folder)
    assert dump(folder) == story[1]
    assert snapshot_names(Folder(folder)) == names


def test_snapshots_of_a_follower_lead_to_where_the_log_does(folder):
    with closing(SqliteLog(folder)) as log:
        plain, hashed, count = recover(log)
        assert count == log.tail.seq
    followed(folder, snapshot_commands=100)
    with closing(SqliteLog(folder)) as log:
        again, same, fewer = recover(log)
        assert fewer < 110
        assert (again.snapshot(), same) == (plain.snapshot(), hashed)


def test_a_history_of_another_log_is_found_out_where_it_ends(story, folder, tmp_path):
    other = tmp_path / "other"
    told(other, seed=2)
    place = followed(other, stop=300)
    for name in (FILE, f"{FILE}-wal"):
        if (other / name).exists():
            shutil.copy(other / name, folder / name)
    with pytest.raises(ForeignHistoryError, match=str(place.seq)):
        followed(folder)
    with closing(SqliteLog(folder)) as log:
        store = open_store(folder, 0, log.tail)
        with closing(store), pytest.raises(ForeignHistoryError):
            catch_up(store, folder, log)
    assert dump(folder)["applied"][0][0] == place.seq


def test_a_history_that_reaches_beyond_its_log_is_put_aside(story, folder):
    reached = followed(folder)
    with closing(open_store(folder, 0, Tail(reached.seq - 1, bytes(32)))) as store:
        assert store.applied.seq == 0
    assert (folder / ASIDE).exists()


def test_a_history_that_ends_elsewhere_than_its_log_is_put_aside(story, folder):
    reached = followed(folder)
    with closing(open_store(folder, 0, Tail(reached.seq, b"x" * 32))) as store:
        assert store.applied.seq == 0


def test_a_history_of_another_version_is_put_aside(folder):
    followed(folder)
    with closing(HistoryStore(folder)) as store:
        store._db.execute("PRAGMA user_version=99")
    with pytest.raises(ForeignHistoryError, match="version 99"):
        HistoryStore(folder)
    with closing(open_store(folder, 0, Tail())) as store:
        assert store.applied.seq == 0


def test_a_frame_that_states_other_events_than_came_out_is_refused(folder, tmp_path):
    with closing(SqliteLog(folder)) as log:
        first, second, *_ = log.read()
    lies = encode_frame(second.raw, second.first_seq, first.chain_hash, event_hash=b"?" * 32)
    (lying,) = read_frames(lies, first.chain_hash, second.first_seq)
    with closing(HistoryStore(tmp_path)) as store:
        replica = Replica(tmp_path, store, origin=0, tail=Tail())
        replica.take(first)
        with pytest.raises(ReplayDiffersError):
            replica.take(lying)


def test_where_the_beginning_was_dropped_history_begins_with_the_snapshot(story, folder):
    followed(folder, snapshot_commands=300)
    with closing(SqliteLog(folder)) as log:
        kept = log.get_snapshot().seq
        assert log.drop(kept) > 0
        with pytest.raises(LogDamagedError, match="were dropped"):
            log.frames(kept - 1, 1)
    whole = dump(folder)
    (folder / FILE).unlink()
    followed(folder)
    rest = dump(folder)
    assert rest["applied"] == whole["applied"]
    assert rest["orders"] == [row for row in whole["orders"] if row[6] > kept]
    assert rest["orders"]
    for name in snapshot_names(Folder(folder)):
        (folder / name).unlink()
    (folder / FILE).unlink()
    with (
        closing(HistoryStore(folder)) as store,
        pytest.raises(LogDamagedError, match="no snapshot"),
    ):
        Replica(folder, store, origin=kept, tail=Tail())


def test_old_rows_go_by_whole_days_and_the_same_ones_however_history_is_made(tmp_path):
    rows = {"late": [], "early": []}
    for name, many in (("late", False), ("early", True)):
        (tmp_path / name).mkdir()
        with closing(HistoryStore(tmp_path / name, days=2)) as store:
            for day in range(10):
                place = store.applied._replace(seq=day + 1)
                row = (f"o{day}", None, "m", "A", None, "filled", day + 1, day * DAY_MS + 5, b"{}")
                rows[name].append(row)
                if many or day == 9:
                    store.write(rows[name], [], [], place, day * DAY_MS + 5)
                    rows[name] = []
    assert dump(tmp_path / "late") == dump(tmp_path / "early")
    assert [row[0] for row in dump(tmp_path / "late")["orders"]] == ["o7", "o8", "o9"]


# ----- on the way to the follower --------------------------------------------------------------


def test_frames_are_cut_right_wherever_the_pieces_end(folder):
    with closing(SqliteLog(folder)) as log:
        frames = list(log.read())[:6]
        data = b"".join(frame for _, frame in log.frames(0, 1 << 20)[:6])
    for size in (1, 2, 3, 57, 500, len(data)):
        cutter = Frames(0, bytes(32))
        found = [
            frame
            for place in range(0, len(data), size)
            for frame in cutter.cut(data[place : place + size])
        ]
        assert [frame.chain_hash for frame in found] == [frame.chain_hash for frame in frames]


def test_a_pipe_that_is_full_stops_and_goes_on_where_it_was(folder):
    source, target = os.pipe()
    full = []
    with closing(SqliteLog(folder)) as log:
        whole = b"".join(frame for _, frame in log.frames(0, 1 << 30))
        pipe = Pipe(log, target, 0, full.append)
        got = b""
        while not pipe.pump():
            assert full[-1] is pipe
            got += os.read(source, 1_000)
        pipe.close()
        while piece := os.read(source, 65_536):
            got += piece
    os.close(source)
    assert got == whole[: len(got)]
    assert len(got) == len(whole)


def test_a_pipe_to_a_follower_that_is_gone_is_let_go(folder):
    source, target = os.pipe()
    os.close(source)
    with closing(SqliteLog(folder)) as log:
        pipe = Pipe(log, target, 0, lambda _: None)
        assert pipe.pump()
        assert pipe.pump()
        pipe.close()


def test_what_is_left_is_sent_before_the_end(story, folder):
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
    assert dump(folder) == story[1]
    assert numbers == sorted(numbers)
    assert NUMBER.size == 8


def test_orders_are_found_by_id_and_by_hash_and_trades_by_market_and_order(story, folder):
    followed(folder)
    with closing(StoreReader(folder)) as reader:
        for row in story[1]["orders"]:
            assert reader.order(row[0]) == row[-1]
            if row[1] is not None:
                assert reader.order_by_hash(row[1]) == row[-1]
        assert reader.order("nobody's") is None
        market, seq, token = story[1]["trades"][-1][:3]
        found = reader.trades(market, seq + 1, 5)
        assert [each.event.seq for each in found] == sorted(
            (row[1] for row in story[1]["trades"] if row[0] == market and row[1] <= seq),
            reverse=True,
        )[:5]
        assert all(each.event.token == token for each in reader.trades(market, seq, 9, token))
        incoming, now_ms = found[0].event.incoming_order_id, found[0].now_ms
        assert found[0] in reader.first_trades(incoming, now_ms)
        assert reader.first_trades(incoming, now_ms + 1) == []
