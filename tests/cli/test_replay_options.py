"""``clob replay`` with options: formats, checks, strategies, and output of tables and pages."""

import csv
import dataclasses
import gzip
import json
import sys

import numpy as np
import pytest

from clob import AddMarket, Market, Order, Side, Submit
from clob.cli import main
from clob.journal import Recorder
from clob.records import EVENT, Kind
from clob.replay import (
    Latency,
    RateFees,
    Stream,
    backtest,
    read_npz,
    write_npz,
    write_stream,
)
from clob.replay.sim.fee_schedules import FEE_SCHEDULES
from clob.replay.strategies import MarketMaker
from clob.units import format_tokens
from tests.matcher_model.worlds import SMALL
from tests.replay.readers.journals import record_flow, run_commands

STRATEGY = "clob.replay.strategies:MarketMaker"


@pytest.fixture
def file(tmp_path, day):
    path = tmp_path / "flow.npz"
    write_npz(path, day)
    return path


@pytest.fixture
def table(tmp_path, day):
    """The recording of ``file`` as CSV."""
    path = tmp_path / "flow.csv"
    write_stream(path, Stream.of(day))
    return path


def lines_of(out):
    """Return the output lines by their title."""
    return {line[:10].strip(): line[11:] for line in out.splitlines() if line[:1].isalpha()}


# ----- reading -------------------------------------------------------------------------------


def test_format_is_detected_from_the_content(table, capsys):
    assert main(["replay", str(table)]) == 0
    assert "942 of 942 recorded fills reproduced exactly\n" in capsys.readouterr().out


def test_replay_of_a_journal(tmp_path, capsys):
    path = tmp_path / "day.frames"
    path.write_bytes(record_flow(SMALL, 1, 300)[1])
    assert main(["replay", str(path)]) == 0
    out = lines_of(capsys.readouterr().out)
    assert out["books"].startswith("bare YES, bare NO, paid YES, ")
    assert "rejected: UNKNOWN_ORDER" in out["remarks"]
    assert out["check"].endswith("recorded fills reproduced exactly")


def test_first_books_with_orders_are_drawn_and_the_others_counted(tmp_path, capsys):
    path, recorder = tmp_path / "day.frames", Recorder()
    for name in "abc":
        run_commands(recorder, AddMarket(market=Market(id=name, yes=f"{name}1", no=f"{name}2")))
        bid = Order(id=name, token=f"{name}2", maker="A", side=Side.BUY, price=7, size=5)
        run_commands(recorder, Submit(market=name, order=bid))
    path.write_bytes(recorder.frame())
    assert main(["replay", str(path)]) == 0
    out = capsys.readouterr().out
    assert "books      a YES, a NO, b YES, b NO, c YES, c NO\n" in out
    assert out.count("    7 │\n") == 2
    assert out.endswith("\n1 more books are not drawn\n")


def test_format_option_overrides_detection(table, capsys):
    assert main(["replay", "--format", "table", str(table)]) == 0
    assert main(["replay", "--format", "lobster", str(table)]) == 2
    assert f"clob: REPLAY_FORMAT: {table}:" in capsys.readouterr().err
    assert main(["replay", "--format", "nonsense", str(table)]) == 2
    assert "format must be auto, " in capsys.readouterr().err


def test_options_that_a_format_does_not_support_are_rejected(file, table, capsys):
    assert main(["replay", "--grid", "1:99", str(file)]) == 2
    assert capsys.readouterr().err == f"clob: {file}: the format npz has no --grid\n"
    assert main(["replay", "--level-rule", "head", str(table)]) == 2
    assert capsys.readouterr().err == f"clob: {table}: the format table has no --level-rule\n"


@pytest.mark.parametrize("rule", ["tail", "pro-rata", "head"])
def test_level_rule_turns_levels_into_orders(tmp_path, rule, capsys):
    path = tmp_path / "dump.jsonl"
    book = {"event_type": "book", "market": "0x28", "asset_id": "71", "timestamp": "1757908892000"}
    sides = {"bids": [{"price": "0.48", "size": "30"}], "asks": [{"price": "0.52", "size": "25"}]}
    path.write_text(json.dumps(book | sides) + "\n")
    assert main(["replay", "--level-rule", rule, "--grid", "1:99", str(path)]) == 0
    assert "2 of 2 best prices" in capsys.readouterr().out


def test_broken_input_stops_or_is_skipped_by_policy(table, capsys):
    rows = table.read_text().splitlines()
    rows[100] = "broken row"
    table.write_text("\n".join(rows) + "\n")
    assert main(["replay", str(table)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"clob: REPLAY_FORMAT: {table}:101: ")
    assert err.endswith("; --policy warn reports such problems and continues\n")
    assert main(["replay", "--policy", "warn", "--check", "none", str(table)]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("clob: flow.csv:101: ")
    assert "clob: 1 problems skipped: " in err
    assert "check      not requested\n" in out


def test_damaged_gzip_file_is_named_in_the_error(table, capsys):
    packed = table.with_name("flow.csv.gz")
    packed.write_bytes(gzip.compress(table.read_bytes())[:-20])
    assert main(["replay", str(packed)]) == 2
    assert f"clob: REPLAY_FORMAT: {packed}: damaged file: " in capsys.readouterr().err


def test_merge_option_merges_files_by_time(file, tmp_path, capsys):
    other = tmp_path / "other.npz"
    write_npz(other, dataclasses.replace(read_npz(file), name="another day"))
    assert main(["replay", "--merge", str(file), str(other)]) == 1
    out = lines_of(capsys.readouterr().out)
    assert out["recording"] == "synthetic day 3 + another day"
    assert out["records"] == "1,884 fill"
    assert main(["replay", str(file), str(other)]) == 0
    assert capsys.readouterr().out.count("fills      942\n") == 2


def test_merging_streams_with_different_lots_is_rejected(file, day, tmp_path, capsys):
    other = tmp_path / "other.npz"
    write_npz(other, dataclasses.replace(day, lot_wei=7))
    assert main(["replay", "--merge", str(file), str(other)]) == 2
    assert "clob: streams to merge must have the same lot; got " in capsys.readouterr().err


def test_two_files_are_yes_and_no_of_one_market(file, tmp_path, capsys):
    other, both = tmp_path / "other.npz", tmp_path / "both.parquet"
    write_npz(other, read_npz(file))
    assert main(["replay", "--pair", "rain", str(file), str(other)]) == 0
    out = lines_of(capsys.readouterr().out)
    assert out["books"] == "rain YES, rain NO"
    assert out["check"] == "1,884 of 1,884 recorded fills reproduced exactly"
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert main(["convert", "--pair", "rain", str(file), str(other), str(both)]) == 0
    capsys.readouterr()
    assert main(["replay", str(both)]) == 0
    assert lines_of(capsys.readouterr().out)["books"] == "rain YES, rain NO"
    assert main(["replay", "--pair", "rain", str(file)]) == 2
    assert capsys.readouterr().err == "clob: --pair needs two files, YES and NO; got 1\n"


MINE = """when;what;"id";way;"px";amount
1700000000.5;add;7.0;buy;0.48;2.5
1700000001.25;add;8.0;sell;0.50;1

1700000001.5;market;9.0;buy;0.50;1
1700000001.5;fill;8.0;sell;0.50;1
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_columns_of_any_table_are_named_on_the_command_line(tmp_path, end, mark, separator, capsys):
    path = tmp_path / "mine.txt"
    text = (mark + MINE.rstrip()).replace("\n", end).replace(";", separator)
    path.write_text(text, newline="")
    columns = "ts=when,kind=what,order_id=id,side=way,price=px,size=amount"
    units = ["--time-unit", "s", "--tick", "0.01", "--lot", "0.5"]
    assert main(["replay", "--columns", columns, *units, str(path)]) == 0
    out = lines_of(capsys.readouterr().out)
    assert out["events"] == "3: 2 limit, 1 ioc"
    assert out["check"] == "1 of 1 recorded fills reproduced exactly"
    path.write_text(text + f"{end}1700000002;sell", newline="")
    assert main(["replay", "--columns", columns, *units, str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["replay", "--columns", columns.replace("=px", "=cost"), str(path)]) == 2
    assert "column 'cost' for price is missing; got when, what, id" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["replay", "--columns", "ts", str(path)])
    assert "expected FIELD=COLUMN, such as ts=time; got 'ts'" in capsys.readouterr().err


# ----- checking ------------------------------------------------------------------------------


@pytest.fixture
def wrong(file, day):
    """A recording without its last fill and with a wrong best price."""
    best = np.zeros(1, EVENT)
    best["kind"], best["price"], best["size"] = Kind.BBO, 50, 1
    events = np.concatenate([day.events, best])
    events["ts_ns"][-1] = day.events["ts_ns"][-1]
    write_npz(file, dataclasses.replace(day, events=events, fills=day.fills[:-1]))
    return str(file)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 1),
        (["--check", "fills"], 1),
        (["--check", "bbo"], 1),
        (["--check", "none"], 0),
        (["--allow", "1"], 1),
        (["--allow", "2"], 0),
        (["--check", "fills", "--allow", "1"], 0),
    ],
)
def test_check_option_selects_the_differences_that_fail(wrong, options, code, capsys):
    assert main(["replay", wrong, *options]) == code
    assert "FAILED" in capsys.readouterr().out or options == ["--check", "none"]


def test_both_modes_agree_without_a_strategy(file, capsys):
    outputs = []
    for mode in ("rematch", "shadow"):
        assert main(["replay", "--mode", mode, str(file)]) == 0
        outputs.append(lines_of(capsys.readouterr().out))
    assert outputs[0]["digest"] == outputs[1]["digest"]
    assert outputs[1]["check"] == "942 of 942 recorded fills reproduced exactly"


# ----- trading -------------------------------------------------------------------------------


OPTIONS = [
    "--strategy", STRATEGY, "--every", "5m", "--latency", "5ms:3ms", "--collateral", "100000",
    "--fee-bps", "20:10", "--outcome", "0=100",
]  # fmt: skip


def expected(day):
    """Run the backtest of :data:`OPTIONS` through the library."""
    return backtest(
        Stream.of(day),
        strategy=MarketMaker(),
        every_ns=300 * 10**9,
        latency=Latency(5_000_000, 3_000_000),
        collateral=100_000 * 10**18,
        fees=RateFees(20, 10),
        outcome={0: 100},
    )


def test_strategy_has_the_same_result_as_in_the_library(file, day, capsys):
    assert main(["replay", str(file), *OPTIONS]) == 0
    out = lines_of(capsys.readouterr().out)
    result = expected(day)
    assert out["digest"] == result.digest
    assert out["own orders"] == f"{len(result.orders):,}"
    assert out["own fills"] == f"{len(result.own_fills):,}"
    assert len(result.own_fills) > 0
    assert out["check"].endswith("; own orders explain the rest")
    assert out["money"].startswith("wealth ")
    kept = sum(result.own_fills["fee_tokens"].tolist())
    assert kept > 0
    assert out["money"].endswith(f" and {format_tokens(kept)} tokens")


def test_strategy_is_imported_from_the_working_directory(file, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_own_maker.py").write_text(
        "from clob.replay.strategies import MarketMaker\n\n\nclass Mine(MarketMaker):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    own = ["--strategy", "my_own_maker:Mine"]
    assert main(["replay", str(file), *own]) == 2
    text = "clob: --strategy: Mine overrides on_wake, which needs --every, such as --every 100ms\n"
    assert capsys.readouterr() == ("", text)
    assert main(["replay", str(file), *own, "--every", "10m"]) == 0
    assert "own orders " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        ("nonsense", "--strategy: expected MODULE:CLASS, such as mine:Maker for a class Maker"),
        ("no_such_module:A", "--strategy: module 'no_such_module' not found"),
        ("clob.no_such:A", "--strategy: module 'clob.no_such' not found"),
        ("clob.book:A", "--strategy: module 'clob.book' has no class 'A'"),
        ("clob.book:Book", "--strategy: clob.book:Book is not a subclass of clob.replay.Strategy"),
        ("clob.replay:merge", "--strategy: clob.replay:merge is not a subclass of "),
        ("mine.py:A", "--strategy: expected MODULE:CLASS, such as mine:Maker for a class Maker of"),
        ("./mine.py:A", "--strategy: expected MODULE:CLASS"),
        ("folder/mine:A", "--strategy: expected MODULE:CLASS"),
    ],
)
def test_invalid_strategy_names_are_rejected(file, capsys, argument, error):
    assert main(["replay", str(file), "--strategy", argument]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"clob: {error}")


def test_strategy_that_requires_arguments_is_rejected(file, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_own_sized.py").write_text(
        "from clob.replay import Strategy\n\n\nclass Mine(Strategy):\n"
        "    def __init__(self, size):\n        self.size = size\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["replay", str(file), "--strategy", "my_own_sized:Mine"]) == 2
    assert "clob: --strategy: Mine requires arguments (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import no_such_package", "cannot be imported: No module named 'no_such_package'"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero (my_own_5.py, line 1)"),
        (
            "from clob.replay import Strategy\n\n\nclass Mine(Strategy):\n"
            "    def on_start(self, market):\n        1 / 0\n",
            "--strategy: Mine raised an error",
        ),
    ],
)
def test_failing_strategy_exits_with_2_not_with_1(file, tmp_path, monkeypatch, capsys, text, error):
    name = f"my_own_{len(text)}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["replay", str(file), "--strategy", f"{name}:Mine"]) == 2
    out, err = capsys.readouterr()
    assert (out, error in err) == ("", True)
    assert ("Traceback" in err) is ("raised an error" in error)


@pytest.mark.parametrize("words", ["open('/no/file')", "Book().cancel('x')"])
def test_file_and_order_errors_of_a_strategy_are_not_about_the_recording(
    file, tmp_path, monkeypatch, capsys, words
):
    name = f"my_own_errors_{len(words)}"
    (tmp_path / f"{name}.py").write_text(
        "from clob import Book\nfrom clob.replay import Strategy\n\n\nclass Mine(Strategy):\n"
        f"    def on_book(self, market):\n        {words}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["replay", str(file), "--strategy", f"{name}:Mine"]) == 2
    trace, last = capsys.readouterr().err.rstrip().rsplit("\n", 1)
    assert last == "clob: --strategy: Mine raised an error"
    assert trace.splitlines()[1].endswith(f'{name}.py", line 7, in on_book')


def test_two_outcomes_of_one_market_are_rejected(file, capsys):
    words = ["replay", str(file), "--strategy", STRATEGY, "--every", "10m", "--outcome", "0=100"]
    assert main([*words, "--outcome", "0=0"]) == 2
    error = "clob: --outcome: market '0' must have one outcome; got 100 and 0\n"
    assert capsys.readouterr().err == error


def test_outcomes_use_the_scale_of_the_file_or_of_the_option(table, tmp_path, capsys):
    lines = table.read_text().splitlines()
    finer = tmp_path / "finer.csv"
    finer.write_text("\n".join(lines) + "\n")
    own = ["--strategy", STRATEGY, "--every", "10m"]
    assert main(["replay", str(finer), *own, "--scale", "1000", "--outcome", "flow=1000"]) == 2
    assert "unknown market 'flow'; the recording has finer" in capsys.readouterr().err
    assert main(["replay", str(finer), *own, "--scale", "1000", "--outcome", "0=1000"]) == 0
    capsys.readouterr()
    assert main(["replay", str(finer), *own, "--outcome", "0=1000"]) == 2
    assert "an outcome must be from 0 to 100 (ticks); got 1000" in capsys.readouterr().err


def test_check_of_best_prices_without_recorded_ones_passes(file, capsys):
    assert main(["replay", str(file), "--check", "bbo"]) == 0
    out = lines_of(capsys.readouterr().out)
    assert out["check"] == "nothing to check: the recording has no best prices to compare with"


def test_options_without_effect_are_rejected(file, capsys):
    for words in (
        ["--every", "1s"],
        ["--latency", "1ms"],
        ["--fees", "kalshi-2026"],
        ["--scale", "9"],
    ):
        assert main(["replay", str(file), *words]) == 2
        assert f"clob: {words[0]} needs --strategy: " in capsys.readouterr().err


def test_named_fees_are_charged_and_shown(file, day, capsys):
    own = ["--strategy", STRATEGY, "--every", "5m", "--fees", "polymarket-2026"]
    assert main(["replay", str(file), *own]) == 0
    out = lines_of(capsys.readouterr().out)
    result = backtest(
        Stream.of(day), strategy=MarketMaker(), every_ns=300 * 10**9, fees="polymarket-2026"
    )
    assert out["digest"] == result.digest
    source = "https://docs.polymarket.com/trading/fees"
    assert out["fees"] == result.fees == f"polymarket-2026 (2026-07-27, {source})"


def test_fee_schedules_are_listed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["replay", "--fees", "help"])
    assert not ended.value.code
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(FEE_SCHEDULES)
    assert lines[-1].startswith("betfair-10 ")


def test_unknown_fee_schedule_is_rejected(file, capsys):
    own = ["--strategy", STRATEGY, "--every", "5m"]
    assert main(["replay", str(file), *own, "--fees", "kalshi"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("clob: --fees: fees must be one of polymarket-2026, ")
    assert error.endswith("; got 'kalshi'\n")
    assert main(["replay", str(file), *own, "--fees", "kalshi-2026", "--fee-bps", "9"]) == 2
    assert "--fees and --fee-bps exclude each other; got both" in capsys.readouterr().err


def test_differing_best_price_is_shown(wrong, capsys):
    assert main(["replay", str(wrong), "--check", "bbo"]) == 1
    assert "Best bid here " in capsys.readouterr().out


def test_unknown_market_and_invalid_outcome_are_rejected(file, capsys):
    assert main(["replay", str(file), "--outcome", "0=100"]) == 2
    text = "clob: --outcome needs --strategy: without one there are no own orders\n"
    assert capsys.readouterr() == ("", text)
    own = ["--strategy", STRATEGY, "--every", "10m"]
    assert main(["replay", str(file), *own, "--outcome", "rain=100"]) == 2
    assert "clob: --outcome: unknown market 'rain'; the recording has 0" in capsys.readouterr().err
    assert main(["replay", str(file), *own, "--outcome", "0=101"]) == 2
    text = f"clob: PORTFOLIO: {file}: an outcome must be from 0 to 100 (ticks); got 101\n"
    assert capsys.readouterr() == ("", text)


@pytest.mark.parametrize(
    "words",
    [
        ("--grid", "99"),
        ("--grid", "9:1"),
        ("--every", "100"),
        ("--every", "0ms"),
        ("--every", "1.5ns"),
        ("--latency", "5ms:"),
        ("--collateral", "1e3"),
        ("--fee-bps", "1:2:3"),
        ("--fee-bps", "10001"),
        ("--outcome", "rain"),
        ("--check", "books"),
        ("--allow", "-1"),
        ("--scale", "0"),
        ("--mode", "nonsense"),
        ("--policy", "ignore"),
    ],
)
def test_invalid_option_values_exit_with_2(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["replay", *words])
    assert caught.value.code == 2
    assert f"argument {words[0]}: " in capsys.readouterr().err


# ----- writing -------------------------------------------------------------------------------


def test_tables_are_written_as_csv(file, day, tmp_path, capsys):
    assert main(["replay", str(file), *OPTIONS, "--out", str(tmp_path / "res.csv")]) == 0
    out, result = capsys.readouterr().out, expected(day)
    for table in ("fills", "bests", "orders", "own_fills", "equity", "positions"):
        path = tmp_path / f"res.{table}.csv"
        rows = getattr(result, table)
        assert f"wrote      {path}, {len(rows):,} rows\n" in out
        with path.open() as text:
            table = list(csv.reader(text))
        assert table == [
            list(rows.dtype.names),
            *([str(v) for v in row] for row in rows.tolist()),
        ]


def test_tables_are_written_as_one_npz(file, day, tmp_path):
    for again in range(2):
        path = tmp_path / f"res{again}.npz"
        assert main(["replay", str(file), *OPTIONS, "--out", str(path)]) == 0
    assert (tmp_path / "res0.npz").read_bytes() == path.read_bytes()
    result = expected(day)
    with np.load(path) as written:
        assert len(written) == 6
        assert (written["fills"] == result.fills).all()
        assert written["equity"]["wealth"].tolist() == [
            str(wealth) for wealth in result.equity["wealth"]
        ]


def test_tables_are_written_as_parquet(file, day, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    assert main(["replay", str(file), *OPTIONS, "--out", str(tmp_path / "res.parquet")]) == 0
    result = expected(day)
    for table in ("fills", "equity"):
        written = parquet.read_table(tmp_path / f"res.{table}.parquet")
        assert written.equals(result.to_arrow(table))


def test_without_a_strategy_two_tables_are_written(file, tmp_path):
    assert main(["replay", str(file), "--out", str(tmp_path / "res.csv")]) == 0
    assert sorted(path.name for path in tmp_path.glob("res.*")) == [
        "res.bests.csv",
        "res.fills.csv",
    ]
    assert len(read_npz(file).fills) + 1 == len(
        (tmp_path / "res.fills.csv").read_text().splitlines()
    )


def test_report_page_is_written(file, tmp_path, capsys):
    path = tmp_path / "res.html"
    assert main(["replay", str(file), *OPTIONS, "--report", str(path)]) == 0
    assert f"wrote      {path}\n" in capsys.readouterr().out
    assert path.read_text().startswith("<!doctype html>")
