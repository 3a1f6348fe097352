"""``clob-server backup`` and ``restore``, with running servers and with folders at rest."""

import json
import os
import shutil
import time
from contextlib import closing

import pytest
from websockets.sync.client import connect

from clob import Mode, Submit
from clob.journal import ZERO_HASH
from clob_server import cli
from clob_server.cli import backup
from clob_server.core.commands import Budgets, RecordRestore, SetBudgets, encode
from clob_server.core.recovery import commands_of, recover, replay_frame, take_snapshot
from clob_server.core.registry import RESTORE_GAP
from clob_server.core.state import ServerState
from clob_server.log import LogDamagedError, SqliteLog, Tail
from clob_server.log.backup import PART_BYTES, Contents, LogSource, copy_log
from tests.server.crash import Load, Witness, prepare_folder
from tests.server.history.logs import random_log
from tests.server.history.test_history import BUYER, SELLER, TOKEN, gasless, token_of
from tests.server.live import START_S, live_server

SETTINGS = {"rate_limits": False, "log_level": "error"}


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command; return its exit code, standard output and standard error."""
    for name in list(os.environ):
        if name.startswith("CLOB_"):
            monkeypatch.delenv(name)

    def command(*words):
        code = cli.main([str(word) for word in words])
        return (code, *capsys.readouterr())

    return command


def state_at(folder, seq):
    """Replay a log up to a command; return the state, and the frames' number of commands."""
    state, hashed = ServerState(), ZERO_HASH
    with closing(SqliteLog(folder)) as log:
        for frame in log.read():
            if frame.first_seq > seq:
                break
            hashed = replay_frame(state, frame, hashed)
        return state, hashed, log.tail


def tail_of(folder):
    with closing(SqliteLog(folder)) as log:
        return log.tail


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# ----- under load ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A server that was backed up twice under load, then killed: its load, and the copies."""
    folder = tmp_path_factory.mktemp("loaded") / "data"
    prepare_folder(folder)
    copies = [folder.parent / name for name in ("first", "again")]
    witness = Witness(folder, folder.parent / "aside")
    acked = []
    with live_server(folder, **SETTINGS | {"rate_limits": True}) as live:
        load = Load(live, witness, 1)
        for count, copy in zip((150, 300), copies, strict=True):
            load.wait(count)
            acked.append(dict(load.acked))
            words = ["backup", str(copy), "--url", live.url, "--data-dir", str(folder)]
            assert cli.main(words) == 0
            if copy is copies[0]:
                shutil.copytree(copy, copies[1])  # the next one adds to it
        load.wait(400)
        live.kill()
        load.end()
    witness.update()
    yield folder, load, acked, copies
    witness.close()


@pytest.mark.parametrize("number", [0, 1])
def test_backup_under_load_has_every_acknowledged_command(loaded, run, number):
    folder, load, acked, copies = loaded
    copy = copies[number]
    code, out, _ = run("verify", copy)
    assert (code, out[:3]) == (0, "ok,")
    with closing(SqliteLog(copy)) as log:
        state, hashed, _ = recover(log)
        end = log.tail
    expected, expected_hash, _ = state_at(folder, end.seq)
    assert state.snapshot() == expected.snapshot()
    assert hashed == expected_hash
    assert len(acked[number]) < len(load.acked)
    placed = {command.order_hash for command in commands_in(copy) if type(command) is Submit}
    assert placed.issuperset(acked[number])
    assert copy.stat().st_mode & 0o777 == 0o700
    assert {each.name for each in copy.iterdir()} == {"log.db", "tip", "ids.key"}


def commands_in(folder):
    with closing(SqliteLog(folder)) as log:
        return [command for frame in log.read() for command in commands_of(frame)]


def test_server_on_a_restored_backup_serves_the_prefix(loaded, run, tmp_path):
    _, load, acked, (copy, _) = loaded
    before = files_of(copy)
    code, out, err = run("restore", copy, "--data-dir", tmp_path / "new", "--note", "moved")
    assert (code, err) == (0, "")
    end = tail_of(copy).seq
    assert f"restored up to command {end};" in out
    assert "unknown which later commands are lost; 2 markets allow only cancels" in out
    assert files_of(copy) == before
    with live_server(tmp_path / "new", **SETTINGS) as live:
        for body, answer in list(acked[0].values())[:40]:
            found = live.http.get(f"/api/orders/{answer.order_id}")
            assert found.status_code == 200, found.text
            assert found.json()["signature"] == body["signature"]
        lost = [each for hashed, each in load.acked.items() if hashed not in acked[0]][-1]
        assert live.http.get(f"/api/orders/{lost[1].order_id}").status_code == 404
        answer = live.http.post("/api/orders", json=lost[0])
        assert answer.json()["code"] in ("MARKET_NOT_OPEN", "NONCE_TOO_LOW"), answer.text
        code, *_ = run("verify", tmp_path / "new")
        assert code == 2  # the server has it open
        assert live.stop() == 0
    assert run("verify", tmp_path / "new")[0] == 0
    (record, *_) = commands_in(tmp_path / "new")[end:]
    assert type(record) is RecordRestore
    assert (record.note, record.replaced_seq, record.replaced_hash) == ("moved", None, b"")


# ----- what clients see after a restore --------------------------------------------------------


def subscribed(live, market, **resume):
    """Subscribe to the books of a market; return the first answer."""
    with connect(live.ws_url) as socket:
        message = {
            "type": "subscribe", "channel": "orderbook", "marketId": market, "extended": True,
            "resume": resume,
        }  # fmt: skip
        socket.send(json.dumps(message))
        return json.loads(socket.recv())


def book_tag(live, market, **headers):
    url = f"/api/markets/{market}/orderbook"
    return live.http.get(url, params={"tokenId": token_of(market)}, headers=headers)


def test_clients_do_not_take_the_restored_numbers_for_the_lost_ones(run, tmp_path):
    folder, copy = tmp_path / "data", tmp_path / "copy"
    with live_server(folder, **SETTINGS) as live:
        old = [gasless(live, "m", SELLER, 1)["orderId"]]
        assert run("backup", copy, "--url", live.url, "--data-dir", folder)[0] == 0
        old += [gasless(live, "m", SELLER, 1)["orderId"]]
        traded = gasless(live, "m", BUYER, 0)["trades"][0]
        tag = book_tag(live, "m").headers["etag"]
        first = subscribed(live, "m", seq=0)
        epoch = first["epoch"]
        assert (first["seq"], epoch % 2**16, epoch < 2**48) == (4, 0, True)
        assert subscribed(live, "m", seq=4)["resumed"]
        assert live.stop() == 0
    lost = tail_of(folder)
    code, out, _ = run("restore", copy, "--data-dir", folder, "--keep-open")
    kept = tail_of(copy).seq
    assert (code, out.count("allow only cancels")) == (0, 0)
    assert f"commands {kept + 1} to {lost.seq} of the replaced log are lost" in out
    (aside,) = folder.glob("replaced-*")
    assert tail_of(aside) == lost
    record = commands_in(folder)[kept]
    assert (record.replaced_seq, record.replaced_hash) == (lost.seq, lost.chain_hash)
    with live_server(folder, **SETTINGS) as live:
        assert live.http.get(f"/api/orders/{old[1]}").status_code == 404
        after = book_tag(live, "m").json()["lastUpdate"]
        assert after == record.now_ms
        new = [gasless(live, "m", SELLER, 1)["orderId"] for _ in range(2)]
        trade = gasless(live, "m", BUYER, 0)["trades"][0]
        assert not set(new) & set(old)
        assert trade["id"] != traded["id"]
        # The market has as many events as the lost log; its numbers mean other events.
        answer = book_tag(live, "m", **{"If-None-Match": tag})
        exchange = tag.split("-")[0]
        assert (answer.status_code, answer.headers["etag"]) == (200, f'{exchange}-1-5"')
        for resume, resumed in (
            ({"seq": 4}, False),
            ({"seq": 99}, False),
            ({"seq": 4, "epoch": 1}, False),
            ({"seq": 4, "epoch": epoch}, False),
            ({"seq": 99, "epoch": epoch + 1}, False),
            ({"seq": 5, "epoch": epoch + 2}, False),
            ({"seq": 4, "epoch": epoch + 1}, True),
        ):
            found = subscribed(live, "m", **resume)
            assert (found["resumed"], found["epoch"]) == (resumed, epoch + 1), resume
        assert live.stop() == 0
    with closing(SqliteLog(folder)) as log:
        state, _, _ = recover(log)
    assert state.num_trades > RESTORE_GAP < state.num_orders
    assert state.registry.epoch == 1
    assert ServerState.restore(state.snapshot()).registry.epoch == 1


def test_clients_do_not_resume_from_a_number_of_another_data_folder(tmp_path):
    with live_server(tmp_path / "first", **SETTINGS) as live:
        gasless(live, "m", SELLER, 1)
        old = subscribed(live, "m", seq=0)
        assert live.stop() == 0
    with live_server(tmp_path / "second", **SETTINGS) as live:
        for _ in range(3):
            gasless(live, "m", SELLER, 1)
        new = subscribed(live, "m", seq=old["seq"], epoch=old["epoch"])
        assert (new["resumed"], new["epoch"] == old["epoch"]) == (False, False)
        assert subscribed(live, "m", seq=old["seq"], epoch=new["epoch"])["resumed"]


def test_cancelled_order_that_comes_back_cannot_trade_before_an_operator_opens(run, tmp_path):
    folder, copy = tmp_path / "data", tmp_path / "copy"
    with live_server(folder, **SETTINGS) as live:
        name = gasless(live, "m", SELLER, 1, 3 * TOKEN)["orderId"]
        assert run("backup", copy, "--url", live.url, "--data-dir", folder)[0] == 0
        cancel = {"method": "DELETE", "url": f"/api/orders/{name}", "json": {"maker": SELLER}}
        assert live.http.request(**cancel).status_code == 200
        assert live.stop() == 0
    assert "1 markets allow only cancels" in run("restore", copy, "--data-dir", folder)[1]
    with live_server(folder, **SETTINGS) as live:
        assert live.http.get("/api/markets/m").json()["mode"] == "cancelOnly"
        assert live.http.request(**cancel).status_code == 200


def test_restore_that_loses_nothing_leaves_the_markets_open(run, tmp_path):
    folder = tmp_path / "data"
    with live_server(folder, **SETTINGS) as live:
        gasless(live, "m", SELLER, 1)
        assert live.stop() == 0
    assert run("backup", tmp_path / "copy", "--data-dir", folder)[0] == 0
    code, out, _ = run("restore", tmp_path / "copy", "--data-dir", folder)
    assert (code, out.rstrip().endswith("commands checked; no command is lost")) == (0, True)
    with closing(SqliteLog(folder)) as log:
        state, _, count = recover(log)
    assert {market.mode for market in state.markets.values()} == {Mode.OPEN}
    assert count == 0  # a snapshot of the end


# ----- rejected --------------------------------------------------------------------------------


def test_folder_of_a_running_server_is_rejected(run, tmp_path):
    random_log(tmp_path / "other", count=20)
    with live_server(tmp_path / "data", **SETTINGS):
        deadline = time.monotonic() + START_S  # the history process makes its files meanwhile
        while not (tmp_path / "data" / "history.db-shm").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        before = sorted(each.name for each in (tmp_path / "data").iterdir())
        for words, hint in (
            (["backup", tmp_path / "copy"], "use --url to reach the server that is using it"),
            (["restore", tmp_path / "other"], "it must be stopped"),
        ):
            code, _, err = run(*words, "--data-dir", tmp_path / "data")
            assert code == 2
            assert "LOG_LOCKED" in err
            assert err.endswith(f"open; {hint}\n")
        assert sorted(each.name for each in (tmp_path / "data").iterdir()) == before
    assert not (tmp_path / "copy").exists()


def test_folder_that_cannot_hold_a_backup_is_unusable(run, tmp_path):
    random_log(tmp_path / "data", count=20)
    (tmp_path / "file").touch()
    for name in ("file", "file/copy"):
        code, _, err = run("backup", tmp_path / name, "--data-dir", tmp_path / "data")
        assert (code, err.startswith("clob-server: LOG_ERROR: the log in ")) == (2, True)


def test_wrong_token_or_address_is_rejected(run, tmp_path, monkeypatch):
    with live_server(tmp_path / "data", **SETTINGS) as live:
        monkeypatch.setenv("CLOB_TOKEN", "no token")
        code, _, err = run("backup", tmp_path / "copy", "--url", live.url)
        assert (code, "INVALID_TOKEN" in err) == (1, True)
        answer = live.http.get("/api/admin/backup/frames")
        assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_REQUIRED")
    code, _, err = run("backup", tmp_path / "copy", "--url", live.url)
    assert (code, "no valid response" in err) == (1, True)
    assert not (tmp_path / "copy").exists()


def test_backup_into_a_copy_of_another_log_is_rejected(run, tmp_path):
    for name, seed in (("one", 1), ("two", 2)):
        random_log(tmp_path / name, seed=seed, count=50)
    assert run("backup", tmp_path / "copy", "--data-dir", tmp_path / "one")[0] == 0
    before = files_of(tmp_path / "copy")
    code, _, err = run("backup", tmp_path / "copy", "--data-dir", tmp_path / "two")
    assert (code, "of another log" in err) == (1, True)
    assert files_of(tmp_path / "copy") == before
    code, out, _ = run("backup", tmp_path / "copy", "--data-dir", tmp_path / "one")
    assert (code, out[:19]) == (0, "ok, 0 commands adde")


def damage(copy, name, at):
    data = bytearray((copy / name).read_bytes())
    data[at] ^= 1
    (copy / name).write_bytes(data)


@pytest.mark.parametrize("how", ["frame", "tip", "no tip", "text file"])
def test_damaged_backup_is_rejected_and_changes_nothing(run, tmp_path, how):
    folder, copy = tmp_path / "data", tmp_path / "copy"
    random_log(folder, count=200)
    assert run("backup", copy, "--data-dir", folder)[0] == 0
    if how == "frame":
        damage(copy, "log.db", (copy / "log.db").read_bytes().rindex(b"M") + 1)
    elif how == "tip":
        damage(copy, "tip", 0)
    elif how == "no tip":
        (copy / "tip").unlink()
    else:
        (copy / "log.db").write_text("no database " * 1_000)
    before = files_of(folder)
    code, _, err = run("restore", copy, "--data-dir", folder)
    assert (code, "LOG_DAMAGED" in err) == (1, True), err
    assert files_of(folder) == before
    assert [each for each in folder.iterdir() if each.is_dir()] == []
    if "tip" in how:
        assert run("restore", copy, "--data-dir", folder, "--accept-tail")[0] == 0


@pytest.mark.parametrize("words", [["backup", ""], ["restore", ""], ["export", "", "data"]])
def test_empty_path_is_rejected(run, tmp_path, monkeypatch, words):
    random_log(tmp_path / "data", count=50)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(*words)
    assert ended.value.code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_empty_file_is_no_backup(run, tmp_path):
    folder, empty = tmp_path / "data", tmp_path / "log.db"
    random_log(folder, count=50)
    empty.touch()
    before = files_of(folder)
    for words in (["restore", empty], ["restore", tmp_path, "--accept-tail"]):
        code, out, err = run(*words, "--data-dir", folder)
        assert (code, out, "has no commands" in err) == (1, "", True), err
        assert files_of(folder) == before


def test_older_database_file_is_restored(run, tmp_path):
    """The way before ``backup``: a copied ``log.db`` alone, put beside a newer tip."""
    folder, old = tmp_path / "data", tmp_path / "old.db"
    with live_server(folder, **SETTINGS) as live:
        gasless(live, "m", SELLER, 1)
        assert live.stop() == 0
    shutil.copy(folder / "log.db", old)
    end = tail_of(folder)
    with live_server(folder, **SETTINGS) as live:
        gasless(live, "m", SELLER, 1)
        assert live.stop() == 0
    shutil.copy(old, folder / "log.db")
    code, _, err = run("verify", folder)
    assert (code, "the tip file records" in err, "clob-server restore" in err) == (1, True, True)
    code, out, err = run("restore", old, "--data-dir", folder)
    assert (code, f"restored up to command {end.seq};" in out) == (0, True), err
    assert f"commands {end.seq + 1} to " in out
    with live_server(folder, **SETTINGS) as live:
        assert live.http.get("/api/markets/m").status_code == 200


# ----- interruptions ---------------------------------------------------------------------------

STEPS = ("replace", "rmdir", "link")


class CutError(Exception):
    """The process ends here."""


def test_interrupted_restore_is_rejected_at_start_or_complete_and_can_be_repeated(
    run, tmp_path, monkeypatch
):
    original, copy = tmp_path / "data", tmp_path / "copy"
    random_log(original, count=100)
    assert run("backup", copy, "--data-dir", original)[0] == 0
    with closing(SqliteLog(original)) as log:
        state, hashed, _ = recover(log)
        take_snapshot(log, state, hashed)
        log.append([encode(SetBudgets(budgets=Budgets()))], log.tail.seq, event_hash=hashed)
    ends = {tail_of(original): "before"}
    outcomes = []
    for number in range(20):
        folder = shutil.copytree(original, tmp_path / f"cut {number}")
        left = [number]
        with monkeypatch.context() as patch:
            for name in STEPS:
                patch.setattr(backup.os, name, cutting(getattr(os, name), left))
            try:
                code, *_ = run("restore", copy, "--data-dir", folder)
            except CutError:
                code = None
        try:
            found = tail_of(folder)
            outcomes.append(ends.get(found, "after"))
        except LogDamagedError:
            outcomes.append("rejected")
        assert run("restore", copy, "--data-dir", folder)[0] == 0
        with closing(SqliteLog(folder)) as log:
            recover(log)
        if code == 0:
            break
    else:
        raise AssertionError("the restore never ended")
    order = ["before", "rejected", "after"]
    assert sorted(outcomes, key=order.index) == outcomes
    assert set(outcomes) == set(order)


def cutting(step, left):
    """Return a system call that ends the process at the given one."""

    def call(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            raise CutError
        return step(*arguments, **options)

    return call


# ----- logs without their beginning ------------------------------------------------------------


@pytest.mark.parametrize("part_bytes", [300, PART_BYTES])
def test_backup_of_a_log_without_its_beginning(run, tmp_path, monkeypatch, part_bytes):
    monkeypatch.setattr("clob_server.log.backup.PART_BYTES", part_bytes)
    folder, copy = tmp_path / "data", tmp_path / "copy"
    random_log(folder, count=60)
    with closing(SqliteLog(folder)) as log:
        state, hashed, _ = recover(log)
        take_snapshot(log, state, hashed)
        log.drop(log.tail.seq)
        command = SetBudgets(budgets=Budgets(orders_per_minute=7), now_ms=state.now_ms)
        state.apply(command)
        log.append([encode(command)], log.tail.seq, event_hash=hashed)
    assert run("backup", copy, "--data-dir", folder)[0] == 0
    with closing(SqliteLog(copy)) as log:
        found, _, count = recover(log)
    assert (count, found.snapshot()) == (1, state.snapshot())
    assert run("restore", copy, "--data-dir", tmp_path / "new")[0] == 0
    assert run("verify", tmp_path / "new")[0] == 0


def test_copy_that_lacks_dropped_commands_is_rejected(tmp_path):
    random_log(tmp_path / "data", count=60)

    class Dropped(LogSource):
        """A log whose beginning was dropped after the first copy."""

        def contents(self):
            extent = super().contents()
            return Contents(origin=extent.tail, tail=Tail(extent.tail.seq + 9, b"x" * 32))

    with closing(SqliteLog(tmp_path / "data")) as log:
        source = LogSource(log, tmp_path / "data")
        first = source.frames(0)[:3]
        with closing(SqliteLog(tmp_path / "copy")) as copy:
            copy.extend(first)
        with pytest.raises(LogDamagedError, match="has dropped the commands up to"):
            copy_log(Dropped(log, tmp_path / "data"), tmp_path / "copy")
