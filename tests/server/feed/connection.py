"""Helpers for tests against a running server: unsigned orders and WebSockets."""

import itertools
import json
import socket

from websockets.sync.client import connect

PATIENCE_S = 30
MAKER, OTHER = "0x" + "1" * 40, "0x" + "2" * 40
BUY, SELL = 0, 1
_NUMBERS = itertools.count(1)


class Market:
    """A market of one test; sizes of orders are multiples of ``unit`` wei."""

    def __init__(self, live, unit=1):
        self.unit = unit
        number = next(_NUMBERS)
        self.live, self.id = live, f"m{number}"
        self.yes, self.no = str(1_000 * number + 1), str(1_000 * number + 2)

    def order(self, side, price, size, *, maker=MAKER, token=None):
        """Place an order; return the response."""
        body = {
            "maker": maker,
            "tokenId": token or self.yes,
            "side": side,
            "price": price,
            "size": str(size * self.unit),
            "marketId": self.id,
        }
        return self._json(self.live.http.post("/api/orders/gasless", json=body))

    def cancel(self, order_id, *, maker=MAKER):
        """Cancel an order."""
        url = f"/api/orders/{order_id}"
        return self._json(self.live.http.request("DELETE", url, json={"maker": maker}))

    def book(self, token=None):
        """Request a book."""
        query = {"tokenId": token or self.yes}
        return self._json(self.live.http.get(f"/api/markets/{self.id}/orderbook", params=query))

    def _json(self, response):
        assert response.status_code == 200, response.text
        return response.json()


class Connection:
    """A WebSocket to a running server."""

    def __init__(self, live, **options):
        # Unread messages of a bounded queue would delay closing by ten seconds.
        self._connection = connect(live.ws_url, max_size=None, max_queue=None, **options)

    def __enter__(self):
        self._socket = self._connection.__enter__()
        return self

    def __exit__(self, *error):
        self._connection.__exit__(*error)

    def send(self, **fields):
        self._socket.send(json.dumps(fields))

    def subscribe(self, market, **fields):
        self.send(type="subscribe", channel="orderbook", marketId=market.id, **fields)

    def receive(self, count=None):
        """Return the next message, or a list of the next ``count``."""
        if count is not None:
            return [self.receive() for _ in range(count)]
        return json.loads(self._socket.recv(timeout=PATIENCE_S))

    def receive_text(self):
        return self._socket.recv(timeout=PATIENCE_S)

    def send_text(self, text):
        self._socket.send(text)

    def receive_until(self, last, **fields):
        """Return the messages up to the first of a type with these fields."""
        messages = []
        while True:
            messages.append(self.receive())
            if messages[-1]["type"] == last and fields.items() <= messages[-1].items():
                return messages


class Stalled:
    """A client that sends a request and reads nothing before :meth:`frames`."""

    def __init__(self, live, request, path="/ws"):
        host, port = live.url.rpartition("//")[2].split(":")
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self.socket.settimeout(30)
        self.socket.connect((host, int(port)))
        self.socket.sendall(
            b"GET %b HTTP/1.1\r\nHost: [::1]\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            % path.encode()
        )
        while not self.socket.recv(1_000).endswith(b"\r\n\r\n"):
            pass
        text = json.dumps(request)
        head = bytes((0x81, 0x80 | len(text), 0, 0, 0, 0))
        self.socket.sendall(head + text.encode())
        self.data = b""

    def frames(self):
        """Read, and yield the first byte and the payload of each frame."""
        while True:
            while (size := self.size()) is None:
                data = self.socket.recv(1 << 16)
                if not data:
                    return
                self.data += data
            head, payload = self.data[0], self.data[size[0] : size[0] + size[1]]
            self.data = self.data[sum(size) :]
            yield head, payload

    def size(self):
        """Return the sizes of header and payload of the next frame; None if it is incomplete."""
        if len(self.data) < 10:
            return None
        size, head = self.data[1], 2
        if size == 126:
            size, head = int.from_bytes(self.data[2:4]), 4
        elif size == 127:
            size, head = int.from_bytes(self.data[2:10]), 10
        return (head, size) if len(self.data) >= head + size else None
