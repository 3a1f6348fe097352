"""The price ladder, as text and as HTML."""

import xml.etree.ElementTree as ET

import pytest

from clob import Depth, Level, tokens
from clob.ladder import ladder, ladder_html


def depth(bids=(), asks=(), **names):
    return Depth(**({"market": "", "token": "101", "seq": 9} | names), bids=bids, asks=asks)


TOKEN = 10**18


def levels(*prices, size=TOKEN):
    return tuple(Level(price, size, 2) for price in prices)


def lines(*args, **options):
    return ladder(*args, **options).splitlines()


def test_empty_book():
    head, titles, between = lines(depth())
    assert head == "token 101 · seq 9 · 0 orders · sizes in tokens"
    assert titles.split() == ["orders", "bid", "size", "│", "price", "│", "ask", "size", "orders"]
    assert between.strip("─") == " empty "


@pytest.mark.parametrize(
    ("bids", "asks", "words"),
    [((48,), (51,), "spread 3"), ((48,), (), "no asks"), ((), (51,), "no bids")],
)
def test_what_lies_between(bids, asks, words):
    text = ladder(depth(levels(*bids), levels(*asks)))
    assert f"─ {words} ─" in text


def test_asks_stand_above_bids_and_prices_fall():
    rows = lines(depth(levels(48, 47), levels(50, 53)))
    prices = [row.split("│")[1].strip() for row in rows if row.count("│") == 2]
    assert prices == ["price", "53", "50", "48", "47"]


def test_columns_line_up():
    book = depth(
        (Level(98, tokens("123456.5"), 1_000_000), Level(7, tokens(1), 1)), levels(99, size=1)
    )
    rows = [row for row in lines(book) if "│" in row]
    assert len({row.index("│") for row in rows}) == 1
    assert len({row.rindex("│") for row in rows}) == 1


def test_bars_are_shares_of_the_largest_level():
    asks = (Level(50, 20, 1), Level(51, 11, 1), Level(52, 1, 1))
    bars = [row.split()[-1] for row in lines(depth(asks=asks)) if "█" in row or "▌" in row]
    assert bars == ["▌", "█████▌", "██████████"]


def test_levels_left_out_are_summed_up():
    book = depth(levels(*range(49, 0, -1)), levels(*range(51, 63)))
    rows = lines(book, rows=10)
    assert rows[2].strip() == "... 2 more levels, 2"
    assert rows[-1].strip() == "... 39 more levels, 39"
    assert len(rows) == 2 + 1 + 10 + 1 + 10 + 1


def test_one_level_left_out():
    assert lines(depth(levels(3, 2)), rows=1)[-1].strip() == "... 1 more level, 1"


@pytest.mark.parametrize(
    ("size", "unit", "shown"),
    [
        (60, "wei", "60"),
        (10**12 - 1, "wei", "999999999999"),
        (10**12, "tokens", "0.000001"),
        (tokens("60.5"), "tokens", "60.5"),
        (tokens("0.123456789"), "tokens", "0.123456"),
        (2**96 - 1, "tokens", "79228162514.264337"),
    ],
)
def test_unit_of_sizes(size, unit, shown):
    text = ladder(depth(levels(40, size=size)))
    assert f"sizes in {unit}" in text
    assert f" {shown} │" in text


def test_a_tiny_size_among_large_ones_is_not_shown_as_nothing():
    book = depth(levels(40, size=3), levels(60, size=tokens(5)))
    assert " <0.000001 │" in ladder(book)


def test_orders_are_those_of_the_book_where_it_says_so():
    assert "· 1 order ·" in ladder(depth(levels(40)), 1)
    assert "· 2 orders ·" in ladder(depth(levels(40)))


def test_names_stay_on_their_line():
    (head, *_) = lines(depth(token="7" * 77, market="rain\nor shine"))
    assert head.startswith("market 'rain\\nor shine' · token 77777777777…77777777777 · ")


def test_html_is_one_wellformed_table():
    book = depth(levels(48, 47, size=3), levels(51), market="<b>&'\"")
    table = ET.fromstring(ladder_html(book, rows=1).replace("&quot;", "'").replace("&#x27;", "'"))
    assert table.tag == "table"
    assert all("style" in cell.attrib for row in table.iter("tr") for cell in row)
    cells = [[cell.text or "" for cell in row] for row in table.iter("tr")]
    assert cells == [
        ["orders", "bid size", "price", "ask size", "orders"],
        ["", "", "51", "1", "2"],
        ["spread 3"],
        ["2", "<0.000001", "48", "", ""],
        ["… 1 more level, <0.000001"],
    ]


def test_html_escapes_names():
    page = ladder_html(depth(market="<script>", token="&\"'"))
    assert "<script>" not in page
    assert "<bdi>market &lt;script&gt;</bdi> · <bdi>token &amp;&quot;&#x27;</bdi>" in page


def test_html_has_no_colour_of_its_own_for_text():
    page = ladder_html(depth(levels(48), levels(51)))
    assert page.count("color:inherit") >= page.count("<td")
    assert "#" not in page


def test_a_book_shows_its_ladder(book_class):
    book = book_class(token="101")
    assert repr(book) == ladder(book.depth(), 0)
    assert book._repr_html_() == ladder_html(book.depth(), 0)
