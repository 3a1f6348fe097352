"""Puts a figure together: panels above one another over one time axis, each with its own scale.

Drawings are stretched to the width of the page; what is written stands beside them as text.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from clob.replay.report import lines as strokes
from clob.replay.report.lines import (
    HEIGHT,
    Columns,
    Mark,
    Scale,
    Span,
    multiples,
    round_step,
    time_marks,
)
from clob.replay.report.tables import has_date
from clob.replay.report.tags import Markup, tag

LEVELS = 5
"""How many horizontal lines a tall panel has at most."""

LEVELS_LOW = 3
"""How many a low one has."""

TALL_PX = 120
"""From which height on a panel is tall."""


class LegendEntry(NamedTuple):
    """An entry of the legend."""

    colour: str
    """The class of its colour."""
    label: str
    """What it is."""
    shape: str = "stroke"
    """``stroke``, ``block``, ``dot`` or ``ring``."""


class Tooltip(NamedTuple):
    """A value that is told where one points at a column."""

    colour: str
    """The class of its colour."""
    label: str
    """What it is."""
    texts: list[str | None]
    """What to tell at each column."""


@dataclasses.dataclass
class Panel:
    """One drawing over the time axis."""

    title: str
    """What it shows, and in what unit."""
    height_px: int
    """How high it is."""
    scale: Scale
    """What the height stands for."""
    write: Callable[[int], str]
    """How to write a value of the scale."""
    summary: str
    """What is to be seen, for who does not see it."""
    layers: list[Markup] = dataclasses.field(default_factory=list)
    """What is drawn, from the back to the front."""
    keys: list[LegendEntry] = dataclasses.field(default_factory=list)
    """The legend."""
    told: list[Tooltip] = dataclasses.field(default_factory=list)
    """What is told where one points."""
    image: Markup | None = None
    """A picture behind it all."""
    twofold: bool = False
    """Whether the scale counts halves of what is written."""

    def marks(self) -> list[Mark]:
        """Choose the lines of the grid: round values."""
        part = 2 if self.twofold else 1
        low, high = -(-self.scale.low // part), self.scale.high // part
        most = LEVELS if self.height_px >= TALL_PX else LEVELS_LOW
        step = round_step(max(high - low, 1), most)
        return [
            Mark(self.scale.y(value * part) * 10_000 // HEIGHT, self.write(value))
            for value in multiples(low, high, step)
        ]


def texts_of(columns: Columns, write: Callable[[int], str]) -> list[str | None]:
    """Write what each column holds: the last value, and the range where there were several.

    Args:
        columns: the values.
        write: how to write one.
    """
    texts: list[str | None] = []
    for low, high, last in zip(*columns, strict=True):
        if low is None or high is None:
            texts.append(None)
        elif low == high:
            texts.append(write(low))
        else:
            ending = "none" if last is None else write(last)
            texts.append(f"{ending} ({write(low)} to {write(high)})")
    return texts


def summary_of(label: str, columns: Columns, write: Callable[[int], str]) -> str:
    """Say in words what a line does."""
    bounds = columns.bounds()
    if bounds is None:
        return f"{label}: nothing."
    known = [value for value in columns.last if value is not None] or list(bounds)
    return (
        f"{label}: from {write(known[0])} to {write(known[-1])}, "
        f"lowest {write(bounds[0])}, highest {write(bounds[1])}."
    )


def figure(
    name: str,
    title: str,
    span: Span,
    panels: list[Panel],
    *,
    note: str = "",
    more: Mapping[str, Any] | None = None,
) -> Markup:
    """Write a figure.

    Args:
        name: its id in the page.
        title: what it shows.
        span: the time axis.
        panels: the drawings, from the top.
        note: what is to be said below it.
        more: what else the page is told for pointing at it.
    """
    times = time_marks(span)
    keys = [key for panel in panels for key in panel.keys]
    inside = [tag("figcaption", tag("h3", title), _legend(keys))]
    inside += [_panel(panel, span, times) for panel in panels]
    labels = [tag("span", mark.label, style=f"left:{_share(mark.place)}") for mark in times]
    inside.append(tag("div", *labels, class_="times", aria_hidden="true"))
    if note:
        inside.append(tag("p", note, class_="faint note"))
    told = [one for panel in panels for one in panel.told]
    inside.append(_data(span, told, more or {}))
    label = f"{title}. Left and right arrow keys read the values."
    return tag(
        "figure",
        *inside,
        id=name,
        class_="plot",
        tabindex=0,
        role="group",
        aria_label=label,
    )


def _legend(keys: list[LegendEntry]) -> Markup:
    """Write the legend."""
    entries = (
        tag("li", tag("i", class_=f"key {key.shape} {key.colour}"), key.label) for key in keys
    )
    return tag("ul", *entries, class_="legend") if keys else Markup("")


def _panel(panel: Panel, span: Span, times: list[Mark]) -> Markup:
    """Write a drawing and what stands beside it."""
    marks = panel.marks()
    labels = [tag("span", mark.label, style=f"top:{_share(mark.place)}") for mark in marks]
    width = 2 * span.columns
    lines = strokes.grid([mark.place for mark in marks], [mark.place for mark in times], width)
    drawing = tag(
        "svg",
        lines,
        *panel.layers,
        viewBox=f"0 0 {width} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{panel.title}. {panel.summary}",
    )
    field = tag("div", panel.image or "", drawing, tag("div", class_="cursor"), class_="field")
    return tag(
        "div",
        tag("div", panel.title, class_="unit", aria_hidden="true"),
        tag("div", *labels, class_="levels", aria_hidden="true"),
        field,
        class_="panel",
        style=f"height:{panel.height_px}px",
    )


def _share(place: int) -> str:
    """Write ten-thousandths as a percentage for a style."""
    return f"{place // 100}.{place % 100:02d}%"


def _data(span: Span, told: list[Tooltip], more: Mapping[str, Any]) -> Markup:
    """Write what the page needs where one points at a figure.

    A text equal to the one before is left out as 0.
    """
    lines = []
    for one in told:
        before: str | None = ""
        texts: list[str | int | None] = []
        for text in one.texts:
            texts.append(0 if text == before else text)
            before = text
        lines.append({"colour": one.colour, "label": one.label, "texts": texts})
    whole = {
        "start": str(span.start_ns),
        "width": str(span.width_ns),
        "count": span.columns,
        "dated": has_date(span.start_ns),
        "lines": lines,
        **more,
    }
    written = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    # Nothing in it may end the element it stands in.
    return tag("script", Markup(written.replace("<", "\\u003c")), type="application/json")
