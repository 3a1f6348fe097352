"""A server as a process: its output at start and end, and its exit codes."""

import json
import resource
import signal
import socket
import subprocess
import sys

import apsw
import httpx
import pytest

from clob_server import cli
from clob_server.__main__ import main
from clob_server.cli.options import (
    PREFIX,
    option_of,
    read_settings,
    read_values,
    text_of,
    trimmed,
)
from clob_server.log.sqlite import DATABASE
from clob_server.settings import Settings
from tests.server.live import END_S, environment, live_server

SECRET = "a secret of forty-two bytes, which nobody has"


def server(*options, env=None):
    """Run a server that cannot start, to its end."""
    command = [sys.executable, "-m", "clob_server", *map(str, options)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=END_S,
        env=environment() | (env or {}),
        check=False,
    )


def said(done):
    """What was said of the failure: one line, and nothing else but lines of the log."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


def test_second_server_on_the_same_folder_is_rejected_in_one_line(tmp_path):
    with live_server(tmp_path) as live:
        done = server("--port", 0, "--data-dir", tmp_path)
        assert done.returncode == 2
        assert said(done).startswith("clob-server: LOG_LOCKED: ")
        assert live.http.get("/health").status_code == 200


@pytest.mark.parametrize("streams", [">/dev/full", "2>/dev/full", "<&- >&- 2>&-", "> >(true)"])
def test_server_without_usable_streams_serves_and_ends_in_order(tmp_path, streams):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = str(unused.getsockname()[1])
    command = [sys.executable, "-m", "clob_server", "--port", port, "--chain", "none"]
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" {streams}', "bash", *command, "--data-dir", tmp_path],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    ready = httpx.HTTPTransport(retries=8)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=ready) as http:
            assert http.get("/health").status_code == 200
    finally:
        process.terminate()
        assert process.wait(END_S) == 0


def test_damaged_log_is_rejected_in_one_line(tmp_path):
    with live_server(tmp_path) as live:
        live.http.post("/api/orders/gasless", json={})
        assert live.stop() == 0
    database = tmp_path / DATABASE
    content = bytearray(database.read_bytes())
    content[: len(content) // 2] = bytes(len(content) // 2)
    database.write_bytes(content)
    done = server("--port", 0, "--data-dir", tmp_path)
    assert done.returncode == 1
    assert said(done).startswith("clob-server: LOG_DAMAGED: ")


def test_log_of_an_older_format_is_rejected_in_one_line(tmp_path):
    with live_server(tmp_path) as live:
        assert live.stop() == 0
    database = apsw.Connection(str(tmp_path / DATABASE))
    database.execute("PRAGMA user_version=1")
    database.close()
    done = server("--port", 0, "--data-dir", tmp_path)
    assert done.returncode == 2
    assert said(done) == (
        f"clob-server: LOG_OLDER: the log in {tmp_path} has format 1; this version reads formats "
        "2 to 3 (nothing was released with format 1: start with an empty folder)"
    )


def test_port_in_use_is_reported_with_a_failure_code(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = server("--port", taken.getsockname()[1], "--data-dir", tmp_path)
    assert done.returncode == 2
    assert "the server cannot listen there: Address already in use" in said(done)
    assert not (tmp_path / DATABASE).exists()


def test_misspelled_environment_variable_is_logged(tmp_path):
    (tmp_path / DATABASE).write_bytes(b"not a log")
    variables = {"CLOB_RATE_LIMTS": "off", "CLOB_SERVICE": "x", "CLOB_RATE_LIMITS": "off"}
    done = server("--port", 0, "--data-dir", tmp_path, env=variables)
    lines = (json.loads(line) for line in done.stderr.splitlines() if line.startswith("{"))
    found = [line["message"] for line in lines if line["level"] == "warning"]
    assert found[0] == (
        "the environment variable CLOB_RATE_LIMTS is not a setting; the nearest one is "
        "CLOB_RATE_LIMITS"
    )
    assert found[1].startswith("the environment variable CLOB_SERVICE is not a setting")


def test_folder_that_cannot_be_created_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    done = server("--port", 0, "--data-dir", tmp_path / "file" / "data")
    assert done.returncode == 2
    assert said(done).startswith("clob-server: LOG_ERROR: the log in ")
    assert said(done).endswith(f"cannot be opened: {tmp_path / 'file'} is not a folder")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--port", "many"), "--port must be a number; got 'many'"),
        (("--port", "65536"), "--port must be from 0 to 65535; got '65536'"),
        (("--ws-heartbeat-s", "0"), "--ws-heartbeat-s must be from 1 to "),
        (("--grace-s", "nan"), "--grace-s must be from 0.001 to "),
        (("--rate-limits", "yes"), "--rate-limits must be on or off; got 'yes'"),
        (("--environment", "production"), "missing: --eip712-name, --eip712-version, --chain-id, "),
        (("--jwt-secret", "short"), "--jwt-secret must have at least 32 bytes"),
        (("--headers-max-bytes", "1"), "--headers-max-bytes must be from 1024 to 1048576; got '1'"),
        (("--trusted-proxies", "anybody"), "--trusted-proxies must be IP addresses or networks, "),
        (("--allowed-hosts", "http://x/"), "--allowed-hosts must be names as in Host, such as "),
        (("--allowed-hosts", "x,::1"), "got '::1'"),
        (("--cors-origins", "exchange.example"), "--cors-origins must be a scheme and a host, "),
        (("--cors-origins", "https://*.example.org"), "got 'https://*.example.org'"),
        (("--cors-origins", "https://Exchange.example:443"), "got 'https://Exchange.example:443'"),
        (("--cors-origins", "http://exchange.example:80/"), "got 'http://exchange.example:80/'"),
        (("--allowed-hosts", "*.example.org"), "or * for any name; got '*.example.org'"),
        (("--operators", "0xabc"), '--operators must be 0x and 40 hex digits; got "0xabc"'),
        (("--public-url", "exchange.example"), "--public-url must be an http or https URL; got "),
        (("--mainnet-url", "soon"), "--mainnet-url must be an http or https URL; got 'soon'"),
        (("--ws-soft-bytes", "9000000"), "--ws-soft-bytes must be at most --ws-hard-bytes ("),
        (("--cors-origins", "null"), "got 'null'"),
        (("--cors-origins", "https://x/page"), "got 'https://x/page'"),
        (("--host", ""), "--host must not be empty"),
        (("--data-dir", ""), "--data-dir must not be empty"),
        (("--eip712-name", '"clob"'), "--eip712-name must have no quotes around its value"),
        (("--allowed-hosts", "'x'"), "--allowed-hosts must have no quotes around its value"),
        (("--data-dir", "a\udcff"), "--data-dir must be UTF-8; got 'a\\udcff'"),
        (("--host", "192.0.2.1"), "--host 192.0.2.1 and --port 8000: the server cannot listen"),
    ],
)
def test_invalid_setting_is_reported_in_one_line(tmp_path, capsys, options, told):
    assert cli.main(["run", "--data-dir", str(tmp_path / "data"), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("clob-server: ")
    assert told in err
    assert err.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_command_line_overrides_the_environment():
    environ = {"CLOB_TRADES_KEPT": "5", "CLOB_CORS_ORIGINS": "http://a, http://b", "CLOB_PORT": "1"}
    settings = read_settings({"port": "2"}, environ)
    assert (settings.port, settings.trades_kept) == (2, 5)
    assert settings.cors_origins == ("http://a", "http://b")
    values = {name: getattr(settings, name) for name in Settings.__struct_fields__}
    same = {PREFIX + name.upper(): text_of(value) for name, value in values.items()}
    assert read_settings({}, same) == settings


def test_operators_are_compared_with_checksum():
    address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    assert read_settings({"operators": address.lower()}, {}).operators == (address,)


def test_white_space_around_a_variable_is_no_part_of_its_value():
    environ = {
        "CLOB_ENVIRONMENT": "test\r\n",
        "CLOB_EIP712_NAME": " my exchange\n",
        "CLOB_JWT_SECRET": f"{SECRET}\n",
        "OTHER": " x ",
    }
    assert trimmed(environ)["OTHER"] == " x "
    settings = read_settings({}, trimmed(environ))
    assert (settings.environment, settings.eip712_name) == ("test", "my exchange")
    assert settings.jwt_secret == SECRET


@pytest.mark.parametrize("name", ["data_dir", "jwt_public_key_file", "operator_key_file"])
def test_tilde_in_a_path_is_the_home_folder(monkeypatch, tmp_path, name):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_values({name: "~/file"}, {}) == {name: str(tmp_path / "file")}


@pytest.mark.parametrize("command", ["", "run", "token", "key", "key create", "verify", "export"])
def test_each_command_has_help(capsys, command):
    with pytest.raises(SystemExit) as ended:
        cli.main([*command.split(), "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: clob-server {command}".rstrip())


@pytest.mark.parametrize("command", ["--port x", "--demo --port x", "run --port x"])
def test_options_without_a_command_mean_run(capsys, command):
    assert main(command.split()) == 2
    assert capsys.readouterr().err == "clob-server: --port must be a number; got 'x'\n"


def test_every_setting_is_an_option_with_its_default(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    output = capsys.readouterr().out
    for name in Settings.__struct_fields__:
        assert f"  {option_of(name)} " in output, name
    assert "--chain-fee-max-gwei NUMBER" in output
    assert "--chain-wait-s SECONDS" in output


def test_production_reads_its_domain_from_the_environment(tmp_path):
    settings = {
        "environment": "production",
        "eip712_name": "venue",
        "eip712_version": "2",
        "chain_id": 137,
        "verifying_contract": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
        "jwt_secret": SECRET,
    }
    with live_server(tmp_path, **settings) as live:
        root = live.http.get("/").json()
        assert root["environment"] == "production"
        assert root["eip712"]["chainId"] == 137
        assert root["endpoints"] == {"testnet": "", "mainnet": live.url}


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_server_with_code_0_and_no_output(tmp_path, sign):
    with live_server(tmp_path) as live:
        live.process.send_signal(sign)
        assert live.process.wait(END_S) == 0


def test_only_configured_origins_may_call(tmp_path):
    origin = {"Origin": "https://app.example"}
    asking = {
        "Access-Control-Request-Method": "DELETE",
        "Access-Control-Request-Headers": "content-type, x-api-key, idempotency-key, "
        "authorization, if-none-match, x-request-id",
    }
    with live_server(tmp_path / "shut") as live:
        for answer in (
            live.http.get("/", headers=origin),
            live.http.options("/api/orders", headers={**origin, **asking}),
        ):
            assert "access-control-allow-origin" not in answer.headers
            assert (answer.status_code, answer.json()["code"]) == (403, "ORIGIN_NOT_ALLOWED")
            assert "--cors-origins" in answer.json()["detail"]
    named = ("https://App.example/", "https://b.example")
    with live_server(tmp_path / "open", cors_origins=named) as live:
        answer = live.http.get("/", headers=origin)
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "Origin" in answer.headers["vary"]
        exposed = set(answer.headers["access-control-expose-headers"].lower().split(", "))
        assert exposed >= {"link", "etag", "retry-after", "x-next-cursor", "x-applied-seq"}
        assert exposed >= {"ratelimit", "x-ratelimit-limit", "x-ratelimit-remaining"}
        asked = live.http.options("/api/orders", headers={**origin, **asking})
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == "https://app.example"
        methods = set(asked.headers["access-control-allow-methods"].split(", "))
        assert methods == {"GET", "POST", "PUT", "PATCH", "DELETE"}
        assert "Origin" in asked.headers["vary"]
        evil = {"Origin": "https://evil.example"}
        for other in (
            live.http.get("/", headers=evil),
            live.http.options("/api/orders", headers={**evil, **asking}),
        ):
            assert "access-control-allow-origin" not in other.headers
            assert (other.status_code, other.json()["code"]) == (403, "ORIGIN_NOT_ALLOWED")
            assert "--cors-origins" in other.json()["detail"]
            assert other.headers["vary"] == "Origin"
        assert live.http.get("/health").headers["vary"] == "Origin"
        assert live.http.get("/").headers["vary"] == "accept, Origin"
        own = live.http.get("/", headers={"Origin": live.url})
        assert own.status_code == 200


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="not here: no prlimit")
def test_failed_commit_ends_the_process_and_loses_no_acknowledged_order(tmp_path):
    order = {
        "maker": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        "marketId": "m",
        "tokenId": "1",
        "side": 0,
        "price": 50,
        "size": "100000000000000000000",
    }
    acknowledged = []
    with live_server(tmp_path, rate_limits=False, stderr=subprocess.PIPE) as live:
        for number in range(400):
            if number == 5:
                resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, (50_000, 50_000))
            try:
                answer = live.http.post("/api/orders/gasless", json=order)
            except httpx.TransportError:
                break
            if answer.status_code != 200:
                assert (answer.status_code, answer.json()["code"]) == (503, "OUTCOME_UNKNOWN")
                break
            acknowledged.append(answer.json()["orderId"])
        assert live.process.wait(END_S) == 1
        with live.process.stderr as stderr:
            *_, logged, last = stderr.read().splitlines()
    assert json.loads(logged)["message"].startswith("ended at once: the log failed")
    assert "LogFailedError" in json.loads(logged)["reason"]
    assert last.startswith("clob-server: the server has failed: LogFailedError")
    assert 5 <= len(acknowledged) < 400
    with live_server(tmp_path, rate_limits=False) as live:
        query = {"maker": order["maker"], "limit": 500}
        order_ids = [each["id"] for each in live.http.get("/api/orders", params=query).json()]
        assert order_ids[: len(acknowledged)] == acknowledged
        assert len(order_ids) <= len(acknowledged) + 1
