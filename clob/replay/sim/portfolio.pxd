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

    cpdef Portfolio fork(self)

    @cython.locals(holding=Holding)
    cpdef size(self, instrument)

    @cython.locals(holding=Holding)
    cpdef value(self, marks)

    cpdef wealth(self, marks)

    cpdef trade(self, instrument, side, price, size, resting)

    @cython.locals(holding=Holding)
    cpdef free(self, instrument)

    @cython.locals(holding=Holding)
    cpdef bint reserve(self, instrument, side, price, size) except -1

    @cython.locals(holding=Holding)
    cpdef release(self, instrument, side, price, size, left=*)

    @cython.locals(holding=Holding)
    cpdef _move(self, instrument, size, paid)


cpdef share(amount, part, whole)
