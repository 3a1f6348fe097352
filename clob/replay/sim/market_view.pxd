# The types of clob/replay/sim/market_view.py, from which the compiled module is made; see setup.py.
cimport cython

from clob.replay.sim.orders cimport OwnOrder
from clob.replay.sim.portfolio cimport Portfolio

cdef object BUY
cdef object SELL
cdef object GTC


cdef class OutcomeView:
    cdef public MarketView seat
    cdef public object instrument
    cdef public object name
    cdef object _book
    cdef dict _open
    cdef dict __dict__

    @cython.locals(order=OwnOrder)
    cpdef best_of_others(self, side)


cdef class Acts:
    cdef public object now_ns

    cpdef OwnOrder send(self, OutcomeView leg, side, price, size, time_in_force, bint post_only)
    cpdef cancel(self, OwnOrder order)
    cpdef exchange(self, MarketView seat, size, merges)


cdef class MarketView:
    cdef public object number
    cdef public object name
    cdef public object lot_wei
    cdef public Portfolio portfolio
    cdef public OutcomeView yes
    cdef public OutcomeView no
    cdef public OutcomeView first
    cdef public object lo
    cdef public object hi
    cdef public object exchanging
    cdef public tuple markets
    cdef Acts _act
    cdef dict __dict__
