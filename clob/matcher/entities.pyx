# cython: language_level=3, annotation_typing=False
"""The compiled entries: what `_entries_py.py` says, which has the documentation.

The collector does not look at them: a program with a million orders would pay for every one of
them again and again. What holds itself among them, the desk takes apart in the end.
"""

cimport cython

import msgspec

from clob.matcher.state_records import Terms
from clob.events import MatchType
from clob.market import Funds


cdef extern from *:
    """
    /* A field of a new instance, whose memory holds nothing yet. */
    #define clob_give(to, from) (Py_INCREF(from), (to) = (from))

    static PyObject *clob_order_from(
        PyObject *kind, ClobOrderSnapshot *s, PyObject *token, PyObject *maker
    ) {
        ClobOrder *o = PyObject_New(ClobOrder, (PyTypeObject *)kind);
        if (o == NULL) return NULL;
        clob_give(o->collateral, s->collateral);
        clob_give(o->expiration_s, s->expiration_s);
        clob_give(o->fee_rate_bps, s->fee_rate_bps);
        clob_give(o->id, s->id);
        clob_give(o->maker, maker);
        clob_give(o->nonce, s->nonce);
        clob_give(o->post_only, s->post_only);
        clob_give(o->price, s->price);
        clob_give(o->self_trade, s->self_trade);
        clob_give(o->side, s->side);
        clob_give(o->size, s->size);
        clob_give(o->smart_wallet, s->smart_wallet);
        clob_give(o->time_in_force, s->time_in_force);
        clob_give(o->token, token);
        return (PyObject *)o;
    }

    static PyObject *clob_state_of(
        PyObject *kind, ClobOrder *o, PyObject *maker, PyObject *remaining,
        PyObject *filled_collateral, PyObject *number, PyObject *accepted_ms,
        PyObject *client_id, PyObject *order_hash, PyObject *given
    ) {
        ClobOrderSnapshot *s = PyObject_New(ClobOrderSnapshot, (PyTypeObject *)kind);
        if (s == NULL) return NULL;
        clob_give(s->accepted_ms, accepted_ms);
        clob_give(s->client_id, client_id);
        clob_give(s->collateral, o->collateral);
        clob_give(s->expiration_s, o->expiration_s);
        clob_give(s->fee_rate_bps, o->fee_rate_bps);
        clob_give(s->filled_collateral, filled_collateral);
        clob_give(s->given, given);
        clob_give(s->id, o->id);
        clob_give(s->maker, maker);
        clob_give(s->nonce, o->nonce);
        clob_give(s->number, number);
        clob_give(s->order_hash, order_hash);
        clob_give(s->post_only, o->post_only);
        clob_give(s->price, o->price);
        clob_give(s->remaining, remaining);
        clob_give(s->self_trade, o->self_trade);
        clob_give(s->side, o->side);
        clob_give(s->size, o->size);
        clob_give(s->smart_wallet, o->smart_wallet);
        clob_give(s->time_in_force, o->time_in_force);
        return (PyObject *)s;
    }
    """
    # In place of their constructors, which take several times as long.
    object new_order "clob_order_from"(object kind, OrderSnapshot state, object token, object maker)
    object new_state "clob_state_of"(
        object kind, Order order, object maker, object remaining, object filled_collateral,
        object number, object accepted_ms, object client_id, object order_hash, object given,
    )


@cython.final
@cython.no_gc
cdef class Account:
    """What one wallet has of one asset, in wei."""

    def __init__(self, wallet, asset):
        self.wallet = wallet
        self.asset = asset
        self.balance = self.reserved = self.unsettled = 0
        self.guests = {}

    def saved(self):
        """Give what `restore` takes back."""
        return self.balance, self.reserved, self.unsettled

    def restore(self, saved):
        """Be as it was."""
        self.balance, self.reserved, self.unsettled = saved


NO_ACCOUNT = Account("", "")


@cython.final
@cython.no_gc
cdef class MarketState:
    """A market at work: its terms, its two books, and the makers who have orders in it."""

    def __init__(self, market, yes, no):
        self.yes_book = yes
        self.no_book = no
        self.turn = yes
        self.traders = {}
        self.pending = {}
        self.adopt(market)

    cpdef hand_over(self, book):
        """Let the other book have the sequence number."""
        book.seq = self.turn.seq
        self.turn = book

    def adopt(self, market):
        """Take over the terms of a market."""
        self.market = market
        self.yes = market.yes
        # None until it is named: no text of an order is equal to it.
        self.no = market.no or None
        self.mode = market.mode
        self.min_size = market.min_size
        self.self_trade = market.self_trade
        self.has_accounts = market.funds is Funds.ACCOUNTS
        self.settles = market.settles
        self.complementary = market.complementary
        self.charges = bool(market.resting_fee_rate_bps or market.incoming_fee_rate_bps)

    def saved(self):
        """Give what `restore` takes back: books as they are now."""
        yes, no = self.yes_book.fork(), self.no_book.fork()
        return yes, no, yes if self.turn is self.yes_book else no

    def restore(self, saved):
        """Have the books that were kept."""
        self.yes_book, self.no_book, self.turn = saved

    def detach(self):
        """Let go of its makers, and they of their orders."""
        cdef MakerState trader
        for trader in self.traders.values():
            trader.first = trader.last = None
        self.traders.clear()


@cython.final
@cython.no_gc
cdef class MakerState:
    """A maker in one market: the resting orders in the sequence of acceptance, and the accounts."""

    def __init__(self, maker, venue):
        self.maker = maker
        self.venue = venue
        self.collateral = self.yes = self.no = NO_ACCOUNT


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class OrderEntry:
    """An order the desk knows, resting or finished; `size - remaining` of it is filled."""

    def saved(self):
        """Give what `restore` takes back."""
        state = (self.order, self.remaining, self.filled_collateral)
        return (*state, self.resting, self.removal, self.reserve)

    def restore(self, saved):
        """Be as it was; its places in lists are not part of it."""
        self.order, self.remaining, self.filled_collateral = saved[:3]
        self.resting, self.removal, self.reserve = saved[3:]

    def state(self, maker):
        """Give what a snapshot says of it; `maker` is the place of its maker there."""
        cdef object given = None
        if self.given is not self.order:
            given = Terms(self.given.price, self.given.size, self.given.collateral)
        return new_state(
            OrderSnapshot,
            self.order,
            maker,
            self.remaining,
            self.filled_collateral,
            self.number,
            self.accepted_ms,
            self.client_id,
            self.order_hash,
            given,
        )

    def detach(self):
        """Let go of its neighbours."""
        self.before = self.after = self.later = None


cpdef OrderEntry make_entry(Order order, MakerState trader, bint is_yes):
    """Make the entry of an order of which nothing is filled yet."""
    cdef OrderEntry entry = OrderEntry.__new__(OrderEntry)
    # What is not named here is None, 0 or False.
    entry.order = entry.given = order
    entry.trader = trader
    entry.is_yes = is_yes
    entry.remaining = order.size
    entry.filled_collateral = entry.reserve = 0
    entry.pays = entry.receives = NO_ACCOUNT
    return entry


@cython.final
@cython.no_gc
cdef class PendingTrade:
    """A trade that waits to be settled: who pays what to whom."""

    def __init__(self, accounts, amounts):
        self.buyer_pays, self.buyer_receives, self.seller_pays, self.seller_receives = accounts
        self.paid, self.size, self.buyer_fee, self.seller_fee = amounts
        # Of half of a mint or a merge: which, and the ``seq`` of the other half.
        self.match_type = MatchType.DIRECT
        self.other = 0


cpdef Order order_from(OrderSnapshot state, str token, str maker):
    """Make an order out of what a snapshot says of it."""
    return new_order(Order, state, token, maker)


def fields_seen(Order order, Submit submit, Cancel cancel, Trade trade, OrderSnapshot state):
    """Give the fields that the desk reads as it reads them; `clob.matcher.chooser` compares."""
    return (
        (order.id, order.token, order.maker, order.side, order.price, order.size),
        (order.time_in_force, order.expiration_s, order.self_trade, order.nonce),
        (order.collateral, order.fee_rate_bps, order.smart_wallet),
        (submit.now_ms, submit.market, submit.order),
        (submit.client_id, submit.order_hash, submit.deadline_ms),
        (cancel.now_ms, cancel.market, cancel.order_id, cancel.maker),
        (trade.seq, trade.resting_order_id, trade.price, trade.size, trade.resting_remaining),
        (trade.incoming_side, trade.buyer_fee, trade.seller_fee, trade.token),
        (state.remaining, state.filled_collateral, state.client_id, state.order_hash, state.given),
        (state.number, state.accepted_ms, state.maker),
        msgspec.structs.astuple(new_order(Order, state, order.token, order.maker)),
    )
