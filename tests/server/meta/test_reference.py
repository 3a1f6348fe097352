"""The reference of the server equals the code."""

import re

import pytest

from clob_server.app import ROUTES
from clob_server.auth.policy import NO_ROUTE, ROUTE_RULES
from clob_server.http.openapi import DESCRIBED
from tests.server.meta.generated import GENERATED, ROOT

NAMED = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`\s]*)`")
"""A route in a document."""


@pytest.mark.parametrize("name", GENERATED)
def test_generated_texts_equal_the_code(name):
    present = (ROOT / name).read_text()
    assert GENERATED[name](present) == present, "run `make reference`"


def test_documented_routes_equal_the_routes():
    assert {route.name for route in ROUTES} == DESCRIBED.keys()


def test_documented_authorities_equal_the_routes():
    assert {route.name for route in ROUTES} == ROUTE_RULES.keys() - {NO_ROUTE}


def test_routes_named_in_documents_exist():
    patterns = [
        (route.method, re.sub(r"\\{\w+\\}", r"[^/]+", re.escape(route.path))) for route in ROUTES
    ]
    named = [
        (page, method, path.partition("?")[0])
        for page in [*(ROOT / "docs").glob("**/*.md"), ROOT / "README.md"]
        if page.name != "mistakes.md"  # requests to routes that do not exist, among others
        for method, path in NAMED.findall(page.read_text().replace("\n", " "))
    ]
    assert len(named) > 200
    absent = [
        (page.name, method, path)
        for page, method, path in named
        if not any(method == known and re.fullmatch(each, path) for known, each in patterns)
    ]
    assert absent == []
