"""A WebSocket that is kept: it is replaced when it ends or is silent, after a random wait.

Waits are random, so that the clients of a server that restarts do not return all at once.
"""

import asyncio
import random  # noqa: TID251 - spreads the attempts of clients that reconnect
import re
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    WebSocketException,
)

from clob.client.errors import (
    ClientError,
    ConnectionFailedError,
    InvalidCallError,
    family,
    foreign_error,
    response_error,
)
from clob.wire.messages import POLICY, RESTART

OVERLOAD: Final = 1013
"""Close code of a server, or of a proxy before it, that has too many clients."""
TOO_LARGE: Final = 1009
"""Close code for a message that is longer than the server accepts."""
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
FINAL_REASONS: Final = ("INVALID_API_KEY", "API_KEY_REQUIRED", "SCOPE_MISSING")
"""Codes in the reason of a close that a new connection would repeat."""
FINAL_STATUSES: Final = (400, 401, 403, 404, 405, 410)
"""Statuses of a handshake that a further attempt would repeat."""


class Backoff(NamedTuple):
    """Waits between connections: the least one plus a random part of a window that doubles."""

    first_s: float = 0.25
    """Window of the first attempt after a cut, in seconds."""
    max_s: float = 30.0
    """Longest window, in seconds."""
    steady_s: float = 5.0
    """Seconds that a connection must last so that the next attempt begins with the first window."""

    def wait_s(self, attempt: int, code: int | None, random: Callable[[], float]) -> float:
        """Return the seconds to wait before an attempt.

        Args:
            attempt: number of earlier attempts since the last steady connection.
            code: close code of the last connection; None if it was cut or not established.
            random: returns a number from 0 to 1.
        """
        least_s, first_s = LEAST_S.get(code or 0, (0.0, self.first_s))
        window_s = min(self.max_s, first_s * (1 << min(attempt, 20)))
        return least_s + window_s * random()


LEAST_S: Final = {RESTART: (1.0, 2.0), POLICY: (2.0, 4.0), OVERLOAD: (5.0, 10.0)}
"""Least wait and first window by close code, in seconds."""


MESSAGE_MAX: Final = 1 << 26
"""Longest message, in bytes."""
OPTIONS: Final[Mapping[str, Any]] = {
    "ping_interval": None,  # silence is watched here
    "close_timeout": 2.0,
    "compression": None,
    "max_size": MESSAGE_MAX,
    "max_queue": None,
}
"""Options of every connection."""


def feed_url(url: str) -> str:
    """Return the URL of the WebSocket.

    Args:
        url: base URL of the server, ``http`` or ``https``, with any path before ``/ws``; or the
            whole URL of the WebSocket, ``ws`` or ``wss``.

    Raises:
        InvalidCallError: it is neither.
    """
    try:
        parts = urlsplit(url)
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidCallError(f"url is not an address: {error}; got {url!r}") from None
    if parts.scheme in ("ws", "wss") and parts.netloc:
        return url
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidCallError(f"url must begin with http, https, ws or wss; got {url!r}")
    scheme = "wss" if parts.scheme == "https" else "ws"
    return urlunsplit((scheme, parts.netloc, f"{parts.path.rstrip('/')}/ws", parts.query, ""))


def final_error(code: int | None, reason: str) -> ClientError | None:
    """Return the error of a close after which no connection is possible; None to reconnect."""
    found = next((each for each in FINAL_REASONS if reason.startswith(each)), None)
    if code != POLICY or found is None:
        return None
    return family(401)(found, reason.partition(": ")[2], status=401)


def lasting_reason(error: BaseException | None) -> str | None:
    """Return the reason for which no attempt will connect; None if a later one may."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
            return f"the host is unknown ({error.strerror})"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the certificate of the server is not trusted: {error.verify_message}"
        if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
            return "the server answers without TLS: begin the address with http:// or ws://"
        error = error.__cause__ or error.__context__
    return None


class ConnectionUser(Protocol):
    """Uses the connections one after the other."""

    def is_needed(self) -> bool:
        """Return whether a connection would be used."""

    def on_open(self) -> None:
        """Use a new connection."""

    def on_data(self, data: bytes, /) -> None:
        """Handle a received message."""

    def on_quiet(self) -> None:
        """Ask for a sign of life."""

    def on_silence(self) -> None:
        """Note that the connection is silent, or is not silent any more."""

    def on_cut(self, code: int | None, /) -> None:
        """Note that the connection ended, with a close code if it was closed."""

    def on_tick(self, now_s: float, /) -> None:
        """Do periodic work."""

    def on_end(self, error: ClientError | None, /) -> None:
        """Note that no other connection follows."""


def header(name: str, value: object) -> str:
    """Return a value of a header.

    Raises:
        InvalidCallError: it cannot be sent; the text does not contain it, since it may be a key.
    """
    if not isinstance(value, str):
        raise InvalidCallError(f"{name} must be a str; got {type(value).__name__}")
    text = value.strip()
    if not HEADER_VALUE.fullmatch(text):
        raise InvalidCallError(f"{name} has characters that HTTP does not allow")
    return text


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers of a caller.

    Raises:
        InvalidCallError: a name or a value cannot be sent.
    """
    given = dict(headers or {})
    for name in given:
        if not HEADER_NAME.fullmatch(str(name)):
            raise InvalidCallError(f"headers has a name that HTTP does not allow: {name!r}")
    return {name: header(f"header {name}", value) for name, value in given.items()}


class KeptConnection:
    """A connection that is replaced when it ends.

    Args:
        url: of the WebSocket.
        options: of ``websockets.asyncio.client.connect``.
        user: uses the connections.
        heartbeat_s: seconds of silence until the user asks for a sign of life; after twice the time
            the connection is silent, after three times it is replaced.
        backoff: waits between connections.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any],
        user: ConnectionUser,
        heartbeat_s: float,
        backoff: Backoff,
    ) -> None:
        self.current: ClientConnection | None = None
        """The connection; None without one."""
        self.num_connections: int = 0
        """Connections so far."""
        self.is_silent: bool = False
        """Whether the connection is open but silent."""
        self.reason: str = "no attempt was made"
        """Description of the end of the last connection or attempt."""
        self.needed: Final = asyncio.Event()
        """Set it when a connection is needed: one that is not needed is not replaced."""
        self._url, self._user = url, user
        self._options = {**OPTIONS, **options}
        self._heartbeat_s, self._backoff = heartbeat_s, backoff
        self._num_received, self._lasted_s = 0, 0.0
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._error: ClientError | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a connection is kept."""
        return self._running is not None and not self._running.done()

    def open(self) -> None:
        """Connect, and keep the connection until :meth:`close`."""
        self._running = asyncio.get_running_loop().create_task(self._run())
        self.start(self._watch())

    async def close(self) -> None:
        """Close the connection and end all tasks; do nothing if it was not opened."""
        if self._running is None:
            return
        if self.current is not None:
            with suppress(OSError, WebSocketException):
                await self.current.close()
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        for each in tuple(self._tasks):
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """End the current connection at once; another one follows."""
        if self.current is not None:
            self.current.transport.abort()

    def fail(self, error: ClientError) -> None:
        """End with an error."""
        self._error = error
        if self._running is not None:
            self._running.cancel()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until its end or that of the connections."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def send(self, content: bytes) -> None:
        """Send a text message; do nothing without a connection."""
        if self.current is not None:
            with suppress(ConnectionClosed):
                await self.current.send(content, text=True)

    def post(self, content: bytes) -> None:
        """Send a text message soon, if there is a connection."""
        if self.current is not None:
            self.start(self.send(content))

    # ----- connecting ------------------------------------------------------------------------

    async def _run(self) -> None:
        """Keep a connection until the end."""
        attempt = 0
        try:
            while True:
                if self.num_connections and not self._user.is_needed():
                    self.needed.clear()
                    await self.needed.wait()
                code = await self._connect()
                if self._lasted_s >= self._backoff.steady_s:
                    attempt = 0
                await asyncio.sleep(self._backoff.wait_s(attempt, code, random.random))
                attempt += 1
        except ClientError as error:
            self._error = error
        except Exception as error:
            self._error = ConnectionFailedError(f"{type(error).__name__}: {error}")
            raise
        finally:
            self._user.on_end(self._error)

    async def _connect(self) -> int | None:
        """Use one connection until its end; return its close code, if it has one.

        Raises:
            ClientError: another connection would end for the same reason.
        """
        self._lasted_s = 0.0
        try:
            connection = await connect(self._url, **self._options)
        except InvalidStatus as error:
            return self._on_rejected(error)
        except (InvalidProxy, InvalidURI, ImportError, TypeError, ValueError) as error:
            raise InvalidCallError(
                f"the address, the proxy or an option of the feed cannot be used: {error}"
            ) from error
        except (OSError, EOFError, WebSocketException) as error:
            reason = None if self.num_connections else lasting_reason(error)
            if reason is not None:
                failed = ConnectionFailedError(reason)
                failed.retryable = False
                raise failed from error
            self.reason = f"{type(error).__name__}: {error}"
            return None
        self.num_connections += 1
        self.current = connection
        clock = asyncio.get_running_loop().time
        begin_s = clock()
        try:
            self._user.on_open()
            await self._receive(connection)
        finally:
            self.current, self.is_silent = None, False
            connection.transport.abort()
            self._user.on_cut(connection.close_code)
        self._lasted_s = clock() - begin_s
        code, reason = connection.close_code, connection.close_reason or ""
        self.reason = f"closed with {code} {reason}"
        final = final_error(code, reason)
        if final is not None:
            raise final
        return code

    async def _receive(self, connection: ClientConnection) -> None:
        """Pass messages on until the connection ends."""
        receive, on_data = connection.recv, self._user.on_data
        with suppress(ConnectionClosed):
            while True:
                data = await receive(decode=False)
                self._num_received += 1
                if self.is_silent:
                    self.is_silent = False
                    self._user.on_silence()
                on_data(data)

    def _on_rejected(self, error: InvalidStatus) -> int | None:
        """Return the close code that a rejected handshake is treated as.

        Raises:
            ResponseError: a further attempt would be rejected as well.
        """
        response = error.response
        found = response_error(bytes(response.body or b""), response.status_code)
        self.reason = str(found or error)
        if response.status_code in FINAL_STATUSES:
            raise found or foreign_error(response.status_code)
        return OVERLOAD if response.status_code in (429, 503) else None

    async def _watch(self) -> None:
        """Watch for silence, and let the user do its periodic work."""
        loop, limit_s = asyncio.get_running_loop(), self._heartbeat_s
        num_before, since_s, asked = -1, 0.0, False
        while True:
            await asyncio.sleep(min(limit_s / 4, 1.0))
            now_s = loop.time()
            self._user.on_tick(now_s)
            if self.current is None or self._num_received != num_before:
                num_before, since_s, asked = self._num_received, now_s, False
            elif now_s - since_s >= 3 * limit_s:
                self.cut()
            elif now_s - since_s >= 2 * limit_s and not self.is_silent:
                self.is_silent = True
                self._user.on_silence()
            elif now_s - since_s >= limit_s and not asked:
                asked = True
                self._user.on_quiet()
