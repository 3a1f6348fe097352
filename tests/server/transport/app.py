"""A small application on the transport, run as a process by the tests.

Tests wait for the lines that it writes to standard output.
"""

import asyncio
import functools
import gc
import signal
import sys
import time
from contextlib import suppress

import msgspec

from clob_server.api.request import REPLY
from clob_server.transport.config import TransportLimits
from clob_server.transport.server import HttpServer, config_for
from clob_server.transport.websocket import PUSH, text_frame

PIECE = text_frame(b"x" * 8_000)


def report(*words):
    """Write a line for the test."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class App:
    """Dispatches by path."""

    def __init__(self):
        self.server = None
        self.gate = asyncio.Event()
        self.is_draining = False
        self.waits = []

    def drain(self):
        self.is_draining = True
        report("draining")

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.lifespan(receive, send)
        elif scope["type"] == "websocket":
            await getattr(self, "ws_" + scope["path"].strip("/"))(scope, receive, send)
        else:
            await getattr(self, scope["path"].strip("/") or "hello")(scope, receive, send)

    waits_for_body = frozenset({("POST", "/joined")})

    def at_once(self, scope, body, way):
        """Reply to /once with its body, and to /later likewise once the gate opens."""
        if scope["path"] not in ("/once", "/later", "/joined"):
            return False
        answer = functools.partial(way, 200, b"content-length: %d\r\n" % len(body), body)
        if scope["path"] in ("/once", "/joined"):
            report("once", answer())
        else:
            report("waiting")
            self.waits.append(answer)
        return True

    async def once(self, scope, receive, send):
        """Handle through ASGI a request that was not handled at once."""
        report("asgi")
        await self.echo(scope, receive, send)

    later = joined = once

    async def lifespan(self, receive, send):
        await receive()
        if "no-start" in sys.argv:
            await send({"type": "lifespan.startup.failed", "message": "there is no log"})
            return
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.open_gate)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if "no-end" in sys.argv:
            await asyncio.sleep(3600)
        report("ended")
        await send({"type": "lifespan.shutdown.complete"})

    # ----- HTTP ------------------------------------------------------------------------------

    async def answer(self, send, body, status=200):
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [length]})
        await send({"type": "http.response.body", "body": body})

    async def hello(self, scope, receive, send):
        await self.answer(send, b"hello " + scope["query_string"])

    async def whole(self, scope, receive, send):
        """Reply like /hello, in one write if possible."""
        body = b"hello " + scope["query_string"]
        reply = scope.get("extensions", {}).get(REPLY)
        if reply is None:
            report("asgi")
            await self.answer(send, body)
        else:
            line = b"content-length: %d\r\n" % len(body)
            report("whole", reply(200, line, body), reply(200, line, body))

    async def ready(self, scope, receive, send):
        await self.answer(send, b"", 503 if self.is_draining else 200)

    async def client(self, scope, receive, send):
        await self.answer(send, scope["client"][0].encode())

    async def rejected(self, scope, receive, send):
        counts = self.server.server_state.rejected
        await self.answer(send, msgspec.json.encode(dict(counts)))

    async def garbage(self, scope, receive, send):
        """Reply with the number of objects freed by the garbage collector since the last call."""
        gc.disable()
        await self.answer(send, b"%d" % gc.collect())

    async def unparsed(self, scope, receive, send):
        """Reply with the largest number of unparsed bytes of a connection."""
        connections = self.server.server_state.connections
        most = max(len(connection.unparsed) for connection in connections)
        await self.answer(send, b"%d" % most)

    async def echo(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                report("disconnected")
                return
            body, more = body + message["body"], message["more_body"]
        await self.answer(send, body)

    async def early(self, scope, receive, send):
        await self.answer(send, b"no", 401)

    async def wait(self, scope, receive, send):
        """Reply after a request for /go."""
        report("waiting")
        await self.gate.wait()
        await self.answer(send, b"waited " + scope["query_string"])

    def open_gate(self):
        while self.waits:
            report("later", self.waits.pop(0)())
        self.gate.set()
        self.gate = asyncio.Event()

    async def go(self, scope, receive, send):
        self.open_gate()
        await self.answer(send, b"go")

    async def hold(self, scope, receive, send):
        """Block the event loop."""
        time.sleep(3600)

    async def gone(self, scope, receive, send):
        """Report the disconnect of the client."""
        report("waiting")
        while (await receive())["type"] != "http.disconnect":
            pass
        report("disconnected")

    async def large(self, scope, receive, send):
        report("writing")
        await self.answer(send, bytes(8_000_000))
        report("written")

    async def fail(self, scope, receive, send):
        self.server.fail(RuntimeError("the log is gone"))
        await self.answer(send, b"acknowledged")

    # ----- WebSocket -------------------------------------------------------------------------

    async def ws_echo(self, scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        report("disconnect", message["code"])

    async def ws_reject(self, scope, receive, send):
        await receive()
        await send({"type": "websocket.close"})

    async def ws_late(self, scope, receive, send):
        """Accept after a request for /go."""
        await receive()
        report("pushed", scope["extensions"][PUSH].write(text_frame(b"early")))
        await self.gate.wait()
        await send({"type": "websocket.accept"})
        await self.ws_sizes(scope, receive, send)

    async def ws_sizes(self, scope, receive, send):
        """Push a frame of each received size; report whether a push after the close is accepted."""
        push = scope["extensions"][PUSH]
        if scope["path"] != "/late":
            await receive()
            await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            push.write(text_frame(b"y" * int(message["text"])))
        report("pushed", push.write(text_frame(b"late")))

    async def ws_shortest(self, scope, receive, send):
        """Push with write_unchecked, and again after the client has disconnected."""
        push = scope["extensions"][PUSH]
        await receive()
        await send({"type": "websocket.accept"})
        push.write_unchecked(text_frame(b"here"))
        await receive()
        for wait_s in (0, 0.2):
            await asyncio.sleep(wait_s)
            with suppress(RuntimeError):
                push.write_unchecked(text_frame(b"late"))
        report("pushed twice")

    async def ws_both(self, scope, receive, send):
        """Push continuously while echoing."""
        push = scope["extensions"][PUSH]
        await receive()
        await send({"type": "websocket.accept"})
        number = 0

        def push_next():
            nonlocal number, timer
            if push.write(text_frame(b"push %d" % number)):
                number += 1
                timer = asyncio.get_running_loop().call_later(0.001, push_next)

        timer = None
        push_next()
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        timer.cancel()

    async def ws_flood(self, scope, receive, send):
        """Push until 1 MB is buffered, then act on the query: abort, leave or keep reading."""
        push = scope["extensions"][PUSH]
        await receive()
        await send({"type": "websocket.accept"})
        push.drained = lambda: report("drained", push.buffered())
        num_pushed = 0
        while push.buffered() < 1_000_000:
            push.write(PIECE)
            num_pushed += len(PIECE)
            await asyncio.sleep(0)
        report("buffered", push.buffered(), num_pushed - push.buffered())
        if scope["query_string"] == b"abort":
            push.abort()
        elif scope["query_string"] == b"leave":
            return
        while (message := await receive())["type"] == "websocket.receive":
            report("received", push.buffered())
        report("disconnect", message["code"], push.write(PIECE))


def main():
    settings = msgspec.json.decode(sys.argv[1])
    limits = msgspec.convert(settings.pop("limits", {}), TransportLimits)
    app = App()
    config = config_for(app, limits=limits, **{"port": 0, **settings})
    app.server = HttpServer(
        config,
        on_listening=lambda host, port: report("listening", host, port),
        on_draining=app.drain,
    )
    return app.server.run()


if __name__ == "__main__":
    sys.exit(main())
