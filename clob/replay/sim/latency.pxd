# C types for clob/replay/sim/latency.py, which setup.py compiles.


cdef class Connection:
    cdef object _delay
    cdef object _draws
    cdef object _last_ns

    cpdef arrival_ns(self, sent_ns)
