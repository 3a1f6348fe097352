"""Builds a figure: stacked panels over one time axis, each with its own scale.

Drawings are stretched to the width of the page; labels are placed beside them as text.
"""

import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from clob.replay.report import lines as strokes
from clob.replay.report.formats import has_date
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
from clob.replay.report.tags import Markup, tag

LEVELS = 5
"""Maximum number of horizontal grid lines of a tall panel."""

LEVELS_LOW = 3
"""Maximum number of horizontal grid lines of a low panel."""

TALL_PX = 120
"""Minimum height of a tall panel."""


class LegendEntry(NamedTuple):
    """An entry of the legend; ``colour`` is a CSS class."""

    colour: str
    label: str
    shape: str = "stroke"
    """``stroke``, ``block``, ``dot`` or ``ring``."""


class Tooltip(NamedTuple):
    """The text of each column in its tooltip; ``colour`` is a CSS class."""

    colour: str
    label: str
    texts: list[str | None]


@dataclasses.dataclass
class Panel:
    """One drawing over the time axis."""

    title: str
    """The value shown and its unit."""
    height_px: int
    scale: Scale
    write: Callable[[int], str]
    """Formats a value of the scale."""
    summary: str
    """Alternative text for screen readers."""
    layers: list[Markup] = dataclasses.field(default_factory=list)
    """The drawings, from back to front."""
    keys: list[LegendEntry] = dataclasses.field(default_factory=list)
    """The legend."""
    tooltips: list[Tooltip] = dataclasses.field(default_factory=list)
    image: Markup | None = None
    """A background image."""
    twofold: bool = False
    """Whether the scale counts halves of the displayed unit."""

    def marks(self) -> list[Mark]:
        """Choose grid lines at round values."""
        part = 2 if self.twofold else 1
        low, high = -(-self.scale.low // part), self.scale.high // part
        most = LEVELS if self.height_px >= TALL_PX else LEVELS_LOW
        step = round_step(max(high - low, 1), most)
        return [
            Mark(self.scale.y(value * part) * 10_000 // HEIGHT, self.write(value))
            for value in multiples(low, high, step)
        ]


def texts_of(columns: Columns, write: Callable[[int], str]) -> list[str | None]:
    """Format the values of each column: the last one, and the range if there are several."""
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
    """Describe a line in words."""
    bounds = columns.bounds()
    if bounds is None:
        return f"{label}: no values."
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
    """Write a figure of panels, from the top, over one time axis.

    Args:
        name: the id of the figure in the page.
        title: the heading.
        span: the time axis.
        panels: the panels.
        note: a text below the figure.
        more: further data for the script of the page.
    """
    times = time_marks(span)
    keys = [key for panel in panels for key in panel.keys]
    inside = [tag("figcaption", tag("h3", title), _legend(keys))]
    inside += [_panel(panel, span, times) for panel in panels]
    labels = [tag("span", mark.label, style=f"left:{_share(mark.place)}") for mark in times]
    inside.append(tag("div", *labels, class_="times", aria_hidden="true"))
    if note:
        inside.append(tag("p", note, class_="faint note"))
    tooltips = [one for panel in panels for one in panel.tooltips]
    inside.append(_data(span, tooltips, more or {}))
    label = f"{title}. Left and right arrow keys read the values."
    attributes = {"class_": "plot", "tabindex": 0, "role": "group", "aria_label": label}
    return tag("figure", *inside, id=name, **attributes)


def _legend(keys: list[LegendEntry]) -> Markup:
    entries = (
        tag("li", tag("i", class_=f"key {key.shape} {key.colour}"), key.label) for key in keys
    )
    return tag("ul", *entries, class_="legend") if keys else Markup("")


def _panel(panel: Panel, span: Span, times: list[Mark]) -> Markup:
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


def _data(span: Span, tooltips: list[Tooltip], more: Mapping[str, Any]) -> Markup:
    """Write the data that the script of the page needs for tooltips.

    A text equal to the one before is written as 0.
    """
    lines = []
    for one in tooltips:
        pairs = itertools.pairwise(["", *one.texts])
        texts = [0 if text == before else text for before, text in pairs]
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
    # Escaped, so that no text can end the element.
    return tag("script", Markup(written.replace("<", "\\u003c")), type="application/json")
