# C types for clob/replay/sim/market_view.py, which setup.py compiles.
cimport cython

from clob.replay.sim.portfolio cimport Portfolio

cdef object BUY
cdef object SELL
cdef object GTC
cdef object SENT


cdef class MarketView
cdef class OutcomeView


cdef class OwnOrder:
    cdef public object id
    cdef public OutcomeView outcome
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


cdef class OutcomeView:
    cdef public MarketView market
    cdef public object instrument
    cdef public object name
    cdef object _book
    cdef dict _open
    cdef dict __dict__

    cpdef best_of_others(self, side)


cdef class OrderGateway:
    cdef public object now_ns

    cpdef OwnOrder send(self, OutcomeView outcome, side, price, size, time_in_force, post_only)
    cpdef cancel(self, OwnOrder order)
    cpdef exchange(self, MarketView market, size, merges)


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
    cdef OrderGateway _gateway
    cdef dict __dict__
