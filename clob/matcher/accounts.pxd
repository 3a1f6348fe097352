# Types with which clob/matcher/accounts.py is compiled; see setup.py.
cimport cython

from clob.matcher.entities cimport Account, OrderEntry, PendingTrade, MakerState, MarketState
from clob.matcher.entities cimport Order, Trade

cdef object BUY
cdef object MINT


cdef class Accounts:
    cdef public dict accounts
    cdef public dict assets
    cdef public list undo

    @cython.locals(
        order=Order,
        maker_state=MakerState,
        market_state=MarketState,
        tokens=Account,
        collateral=Account,
    )
    cpdef open_accounts(self, OrderEntry entry)

    @cython.locals(account=Account)
    cpdef Account account(self, wallet, asset)

    cpdef pay(
        self, MarketState market_state, OrderEntry buyer, OrderEntry seller, Trade event, paid
    )

    cpdef pay_paired(self, MarketState market_state, OrderEntry entry, Trade event, paid, other_seq)

    cpdef tuple paired_accounts(self, Account pays, Account receives, bint minted)

    @cython.locals(pending=PendingTrade)
    cpdef link_pair(self, MarketState market_state, seq, match_type, other_seq)

    cpdef hold_trade(self, MarketState market_state, Trade event, tuple accounts, paid)

    @cython.locals(pending=PendingTrade)
    cpdef add_pending(self, MarketState market_state, seq, tuple accounts, tuple amounts)

    @cython.locals(collector=Account)
    cpdef move(self, MarketState market_state, Account payer, Account payee, amount, fee)

    @cython.locals(order=Order)
    cpdef reserve(self, OrderEntry entry, remaining)

    cpdef save(self, Account account)
