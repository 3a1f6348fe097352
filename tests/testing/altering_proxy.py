"""A proxy in front of a server that alters requests, answers and messages of the feed."""

import asyncio
import contextlib
import json
import threading

import httpx
import uvicorn
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

START_S = 30
HOP_HEADERS = {b"content-length", b"transfer-encoding", b"connection", b"host", b"accept-encoding"}


class Alterations:
    """Alterations of a proxy; these methods alter nothing."""

    def request(self, method, path, query, body):
        """Return the query and the body to forward; ``body`` is JSON or None."""
        return query, body

    def answer(self, method, path, body, reply):
        """Alter a reply in place: its ``status``, ``headers`` and ``body``."""

    def message(self, message):
        """Return the message to send instead of one of the feed; None for none."""
        return message


class Reply:
    """An answer of the server."""

    def __init__(self, response):
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.raw}
        try:
            self.body = response.json()
        except ValueError:
            self.body = None
        self.raw = response.content

    def content(self):
        """Return the bytes to send."""
        return self.raw if self.body is None else json.dumps(self.body).encode()


class AlteringProxy:
    """A proxy on a free port, in a thread of its own.

    Args:
        url: URL of the server.
        alterations: its alterations.
    """

    def __init__(self, url, alterations=None):
        self._target = url
        self._alterations = alterations or Alterations()
        config = uvicorn.Config(
            self._serve,
            port=0,
            interface="asgi3",
            log_level="error",
            lifespan="on",
            ws="websockets-sansio",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self):
        self._thread.start()
        deadline = threading.Event()
        for _ in range(START_S * 100):
            if self._server.started:
                break
            deadline.wait(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join(START_S)

    async def _serve(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._forward(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._relay(scope, receive, send)

    async def _live(self, receive, send):
        """Keep the connections to the server from start to stop."""
        await receive()
        async with httpx.AsyncClient(base_url=self._target, timeout=START_S) as self._http:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    # ----- HTTP ------------------------------------------------------------------------------

    async def _forward(self, scope, receive, send):
        method, path = scope["method"], scope["path"]
        content = await body_of(receive)
        try:
            body = json.loads(content)
        except ValueError:
            body = None
        query = scope["query_string"].decode()
        query, altered = self._alterations.request(method, path, query, body)
        if altered != body:
            content = json.dumps(altered).encode()
        headers = [each for each in scope["headers"] if each[0] not in HOP_HEADERS]
        target = f"{path}?{query}" if query else path
        response = await self._http.request(method, target, content=content, headers=headers)
        reply = Reply(response)
        self._alterations.answer(method, path, body, reply)
        raw = reply.content()
        names = [each for each in reply.headers.items() if each[0] not in HOP_HEADERS]
        names = [each for each in names if each[0] != b"content-encoding"]
        names.append((b"content-length", str(len(raw)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": names})
        await send({"type": "http.response.body", "body": raw})

    # ----- WebSocket -------------------------------------------------------------------------

    async def _relay(self, scope, receive, send):
        target = f"{self._target.replace('http', 'ws', 1)}{scope['path']}"
        await receive()
        await send({"type": "websocket.accept"})
        async with connect(target, proxy=None) as socket:
            down = asyncio.create_task(self._down(socket, send))
            with contextlib.suppress(ConnectionClosed):
                while (event := await receive())["type"] == "websocket.receive":
                    await socket.send(event.get("text") or event["bytes"])
            down.cancel()

    async def _down(self, socket, send):
        try:
            while True:
                text = await socket.recv()
                if text.startswith("{"):
                    message = self._alterations.message(json.loads(text))
                    text = None if message is None else json.dumps(message)
                if text is not None:
                    await send({"type": "websocket.send", "text": text})
        except ConnectionClosed as error:
            code = error.rcvd.code if error.rcvd else 1011
            await send({"type": "websocket.close", "code": code})


async def body_of(receive):
    """Return the body of a request."""
    content = b""
    while True:
        event = await receive()
        content += event.get("body", b"")
        if not event.get("more_body"):
            return content
