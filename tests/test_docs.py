"""Public names, errors, commands and tables are documented, and the documentation matches them."""

import re
import typing
from pathlib import Path

import pytest

import clob
from clob import errors, signing
from clob.commands import Batch, Single
from clob.signing import errors as signing_errors
from clob.status import TRANSITIONS

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
TEXT = "\n".join(page.read_text() for page in PAGES)
TOCTREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)
# | `CODE` | number or empty | {class}`~clob.errors.Name` | when |
ERROR_ROW = re.compile(
    r"^\| `([A-Z_]+)` +\| +(\d*) *\| +\{class\}`~clob\.errors\.(\w+)`", re.MULTILINE
)
SIGNING_ERROR_ROW = re.compile(ERROR_ROW.pattern.replace("clob", r"clob\.signing"), re.MULTILINE)
# .. autofunction:: name, in a page of the reference
DIRECTIVE = re.compile(r"^\.\. (?:auto\w+|py:data):: (?:[\w.]+\.)?(\w+)$", re.MULTILINE)
# | {class}`~clob.Name` | effect | modes |
COMMAND_ROW = re.compile(r"^\| \{class\}`~clob\.(\w+)` \|", re.MULTILINE)
WHOLE_MODULES = {
    "clob.errors",
    "clob.signing.errors",
    *(
        f"clob.replay.{name}"
        for name in (
            "io.detect", "readers.lobster", "readers.dbn", "sim.strategy", "sim.orders",
            "sim.latency", "sim.fees", "sim.fee_schedules", "bets",
        )
    ),
}  # fmt: skip
"""Modules all of whose names are for users; the reference lists the names of others."""
LIFECYCLE = DOCS / "concepts" / "order-lifecycle.md"


def errors_of(*modules):
    """Return the errors that modules define, in order of definition."""
    defined = [c for module in modules for c in vars(module).values() if is_defined_in(c, module)]
    return [c for c in defined if issubclass(c, errors.ClobError)]


def table_rows(kinds):
    return [(c.code, str(vars(c).get("number", "")), c.__name__) for c in kinds]


def is_defined_in(thing, module):
    return isinstance(thing, type) and thing.__module__ == module.__name__


def reachable(page):
    """Return all pages reachable through tables of contents."""
    pages = {page}
    for block in TOCTREE.findall(page.read_text()):
        entries = [line for line in block.splitlines() if line and not line.startswith(":")]
        for entry in entries:
            pages |= reachable((page.parent / f"{entry}.md").resolve())
    return pages


@pytest.mark.parametrize("name", clob.__all__)
def test_public_name_is_documented(name):
    assert getattr(clob, name).__doc__
    assert re.search(rf"\b{name}\b", TEXT)


@pytest.mark.parametrize("name", signing.__all__)
def test_public_name_of_signing_is_in_the_reference(name):
    assert getattr(signing, name).__doc__
    reference = DIRECTIVE.findall((DOCS / "reference" / "signing.md").read_text())
    assert name in [*reference, *(c.__name__ for c in errors_of(signing_errors))]


def test_reference_has_no_private_names():
    for page in DOCS.glob("reference/*.md"):
        text = page.read_text()
        assert not re.search(r"^\.\. [\w:]+:: (.*\.)?_", text, re.MULTILINE), page
        whole = re.findall(r"automodule:: (.*)\n   :members:$", text, re.MULTILINE)
        assert {*whole} <= WHOLE_MODULES, f"{page} lists every name of an implementation"


def test_errors_are_documented_in_order_of_precedence():
    documented = ERROR_ROW.findall((DOCS / "reference" / "errors.md").read_text())
    assert documented == table_rows(errors_of(errors))


def test_errors_of_signing_are_documented_in_order_of_precedence():
    documented = SIGNING_ERROR_ROW.findall((DOCS / "reference" / "errors.md").read_text())
    assert documented == table_rows(errors_of(signing_errors))


def test_error_codes_and_numbers_are_distinct():
    classes = errors_of(errors, signing_errors)
    codes = [c.code for c in classes]
    assert len(set(codes)) == len(codes)
    numbers = [vars(c)["number"] for c in classes if "number" in vars(c)]
    assert len(set(numbers)) == len(numbers)


def test_rejections_are_indexed_by_their_number():
    rejections = [
        c
        for c in errors_of(errors)
        if issubclass(c, errors.RejectedError) and c is not errors.RejectedError
    ]
    assert {c.number: c for c in rejections} == errors.REJECTIONS


def test_commands_of_the_command_line_are_documented(capsys):
    cli = pytest.importorskip("clob.cli")
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    commands = re.search(r"\{([\w,-]+)\}", capsys.readouterr().out)
    assert commands
    for command in commands[1].split(","):
        assert f"clob {command}" in TEXT


def test_every_page_is_in_the_table_of_contents():
    assert reachable(DOCS / "index.md") == set(PAGES)


def transitions_table():
    """Return the table of the transitions of an order, as on the page."""
    rows = ["| from | event | to |", "|---|---|---|"]
    for before, trigger, after in TRANSITIONS:
        source = f"`{before}`" if before else "(none)"
        rows.append(f"| {source} | {trigger} | `{after}` |")
    return rows


def test_documented_transitions_match_the_code():
    rows = transitions_table()
    lines = LIFECYCLE.read_text().splitlines()
    first = lines.index(rows[0])
    assert lines[first : lines.index("", first)] == rows


def test_removal_reasons_are_documented_in_order():
    section = LIFECYCLE.read_text().partition("| reason |")[2].partition("\n\n")[0]
    explained = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert explained == [str(reason) for reason in clob.RemovalReason]


def test_commands_are_documented_in_order():
    rows = COMMAND_ROW.findall((DOCS / "reference" / "commands.md").read_text())
    assert rows == [kind.__name__ for kind in (*typing.get_args(Single), Batch)]


def test_architecture_names_every_folder():
    page = (DOCS / "internals" / "architecture.md").read_text()
    named = set(re.findall(r"[\w/]+(?=/`)", page))
    folders = [
        path.parent.relative_to(DOCS.parent)
        for package in ("clob", "clob_server")
        for path in (DOCS.parent / package).glob("**/__init__.py")
    ]
    missing = [
        str(folder)
        for folder in folders
        if not any(str(folder).endswith(name) for name in named) and len(folder.parts) > 1
    ]
    assert missing == []


def test_architecture_names_files_that_exist():
    page = (DOCS / "internals" / "architecture.md").read_text()
    paths = re.findall(r"`((?:clob|clob_server)/[\w/.]+)`", page)
    assert paths
    assert [path for path in paths if not (DOCS.parent / path).exists()] == []
