"""Wrong servers: alterations of the answers of a right one, and the checks that find them."""

import re

from tests.testing.altering_proxy import Alterations

SHORT_S = 5
"""Longest wait for a message that a wrong server never sends."""
AMOUNTS = {"makerAmount", "takerAmount", "filledAmount"}
BOOK = re.compile(r"/api/markets/[^/]+/orderbook")
TRADES = re.compile(r"/api/markets/[^/]+/trades")
ORDER = re.compile(r"/api/orders/[^/]+")


def walked(value, change):
    """Return JSON with ``change(name, value)`` applied to each field of each object."""
    if isinstance(value, dict):
        return {name: change(name, walked(each, change)) for name, each in value.items()}
    if isinstance(value, list):
        return [walked(each, change) for each in value]
    return value


class Fields(Alterations):
    """Alters fields of all answers and messages; ``change`` is a method of the subclass."""

    def answer(self, method, path, body, reply):
        reply.body = walked(reply.body, self.change)

    def message(self, message):
        return walked(message, self.change)


class FloatPrices(Fields):
    """Prices are floats."""

    caught_by = ("book.prices-are-integers", "trades.fields", "feed.trade")

    def change(self, name, value):
        return value + 0.0 if name == "price" and isinstance(value, int) else value


class NumericAmounts(Fields):
    """Amounts of orders are JSON numbers."""

    caught_by = ("create.amounts-are-strings", "create.resource-fields")

    def change(self, name, value):
        return int(value) if name in AMOUNTS else value


class NumericSizes(Fields):
    """Sizes are JSON numbers."""

    caught_by = (
        "book.sizes-are-strings",
        "trades.sizes-are-strings",
        "match.trade-summaries",
        "feed.amounts-are-strings",
    )

    def change(self, name, value):
        return int(value) if name == "size" and isinstance(value, str) else value


class Seconds(Fields):
    """Times are in seconds."""

    caught_by = (
        "create.timestamp-is-in-milliseconds",
        "book.last-update-is-in-milliseconds",
        "trades.fields",
        "feed.trade",
    )

    def change(self, name, value):
        return value // 1000 if name in ("timestamp", "lastUpdate") else value


class LowerCaseAddresses(Fields):
    """Addresses are in lower case."""

    caught_by = ("create.maker-is-checksummed",)

    def change(self, name, value):
        return value.lower() if name == "maker" and isinstance(value, str) else value


class BidsAscending(Alterations):
    """Bids are sorted by rising price."""

    caught_by = ("book.bids-descending",)

    def answer(self, method, path, body, reply):
        if BOOK.fullmatch(path) and reply.status == 200:
            reply.body["bids"].reverse()


class AsksDescending(Alterations):
    """Asks are sorted by falling price."""

    caught_by = ("book.asks-ascending",)

    def answer(self, method, path, body, reply):
        if BOOK.fullmatch(path) and reply.status == 200:
            reply.body["asks"].reverse()


class SidesSwapped(Alterations):
    """Bids and asks are exchanged."""

    caught_by = ("create.sides-are-the-right-way-round",)

    def answer(self, method, path, body, reply):
        if BOOK.fullmatch(path) and reply.status == 200:
            book = reply.body
            book["bids"], book["asks"] = book["asks"], book["bids"]


class TradesOldestFirst(Alterations):
    """Trades are listed with the oldest first."""

    caught_by = ("trades.newest-first",)

    def answer(self, method, path, body, reply):
        if TRADES.fullmatch(path) and reply.status == 200:
            reply.body.reverse()


class LimitIgnored(Alterations):
    """The limit of a list of trades has no effect."""

    caught_by = ("trades.limit", "trades.limit-out-of-range")

    def request(self, method, path, query, body):
        return ("" if TRADES.fullmatch(path) else query), body


class RejectsWith200(Alterations):
    """Rejections have status 200."""

    caught_by = ("reject.side", "reject.changes-nothing", "cancel.second-cancel-is-rejected")

    def answer(self, method, path, body, reply):
        if method != "GET":
            reply.status = 200


class WrongCode(Alterations):
    """An invalid amount is rejected with another code."""

    caught_by = ("reject.zero-amount", "reject.fractional-amount")

    def answer(self, method, path, body, reply):
        if reply.status == 422 and reply.body["code"] == "INVALID_AMOUNT":
            reply.body["code"] = "INVALID_FIELD"


class WithoutFieldOfTheError(Alterations):
    """Rejections do not name the field."""

    caught_by = ("reject.problem-names-the-field",)

    def answer(self, method, path, body, reply):
        if reply.status == 422:
            reply.body["errors"] = []


class UnknownFieldsIgnored(Alterations):
    """Unknown fields of an order are ignored."""

    caught_by = ("reject.unknown-field", "precedence.unknown-fields-before-known")

    def request(self, method, path, query, body):
        if method == "POST" and path == "/api/orders" and isinstance(body, dict):
            body = {name: body[name] for name in body if name not in ("colour", "makerAmmount")}
        return query, body


class ExpirationBeforeSignature(Alterations):
    """An expired order with an invalid signature is rejected as expired."""

    caught_by = ("precedence.signature-before-expiration",)

    def answer(self, method, path, body, reply):
        is_expired = isinstance(body, dict) and body.get("expiration") == 1_700_000_000
        if reply.status == 422 and is_expired:
            reply.body["code"] = "ORDER_EXPIRED"


class DuplicatesAccepted(Alterations):
    """The same signed order again is answered as a new order."""

    caught_by = ("create.duplicate-returns-the-first-response",)

    def answer(self, method, path, body, reply):
        if isinstance(reply.body, dict) and reply.body.pop("duplicate", False):
            reply.body["orderId"] = "ord_1700000000_aaaaaa"


class PartialIsOpen(Fields):
    """Orders that were filled in part stay open."""

    caught_by = ("match.partial-status",)

    def change(self, name, value):
        return "open" if name == "status" and value == "partial" else value


class CancelledStaysListed(Alterations):
    """The list of open orders has cancelled ones as well."""

    caught_by = ("create.list-has-open-orders-only",)

    def __init__(self):
        self.cancelled = []

    def answer(self, method, path, body, reply):
        if method == "DELETE" and reply.status == 200:
            self.cancelled.append(reply.body)
        if (method, path, reply.status) == ("GET", "/api/orders", 200):
            reply.body += [each for each in self.cancelled if self.is_of(each, reply.body)]

    def is_of(self, order, others):
        return any(each["maker"] == order["maker"] for each in others)


class StaleBook(Alterations):
    """A book is cached for ever."""

    caught_by = ("book.seq-rises-with-events", "match.partial-fill")

    def __init__(self):
        self.known = {}

    def answer(self, method, path, body, reply):
        if BOOK.fullmatch(path) and reply.status == 200:
            book = reply.body["marketId"], reply.body["tokenId"]
            reply.body = self.known.setdefault(book, reply.body)


class FeedGap(Alterations):
    """Orders at a price are missing in the feed."""

    caught_by = ("feed.no-gap", "feed.changes-make-the-book")

    def message(self, message):
        is_missing = message["type"] == "order_added" and message["data"]["price"] == 44
        return None if is_missing else message


class FeedRenumbered(Alterations):
    """Numbers of events rise by two."""

    caught_by = ("feed.no-gap",)

    def message(self, message):
        return message | {"seq": 2 * message["seq"]} if "seq" in message else message


class EmptySnapshot(Alterations):
    """Snapshots have no levels."""

    caught_by = ("feed.snapshot-first", "feed.changes-make-the-book")

    def message(self, message):
        if message["type"] == "orderbook":
            message["data"] |= {"bids": [], "asks": []}
        return message


class NoPong(Alterations):
    """A ping is not answered."""

    timeout_s = SHORT_S
    caught_by = ("feed.ping",)

    def message(self, message):
        return None if message["type"] == "pong" else message


class NoHeartbeat(Alterations):
    """No heartbeats are sent."""

    timeout_s = SHORT_S
    caught_by = ("feed.heartbeat",)

    def message(self, message):
        return None if message["type"] == "heartbeat" else message


class ExtendedForAll(Alterations):
    """Plain clients receive other types as well."""

    caught_by = ("feed.plain-client-receives-four-types",)

    def message(self, message):
        return message | {"type": "order_gone"} if message["type"] == "order_removed" else message


WRONG = [kind for kind in vars().values() if isinstance(kind, type) and hasattr(kind, "caught_by")]
"""All of them."""
