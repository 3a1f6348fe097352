"""Calls every method of a book with random objects and arrays, as a separate program.

``python -m tests.book.hostile python 1 2000`` is the book, the seed and how many calls. It ends
with exit code 0 and the number of calls, or else a book has let something through: a wrong state,
an error that is no Exception, or the end of the interpreter.
"""

import copy
import faulthandler
import importlib
import pickle
import resource
import sys

import numpy as np

from clob import Order, RemovalReason, SelfTrade, Side, TimeInForce
from clob.records import EVENT, FILL, Kind
from tests.books import BOOKS

MEMORY_LIMIT = 8 * 2**30
"""Limit of address space in bytes, so that large allocations raise MemoryError."""

COMMANDS = ("submit", "rest", "cancel", "reduce", "replace", "expire", "clear", "run", "seed")
QUESTIONS = (
    "simulate", "fork", "check", "depth", "order", "orders", "ahead", "number_of", "id_of",
    "state_bytes", "state_hash", "_repr_html_", "__len__", "__contains__", "__repr__", "__init__",
    "__eq__", "__hash__", "__copy__", "__deepcopy__", "__reduce__", "__sizeof__", "__dir__",
)  # fmt: skip
ATTRIBUTES = ("seq", "best_bid", "best_ask", "lo", "hi", "token", "market", "lot_wei", "__dict__")


class Evil:
    """Raises, returns nonsense or calls the book in every special method."""

    def __init__(self, book):
        self.book = book

    def _meddle(self, *_):
        self.book.clear()
        raise RuntimeError("evil")

    __repr__ = __str__ = __hash__ = __eq__ = __index__ = __int__ = __bool__ = __len__ = _meddle
    __iter__ = __array__ = __lt__ = __float__ = __mod__ = __le__ = __ge__ = _meddle


class EvilText(str):
    """A str with its own hash and equality."""

    __slots__ = ()

    def __hash__(self):
        raise RuntimeError("evil")

    def __eq__(self, other):
        raise RuntimeError("evil")


class EvilArray(np.ndarray):
    """An array that reports a wrong length and content."""

    def tolist(self):
        return [None, (), Evil(None)]

    def __len__(self):
        return 10**9

    def __array_finalize__(self, other):
        raise_sometimes(other)


def raise_sometimes(other):
    """Raise when a view of records is taken."""
    if other is not None and getattr(other, "ndim", 1) == 0:
        raise RuntimeError("evil")


class Fuzzer:
    """Draws arguments and makes calls, all from one seed."""

    def __init__(self, book_class, seed):
        self.book_class = book_class
        self.rng = np.random.default_rng(seed)
        self.book = book_class()

    def one_of(self, things):
        """Draw one of several values."""
        return things[int(self.rng.integers(len(things)))]

    def number(self):
        """Draw an integer, usually near a limit."""
        near = self.one_of([0, 1, 50, 99, 2**31, 2**32, 2**62, 2**63, 2**64, 2**96, 2**127, 10**40])
        return self.one_of([1, 1, 1, -1]) * near + int(self.rng.integers(-2, 3))

    def order_id(self):
        """Draw an id that is likely in use."""
        small = int(self.rng.integers(40))
        return self.one_of([small, small, f"id {small}", 2**63 + small, self.number()])

    def junk(self):
        """Draw a value of an unexpected type."""
        return self.one_of(
            [
                None, True, 0.5, float("nan"), float("inf"), 1j, "", "x", "\ud800", "\0",
                "y" * 9_999, b"x", [], [1], {}, {1: 2}, (), (1, 2), set(), object(), type, len,
                lambda *_: None, Evil(self.book), EvilText("x"), Side, Side.BUY,
                Ellipsis, SelfTrade.DECREMENT, TimeInForce.FOK, RemovalReason.FILLED,
                np.int64(5), np.uint8(5), np.float64(0.5),
                np.bool_(True), np.str_("x"), np.datetime64(0, "s"), memoryview(b"xyz"),
                bytearray(9), iter([1]), slice(1), range(3), NotImplemented, self.book,
                self.book_class,
                10**5_000, -(10**5_000), sys, Exception("x"), self.number(), self.order_id(),
            ]
        )  # fmt: skip

    def order(self):
        """Draw an order with mostly valid fields."""
        right = {
            "id": self.order_id(),
            "token": "",
            "maker": self.one_of(["", "a", "b", "owner:1"]),
            "side": self.one_of(list(Side)),
            "price": int(self.rng.integers(40, 60)),
            "size": int(self.rng.integers(1, 20)),
            "time_in_force": self.one_of([TimeInForce.GTC, *TimeInForce]),
            "expiration_s": self.one_of([0, 0, 1, 5, 2**70]),
            "post_only": self.one_of([False, False, True]),
            "self_trade": self.one_of([None, *SelfTrade]),
        }
        for _ in range(self.one_of([0, 0, 1, 2])):
            right[self.one_of(list(right))] = self.one_of([self.junk(), self.number()])
        return Order(**right)

    def records(self, dtype):
        """Draw an array of mostly valid rows or of noise, sometimes with a wrong layout."""
        length = int(self.rng.integers(0, 60))
        if self.rng.random() < 0.3:
            noise = self.rng.integers(0, 256, length * dtype.itemsize, np.uint8)
            return self.bend(noise.view(dtype))
        array = np.zeros(length, dtype)
        if dtype == EVENT:
            array["kind"] = self.rng.integers(0, 8, length)
            array["side"] = self.rng.integers(0, 2, length)
            array["price"] = self.rng.integers(40, 60, length)
            array["size"] = self.rng.integers(-1, 20, length)
            array["order_id"] = self.rng.integers(0, 40, length)
            array["order_id"] += self.rng.integers(0, 2, length).astype(np.uint64) << np.uint64(63)
            array["owner"] = self.rng.integers(0, 3, length)
            array["flags"] = self.one_of([0, 0, 1, 2, 16, 32, 48, 64, 0xFFFF])
        return self.bend(array)

    def bend(self, array):
        """Return an array, sometimes with another layout."""
        match int(self.rng.integers(12)):
            case 0:
                return array[::2]
            case 1:
                return array[::-1]
            case 2:
                return array.reshape(1, -1)
            case 3:
                return array.view(EvilArray)
            case 4:
                array.flags.writeable = False
            case 5:
                return array.astype(array.dtype.newbyteorder(">"))
            case 6:
                raw = np.frombuffer(b"\0" + array.tobytes(), np.uint8)
                return raw[1:].view(array.dtype)
            case 7:
                return array.astype(object)
        return array

    def arguments(self, name):
        """Draw arguments for a method, valid in two of three cases."""
        if self.rng.random() < 0.33:
            return [self.junk() for _ in range(int(self.rng.integers(0, 5)))]
        now_ms = self.one_of([0, 0, 3_000, self.number()])
        match name:
            case "submit" | "rest" | "simulate":
                return [self.order(), now_ms]
            case "reduce":
                return [self.order_id(), self.one_of([1, 2, self.number()]), now_ms]
            case "replace":
                price = int(self.rng.integers(38, 62))
                return [self.order_id(), price, self.one_of([1, 5, self.number()]), now_ms]
            case "run":
                events = self.records(EVENT)
                status = np.zeros(len(events) if events.ndim and type(events) is np.ndarray else 9,
                                  np.uint8)  # fmt: skip
                fills = self.one_of([None, self.records(FILL), self.records(FILL)])
                return [events, fills, self.one_of([status, status, status, None, self.junk()])]
            case "seed":
                events = self.records(EVENT)
                if events.dtype == EVENT and events.flags.writeable:
                    events["kind"] = self.one_of([Kind.SEED, Kind.SEED, Kind.LIMIT])
                return [events]
            case "expire":
                return [now_ms]
            case "__init__":
                size = self.one_of([1, 10, 2**18, 2**31, 2**32])
                return [1, self.one_of([99, 2**18]), "", 1, size]
            case "depth":
                return [self.one_of([None, 0, 3, self.number()])]
            case "clear" | "fork" | "check" | "orders":
                return []
        return [self.order_id()]

    def call(self):
        """Make one call; any Exception is acceptable."""
        if self.rng.random() < 0.01:
            self.book = self.fresh()
        name = self.one_of([*COMMANDS, *COMMANDS, *QUESTIONS])
        if name == "clear" and self.rng.random() < 0.9:
            return
        try:
            getattr(self.book, name)(*self.arguments(name))
        except Exception:
            return

    def fresh(self):
        """Create another book, sometimes after one whose ``__init__`` never ran or failed."""
        try:
            match int(self.rng.integers(4)):
                case 0:
                    return self.unmade()
                case 1:
                    return self.book_class(*(self.junk() for _ in range(3)))
                case 2:
                    return self.book_class(1, 99, "", 1, 2**31)
        except Exception:
            return self.book_class()
        return self.book_class(lot_wei=self.one_of([1, 2, 10]))

    def unmade(self):
        """Call everything on a book that was never initialised; return a valid book."""
        book = self.book_class.__new__(self.book_class)
        for name in (*COMMANDS, *QUESTIONS[:-8]):
            attempt(lambda name=name: getattr(book, name)(*self.arguments(name)))
        for name in ATTRIBUTES:
            attempt(lambda name=name: getattr(book, name))
            attempt(lambda name=name: setattr(self.book, name, self.junk()))
            attempt(lambda name=name: delattr(self.book, name))
        for way in (copy.copy, copy.deepcopy, pickle.dumps, repr, bytes, iter, vars):
            attempt(lambda way=way: way(self.book))
            attempt(lambda way=way: way(book))
        return self.book_class()


def attempt(call):
    """Call, and ignore any Exception."""
    try:
        call()
    except Exception:
        return


def main(name, seed, calls):
    """Make calls, and check the book now and then."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    thrower = Fuzzer(importlib.import_module(BOOKS[name]).Book, int(seed))
    for call in range(int(calls)):
        thrower.call()
        if call % 50 == 0:
            thrower.book.check()
            thrower.book.state_hash()
    sys.stdout.write(f"{calls} calls\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
