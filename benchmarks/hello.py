"""Minimal ASGI application, the baseline of the HTTP benchmarks."""

from typing import Any

START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/plain"), (b"content-length", b"5")],
}
BODY = {"type": "http.response.body", "body": b"hello"}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Send the same response to every request."""
    await send(START)
    await send(BODY)
