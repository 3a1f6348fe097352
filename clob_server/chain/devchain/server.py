"""The HTTP front end: POST on loopback, guarded against pages of other sites."""

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Callable
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
    RefusedError,
)
from clob_server.chain.devchain.methods import METHODS

Answer: TypeAlias = Callable[[bytes], bytes]
"""Gives the answer to a body."""
HOST: Final = "127.0.0.1"
"""Where it listens, and nowhere else."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""The names under which it is asked; any other name was bent to this address by somebody."""
EXTENSIONS: Final = ("chrome-extension", "moz-extension", "safari-web-extension")
"""The schemes of the pages that wallets have in a browser."""
BODY_MAX_BYTES: Final = 5 * 1024 * 1024
"""How long a body may be."""
GRACE_S: Final = 2
"""How long requests that are under way may take at the end."""
INPUT: Final = 0
"""The descriptor of standard input."""
INPUT_BYTES: Final = 4096
"""How much of standard input is read at once; nobody looks at it."""
_JSON: Final = (b"content-type", b"application/json")
_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")


class Front:
    """The application of ASGI.

    Args:
        answer: gives the answer to a body.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer: Final = answer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        headers = dict(scope["headers"])
        allowed = cross_origin(headers)
        status, more, body = await self._serve(scope["method"], headers, receive)
        length = (b"content-length", str(len(body)).encode())
        begin = {"status": status, "headers": [length, *more, *allowed]}
        await send({"type": "http.response.start", **begin})
        await send({"type": "http.response.body", "body": body})

    async def _serve(
        self, method: str, headers: dict[bytes, bytes], receive: Any
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Give status, headers and body."""
        if host_of(headers.get(b"host", b"")) not in LOOPBACK:
            return 403, [_TEXT], b"This chain answers only to 127.0.0.1 and localhost.\n"
        if not is_ours(headers.get(b"origin")):
            return 403, [_TEXT], b"This chain answers no pages but those of this machine.\n"
        if method == "OPTIONS":
            return 204, [], b""
        if method != "POST":
            return 405, [_TEXT, (b"allow", b"POST, OPTIONS")], b"JSON-RPC 2.0: POST a request.\n"
        body = await whole_body(receive)
        if body is None:
            return 413, [_TEXT], f"A body has at most {BODY_MAX_BYTES} bytes.\n".encode()
        answered = self._answer(body)
        return (200, [_JSON], answered) if answered else (204, [], b"")


async def whole_body(receive: Any) -> bytes | None:
    """Read the body; None if it is too long."""
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
    """Give the name in a Host header, without the port."""
    try:
        return urlsplit(f"//{given.decode('ascii')}").hostname or ""
    except ValueError:
        return ""


def is_ours(origin: bytes | None) -> bool:
    """Say whether a request comes from no page, a page of this machine, or a wallet's."""
    if origin is None:
        return True
    try:
        parts = urlsplit(origin.decode("ascii"))
        return parts.scheme in EXTENSIONS or parts.hostname in LOOPBACK
    except ValueError:
        return False


def cross_origin(headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Allow a page of this machine to read the answer."""
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


def bind(port: int) -> socket.socket:
    """Take a port of loopback.

    Args:
        port: which one; 0 for any that is free.

    Raises:
        OSError: it is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


class NodeServer(uvicorn.Server):
    """A server that ends when it is told to, with exit code 0.

    Args:
        answer: gives the answer to a body.
    """

    def __init__(self, answer: Answer) -> None:
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

    def serve_until_told(self, listener: socket.socket, *, with_parent: bool) -> None:
        """Serve until a signal comes, or standard input ends.

        Args:
            listener: the socket it listens on.
            with_parent: end when standard input does, which is when the process that holds its
                other end is gone.
        """

        async def live() -> None:
            if with_parent:
                self._watch_input()
            await self.serve(sockets=[listener])

        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.run(live())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Hear a signal."""
        self.should_exit = True

    def _watch_input(self) -> None:
        """End when standard input ends, if that is a pipe: nothing else has another end."""
        loop = asyncio.get_running_loop()
        try:
            mode = os.fstat(INPUT).st_mode
        except OSError:  # it is closed
            return
        if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
            return

        def heard() -> None:
            if not os.read(INPUT, INPUT_BYTES):
                loop.remove_reader(INPUT)
                self.should_exit = True

        loop.add_reader(INPUT, heard)


_LOG: Final = logging.getLogger("clob_server.chain.devchain")
BATCH_MAX: Final = 1000
"""How many requests a batch has at most."""


def answer(chain: DevelopmentChain, body: bytes) -> bytes:
    """Answer a body.

    Args:
        chain: the chain that is asked.
        body: a request of JSON, or a batch of them.

    Returns:
        The answer as JSON; empty where nothing but notifications came.
    """
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return msgspec.json.encode(failed(None, RefusedError(f"parse error: {error}", PARSE_ERROR)))
    if not isinstance(asked, list):
        one = answer_one(chain, asked)
        return b"" if one is None else msgspec.json.encode(one)
    if not 1 <= len(asked) <= BATCH_MAX:
        wrong = f"invalid request: a batch of 1 to {BATCH_MAX}, not {len(asked)}"
        return msgspec.json.encode(failed(None, RefusedError(wrong, INVALID_REQUEST)))
    answers = [one for each in asked if (one := answer_one(chain, each)) is not None]
    return msgspec.json.encode(answers) if answers else b""


def answer_one(chain: DevelopmentChain, asked: object) -> dict[str, Any] | None:
    """Answer one request; None for a notification, which gets no answer."""
    number = asked.get("id") if isinstance(asked, dict) else None
    if isinstance(number, dict | list | bool):
        number = None
    try:
        check_request(asked)
        assert isinstance(asked, dict)
        result = run(chain, asked["method"], asked.get("params"))
    except RefusedError as error:
        told = failed(number, error)
        is_request = error.code == INVALID_REQUEST
    else:
        told, is_request = {"jsonrpc": "2.0", "id": number, "result": result}, False
    return told if is_request or "id" in asked else None  # type: ignore[operator]


def check_request(asked: object) -> None:
    """Refuse what is JSON, and no request."""
    if not isinstance(asked, dict):
        raise RefusedError("invalid request: an object is needed", INVALID_REQUEST)
    if asked.get("jsonrpc") != "2.0":
        raise RefusedError('invalid request: "jsonrpc" must be "2.0"', INVALID_REQUEST)
    if not isinstance(asked.get("method"), str):
        raise RefusedError('invalid request: "method" must be a string', INVALID_REQUEST)
    if isinstance(asked.get("id"), dict | list | bool):
        raise RefusedError('invalid request: "id" is a string, a number or null', INVALID_REQUEST)


def run(chain: DevelopmentChain, name: str, given: object) -> Any:
    """Do what a request asks for.

    Raises:
        RefusedError: it cannot be done; whatever went wrong becomes one.
    """
    method = METHODS.get(name)
    if method is None:
        wrong = f"the method {name[:80]} does not exist/is not available"
        raise RefusedError(wrong, METHOD_NOT_FOUND)
    if given is not None and not isinstance(given, list):
        raise RefusedError("invalid params: a list is needed", INVALID_PARAMS)
    try:
        return method(chain, given or [])
    except RefusedError:
        raise
    except Exception as error:
        chain.forget()
        _LOG.exception("%s failed", name)
        told = f"internal error: {type(error).__name__}: {error}"
        raise RefusedError(told, INTERNAL_ERROR) from error
    finally:
        chain.store.forget()


def failed(number: object, error: RefusedError) -> dict[str, Any]:
    """Make the answer that says what is wrong."""
    told: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = f"0x{error.data.hex()}"
    return {"jsonrpc": "2.0", "id": number, "error": told}


# MERGED clob_server.chain.devchain.server: JSON-RPC 2.0: a body in, a body out, batches and errors as the specification has them.
