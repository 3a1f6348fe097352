"""Lists in pages: how much is asked for, and where they go on."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from clob import (
    Batch,
    Matcher,
    OrderAdded,
    OrderRemoved,
    RejectedError,
    RemovalReason,
    Submit,
)
from clob.status import OrderRecord
from clob_server.api.options import wrong
from clob_server.api.problems import Headers
from clob_server.core.commands import AnyCommand
from clob_server.core.sequencer import Committed

CURSOR_MAX: Final = 2**53
"""What a cursor is below."""
DIGITS_MAX: Final = 17
"""How many digits a number in a query may have."""


def read_number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """Read an integer in a query.

    Raises:
        ApiError: INVALID_FIELD, it is none or out of range.
    """
    given = query.get(name)
    if given is None:
        return default
    if given.isascii() and given.isdigit() and len(given) <= DIGITS_MAX:
        number = int(given)
        if least <= number <= most:
            return number
    raise wrong(name, f"must be an integer from {least} to {most}", given)


def next_page(path: str, query: Mapping[str, object], cursor: int) -> Headers:
    """Say where a list goes on.

    Args:
        path: the path of the list.
        query: what it was asked with, but for the cursor; None is what it was not asked with.
            Nothing in it needs to be quoted.
        cursor: where the next page begins.
    """
    asked = "&".join(f"{name}={value}" for name, value in query.items() if value is not None)
    link = f'<{path}?{asked}&cursor={cursor}>; rel="next"'
    return ((b"link", link.encode()), (b"x-next-cursor", b"%d" % cursor))


Names = dict[str, None]
"""Ids in the sequence of acceptance."""


class Where(msgspec.Struct, frozen=True, gc=False):
    """Where an order rests."""

    market: str
    """In which market."""
    maker: str
    """Whose it is."""


class RestingIds:
    """The names of the orders that rest.

    Args:
        matcher: whose orders.
        records: all that rest, in the sequence of acceptance; None asks the matcher.
    """

    def __init__(self, matcher: Matcher, records: Iterable[OrderRecord] | None = None) -> None:
        self._matcher: Final = matcher
        self._all: Final[dict[str, Where]] = {}
        self._of_market: Final[dict[str, Names]] = {}
        self._of_maker: Final[dict[str, Names]] = {}
        for record in matcher.open_orders() if records is None else records:
            self._add(str(record.order.id), record.market, record.order.maker)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._all)

    def on_batch(self, batch: Sequence[Committed]) -> None:
        """Follow a committed batch."""
        for done in batch:
            if done.outcome and not isinstance(done.outcome, RejectedError):
                self._follow(done.command, done.outcome)

    def page(
        self, maker: str | None, market: str | None, after: int, count: int
    ) -> list[OrderRecord]:
        """Give the next resting orders in the sequence of acceptance.

        Args:
            maker: whose; None is everybody's.
            market: where; None is everywhere.
            after: the number of the order that was the last before; 0 is the beginning.
            count: how many at most.

        About 4 ms for 500 where 100,000 rest.
        """
        names = self._names(maker, market)
        first = bisect_right(names, after, key=self._number) if after else 0
        return [self._matcher.order(name) for name in names[first : first + count]]

    def _names(self, maker: str | None, market: str | None) -> list[str]:
        """Give the names that pass."""
        if maker is None:
            return list(self._all if market is None else self._of_market.get(market, ()))
        names = self._of_maker.get(maker, {})
        if market is None:
            return list(names)
        where = self._all
        return [name for name in names if where[name].market == market]

    def _number(self, name: str) -> int:
        """Give the number of an order that rests."""
        return self._matcher.order(name).number

    def _follow(self, command: AnyCommand, events: Sequence[object]) -> None:
        """Follow what came of a command."""
        moved: Names = {}
        makers: dict[str | int, str] | None = None
        for event in events:
            if type(event) is OrderRemoved:
                if event.reason is RemovalReason.REPLACED:
                    moved[str(event.order_id)] = None
                else:
                    self._drop(str(event.order_id))
            elif type(event) is OrderAdded:
                name = str(event.order_id)
                moved.pop(name, None)
                if name not in self._all:
                    if type(command) is Submit:
                        maker = command.order.maker
                    else:
                        makers = makers_of(command) if makers is None else makers
                        maker = makers[event.order_id]
                    self._add(name, event.market, maker)
        for name in moved:  # replaced, and traded away
            self._drop(name)

    def _add(self, name: str, market: str, maker: str) -> None:
        """Have one more."""
        self._all[name] = Where(market, maker)
        self._of_market.setdefault(market, {})[name] = None
        self._of_maker.setdefault(maker, {})[name] = None

    def _drop(self, name: str) -> None:
        """Have one less."""
        where = self._all.pop(name)
        for names, key in ((self._of_market, where.market), (self._of_maker, where.maker)):
            of_key = names[key]
            del of_key[name]
            if not of_key:
                del names[key]


def makers_of(command: AnyCommand) -> dict[str | int, str]:
    """Tell whose orders a command brings in, by their ids."""
    submits = command.commands if type(command) is Batch else ()
    return {each.order.id: each.order.maker for each in submits if type(each) is Submit}


# MERGED clob_server.http.pagination: The orders that rest, in the sequence of acceptance, by maker and by market: for lists of them.
#
# It follows the engine, and holds names only. A page costs a walk over names, never over orders.
