"""Leading seeds of a chunk."""

import numpy as np
import pytest

from clob.records import EVENT, Kind
from clob.replay.io.chunk import count_seeds


@pytest.mark.parametrize("seeds", [0, 1, 63, 64, 65, 191, 192, 193, 1_000])
@pytest.mark.parametrize("others", [0, 1, 300])
def test_leading_seeds_are_counted(seeds, others):
    events = np.zeros(seeds + others + 1, EVENT)
    events["kind"][:seeds] = Kind.SEED
    # A later seed does not count, nor do rows after the end of the slice.
    events["kind"][seeds + 1 :] = Kind.SEED
    assert count_seeds(events[: seeds + others]) == seeds
