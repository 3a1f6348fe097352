# The types of clob/replay/sim/session.py, from which the compiled module is made; see setup.py.
cimport cython

from clob.replay.sim.exchange_account cimport ExchangeAccount
from clob.replay.sim.orders cimport OwnOrder
from clob.replay.sim.portfolio cimport Portfolio
from clob.replay.sim.market_view cimport Acts, OutcomeView, MarketView
from clob.replay.sim.latency cimport Connection

cdef object GTD
cdef object NEVER
cdef object OWN_ID
cdef object ENTER
cdef object TAKE_OUT
cdef object EXCHANGE


cdef class Session(Acts):
    cdef public object strategy
    cdef public object driver
    cdef public ExchangeAccount account
    cdef public tuple seats
    cdef object _every_ns
    cdef Connection _orders_way
    cdef object _arrivals
    cdef bint _hears
    cdef object _stop

    @cython.locals(account=ExchangeAccount)
    cpdef run(self)

    @cython.locals(account=ExchangeAccount)
    cpdef tuple _next(self, wake_ns)

    @cython.locals(account=ExchangeAccount)
    cpdef _wake(self)

    @cython.locals(order=OwnOrder)
    cpdef OwnOrder send(self, OutcomeView leg, side, price, size, time_in_force, bint post_only)
