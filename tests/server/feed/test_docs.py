"""The reference page lists every message and field as in the AsyncAPI description."""

import re
from pathlib import Path

import pytest

from clob_server.feed.asyncapi import document

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "feed.md"
NAMES = {
    "object": "object",
    "string": "text",
    "integer": "integer",
    "boolean": "true or false",
    "null": "null",
}
pytestmark = pytest.mark.skipif(
    not PAGE.exists(), reason="not here: docs are not part of this installation"
)


def type_text(schema):
    """Return the type of a value in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join("null" if each is None else f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(type_text(each) for each in schema["anyOf"])
    if "type" not in schema:
        return "any"
    if schema["type"] == "array":
        return f"list of {type_text(schema['items'])}"
    return NAMES[schema["type"]]


def section(name, schema):
    """Return the section of a struct."""
    needed = schema.get("required", ())
    rows = [
        f"| `{field}` | {type_text(each)}{'' if field in needed else ', optional'} | "
        f"{each.get('description', 'Message type.')} |"
        for field, each in schema["properties"].items()
    ]
    head = f"### {name}\n\n{schema['description'].partition(chr(10))[0]}\n"
    return "\n".join([head, "| field | type | meaning |", "|---|---|---|", *rows])


def sections():
    """Return all sections."""
    schemas = document()["components"]["schemas"]
    return [section(name, schema) for name, schema in schemas.items()]


@pytest.mark.parametrize("wanted", sections(), ids=lambda text: text.split()[1])
def test_reference_has_each_message(wanted):
    assert wanted in PAGE.read_text()


def test_reference_has_no_other_sections():
    found = re.findall(r"^### (\w+)$", PAGE.read_text(), re.MULTILINE)
    assert set(found) == set(document()["components"]["schemas"])
    assert len(found) == len(set(found))
