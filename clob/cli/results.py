"""Output of ``clob replay``: summary, check, differences, files."""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clob import book as book_module
from clob.cli.output import (
    NS_PER_S,
    UnusableError,
    check_all_writable,
    describe_error,
    printable,
    write,
    write_columns,
)
from clob.errors import ClobError
from clob.records import Kind
from clob.units import format_tokens

if TYPE_CHECKING:
    from clob.replay import Backtest, Stream
    from clob.replay.check.compare import BestDifference

BOOKS_DRAWN = 2
"""Books drawn at the end, at most."""

FILL_KINDS = (
    "ghost",
    "traded",
    "not_traded",
    "sequence",
    "hidden",
    "self_match",
    "sizes",
    "orders",
)
"""Kinds of divergence with other fills than recorded, without an own order."""

DIVERGENCES_SHOWN = 3
"""Differences shown in detail."""

LINE_LENGTH = 300
"""Characters shown of one difference."""

TABLES = ("fills", "bests", "orders", "own_fills", "equity", "positions")
"""Tables to write; without a strategy only the first two."""


def write_summary(
    stream: "Stream",
    kinds: Counter[int],
    result: "Backtest",
    passed_ns: int,
    check: Collection[str],
) -> None:
    """Write the summary of a replay, with its events by kind and the comparisons requested."""
    write_columns(
        [
            *_about(stream, kinds, result, passed_ns),
            ("check", _checked(result, check, stream)),
            *_differing(result, stream),
            *_traded(result),
            ("digest", result.digest),
        ]
    )


def write_run(result: "Backtest", stream: "Stream") -> None:
    """Write check, differences, trades of the strategy and digest of a run over a live feed."""
    write_columns(
        [
            ("check", _checked(result, ("fills", "bests"), stream)),
            *_differing(result, stream),
            *_traded(result),
            ("digest", result.digest),
        ]
    )


def draw_books(stream: "Stream", result: "Backtest") -> None:
    """Draw the first final books, skipping empty ones if there are others."""
    from clob.ladder import ladder  # noqa: PLC0415 - not every command draws

    books = list(result.books.values())
    books = [book for book in books if len(book)] or books[:1]
    for book in books[:BOOKS_DRAWN]:
        write(f"\n{ladder(book.depth(), len(book), label=stream.label)}")
    if len(books) > BOOKS_DRAWN:
        write(f"\n{len(books) - BOOKS_DRAWN:,} more books are not drawn")


def differences_of(result: "Backtest", check: Collection[str]) -> int:
    """Count commands with other fills and other best prices that no own order explains."""
    differences = 0
    if "fills" in check:
        differences = sum(result.divergence.counts.get(kind, 0) for kind in FILL_KINDS)
        if result.check and result.portfolio is None:
            differences = max(differences, result.check.takers - result.check.exact)
    if "bests" in check and result.check:
        differences += result.check.bests - result.check.bests_equal
    return differences


def _about(
    stream: "Stream", kinds: Counter[int], result: "Backtest", passed_ns: int
) -> list[tuple[str, str]]:
    rate = result.events * NS_PER_S // max(passed_ns, 1)
    seeds = kinds[Kind.SEED]
    commands = {kind: kinds[kind] for kind in sorted(kinds) if kind < Kind.TRADE}
    commands.pop(Kind.SEED, None)
    records = {kind: kinds[kind] for kind in sorted(kinds) if kind >= Kind.TRADE}
    books = [f"{one.market} {one.outcome}".strip() for one in stream.instruments]
    remarks = [f"{kind} {count:,}" for kind, count in sorted(stream.problems.remarks.items())]
    return [
        ("recording", printable(result.name)),
        ("", printable(stream.note)),
        ("books", printable(", ".join(books)) if len(books) > 1 else ""),
        ("events", f"{sum(commands.values()):,}: {_by_kind(commands) or 'none'}"),
        ("records", _by_kind(records)),
        ("seed", f"{seeds:,} orders"),
        ("remarks", printable(", ".join(remarks))),
        ("fills", f"{result.counts['fills']:,}"),
        ("resting", f"{sum(map(len, result.books.values())):,} orders"),
        ("time", f"{passed_ns / NS_PER_S:.3f} s, {rate:,} events/s, {_implementation()}"),
    ]


def _by_kind(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{count:,} {Kind(kind).name.lower()}" for kind, count in counts.items())


def _implementation() -> str:
    """Name the Book that was used."""
    if book_module.COMPILED:
        return "compiled book"
    if os.environ.get("CLOB_PURE_PYTHON") == "1":
        return "plain-Python book (CLOB_PURE_PYTHON=1)"
    return "plain-Python book (the compiled one is not built)"


def _checked(result: "Backtest", check: Collection[str], stream: "Stream") -> str:
    """Describe the outcome of the check and the first difference."""
    differences = differences_of(result, check)
    if not check:
        return "not requested"
    comparison = result.check
    if comparison is None:
        missing = {"fills": "fills", "bests": "best prices"}
        nothing = " and no ".join(missing[one] for one in missing if one in check)
        return f"nothing to check: the recording has no {nothing} to compare with"
    if not (comparison.recorded or comparison.produced or comparison.bests or differences):
        return "nothing to check: the recording has no fills and no best prices"
    bests = ""
    if comparison.bests:
        bests = f", {comparison.bests_equal:,} of {comparison.bests:,} best prices"
    source = "inferred" if comparison.inferred else "recorded"
    reproduced = f"{comparison.matched:,} of {comparison.recorded:,} {source} fills reproduced"
    if not differences and comparison.ok:
        if not comparison.recorded:
            return f"no {source} fills{bests}"
        text = f"{reproduced} exactly{bests}"
        return text + "; the venue records no fills" if comparison.inferred else text
    text = f"{reproduced}{bests}"
    text += f", {comparison.exact:,} of {comparison.takers:,} takers exact"
    if not differences:
        return f"{text}; own orders explain the rest"
    text = f"FAILED: {text}, {comparison.produced:,} fills produced"
    if comparison.first_difference is not None:
        text += f"; first difference at event {comparison.first_difference:,}"
    if comparison.first_best_difference is not None:
        text += f"; first differing best price at event {comparison.first_best_difference:,}"
    if len(stream.problems):
        text += (
            f"; {len(stream.problems):,} problems of the input were skipped and may be the cause"
        )
    return text


def _differing(result: "Backtest", stream: "Stream") -> list[tuple[str, str]]:
    """List the differences by kind and the first few in detail."""
    lines = str(result.divergence).splitlines() if result.divergence.total else []
    source = "inferred" if stream.inferred else "recorded"
    shown = result.divergence.kept[:DIVERGENCES_SHOWN]
    lines += [_cut(one.describe(stream.label, source)) for one in shown]
    if result.check:
        some = result.check.best_differences[:DIVERGENCES_SHOWN]
        lines += [_best_difference(one, stream) for one in some]
    return [("" if place else "differs", line.strip()) for place, line in enumerate(lines)]


def _best_difference(one: "BestDifference", stream: "Stream") -> str:
    """Describe a differing best price in one line."""

    def level(price: int, size: int) -> str:
        return f"{size} lots at {stream.label(price)}" if size else "none"

    here, recorded = level(one.price_here, one.size_here), level(one.price, one.size)
    side = "ask" if one.side else "bid"
    books = {each.number: f"{each.market} {each.outcome}".strip() for each in stream.instruments}
    book = f" of {printable(books.get(one.instrument, ''))}" if len(books) > 1 else ""
    return f"event {one.event}: Best {side}{book} here {here}, recorded {recorded}."


def _cut(line: str) -> str:
    """Shorten a long line, for example of a command with many fills."""
    return line if len(line) <= LINE_LENGTH else f"{line[:LINE_LENGTH]} ..."


def _traded(result: "Backtest") -> list[tuple[str, str]]:
    if result.portfolio is None:
        return []
    owned = ""
    if len(result.equity):
        last = result.equity[-1]
        fields = {"wealth": "wealth", "realised": "realised", "fees": "fees_paid"}
        amounts = {name: int(last[field]) for name, field in fields.items()}
        owned = ", ".join(f"{name} {format_tokens(wei)}" for name, wei in amounts.items())
        # A buyer pays fees in the tokens bought.
        tokens = sum(result.own_fills["fee_tokens"].tolist())
        owned += f" and {format_tokens(tokens)} tokens" if tokens else ""
    return [
        ("own orders", f"{len(result.orders):,}"),
        ("own fills", f"{len(result.own_fills):,}"),
        ("money", owned),
        ("fees", printable(result.fees)),
    ]


def write_metrics(result: "Backtest") -> None:
    """Write return, risk and quality of the trading of a run with a strategy."""
    metrics = result.metrics
    if metrics is None:
        return
    wait = "-" if metrics.queue_ns is None else f"{metrics.queue_ns / NS_PER_S:.3f} s"
    steps = f"{metrics.steps:,} steps of {metrics.step_ns / NS_PER_S:g} s"
    lines = [
        ("marked by", result.setting.mark),
        ("return", _ratio(metrics.total_return)),
        ("sharpe", f"{_ratio(metrics.sharpe)}, {steps}, annual"),
        ("sortino", f"{_ratio(metrics.sortino)}, {steps}, annual"),
        ("drawdown", format_tokens(metrics.drawdown)),
        ("turnover", format_tokens(metrics.turnover)),
        ("hit rate", f"{_ratio(metrics.hit_rate)} of {metrics.closing_fills:,} closing fills"),
        ("fill ratio", _ratio(metrics.fill_ratio)),
        ("queue", f"{wait} from resting to the first fill, median"),
    ]
    for one in metrics.adverse:
        text = f"{_ratio(one.mean_ticks)} ticks against {one.fills:,} fills"
        lines.append((f"after {one.horizon_ns / NS_PER_S:g} s", text))
    for held in metrics.inventory:
        amounts = [format_tokens(one) for one in (held.mean, held.highest, held.last)]
        text = "mean {}, largest {}, at the end {}".format(*amounts)
        lines.append((f"token {held.instrument}", text))
    write("")
    write_columns(lines)


def _ratio(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def list_fees() -> None:
    """Write the named fee schedules, with terms, date and source."""
    from clob.replay.sim.fee_schedules import FEE_SCHEDULES  # noqa: PLC0415 - NumPy may be missing

    for one in FEE_SCHEDULES.values():
        write(f"{one.name:<26} {one.terms} ({one.stated}, {one.source})")


# ----- files ---------------------------------------------------------------------------------


def check_outputs(
    out: Path | None, report: Path | None, read: Sequence[Path], recording: Path | None = None
) -> None:
    """Check that tables and report can be written, before a long run that reads other files.

    Raises:
        UnusableError: a file is not writable, is one of ``read``, or is written twice.
    """
    from clob.replay.io.write import table_path  # noqa: PLC0415 - NumPy may be missing

    try:
        tables = dict.fromkeys(table_path(out, name) for name in TABLES) if out else {}
    except ValueError as error:
        raise UnusableError(f"--out: {error}") from error
    check_all_writable([*tables, report, recording], read)


def write_results(result: "Backtest", out: Path | None, report: Path | None) -> None:
    """Write the requested tables and report, and print one line for each file.

    Raises:
        UnusableError: a file cannot be written.
    """
    path = out or report
    try:
        if out:
            from clob.replay.io.write import write_tables  # noqa: PLC0415 - NumPy may be missing

            names = TABLES if result.portfolio else TABLES[:2]
            tables = {name: getattr(result, name) for name in names}
            for path, count in write_tables(out, tables).items():
                write_columns([("wrote", f"{printable(str(path))}, {count:,} rows")])
        if report:
            from clob.replay.report import write_report  # noqa: PLC0415 - loaded only for reports

            path = report
            write_report(result, report)
            write_columns([("wrote", printable(str(report)))])
    except (OSError, ClobError) as error:
        text = describe_error([path] if path else [], error, "FILE_UNWRITABLE")
        raise UnusableError(text) from error
    except ValueError as error:
        raise UnusableError(f"--out: {error}") from error
