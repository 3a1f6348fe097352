"""The command that runs a cluster on one machine, and the one that fills the log of a cluster."""

import json
import os
import signal
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest

from clob_server.__main__ import main
from clob_server.cli import options
from clob_server.settings import SettingsError
from tests.server.live import environment, live_server
from tests.server.log.nats_servers import free_ports, require_nats

LOG = "nats://127.0.0.1:1"


def test_cluster_without_nats_server_names_what_is_missing(tmp_path, capsys):
    code = main(["cluster", "--folder", str(tmp_path / "c"), "--nats-server", "no-such-program"])
    assert code == 2
    assert "nats-server 2.12.3 or later is needed" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_cluster_names_a_port_that_is_in_use_and_writes_nothing(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = ["cluster", "--folder", str(tmp_path / "c"), "--port", port]
        assert main([*command, "--nodes", "1", "--nats-server", sys.executable]) == 2
    assert "cannot listen on 127.0.0.1:" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_cluster_names_a_port_of_a_node_that_does_not_exist(tmp_path, capsys):
    command = ["cluster", "--folder", str(tmp_path / "c"), "--nodes", "2", "--port", "65535"]
    assert main([*command, "--nats-server", sys.executable]) == 2
    assert "cannot listen on 127.0.0.1:" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.long
def test_cluster_starts_in_any_folder_and_a_killed_node_again(tmp_path):
    folder, port = tmp_path / "my clüster", free_ports(1)[0]
    command = [sys.executable, "-m", "clob_server", "cluster", "--nats-server", require_nats()]
    command += ["--folder", str(folder), "--nodes", "1", "--port", str(port)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as ran:
        try:
            assert ran.stdout.readline() == f"listening on http://127.0.0.1:{port}\n"
            assert str(folder) in ran.stdout.readline()
            with urlopen(f"http://127.0.0.1:{port}/health") as answer:
                assert json.load(answer)["node"]["name"] == "node1"
            os.kill(int((folder / "node1/pid").read_text()), signal.SIGKILL)
            assert ran.stdout.readline() == "node1 ended (-9); it starts again\n"
        finally:
            ran.terminate()
        assert ran.wait(60) == 0


@pytest.mark.long
def test_cluster_ends_with_the_reason_of_a_node_that_cannot_start(tmp_path):
    command = [sys.executable, "-m", "clob_server", "cluster", "--nats-server", require_nats()]
    command += ["--folder", str(tmp_path), "--nodes", "1", "--port", str(free_ports(1)[0])]
    ended = subprocess.run(
        [*command, "--", "--demo"], env=environment(), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "node1 ended with exit code 2" in ended.stderr
    assert "--log cannot be used with --demo" in ended.stderr


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"log": "10.0.0.1"}, "--log must be URLs that begin with nats://"),
        ({"log": LOG}, "that all nodes of the cluster reach; got 'embedded'"),
        ({"log": LOG, "chain": "embedded"}, "--log needs --chain none or the URL of a node"),
        ({"log": LOG, "chain": "none", "demo": "on"}, "--log cannot be used with --demo"),
        ({"log": LOG, "chain": "none", "node_url": "a"}, "--node-url must be an http or https"),
        ({"node_count": "3"}, "--node-count needs --log; got 3"),
        ({"log": LOG, "chain": "none", "role": "boss"}, "--role must be auto or follower"),
    ],
)
def test_settings_that_a_node_must_not_start_with_are_rejected(given, text):
    with pytest.raises(SettingsError) as rejected:
        options.read_settings(given, {})
    assert text in str(rejected.value)


def test_node_without_a_server_of_the_log_ends_with_the_reason(tmp_path):
    command = [sys.executable, "-m", "clob_server", "run", "--chain", "none", "--port", "0"]
    command += ["--data-dir", str(tmp_path), "--log", LOG]
    ended = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 1  # a service manager starts it again
    assert "LOG_CLUSTER_UNREACHABLE" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_log_of_a_single_server_is_put_into_a_cluster(tmp_path, nats_cluster, capsys):
    with live_server(tmp_path) as live:
        live.http.post("/api/orders/gasless", json={})
        live.stop()
    command = ["restore", "--data-dir", str(tmp_path), "--log", ",".join(nats_cluster.urls)]
    command += ["--log-monitors", ",".join(nats_cluster.monitors), "--log-replicas", "1"]
    assert main([*command, "--log-name", "filled"]) == 0
    assert "ok, 1 commands put into the cluster" in capsys.readouterr().out
    assert main([*command, "--log-name", "filled"]) == 0
    assert "ok, 0 commands" in capsys.readouterr().out


def test_restore_without_a_backup_names_both_ways(tmp_path, capsys):
    assert main(["restore", "--data-dir", str(tmp_path)]) == 2
    assert "restore needs a backup, or --log" in capsys.readouterr().err
