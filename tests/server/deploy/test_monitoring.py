"""Alerts and the dashboard use metrics that exist, and every alert is explained."""

import contextlib
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from tests.server.deploy.test_proxies import free_port
from tests.server.live import END_S, START_S, live_server

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
ALERTS = (DEPLOY / "alerts.yml").read_text()
DASHBOARD = json.loads((DEPLOY / "grafana" / "clob.json").read_text())
METRIC = re.compile(r"\bclob_\w+")
PART = re.compile(r"_(bucket|count|sum)$")
PROMETHEUS = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("data")) as live:
        yield live


def expressions():
    """Return the expressions of all alerts and panels."""
    alerts = re.findall(r"expr: (?:>\n +)?(.*)", ALERTS)
    panels = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
    return [*alerts, *(target["expr"] for panel in panels for target in panel["targets"])]


def test_alerts_and_dashboard_use_metrics_that_exist(live):
    names = re.findall(r"^# TYPE (\S+)", live.http.get("/metrics").text, re.MULTILINE)
    # Without any labels yet, a family has no samples, but a type.
    used = {PART.sub("", name) for text in expressions() for name in METRIC.findall(text)}
    assert len(used) > 20
    assert used <= set(names)


def test_every_metric_but_a_few_is_in_an_alert_or_on_the_dashboard(live):
    names = re.findall(r"^# TYPE (\S+)", live.http.get("/metrics").text, re.MULTILINE)
    shown = " ".join(expressions())
    absent = {name for name in names if not name.endswith("_created") and name not in shown}
    assert absent == {
        "clob_chain_bumped",
        "clob_chain_deaths",
        "clob_chain_rebroadcast",
        "clob_command_seq",
        "clob_keys",
        "clob_operations_total",
        "clob_settlement_block",
        "clob_settlement_block_age_seconds",
        "clob_settlement_seconds",
        "clob_settlement_wallets",
    }


def test_age_of_the_last_block_is_0_at_a_server_that_reads_no_chain(live):
    # It was the time since the server started.
    assert "\nclob_settlement_block_age_seconds 0.0\n" in live.http.get("/metrics").text


def test_every_alert_is_explained_in_order():
    page = (ROOT / "docs" / "how-to" / "monitor.md").read_text()
    explained = re.findall(r"^\| `(Clob\w+)` \|", page, re.MULTILINE)
    assert explained == re.findall(r"alert: (\w+)", ALERTS)


@needs_prometheus
def test_prometheus_scrapes_the_server_and_evaluates_every_expression(live, tmp_path):
    text = (DEPLOY / "prometheus.yml").read_text()
    assert "127.0.0.1:8000" in text
    text = text.replace("127.0.0.1:8000", live.url.removeprefix("http://"))
    (tmp_path / "prometheus.yml").write_text(text.replace("10s", "1s"))
    shutil.copy(DEPLOY / "alerts.yml", tmp_path)
    subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")],
        check=True,
        capture_output=True,
    )
    address = f"127.0.0.1:{free_port()}"
    options = ["--web.listen-address", address, "--storage.tsdb.path", str(tmp_path / "data")]
    process = subprocess.Popen(
        [PROMETHEUS, f"--config.file={tmp_path / 'prometheus.yml'}", *options],
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx.Client(base_url=f"http://{address}", timeout=START_S) as http:
            assert wait_for(http, 'up{job="clob"}') == "1"
            assert wait_for(http, "clob_ready") == "1"
            for expression in expressions():
                text = expression.replace("$__rate_interval", "1m")
                answer = http.get("/api/v1/query", params={"query": text}).json()
                assert answer["status"] == "success", (text, answer)
            rules = http.get("/api/v1/rules").json()["data"]["groups"][0]["rules"]
            assert all(rule["health"] != "err" for rule in rules)
    finally:
        process.terminate()
        process.wait(END_S)


def wait_for(http, query):
    """Return the value of a query once it has one."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        found = []
        with contextlib.suppress(httpx.ConnectError):
            answer = http.get("/api/v1/query", params={"query": query})
            if answer.is_success:  # 503 until it has started
                found = answer.json()["data"]["result"]
        if found and found[0]["value"][1] != "0":
            return found[0]["value"][1]
        time.sleep(0.2)
    raise AssertionError(f"{query} has no value")
