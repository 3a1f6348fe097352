"""Builds the OpenAPI 3.1 document from routes, tables and structs."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

import clob
from clob.wire import accounts, info, operations
from clob.wire import admin as admin_bodies
from clob.wire import markets as market_bodies
from clob.wire import orders as order_bodies
from clob_server.api import problems
from clob_server.api.docstrings import field_texts
from clob_server.api.problems import CONTENT_TYPE, PROBLEMS, ProblemBody
from clob_server.auth.policy import ROUTE_RULES, Budget
from clob_server.http import admin_schemas
from clob_server.http.openapi import admin, dev_wallets, gasless, makers, markets, orders
from clob_server.http.openapi.common import (
    ANSWER_HEADERS,
    CURSOR,
    EVERYWHERE,
    FORMATS,
    LIMITED,
    NEXT_PAGE,
    REF,
    TEXT,
    WITH_BODY,
    FieldDoc,
    RouteDoc,
    Schema,
    codes_of,
    refer,
    security,
)
from clob_server.http.server import Route

DESCRIBED: Final[Mapping[str, RouteDoc]] = {
    **markets.SERVER_DESCRIBED,
    **markets.DESCRIBED,
    **orders.DESCRIBED,
    **makers.DESCRIBED,
    **gasless.DESCRIBED,
    **dev_wallets.DESCRIBED,
    **admin.DESCRIBED,
}
"""Descriptions by route name."""

PROBLEM: Final = CONTENT_TYPE.decode()
JSON: Final = "application/json"
INTRODUCTION: Final = """\
Prices are integer cents, 1 to 99. Amounts are wei in decimal digits: 10^18 is one token. Times are
Unix milliseconds, except `expiration`, which is in seconds. Every error is a problem document (RFC
9457) with a stable `code`; if several codes apply, the first in the table of codes is returned. The
event stream is described in `/asyncapi.json`."""

BODIES: Final = (
    accounts,
    admin_bodies,
    admin_schemas,
    info,
    market_bodies,
    operations,
    order_bodies,
    problems,
)
"""Modules of the structs of bodies."""
KINDS: Final = {
    name: kind
    for module in BODIES
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
}
"""Structs of bodies by name."""


@cache
def document(routes: tuple[Route, ...], environment: str) -> bytes:
    """Return the document as JSON; cached, about 20 ms.

    Args:
        routes: every route; a test checks that each has a description.
        environment: ``test`` or ``production``.
    """
    routes = tuple(route for route in routes if route.name in DESCRIBED)
    types = types_of(DESCRIBED[route.name] for route in routes)
    listed, components = msgspec.json.schema_components(types, ref_template=REF)
    by_type = dict(zip(types, listed, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        made = operation(route, DESCRIBED[route.name], by_type, environment)
        paths.setdefault(route.path, {})[route.method.lower()] = made
    whole = {
        "openapi": "3.1.0",
        "info": {"title": "clob", "version": clob.__version__, "description": INTRODUCTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {name: with_descriptions(name, each) for name, each in components.items()},
            "headers": {name: header(field) for name, field in ANSWER_HEADERS.items()},
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
        "x-environment": environment,
        "x-codes": [{"code": code, **problem._asdict()} for code, problem in PROBLEMS.items()],
    }
    return msgspec.json.encode(whole)


def types_of(all_described: Iterable[RouteDoc]) -> list[Any]:
    """Return the types of all bodies in a stable order."""
    types = {ProblemBody}
    for described in all_described:
        bodies = (described.answer, described.body, *described.refers)
        types |= {each for each in bodies if is_type(each)}
    return sorted(types, key=repr)


def is_type(each: Any) -> bool:
    """Return whether a body is described by a type."""
    return each is not None and not isinstance(each, str | dict)


RETRIED: Final = ("429", "503")
"""Statuses whose answers have the time of the next attempt."""
UNSURE: Final = ("CLOCK_UNSURE",)
"""Errors of routes that change something or judge by the time."""


def operation(
    route: Route, described: RouteDoc, by_type: Mapping[Any, Schema], environment: str
) -> dict[str, Any]:
    """Return the operation object of a route."""
    content = content_of(described, by_type)
    row = ROUTE_RULES[route.name]
    made: dict[str, Any] = {
        "operationId": route.name,
        "tags": [described.tag],
        "summary": described.summary,
        "parameters": [
            *(parameter("path", field) for field in path_fields(route.path)),
            *(parameter("query", field) for field in described.query),
            *(parameter("header", field) for field in described.headers),
        ],
        "responses": with_headers(
            responses(
                described,
                content,
                (*codes_of(row, environment), *(UNSURE if route.needs_time else ())),
            ),
            (
                *(() if row.budget is Budget.NONE else LIMITED),
                *(NEXT_PAGE if CURSOR in described.query else ()),
                *described.headers_sent,
            ),
        ),
        "security": security(row.rule(environment)),
        "x-authority": {"test": row.test.text, "production": row.production.text},
    }
    if described.text:
        made["description"] = described.text
    if described.body is not None:
        made["requestBody"] = request_body(described, by_type)
    return made


def request_body(described: RouteDoc, by_type: Mapping[Any, Schema]) -> dict[str, Any]:
    """Return the request body object."""
    schema = by_type[described.body] if is_type(described.body) else described.body
    media: dict[str, Any] = {"schema": schema}
    if described.example is not None:
        media["example"] = described.example
    return {"required": True, "content": {JSON: media}}


def path_fields(path: str) -> list[FieldDoc]:
    """Return the parameters of a path."""
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [FieldDoc(name, FORMATS.get(name, TEXT), "", True) for name in names]


def parameter(place: str, field: FieldDoc) -> dict[str, Any]:
    """Return the parameter object."""
    made = {"name": field.name, "in": place, "required": field.required, "schema": field.schema}
    return {**made, "description": field.text} if field.text else made


# ----- responses -----------------------------------------------------------------------------


def content_of(described: RouteDoc, by_type: Mapping[Any, Schema]) -> Schema:
    """Return the content object of a response."""
    answer = described.answer
    if isinstance(answer, str):
        return {answer: {"schema": TEXT}}
    return {JSON: {"schema": by_type[answer] if is_type(answer) else answer}}


def responses(described: RouteDoc, content: Schema, required: Iterable[str]) -> dict[str, Any]:
    """Return the responses of a route by status."""
    made: dict[int, dict[str, Any]] = {200: {"description": "Success.", "content": content}}
    with_body = () if described.body is None else WITH_BODY
    codes = (*EVERYWHERE, *required, *with_body, *described.codes)
    for status, listed in by_status(codes).items():
        made[status] = {
            "description": ", ".join(f"`{code}`" for code in listed),
            "content": {PROBLEM: {"schema": refer(ProblemBody)}},
            "x-codes": listed,
        }
    for status, text in described.others.items():
        response = made.setdefault(status, {"description": text})
        if status >= 400:
            response["content"] = {**response.get("content", {}), **content}
            response["description"] = f"{text} Or {response['description']}"
    return {str(status): made[status] for status in sorted(made)}


def with_headers(made: dict[str, Any], headers: Sequence[str]) -> dict[str, Any]:
    """Add the headers of the route to its responses, by reference.

    The budget is described where it matters most, on success and on RATE_LIMITED: the document
    would be a third larger with it on every error.
    """
    for status, response in made.items():
        names = ["x-request-id"]
        if status == "200":
            names += headers
        elif status == "429":
            names += [name for name in headers if name in LIMITED]
        if status in RETRIED:
            names.append("retry-after")
        response["headers"] = {
            ANSWER_HEADERS[name].name: {"$ref": f"#/components/headers/{name}"} for name in names
        }
    return made


def header(field: FieldDoc) -> dict[str, Any]:
    """Return the header object."""
    return {"description": field.text, "schema": field.schema}


def by_status(codes: Iterable[str]) -> dict[int, list[str]]:
    """Group codes by status, in order of precedence."""
    wanted, listed = set(codes), dict[int, list[str]]()
    assert wanted <= PROBLEMS.keys(), wanted - PROBLEMS.keys()
    for code, problem in PROBLEMS.items():
        if code in wanted:
            listed.setdefault(problem.status, []).append(code)
    return listed


# ----- structs -------------------------------------------------------------------------------


def with_descriptions(name: str, schema: Schema) -> Schema:
    """Add descriptions and text formats to the schema of a struct."""
    kind = KINDS[name]
    texts = field_texts(kind)
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    for encoded, part in schema.get("properties", {}).items():
        if part.get("enum") == [
            True
        ]:  # generators of clients read enumerations of texts and numbers
            part["const"] = part.pop("enum")[0]
        if part.get("type") == "string":
            part.update(FORMATS.get(encoded, {}))
        if names[encoded] in texts:
            part["description"] = texts[names[encoded]].replace("``", "`")
    return schema
