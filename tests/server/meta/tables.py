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
    """Return the table of routes with the credentials that they need."""
    rows = ["| Route | Purpose | Test | Production |", "|---|---|---|---|"]
    for route in ROUTES:
        row = ROUTE_RULES[route.name]
        rows.append(
            f"| `{route.method} {route.path}` | {DESCRIBED[route.name].summary} "
            f"| {row.test.text} | {row.production.text} |"
        )
    return rows


def codes_table():
    """Return the table of error codes in order of precedence."""
    rows = ["| Code | Status | Meaning | Retry |", "|---|---|---|---|"]
    for code, problem in PROBLEMS.items():
        retryable = "yes" if problem.retryable else ""
        rows.append(f"| `{code}` | {problem.status} | {problem.title} | {retryable} |")
    return rows


def settings_table():
    """Return the table of settings with their defaults."""
    rows = ["| Option | Default | Meaning |", "|---|---|---|"]
    defaults = Settings()
    for name, text in descriptions().items():
        default = text_of(getattr(defaults, name))
        rows.append(f"| `{option_of(name)}` | {f'`{default}`' if default else ''} | {text} |")
    return rows


PAGES = {
    "http.md": (routes_table, codes_table),
    "settings.md": (settings_table,),
}


def slice_of(lines, head):
    """Return the slice of the table with this header line."""
    first = lines.index(head)
    last = next((n for n in range(first, len(lines)) if not lines[n].startswith("|")), len(lines))
    return slice(first, last)


def table_in(page, head):
    """Return the lines of the table with this header line."""
    lines = page.read_text().splitlines()
    return lines[slice_of(lines, head)]


def write():
    """Write the current tables into the pages."""
    for name, makes in PAGES.items():
        lines = (REFERENCE / name).read_text().splitlines()
        for make in makes:
            rows = make()
            lines[slice_of(lines, rows[0])] = rows
        (REFERENCE / name).write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    write()
