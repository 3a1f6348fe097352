"""``clob-server export`` writes the log of a stopped server as a journal and as tables."""

import json
import time

import pytest

from clob import cli as clob_cli
from clob_server import cli
from tests.server.live import START_S, live_server

ORDERS = 30


@pytest.fixture
def folder(tmp_path):
    """The data folder of a server in which every second order has traded."""
    with live_server(tmp_path / "data", rate_limits=False, snapshot_commands=10) as live:
        for number in range(ORDERS):
            body = {
                "maker": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
                "marketId": "m",
                "tokenId": "1",
                "side": number % 2,
                "price": 50,
                "size": "100000000000000000000",
            }
            live.http.post("/api/orders/gasless", json=body).raise_for_status()
        wait_until(lambda: list(live.folder.glob("snapshot-*.bin")))
        assert live.stop() == 0
    return tmp_path / "data"


def wait_until(condition):
    """Wait for background work of a server."""
    end_s = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_tables_are_exported_as_json_lines_and_parquet(folder, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    for form in ("jsonl", "parquet"):
        out = tmp_path / form
        assert cli.main(["export", str(out), str(folder), "--form", form]) == 0
        output = capsys.readouterr().out
        assert f"trades {ORDERS // 2}" in output
        assert f"orders {ORDERS}" in output
    trades = lines(tmp_path / "jsonl" / "trades.jsonl")
    assert [trade["price"] for trade in trades] == [50] * (ORDERS // 2)
    table = parquet.read_table(tmp_path / "parquet" / "trades.parquet")
    assert table.column("id").to_pylist() == [trade["id"] for trade in trades]
    assert cli.main(["export", str(tmp_path / "jsonl"), str(folder), "--form", "jsonl"]) == 2
    assert "FILE_UNUSABLE" in capsys.readouterr().err


def test_frames_covered_by_a_snapshot_are_exported_and_dropped(folder, tmp_path, capsys):
    journal = tmp_path / "old.frames"
    assert cli.main(["export", str(journal), str(folder), "--drop"]) == 0
    output = capsys.readouterr().out
    assert output.endswith(", deleted from the log\n")
    assert clob_cli.main(["verify", str(journal)]) == 0
    assert cli.main(["verify", str(folder)]) == 0
    capsys.readouterr()
    second = tmp_path / "second.frames"
    assert cli.main(["export", str(second), str(folder), "--drop"]) == 0
    assert capsys.readouterr().out == "nothing to export\n"
    assert not second.exists()
    with live_server(folder) as live:
        assert len(live.http.get("/api/markets/m/trades").json()) == ORDERS // 2


def test_exporting_tables_drops_nothing(folder, tmp_path, capsys):
    command = ["export", str(tmp_path / "out"), str(folder), "--form", "jsonl", "--drop"]
    assert cli.main(command) == 2
    assert "--drop needs --form journal" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
