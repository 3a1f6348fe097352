# The types of clob/matcher/order_index.py, from which the compiled module is made; see setup.py.
cimport cython

from clob.matcher cimport entities
from clob.matcher.entities cimport OrderEntry, MakerState, MarketState, make_entry, order_from
from clob.matcher.admission cimport Admission
from clob.matcher.entities cimport Order, OrderSnapshot


cdef class OrderIndex(Admission):
    cdef public object expiring
    cdef public OrderEntry finished_first
    cdef public OrderEntry finished_last
    cdef public Py_ssize_t num_finished
    cdef public dict spent
    cdef public object spent_until

    @cython.locals(trader=MakerState)
    cpdef OrderEntry entry_for(self, MarketState venue, Order order)

    @cython.locals(order=Order, entry=OrderEntry)
    cpdef OrderEntry entry_from(self, MarketState venue, OrderSnapshot state, bint is_yes, str maker)

    @cython.locals(entry=OrderEntry, order=Order, state=OrderSnapshot, traders=dict, entries=list)
    cpdef list queue_up(self, book, MarketState venue, states, bint is_yes)

    @cython.locals(order=Order)
    cpdef enter(self, OrderEntry entry)

    @cython.locals(trader=MakerState)
    cpdef rest(self, OrderEntry entry)

    @cython.locals(trader=MakerState, order=Order)
    cpdef link(self, OrderEntry entry)

    @cython.locals(trader=MakerState, order=Order)
    cpdef unlink(self, OrderEntry entry)

    @cython.locals(last=OrderEntry)
    cpdef finish(self, OrderEntry entry, reason)

    @cython.locals(entry=OrderEntry, following=OrderEntry, second=OrderEntry)
    cpdef evict(self)

    @cython.locals(order=Order)
    cpdef spend(self, OrderEntry entry, used)

    @cython.locals(hashes=set)
    cpdef keep(self, used, maker, nonce, expiration_s)

    cpdef resize(self, OrderEntry entry, remaining)
