# The types of clob/replay/_packing_py.py, from which the compiled module is made; see setup.py.
cimport cython

cdef Py_ssize_t WORDS
cdef Py_ssize_t FILL_SIZE
cdef object OwnFill
cdef object ONE_FILL
cdef object new
cdef long long OWN
cdef long long UPPER


cpdef write_event(
    long long[::1] words, long long ts_ns, long long instrument, long long order_id,
    long long kind, long long side, long long price, long long size, long long flags
)


@cython.locals(place=Py_ssize_t)
cpdef list met_fills(
    fills, const unsigned long long[::1] words, Py_ssize_t first, Py_ssize_t end, instrument,
    unsigned long long own_id
)


cpdef list came_fills(fills, Py_ssize_t first, Py_ssize_t end, instrument, own_id)
