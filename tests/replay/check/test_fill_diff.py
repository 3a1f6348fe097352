"""Counts of fill differences equal a comparison by command."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.records import BEST, EVENT, FILL, Kind
from clob.replay.check.fill_diff import FillDiff
from clob.replay.io.chunk import RECORDED, ReplayedChunk, align_to_commands
from clob.replay.io.recording import join
from clob.replay.io.streams import OWN_ID
from tests.matchers import from_source

SourceFillDiff = from_source("clob.replay.check.fill_diff").FillDiff

ids = st.sampled_from([1, 2, 3, 2**62 - 1])
row = st.tuples(ids, st.integers(1, 2), st.integers(-1, 1))
own = st.tuples(ids, st.just(1), st.just(5))
commands = st.lists(
    st.tuples(st.lists(own, max_size=2), st.lists(row), st.lists(row, unique_by=lambda one: one[0]))
)
BASE = 7


def chunk(cases):
    """Make a chunk of commands, each with fills of own orders before it, recorded and produced
    fills."""
    events, fills = [], []
    for mine, recorded, produced in cases:
        number = BASE + len(events)
        fills += [(number, *one[:1], OWN_ID, *one[1:], 0) for one in mine]
        fills += [(number, *one[:1], 4, *one[1:], 0) for one in produced]
        events.append((0, 0, 0, 4, 1, 0, 0, 0, Kind.IOC, 0, 0))
        events += [(0, 0, 0, *one[:2], 0, one[2], 0, Kind.FILL, 1, 0) for one in recorded]
    events = np.array(events, EVENT)
    marks = np.zeros(len(events), np.uint8)
    filled = np.array(fills, FILL)
    return ReplayedChunk(
        BASE, events, marks, filled, np.zeros(0, BEST), events["kind"].copy(), {}, marks
    )


@pytest.mark.parametrize("kind", [FillDiff, SourceFillDiff], ids=["imported", "source"])
@given(commands)
def test_counts_equal_a_comparison_by_command(kind, cases):
    played = chunk(cases)
    places = np.flatnonzero(played.kinds != RECORDED).tolist()
    wrong = [place for place, (_, one, other) in enumerate(cases) if one != other]
    sides = kind(played, 3)
    sides.add([places[place] for place in wrong])
    both = [(Counter(cases[one][1]) & Counter(cases[one][2])).total() for one in wrong]
    recorded = [len(cases[one][1]) for one in wrong]
    produced = [len(cases[one][2]) for one in wrong]
    assert sides.failed == sum(map(bool, recorded))
    assert sides.missed == sum(recorded) - sum(both)
    assert sides.surplus == sum(produced) - sum(recorded)
    assert sides.kept == [(places[one], cases[one][2], cases[one][1]) for one in wrong[:3]]


@given(st.lists(st.lists(st.booleans(), min_size=1), max_size=6))
def test_chunks_keep_caseswith_their_fills(chunks):
    """In the input, True is a recorded fill."""
    arrays, count = [], 0
    for some in chunks:
        events = np.zeros(len(some), EVENT)
        events["kind"] = np.where(some, Kind.FILL, Kind.LIMIT)
        events["seq"] = np.arange(count, count + len(some))
        arrays.append(events)
        count += len(some)
    parts = list(align_to_commands(iter(arrays)))
    assert join([np.zeros(0, EVENT), *parts])["seq"].tolist() == list(range(count))
    assert all(len(part) for part in parts)
    assert all(part["kind"][0] != RECORDED for part in parts[1:])
