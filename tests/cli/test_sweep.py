"""``clob sweep``: options, output, exit codes, and sweeps that go on."""

import json
import sys

import pytest

from clob.cli import main
from clob.cli.arguments import VALUES_MAX, parameter
from clob.replay import Stream, backtest, write_npz
from clob.replay.strategies import InventoryAverse, MarketMaker
from tests.cli.test_replay import python

MAKER = ["--strategy", "clob.replay.strategies:MarketMaker", "--every", "1m", "--jobs", "1"]


@pytest.fixture
def file(tmp_path, day):
    path = tmp_path / "flow.npz"
    write_npz(path, day)
    return str(path)


def test_best_runs_table_and_report(file, day, tmp_path, capsys):
    out, table, page = (tmp_path / name for name in ("out", "table.csv", "page.html"))
    grid = ["--grid", "size=100,200,300", "--grid", "half_spread=1:3"]
    paths = ["--out", str(out), "--table", str(table), "--report", str(page)]
    options = ["--latency", "5ms", "--outcome", "0=100", "--mode", "shadow"]
    assert main(["sweep", file, *MAKER, *grid, *options, *paths]) == 0
    text, error = capsys.readouterr()
    assert error == ""
    assert "strategy   clob.replay.strategies.market_maker:MarketMaker\n" in text
    assert "runs       9 done\n" in text
    assert f"wrote      {table}, 9 rows\n" in text
    rows = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]
    best = max(rows, key=lambda row: row["figures"]["profit"])
    line = next(one for one in text.splitlines() if best["digest"][:16] in one)
    assert line.split()[1:3] == [str(value) for value in best["parameters"].values()]
    from clob.replay import Latency  # noqa: PLC0415

    single = backtest(
        Stream.of(day),
        strategy=MarketMaker(**best["parameters"]),
        every_ns=60 * 10**9,
        latency=Latency(5 * 10**6, 5 * 10**6),
        outcome={0: 100},
        mode="shadow",
    )
    assert single.digest == best["digest"]
    assert page.read_text().startswith("<!doctype html>")


def test_sweep_over_processes_goes_on(file, tmp_path, capsys):
    words = ["sweep", file, *MAKER[:-2], "--jobs", "2", "--out", str(tmp_path / "out")]
    assert main([*words, "--grid", "size=1,2"]) == 0
    assert main([*words, "--grid", "size=1:4"]) == 0
    assert "runs       4 done; 2 were in the folder\n" in capsys.readouterr().out
    assert main([*words, "--grid", "size=1:4", "--latency", "1ms"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"clob: SWEEP: {tmp_path / 'out'}: the folder holds another sweep; ")


def test_failed_runs_are_named_and_the_exit_code_is_1(file, capsys):
    words = ["--strategy", "clob.replay.strategies:InventoryAverse", *MAKER[2:]]
    assert main(["sweep", file, *words, "--grid", "limit=0,50"]) == 1
    out = capsys.readouterr().out
    assert "runs       1 done, 1 failed\n" in out
    assert "failed     run 0 limit=0: ValueError: limit must be 1 or more; got 0\n" in out
    assert InventoryAverse(limit=50).limit == 50


def test_progress_is_a_line_on_a_terminal(file, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    words = ["--strategy", "clob.replay.strategies:InventoryAverse", *MAKER[2:]]
    assert main(["sweep", file, *words, "--grid", "limit=0,50,60"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("\r\x1b[K1 of 3 runs, 1 failed, ")
    assert error.endswith(" s left\r\x1b[K")


def test_strategy_of_the_working_directory(file, tmp_path):
    text = "from clob.replay.strategies import MarketMaker\nclass Mine(MarketMaker): pass\n"
    (tmp_path / "mine_only.py").write_text(text)
    words = ["--strategy", "mine_only:Mine", "--every", "1m", "--jobs", "2", "--grid", "size=1,2"]
    ran = python("-m", "clob", "sweep", file, *words, capture_output=True, text=True, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "strategy   mine_only:Mine\nruns       2 done\n" in ran.stdout


def test_ctrl_c_keeps_the_finished_runs(file, tmp_path):
    out = tmp_path / "out"
    strategy = ["--strategy", "tests.replay.sweeps.traders:Interrupter", "--every", "1m"]
    words = ["sweep", file, *strategy, "--jobs", "2", "--grid", "size=1,2,3,4", "--out", str(out)]
    ran = python("-m", "clob", *words, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (130, "clob: interrupted\n")
    runs = (out / "runs.jsonl").read_text().splitlines()
    assert f"runs       {len(runs)} done, {4 - len(runs)} not run\n" in ran.stdout
    assert [json.loads(run)["state"] for run in runs] == ["done"] * len(runs)


def test_without_a_grid_there_is_one_run_over_the_sample(capsys):
    assert main(["sweep", *MAKER]) == 0
    out = capsys.readouterr().out
    assert "recording  synthetic day 1\n" in out
    assert "runs       1 done\n" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--grid", "sise=1"], "MarketMaker takes half_spread, size, limit, split; the grid has"),
        (["--grid", "size=1", "--grid", "size=2"], "--grid: size is given twice"),
        (["--seeds", "0:3"], "seeds have no effect: MarketMaker takes no argument seed"),
        (["--jobs", "0"], "jobs must be None or an integer of 1 or more; got 0"),
        (["--report", "missing/page.html"], "FILE_UNWRITABLE: missing/page.html: No such file"),
    ],
)
def test_unusable_options(words, text, file, capsys):
    assert main(["sweep", file, *MAKER, *words]) == 2
    assert text in capsys.readouterr().err


def test_missing_file_and_missing_interval(capsys):
    assert main(["sweep", "missing.csv", *MAKER]) == 2
    assert "FILE_UNREADABLE: missing.csv" in capsys.readouterr().err
    assert main(["sweep", *MAKER[:2]]) == 2
    assert "MarketMaker overrides on_wake, which needs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1,2.5,true,null,buy", [1, 2.5, True, None, "buy"]),
        ("a=-3:3:2", [-3, -1, 1, 3]),
        ("a=5:5", [5]),
        ("a=[1],x:y", ["[1]", "x:y"]),
    ],
)
def test_values_of_a_parameter(text, values):
    assert parameter(text) == ("a", values)


@pytest.mark.parametrize(
    "text", ["a", "=1", "a=", "a-b=1", "a=3:1", "a=1:3:0", f"a=0:{VALUES_MAX}"]
)
def test_invalid_values_of_a_parameter(text, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["sweep", *MAKER, "--grid", text])
    assert caught.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_strategy_with_wakes_needs_an_interval_in_words_of_the_command_line(capsys):
    assert main(["sweep", *MAKER[:2], "--grid", "size=100,200"]) == 2
    assert capsys.readouterr().err == (
        "clob: --strategy: MarketMaker overrides on_wake, which needs --every, such as "
        "--every 100ms\n"
    )
