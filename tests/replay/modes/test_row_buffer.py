"""Records joined at once, or appended to a growing buffer."""

import numpy as np
import pytest

from clob.records import FILL
from clob.replay.io.recording import join
from clob.replay.modes import row_buffer
from clob.replay.modes.row_buffer import RowBuffer


def fills(count, first=0):
    rows = np.zeros(count, FILL)
    rows["event"] = np.arange(first, first + count)
    rows["size"] = 2**62 + rows["event"]
    return rows


@pytest.mark.parametrize("room", [1, 5, 1_000])
def test_appended_rows_are_kept(monkeypatch, room):
    monkeypatch.setattr(row_buffer, "INITIAL_ROWS", room)
    gathered = RowBuffer(FILL)
    for first, count in ((0, 3), (3, 0), (3, 4), (7, 13)):
        buffer = fills(count, first)
        gathered.append(buffer)
        buffer["size"] = 0
    assert len(gathered) == 20
    assert np.array_equal(gathered.rows(), fills(20))


@pytest.mark.parametrize("room", [1, 5, 1_000])
def test_rows_written_in_place_are_kept(monkeypatch, room):
    monkeypatch.setattr(row_buffer, "INITIAL_ROWS", room)
    gathered = RowBuffer(FILL)
    for first, count in ((0, 3), (3, 0), (3, 9)):
        lost = gathered.reserve(count + 1)
        assert len(lost) > count
        lost["size"] = -1
        rows = gathered.reserve(count)[:count]
        rows[:] = fills(count, first)
        gathered.append(rows)
    assert np.array_equal(gathered.rows(), fills(12))


def test_large_result_is_a_view_and_a_small_one_a_copy(monkeypatch):
    gathered = RowBuffer(FILL)
    gathered.append(fills(10))
    assert gathered.rows().base is None
    monkeypatch.setattr(row_buffer, "COPY_BELOW", 480)
    assert np.shares_memory(gathered.rows(), gathered.rows())


def test_memory_is_reused_after_its_last_view(monkeypatch):
    monkeypatch.setattr(row_buffer, "_spares", [])
    gathered = RowBuffer(FILL)
    room = gathered.reserve(10)
    where = room.ctypes.data
    del gathered
    assert RowBuffer(FILL).reserve(1).ctypes.data != where
    view = room[3:]["event"]
    del room
    assert RowBuffer(FILL).reserve(1).ctypes.data != where
    del view
    assert RowBuffer(FILL).reserve(1).ctypes.data == where


def test_two_small_blocks_of_memory_are_kept(monkeypatch):
    monkeypatch.setattr(row_buffer, "_spares", [])
    rooms = [RowBuffer(FILL) for _ in range(3)]
    assert len({gathered.reserve(1).ctypes.data for gathered in rooms}) == 3
    rooms.clear()
    assert len(row_buffer._spares) == row_buffer.SPARES
    monkeypatch.setattr(row_buffer, "_spares", [])
    monkeypatch.setattr(row_buffer, "INITIAL_ROWS", row_buffer.SPARE_MAX // FILL.itemsize)
    RowBuffer(FILL)
    assert not row_buffer._spares


def test_empty_buffer_is_an_empty_table():
    assert len(RowBuffer(FILL).rows()) == 0
    assert RowBuffer(FILL).rows().dtype is FILL


def test_strided_records_are_joined():
    rows = fills(10)
    assert np.array_equal(join([rows[::3], rows[1:2]])["event"], [0, 3, 6, 9, 1])
