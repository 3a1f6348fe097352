"""A real betting market: the levels of each line, the traded volume, and the replay of it."""

import bz2
import json
from decimal import Decimal

import numpy as np
import pytest

from clob.records import Kind
from clob.replay import backtest, open_stream
from clob.replay.io.detect import detect
from clob.replay.readers.betfair import TICKS
from tests.real.data import data_file
from tests.replay.readers.level_follower import follow_levels

NAME = "betfair_1-166811431.bz2"


@pytest.fixture(scope="module")
def stream():
    return open_stream(data_file(NAME))


@pytest.fixture(scope="module")
def events(stream):
    return next(stream.chunks(10**6))


def read_lines():
    """Return for each line the levels after it and the volume traded so far."""
    numbers, levels, traded = {}, {}, {}
    for line, text in enumerate(bz2.decompress(data_file(NAME).read_bytes()).splitlines(), 1):
        for market in json.loads(text, parse_float=Decimal, parse_int=Decimal)["mc"]:
            for runner in market.get("marketDefinition", {}).get("runners", []):
                numbers.setdefault(runner["id"], 2 * len(numbers))
            for part in market["rc"]:
                number = numbers[part["id"]]
                for side, name in enumerate(("atb", "atl")):
                    for odds, size in part.get(name, []):
                        levels[number, side, TICKS[int(odds * 100)]] = int(size * 200)
                for odds, volume in part.get("trd", []):
                    traded[number, TICKS[int(odds * 100)]] = int(volume * 100)
        yield line, {key: size for key, size in levels.items() if size}, dict(traded)


def test_file_is_read_without_a_problem(stream, events):
    assert detect(data_file(NAME)) == "betfair"
    assert len(stream.problems) == 0
    assert (len(events), len(stream.instruments), stream.hi) == (31_326, 2, 350)
    assert stream.problems.remarks["trade without a level change"] == 681
    assert events[events["kind"] == Kind.SETTLE][["instrument", "price"]].tolist() == [
        *((0, 351), (2, 0))
    ]


def test_orders_add_up_to_the_levels_after_every_line(events):
    lines = list(read_lines())
    right = 0
    sums = follow_levels([line for line, _, _ in lines], events)
    for totals, (_, levels, _) in zip(sums, lines, strict=True):
        right += totals == levels
    assert right == len(lines) == 11_357


def test_fills_and_records_add_up_to_the_traded_volume(events):
    """The volumes of the file are those of both sides; its last lines take all of them back."""
    most = {}
    for _, _, traded in read_lines():
        for key, volume in traded.items():
            most[key] = max(most.get(key, 0), volume)
    volumes = {}
    trades = events[np.isin(events["kind"], (Kind.FILL, Kind.TRADE))]
    for instrument, price, size in trades[["instrument", "price", "size"]].tolist():
        volumes[instrument, price] = volumes.get((instrument, price), 0) + size
    assert volumes == {key: volume for key, volume in most.items() if volume}


@pytest.mark.parametrize("rule", ["tail", "pro-rata", "head"])
def test_replay_matches_the_records(rule):
    result = backtest(open_stream(data_file(NAME), level_rule=rule))
    check = result.check
    assert (check.takers, check.exact) == (1_718, 1_718)
    assert (check.bests, check.bests_equal) == (7_726, 7_726)
    assert result.divergence.total == 0


@pytest.mark.long
@pytest.mark.parametrize("options", [{"chunk": 97}, {"chunk": 4_096}, {"mode": "shadow"}], ids=str)
def test_digest_does_not_depend_on_book_class_or_chunks(book_class, options):
    whole = backtest(open_stream(data_file(NAME)))
    part = backtest(open_stream(data_file(NAME)), book_class=book_class, **options)
    assert part.digest == whole.digest
