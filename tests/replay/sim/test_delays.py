"""Delays: distributions from a seed, and measurements from files."""

import gzip
import math
import os
import pickle
import subprocess
import sys
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.replay.errors import ReplayFormatError
from clob.replay.samples.synthetic import Draws
from clob.replay.sim.delays import (
    CELLS,
    MeasuredDelays,
    between,
    lognormal,
    quantiles,
    read_delays,
    sampled,
)

MS = 10**6


def drawn(delay, count, seed=5):
    draws = Draws(seed)
    return [delay(draws) for _ in range(count)]


# ----- distributions -------------------------------------------------------------------------

CODE = """
from clob.replay import between, lognormal, quantiles, sampled
from clob.replay.samples.synthetic import Draws
delays = [between(1, 10**9), lognormal(2 * 10**6, 9 * 10**6), sampled([3, 1, 2]),
          quantiles({0: 5, 50: 10**6, "99.9": 10**7})]
draws = Draws(11)
print([delay(draws) for delay in delays for _ in range(3)])
"""


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_a_seed_draws_the_same_delays_in_every_process(hash_seed):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    # Stored, so that another version of Python, NumPy or a library shows.
    assert done.stdout.strip() == STORED


STORED = (
    "[988369487, 101564008, 834698877, 1930764, 1144808, 4882199, 3, 2, 3, 1699796, 41971, 1637396]"
)


@pytest.mark.parametrize(
    "delay", [between(1, 9), quantiles({0: 1, 100: 9}), lognormal(5, 9), sampled([1, 2])]
)
def test_distributions_can_be_pickled(delay):
    copy = pickle.loads(pickle.dumps(delay))
    assert copy == delay
    assert drawn(copy, 20) == drawn(delay, 20)


def test_lognormal_has_its_median_and_99_per_cent():
    values = lognormal(2 * MS, 9 * MS).values_ns
    assert list(values) == sorted(values)
    assert len(values) == CELLS
    assert abs(values[CELLS // 2 - 1] + values[CELLS // 2] - 4 * MS) < MS // 100
    at_99 = CELLS * 99 // 100
    assert values[at_99 - 1] <= 9 * MS <= values[at_99 + 1]


def test_lognormal_equals_the_quantiles_of_another_implementation():
    normal = NormalDist()
    spread = math.log(9 / 2) / normal.inv_cdf(0.99)
    values = lognormal(2 * MS, 9 * MS).values_ns
    for cell, value in enumerate(values):
        exact = 2 * MS * math.exp(spread * normal.inv_cdf((cell + 0.5) / CELLS))
        assert abs(value - exact) < 0.51


def test_lognormal_without_spread_is_constant():
    assert set(lognormal(7, 7).values_ns) == {7}


@pytest.mark.parametrize(("median", "p99"), [(0, 5), (6, 5), (-1, 5), (1.5, 5), (1, None)])
def test_invalid_lognormal_is_rejected(median, p99):
    with pytest.raises(ValueError, match="delay"):
        lognormal(median, p99)


def test_quantiles_are_linear_between_percentages():
    delay = quantiles({10: 100, 60: 600, "99.9": 999, 100: 2_000})
    values = sorted(drawn(delay, 20_000))
    assert (values[0], values[-1] <= 2_000) == (100, True)
    # A tenth of the draws is constant, and quantiles are met within a standard error or three.
    assert abs(values.count(100) - 2_000) < 150
    assert abs(values[7_000] - 350) < 15
    assert abs(values[12_000] - 600) < 15
    assert abs(sum(value > 999 for value in values) - 20) < 15


@given(
    st.dictionaries(st.integers(0, 100), st.integers(0, 10**12), min_size=1, max_size=8),
    st.integers(0, 2**32),
)
def test_drawn_delays_are_within_the_quantiles(points, seed):
    ordered = dict(zip(sorted(points), sorted(points.values()), strict=True))
    values = drawn(quantiles(ordered), 50, seed)
    assert all(min(ordered.values()) <= value <= max(ordered.values()) for value in values)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({}, "quantiles needs one or more percentages; got none"),
        ({101: 5}, "a percentage must be from 0 to 100, with 6 decimals; got 101"),
        ({"x": 5}, "a percentage must be from 0 to 100, with 6 decimals; got 'x'"),
        ({"nan": 5}, "a percentage must be from 0 to 100, with 6 decimals; got 'nan'"),
        ({"1.0000001": 5}, "a percentage must be from 0 to 100, with 6 decimals"),
        ({50: 5, 99: 4}, "quantiles must not decrease; got 5 ns at 50 % and 4 ns at 99 %"),
        ({50: 5, "50.0": 6}, "quantiles must not decrease; got 5 ns at 50 % and 6 ns at 50 %"),
        ({50: -1}, "a delay must be an integer of 0 or more"),
    ],
)
def test_invalid_quantiles_are_rejected(points, message):
    with pytest.raises(ValueError, match=message):
        quantiles(points)


def test_samples_are_equally_likely():
    values = drawn(sampled([5, 7, 7, 9]), 8_000)
    assert set(values) == {5, 7, 9}
    assert abs(values.count(7) - 4_000) < 200
    with pytest.raises(ValueError, match="sampled needs one or more delays; got none"):
        sampled([])


# ----- measurements --------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 9)), min_size=1, max_size=20),
    st.integers(-5, 110),
)
def test_message_takes_as_long_as_the_last_measurement(rows, sent_ns):
    rows.sort(key=lambda row: row[0])
    delays = MeasuredDelays(*zip(*rows, strict=True))
    earlier = [delay for time, delay in rows if time <= sent_ns]
    assert delays.at(sent_ns) == (earlier[-1] if earlier else rows[0][1])


ROWS = [(100, 5), (200, 7), (200, 8), (300, 6)]


def written(folder, form, rows=ROWS, names=("ts_ns", "ns")):
    """Write measurements to a file of a form."""
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    path = folder / f"delays.{form}"
    text = "".join(f"{','.join(map(str, row))}\n" for row in (names, *rows))
    if form == "npz":
        np.savez(path, **{name: np.array(column) for name, column in columns.items()})
    elif form == "parquet":
        arrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
        parquet.write_table(arrow.table(columns), path)
    elif form == "csv.gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


FORMATS = ["csv", "csv.gz", "parquet", "npz"]


@pytest.mark.parametrize("form", FORMATS)
def test_measurements_over_time_are_read(tmp_path, form):
    delays = read_delays(written(tmp_path, form))
    assert delays == MeasuredDelays((100, 200, 200, 300), (5, 7, 8, 6))
    assert [delays.at(time) for time in (0, 199, 200, 999)] == [5, 5, 8, 6]


@pytest.mark.parametrize("form", FORMATS)
def test_samples_are_read(tmp_path, form):
    path = written(tmp_path, form, [(5,), (7,), (6,)], ("ns",))
    assert read_delays(path) == sampled([5, 7, 6])


@pytest.mark.parametrize(
    ("text", "delays"),
    [
        ("5\n7\n\n", sampled([5, 7])),
        ("100,5\r\n200,7\r\n", MeasuredDelays((100, 200), (5, 7))),
        ("\ufeffns;ts_ns\n5;100\n", MeasuredDelays((100,), (5,))),
    ],
)
def test_text_without_names_or_with_semicolons_is_read(tmp_path, text, delays):
    path = tmp_path / "delays.csv"
    path.write_text(text)
    assert read_delays(path) == delays


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"delays.csv: sampled needs one or more delays; got none"),
        ("latency\n5\n", r"delays.csv: expected columns ts_ns and ns .* got columns latency"),
        ("ts_ns,ns\n100,5\n90,5\n", r"times .* must not decrease; got 90 after 100"),
        ("ts_ns,ns\n100,-5\n", r"a delay must be an integer of 0 or more \(ns\); got -5"),
        ("ts_ns,ns\n100,5\n200\n", r"delays.csv:3: expected ts_ns, ns as integers; got '200'"),
        ("5\n5.5\n", r"delays.csv:2: expected ns as integers; got '5.5'"),
    ],
)
def test_unusable_text_is_rejected(tmp_path, text, message):
    path = tmp_path / "delays.csv"
    path.write_text(text)
    with pytest.raises(ReplayFormatError, match=message):
        read_delays(path)


def test_unusable_arrays_are_rejected(tmp_path):
    path = tmp_path / "delays.npz"
    np.savez(path, ns=np.array([1.5]))
    with pytest.raises(ReplayFormatError, match="array ns is of 1 dimensions and type float64"):
        read_delays(path)
    np.savez(path, prices=np.array([1]))
    with pytest.raises(ReplayFormatError, match="got columns prices"):
        read_delays(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ReplayFormatError, match=r"delays.npz: expected columns ts_ns and ns"):
        read_delays(path)


def test_times_without_delays_are_rejected():
    with pytest.raises(ValueError, match="one or more times, and a delay for each; got 2 and 1"):
        MeasuredDelays((1, 2), (5,))
