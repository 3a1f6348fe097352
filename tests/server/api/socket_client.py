"""A client with the methods of `httpx.Client` that sends its requests over one WebSocket.

Requests of other routes, and requests with headers besides the API key, go over HTTP.
"""

import itertools
import json
import re
import threading

import httpx
from websockets.sync.client import connect

from clob_server.app import ROUTES
from clob_server.http.socket_operations import PREFIXES

PATIENCE_S = 60
KEY = "X-API-Key"


def operations():
    """Return method, pattern of the path, and name of each route, in the order of the server."""
    for route in ROUTES:
        if f"{route.path}/".startswith(tuple(f"{prefix}/" for prefix in PREFIXES)):
            pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path)
            yield route.method, re.compile(pattern), route.name


OPERATIONS = list(operations())


class SocketClient:
    """A client of a running server, over one WebSocket; use it as a context."""

    def __init__(self, live, **options):
        self._http = live.http
        # Unread messages of a bounded queue would delay closing by ten seconds.
        self._connection = connect(live.ws_url, max_size=None, **{"max_queue": None} | options)
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def __enter__(self):
        self.socket = self._connection.__enter__()
        return self

    def __exit__(self, *error):
        self._connection.__exit__(*error)

    # ----- requests by name --------------------------------------------------------------------

    def send(self, operation, params=None, body=None, **fields):
        """Send a request; return its id."""
        message = {"type": "request", "id": next(self._ids), "operation": operation, **fields}
        if params:
            message["params"] = params
        if body is not None:
            message["body"] = body
        self.socket.send(json.dumps(message))
        return message["id"]

    def receive(self):
        """Return the next message."""
        return json.loads(self.socket.recv(timeout=PATIENCE_S))

    def ask(self, operation, params=None, body=None, **fields):
        """Send a request and return its response."""
        request_id = self.send(operation, params, body, **fields)
        response = self.receive()
        assert (response["type"], response["id"]) == ("response", request_id)
        return response

    # ----- as httpx.Client ---------------------------------------------------------------------

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def request(self, method, path, *, params=None, headers=None, **options):
        url = httpx.URL(path, params=params) if params else httpx.URL(path)
        found = None
        for other, pattern, name in OPERATIONS:
            match = pattern.fullmatch(url.path)
            if other == method and match:
                found = name, match.groupdict()
                break
        if found is None or set(headers or ()) - {KEY} or options.keys() - {"json"}:
            return self._http.request(method, path, params=params, headers=headers, **options)
        name, fields = found
        key = {"apiKey": headers[KEY]} if headers else {}
        with self._lock:
            answer = self.ask(name, {**fields, **dict(url.params)}, options.get("json"), **key)
        is_problem = answer["status"] >= 400
        kind = "application/problem+json" if is_problem else "application/json"
        return httpx.Response(
            answer["status"],
            json=answer["body"],
            headers={**answer["headers"], "content-type": kind},
        )
