"""What was acknowledged outlives losses of power, deaths of the process, and a disk that fails.

Each seed is a story of a few lives. In the short run there are some hundred; the long one has as
many faults as ``CLOB_FAULTS`` says. To repeat one: ``Story(seed, folder, ...).run()``.
"""

import os

import pytest

from tests.server.log.simdisk import POWER, PROCESS, SYNC
from tests.server.log.story import (
    BAD_DAYS,
    BIG_SECTORS,
    DEATHS,
    FINE,
    LIVES,
    TORN_TIP,
    Story,
    tell,
)

FAULTS = int(os.environ.get("CLOB_FAULTS", "50000"))
DAYS = {
    "deaths": (FINE, DEATHS, 6),
    "losses of power alone": (FINE, ((POWER, 1),), 1),
    "deaths, sectors of 4 KiB that may be spoiled whole": (BIG_SECTORS, DEATHS, 1),
    "deaths, and a tip that may be torn": (TORN_TIP, DEATHS, 1),
    "deaths, failed syncs and full disks": (FINE, BAD_DAYS, 2),
    "all of them, sectors of 4 KiB": (BIG_SECTORS, BAD_DAYS, 1),
}
"""What the disk is like, what strikes, and how large a part of all faults it is."""
PARTS = sum(part for _, _, part in DAYS.values())
days = pytest.mark.parametrize("day", DAYS)


def live_through(day, faults, folder, first_seed=0):
    """Tell so many stories that there are as many faults."""
    weather, strikes, _ = DAYS[day]
    seeds = range(first_seed, first_seed + -(-faults // LIVES))
    told = tell(seeds, folder, weather=weather, faults=strikes)
    assert told[POWER] + told[PROCESS] >= faults
    return told


@days
def test_nothing_acknowledged_is_lost_and_nothing_is_invented(tmp_path, day):
    told = live_through(day, 360, tmp_path)
    # It is no proof where nothing happened.
    assert told["acknowledged"] > 1_000
    assert told["dropped"] > 50
    assert told[POWER] > 100
    assert (told["accepted"] > 0) == (day == "deaths, and a tip that may be torn")


@pytest.mark.long
@days
def test_nothing_is_lost_in_very_many_faults(tmp_path, day):
    live_through(day, -(-FAULTS * DAYS[day][2] // PARTS), tmp_path, first_seed=1_000_000)


@pytest.mark.parametrize("weather", [FINE, BIG_SECTORS], ids=["512", "4096"])
def test_a_failed_sync_anywhere_and_then_a_loss_of_power_anywhere(tmp_path, weather):
    """The failed pages are in the page cache, count as clean, and are not on the platter."""
    places = [(first, second) for first in range(1, 60) for second in range(1, 31, 3)]
    for seed, (first, second) in enumerate(places):
        Story(seed, tmp_path, weather=weather).run_through([(SYNC, first), (POWER, second)])


def test_a_seed_tells_the_same_story_again(tmp_path):
    for seed in range(20):
        once, again = (Story(seed, tmp_path, faults=BAD_DAYS) for _ in range(2))
        assert once.run() == again.run()
        assert once.sure == again.sure
        assert once.disk.operations == again.disk.operations
