"""The audit of a log replays it and reports the first difference."""

import msgspec
import pytest

from clob import AddMarket, Cancel, Matcher
from clob.errors import InvalidSnapshotError, ReplayDiffersError
from clob.journal import ZERO_HASH, event_hash
from clob_server import cli
from clob_server.cli.verify import audit
from clob_server.core.commands import ENGINE, Budgets, DeactivateKey, SetBudgets, encode
from clob_server.core.recovery import take_snapshot
from clob_server.core.state import OtherVersionError, ServerState, outcome_of
from clob_server.log import LogDamagedError, MemoryLog
from tests.matchers import buy, market, sell
from tests.server.engines import signed

COMMANDS = [
    AddMarket(market=market(), now_ms=1),
    SetBudgets(budgets=Budgets(key_per_minute=2), now_ms=2),
    signed(sell)("s", 50, 10, now_ms=2),
    SetBudgets(budgets=Budgets(orders_per_minute=1), now_ms=3),
    SetBudgets(budgets=Budgets(key_per_minute=4), now_ms=4),
    signed(buy)("b", 50, 4, now_ms=4),
    DeactivateKey(key_id="unknown", now_ms=5),
    Cancel(order_id="unknown", now_ms=5),
    Cancel(order_id="s", now_ms=6),
]
PER_FRAME = 3


def log_commands(log, exchange, hashed=ZERO_HASH, todo=COMMANDS, *, states=False):
    """Log and apply commands as the sequencer does; return the event hash."""
    for start in range(0, len(todo), PER_FRAME):
        part = todo[start : start + PER_FRAME]
        state_hash = exchange.matcher.state_hash() if states else None
        raws = list(map(encode, part))
        log.append(raws, log.tail.seq, event_hash=hashed, state_hash=state_hash)
        for command in part:
            outcome = outcome_of(exchange, command)
            if type(command) in ENGINE:
                hashed = event_hash(hashed, outcome)
    return hashed


@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("covered", [None, 0, 3, 6, 9])
def test_audit_of_a_correct_log_returns_its_summary(log, covered, drops, states):
    exchange, hashed = ServerState(), ZERO_HASH
    if covered is not None:
        hashed = log_commands(log, exchange, hashed, COMMANDS[:covered], states=states)
        take_snapshot(log, exchange, hashed)
        if drops:
            log.drop(covered)
    hashed = log_commands(log, exchange, hashed, COMMANDS[covered or 0 :], states=states)
    first = (covered or 0) if drops else 0
    report = audit(log)
    assert (report.frames, report.commands) == ((9 - first) // PER_FRAME, 9 - first)
    expected = {"UNKNOWN_KEY": 1, "UNKNOWN_ORDER": 1} if first < 7 else {}
    assert report.rejected == expected
    assert (report.last_seq, report.event_hash) == (9, hashed)
    assert report.state_hash == exchange.matcher.state_hash()


def test_audit_of_an_empty_log(log):
    report = audit(log)
    assert (report.frames, report.commands, report.rejected, report.last_seq) == (0, 0, {}, 0)
    assert (report.event_hash, report.state_hash) == (ZERO_HASH, Matcher().state_hash())


def changed(snapshot, **fields):
    return msgspec.structs.replace(snapshot, **fields)


@pytest.mark.parametrize("covered", [0, 3, 9])
def test_snapshot_with_another_state_is_reported(log, covered):
    exchange, other = ServerState(), ServerState()
    hashed = log_commands(log, exchange, ZERO_HASH, COMMANDS[:covered])
    other.replay(COMMANDS[:covered])
    other.apply(SetBudgets(budgets=Budgets(orders_per_minute=2), now_ms=0))
    taken = take_snapshot(log, other, hashed)
    log_commands(log, exchange, hashed, COMMANDS[covered:])
    with pytest.raises(ReplayDiffersError, match=f"^state of command {covered} differs: journal "):
        audit(log)
    log.put_snapshot(changed(taken, state=b"none"))
    with pytest.raises(InvalidSnapshotError):
        audit(log)


def test_snapshot_of_another_version_is_not_compared(log):
    exchange = ServerState()
    hashed = log_commands(log, exchange, ZERO_HASH, COMMANDS[:3])
    taken = take_snapshot(log, exchange, hashed)
    (_, *rest) = msgspec.msgpack.decode(taken.state)
    older = msgspec.msgpack.encode([1, *rest[:-1]])
    log.put_snapshot(changed(taken, state=older))
    log_commands(log, exchange, hashed, COMMANDS[3:])
    assert audit(log).state_hash == exchange.matcher.state_hash()
    log.drop(3)
    with pytest.raises(OtherVersionError, match="has version 1; this version reads"):
        audit(log)


@pytest.mark.parametrize("drops", [False, True])
def test_snapshot_with_another_event_hash_is_reported(log, drops):
    exchange = ServerState()
    hashed = log_commands(log, exchange, ZERO_HASH, COMMANDS[:3])
    take_snapshot(log, exchange, b"\1" * 32)
    if drops:
        log.drop(3)
    log_commands(log, exchange, hashed, COMMANDS[3:])
    words = f"event hash of command {4 if drops else 3} differs: journal "
    with pytest.raises(ReplayDiffersError, match=words):
        audit(log)


@pytest.mark.parametrize("field", ["event_hash", "state_hash"])
def test_frame_with_another_hash_is_reported(log, field):
    exchange = ServerState()
    hashed = log_commands(log, exchange, ZERO_HASH, COMMANDS[:3])
    hashes = {"event_hash": hashed, "state_hash": exchange.matcher.state_hash()}
    log.append([encode(COMMANDS[3])], 3, **(hashes | {field: b"\1" * 32}))
    words = f"{field.replace('_', ' ')} of command 4 differs: journal "
    with pytest.raises(ReplayDiffersError, match=words):
        audit(log)


def test_frame_without_an_event_hash_is_rejected(log):
    log.append([encode(COMMANDS[0])], 0)
    with pytest.raises(LogDamagedError, match="frame from command 1 has no event hash"):
        audit(log)


@pytest.mark.parametrize(
    ("seq", "words"),
    [
        (2, "after command 2 is within the frame from 1"),
        (10, "is of command 10, after the last command 9"),
    ],
)
def test_snapshot_at_no_frame_end_is_rejected(seq, words):
    class UncheckedLog(MemoryLog):
        """A log that stores any snapshot."""

        def put_snapshot(self, snapshot):
            self._snapshot = snapshot

    log, exchange = UncheckedLog(), ServerState()
    taken = take_snapshot(log, exchange, log_commands(log, exchange))
    log.put_snapshot(changed(taken, seq=seq))
    with pytest.raises(LogDamagedError, match=words):
        audit(log)


@pytest.mark.parametrize("command", ["verify", "export"])
def test_folder_that_cannot_be_read_is_reported_in_one_line(capsys, command):
    target = ["target"] if command == "export" else []
    assert cli.main([command, *target, "x" * 300]) == 2
    err = capsys.readouterr().err
    assert err.startswith("clob-server: FILE_UNUSABLE: ")
    assert err.count("\n") == 1
