"""Root, health, readiness, metrics, documents and pages of a live server."""

import json
import re
import signal
from pathlib import Path

import pytest

import clob
from clob_server.http import routes
from clob_server.settings import Settings
from tests.server.live import live_server
from tests.server.meta.operators import authority_of

WEB = Path(routes.__file__).parents[2] / "web"
SHARED = Path(clob.__file__).parent / "web"
PAGES = ("/docs", "/admin", "/ui")
SERIES = (
    "clob_orders_total",
    "clob_trades_total",
    "clob_commands_waiting",
    "clob_command_seq",
    "clob_markets",
    "clob_open_orders",
    "clob_log_bytes",
    "clob_commit_seconds_count",
    "clob_loop_lag_seconds_count",
    "clob_websockets",
    "clob_history_lag_commands",
    'clob_request_seconds_count{route="create_gasless_order"}',
    'clob_refusals_total{code="UNKNOWN_MARKET"}',
)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    settings = {"support": "https://help.example", "access_log": True, "log_level": "info"}
    with live_server(tmp_path_factory.mktemp("data"), **settings) as live:
        yield live


def gasless(live, market, side, price):
    body = {
        "maker": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        "marketId": market,
        "tokenId": str(sum(market.encode())),
        "side": side,
        "price": price,
        "size": "1000000000000000000",
    }
    answer = live.http.post("/api/orders/gasless", json=body)
    assert answer.status_code == 200, answer.text


# ----- GET / ---------------------------------------------------------------------------------


def test_root_has_every_field_of_the_api_information_resource(live):
    root = live.http.get("/").json()
    assert root["name"] == "clob"
    assert re.fullmatch(r"\d+\.\d+\.\d+", root["version"])
    assert root["version"] == clob.__version__
    assert root["description"]
    assert root["documentation"] == f"{live.url}/docs"
    assert root["status"] in ("alpha", "beta", "stable", "deprecated")
    assert set(root["endpoints"]) == {"testnet", "mainnet"}


def test_decision_54_root_endpoint(live):
    root = live.http.get("/").json()
    assert root["status"] == "beta"
    assert root["support"] == {"contact": "https://help.example"}
    assert root["endpoints"] == {"testnet": live.url, "mainnet": "coming soon"}
    assert root["eip712"] == Settings().domain.to_json()


def test_decision_46_the_websocket_is_published_at_root(live):
    assert live.http.get("/").json()["websocket"] == live.ws_url


def test_decision_32_limits_at_root_are_enforced(live):
    limits = live.http.get("/").json()["rateLimit"]
    assert limits["testnet"] == (
        "100 requests per minute without an API key, 240 with one; 30 orders and 240 cancels per "
        "minute; an API key is optional"
    )
    assert limits["mainnet"] == "not served: this is a test server"
    authority = authority_of(live)
    before = live.http.get("/api/admin/limits", headers=authority).json()["budgets"]
    changed = {"budgets": {**before, "anonymousPerMinute": 1234}}
    live.http.put("/api/admin/limits", json=changed, headers=authority).raise_for_status()
    try:
        assert live.http.get("/").json()["rateLimit"]["testnet"].startswith("1234 requests")
    finally:
        live.http.put("/api/admin/limits", json={"budgets": before}, headers=authority)


# ----- health, readiness, numbers ------------------------------------------------------------


def test_decision_33_health_needs_no_key_and_has_the_log_position(live):
    before = live.http.get("/health")
    assert before.status_code == 200
    known = {"status", "version", "commandSeq", "chain", "clock", "history", "node"}
    assert before.json().keys() == known
    assert before.json()["status"] == "ok"
    gasless(live, "healthy", 0, 50)
    assert live.http.get("/health").json()["commandSeq"] > before.json()["commandSeq"]


def test_decision_33_ready_is_503_while_draining_and_creates_are_rejected(tmp_path):
    with live_server(tmp_path, drain_s=20, grace_s=5) as live:
        found = live.http.get("/ready").json()
        assert found.pop("history") in ("starting", "ready")
        assert found == {"status": "ready", "phase": "ready", "detail": "", "chain": "none"}
        live.process.send_signal(signal.SIGTERM)
        answer = live.http.get("/ready")
        while answer.status_code == 200:
            answer = live.http.get("/ready")
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert (answer.json()["status"], answer.json()["phase"]) == ("unavailable", "draining")
        response = live.http.post("/api/orders/gasless", json={})
        assert (response.status_code, response.json()["code"]) == (503, "DRAINING")
        assert response.headers["retry-after"] == "1"
        assert live.http.get("/health").status_code == 200


def test_metrics_include_every_counter(live):
    gasless(live, "counted", 0, 50)
    gasless(live, "counted", 1, 50)
    assert live.http.get("/api/markets/nowhere/orderbook").status_code == 404
    answer = live.http.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    series = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if line[0] != "#")
    for name in SERIES:
        assert name in series, name
    assert float(series["clob_trades_total"]) >= 1
    assert float(series["clob_commit_seconds_count"]) >= 2
    assert float(series['clob_refusals_total{code="UNKNOWN_MARKET"}']) >= 1
    assert float(series["clob_ready"]) == 1


# ----- documents and pages -------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/openapi.json", "/asyncapi.json", *PAGES, "/web/style.css"])
def test_unchanged_documents_return_304(live, path):
    first = live.http.get(path)
    assert first.status_code == 200
    second = live.http.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (second.status_code, second.content) == (304, b"")


@pytest.mark.parametrize("path", PAGES)
def test_page_has_a_strict_content_security_policy(live, path):
    answer = live.http.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    for name in re.findall(r'(?:src|href)="(/web/[^"]+)"', answer.text):
        assert live.http.get(name).status_code == 200


@pytest.mark.parametrize(
    "file", sorted([*WEB.glob("*.[hjcs]*"), *SHARED.iterdir()]), ids=lambda file: file.name
)
def test_page_files_have_no_external_urls_and_no_inner_html(file):
    text = file.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"//\w", text)
    assert not re.search(r"innerHTML|document\.write|eval\(|<script>|style=|\son\w+=", text)


@pytest.mark.parametrize("name", ["nothing.js", "..%2f..%2fsettings.py", "%2e%2e", "py.typed"])
def test_other_files_are_not_served(live, name):
    answer = live.http.get(f"/web/{name}")
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


def test_every_code_has_an_anchor_in_the_documentation(live):
    document = live.http.get("/openapi.json").json()
    response = live.http.get("/nowhere").json()
    assert response["type"] == f"/docs#{response['code']}"
    assert response["code"] in [each["code"] for each in document["x-codes"]]


# ----- what is said in the logs --------------------------------------------------------------


def test_deeply_nested_body_is_rejected(live):
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        depth = 60_000 // len(opening + closing)
        body = opening * depth + closing * depth
        answer = live.http.post(
            "/api/orders", content=body, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_JSON")
    assert live.http.get("/health").status_code == 200


def test_document_is_json_with_its_environment(live):
    assert json.loads(live.http.get("/openapi.json").text)["x-environment"] == "test"
