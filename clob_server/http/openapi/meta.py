"""Descriptions of the routes about the server."""

from typing import Any, Final

from clob_server.api.schemas import HealthBody, ReadyBody, RootBody
from clob_server.http.openapi.common import RouteDoc

TAG: Final = "Server"
UNCHANGED: Final = {304: "Unchanged."}

DESCRIBED: Final = {
    "root": RouteDoc(TAG, "Get version, environment and endpoints", RootBody),
    "health": RouteDoc(TAG, "Check liveness", HealthBody),
    "ready": RouteDoc(
        TAG,
        "Check readiness for orders",
        ReadyBody,
        others={503: "The server is stopping; the body is the same."},
    ),
    "metrics": RouteDoc(TAG, "Get metrics for Prometheus", "text/plain"),
    "openapi": RouteDoc(TAG, "Get this document", dict[str, Any], others=UNCHANGED),
    "asyncapi": RouteDoc(
        TAG, "Get the AsyncAPI 3.0 document of the WebSocket", dict[str, Any], others=UNCHANGED
    ),
    "docs": RouteDoc(TAG, "Show this document as a page", "text/html", others=UNCHANGED),
    "admin_page": RouteDoc(TAG, "Show the dashboard", "text/html", others=UNCHANGED),
    "web_file": RouteDoc(
        TAG,
        "Get a file of the pages",
        "*/*",
        codes=("NOT_FOUND",),
        others=UNCHANGED,
    ),
}
"""Descriptions by route name."""
