"""A tiny application on the transport, run as a process by the tests; its answers say what it saw.

Each line that it writes to standard output is a fact a test waits for.
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
from clob_server.transport import PUSH, TransportLimits, text_frame
from clob_server.transport.server import HttpServer, config_for

PIECE = text_frame(b"x" * 8_000)


def tell(*words):
    """Write a line for the test."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class App:
    """Answers by path."""

    def __init__(self):
        self.server = None
        self.gate = asyncio.Event()
        self.is_draining = False
        self.waits = []

    def drain(self):
        self.is_draining = True
        tell("draining")

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.lifespan(receive, send)
        elif scope["type"] == "websocket":
            await getattr(self, "ws_" + scope["path"].strip("/"))(scope, receive, send)
        else:
            await getattr(self, scope["path"].strip("/") or "hello")(scope, receive, send)

    waits_for_body = frozenset({("POST", "/joined")})

    def at_once(self, scope, body, way):
        """Answers /once, with its body, and /later with it as soon as the gate opens."""
        if scope["path"] not in ("/once", "/later", "/joined"):
            return False
        answer = functools.partial(way, 200, b"content-length: %d\r\n" % len(body), body)
        if scope["path"] in ("/once", "/joined"):
            tell("once", answer())
        else:
            tell("waiting")
            self.waits.append(answer)
        return True

    async def once(self, scope, receive, send):
        """Answers as ASGI has it what could not be answered at once."""
        tell("in parts")
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
        tell("ended")
        await send({"type": "lifespan.shutdown.complete"})

    # ----- HTTP ------------------------------------------------------------------------------

    async def answer(self, send, body, status=200):
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [length]})
        await send({"type": "http.response.body", "body": body})

    async def hello(self, scope, receive, send):
        await self.answer(send, b"hello " + scope["query_string"])

    async def whole(self, scope, receive, send):
        """Answers as /hello does, in one go where it may."""
        body = b"hello " + scope["query_string"]
        reply = scope.get("extensions", {}).get(REPLY)
        if reply is None:
            tell("in parts")
            await self.answer(send, body)
        else:
            line = b"content-length: %d\r\n" % len(body)
            tell("whole", reply(200, line, body), reply(200, line, body))

    async def ready(self, scope, receive, send):
        await self.answer(send, b"", 503 if self.is_draining else 200)

    async def client(self, scope, receive, send):
        await self.answer(send, scope["client"][0].encode())

    async def refused(self, scope, receive, send):
        counts = self.server.server_state.rejected
        await self.answer(send, msgspec.json.encode(dict(counts)))

    async def garbage(self, scope, receive, send):
        """Tells how many objects the collector alone could free, since this was asked last."""
        gc.disable()
        await self.answer(send, b"%d" % gc.collect())

    async def heads(self, scope, receive, send):
        """Tells how many heads are known."""
        await self.answer(send, b"%d" % len(self.server.server_state.head_cache))

    async def unparsed(self, scope, receive, send):
        """Tells how much of what clients sent waits to be parsed."""
        connections = self.server.server_state.connections
        most = max(len(connection.unparsed) for connection in connections)
        await self.answer(send, b"%d" % most)

    async def echo(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                tell("disconnected")
                return
            body, more = body + message["body"], message["more_body"]
        await self.answer(send, body)

    async def early(self, scope, receive, send):
        await self.answer(send, b"no", 401)

    async def wait(self, scope, receive, send):
        """Answers once /go was asked for."""
        tell("waiting")
        await self.gate.wait()
        await self.answer(send, b"waited " + scope["query_string"])

    def open_gate(self):
        while self.waits:
            tell("later", self.waits.pop(0)())
        self.gate.set()
        self.gate = asyncio.Event()

    async def go(self, scope, receive, send):
        self.open_gate()
        await self.answer(send, b"go")

    async def hold(self, scope, receive, send):
        """Holds the loop."""
        time.sleep(3600)

    async def gone(self, scope, receive, send):
        """Tells when its client has gone."""
        tell("waiting")
        while (await receive())["type"] != "http.disconnect":
            pass
        tell("disconnected")

    async def large(self, scope, receive, send):
        tell("writing")
        await self.answer(send, bytes(8_000_000))
        tell("written")

    async def fail(self, scope, receive, send):
        self.server.fail(RuntimeError("the log is gone"))
        await self.answer(send, b"acknowledged")

    # ----- WebSocket -------------------------------------------------------------------------

    async def ws_echo(self, scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        tell("disconnect", message["code"])

    async def ws_refuse(self, scope, receive, send):
        await receive()
        await send({"type": "websocket.close"})

    async def ws_late(self, scope, receive, send):
        """Accepts once /go was asked for."""
        await receive()
        tell("pushed", scope["extensions"][PUSH].write(text_frame(b"early")))
        await self.gate.wait()
        await send({"type": "websocket.accept"})
        await self.ws_sizes(scope, receive, send)

    async def ws_sizes(self, scope, receive, send):
        """Pushes a frame of each size that it is told; then refuses to after the close."""
        push = scope["extensions"][PUSH]
        if scope["path"] != "/late":
            await receive()
            await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            push.write(text_frame(b"y" * int(message["text"])))
        tell("pushed", push.write(text_frame(b"late")))

    async def ws_shortest(self, scope, receive, send):
        """Tells something in the shortest way, and again when the client has gone."""
        push = scope["extensions"][PUSH]
        await receive()
        await send({"type": "websocket.accept"})
        push.write_unchecked(text_frame(b"here"))
        await receive()
        for wait_s in (0, 0.2):
            await asyncio.sleep(wait_s)
            with suppress(RuntimeError):
                push.write_unchecked(text_frame(b"late"))
        tell("told")

    async def ws_both(self, scope, receive, send):
        """Pushes all the while that it echoes."""
        push = scope["extensions"][PUSH]
        await receive()
        await send({"type": "websocket.accept"})
        number = 0

        def more():
            nonlocal number, timer
            if push.write(text_frame(b"push %d" % number)):
                number += 1
                timer = asyncio.get_running_loop().call_later(0.001, more)

        timer = None
        more()
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        timer.cancel()

    async def ws_flood(self, scope, receive, send):
        """Pushes until so much waits, then does what the query says."""
        push = scope["extensions"][PUSH]
        await receive()
        await send({"type": "websocket.accept"})
        push.drained = lambda: tell("drained", push.buffered())
        num_pushed = 0
        while push.buffered() < 1_000_000:
            push.write(PIECE)
            num_pushed += len(PIECE)
            await asyncio.sleep(0)
        tell("buffered", push.buffered(), num_pushed - push.buffered())
        if scope["query_string"] == b"abort":
            push.abort()
        elif scope["query_string"] == b"leave":
            return
        while (message := await receive())["type"] == "websocket.receive":
            tell("received", push.buffered())
        tell("disconnect", message["code"], push.write(PIECE))


def main():
    settings = msgspec.json.decode(sys.argv[1])
    limits = msgspec.convert(settings.pop("limits", {}), TransportLimits)
    app = App()
    config = config_for(app, limits=limits, **{"port": 0, **settings})
    app.server = HttpServer(
        config,
        on_listening=lambda host, port: tell("listening", host, port),
        on_draining=app.drain,
    )
    return app.server.run()


if __name__ == "__main__":
    sys.exit(main())
