"""Reading of plain request heads, without the general parser of HTTP.

Most requests arrive whole and alone, with a head that needs no interpretation: a path, headers that
are not repeated, and a body of a stated size or none. Such a head is read line by line. Heads and
lines that were read lately are kept: a head that comes again costs one lookup, and a header that
differs in each request costs little more than its own line. Any other head is left to the parser,
whose result for a plain head would be the same.
"""

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

HEAD_MAX: Final = 2_048
"""The largest head that is read here, in bytes."""
HEADS_KEPT: Final = 1_024
"""Heads that are kept with their content; the one used longest ago goes first."""
LINES_KEPT: Final = 2_048
"""Request lines, and header lines, that are kept likewise."""
END: Final = b"\r\n\r\n"
"""The end of a head."""

Header: TypeAlias = tuple[bytes, bytes]
"""A lower-case name and a value."""

_CHAR: Final = rb"[!$%&'()*+,\-./0-9:;=@A-Z_a-z~]"
_REQUEST: Final = re.compile(
    rb"(GET|POST|PUT|PATCH|DELETE) (/%b*)(?:\?((?:%b|\?)*))? HTTP/1\.1" % (_CHAR, _CHAR)
)
_HEADER: Final = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ?([\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)"
)
_LENGTH: Final = re.compile(rb"\d{1,9}")
_INTERPRETED: Final = frozenset(
    (b"connection", b"expect", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
"""Headers that change how a connection is read. Only ``Connection: keep-alive`` is plain."""


class PlainHead(NamedTuple):
    """A head that needs no interpretation."""

    scope: dict[str, Any]
    """The ASGI scope, without the fields of the connection."""
    num_bytes: int
    """The size of the head in bytes."""
    num_request: int
    """The size of the whole request in bytes."""


@lru_cache(HEADS_KEPT)
def read_head(head: bytes) -> PlainHead | None:
    """Read a head, with the empty line at its end; None if it is not plain."""
    start, *lines = head[: -len(END)].split(b"\r\n")
    target, headers = read_target(start), list(map(read_header, lines))
    if target is None or None in headers:
        return None
    by_name = dict(headers)  # type: ignore[arg-type]  # none is None
    if len(by_name) < len(headers):
        return None
    num_body = int(by_name.get(b"content-length", 0))
    return PlainHead({**target, "headers": headers}, len(head), len(head) + num_body)


@lru_cache(LINES_KEPT)
def read_target(line: bytes) -> dict[str, Any] | None:
    """Read a request line into an ASGI scope without headers; None if it is not plain."""
    found = _REQUEST.fullmatch(line)
    if found is None:
        return None
    method, path, query = found.groups()
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "root_path": "",
        "method": method.decode(),
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query or b"",
    }


@lru_cache(LINES_KEPT)
def read_header(line: bytes) -> Header | None:
    """Read a header line; None if it is not plain."""
    found = _HEADER.fullmatch(line)
    if found is None:
        return None
    name, value = found[1].lower(), found[2]
    is_plain = name not in _INTERPRETED or (name, value.lower()) == (b"connection", b"keep-alive")
    if not is_plain or (name == b"content-length" and not _LENGTH.fullmatch(value)):
        return None
    return name, value
