"""Writes a page that compares the runs of a sweep: a table, their profit over time, heat maps."""

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from importlib import resources
from itertools import combinations, starmap
from pathlib import Path
from typing import Any, NamedTuple

from clob.replay.report.formats import (
    amount,
    change,
    cut,
    decimal,
    duration,
    moment,
    number,
    percent,
)
from clob.replay.report.lines import (
    HEIGHT,
    Columns,
    Scale,
    Span,
    grid,
    level,
    line,
    multiples,
    round_step,
    scale_of,
    time_marks,
)
from clob.replay.report.page import document
from clob.replay.report.sections import tile
from clob.replay.report.tags import Markup, tag, together
from clob.replay.sweeps.grid import text_of
from clob.replay.sweeps.plan import SweepPlan
from clob.replay.sweeps.rows import (
    CURVE_COLUMNS,
    DONE,
    FIGURES,
    RATIO_FIGURES,
    WEI_FIGURES,
    SweepRow,
)

WEB = resources.files("clob.replay.sweeps") / "web"
"""The directory of the style sheet and the script of this page."""

ROWS_MAX = 2_000
"""Rows of the table; runs with the highest profit and failed ones come first."""

CURVES_MAX = 60
"""Curves of the figure: the best, the worst and others between, evenly by rank."""

HEIGHT_PX, LEVELS = 320, 5
"""Height of the figure in pixels, and horizontal grid lines at most."""

MAPS_MAX = 6
"""Heat maps: one for each pair of parameters with several values."""

CELLS_MAX = 40
"""Values of a parameter of a heat map; a parameter with more has no map."""

NOTEBOOK_ROWS = 10
"""Runs that a notebook shows."""

TITLES = {
    "own_fills": "fills",
    "divergences": "diverging",
    "volume": "lots filled",
    "total_return": "return",
    "hit_rate": "hit rate",
    "fill_ratio": "fill ratio",
}
"""Names of figures as headings, where they differ."""


class ComparedRuns(NamedTuple):
    """The input of a page."""

    plan: SweepPlan
    """The strategy and its settings."""
    recording: str
    """Name of the stream."""
    digest: str
    """Hash of the stream."""
    rows: Sequence[SweepRow]
    """The runs, in order of the grid."""
    total: int
    """Number of all runs of the grid."""

    @property
    def failed(self) -> list[SweepRow]:
        """The runs that ended with an error."""
        return [row for row in self.rows if row.state != DONE]

    @property
    def strategy(self) -> str:
        """Name of the strategy without its module."""
        return self.plan.name.rpartition(":")[2]


def write_page(
    result: ComparedRuns, path: str | os.PathLike[str], *, title: str | None = None
) -> None:
    """Write the runs of a sweep as one HTML page that needs no network and no other file.

    Equal runs produce equal bytes.

    Args:
        result: the sweep.
        path: the file to write.
        title: the title of the page; None takes the names of strategy and recording.

    Raises:
        OSError: the file cannot be written.
    """
    Path(path).write_text(page(result, title=title), encoding="utf-8")


def page(result: ComparedRuns, *, title: str | None = None) -> str:
    """Return the page that :func:`write_page` writes."""
    name = title or f"{result.strategy} on {result.recording or 'a stream'}"
    done = [row for row in result.rows if row.state == DONE]
    ranked = sorted(done, key=lambda row: (-row.figures["profit"], row.number))
    sections = [("runs", "Runs", _runs(result, ranked))]
    if ranked:
        sections.insert(0, ("profit", "Profit over time", _curves(ranked)))
        maps = _maps(ranked)
        if maps:
            sections.insert(1, ("maps", "Profit by parameters", together(maps)))
    links = (tag("a", label, href=f"#{key}") for key, label, _ in sections)
    body = together(
        [
            tag("a", "To the figures", href="#main", class_="skip"),
            _header(result, name, tag("nav", *links, aria_label="Parts of the page")),
            tag(
                "main",
                _tiles(result, ranked),
                *(tag("section", tag("h2", label), part, id=key) for key, label, part in sections),
                id="main",
            ),
            _footer(result),
            tag("div", id="live", class_="unseen", aria_live="polite"),
        ]
    )
    script, style = ((WEB / file).read_text("utf-8") for file in ("sweep.js", "sweep.css"))
    return document(name, body, script, style=style)


def notebook(result: ComparedRuns) -> str:
    """Return the runs with the highest profit as a small HTML table."""
    done = [row for row in result.rows if row.state == DONE]
    ranked = sorted(done, key=lambda row: (-row.figures["profit"], row.number))[:NOTEBOOK_ROWS]
    names = list(ranked[0].parameters) if ranked else []
    heads = ["run", *names, "seed", "profit", "drawdown", "fills", "digest"]
    body = []
    for row in ranked:
        values = [row.number, *map(text_of, row.parameters.values()), row.seed]
        money = [cut(change(row.figures["profit"])), cut(amount(row.figures["drawdown"]))]
        texts = [*values, *money, number(row.figures["own_fills"]), row.digest[:12]]
        body.append(tag("tr", *(tag("td", text) for text in texts)))
    caption = f"{result.strategy}: best of {number(len(result.rows))} runs"
    if result.failed:
        caption += f", {number(len(result.failed))} failed"
    head = tag("tr", *(tag("th", text) for text in heads))
    return tag("table", tag("caption", caption), head, *body)


def _header(result: ComparedRuns, name: str, links: Markup) -> Markup:
    runs = f"{number(len(result.rows))} runs"
    if len(result.rows) < result.total:
        runs += f" of {number(result.total)}"
    mood, label = ("bad", f"{len(result.failed)} failed") if result.failed else ("good", "all done")
    facts = [result.plan.name, runs, *starmap(_setting, result.plan.settings.items())]
    return tag(
        "header",
        tag("div", tag("h1", name), tag("span", label, class_=f"badge {mood}"), class_="name"),
        tag("p", " · ".join(facts), class_="faint"),
        links,
    )


def _setting(name: str, value: Any) -> str:
    if name == "every_ns" and value is not None:
        return f"every {duration(value)}"
    if name == "collateral" and value is not None:
        return f"collateral {amount(value)}"
    return f"{name} {value}"


def _footer(result: ComparedRuns) -> Markup:
    return tag(
        "footer",
        tag("p", "Digest of the stream ", tag("code", result.digest, id="digest")),
        tag(
            "p",
            "A run is named by its parameters and its seed; its digest is the fingerprint of all "
            "its tables. Amounts are in collateral. The best of many runs on one stream is partly "
            "chance: test it on a stream that did not choose it.",
        ),
    )


def _tiles(result: ComparedRuns, ranked: Sequence[SweepRow]) -> Markup:
    tiles = [tile("runs", "Runs", number(len(result.rows)), f"{number(len(result.failed))} failed")]
    if ranked:
        for key, label, row in (
            ("best", "Best profit", ranked[0]),
            ("median", "Median profit", ranked[len(ranked) // 2]),
            ("worst", "Worst profit", ranked[-1]),
        ):
            profit = row.figures["profit"]
            mood = "good" if profit > 0 else "bad" if profit < 0 else ""
            tiles.append(tile(key, label, change(profit), _point(row), mood))
        gains = sum(row.figures["profit"] > 0 for row in ranked)
        share = percent(gains, len(ranked))
        tiles.append(tile("gains", "Runs with a profit", share, f"{number(gains)} runs"))
    return tag("dl", *tiles, class_="tiles")


def _point(row: SweepRow) -> str:
    """Name a run by its parameters and seed."""
    parameters = ", ".join(f"{name} {text_of(value)}" for name, value in row.parameters.items())
    return f"run {row.number}: {parameters}" if parameters else f"run {row.number}"


# ----- the table -----------------------------------------------------------------------------


def _runs(result: ComparedRuns, ranked: Sequence[SweepRow]) -> Markup:
    """Write a row for each run, best profit first; the script sorts them by other columns."""
    rows = [*ranked, *result.failed][:ROWS_MAX]
    names = list(rows[0].parameters) if rows else []
    heads = ["run", *names, "seed", *(TITLES.get(one, one) for one in FIGURES), "digest"]
    head = tag("thead", tag("tr", *(_head(label, label == "profit") for label in heads)))
    table = tag("table", head, tag("tbody", *map(_row, rows)), id="table")
    parts = [tag("p", "Select a heading to sort, or a run to mark its curve.", class_="faint")]
    if len(result.rows) > len(rows):
        text = f"The {number(len(rows))} best of {number(len(result.rows))} runs are shown."
        parts.append(tag("p", text, class_="faint"))
    return together([*parts, tag("div", table, class_="wide")])


def _head(label: str, is_sorted: bool) -> Markup:
    button = tag("button", label, type="button")
    order = "descending" if is_sorted else "none"
    return tag("th", button, scope="col", class_="number", aria_sort=order)


def _row(row: SweepRow) -> Markup:
    cells = [tag("th", number(row.number), scope="row", class_="number", data_sort=row.number)]
    cells += [_cell(text_of(value), value) for value in row.parameters.values()]
    cells.append(_cell(text_of(row.seed), row.seed))
    if row.state == DONE:
        cells += [_cell(_figure(row, name), row.figures[name]) for name in FIGURES]
        cells.append(tag("td", tag("code", row.digest[:12]), title=row.digest))
    else:
        error = tag("span", f"{row.state}: {row.error}", class_="bad")
        cells.append(tag("td", error, colspan=len(FIGURES) + 1))
    return tag("tr", *cells, data_run=row.number, tabindex=0)


def _figure(row: SweepRow, name: str) -> Markup:
    value = row.figures[name]
    if name in RATIO_FIGURES:
        return Markup(decimal(value))
    if name not in WEI_FIGURES:
        return Markup(number(value))
    written = change(value) if name in ("profit", "realised") else amount(value)
    return tag("span", cut(written), title=written)


def _cell(content: object, value: Any) -> Markup:
    """Write a cell with the value that it is sorted by."""
    return tag("td", content, class_="number", data_sort=text_of(value))


# ----- curves --------------------------------------------------------------------------------


def _curves(ranked: Sequence[SweepRow]) -> Markup:
    """Draw the profit of the best, the worst and other runs over each other."""
    drawn = [row for row in spread(ranked, CURVES_MAX) if row.curve]
    if not drawn:
        return tag("p", "No run had a strategy with equity.", class_="faint")
    span = Span(*drawn[0].span, CURVE_COLUMNS)
    values = [profit for row in drawn for profit in row.curve]
    scale = scale_of(min(values), max(values), zero=True)
    named = {drawn[-1].number: "worst", drawn[len(drawn) // 2].number: "median"}
    named[drawn[0].number] = "best"
    paths = [
        tag(
            "g",
            line(_columns(row), scale, f"curve {named.get(row.number, 'other')}"),
            data_run=row.number,
        )
        for row in reversed(drawn)
    ]
    keys = [
        tag(
            "li", tag("i", class_=f"key {named[row.number]}"), f"{named[row.number]}, {_point(row)}"
        )
        for row in drawn
        if row.number in named
    ]
    data = {
        "times": [moment(ns, 0) for ns in span.begins()[:-1]],
        "runs": [
            {
                "run": row.number,
                "name": named.get(row.number),
                "texts": [change(one) for one in row.curve],
            }
            for row in drawn
        ],
    }
    inside = [
        tag("figcaption", tag("h3", "Profit"), tag("ul", *keys, class_="legend")),
        _field(span, scale, paths, _summary(drawn)),
    ]
    if len(drawn) < len(ranked):
        note = f"{number(len(drawn))} of {number(len(ranked))} runs, evenly by rank."
        inside.append(tag("p", note, class_="faint note"))
    # Escaped, so that no text can end the element.
    written = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    inside.append(tag("script", Markup(written), type="application/json"))
    label = "Profit. Left and right arrow keys read the values."
    attributes = {"class_": "plot", "tabindex": 0, "role": "group", "aria_label": label}
    return tag("figure", *inside, id="curves", **attributes)


def _summary(drawn: Sequence[SweepRow]) -> str:
    best, worst = drawn[0].figures["profit"], drawn[-1].figures["profit"]
    return f"{len(drawn)} runs; profit from {change(worst)} to {change(best)}."


def _field(span: Span, scale: Scale, paths: list[Markup], summary: str) -> Markup:
    """Write the drawing with its axes."""
    width = 2 * span.columns
    step = round_step(max(scale.high - scale.low, 1), LEVELS)
    levels = {value: scale.y(value) * 10_000 // HEIGHT for value in multiples(*scale, step)}
    times = time_marks(span)
    drawing = tag(
        "svg",
        grid(levels.values(), [mark.place for mark in times], width),
        level(scale.y(0), width),
        *paths,
        viewBox=f"0 0 {width} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"Profit over time. {summary}",
    )
    labels = [tag("span", change(value), style=_at("top", y)) for value, y in levels.items()]
    below = [tag("span", mark.label, style=_at("left", mark.place)) for mark in times]
    panel = tag(
        "div",
        tag("div", "profit, in collateral", class_="unit", aria_hidden="true"),
        tag("div", *labels, class_="levels", aria_hidden="true"),
        tag("div", drawing, tag("div", class_="cursor"), class_="field"),
        class_="panel",
        style=f"height:{HEIGHT_PX}px",
    )
    return together([panel, tag("div", *below, class_="times", aria_hidden="true")])


def _at(edge: str, place: int) -> str:
    """Place a label at ten-thousandths of the width or the height."""
    return f"{edge}:{place // 100}.{place % 100:02d}%"


def _columns(row: SweepRow) -> Columns:
    values: list[int | None] = list(row.curve)
    return Columns(values, values, values)


def spread(ranked: Sequence[SweepRow], most: int) -> list[SweepRow]:
    """Choose rows evenly, the first and the last included."""
    if len(ranked) <= most:
        return list(ranked)
    return [ranked[place * (len(ranked) - 1) // (most - 1)] for place in range(most)]


# ----- heat maps -----------------------------------------------------------------------------


def _maps(ranked: Sequence[SweepRow]) -> list[Markup]:
    """Write a heat map for each pair of parameters with several values."""
    values = {
        name: axis_of([row.parameters[name] for row in ranked]) for name in ranked[0].parameters
    }
    axes = {name: axis for name, axis in values.items() if 1 < len(axis) <= CELLS_MAX}
    pairs = list(combinations(axes, 2))[:MAPS_MAX]
    return [_map(ranked, *pair, axes) for pair in pairs]


def axis_of(values: Sequence[Any]) -> list[Any]:
    """Return the different values of a parameter: numbers in order, others as they occur.

    >>> axis_of([3, 1, 2.5, 1]), axis_of(["b", "a", "b"])
    ([1, 2.5, 3], ['b', 'a'])
    """
    found = list({text_of(value): value for value in values}.values())
    if all(type(value) in (int, float) for value in found):
        return sorted(found)
    return found


def _map(ranked: Sequence[SweepRow], down: str, across: str, axes: dict[str, list[Any]]) -> Markup:
    """Write the mean profit by two parameters as a table of coloured cells."""
    profits: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in ranked:
        place = text_of(row.parameters[down]), text_of(row.parameters[across])
        profits[place].append(row.figures["profit"])
    means = {place: sum(some) // len(some) for place, some in profits.items()}
    most = max(map(abs, means.values())) or 1
    head = [tag("th", text_of(value), scope="col", class_="number") for value in axes[across]]
    corner = tag("td", f"{down} down, {across} across", class_="faint")
    body = []
    for value in axes[down]:
        cells = []
        for other in axes[across]:
            place = text_of(value), text_of(other)
            runs = len(profits.get(place, ()))
            cells.append(_heat(means.get(place), most, runs))
        body.append(tag("tr", tag("th", text_of(value), scope="row", class_="number"), *cells))
    several = max(map(len, profits.values())) > 1
    words = "Mean profit of the runs" if several else "Profit of the run"
    text = f"{words} of each cell, in collateral."
    table = tag("table", tag("thead", tag("tr", corner, *head)), tag("tbody", *body), class_="map")
    return tag(
        "figure",
        tag(
            "figcaption", tag("h3", f"{down} and {across}"), tag("span", text, class_="faint note")
        ),
        tag("div", table, class_="wide"),
    )


def _heat(mean: int | None, most: int, runs: int) -> Markup:
    if mean is None:
        return tag("td", "-", class_="number faint")
    share = abs(mean) * 70 // most
    colour = "--good" if mean >= 0 else "--bad"
    style = f"background:color-mix(in srgb, var({colour}) {share}%, transparent)"
    title = f"{change(mean)}, {number(runs)} runs"
    return tag("td", cut(change(mean), 5), class_="number", style=style, title=title)
