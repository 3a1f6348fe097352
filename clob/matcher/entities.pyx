# cython: language_level=3, annotation_typing=False
"""Compiled version of entities.py, which has the documentation.

The classes are invisible to the garbage collector, which would otherwise traverse every order in
every full collection. Engine.__del__ breaks the reference cycles among them.
"""

cimport cython

import msgspec

from clob.matcher.state_records import Terms
from clob.events import MatchType
from clob.market import Funds


cdef extern from *:
    """
    /* Set a field of a new, uninitialised instance. */
    #define clob_set(to, from) (Py_INCREF(from), (to) = (from))

    static PyObject *clob_order_from(
        PyObject *kind, ClobOrderSnapshot *s, PyObject *token, PyObject *maker
    ) {
        ClobOrder *o = PyObject_New(ClobOrder, (PyTypeObject *)kind);
        if (o == NULL) return NULL;
        clob_set(o->collateral, s->collateral);
        clob_set(o->expiration_s, s->expiration_s);
        clob_set(o->fee_rate_bps, s->fee_rate_bps);
        clob_set(o->id, s->id);
        clob_set(o->maker, maker);
        clob_set(o->nonce, s->nonce);
        clob_set(o->post_only, s->post_only);
        clob_set(o->price, s->price);
        clob_set(o->self_trade, s->self_trade);
        clob_set(o->side, s->side);
        clob_set(o->size, s->size);
        clob_set(o->smart_wallet, s->smart_wallet);
        clob_set(o->time_in_force, s->time_in_force);
        clob_set(o->token, token);
        return (PyObject *)o;
    }

    static PyObject *clob_state_of(
        PyObject *kind, ClobOrder *o, PyObject *maker, PyObject *remaining,
        PyObject *filled_collateral, PyObject *number, PyObject *accepted_ms,
        PyObject *client_id, PyObject *order_hash, PyObject *submitted
    ) {
        ClobOrderSnapshot *s = PyObject_New(ClobOrderSnapshot, (PyTypeObject *)kind);
        if (s == NULL) return NULL;
        clob_set(s->accepted_ms, accepted_ms);
        clob_set(s->client_id, client_id);
        clob_set(s->collateral, o->collateral);
        clob_set(s->expiration_s, o->expiration_s);
        clob_set(s->fee_rate_bps, o->fee_rate_bps);
        clob_set(s->filled_collateral, filled_collateral);
        clob_set(s->id, o->id);
        clob_set(s->maker, maker);
        clob_set(s->nonce, o->nonce);
        clob_set(s->number, number);
        clob_set(s->order_hash, order_hash);
        clob_set(s->post_only, o->post_only);
        clob_set(s->price, o->price);
        clob_set(s->remaining, remaining);
        clob_set(s->self_trade, o->self_trade);
        clob_set(s->side, o->side);
        clob_set(s->size, o->size);
        clob_set(s->smart_wallet, o->smart_wallet);
        clob_set(s->submitted, submitted);
        clob_set(s->time_in_force, o->time_in_force);
        return (PyObject *)s;
    }
    """
    # Several times faster than the constructors.
    object new_order "clob_order_from"(object kind, OrderSnapshot state, object token, object maker)
    object new_state "clob_state_of"(
        object kind, Order order, object maker, object remaining, object filled_collateral,
        object number, object accepted_ms, object client_id, object order_hash, object submitted,
    )


@cython.final
@cython.no_gc
cdef class Account:
    def __init__(self, wallet, asset):
        self.wallet = wallet
        self.asset = asset
        self.balance = self.reserved = self.unsettled = 0
        self.smart_wallet_orders = {}

    def save(self):
        return self.balance, self.reserved, self.unsettled

    def restore(self, saved):
        self.balance, self.reserved, self.unsettled = saved


NO_ACCOUNT = Account("", "")


@cython.final
@cython.no_gc
cdef class MarketState:
    def __init__(self, market, yes, no):
        self.yes_book = yes
        self.no_book = no
        self.seq_book = yes
        self.makers = {}
        self.pending = {}
        self.set_terms(market)

    cpdef move_seq(self, book):
        book.seq = self.seq_book.seq
        self.seq_book = book

    def set_terms(self, market):
        self.market = market
        self.yes = market.yes
        # None until the NO token has an id, so that no order can match it.
        self.no = market.no or None
        self.mode = market.mode
        self.min_size = market.min_size
        self.self_trade = market.self_trade
        self.has_accounts = market.funds is Funds.ACCOUNTS
        self.settles = market.settles
        self.complementary = market.complementary
        self.has_fees = bool(market.resting_fee_rate_bps or market.incoming_fee_rate_bps)

    def save(self):
        yes, no = self.yes_book.fork(), self.no_book.fork()
        return yes, no, yes if self.seq_book is self.yes_book else no

    def restore(self, saved):
        self.yes_book, self.no_book, self.seq_book = saved

    def detach(self):
        cdef MakerState maker_state
        for maker_state in self.makers.values():
            maker_state.first = maker_state.last = None
            maker_state.previous_market = maker_state.next_market = None
        self.makers.clear()


@cython.final
@cython.no_gc
cdef class MakerState:
    def __init__(self, maker, market_state):
        self.maker = maker
        self.market_state = market_state
        self.collateral = self.yes = self.no = NO_ACCOUNT


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class OrderEntry:
    def save(self):
        state = (self.order, self.remaining, self.filled_collateral)
        return (*state, self.resting, self.removal, self.reserve)

    def restore(self, saved):
        self.order, self.remaining, self.filled_collateral = saved[:3]
        self.resting, self.removal, self.reserve = saved[3:]

    def state(self, maker):
        cdef object submitted = None
        if self.submitted is not self.order:
            submitted = Terms(self.submitted.price, self.submitted.size, self.submitted.collateral)
        return new_state(
            OrderSnapshot, self.order, maker, self.remaining, self.filled_collateral, self.number,
            self.accepted_ms, self.client_id, self.order_hash, submitted
        )

    def detach(self):
        self.before = self.after = self.next_finished = None


cpdef OrderEntry make_entry(Order order, MakerState maker_state, bint is_yes):
    cdef OrderEntry entry = OrderEntry.__new__(OrderEntry)
    # All other fields are None, 0 or False.
    entry.order = entry.submitted = order
    entry.maker_state = maker_state
    entry.is_yes = is_yes
    entry.remaining = order.size
    entry.filled_collateral = entry.reserve = 0
    entry.pays = entry.receives = NO_ACCOUNT
    return entry


@cython.final
@cython.no_gc
cdef class PendingTrade:
    def __init__(self, accounts, amounts):
        self.buyer_pays, self.buyer_receives, self.seller_pays, self.seller_receives = accounts
        self.paid, self.size, self.buyer_fee, self.seller_fee = amounts
        # For half of a mint or merge: its type, and the `seq` of the other half.
        self.match_type = MatchType.DIRECT
        self.other_seq = 0


cpdef Order order_from(OrderSnapshot state, str token, str maker):
    return new_order(Order, state, token, maker)


def read_fields(Order order, Submit submit, Cancel cancel, Trade trade, OrderSnapshot state):
    return (
        (order.id, order.token, order.maker, order.side, order.price, order.size),
        (order.time_in_force, order.expiration_s, order.self_trade, order.nonce),
        (order.collateral, order.fee_rate_bps, order.smart_wallet, order.post_only),
        (submit.now_ms, submit.market, submit.order),
        (submit.attachment, submit.client_id, submit.order_hash, submit.deadline_ms),
        (cancel.now_ms, cancel.market, cancel.order_id, cancel.maker),
        (trade.seq, trade.resting_order_id, trade.price, trade.size, trade.resting_remaining),
        (trade.incoming_side, trade.buyer_fee, trade.seller_fee, trade.token),
        (state.remaining, state.filled_collateral, state.client_id),
        (state.order_hash, state.submitted),
        (state.number, state.accepted_ms, state.maker),
        msgspec.structs.astuple(new_order(Order, state, order.token, order.maker)),
    )
