"""Records as bytes are the records that NumPy reads and writes."""

import numpy as np
import pytest

from clob.records import EVENT, FILL
from clob.replay.io.streams import OWN, OWN_ID
from clob.replay.modes.rows import ONE_EVENT, ONE_FILL, fill_rows, last_rows


def test_an_event():
    fields = (-5, 6, 7, 2**63, -9, 2**31 - 1, -11, 12, 13, 14, 15)
    event = np.frombuffer(ONE_EVENT.pack(*fields), EVENT)
    assert event[0].item() == fields
    assert ONE_EVENT.size == EVENT.itemsize


@pytest.mark.parametrize("form", ["py", "c"])
def test_an_own_event_is_the_one_that_bytes_would_be(form):
    reason = "what a strategy's orders pass is not compiled"
    packing = pytest.importorskip(f"clob.replay._packing_{form}", reason=reason)
    event = np.zeros(1, EVENT)
    packing.write_event(event.view(np.int64).data, -5, 12, OWN_ID + 7, 13, 1, -11, 2**40, 2**16 - 1)
    fields = (-5, -5, 0, OWN_ID + 7, 2**40, OWN, -11, 12, 13, 1, 2**16 - 1)
    assert event.tobytes() == ONE_EVENT.pack(*fields)


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
