"""Many clients in one process, which read what comes and note when: ``ws|raw``, port, how many.

Whoever wrote an event named its order after the time, by the clock that all processes share. A line
on standard input says how many events are to come since the last one; when so many have, it tells
in how many ns half of them and 99 of a hundred were read.
"""

import os
import select
import socket
import sys
import time
from statistics import quantiles

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: feed\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
SUBSCRIBE = b'{"type":"subscribe","channel":"orderbook","marketId":"m"}'
MASKED = bytes((0x81, 0x80 | len(SUBSCRIBE), 0, 0, 0, 0)) + SUBSCRIBE
"""The subscribe as a frame, masked with zeros."""
ORDER = b'"orderId":"'
MANY_BYTES = 1 << 13


def connected(kind: str, port: int) -> socket.socket:
    """Connect, and subscribe to the market where that is needed."""
    client = socket.create_connection(("127.0.0.1", port))
    if kind == "ws":
        client.sendall(HANDSHAKE)
        got = b""
        while not got.endswith(b"\r\n\r\n"):
            got += client.recv(1)
        client.sendall(MASKED)
        got = b""
        while not got.endswith(b"}}"):  # the snapshot
            got += client.recv(MANY_BYTES)
    client.setblocking(False)
    return client


def note(data: bytes, taken_ns: list[int], now: int) -> bytes:
    """Note how long each event took that is in what came; give what is left of a broken one."""
    place = 0
    while (found := data.find(ORDER, place)) >= 0:
        start = found + len(ORDER)
        end = data.find(b'"', start)
        if end < 0:
            return data[found:]
        taken_ns.append(now - int(data[start:end]))
        place = end
    return data[max(place, len(data) - len(ORDER) + 1) :]


def main() -> None:
    """Read until standard input ends."""
    kind, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    clients = {client.fileno(): client for client in (connected(kind, port) for _ in range(count))}
    poll = select.epoll()
    for number in (*clients, 0):
        poll.register(number, select.EPOLLIN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    taken_ns: list[int] = []
    left = dict.fromkeys(clients, b"")
    wanted = 0
    while True:
        for number, _ in poll.poll():
            if number:
                data = clients[number].recv(MANY_BYTES)
                data = left[number] + data
                left[number] = note(data, taken_ns, time.perf_counter_ns())
            elif line := os.read(0, 100):
                wanted = int(line)
            else:
                return
        if 0 < wanted <= len(taken_ns):
            cuts = quantiles(taken_ns, n=100)
            sys.stdout.write(f"{len(taken_ns)} {cuts[49]:.0f} {cuts[98]:.0f}\n")
            sys.stdout.flush()
            taken_ns, wanted = [], 0


if __name__ == "__main__":
    main()
