"""Servers and streams that could lose acknowledged commands are rejected at opening."""

import contextlib
import subprocess
import sys

import pytest

from clob.errors import PackageMissingError
from clob_server.log import ClusterUnreachableError, ClusterUnsafeError, FrameStream, LogError
from clob_server.log.cluster_checks import (
    PAYLOAD_MIN,
    read_varz,
    server_fault,
    stream_config,
    stream_fault,
    unchecked_servers,
    version_of,
)
from tests.server.log.nats_servers import ALWAYS, free_ports, running, wait_until


def open_stream(cluster, **options):
    """Open a stream on the servers, and close it."""
    options = {"monitors": cluster.monitors, "timeout_s": 2} | options
    FrameStream(cluster.urls, **options).close()


# ----- servers -------------------------------------------------------------------------------


def varz(**changes):
    """Return the description of a safe server with changes."""
    config = {"sync_always": True}
    safe = {"server_name": "n1", "version": "2.12.3", "max_payload": PAYLOAD_MIN}
    return safe | {"jetstream": {"config": config}} | changes


@pytest.mark.parametrize("version", ["2.12.3", "2.12.10", "2.13.0-RC.1", "3.0.0", "v2.15.1"])
def test_server_of_a_supported_version_is_accepted(version):
    assert server_fault(varz(version=version)) is None


@pytest.mark.parametrize("version", ["2.9.10", "2.10.27", "2.12.2", "1.99.99", "", "unknown"])
def test_server_of_an_old_version_is_rejected(version):
    fault = server_fault(varz(version=version))
    assert fault == f"server n1 has version {version}; at least 2.12.3 is required"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"jetstream": {"config": {"sync_always": False}}}, "before they are on its disk"),
        ({"jetstream": {"config": {"sync_interval": 1}}}, "before they are on its disk"),
        ({"jetstream": {}}, "runs without JetStream"),
        ({"jetstream": None}, "runs without JetStream"),
        ({"max_payload": 1 << 20}, "has max_payload 1048576; at least 8388608 is required"),
    ],
)
def test_server_with_unsafe_settings_is_rejected(changes, words):
    assert words in server_fault(varz(**changes))


def test_versions_are_compared_by_number():
    assert version_of("2.12.10") > version_of("2.12.3-RC.1") == (2, 12, 3)


def test_monitoring_endpoint_that_is_none_is_reported():
    (port,) = free_ports(1)
    assert "Connection refused" in read_varz(f"http://127.0.0.1:{port}")


def test_server_that_syncs_later_is_rejected(tmp_path):
    with running(tmp_path, options="") as cluster:
        with pytest.raises(ClusterUnsafeError, match="server n1 acknowledges messages before"):
            open_stream(cluster, replicas=1)
        with pytest.raises(ClusterUnsafeError, match="sync_interval: always"):
            open_stream(cluster, replicas=1)


def test_one_server_has_no_three_replicas(nats_cluster):
    with pytest.raises(ClusterUnsafeError, match="needs 3 replicas: replicas > 1 not supported"):
        open_stream(nats_cluster, name="three")


def test_server_without_a_monitoring_endpoint_is_rejected(nats_cluster):
    (port,) = free_ports(1)
    monitor = f"http://127.0.0.1:{port}"
    expected = f"was not checked, because .* not read \\({monitor}: .*refused"
    with pytest.raises(ClusterUnsafeError, match=expected):
        open_stream(nats_cluster, name="dark", replicas=1, monitors=[monitor])
    with pytest.raises(ClusterUnsafeError, match="was not checked"):
        open_stream(nats_cluster, name="dark", replicas=1, monitors=[])


def test_monitoring_endpoints_are_found_by_the_hosts_of_the_servers(nats_cluster):
    port = nats_cluster.servers[0].monitor_port
    open_stream(nats_cluster, name="found", replicas=1, monitors=None, monitor_port=port)


def test_cluster_that_does_not_answer_is_reported(tmp_path):
    (port,) = free_ports(1)
    url = f"nats://user:secret@127.0.0.1:{port}"
    with pytest.raises(ClusterUnreachableError, match=r"no NATS server of nats://127") as raised:
        FrameStream([url], timeout_s=1)
    assert "secret" not in str(raised.value)


def test_missing_client_is_reported_with_its_installation():
    code = (
        "import sys; sys.modules['nats'] = None\n"
        "import importlib.util, clob_server.log as log\n"
        "importlib.util.find_spec = lambda name: None\n"
        "log.FrameStream(['nats://127.0.0.1'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert PackageMissingError.__name__ in done.stderr
    assert 'needs nats, which is not installed: pip install "clob[cluster]"' in done.stderr


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a*", "é", "a\n"])
def test_invalid_name_of_a_stream_is_rejected(name):
    with pytest.raises(LogError, match="must be letters, digits, _ and -; got"):
        FrameStream(["nats://127.0.0.1:1"], name)


# ----- streams -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_replicas": 1}, "has 1 replicas; 3 are required"),
        ({"storage": "memory"}, 'has storage "memory"; expected "file"'),
        ({"max_msgs": 1000}, "has max_msgs 1000; expected -1"),
        ({"max_bytes": 1}, "has max_bytes 1"),
        ({"max_age": 1}, "has max_age 1; expected 0"),
        ({"max_msgs_per_subject": 1}, "has max_msgs_per_subject 1"),
        ({"retention": "workqueue"}, 'has retention "workqueue"; expected "limits"'),
        ({"subjects": ["a", "b"]}, "has subjects"),
        ({"deny_delete": False}, "has deny_delete false"),
        ({"allow_rollup_hdrs": True}, "has allow_rollup_hdrs true; it must be off"),
        ({"allow_msg_ttl": True}, "has allow_msg_ttl true"),
        ({"no_ack": True}, "has no_ack true"),
        ({"mirror": {"name": "other"}}, "has mirror"),
        ({"persist_mode": "async"}, 'has persist_mode "async"; it must be the default'),
    ],
)
def test_stream_that_could_lose_frames_is_rejected(changes, words):
    assert words in stream_fault(stream_config("clob", 3) | changes, "clob", 3)


def test_stream_with_more_replicas_is_accepted():
    assert stream_fault(stream_config("clob", 5), "clob", 3) is None


@pytest.mark.parametrize("changes", [{"max_age": 10**12}, {"storage": "memory"}, {"max_msgs": 5}])
def test_existing_stream_with_limits_is_rejected(open_stream, changes):
    with contextlib.closing(open_stream()) as stream:
        stream._run(stream._api(f"STREAM.DELETE.{stream.name}"))
        config = stream_config(stream.name, 1) | changes
        assert "error" not in stream._run(stream._api(f"STREAM.CREATE.{stream.name}", config))
    with pytest.raises(ClusterUnsafeError, match=f"has {next(iter(changes))}"):
        open_stream()


@pytest.mark.parametrize(
    ("replica", "takes_part"),
    [
        ({"current": True, "active": 10**9}, True),
        ({"current": False, "active": 10**6}, True),
        ({"current": True, "active": 4 * 10**9}, False),
        ({"current": False, "active": 0}, False),
        ({"current": True, "active": 10**6, "offline": True}, False),
    ],
)
def test_servers_without_contact_need_no_check(replica, takes_part):
    info = {"cluster": {"leader": "n1", "replicas": [{"name": "n2"} | replica]}}
    assert unchecked_servers(info, {"n1"}) == ({"n2"} if takes_part else set())
    assert unchecked_servers(info, {"n1", "n2"}) == set()
    assert unchecked_servers(info | {"did_create": True}, {"n1"}) == {"n2"}
    assert unchecked_servers({}, set()) == set()


# ----- a cluster of three --------------------------------------------------------------------


def test_cluster_is_checked_server_by_server(tmp_path):
    with running(tmp_path, 3) as cluster:
        found_by_one = {"monitors": cluster.monitors[:2], "name": "three"}
        with pytest.raises(ClusterUnsafeError, match="server n3 was not checked"):
            open_stream(cluster, **found_by_one)
        open_stream(cluster, name="three")
        open_stream(cluster, name="one", replicas=1)
        with pytest.raises(ClusterUnsafeError, match="stream one has 1 replicas; 3 are required"):
            open_stream(cluster, name="one")
        leader = wait_until(lambda: cluster.leader_of("three"))
        leader.kill()
        open_stream(cluster, name="three", timeout_s=20)
        for server in cluster.servers:
            if server is not leader:
                server.kill()
                break
        with pytest.raises((ClusterUnreachableError, ClusterUnsafeError)):
            open_stream(cluster, name="three", timeout_s=2)


def test_one_lazy_server_of_three_is_rejected(tmp_path):
    with (
        running(tmp_path, 3, options=[ALWAYS, ALWAYS, "sync_interval: 1s"]) as cluster,
        pytest.raises(ClusterUnsafeError, match="server n3 acknowledges messages before"),
    ):
        open_stream(cluster)
