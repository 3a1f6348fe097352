"""Compresses replies by gzip, where the client accepts it and they are longer than 1 kB.

Documents and web files are compressed once and order books once per version; other replies at the
fastest level, about 6 ms per MB. A reply with ``no-store`` may contain a secret and is sent as it
is: the length of a compressed reply would reveal how much of a secret a guess repeats.
"""

import zlib
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from clob_server.api.problems import Headers
from clob_server.api.request import ApiRequest, Reply

COMPRESS_MIN: Final = 1024
"""Longest body that is never compressed, in bytes."""
VARY: Final = (b"vary", b"accept-encoding")
"""The header of replies that depend on the encodings that the client accepts."""
KEPT: Final = 128
"""Compressed bodies with an ETag that are kept."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_ENCODING: Final = (b"content-encoding", b"gzip")
_NO_STORE: Final = (b"cache-control", b"no-store")
_NAMES: Final = frozenset({b"gzip", b"x-gzip", b"*"})


def compressed(answer: Reply, call: ApiRequest) -> Reply:
    """Return a reply longer than :data:`COMPRESS_MIN` in the encoding that its client accepts.

    The ETag of a compressed reply is weak: it names the content and not its bytes.
    """
    headers = answer.headers
    if _NO_STORE in headers:
        return answer
    if not accepts_gzip(call.headers.get(b"accept-encoding", b"")):
        return replace(answer, headers=(*headers, VARY))
    tagged = any(name == b"etag" for name, _ in headers)
    body = _gzip_kept(answer.body) if tagged else gzip(answer.body)
    weak = tuple((n, b"W/" + v if n == b"etag" and v[:2] != b"W/" else v) for n, v in headers)
    return replace(answer, body=body, headers=(*weak, _ENCODING, VARY))


@lru_cache(KEPT)
def accepts_gzip(header: bytes) -> bool:
    """Return whether an ``Accept-Encoding`` accepts gzip; a weight of 0 means that it does not."""
    weights = {}
    for part in header.lower().split(b","):
        name, _, weight = part.partition(b";")
        weights[name.strip()] = (
            weight.strip().removeprefix(b"q=").strip(b"0. ") != b"" or not weight
        )
    named = [accepted for name, accepted in weights.items() if name in _NAMES - {b"*"}]
    return any(named) if named else weights.get(b"*", False)


def gzip(body: bytes, level: int = 1) -> bytes:
    """Return a body compressed by gzip, without a time, so that equal bodies are equal bytes."""
    packer = zlib.compressobj(level, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()


@lru_cache(KEPT)
def _gzip_kept(body: bytes) -> bytes:
    """Return a body with an ETag compressed; it is requested again until its content changes."""
    return gzip(body, 6)


def has_current(header: bytes | None, etag: bytes) -> bool:
    """Return whether an ``If-None-Match`` names an ETag, by weak comparison (RFC 9110, 13.1.2)."""
    if header is None or header == etag:
        return header is not None
    return any(each.strip().removeprefix(b"W/") in (etag, b"*") for each in header.split(b","))


def not_modified(headers: Headers, content_type: bytes) -> Reply:
    """Return 304 with the headers of the reply that the client has."""
    return Reply(b"", 304, (*headers, VARY), content_type)
