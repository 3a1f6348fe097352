"""Refusals that are made before a request reaches the application, as bytes of HTTP.

They have the body that all refusals have, and end the connection.
"""

from collections.abc import Iterable
from http import HTTPStatus

from clob_server.problems import CONTENT_TYPE, ApiError, Refusal, refusal_of


def refusal(code: str, detail: str, request_id: str) -> Refusal:
    """Make a refusal of the transport.

    Args:
        code: one of :data:`~clob_server.problems.PROBLEMS`.
        detail: the rule, the value and the limit.
        request_id: the request.
    """
    made = refusal_of(ApiError(code, detail), request_id)
    headers = (
        (b"content-type", CONTENT_TYPE),
        (b"content-length", str(len(made.body)).encode()),
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
        *made.headers,
    )
    return made._replace(headers=headers)


def as_http(made: Refusal, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write a refusal as an answer of HTTP/1.1.

    Args:
        made: the refusal.
        default_headers: what every answer has.
    """
    status = HTTPStatus(made.status)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    lines += [b"%b: %b" % header for header in (*default_headers, *made.headers)]
    return b"\r\n".join([*lines, b"", made.body])
