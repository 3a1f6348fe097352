"""``clob-server verify`` and ``export`` of a data folder, with their exit codes."""

import subprocess
import sys
from contextlib import closing

import pytest

from clob import AddMarket, Cancel
from clob import cli as clob_cli
from clob.journal import ZERO_HASH, event_hash
from clob_server import cli
from clob_server.core.commands import ENGINE, Budgets, DeactivateKey, SetBudgets, encode
from clob_server.core.recovery import take_snapshot
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import SqliteLog
from tests.matchers import buy, market, sell
from tests.server.engines import signed


def commands():
    """Yield commands: a market, signed orders that trade, server commands, and rejections."""
    yield AddMarket(market=market(), now_ms=1)
    for number in range(20):
        make = sell if number % 2 else buy
        yield SetBudgets(budgets=Budgets(key_per_minute=number), now_ms=2 + number)
        yield signed(make)(f"o{number}", 50, 1 + number, now_ms=2 + number)
    yield Cancel(order_id="unknown", now_ms=30)
    yield DeactivateKey(key_id="unknown", now_ms=31)


def write_log(folder, *, snapshot_after=None, drop=False):
    """Write a log of the commands, three per frame; return the matcher."""
    todo, exchange, hashed = list(commands()), ServerState(), ZERO_HASH
    with closing(SqliteLog(folder)) as log:
        for start in range(0, len(todo), 3):
            part = todo[start : start + 3]
            log.append(list(map(encode, part)), start, event_hash=hashed)
            for command in part:
                outcome = outcome_of(exchange, command)
                if type(command) in ENGINE:
                    hashed = event_hash(hashed, outcome)
            if snapshot_after == log.tail.seq:
                take_snapshot(log, exchange, hashed)
                if drop:
                    log.drop(snapshot_after)
    return exchange.matcher


@pytest.mark.parametrize(
    "kept", [{}, {"snapshot_after": 9}, {"snapshot_after": 9, "drop": True}], ids=str
)
def test_log_is_verified(tmp_path, capsys, kept):
    matcher = write_log(tmp_path / "data", **kept)
    assert cli.main(["verify", str(tmp_path / "data")]) == 0
    output = capsys.readouterr().out
    num_frames, num_commands = (12, 34) if kept.get("drop") else (15, 43)
    assert output.startswith(f"ok, {num_frames} frames, {num_commands} commands, rejected ")
    assert "UNKNOWN_KEY 1, UNKNOWN_ORDER 1" in output
    assert output.endswith(f"last command 43, state hash {matcher.state_hash().hex()}\n")


def test_exported_journal_verifies(tmp_path, capsys):
    matcher = write_log(tmp_path / "data", snapshot_after=9)
    out = tmp_path / "day.frames"
    assert cli.main(["export", str(out), str(tmp_path / "data")]) == 0
    assert capsys.readouterr().out == "15 frames, commands 1 to 43\n"
    assert clob_cli.main(["verify", str(out)]) == 0
    output = capsys.readouterr().out
    assert "43 commands" in output
    assert matcher.state_hash().hex() in output
    assert cli.main(["export", str(out), str(tmp_path / "data")]) == 2
    assert "FILE_UNUSABLE" in capsys.readouterr().err


def test_state_that_differs_from_the_log_is_reported(tmp_path, capsys):
    folder = tmp_path / "data"
    write_log(folder)
    with closing(SqliteLog(folder)) as log:
        take_snapshot(log, ServerState(), ZERO_HASH)
    assert cli.main(["verify", str(folder)]) == 1
    assert "REPLAY_DIFFERS: event hash of command 43" in capsys.readouterr().err


def test_damaged_log_is_reported_and_missing_log_is_not_created(tmp_path, capsys):
    folder = tmp_path / "data"
    write_log(folder)
    (folder / "tip").write_bytes(b"")
    for command in (["verify"], ["export", str(tmp_path / "out")]):
        assert cli.main([*command, str(folder)]) == 1
        assert "LOG_DAMAGED" in capsys.readouterr().err
    restored = tmp_path / "restored"
    restore = ["restore", str(folder), "--data-dir", str(restored)]
    assert cli.main(restore) == 1
    assert cli.main([*restore, "--accept-tail"]) == 0
    assert cli.main(["verify", str(restored)]) == 0
    capsys.readouterr()
    assert cli.main(["verify", str(tmp_path / "none")]) == 2
    assert "no log found in" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_log_of_a_running_server_is_rejected(tmp_path, capsys):
    folder = tmp_path / "data"
    write_log(folder)
    with closing(SqliteLog(folder)):
        command = [sys.executable, "-m", "clob_server", "verify", str(folder)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "LOG_LOCKED" in result.stderr
