"""The Matcher: every market behind one door, commands in and events out.

What happens behind the door stands in :mod:`clob.matcher.engine` and the modules it leads to.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import overload

import msgspec

from clob.book import Book
from clob.commands import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    Command,
    Expire,
    Reduce,
    Replace,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
    Single,
    Submit,
)
from clob.depth import Ahead, Depth
from clob.errors import RejectedError, UnknownOrderError
from clob.events import Event, Rejected, Trade
from clob.market import Balance, Limits, Market, Mode
from clob.matcher import compiled as compiled
from clob.matcher import complementary, queries, rejections
from clob.matcher import snapshot as _snapshots
from clob.matcher.engine import Engine
from clob.order import Order, SelfTrade
from clob.status import OrderRecord


class CommandMethods(ABC):
    """What a matcher can be asked, without writing the command."""

    @abstractmethod
    def _do(self, command: Single) -> list[Event]:
        """Execute one command."""

    # ----- orders --------------------------------------------------------------------------

    def submit(
        self,
        market: str,
        order: Order,
        now_ms: int = 0,
        *,
        client_id: str | None = None,
        order_hash: bytes | None = None,
        deadline_ms: int | None = None,
    ) -> list[Event]:
        """Match an order, and rest what is left of it; see :class:`clob.Submit`."""
        return self._do(
            Submit(
                market=market,
                order=order,
                now_ms=now_ms,
                client_id=client_id,
                order_hash=order_hash,
                deadline_ms=deadline_ms,
            )
        )

    def cancel(
        self, order_id: str | int, now_ms: int = 0, *, maker: str | None = None
    ) -> list[Event]:
        """Take an order out of its book; see :class:`clob.Cancel`."""
        return self._do(Cancel(order_id=order_id, maker=maker, now_ms=now_ms))

    def cancel_all(
        self, now_ms: int = 0, *, maker: str | None = None, market: str | None = None
    ) -> list[Event]:
        """Take out all orders of a maker, of a market, or both; see :class:`clob.CancelAll`."""
        return self._do(CancelAll(maker=maker, market=market, now_ms=now_ms))

    def reduce(
        self, order_id: str | int, size: int, now_ms: int = 0, *, maker: str | None = None
    ) -> list[Event]:
        """Make an order smaller where it stands; see :class:`clob.Reduce`."""
        return self._do(Reduce(order_id=order_id, size=size, maker=maker, now_ms=now_ms))

    def replace(
        self,
        order_id: str | int,
        price: int,
        size: int,
        now_ms: int = 0,
        *,
        post_only: bool = False,
        self_trade: SelfTrade | None = None,
        maker: str | None = None,
    ) -> list[Event]:
        """Give an order another price or size; see :class:`clob.Replace`."""
        return self._do(
            Replace(
                order_id=order_id,
                price=price,
                size=size,
                post_only=post_only,
                self_trade=self_trade,
                maker=maker,
                now_ms=now_ms,
            )
        )

    def set_nonce(self, maker: str, nonce: int, now_ms: int = 0) -> list[Event]:
        """Raise a maker's nonce; see :class:`clob.SetNonce`."""
        return self._do(SetNonce(maker=maker, nonce=nonce, now_ms=now_ms))

    def expire(self, now_ms: int) -> list[Event]:
        """Take out what has expired; see :class:`clob.Expire`."""
        return self._do(Expire(now_ms=now_ms))

    # ----- markets and limits --------------------------------------------------------------

    def add_market(self, market: Market, now_ms: int = 0) -> list[Event]:
        """Open a market; see :class:`clob.AddMarket`."""
        return self._do(AddMarket(market=market, now_ms=now_ms))

    def set_market(self, market: Market, now_ms: int = 0) -> list[Event]:
        """Change the terms of a market; see :class:`clob.SetMarket`."""
        return self._do(SetMarket(market=market, now_ms=now_ms))

    def set_mode(self, market: str, mode: Mode, now_ms: int = 0) -> list[Event]:
        """Change what a market allows; see :class:`clob.SetMode`."""
        return self._do(SetMode(market=market, mode=mode, now_ms=now_ms))

    def set_limits(self, limits: Limits, now_ms: int = 0) -> list[Event]:
        """Change how much of everything is allowed; see :class:`clob.SetLimits`."""
        return self._do(SetLimits(limits=limits, now_ms=now_ms))

    # ----- funds ---------------------------------------------------------------------------

    def set_balance(self, wallet: str, asset: str, amount: int, now_ms: int = 0) -> list[Event]:
        """State what a wallet has of an asset; see :class:`clob.SetBalance`."""
        return self._do(SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=now_ms))

    def settled(self, market: str, trades: Sequence[int], now_ms: int = 0) -> list[Event]:
        """Say that trades were settled; see :class:`clob.Settled`."""
        return self._do(Settled(market=market, trades=tuple(trades), now_ms=now_ms))

    def settle_failed(
        self,
        market: str,
        trade: int,
        now_ms: int = 0,
        *,
        wallet: str | None = None,
        reason: str = "",
    ) -> list[Event]:
        """Say that a trade cannot be settled; see :class:`clob.SettleFailed`."""
        return self._do(
            SettleFailed(market=market, trade=trade, wallet=wallet, reason=reason, now_ms=now_ms)
        )


class Replayed(msgspec.Struct, frozen=True):
    """What came of a stream of commands."""

    applied: int
    """How many were executed."""
    refused: dict[str, int]
    """How many were refused, by the code of the refusal."""
    events: int
    """How many events there were."""


class Matcher(CommandMethods):
    """Markets with a YES and a NO token, their orders and, where wanted, their accounts.

    Deterministic: the same commands give the same events and the same :meth:`state_hash`, on any
    machine and any Python. It reads no clock and draws no ids; both come with the commands. One
    call at a time; it is no safer between threads than a dict that two of them change.

    >>> from clob import Market, Matcher, Order, Side
    >>> matcher = Matcher()
    >>> matcher.add_market(Market(id="rain", yes="101", no="102"))
    []
    >>> ask = Order(id="a", token="101", maker="0xA11CE", side=Side.SELL, price=50, size=60)
    >>> bid = Order(id="b", token="101", maker="0xB0B", side=Side.BUY, price=55, size=100)
    >>> [type(event).__name__ for event in matcher.submit("rain", ask, now_ms=1_000)]
    ['OrderAdded']
    >>> trade, removed, added = matcher.submit("rain", bid, now_ms=2_000)
    >>> (trade.price, trade.size, matcher.order("b").status, matcher.order("a").status)
    (50, 60, OrderStatus.PARTIAL, OrderStatus.FILLED)
    """

    def __init__(self) -> None:
        self._desk = self._make_desk()
        if type(self).apply is Matcher.apply:
            # The door itself, without a step on the way to it.
            self.apply = self._desk.apply  # type: ignore[method-assign]

    def _make_desk(self) -> Engine:
        """Make an empty desk."""
        return Engine(Book)

    # ----- the door ------------------------------------------------------------------------

    @overload
    def apply(self, command: Single) -> list[Event]: ...
    @overload
    def apply(self, command: Batch) -> list[Event | Rejected]: ...

    def apply(self, command: Command) -> list[Event] | list[Event | Rejected]:
        """Execute one command: the only way in which anything changes.

        Args:
            command: any of :mod:`clob.commands`.

        Returns:
            What happened, oldest first. Each event bears the next ``seq`` of its market. A batch
            that is not atomic has a :class:`~clob.Rejected` where one of its commands was refused.

        Raises:
            RejectedError: a rule refuses the command, and nothing changed; the first one in
                :mod:`clob.errors` that does.
            MatcherBusyError: another call is under way, or one was broken off by an error that is no
                refusal (want of memory, an interrupt). Then restore from a snapshot.
        """
        return self._desk.apply(command)  # type: ignore[no-any-return]

    def _do(self, command: Single) -> list[Event]:
        """Execute one command."""
        return self.apply(command)

    def batch(
        self, commands: Sequence[Command], now_ms: int = 0, *, atomic: bool = False
    ) -> list[list[Event] | RejectedError]:
        """Execute several commands about orders, and give the result of each.

        Args:
            commands: ``Submit``, ``Cancel``, ``CancelAll``, ``Reduce`` and ``Replace``, at most
                ``Limits.batch_max`` of them. Their own times are not looked at.
            now_ms: the time of all of them, Unix milliseconds.
            atomic: if one is refused, none is done, and its refusal is raised with its ``index``.

        Returns:
            For each command its events, or what it was refused for.

        Raises:
            RejectedError: as :meth:`apply` for a :class:`~clob.Batch`.

        The cost of an atomic batch does not depend on the depth of the books, unless a command
        other than the last trades, reduces or replaces: then the books of its market are copied.
        """
        command = Batch(commands=tuple(commands), now_ms=now_ms, atomic=atomic)  # type: ignore[arg-type]
        self.apply(command)
        results: list[list[Event] | RejectedError] = self._desk.results
        return results

    def replay(self, commands: Iterable[Command]) -> Replayed:
        """Execute a stream of commands, going on after refusals.

        Args:
            commands: in the sequence in which they were applied the first time, refused ones
                included.

        Returns:
            How many were applied, and how many refused for which reason.
        """
        return Replayed(*self._desk.replay(commands))

    # ----- what would be -------------------------------------------------------------------

    def check(self, command: Command) -> RejectedError | None:
        """Say what a command would be refused for, or None; nothing changes.

        Args:
            command: any; a batch that is not atomic is looked at as a whole only.

        As costly as :meth:`apply`; an atomic batch is executed and taken back.
        """
        return queries.refusal_of(self._desk, command)

    def simulate(self, command: Submit) -> list[Trade]:
        """Say which trades a submission would get, fees included; nothing changes.

        Raises:
            RejectedError: what :meth:`apply` would raise.
        """
        return queries.simulate(self._desk, command)

    def fork(self) -> "Matcher":
        """Make an independent copy with the same state. O(everything), by way of a snapshot."""
        return type(self).restore(self.snapshot())

    __copy__ = fork

    def __deepcopy__(self, memo: object) -> "Matcher":
        """Make an independent copy, as :meth:`fork` does."""
        return self.fork()

    # ----- state ---------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Write the whole state as canonical bytes; :meth:`restore` reads them. O(everything)."""
        return _snapshots.snapshot(self._desk)

    @classmethod
    def restore(cls, state: bytes) -> "Matcher":
        """Make a matcher with the state of a snapshot; what follows is as if it had never stopped.

        Raises:
            InvalidSnapshotError: the bytes are no snapshot of this version, or a damaged one.
        """
        matcher = cls()
        _snapshots.restore(matcher._desk, state)
        return matcher

    def state_hash(self) -> bytes:
        """Hash the whole state, BLAKE2b of 32 bytes; equal hashes mean equal futures."""
        return _snapshots.state_hash(self._desk)

    def audit(self) -> None:
        """Check all invariants. O(everything).

        Raises:
            InvariantError: one is broken, which is a bug of this package.
        """
        queries.audit(self._desk)

    # ----- markets -------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The time of the last command applied, Unix milliseconds."""
        return self._desk.now_ms

    @property
    def limits(self) -> Limits:
        """How much of everything is allowed."""
        return self._desk.limits

    @property
    def markets(self) -> list[Market]:
        """The markets as they are now, in the sequence in which they were added."""
        return [venue.market for venue in self._desk.venues.values()]

    def market(self, market: str) -> Market:
        """Give a market as it is now.

        Raises:
            UnknownMarketError: there is none of this id.
        """
        return rejections.venue_of(self._desk, market).market

    def seq(self, market: str) -> int:
        """Give the number of the last event of a market; 0 before the first.

        Raises:
            UnknownMarketError: there is none of this id.
        """
        return rejections.venue_of(self._desk, market).turn.seq

    def depth(self, market: str, token: str | None = None, limit: int | None = None) -> Depth:
        """Take a picture of a book, with the ``seq`` of its market.

        Args:
            market: the market.
            token: one of its two tokens; None is YES.
            limit: how many levels of each side at most, best first; None is all.

        Raises:
            UnknownMarketError: there is none of this id.
            TokenNotInMarketError: the market has no such token.
            ValueError: the limit is negative.
        """
        venue = rejections.venue_of(self._desk, market)
        picture = rejections.book_of(venue, venue.yes if token is None else token).depth(limit)
        if token == venue.no and venue.complementary:
            picture = complementary.mirrored_depth(picture, venue.no)
        return msgspec.structs.replace(picture, seq=venue.turn.seq)

    def unsettled(self, market: str) -> list[int]:
        """List the ``seq`` of the trades of a market that wait to be settled, oldest first.

        Raises:
            UnknownMarketError: there is none of this id.
        """
        return list(rejections.venue_of(self._desk, market).pending)

    # ----- orders --------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many orders rest."""
        books = (b for v in self._desk.venues.values() for b in (v.yes_book, v.no_book))
        return sum(map(len, books))

    def __repr__(self) -> str:
        """Say how much there is of it."""
        return f"<Matcher: {len(self.markets)} markets, {len(self)} orders, now_ms={self.now_ms}>"

    def __bool__(self) -> bool:
        """A matcher is something, also without orders."""
        return True

    def order(self, order_id: str | int) -> OrderRecord:
        """Give all that is known of an order, resting or finished and still readable.

        Raises:
            UnknownOrderError: there is none of this id.
        """
        entry = self._desk.entries.get(order_id)
        if entry is None:
            raise UnknownOrderError(f"there is no order {order_id!r}")
        return queries.record_of(entry)

    def order_by_hash(self, order_hash: bytes) -> OrderRecord:
        """Give an order by the hash of the signed order, 32 bytes.

        Raises:
            UnknownOrderError: there is none, or its details are gone.
        """
        entry = self._desk.used.get(order_hash)
        if entry is None or type(entry) is tuple:
            raise UnknownOrderError(f"there is no order of the hash 0x{bytes(order_hash).hex()}")
        return queries.record_of(entry)

    def order_by_client_id(self, maker: str, client_id: str) -> OrderRecord:
        """Give an order by what its maker calls it.

        Raises:
            UnknownOrderError: there is none, or its details are gone.
        """
        entry = self._desk.clients.get((maker, client_id))
        if entry is None:
            raise UnknownOrderError(f"maker {maker!r} has no order that is called {client_id!r}")
        return queries.record_of(entry)

    def is_used(self, order_hash: bytes) -> bool:
        """Say whether a signed order was accepted before and could still be valid."""
        return order_hash in self._desk.used

    def open_orders(self, maker: str | None = None, market: str | None = None) -> list[OrderRecord]:
        """List resting orders in the sequence of acceptance.

        Args:
            maker: whose; None is everybody's.
            market: where; None is everywhere.

        Raises:
            UnknownMarketError: there is no such market.
        """
        entries = queries.open_orders(self._desk, maker, market)
        return [queries.record_of(entry) for entry in entries]

    def ahead(self, order_id: str | int) -> Ahead:
        """Say what stands in front of a resting order at its price. O(orders in front).

        Raises:
            UnknownOrderError: there is none of this id, or it is finished.
        """
        entry = self._desk.entries.get(order_id)
        if entry is None or not entry.resting:
            raise UnknownOrderError(f"no order {order_id!r} rests")
        venue = entry.trader.venue
        return rejections.book_of(venue, entry.order.token).ahead(order_id)

    @property
    def next_expiry_s(self) -> int | None:
        """The Unix second after which ``Expire`` has something to do; None is never."""
        return queries.next_expiry_s(self._desk)

    # ----- makers and wallets ----------------------------------------------------------------

    def nonce(self, maker: str) -> int:
        """Give the lowest nonce a maker's orders may have; 0 where it was never raised."""
        return self._desk.nonces.get(maker, 0)

    def balance(self, wallet: str, asset: str) -> Balance:
        """Give what a wallet has of an asset, reserves and unsettled trades beside it."""
        return queries.balance_of(self._desk.accounts.get((wallet, asset)))

    def balances(self) -> dict[tuple[str, str], Balance]:
        """Give all accounts that are not empty, by wallet and asset, sorted. O(accounts)."""
        accounts = sorted(self._desk.accounts.items())
        seen = {key: queries.balance_of(account) for key, account in accounts}
        return {key: balance for key, balance in seen.items() if balance != Balance(0, 0, 0)}


# MERGED clob.matcher: The commands as methods of a matcher, each one line over the door.
#
# What they do, and what refuses them, stands with the command of the same name.
