"""JSON-RPC 2.0 over HTTP POST on loopback, protected against pages of other sites."""

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
import uvicorn

from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RequestError,
)
from clob_server.chain.devchain.methods import METHODS

Answer: TypeAlias = Callable[[bytes], bytes]
"""Returns the response to a body."""
HOST: Final = "127.0.0.1"
"""The only address it listens on."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""Accepted host names; others may be DNS rebinding."""
EXTENSIONS: Final = ("chrome-extension", "moz-extension", "safari-web-extension")
"""Schemes of wallet extensions."""
BODY_MAX_BYTES: Final = 5 * 1024 * 1024
"""Longest request body."""
GRACE_S: Final = 2
"""Time for running requests at shutdown."""
INPUT: Final = 0
"""File descriptor of standard input."""
OUTPUT: Final = 1
"""File descriptor of standard output."""
BEAT_S: Final = 1.0
"""Seconds between two signs of life."""
INPUT_BYTES: Final = 4096
"""Bytes of standard input read at once and discarded."""
_JSON: Final = (b"content-type", b"application/json")
_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")


class Front:
    """The ASGI application; ``answer`` returns the response to a body."""

    def __init__(self, answer: Answer) -> None:
        self._answer: Final = answer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        request = dict(scope["headers"])
        status, more, body = await self._serve(scope["method"], request, receive)
        length = (b"content-length", str(len(body)).encode())
        headers = [length, *more, *cross_origin(request)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _serve(
        self, method: str, headers: dict[bytes, bytes], receive: Any
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Return status, headers and body."""
        if host_of(headers.get(b"host", b"")) not in LOOPBACK:
            return 403, [_TEXT], b"Host not allowed: use 127.0.0.1 or localhost.\n"
        if not is_ours(headers.get(b"origin")):
            return 403, [_TEXT], b"Origin not allowed: only pages of this machine.\n"
        if method == "OPTIONS":
            return 204, [], b""
        if method != "POST":
            return 405, [_TEXT, (b"allow", b"POST, OPTIONS")], b"JSON-RPC 2.0: POST a request.\n"
        body = await whole_body(receive)
        if body is None:
            return 413, [_TEXT], f"Body too large: at most {BODY_MAX_BYTES} bytes.\n".encode()
        answered = self._answer(body)
        return (200, [_JSON], answered) if answered else (204, [], b"")


async def whole_body(receive: Any) -> bytes | None:
    """Read the body; return None if it is too long."""
    parts, length = [], 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        length += len(part)
        if length > BODY_MAX_BYTES:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def host_of(given: bytes) -> str:
    """Return the name in a Host header without the port."""
    try:
        return urlsplit(f"//{given.decode('ascii')}").hostname or ""
    except ValueError:
        return ""


def is_ours(origin: bytes | None) -> bool:
    """Return whether the origin is absent, of this machine, or a wallet extension."""
    if origin is None:
        return True
    try:
        parts = urlsplit(origin.decode("ascii"))
        return parts.scheme in EXTENSIONS or parts.hostname in LOOPBACK
    except ValueError:
        return False


def cross_origin(headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Return CORS headers for pages of this machine."""
    origin = headers.get(b"origin")
    if origin is None or not is_ours(origin):
        return []
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", b"POST, OPTIONS"),
        (b"access-control-allow-headers", b"content-type"),
        (b"access-control-max-age", b"600"),
        (b"vary", b"origin"),
    ]


class NodeServer(uvicorn.Server):
    """A server that exits with code 0 when stopped.

    Args:
        answer: returns the response to a body.
        with_parent: stop at the end of standard input, that is when the parent is gone.
    """

    def __init__(self, answer: Answer, *, with_parent: bool) -> None:
        super().__init__(
            uvicorn.Config(
                Front(answer),
                lifespan="off",
                ws="none",
                access_log=False,
                server_header=False,
                date_header=False,
                log_config=None,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._with_parent = with_parent

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve."""
        await super().startup(sockets)
        if self._with_parent:
            self._watch_input()
            self._beat()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal."""
        self.should_exit = True

    def _beat(self) -> None:
        """Send a sign of life every second; see ``clob_server.chain.subprocess``."""
        if self.should_exit:
            return
        with suppress(OSError):  # the parent is gone
            os.write(OUTPUT, b"\n")
        asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _watch_input(self) -> None:
        """Stop when standard input ends, if it is a pipe or socket."""
        loop = asyncio.get_running_loop()
        try:
            mode = os.fstat(INPUT).st_mode
        except OSError:  # standard input is closed
            return
        if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
            return

        def on_input() -> None:
            if not os.read(INPUT, INPUT_BYTES):
                loop.remove_reader(INPUT)
                self.should_exit = True

        loop.add_reader(INPUT, on_input)


_LOG: Final = logging.getLogger("clob_server.chain.devchain")
BATCH_MAX: Final = 1000
"""Requests per batch, at most."""


def answer(chain: DevelopmentChain, body: bytes) -> bytes:
    """Return the JSON response to a request or batch; empty for notifications only."""
    response: object
    try:
        request = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        response = failed(None, RequestError(f"parse error: {error}", PARSE_ERROR))
    else:
        if not isinstance(request, list):
            response = answer_one(chain, request)
        elif 1 <= len(request) <= BATCH_MAX:
            response = [one for each in request if (one := answer_one(chain, each)) is not None]
        else:
            response = invalid_request(
                None, f"expected a batch of 1 to {BATCH_MAX}; got {len(request)}"
            )
    return msgspec.json.encode(response) if response else b""


def answer_one(chain: DevelopmentChain, request: Any) -> dict[str, Any] | None:
    """Return the response to one request, or None for a notification."""
    number = request.get("id") if isinstance(request, dict) else None
    if isinstance(number, dict | list | bool):
        return invalid_request(None, '"id" must be a string, a number or null')
    if not isinstance(request, dict):
        return invalid_request(None, "expected an object")
    if request.get("jsonrpc") != "2.0":
        return invalid_request(number, '"jsonrpc" must be "2.0"')
    if not isinstance(request.get("method"), str):
        return invalid_request(number, '"method" must be a string')
    try:
        result = run(chain, request["method"], request.get("params"))
        response = {"jsonrpc": "2.0", "id": number, "result": result}
    except RequestError as error:
        response = failed(number, error)
    return response if "id" in request else None


def run(chain: DevelopmentChain, name: str, given: object) -> Any:
    """Execute a request.

    Raises:
        RequestError: the request failed; unexpected errors are converted.
    """
    method = METHODS.get(name)
    if method is None:
        text = f"the method {name[:80]} does not exist/is not available"
        raise RequestError(text, METHOD_NOT_FOUND)
    if given is not None and not isinstance(given, list):
        raise RequestError("invalid params: expected a list", INVALID_PARAMS)
    try:
        return method(chain, given or [])
    except RequestError:
        raise
    except Exception as error:
        chain.forget()
        _LOG.exception("%s failed", name)
        text = f"internal error: {type(error).__name__}: {error}"
        raise RequestError(text, INTERNAL_ERROR) from error
    finally:
        chain.store.forget()


def invalid_request(number: object, problem: str) -> dict[str, Any]:
    """Return the response to JSON that is not a request."""
    return failed(number, RequestError(f"invalid request: {problem}", INVALID_REQUEST))


def failed(number: object, error: RequestError) -> dict[str, Any]:
    """Return an error response."""
    response: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        response["data"] = f"0x{error.data.hex()}"
    return {"jsonrpc": "2.0", "id": number, "error": response}
