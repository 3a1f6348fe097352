"""Records as bytes are the records that NumPy reads and writes."""

import numpy as np

from clob.records import EVENT, FILL
from clob.replay.packing import ONE_EVENT, ONE_FILL, fill_rows, last_rows


def test_an_event():
    fields = (-5, 6, 7, 2**63, -9, 2**31 - 1, -11, 12, 13, 14, 15)
    event = np.frombuffer(ONE_EVENT.pack(*fields), EVENT)
    assert event[0].item() == fields
    assert ONE_EVENT.size == EVENT.itemsize


def test_fills():
    fills = np.zeros(5, FILL)
    fills["event"] = [1, 2, 2, 3, 3]
    for place, name in enumerate(("resting_id", "incoming_id", "size", "price", "ts_ns")):
        fills[name] = np.arange(5) + 10 * place
    rows, data = fills.tolist(), fills.view(np.uint8).data
    assert ONE_FILL.size == FILL.itemsize
    assert fill_rows(data, 1, 4) == rows[1:4]
    assert last_rows(data, 0, 3, 2) == rows[1:3]
    assert last_rows(data, 4, 5, 3) == rows[4:]
    assert last_rows(data, 0, 5, 4) == last_rows(data, 5, 5, 3) == []
