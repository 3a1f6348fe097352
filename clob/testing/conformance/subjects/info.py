"""Information about the service, health, and answers to unknown routes."""

from clob.testing.conformance.checks import SPECIFICATION, check, expect, expect_match, expect_that
from clob.testing.conformance.session import CheckSession, expect_rejected

TEXTS = ("name", "version", "description", "documentation", "status")


@check(SPECIFICATION, "Returns the API information resource.")
def root_fields(session: CheckSession) -> None:
    """``GET /`` has the fields of the API information."""
    body = session.read("/")
    for name in TEXTS:
        expect_that(f"{name} of GET /", isinstance(body.get(name), str), body.get(name), "a string")
    for name in ("endpoints", "rateLimit"):
        keys = set(body.get(name) or ())
        has_both = {"testnet", "mainnet"} <= keys
        expect_that(f"{name} of GET /", has_both, sorted(keys), "keys testnet and mainnet")


@check(SPECIFICATION, "Semantic version major.minor.patch.")
def version_is_semantic(session: CheckSession) -> None:
    """The version is major.minor.patch."""
    version = session.read("/")["version"]
    pattern = r"\d+\.\d+\.\d+([-+][0-9A-Za-z.-]+)?"
    expect_match("version of GET /", version, pattern, "major.minor.patch")


@check(SPECIFICATION, "One of `alpha`, `beta`, `stable`, `deprecated`.")
def status_is_known(session: CheckSession) -> None:
    """The status is one of four words."""
    status = session.read("/")["status"]
    expect_match("status of GET /", status, "alpha|beta|stable|deprecated", "a known status")


@check(SPECIFICATION, "`GET /health` needs none")
def health_needs_no_key(session: CheckSession) -> None:
    """``GET /health`` answers without a key."""
    expect("status of GET /health", session.request("GET", "/health").status, 200)


@check("reference/http.md", "| `NOT_FOUND` | 404 | Not found |")
def unknown_path(session: CheckSession) -> None:
    """An unknown path is rejected with 404."""
    expect_rejected(session.request("GET", "/api/no-such-route"), "NOT_FOUND")


@check("reference/http.md", "Other methods on an existing path are answered 405 with `Allow`.")
def unknown_method(session: CheckSession) -> None:
    """A method that a path does not have is rejected with 405 and ``Allow``."""
    reply = session.request("PUT", "/api/orders", {})
    expect_rejected(reply, "METHOD_NOT_ALLOWED")
    allow = reply.headers.get("allow", "")
    expect_that("Allow of PUT /api/orders", "POST" in allow, allow, "the methods of the path")
