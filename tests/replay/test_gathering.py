"""Records that are put together: joined at once, or gathered a few at a time."""

import numpy as np
import pytest

from clob.records import FILL
from clob.replay.io.recording import join
from clob.replay.modes import row_buffer
from clob.replay.modes.row_buffer import Gathered


def fills(count, first=0):
    rows = np.zeros(count, FILL)
    rows["event"] = np.arange(first, first + count)
    rows["size"] = 2**62 + rows["event"]
    return rows


@pytest.mark.parametrize("room", [1, 5, 1_000])
def test_what_is_gathered_is_all_there(monkeypatch, room):
    monkeypatch.setattr(row_buffer, "ROOM", room)
    gathered = Gathered(FILL)
    for first, count in ((0, 3), (3, 0), (3, 4), (7, 13)):
        buffer = fills(count, first)
        gathered.take(buffer)
        buffer["size"] = 0
    assert len(gathered) == 20
    assert np.array_equal(gathered.rows(), fills(20))


@pytest.mark.parametrize("room", [1, 5, 1_000])
def test_what_is_written_into_the_room_stays_there(monkeypatch, room):
    monkeypatch.setattr(row_buffer, "ROOM", room)
    gathered = Gathered(FILL)
    for first, count in ((0, 3), (3, 0), (3, 9)):
        lost = gathered.room(count + 1)
        assert len(lost) > count
        lost["size"] = -1
        rows = gathered.room(count)[:count]
        rows[:] = fills(count, first)
        gathered.take(rows)
    assert np.array_equal(gathered.rows(), fills(12))


def test_a_large_result_is_not_copied_and_a_small_one_keeps_no_room(monkeypatch):
    gathered = Gathered(FILL)
    gathered.take(fills(10))
    assert gathered.rows().base is None
    monkeypatch.setattr(row_buffer, "SMALL", 480)
    assert np.shares_memory(gathered.rows(), gathered.rows())


def test_memory_is_used_again_when_its_last_view_is_gone(monkeypatch):
    monkeypatch.setattr(row_buffer, "_spares", [])
    gathered = Gathered(FILL)
    room = gathered.room(10)
    where = room.ctypes.data
    del gathered
    assert Gathered(FILL).room(1).ctypes.data != where
    view = room[3:]["event"]
    del room
    assert Gathered(FILL).room(1).ctypes.data != where
    del view
    assert Gathered(FILL).room(1).ctypes.data == where


def test_two_pieces_of_memory_are_kept_and_no_large_one(monkeypatch):
    monkeypatch.setattr(row_buffer, "_spares", [])
    rooms = [Gathered(FILL) for _ in range(3)]
    assert len({gathered.room(1).ctypes.data for gathered in rooms}) == 3
    rooms.clear()
    assert len(row_buffer._spares) == row_buffer.SPARES
    monkeypatch.setattr(row_buffer, "_spares", [])
    monkeypatch.setattr(row_buffer, "ROOM", row_buffer.SPARE_MAX // FILL.itemsize)
    Gathered(FILL)
    assert not row_buffer._spares


def test_nothing_gathered_is_an_empty_table():
    assert len(Gathered(FILL).rows()) == 0
    assert Gathered(FILL).rows().dtype is FILL


def test_records_that_lie_apart_are_joined():
    rows = fills(10)
    assert np.array_equal(join([rows[::3], rows[1:2]])["event"], [0, 3, 6, 9, 1])
