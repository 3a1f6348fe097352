"""A market maker on a running server: two orders around the middle price, replaced as it moves.

    make run                                            # in another terminal
    python examples/market_maker.py http://127.0.0.1:8000 demo [SECONDS]

Needs `pip install 'clob[client]'`. The key below is a public test key of development chains.
"""

import asyncio
import contextlib
import sys

from clob.client import AsyncClient, FeedState, ResponseError

KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
EDGE = 2  # cents on each side of the middle
SIZE = "5"  # tokens


async def quote(client: AsyncClient, market_id: str, middle: int) -> None:
    """Replace both orders."""
    await client.cancel_all(market_id)
    for place, price in ((client.buy, middle - EDGE), (client.sell, middle + EDGE)):
        if 1 <= price <= 99:
            order = await place(market_id, "YES", price=price, size=SIZE, post_only=True)
            print(f"{place.__name__} {SIZE} at {price}: {order.status}")


async def run(url: str, market_id: str) -> None:
    """Quote at every change of the middle price."""
    async with AsyncClient(url, signer=KEY) as client, client.feed() as feed:
        yes = (await client.market(market_id)).yes_token_id
        book = (await feed.orderbook(market_id)).token(yes)

        def middle() -> int | None:
            """Return the middle price while the book is current and has both sides."""
            bid, ask = book.best_bid, book.best_ask
            is_current = feed.state is FeedState.LIVE and bid is not None and ask is not None
            return (bid.price + ask.price) // 2 if is_current else None

        quoted = None
        try:
            while True:
                await feed.until(lambda last=quoted: middle() not in (None, last))
                quoted = middle()
                with contextlib.suppress(ResponseError):  # the price moved and would cross
                    await quote(client, market_id, quoted)
        finally:
            await client.cancel_all()


async def main(url: str, market_id: str, seconds: float | None) -> None:
    """Run until the time is over or Ctrl-C."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(run(url, market_id), seconds)


if __name__ == "__main__":
    duration = float(sys.argv[3]) if len(sys.argv) > 3 else None
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1], sys.argv[2], duration))
