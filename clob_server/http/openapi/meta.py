"""The routes of the server about itself, described."""

from typing import Any, Final

from clob_server.api.schemas import HealthBody, ReadyBody, RootBody
from clob_server.http.openapi.common import Described

TAG: Final = "Server"
UNCHANGED: Final = {304: "It is still what the client has."}

DESCRIBED: Final = {
    "root": Described(TAG, "What this is, and where everything else is found", RootBody),
    "health": Described(TAG, "If the server answers", HealthBody),
    "ready": Described(
        TAG,
        "If orders are taken",
        ReadyBody,
        others={503: "The server is about to stop; the body is the same."},
    ),
    "metrics": Described(TAG, "All numbers, for Prometheus", "text/plain"),
    "openapi": Described(TAG, "This document", dict[str, Any], others=UNCHANGED),
    "asyncapi": Described(
        TAG, "The WebSocket, as AsyncAPI 3.0 has it", dict[str, Any], others=UNCHANGED
    ),
    "docs": Described(TAG, "The page of this document", "text/html", others=UNCHANGED),
    "admin_page": Described(TAG, "The dashboard", "text/html", others=UNCHANGED),
    "web_file": Described(
        TAG,
        "A file of the pages",
        "*/*",
        codes=("NOT_FOUND",),
        others=UNCHANGED,
    ),
}
"""What each route takes, answers and is refused for."""
