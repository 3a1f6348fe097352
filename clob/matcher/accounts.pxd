# The types of clob/matcher/accounts.py, from which the compiled module is made; see setup.py.
cimport cython

from clob.matcher.entities cimport Account, OrderEntry, PendingTrade, MakerState, MarketState
from clob.matcher.entities cimport Order, Trade

cdef object BUY
cdef object MINT


cdef class Accounts:
    cdef public dict accounts
    cdef public list undo

    @cython.locals(order=Order, trader=MakerState, venue=MarketState, tokens=Account, collateral=Account)
    cpdef open_accounts(self, OrderEntry entry)

    @cython.locals(account=Account)
    cpdef Account account(self, wallet, asset)

    @cython.locals(held=PendingTrade)
    cpdef hold(self, MarketState venue, seq, tuple accounts, tuple amounts)

    cpdef pay(self, MarketState venue, OrderEntry buyer, OrderEntry seller, Trade event, paid)

    cpdef pay_half(self, MarketState venue, OrderEntry entry, Trade event, paid, other)

    cpdef tuple beside_nobody(self, Account pays, Account receives, bint minted)

    @cython.locals(held=PendingTrade)
    cpdef bind(self, MarketState venue, seq, match_type, other)

    cpdef wait(self, MarketState venue, Trade event, tuple accounts, paid)

    @cython.locals(collector=Account)
    cpdef move(self, MarketState venue, Account payer, Account payee, amount, fee)

    @cython.locals(order=Order)
    cpdef reserve(self, OrderEntry entry, remaining)
    cpdef touch(self, Account account)
