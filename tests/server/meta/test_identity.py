"""The settings that a log depends on, and the lines that a server logs at its start and end."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing, contextmanager

import httpx
import pytest

import clob
from clob.journal import ZERO_HASH
from clob_server import cli
from clob_server.auth.api_keys import IDS, TOKENS
from clob_server.cli.verify import audit
from clob_server.core.commands import Budgets, SetBudgets, encode
from clob_server.core.identity import ExchangeDiffersError, changed_exchange, exchange_settings
from clob_server.core.recovery import recover
from clob_server.log import SqliteLog
from clob_server.settings import Settings
from tests.server.auth.servers import DOMAIN
from tests.server.live import END_S, environment, live_server

SECRET = "a secret of forty-two bytes, which nobody has"
PRODUCTION = {"environment": "production", **DOMAIN, "jwt_secret": SECRET, "chain": "none"}
OTHER_CONTRACT = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def start(folder, *options, **environ):
    """Run a server that cannot start; return its exit code and the line about it."""
    command = [sys.executable, "-m", "clob_server", "--port", "0", "--data-dir", folder, *options]
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=END_S,
        env=environment() | environ,
        check=False,
    )
    [line] = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    return done.returncode, line


def exchange_of(folder):
    """Return the recorded settings of a stopped server, and the number of its commands."""
    with closing(SqliteLog(folder)) as log:
        return recover(log)[0].registry.exchange, log.tail.seq


@contextmanager
def logged(folder, **settings):
    """Run a server; yield it and a function that returns the lines it has logged."""
    path = folder.parent / f"{folder.name}.log"
    with (
        path.open("w") as file,
        live_server(folder, stderr=file, log_level="info", **settings) as live,
    ):
        yield live, lambda: [json.loads(line) for line in path.read_text().splitlines()]


def line_of(lines, message):
    """Return the only line with a message."""
    [found] = [line for line in lines if line["message"] == message]
    return found


def test_production_folder_does_not_start_as_test_when_its_variables_are_lost(tmp_path):
    with live_server(tmp_path, **PRODUCTION) as live:
        assert live.stop() == 0
    before = exchange_of(tmp_path)
    code, line = start(tmp_path)
    assert code == 2
    assert line.startswith(f"clob-server: EXCHANGE_DIFFERS: the log in {tmp_path} belongs to ")
    assert "--environment was 'production' and is now 'test'" in line
    assert "or choose another --data-dir" in line
    assert exchange_of(tmp_path) == before
    with live_server(tmp_path, **PRODUCTION) as live:
        assert live.http.get("/").json()["environment"] == "production"


@pytest.mark.parametrize(
    ("setting", "value", "before"),
    [
        ("environment", "production", "test"),
        ("eip712_name", "other", "clob"),
        ("eip712_version", "2", "1"),
        ("chain_id", 137, "31337"),
        ("verifying_contract", OTHER_CONTRACT, DOMAIN["verifying_contract"]),
    ],
)
def test_settings_of_another_exchange_are_rejected_with_both_values(setting, value, before):
    text = f"--{setting.replace('_', '-')} was {before!r} and is now {str(value)!r};"
    with pytest.raises(ExchangeDiffersError, match=re.escape(text)):
        changed_exchange(exchange_settings(Settings()), Settings(**{setting: value}))


def test_same_contract_in_lower_case_is_the_same_exchange():
    lower = Settings(verifying_contract=DOMAIN["verifying_contract"].lower())
    assert changed_exchange(exchange_settings(Settings()), lower) is None


def test_log_without_recorded_settings_gets_those_of_the_next_start(tmp_path):
    with closing(SqliteLog(tmp_path)) as log:
        command = SetBudgets(budgets=Budgets(), now_ms=1)
        log.append([encode(command)], 0, event_hash=ZERO_HASH)
    with live_server(tmp_path, **PRODUCTION) as live:
        assert live.stop() == 0
    exchange, seq = exchange_of(tmp_path)
    assert (exchange.environment, exchange.chain_id, seq) == ("production", "31337", 2)


def test_recorded_settings_survive_a_copy_and_a_dropped_log(tmp_path, capsys):
    folder, copy = tmp_path / "data", tmp_path / "copy"
    with live_server(folder, **PRODUCTION, snapshot_commands=1, history="thread") as live:
        live.stop()
    assert cli.main(["export", str(tmp_path / "old.frames"), str(folder), "--drop"]) == 0
    shutil.copytree(folder, copy)
    capsys.readouterr()
    assert cli.main(["verify", str(copy)]) == 0
    text = 'environment production, EIP-712 domain "clob" version "1", chain 31337, contract 0x5F'
    assert text in capsys.readouterr().out
    with closing(SqliteLog(copy)) as log:
        assert audit(log).exchange.environment == "production"
        assert recover(log)[0].registry.exchange.environment == "production"


def test_changed_rule_is_logged_with_both_values_and_recorded(tmp_path):
    folder = tmp_path / "data"
    with live_server(folder, operators=(OTHER_CONTRACT,), history_days=7) as live:
        assert live.stop() == 0
    with logged(folder, history_days=7, price_policy="strict") as (live, lines):
        assert live.stop() == 0
        changes = [line for line in lines() if line["level"] == "warning"]
    assert [(each["option"], each["before"], each["now"]) for each in changes] == [
        ("--operators", OTHER_CONTRACT, ""),
        ("--price-policy", "nearest", "strict"),
    ]
    assert exchange_of(folder)[1] == 2


def test_start_and_end_are_logged(tmp_path):
    folder = tmp_path / "data"
    with logged(folder, **PRODUCTION) as (live, lines):
        live.process.send_signal(signal.SIGINT)
        assert live.process.wait(END_S) == 0
        begin, end = line_of(lines(), "started"), line_of(lines(), "ended")
    assert begin["version"] == clob.__version__
    assert begin["environment"] == "production"
    assert begin["eip712_domain"] == (
        f'"clob" version "1", chain 31337, contract {DOMAIN["verifying_contract"]}'
    )
    assert (begin["command_seq"], begin["is_new_log"]) == (1, True)
    assert (begin["data_dir"], begin["chain"]) == (str(folder), "none")
    assert (end["reason"], end["exit_code"], end["command_seq"]) == ("SIGINT", 0, 1)
    assert (end["unanswered_requests"], end["unfinished_operations"]) == (0, 0)


def test_end_with_an_unanswered_request_is_logged(tmp_path):
    with logged(tmp_path / "data", grace_s=8) as (live, lines):
        url = httpx.URL(live.url)
        with socket.create_connection((url.host, url.port)) as client:
            client.sendall(
                b"POST /api/orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
                b"Expect: 100-continue\r\n\r\n"
            )
            assert client.recv(99).startswith(b"HTTP/1.1 100 ")  # the server waits for the body
            live.stop()
        [end] = [line for line in lines() if "unanswered_requests" in line]
    assert end["message"] == "ended with unfinished work" or end["exit_code"] == 1
    assert (end["reason"], end["unanswered_requests"]) == ("SIGTERM", 1)


# ----- secrets of the folder ------------------------------------------------------------------


def test_deleted_and_public_secrets_are_rejected_with_the_remedy(tmp_path):
    folder = tmp_path / "data"
    order = {"maker": OTHER_CONTRACT, "marketId": "m", "tokenId": "1", "side": 0, "price": 50}
    with live_server(folder) as live:
        answer = live.http.post(
            "/api/orders/gasless", json={**order, "size": "100000000000000000000"}
        )
        assert answer.status_code == 200
        assert live.stop() == 0
    for name in (IDS, TOKENS):
        for mode in (0o644, 0o640, 0o602):
            (folder / name).chmod(mode)
            code, line = start(folder)
            assert (code, f"mode {mode:04o} allows other users" in line) == (2, True)
            assert line.endswith(f"run: chmod 600 {folder / name}")
        (folder / name).chmod(0o600)
    (folder / IDS).unlink()
    before = sorted(path.name for path in folder.iterdir())
    code, line = start(folder)
    assert (code, f"{folder / IDS} is missing, but the log has 1 orders, and" in line) == (2, True)
    assert cli.main(["export", str(tmp_path / "rows"), str(folder), "--form", "jsonl"]) == 2
    assert sorted(path.name for path in folder.iterdir()) == before
    remedy = line.rpartition("with: ")[2]
    subprocess.run(["sh", "-c", remedy], check=True)
    (folder / TOKENS).unlink()
    with logged(folder) as (live, lines):
        assert live.stop() == 0
        [warning] = [line for line in lines() if line["level"] == "warning"]
    assert warning["message"].startswith("tokens.key was missing: it was created")
