"""A client process that places orders, sends heartbeats and holds a WebSocket, until it is killed.

Usage: ``python -m tests.server.switch_client URL WS_URL MAKER MARKET_ID TOKEN_ID TIMEOUT_MS``. It
prints ``armed`` once both switches are armed.
"""

import json
import sys
import time

import httpx
from websockets.sync.client import connect

PRICES = (10, 20, 30)
PATIENCE_S = 60
ONE = 10**18


def main(url, ws_url, maker, market, token, timeout_ms):
    http = httpx.Client(base_url=url, timeout=PATIENCE_S)
    with connect(ws_url) as socket:
        request = {"type": "subscribe", "channel": "user", "maker": maker, "extended": True}
        socket.send(json.dumps({**request, "cancelOnDisconnect": True}))
        while json.loads(socket.recv(PATIENCE_S))["type"] != "subscribed":
            pass
        beat = {"maker": maker, "timeoutMs": int(timeout_ms)}
        http.post("/api/orders/heartbeat", json=beat).raise_for_status()
        for price in PRICES:
            body = {"maker": maker, "marketId": market, "tokenId": token, "side": 0}
            order = {**body, "price": price, "size": str(ONE)}
            http.post("/api/orders/gasless", json=order).raise_for_status()
        sys.stdout.write("armed\n")
        sys.stdout.flush()
        while True:
            http.post("/api/orders/heartbeat", json=beat).raise_for_status()
            time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
