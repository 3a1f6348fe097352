"""Tables of the documentation that are generated from the code.

``python -m tests.server.meta.tables`` writes them into the pages.
"""

from pathlib import Path

from clob_server.api.problems import PROBLEMS
from clob_server.app import ROUTES
from clob_server.auth.policy import ROUTE_RULES
from clob_server.cli.options import descriptions, option_of, text_of
from clob_server.http.openapi import DESCRIBED
from clob_server.settings import Settings

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def routes_table():
    """Every route, in the sequence of the document, with who may take it."""
    rows = ["| Route | What it does | Test | Production |", "|---|---|---|---|"]
    for route in ROUTES:
        row = ROUTE_RULES[route.name]
        rows.append(
            f"| `{route.method} {route.path}` | {DESCRIBED[route.name].summary} "
            f"| {row.test.text} | {row.production.text} |"
        )
    return rows


def codes_table():
    """Every code, in order of precedence."""
    rows = ["| Code | Status | Meaning | Again |", "|---|---|---|---|"]
    for code, problem in PROBLEMS.items():
        again = "yes" if problem.retryable else ""
        rows.append(f"| `{code}` | {problem.status} | {problem.title} | {again} |")
    return rows


def settings_table():
    """Every setting, with its default and what it is."""
    rows = ["| Option | Default | What it is |", "|---|---|---|"]
    defaults = Settings()
    for name, text in descriptions().items():
        default = text_of(getattr(defaults, name))
        rows.append(f"| `{option_of(name)}` | {f'`{default}`' if default else ''} | {text} |")
    return rows


PAGES = {
    "http.md": (routes_table, codes_table),
    "settings.md": (settings_table,),
}


def place_of(lines, head):
    """Where the table is that begins with a line."""
    first = lines.index(head)
    last = next((n for n in range(first, len(lines)) if not lines[n].startswith("|")), len(lines))
    return slice(first, last)


def table_in(page, head):
    """The table of a page that begins with a line."""
    lines = page.read_text().splitlines()
    return lines[place_of(lines, head)]


def write():
    """Put the tables as they are now into the pages."""
    for name, makes in PAGES.items():
        lines = (REFERENCE / name).read_text().splitlines()
        for make in makes:
            rows = make()
            lines[place_of(lines, rows[0])] = rows
        (REFERENCE / name).write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    write()
