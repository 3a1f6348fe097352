"""Processor time of a signed order over a WebSocket, relative to one over HTTP.

The same client sends both: 32 connections with one unanswered order each, as raw bytes prepared in
advance, on one core; the server has the other core. Both sides run in turn on a server of their
own, with different orders, and the ratio of the server's processor time per order is reported.

The server keeps the heads of HTTP requests that repeat. Clients that send an id or a signature in a
header of each request have no such head, so orders over HTTP are measured both ways.
"""

import selectors
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from os import urandom
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.bench_http import CONNECTIONS, LOAD_CPU, Side, cpu_us, server
from benchmarks.measure import Row, check_equal
from benchmarks.orders import signed_bodies
from benchmarks.workload import cache_dir
from clob_server.settings import Settings

TARGET = 0.85
PIPELINED = 32
HOST = "127.0.0.1"
HANDSHAKE = (
    "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
MASK = b"\x5a\xc3\x17\x88"
RECEIVED = 1 << 16


class Sizes(NamedTuple):
    """Rounds, and orders of each side in a round."""

    rounds: int = 3
    num_orders: int = 20_000


QUICK = Sizes(rounds=1, num_orders=4_000)


# ----- messages ------------------------------------------------------------------------------


def http_request(body: str) -> bytes:
    """Return the request of an order over HTTP; its head repeats."""
    return http_request_of(body.encode())


def traced_request(body: str) -> bytes:
    """Return the request of an order over HTTP, with a head that does not repeat."""
    return http_request_of(body.encode(), b"Traceparent: %b\r\n" % urandom(16).hex().encode())


def http_request_of(content: bytes, lines: bytes = b"") -> bytes:
    """Return the request of an order over HTTP with additional header lines."""
    return (
        b"POST /api/orders HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"%bContent-Length: %d\r\n\r\n%b" % (lines, len(content), content)
    )


def socket_request(body: str) -> bytes:
    """Return the frame of an order over a WebSocket, masked as clients must."""
    text = f'{{"type":"request","id":1,"operation":"create_order","body":{body}}}'.encode()
    mask = (MASK * (len(text) // 4 + 1))[: len(text)]
    masked = (int.from_bytes(text, "big") ^ int.from_bytes(mask, "big")).to_bytes(len(text), "big")
    return struct.pack(">BBH", 0x81, 0x80 | 126, len(text)) + MASK + masked


class Kind(NamedTuple):
    """A side: its messages, the text that ends an answer's head, and its handshake."""

    encode: Callable[[str], bytes]
    accepted: bytes
    handshake: bytes


HTTP = Kind(http_request, b"HTTP/1.1 200", b"")
TRACED = Kind(traced_request, b"HTTP/1.1 200", b"")
SOCKET = Kind(socket_request, b'"status":200', HANDSHAKE.encode())
KINDS = {"http": HTTP, "traced": TRACED, "socket": SOCKET, "pipelined": SOCKET}


# ----- load ----------------------------------------------------------------------------------


def connected(port: int, kind: Kind) -> socket.socket:
    """Return a connection after its handshake."""
    made = socket.create_connection((HOST, port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if kind.handshake:
        made.sendall(kind.handshake)
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            data += made.recv(RECEIVED)
    return made


def send_all(port: int, kind: Kind, messages: list[bytes], num_open: int, each: int) -> None:
    """Send all messages over ``num_open`` connections, ``each`` unanswered on a connection."""
    waiting, num_accepted = iter(messages), 0
    with selectors.DefaultSelector() as selector:
        for _ in range(num_open):
            connection = connected(port, kind)
            selector.register(connection, selectors.EVENT_READ)
            connection.sendall(b"".join(islice(waiting, each)))
        while num_accepted < len(messages):
            for ready, _ in selector.select():
                reader = ready.fileobj
                assert isinstance(reader, socket.socket)
                count = reader.recv(RECEIVED).count(kind.accepted)
                num_accepted += count
                more = b"".join(islice(waiting, count))
                if more:
                    connection.sendall(more)
        for ready in list(selector.get_map().values()):
            assert isinstance(ready.fileobj, socket.socket)
            ready.fileobj.close()


def main(arguments: list[str]) -> None:
    """Send the messages of a file, a body per line; print the number of accepted orders."""
    side, port, path, num_open, each = arguments
    kind = KINDS[side]
    messages = [kind.encode(body) for body in Path(path).read_text().splitlines()]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    send_all(int(port), kind, messages, int(num_open), int(each))
    sys.stdout.write(f"{len(messages)}\n")


def load(side: Side, name: str, file: Path, num_open: int, each: int) -> float:
    """Send the orders of a file; return the server's processor time per order, microseconds."""
    port = side.url.rpartition(":")[2]
    command = ["taskset", "-c", LOAD_CPU, sys.executable, "-m", "benchmarks.bench_socket"]
    command += [name, port, str(file), str(num_open), str(each)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        check_equal("client", process.stdout.readline(), "ready\n")
        before = cpu_us(side.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        count = int(process.stdout.readline())
        return (cpu_us(side.pid) - before) / count


# ----- rows ----------------------------------------------------------------------------------


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    sizes = QUICK if quick else Sizes()
    if shutil.which("taskset") is None:
        yield Row("socket: not measured, needs taskset", "", "", None)
        return
    figures: dict[str, list[float]] = {name: [] for name in KINDS}
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        for turn in range(sizes.rounds):
            for name, times in figures.items():
                bodies = signed_bodies(sizes.num_orders, Settings().domain, turn)
                file = Path(folder) / "bodies"
                file.write_text("\n".join(bodies))
                num_open, each = (1, PIPELINED) if name == "pipelined" else (CONNECTIONS, 1)
                with server(Path(folder) / f"{name}{turn}", "process") as side:
                    times.append(load(side, name, file, num_open, each))
    for name, how in (("socket", ""), ("pipelined", f", {PIPELINED} in flight on one connection")):
        for other, whose in (("http", ""), ("traced", " whose heads differ")):
            ratio = median(a / b for a, b in zip(figures[name], figures[other], strict=True))
            title = f"socket: signed create, processor time{how} / http{whose}"
            mine_ns, other_ns = median(figures[name]) * 1e3, median(figures[other]) * 1e3
            yield Row(title, f"<= {TARGET:.2f}", f"{ratio:.3f}", ratio <= TARGET, other_ns, mine_ns)


if __name__ == "__main__":
    main(sys.argv[1:])
