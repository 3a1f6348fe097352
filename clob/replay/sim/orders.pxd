# C types for clob/replay/sim/orders.py, which setup.py compiles.
cdef class OwnFill:
    cdef readonly long long ts_ns
    cdef readonly long long instrument
    cdef readonly long long order_id
    cdef readonly long long size
    cdef readonly long long price
    cdef readonly bint resting
    cdef readonly long long other_id
