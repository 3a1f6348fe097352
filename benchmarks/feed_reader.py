"""Feed clients in one process that record when they read each event.

Arguments: ``ws`` or ``raw``, the port, the number of clients. The sender puts the current time into
the order id, by the clock that all processes share. Each input line is a number of events; after so
many have been read, the output line is their number and the p50 and p99 delays in ns.
"""

import os
import select
import socket
import sys
import time
from statistics import quantiles

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
SUBSCRIBE = b'{"type":"subscribe","channel":"orderbook","marketId":"m"}'
MASKED = bytes((0x81, 0x80 | len(SUBSCRIBE), 0, 0, 0, 0)) + SUBSCRIBE
"""The subscribe message as a frame, masked with zeros."""
ORDER = b'"orderId":"'
READ_BYTES = 1 << 13


def connected(kind: str, port: int) -> socket.socket:
    """Connect a client and, for ``ws``, subscribe to the market."""
    client = socket.create_connection(("127.0.0.1", port))
    if kind == "raw":
        client.recv(1)  # the server has registered the client
    else:
        client.sendall(HANDSHAKE)
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            data += client.recv(1)
        client.sendall(MASKED)
        data = b""
        while not data.endswith(b"}}"):  # the snapshot
            data += client.recv(READ_BYTES)
    client.setblocking(False)
    return client


def record_delays(received: list[tuple[int, bytes]], taken_ns: list[int]) -> None:
    """Append the delay of each event in the received data, then clear the data."""
    for now, data in received:
        end = 0
        while (match := data.find(ORDER, end)) >= 0:
            start = match + len(ORDER)
            end = data.index(b'"', start)
            taken_ns.append(now - int(data[start:end]))
    received.clear()


def main() -> None:
    """Read until standard input ends; parse received data only when no client has new data."""
    kind, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    clients = {client.fileno(): client for client in (connected(kind, port) for _ in range(count))}
    poll = select.epoll()
    for number in (*clients, 0):
        poll.register(number, select.EPOLLIN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    taken_ns: list[int] = []
    received: list[tuple[int, bytes]] = []
    partial: dict[int, bytes] = {}
    expected = 0
    while True:
        ready = poll.poll(0)
        if not ready:
            record_delays(received, taken_ns)
            if 0 < expected <= len(taken_ns):
                cuts = quantiles(taken_ns, n=100)
                sys.stdout.write(f"{len(taken_ns)} {cuts[49]:.0f} {cuts[98]:.0f}\n")
                sys.stdout.flush()
                taken_ns, expected = [], 0
            ready = poll.poll()
        for number, _ in ready:
            if number:
                data = os.read(number, READ_BYTES)
                now = time.perf_counter_ns()
                if number in partial:
                    data = partial.pop(number) + data
                if data.endswith(b"}"):
                    received.append((now, data))
                else:  # an incomplete event
                    partial[number] = data
            elif line := os.read(0, 100):
                expected = int(line)
            else:
                return


if __name__ == "__main__":
    main()
