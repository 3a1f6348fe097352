"""Writes a run as one page of HTML that needs nothing else: figures, tables, style and script."""

import base64
import hashlib
import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from clob.replay.report.lines import HEIGHT, Span, reduce_steps, scale_of, steps
from clob.replay.report.sections import (
    book_sections,
    check_section,
    drawn_flows,
    orders_section,
    queue_section,
    result_section,
    status,
    tiles,
)
from clob.replay.report.summary import Flow, Money, OwnOrders, flows, money_of, own_orders, ranks
from clob.replay.report.tables import amount, change, date, duration, markets_table, moment, number
from clob.replay.report.tags import Markup, tag, together

if TYPE_CHECKING:
    from clob.replay.results import Backtest


WEB = resources.files("clob.replay.report") / "web"
"""Where style and script are."""


def write_report(
    result: "Backtest", path: str | os.PathLike[str], *, title: str | None = None
) -> None:
    """Write a run as one page of HTML.

    The page needs no network and no other file. It has no more than two megabytes, however long
    the run was: lines show the exact lowest and highest value of each of some hundred columns,
    tables are exact. The same run gives the same bytes.

    Args:
        result: the run. The depth over time is there if it was run with ``sample``; prices and
            trades, if they were kept.
        path: the file to write.
        title: what to call the page; None calls it as the recording is called.

    Raises:
        OSError: the file cannot be written.
    """
    Path(path).write_text(page(result, title=title), encoding="utf-8")


def page(result: "Backtest", *, title: str | None = None) -> str:
    """Give the page that :func:`write_report` writes.

    Args:
        result: the run.
        title: what to call it.
    """
    name = title or result.name or "replay"
    money, orders, parts = money_of(result), own_orders(result), flows(result)
    body = _body(result, name, money, orders, parts)
    script = (WEB / "report.js").read_text("utf-8")
    style = (WEB / "report.css").read_text("utf-8")
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{known}'; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", name),
        tag("style", Markup(style)),
    )
    body = tag("body", body, tag("script", Markup(script)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _body(
    result: "Backtest", name: str, money: Money | None, orders: OwnOrders, parts: list[Flow]
) -> Markup:
    """Write what is to be seen."""
    drawn = drawn_flows(parts)
    sections: list[tuple[str, str, Markup]] = []
    if money is not None:
        sections.append(("result", "Result", result_section(result, money)))
    if len(parts) > 1:
        numbers = [flow.instrument.number for flow in drawn]
        sections.append(("all-books", "Books", markets_table(result, parts, numbers)))
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
                *(tag("section", tag("h2", label), part, id=key) for key, label, part in sections),
                id="main",
            ),
            _footer(result),
            tag("div", id="told", class_="unseen", aria_live="polite"),
        ]
    )


def _header(result: "Backtest", name: str, links: Markup) -> Markup:
    """Write what it is and how it went."""
    setting = result.setting
    told = [
        result.mode,
        f"{number(result.events)} events in {duration(setting.last_ns - setting.start_ns)}",
        f"{moment(setting.start_ns, 0)} to {_ending(setting.start_ns, setting.last_ns)}",
        f"prices {number(setting.lo)} to {number(setting.hi)} ticks",
    ]
    return tag(
        "header",
        tag("div", tag("h1", name), status(result), class_="name"),
        tag("p", " · ".join(told), class_="faint"),
        tag("p", setting.note, class_="faint") if setting.note else Markup(""),
        links,
    )


def _ending(start_ns: int, last_ns: int) -> str:
    """Write the end of a time, without the date if it is that of the beginning."""
    told = moment(last_ns, 0)
    return told.removeprefix(f"{date(start_ns)} ")


def _footer(result: "Backtest") -> Markup:
    """Write how to know the run again, and how to read the page."""
    problems = ", ".join(f"{number(n)} {kind}" for kind, n in result.setting.problems.items())
    return tag(
        "footer",
        tag("p", "Digest ", tag("code", result.digest, id="digest")),
        tag("p", f"Problems of the input: {problems or 'none'}."),
        tag(
            "p",
            "Lines show the exact lowest, highest and last value of each column of time, tables "
            "are exact. Where own fills lie close together, one dot stands for several. "
            "Amounts are collateral and whole tokens, prices ticks, sizes lots, one of "
            f"which is {number(result.setting.lot_wei)} wei. Times are UTC as recorded.",
        ),
    )


COLUMNS = 240
"""How many columns the line has."""


def notebook(result: "Backtest") -> str:
    """Write a run as a small table, with the line of its wealth if it had a strategy.

    Args:
        result: the run.
    """
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
            ("largest drawdown", amount(money.drawdown)),
            ("own orders", number(len(result.orders))),
            ("own fills", number(len(result.own_fills))),
        ]
    rows.append(("digest", result.digest[:16]))
    cells = (tag("tr", tag("th", name), tag("td", value)) for name, value in rows)
    line = Markup("") if money is None else _line(result, money)
    return tag("div", tag("table", tag("caption", result.name or "replay"), *cells), line)


def _line(result: "Backtest", money: Money) -> Markup:
    """Draw the wealth in the colour of the text around it."""
    start, last = result.setting.start_ns, result.setting.last_ns
    span = Span(start, max(last, start), COLUMNS)
    wealth = reduce_steps(result.equity["ts_ns"], result.equity["wealth"], span)
    scale = scale_of(*(wealth.bounds() or (money.initial, money.initial)))
    path = tag(
        "path",
        d=steps(wealth, scale),
        fill="none",
        stroke="currentColor",
        stroke_width=1,
        vector_effect="non-scaling-stroke",
    )
    return tag(
        "svg",
        path,
        viewBox=f"0 0 {2 * COLUMNS} {HEIGHT}",
        preserveAspectRatio="none",
        style="width:100%;max-width:30rem;height:4rem",
        role="img",
        aria_label=f"wealth, ending at {amount(money.wealth)}",
    )


# MERGED clob.replay.report.page: What a notebook shows of a run: the headline as a small table, and the line of its wealth.
