# Types with which clob/matcher/order_index.py is compiled; see setup.py.
cimport cython

from clob.matcher cimport entities
from clob.matcher.entities cimport OrderEntry, MakerState, MarketState, make_entry, order_from
from clob.matcher.admission cimport Admission
from clob.matcher.entities cimport Order, OrderSnapshot

cdef object BY_NUMBER


cdef class OrderIndex(Admission):
    cdef public dict makers
    cdef public object expiring
    cdef public OrderEntry finished_first
    cdef public OrderEntry finished_last
    cdef public Py_ssize_t num_finished
    cdef public dict spent_by_maker
    cdef public object spent_by_expiry
    cdef public object asleep
    cdef public object asleep_offsets
    cdef public list asleep_makers
    cdef public list asleep_starts
    cdef public list asleep_books
    cdef public object on_wake

    @cython.locals(maker_state=MakerState)
    cpdef OrderEntry entry_for(self, MarketState market_state, Order order)

    @cython.locals(order=Order, entry=OrderEntry)
    cpdef OrderEntry entry_from(
        self, MarketState market_state, OrderSnapshot state, bint is_yes, str maker
    )

    @cython.locals(entry=OrderEntry, order=Order, state=OrderSnapshot, maker=str, ids=list)
    cpdef list restore_book(self, MarketState market_state, states, bint is_yes)

    @cython.locals(order=Order, maker_state=MakerState)
    cpdef put_to_sleep(self, OrderEntry entry, place)

    @cython.locals(
        market_state=MarketState, is_yes=bint, state=OrderSnapshot,
        entry=OrderEntry,
    )
    cpdef OrderEntry peek(self, found)

    cpdef OrderEntry awake(self, found)

    cpdef OrderEntry wake(self, OrderEntry entry, place)

    @cython.locals(entry=OrderEntry, linked=OrderEntry, entries=list)
    cpdef list resting_of(self, MakerState maker_state, bint wake)

    @cython.locals(order=Order)
    cpdef register(self, OrderEntry entry)

    @cython.locals(maker_state=MakerState)
    cpdef rest(self, OrderEntry entry)

    @cython.locals(maker_state=MakerState, order=Order)
    cpdef link(self, OrderEntry entry)

    @cython.locals(maker_state=MakerState, order=Order)
    cpdef unlink(self, OrderEntry entry)

    @cython.locals(first=MakerState, following=MakerState)
    cpdef link_maker(self, MakerState maker_state)

    @cython.locals(previous=MakerState, following=MakerState)
    cpdef unlink_maker(self, MakerState maker_state)

    @cython.locals(last=OrderEntry)
    cpdef finish(self, OrderEntry entry, reason)

    @cython.locals(entry=OrderEntry, following=OrderEntry, second=OrderEntry)
    cpdef evict(self)

    @cython.locals(order=Order)
    cpdef evict_hash(self, OrderEntry entry, order_hash)

    @cython.locals(hashes=set)
    cpdef add_spent(self, order_hash, maker, nonce, expiration_s)

    cpdef resize(self, OrderEntry entry, remaining)
