"""Exports of a server: its log replays trade for trade and to the same state hash."""

import json
import random  # noqa: TID251 - seeded
from contextlib import closing

import pytest

pytest.importorskip("apsw", reason="the server is not installed")

from clob.journal import verify
from clob.replay import backtest
from clob.replay.readers.exports import read_export
from clob.replay.readers.journal import read_journal
from clob_server import cli
from clob_server.cli.export import export_journal, export_tables
from clob_server.core.ids import Ids
from clob_server.core.recovery import recover
from clob_server.log import SqliteLog
from tests.replay.readers.journals import depth_of
from tests.server.history.logs import random_log
from tests.server.live import live_server

MAKERS = ("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x" + "11" * 20, "0x" + "22" * 20)
ORDERS = 150
WEI = 10**16


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    """Run a server with orders and cancels; export its journal and both tables."""
    folder = tmp_path_factory.mktemp("day")
    rng = random.Random(11)
    with live_server(folder / "data", rate_limits=False) as live:
        for number in range(ORDERS):
            maker, side = rng.choice(MAKERS), rng.randrange(2)
            body = {
                "maker": maker,
                "marketId": "m",
                "tokenId": "1",
                "side": side,
                "price": 50 + rng.randrange(-4, 5) + (2 * side - 1),
                "size": str(rng.randrange(1, 40) * WEI),
                "timeInForce": "IOC" if number % 10 == 9 else "GTC",
            }
            answer = live.http.post("/api/orders/gasless", json=body).raise_for_status().json()
            if number % 4 == 3:
                live.http.request(
                    "DELETE", f"/api/orders/{answer['orderId']}", json={"maker": maker}
                )
        assert live.stop() == 0
    journal = folder / "day.frames"
    assert cli.main(["export", str(journal), str(folder / "data")]) == 0
    for form in ("jsonl", "parquet"):
        assert cli.main(["export", str(folder / form), str(folder / "data"), "--form", form]) == 0
    return folder


def trades_of(folder):
    """Return time, price, size and side of the trades of the server."""
    lines = (folder / "jsonl" / "trades.jsonl").read_text().splitlines()
    return [
        (trade["timestamp"] * 10**6, trade["price"], int(trade["size"]))
        for trade in map(json.loads, lines)
    ]


def fills_of(found, stream):
    return [
        (int(fill["ts_ns"]), int(fill["price"]), int(fill["size"]) * stream.lot_wei)
        for fill in found.fills
    ]


def test_exported_journal_replays_trade_for_trade(day):
    stream = read_journal(day / "day.frames")
    found = backtest(stream)
    assert len(found.fills) > ORDERS // 5
    assert (found.check.ok, found.divergence.total) == (True, 0)
    assert fills_of(found, stream) == trades_of(day)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_exported_events_replay_trade_for_trade(day, form):
    stream = read_export(day / form / f"events.{form}")
    found = backtest(stream)
    assert (found.check.ok, found.divergence.total) == (True, 0)
    assert fills_of(found, stream) == trades_of(day)
    journal = backtest(read_journal(day / "day.frames"))
    assert repr(found.books[0]) == repr(journal.books[0])
    trades = read_export(day / form / f"trades.{form}")
    assert sum(map(len, trades.chunks())) == len(found.fills)


def test_exported_journal_leads_to_the_state_of_the_log(day):
    with closing(SqliteLog(day / "data")) as log:
        exchange, _, _ = recover(log)
    found = verify((day / "day.frames").read_bytes())
    assert found.state_hash == exchange.matcher.state_hash()
    replayed = backtest(read_journal(day / "day.frames"))
    assert len(replayed.books[0]) == len(exchange.matcher.open_orders())
    assert depth_of(replayed.books[0].depth()) == depth_of(exchange.matcher.depth("m"))


def test_log_of_every_kind_of_command_replays(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    random_log(folder, seed=4, count=900)
    with closing(SqliteLog(folder)) as log:
        export_journal(log, tmp_path / "day.frames")
        export_tables(log, folder, tmp_path / "jsonl", Ids(bytes(32)), form="jsonl")
        exchange, _, _ = recover(log)
    journal = read_journal(tmp_path / "day.frames")
    of_journal = backtest(journal)
    assert (of_journal.check.ok, of_journal.divergence.total) == (True, 0)
    assert fills_of(of_journal, journal) == trades_of(tmp_path)
    assert len(of_journal.fills) > 20
    assert verify((tmp_path / "day.frames").read_bytes()).state_hash == (
        exchange.matcher.state_hash()
    )
    table = read_export(
        tmp_path / "jsonl" / "events.jsonl",
        yes={market.id: market.yes for market in exchange.matcher.markets},
    )
    of_table = backtest(table)
    assert (of_table.check.ok, of_table.divergence.total) == (True, 0)
    assert fills_of(of_table, table) == trades_of(tmp_path)
