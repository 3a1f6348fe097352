"""Draws small HTML tables for notebooks.

Tables inherit text and background colour from the page, so they are readable on light and on dark
ones. Names are escaped, cut and kept apart, so that none changes the text around it.
"""

from collections.abc import Iterable, Sequence

NAME_LENGTH = 24
"""Longest name of a token or market shown whole; longer ones lose their middle."""

ROWS_MAX = 10
"""Number of rows that tables of markets, books and holdings show."""

TABLE_STYLE = (
    "border-collapse:collapse;border:0;width:auto;margin:0.5em 0;color:inherit;"
    "background:transparent;font-family:ui-monospace,monospace;font-size:13px;"
    "font-variant-numeric:tabular-nums"
)
"""Style of a table, overriding the notebook's style sheet."""

CAPTION_STYLE = (
    "caption-side:top;text-align:left;color:inherit;opacity:0.75;padding:2px 8px;white-space:nowrap"
)
"""Style of the head line."""

CELL_STYLE = (
    "text-align:right;padding:2px 10px;border:0;color:inherit;min-width:4.5em;white-space:nowrap"
)
"""Style of every cell."""

BARE = ' style="background:transparent;border:0"'
"""Removes the striped background of notebook tables."""


def escape(text: str) -> str:
    """Return text as HTML."""
    from html import escape  # noqa: PLC0415 - loads a large table, for notebooks only

    return escape(text)


def short_name(name: str) -> str:
    """Return a name on one line, without the middle of a long one.

    >>> short_name("a name of more than twenty-four characters")
    'a name of m… characters'
    """
    line = name if name.isprintable() else ascii(name)
    if len(line) <= NAME_LENGTH:
        return line
    half = NAME_LENGTH // 2 - 1
    return f"{line[:half]}…{line[-half:]}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "order"), counted(1_200, "order")
    ('1 order', '1,200 orders')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cell(text: str, style: str = "", tag: str = "td") -> str:
    """Return one cell."""
    return f'<{tag} style="{CELL_STYLE}{style}">{escape(text)}</{tag}>'


def caption(words: Iterable[str]) -> str:
    """Return a head line of words, empty ones left out; ``bdi`` isolates right-to-left text."""
    parts = " · ".join(f"<bdi>{escape(word)}</bdi>" for word in words if word)
    return f'<caption style="{CAPTION_STYLE}">{parts}</caption>'


def table(
    head: Iterable[str], titles: Sequence[str], rows: Iterable[Sequence[str]], *, more: int = 0
) -> str:
    """Return a table.

    Args:
        head: the words of the head line.
        titles: the names of the columns; empty for a table of facts.
        rows: the cells; the first of each row is its heading.
        more: number of rows that are not shown.
    """
    top = "".join(cell(title, _LEFT if not at else "", "th") for at, title in enumerate(titles))
    body = [
        f"<tr{BARE}>{cell(first, _LEFT, 'th')}{''.join(map(cell, others))}</tr>"
        for first, *others in rows
    ]
    if more:
        body.append(f"<tr{BARE}>{cell(f'… {more:,} more', _LEFT)}</tr>")
    thead = f"<thead><tr{BARE}>{top}</tr></thead>" if titles else ""
    return (
        f'<table style="{TABLE_STYLE}">{caption(head)}{thead}<tbody>{"".join(body)}</tbody></table>'
    )


_LEFT = ";text-align:left;font-weight:normal"


def cents(price: int | None) -> str:
    """Return a price in cents; ``-`` where there is none."""
    return "-" if price is None else f"{price} ¢"
