"""`clob-server repair-clock` takes back the time of a log that a clock ahead has written."""

from contextlib import closing

import msgspec
import pytest

from clob import (
    AddMarket,
    Batch,
    Cancel,
    Expire,
    Limits,
    Market,
    Mode,
    ResetClock,
    SetLimits,
    SetMode,
    Submit,
    TimeInForce,
)
from clob.errors import OrderAlreadyUsedError
from clob.journal import verify
from clob_server.cli import main
from clob_server.cli.verify import audit
from clob_server.core.clock import CLOCK_FILE, wall_clock_ms
from clob_server.core.commands import Grant, OrderCharge, RecordOpener, encode
from clob_server.core.recovery import commands_of, recover, take_snapshot
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import SqliteLog
from tests.matchers import buy, market, sell

YEARS_MS = 10 * 365 * 86_400_000
HOUR_MS = 3_600_000


def append(log, *commands):
    """Log commands as the sequencer does."""
    state, hashed, _ = recover(log)
    log.append([encode(each) for each in commands], log.tail.seq, event_hash=hashed)
    for each in commands:
        outcome_of(state, each)


def gtd(make, name, *arguments, now_ms, expiration_s, **fields):
    """Return a submission of a signed order that expires."""
    command = make(name, *arguments, now_ms=now_ms, order_hash=hash_of(name), **fields)
    terms = {"time_in_force": TimeInForce.GTD, "expiration_s": expiration_s}
    order = msgspec.structs.replace(command.order, **terms)
    return msgspec.structs.replace(command, order=order)


def hash_of(name):
    return name.encode().ljust(32, b".")


@pytest.fixture
def now_ms():
    return wall_clock_ms()


def damaged(folder, now_ms, bad_ms, *, snapshot=""):
    """Write a log whose last commands have a time that is ahead."""
    then, soon_s = now_ms - HOUR_MS, now_ms // 1000 + 3_600
    with closing(SqliteLog(folder)) as log:
        append(
            log,
            AddMarket(market=market(), now_ms=then),
            SetLimits(limits=Limits(finished_max=1), now_ms=then),
            gtd(sell, "filled", 50, 10, now_ms=then, expiration_s=soon_s),
            buy("b", 50, 10, now_ms=then),
            gtd(buy, "rests", 40, 10, now_ms=then, expiration_s=soon_s, maker="Mona"),
            gtd(buy, "short", 39, 10, now_ms=then, expiration_s=then // 1000 + 60),
            Expire(now_ms=then + 120_000),
            buy("forever", 38, 10, now_ms=then + 120_000),
        )
        if snapshot == "before":
            state, hashed, _ = recover(log)
            take_snapshot(log, state, hashed)
        if bad_ms is not None:
            append(
                log,
                gtd(buy, "later", 30, 10, now_ms=bad_ms, expiration_s=bad_ms // 1000 + 60),
                Expire(now_ms=bad_ms),
                OrderCharge(charges=((b"payer", 3),), now_ms=bad_ms),
                Grant(operation="o", user="u", amount=500, now_ms=bad_ms),
                Cancel(order_id="later", now_ms=bad_ms),
                Batch(
                    commands=(
                        gtd(buy, "batched", 30, 1, now_ms=0, expiration_s=bad_ms // 1000 + 60),
                        Cancel(order_id="batched"),
                    ),
                    now_ms=bad_ms,
                ),
                buy("x", 20, 1, now_ms=bad_ms + 120_000, maker="o"),
                Cancel(order_id="x", now_ms=bad_ms + 120_000),
                Expire(now_ms=bad_ms + 120_000),
            )
        if snapshot == "after":
            state, hashed, _ = recover(log)
            take_snapshot(log, state, hashed)


def run(capsys, folder, *options):
    """Run the command; return its exit code and output."""
    code = main(["repair-clock", "--data-dir", str(folder), *options])
    return code, "".join(capsys.readouterr())


@pytest.mark.parametrize("ahead_ms", [24 * HOUR_MS, YEARS_MS])
@pytest.mark.parametrize("snapshot", ["", "before", "after"])
def test_log_of_a_clock_ahead_works_again(tmp_path, capsys, now_ms, ahead_ms, snapshot):
    damaged(tmp_path, now_ms, now_ms + ahead_ms, snapshot=snapshot)
    (tmp_path / CLOCK_FILE).write_text("{}")
    with closing(SqliteLog(tmp_path)) as log:
        state, _, _ = recover(log)
        seq = log.tail.seq
        assert not state.matcher.is_used(hash_of("filled"))

    code, text = run(capsys, tmp_path)
    assert code == 0
    assert "9 commands have a later time" in text
    assert "1 orders were cancelled by them, as expired" in text
    assert "  rests expired market m token m-yes maker Mona BUY at 40 expiration " in text
    assert "4 executed signed orders" in text  # their hashes were dropped
    assert "repeat with --yes" in text
    with closing(SqliteLog(tmp_path)) as log:
        assert log.tail.seq == seq

    code, text = run(capsys, tmp_path, "--yes")
    assert (code, f"from command {seq + 1} on" in text) == (0, True)
    assert not (tmp_path / CLOCK_FILE).exists()
    with closing(SqliteLog(tmp_path)) as log:
        assert audit(log).last_seq == seq + 1
        state, _, _ = recover(log)
        later_ms = now_ms + 60_000
        assert now_ms <= state.now_ms == state.registry.now_ms == state.matcher.now_ms < later_ms
        assert not state.charges
        assert [each.now_ms for each in state.registry.grants] == [state.now_ms]
        assert max(state.changed_ms.values()) <= state.now_ms
        assert ServerState.restore(state.snapshot()).snapshot() == state.snapshot()
        for name in ("filled", "rests", "later", "batched"):
            assert state.matcher.is_used(hash_of(name)), name
        again = gtd(sell, "again", 50, 1, now_ms=later_ms, expiration_s=later_ms // 1000 + 60)
        again = msgspec.structs.replace(again, order_hash=hash_of("filled"))
        assert type(state.matcher.check(again)) is OrderAlreadyUsedError
        append(log, gtd(buy, "new", 41, 1, now_ms=later_ms, expiration_s=later_ms // 1000 + 60))
        state, _, _ = recover(log)
        assert state.matcher.order("new").remaining == 1
        assert [type(each) for each in list(log.read())[-2:] for each in commands_of(each)] == [
            *(ResetClock, Submit)
        ]

    assert main(["export", str(tmp_path / "journal"), str(tmp_path)]) == 0
    assert verify((tmp_path / "journal").read_bytes()).commands


def test_removal_of_an_unused_market_that_had_begun_is_ended(tmp_path, capsys, now_ms):
    """A clock ahead makes markets unused; the server stops before they are removed."""
    then, bad_ms = now_ms - HOUR_MS, now_ms + YEARS_MS
    names = ("begun", "halted", "kept", "resolved")
    with closing(SqliteLog(tmp_path)) as log:
        for name in names:
            added = Market(id=name, yes=f"{name}-yes", no=f"{name}-no")
            opener = RecordOpener(market=name, payer=b"p", now_ms=then)
            append(log, opener, AddMarket(market=added, now_ms=then))
        append(log, SetMode(market="halted", mode=Mode.HALTED, now_ms=then))
        append(log, SetMode(market="begun", mode=Mode.HALTED, now_ms=bad_ms))
        append(log, SetMode(market="resolved", mode=Mode.RESOLVED, now_ms=bad_ms))
    for options in ((), ("--yes",)):
        code, text = run(capsys, tmp_path, *options)
        assert (code, text.count("whose removal")) == (0, 2)
        assert "market begun, whose removal as unused had begun, is opened again" in text
        assert "market resolved, whose removal as unused had begun, is removed" in text
    with closing(SqliteLog(tmp_path)) as log:
        state, _, _ = recover(log)
        modes = {name: each.mode for name, each in state.markets.items()}
        assert modes == {"begun": Mode.OPEN, "halted": Mode.HALTED, "kept": Mode.OPEN}


def test_log_that_is_not_ahead_is_left_alone(tmp_path, capsys, now_ms):
    damaged(tmp_path, now_ms, None)
    code, text = run(capsys, tmp_path, "--yes")
    assert (code, "nothing to repair" in text) == (0, True)
    with closing(SqliteLog(tmp_path)) as log:
        assert log.tail.seq == 8


def test_folder_without_a_log_is_rejected(tmp_path, capsys):
    code, text = run(capsys, tmp_path / "none", "--yes")
    assert (code, "no log found" in text) == (2, True)
    assert not (tmp_path / "none").exists()


def test_log_in_use_is_rejected(tmp_path, capsys, now_ms):
    damaged(tmp_path, now_ms, now_ms + YEARS_MS)
    with closing(SqliteLog(tmp_path)):
        code, text = run(capsys, tmp_path, "--yes")
    assert (code, "LOG_LOCKED" in text) == (2, True)


def test_log_whose_beginning_is_missing_is_rejected(tmp_path, capsys, now_ms):
    damaged(tmp_path, now_ms, now_ms + YEARS_MS, snapshot="after")
    with closing(SqliteLog(tmp_path)) as log:
        log.drop(log.tail.seq)
    code, text = run(capsys, tmp_path, "--yes")
    assert (code, "are not known" in text) == (2, True)


def test_many_hashes_are_several_commands(tmp_path, capsys, now_ms, monkeypatch):
    monkeypatch.setattr("clob_server.cli.repair.SPENT_MAX", 2)
    damaged(tmp_path, now_ms, now_ms + YEARS_MS)
    assert run(capsys, tmp_path, "--yes")[0] == 0
    with closing(SqliteLog(tmp_path)) as log:
        state, hashed, _ = recover(log)
        assert state.matcher.is_used(hash_of("filled"))
        assert state.matcher.is_used(hash_of("batched"))
        assert audit(log).event_hash == hashed
