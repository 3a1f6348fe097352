# The types of clob/matcher/order_index.py, from which the compiled module is made; see setup.py.
cimport cython

from clob.matcher cimport entities
from clob.matcher.entities cimport Entry, Trader, Venue, make_entry, order_from
from clob.matcher.admission cimport Gate
from clob.matcher.entities cimport Order, OrderState


cdef class Register(Gate):
    cdef public object expiring
    cdef public Entry finished_first
    cdef public Entry finished_last
    cdef public Py_ssize_t num_finished
    cdef public dict spent
    cdef public object spent_until

    @cython.locals(trader=Trader)
    cpdef Entry entry_for(self, Venue venue, Order order)

    @cython.locals(order=Order, entry=Entry)
    cpdef Entry entry_from(self, Venue venue, OrderState state, bint is_yes, str maker)

    @cython.locals(entry=Entry, order=Order, state=OrderState, traders=dict, entries=list)
    cpdef list queue_up(self, book, Venue venue, states, bint is_yes)

    @cython.locals(order=Order)
    cpdef enter(self, Entry entry)

    @cython.locals(trader=Trader)
    cpdef rest(self, Entry entry)

    @cython.locals(trader=Trader, order=Order)
    cpdef link(self, Entry entry)

    @cython.locals(trader=Trader, order=Order)
    cpdef unlink(self, Entry entry)

    @cython.locals(last=Entry)
    cpdef finish(self, Entry entry, reason)

    @cython.locals(entry=Entry, following=Entry, second=Entry)
    cpdef evict(self)

    @cython.locals(order=Order)
    cpdef spend(self, Entry entry, used)

    @cython.locals(hashes=set)
    cpdef keep(self, used, maker, nonce, expiration_s)

    cpdef resize(self, Entry entry, remaining)
