"""A Chromium for the tests of pages, and an empty page in it."""

import os
import shutil

import pytest

CHROMIUM = os.environ.get("CLOB_CHROMIUM") or shutil.which("chromium")
IN_BROWSER = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
"""Marks of a module whose tests use a browser."""
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
ANY_ADDRESS = "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets"
"""Turns off a check of requests to loopback that other browsers do not have."""
WAIT_MS = 60_000


@pytest.fixture(scope="module")
def options():
    """The options of the browser; a module with others overrides this fixture."""
    return OPTIONS


@pytest.fixture(scope="module")
def browser(options):
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    yield page
    context.close()
