"""The smallest ASGI application: what the server's requests are measured against."""

from typing import Any

START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/plain"), (b"content-length", b"5")],
}
BODY = {"type": "http.response.body", "body": b"hello"}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer whatever comes."""
    await send(START)
    await send(BODY)
