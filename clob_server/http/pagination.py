"""Pages of lists: query parameters, cursors, and the index of resting orders.

:class:`RestingIds` follows the commits and holds order ids only. A page costs a walk over ids, not
over orders.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final
from urllib.parse import urlencode

import msgspec

from clob import Batch, Matcher, OrderAdded, OrderRemoved, RejectedError, RemovalReason, Submit
from clob.status import OrderRecord
from clob_server.api.faults import wrong
from clob_server.api.problems import Headers
from clob_server.core.commands import AnyCommand
from clob_server.core.sequencer import Committed

CURSOR_MAX: Final = 2**53
"""Upper bound of cursors, exclusive."""
DIGITS_MAX: Final = 17
"""Longest number in a query, digits."""


def read_number(
    query: Mapping[str, str], name: str, default: int, minimum: int, maximum: int
) -> int:
    """Read an integer in a query."""
    value = query.get(name)
    if value is None:
        return default
    if value.isascii() and value.isdigit() and len(value) <= DIGITS_MAX:
        number = int(value)
        if minimum <= number <= maximum:
            return number
    raise wrong(name, f"must be an integer from {minimum} to {maximum}", value)


def next_page(path: str, query: Mapping[str, object], cursor: int | str) -> Headers:
    """Return the headers that link to the next page; parameters that are None are left out."""
    given = {name: value for name, value in query.items() if value is not None}
    link = f'<{path}?{urlencode({**given, "cursor": cursor})}>; rel="next"'
    return ((b"link", link.encode()), (b"x-next-cursor", str(cursor).encode()))


OrderIds = dict[str, None]
"""Order ids in order of acceptance, as keys."""


class RestingPlace(msgspec.Struct, frozen=True, gc=False):
    """Market and maker of a resting order."""

    market: str
    maker: str


class RestingIds:
    """The ids of the resting orders, by market and by maker, in order of acceptance.

    The orders of a maker are read at the first request for them, and all orders at the first
    request without a maker; from then on the index follows the commits.

    Args:
        matcher: the matcher that holds the orders.
    """

    def __init__(self, matcher: Matcher) -> None:
        self._matcher: Final = matcher
        self._is_complete = False
        self._all: Final[dict[str, RestingPlace]] = {}
        self._of_market: Final[dict[str, OrderIds]] = {}
        self._of_maker: Final[dict[str, OrderIds]] = {}

    def __len__(self) -> int:
        """Return the number of resting orders."""
        return len(self._matcher)

    def on_batch(self, batch: Sequence[Committed]) -> None:
        """Apply a committed batch."""
        for done in batch:
            if done.outcome and not isinstance(done.outcome, RejectedError):
                self._apply(done.command, done.outcome)

    def page(
        self,
        maker: str | None,
        market: str | None,
        after: int,
        count: int,
        accepts: Callable[[OrderRecord], bool] = lambda _: True,
    ) -> list[OrderRecord]:
        """Return the next resting orders in order of acceptance.

        Args:
            maker: only orders of this maker; None selects all.
            market: only orders of this market; None selects all.
            after: number of the last order of the previous page; 0 starts at the beginning.
            count: largest number of orders.
            accepts: further condition.

        About 4 ms for 500 of 100,000 resting orders.
        """
        ids = self._ids(maker, market)
        first = bisect_right(ids, after, key=self._number) if after else 0
        records = (self._matcher.order(order_id) for order_id in islice(ids, first, None))
        return list(islice(filter(accepts, records), count))

    def _ids(self, maker: str | None, market: str | None) -> list[str]:
        """Return the ids that match."""
        self._read(maker)
        if maker is None:
            return list(self._all if market is None else self._of_market.get(market, ()))
        ids = self._of_maker.get(maker, {})
        if market is None:
            return list(ids)
        where = self._all
        return [order_id for order_id in ids if where[order_id].market == market]

    def _read(self, maker: str | None) -> None:
        """Read the orders of a maker, or of all makers, unless the index has them."""
        if self._is_complete or maker in self._of_maker:
            return
        if maker is None:
            self._is_complete = True
            for index in (self._all, self._of_market, self._of_maker):
                index.clear()
        for record in self._matcher.open_orders(maker):
            self._add(str(record.order.id), record.market, record.order.maker)

    def _number(self, order_id: str) -> int:
        return self._matcher.order(order_id).number

    def _apply(self, command: AnyCommand, events: Sequence[object]) -> None:
        """Apply the events of a command."""
        moved: OrderIds = {}
        makers: dict[str | int, str] | None = None
        for event in events:
            if type(event) is OrderRemoved:
                if event.reason is RemovalReason.REPLACED:
                    moved[str(event.order_id)] = None
                else:
                    self._drop(str(event.order_id))
            elif type(event) is OrderAdded:
                order_id = str(event.order_id)
                moved.pop(order_id, None)
                if order_id not in self._all:
                    if type(command) is Submit:
                        maker = command.order.maker
                    else:
                        makers = makers_of(command) if makers is None else makers
                        maker = makers.get(event.order_id, "")
                    if maker in self._of_maker or (maker and self._is_complete):
                        self._add(order_id, event.market, maker)
        for order_id in moved:  # replaced, and filled at once
            self._drop(order_id)

    def _add(self, order_id: str, market: str, maker: str) -> None:
        self._all[order_id] = RestingPlace(market, maker)
        self._of_market.setdefault(market, {})[order_id] = None
        self._of_maker.setdefault(maker, {})[order_id] = None

    def _drop(self, order_id: str) -> None:
        where = self._all.pop(order_id, None)
        if where is None:
            return
        for ids, key in ((self._of_market, where.market), (self._of_maker, where.maker)):
            of_key = ids[key]
            del of_key[order_id]
            if not of_key:
                del ids[key]


def makers_of(command: AnyCommand) -> dict[str | int, str]:
    """Return the makers of the orders that a batch submits, by order id."""
    submits = command.commands if type(command) is Batch else ()
    return {each.order.id: each.order.maker for each in submits if type(each) is Submit}
