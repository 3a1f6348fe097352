# The types of clob/matcher/accounts.py, from which the compiled module is made; see setup.py.
cimport cython

from clob.matcher.entities cimport Account, Entry, Pending, Trader, Venue
from clob.matcher.entities cimport Order, Trade

cdef object BUY
cdef object MINT


cdef class Accounts:
    cdef public dict accounts
    cdef public list undo

    @cython.locals(order=Order, trader=Trader, venue=Venue, tokens=Account, collateral=Account)
    cpdef open_accounts(self, Entry entry)

    @cython.locals(account=Account)
    cpdef Account account(self, wallet, asset)

    @cython.locals(held=Pending)
    cpdef hold(self, Venue venue, seq, tuple accounts, tuple amounts)

    cpdef pay(self, Venue venue, Entry buyer, Entry seller, Trade event, paid)

    cpdef pay_half(self, Venue venue, Entry entry, Trade event, paid, other)

    cpdef tuple beside_nobody(self, Account pays, Account receives, bint minted)

    @cython.locals(held=Pending)
    cpdef bind(self, Venue venue, seq, match_type, other)

    cpdef wait(self, Venue venue, Trade event, tuple accounts, paid)

    @cython.locals(collector=Account)
    cpdef move(self, Venue venue, Account payer, Account payee, amount, fee)

    @cython.locals(order=Order)
    cpdef reserve(self, Entry entry, remaining)
    cpdef touch(self, Account account)
