# The types of clob/matcher/engine.py, from which the compiled module is made; see setup.py.
cimport cython

from clob.matcher cimport entities
from clob.matcher.entities cimport OrderEntry, MakerState, MarketState
from clob.matcher.order_index cimport OrderIndex
from clob.matcher.entities cimport Cancel, Order, Submit, Trade

# As C variables these are there at once; a global name is looked up in a dictionary each time.
cdef object BUY
cdef object GTC
cdef object GTD
cdef object CANCEL_ONLY
cdef object FILLED
cdef object REPLACED
cdef object CANCELLED
cdef object ADMIN
cdef object OrderAdded
cdef object OrderReduced
cdef object OrderRemoved
cdef object PairedTrade


cdef class Engine(OrderIndex):
    cdef public object book_class
    cdef public bint busy
    cdef public long long number
    cdef public dict tokens
    cdef public list results
    cdef public object limits
    cdef public Py_ssize_t orders_max
    cdef public object trades_max
    cdef public Py_ssize_t finished_max

    cpdef apply(self, command)

    @cython.locals(applied=Py_ssize_t, events=Py_ssize_t)
    cpdef replay(self, commands)

    @cython.locals(submission=Submit, cancel=Cancel)
    cpdef execute(self, command)

    @cython.locals(venue=MarketState)
    cpdef book_of(self, OrderEntry entry)

    @cython.locals(venue=MarketState, entry=OrderEntry, events=list, turned=bint, rested=bint)
    cpdef submit_order(self, Submit command, now_ms)

    @cython.locals(venue=MarketState, trader=MakerState, entry=OrderEntry, token=object)
    cpdef OrderEntry admit(self, Submit command, Order order, now_ms)

    @cython.locals(venue=MarketState, resting=OrderEntry, place=Py_ssize_t)
    cpdef absorb(self, OrderEntry entry, list events)

    @cython.locals(venue=MarketState)
    cpdef trade(self, OrderEntry incoming, OrderEntry resting, Trade event)

    @cython.locals(venue=MarketState, entry=OrderEntry, first=bint)
    cpdef half(self, OrderEntry incoming, OrderEntry resting, Trade event)

    @cython.locals(entry=OrderEntry, order=Order)
    cpdef cancel_order(self, Cancel command, now_ms)

    cpdef take_out(self, OrderEntry entry, reason, now_ms)
