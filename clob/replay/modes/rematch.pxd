# C types for clob/replay/modes/rematch.py, which setup.py compiles.
cimport cython

from clob.replay.sim.orders cimport OwnFill
from clob.replay.modes.rows cimport own_fills, tag_fills, write_event

cdef object NEVER
cdef long CLEAR
cdef long long OWN
cdef long long OWN_ID
cdef object STOP_AT_BOOK
cdef object POLICY
cdef object CANCEL_RESTING


cdef class StreamDriver:
    cdef public object lot_wei
    cdef public dict history
    cdef public dict books
    cdef public bint ended
    cdef public object changed
    cdef public Py_ssize_t events
    cdef public long long start_ns
    cdef public long long last_ns
    # Public, because the driver of the shadow mode is not compiled and uses them.
    cdef public object _on_difference
    cdef public bint _has_fills
    cdef public object _events
    cdef public object _status
    cdef public object _fills
    cdef public object _bests
    cdef public object _fill_bytes
    cdef public list _runs
    cdef public Py_ssize_t _run
    cdef public Py_ssize_t _base
    cdef public Py_ssize_t _place
    cdef public Py_ssize_t _num_fills
    cdef object _sink
    cdef public object _chunks
    cdef dict _touched
    cdef dict _resting
    cdef dict _last_prices
    cdef Py_ssize_t _num_tagged
    cdef object _own_event
    cdef long long[::1] _own_words
    cdef object _own_status
    cdef const unsigned char[::1] _own_status_byte
    cdef Py_ssize_t _num_bests
    cdef object _fill_buffer
    cdef object _best_buffer
    cdef long long[::1] _fill_words
    cdef const long long[:] _times
    cdef object _kinds
    cdef const unsigned char[::1] _kind_bytes
    cdef object _differing
    cdef object _book_class
    cdef object _arrays
    cdef object _own_arrays

    cpdef _reserve_rows(self, Py_ssize_t fills, Py_ssize_t bests)
    cpdef _load_chunk(self)
    cpdef _split_runs(self)
    cpdef _split_by_book(self)
    cpdef _finish_chunk(self)
    cpdef list advance(self, until_ns, stop)

    @cython.locals(
        start=Py_ssize_t, fills_before=Py_ssize_t, bests_before=Py_ssize_t, run_stop=Py_ssize_t,
        touched=bint, place=Py_ssize_t, num_fills=Py_ssize_t, num_bests=Py_ssize_t, met=bint,
        own=list
    )
    cpdef list _step(self, until_ns, stop, limit=*)
    cpdef _tag_fills(self, instrument)
    cpdef _tag_run(self)
    cpdef last_price(self, instrument)
    cpdef _end_run(self, list own)

    @cython.locals(own=list, fill=OwnFill)
    cpdef list _resting_fills(self, instrument, Py_ssize_t first)

    @cython.locals(fill=OwnFill)
    cpdef _handle_own_fills(self, instrument, list own, Py_ssize_t event)
    cpdef _rewrite_best(self, instrument, bint changed)

    @cython.locals(own=list, first=Py_ssize_t)
    cpdef tuple submit(
        self, ts_ns, instrument, order_id, kind, side, price, size, flags
    )
    cpdef bint cancel(self, ts_ns, instrument, order_id) except -1

    @cython.locals(done=Py_ssize_t, num_fills=Py_ssize_t, num_bests=Py_ssize_t)
    cpdef long _execute_own(self, book) except -1
