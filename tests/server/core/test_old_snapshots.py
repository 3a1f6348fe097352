"""Folders of older servers, whose first commands were exported and dropped.

Each one was written by the server whose snapshots had that version: three starts with orders and
trades, a snapshot after the first two, and ``clob-server export --drop``. ``dropped.frames`` is the
export, so that the state can be computed from the beginning as well; ``ids.key`` hides nothing.
"""

import contextlib
import zipfile
from pathlib import Path

import msgspec
import pytest

from clob.journal import ZERO_HASH, read_frames
from clob_server.cli.verify import audit
from clob_server.core.recovery import recover, replay_frame, take_snapshot
from clob_server.core.state import InvalidSnapshotError, OtherVersionError, ServerState
from clob_server.log import LogDamagedError, SqliteLog
from tests.server.live import live_server

FOLDERS = Path(__file__).parent / "folders"
VERSIONS = (2, 3, 4)
COMMANDS_MAX = 1_000


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def folder(version, tmp_path):
    with zipfile.ZipFile(FOLDERS / f"state-{version}.zip") as packed:
        packed.extractall(tmp_path)
    (tmp_path / "ids.key").chmod(0o600)
    return tmp_path


@pytest.fixture
def log(folder):
    with contextlib.closing(SqliteLog(folder)) as log:
        yield log


def replayed(folder, log):
    """Return the state and the event hash from all commands, the dropped ones included."""
    state, hashed = ServerState(), ZERO_HASH
    dropped = [
        frame
        for frame in read_frames((folder / "dropped.frames").read_bytes())
        if frame.first_seq <= log.origin.seq
    ]
    for frame in (*dropped, *log.read(log.origin.seq)):
        hashed = replay_frame(state, frame, hashed)
    return state, hashed


def names_in(folder):
    return sorted(path.name for path in folder.glob("snapshot-*"))


def test_state_of_an_older_server_goes_on_without_its_first_commands(folder, log, version, caplog):
    names = names_in(folder)
    state, hashed, count = recover(log)
    expected, expected_hash = replayed(folder, log)
    state.matcher.audit()
    assert (hashed, 0 < count < log.tail.seq) == (expected_hash, True)
    assert state.matcher.state_hash() == expected.matcher.state_hash()
    assert (state.num_orders, state.num_trades) == (expected.num_orders, expected.num_trades)
    assert (state.now_ms, state.changed_ms) == (expected.now_ms, expected.changed_ms)
    assert state.registry.snapshot() == expected.registry.snapshot()
    assert state.traded == expected.traded
    assert (state.snapshot() == expected.snapshot()) == (version > 2)
    assert (names_in(folder), caplog.records) == (names, [])
    assert audit(log).state_hash == state.matcher.state_hash()
    take_snapshot(log, state, hashed)
    again, _, count = recover(log)
    assert (again.snapshot(), count) == (state.snapshot(), 0)


def test_server_starts_in_a_folder_of_an_older_one(folder):
    with live_server(folder, rate_limits=False) as live:
        resting = live.http.get("/api/orders", params={"marketId": "rain"}).json()
        assert len(resting) > 20
        order = {**resting[0], "price": 99, "side": 0}
        body = {name: order[name] for name in ("maker", "marketId", "tokenId", "side", "price")}
        answer = live.http.post("/api/orders/gasless", json={**body, "size": str(10**18)})
        assert answer.json()["matched"] is True
        assert live.stop() == 0
    with contextlib.closing(SqliteLog(folder)) as log:
        audit(log)
    assert not list(folder.glob("*.damaged"))


def test_version_2_is_passed_over_where_the_log_has_all_commands(log, version):
    snapshot = log.get_snapshot()
    if version == 2:
        with pytest.raises(OtherVersionError, match="has version 2; this version reads 3 to 5"):
            ServerState.restore(snapshot.state)
    else:
        ServerState.restore(snapshot.state)


def test_snapshots_of_an_unknown_version_are_passed_over_and_keep_their_names(folder, log):
    names = names_in(folder)
    for _, snapshot in list(log.snapshots()):
        parts = msgspec.msgpack.decode(snapshot.state)
        newer = msgspec.msgpack.encode([99, *parts[1:]])
        log.put_snapshot(msgspec.structs.replace(snapshot, state=newer))
    with pytest.raises(LogDamagedError, match=r"no usable snapshot covers them .*has version 99"):
        recover(log)
    assert names_in(folder) == names


def test_damaged_part_of_an_older_snapshot_is_rejected(log):
    parts = msgspec.msgpack.decode(log.get_snapshot().state)
    for place in range(1, len(parts)):
        changed = [*parts[:place], b"none", *parts[place + 1 :]]
        with pytest.raises(InvalidSnapshotError):
            ServerState.restore(msgspec.msgpack.encode(changed), inexact=True)
    with pytest.raises(InvalidSnapshotError):
        ServerState.restore(msgspec.msgpack.encode(parts[:3]), inexact=True)
