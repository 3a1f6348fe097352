"""A server with the polymarket dialect, its markets, and Python clients for it."""

import contextlib
import itertools
import json
import sys

import httpx
import jwt
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.server.auth.servers import claims
from tests.server.live import live_server
from tests.signings import KEYS

HOUSE = "0x00000000000000000000000000000000000000A1"
"""The maker of the orders that come through the server's own interface."""
CHAIN_ID = 80002
TOKEN = 10**18
PATIENCE_S = 30

_numbers = itertools.count(1)


class Market:
    """A market that an operator opened, or orders of the server's own interface."""

    def __init__(self, live, *, complementary=False):
        number = next(_numbers)
        self.live = live
        self.name = f"market-{number}"
        self.yes, self.no = f"{number}001", f"{number}002"
        if complementary:
            tokens = {"yesTokenId": self.yes, "noTokenId": self.no}
            body = {"marketId": self.name, **tokens, "complementary": True}
            answer = live.http.post("/api/admin/markets", json=body, headers=operator(live))
            assert answer.status_code == 200, answer.text
            return
        for token in (self.yes, self.no):
            self.cancel(self.place(0, 1, 1, token))

    def place(self, side, price, size, token=None, maker=HOUSE, **more):
        """Place an order of the server's own interface; return its id."""
        answer = self.live.http.post(
            "/api/orders/gasless",
            json={
                "maker": maker,
                "tokenId": token or self.yes,
                "side": side,
                "price": price,
                "size": str(round(size * 10**6) * 10**12),
                "marketId": self.name,
                **more,
            },
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["orderId"]

    def cancel(self, order_id, maker=HOUSE):
        """Cancel an order of the server's own interface."""
        answer = self.live.http.delete(f"/api/orders/{order_id}", params={"maker": maker})
        assert answer.status_code == 200, answer.text

    def orders(self):
        """Return the resting orders as the server's own interface lists them."""
        return self.live.http.get("/api/orders", params={"marketId": self.name}).json()


class HiddenMarket(Market):
    """A market with one known token, which the dialect does not show."""

    def __init__(self, live):
        number = next(_numbers)
        self.live = live
        self.name, self.yes = f"market-{number}", f"{number}001"


def operator(live):
    """Return the headers of an operator."""
    token = jwt.encode(claims(), (live.folder / "tokens.key").read_bytes(), "HS256")
    return {"Authorization": f"Bearer {token}"}


@contextlib.contextmanager
def dialect_server(folder, **settings):
    """Run a server with the dialect within the block."""
    common = {"dialect": "polymarket", "chain_id": CHAIN_ID, "rate_limits": False}
    try:
        with live_server(folder, **(common | settings)) as live:
            yield live
    finally:
        close_connections()


def close_connections():
    """Close the connections that all Python clients share."""
    helpers = sys.modules.get("py_clob_client.http_helpers.helpers")
    if helpers is not None:
        helpers._http_client.close()
        helpers._http_client = httpx.Client(http2=True)


def client_of(live, key=KEYS[0], *, login=True, **options):
    """Return an unmodified client, with credentials unless ``login`` is false."""
    module = pytest.importorskip("py_clob_client.client", reason="py-clob-client is not installed")
    client = module.ClobClient(live.url, chain_id=CHAIN_ID, key=key, **options)
    if login:
        client.set_api_creds(client.create_or_derive_api_creds())
    return client


def error_of(call, *arguments):
    """Return the status and the text of the error of a call."""
    from py_clob_client.exceptions import PolyApiException  # noqa: PLC0415 - may be missing

    with pytest.raises(PolyApiException) as caught:
        call(*arguments)
    return caught.value.status_code, caught.value.error_msg["error"]


# ----- WebSockets ----------------------------------------------------------------------------


class Socket:
    """A plain WebSocket client of a channel, ``market`` or ``user``."""

    def __init__(self, live, channel):
        # Unread messages of a bounded queue would delay closing by ten seconds.
        url = f"{live.ws_url}/{channel}"
        self._connection = connect(url, max_size=None, max_queue=None)

    def __enter__(self):
        self._socket = self._connection.__enter__()
        return self

    def __exit__(self, *error):
        self._connection.__exit__(*error)

    def send(self, **fields):
        self.send_text(json.dumps(fields))

    def send_text(self, text):
        self._socket.send(text)

    def receive_text(self):
        return self._socket.recv(timeout=PATIENCE_S)

    def news(self):
        """Return the messages so far: those before the answer to a ping."""
        self.send_text("PING")
        found = []
        while (text := self.receive_text()) != "PONG":
            found.append(json.loads(text))
        return found

    def closed(self):
        """Wait until the server closes the connection; return the code and the reason."""
        try:
            while True:
                self.receive_text()
        except ConnectionClosed as closed:
            return closed.rcvd.code, closed.rcvd.reason


def credentials_of(client):
    """Return the ``auth`` of a client."""
    creds = client.creds
    return {
        "apiKey": creds.api_key,
        "secret": creds.api_secret,
        "passphrase": creds.api_passphrase,
    }
