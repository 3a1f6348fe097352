"""Exported tables equal the state of the log, and dropping keeps all needed frames."""

import json
import shutil
from collections import Counter
from contextlib import closing

import pyarrow.parquet
import pytest

from clob import AddMarket
from clob.journal import verify
from clob_server.cli import export
from clob_server.cli.export import drop, droppable, export_journal, export_tables
from clob_server.core.ids import Ids
from clob_server.core.recovery import recover
from clob_server.log import Folder, SqliteLog
from clob_server.log.files import snapshot_names, snapshot_seq
from tests.matchers import buy, market, sell
from tests.server.history.logs import dump, follow_log, random_log, write_log
from tests.server.settled import ALICE, BOB, NO, YES, ended, opening, settling, tx_of

IDS = Ids(bytes(32))


@pytest.fixture(scope="module")
def followed_log(tmp_path_factory):
    """A log with history and two snapshots."""
    folder = tmp_path_factory.mktemp("log")
    random_log(folder)
    follow_log(folder, snapshot_commands=250)
    return folder


@pytest.fixture
def folder(followed_log, tmp_path):
    """A copy of the log."""
    return shutil.copytree(followed_log, tmp_path / "log")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_json_lines_equal_history_and_matcher(folder, tmp_path):
    out = tmp_path / "out"
    with closing(SqliteLog(folder)) as log:
        counts = export_tables(log, folder, out, IDS, form="jsonl")
        exchange, _, _ = recover(log)
    history = dump(folder)
    resting = [each.order.id for each in exchange.matcher.open_orders()]
    orders, trades, events = (
        lines(out / f"{name}.jsonl") for name in ("orders", "trades", "events")
    )
    assert counts == {
        "events": len(events),
        "trades": len(trades),
        "orders": len(orders),
        "settlements": 0,
    }
    assert [each["id"] for each in orders] == [
        *[row[0] for row in history["orders"]],
        *map(str, resting),
    ]
    assert orders[: -len(resting)] == [json.loads(row[-1]) for row in history["orders"]]
    kept = sorted(history["trades"], key=lambda row: row[-1])
    assert [each["id"] for each in trades] == [IDS.trade(row[-2], row[-1]) for row in kept]
    assert [each["size"] for each in trades] == [row[6] for row in kept]
    assert Counter(each["type"] for each in events)["trade"] == len(trades)
    for name in (each.id for each in exchange.matcher.markets):
        seqs = [each["seq"] for each in events if each["marketId"] == name]
        assert seqs == list(range(1, exchange.matcher.seq(name) + 1))


def test_parquet_has_the_same_rows(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "GROUP_ROWS", 50)
    with closing(SqliteLog(folder)) as log:
        for form in ("jsonl", "parquet"):
            export_tables(log, folder, tmp_path / form, IDS, form=form)
    for name in ("events", "trades", "orders"):
        path = tmp_path / "parquet" / f"{name}.parquet"
        assert pyarrow.parquet.ParquetFile(path).num_row_groups > 1
        rows = pyarrow.parquet.read_table(path).to_pylist()
        json_rows = lines(tmp_path / "jsonl" / f"{name}.jsonl")
        assert rows == [{key: row.get(key) for key in rows[0]} for row in json_rows]


def test_only_requested_tables_are_written(folder, tmp_path):
    with closing(SqliteLog(folder)) as log:
        export_tables(log, folder, tmp_path / "out", IDS, form="jsonl", tables=["trades"])
        assert [each.name for each in (tmp_path / "out").iterdir()] == ["trades.jsonl"]
        with pytest.raises(FileExistsError):
            export_tables(log, folder, tmp_path / "out", IDS, form="jsonl", tables=["trades"])
        with pytest.raises(ValueError, match="xml"):
            export_tables(log, folder, tmp_path / "out", IDS, form="xml")
        with pytest.raises(ValueError, match="candles"):
            export_tables(log, folder, tmp_path / "out", IDS, tables=["candles"])


def test_dropped_frames_were_exported_and_are_covered_by_both_snapshots(folder, tmp_path):
    oldest = snapshot_seq(snapshot_names(Folder(folder))[0])
    assert droppable(folder) == oldest
    journal = tmp_path / "old.journal"
    with closing(SqliteLog(folder)) as log:
        state = recover(log)[0].snapshot()
        frames = export_journal(log, journal, oldest)
        assert drop(log, folder) == frames > 0
        assert log.origin.seq == oldest
        assert verify(journal.read_bytes()).last_seq == oldest
        assert drop(log, folder) == 0
    with closing(SqliteLog(folder)) as log:
        assert recover(log)[0].snapshot() == state
    (folder / snapshot_names(Folder(folder))[-1]).unlink()
    with closing(SqliteLog(folder)) as log:
        assert recover(log)[0].snapshot() == state


def test_frames_that_history_has_not_reached_are_kept(folder):
    for name in ("history.db", "history.db-wal"):
        (folder / name).unlink(missing_ok=True)
    assert droppable(folder) == 0
    with closing(SqliteLog(folder)) as log:
        assert drop(log, folder) == 0
    (folder / "history.db").touch()
    assert droppable(folder) == 0


def test_export_after_a_drop_begins_with_the_snapshot(folder, tmp_path):
    with closing(SqliteLog(folder)) as log:
        export_tables(log, folder, tmp_path / "whole", IDS, form="jsonl")
        drop(log, folder)
        origin = log.origin.seq
        export_tables(log, folder, tmp_path / "rest", IDS, form="jsonl")
    whole, rest = (lines(tmp_path / name / "events.jsonl") for name in ("whole", "rest"))
    assert rest == [each for each in whole if each["commandSeq"] > origin]
    assert rest


def test_settled_trades_keep_their_rows_and_have_settlement_rows(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    yes, no = {"token": YES, "now_ms": 5}, {"token": NO, "now_ms": 7}
    commands = [
        *opening(settling(complementary=True)),
        AddMarket(market=market("free", yes="7"), now_ms=1),
        sell("a", 60, 300, maker=ALICE, **yes),
        buy("b", 60, 300, maker=BOB, **yes),
        buy("c", 60, 300, maker=ALICE, **yes),
        buy("d", 40, 300, maker=BOB, **no),
        sell("e", 60, 3, market="free", token="7", now_ms=8),
        buy("f", 60, 3, market="free", token="7", now_ms=8),
        ended(2, 4, 2, 2, now_ms=9),
        ended(1, reason="nothing is left", now_ms=10),
        ended(1, now_ms=11),
    ]
    count = write_log(folder, commands)
    rows = {}
    with closing(SqliteLog(folder)) as log:
        for form in ("jsonl", "parquet"):
            counts = export_tables(log, folder, tmp_path / form, IDS, form=form)
            assert counts["settlements"] == 3
    for name in ("trades", "settlements"):
        rows[name] = lines(tmp_path / "jsonl" / f"{name}.jsonl")
        table = pyarrow.parquet.read_table(tmp_path / "parquet" / f"{name}.parquet").to_pylist()
        assert table == [{key: row.get(key) for key in table[0]} for row in rows[name]]
    assert [(each["settlement"], each["txHash"]) for each in rows["trades"]] == [
        *[("pending", None)] * 3,
        ("none", None),
    ]
    settlements = [
        (each["commandSeq"], each["tradeId"], each["tokenId"], each["seq"], each["settlement"])
        for each in rows["settlements"]
    ]
    ids = [IDS.trade(*position) for position in ((5, 1), (7, 2), (7, 3))]
    assert settlements == [
        (count - 2, ids[1], NO, 5, "settled"),
        (count - 2, ids[2], YES, 6, "settled"),
        (count - 1, ids[0], YES, 2, "failed"),
    ]
    assert [(each["txHash"], each["settlementReason"]) for each in rows["settlements"]] == [
        *[(tx_of(2), None)] * 2,
        (None, "nothing is left"),
    ]
