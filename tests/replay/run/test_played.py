"""What a driver looks for in a chunk."""

import numpy as np
import pytest

from clob.records import EVENT, Kind
from clob.replay.io.chunk import seeds_of


@pytest.mark.parametrize("seeds", [0, 1, 63, 64, 65, 191, 192, 193, 1_000])
@pytest.mark.parametrize("others", [0, 1, 300])
def test_the_seeds_in_front_are_counted(seeds, others):
    events = np.zeros(seeds + others + 1, EVENT)
    events["kind"][:seeds] = Kind.SEED
    # One that comes later is none of them, nor is what the array holds behind the last event.
    events["kind"][seeds + 1 :] = Kind.SEED
    assert seeds_of(events[: seeds + others]) == seeds
