"""What tests share that speak with a real server: orders without a signature, and WebSockets."""

import itertools
import json

from websockets.sync.client import connect

PATIENCE_S = 30
MAKER, OTHER = "0x" + "1" * 40, "0x" + "2" * 40
BUY, SELL = 0, 1
_NUMBERS = itertools.count(1)


class Market:
    """A market that no other test uses."""

    def __init__(self, live):
        number = next(_NUMBERS)
        self.live, self.id = live, f"m{number}"
        self.yes, self.no = str(1_000 * number + 1), str(1_000 * number + 2)

    def order(self, side, price, size, *, maker=MAKER, token=None):
        """Place an order; give the answer."""
        body = {
            "maker": maker,
            "tokenId": token or self.yes,
            "side": side,
            "price": price,
            "size": str(size),
            "marketId": self.id,
        }
        return self._said(self.live.http.post("/api/orders/gasless", json=body))

    def cancel(self, order_id, *, maker=MAKER):
        """Cancel an order."""
        url = f"/api/orders/{order_id}"
        return self._said(self.live.http.request("DELETE", url, json={"maker": maker}))

    def book(self, token=None):
        """Ask for a book."""
        query = {"tokenId": token or self.yes}
        return self._said(self.live.http.get(f"/api/markets/{self.id}/orderbook", params=query))

    def _said(self, answer):
        assert answer.status_code == 200, answer.text
        return answer.json()


class Talk:
    """A WebSocket."""

    def __init__(self, live, **options):
        self._connection = connect(live.ws_url, max_size=None, **options)

    def __enter__(self):
        self._socket = self._connection.__enter__()
        return self

    def __exit__(self, *error):
        self._connection.__exit__(*error)

    def say(self, **fields):
        self._socket.send(json.dumps(fields))

    def subscribe(self, market, **fields):
        self.say(type="subscribe", channel="orderbook", marketId=market.id, **fields)

    def hear(self, count=None):
        """Give the next message, or so many of them."""
        if count is not None:
            return [self.hear() for _ in range(count)]
        return json.loads(self._socket.recv(timeout=PATIENCE_S))

    def hear_text(self):
        return self._socket.recv(timeout=PATIENCE_S)

    def say_text(self, text):
        self._socket.send(text)

    def hears_nothing_but(self, last, **fields):
        """Give all messages up to the first that has these fields."""
        told = []
        while True:
            told.append(self.hear())
            if told[-1]["type"] == last and fields.items() <= told[-1].items():
                return told
