"""Records read and written as bytes equal those of NumPy."""

import struct

import numpy as np
import pytest

from clob.records import EVENT, FILL
from clob.replay.io.streams import OWN, OWN_ID
from clob.replay.modes import rows
from clob.replay.modes.rows import FILL_STRUCT, fill_rows, last_rows
from tests.matchers import from_source

EVENT_STRUCT = struct.Struct("<qqQQqIiHBBH2x")


def test_event_struct_equals_the_dtype():
    fields = (-5, 6, 7, 2**63, -9, 2**31 - 1, -11, 12, 13, 14, 15)
    event = np.frombuffer(EVENT_STRUCT.pack(*fields), EVENT)
    assert event[0].item() == fields
    assert EVENT_STRUCT.size == EVENT.itemsize


@pytest.mark.parametrize("module", [rows, from_source(rows.__name__)], ids=["imported", "source"])
def test_written_own_event_equals_the_packed_struct(module):
    event = np.zeros(1, EVENT)
    module.write_event(event.view(np.int64).data, -5, 12, OWN_ID + 7, 13, 1, -11, 2**40, 2**16 - 1)
    fields = (-5, -5, 0, OWN_ID + 7, 2**40, OWN, -11, 12, 13, 1, 2**16 - 1)
    assert event.tobytes() == EVENT_STRUCT.pack(*fields)


def test_fill_rows_equal_the_array():
    fills = np.zeros(5, FILL)
    fills["event"] = [1, 2, 2, 3, 3]
    for place, name in enumerate(("resting_id", "incoming_id", "size", "price", "ts_ns")):
        fills[name] = np.arange(5) + 10 * place
    expected, data = fills.tolist(), fills.view(np.uint8).data
    assert FILL_STRUCT.size == FILL.itemsize
    assert fill_rows(data, 1, 4) == expected[1:4]
    assert last_rows(data, 0, 3, 2) == expected[1:3]
    assert last_rows(data, 4, 5, 3) == expected[4:]
    assert last_rows(data, 0, 5, 4) == last_rows(data, 5, 5, 3) == []
