# The types of clob/replay/sim/latency.py, from which the compiled module is made; see setup.py.


cdef class Connection:
    cdef object _delay
    cdef object _draws
    cdef object _last_ns

    cpdef arrival_ns(self, sent_ns)
