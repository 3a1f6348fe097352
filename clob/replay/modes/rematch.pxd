# The types of clob/replay/modes/rematch.py, from which the compiled module is made; see setup.py.
cimport cython

from clob.replay.sim.orders cimport OwnFill
from clob.replay.modes.rows cimport came_fills, met_fills, write_event

cdef object NEVER
cdef long long OWN
cdef long long OWN_ID
cdef object TO_BOOK
cdef object POLICY
cdef object REMOVING


cdef class StreamDriver:
    cdef public object lot_wei
    cdef public dict books
    cdef public bint ended
    cdef public object changed
    cdef public Py_ssize_t events
    cdef public long long start_ns
    cdef public long long last_ns
    # What the driver of the shadow mode, which is not compiled, works on, too.
    cdef public object _on_difference
    cdef public bint _verifies
    cdef public object _events
    cdef public object _status
    cdef public object _fills
    cdef public object _bests
    cdef public object _fill_bytes
    cdef public list _runs
    cdef public Py_ssize_t _run
    cdef public Py_ssize_t _base
    cdef public Py_ssize_t _place
    cdef public Py_ssize_t _filled
    cdef object _sink
    cdef bint _tells
    cdef object _chunks
    cdef dict _touched
    cdef dict _resting
    cdef object _one
    cdef long long[::1] _one_words
    cdef object _mark
    cdef const unsigned char[::1] _mark_byte
    cdef Py_ssize_t _told
    cdef object _fill_room
    cdef object _best_room
    cdef const long long[::1] _fill_words
    cdef const long long[:] _times
    cdef object _kinds
    cdef object _marks
    cdef object _book_class
    cdef object _lent
    cdef object _one_lent

    cpdef _make_room(self, Py_ssize_t fills, Py_ssize_t bests)
    cpdef _load(self)
    cpdef _cut(self)
    cpdef _cut_by_book(self)
    cpdef _finish(self)
    cpdef list advance(self, until_ns, stop)

    @cython.locals(
        start=Py_ssize_t, filled_before=Py_ssize_t, told_before=Py_ssize_t, run_stop=Py_ssize_t,
        touched=bint, tells=bint, place=Py_ssize_t, filled=Py_ssize_t, told=Py_ssize_t, met=bint,
        own=list
    )
    cpdef list _step(self, until_ns, stop, limit=*)
    cpdef _end_run(self, list own)

    @cython.locals(own=list, fill=OwnFill)
    cpdef list _met(self, instrument, Py_ssize_t first)

    @cython.locals(fill=OwnFill)
    cpdef _forget(self, instrument, list own, Py_ssize_t event)
    cpdef _tell_anew(self, instrument, bint told)

    @cython.locals(own=list, first=Py_ssize_t, fill=OwnFill)
    cpdef tuple submit(
        self, ts_ns, instrument, order_id, kind, side, price, size, flags
    )
    cpdef bint cancel(self, ts_ns, instrument, order_id) except -1

    @cython.locals(done=Py_ssize_t, filled=Py_ssize_t, told=Py_ssize_t)
    cpdef long _act(self, book) except -1
