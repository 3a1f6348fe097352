# The types of clob/replay/sim/exchange_account.py, from which the compiled module is made; see setup.py.
cimport cython

from clob.replay.sim.orders cimport OwnFill
from clob.replay.sim.orders cimport OwnOrder
from clob.replay.sim.portfolio cimport Holding, Portfolio
from clob.replay.sim.market_view cimport OutcomeView, MarketView
from clob.replay.sim.latency cimport Connection

# As C variables these are there at once; a global name is looked up in a dictionary each time.
cdef object GTC
cdef object FILL_OR_KILL
cdef object RESTING
cdef object FILLED
cdef object CANCELLED
cdef long POST_ONLY
cdef long FOK
cdef long LIMIT
cdef long IOC
cdef object SIZE_MAX
cdef long ENTER
cdef long TAKE_OUT
cdef long EXCHANGE
cdef long HEAR_FILL
cdef long HEAR_ORDER
cdef long HEAR_EXCHANGE
cdef long long OWN_ID


cdef class ExchangeAccount:
    cdef public Portfolio portfolio
    cdef public Portfolio known
    cdef public list orders
    cdef public list fills
    cdef public list charges
    cdef public list equity
    cdef public list positions
    cdef public object news
    cdef public object on_fill
    cdef public object on_order
    cdef object _driver
    cdef object _lot_wei
    cdef Connection _replies
    cdef long _flags
    cdef dict _marks
    cdef bint _moved
    cdef tuple _owned

    @cython.locals(what=long)
    cpdef deliver(self, tuple message)

    @cython.locals(leg=OutcomeView, flags=long, kind=long)
    cpdef enter(self, ts_ns, OwnOrder order)

    @cython.locals(leg=OutcomeView, seat=MarketView)
    cpdef str _refusal(self, OwnOrder order)

    cpdef _refuse(self, ts_ns, OwnOrder order, code)
    cpdef take_out(self, ts_ns, OwnOrder order)
    cpdef exchange(self, ts_ns, MarketView seat, tuple how)

    @cython.locals(order=OwnOrder, fill=OwnFill)
    cpdef fill(self, now_ns, list fills)

    @cython.locals(leg=OutcomeView)
    cpdef _leave(self, ts_ns, OwnOrder order, left)

    @cython.locals(mine=Portfolio, marks=dict, moved=bint, holding=Holding, row=tuple)
    cpdef note(self, now_ns)

    @cython.locals(holding=Holding, positions=list)
    cpdef _take_down(self, ts_ns, instrument)

    cpdef _tell(self, ts_ns, long what, whom, how)

    cpdef learn(self, now_ns)

    @cython.locals(leg=OutcomeView)
    cpdef _hear_fill(self, OwnOrder order, OwnFill fill)

    @cython.locals(leg=OutcomeView)
    cpdef _hear_order(self, OwnOrder order, tuple how)
    cpdef _hear_exchange(self, MarketView seat, how)
