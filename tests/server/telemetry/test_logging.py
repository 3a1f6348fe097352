"""Log lines: JSON for pipes, text for terminals, and no secrets."""

import io
import json
import logging
import subprocess
import sys

import httpx
import pytest

from clob_server.telemetry import logging as logs
from tests.server.live import END_S, environment


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def restored():
    """Restore the loggers after the test."""
    root, ours = logging.getLogger(), logging.getLogger(logs.OURS)
    kept = root.handlers[:], root.level, ours.level, logging.raiseExceptions
    yield
    root.handlers[:], level, ours_level, logging.raiseExceptions = kept
    root.setLevel(level)
    ours.setLevel(ours_level)


def test_record_is_a_line_of_json_with_its_fields(restored):
    out = io.StringIO()
    logs.configure("info", out)
    logging.getLogger("clob_server.requests").info(
        "request", extra={"request_id": "r-1", "path": "/a\nb", "status": 200}
    )
    [line] = out.getvalue().splitlines()
    output = json.loads(line)
    assert output["time"].endswith("Z")
    assert output | {"time": ""} == {
        "time": "",
        "level": "info",
        "logger": "clob_server.requests",
        "message": "request",
        "request_id": "r-1",
        "path": "/a\nb",
        "status": 200,
    }


def test_terminal_gets_text_without_control_characters(restored):
    out = Terminal()
    logs.configure("info", out)
    logging.getLogger("clob_server").info("request", extra={"path": "/\x1b[2J x", "status": 200})
    assert out.getvalue()[13:] == 'info    request path="/\\u001b[2J x" status=200\n'


def test_exception_stays_in_one_line(restored):
    out = io.StringIO()
    logs.configure("info", out)
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("clob_server").exception("unforeseen")
    [line] = out.getvalue().splitlines()
    assert json.loads(line)["exception"].endswith("ValueError: no")


def test_other_packages_log_warnings_only_at_any_level(restored):
    out = io.StringIO()
    logs.configure("debug", out)
    logging.getLogger("websockets.server").debug("X-API-Key: secret")
    logging.getLogger("websockets.server").warning("beware")
    logging.getLogger("clob_server").debug("ours")
    assert [json.loads(line)["message"] for line in out.getvalue().splitlines()] == [
        "beware",
        "ours",
    ]


def test_request_is_logged_by_id_without_its_content(tmp_path):
    command = [sys.executable, "-m", "clob_server", "--port", "0", "--data-dir", str(tmp_path)]
    command += ["--access-log", "on", "--log-level", "debug", "--drain-s", "0", "--chain", "none"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    url = process.stdout.readline().split()[-1]
    headers = {"X-API-Key": "clob_secret-key", "Authorization": "Bearer secret-token"}
    for path in ("/api/orders?maker=secret-query", "/api/admin/keys", "/ready"):
        httpx.post(f"{url}{path}", headers=headers, json={"signature": "0xsecret-body"})
    httpx.get(f"{url}/ready", headers={"X-Request-Id": "named-by-me"})
    process.terminate()
    _, output = process.communicate(timeout=END_S)
    assert process.returncode == 0
    lines = [json.loads(line) for line in output.splitlines()]
    requests = [line for line in lines if line["message"] == "request"]
    assert [line["path"] for line in requests] == [
        "/api/orders",
        "/api/admin/keys",
        "/ready",
        "/ready",
    ]
    assert requests[-1]["request_id"] == "named-by-me"
    assert "secret" not in output
