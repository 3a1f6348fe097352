"""The orders, fills and accounts of a maker, kept by the ``user`` channel; no input and output.

A fill is counted once, by its place in the sequence of all fills, over any number of connections.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import UNSET

from clob.wire.accounts import AssetBalance
from clob.wire.messages import (
    AccountChanged,
    Heartbeat,
    OrderChanged,
    Orders,
    SettlementMessage,
    Subscribed,
    UserFill,
)
from clob.wire.orders import MakerFill, OrderBody

OPEN: Final = ("open", "partial")
"""Status of an order that rests."""

MakerUpdate: TypeAlias = Orders | OrderChanged | UserFill | AccountChanged | SettlementMessage
"""A message of the ``user`` channel."""


class FeedPosition(NamedTuple):
    """A position among the changes of a maker; a program that stores it can continue from it."""

    cursor: str
    """As in a ``fill``; ``0-0`` is before all fills."""
    epoch: int = 0
    """Numbering that the cursor belongs to; see ``subscribed``."""


class MissedFills(NamedTuple):
    """Fills between two cursors that have to be read over HTTP; the first cursor is excluded."""

    after: str
    until: str


class MakerOrders:
    """The open orders, the newest fills and the accounts of a maker.

    Args:
        maker: address of the maker.
        market_id: the only market that is followed; None for all.
        position: position to continue from; None begins with the newest.
        fills_kept: number of fills to keep; None keeps all.
    """

    def __init__(
        self,
        maker: str,
        market_id: str | None = None,
        position: FeedPosition | None = None,
        fills_kept: int | None = 10_000,
    ) -> None:
        self.maker: Final = maker
        self.market_id: Final = market_id
        self.open: Mapping[str, OrderBody] = {}
        """Open orders by id; a new object after each change, so that an iteration sees none."""
        self.fills: Final[deque[MakerFill]] = deque(maxlen=fills_kept)
        """The newest fills, oldest first; their settlement is as of the fill."""
        self.balances: Mapping[str, AssetBalance] = {}
        """Accounts by asset, without an entry empty; a new object after each change."""
        self.position: FeedPosition | None = position
        """Position after which nothing was missed; None before the first ``orders``."""
        self.missed: MissedFills | None = None
        """Fills that :meth:`add_missed` waits for; later fills are held back until then."""
        self._held: list[UserFill] = []
        self._place = -1 if position is None else place_in(position.cursor)
        self._epoch = 0
        self._is_current = False

    def on_subscribed(self, message: Subscribed) -> None:
        """Start or resume; sets :attr:`missed` if the server cannot send all changes again."""
        before, self._epoch = self.position, message.epoch
        self.balances = {}
        self._held.clear()
        self.missed, self._is_current = None, False
        if before is not None and before.epoch != message.epoch:  # restored from a backup
            before = self.position = None
            self.fills.clear()
            self._place = -1
        if not message.resumed and message.cursor is not UNSET:
            if before is None:
                self._place = place_in(message.cursor)
            else:
                self.missed = MissedFills(before.cursor, message.cursor)

    def apply(self, message: MakerUpdate) -> bool:
        """Apply a message.

        Returns:
            False if it is a fill that was applied before, or that is held back.
        """
        if type(message) is UserFill:
            if self.missed is None:
                return self._add_fill(message.data)
            self._held.append(message)
            return False
        if type(message) is OrderChanged:
            self._change(message.data)
        elif type(message) is Orders:
            self.open = {each.id: each for each in message.data}
            self._is_current = self.missed is None
            self._move_to(message.cursor)
        elif type(message) is AccountChanged:
            self.balances = {**self.balances, **{each.asset: each for each in message.data}}
        return True

    def check(self, heartbeat: Heartbeat) -> None:
        """Move the position to that of a heartbeat."""
        if heartbeat.cursor is not UNSET:
            self._move_to(heartbeat.cursor)

    def add_missed(self, fills: Sequence[MakerFill]) -> list[UserFill]:
        """Add the fills that :attr:`missed` names, then those held back; return the new ones."""
        assert self.missed is not None
        until, self.missed = self.missed.until, None
        found = [user_fill(each) for each in fills if place_in(each.cursor) <= place_in(until)]
        held, self._held = self._held, []
        new = [each for each in (*found, *held) if self._add_fill(each.data)]
        self._is_current = True
        self._move_to(max([until, *(each.data.cursor for each in held)], key=place_in))
        return new

    def _add_fill(self, fill: MakerFill) -> bool:
        place = place_in(fill.cursor)
        if place <= self._place:
            return False
        self._place = place
        self.fills.append(fill)
        self._move_to(fill.cursor)
        return True

    def _change(self, order: OrderBody) -> None:
        if order.status in OPEN:
            self.open = {**self.open, order.id: order}
        elif order.id in self.open:
            self.open = {name: each for name, each in self.open.items() if name != order.id}

    def _move_to(self, cursor: str) -> None:
        """Set the position; between ``subscribed`` and ``orders`` changes may be missing."""
        if self._is_current:
            self.position = FeedPosition(cursor, self._epoch)


def place_in(cursor: str) -> int:
    """Return the place of a cursor among all fills."""
    return int(cursor.partition("-")[2])


def user_fill(fill: MakerFill) -> UserFill:
    """Return the message of a fill."""
    return UserFill(
        market_id=fill.market_id,
        token_id=fill.token_id,
        seq=fill.seq,
        timestamp=fill.timestamp,
        data=fill,
    )
