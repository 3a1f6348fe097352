"""Reaches a running server over HTTP, or the data folder of a stopped one.

HTTP goes straight to the given address, without proxies or redirects, so that the token is sent
nowhere else. A change in a data folder is one durable command, checked as in the server.
"""

from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from clob import ClobError
from clob_server.core.clock import ClockGuard
from clob_server.core.commands import ApiKey, ServerCommand, encode
from clob_server.core.recovery import recover
from clob_server.core.state import ServerState
from clob_server.log import SqliteLog
from clob_server.settings import SettingsError

TIMEOUT_S: Final = 10.0
"""Timeout of a request."""
RESPONSE_BYTES_MAX: Final = 1 << 28
"""Largest response that is read, bytes."""

_CONNECTIONS: Final = {"http": HTTPConnection, "https": HTTPSConnection}


class RemoteError(ClobError, code="REMOTE_REFUSED"):
    """A server could not be reached, or rejected the request."""


def call(url: str, token: str, method: str, path: str, body: object = None) -> Any:
    """Send a request with an operator's token to a server; return the decoded JSON response.

    Raises:
        RemoteError: the server cannot be reached, or rejected the request.
        SettingsError: it is not the URL of a server.
    """
    try:
        return msgspec.json.decode(fetch(url, token, method, path, body))
    except ValueError as error:
        raise no_response(url, error) from None


def fetch(url: str, token: str, method: str, path: str, body: object = None) -> bytes:
    """Send a request like :func:`call`; return the bytes of the response."""
    kind, host, port, prefix = read_url(url)
    headers, content = {"Authorization": f"Bearer {token}"}, None
    if body is not None:
        headers["Content-Type"] = "application/json"
        content = msgspec.json.encode(body)
    try:
        with closing(kind(host, port, timeout=TIMEOUT_S)) as connection:
            connection.request(method, prefix + path, content, headers)
            response = connection.getresponse()
            status, data = response.status, bytes(response.read(RESPONSE_BYTES_MAX + 1))
        if len(data) > RESPONSE_BYTES_MAX:
            raise ValueError(f"more than {RESPONSE_BYTES_MAX} bytes")
        problem = {} if status == 200 else msgspec.json.decode(data)
    except (OSError, ValueError, HTTPException) as error:
        raise no_response(url, error) from None
    if status != 200:
        problem = problem if isinstance(problem, dict) else {}
        raise RemoteError(f"{problem.get('code', status)}: {problem.get('detail', 'rejected')}")
    return data


def read_url(url: str) -> tuple[type[HTTPConnection], str, int | None, str]:
    """Return the kind of connection, the host, the port and the path before all routes of a URL.

    Raises:
        SettingsError: it is not the URL of a server.
    """
    with suppress(ValueError):  # an unusable port or IPv6 address
        parts = urlsplit(url)
        kind, port = _CONNECTIONS.get(parts.scheme), parts.port
        is_bare = not (parts.username or parts.password or parts.query or parts.fragment)
        if kind is not None and parts.hostname and is_bare:
            return kind, parts.hostname, port, parts.path.rstrip("/")
    rule = "http:// or https://, a host, and a port and a path if needed"
    raise SettingsError(f"--url must be {rule}; got {url!r}")


def no_response(url: str, error: Exception) -> RemoteError:
    """Return the error of a server without a valid response."""
    return RemoteError(f"no valid response from {url}: {error}")


def add_command(folder: Path, make: Callable[[int, ServerState], ServerCommand]) -> None:
    """Append one server command, made for the current time and state, to an existing log.

    Raises:
        LogLockedError: a server is using the folder.
        LogError: the log cannot be read or written, or is damaged.
        ClockUnsureError: the clock jumped since the server ran, or the log is ahead of it.
        RejectedError: a rule rejects the command; nothing was written.
    """
    with closing(SqliteLog(folder)) as log:
        state, hashed, _ = recover(log)
        clock = ClockGuard(folder=folder)
        clock.follow_log(lambda: state.now_ms, lambda: state.registry.ahead_ms)
        command = make(max(clock.commit_ms(), state.now_ms), state)
        raw = encode(command)
        state.apply(command)
        log.append([raw], log.tail.seq, event_hash=hashed)


def keys_in(folder: Path) -> list[ApiKey]:
    """List the keys of a data folder, oldest first; errors as :func:`add_command`."""
    with closing(SqliteLog(folder)) as log:
        state, _, _ = recover(log)
    return list(state.registry.keys.values())
