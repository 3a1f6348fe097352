"""The matcher: all markets behind one interface, commands in and events out."""

from collections.abc import Callable, Iterable, KeysView, Sequence
from typing import overload

import msgspec

from clob.book import Book
from clob.commands import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    CancelSome,
    Command,
    Expire,
    Reduce,
    RemoveMarket,
    Reopen,
    ReopenedTrade,
    Replace,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
    Single,
    SpentHash,
    Submit,
)
from clob.depth import Ahead, Depth
from clob.errors import MatcherBusyError, RejectedError, UnknownOrderError
from clob.events import Event, Rejected, Trade
from clob.market import Balance, Limits, Market, Mode
from clob.matcher import compiled as compiled  # first: it may switch the others to their source
from clob.matcher import complementary, queries, rejections
from clob.matcher import snapshot as _snapshots
from clob.matcher.amend import states_of
from clob.matcher.engine import Engine
from clob.matcher.handlers import HANDLERS
from clob.order import Order, SelfTrade, Side
from clob.status import OrderRecord


class Replayed(msgspec.Struct, frozen=True):
    """Counts of a replayed stream of commands."""

    applied: int
    """Number of executed commands."""
    rejected: dict[str, int]
    """Number of rejected commands by error code."""
    events: int
    """Number of events."""


class Matcher:
    """Markets with a YES and a NO token, their orders and, optionally, accounts.

    Deterministic: the same commands produce the same events and the same :meth:`state_hash` on any
    machine and any Python. Times and ids are part of the commands; the matcher reads no clock and
    draws no random numbers. Not thread-safe: during a call, and after one that an exception other
    than ``RejectedError`` interrupted, every call and every read raises ``MatcherBusyError``.

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
        self._engine = self._make_engine()
        if type(self).apply is Matcher.apply:
            # Unless overridden, apply is the engine's own method: one call less per command.
            self.apply = self._engine.apply  # type: ignore[method-assign]

    def _make_engine(self) -> Engine:
        """Return an empty engine; tests override it to choose another kind."""
        return Engine(Book, HANDLERS)

    @property
    def _idle(self) -> Engine:
        """The engine, for reading; raise ``MatcherBusyError`` if a change may be incomplete."""
        if self._engine.busy:
            raise MatcherBusyError
        return self._engine

    # ----- execution -----------------------------------------------------------------------

    @overload
    def apply(self, command: Single) -> list[Event]: ...
    @overload
    def apply(self, command: Batch) -> list[Event | Rejected]: ...

    def apply(self, command: Command) -> list[Event] | list[Event | Rejected]:
        """Execute one command. Every change of state goes through this method.

        Args:
            command: any of :mod:`clob.commands`.

        Returns:
            The events, oldest first, each with the next ``seq`` of its market. For a batch that is
            not atomic, a :class:`~clob.Rejected` in place of each rejected command.

        Raises:
            RejectedError: the command breaks a rule and nothing changed. If it breaks several, the
                one that comes first in :mod:`clob.errors`.
            MatcherBusyError: another call is running, or an earlier one was interrupted by an
                exception other than ``RejectedError`` (such as ``MemoryError``); then restore a
                snapshot.
        """
        return self._engine.apply(command)  # type: ignore[no-any-return]

    def batch(
        self, commands: Sequence[Command], now_ms: int = 0, *, atomic: bool = False
    ) -> list[list[Event] | RejectedError]:
        """Execute several commands about orders and return the result of each.

        Args:
            commands: ``Submit``, ``Cancel``, ``CancelAll``, ``CancelSome``, ``Reduce`` and
                ``Replace``, at most ``Limits.batch_max`` of them. Their own times are ignored.
            now_ms: the time of all of them, Unix milliseconds.
            atomic: execute all or none; the first rejection is raised with its ``index``.

        Returns:
            For each command its events, or the error that rejected it.

        Raises:
            RejectedError: as :meth:`apply` for a :class:`~clob.Batch`.

        The cost of an atomic batch does not depend on the depth of the books, unless a command
        other than the last trades, reduces or replaces: then the books of its market are copied.
        """
        command = Batch(commands=tuple(commands), now_ms=now_ms, atomic=atomic)  # type: ignore[arg-type]
        self.apply(command)
        results: list[list[Event] | RejectedError] = self._engine.results
        return results

    def replay(self, commands: Iterable[Command]) -> Replayed:
        """Execute a stream of commands, continuing after rejections.

        Args:
            commands: the commands in their original sequence, rejected ones included.

        Returns:
            The number of applied commands, and of rejected ones by code.
        """
        return Replayed(*self._engine.replay(commands))

    # ----- commands about orders -----------------------------------------------------------

    def submit(
        self,
        market: str,
        order: Order,
        now_ms: int = 0,
        *,
        client_id: str | None = None,
        order_hash: bytes | None = None,
        deadline_ms: int | None = None,
        attachment: bytes | None = None,
    ) -> list[Event]:
        """Match an order and rest its remainder; see :class:`clob.Submit`."""
        return self.apply(
            Submit(
                market=market,
                order=order,
                now_ms=now_ms,
                client_id=client_id,
                order_hash=order_hash,
                deadline_ms=deadline_ms,
                attachment=attachment,
            )
        )

    def cancel(
        self, order_id: str | int, now_ms: int = 0, *, maker: str | None = None
    ) -> list[Event]:
        """Cancel an order; see :class:`clob.Cancel`."""
        return self.apply(Cancel(order_id=order_id, maker=maker, now_ms=now_ms))

    def cancel_all(
        self, now_ms: int = 0, *, maker: str | None = None, market: str | None = None
    ) -> list[Event]:
        """Cancel all orders of a maker, of a market, or both; see :class:`clob.CancelAll`."""
        return self.apply(CancelAll(maker=maker, market=market, now_ms=now_ms))

    def cancel_some(
        self,
        now_ms: int = 0,
        *,
        maker: str | None = None,
        market: str | None = None,
        token: str | None = None,
        side: Side | None = None,
        accepted_until_ms: int | None = None,
    ) -> list[Event]:
        """Cancel the orders that pass every filter; see :class:`clob.CancelSome`."""
        return self.apply(
            CancelSome(
                maker=maker,
                market=market,
                token=token,
                side=side,
                accepted_until_ms=accepted_until_ms,
                now_ms=now_ms,
            )
        )

    def reduce(
        self, order_id: str | int, size: int, now_ms: int = 0, *, maker: str | None = None
    ) -> list[Event]:
        """Reduce an order, which keeps its place in the queue; see :class:`clob.Reduce`."""
        return self.apply(Reduce(order_id=order_id, size=size, maker=maker, now_ms=now_ms))

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
        """Change the price or size of an order; see :class:`clob.Replace`."""
        return self.apply(
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
        return self.apply(SetNonce(maker=maker, nonce=nonce, now_ms=now_ms))

    def expire(self, now_ms: int) -> list[Event]:
        """Remove expired orders; see :class:`clob.Expire`."""
        return self.apply(Expire(now_ms=now_ms))

    # ----- commands about markets and limits -----------------------------------------------

    def add_market(self, market: Market, now_ms: int = 0) -> list[Event]:
        """Add a market; see :class:`clob.AddMarket`."""
        return self.apply(AddMarket(market=market, now_ms=now_ms))

    def set_market(self, market: Market, now_ms: int = 0) -> list[Event]:
        """Change the terms of a market; see :class:`clob.SetMarket`."""
        return self.apply(SetMarket(market=market, now_ms=now_ms))

    def set_mode(self, market: str, mode: Mode, now_ms: int = 0) -> list[Event]:
        """Change the mode of a market; see :class:`clob.SetMode`."""
        return self.apply(SetMode(market=market, mode=mode, now_ms=now_ms))

    def remove_market(self, market: str, now_ms: int = 0) -> list[Event]:
        """Remove a resolved market; see :class:`clob.RemoveMarket`."""
        return self.apply(RemoveMarket(market=market, now_ms=now_ms))

    def set_limits(self, limits: Limits, now_ms: int = 0) -> list[Event]:
        """Change the limits; see :class:`clob.SetLimits`."""
        return self.apply(SetLimits(limits=limits, now_ms=now_ms))

    # ----- commands about funds ------------------------------------------------------------

    def set_balance(self, wallet: str, asset: str, amount: int, now_ms: int = 0) -> list[Event]:
        """Set the balance of a wallet in an asset; see :class:`clob.SetBalance`."""
        return self.apply(SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=now_ms))

    def settled(self, market: str, trades: Sequence[int], now_ms: int = 0) -> list[Event]:
        """Mark trades as settled; see :class:`clob.Settled`."""
        return self.apply(Settled(market=market, trades=tuple(trades), now_ms=now_ms))

    def settle_failed(
        self,
        market: str,
        trade: int,
        now_ms: int = 0,
        *,
        wallet: str | None = None,
        reason: str = "",
    ) -> list[Event]:
        """Mark the settlement of a trade as failed; see :class:`clob.SettleFailed`."""
        return self.apply(
            SettleFailed(market=market, trade=trade, wallet=wallet, reason=reason, now_ms=now_ms)
        )

    def reopen(
        self, market: str, trades: Sequence[ReopenedTrade], now_ms: int = 0, *, settled: bool
    ) -> list[Event]:
        """Withdraw the result of trades; see :class:`clob.Reopen`."""
        return self.apply(
            Reopen(market=market, trades=tuple(trades), settled=settled, now_ms=now_ms)
        )

    # ----- trial execution -----------------------------------------------------------------

    def check(self, command: Command) -> RejectedError | None:
        """Return the error that a command would be rejected with, or None; changes nothing.

        Args:
            command: any. Of a batch that is not atomic, the commands inside are not checked.

        Costs as much as :meth:`apply`; an atomic batch is executed and rolled back.
        """
        return queries.rejection_of(self._idle, command)

    def simulate(self, command: Submit, *, check_balance: bool = True) -> list[Trade]:
        """Return the trades a submission would get, fees included; changes nothing.

        Args:
            command: the submission.
            check_balance: whether the order must be covered, in a market with accounts.

        Raises:
            RejectedError: as :meth:`apply`.
        """
        return queries.simulate(self._idle, command, check_balance=check_balance)

    def fork(self) -> "Matcher":
        """Return an independent copy with the same state, through a snapshot. O(state)."""
        return type(self).restore(self.snapshot())

    __copy__ = fork

    def __deepcopy__(self, memo: object) -> "Matcher":
        """Return an independent copy; see :meth:`fork`."""
        return self.fork()

    def __reduce__(self) -> tuple[Callable[[bytes], "Matcher"], tuple[bytes]]:
        """Return :meth:`restore` and the snapshot, for pickle."""
        return type(self).restore, (self.snapshot(),)

    # ----- state ---------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the whole state as canonical bytes for :meth:`restore`. O(state)."""
        return _snapshots.snapshot(self._idle)

    @classmethod
    def restore(cls, state: bytes | memoryview, *, check_hash: bool = True) -> "Matcher":
        """Return a matcher with the state of a snapshot, which continues as the original would.

        Args:
            state: the bytes, or a read-only view of them, such as of a mapped file. The matcher
                reads resting orders there later, so that the content must stay as it is.
            check_hash: whether to compare the hash at the end of the bytes, a tenth of the time; a
                caller that checks them on its own can skip it.

        Raises:
            InvalidSnapshotError: the bytes are not a snapshot of this version, are damaged, or are
                not those that :meth:`snapshot` would return for the state.
        """
        matcher = cls()
        _snapshots.restore(matcher._engine, state, check_hash=check_hash)
        return matcher

    def state_hash(self) -> bytes:
        """Return a BLAKE2b hash of the whole state, 32 bytes.

        Matchers with equal hashes respond equally to all further commands. O(state).
        """
        return _snapshots.state_hash(self._idle)

    def audit(self) -> None:
        """Check all invariants. O(state).

        Raises:
            InvariantError: an invariant is broken, which is a bug of this package.
        """
        queries.audit(self._idle)

    # ----- markets -------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The time of the last applied command, Unix milliseconds."""
        return self._idle.now_ms

    @property
    def limits(self) -> Limits:
        """The current limits."""
        return self._idle.limits

    @property
    def markets(self) -> list[Market]:
        """The markets with their current terms, in the order in which they were added."""
        return [market_state.market for market_state in self._idle.markets.values()]

    def market(self, market: str) -> Market:
        """Return a market with its current terms.

        Raises:
            UnknownMarketError: no market has this id.
        """
        return rejections.find_market(self._idle, market).market

    def market_of(self, token: str) -> Market | None:
        """Return the market of a token; None if no market has it."""
        name = self._idle.tokens.get(token)
        return None if name is None else self._engine.markets[name].market

    def seq(self, market: str) -> int:
        """Return the number of the last event of a market; 0 before the first.

        Raises:
            UnknownMarketError: no market has this id.
        """
        return rejections.find_market(self._idle, market).seq_book.seq

    def depth(self, market: str, token: str | None = None, limit: int | None = None) -> Depth:
        """Return the depth of a book, with the ``seq`` of its market.

        Args:
            market: id of the market.
            token: one of its two tokens; None means YES.
            limit: maximum number of levels per side, best first; None means all.

        Raises:
            UnknownMarketError: no market has this id.
            TokenNotInMarketError: the market does not have this token.
            ValueError: the limit is not None or an integer of 0 or more.
        """
        market_state = rejections.find_market(self._idle, market)
        token = market_state.yes if token is None else token
        depth = rejections.find_book(market_state, token).depth(limit)
        if token == market_state.no and market_state.complementary:
            depth = complementary.mirrored_depth(depth, market_state.no)
        return msgspec.structs.replace(depth, seq=market_state.seq_book.seq)

    def unsettled(self, market: str) -> list[int]:
        """Return the ``seq`` of each trade of a market that waits for settlement, oldest first.

        Raises:
            UnknownMarketError: no market has this id.
        """
        return list(rejections.find_market(self._idle, market).pending)

    # ----- orders --------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of resting orders."""
        return len(self._idle.entries) - self._engine.num_finished

    def __contains__(self, order_id: object) -> bool:
        """Return whether an order is known by its id, resting or finished and not yet evicted."""
        return order_id in self._engine.entries

    def __repr__(self) -> str:
        """Show the numbers of markets and orders, and the time."""
        if self._engine.busy:
            return "<Matcher: busy>"
        markets = len(self._engine.markets)
        return f"<Matcher: {markets} markets, {len(self)} orders, now_ms={self.now_ms}>"

    def _repr_html_(self) -> str:
        """Return the first markets with their best prices as a table, for notebooks."""
        return queries.markets_html(self._engine)

    def __bool__(self) -> bool:
        """Return True, also without orders."""
        return True

    def order(self, order_id: str | int) -> OrderRecord:
        """Return the record of an order, resting or finished and not yet evicted.

        Raises:
            UnknownOrderError: no order has this id.
        """
        entry = rejections.find_entry(self._idle, order_id)
        if entry is None:
            raise UnknownOrderError(f"no order {order_id!r}")
        return queries.record_of(entry)

    def order_by_hash(self, order_hash: bytes) -> OrderRecord:
        """Return the record of an order by the hash of the signed order, 32 bytes.

        Raises:
            UnknownOrderError: no order has this hash, or it was evicted.
        """
        entry = self._idle.used_hashes.get(order_hash)
        if entry is None or type(entry) is tuple:
            raise UnknownOrderError(f"no order with hash 0x{bytes(order_hash).hex()}")
        return queries.record_of(self._idle.peek(entry))

    def order_by_client_id(self, maker: str, client_id: str) -> OrderRecord:
        """Return the record of an order by its maker's client id.

        Raises:
            UnknownOrderError: no order has this client id, or it was evicted.
        """
        entry = self._idle.client_ids.get((maker, client_id))
        if entry is None:
            raise UnknownOrderError(f"no order of maker {maker!r} with client_id {client_id!r}")
        return queries.record_of(self._idle.peek(entry))

    @property
    def used_hashes(self) -> KeysView[bytes]:
        """The hashes for which :meth:`is_used` is true: a live view, for lookups without a call."""
        hashes: KeysView[bytes] = self._idle.used_hashes.keys()
        return hashes

    def spent_hashes(self) -> list[SpentHash]:
        """Return the hashes for which :meth:`is_used` is true, with their terms. O(hashes)."""
        return queries.spent_hashes(self._idle)

    def is_used(self, order_hash: bytes) -> bool:
        """Return whether a signed order was accepted before and could still be valid."""
        return order_hash in self._idle.used_hashes

    def open_orders(self, maker: str | None = None, market: str | None = None) -> list[OrderRecord]:
        """Return the records of resting orders in the order of acceptance.

        Args:
            maker: only this maker's orders.
            market: only this market's orders.

        Raises:
            UnknownMarketError: no market has this id.
        """
        return list(map(queries.record_of, queries.open_orders(self._idle, maker, market)))

    def order_ids(self) -> list[str | int]:
        """Return the ids of all known orders in the sequence of a snapshot. O(orders)."""
        return _snapshots.order_ids(self._idle)

    def finished_ids(self) -> list[str | int]:
        """Return the ids of the finished orders that are still readable, the first finished first.

        They are the end of :meth:`order_ids`.
        """
        return _snapshots.finished_ids(self._idle)

    def restored_place(self, order_id: str | int) -> int | None:
        """Return the place of an order in :meth:`order_ids` of the restored snapshot.

        None unless it rests as restored, without a change since.
        """
        found = self._engine.entries.get(order_id)
        return found if type(found) is int else None

    def follow_restored(self, on_change: Callable[[OrderRecord], None]) -> list[OrderRecord]:
        """Follow resting orders without reading those that a snapshot restored.

        Args:
            on_change: called with the record of each such order before the first command that
                changes it; from then on it is like any other order.

        Returns:
            The records of the other resting orders in the order of acceptance.
        """
        self._idle.on_wake = lambda entry: on_change(queries.record_of(entry))
        return list(map(queries.record_of, queries.awake_orders(self._idle)))

    def open_markets(self, maker: str) -> list[str]:
        """Return the ids of the markets in which a maker has resting orders, sorted."""
        return sorted(each.market_state.market.id for each in states_of(self._idle, maker))

    def ahead(self, order_id: str | int) -> Ahead:
        """Return the orders ahead of a resting order at its price. O(orders ahead).

        Raises:
            UnknownOrderError: no order has this id, or it is finished.
        """
        entry = rejections.find_entry(self._idle, order_id)
        if entry is None or not entry.resting:
            raise UnknownOrderError(f"no resting order {order_id!r}")
        market_state = entry.maker_state.market_state
        return rejections.find_book(market_state, entry.order.token).ahead(order_id)

    @property
    def next_expiry_s(self) -> int | None:
        """The earliest expiration in Unix seconds; None if no order expires.

        ``Expire`` removes orders once this second is over.
        """
        return queries.next_expiry_s(self._idle)

    # ----- makers and wallets --------------------------------------------------------------

    def nonce(self, maker: str) -> int:
        """Return the lowest nonce that orders of a maker may have; 0 until it is raised."""
        return self._idle.nonces.get(maker, 0)

    def balance(self, wallet: str, asset: str) -> Balance:
        """Return the balance of a wallet in an asset, with reserved and unsettled amounts."""
        return queries.balance_of(self._idle.accounts.get((wallet, asset)))

    def balances(self, wallet: str | None = None) -> dict[tuple[str, str], Balance]:
        """Return balances that are not zero by wallet and asset, sorted. O(accounts).

        Args:
            wallet: only this wallet's; None for all.
        """
        accounts = self._idle.accounts
        assets = self._engine.assets.get(wallet, ()) if wallet is not None else ()
        keys = accounts if wallet is None else [(wallet, asset) for asset in assets]
        balances = {key: queries.balance_of(accounts[key]) for key in sorted(keys)}
        return {key: each for key, each in balances.items() if each != Balance(0, 0, 0)}
