# What of clob/_entries_c.pyx the compiled gate and desk use.

from clob._structs_c cimport Cancel, Order, OrderState, Submit, Trade


cdef extern from *:
    """
    #define clob_soon(thing) \
        (__builtin_prefetch((thing)), __builtin_prefetch((const char *)(thing) + 64))
    """
    # A thing will be needed soon: let it come from memory while something else is done.
    void soon "clob_soon"(object thing) noexcept


cdef class Account:
    cdef public str wallet
    cdef public str asset
    cdef public object balance
    cdef public object reserved
    cdef public object unsettled
    cdef public dict guests


cdef class Venue:
    cdef public object market
    cdef public str yes
    cdef public str no
    cdef public object mode
    cdef public object min_size
    cdef public object self_trade
    cdef public bint has_accounts
    cdef public bint settles
    cdef public bint complementary
    cdef public bint charges
    cdef public object yes_book
    cdef public object no_book
    cdef public object turn
    cdef public dict traders
    cdef public dict pending

    cpdef hand_over(self, book)


cdef class Trader:
    cdef public str maker
    cdef public Venue venue
    cdef public Entry first
    cdef public Entry last
    cdef public Py_ssize_t count
    cdef public bint has_accounts
    cdef public Account collateral
    cdef public Account yes
    cdef public Account no


cdef class Entry:
    # What a cancel touches stands together.
    cdef public Order order
    cdef public Trader trader
    cdef public Entry before
    cdef public Entry after
    cdef public Entry later
    cdef public bint resting
    cdef public bint is_yes
    cdef public object removal
    cdef public object order_hash
    cdef public object client_id
    cdef public object remaining
    cdef public object reserve
    cdef public Account pays
    cdef public Account receives
    cdef public object filled_collateral
    cdef public Order given
    cdef public long long number
    cdef public long long accepted_ms


cdef Account NO_ACCOUNT

cpdef Entry make_entry(Order order, Trader trader, bint is_yes)
cpdef Order order_from(OrderState state, str token, str maker)


cdef class Pending:
    cdef public Account buyer_pays
    cdef public Account buyer_receives
    cdef public Account seller_pays
    cdef public Account seller_receives
    cdef public object paid
    cdef public object size
    cdef public object buyer_fee
    cdef public object seller_fee
    cdef public object match_type
    cdef public object other
