"""The price ladder: a picture of a book as text and as HTML, for a reader and never for a program.

Asks stand above bids, prices fall from top to bottom, and each side's bars grow away from the
price. A bar is a share of the largest level shown. Integers only: no size is ever a float.
"""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

from clob.depth import Depth, Level
from clob.units import WEI_PER_TOKEN, format_tokens

BAR_CELLS = 10
"""How many characters the bar of the largest level takes."""

DECIMALS = 6
"""How many decimals a size keeps in a picture; what follows is cut off."""

NAME_LENGTH = 24
"""How many characters of a token or market are shown before its middle is left out."""

SMALLEST_SHOWN = WEI_PER_TOKEN // 10**DECIMALS
"""The smallest size in wei that does not vanish when written as tokens with these decimals."""


class Picture(NamedTuple):
    """What both drawings need to know of a book, in the order in which it is drawn."""

    head: str
    """One line: market, token, sequence, number of orders, unit of sizes."""
    asks: Sequence[Level]
    """The asks shown, the highest price first."""
    bids: Sequence[Level]
    """The bids shown, the highest price first."""
    more_asks: str
    """What was left out above the asks; empty if nothing was."""
    more_bids: str
    """What was left out below the bids; empty if nothing was."""
    between: str
    """The spread, or which side is empty."""
    size: Callable[[int], str]
    """Writes a size in wei in the unit of the picture."""
    largest: int
    """The size of the largest level shown, in wei; 0 in an empty book."""


class LadderColumns(NamedTuple):
    """How many characters each column of the text takes."""

    orders: int
    """Number of orders, on either side."""
    size: int
    """Size, on either side."""
    price: int
    """Price."""

    @property
    def side(self) -> int:
        """Everything on one side of the price."""
        return BAR_CELLS + 2 + self.orders + 2 + self.size


def ladder(depth: Depth, num_orders: int | None = None, *, rows: int = 10) -> str:
    """Draw a book as text.

    Args:
        depth: the book.
        num_orders: how many orders rest in it; None counts those in ``depth``.
        rows: how many levels a side are drawn; the others are summed up.

    Returns:
        Lines without trailing blanks and without a newline at the end. Sizes are tokens cut off
        after six decimals, or wei where every level is smaller than the sixth.

    >>> depth = Depth(
    ...     market="",
    ...     token="101",
    ...     seq=4,
    ...     bids=(Level(48, 30 * 10**18, 2), Level(45, 15 * 10**18, 1)),
    ...     asks=(Level(50, 60_500000000000000000, 1),),
    ... )
    >>> print(ladder(depth))
    token 101 · seq 4 · 4 orders · sizes in tokens
                orders  bid size │ price │ ask size  orders
                                 │    50 │     60.5       1  ██████████
    ───────────────────────────── spread 2 ────────────────────────────
         ▐████       2        30 │    48 │
            ██       1        15 │    45 │
    """
    picture = _picture(depth, num_orders, rows)
    columns = _columns(picture)
    lines = [
        picture.head,
        _text_row(columns, ("", "orders", "bid size"), "price", ("ask size", "orders", "")),
        *([f"... {picture.more_asks}".center(_width(columns))] if picture.more_asks else []),
        *(_text_ask(picture, columns, level) for level in picture.asks),
        f" {picture.between} ".center(_width(columns), "─"),
        *(_text_bid(picture, columns, level) for level in picture.bids),
        *([f"... {picture.more_bids}".center(_width(columns))] if picture.more_bids else []),
    ]
    return "\n".join(line.rstrip() for line in lines)


def ladder_html(depth: Depth, num_orders: int | None = None, *, rows: int = 10) -> str:
    """Draw a book as an HTML table, for notebooks.

    Args:
        depth: the book.
        num_orders: how many orders rest in it; None counts those in ``depth``.
        rows: how many levels a side are drawn; the others are summed up.

    Returns:
        One ``<table>``. Its styles are inline, and its text and background are those of the page,
        so that it reads the same on a dark one. Names are escaped.

    >>> empty = Depth(market="", token="<1>", seq=0, bids=(), asks=())
    >>> "token &lt;1&gt;" in ladder_html(empty)
    True
    """
    picture = _picture(depth, num_orders, rows)
    body = [
        *([_html_note(f"… {picture.more_asks}")] if picture.more_asks else []),
        *(_html_ask(picture, level) for level in picture.asks),
        _html_note(picture.between, rule=True),
        *(_html_bid(picture, level) for level in picture.bids),
        *([_html_note(f"… {picture.more_bids}")] if picture.more_bids else []),
    ]
    titles = ("orders", "bid size", "price", "ask size", "orders")
    return (
        f'<table style="{TABLE_STYLE}">'
        f'<caption style="{CAPTION_STYLE}">{escape(picture.head)}</caption>'
        f"<thead><tr{BARE}>{''.join(_html_cell(title, tag='th') for title in titles)}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


# ----- what is drawn ---------------------------------------------------------------------------


def _picture(depth: Depth, num_orders: int | None, rows: int) -> Picture:
    """Choose the levels and write the words."""
    asks, bids = depth.asks[:rows], depth.bids[:rows]
    largest = max((level.size for level in (*asks, *bids)), default=0)
    whole_book = (*depth.asks, *depth.bids)
    in_wei = bool(whole_book) and max(level.size for level in whole_book) < SMALLEST_SHOWN
    size = str if in_wei else _short_tokens
    if num_orders is None:
        num_orders = sum(level.num_orders for level in whole_book)
    return Picture(
        head=_head(depth, num_orders, "wei" if in_wei else "tokens"),
        asks=asks[::-1],
        bids=bids,
        more_asks=_more(depth.asks[rows:], size),
        more_bids=_more(depth.bids[rows:], size),
        between=_between(depth),
        size=size,
        largest=largest,
    )


def _head(depth: Depth, num_orders: int, unit: str) -> str:
    """Say which book it is, how far it has come and what its numbers are."""
    words = [
        f"market {_short_name(depth.market)}" if depth.market else "",
        f"token {_short_name(depth.token)}" if depth.token else "",
        f"seq {depth.seq}",
        _counted(num_orders, "order"),
        f"sizes in {unit}",
    ]
    return " · ".join(word for word in words if word)


def _between(depth: Depth) -> str:
    """Say what lies between the best prices."""
    if depth.bids and depth.asks:
        return f"spread {depth.asks[0].price - depth.bids[0].price}"
    if depth.asks:
        return "no bids"
    return "no asks" if depth.bids else "empty"


def _more(levels: Sequence[Level], size: Callable[[int], str]) -> str:
    """Sum up the levels that are not drawn."""
    if not levels:
        return ""
    return f"{_counted(len(levels), 'more level')}, {size(sum(level.size for level in levels))}"


def _counted(number: int, noun: str) -> str:
    """Write a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _short_tokens(size: int) -> str:
    """Write wei as tokens, without what no reader would miss."""
    if 0 < size < SMALLEST_SHOWN:
        return f"<{format_tokens(SMALLEST_SHOWN)}"
    return format_tokens(size // SMALLEST_SHOWN * SMALLEST_SHOWN)


def _short_name(name: str) -> str:
    """Write a name on one line, without the middle of a long one."""
    line = name if name.isprintable() else ascii(name)
    if len(line) <= NAME_LENGTH:
        return line
    half = NAME_LENGTH // 2 - 1
    return f"{line[:half]}…{line[-half:]}"


# ----- as text ---------------------------------------------------------------------------------


def _columns(picture: Picture) -> LadderColumns:
    """Measure the columns: wide enough for the widest number and for their titles."""
    levels = (*picture.asks, *picture.bids)
    return LadderColumns(
        orders=_widest("orders", (str(level.num_orders) for level in levels)),
        size=_widest("bid size", (picture.size(level.size) for level in levels)),
        price=_widest("price", (str(level.price) for level in levels)),
    )


def _widest(title: str, texts: Iterable[str]) -> int:
    """Measure one column."""
    return max(len(title), *map(len, texts), 0)


def _width(columns: LadderColumns) -> int:
    """Measure a whole line."""
    return 2 * columns.side + columns.price + len(" │  │ ")


def _text_row(
    columns: LadderColumns, bid: tuple[str, str, str], price: str, ask: tuple[str, str, str]
) -> str:
    """Set one line: bar, orders and size of a bid, the price, size, orders and bar of an ask."""
    left = f"{bid[0]:>{BAR_CELLS}}  {bid[1]:>{columns.orders}}  {bid[2]:>{columns.size}}"
    right = f"{ask[0]:>{columns.size}}  {ask[1]:>{columns.orders}}  {ask[2]}"
    return f"{left} │ {price:>{columns.price}} │ {right}"


def _text_ask(picture: Picture, columns: LadderColumns, level: Level) -> str:
    """Set the line of a level of asks."""
    ask = (picture.size(level.size), str(level.num_orders), _bar(picture, level, "▌"))
    return _text_row(columns, ("", "", ""), str(level.price), ask)


def _text_bid(picture: Picture, columns: LadderColumns, level: Level) -> str:
    """Set the line of a level of bids, its bar turned the other way."""
    bar = _bar(picture, level, "▐")[::-1]
    bid = (bar, str(level.num_orders), picture.size(level.size))
    return _text_row(columns, bid, str(level.price), ("", "", ""))


def _bar(picture: Picture, level: Level, half: str) -> str:
    """Draw a level's share of the largest one, to half a character and never nothing."""
    halves = max(1, level.size * 2 * BAR_CELLS // picture.largest)
    return "█" * (halves // 2) + half * (halves % 2)


# ----- as HTML ---------------------------------------------------------------------------------

TABLE_STYLE = (
    "border-collapse:collapse;border:0;width:auto;margin:0.5em 0;color:inherit;"
    "background:transparent;font-family:ui-monospace,monospace;font-size:13px;"
    "font-variant-numeric:tabular-nums"
)
"""How the table looks, whatever the style sheet of the notebook makes of tables."""

CAPTION_STYLE = (
    "caption-side:top;text-align:left;color:inherit;opacity:0.75;padding:2px 8px;white-space:nowrap"
)
"""How the line above the table looks."""

CELL_STYLE = (
    "text-align:right;padding:2px 10px;border:0;color:inherit;min-width:4.5em;white-space:nowrap"
)
"""How every cell looks."""

BARE = ' style="background:transparent;border:0"'
"""Keeps the stripes of a notebook's own tables away from the bars."""

BID_COLOUR = "rgba(22,160,90,0.32)"
"""The bars of bids: half transparent, to be seen on white and on black."""

ASK_COLOUR = "rgba(220,70,60,0.32)"
"""The bars of asks."""


def _html_cell(text: str, style: str = "", tag: str = "td") -> str:
    """Write one cell."""
    return f'<{tag} style="{CELL_STYLE}{style}">{escape(text)}</{tag}>'


def _html_bar(picture: Picture, level: Level, direction: str, colour: str) -> str:
    """Shade a level's share of the largest one, from the price outwards."""
    share = max(1, level.size * 100 // picture.largest)
    return f";background:linear-gradient(to {direction},{colour} {share}%,transparent {share}%)"


def _html_price(price: int) -> str:
    """Write the cell of a price."""
    return _html_cell(str(price), ";font-weight:bold;text-align:center")


def _html_ask(picture: Picture, level: Level) -> str:
    """Write the row of a level of asks."""
    size = _html_cell(picture.size(level.size), _html_bar(picture, level, "right", ASK_COLOUR))
    orders = _html_cell(str(level.num_orders))
    return f"<tr{BARE}>{_html_cell('') * 2}{_html_price(level.price)}{size}{orders}</tr>"


def _html_bid(picture: Picture, level: Level) -> str:
    """Write the row of a level of bids."""
    size = _html_cell(picture.size(level.size), _html_bar(picture, level, "left", BID_COLOUR))
    orders = _html_cell(str(level.num_orders))
    return f"<tr{BARE}>{orders}{size}{_html_price(level.price)}{_html_cell('') * 2}</tr>"


def _html_note(text: str, *, rule: bool = False) -> str:
    """Write a row of words across the table, between two rules if it parts the sides."""
    line = "border-width:1px 0;border-style:solid;border-color:rgba(128,128,128,0.5)"
    style = f"text-align:center;padding:2px 10px;color:inherit;{line if rule else 'border:0'}"
    return f'<tr{BARE}><td colspan="5" style="{style}">{escape(text)}</td></tr>'
