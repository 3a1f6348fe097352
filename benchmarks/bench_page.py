"""Trading page benchmark: first paint from a cold server, weight, the ladder, long tasks.

A browser without a cache opens the page as the first client of a server that has just started. Then
a client sends orders to the market on display at a fixed rate. Needs playwright and chromium.
"""

import gzip
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from benchmarks.measure import Row
from clob.client import Client
from clob_server.demo.market import MARKET, YES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HAS_PLAYWRIGHT = find_spec("playwright") is not None
CHROMIUM = os.environ.get("CLOB_CHROMIUM") or shutil.which("chromium")
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
PAINT_MS_MAX = 300
WEIGHT_MAX = 50_000
LADDER_MS_MAX = 2.0
LONG_MS = 50
PER_S = 100
PRICES = 99
WAIT_MS = 60_000
SIZE = "1000000000000000000"
MAKERS = 50

PAINT = """
window.painted = new Promise((done) => {
  const look = () => {
    const row = document.querySelector("clob-markets [data-market] a");
    if (!row) return requestAnimationFrame(look);
    const channel = new MessageChannel();
    channel.port1.onmessage = () => done(performance.now());
    return requestAnimationFrame(() => channel.port2.postMessage(null));
  };
  look();
});
"""
"""Resolve ``painted`` to the time from the start of the visit to the first frame with a market."""
LADDER = """async (rounds) => {
  const ladder = document.querySelector("clob-ladder"), { market, tokenId } = ladder;
  const { sides } = market.book(tokenId);
  for (let round = 0; round < rounds; round += 1) {
    for (const side of sides)
      for (let price = 1; price < 100; price += 1)
        side.sizes[price] = BigInt(1 + price + round) * 10n ** 18n;
    performance.mark("begin");
    ladder.show(market, tokenId);
    performance.measure("script", "begin");
    ladder.querySelector(".ladder-grid").getBoundingClientRect();
    performance.measure("layout", "begin");
    await new Promise(requestAnimationFrame);
  }
  const times = (name) => performance.getEntriesByName(name).map((each) => each.duration);
  return { script: times("script"), layout: times("layout") };
}"""
"""Change all levels of both sides and draw them; return the times in milliseconds."""
OBSERVE = """() => {
  window.tasks = [];
  window.from = document.querySelector("clob-ladder").seq;
  const add = (list) => window.tasks.push(...list.getEntries().map((each) => each.duration));
  new PerformanceObserver(add).observe({ type: "longtask" });
}"""
OBSERVED = "() => [document.querySelector('clob-ladder').seq - window.from, window.tasks]"
"""Return the number of events that the ladder has shown, and the long tasks."""


class Sizes(NamedTuple):
    """Visits of cold servers, draws of the ladder, and seconds of orders."""

    visits: int = 5
    draws: int = 200
    taken_s: int = 60


QUICK = Sizes(visits=1, draws=10, taken_s=3)


@contextmanager
def server() -> Iterator[str]:
    """Start a demo without a chain; yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "clob_server", "run", "--demo", "--chain", "none", "--port", "0",
            "--rate-limits", "off", "--log-level", "error", "--drain-s", "0",
            "--data-dir", str(Path(folder) / "data"),
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().split()[-1]
            finally:
                process.terminate()
                process.wait()


@contextmanager
def visit(browser: "Browser", url: str, path: str) -> Iterator[tuple[Any, Any]]:
    """Open a page in a browser without a cache; yield it and a session with its metrics."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_init_script(PAINT)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(f"{url}{path}")
    try:
        yield page, session
    finally:
        context.close()


def weight(url: str) -> int:
    """Return the compressed bytes of the page with its scripts and styles."""
    with httpx.Client(base_url=url) as client:
        html = client.get("/ui")
        files = {client.get(name).content for name in re.findall(r'"(/web/[^"]+)"', html.text)}
    return sum(len(gzip.compress(content, 6)) for content in (html.content, *files))


def paint_ms(browser: "Browser") -> tuple[float, float]:
    """Visit a new server, and return the time until the list of markets is on display.

    Returns:
        The time, and the processor time that the main thread of the page has used by then.
    """
    with server() as url, visit(browser, url, "/ui") as (page, session):
        taken_ms = float(page.evaluate("window.painted"))
        metrics = session.send("Performance.getMetrics")["metrics"]
        used_s = next(each["value"] for each in metrics if each["name"] == "TaskDuration")
        return taken_ms, used_s * 1_000


class Orders:
    """Sends orders to a market at a fixed rate within a ``with`` block, on a thread of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _send(self) -> None:
        begin = time.perf_counter()
        with Client(self._url, respects_limits=False) as client:
            for number in itertools.count():
                side = number % 2
                body = {
                    "maker": f"0x{number % MAKERS + 1:040x}", "marketId": MARKET, "tokenId": YES,
                    "side": side, "price": 1 + number // 2 % 49 + 50 * side, "size": SIZE,
                }  # fmt: skip
                client.create_gasless_order(body)
                if self._ends.wait(max(0.0, begin + (number + 1) / PER_S - time.perf_counter())):
                    return


def market_rows(browser: "Browser", sizes: Sizes) -> Iterator[Row]:
    """Measure the page of a market."""
    with server() as url, visit(browser, url, f"/ui#/m/{MARKET}") as (page, _):
        page.wait_for_selector(".ladder-row.is-bid")
        with Orders(url):
            page.evaluate(OBSERVE)
            page.wait_for_timeout(sizes.taken_s * 1_000)
            shown, tasks = page.evaluate(OBSERVED)
        name = f"page: long tasks in {sizes.taken_s} s of {PER_S} orders/s"
        longest = f"{len(tasks)}, longest {max(tasks, default=0):.0f} ms, {shown:,} events"
        yield Row(name, f"0 above {LONG_MS} ms", longest, not tasks)
        times = page.evaluate(LADDER, sizes.draws)
        script, layout = (median(times[part]) for part in ("script", "layout"))
        name = f"page: draw the ladder, all of {PRICES} rows changed"
        yield Row(name, f"<= {LADDER_MS_MAX:g} ms", f"{script:.2f} ms", script <= LADDER_MS_MAX)
        yield Row("page: the same with style and layout", "", f"{layout:.2f} ms", None)


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield the rows."""
    sizes = QUICK if quick else Sizes()
    if not HAS_PLAYWRIGHT or CHROMIUM is None:
        yield Row("page: playwright or chromium is not installed", "", "", None)
        return
    sync_playwright = import_module("playwright.sync_api").sync_playwright
    with server() as url:
        size = weight(url)
    yield Row("page: weight, compressed", f"< {WEIGHT_MAX:,} B", f"{size:,} B", size < WEIGHT_MAX)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        paint_ms(browser)  # starts the processes of the browser
        visits = [paint_ms(browser) for _ in range(sizes.visits)]
        measured, used = (median(times) for times in zip(*visits, strict=True))
        name = "page: first paint of the markets, cold server"
        target = f"< {PAINT_MS_MAX} ms"
        yield Row(name, target, f"{measured:.0f} ms", measured < PAINT_MS_MAX)
        yield Row("page: processor time of its main thread until then", "", f"{used:.0f} ms", None)
        yield from market_rows(browser, sizes)
        browser.close()
