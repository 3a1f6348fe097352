# Types with which clob/matcher/engine.py is compiled; see setup.py.
cimport cython

from clob.matcher cimport entities
from clob.matcher.entities cimport OrderEntry, MakerState, MarketState
from clob.matcher.order_index cimport OrderIndex
from clob.matcher.entities cimport Cancel, Order, Submit, Trade

# C variables are read directly; a Python global is a dictionary lookup each time.
cdef object BUY
cdef object GTC
cdef object GTD
cdef object FILLED
cdef object REPLACED
cdef object CANCELLED
cdef object ADMIN
cdef object OrderAdded
cdef object OrderReduced
cdef object OrderRemoved
cdef object PairedTrade
cdef long long TIME_MAX


cdef class Engine(OrderIndex):
    cdef public object book_class
    cdef public object handlers
    cdef public bint busy
    cdef public long long number
    cdef public list results

    cpdef apply(self, command)

    @cython.locals(applied=Py_ssize_t, events=Py_ssize_t)
    cpdef replay(self, commands)

    @cython.locals(submission=Submit, cancel=Cancel)
    cpdef execute(self, command)

    @cython.locals(time=cython.longlong)
    cpdef check_time(self, now_ms)

    @cython.locals(market_state=MarketState, is_in_yes=bint)
    cpdef book_of(self, OrderEntry entry)

    @cython.locals(
        market_state=MarketState, entry=OrderEntry, events=list, is_mirrored=bint, rested=bint
    )
    cpdef submit_order(self, Submit command, now_ms)

    @cython.locals(market_state=MarketState, maker_state=MakerState, entry=OrderEntry, token=object)
    cpdef OrderEntry admit(self, Submit command, Order order, now_ms)

    @cython.locals(market_state=MarketState, resting=OrderEntry, place=Py_ssize_t)
    cpdef apply_events(self, OrderEntry entry, list events)

    @cython.locals(market_state=MarketState)
    cpdef apply_trade(self, OrderEntry incoming, OrderEntry resting, Trade event)

    @cython.locals(market_state=MarketState, entry=OrderEntry, first=bint)
    cpdef apply_paired_trade(self, OrderEntry incoming, OrderEntry resting, Trade event)

    @cython.locals(entry=OrderEntry)
    cpdef cancel_order(self, Cancel command, now_ms)

    @cython.locals(market_state=MarketState)
    cpdef remove(self, OrderEntry entry, reason, now_ms)
