"""Random flow for a book: calls, records, and the translation of one record into one call.

Everything is drawn from one seed, so that a failure can be repeated. A :class:`Flow` reads a book,
so that most of its commands are valid.
"""

import random  # noqa: TID251 - seeded, and outside the engine
from typing import NamedTuple

import msgspec
import numpy as np

from clob import SIZE_MAX, ClobError, Order, RemovalReason, SelfTrade, Side, TimeInForce
from clob.errors import InvalidInstructionError, InvalidKindError
from clob.order import maker_of
from clob.records import EVENT, SELF_TRADE_SHIFT, Flag, Kind

START_MS = 1_700_000_000_000
TOKEN = "101"
MAKERS = ["", "", "owner:1", "owner:2", "owner:3", "0xA11CE", "0xB0B", "owner:01", "owner:"]
OWNERS = [0, 0, 1, 2, 3, 2**31 - 1]
POLICIES = [None, *SelfTrade]
INT64 = (-(2**63), 2**63 - 1)
KNOWN_BITS = 0b11_0111_0011
"""The known flags; a plain integer, so that ``~`` inverts every bit."""


class Market(NamedTuple):
    """Parameters of a book and of its flow."""

    name: str
    lo: int
    hi: int
    lot_wei: int = 1
    capacity: int = 0
    depth: int = 300
    """Number of resting orders that the flow tends to."""
    spread: float = 3.0
    """Average distance of prices from the middle, in ticks."""
    jump: float = 0.001
    """Probability that the middle jumps anywhere on the grid."""
    ids: tuple[str, ...] = ("running", "text")

    def make(self, book_class):
        """Create an empty book."""
        return book_class(self.lo, self.hi, TOKEN, self.lot_wei, self.capacity, "m")


class Call(NamedTuple):
    """One call of a book."""

    method: str
    arguments: tuple

    def __call__(self, book):
        """Make the call."""
        attribute = getattr(book, self.method)
        return attribute(*self.arguments) if callable(attribute) else attribute

    def __repr__(self):
        """Return the call as source code."""
        return f"book.{self.method}({', '.join(map(repr, self.arguments))})"


def outcome(call, book):
    """Make a call; return its result, or the type and text of its error."""
    try:
        return call(book)
    except (ClobError, TypeError, ValueError) as error:
        return type(error).__name__, str(error)


# ----- one record as one call ----------------------------------------------------------------


def as_call(fields, lot_wei):
    """Translate a record into the equivalent call.

    Args:
        fields: one row of ``events.tolist()``; its time must not be negative.
        lot_wei: the lot of the book.

    Returns:
        A call; or the class of the rejection if no call is equivalent; or None if the record is
        skipped.
    """
    row = dict(zip(EVENT.names, fields, strict=True))
    kind, order_id, size = row["kind"], row["order_id"], row["size"] * lot_wei
    now_ms, flags = row["ts_ns"] // 1_000_000, row["flags"]
    if kind in {Kind.TRADE, Kind.FILL, Kind.BBO, Kind.SETTLE}:
        return None
    if kind not in set(Kind) - {Kind.LEVEL}:
        return InvalidKindError
    match kind:
        case Kind.CANCEL:
            return Call("cancel", (order_id, now_ms))
        case Kind.REDUCE:
            return Call("reduce", (order_id, size, now_ms))
        case Kind.CLEAR:
            return Call("clear", ())
    policy = (flags & Flag.SELF_TRADE) >> SELF_TRADE_SHIFT
    post_only, fok = bool(flags & Flag.POST_ONLY), bool(flags & Flag.FOK)
    if flags & ~KNOWN_BITS or policy > max(SelfTrade):
        return InvalidInstructionError
    if fok and (post_only or kind in (Kind.SEED, Kind.REPLACE)):
        return InvalidInstructionError
    if kind == Kind.REPLACE:
        arguments = (order_id, row["price"], size, now_ms, post_only, SelfTrade(policy))
        return Call("replace", arguments)
    tif = TimeInForce.IOC if kind == Kind.IOC else TimeInForce.GTC
    order = Order(
        id=order_id,
        token=TOKEN,
        # An owner number out of range has no name; a maker that is not a string is rejected alike.
        maker=maker_of(row["owner"]) if row["owner"] < 2**31 else None,
        side=Side(row["side"]) if row["side"] < 2 else row["side"],
        price=row["price"],
        size=size,
        time_in_force=TimeInForce.FOK if fok else tif,
        post_only=post_only,
        self_trade=SelfTrade(policy),
    )
    return Call("rest" if kind == Kind.SEED else "submit", (order, now_ms))


# ----- the flow ------------------------------------------------------------------------------


class Flow:
    """An endless stream of random commands for one market."""

    def __init__(self, seed, market, book):
        """Start in the middle of the grid; ``book`` is only read."""
        self.rng = random.Random(seed)
        self.market = market
        self.book = book
        self.now_ms = START_MS
        self.middle = (market.lo + market.hi) // 2
        self.ids = []
        self.fresh = []
        self.count = 0

    def fork(self, seed, book):
        """Return a flow that continues differently, for another book with the same orders."""
        flow = Flow(seed, self.market, book)
        flow.now_ms, flow.middle, flow.count = self.now_ms, self.middle, self.count
        flow.ids = self.ids + self.fresh
        return flow

    def chance(self, share):
        """Return True with this probability."""
        return self.rng.random() < share

    # ----- pieces of a command -----

    def tick(self):
        """Advance the time; return it."""
        self.now_ms += self.rng.choice((0, 0, 1, 50, 400)) if self.chance(0.99) else 3_000
        return self.now_ms

    def price(self, side):
        """Draw a price: mostly passive, sometimes through the middle, rarely anywhere."""
        rng, market = self.rng, self.market
        if self.chance(market.jump):
            self.middle = rng.randint(market.lo, market.hi)
        if self.chance(0.02):
            return rng.choice((market.lo, market.hi, rng.randint(market.lo, market.hi)))
        self.middle += rng.choice((-1, 0, 0, 0, 1))
        self.middle = min(max(self.middle, market.lo), market.hi)
        away = int(rng.expovariate(1 / market.spread)) * (-1 if self.chance(self.crossing()) else 1)
        price = self.middle + (away if side == Side.SELL else -away)
        return min(max(price, market.lo), market.hi)

    def crossing(self):
        """Return the probability that a price crosses the middle; it grows with the book."""
        return 0.1 + 0.25 * min(1.0, len(self.book) / self.market.depth)

    def lots(self):
        """Draw a size in lots."""
        rng = self.rng
        return rng.randint(1, 20) if self.chance(0.995) else rng.choice((100, 10**9, 2**40))

    def new_id(self, *, numeric=False):
        """Draw an id for a new order, sometimes one that was used before."""
        rng = self.rng
        self.count += 1
        if self.ids and self.chance(0.02):
            order_id = rng.choice(self.ids)
            return order_id if isinstance(order_id, int) or not numeric else self.count
        kind = rng.choice(self.market.ids)
        if kind == "text" and not numeric:
            order_id = rng.choice((f"o{self.count}", str(self.count), f"ключ-{self.count}"))
        else:
            order_id = rng.getrandbits(63) if kind == "random" else self.count
        self.fresh.append(order_id)
        return order_id

    def old_id(self):
        """Draw the id of an order that most likely rests, or will in the same batch."""
        if self.fresh and self.chance(0.1):
            return self.rng.choice(self.fresh)
        for _ in range(8):
            if not self.ids:
                break
            index = self.rng.randrange(len(self.ids))
            order_id = self.ids[index]
            if order_id in self.book:
                return order_id
            self.ids[index] = self.ids[-1]
            self.ids.pop()
        return self.rng.choice((0, "gone", self.count + 7, 2**63 - 1, 2**63 + 5, 2**64 - 1))

    def known(self, order_id):
        """Return the lots and price of a resting order; draw them if it has left."""
        if order_id not in self.book:
            return self.lots(), self.middle
        resting = self.book.order(order_id)
        return resting.remaining // self.market.lot_wei, resting.price

    # ----- calls -----

    def order(self):
        """Draw an order."""
        rng = self.rng
        tif = rng.choices(list(TimeInForce), (70, 8, 12, 10))[0]
        rests = tif in (TimeInForce.GTC, TimeInForce.GTD)
        expires = tif is TimeInForce.GTD or self.chance(0.05)
        side = Side(rng.getrandbits(1))
        largest = SIZE_MAX // self.market.lot_wei
        return Order(
            id=self.new_id(),
            token=TOKEN,
            maker=rng.choice(MAKERS),
            side=side,
            price=self.price(side),
            size=self.market.lot_wei * (largest if self.chance(0.001) else self.lots()),
            time_in_force=tif,
            expiration_s=self.now_ms // 1000 + rng.randint(0, rng.choice((3, 300)))
            if expires
            else 0,
            post_only=rests and self.chance(0.1),
            self_trade=rng.choice(POLICIES),
        )

    def call(self):
        """Draw one call, valid or not."""
        now_ms = self.tick()
        self._add_fresh_ids()
        many = len(self.book) / self.market.depth
        weights = (60, 5, 22 * many, 6, 9, 0.1, 0.01, 3)
        method = self.rng.choices(
            ("submit", "rest", "cancel", "reduce", "replace", "expire", "clear", "query"), weights
        )[0]
        match method:
            case "submit":
                arguments = (self.order(), now_ms, *self.trades_max())
            case "rest":
                arguments = (self.order(), now_ms)
            case "cancel":
                arguments = (self.old_id(), now_ms, self.rng.choice(list(RemovalReason)))
            case "reduce" | "replace":
                arguments = self._amended(method, now_ms)
            case "expire":
                arguments = (now_ms,)
            case "clear":
                arguments = ()
            case _:
                return self._query(now_ms)
        call = Call(method, arguments)
        return self.spoiled(call) if self.chance(0.06) else call

    def _amended(self, method, now_ms):
        """Draw the arguments of ``reduce`` or ``replace``."""
        order_id = self.old_id()
        lots, price = self.known(order_id)
        size = self.market.lot_wei * self.rng.randint(1, max(1, lots + 1 - (method == "reduce")))
        if method == "reduce":
            return order_id, size, now_ms
        if self.chance(0.6):
            price = self.price(self.rng.choice(list(Side)))
        others = self.chance(0.1), self.rng.choice(POLICIES), *self.trades_max()
        return order_id, price, size, now_ms, *others

    def trades_max(self):
        """Draw a limit on trades, mostly none."""
        return (self.rng.choice((1, 1, 2, 3, 10, None)),) if self.chance(0.2) else ()

    def _query(self, now_ms):
        """Draw a call that changes nothing."""
        return self.rng.choice(
            (
                Call("depth", (self.rng.choice((None, 0, 1, 5)),)),
                Call("order", (self.old_id(),)),
                Call("ahead", (self.old_id(),)),
                Call("number_of", (self.old_id(),)),
                Call("id_of", (self.rng.choice((1, 2**63 + self.rng.randrange(9), 2**64)),)),
                Call("simulate", (self.order(), now_ms, *self.trades_max())),
                Call("ids", ()),
                Call("__contains__", (self.old_id(),)),
                Call("__contains__", (self.rng.choice((1.0, True, None, b"a", -1, 2**64)),)),
                Call("__len__", ()),
                Call("best_bid", ()),
                Call("best_ask", ()),
                Call("__repr__", ()),
            )
        )

    def spoiled(self, call):
        """Put wrong values into a call, often several, so that the order of rules matters."""
        rng, arguments = self.rng, list(call.arguments)
        if call.method in ("submit", "rest") and self.chance(0.8):
            wrong = WRONG | {
                "id": (*WRONG["id"], *(self.old_id() for _ in range(4))),
                "price": (*WRONG["price"], self.market.lo - 1, self.market.hi + 1),
            }
            fields = rng.sample(list(wrong), rng.choice((1, 1, 2, 3)))
            changes = {field: rng.choice(wrong[field]) for field in fields}
            arguments[0] = msgspec.structs.replace(arguments[0], **changes)
        else:
            for index in range(len(arguments)):
                if self.chance(0.5):
                    arguments[index] = rng.choice(WRONG_VALUES)
        return Call(call.method, tuple(arguments))

    # ----- records -----

    def records(self, count):
        """Draw an array of ``EVENT``, most of them valid when executed in order."""
        self._add_fresh_ids()
        return np.array([self._record() for _ in range(count)], EVENT)

    def _add_fresh_ids(self):
        """Add the ids drawn last to those that may rest."""
        self.ids += self.fresh
        self.fresh.clear()

    def _record(self):
        """Draw one record."""
        rng, now_ns = self.rng, self.tick() * 1_000_000
        many = len(self.book) / self.market.depth
        kinds = (Kind.LIMIT, Kind.CANCEL, Kind.REDUCE, Kind.IOC, Kind.REPLACE, Kind.SEED)
        others = (Kind.CLEAR, Kind.BBO, Kind.LEVEL)
        weights = (55, 22 * many, 6, 9, 9, 3, 0.01, 0.5, 0.2)
        kind = rng.choices(kinds + others, weights)[0]
        side, lots = rng.getrandbits(1), self.lots()
        price = self.price(side)
        if kind in (Kind.CANCEL, Kind.REDUCE, Kind.REPLACE):
            order_id = self.old_id()
            rest, at = self.known(order_id)
            if isinstance(order_id, str):
                resting = order_id in self.book
                order_id = self.book.number_of(order_id) if resting else 2**63 + 3
            lots = rng.randint(1, min(max(1, rest + (kind == Kind.REPLACE)), 2**62))
            price = at if self.chance(0.4) else price
        else:
            order_id = self.new_id(numeric=True)
        flags = rng.choice((0, 0, 1, 2, 3, 4)) << SELF_TRADE_SHIFT
        if kind in (Kind.LIMIT, Kind.REPLACE) and self.chance(0.08):
            flags |= Flag.POST_ONLY
        elif kind in (Kind.LIMIT, Kind.IOC) and self.chance(0.1):
            flags |= Flag.FOK
        flags |= rng.choice((0, 0, 0, Flag.SNAPSHOT, Flag.SYNTHETIC))
        owner = rng.choice(OWNERS)
        row = [now_ns, 0, self.count, order_id, lots, owner, price, 0, kind, side, flags]
        if self.chance(0.05):
            position, values = rng.choice(WRONG_FIELDS)
            row[position] = rng.choice(values)
        return tuple(row)


WRONG = {
    "id": ("", -1, 2**63, 2**64, None, 1.0, True, [], b"a"),
    "token": ("102", "", None),
    "maker": (None, 5, b"0xA11CE"),
    "side": (2, 0, "BUY", None, True),
    "price": (-1, -(2**31), 2**31, 2**64, "50", 50.0, True, None),
    "size": (0, -1, 2**96, 2**200, 1.5, "5", True, None),
    "time_in_force": (9, 0, "GTC", None),
    "expiration_s": (-1, 1, 2**63, 2**70, 1.5, None),
    "post_only": (1, None, "yes"),
    "self_trade": (7, 0, True, "NONE"),
}
WRONG_VALUES = (None, -1, 0, 2**63, 2**64, 2**200, "", "gone", 1.5, True, [], b"a")
WRONG_FIELDS = (
    (3, (0, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1)),
    (4, (0, -1, *INT64)),
    (5, (2**31, 2**32 - 1)),
    (6, (0, -1, -(2**31), 2**31 - 1)),
    (8, (7, 8, 15, 16, 17, 19, 255)),
    (9, (2, 255)),
    (10, (1 | 2, 4, 8, 128, 5 << 4, 7 << 4, 1024, 2**15, 2**16 - 1)),
)
"""Index of a field in a record, and values of it that are mostly wrong."""
