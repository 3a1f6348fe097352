"""The HTML tables of notebooks: complete, escaped, small, and without cost for other programs."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

import clob
from clob import Limits, Market, Matcher, Mode, Order, SelfTrade, Side
from tests.books import bid

HOSTILE = (
    '<script>alert("it")</script>',
    "\u202eevil",
    "שלום",
    "a" * 250,
    "line\nline",
    "</table><img src=x onerror=alert(1)>",
)


def tables(html):
    """Parse the tables; return for each its caption and the texts of its rows."""
    root = ET.fromstring(f"<all>{html.replace('&quot;', chr(39))}</all>")
    assert {element.tag for element in root.iter()} <= {
        *("all", "table", "caption", "bdi", "thead", "tbody", "tr", "th", "td"),
    }
    return [
        (
            "".join(table.find("caption").itertext()),
            [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")],
        )
        for table in root.iter("table")
    ]


def market(number=0, **fields):
    names = {"id": f"rain {number}", "yes": f"{number}1", "no": f"{number}2"}
    return Market(**names | fields)


def order(name, side, price, **fields):
    return Order(id=name, token="01", maker=name, side=side, price=price, size=10**18, **fields)


def test_matcher_shows_markets_modes_and_best_prices(matcher_class):
    matcher = matcher_class()
    for number in range(12):
        matcher.add_market(market(number))
    matcher.submit("rain 0", order("a", Side.BUY, 48), now_ms=7)
    matcher.submit("rain 0", order("b", Side.SELL, 51), now_ms=8)
    matcher.set_mode("rain 1", Mode.HALTED, 9)
    ((caption, (titles, *rows)),) = tables(matcher._repr_html_())
    assert caption == "Matcher · 12 markets · 2 orders · now_ms 9"
    assert titles == ["market", "mode", "orders", "YES bid", "YES ask", "seq"]
    assert rows[0] == ["rain 0", "OPEN", "2", "48 ¢", "51 ¢", "2"]
    assert rows[1][:2] == ["rain 1", "HALTED"]
    assert len(rows) == 11
    assert rows[10] == ["… 2 more"]


def test_busy_matcher_has_no_rows():
    matcher = Matcher()
    matcher.add_market(market())
    matcher._engine.busy = True
    assert tables(matcher._repr_html_()) == [("Matcher · busy", [])]


def test_market_shows_its_terms():
    shown = market(
        lot_wei=10**16, self_trade=SelfTrade.CANCEL_RESTING, resting_fee_rate_bps=25, no=""
    )
    ((caption, rows),) = tables(shown._repr_html_())
    assert caption == "market rain 0"
    facts = dict(rows)
    assert facts["mode"] == "OPEN"
    assert facts["lot"] == "0.01 tokens"
    assert facts["NO token"] == "not set"
    assert facts["self-trade"] == "CANCEL_RESTING"
    assert facts["fees, resting and incoming"] == "25 bps and 0 bps"
    assert set(facts) >= {"funds", "collateral", "complementary", "minimum size"}


def test_depth_is_drawn_as_a_ladder():
    matcher = Matcher()
    matcher.add_market(market())
    matcher.submit("rain 0", order("a", Side.BUY, 48), now_ms=7)
    ((caption, rows),) = tables(matcher.depth("rain 0")._repr_html_())
    assert caption == "market rain 0 · token 01 · seq 1 · 1 order · sizes in tokens"
    assert rows[-1] == ["1", "1", "48", "", ""]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_change_nothing_around_them(name):
    pytest.importorskip("numpy")
    from clob.replay import Instrument  # noqa: PLC0415 - needs numpy
    from tests.replay.streams import stream_of  # noqa: PLC0415 - likewise

    hostile = market(id=name, yes=f"{name}1", no=f"{name}2", collateral=name)
    matcher = Matcher()
    matcher.add_market(hostile)
    stream = stream_of(bid(1, 40, 3), instruments=[Instrument(0, name, name)])
    stream.name = stream.note = name
    for shown in (matcher, hostile, matcher.depth(name), stream):
        html = shown._repr_html_()
        assert tables(html)
        assert "\u202e" not in html
        assert "\n" not in html
        assert len(html) < 6_000


def test_limits_stay_plain():
    """Only the types that people look at in notebooks have a table."""
    assert not hasattr(Limits(), "_repr_html_")


def test_import_does_not_load_the_tables():
    code = (
        "import sys; before = set(sys.modules); import clob; new = set(sys.modules) - before; "
        "print(len(new), *({'clob.notebook', 'clob.ladder', 'html'} & new))"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    count, *loaded = out.stdout.split()
    assert int(count) <= 80
    assert loaded == []
    assert clob.__all__


def test_portfolio_shows_money_and_holdings():
    pytest.importorskip("numpy")
    from clob.replay import Portfolio  # noqa: PLC0415 - needs numpy

    mine = Portfolio(100 * 10**18)
    mine.trade(0, Side.BUY, 40, 5 * 10**18, resting=True)
    mine.trade(0, Side.SELL, 50, 10**18, resting=True)
    mine.trade(3, Side.SELL, 20, 10**18, resting=False)
    (caption, money), (holdings, (_, *rows)) = tables(mine._repr_html_())
    assert (caption, holdings) == ("Portfolio · 100 at the start", "Holdings")
    facts = dict(money)
    assert facts["collateral"] == "98.7"
    assert facts["realised profit"] == "0.1"
    assert rows == [
        ["market 0 YES", "4", "0", "1.6", "40.00 ¢"],
        ["market 1 NO", "-1", "0", "-0.2", "20.00 ¢"],
    ]
    assert "unlimited credit" in Portfolio()._repr_html_()


def test_stream_shows_grid_and_books_and_reads_nothing():
    pytest.importorskip("numpy")
    from clob.replay import Instrument, Stream  # noqa: PLC0415 - needs numpy

    def blocks():
        raise AssertionError("the stream was read")

    books = [Instrument(number, f"market {number // 2}") for number in range(12)]
    stream = Stream(blocks, lo=1, hi=3, lot_wei=10**16, instruments=books, name="day")
    (caption, facts), (_, rows) = tables(stream._repr_html_())
    assert caption == "Stream · day"
    assert dict(facts)["prices"] == "1 to 3 cents"
    assert dict(facts)["lot"] == "0.01 tokens"
    assert rows[-1] == ["… 2 more"]
    odds = Stream(blocks, lo=1, hi=2, lot_wei=1, labels=["1.01", "1.02"], inferred=True)
    assert dict(tables(odds._repr_html_())[0][1]) == {
        "prices": "1.01 to 1.02 odds",
        "lot": "0.000000000000000001 tokens",
        "fills": "inferred by the reader",
        "problems so far": "none",
    }
    finer = Stream(blocks, lo=1, hi=999, lot_wei=1, scale=1_000, has_fills=False)
    facts = dict(tables(finer._repr_html_())[0][1])
    assert (facts["ticks per token"], facts["fills"]) == ("1,000", "not recorded")
