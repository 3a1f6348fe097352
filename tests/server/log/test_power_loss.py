"""Acknowledged frames survive power losses, killed processes and failing disks.

Each seed is a simulation of several lives. The short run has some hundred faults; the long one has
``CLOB_FAULTS``. To repeat one: ``Simulation(seed, folder, ...).run()``.
"""

import os

import pytest

from tests.server.log.simdisk import POWER, PROCESS, SYNC
from tests.server.log.simulation import (
    BAD_DAYS,
    BIG_SECTORS,
    DEATHS,
    FINE,
    LIVES,
    TORN_TIP,
    Simulation,
    simulate,
)

FAULTS = int(os.environ.get("CLOB_FAULTS", "20000"))
DAYS = {
    "deaths": (FINE, DEATHS, 6),
    "power losses only": (FINE, ((POWER, 1),), 1),
    "deaths, sectors of 4 KiB that may become rubbish": (BIG_SECTORS, DEATHS, 1),
    "deaths, and a tip that may be torn": (TORN_TIP, DEATHS, 1),
    "deaths, failed syncs and full disks": (FINE, BAD_DAYS, 2),
    "all of them, sectors of 4 KiB": (BIG_SECTORS, BAD_DAYS, 1),
}
"""Properties of the disk, faults, and their share of all faults."""
PARTS = sum(part for _, _, part in DAYS.values())
days = pytest.mark.parametrize("day", DAYS)


def run_faults(day, faults, folder, first_seed=0):
    """Run simulations until there are this many faults."""
    weather, strikes, _ = DAYS[day]
    seeds = range(first_seed, first_seed + -(-faults // LIVES))
    counts = simulate(seeds, folder, weather=weather, faults=strikes)
    assert counts[POWER] + counts[PROCESS] >= faults
    return counts


@days
def test_acknowledged_frames_survive_and_no_others_appear(tmp_path, day):
    counts = run_faults(day, 360, tmp_path)
    # the run must have contained every kind of event
    assert counts["acknowledged"] > 1_000
    assert counts["dropped"] > 50
    assert counts[POWER] > 100
    assert (counts["accepted"] > 0) == (day == "deaths, and a tip that may be torn")


@pytest.mark.long
@days
def test_acknowledged_frames_survive_many_faults(tmp_path, day):
    run_faults(day, -(-FAULTS * DAYS[day][2] // PARTS), tmp_path, first_seed=1_000_000)


@pytest.mark.parametrize("weather", [FINE, BIG_SECTORS], ids=["512", "4096"])
def test_power_loss_after_a_failed_sync(tmp_path, weather):
    """After a failed sync the pages are in the cache and marked clean, but not on the disk."""
    places = [(first, second) for first in range(1, 60) for second in range(1, 31, 3)]
    for seed, (first, second) in enumerate(places):
        Simulation(seed, tmp_path, weather=weather).run_through([(SYNC, first), (POWER, second)])


def test_same_seed_gives_the_same_run(tmp_path):
    for seed in range(20):
        once, again = (Simulation(seed, tmp_path, faults=BAD_DAYS) for _ in range(2))
        assert once.run() == again.run()
        assert once.acknowledged == again.acknowledged
        assert once.disk.operations == again.disk.operations
