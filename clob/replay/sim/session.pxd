# C types for clob/replay/sim/session.py, which setup.py compiles.
cimport cython

from clob.replay.sim.exchange_account cimport ExchangeAccount
from clob.replay.sim.market_view cimport OwnOrder
from clob.replay.sim.portfolio cimport Portfolio
from clob.replay.sim.market_view cimport OrderGateway, OutcomeView, MarketView
from clob.replay.sim.latency cimport Connection

cdef object GTD
cdef object STOP_AT_FILL
cdef object NEVER
cdef object OWN_ID
cdef object SUBMIT
cdef object CANCEL
cdef object EXCHANGE


cdef class Session(OrderGateway):
    cdef public object strategy
    cdef public object driver
    cdef public ExchangeAccount account
    cdef public tuple markets
    cdef object _every_ns
    cdef object _equity_every_ns
    cdef Connection _order_connection
    cdef object _arrivals
    cdef bint _has_callbacks
    cdef object _stop

    @cython.locals(account=ExchangeAccount, is_quiet=bint)
    cpdef run(self)

    @cython.locals(account=ExchangeAccount)
    cpdef tuple _next_event(self, wake_ns)

    @cython.locals(account=ExchangeAccount)
    cpdef _call_on_wake(self)

    @cython.locals(order=OwnOrder)
    cpdef OwnOrder send(self, OutcomeView outcome, side, price, size, time_in_force, post_only)
