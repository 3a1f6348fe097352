"""Everything that a log leads to: the matcher, the registry, and the counts that ids are made of.

It takes the commands of both, in the sequence of the log. The matcher alone makes events.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from clob import (
    AddMarket,
    Batch,
    Cancel,
    Event,
    Matcher,
    Order,
    OrderAdded,
    OrderRemoved,
    PairedTrade,
    Rejected,
    RejectedError,
    RemovalReason,
    Replace,
    SetLimits,
    Submit,
    Trade,
)
from clob.commands import Single
from clob.errors import InvalidSnapshotError
from clob.journal import Outcome
from clob_server.core.commands import SERVER, AnyCommand
from clob_server.core.fills import Fills
from clob_server.core.registry import Registry

_VERSION: Final = 1
_REPLACED: Final = RemovalReason.REPLACED


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """All of an exchange, as a snapshot has it."""

    version: int
    matcher: bytes
    registry: bytes
    num_orders: int
    num_trades: int
    changed_ms: list[tuple[bytes, int]]


class ServerState:
    """The state of a server, changed by commands alone.

    Args:
        matcher: what it begins with; None is one that has seen nothing.
        registry: what it begins with; None is an empty one.
    """

    def __init__(self, matcher: Matcher | None = None, registry: Registry | None = None) -> None:
        self.matcher: Final = Matcher() if matcher is None else matcher
        self.registry: Final = Registry() if registry is None else registry
        self.num_orders: int = 0
        """How many orders were submitted, refused ones included."""
        self.num_trades: int = 0
        """How many trades were made."""
        self.changed_ms: Final[dict[str, int]] = {}
        """When each market last had an event, Unix milliseconds."""
        self._fills: Final = Fills(self.matcher, self.registry)
        self.settles: Final[set[str]] = self._fills.markets
        """The markets whose trades settle on a chain."""
        self._ask: Final = self.matcher.apply
        self._accept: Final = self.registry.accept
        self._finish: Final = self.registry.finish
        self._waiting: Final = self.registry.waiting
        self._finished: Final = self.registry.finished
        self._finished_max = self.matcher.limits.finished_max

    @property
    def now_ms(self) -> int:
        """The latest time of a command that was applied, Unix milliseconds."""
        return max(self.matcher.now_ms, self.registry.now_ms)

    def apply(self, command: AnyCommand) -> Outcome:
        """Execute one command.

        Returns:
            Its events; none for a command of the server.

        Raises:
            RejectedError: a rule refuses it, and nothing changed but the count of orders, and that
                the papers of an order that was refused are gone.
        """
        kind = type(command)
        if kind is Submit:
            self.num_orders += 1
        elif kind is not Cancel:
            return self._apply_other(command)
        try:
            events: list[Event] = self._ask(command)  # type: ignore[arg-type]
        except RejectedError:
            self._waiting.clear()
            raise
        # What follows is _follow with less on the way, for the two that nearly all commands are.
        last = None
        for event in events:
            last = type(event)
            if last is Trade or last is PairedTrade:
                self.num_trades += 1
            elif last is OrderRemoved:
                self._finish(event.order_id)  # type: ignore[union-attr]
        if last is not None:
            self.changed_ms[event.market] = command.now_ms
        if self._waiting:
            if kind is Submit:
                self._accept(command.order.id)  # type: ignore[union-attr]
            self._waiting.clear()
        if last is not None and event.market in self.settles:
            incoming = command.order if kind is Submit else None  # type: ignore[union-attr]
            self._fills.take(events, incoming, self.num_trades, command.now_ms)
        if kind is Submit and last is not OrderAdded:
            self._finish(command.order.id)  # type: ignore[union-attr]
        if len(self._finished) > self._finished_max:
            self.registry.let_go(self._finished_max)
        return events

    def _apply_other(self, command: AnyCommand) -> Outcome:
        """Execute a command that is neither a submission nor a cancel."""
        kind = type(command)
        if kind in SERVER:
            self.registry.apply(command)  # type: ignore[arg-type]
            return ()
        try:
            if kind is Batch and type(command.commands) is tuple:  # type: ignore[union-attr]
                return self._apply_batch(command)  # type: ignore[arg-type]
            events: list[Event] = self._ask(command)  # type: ignore[arg-type]
            self._follow(command, command.now_ms, events)  # type: ignore[arg-type]
            return events
        finally:
            self._waiting.clear()

    def _apply_batch(self, command: Batch) -> list[Event | Rejected]:
        """Execute a batch, each of its commands followed by itself; give the same events."""
        self.num_orders += sum(type(each) is Submit for each in command.commands)
        results = self.matcher.batch(command.commands, command.now_ms, atomic=command.atomic)
        events: list[Event | Rejected] = []
        for index, (each, found) in enumerate(zip(command.commands, results, strict=True)):
            if isinstance(found, RejectedError):
                events.append(Rejected(index, found.code, str(found)))
            else:
                self._follow(each, command.now_ms, found)
                events += found
        return events

    def replay(self, commands: Iterable[AnyCommand]) -> None:
        """Execute commands, whether they are refused or not."""
        apply = self.apply
        for command in commands:
            try:
                apply(command)
            except RejectedError:
                continue

    # ----- what follows from a command ---------------------------------------------------------

    def _follow(self, command: Single, now_ms: int, events: Sequence[Event]) -> None:
        """Count trades, note when which market changed, and follow orders to their end.

        Orders are finished here in the sequence in which the engine finishes them, so that papers
        go when it lets go of their order.
        """
        changed_ms, registry = self.changed_ms, self.registry
        last = None
        for event in events:
            last = type(event)
            if last is Trade or last is PairedTrade:
                self.num_trades += 1
            elif last is OrderRemoved and event.reason is not _REPLACED:  # type: ignore[union-attr]
                registry.finish(event.order_id)  # type: ignore[union-attr]
            changed_ms[event.market] = now_ms
        kind = type(command)
        if kind is Submit:
            order_id = command.order.id  # type: ignore[union-attr]
            if self._waiting:
                registry.accept(order_id)
            if last is not OrderAdded:
                registry.finish(order_id)
        elif kind is Replace:
            if last is not OrderAdded and is_replaced(events[0]):
                registry.finish(command.order_id)  # type: ignore[union-attr]
        elif kind is SetLimits:
            self._finished_max = self.matcher.limits.finished_max
        elif kind is AddMarket and command.market.settles:  # type: ignore[union-attr]
            self.settles.add(command.market.id)  # type: ignore[union-attr]
        if events and self.settles:
            self._fills.take(events, self._incoming(command), self.num_trades, now_ms)
        if len(self._finished) > self._finished_max:
            registry.let_go(self._finished_max)

    def _incoming(self, command: Single) -> Order | None:
        """Give the order of a market that settles which a command brings to a book, if any."""
        if type(command) is Submit:
            return command.order if command.market in self.settles else None
        return self._fills.orders.get(command.order_id) if type(command) is Replace else None

    # ----- snapshots ---------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Write all of it; equal exchanges give equal bytes. O(everything)."""
        kept = _Kept(
            version=_VERSION,
            matcher=self.matcher.snapshot(),
            registry=self.registry.snapshot(),
            num_orders=self.num_orders,
            num_trades=self.num_trades,
            # As bytes, since the engine takes any text for the name of a market.
            changed_ms=sorted(
                (name.encode(errors="surrogatepass"), now_ms)
                for name, now_ms in self.changed_ms.items()
            ),
        )
        return msgspec.msgpack.encode(kept)

    @classmethod
    def restore(cls, state: bytes) -> "ServerState":
        """Make an exchange as it was; what follows is as if it had never stopped.

        Raises:
            InvalidSnapshotError: the bytes are none of :meth:`snapshot`, or of a newer version.
        """
        try:
            kept = msgspec.msgpack.decode(state, type=_Kept)
            registry = Registry.restore(kept.registry)
            changed_ms = {
                name.decode(errors="surrogatepass"): now_ms for name, now_ms in kept.changed_ms
            }
        except (msgspec.MsgspecError, ValueError) as error:
            raise InvalidSnapshotError(f"no snapshot of an exchange: {error}") from None
        if kept.version != _VERSION:
            raise InvalidSnapshotError(f"it is of version {kept.version}, not {_VERSION}")
        made = cls(Matcher.restore(kept.matcher), registry)
        made.num_orders, made.num_trades = kept.num_orders, kept.num_trades
        made.changed_ms.update(changed_ms)
        return made


def is_replaced(event: Event) -> bool:
    """Say whether an order gave up its place, so that what became of it follows."""
    return type(event) is OrderRemoved and event.reason is _REPLACED


def outcome_of(exchange: ServerState, command: AnyCommand) -> Outcome:
    """Do a command, and give its events or its refusal."""
    try:
        return exchange.apply(command)
    except RejectedError as refusal:
        return refusal
