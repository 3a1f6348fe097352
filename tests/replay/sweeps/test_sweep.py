"""Sweeps: equal to single runs, in any processes; errors and killed workers are rows."""

import dataclasses
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import clob
from clob.replay import (
    Latency,
    Stream,
    SweepError,
    backtest,
    between,
    map_stream,
    no_fees,
    sweep,
    synthetic_day,
)
from clob.replay.samples.synthetic import sample_path
from clob.replay.strategies import InventoryAverse, MarketMaker
from clob.replay.sweeps.sweep import SweepInterrupted
from tests.replay.sweeps.traders import (
    MINUTE_NS,
    Faulty,
    Fragile,
    Idle,
    Moody,
    local_class,
    shy_maker,
)

WAYS = [{"jobs": 1}, {"jobs": 2}, {"jobs": 3, "start": "fork"}]
DRAWN = Latency(between(0, 10**9), between(0, 10**8))
ROOT = Path(clob.__file__).parents[1]


def script(*arguments, stdin=None, start_new_session=False, **environment):
    """Start Python code in another process; its lines of output are read one by one."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::RuntimeWarning", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=stdin,
        start_new_session=start_new_session,
    )


def plain(result):
    """Return rows without the times of the processor."""
    return [dataclasses.replace(row, cpu_ns=0) for row in result]


# ----- results ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=["here", "spawn", "fork"])
@pytest.mark.parametrize("mode", ["rematch", "shadow"])
def test_runs_equal_backtests_by_digest(stream, way, mode):
    settings = {"every_ns": MINUTE_NS, "mode": mode, "latency": DRAWN, "outcome": {0: 100}}
    grid = {"size": [100, 700], "half_spread": [1, 3]}
    result = sweep(Moody, grid, stream, seeds=[4, 9], **way, **settings)
    assert [row.number for row in result] == list(range(8))
    for row in result:
        settings["latency"] = dataclasses.replace(DRAWN, seed=row.seed)
        single = backtest(stream, strategy=Moody(**row.parameters, seed=row.seed), **settings)
        assert row.digest == single.digest
        assert row.figures["profit"] == single.equity["wealth"][-1]
        assert row.figures["own_fills"] == len(single.own_fills)
        assert row.curve[-1] == single.equity["wealth"][-1]
    assert len({row.digest for row in result}) == 8


def test_a_run_can_be_repeated_from_its_row(stream):
    result = sweep(Moody, {"size": [100]}, stream, seeds=[1, 2], jobs=1, every_ns=MINUTE_NS)
    again = result.rerun(1, sample=16)
    assert again.digest == result[1].digest
    assert again.depths is not None
    assert len(again.fills) == again.counts["fills"] > 0
    with pytest.raises(KeyError, match="2"):
        result.rerun(2)


def test_a_seed_may_be_a_name(stream, tmp_path):
    settings = {"every_ns": MINUTE_NS, "jobs": 1, "out": tmp_path, "latency": Latency(5)}
    result = sweep(Moody, {"size": [100]}, stream, seeds=["calm", "rain", 3], **settings)
    assert len({row.digest for row in result}) == 3
    assert result.to_pandas()["seed"].tolist() == ["calm", "rain", "3"]
    again = sweep(Moody, {"size": [100]}, stream, seeds=["rain", "hail"], **settings)
    assert again.skipped == 1
    assert again[0].digest == result[1].digest == again.rerun(0).digest


def test_a_repeated_run_of_a_changed_strategy_is_rejected(stream, monkeypatch):
    result = sweep(MarketMaker, {"size": [100]}, stream, jobs=1, every_ns=MINUTE_NS)
    monkeypatch.setattr(MarketMaker, "prices", lambda self, market: (40, 60))
    with pytest.raises(SweepError, match="run 0 has the digest"):
        result.rerun(0)


def test_function_and_list_of_combinations(stream):
    rows = [{"size": 5}, {"size": np.int64(7)}]
    result = sweep(shy_maker, rows, stream, jobs=2, every_ns=MINUTE_NS)
    assert [row.parameters for row in result] == [{"size": 5}, {"size": 7}]
    assert result.plan.name == "tests.replay.sweeps.traders:shy_maker"
    assert not result.failed


def test_partial_sets_arguments_for_all_runs(stream, tmp_path):
    settings = {"every_ns": MINUTE_NS, "jobs": 2, "out": tmp_path}
    result = sweep(functools.partial(Moody, size=500), {"half_spread": [2]}, stream, **settings)
    wanted = sweep(Moody, {"half_spread": [2], "size": [500]}, stream, every_ns=MINUTE_NS, jobs=1)
    assert result[0].digest == wanted[0].digest
    assert result.plan.name == wanted.plan.name
    other = functools.partial(Moody, size=600)
    with pytest.raises(SweepError, match="different: arguments of the strategy"):
        sweep(other, {"half_spread": [2]}, stream, **settings)


def test_mapped_stream_equals_the_stream(stream, tmp_path):
    mapped = map_stream(stream, tmp_path)
    assert mapped.events == sum(map(len, stream.chunks()))
    result = sweep(MarketMaker, {"size": [3]}, mapped, jobs=1, every_ns=MINUTE_NS)
    direct = sweep(MarketMaker, {"size": [3]}, stream, jobs=1, every_ns=MINUTE_NS)
    assert plain(result) == plain(direct)
    assert backtest(mapped.open()).check.ok
    assert (tmp_path / "events.bin").exists()


def test_empty_stream():
    nothing = Stream(list, lo=1, hi=99, lot_wei=1)
    result = sweep(Idle, [{}], nothing, jobs=2)
    assert result[0].digest == backtest(nothing, strategy=Idle()).digest


def test_progress_counts_runs(stream):
    seen = []
    sweep(Faulty, {"size": [1, 2, 5]}, stream, jobs=2, every_ns=MINUTE_NS, on_progress=seen.append)
    assert [(one.done, one.total) for one in seen] == [(1, 3), (2, 3), (3, 3)]
    assert (seen[-1].failed, seen[-1].skipped) == (1, 0)
    assert {one.row.number for one in seen} == {0, 1, 2}


# ----- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS[:2], ids=["here", "spawn"])
def test_an_error_is_a_row_and_does_not_end_the_sweep(stream, way):
    result = sweep(Faulty, {"size": [1, 2, 3, 4, 5]}, stream, every_ns=MINUTE_NS, **way)
    states = [row.state for row in result]
    assert states == ["done", "raised", "raised", "raised", "done"]
    errors = ["ValueError: size 2 is", "SystemExit: gone", "AssertionError"]
    assert [row.error for row in result.failed] == errors
    assert "traders.py" in result[1].trace
    assert result[1].digest == ""
    assert "3 failed; best profit" in str(result)


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_a_killed_worker_is_named_and_replaced(stream, tmp_path, start):
    file = str(tmp_path / "file")
    settings = {"every_ns": MINUTE_NS, "jobs": 2, "start": start, "out": tmp_path / "out"}
    grid = {"size": [1, 2, 3, 4, 5], "file": [file]}
    result = sweep(Fragile, grid, stream, **settings)
    assert [row.state for row in result] == ["done", "killed", "done", "done", "done"]
    assert "killed by SIGKILL, as the system does when memory runs out" in result[1].error
    Path(file).touch()
    result = sweep(Fragile, grid, stream, **settings)
    assert not result.failed
    assert result.skipped == 4
    assert multiprocessing.active_children() == []


def test_ctrl_c_stops_workers_and_keeps_the_runs(stream, tmp_path):
    def interrupt(progress):
        raise KeyboardInterrupt

    grid = {"size": list(range(1, 30))}
    settings = {"every_ns": MINUTE_NS, "jobs": 2, "out": tmp_path}
    with pytest.raises(SweepInterrupted) as caught:
        sweep(MarketMaker, grid, stream, on_progress=interrupt, **settings)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert len(caught.value.result) == 1
    assert caught.value.result.total == 29
    assert multiprocessing.active_children() == []
    assert sweep(MarketMaker, grid, stream, **settings).skipped == 1


def test_an_interrupted_process_exits_without_its_workers(tmp_path):
    code = textwrap.dedent("""
        import multiprocessing
        import sys
        from clob.replay import Stream, read_npz, sample_path, sweep
        from clob.replay.strategies import MarketMaker
        def show(progress):
            print(*(one.pid for one in multiprocessing.active_children()))
        day = Stream.of(read_npz(sample_path()))
        if __name__ == "__main__":
            sweep(MarketMaker, {"size": range(1, 5000)}, day, every_ns=60 * 10**9, jobs=2,
                  out=sys.argv[1], on_progress=show)
    """)
    (tmp_path / "long.py").write_text(code)
    process = script(tmp_path / "long.py", tmp_path / "out", start_new_session=True)
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 2
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert "SweepInterrupted: MarketMaker: " in error
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


# ----- rejected arguments ----------------------------------------------------------------------


def test_a_strategy_that_workers_cannot_import_is_named(stream):
    for strategy in (local_class(), lambda size: MarketMaker(size)):
        with pytest.raises(SweepError, match="cannot be sent to a worker process") as caught:
            sweep(strategy, {"size": [1]}, stream, jobs=2, every_ns=MINUTE_NS)
        assert f"strategy {strategy.__qualname__}" in str(caught.value)
        assert "start='fork'" in str(caught.value)
        for way in (WAYS[0], WAYS[2]):
            result = sweep(strategy, {"size": [1]}, stream, every_ns=MINUTE_NS, **way)
            assert not result.failed


def test_a_setting_that_workers_cannot_import_is_named(stream):
    latency = Latency(lambda draws: 1)
    with pytest.raises(SweepError, match=r"^latency cannot be sent to a worker process"):
        sweep(MarketMaker, {"size": [1]}, stream, jobs=2, every_ns=1, latency=latency)


NOTEBOOK = """
from clob.replay import Stream, SweepError, read_npz, sample_path, sweep
from clob.replay.strategies import MarketMaker
class Mine(MarketMaker):
    pass
day = Stream.of(read_npz(sample_path()))
try:
    sweep(Mine, {"size": [1, 2]}, day, every_ns=60 * 10**9, jobs=2)
except SweepError as error:
    print(error)
print(sweep(MarketMaker, {"size": [1, 2]}, day, every_ns=60 * 10**9, jobs=2))
"""


def test_a_class_of_a_notebook_is_named():
    process = script("-c", NOTEBOOK)
    out, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (0, "")
    first, second = out.splitlines()
    assert first.startswith("strategy Mine cannot be sent to a worker process, because workers")
    assert "this program or notebook" in first
    assert second.startswith("MarketMaker: 2 runs over synthetic day 1; best profit ")


def test_a_script_without_a_guard_is_explained(tmp_path):
    (tmp_path / "bare.py").write_text(NOTEBOOK)
    process = script(tmp_path / "bare.py")
    out, error = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "exit code 1 before its first run" in out
    assert "if __name__ == '__main__'" in out + error


def test_a_class_of_a_script_runs(tmp_path):
    body = textwrap.indent(NOTEBOOK.partition("day =")[2], "    ")
    text = f"{NOTEBOOK.partition('day =')[0]}if __name__ == '__main__':\n    day ={body}"
    (tmp_path / "guarded.py").write_text(text)
    process = script(tmp_path / "guarded.py")
    out, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (0, "")
    assert out.count("2 runs over synthetic day 1; best profit ") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"grid": {"sise": [1]}}, "MarketMaker takes half_spread, size, limit, split; the grid"),
        ({"grid": {"seed": [1]}}, "seed cannot be in the grid; pass seeds"),
        ({"grid": {}, "seeds": []}, "seeds have no effect: MarketMaker takes no argument seed"),
        ({"seeds": [1, 2]}, "seeds have no effect"),
        ({"every_ns": None}, "MarketMaker overrides on_wake, which needs every_ns; got None"),
        ({"mod": "shadow"}, "a setting must be one of .*; got 'mod'"),
        ({"sample": 3}, "a setting must be one of .*; got 'sample'"),
        ({"strategy": MarketMaker()}, "strategy must be a class or a function; got <clob"),
        ({"jobs": 0}, "jobs must be None or an integer of 1 or more; got 0"),
        ({"start": "thread"}, "start must be one of spawn, fork; got 'thread'"),
    ],
)
def test_invalid_arguments_are_rejected_before_the_first_run(stream, arguments, text):
    settings = {"strategy": MarketMaker, "grid": {"size": [1]}, "every_ns": 1, "jobs": 1}
    with pytest.raises(ValueError, match=text):
        sweep(stream=stream, **settings | arguments)


# ----- folders ---------------------------------------------------------------------------------


def sweep_to(folder, stream, **changes):
    settings = {"every_ns": MINUTE_NS, "jobs": 1, "seeds": [0, 1], "grid": {"size": [1, 2, 3]}}
    settings["latency"] = DRAWN
    return sweep(stream=stream, out=folder, **{"strategy": Moody, **settings, **changes})


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_a_resumed_sweep_equals_an_uninterrupted_one(stream, tmp_path, cut):
    whole = sweep_to(tmp_path / "whole", stream)
    sweep_to(tmp_path / "parts", stream, grid={"size": [2, 1]})
    runs = tmp_path / "parts" / "runs.jsonl"
    # A process killed while it wrote leaves a part of a line.
    os.truncate(runs, runs.stat().st_size - cut)
    resumed = sweep_to(tmp_path / "parts", stream)
    assert resumed.skipped == (4 if cut == 0 else 3)
    assert plain(resumed) == plain(whole)
    assert runs.read_bytes().count(b"\n") == 6
    assert sweep_to(tmp_path / "parts", stream).skipped == 6


def test_a_killed_sweep_goes_on(tmp_path):
    code = textwrap.dedent("""
        import sys
        from clob.replay import Stream, sweep, synthetic_day
        from tests.replay.sweeps.traders import Moody
        def show(progress):
            if progress.done == 5:
                print("five")
                sys.stdin.read()
        day = Stream.of(synthetic_day(seed=3, orders=300))
        sweep(Moody, {"size": range(1, 20)}, day, every_ns=60 * 10**9, jobs=2, out=sys.argv[1],
              on_progress=show)
    """)
    files = tmp_path / "files"
    files.mkdir()
    process = script("-c", code, tmp_path, stdin=subprocess.PIPE, TMPDIR=str(files))
    assert process.stdout.readline() == "five\n"
    assert len(list(files.iterdir())) == 1
    process.kill()
    # The workers inherit the output, so it ends with the last of them.
    process.communicate(timeout=120)
    assert list(files.iterdir()) == []
    day = Stream.of(synthetic_day(seed=3, orders=300))
    settings = {"every_ns": MINUTE_NS, "jobs": 1}
    resumed = sweep(Moody, {"size": range(1, 20)}, day, out=tmp_path, **settings)
    assert resumed.skipped == 5
    assert plain(resumed) == plain(sweep(Moody, {"size": range(1, 20)}, day, **settings))


@pytest.mark.skipif(sys.platform == "win32", reason="not here: no fcntl")
def test_two_processes_do_not_write_to_one_folder(stream, tmp_path):
    code = textwrap.dedent("""
        import sys
        from clob.replay.sweeps.folder import SweepFolder
        parts = ("clob", "stream", "strategy", "arguments", "source", "settings")
        folder = SweepFolder(sys.argv[1], dict.fromkeys(parts, {}))
        print("open")
        sys.stdin.read()
    """)
    process = script("-c", code, tmp_path, stdin=subprocess.PIPE)
    assert process.stdout.readline() == "open\n"
    with pytest.raises(SweepError, match="another process writes its results here"):
        sweep_to(tmp_path, stream)
    process.communicate("", timeout=60)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"every_ns": 2 * MINUTE_NS}, r"different: every_ns \(here 120000000000, in the folder 60"),
        ({"latency": Latency(between(0, 9))}, r"different: latency \(here"),
        ({"collateral": 10**20}, r"collateral \(here 100000000000000000000, in the folder null"),
        ({"strategy": InventoryAverse, "seeds": [0]}, r"different: strategy .*; source of the"),
        ({"stream": Stream.of(synthetic_day(seed=4, orders=200))}, r"different: stream \(here"),
    ],
)
def test_results_of_another_sweep_are_not_mixed(stream, tmp_path, changes, text):
    sweep_to(tmp_path, stream)
    before = (tmp_path / "runs.jsonl").read_bytes()
    with pytest.raises(SweepError, match=text):
        sweep_to(tmp_path, **{"stream": stream, **changes})
    assert (tmp_path / "runs.jsonl").read_bytes() == before


def test_a_changed_source_is_noticed(stream, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "own_trader.py"
    file.write_text(
        "from clob.replay.strategies import MarketMaker\nclass Own(MarketMaker): pass\n"
    )
    from own_trader import Own  # noqa: PLC0415

    settings = {"strategy": Own, "latency": None, "seeds": None}
    sweep_to(tmp_path / "out", stream, **settings)
    assert sweep_to(tmp_path / "out", stream, **settings).skipped == 3
    file.write_text(file.read_text() + "EDGE = 3\n")
    with pytest.raises(SweepError, match="different: source of the strategy"):
        sweep_to(tmp_path / "out", stream, **settings)
    del sys.modules["own_trader"]


class Unnamed:
    """Fees without a value that could be compared."""

    def __call__(self, traded):
        return no_fees(traded)


def test_settings_without_a_value_are_rejected(stream, tmp_path):
    with pytest.raises(SweepError, match="a Unnamed has no value that a folder of results could"):
        sweep_to(tmp_path, stream, fees=Unnamed())
    assert not sweep_to(None, stream, fees=Unnamed()).failed


def test_names_of_the_recording_do_not_matter(stream, day, tmp_path):
    sweep_to(tmp_path, stream)
    renamed = Stream.of(dataclasses.replace(day, name="another", note="copied"))
    assert sweep_to(tmp_path, renamed).skipped == 6


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("sweep.json", "{", "expected JSON"),
        ("sweep.json", "{}", "expected format 'clob-sweep' of version 1"),
        ("runs.jsonl", "[]\n", "line 1: a run must have the fields cpu_ns"),
        ("runs.jsonl", "half\n", "line 1: Expecting value"),
    ],
)
def test_a_damaged_folder_is_rejected(stream, tmp_path, file, content, text):
    sweep_to(tmp_path, stream)
    (tmp_path / file).write_text(content)
    with pytest.raises(SweepError, match=text):
        sweep_to(tmp_path, stream)


def test_runs_without_their_description_are_rejected(stream, tmp_path):
    sweep_to(tmp_path, stream)
    (tmp_path / "sweep.json").unlink()
    with pytest.raises(SweepError, match=r"runs.jsonl has runs, but sweep.json is missing"):
        sweep_to(tmp_path, stream)


# ----- tables ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed(stream):
    grid = [
        {"size": 1, "file": str(sample_path()), "orders": 1},
        {"size": 2, "file": "", "orders": 2.5},
        {"size": 3, "file": None, "orders": 3},
    ]

    def trader(size, file, orders):
        if file is None:
            raise ValueError("file must be a text")
        return MarketMaker(size=size)

    return sweep(trader, grid, stream, jobs=1, every_ns=MINUTE_NS)


def test_pandas_table(mixed):
    frame = mixed.to_pandas()
    assert frame.index.tolist() == [0, 1, 2]
    assert frame["parameter_orders"].tolist() == [1.0, 2.5, 3.0]
    assert frame["file"].tolist() == [str(sample_path()), "", None]
    assert frame["profit"].tolist() == [*(row.figures["profit"] for row in mixed.done), None]
    assert str(frame["own_fills"].dtype) == "Int64"
    assert frame["state"].tolist() == ["done", "done", "raised"]
    assert frame["error"][2] == "ValueError: file must be a text"
    tokens = mixed.to_pandas(units="tokens")
    assert tokens["profit"][0] * 10**18 == pytest.approx(mixed[0].figures["profit"])
    with pytest.raises(ValueError, match="units must be stored or tokens; got 'wei'"):
        mixed.to_pandas(units="wei")


def test_arrow_table_and_csv(mixed, tmp_path):
    table = mixed.to_arrow()
    assert str(table.schema.field("profit").type) == "decimal128(38, 0)"
    assert int(table["profit"][0].as_py()) == mixed[0].figures["profit"]
    assert table["profit"][2].as_py() is None
    mixed.write_csv(tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0].startswith("run,size,file,parameter_orders,seed,state,profit,realised,")
    assert lines[1].startswith(f"0,1,{sample_path()},1.0,0,done,{mixed[0].figures['profit']},")
    assert "raised,,,," in lines[3]


def test_best_run(mixed):
    assert mixed.best("own_fills").figures["own_fills"] == max(
        row.figures["own_fills"] for row in mixed.done
    )
    with pytest.raises(ValueError, match=r"figure must be one of profit, .*; got 'luck'"):
        mixed.best("luck")
