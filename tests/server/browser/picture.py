"""Takes the picture of the trading page that README.md shows: the demo after an hour of trades.

``python -m tests.server.browser.picture`` writes it. Needs chromium and the development chain.
"""

import random  # noqa: TID251 - seeded, and outside the engine
import tempfile
import time
from pathlib import Path

from clob_server.demo.market import MARKET, YES
from tests.server.browser.ui_pages import LIVE, launched, opened
from tests.server.live import live_server

PICTURE = Path(__file__).parents[3] / "docs" / "pictures" / "ui.png"
SIZE = {"width": 1440, "height": 900}
MINUTES = 70
MINUTE_MS = 60_000
PAUSE_S = 1
TAKER = f"0x{7:040x}"
ONE = 10**18
OWN = ((0, 50, 15), (0, 48, 40), (1, 58, 20))
"""Resting orders of the wallet on display: side, price in cents, tokens."""


def place(live, maker, side, price, tokens, **terms):
    """Place an order for YES."""
    body = {"maker": maker, "marketId": MARKET, "tokenId": YES, "side": side, "price": price}
    body |= {"size": str(tokens * ONE), **terms}
    live.http.post("/api/orders/gasless", json=body).raise_for_status()


def trade(live):
    """Trade with the bots for an hour of the server's time, a minute in each second."""
    chance = random.Random(7)
    while live.http.get("/ready").json()["chain"] != "ready":
        time.sleep(PAUSE_S)
    for _ in range(MINUTES):
        for _ in range(chance.randint(0, 2)):
            side = chance.randint(0, 1)
            price = 1 if side else 99
            place(live, TAKER, side, price, chance.randint(1, 9), timeInForce="IOC")
        live.http.post("/api/test/clock", json={"advanceMs": MINUTE_MS}).raise_for_status()
        time.sleep(PAUSE_S)


def take(page, live):
    """Connect a wallet, place its orders, and take the picture."""
    page.wait_for_selector(LIVE)
    page.click("#wallet-button")
    page.locator(".wallet-menu button").first.click()
    maker = page.evaluate("import('/web/app.js').then(({ app }) => app.wallet.address)")
    for side, price, tokens in OWN:
        place(live, maker, side, price, tokens)
    place(live, maker, 0, 99, 5, timeInForce="IOC")
    page.locator("#own-fills ~ * tbody tr").first.wait_for()
    page.locator(".ladder-row.is-mine").nth(len(OWN) - 1).wait_for(state="attached")
    page.wait_for_timeout(2_000)  # the charts are drawn twice a second
    PICTURE.parent.mkdir(exist_ok=True)
    page.screenshot(path=PICTURE)


def main():
    """Run the demo and take the picture."""
    chain = {"chain": "embedded", "chain_port": 0}
    with (
        tempfile.TemporaryDirectory() as folder,
        live_server(Path(folder) / "data", demo=True, rate_limits=False, **chain) as live,
        launched() as browser,
    ):
        trade(live)
        with opened(browser, live.url, f"#/m/{MARKET}", viewport=SIZE) as page:
            take(page, live)


if __name__ == "__main__":
    main()
