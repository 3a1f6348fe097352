"""Snapshots follow the size of the state, and are taken at a clean stop if they pay."""

import contextlib
import os

import pytest

from clob import AddMarket, Expire
from clob.journal import ZERO_HASH
from clob_server.auth.api_keys import IDS, secret
from clob_server.core.commands import encode
from clob_server.core.recovery import LOG_SHARE, STOP_COMMANDS, SnapshotCadence, recover
from clob_server.history.follower import Replica, follow
from clob_server.history.store import HistoryStore
from clob_server.log import Folder, SqliteLog
from clob_server.log.files import newest_snapshot, snapshot_name
from clob_server.log.pipe import Pipe
from tests.matchers import market, sell
from tests.server.history.logs import random_log
from tests.server.live import live_server


def cadence(folder, commands, size=0, seq=10):
    """Return a cadence after a snapshot of a size; 0 for no snapshot."""
    if size:
        (folder / snapshot_name(seq)).write_bytes(bytes(size))
    return SnapshotCadence(Folder(folder), commands)


def test_first_snapshot_is_due_after_the_fewest_commands(tmp_path):
    made = cadence(tmp_path, 100)
    made.add(99, 1)
    assert not made.is_due
    made.add(100, 1)
    assert made.is_due


def test_snapshot_of_a_large_state_waits_for_a_share_of_its_bytes_in_the_log(tmp_path):
    made = cadence(tmp_path, 100, size=LOG_SHARE * 1_000)
    made.add(200, 999)
    assert not made.is_due
    made.add(201, 1)
    assert made.is_due
    made.restart(201, LOG_SHARE * 10)
    made.add(300, 10_000)
    assert not made.is_due
    made.add(301, 1)
    assert made.is_due


def test_commands_before_the_last_snapshot_do_not_count(tmp_path):
    made = cadence(tmp_path, 5, size=2 * LOG_SHARE, seq=10)
    made.add(10, 10_000)
    assert not made.is_due
    made.add(15, 1)
    assert not made.is_due
    made.add(16, 1)
    assert made.is_due


@pytest.mark.parametrize("commands", [0, 100, 10 * STOP_COMMANDS])
def test_snapshot_at_a_stop_pays_if_the_log_has_the_bytes_of_the_state(tmp_path, commands):
    made, enough = cadence(tmp_path, commands, size=1_000), min(commands, STOP_COMMANDS)
    made.add(10 + enough - 1, 5_000)
    assert not made.pays_at_stop
    made.restart(20, 1_000)
    made.add(20 + enough, 999)
    assert not made.pays_at_stop
    made.add(20 + enough, 1)
    assert made.pays_at_stop == (commands > 0)


def test_no_snapshots_are_taken_without_a_number_of_commands(tmp_path):
    made = cadence(tmp_path, 0)
    made.add(10**9, 10**12)
    assert not made.is_due
    assert not made.pays_at_stop


@pytest.mark.parametrize("is_orderly", [True, False])
def test_follower_takes_a_last_snapshot_only_if_the_server_stops_in_order(tmp_path, is_orderly):
    random_log(tmp_path)
    source, target = os.pipe()
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        end = log.tail
        with contextlib.closing(HistoryStore(tmp_path)) as store:
            replica = Replica(tmp_path, store, origin=0, tail=end, snapshot_commands=2 * end.seq)
            for frame in log.read():
                replica.apply(frame)
            assert not replica.cadence.is_due
            replica.cadence._commands = end.seq
            pipe = Pipe(log, target, end.seq, lambda _: None)
            if is_orderly:
                pipe.finish(30)
            else:
                pipe.close()
            follow(replica, source, lambda _: None)
        assert newest_snapshot(Folder(tmp_path))[0] == (end.seq if is_orderly else 0)
        assert recover(log)[2] == (0 if is_orderly else end.seq)
    os.close(source)


def long_log(folder):
    """Write a log of more commands than a stop leaves without a snapshot."""
    commands = [AddMarket(market=market(), now_ms=1)]
    commands += [sell(f"o{n}", 50, 1, now_ms=2) for n in range(100)]
    commands += [Expire(now_ms=3)] * STOP_COMMANDS
    with contextlib.closing(SqliteLog(folder)) as log:
        log.append(list(map(encode, commands)), 0, event_hash=ZERO_HASH)
    secret(folder, IDS)


@pytest.mark.parametrize("history", ["process", "thread"])
def test_start_after_a_clean_stop_repeats_no_command(tmp_path, history):
    long_log(tmp_path)
    with live_server(tmp_path, history=history) as live:
        assert not list(tmp_path.glob("snapshot-*"))
        assert live.stop() == 0
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        state, _, count = recover(log)
        assert (count, len(state.matcher)) == (0, 100)
        assert log.unchecked_seq == log.tail.seq > STOP_COMMANDS


@pytest.mark.parametrize("history", ["process", "thread"])
def test_short_log_gets_no_snapshot_at_a_stop(tmp_path, history):
    with live_server(tmp_path, history=history) as live:
        assert live.stop() == 0
    assert not list(tmp_path.glob("snapshot-*"))
