"""A client process that places orders, sends heartbeats and holds a WebSocket, until it is killed.

Usage: ``python -m tests.server.switch_client URL MAKER MARKET_ID TOKEN_ID TIMEOUT_MS``. It prints
``armed`` once both switches are armed.
"""

import asyncio
import sys

from clob.client import AsyncClient, Feed

PRICES = (10, 20, 30)


async def main(url, maker, market, token, timeout_ms):
    # With a deadline of 0 it ends at the first request that fails.
    async with AsyncClient(url, maker=maker, deadline_s=0) as client, Feed(url) as feed:
        await feed.own_orders(maker, cancel_on_disconnect=True)
        await client.heartbeat(int(timeout_ms))
        for price in PRICES:
            await client.buy(market, token, price=price, size="1")
        sys.stdout.write("armed\n")
        sys.stdout.flush()
        while True:
            await client.heartbeat(int(timeout_ms))
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
