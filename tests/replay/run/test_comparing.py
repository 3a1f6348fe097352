"""Fills compared by columns are those compared one by one."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clob.records import EVENT, Kind
from clob.replay.comparing import common, differing
from clob.replay.played import RECORDED, whole
from clob.replay.recording import join

ids = st.sampled_from([1, 2, 3, 2**63 - 1])
rows = st.lists(st.tuples(st.integers(0, 5), ids, st.integers(1, 2), st.integers(-1, 1)))
EVENTS = 6


def table(some):
    """Fills as the comparison gets them: by command, each command's in their order."""
    return np.array(sorted(some, key=lambda row: row[0]), np.int64).reshape(-1, 4).T


@given(rows, rows)
def test_what_both_have(recorded, produced):
    both = Counter(recorded) & Counter(produced)
    assert common(table(recorded), table(produced)) == both.total()


@given(rows, rows)
def test_which_commands_differ(recorded, produced):
    one, other = table(recorded), table(produced)
    wrong = [
        one[:, one[0] == command].tolist() != other[:, other[0] == command].tolist()
        for command in range(EVENTS)
    ]
    assert differing(one, other, EVENTS).tolist() == wrong


@given(st.lists(st.lists(st.booleans(), min_size=1), max_size=6))
def test_no_command_is_parted_from_its_fills(chunks):
    """True is a recorded fill."""
    arrays, count = [], 0
    for chunk in chunks:
        events = np.zeros(len(chunk), EVENT)
        events["kind"] = np.where(chunk, Kind.FILL, Kind.LIMIT)
        events["seq"] = np.arange(count, count + len(chunk))
        arrays.append(events)
        count += len(chunk)
    parts = list(whole(iter(arrays)))
    assert join([np.zeros(0, EVENT), *parts])["seq"].tolist() == list(range(count))
    assert all(len(part) for part in parts)
    assert all(part["kind"][0] != RECORDED for part in parts[1:])
