"""What is drawn inside a figure, as paths of SVG with whole numbers only.

A figure of some columns is twice as many units wide, so that a column has a middle.
"""

from collections.abc import Iterable, Sequence

from clob.replay.report.axes import HEIGHT, Scale
from clob.replay.report.columns import Columns
from clob.replay.report.tags import Markup, tag

ROW = HEIGHT // 200
"""How high the cells are that dots are thinned by, for each column they are wide."""


def line(columns: Columns, scale: Scale, colour: str) -> Markup:
    """Draw a value in steps; where it had several in a column, from the lowest to the highest.

    Args:
        columns: what to draw.
        scale: what the height stands for.
        colour: the class of its colour.
    """
    return tag("path", class_=f"line {colour}", d=steps(columns, scale))


def steps(columns: Columns, scale: Scale) -> str:
    """Write the path of a line, with gaps where there is no value."""
    told: list[str] = []
    pen: int | None = None
    x = 0
    for column, (low, high, last) in enumerate(zip(*columns, strict=True)):
        x = 2 * column + 1
        if low is None or high is None:
            if pen is not None:
                told.append(f"H{x - 1}")
            pen = None
            continue
        bottom, top = scale.y(low), scale.y(high)
        end = (bottom + top) // 2 if last is None else scale.y(last)
        if pen is None:
            told.append(f"M{x - 1} {end}")
        elif bottom == top == pen:
            continue
        told.append(f"H{x}" + "".join(f"V{y}" for y in _turns(pen, bottom, top, end)))
        pen = None if last is None else end
    return "".join(told) + (f"H{x + 1}" if pen is not None else "")


def _turns(pen: int | None, bottom: int, top: int, end: int) -> list[int]:
    """List the heights to go to in a column, the nearer extreme first, none for nothing."""
    turns: list[int] = []
    for y in sorted((bottom, top), key=lambda y: abs(y - (end if pen is None else pen))):
        if y != (turns[-1] if turns else pen):
            turns.append(y)
    return turns if turns and turns[-1] == end else [*turns, end]


def area(values: Sequence[int | None], scale: Scale, base: int, colour: str) -> Markup:
    """Fill what is between a value for each column and a base.

    Args:
        values: one for each column; nothing is filled where it is None.
        scale: what the height stands for.
        base: the value it is filled from.
        colour: the class of its colour.
    """
    ground = scale.y(base)
    path = "".join(
        f"M{2 * column} {ground}V{y}h2V{ground}"
        for column, y in ((at, scale.y(value)) for at, value in enumerate(values) if value)
        if y != ground
    )
    return tag("path", class_=f"fill {colour}", d=path)


def band(lower: Columns, upper: Columns, scale: Scale, colour: str) -> Markup:
    """Fill what is between the last values of two lines.

    Args:
        lower: the one below.
        upper: the one above.
        scale: what the height stands for.
        colour: the class of its colour.
    """
    path = "".join(
        f"M{2 * column} {scale.y(below)}V{scale.y(above)}h2V{scale.y(below)}"
        for column, (below, above) in enumerate(zip(lower.last, upper.last, strict=True))
        if below is not None and above is not None
    )
    return tag("path", class_=f"fill {colour}", d=path)


def thin(places: Iterable[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Leave out dots next to others until there are few enough to draw.

    Args:
        places: column and height in units of the drawing.
        most: how many there may be, 1 or more.

    Returns:
        The first of those places in each cell of a grid, the finest one that will do.
    """
    found = sorted(set(places))
    cell = 1
    while len(found) > most:
        cell *= 2
        kept: dict[tuple[int, int], tuple[int, int]] = {}
        for column, y in found:
            # No height is below this, so that in the end all lie in one cell.
            kept.setdefault((column // cell, (y + HEIGHT) // (ROW * cell)), (column, y))
        found = list(kept.values())
    return found


def dots(places: Iterable[tuple[int, int]], colour: str) -> Markup:
    """Draw round dots; their size is that of the stroke, however wide the page is.

    Args:
        places: column and height in units of the drawing; equal ones are drawn once.
        colour: the class of their colour and size.
    """
    path = "".join(f"M{2 * column + 1} {y}h0" for column, y in sorted(set(places)))
    return tag("path", class_=f"dots {colour}", d=path)


def grid(heights: Iterable[int], places: Iterable[int], width: int) -> Markup:
    """Draw the lines of the grid.

    Args:
        heights: of the horizontal ones, in ten-thousandths from the top.
        places: of the vertical ones, in ten-thousandths from the left.
        width: how wide the drawing is, in its units.
    """
    path = "".join(f"M0 {y}H{width}" for y in heights)
    path += "".join(f"M{place * width // 10_000} 0V{HEIGHT}" for place in places)
    return tag("path", class_="grid", d=path)


def level(y: int, width: int) -> Markup:
    """Draw a level line across, as that of the beginning.

    Args:
        y: its height, in units of the drawing.
        width: how wide the drawing is.
    """
    return tag("path", class_="level", d=f"M0 {y}H{width}")
