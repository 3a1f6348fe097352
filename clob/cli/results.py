"""What ``clob replay`` says of a result: a summary, the check, the differences, files."""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clob import book as book_module
from clob.cli.output import NS_PER_S, UnusableError, printable, refuse_place, tell, told_of, write
from clob.errors import ClobError
from clob.records import Kind
from clob.units import format_tokens

if TYPE_CHECKING:
    from clob.replay import Backtest, Stream

BOOKS_DRAWN = 2
"""How many books are drawn at the end, at most."""

FILL_KINDS = ("traded", "not_traded", "sequence", "hidden", "self_match", "sizes", "orders")
"""The divergences in which fills are not those recorded, and no own order had a part."""

DIVERGENCES_SHOWN = 3
"""How many places are shown where the replay is not what was recorded."""

LINE_LENGTH = 300
"""How many characters of such a place are shown."""

TABLES = ("fills", "bests", "orders", "own_fills", "equity", "positions")
"""The tables that are written; without a strategy the first two."""


def tell_result(
    stream: "Stream",
    kinds: Counter[int],
    result: "Backtest",
    passed_ns: int,
    check: Collection[str],
) -> None:
    """Write what came of a replay in a few lines.

    Args:
        stream: what was replayed.
        kinds: how many events of each kind there were.
        result: what came of it.
        passed_ns: how long it took.
        check: what was to be compared.
    """
    tell(
        [
            *_about(stream, kinds, result, passed_ns),
            ("check", _checked(result, check)),
            *_differing(result),
            *_traded(result),
            ("digest", result.digest),
        ]
    )


def draw_books(result: "Backtest") -> None:
    """Draw the first few books as they ended, empty ones only where there is no other.

    Args:
        result: what came of a replay.
    """
    books = list(result.books.values())
    books = [book for book in books if len(book)] or books[:1]
    for book in books[:BOOKS_DRAWN]:
        write(f"\n{book!r}")
    if len(books) > BOOKS_DRAWN:
        write(f"\n{len(books) - BOOKS_DRAWN:,} more books are not drawn")


def differences_of(result: "Backtest", check: Collection[str]) -> int:
    """Count what did not come out as recorded, own orders having had no part in it.

    Args:
        result: what came of the replay.
        check: what is compared.

    Returns:
        How many recorded commands brought other fills, and how many best prices were others.
    """
    found = 0
    if "fills" in check:
        found = sum(result.divergence.counts.get(kind, 0) for kind in FILL_KINDS)
        if result.check and result.portfolio is None:
            found = max(found, result.check.takers - result.check.exact)
    if "bests" in check and result.check:
        found += result.check.bests - result.check.bests_equal
    return found


def _about(
    stream: "Stream", kinds: Counter[int], result: "Backtest", passed_ns: int
) -> list[tuple[str, str]]:
    """Say what was replayed, and how fast."""
    rate = result.events * NS_PER_S // max(passed_ns, 1)
    seeds = kinds[Kind.SEED]
    commands = {kind: kinds[kind] for kind in sorted(kinds) if kind < Kind.TRADE}
    commands.pop(Kind.SEED, None)
    records = {kind: kinds[kind] for kind in sorted(kinds) if kind >= Kind.TRADE}
    books = [f"{one.market} {one.outcome}".strip() for one in stream.instruments]
    remarks = [f"{what} {count:,}" for what, count in sorted(stream.problems.remarks.items())]
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
    """Write how many there are of each kind."""
    return ", ".join(f"{count:,} {Kind(kind).name.lower()}" for kind, count in counts.items())


def _implementation() -> str:
    """Say which Book did the work."""
    if book_module.COMPILED:
        return "compiled book"
    if os.environ.get("CLOB_PURE_PYTHON") == "1":
        return "plain-Python book (CLOB_PURE_PYTHON=1)"
    return "plain-Python book (the compiled one is not built)"


def _checked(result: "Backtest", check: Collection[str]) -> str:
    """Say whether what was recorded came out, or else where the first difference is."""
    differences = differences_of(result, check)
    if not check:
        return "not asked for"
    found = result.check
    if found is None:
        what = "fills" if "fills" in check else "best prices"
        return f"no {what} were recorded to compare with"
    bests = ""
    if found.bests:
        bests = f", {found.bests_equal:,} of {found.bests:,} best prices"
    if not differences and found.ok:
        return f"{found.matched:,} of {found.recorded:,} recorded fills reproduced exactly{bests}"
    text = f"{found.matched:,} of {found.recorded:,} recorded fills reproduced{bests}"
    text += f", {found.exact:,} of {found.takers:,} takers exact"
    if not differences:
        return f"{text}; own orders explain the rest"
    text = f"FAILED: {text}, {found.produced:,} fills produced"
    if found.first_difference is not None:
        text += f"; the first difference is at event {found.first_difference:,}"
    if found.first_best_difference is not None:
        text += f"; the first other best price is event {found.first_best_difference:,}"
    return text


def _differing(result: "Backtest") -> list[tuple[str, str]]:
    """Say by kind where the replay was not history, and the first few places."""
    lines = str(result.divergence).splitlines() if result.divergence.total else []
    lines += [_cut(str(one)) for one in result.divergence.kept[:DIVERGENCES_SHOWN]]
    return [("" if place else "differs", line.strip()) for place, line in enumerate(lines)]


def _cut(line: str) -> str:
    """Leave out the end of a line that is too long, as of a command with many fills."""
    return line if len(line) <= LINE_LENGTH else f"{line[:LINE_LENGTH]} ..."


def _traded(result: "Backtest") -> list[tuple[str, str]]:
    """Say what a strategy did, and what it has."""
    if result.portfolio is None:
        return []
    owned = ""
    if len(result.equity):
        last = result.equity[-1]
        owned = ", ".join(
            f"{name} {signed_tokens(int(last[field]))}"
            for name, field in (
                ("wealth", "wealth"),
                ("realised", "realised"),
                ("fees", "fees_paid"),
            )
        )
        # A buyer pays his fee in what he buys.
        tokens = sum(result.own_fills["fee_tokens"].tolist())
        owned += f" and {signed_tokens(tokens)} tokens" if tokens else ""
    return [
        ("own orders", f"{len(result.orders):,}"),
        ("own fills", f"{len(result.own_fills):,}"),
        ("money", owned),
    ]


def signed_tokens(wei: int) -> str:
    """Write an amount of wei as tokens, all its digits.

    Args:
        wei: the amount, which may be below 0.
    """
    return f"{'-' if wei < 0 else ''}{format_tokens(abs(wei))}"


# ----- files ---------------------------------------------------------------------------------


def refuse_results(out: Path | None, report: Path | None, read: Sequence[Path]) -> None:
    """Refuse places that cannot be written, before anything is run.

    Args:
        out: where the tables are to go, if anywhere.
        report: where the page is to go, if anywhere.
        read: the files that are read.

    Raises:
        UnusableError: one of them cannot be written, or would replace what is read.
    """
    from clob.replay.io.write import place_of  # noqa: PLC0415 - NumPy may be missing

    try:
        places = [place_of(out, name) for name in TABLES] if out else []
    except ValueError as error:
        raise UnusableError(f"--out: {error}") from error
    for place in [*places, *([report] if report else [])]:
        refuse_place(place, read)


def write_results(result: "Backtest", out: Path | None, report: Path | None) -> None:
    """Write the tables and the report that were asked for, and say what was written.

    Args:
        result: what came of a replay.
        out: where to write the tables; None is nowhere.
        report: where to write a page; None is nowhere.

    Raises:
        UnusableError: one of them cannot be written.
    """
    path = out or report
    try:
        if out:
            from clob.replay.io.write import write_tables  # noqa: PLC0415 - NumPy may be missing

            names = TABLES if result.portfolio else TABLES[:2]
            tables = {name: getattr(result, name) for name in names}
            for path, count in write_tables(out, tables).items():
                tell([("wrote", f"{printable(str(path))}, {count:,} rows")])
        if report:
            from clob.replay.report import write_report  # noqa: PLC0415 - only where it is written

            path = report
            write_report(result, report)
            tell([("wrote", printable(str(report)))])
    except (OSError, ClobError) as error:
        raise UnusableError(told_of([path] if path else [], error, "FILE_UNWRITABLE")) from error
    except ValueError as error:
        raise UnusableError(f"--out: {error}") from error
