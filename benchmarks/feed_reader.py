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
    if kind == "raw":
        client.recv(1)  # it is among those who are told of something now
    else:
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


def note(came: list[tuple[int, bytes]], taken_ns: list[int]) -> None:
    """Note how long each event took that is in what came, and forget that."""
    for now, data in came:
        place = 0
        while (found := data.find(ORDER, place)) >= 0:
            start = found + len(ORDER)
            place = data.index(b'"', start)
            taken_ns.append(now - int(data[start:place]))
    came.clear()


def main() -> None:
    """Read until standard input ends; what came is looked at when nothing comes."""
    kind, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    clients = {client.fileno(): client for client in (connected(kind, port) for _ in range(count))}
    poll = select.epoll()
    for number in (*clients, 0):
        poll.register(number, select.EPOLLIN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    taken_ns: list[int] = []
    came: list[tuple[int, bytes]] = []
    left: dict[int, bytes] = {}
    wanted = 0
    while True:
        ready = poll.poll(0)
        if not ready:
            note(came, taken_ns)
            if 0 < wanted <= len(taken_ns):
                cuts = quantiles(taken_ns, n=100)
                sys.stdout.write(f"{len(taken_ns)} {cuts[49]:.0f} {cuts[98]:.0f}\n")
                sys.stdout.flush()
                taken_ns, wanted = [], 0
            ready = poll.poll()
        for number, _ in ready:
            if number:
                data = os.read(number, MANY_BYTES)
                now = time.perf_counter_ns()
                if number in left:
                    data = left.pop(number) + data
                if data.endswith(b"}"):
                    came.append((now, data))
                else:  # an event came in parts
                    left[number] = data
            elif line := os.read(0, 100):
                wanted = int(line)
            else:
                return


if __name__ == "__main__":
    main()
