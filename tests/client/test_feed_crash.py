"""Feeds over a bad network and over a server that is killed: each order and each fill once."""

import asyncio
import contextlib

import pytest

from tests.client.chaos_proxy import ChaosProxy, Faults
from tests.client.traders import KILLS, Traders
from tests.server.live import live_server, started

SETTINGS = {"rate_limits": False, "ws_heartbeat_s": 1}


@pytest.fixture
def live(tmp_path):
    """A server without orders, since the makers are the same in each test."""
    with live_server(tmp_path, **SETTINGS) as server:
        yield server


async def run_crashes(folder, count, seed=0):
    """Kill and restart the server under load; compare after each restart."""
    live = started(folder, **SETTINGS)
    try:
        with ChaosProxy(live.url) as proxy:
            async with Traders(proxy, seed) as traders:
                for _ in range(count):
                    traders.start()
                    await traders.until_placed(20)
                    await asyncio.to_thread(live.kill)
                    with contextlib.closing(live.http):
                        live.process.stdout.close()
                    live = await asyncio.to_thread(started, folder, **SETTINGS)
                    proxy.connect_to(live.url)
                    await traders.until_placed(5)
                    await traders.stop()
                    await traders.check(live)
                for each in traders.traders:
                    assert each.feed.num_connections > count
    finally:
        live.http.close()
        live.kill()
        live.process.stdout.close()


async def test_killed_server_has_each_order_once(tmp_path):
    await run_crashes(tmp_path, 3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(KILLS // 10))
async def test_server_that_is_killed_ten_times_has_each_order_once(tmp_path, seed):
    await run_crashes(tmp_path, 10, seed)


async def run_chaos(live, faults, num_orders, num_cuts, seed):
    """Trade over a bad network until it was cut often; compare once it is good again."""
    with ChaosProxy(live.url, seed=seed) as proxy:
        async with Traders(proxy, seed) as traders:
            proxy.faults = faults
            traders.start()
            await traders.until_placed(num_orders, lambda: proxy.num_cuts > num_cuts)
            proxy.faults = Faults()
            await traders.stop()
            await traders.check(live)
            assert proxy.num_cuts > num_cuts


async def test_bad_network_loses_and_repeats_nothing(live):
    faults = Faults(delay_max_s=0.003, cut_rate=0.01, split_max=1_000)
    await run_chaos(live, faults, 150, 2, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 2 + KILLS // 10))
async def test_very_bad_network_loses_and_repeats_nothing(live, seed):
    faults = Faults(delay_max_s=0.005, cut_rate=0.02, split_max=4_000)
    await run_chaos(live, faults, 400, 20, seed)
