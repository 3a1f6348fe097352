# The types of clob/replay/sim/orders.py, from which the compiled module is made; see setup.py.
cdef class OwnFill:
    cdef readonly long long ts_ns
    cdef readonly long long instrument
    cdef readonly long long order_id
    cdef readonly long long size
    cdef readonly long long price
    cdef readonly bint resting
    cdef readonly long long other_id


cdef object SENT


cdef class OwnOrder:
    cdef public object id
    cdef public object leg
    cdef public object side
    cdef public object price
    cdef public object size
    cdef public object time_in_force
    cdef public bint post_only
    cdef public object sent_ns
    cdef public object arrived_ns
    cdef public object done_ns
    cdef public object ahead
    cdef public object state
    cdef public bint is_open
    cdef public object filled
    cdef public bint cancelling
    cdef public object code
    cdef object _left
