# The types of clob/matcher/admission.py, from which the compiled module is made; see setup.py.
cimport cython

from clob.matcher.accounts cimport Accounts
from clob.matcher.entities cimport Account, OrderEntry, MakerState, MarketState
from clob.matcher.entities cimport Order, Submit

cdef object BUY
cdef object OPEN
cdef object CANCEL_ONLY
cdef long long TIME_MAX
cdef Py_ssize_t TEXT_MAX
cdef object UINT256_MAX
cdef object FEE_RATE_MAX_BPS


cdef class Admission(Accounts):
    cdef public long long now_ms
    cdef public dict venues
    cdef public dict entries
    cdef public dict used
    cdef public dict clients
    cdef public dict nonces

    @cython.locals(time=cython.longlong)
    cpdef check_time(self, now_ms)

    cpdef bint suits(self, MarketState venue, Order order) except -1

    cpdef bint is_new(self, Submit command, Order order, now_ms) except -1

    @cython.locals(account=Account)
    cpdef bint is_covered(self, MarketState venue, MakerState trader, Order order) except -1

    cpdef bint may_cancel(self, maker, MakerState trader) except -1
