"""The operator's routes of a running server, as the command line calls them.

Straight to the address that was given: no proxy, no redirect, so that a token goes nowhere else.
"""

from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from clob import ClobError

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
