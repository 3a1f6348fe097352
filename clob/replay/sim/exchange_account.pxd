# C types for clob/replay/sim/exchange_account.py, which setup.py compiles.
cimport cython

from clob.replay.sim.orders cimport OwnFill
from clob.replay.sim.market_view cimport OwnOrder
from clob.replay.sim.portfolio cimport Holding, Portfolio
from clob.replay.sim.market_view cimport OutcomeView, MarketView
from clob.replay.sim.latency cimport Connection

# As C variables: a Python global costs a dictionary lookup at each use.
cdef object GTC
cdef object FILL_OR_KILL
cdef object RESTING
cdef object SENT
cdef object FILLED
cdef object CANCELLED
cdef long POST_ONLY
cdef long FOK
cdef long LIMIT
cdef long IOC
cdef long OTHERS_MID
cdef long MID
cdef long BID
cdef long LAST
cdef object OWN
cdef object SIZE_MAX
cdef long SUBMIT
cdef long CANCEL
cdef long EXCHANGE
cdef long ON_FILL
cdef long ON_ORDER
cdef long ON_EXCHANGE
cdef long long OWN_ID


cdef class ExchangeAccount:
    cdef public Portfolio portfolio
    cdef public Portfolio known
    cdef public list orders
    cdef public list fills
    cdef public list charges
    cdef public list realised
    cdef public object markouts
    cdef public list equity
    cdef public list positions
    cdef public object replies
    cdef public object on_fill
    cdef public object on_order
    cdef object _driver
    cdef object _lot_wei
    cdef Connection _reply_connection
    cdef long _flags
    cdef long _rule
    cdef dict _books
    cdef dict _marks
    cdef bint _changed
    cdef bint _at_once
    cdef tuple _last_row

    @cython.locals(kind=long)
    cpdef deliver(self, tuple message)

    @cython.locals(outcome=OutcomeView, flags=long, kind=long)
    cpdef submit(self, ts_ns, OwnOrder order)

    @cython.locals(outcome=OutcomeView, market=MarketView)
    cpdef str _validate(self, OwnOrder order)

    cpdef _reject(self, ts_ns, OwnOrder order, code)
    cpdef cancel(self, ts_ns, OwnOrder order)
    cpdef exchange(self, ts_ns, MarketView market, tuple data)

    @cython.locals(order=OwnOrder, fill=OwnFill, portfolio=Portfolio)
    cpdef apply_fills(self, now_ns, list fills)

    @cython.locals(outcome=OutcomeView)
    cpdef _set_left(self, ts_ns, OwnOrder order, left)

    @cython.locals(portfolio=Portfolio, marks=dict, changed=bint, row=tuple)
    cpdef record_equity(self, now_ns)

    @cython.locals(owed=bint)
    cpdef _mark_of(self, instrument)

    @cython.locals(rule=long)
    cpdef _price_of(self, instrument, book, bint owed)

    @cython.locals(holding=Holding, positions=list)
    cpdef _record_position(self, ts_ns, instrument)

    cpdef _reply(self, ts_ns, long kind, target, data)

    cpdef deliver_replies(self, now_ns)

    cpdef _handle_reply(self, long kind, target, data)

    @cython.locals(outcome=OutcomeView, fill=OwnFill)
    cpdef _handle_fill(self, OwnOrder order, tuple data)

    @cython.locals(outcome=OutcomeView)
    cpdef _handle_order(self, OwnOrder order, tuple data)
    cpdef _handle_exchange(self, MarketView market, data)
