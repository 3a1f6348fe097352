"""The files of the web pages: their content, headers and the modules that a page needs.

A page names all its modules in its head, so that a browser requests them in one round instead of
one round for each level of imports. Scripts and styles are sent without comments and indentation, a
sixth of their compressed size.
"""

import re
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from clob.signing.fields import received
from clob_server.api.problems import ApiError, Headers

KINDS: Final = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "svg": b"image/svg+xml",
}
"""Content types of web files, by extension."""
FOLDERS: Final = (("clob_server", "web"), ("clob", "web"))
"""Packages and their folders with web files."""
POLICY: Final = (
    b"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'; connect-src 'self'"
)
"""Content security policy of every web file: scripts, styles and data from this server only."""

_HOST: Final = re.compile(rb"[A-Za-z0-9.:\[\]-]+")
_SCRIPT: Final = re.compile(rb'<script type="module" src="/web/([^"]+)">')
_COMMENT: Final = re.compile(rb"^\s*//[^\n]*\n|^\s+", re.MULTILINE)
"""Lines of comment, empty lines and indentation; no template literal of the scripts spans lines."""
_STYLE_COMMENT: Final = re.compile(rb"(?:/\*.*?\*/|\s)+", re.DOTALL)
"""Comments and spaces of a style, which one space replaces."""
_STYLE_SPACE: Final = re.compile(rb" ?([{};,]) ?|(?<=:) ")
"""Spaces of a style that mean nothing; no text of the styles contains such a mark."""
_IMPORT: Final = re.compile(rb'^(?:import|.*\bfrom) "\./([^"]+)";', re.MULTILINE)


def headers_of(host: bytes) -> Headers:
    """Return the headers of every web file that is requested from a host."""
    return (
        (b"content-security-policy", policy(host)),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-cache"),
    )


@lru_cache(128)
def policy(host: bytes) -> bytes:
    """Return the content security policy of a page that was requested from a host.

    Older browsers do not count the WebSocket of the page's own host as ``'self'``.
    """
    return b"%b ws://%b wss://%b" % (POLICY, host, host) if _HOST.fullmatch(host) else POLICY


def web_bytes(name: str) -> bytes:
    """Return the content of a web file.

    Raises:
        ApiError: NOT_FOUND.
    """
    content = web_files().get(name)
    if content is None:
        raise ApiError("NOT_FOUND", f"unknown file {received(name[:99])}")
    return content


@cache
def web_files() -> dict[str, bytes]:
    """Read all web files, once."""
    known = {
        each.name: each.read_bytes()
        for package, folder in FOLDERS
        for each in (files(package) / folder).iterdir()
        if each.name.rpartition(".")[2] in KINDS
    }
    return {name: prepared(name, content, known) for name, content in known.items()}


def prepared(name: str, content: bytes, known: dict[str, bytes]) -> bytes:
    """Return a file in the form that is sent."""
    if name.endswith(".html"):
        return with_preloads(content, known)
    if name.endswith(".css"):
        return _STYLE_SPACE.sub(rb"\1", _STYLE_COMMENT.sub(b" ", content))
    return _COMMENT.sub(b"", content) if name.endswith(".js") else content


def with_preloads(page: bytes, known: dict[str, bytes]) -> bytes:
    """Return a page that names, before its script, all modules that the script imports."""
    script = _SCRIPT.search(page)
    if script is None:
        return page
    modules = [script[1].decode()]
    for name in modules:
        imports = [each.decode() for each in _IMPORT.findall(known[name])]
        modules += [each for each in imports if each not in modules]
    links = [b'<link rel="modulepreload" href="/web/%b">\n' % each.encode() for each in modules[1:]]
    return page[: script.start()] + b"".join(links) + page[script.start() :]
