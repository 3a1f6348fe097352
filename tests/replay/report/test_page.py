"""The page of a report: its values match the run; it is complete, small and safe to open."""

import base64
import dataclasses
import hashlib
import itertools
import re

import numpy as np
import pytest

from clob.records import Kind
from clob.replay import Instrument, Stream, backtest, merge, read_npz
from clob.replay.check.divergence import EXPLANATIONS
from clob.replay.report import notebook, page, write_report
from clob.replay.report.figure import encode, unit_of
from clob.replay.report.lines import Columns
from clob.replay.report.sections import DETAIL, DRAWN_MAX
from clob.replay.report.summary import money_of, own_orders
from tests.books import ask, bid, row
from tests.replay.report.reading import Page, restore, text_of, walk
from tests.replay.report.runs import NAME, run, stream_of
from tests.replay.streams import stream_of as stream_of_rows
from tests.replay.streams import taker

WEI = 10**18
SIZE_MAX = 2 * 10**6


def wei(text):
    """Parse a formatted amount to wei."""
    sign = -1 if text.startswith("-") else 1
    whole, _, rest = text.lstrip("+-").replace(",", "").partition(".")
    assert len(rest) <= 18
    return sign * (int(whole) * WEI + int(rest.ljust(18, "0")))


def integer(text):
    return int(text.replace(",", ""))


@pytest.fixture(params=["own", "many"])
def run_of(request):
    return request.getfixturevalue(request.param)


# ----- the figures -----------------------------------------------------------------------------


def test_headline_matches_the_run(run_of):
    shown, money = Page(page(run_of)), money_of(run_of)
    assert integer(shown.figure("events")) == run_of.events
    assert integer(shown.figure("fills")) == len(run_of.fills)
    assert integer(shown.figure("own_fills")) == len(run_of.own_fills)
    assert integer(shown.figure("own_orders")) == len(run_of.orders)
    assert integer(shown.figure("divergences")) == run_of.divergence.total
    assert wei(shown.figure("profit")) == money.profit
    assert wei(shown.figure("drawdown")) == money.drawdown
    assert wei(shown.figure("fees")) == money.fees
    assert text_of(shown.one("code", id="digest")) == run_of.digest


def test_amounts_are_exact(run_of):
    told, money = Page(page(run_of)).table("money"), money_of(run_of)
    assert wei(told["realised profit after fees"][0]) == money.realised
    assert wei(told["unrealised profit"][0]) == money.unrealised
    assert wei(told["wealth at the end"][0]) == money.wealth
    assert wei(told["collateral at the end"][0]) == money.collateral
    assert wei(told["fees paid"][0]) == money.fees
    assert told["largest drawdown"][0].startswith(Page(page(run_of)).figure("drawdown"))


def test_settlement_is_shown(own, many):
    assert Page(page(own)).table("money")["settled: market 0"] == ["YES at 100 ticks"]
    assert Page(page(many)).table("money")[f"settled: {NAME}"] == ["YES at 100 ticks"]


def test_orders_match_the_run(run_of):
    told, orders = Page(page(run_of)).table("orders"), own_orders(run_of)
    sells = int(np.count_nonzero(run_of.orders["side"]))
    assert list(map(integer, told["sent"])) == [
        len(run_of.orders) - sells,
        sells,
        len(run_of.orders),
    ]
    for fate, mask in orders.fates().items():
        assert integer(told[fate][2]) == np.count_nonzero(mask)
    assert integer(told["lots filled"][2]) == run_of.own_fills["size"].sum()
    codes = Page(page(run_of)).table("rejections")
    del codes["Rejected with"]
    assert {code: integer(count) for code, (count,) in codes.items()} == run_of.rejections


def test_queue_matches_the_run(run_of):
    shown = Page(page(run_of))
    ranks = {name: row for name, row in shown.table("ranks").items() if name != "Lots ahead"}
    rested = run_of.orders["ahead"] >= 0
    assert sum(integer(count) for count, *_ in ranks.values()) == np.count_nonzero(rested)
    waits = {name: row for name, row in shown.table("waits").items() if "first" not in name}
    filled = own_orders(run_of).resting_ns >= 0
    assert sum(integer(count) for count, _ in waits.values()) == np.count_nonzero(filled)
    assert [share for _, share in waits.values()][-1] == "100 %"


def test_the_check_and_the_divergences(run_of):
    shown, check = Page(page(run_of)), run_of.check
    takers = shown.table("check")["takers"]
    assert [*map(integer, takers[:2])] == [check.takers, check.exact]
    assert integer(takers[3]) == check.first_difference
    fills = shown.table("check")["fills"]
    assert [*map(integer, fills[:2])] == [check.recorded, check.matched]
    told = shown.table("divergence")
    for kind, count in run_of.divergence.counts.items():
        assert told[kind] == [EXPLANATIONS[kind], f"{count:,}"]


def test_table_has_one_row_per_book(many):
    told = Page(page(many)).table("books")
    assert sum(integer(told[name][0]) for name in (f"{NAME} YES", f"{NAME} NO", "frost YES")) == (
        len(many.fills)
    )
    held = many.positions[many.positions["instrument"] == 2]["size"]
    assert wei(told["frost YES"][4]) == held[-1]


def test_values_of_figures_match_the_tables(own):
    data = Page(page(own)).data("wealth")
    assert data["count"] * data["detail"] == 960 * DETAIL
    for panel, field in zip(data["panels"][::2], ("wealth", "collateral"), strict=True):
        (series,) = panel["series"]
        assert len(series["last"]) == 960 * DETAIL
        unit = int(panel["unit"])
        assert series["last"][-1] * unit == own.equity[field][-1]
        assert max(series["high"]) * unit == max(own.equity[field])
        assert min(series["low"]) * unit == min(own.equity[field])


def test_amounts_beyond_the_integers_of_scripts_are_rounded_down():
    values = Columns([-(10**30) - 1], [10**30 + 1], [3])
    unit = unit_of([*values.low, *values.high, *values.last])
    assert unit == 10**15
    series = encode(values, unit)
    restore(series)
    assert series == {"low": [-(10**15) - 1], "high": [10**15], "last": [0]}


def test_own_fills_are_in_the_data_of_their_column(own):
    data = Page(page(own)).data("price-0")
    start, width, count = int(data["start"]), int(data["width"]), data["count"] * data["detail"]
    columns = {(int(ts) - start) * count // width for ts in own.own_fills["ts_ns"]}
    mine = data["own"]
    assert {*itertools.accumulate(mine["columns"])} == columns
    left_out = sum(more for _, more in mine["more"])
    assert len(mine["sizes"]) + left_out == len(own.own_fills)
    assert sum(mine["sizes"]) <= own.own_fills["size"].sum()
    resting = sum(kind < 2 for kind in mine["kinds"])
    assert resting <= np.count_nonzero(own.own_fills["resting"])


def test_volume_is_complete(own):
    (_, volume) = Page(page(own)).data("price-0")["panels"]
    assert sum(volume["series"][0]["last"]) == own.fills["size"].sum()


def test_prices_are_odds_where_the_recording_has_them(odds):
    labels, lo = odds.setting.labels, odds.setting.lo
    shown = Page(page(odds))
    assert f"prices {labels[0]} to {labels[-1]} (odds)" in text_of(shown.one("header"))
    assert "prices as odds" in text_of(shown.one("footer"))
    levels = next(one for one in walk(shown.one("figure", id="price-0")) if is_levels(one))
    assert {text_of(one) for one in levels["parts"]} <= {*labels}
    for name in ("price-0", "depth-0"):
        data = shown.data(name)
        assert data["panels"][0]["kind"] == "price"
        assert data["labels"] == {"low": lo, "texts": [*labels]}


def is_levels(element):
    return element["attributes"].get("class") == "levels"


# ----- visible parts ---------------------------------------------------------------------------


def test_the_figures_of_a_strategy(own):
    shown = Page(page(own))
    names = [one["attributes"]["id"] for one in shown.find("figure")]
    assert names == ["wealth", "price-0", "depth-0", "position-0"]
    assert len(shown.find("img")) == 1
    for drawing in shown.find("svg"):
        assert drawing["attributes"]["aria-label"]


def test_report_without_a_strategy(plain):
    shown = Page(page(plain))
    assert [one["attributes"]["id"] for one in shown.find("figure")] == ["price-0", "depth-0"]
    assert shown.figure("exact") == "100 %"
    assert "No divergence from the records." in text_of(shown.one("section", id="history"))
    assert not shown.find("table", id="money")


def test_tables_not_kept_are_not_drawn(day):
    result = backtest(Stream.of(day), keep=(), check=())
    shown = Page(page(result))
    assert shown.find("figure") == []
    assert integer(shown.figure("fills")) == result.counts["fills"] > 0
    assert "not kept" in text_of(shown.one("dl"))
    assert "The run was not compared" in text_of(shown.one("section", id="history"))


@pytest.mark.parametrize(
    "rows",
    [
        (),
        (bid(1, 40, 3),),
        (bid(1, 40, 3), ask(2, 60, 4), taker(3, 0, 60, 1)),
        (row(Kind.CLEAR, 0, 0, 0, 0),),
    ],
)
@pytest.mark.parametrize("sample", [None, 4])
def test_tiny_runs(rows, sample):
    stream = stream_of_rows(*rows, has_fills=False)
    assert Page(page(backtest(stream, sample=sample))).figure("events") == str(len(rows))
    Page(page(run(stream, sample=sample, every_ns=10**15)))


def test_busiest_books_are_drawn_and_all_are_in_the_table():
    stream = merge([stream_of(seed, 60 + seed, 0, f"market {seed}") for seed in range(12)])
    shown = Page(page(run(stream)))
    drawn = [one for one in shown.find("figure") if one["attributes"]["id"].startswith("price")]
    assert len(drawn) == DRAWN_MAX
    folded = shown.find("details", class_="book")
    assert ["open" in one["attributes"] for one in folded] == [True] + [False] * (DRAWN_MAX - 1)
    links = [one for one in walk(shown.one("table", id="books")) if one["tag"] == "a"]
    assert len(links) == DRAWN_MAX
    assert len(shown.table("books")) == 1 + 12


# ----- the file --------------------------------------------------------------------------------


def test_page_is_self_contained(own, tmp_path):
    path = tmp_path / "report.html"
    write_report(own, path, title="A title")
    shown = Page(path.read_text("utf-8"))
    assert text_of(shown.one("h1")) == text_of(shown.one("title")) == "A title"
    for element in walk(shown.root):
        for name, value in element["attributes"].items():
            assert name not in ("onclick", "onload", "onerror")
            if name in ("href", "src"):
                assert value.startswith(("#", "data:image/png;base64,"))
    text = path.read_text("utf-8").replace('"http://www.w3.org/2000/svg"', "")
    assert re.findall(r"https?://|^import|@import|url\(", text, re.MULTILINE) == []


def test_only_its_own_script_may_run(own):
    shown = Page(page(own))
    (script,) = [one for one in shown.find("script") if one["attributes"] == {"type": "module"}]
    text = "".join(script["parts"])
    known = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    policy = shown.one("meta", http_equiv=True)["attributes"]["content"]
    assert f"script-src 'sha256-{known}';" in policy
    assert policy.startswith("default-src 'none';")


def test_names_from_files_are_escaped(many):
    told = page(many)
    assert "<script>alert" not in told
    shown = Page(told)
    assert NAME in text_of(shown.one("h1"))
    assert f"{NAME} NO" in shown.table("books")
    assert NAME in text_of(Page(notebook(many)).one("caption"))


def test_problems_of_the_input_are_shown(plain):
    setting = plain.setting._replace(problems={"torn & lost": 1_200})
    shown = Page(page(dataclasses.replace(plain, setting=setting)))
    assert "Problems of the input: 1,200 torn & lost." in text_of(shown.one("footer"))


def test_ids_are_unique_and_links_resolve(many):
    shown = Page(page(many))
    ids = [one["attributes"]["id"] for one in walk(shown.root) if "id" in one["attributes"]]
    assert len(ids) == len(set(ids))
    links = {one["attributes"]["href"].removeprefix("#") for one in shown.find("a")}
    assert links <= set(ids)


def test_equal_runs_produce_equal_pages(day):
    assert page(run(Stream.of(day))) == page(run(Stream.of(day), chunk=100))


@pytest.mark.long
def test_page_is_small_for_large_runs():
    """More books than are drawn, with prices all over their grids in every column."""
    draw = np.random.default_rng(7)
    rows = []
    for number in range(60_000):
        fields = {"ts_ns": number * 7_919_777, "instrument": int(draw.integers(16))}
        price, size = int(draw.integers(1, 100)), int(draw.integers(1, 10**9))
        rows.append(row(Kind.LIMIT, 1_000 + number, int(draw.integers(2)), price, size) | fields)
    books = tuple(Instrument(number, f"market {number // 2}") for number in range(16))
    stream = stream_of_rows(*rows, has_fills=False, instruments=books)
    result = run(stream, every_ns=10**9, sample=256)
    assert len(result.own_fills) > 1_000
    assert len(page(result).encode()) < SIZE_MAX


def test_report_of_the_recorded_hour(golden_path):
    result = run(Stream.of(read_npz(golden_path)), every_ns=10**9, sample=256)
    told = page(result)
    assert len(told.encode()) < SIZE_MAX
    shown = Page(told)
    assert integer(shown.figure("own_fills")) == len(result.own_fills) > 0
    assert wei(shown.figure("profit")) == result.equity["wealth"][-1]
    bare = Page(page(backtest(Stream.of(read_npz(golden_path)))))
    assert (bare.figure("exact"), bare.figure("fills")) == ("100 %", "5,862")


# ----- notebooks -------------------------------------------------------------------------------


def test_notebook_shows_the_headline(own, plain):
    told = Page(own._repr_html_())
    assert len(told.find("svg")) == 1
    rows = {text_of(one["parts"][0]): text_of(one["parts"][1]) for one in told.find("tr")}
    assert wei(rows["profit"]) == money_of(own).profit
    assert rows["digest"] == own.digest[:16]
    assert integer(rows["own fills"]) == len(own.own_fills)
    assert Page(plain._repr_html_()).find("svg") == []


def test_result_writes_its_report(own, tmp_path):
    own.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8") == page(own)
