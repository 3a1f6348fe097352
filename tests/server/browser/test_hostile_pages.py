"""Pages of other sites in a browser cannot use a server on the same machine."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clob_server.app import ROUTES
from tests.server.auth.test_authority import BODIES, GASLESS
from tests.server.browser.conftest import ANY_ADDRESS, IN_BROWSER, OPTIONS
from tests.server.live import live_server

pytest.importorskip("playwright.sync_api")
pytestmark = IN_BROWSER
REBOUND = "rebound.example"
WRITES = [
    (route.method, route.path.replace("{", "").replace("}", ""), BODIES.get(route.name, {}))
    for route in ROUTES
    if route.method != "GET"
]

ATTACK = """async ([url, writes]) => {
  const swallow = promise => promise.catch(error => String(error));
  for (const [method, path, body] of writes) {
    const text = JSON.stringify(body), target = url + path;
    if (method === "POST") {
      const noCors = {method, mode: "no-cors"};
      await swallow(fetch(target, {...noCors, body: text}));
      await swallow(fetch(target, {...noCors, body: new Blob([text])}));
      await swallow(fetch(target, {...noCors, body: new Blob([text], {type: "application/json"})}));
      await swallow(fetch(target, {...noCors, body: new URLSearchParams(body)}));
      await swallow(fetch(target, {...noCors, body: text, referrerPolicy: "no-referrer"}));
      await swallow(fetch(`${target}?${new URLSearchParams(body)}`, noCors));
      await new Promise(done => {
        const frame = document.createElement("iframe"), form = document.createElement("form");
        frame.name = `frame ${path}`;
        frame.onload = done;
        form.method = "post"; form.enctype = "text/plain"; form.target = frame.name;
        form.action = target;
        const field = document.createElement("input");
        field.name = text.slice(0, -1) + ',"x":"'; field.value = '"}';
        form.append(field);
        document.body.append(form);
        document.body.append(frame);
        form.submit();
      });
    }
    const json = {method, headers: {"Content-Type": "application/json"}, body: text};
    await swallow(fetch(target, json));
    await swallow(fetch(target, {method}));
  }
}"""
SIMPLE = 7
"""Attempts for each POST that a browser sends without asking the server first."""
CONNECT = """url => new Promise(done => {
  const socket = new WebSocket(url);
  socket.onopen = () => done("open");
  socket.onerror = () => done("error");
})"""
FETCH = """async ([method, path, body]) => {
  const json = {headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
  const answer = await fetch(path, {method, ...(body ? json : {})});
  return [answer.status, (await answer.json()).code];
}"""


class HostilePage(BaseHTTPRequestHandler):
    """Serves an empty page; with the path /sandbox one whose origin is null."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        if self.path == "/sandbox":
            self.send_header("Content-Security-Policy", "sandbox allow-scripts allow-forms")
        self.end_headers()
        self.wfile.write(b"<!doctype html><body>")

    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture(scope="module")
def options():
    return (*OPTIONS, ANY_ADDRESS, f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1")


@pytest.fixture(scope="module")
def hostile_url():
    with ThreadingHTTPServer(("127.0.0.1", 0), HostilePage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("log") / "requests"


@pytest.fixture(scope="module")
def live(tmp_path_factory, log):
    settings = {"rate_limits": False, "access_log": True, "log_level": "info"}
    with (
        log.open("w") as file,
        live_server(tmp_path_factory.mktemp("data"), stderr=file, **settings) as live,
    ):
        yield live


def requests_in(log):
    """Return the number of requests by method, path and status."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return Counter(
        (line["method"], line["path"], line["status"])
        for line in lines
        if line["message"] == "request" and line["path"] not in ("/health", "/")
    )


def seq_of(live):
    """Return the number of commands in the log of the server."""
    return live.http.get("/health").json()["commandSeq"]


@pytest.mark.parametrize("path", ["/", "/sandbox"], ids=["another port", "null"])
def test_page_of_another_origin_can_write_nothing(live, page, hostile_url, log, path):
    before, seq = requests_in(log), seq_of(live)
    page.goto(hostile_url + path)
    page.evaluate(ATTACK, [live.url, WRITES])
    assert seq_of(live) == seq
    arrived = requests_in(log) - before
    for method, target, _ in WRITES:
        if method == "POST":
            assert arrived[method, target, 403] >= SIMPLE, (target, arrived)
        assert arrived["OPTIONS", target, 403] >= 1, (target, arrived)
    assert {status for _, _, status in arrived} == {403}, arrived
    # The same request without a foreign page has an effect.
    assert live.http.post("/api/orders/gasless", json=GASLESS).status_code == 200
    assert seq_of(live) > seq


@pytest.mark.parametrize("path", ["/", "/sandbox"], ids=["another port", "null"])
def test_page_of_another_origin_gets_no_websocket(live, page, hostile_url, path):
    page.goto(hostile_url + path)
    assert page.evaluate(CONNECT, live.ws_url) == "error"
    page.goto(f"{live.url}/docs")
    assert page.evaluate(CONNECT, live.ws_url) == "open"


def test_page_under_a_rebound_name_reads_and_writes_nothing(live, page):
    """The name first resolves to the page's own server, then to the exchange."""
    port = live.url.rpartition(":")[2]
    body = "<!doctype html><body>"
    page.route("**/page", lambda route: route.fulfill(body=body, content_type="text/html"))
    seq = seq_of(live)
    wanted = [("GET", "/api/orders", None), ("POST", "/api/orders/gasless", GASLESS)]
    page.goto(f"http://{REBOUND}:{port}/page")
    for each in wanted:
        assert page.evaluate(FETCH, each) == [421, "HOST_NOT_ALLOWED"]
    assert page.evaluate(CONNECT, f"ws://{REBOUND}:{port}/ws") == "error"
    assert page.evaluate(FETCH, ("GET", "/metrics", None)) == [401, "TOKEN_REQUIRED"]
    assert seq_of(live) == seq
    page.goto(f"http://localhost:{port}/page")  # the same page under a name of the server
    for each in wanted:
        assert page.evaluate(FETCH, each)[0] == 200
    assert page.evaluate(CONNECT, f"ws://localhost:{port}/ws") == "open"
    assert seq_of(live) > seq
