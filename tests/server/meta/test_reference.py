"""The reference of the server equals the code."""

import pytest

from clob_server.app import ROUTES
from clob_server.auth.policy import NO_ROUTE, ROUTE_RULES
from clob_server.http.openapi import DESCRIBED
from tests.server.meta.tables import PAGES, REFERENCE, table_in

TABLES = [(name, make) for name, makes in PAGES.items() for make in makes]


@pytest.mark.parametrize(("name", "make"), TABLES, ids=lambda each: getattr(each, "__name__", each))
def test_table_of_the_reference_equals_the_code(name, make):
    rows = make()
    assert table_in(REFERENCE / name, rows[0]) == rows


def test_documented_routes_equal_the_routes():
    assert {route.name for route in ROUTES} == DESCRIBED.keys()


def test_documented_authorities_equal_the_routes():
    assert {route.name for route in ROUTES} == ROUTE_RULES.keys() - {NO_ROUTE}
