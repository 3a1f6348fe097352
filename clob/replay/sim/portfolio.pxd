# C types for clob/replay/sim/portfolio.py, which setup.py compiles.
cimport cython

cdef object FREE
cdef object no_fees


cdef class Holding:
    cdef public object cost
    cdef public object reserved
    cdef public object size

    cpdef Holding copy(self)
    cpdef move(self, size, paid)


cdef class Portfolio:
    cdef public bint covered
    cdef public object initial
    cdef public object collateral
    cdef public object reserved
    cdef public object realised
    cdef public object fees_paid
    cdef public dict holdings
    cdef public object fees
    cdef public object scale
    cdef object _by_order
    cdef dict _carried
    cdef object _commission
    cdef object _rule
    cdef dict _winnings
    cdef dict _settled

    cpdef Portfolio fork(self)

    @cython.locals(holding=Holding)
    cpdef size(self, instrument)

    @cython.locals(holding=Holding)
    cpdef value(self, marks)

    cpdef wealth(self, marks)

    cpdef trade(self, instrument, side, price, size, resting, order=*)
    cpdef enter(self, instrument, side, price, size, charge)

    @cython.locals(holding=Holding)
    cpdef free(self, instrument)

    @cython.locals(holding=Holding)
    cpdef bint reserve(self, instrument, side, price, size) except -1

    @cython.locals(holding=Holding)
    cpdef release(self, instrument, side, price, size, left=*)

    @cython.locals(holding=Holding)
    cpdef _move(self, instrument, size, paid)


cpdef share(amount, part, whole)
