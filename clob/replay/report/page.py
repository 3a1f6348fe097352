"""Writes a run as a self-contained HTML page, and as a small table for notebooks."""

import base64
import hashlib
import os
import re
from importlib import resources
from pathlib import Path

from clob.replay.report.formats import amount, change, date, duration, moment, number
from clob.replay.report.lines import HEIGHT, Span, reduce_steps, scale_of, steps
from clob.replay.report.run import ReportedRun
from clob.replay.report.sections import (
    DETAIL,
    book_sections,
    check_section,
    drawn_flows,
    orders_section,
    queue_section,
    result_section,
    status,
    tiles,
    unit_of_prices,
)
from clob.replay.report.summary import Flow, Money, OwnOrders, flows, money_of, own_orders, ranks
from clob.replay.report.tables import markets_table
from clob.replay.report.tags import Markup, tag, together

WEB = resources.files("clob.replay.report") / "web"
"""The directory of the style sheet and the script of reports."""
SHARED = resources.files("clob") / "web"
"""The directory of the style sheet and the module of figures, shared with the server's pages."""
_IMPORT = re.compile(r'^import .*? from "\./\w+\.js";\n', re.MULTILINE | re.DOTALL)
"""The imports of the scripts; a page has one script with all modules."""


def write_report(
    result: ReportedRun, path: str | os.PathLike[str], *, title: str | None = None
) -> None:
    """Write a run as one HTML page.

    The page needs no network and no other file, and is below two megabytes for any length of run:
    figures show the exact lowest and highest value of each of some hundred columns, and of sixteen
    times as many where a reader zooms in; tables are exact. Equal runs produce equal bytes.

    Args:
        result: the run. The depth over time needs ``sample``; prices and trades are shown if they
            were kept.
        path: the file to write.
        title: the title of the page; None takes the name of the recording.

    Raises:
        OSError: the file cannot be written.
    """
    Path(path).write_text(page(result, title=title), encoding="utf-8")


def page(result: ReportedRun, *, title: str | None = None) -> str:
    """Return the page that :func:`write_report` writes.

    Args:
        result: the run.
        title: the title of the page; None takes the name of the recording.
    """
    name = title or result.name or "replay"
    money, orders, parts = money_of(result), own_orders(result), flows(result)
    body = _body(result, name, money, orders, parts)
    return document(name, body, _own("series.js") + _own("report.js"))


def document(title: str, body: Markup, script: str, *, style: str = "") -> str:
    """Return a self-contained page with the style of reports.

    Args:
        title: the title of the page.
        body: the elements of the page.
        script: a script that may import from ``plot.js``.
        style: more style.
    """
    script = _IMPORT.sub("", _shared("plot.js") + script)
    style = _shared("plot.css") + _own("report.css") + style
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{script_hash}'; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    body = tag("body", body, tag("script", Markup(script), type="module"))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _shared(name: str) -> str:
    """Return a file that the pages of the server use as well."""
    return (SHARED / name).read_text("utf-8")


def _own(name: str) -> str:
    """Return a file of the report."""
    return (WEB / name).read_text("utf-8")


def _body(
    result: ReportedRun, name: str, money: Money | None, orders: OwnOrders, parts: list[Flow]
) -> Markup:
    drawn = drawn_flows(parts)
    sections: list[tuple[str, str, Markup]] = []
    if money is not None:
        sections.append(("result", "Result", result_section(result, money)))
    if len(parts) > 1:
        numbers = [flow.instrument.number for flow in drawn]
        price = unit_of_prices(result).write
        table = markets_table(result, parts, numbers, price)
        sections.append(("all-books", "Books", table))
    sections += book_sections(result, parts, drawn)
    if money is not None:
        sections.append(("queue", "Queue", queue_section(orders, ranks(orders))))
        sections.append(("own-orders", "Orders", orders_section(result, orders)))
    sections.append(("history", "Against history", check_section(result)))
    links = (tag("a", label, href=f"#{key}") for key, label, _ in sections)
    return together(
        [
            tag("a", "To the figures", href="#main", class_="skip"),
            _header(result, name, tag("nav", *links, aria_label="Parts of the page")),
            tag(
                "main",
                tiles(result, money, orders, parts),
                *(_section(*section) for section in sections),
                id="main",
            ),
            _footer(result),
            tag("div", id="live", class_="unseen", aria_live="polite"),
        ]
    )


def _section(key: str, label: str, content: Markup) -> Markup:
    """Write a section; a folded book shows its own heading."""
    folded = content.startswith("<details")
    return tag("section", "" if folded else tag("h2", label), content, id=key)


def _header(result: ReportedRun, name: str, links: Markup) -> Markup:
    setting = result.setting
    start, last = setting.start_ns, setting.last_ns
    # The date of the end is omitted if it is that of the start.
    ending = moment(last, 0).removeprefix(f"{date(start)} ")
    prices = unit_of_prices(result)
    kind = "(odds)" if setting.labels else "ticks"
    facts = [
        result.mode,
        f"{number(result.events)} events in {duration(last - start)}",
        f"{moment(start, 0)} to {ending}",
        f"prices {prices.write(setting.lo)} to {prices.write(setting.hi)} {kind}",
    ]
    return tag(
        "header",
        tag("div", tag("h1", name), status(result), class_="name"),
        tag("p", " · ".join(facts), class_="faint"),
        tag("p", setting.note, class_="faint") if setting.note else Markup(""),
        links,
    )


def _footer(result: ReportedRun) -> Markup:
    """Write the digest, the problems of the input and how to read the page."""
    kind = "as odds" if result.setting.labels else "in ticks"
    problems = ", ".join(f"{number(n)} {kind}" for kind, n in result.setting.problems.items())
    return tag(
        "footer",
        tag("p", "Digest ", tag("code", result.digest, id="digest")),
        tag("p", f"Problems of the input: {problems or 'none'}."),
        tag(
            "p",
            "Figures show the exact lowest, highest and last value of each column of time, of "
            f"{DETAIL} finer ones where they are enlarged; tables are exact. One dot may stand for "
            "several own fills that are close together. Amounts are in collateral and whole "
            f"tokens, prices {kind}, sizes in lots of "
            f"{number(result.setting.lot_wei)} wei. Times are UTC as recorded.",
        ),
    )


COLUMNS = 240
"""The number of columns of the notebook figure."""


def notebook(result: ReportedRun) -> str:
    """Return a run as a small HTML table, with a line of its wealth if it had a strategy."""
    money = money_of(result)
    rows = [
        ("events", number(result.events)),
        ("trades", number(result.counts["fills"])),
        ("check", str(result.check) if result.check else "nothing recorded"),
        *((kind, number(count)) for kind, count in result.divergence.counts.items()),
    ]
    if money is not None:
        rows += [
            ("profit", change(money.profit)),
            ("realised", change(money.realised)),
            ("fees", amount(money.fees)),
            ("fee schedule", result.fees),
            ("largest drawdown", amount(money.drawdown)),
            ("own orders", number(len(result.orders))),
            ("own fills", number(len(result.own_fills))),
        ]
    rows.append(("digest", result.digest[:16]))
    cells = (tag("tr", tag("th", name), tag("td", value)) for name, value in rows)
    line = Markup("") if money is None else _line(result, money)
    return tag("div", tag("table", tag("caption", result.name or "replay"), *cells), line)


def _line(result: ReportedRun, money: Money) -> Markup:
    """Draw the wealth in the colour of the surrounding text."""
    start, last = result.setting.start_ns, result.setting.last_ns
    span = Span(start, max(last, start), COLUMNS)
    wealth = reduce_steps(result.equity["ts_ns"], result.equity["wealth"], span)
    scale = scale_of(*(wealth.bounds() or (money.initial, money.initial)))
    stroke = {"stroke": "currentColor", "stroke_width": 1, "vector_effect": "non-scaling-stroke"}
    path = tag("path", d=steps(wealth, scale), fill="none", **stroke)
    return tag(
        "svg",
        path,
        viewBox=f"0 0 {2 * COLUMNS} {HEIGHT}",
        preserveAspectRatio="none",
        style="width:100%;max-width:30rem;height:4rem",
        role="img",
        aria_label=f"wealth, ending at {amount(money.wealth)}",
    )
