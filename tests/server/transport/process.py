"""A server process for a test, and plain-socket clients of it."""

import json
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from websockets.sync.client import connect

ROOT = Path(__file__).parents[3]
PATIENCE_S = 30


class Process:
    """A process of ``tests.server.transport.app`` that lives as long as its ``with`` block."""

    def __init__(self, *arguments, loop="uvloop", limits=None, **settings):
        settings = {"loop": loop, "limits": limits or {}, "drain_s": 0.2, **settings}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.transport.app", json.dumps(settings), *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines = queue.SimpleQueue()
        self._errors = []
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._errors.extend, args=[self._process.stderr], daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self):
        self.port = int(self.line("listening").split()[2])
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self.ended()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put(None)

    def line(self, start):
        """Wait for a line with this prefix, skipping other lines."""
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            if line is None:
                raise EOFError(f"no {start!r}: {self.errors}")
            if line.startswith(start):
                return line

    def lines(self):
        """Wait for the exit and return the remaining lines."""
        self.ended()
        return list(iter(self._lines.get_nowait, None))

    @property
    def errors(self):
        """The output to standard error."""
        return "".join(self._errors)

    def signal(self, number=signal.SIGTERM):
        self._process.send_signal(number)

    def open_gate(self):
        """Release requests to /wait by a signal, which works after the listener has closed."""
        self.signal(signal.SIGUSR1)

    def ended(self):
        """Wait for the exit and return the exit code."""
        code = self._process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self._process.stdout.close()
        self._process.stderr.close()
        return code

    # ----- clients ---------------------------------------------------------------------------

    def open(self, **options):
        """Open a plain connection."""
        return Client(self.port, **options)

    def send(self, data):
        """Send bytes and return everything received until the server closes the connection."""
        with self.open() as client:
            client.send(data)
            return client.rest()

    def get(self, path="/"):
        """Request a path on a new connection; return status and body."""
        return parse(self.send(f"GET {path} HTTP/1.1\r\nconnection: close\r\n\r\n".encode()))

    def websocket(self, path, **options):
        options = {"compression": None, "max_size": None, "proxy": None, **options}
        return connect(f"ws://127.0.0.1:{self.port}/{path}", **options)


class Client:
    """A plain socket that reads one response at a time."""

    def __init__(self, port, receive_bytes=0):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def reset(self):
        """Reset the connection."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.__exit__()

    def is_reset(self):
        """Return whether the server has reset the connection, without reading from it."""
        try:
            self.send(b"\r\n")
        except ConnectionError:
            return True
        return False

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def answer(self):
        """Read one whole response; return status, headers and body."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.file.readline()
            if not line:
                raise EOFError(head)
            head += line
        status, headers = head_of(head)
        return status, headers, self.file.read(int(headers.get("content-length", 0)))

    def rest(self):
        """Read until the server closes the connection."""
        return self.file.read()


def until(condition):
    """Wait until a condition is true."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + PATIENCE_S
        time.sleep(0.01)


def head_of(head):
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines if line)


def parse(answer):
    """Split a response into status and body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return head_of(head)[0], body


def problem(answer):
    """Check that a response is one problem and nothing else; return status, code and headers."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, headers = head_of(head)
    content = json.loads(body)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert int(headers["content-length"]) == len(body)
    assert headers["x-request-id"] == content["requestId"] != ""
    assert (content["status"], content["error"]) == (status, content["detail"])
    assert {"type", "title", "errors", "retryable"} < set(content)
    return status, content["code"], headers
