"""``run`` rejects invalid arrays before it executes any event."""

import numpy as np
import pytest

from clob.errors import InvalidArrayError
from clob.records import EVENT, EVENT_FIELDS, FILL
from tests.books import ask, batch, bid

GOOD = batch(ask(1, 50, 5), bid(2, 50, 5))
PACKED = np.dtype(list(EVENT_FIELDS.items()))
RENAMED = np.dtype([(f"x{n}", t) for n, t in EVENT_FIELDS.items()], align=True)
UNALIGNED = np.zeros(2 * EVENT.itemsize + 1, np.uint8)[1:].view(EVENT)

NOT_EVENTS = {
    "none": None,
    "list": GOOD.tolist(),
    "bytes": GOOD.tobytes(),
    "memoryview": memoryview(GOOD),
    "record": GOOD[0],
    "floats": np.zeros(2),
    "raw bytes": np.zeros(112, np.uint8),
    "void": np.zeros(2, "V56"),
    "objects": np.array([None, None]),
    "packed": GOOD.astype(PACKED),
    "renamed": np.zeros(2, RENAMED),
    "fills": np.zeros(2, FILL),
    "byte order": GOOD.astype(EVENT.newbyteorder(">")),
    "strided": np.repeat(GOOD, 2)[::2],
    "reversed": GOOD[::-1],
    "two dimensions": GOOD.reshape(1, 2),
    "no dimension": GOOD[:1].reshape(()),
    "broadcast": np.broadcast_to(GOOD[:1], 2),
    "unaligned": UNALIGNED,
}


@pytest.mark.parametrize("wrong", NOT_EVENTS.values(), ids=NOT_EVENTS)
def test_invalid_events_are_rejected(book_class, wrong):
    book = book_class()
    for call in (book.run, book.seed):
        with pytest.raises(InvalidArrayError, match="events") as caught:
            call(wrong)
    assert caught.value.code == "INVALID_ARRAY"
    assert book.seq == 0


READ_ONLY = np.zeros(2, FILL)
READ_ONLY.flags.writeable = False

NOT_FILLS = {
    "list": [],
    "events": np.zeros(2, EVENT),
    "floats": np.zeros(2),
    "strided": np.zeros(4, FILL)[::2],
    "two dimensions": np.zeros((1, 2), FILL),
    "byte order": np.zeros(2, FILL.newbyteorder(">")),
    "read-only": READ_ONLY,
    "unaligned": np.zeros(2 * FILL.itemsize + 1, np.uint8)[1:].view(FILL),
}


@pytest.mark.parametrize("wrong", NOT_FILLS.values(), ids=NOT_FILLS)
def test_invalid_fills_are_rejected(book_class, wrong):
    book = book_class()
    with pytest.raises(InvalidArrayError, match="fills"):
        book.run(GOOD, wrong)
    assert book.seq == 0


STATUS_READ_ONLY = np.zeros(2, np.uint8)
STATUS_READ_ONLY.flags.writeable = False

NOT_STATUS = {
    "list": [0, 0],
    "bytearray": bytearray(2),
    "signed": np.zeros(2, np.int8),
    "wide": np.zeros(2, np.uint16),
    "bool": np.zeros(2, np.bool_),
    "too short": np.zeros(1, np.uint8),
    "strided": np.zeros(4, np.uint8)[::2],
    "two dimensions": np.zeros((2, 2), np.uint8),
    "read-only": STATUS_READ_ONLY,
}


@pytest.mark.parametrize("wrong", NOT_STATUS.values(), ids=NOT_STATUS)
def test_an_invalid_status_is_rejected(book_class, wrong):
    book = book_class()
    with pytest.raises(InvalidArrayError, match="status"):
        book.run(GOOD, None, wrong)
    assert book.seq == 0


def test_arrays_must_not_share_memory(book_class):
    book = book_class()
    memory = np.zeros(56 * 48, np.uint8)
    events, fills, status = memory.view(EVENT), memory.view(FILL), memory[:48]
    for arrays in [(events, fills), (events, None, status), (GOOD, fills, status)]:
        with pytest.raises(InvalidArrayError, match="memory"):
            book.run(*arrays)
    assert book.seq == 0


def test_adjacent_arrays_are_accepted(book_class):
    memory = np.zeros(2 * 56 + 2 * 48 + 2, np.uint8)
    events, fills, status = memory[:112].view(EVENT), memory[112:208].view(FILL), memory[208:]
    events[:] = GOOD
    assert len(book_class().run(events, fills, status)) == 1


class LongerArray(np.ndarray):
    """An array that reports a longer length."""

    def __len__(self):
        return 10**9


def test_the_length_reported_by_a_subclass_is_ignored(book_class):
    events = batch(ask(1, 50, 5), bid(2, 50, 5)).view(LongerArray)
    room = np.zeros(3, FILL)[:1].view(LongerArray)
    status = np.zeros(2, np.uint8).view(LongerArray)
    fills = book_class().run(events, fills=room, status=status)
    assert (len(fills), np.asarray(status).tolist()) == (1, [0, 0])
    with pytest.raises(InvalidArrayError):
        book_class().run(GOOD, status=np.zeros(1, np.uint8).view(LongerArray))
