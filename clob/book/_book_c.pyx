# cython: language_level=3, cdivision=True, embedsignature=True, embedsignature.format=python
"""The compiled Book: the same behaviour as ``_book_py.py``, whose docstrings document both.

One module of several files, from the bottom up: C helpers, structs, price ladder, index, queues,
matching and batch execution are plain C that neither holds the GIL nor raises; functions return 0
or the number of a rejection. The files after ``Book`` is declared work on Python objects. Memory
is reserved before anything changes, so that running out of it leaves the book as it was. Sizes are
counted in lots, as in records.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_ND,
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from clob import errors
from clob import depth as _depth
from clob import events as _events
from clob import order as _order
from clob.book import rejections as _rejections, state as _state_py, validation as _validation
from clob.errors import BookBusyError, FillsFullError, InvariantError, RunRejectedError
from clob.events import RemovalReason

include "c_helpers.pxi"
include "structs.pxi"
include "ladder.pxi"
include "index.pxi"
include "queues.pxi"
include "matching.pxi"
include "batch.pxi"


cdef class Book


include "python.pxi"
include "admission.pxi"
include "commands.pxi"
include "arrays.pxi"
include "queries.pxi"


# No cycle can contain a book: it holds texts and numbers alone. Unknown to the garbage collector,
# the books of many markets do not lengthen its pauses.
@cython.final
@cython.no_gc
cdef class Book:
    """The order book of one outcome token: price-time priority on a grid of integer prices.

    Commands return events; a rejected command raises and changes nothing. This is the compiled
    book; the reference documents every method on its Python twin.
    """

    cdef Core core
    cdef bint busy
    cdef readonly int lo
    """The lowest price of the grid, in ticks."""
    cdef readonly int hi
    """The highest price of the grid, in ticks."""
    cdef readonly str token
    """The token of the book; empty accepts any."""
    cdef readonly str market
    """The market named in events and depth."""
    cdef readonly object lot_wei
    """Every size is a multiple of this, in wei."""
    cdef dict makers
    cdef dict departed
    cdef uint32_t* seen_owners

    def __cinit__(self, lo=1, hi=99, token="", lot_wei=1, capacity=0, market=""):
        cdef Core* core = &self.core
        _validation.check_book(lo, hi, token, lot_wei, capacity, market)
        self.lo, self.hi, self.lot_wei = lo, hi, lot_wei
        self.token, self.market = token, market
        self.makers = {}
        self.departed = {}
        core.lo = lo
        core.num_levels = hi - lo + 1
        core.lot_wei = <u128>lot_wei
        core.lots_max = min(<object>SIZE_MAX // lot_wei, 2**63 - 1)
        core.planned = capacity
        core.top = 1
        core.next_number = FIRST_NUMBER
        core.sides[BUY].best = core.sides[SELL].best = NO_LEVEL
        if capacity:
            self.reserve()

    def __dealloc__(self):
        cdef Core* core = &self.core
        cdef uint64_t slot
        if core.extras != NULL and core.nodes != NULL:
            for slot in range(1, core.top):
                if core.nodes[slot].id != NO_ID and core.nodes[slot].id >= FIRST_NUMBER:
                    Py_XDECREF(core.extras[slot].name)
        for slot in range(core.owners_top):
            Py_XDECREF(core.owners[slot].name)
        core_destroy(core)
        free(core.extras)
        free(core.owners)
        free(core.effects)
        free(core.departed)
        free(self.seen_owners)

    cdef inline int acquire_to_read(self) except -1:
        # For calls that read no memory of an empty book.
        if unlikely(self.busy):
            raise BookBusyError
        self.busy = True
        return 0

    cdef inline int acquire(self) except -1:
        if unlikely(self.core.nodes == NULL):
            self.reserve()
        return self.acquire_to_read()

    cdef int reserve(self) except -1:
        # Allocate the memory of the book, at its first use: most of many markets have no orders.
        if self.seen_owners == NULL:
            self.seen_owners = <uint32_t*>calloc(SEEN_OWNERS, sizeof(uint32_t))
        if self.seen_owners == NULL or not core_create(&self.core):
            core_destroy(&self.core)
            raise MemoryError
        return 0

    def submit(self, order, now_ms=0, trades_max=None):
        """Match an order against the book and rest the remainder."""
        self.acquire()
        try:
            return submit_order(self, order, now_ms, limit_of(trades_max))
        finally:
            self.busy = False

    def rest(self, order, now_ms=0, before=None):
        """Rest an order without matching, for example to restore a snapshot."""
        self.acquire()
        try:
            return rest_order(self, order, now_ms, before)
        finally:
            self.busy = False

    def rest_all(self, ids, rows, makers):
        """Rest several orders without their events."""
        self.acquire()
        try:
            rest_rows(self, ids, rows, makers)
        finally:
            self.busy = False

    def cancel(self, order_id, now_ms=0, reason=RemovalReason.CANCELLED):
        """Remove an order from the book."""
        self.acquire()
        try:
            return cancel_order(self, order_id, now_ms, reason)
        finally:
            self.busy = False

    def reduce(self, order_id, size, now_ms=0):
        """Reduce the size of an order; it keeps its place in the queue."""
        self.acquire()
        try:
            _validation.check_time(now_ms)
            _validation.check_id(order_id)
            _validation.check_size(size, self.lot_wei)
            return reduce_order(self, find_slot(self, order_id), size)
        finally:
            self.busy = False

    def replace(
        self, order_id, price, size, now_ms=0, post_only=False, self_trade=None, trades_max=None
    ):
        """Change the price or size of an order."""
        cdef size_t limit
        self.acquire()
        try:
            _validation.check_time(now_ms)
            _validation.check_policy(post_only, self_trade)
            limit = limit_of(trades_max)
            _validation.check_id(order_id)
            _validation.check_price(price, self.lo, self.hi)
            _validation.check_size(size, self.lot_wei)
            return replace_order(
                self, find_slot(self, order_id), price, size, now_ms // 1000, post_only,
                self_trade or 0, limit
            )
        finally:
            self.busy = False

    def expire(self, now_ms):
        """Remove every order whose expiration has passed."""
        self.acquire_to_read()
        try:
            _validation.check_time(now_ms)
            if self.core.num_expiring == 0:
                return []
            return remove_all(self, True, now_ms // 1000, RemovalReason.EXPIRED)
        finally:
            self.busy = False

    def clear(self, reason=RemovalReason.CANCELLED):
        """Remove every order."""
        self.acquire_to_read()
        try:
            _validation.check_reason(reason)
            return remove_all(self, False, 0, reason)
        finally:
            self.busy = False

    def run(self, events, fills=None, status=None):
        """Execute a batch of records."""
        self.acquire()
        try:
            events, fills, status = _validation.check_arrays(events, fills, status)
            return run_batch(self, events, fills, status)
        finally:
            self.busy = False

    def seed(self, events):
        """Rest a batch of orders without matching."""
        self.acquire()
        try:
            events = _validation.check_seed(events)
            run_batch(self, events, None, None)
            return len(events)
        finally:
            self.busy = False

    def advance(
        self, events, fills, *, status=None, bests=None, kinds=None, differs=None, base=0,
        instrument=None, watch=0, passes=False, verify=False, start=0, stop=None, until_ns=None
    ):
        """Execute a range of a batch, as far as time and room allow."""
        cdef ArrayViews views
        self.acquire()
        views.count = 0
        try:
            fills = acquire_views(&views, events, fills, status, bests, kinds, differs)
            return run_range(
                self, &views, fills, 0, 0, None, base, instrument, watch, passes, verify, start,
                stop, until_ns,
            )
        finally:
            release_views(&views)
            self.busy = False

    @staticmethod
    def _lend(events, fills, *, status=None, bests=None, kinds=None, differs=None):
        """Check arrays once for many calls of _proceed."""
        cdef PreparedArrays arrays = PreparedArrays.__new__(PreparedArrays)
        arrays.fills = acquire_views(&arrays.views, events, fills, status, bests, kinds, differs)
        return arrays

    def _proceed(
        self, arrays, fill_count, best_count, best_limit, base, instrument, watch, passes, verify,
        start, stop, until_ns, /
    ):
        """Execute a range of arrays from _lend."""
        cdef PreparedArrays lent
        self.acquire()
        try:
            if type(arrays) is not PreparedArrays:
                raise TypeError(f"arrays must come from _lend; got {type(arrays).__name__}")
            lent = <PreparedArrays>arrays
            return run_range(
                self, &lent.views, lent.fills, fill_count, best_count, best_limit, base,
                instrument, watch, passes, verify, start, stop, until_ns,
            )
        finally:
            self.busy = False

    def simulate(self, order, now_ms=0, trades_max=None):
        """Return the trades an order would make, without changing the book."""
        self.acquire()
        try:
            return simulate_order(self, order, now_ms, limit_of(trades_max))
        finally:
            self.busy = False

    def fork(self):
        """Return an independent copy with the same state and hash."""
        self.acquire_to_read()
        try:
            return fork_book(self)
        finally:
            self.busy = False

    def __copy__(self):
        """Return an independent copy with the same state and hash."""
        return self.fork()

    def __deepcopy__(self, memo):
        """Return an independent copy with the same state and hash."""
        return self.fork()

    @classmethod
    def restore(cls, state):
        """Return a book with the state of canonical bytes."""
        return _state_py.restore(cls, state)

    def __reduce__(self):
        """Return the state and the ids of departed orders, for pickle."""
        return _state_py.unpickle, (self.state_bytes(), self.departed)

    @property
    def _next_number(self):
        """The number of the next text id."""
        return self.core.next_number

    @_next_number.setter
    def _next_number(self, number):
        """Continue from another number, to restore a state."""
        self.core.next_number = number

    @property
    def _departed(self):
        """The text ids of orders that left during the last run, by number."""
        return self.departed

    @_departed.setter
    def _departed(self, dict departed not None):
        """Set them, to restore a state."""
        self.departed = departed

    @property
    def seq(self):
        """The number of the last event; 0 before the first."""
        self.acquire_to_read()
        self.busy = False
        return self.core.seq

    @seq.setter
    def seq(self, value):
        """Continue from another number, for books that share one sequence."""
        cdef int64_t number
        self.acquire_to_read()
        self.busy = False
        if not as_i64(<PyObject*>value, &number):
            raise ValueError(f"seq must be an integer from 0 to {2**63 - 1}; got {value!r}")
        self.core.seq = <uint64_t>number

    @property
    def best_bid(self):
        """The highest price of a resting buy order, or None."""
        return best_price(self, BUY)

    @property
    def best_ask(self):
        """The lowest price of a resting sell order, or None."""
        return best_price(self, SELL)

    def _best_of_others(self, owner, /):
        """Return the best bid and the best ask of orders of other owners."""
        return best_of_others(self, owner)

    def __len__(self):
        """Return the number of resting orders."""
        self.acquire_to_read()
        self.busy = False
        return num_orders(&self.core)

    def __contains__(self, order_id):
        """Return whether an order rests, by id or number."""
        self.acquire()
        self.busy = False
        if type(order_id) is str:
            hash(order_id)
            return name_find(&self.core, <PyObject*>order_id) != NIL
        if type(order_id) is not int or not 0 <= order_id < 2**64:
            return False
        return index_find(&self.core, order_id) != NIL

    def depth(self, limit=None):
        """Return the price levels of the book."""
        self.acquire_to_read()
        try:
            _validation.check_limit(limit)
            return depth_of(self, limit)
        finally:
            self.busy = False

    def order(self, order_id):
        """Return one resting order."""
        self.acquire()
        try:
            return resting_order(self, find_slot(self, order_id))
        finally:
            self.busy = False

    def orders(self):
        """List all resting orders: bids first, best price first, oldest first."""
        self.acquire_to_read()
        try:
            return [resting_order(self, slot) for slot in resting_slots(self)]
        finally:
            self.busy = False

    def ids(self):
        """List the ids of all resting orders: bids first, best price first, oldest first."""
        self.acquire_to_read()
        try:
            return [order_id_at(self, slot) for slot in resting_slots(self)]
        finally:
            self.busy = False

    def behind(self, order_id):
        """Return the id of the next order in the queue of an order, or None."""
        cdef uint32_t slot
        self.acquire()
        try:
            slot = self.core.nodes[find_slot(self, order_id)].next
            return None if slot == NIL else order_id_at(self, slot)
        finally:
            self.busy = False

    def ahead(self, order_id):
        """Return the number and size of the orders ahead of one in its queue."""
        cdef uint64_t num_orders = 0
        cdef u128 lots
        self.acquire()
        try:
            lots = lots_ahead(&self.core, find_slot(self, order_id), &num_orders)
            return _depth.Ahead(num_orders, total_wei(self, lots))
        finally:
            self.busy = False

    def _lots_ahead(self, order_id, /):
        """Return the lots ahead of an order in its queue, by number; -1 if it does not rest."""
        cdef uint32_t slot
        cdef uint64_t num_orders = 0
        self.acquire()
        self.busy = False
        slot = index_find(&self.core, order_id)
        return -1 if slot == NIL else integer(lots_ahead(&self.core, slot, &num_orders))

    def number_of(self, order_id):
        """Return the number of an order in records."""
        self.acquire()
        try:
            _validation.check_id(order_id)
            if type(order_id) is int and order_id < 2**63:
                return order_id
            return self.core.nodes[find_slot(self, order_id)].id
        finally:
            self.busy = False

    def id_of(self, number):
        """Return the order id of a number in a record."""
        self.acquire()
        try:
            _validation.check_number(number)
            if number < 2**63:
                return number
            if number in self.departed:
                return self.departed[number]
            return order_id_at(self, find_slot(self, number))
        finally:
            self.busy = False

    def check(self):
        """Check all invariants of the book."""
        self.acquire_to_read()
        try:
            check_book(self)
        finally:
            self.busy = False

    def state_bytes(self):
        """Return the whole state as canonical bytes, queue order included."""
        self.acquire_to_read()
        try:
            return state_bytes_of(self)
        finally:
            self.busy = False

    def state_hash(self):
        """Return the 32-byte BLAKE2b hash of the canonical bytes."""
        return _state_py.digest(self.state_bytes())

    def __repr__(self):
        """Draw the ladder of the best ten prices per side."""
        from clob import ladder
        self.acquire_to_read()
        try:
            return ladder.ladder(depth_of(self, None), num_orders(&self.core))
        finally:
            self.busy = False

    def _repr_html_(self):
        """Draw the ladder for a notebook."""
        from clob import ladder
        self.acquire_to_read()
        try:
            return ladder.ladder_html(depth_of(self, None), num_orders(&self.core))
        finally:
            self.busy = False
