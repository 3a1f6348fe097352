"""Rules for the NATS servers and the stream of a replicated log; each returns a fault in words.

JetStream can lose acknowledged messages unless all of these rules hold: servers before 2.12.3 may
forget a stream when they restart, and by default a server syncs its files only every two minutes.
"""

import json
import re
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

VERSION_MIN: Final = (2, 12, 3)
"""Oldest supported version of nats-server."""
PAYLOAD_MIN: Final = 8 << 20
"""Least ``max_payload`` of a server, in bytes: a frame is one message."""
AWAY_S: Final = 3
"""Seconds of silence, or heartbeats, after which a server is out of contact."""
MONITOR_TIMEOUT_S: Final = 2.0
"""Seconds to wait for a monitoring endpoint."""

# Environment variables for proxies do not apply to the own cluster.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def stream_config(name: str, replicas: int) -> dict[str, Any]:
    """Return the configuration of the stream of a log, for the JetStream API."""
    return {
        "name": name,
        "subjects": [subject_of(name)],
        "storage": "file",
        "num_replicas": replicas,
        "retention": "limits",
        "discard": "new",
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "deny_delete": True,
        "allow_direct": True,
        "republish": {"src": subject_of(name), "dest": stored_subject_of(name)},
    }


def subject_of(name: str) -> str:
    """Return the subject to which frames of a stream are published."""
    return f"clob.log.{name}"


def stored_subject_of(name: str) -> str:
    """Return the subject on which the servers publish each frame that they have stored."""
    return f"clob.stored.{name}"


def beat_subject_of(name: str) -> str:
    """Return the subject of the signs of life of the writer of a stream; they are not stored."""
    return f"clob.beat.{name}"


def read_varz(url: str) -> dict[str, Any] | str:
    """Return the ``/varz`` document of a monitoring endpoint, or why it cannot be read."""
    try:
        with _OPENER.open(f"{url.rstrip('/')}/varz", timeout=MONITOR_TIMEOUT_S) as answer:
            document = json.load(answer)
    except (OSError, ValueError) as error:
        return f"{url}: {error}"
    return document if isinstance(document, dict) else f"{url}: /varz is not an object"


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a version such as ``2.12.3-RC.1``; zeros if there are none."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else (0, 0, 0)


def server_fault(varz: Mapping[str, Any]) -> str | None:
    """Return why a server cannot store a log, from its ``/varz`` document; None if it can."""
    name, version = varz.get("server_name"), str(varz.get("version"))
    if version_of(version) < VERSION_MIN:
        least = ".".join(map(str, VERSION_MIN))
        return f"server {name} has version {version}; at least {least} is required"
    config = (varz.get("jetstream") or {}).get("config") or {}
    if not config:
        return f"server {name} runs without JetStream; its configuration must enable it"
    if config.get("sync_always") is not True:
        return (
            f"server {name} acknowledges messages before they are on its disk; its configuration "
            "must have `jetstream { sync_interval: always }`"
        )
    payload = varz.get("max_payload", 0)
    if payload < PAYLOAD_MIN:
        return f"server {name} has max_payload {payload}; at least {PAYLOAD_MIN} is required"
    return None


def stream_fault(config: Mapping[str, Any], name: str, replicas: int) -> str | None:
    """Return why a stream with this configuration could lose frames; None if it cannot."""
    if (found := config.get("num_replicas", 0)) < replicas:
        return f"stream {name} has {found} replicas; {replicas} are required"
    for key, expected in stream_config(name, replicas).items():
        value = config.get(key)
        if key != "num_replicas" and value != expected:
            return f"stream {name} has {key} {json.dumps(value)}; expected {json.dumps(expected)}"
    # Features that remove or change messages, or acknowledge them early; absent means off.
    for key in ("sealed", "no_ack", "allow_rollup_hdrs", "allow_msg_ttl", "mirror", "sources",
                "subject_transform", "allow_msg_counter"):  # fmt: skip
        if config.get(key):
            return f"stream {name} has {key} {json.dumps(config[key])}; it must be off"
    if (mode := config.get("persist_mode", "default")) not in ("default", ""):
        return f"stream {name} has persist_mode {json.dumps(mode)}; it must be the default"
    return None


def unchecked_servers(info: Mapping[str, Any], checked: set[str]) -> set[str]:
    """Return the servers that take part in storing a stream and were not checked.

    A server that the leader has not heard from for a while does not take part; once it is back, it
    is checked by the next opening. Those of a stream that was created just now all take part.
    """
    cluster, is_new = info.get("cluster") or {}, info.get("did_create", False)
    replicas = cluster.get("replicas") or ()
    names = {str(each["name"]) for each in replicas if is_new or not _is_away(each)}
    return ({str(cluster.get("leader") or "")} | names) - checked - {""}


def _is_away(replica: Mapping[str, Any]) -> bool:
    """Return whether the leader of a stream is not in contact with a replica."""
    silent_ns = replica.get("active", 0)
    never_heard = not replica.get("current") and not silent_ns
    return bool(replica.get("offline") or never_heard or silent_ns > AWAY_S * 1_000_000_000)
