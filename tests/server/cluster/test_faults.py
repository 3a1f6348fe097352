"""A cluster under load loses and repeats nothing while its processes are killed and separated.

``make test-cluster`` runs it at length. The variables are the number of kills and of partitions,
the seed, and the longest times without an acknowledged order that are accepted.
"""

import os
import random  # noqa: TID251 - seeded, and outside the engine
import sys
import time

import pytest

from tests.server.api.makers import SELL, Maker, MarketIds
from tests.server.cluster.faults import arena, pauses, plan
from tests.server.cluster.load import Load
from tests.server.cluster.oracle import Oracle, check_folders
from tests.server.log.proxy import HOLD

KILLS = int(os.environ.get("CLOB_CLUSTER_KILLS", "10"))
CUTS = int(os.environ.get("CLOB_CLUSTER_PARTITIONS", "3"))
SEED = os.environ.get("CLOB_CLUSTER_SEED", "1")
OWNER_S = float(os.environ.get("CLOB_CLUSTER_OWNER_S", "10"))
SERVERS_S = float(os.environ.get("CLOB_CLUSTER_SERVERS_S", "30"))
LIMITS = {
    "owner": OWNER_S,
    "follower": OWNER_S,
    "freeze owner": OWNER_S,
    "rolling upgrade": OWNER_S,
    "leader": SERVERS_S,
    "owner and leader": SERVERS_S,
}
"""Longest time without an acknowledged order by kind of fault, in seconds."""


def report(text):
    """Write a line past the capture of pytest."""
    sys.__stdout__.write(f"{text}\n")
    sys.__stdout__.flush()


def report_pauses(found):
    """Report how long orders were not acknowledged."""
    for kind, values in sorted(found.items()):
        values.sort()
        shares = [values[min(len(values) - 1, len(values) * share // 100)] for share in (50, 90)]
        median, ninth = shares
        report(
            f"  {kind}: {len(values)} times; longest time without an acknowledged order "
            f"p50 {median:.2f} s, p90 {ninth:.2f} s, max {values[-1]:.2f} s"
        )


@pytest.mark.long
def test_acknowledged_commands_survive_kills_partitions_and_upgrades(tmp_path):
    rng = random.Random(f"cluster {SEED}")
    began = time.monotonic()
    with arena(tmp_path, rng) as cluster:
        load = Load(cluster.nodes, SEED)
        load.wait(20)
        for kind in plan(rng, KILLS, CUTS):
            cluster.inject(kind)
            fault = cluster.faults[-1]
            at_s, mended_s = fault.began - began, fault.ended - began
            report(f"{at_s:7.1f} s: {kind} ({fault.detail}), mended at {mended_s:.1f} s")
            load.wait(20)
        seen = load.end()
        assert not seen.errors, seen.errors[0]
        cluster.nodes.wait_until_equal()
        cluster.stop()
        num_commands = check_folders(cluster.nodes, cluster.nats)
        logs = "".join(node.logged() for node in cluster.nodes)
    oracle = Oracle(tmp_path / "node1", seen)
    problems = oracle.check()
    found = pauses(cluster.faults, seen.acks)
    report(
        f"seed {SEED}: {KILLS} kills ({sum(cluster.killed.values())} processes), {CUTS} partitions "
        f"in {time.monotonic() - began:.0f} s; {num_commands} commands, {len(seen.acks)} orders "
        f"acknowledged, {sum(write.num_tries > 1 for write in seen.writes)} writes sent again, "
        f"rejected in the log {dict(oracle.rejected)}; {len(seen.reads)} reads, "
        f"{len(seen.messages)} messages, feeds resumed {seen.num_resumed} times; "
        f"lost {len(oracle.lost())}, problems {len(problems)}"
    )
    report(f"  nodes that ended by themselves: {cluster.exits}")
    report(f"  feeds that resumed at an older state: {seen.steps_back}")
    report_pauses(found)
    assert not problems, problems[:5]
    assert "internal error" not in logs
    assert "Traceback" not in logs
    slow = {kind: max(found[kind]) for kind in LIMITS if max(found.get(kind, [0])) > LIMITS[kind]}
    assert not slow, slow


@pytest.mark.long
def test_node_cut_off_from_the_log_does_not_confirm_a_change_that_it_cannot_show(tmp_path):
    maker, market = Maker(), MarketIds()
    with arena(tmp_path, random.Random("cut off")) as cluster:
        follower = cluster.nodes.followers()[0]
        placed = follower.http.post("/api/orders", json=maker.signed(market, SELL)).json()
        path = f"/api/orders/{placed['orderId']}"
        for proxy in follower.proxies:
            proxy.partition(HOLD)
        response = follower.http.request("DELETE", path, json={"maker": maker.address})
        assert (response.status_code, response.json()["code"]) == (503, "OUTCOME_UNKNOWN")
        assert follower.http.get(path).json()["status"] == "open"
        for proxy in follower.proxies:
            proxy.heal()
        cluster.nodes.wait_until_equal()
        assert follower.http.get(path).json()["status"] == "cancelled"


@pytest.mark.long
def test_owner_cut_off_from_the_log_rejects_nothing_by_its_old_state(tmp_path):
    maker, market = Maker(), MarketIds()
    with arena(tmp_path, random.Random("old state")) as cluster:
        before = cluster.nodes.owner()
        for proxy in before.proxies:
            proxy.partition(HOLD)
        owner = cluster.nodes.owner(besides=[before])
        placed = owner.http.post("/api/orders", json=maker.signed(market, SELL)).json()
        path, body = f"/api/orders/{placed['orderId']}", {"maker": maker.address}
        response = before.http.request("DELETE", path, json=body)
        assert response.status_code == 503
        assert response.json()["code"] in ("NO_OWNER", "NOT_OWNER")
        for proxy in before.proxies:
            proxy.heal()
        cluster.nodes.wait_until_equal()
        assert before.http.request("DELETE", path, json=body).status_code == 200
