"""Tables of the documentation that are generated from the code.

``python -m tests.server.meta.tables`` writes them into the pages.
"""

import json
from pathlib import Path

from clob_server.api.problems import PROBLEMS
from clob_server.app import ROUTES
from clob_server.auth.policy import ROUTE_RULES
from clob_server.cli.options import descriptions, option_of, text_of
from clob_server.http.openapi import DESCRIBED, document
from clob_server.settings import TEST, Settings

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


BODIES_HEAD = """# Request bodies

Fields of the JSON that requests contain, by route. Routes of operators reject an unknown field with
`INVALID_FIELD`. Bodies of responses are listed with these under `/docs` and in `/openapi.json` of a
server; [HTTP](http.md) has the routes, the credentials they need, and the codes of errors.
"""


def bodies_page():
    """Return the page of request bodies, from the OpenAPI document."""
    described = json.loads(document(ROUTES, TEST))
    schemas = described["components"]["schemas"]
    lines = BODIES_HEAD.splitlines()
    later = []
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                continue
            lines += ["", f"## {operation['summary']}", "", f"`{method.upper()} {path}`"]
            lines += fields_table(content["schema"], schemas, later)
            if "example" in content:
                lines += ["", "```json", json.dumps(content["example"], indent=2), "```"]
    for name in later:  # which grows: parts may have parts
        lines += ["", f"## {name}", "", schemas[name].get("description", "")]
        lines += fields_table(schemas[name], schemas, later)
    return "\n".join([*lines, ""])


def fields_table(schema, schemas, later):
    """Return the table of the fields of a body, or a line about another kind of body.

    ``later`` receives the names of further schemas that it mentions.
    """
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if "properties" not in schema:
        return ["", f"The body is {kind_of(schema, later)}."]
    rows = ["", "| Field | Type | Default | Meaning |", "|---|---|---|---|"]
    for name, field in schema["properties"].items():
        default = f"`{json.dumps(field['default'])}`" if "default" in field else ""
        default = "required" if name in schema.get("required", ()) else default
        meaning = field.get("description", "").replace("|", "\\|")
        rows.append(f"| `{name}` | {kind_of(field, later)} | {default} | {meaning} |")
    return rows


def kind_of(schema, later):
    """Return the type of a field in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in later:
            later.append(name)
        return f"[{name}](#{name.lower()})"
    for words in ("anyOf", "oneOf"):
        if words in schema:
            return " or ".join(dict.fromkeys(kind_of(each, later) for each in schema[words]))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {kind_of(schema.get('items', {}), later)}"
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = f" {low} to {high}" if low is not None and high is not None else ""
    return f"{schema.get('type', 'any')}{bounds}"


WHOLE = {"bodies.md": bodies_page}
"""Pages that are generated as a whole."""

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
    for name, make in WHOLE.items():
        (REFERENCE / name).write_text(make())


if __name__ == "__main__":
    write()
