"""A naive model of the batch interface, written from the description of ``Book.run`` alone.

One list of orders in order of arrival, searched from end to end each time. It shares no code
with either book, not even the numbers of kinds, flags and rejections.
"""

LIMIT, CANCEL, REDUCE, IOC, REPLACE, CLEAR, SEED = range(7)
RECORDED = (16, 17, 18, 19)
POST_ONLY, FOK, HARMLESS = 1, 2, 256 | 512
CANCEL_RESTING, CANCEL_INCOMING, CANCEL_BOTH, DECREMENT = 1, 2, 3, 4
BUY = 0
(
    INVALID_KIND,
    INVALID_INSTRUCTION,
    INVALID_SIDE,
    INVALID_ORDER_ID,
    INVALID_OWNER,
) = range(2, 7)
PRICE_OUT_OF_RANGE, INVALID_AMOUNT, AMOUNT_TOO_LARGE = range(8, 11)
(
    DUPLICATE_ORDER,
    UNKNOWN_ORDER,
    SIZE_NOT_REDUCED,
    POST_ONLY_WOULD_CROSS,
    SEED_WOULD_CROSS,
    FOK_NOT_FILLABLE,
) = range(12, 18)
DONE = 0


class NaiveBook:
    """A book as a list of lists ``[id, side, price, size, owner]``, the oldest first."""

    def __init__(self, lo, hi, lot_wei=1):
        """Start empty."""
        self.lo, self.hi = lo, hi
        self.largest = (2**96 - 1) // lot_wei
        self.orders = []
        self.fills = []

    def run(self, rows):
        """Execute records given as tuples; return the status of each, and collect the fills.

        Returns:
            The statuses, and the fills as ``(event, resting id, incoming id, size, price)``.
        """
        self.fills = []
        status = [self.execute(index, *row) for index, row in enumerate(rows)]
        return status, self.fills

    def queue(self):
        """List the orders: bids first, best price first, oldest first."""
        bids = [order for order in self.orders if order[1] == BUY]
        asks = [order for order in self.orders if order[1] != BUY]
        # Sorting is stable, so orders of one price stay in order of arrival.
        bids.sort(key=lambda order: -order[2])
        asks.sort(key=lambda order: order[2])
        return [tuple(order) for order in bids + asks]

    def execute(
        self, index, _ts, _recv, _seq, order_id, size, owner, price, _instrument, kind, side, flags
    ):
        """Execute one record, and return its status."""
        if kind in RECORDED:
            return DONE
        if kind > SEED:
            return INVALID_KIND
        if kind == CLEAR:
            self.orders = []
            return DONE
        policy = (flags >> 4) & 7
        if kind not in (CANCEL, REDUCE) and self.contradict(kind, flags, policy):
            return INVALID_INSTRUCTION
        if kind in (LIMIT, IOC, SEED):
            if side not in (0, 1):
                return INVALID_SIDE
            if order_id >= 2**63:
                return INVALID_ORDER_ID
            if owner >= 2**31:
                return INVALID_OWNER
        if kind not in (CANCEL, REDUCE) and not self.lo <= price <= self.hi:
            return PRICE_OUT_OF_RANGE
        if kind != CANCEL and size <= 0:
            return INVALID_AMOUNT
        if kind != CANCEL and size > self.largest:
            return AMOUNT_TOO_LARGE
        old = [order for order in self.orders if order[0] == order_id]
        if kind in (CANCEL, REDUCE, REPLACE):
            if not old:
                return UNKNOWN_ORDER
            return self.amend(index, old[0], size, price, kind, flags, policy)
        return self.enter(index, [order_id, side, price, size, owner], old, kind, flags, policy)

    @staticmethod
    def contradict(kind, flags, policy):
        """Return whether flags are unknown, or contradict each other or the kind."""
        unknown = flags & ~(POST_ONLY | FOK | HARMLESS | 0b111 << 4)
        resting = flags & POST_ONLY or kind in (SEED, REPLACE)
        fleeting = flags & FOK or kind == IOC
        return unknown or policy > DECREMENT or (resting and fleeting)

    def enter(self, index, order, old, kind, flags, policy):
        """Submit a new order."""
        rests = kind != IOC and not flags & FOK
        if rests and old:
            return DUPLICATE_ORDER
        if flags & POST_ONLY and kind == LIMIT and self.best_against(order):
            return POST_ONLY_WOULD_CROSS
        if kind == SEED:
            if self.best_against(order):
                return SEED_WOULD_CROSS
            self.orders.append(order)
            return DONE
        if flags & FOK and not self.fillable(order, policy):
            return FOK_NOT_FILLABLE
        self.match(index, order, policy)
        if rests and order[3]:
            self.orders.append(order)
        return DONE

    def amend(self, index, order, size, price, kind, flags, policy):
        """Cancel, reduce or replace a resting order."""
        if kind == CANCEL:
            self.orders.remove(order)
            return DONE
        if kind == REDUCE:
            if size >= order[3]:
                return SIZE_NOT_REDUCED
            order[3] = size
            return DONE
        if price == order[2] and size < order[3]:
            order[3] = size
            return DONE
        renewed = [order[0], order[1], price, size, order[4]]
        if flags & POST_ONLY and self.best_against(renewed):
            return POST_ONLY_WOULD_CROSS
        self.orders.remove(order)
        self.match(index, renewed, policy)
        if renewed[3]:
            self.orders.append(renewed)
        return DONE

    def best_against(self, order):
        """Return the resting order that an order would match first, or None."""
        _, side, limit, _, _ = order
        if side == BUY:
            reached = [other for other in self.orders if other[1] != BUY and other[2] <= limit]
            return min(reached, key=lambda other: other[2], default=None)
        reached = [other for other in self.orders if other[1] == BUY and other[2] >= limit]
        return max(reached, key=lambda other: other[2], default=None)

    def fillable(self, order, policy):
        """Return whether an order trades completely, tried on a copy."""
        trial = NaiveBook(self.lo, self.hi)
        trial.orders = [list(other) for other in self.orders]
        trial.match(0, list(order), policy)
        return sum(fill[3] for fill in trial.fills) == order[3]

    def match(self, index, order, policy):
        """Match resting orders in sequence; the remainder stays in ``order[3]``."""
        while order[3]:
            other = self.best_against(order)
            if other is None:
                return
            size = min(order[3], other[3])
            if policy and order[4] and order[4] == other[4]:
                if policy == DECREMENT:
                    order[3] -= size
                    other[3] -= size
                if policy in (CANCEL_RESTING, CANCEL_BOTH) or not other[3]:
                    self.orders.remove(other)
                if policy in (CANCEL_INCOMING, CANCEL_BOTH):
                    order[3] = 0
                continue
            order[3] -= size
            other[3] -= size
            self.fills.append((index, other[0], order[0], size, other[2]))
            if not other[3]:
                self.orders.remove(other)
