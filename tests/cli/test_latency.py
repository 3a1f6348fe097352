"""``--latency``: constants, distributions, files, and kinds of messages."""

import pytest

from clob.cli import main
from clob.cli.latency import latency, latency_of
from clob.replay import (
    Latency,
    Stream,
    backtest,
    between,
    lognormal,
    quantiles,
    sampled,
    write_npz,
)
from clob.replay.samples.synthetic import synthetic_day
from clob.replay.strategies import MarketMaker

MS = 10**6


def parsed(*texts):
    return latency_of([latency(text) for text in texts])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), Latency()),
        (("5ms",), Latency(5 * MS, 5 * MS)),
        (("5ms:3ms",), Latency(5 * MS, 3 * MS)),
        (("1ms..9ms",), Latency(between(MS, 9 * MS), between(MS, 9 * MS))),
        (("lognormal,2ms,9ms:0ms",), Latency(lognormal(2 * MS, 9 * MS), 0)),
        (
            ("0ms:p50=2ms,p99.9=9ms,p100=50ms",),
            Latency(0, quantiles({50: 2 * MS, "99.9": 9 * MS, 100: 50 * MS})),
        ),
        (
            ("5ms:3ms", "cancel=1ms", "fill=2ms..4ms", "feed=7ms", "seed=11"),
            Latency(
                5 * MS,
                3 * MS,
                11,
                cancel_ns=MS,
                fill_ns=between(2 * MS, 4 * MS),
                feed_ns=7 * MS,
            ),
        ),
        (("order=5ms", "seed=calm"), Latency(5 * MS, 0, "calm")),
    ],
)
def test_values_are_parsed(texts, expected):
    assert parsed(*texts) == expected


def test_files_are_read(tmp_path):
    path = tmp_path / "delays.csv"
    path.write_text("5\n7\n")
    assert parsed(f"order={path}", f"reply={path}") == parsed(f"{path}")
    assert parsed(f"order={path}").order_ns == sampled([5, 7])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "day.npz"
    write_npz(path, synthetic_day(3, 400))
    return path


def own(file):
    name = "clob.replay.strategies:MarketMaker"
    return ["replay", str(file), "--strategy", name, "--every", "5m"]


def test_run_equals_that_of_the_library(file, capsys):
    words = [
        "--latency",
        "1ms..2s:lognormal,1s,9s",
        "--latency",
        "cancel=5s",
        "--latency",
        "seed=4",
    ]
    assert main([*own(file), *words]) == 0
    digest = capsys.readouterr().out.split("digest ")[-1].split()[0]
    drawn = Latency(
        between(MS, 2_000 * MS), lognormal(1_000 * MS, 9_000 * MS), 4, cancel_ns=5_000 * MS
    )
    day = Stream.of(synthetic_day(3, 400))
    result = backtest(day, strategy=MarketMaker(), every_ns=300_000 * MS, latency=drawn)
    assert digest == result.digest


@pytest.mark.parametrize(
    "value",
    [
        "",
        "5",
        "5ms:",
        "1ms..",
        "..5ms",
        "lognormal,5ms",
        "p50",
        "p50=5",
        "speed=5ms",
        "feed=1ms..2ms",
    ],
)
def test_unknown_forms_are_rejected(file, value, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*own(file), "--latency", value])
    assert caught.value.code == 2
    assert "argument --latency: expected a d" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["5ms", "order=6ms"], "--latency: order must occur once; got it twice"),
        (["9ms..1ms"], "--latency: low_ns must not exceed high_ns; got 9000000 and 1000000"),
        (["lognormal,9ms,1ms"], "--latency: a lognormal delay needs 1 <= median_ns <= p99_ns"),
        (["p50=9ms,p99=1ms"], "--latency: quantiles must not decrease; got 9000000 ns at 50 %"),
        (["no_such.csv"], "--latency: FILE_UNREADABLE: no_such.csv: No such file or directory"),
    ],
)
def test_impossible_values_are_rejected(file, words, error, capsys):
    options = [part for word in words for part in ("--latency", word)]
    assert main([*own(file), *options]) == 2
    assert f"clob: {error}" in capsys.readouterr().err


def test_broken_file_is_named(file, tmp_path, capsys):
    path = tmp_path / "delays.csv"
    path.write_text("ts_ns,ns\n100,x\n")
    assert main([*own(file), "--latency", str(path)]) == 2
    error = (
        f"clob: --latency: REPLAY_FORMAT: {path}:2: expected ts_ns, ns as integers; got '100, x'"
    )
    assert error in capsys.readouterr().err
