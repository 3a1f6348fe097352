"""What a route asks of who calls, from the table of authority, as OpenAPI says it."""

from collections.abc import Mapping
from typing import Final

from clob_server.authority import Budget, Needs, Row, Rule

NOTHING: Final[dict[str, list[str]]] = {}
KEY: Final[dict[str, list[str]]] = {"key": []}
TOKEN: Final[dict[str, list[str]]] = {"token": []}

ASKED: Final[Mapping[Needs, tuple[list[dict[str, list[str]]], tuple[str, ...]]]] = {
    Needs.KEY: ([KEY], ("API_KEY_REQUIRED", "SCOPE_MISSING")),
    Needs.KEY_OF_MAKER: (
        [KEY],
        ("API_KEY_REQUIRED", "SCOPE_MISSING", "MAKER_NOT_ALLOWED"),
    ),
    Needs.SIGNATURE_OR_KEY: (
        [NOTHING, KEY],
        ("API_KEY_REQUIRED", "SCOPE_MISSING", "MAKER_NOT_ALLOWED"),
    ),
    Needs.TOKEN: ([TOKEN], ("INVALID_TOKEN", "RATE_LIMITED", "TOKEN_REQUIRED", "SCOPE_MISSING")),
    Needs.TOKEN_FROM_AFAR: (
        [NOTHING, TOKEN],
        ("INVALID_TOKEN", "RATE_LIMITED", "TOKEN_REQUIRED", "SCOPE_MISSING"),
    ),
    Needs.ABSENCE: ([NOTHING], ("NOT_ON_THIS_ENVIRONMENT",)),
}
"""What a need is called, and what is told to who does not meet it; of all others nothing."""


def security(rule: Rule) -> list[dict[str, list[str]]]:
    """Give what a request may come with; an empty one is nothing."""
    schemes, _ = ASKED.get(rule.needs, ([NOTHING, KEY], ()))
    return list(schemes)


def codes_of(row: Row, environment: str) -> tuple[str, ...]:
    """Give what a request may be refused for before its route sees it."""
    _, codes = ASKED.get(row.rule(environment).needs, ([], ()))
    return codes if row.budget is Budget.NONE else (*codes, "RATE_LIMITED")
