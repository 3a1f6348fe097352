"""Helpers for tests against a running server: unsigned orders and WebSockets."""

import itertools
import json

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
        self._connection = connect(live.ws_url, max_size=None, **options)

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
