"""The operator's routes of a running server, as the command line calls them.

Straight to the address that was given: no proxy, no redirect, so that a token goes nowhere else.
"""

from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from clob import ClobError
from clob_server.core.commands import ApiKey, ServerCommand, encode
from clob_server.core.recovery import recover
from clob_server.core.state import ServerState
from clob_server.log import SqliteLog

TIMEOUT_S: Final = 10.0
"""How long a server may take to answer."""

_CONNECTIONS: Final = {"http": HTTPConnection, "https": HTTPSConnection}


class RemoteError(ClobError):
    """A server could not be asked, or has refused."""

    code = "REMOTE_REFUSED"


def ask(url: str, token: str, method: str, path: str, body: object = None) -> Any:
    """Ask a server for something.

    Args:
        url: its address, with ``http`` or ``https``.
        token: an operator's token.
        method: the method.
        path: the path.
        body: what is sent, as JSON; None is nothing.

    Returns:
        The answer, read from JSON.

    Raises:
        RemoteError: it cannot be reached, or has refused.
    """
    parts = urlsplit(url)
    kind = _CONNECTIONS.get(parts.scheme)
    if kind is None or not parts.hostname:
        raise RemoteError(f"the address of a server begins with http:// or https://, not {url!r}")
    headers = {"Authorization": f"Bearer {token}"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
        try:
            connection.request(
                method, path, None if body is None else msgspec.json.encode(body), headers
            )
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        finally:
            connection.close()
        found = msgspec.json.decode(content)
    except (OSError, ValueError, HTTPException) as error:
        raise RemoteError(f"{url} does not answer as it should: {error!r}") from None
    if status != 200:
        said = found if isinstance(found, dict) else {}
        raise RemoteError(f"{said.get('code', status)}: {said.get('detail', 'refused')}")
    return found


def add_command(
    folder: Path, make: Callable[[int], ServerCommand], clock_ms: Callable[[], int]
) -> ServerState:
    """Do one command of the server's own, which has no events.

    Args:
        folder: the data folder; a log is made where there is none.
        make: takes the time and gives the command.
        clock_ms: tells the time, Unix milliseconds.

    Returns:
        The state after it.

    Raises:
        LogLockedError: a server has the folder.
        LogError: the log cannot be read, is damaged, or cannot be added to.
        RejectedError: a rule refuses the command, and nothing was written.
    """
    with closing(SqliteLog(folder)) as log:
        exchange, hashed, _ = recover(log)
        command = make(max(clock_ms(), exchange.now_ms))
        raw = encode(command)
        exchange.apply(command)
        log.append([raw], log.tail.seq, event_hash=hashed)
    return exchange


def keys_in(folder: Path) -> list[ApiKey]:
    """List the keys of a data folder, in the sequence in which they were made.

    Raises:
        LogLockedError: a server has the folder.
        LogError: the log cannot be read, or is damaged.
    """
    with closing(SqliteLog(folder)) as log:
        exchange, _, _ = recover(log)
    return list(exchange.registry.keys.values())


# MERGED clob_server.cli.remote: What an operator changes in a data folder while no server has it: one command, durable, or none.
#
# It is done as the server does it: recovered, checked, and added to the log in a frame of its own.
