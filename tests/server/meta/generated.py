"""Texts that are generated from the code: tables and pages of the documentation, descriptions.

``python -m tests.server.meta.generated`` writes them, and prints the names of those that changed;
with ``--check`` it writes nothing and ends with 1 if one would change.
"""

import json
import re
import sys
from pathlib import Path

from clob_server.api.problems import PROBLEMS
from clob_server.app import ROUTES
from clob_server.auth.policy import CHANNEL_RULES, NO_ROUTE, ROUTE_RULES
from clob_server.cli.options import descriptions, option_of, text_of
from clob_server.feed import asyncapi
from clob_server.http.openapi import DESCRIBED, document
from clob_server.settings import TEST, Settings

ROOT = Path(__file__).parents[3]


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


def access_table():
    """Return the table of access to routes; routes with equal rules share a row."""
    paths = {route.name: route.path for route in ROUTES}
    methods = {route.name: route.method for route in ROUTES}
    groups = {}
    for name, row in ROUTE_RULES.items():
        if name == NO_ROUTE:
            request = "any other request"
        elif paths[name].startswith("/api/admin/"):
            request = "every route under `/api/admin/`"
        else:
            request = f"`{methods[name]} {paths[name]}`"
        requests = groups.setdefault(row._replace(creates_order=False), [])
        if request not in requests:
            requests.append(request)
    rows = ["| request | in test | in production | counts as |", "|---|---|---|---|"]
    return rows + [
        f"| {', '.join(requests)} | {row.test.text} | {row.production.text} | {row.budget.value} |"
        for row, requests in groups.items()
    ]


def channels_table():
    """Return the table of access to channels."""
    rows = ["| channel | in test | in production |", "|---|---|---|"]
    return rows + [
        f"| `{name}` | {row.test.text} | {row.production.text} |"
        for name, row in CHANNEL_RULES.items()
    ]


BODIES_HEAD = """# Request bodies

Fields of the JSON that requests contain, by route. Routes of operators reject an unknown field with
`INVALID_FIELD`. Bodies of responses are listed with these under `/docs` and in `/openapi.json` of a
server; [HTTP](http.md) has the routes, the credentials they need, and the codes of errors.
"""


def bodies_page(_text):
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


def feed_section(name, schema):
    """Return the section of a message or a part of one."""
    needed = schema.get("required", ())
    rows = [
        f"| `{field}` | {kind_of(each, [])}{'' if field in needed else ', optional'} | "
        f"{each.get('description', 'Message type.')} |"
        for field, each in schema["properties"].items()
    ]
    head = f"### {name}\n\n{schema['description'].partition(chr(10))[0]}\n"
    return "\n".join([head, "| field | type | meaning |", "|---|---|---|", *rows, ""])


SECTION = r"^### (\w+)\n(?:(?![#|]).*\n)+(?:\|.*\n)+"
"""A heading of a message, its description, and the table of its fields."""


def feed_page(text):
    """Return the page of messages with current sections; order and words between them are kept."""
    schemas = asyncapi.document()["components"]["schemas"]
    found = []

    def section(match):
        found.append(match[1])
        return feed_section(match[1], schemas[match[1]])

    current = re.sub(SECTION, section, text, flags=re.MULTILINE)
    if sorted(found) != sorted(schemas) or current.count("\n### ") != len(found):
        raise ValueError(
            f"the page must have one section of each of {sorted(schemas)}; has {found}"
        )
    return current


def asyncapi_file(_text):
    """Return the AsyncAPI document."""
    return json.dumps(asyncapi.document(), indent=2, ensure_ascii=False) + "\n"


def tables(*makes):
    """Return a function that puts current tables into a page, found by their header lines."""

    def page(text):
        lines = text.splitlines()
        for make in makes:
            rows = make()
            first = lines.index(rows[0])
            rest = range(first, len(lines))
            last = next((n for n in rest if not lines[n].startswith("|")), len(lines))
            lines[first:last] = rows
        return "\n".join([*lines, ""])

    return page


GENERATED = {
    "docs/reference/http.md": tables(routes_table, codes_table),
    "docs/reference/settings.md": tables(settings_table),
    "docs/reference/bodies.md": bodies_page,
    "docs/reference/feed.md": feed_page,
    "docs/concepts/access-control.md": tables(access_table, channels_table),
    "clob_server/web/asyncapi.json": asyncapi_file,
}
"""Each file that is generated, at least in part, with the function that returns its current text
from its present one."""


def main(arguments):
    """Write the files that differ from the code, and print their names; return the exit code."""
    differs = False
    for name, make in GENERATED.items():
        present = (ROOT / name).read_text()
        current = make(present)
        if current != present:
            differs = True
            sys.stdout.write(f"{name}\n")
            if "--check" not in arguments:
                (ROOT / name).write_text(current)
    return int(differs and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
