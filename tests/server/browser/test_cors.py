"""Pages of allowed origins use a server from a browser, and other pages do not."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.server.api.makers import Maker, MarketIds
from tests.server.browser.conftest import ANY_ADDRESS, IN_BROWSER, OPTIONS
from tests.server.live import live_server

pytest.importorskip("playwright.sync_api")
pytestmark = IN_BROWSER
FETCH = """async ([method, url, body, headers]) => {
  const json = body ? {body: JSON.stringify(body)} : {};
  const type = body ? {"Content-Type": "application/json"} : {};
  try {
    const answer = await fetch(url, {method, headers: {...type, ...headers}, ...json});
    return {
      status: answer.status, body: await answer.json(),
      left: answer.headers.get("X-RateLimit-Remaining"),
      id: answer.headers.get("X-Request-Id"),
    };
  } catch (error) { return {error: String(error)}; }
}"""


class Page(BaseHTTPRequestHandler):
    """Serves an empty page."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><body>")

    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture(scope="module")
def options():
    return (*OPTIONS, ANY_ADDRESS)


@pytest.fixture(scope="module")
def origins():
    """Two origins with a page."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Page) for _ in range(2)]
    threads = [threading.Thread(target=each.serve_forever) for each in servers]
    for each in threads:
        each.start()
    yield [f"http://127.0.0.1:{each.server_port}" for each in servers]
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def live(tmp_path_factory, origins):
    folder = tmp_path_factory.mktemp("data")
    with live_server(folder, cors_origins=(origins[0], "https://app.example")) as live:
        yield live


def test_page_of_an_allowed_origin_reads_places_and_cancels(live, page, origins):
    alice = Maker()
    page.goto(origins[0])
    tag = {"If-None-Match": '"none"', "X-Request-Id": "mine-1"}
    found = page.evaluate(FETCH, ["GET", f"{live.url}/api/markets", None, tag])
    assert (found["status"], found["id"]) == (200, "mine-1")
    keyed = {"Idempotency-Key": "one"}
    order = alice.signed(MarketIds())
    placed = page.evaluate(FETCH, ["POST", f"{live.url}/api/orders", order, keyed])
    assert placed["status"] == 200
    assert int(placed["left"]) > 0
    order_id = placed["body"]["orderId"]
    target = f"{live.url}/api/orders/{order_id}"
    ended = page.evaluate(FETCH, ["DELETE", target, {"maker": alice.address}, {}])
    assert ended["status"] == 200
    assert live.http.get(f"/api/orders/{order_id}").json()["status"] == "cancelled"


def test_page_of_another_origin_does_not(live, page, origins):
    alice, market = Maker(), MarketIds()
    placed = live.http.post("/api/orders", json=alice.signed(market)).json()
    before = live.http.get("/health").json()["commandSeq"]
    page.goto(origins[1])
    target = f"{live.url}/api/orders/{placed['orderId']}"
    for wanted in (
        ["GET", f"{live.url}/api/markets", None, {}],
        ["POST", f"{live.url}/api/orders", alice.signed(market), {}],
        ["DELETE", target, {"maker": alice.address}, {}],
    ):
        assert "error" in page.evaluate(FETCH, wanted), wanted
    assert live.http.get("/health").json()["commandSeq"] == before
