"""The reference of the server is what the code says."""

import pytest

from clob_server.app import ROUTES
from clob_server.auth.policy import ROUTE_RULES, NO_ROUTE
from clob_server.http.openapi import DESCRIBED
from tests.server.meta.tables import PAGES, REFERENCE, table_in

TABLES = [(name, make) for name, makes in PAGES.items() for make in makes]


@pytest.mark.parametrize(("name", "make"), TABLES, ids=lambda each: getattr(each, "__name__", each))
def test_a_table_of_the_reference_is_the_one_of_the_code(name, make):
    rows = make()
    assert table_in(REFERENCE / name, rows[0]) == rows


def test_every_route_is_described_and_nothing_else():
    assert {route.name for route in ROUTES} == DESCRIBED.keys()


def test_every_route_has_its_authority_and_nothing_else_has():
    assert {route.name for route in ROUTES} == ROUTE_RULES.keys() - {NO_ROUTE}
