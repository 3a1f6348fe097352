"""The reference has every message with every field, as the description has them."""

import re
from pathlib import Path

import pytest

from clob_server.feed.asyncapi import document

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "feed.md"
NAMES = {"string": "text", "integer": "integer", "boolean": "true or false", "null": "null"}
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="not here: the docs are not beside them")


def type_text(schema):
    """Say what a value is."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join("null" if each is None else f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(type_text(each) for each in schema["anyOf"])
    if schema["type"] == "array":
        return f"list of {type_text(schema['items'])}"
    return NAMES[schema["type"]]


def section(name, schema):
    """Write what the page has to say of a struct."""
    needed = schema.get("required", ())
    rows = [
        f"| `{field}` | {type_text(each)}{'' if field in needed else ', optional'} | "
        f"{each.get('description', 'The type of the message.')} |"
        for field, each in schema["properties"].items()
    ]
    head = f"### {name}\n\n{schema['description'].partition(chr(10))[0]}\n"
    return "\n".join([head, "| Field | Is | What it is |", "|---|---|---|", *rows])


def sections():
    """Write all of them."""
    schemas = document()["components"]["schemas"]
    return [section(name, schema) for name, schema in schemas.items()]


@pytest.mark.parametrize("wanted", sections(), ids=lambda text: text.split()[1])
def test_the_reference_has_each_message_as_it_is(wanted):
    assert wanted in PAGE.read_text()


def test_the_reference_has_nothing_else():
    found = re.findall(r"^### (\w+)$", PAGE.read_text(), re.MULTILINE)
    assert set(found) == set(document()["components"]["schemas"])
    assert len(found) == len(set(found))
