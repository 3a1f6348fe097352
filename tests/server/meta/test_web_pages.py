"""Pages as they are served: the way from ``/``, headers, compression and weight."""

import gzip
import re
from importlib.resources import files

import pytest

from tests.server.live import live_server
from tests.server.meta.test_meta import PAGES

WEIGHT_MAX = 50_000
"""The most bytes of the trading page, compressed, with all its scripts and styles."""
IMPORT = re.compile(r'(?:^import |from |import\()"\./([^"]+)"', re.MULTILINE)
WEB = files("clob_server") / "web"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("data")) as live:
        yield live


def urls_in(html):
    """Return the files that a page names."""
    return re.findall(r'(?:src|href)="(/web/[^"]+)"', html)


def imports_of(script):
    """Return the modules that a module imports, also on demand."""
    return {f"/web/{name}" for name in IMPORT.findall(script)}


def modules_of(live, html):
    """Return the text of all modules of a page by URL."""
    waiting = set(re.findall(r'type="module" src="([^"]+)"', html))
    modules = {}
    while waiting:
        url = waiting.pop()
        modules[url] = live.http.get(url).raise_for_status().text
        waiting |= imports_of(modules[url]) - modules.keys()
    return modules


# ----- / ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "accept",
    [BROWSER, "text/html", "TEXT/HTML; q=0.1", "application/json, text/html;level=1;q=0.05"],
)
def test_root_leads_clients_that_list_html_to_the_page(live, accept):
    for method in ("GET", "HEAD"):
        answer = live.http.request(method, "/", headers={"Accept": accept})
        assert (answer.status_code, answer.headers["location"]) == (302, "/ui")
        assert answer.headers["vary"] == "accept"
        assert answer.content == b""


@pytest.mark.parametrize(
    "accept",
    [
        *(None, "", "*/*", "text/*", "application/json", "application/xhtml+xml, */*"),
        *("text/html;q=0", "text/html; q=0.000, */*", "text/htmlx", "x-text/html", ";;,,="),
    ],
)
def test_root_returns_json_to_clients_that_list_no_html(live, accept):
    request = live.http.build_request("GET", "/")
    del request.headers["accept"]
    if accept is not None:
        request.headers["accept"] = accept
    answer = live.http.send(request)
    assert (answer.status_code, answer.json()["name"]) == (200, "clob")
    assert "accept" in answer.headers["vary"].split(", ")


# ----- headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES, "/web/ui.js", "/web/style.css"])
def test_policy_allows_the_websocket_of_the_own_host_only(live, path):
    answer = live.http.get(path)
    host = live.url.removeprefix("http://")
    policy = dict(
        part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy["connect-src"] == f"'self' ws://{host} wss://{host}"
    assert policy["default-src"] == "'self'"
    assert set(policy.values()) == {"'self'", "'none'", policy["connect-src"]}
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


def test_visits_of_pages_use_no_budget(live):
    for _ in range(101):
        assert live.http.get("/web/icon.svg").status_code == 200
    answer = live.http.get("/ui")
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


@pytest.mark.parametrize("path", ["/ui", "/web/ui.js", "/web/style.css"])
def test_files_are_sent_compressed_and_as_they_are(live, path):
    plain = live.http.get(path, headers={"Accept-Encoding": "identity"})
    packed = live.http.get(path, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert len(plain.content) <= 1_024 or packed.headers["content-encoding"] == "gzip"
    assert plain.content == packed.content
    assert plain.headers["etag"] == packed.headers["etag"].removeprefix("W/")


@pytest.mark.parametrize("name", ["app.js", "common.js", "ticket.js"])
def test_scripts_are_sent_without_comments_and_indentation(live, name):
    lines = [line.strip() for line in (WEB / name).read_text().splitlines()]
    sent = live.http.get(f"/web/{name}").text.splitlines()
    assert [line for line in sent if line] == [
        line for line in lines if line and not line.startswith("//")
    ]


def test_styles_are_sent_without_comments(live):
    text = (WEB / "style.css").read_text()
    sent = live.http.get("/web/style.css").text
    assert without_spaces(sent) == without_spaces(re.sub(r"/\*.*?\*/", "", text))


def without_spaces(style):
    """Return a style without the spaces that mean nothing: at its marks, and repeated ones."""
    return re.sub(r"\s*([{};,])\s*|(?<=:)\s", r"\1", re.sub(r"\s+", " ", style))


# ----- weight ------------------------------------------------------------------------------------


def test_trading_page_weighs_less_than_its_limit(live):
    html = live.http.get("/ui").text
    files = {url: live.http.get(url).content for url in set(urls_in(html))}
    files |= {url: text.encode() for url, text in modules_of(live, html).items()}
    files["/ui"] = html.encode()
    weights = {url: len(gzip.compress(content, 6)) for url, content in files.items()}
    assert sum(weights.values()) < WEIGHT_MAX, weights


@pytest.mark.parametrize("path", PAGES)
def test_page_names_all_its_modules_for_one_round(live, path):
    html = live.http.get(path).text
    assert len(set(urls_in(html))) == len(urls_in(html))
    assert modules_of(live, html).keys() <= set(urls_in(html))
