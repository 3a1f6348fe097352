"""Builds a figure: stacked panels over one time axis, each with its own scale.

Drawings are stretched to the width of the page; labels are placed beside them as text.
"""

import base64
import dataclasses
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from clob.replay.report import lines as strokes
from clob.replay.report.formats import amount, change, has_date, number
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


class Unit(NamedTuple):
    """The unit of the values of a panel."""

    kind: str
    """``number``; ``amount`` in wei; or ``price``, with a text for each tick."""
    write: Callable[[int], str]
    """Formats a value; the text of a price outside the ladder is empty."""


NUMBER = Unit("number", number)
AMOUNT = Unit("amount", amount)
CHANGE = Unit("amount", change)


class Series(NamedTuple):
    """A value over time in fine columns; ``colour`` is a CSS class."""

    colour: str
    label: str
    columns: Columns
    adds: bool
    """Whether wider columns have the sum of the values, as for volumes."""


@dataclasses.dataclass
class Panel:
    """One drawing over the time axis.

    Layers are drawn here once, for the whole range, and written as data, from which the script of
    the page draws shorter ranges.
    """

    title: str
    """The value shown and its unit."""
    height_px: int
    scale: Scale
    unit: Unit
    span: Span
    summary: str = ""
    """Alternative text for screen readers."""
    layers: list[Markup] = dataclasses.field(default_factory=list)
    """The drawings, from back to front."""
    plan: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """The data of the drawings, likewise."""
    keys: list[LegendEntry] = dataclasses.field(default_factory=list)
    """The legend."""
    series: list[Series] = dataclasses.field(default_factory=list)
    """The values."""
    wide: list[Columns] = dataclasses.field(default_factory=list)
    """The values of each series in the columns of the drawing."""
    image: Markup | None = None
    """A background image; the scale is then the same for all ranges."""
    zero: bool = False
    """Whether the scale of each range includes 0."""
    factor: int = 1
    """The units of the scale in one displayed unit: 2 if it counts halves."""

    def add_level(self, value: int) -> None:
        """Draw a reference line."""
        self.layers.append(strokes.level(self.scale.y(value), 2 * self.span.columns))
        self.plan.append({"level": value})

    def add_series(self, colour: str, label: str, fine: Columns, *, adds: bool = False) -> int:
        """Add values for readers who point at the panel, and return the number of the series."""
        self.series.append(Series(colour, label, fine, adds))
        detail = self.span.detail
        columns = strokes.coarsen(fine, detail)
        if adds:
            parts = (fine.last[at : at + detail] for at in range(0, len(fine.last), detail))
            sums: list[int | None] = [sum(one or 0 for one in part) for part in parts]
            columns = Columns(sums, sums, sums)
        self.wide.append(columns)
        return len(self.series) - 1

    def add_line(self, colour: str, label: str, fine: Columns) -> int:
        """Draw a line, with its legend entry and description; return the number of its series."""
        series = self.add_series(colour, label, fine)
        self.layers.append(strokes.line(self.wide[series], self.scale, colour))
        self.plan.append({"line": series})
        self.keys.append(LegendEntry(colour, label))
        described = summary_of(label, self.wide[series], self.unit.write)
        self.summary = f"{self.summary} {described}".strip()
        return series

    def add_band(self, colour: str, lower: int | None, upper: int, part: str = "last") -> None:
        """Fill between two series, behind all layers.

        Args:
            colour: the CSS class.
            lower: the number of a series; None is zero.
            upper: the number of a series.
            part: the value of each column: ``low``, ``high`` or ``last``.
        """
        below, above = (
            [0] * self.span.columns if one is None else getattr(self.wide[one], part)
            for one in (lower, upper)
        )
        self.layers.insert(0, strokes.band(below, above, self.scale, colour))
        self.plan.insert(0, {"band": [lower, upper], "part": part, "colour": colour})

    def marks(self) -> list[Mark]:
        """Choose grid lines at round values."""
        part = self.factor
        low, high = -(-self.scale.low // part), self.scale.high // part
        most = LEVELS if self.height_px >= TALL_PX else LEVELS_LOW
        step = round_step(max(high - low, 1), most)
        labelled = ((value, self.unit.write(value)) for value in multiples(low, high, step))
        return [
            Mark(self.scale.y(value * part) * 10_000 // HEIGHT, label)
            for value, label in labelled
            if label
        ]

    def data(self) -> dict[str, Any]:
        """Return the panel as the script of the page reads it."""
        values = [*self.scale, *(one["level"] for one in self.plan if "level" in one)]
        values += [one for series in self.series for one in _known(series.columns)]
        unit = unit_of(values) if self.unit.kind == "amount" else 1
        series = [
            {"colour": one.colour, "label": one.label, "adds": one.adds} | encode(one.columns, unit)
            for one in self.series
        ]
        levels = ({"level": one["level"] // unit} if "level" in one else {} for one in self.plan)
        return {
            "kind": self.unit.kind,
            "unit": str(unit),
            "factor": self.factor,
            "low": self.scale.low // unit,
            "high": -(-self.scale.high // unit),
            "zero": self.zero,
            "fixed": self.image is not None,
            "series": series,
            "layers": [one | level for one, level in zip(self.plan, levels, strict=True)],
        }


SAFE_MAX = 2**53 - 1
"""The largest integer of a script."""


def unit_of(values: Iterable[int]) -> int:
    """Return the largest unit in which values are whole; a larger one if they would be too large.

    >>> unit_of([6 * 10**18, 9 * 10**18]) == 3 * 10**18, unit_of([10**18, 10**18 + 1])
    (True, 1000)
    """
    unit, largest = 0, 0
    for value in values:
        unit, largest = math.gcd(unit, value), max(largest, abs(value))
    unit = unit or 1
    if largest // unit > SAFE_MAX:
        unit = 1
        while largest // unit > SAFE_MAX:
            unit *= 10
    return unit


def _known(columns: Columns) -> Iterator[int]:
    """Return all values."""
    return (one for values in columns for one in values if one is not None)


def encode(columns: Columns, unit: int) -> dict[str, list[int | None]]:
    """Return columns as differences, most of them 0, in units, rounded down.

    The last value counts from the one before it; the lowest from the lower, the highest from the
    higher of the two.
    """
    low, high, last = ([None if one is None else one // unit for one in part] for part in columns)
    base, lows, highs, lasts = 0, [], [], []
    for bottom, top, end in zip(low, high, last, strict=True):
        held = base if end is None else end
        lasts.append(None if end is None else end - base)
        lows.append(None if bottom is None else bottom - min(base, held))
        highs.append(None if top is None else top - max(base, held))
        base = held
    return {"low": lows, "high": highs, "last": lasts}


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

    The data are compressed JSON, which the script reads after the page is shown.
    """
    times = time_marks(span)
    keys = [key for panel in panels for key in panel.keys]
    inside = [tag("figcaption", tag("h3", title), _legend(keys))]
    inside += [_panel(panel, span, times) for panel in panels]
    labels = [tag("span", mark.label, style=f"left:{_share(mark.place)}") for mark in times]
    inside.append(tag("div", *labels, class_="times", aria_hidden="true"))
    if note:
        inside.append(tag("p", note, class_="faint note"))
    inside.append(_data(span, panels, more or {}))
    label = f"{title}. Left and right arrow keys read the values, plus and minus zoom."
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
        tag("div", class_="readout", aria_hidden="true"),
        tag("div", *labels, class_="levels", aria_hidden="true"),
        field,
        class_="panel",
        style=f"height:{panel.height_px}px",
    )


def _share(place: int) -> str:
    """Write ten-thousandths as a percentage for a style."""
    return f"{place // 100}.{place % 100:02d}%"


def _data(span: Span, panels: list[Panel], more: Mapping[str, Any]) -> Markup:
    """Write the values of a figure for the script of the page."""
    whole = {
        "start": str(span.start_ns),
        "width": str(span.width_ns),
        "count": span.columns,
        "detail": span.detail,
        "dated": has_date(span.start_ns),
        "panels": [panel.data() for panel in panels],
        **more,
    }
    written = json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
    packed = base64.b64encode(zlib.compress(written, 9)).decode()
    return tag("script", Markup(packed), type="text/plain")
