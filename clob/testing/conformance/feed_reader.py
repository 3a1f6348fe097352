"""A WebSocket connection of a check, and a book that its messages keep."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, Self

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

from clob.testing.conformance.checks import CheckFailedError, expect
from clob.testing.conformance.session import CheckSession
from clob.testing.conformance.wallet import MarketIds

BOOK_TYPES: Final = frozenset(("orderbook", "order_added", "order_removed", "trade"))
"""The message types of the specification."""
Levels = dict[tuple[str, int], list[int]]
"""Size in wei and number of orders, by ``bids`` or ``asks`` and price."""


class FeedReader:
    """A connection to the feed.

    Args:
        session: the run.

    Raises:
        CheckFailedError: no WebSocket at the address.
    """

    def __init__(self, session: CheckSession) -> None:
        self._timeout_s: Final = session.options.timeout_s
        key = session.options.api_key
        headers = {"X-API-Key": key} if key else None
        self._stack: Final = ExitStack()
        try:
            # Unread messages of a bounded queue would delay closing by ten seconds.
            opening = connect(
                session.ws_url,
                open_timeout=self._timeout_s,
                max_queue=None,
                additional_headers=headers,
                proxy=None,
            )
            self._socket: Final = self._stack.enter_context(opening)
        except (OSError, InvalidHandshake) as error:
            raise CheckFailedError(
                f"WebSocket {session.ws_url}", str(error), "a connection"
            ) from None

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._stack.close()

    def send(self, message: dict[str, Any] | str) -> None:
        """Send a message."""
        self._socket.send(message if isinstance(message, str) else json.dumps(message))

    def subscribe(self, market: MarketIds, **fields: Any) -> None:
        """Subscribe to the order book of a market."""
        self.send({"type": "subscribe", "channel": "orderbook", "marketId": market.id, **fields})

    def text(self, timeout_s: float | None = None) -> str:
        """Return the next message as text.

        Raises:
            CheckFailedError: none in time, or the connection was closed.
        """
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            received = self._socket.recv(timeout=wait_s)
        except TimeoutError:
            raise CheckFailedError(
                "message of the feed", f"none within {wait_s:g} s", "a message"
            ) from None
        except ConnectionClosed as error:
            raise CheckFailedError("message of the feed", str(error), "a message") from None
        return received if isinstance(received, str) else received.decode()

    def next(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the next message."""
        body: dict[str, Any] = json.loads(self.text(timeout_s))
        return body

    def until(
        self, accepts: Callable[[dict[str, Any]], bool], timeout_s: float | None = None
    ) -> list[dict[str, Any]]:
        """Return the messages up to the first accepted one.

        Raises:
            CheckFailedError: none was accepted in time.
        """
        end = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        messages = []
        while True:
            messages.append(self.next(max(end - time.monotonic(), 0.001)))
            if accepts(messages[-1]):
                return messages

    def close_code(self) -> int | None:
        """Return the code with which the server closes the connection; skip messages before.

        Raises:
            CheckFailedError: the server does not close it in time.
        """
        end = time.monotonic() + self._timeout_s
        try:
            while True:
                self._socket.recv(timeout=max(end - time.monotonic(), 0.001))
        except ConnectionClosed as error:
            return error.rcvd.code if error.rcvd else None
        except TimeoutError:
            raise CheckFailedError(
                "connection", f"open after {self._timeout_s:g} s", "closed by the server"
            ) from None


class BookReader:
    """A plain subscription to a market, and the YES book that its messages keep.

    Args:
        feed: the connection.
        market: the market.
    """

    def __init__(self, feed: FeedReader, market: MarketIds) -> None:
        self._feed: Final = feed
        self._market: Final = market
        self.messages: Final[list[dict[str, Any]]] = []
        """All messages after the snapshots."""
        feed.subscribe(market)
        self.snapshot: Final = feed.next()
        """The first message."""
        expect("type of the first message", self.snapshot["type"], "orderbook")
        expect("token of the first snapshot", self.snapshot["tokenId"], str(market.yes))
        feed.until(is_snapshot_of(market.no))
        self._levels: Final = levels_of(self.snapshot["data"])

    def read_until(self, seq: int) -> None:
        """Read messages until one has a number."""
        last = self.messages[-1]["seq"] if self.messages else self.snapshot["seq"]
        if last >= seq:
            return
        for message in self._feed.until(lambda each: each["seq"] >= seq):
            self.messages.append(message)
            if message["tokenId"] == str(self._market.yes):
                apply_message(self._levels, message)

    def levels(self) -> Levels:
        """Return the kept book."""
        return {place: level for place, level in self._levels.items() if level[1]}


def is_snapshot_of(token: int) -> Callable[[dict[str, Any]], bool]:
    """Return a test for the snapshot of a token."""
    return lambda each: each["type"] == "orderbook" and each["tokenId"] == str(token)


def levels_of(book: dict[str, Any]) -> Levels:
    """Return the levels of a book or a snapshot."""
    return {
        (side, level["price"]): [int(level["size"]), level["numOrders"]]
        for side in ("bids", "asks")
        for level in book[side]
    }


def apply_message(levels: Levels, message: dict[str, Any]) -> None:
    """Apply a message to the levels, by the table of ``docs/concepts/feed.md``."""
    data = message["data"]
    kind = message["type"]
    side = 1 - data["incomingSide"] if kind == "trade" else data["side"]
    level = levels.setdefault((("bids", "asks")[side], data["price"]), [0, 0])
    sign = 1 if kind == "order_added" else -1
    level[0] += sign * int(data["size"])
    level[1] += {"order_added": 1, "order_removed": -1}.get(kind, 0)
