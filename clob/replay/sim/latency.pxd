# C types for clob/replay/sim/latency.py, which setup.py compiles.


cdef class Connection:
    cdef object _earlier_ns
    cdef tuple _delays
    cdef object _draws
    cdef bint _overtaking
    cdef object _last_ns

    cpdef arrival_ns(self, sent_ns, Py_ssize_t kind=*)
    cpdef send(self, queue, sent_ns, long kind, target, data)
