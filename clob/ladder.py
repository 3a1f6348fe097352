"""The price ladder of a book, drawn as text or HTML for people to read.

Asks are above bids, prices fall from top to bottom, and each side's bars grow away from the price.
A bar shows the size relative to the largest level shown. Sizes are integers, never floats.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from clob.notebook import (
    BARE,
    TABLE_STYLE,
    caption,
    cell,
    counted,
    escape,
    short_name,
)
from clob.units import WEI_PER_TOKEN, format_tokens

BAR_CELLS = 10
"""Number of characters in the bar of the largest level."""

DECIMALS = 6
"""Number of decimals shown of a size; further ones are cut off."""

SMALLEST_SHOWN = WEI_PER_TOKEN // 10**DECIMALS
"""Smallest size in wei that is not 0 with these decimals."""


# ruff: noqa: D102 - the members are documented by Level and Depth


class LadderLevel(Protocol):
    """The part of :class:`clob.Level` that a ladder reads."""

    @property
    def price(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def num_orders(self) -> int: ...


class LadderBook(Protocol):
    """The part of :class:`clob.Depth` that a ladder reads, so that a depth can draw itself."""

    @property
    def market(self) -> str: ...

    @property
    def token(self) -> str: ...

    @property
    def seq(self) -> int: ...

    @property
    def bids(self) -> Sequence[LadderLevel]: ...

    @property
    def asks(self) -> Sequence[LadderLevel]: ...


class Picture(NamedTuple):
    """The parts that both drawings share, from top to bottom."""

    head: Sequence[str]
    """Market, token, sequence number, number of orders and unit of sizes."""
    asks: Sequence[LadderLevel]
    """Asks shown, highest price first."""
    bids: Sequence[LadderLevel]
    """Bids shown, highest price first."""
    more_asks: str
    """Summary of the asks not shown; empty if all are."""
    more_bids: str
    """Summary of the bids not shown; empty if all are."""
    between: str
    """Spread, or the empty side."""
    size: Callable[[int], str]
    """Formats a size given in wei."""
    largest: int
    """Size of the largest level shown, in wei; 0 in an empty book."""
    label: Callable[[int], str]
    """Formats a price."""


class LadderColumns(NamedTuple):
    """Width of each text column, in characters."""

    orders: int
    """Number of orders, on either side."""
    size: int
    """Size, on either side."""
    price: int
    """Price."""

    @property
    def side(self) -> int:
        """Width of everything on one side of the price."""
        return BAR_CELLS + 2 + self.orders + 2 + self.size


def ladder(
    depth: LadderBook,
    num_orders: int | None = None,
    *,
    rows: int = 10,
    label: Callable[[int], str] = str,
) -> str:
    """Draw a book as text.

    Args:
        depth: the book.
        num_orders: number of resting orders; None counts those in ``depth``.
        rows: number of levels drawn per side; the others are summarized.
        label: formats a price, for example as odds.

    Returns:
        Lines without trailing blanks or a final newline. Sizes are tokens cut off after six
        decimals, or wei if every level is smaller than that.

    >>> from clob import Depth, Level
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
    picture = _picture(depth, num_orders, rows, label)
    columns = _columns(picture)
    lines = [
        " · ".join(picture.head),
        _text_row(columns, ("", "orders", "bid size"), "price", ("ask size", "orders", "")),
        *([f"... {picture.more_asks}".center(_width(columns))] if picture.more_asks else []),
        *(_text_ask(picture, columns, level) for level in picture.asks),
        f" {picture.between} ".center(_width(columns), "─"),
        *(_text_bid(picture, columns, level) for level in picture.bids),
        *([f"... {picture.more_bids}".center(_width(columns))] if picture.more_bids else []),
    ]
    return "\n".join(line.rstrip() for line in lines)


def ladder_html(depth: LadderBook, num_orders: int | None = None, *, rows: int = 10) -> str:
    """Draw a book as an HTML table, for notebooks.

    Args:
        depth: the book.
        num_orders: number of resting orders; None counts those in ``depth``.
        rows: number of levels drawn per side; the others are summarized.

    Returns:
        One ``<table>`` with inline styles and escaped names. It inherits text and background colour
        from the page, so it is readable on a dark one.

    >>> from clob import Depth
    >>> empty = Depth(market="", token="<1>", seq=0, bids=(), asks=())
    >>> "token &lt;1&gt;" in ladder_html(empty)
    True
    """
    picture = _picture(depth, num_orders, rows, str)
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
        f"{caption(picture.head)}"
        f"<thead><tr{BARE}>{''.join(cell(title, tag='th') for title in titles)}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


# ----- contents --------------------------------------------------------------------------------


def _picture(
    depth: LadderBook, num_orders: int | None, rows: int, label: Callable[[int], str]
) -> Picture:
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
        label=label,
    )


def _head(depth: LadderBook, num_orders: int, unit: str) -> list[str]:
    words = [
        f"market {short_name(depth.market)}" if depth.market else "",
        f"token {short_name(depth.token)}" if depth.token else "",
        f"seq {depth.seq}",
        counted(num_orders, "order"),
        f"sizes in {unit}",
    ]
    return [word for word in words if word]


def _between(depth: LadderBook) -> str:
    if depth.bids and depth.asks:
        return f"spread {depth.asks[0].price - depth.bids[0].price}"
    if depth.asks:
        return "no bids"
    return "no asks" if depth.bids else "empty"


def _more(levels: Sequence[LadderLevel], size: Callable[[int], str]) -> str:
    if not levels:
        return ""
    return f"{counted(len(levels), 'more level')}, {size(sum(level.size for level in levels))}"


def _short_tokens(size: int) -> str:
    """Return wei as tokens with at most :data:`DECIMALS` decimals."""
    if 0 < size < SMALLEST_SHOWN:
        return f"<{format_tokens(SMALLEST_SHOWN)}"
    return format_tokens(size // SMALLEST_SHOWN * SMALLEST_SHOWN)


# ----- as text ---------------------------------------------------------------------------------


def _columns(picture: Picture) -> LadderColumns:
    levels = (*picture.asks, *picture.bids)
    return LadderColumns(
        orders=_widest("orders", (str(level.num_orders) for level in levels)),
        size=_widest("bid size", (picture.size(level.size) for level in levels)),
        price=_widest("price", (picture.label(level.price) for level in levels)),
    )


def _widest(title: str, texts: Iterable[str]) -> int:
    return max(len(title), *map(len, texts), 0)


def _width(columns: LadderColumns) -> int:
    return 2 * columns.side + columns.price + len(" │  │ ")


def _text_row(
    columns: LadderColumns, bid: tuple[str, str, str], price: str, ask: tuple[str, str, str]
) -> str:
    """Return one line: bar, orders and size of a bid; price; size, orders and bar of an ask."""
    left = f"{bid[0]:>{BAR_CELLS}}  {bid[1]:>{columns.orders}}  {bid[2]:>{columns.size}}"
    right = f"{ask[0]:>{columns.size}}  {ask[1]:>{columns.orders}}  {ask[2]}"
    return f"{left} │ {price:>{columns.price}} │ {right}"


def _text_ask(picture: Picture, columns: LadderColumns, level: LadderLevel) -> str:
    ask = (picture.size(level.size), str(level.num_orders), _bar(picture, level, "▌"))
    return _text_row(columns, ("", "", ""), picture.label(level.price), ask)


def _text_bid(picture: Picture, columns: LadderColumns, level: LadderLevel) -> str:
    bar = _bar(picture, level, "▐")[::-1]
    bid = (bar, str(level.num_orders), picture.size(level.size))
    return _text_row(columns, bid, picture.label(level.price), ("", "", ""))


def _bar(picture: Picture, level: LadderLevel, half: str) -> str:
    """Return a bar relative to the largest level, at least half a character."""
    halves = max(1, level.size * 2 * BAR_CELLS // picture.largest)
    return "█" * (halves // 2) + half * (halves % 2)


# ----- as HTML ---------------------------------------------------------------------------------

BID_COLOUR = "rgba(22,160,90,0.32)"
"""Colour of bid bars, half transparent for light and dark pages."""

ASK_COLOUR = "rgba(220,70,60,0.32)"
"""Colour of ask bars."""


def _html_bar(picture: Picture, level: LadderLevel, direction: str, colour: str) -> str:
    """Return the style of a bar relative to the largest level, growing away from the price."""
    share = max(1, level.size * 100 // picture.largest)
    return f";background:linear-gradient(to {direction},{colour} {share}%,transparent {share}%)"


def _html_price(price: int) -> str:
    return cell(str(price), ";font-weight:bold;text-align:center")


def _html_ask(picture: Picture, level: LadderLevel) -> str:
    size = cell(picture.size(level.size), _html_bar(picture, level, "right", ASK_COLOUR))
    orders = cell(str(level.num_orders))
    return f"<tr{BARE}>{cell('') * 2}{_html_price(level.price)}{size}{orders}</tr>"


def _html_bid(picture: Picture, level: LadderLevel) -> str:
    size = cell(picture.size(level.size), _html_bar(picture, level, "left", BID_COLOUR))
    orders = cell(str(level.num_orders))
    return f"<tr{BARE}>{orders}{size}{_html_price(level.price)}{cell('') * 2}</tr>"


def _html_note(text: str, *, rule: bool = False) -> str:
    """Return a row of text across the table; ``rule`` adds lines above and below."""
    line = "border-width:1px 0;border-style:solid;border-color:rgba(128,128,128,0.5)"
    style = f"text-align:center;padding:2px 10px;color:inherit;{line if rule else 'border:0'}"
    return f'<tr{BARE}><td colspan="5" style="{style}">{escape(text)}</td></tr>'
