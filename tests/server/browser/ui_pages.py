"""Helpers for tests of the trading page: a browser, pages without errors, and a relay that cuts."""

import contextlib
import os
import shutil
import socket
import threading
import time

import pytest

from tests.clients.conftest import FOLDER

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("CLOB_CHROMIUM") or shutil.which("chromium")
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
WAIT_MS = 60_000
sync_api.expect.set_options(timeout=WAIT_MS)
CHUNK = 65_536
LIVE = "clob-connection .badge.open"
"""Selector of the badge of a connection whose data is current."""
AXE = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
needs_axe = pytest.mark.skipif(
    not AXE.is_file(), reason="not here: axe-core is not installed, see `make clients`"
)


def findings(page, impacts=None):
    """Return the findings of axe-core on a page: all, or those of some impacts."""
    # The value of an evaluated text is copied from the browser: nothing, and of the findings only
    # those that are read here.
    page.evaluate(f"{AXE.read_text()}\n;null")
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then((done) => done.violations)")
    return [
        (each["id"], [node["html"][:200] for node in each["nodes"]][:3])
        for each in found
        if impacts is None or each["impact"] in impacts
    ]


@contextlib.contextmanager
def launched():
    """Run a browser within the block."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser, url, route="", ignored=(), **context):
    """Open the trading page at a route; it must log no errors but those with an ignored text."""
    made = browser.new_context(base_url=url, **context)
    page = made.new_page()
    page.set_default_timeout(WAIT_MS)
    errors = []
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(f"{error}\n{error.stack}"))
    page.goto(f"/ui{route}")
    try:
        yield page
    finally:
        made.close()
    unexpected = [each for each in errors if not any(text in each for text in ignored)]
    assert not unexpected, unexpected


class Relay:
    """Forwards TCP connections to a server, and delays or cuts what the server sends."""

    def __init__(self, port):
        self.port = port
        self.delay_s = 0.0
        self._left = None
        self._lock = threading.Lock()
        self._pairs = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = []
        self._start(self._accept)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self):
        """Close all connections now."""
        with self._lock:
            pairs, self._pairs, self._left = self._pairs, set(), None
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)  # the threads of the pair close it

    def cut_after(self, count):
        """Close all connections once the server has sent this number of bytes."""
        with self._lock:
            self._left = count

    def _start(self, work, *arguments):
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.port))
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._pairs.add((client, server))
                self._start(self._forward, client, server, False)
                self._start(self._forward, server, client, True)

    def _forward(self, source, target, is_answer):
        """Copy until one end closes; then close both."""
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if is_answer:
                    time.sleep(self.delay_s)
                    data, is_cut = self._allowed(data)
                    target.sendall(data)
                    if is_cut:
                        self.cut()
                else:
                    target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        source.close()

    def _allowed(self, data):
        """Return the part that may pass, and whether all connections end after it."""
        with self._lock:
            if self._left is None:
                return data, False
            passed, self._left = data[: self._left], self._left - len(data)
            return passed, self._left <= 0
