"""Client, server or both are killed: the orders are gone in time or at the restart, once."""

import random  # noqa: TID251 - seeded, and outside the engine
import subprocess
import sys
import time

import pytest

from clob import CancelAll
from clob_server.core.commands import FireSwitch
from clob_server.core.recovery import commands_of
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import SqliteLog
from tests.server.api.makers import ApiClient, Maker, MarketIds, good
from tests.server.live import environment, started
from tests.server.switch_client import PRICES

PATIENCE_S = 60
LONG_MS = 3_600_000
ENDINGS = (("client",), ("server",), ("client", "server"), ("server", "client"))


def client_of(live, maker, market):
    """Start a client process, and wait until its switches are armed."""
    names = (live.url, maker.address, market.id, str(market.yes), "1500")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.switch_client", *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    assert process.stdout.readline() == "armed\n"
    return process


def open_orders(live, maker):
    return good(live.http.get("/api/orders", params={"maker": maker.address}))


def wait_until_gone(live, maker):
    end = time.monotonic() + PATIENCE_S
    while open_orders(live, maker):
        assert time.monotonic() < end, "the orders were not cancelled in time"
        time.sleep(0.05)


def cycle(folder, live, maker, market, ending, rng):
    """Kill the processes that ``ending`` names; return a server without orders of the maker."""
    client = client_of(live, maker, market)
    try:
        for name in ending:
            time.sleep(rng.uniform(0, 0.5))  # any moment; no assertion depends on it
            if name == "client":
                client.kill()
            else:
                live.kill()
        if "server" in ending:
            live.http.close()
            live.process.stdout.close()
            live = started(folder, rate_limits=False)
        wait_until_gone(live, maker)
    finally:
        client.kill()
        client.wait()
        client.stdout.close()
    return live


def cancels_of(folder):
    """Return for each maker how many orders each ``CancelAll`` removed, and its fired switches."""
    removed, fired, state = {}, {}, ServerState()
    log = SqliteLog(folder)
    try:
        for command in (each for frame in log.read(0) for each in commands_of(frame)):
            outcome = outcome_of(state, command)
            if type(command) is CancelAll:
                removed.setdefault(command.maker, []).append(len(outcome))
            elif type(command) is FireSwitch:
                fired.setdefault(command.maker, []).append(command.cause)
    finally:
        log.close()
    return removed, fired


def run_cycles(folder, count, seed):
    """Run cycles on one folder, and compare the log with what happened."""
    rng, market, other, makers = random.Random(seed), MarketIds(), Maker(), []
    live = started(folder, rate_limits=False)
    try:
        api = ApiClient(live.http)
        kept = api.gasless(other.gasless(market, price=5))["orderId"]
        api.post("/api/orders/heartbeat", {"maker": other.address, "timeoutMs": LONG_MS})
        for number in range(count):
            makers.append(Maker())
            ending = ENDINGS[number % len(ENDINGS)]
            live = cycle(folder, live, makers[-1], market, ending, rng)
            assert [each["id"] for each in open_orders(live, other)] == [kept]
        assert live.stop() == 0
    finally:
        live.http.close()
        live.process.kill()
        live.process.wait()
        live.process.stdout.close()
    removed, fired = cancels_of(folder)
    assert other.address not in removed
    assert other.address not in fired
    for maker in makers:
        assert sum(removed[maker.address]) == len(PRICES)
        assert sum(map(bool, removed[maker.address])) == 1
        assert len(set(fired[maker.address])) == len(fired[maker.address])


def test_orders_of_killed_processes_are_cancelled_once(tmp_path):
    run_cycles(tmp_path / "data", len(ENDINGS), "short")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_orders_of_killed_processes_are_cancelled_once_at_many_moments(tmp_path, seed):
    run_cycles(tmp_path / "data", 20, seed)
