# Types with which clob/matcher/admission.py is compiled; see setup.py.
cimport cython

from clob.matcher.accounts cimport Accounts
from clob.matcher.entities cimport Account, MakerState, MarketState
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
    cdef public dict markets
    cdef public dict entries
    cdef public dict used_hashes
    cdef public dict client_ids
    cdef public dict nonces
    cdef public dict tokens
    cdef public dict collaterals
    cdef public object seq_base
    cdef public object limits
    cdef public Py_ssize_t orders_max
    cdef public object trades_max
    cdef public Py_ssize_t finished_max

    cpdef bint fits_market(self, MarketState market_state, Order order) except -1

    cpdef bint is_new_and_valid(self, Submit command, Order order, now_ms) except -1

    @cython.locals(account=Account)
    cpdef bint is_covered(
        self, MarketState market_state, MakerState maker_state, Order order
    ) except -1

    cpdef bint may_cancel(self, maker, MakerState maker_state) except -1
