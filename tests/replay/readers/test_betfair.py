"""Betfair reader: levels, traded volume, images, results, and every kind of problem."""

import bz2
import json

import pytest

from clob.cli import main
from clob.records import Kind
from clob.replay import Instrument, ReplayFormatError, ReplayWarning, backtest, open_stream
from clob.replay.io.detect import detect
from clob.replay.readers.betfair import LADDER, odds_of, read_betfair, tick_of

MARKET, RUNNER, OTHER = "1.1668", 60424, 237478
T = 1_577_499_783_086


def line(ts, *runners, definition=None, **more):
    market = {"id": MARKET, "rc": list(runners), "con": True, "img": False, **more}
    if definition is not None:
        market["marketDefinition"] = definition
    return {"op": "mcm", "clk": "7", "pt": ts, "mc": [market]}


def runner(number=RUNNER, **ladders):
    return {"id": number, **ladders}


def definition(status="OPEN", states=("ACTIVE", "ACTIVE"), in_play=False):
    names = ("Cavaliers", "Timberwolves")
    runners = [
        {"id": number, "name": name, "status": state}
        for number, name, state in zip((RUNNER, OTHER), names, states, strict=True)
    ]
    return {"status": status, "inPlay": in_play, "runners": runners}


START = line(T, definition=definition())
BOOK = line(T + 5, runner(atb=[[3.15, 9.73], [3.1, 4]], atl=[[3.2, 2.49]]))


@pytest.fixture
def written(tmp_path):
    """Write messages, one per line, and return the path."""

    def writing(*rows):
        path = tmp_path / "1.1668.bz2"
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_bytes(bz2.compress(("\n".join(lines) + "\n").encode()))
        return path

    return writing


def rows_of(stream):
    events = next(stream.chunks(10**6))
    names = ["kind", "instrument", "side", "price", "size"]
    rows = events[events["kind"] != Kind.BBO][names].tolist()
    return [(Kind(kind), *rest) for kind, *rest in rows]


def test_ladder_has_350_steps():
    assert len(LADDER) == 350
    assert [odds_of(tick) for tick in (1, 100, 101, 149, 150, 350)] == [
        *("1.01", "2.00", "2.02", "2.98", "3.00", "1000.00")
    ]
    assert [tick_of(odds_of(tick)) for tick in range(1, 351)] == list(range(1, 351))
    with pytest.raises(ValueError, match=r"step of the ladder, got 3\.01"):
        tick_of("3.01")
    for tick in (0, 351):
        with pytest.raises(IndexError):
            odds_of(tick)


def test_levels_and_trades_become_orders(written):
    path = written(
        START,
        BOOK,
        line(T + 9, runner(trd=[[3.15, 4.98]], ltp=3.15, tv=4.98), runner(atb=[[3.15, 7.24]])),
        line(T + 10, runner(trd=[[3.15, 4.99]], atb=[[3.15, 7.23]])),
        line(T + 11, runner(trd=[[3.0, 2.0]])),
    )
    assert detect(path) == "betfair"
    stream = open_stream(path)
    best, second, offer = tick_of("3.15"), tick_of("3.1"), tick_of("3.2")
    assert rows_of(stream) == [
        (Kind.LIMIT, 0, 0, best, 2 * 973),
        (Kind.LIMIT, 0, 0, second, 2 * 400),
        (Kind.LIMIT, 0, 1, offer, 2 * 249),
        # Half of 4.98 of both stakes is of the backers; a level of layers lost it.
        (Kind.IOC, 0, 1, best, 498),
        (Kind.FILL, 0, 0, best, 498),
        # The trade does not explain the amount rounded up in the level.
        (Kind.IOC, 0, 1, best, 1),
        (Kind.FILL, 0, 0, best, 1),
        (Kind.REDUCE, 0, 0, best, 2 * 723),
        (Kind.TRADE, 0, 0, tick_of(3), 200),
    ]
    assert stream.instruments == (
        Instrument(0, "1.1668 60424 Cavaliers"),
        Instrument(2, "1.1668 237478 Timberwolves"),
    )
    assert (stream.lo, stream.hi, stream.lot_wei) == (1, 350, 5 * 10**15)
    check = backtest(stream).check
    assert (check.takers, check.exact, check.bests_equal) == (2, 2, check.bests)
    assert check.bests == 4


def test_image_replaces_a_book(written):
    image = line(T + 9, runner(atb=[[3.15, 1]], trd=[[3.15, 50]]), img=True)
    same = line(T + 10, runner(atb=[[3.15, 1]], trd=[[3.15, 50]]), img=True)
    after = line(T + 11, runner(atb=[[3.15, 0]], trd=[[3.15, 52]]))
    stream = read_betfair(written(START, BOOK, image, same, after))
    tick = tick_of("3.15")
    assert rows_of(stream)[3:] == [
        (Kind.CLEAR, 0, 0, 1, 0),
        (Kind.SEED, 0, 0, tick, 200),
        (Kind.IOC, 0, 1, tick, 200),
        (Kind.FILL, 0, 0, tick, 200),
    ]
    assert stream.problems.remarks["image that replaces a book"] == 1


def test_result_and_states_of_a_market(written):
    stream = read_betfair(
        written(
            START,
            BOOK,
            line(T + 6, runner(trd=[[3.0, 2.0]])),
            line(T + 7, definition=definition("SUSPENDED")),
            line(T + 8, definition=definition("OPEN", in_play=True)),
            line(T + 9, runner(atb=[[3.15, 0], [3.1, 0]], atl=[[3.2, 0]], trd=[[3.0, 0]])),
            line(T + 9, definition=definition("CLOSED", ("WINNER", "LOSER"), in_play=True)),
            {"op": "mcm", "ct": "HEARTBEAT", "pt": T + 10, "clk": "8"},
        )
    )
    assert rows_of(stream)[-2:] == [(Kind.SETTLE, 0, 0, 351, 0), (Kind.SETTLE, 2, 0, 0, 0)]
    assert stream.problems.remarks == {
        "market open": 1,
        "market suspended": 1,
        "market open, in play": 1,
        "market closed, in play": 1,
        "traded volume restated": 1,
        "trade without a level change": 1,
        "line without market changes": 1,
    }


def test_restated_volume_is_not_a_trade(written):
    """After a runner withdraws, all odds and the volume matched at them are reduced."""
    stream = read_betfair(
        written(
            START,
            BOOK,
            line(T + 6, runner(trd=[[3.5, 2.0]])),
            line(T + 7, runner(trd=[[3.5, 0], [3.15, 2.0]]), runner(atb=[[3.15, 0]])),
            line(T + 8, runner(trd=[[2.69, 2.0]])),
        )
    )
    rows = rows_of(stream)
    assert [row[0] for row in rows[3:]] == [Kind.TRADE, Kind.CANCEL]
    assert stream.problems.remarks["traded volume restated"] == 2


def test_repeated_ladders_are_skipped(written):
    stream = read_betfair(written(START, BOOK, line(T + 6, runner(batb=[[0, 3.15, 9.73]]))))
    assert len(rows_of(stream)) == 3
    assert stream.problems.remarks["repeated ladder skipped"] == 1


def test_handicap_is_part_of_the_runner(written):
    path = written(BOOK, line(T + 6, runner(hc=-1.5, atb=[[2, 1]])))
    assert [one.market for one in read_betfair(path).instruments] == [
        "1.1668 60424",
        "1.1668 60424 -1.5",
    ]


def test_level_rule_is_applied(written):
    changes = line(T + 6, runner(atb=[[3.1, 6]])), line(T + 7, runner(atb=[[3.1, 5]]))
    path = written(START, BOOK, *changes)
    youngest, oldest = (
        rows_of(read_betfair(path, level_rule=rule))[-1] for rule in ("tail", "head")
    )
    assert (youngest[4], oldest[4]) == (200, 600)
    with pytest.raises(ValueError, match="level rule must be"):
        read_betfair(path, level_rule="none")


BROKEN = {
    "unreadable line": line(T + 6, runner(atb=[[3.01, 5]])),
    "crossed book": line(T + 6, runner(atb=[[3.2, 5]])),
    "clock backwards": line(T + 4, runner(atb=[[3.1, 5]])),
}
ALSO_UNREADABLE = [
    line(T + 6, runner(atb=[[3.1, 5.005]])),
    line(T + 6, runner(atb=[[3.1, -5]])),
    line(T + 6, runner(atl=[[3.1]])),
    line("noon", runner(atl=[[3.1, 1]])),
    line(2**63 // 10**6 + 1, runner(atl=[[3.1, 1]])),
    line(T + 6, runner(atb=[[3.1, 2**53]])),
    "{nothing}",
]


@pytest.mark.parametrize(
    ("kind", "message"),
    [*BROKEN.items(), *(("unreadable line", message) for message in ALSO_UNREADABLE)],
)
def test_problem_names_kind_and_line(written, kind, message):
    path = written(START, BOOK, message, line(T + 90, runner(atl=[[3.3, 1]])))
    with pytest.raises(ReplayFormatError, match=rf"1\.1668\.bz2:3: {kind}: "):
        list(read_betfair(path).chunks())
    stream = read_betfair(path, on_problem="warn")
    with pytest.warns(ReplayWarning, match=kind):
        rows = rows_of(stream)
    assert stream.problems.counts == {kind: 1}
    assert [row[3] for row in rows] == [tick_of(odds) for odds in ("3.15", "3.1", "3.2", "3.3")]


def test_damaged_archive_is_reported(written):
    path = written(START, BOOK)
    path.write_bytes(path.read_bytes()[:-9])
    stream = read_betfair(path, on_problem="warn")
    with pytest.warns(ReplayWarning, match="damaged file"):
        list(stream.chunks())


def test_market_without_an_id_is_a_problem_only_with_changes(written):
    nobody = {"marketDefinition": definition() | {"runners": []}}
    stream = read_betfair(written(START, BOOK, {"op": "mcm", "pt": T + 6, "mc": [nobody]}))
    assert len(rows_of(stream)) == 3
    assert stream.problems.remarks == {"market open": 2}


def test_file_without_a_runner_is_rejected(written):
    with pytest.raises(ReplayFormatError, match="the file has no runner of a market"):
        read_betfair(written({"op": "mcm", "pt": T}))


def test_trade_behind_a_better_price_is_a_record_not_a_fill(written):
    """The feed may report a trade at 3.10 while an order waits at 3.15."""
    path = written(START, BOOK, line(T + 9, runner(trd=[[3.1, 6]], atb=[[3.1, 1]])))
    stream = read_betfair(path)
    assert rows_of(stream)[-2:] == [
        (Kind.TRADE, 0, 0, 152, 600),
        (Kind.REDUCE, 0, 0, 152, 200),
    ]
    assert stream.problems.remarks["trade at a price behind the best"] == 1
    result = backtest(stream)
    assert (result.check.ok, result.check.inferred, result.divergence.total) == (True, True, 0)
    assert "inferred takers exact" in str(result)


FINE = definition() | {"priceLadderDefinition": {"type": "FINEST"}}
LINE = definition() | {"bettingType": "ASIAN_HANDICAP_DOUBLE_LINE"}


@pytest.mark.parametrize("finer", [FINE, LINE])
def test_markets_with_finer_prices_extend_the_ladder(written, finer):
    levels = runner(atb=[[2.11, 9.73], [2.1, 4]], atl=[[3.2, 2.49]])
    won = finer | definition("CLOSED", ("WINNER", "LOSER"))
    path = written(line(T, definition=finer), line(T + 5, levels), line(T + 6, definition=won))
    stream = read_betfair(path)
    assert (stream.lo, stream.hi, len(stream.labels)) == (1, 351, 351)
    events = next(stream.chunks())
    prices = events["price"][events["kind"] == Kind.LIMIT].tolist()
    assert sorted(map(stream.label, prices)) == ["2.10", "2.11", "3.20"]
    assert events["price"][events["kind"] == Kind.SETTLE].tolist() == [352, 0]
    with pytest.raises(ReplayFormatError, match=r"1\.1668\.bz2:2: .*step of the ladder, got 2\.11"):
        list(read_betfair(written(START, line(T + 5, levels))).chunks())


def test_command_line_prints_odds_and_calls_fills_inferred(written, capsys):
    path = written(START, BOOK, line(T + 9, runner(trd=[[3.15, 4]], atb=[[3.15, 7.73]])))
    assert main(["replay", str(path)]) == 0
    out = capsys.readouterr().out
    assert "1 of 1 inferred fills reproduced exactly, 3 of 3 best prices; the venue" in out
    assert "│  3.15 │" in out
    assert "recorded fill" not in out
