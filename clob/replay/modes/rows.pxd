# C types for clob/replay/modes/rows.py, which setup.py compiles.
cimport cython

from clob.replay.sim.orders cimport OwnFill
from clob.replay.sim.market_view cimport OwnOrder

cdef Py_ssize_t FILL_WORDS
cdef long long OWN
cdef long long UPPER


cpdef write_event(
    long long[::1] words, long long ts_ns, long long instrument, long long order_id,
    long long kind, long long side, long long price, long long size, long long flags
)


@cython.locals(price="long long")
cdef long long price_of(long long[::1] words, Py_ssize_t start) except? -1


@cython.locals(place=Py_ssize_t, start=Py_ssize_t)
cpdef list own_fills(
    long long[::1] words, Py_ssize_t first, Py_ssize_t end, long long instrument,
    long long own_id, bint incoming
)


@cython.locals(fill=OwnFill)
cdef OwnFill own_fill(
    long long[::1] words, Py_ssize_t start, long long instrument, bint resting
)


@cython.locals(place=Py_ssize_t, at=Py_ssize_t, upper="long long")
cpdef long long tag_fills(
    long long[::1] words, Py_ssize_t first, Py_ssize_t end, long long instrument
) except? -1


@cython.locals(at=Py_ssize_t, order=OwnOrder)
cpdef write_orders(long long[::1] words, list orders)


@cython.locals(at=Py_ssize_t, fill=OwnFill)
cpdef write_fills(long long[::1] words, list fills)
