"""The state of a server: the matcher, the registry, and the server's own data about orders.

It changes by commands alone, in log order. Only the matcher makes events.
"""

import struct
import sys
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, repeat
from typing import Any, Final

import msgspec

from clob import (
    AddMarket,
    Batch,
    Cancel,
    Event,
    Market,
    Matcher,
    Mode,
    Order,
    OrderAdded,
    OrderRecord,
    OrderRemoved,
    PairedTrade,
    Rejected,
    RejectedError,
    RemovalReason,
    RemoveMarket,
    Replace,
    ResetClock,
    SetLimits,
    SetMarket,
    SetMode,
    Submit,
    Trade,
)
from clob.commands import Single
from clob.errors import FokNotFillableError, InvalidSnapshotError
from clob.journal import Outcome
from clob_server.core.commands import (
    SERVER,
    AnyCommand,
    OrderCharge,
    RecordOpener,
    RecordRestore,
    SignatureRecord,
)
from clob_server.core.fills import FillBuilder
from clob_server.core.registry import RESTORE_GAP, Registry

TRADES_PER_CHARGE: Final = 100
"""Trades of an order after which it is charged as one more order."""
CHARGE_MS: Final = 60_000
"""How long a created order counts against the budget of its payer."""

_VERSION: Final = 5
_OLDER: Final = (3, 4)
"""The older versions that are read as well."""
_INEXACT: Final = 2
"""The version that is read where the log does not have the commands before the snapshot."""
_NO_ID: Final = -1
"""Stands for a finished order whose id version 2 did not store."""
_ARRAY: Final = 0x90
"""First byte of an array of up to 15 items in MessagePack, without their number."""
_ATTACHMENTS: Final = 8
"""The place of the attachments in a snapshot."""
_CHANGES_MARKET: Final = frozenset({AddMarket, SetMarket, SetMode})
_REPLACED: Final = RemovalReason.REPLACED
_RECORD: Final = msgspec.msgpack.Decoder(SignatureRecord)


class Charged(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Orders that count against a budget."""

    now_ms: int
    """When they were created, Unix milliseconds."""
    payer: bytes
    """The budget."""
    count: int
    """Number of orders; negative if they were given back."""


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The beginning of a snapshot of any version."""

    version: object
    matcher: msgspec.Raw
    registry: bytes


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """The content of a snapshot; its large parts are views of it.

    Texts that the matcher accepts as they are, ids of orders and markets, are stored as bytes.
    """

    version: int
    matcher: memoryview
    registry: bytes
    now_ms: int
    num_orders: int
    num_trades: int
    changed_ms: list[tuple[bytes, int]]
    charges: list[Charged]
    attachments: tuple[memoryview, memoryview]
    """Those of the orders in ``Matcher.order_ids``, see :func:`joined`."""
    finished: list[bytes | int]
    traded: list[bytes]


class OtherVersionError(InvalidSnapshotError):
    """Another version of the server wrote the snapshot."""


class ServerState:
    """The state of a server, changed by commands alone."""

    def __init__(self, matcher: Matcher | None = None, registry: Registry | None = None) -> None:
        self.matcher: Final = Matcher() if matcher is None else matcher
        self.registry: Final = Registry() if registry is None else registry
        self.now_ms: int = max(self.matcher.now_ms, self.registry.now_ms)
        """The latest time of a command that was applied, Unix milliseconds."""
        self.num_orders: int = 0
        """Orders submitted, rejected ones included."""
        self.num_accepted: int = 0
        """Orders accepted since this object was made; not part of a snapshot."""
        self.num_trades: int = 0
        """Trades in all markets."""
        self.changed_ms: Final[dict[str, int]] = {}
        """When each market last had an event, Unix milliseconds."""
        self.markets: Final[dict[str, Market]] = {m.id: m for m in self.matcher.markets}
        """The markets by id, as ``matcher.market`` returns them, in the order of creation."""
        self.openers: Final[dict[str, bytes]] = {}
        """The client of each market that an order opened and that is not resolved."""
        self.num_opened: Final[Counter[bytes]] = Counter()
        """Number of these markets by client."""
        self.traded: Final[set[str]] = set()
        """The markets that had a trade."""
        self.charges: deque[Charged] = deque()
        """The orders created within the last minute, by payer."""
        self.on_recharge: Callable[[bytes, int], None] = lambda payer, count: None
        """Called when an order that was charged is given back (-1) or charged for more."""
        self._payers: deque[bytes | None] = deque()
        self._attachments: dict[str | int, bytes] = {}
        self._restored: memoryview = memoryview(b"")
        self._restored_ends: array[int] = array("Q")
        self._finished: deque[str | int] = deque()
        self._finished_max = self.matcher.limits.finished_max
        self._fills: Final = FillBuilder(self.matcher, self.registry.settling, self.signature)
        self._on_restored: Final[list[Callable[[OrderRecord], None]]] = []
        self.follow_orders(self._keep_attachment)
        self.follow_orders(self._fills.add)
        self.settles: Final[set[str]] = self._fills.markets
        """The markets whose trades settle on a chain."""
        self.used_hashes: Final = self.matcher.used_hashes
        """The hashes of the signed orders that were accepted and may still be valid."""
        self._apply_to_matcher: Final = self.matcher.apply
        for name in self.registry.opened:
            self._count_opened(name)

    def signature(self, order_id: str | int) -> SignatureRecord | None:
        """Return the signature record of an order that the matcher knows; None if it has none."""
        attachment = self._attachment(order_id)
        if not attachment:
            return None
        try:
            return _RECORD.decode(attachment)
        except msgspec.MsgspecError:  # not written by this server
            return None

    def _attachment(self, order_id: str | int) -> bytes:
        """Return the attachment of an order; empty without one."""
        place = self.matcher.restored_place(order_id) if self._restored else None
        if place is None:
            return self._attachments.get(order_id, b"")
        return self._attachment_at(place)

    def _attachment_at(self, place: int) -> bytes:
        return bytes(self._restored[self._restored_ends[place] : self._restored_ends[place + 1]])

    def _keep_attachment(self, record: OrderRecord) -> None:
        """Keep the attachment of an order that a snapshot restored."""
        attachment = self._attachment(record.order.id)
        if attachment:
            self._attachments[record.order.id] = attachment

    def follow_orders(self, add: Callable[[OrderRecord], None]) -> None:
        """Follow the resting orders without reading all that a snapshot restored.

        Args:
            add: called with each of the others now, and with an order of the snapshot before the
                first command that changes it.
        """
        self._on_restored.append(add)
        for record in self.matcher.follow_restored(self._add_restored):
            add(record)

    def _add_restored(self, record: OrderRecord) -> None:
        for add in self._on_restored:
            add(record)

    def apply(self, command: AnyCommand) -> Outcome:
        """Apply one command.

        Returns:
            Its events; none for a command of the server.

        Raises:
            RejectedError: the command was rejected, and nothing changed but the count of orders.
        """
        kind = type(command)
        if kind is Submit:
            self.num_orders += 1
            if self._payers:
                return self._apply_charged(command)  # type: ignore[arg-type]
        elif kind is not Cancel:
            return self._apply_other(command)
        events: list[Event] = self._apply_to_matcher(command)  # type: ignore[arg-type]
        now_ms = command.now_ms
        if now_ms > self.now_ms:
            self.now_ms = now_ms
        self._follow(command, now_ms, events)  # type: ignore[arg-type]
        return events

    def _apply_charged(self, command: Submit) -> Outcome:
        """Apply an order whose charge depends on its outcome."""
        payer = self._payers.popleft()
        try:
            events: list[Event] = self._apply_to_matcher(command)
        except RejectedError as rejection:
            self._recharge(payer, rejection, command.now_ms)
            raise
        self.now_ms = max(self.now_ms, command.now_ms)
        self._follow(command, command.now_ms, events)
        self._recharge(payer, events, command.now_ms)
        return events

    def _apply_other(self, command: AnyCommand) -> Outcome:
        """Apply a command that is neither a ``Submit`` nor a ``Cancel``."""
        kind = type(command)
        outcome: Outcome = ()
        if kind is OrderCharge:
            self._charge(command)  # type: ignore[arg-type]
        elif kind is RecordRestore:
            self._restart(command)  # type: ignore[arg-type]
        elif kind in SERVER:
            self.registry.apply(command)  # type: ignore[arg-type]
            if kind is RecordOpener:
                self._count_opened(command.market)  # type: ignore[union-attr, arg-type]
        elif kind is Batch and type(command.commands) is tuple:  # type: ignore[union-attr]
            outcome = self._apply_batch(command)  # type: ignore[arg-type]
        else:
            outcome = events = self._apply_to_matcher(command)  # type: ignore[arg-type]
            self._follow(command, command.now_ms, events)  # type: ignore[arg-type]
        if kind is ResetClock:
            self._set_time(command.now_ms)
        elif command.now_ms > self.now_ms:
            self.now_ms = command.now_ms
        return outcome

    def _apply_batch(self, command: Batch) -> list[Event | Rejected]:
        """Apply a batch, and follow each of its commands."""
        self.num_orders += sum(type(each) is Submit for each in command.commands)
        try:
            results = self.matcher.batch(command.commands, command.now_ms, atomic=command.atomic)
        except RejectedError as rejection:
            for each in command.commands:
                if self._payers and type(each) is Submit:
                    self._recharge(self._payers.popleft(), rejection, command.now_ms)
            raise
        events: list[Event | Rejected] = []
        for index, (each, result) in enumerate(zip(command.commands, results, strict=True)):
            if self._payers and type(each) is Submit:
                self._recharge(self._payers.popleft(), result, command.now_ms)
            if isinstance(result, RejectedError):
                events.append(Rejected(index, result.code, str(result)))
            else:
                self._follow(each, command.now_ms, result)
                events += result
        return events

    def replay(self, commands: Iterable[AnyCommand]) -> None:
        """Apply commands, going on after rejections."""
        apply = self.apply
        for command in commands:
            try:
                apply(command)
            except RejectedError:
                continue

    # ----- effects of a command ----------------------------------------------------------------

    def _follow(self, command: Single, now_ms: int, events: Sequence[Event]) -> None:
        """Count trades and orders, note when markets changed, and keep or drop attachments.

        Orders finish here in the same order as in the matcher, so that an attachment is dropped
        when the matcher forgets its order.
        """
        last = None
        for event in events:
            last = type(event)
            if last is Trade or last is PairedTrade:
                self.num_trades += 1
                self.traded.add(event.market)
            elif last is OrderRemoved and event.reason is not _REPLACED:  # type: ignore[union-attr]
                self._finish(event.order_id)  # type: ignore[union-attr]
            self.changed_ms[event.market] = now_ms
        kind = type(command)
        if kind is Submit:
            order_id = command.order.id  # type: ignore[union-attr]
            self.num_accepted += 1
            if command.attachment is not None:  # type: ignore[union-attr]
                self._attachments[order_id] = command.attachment  # type: ignore[union-attr]
            if last is not OrderAdded:
                self._finish(order_id)
        elif kind is Cancel:
            pass
        elif kind is Replace:
            if last is not OrderAdded and is_replaced(events[0]):
                self._finish(command.order_id)  # type: ignore[union-attr]
        elif kind is SetLimits:
            self._finished_max = self.matcher.limits.finished_max
        elif kind in _CHANGES_MARKET:
            changed = command.market  # type: ignore[union-attr]
            market = self.matcher.market(changed if isinstance(changed, str) else changed.id)  # type: ignore[union-attr]
            self.markets[market.id] = market
            if market.settles:
                self.settles.add(market.id)
            if market.id in self.registry.opened:
                self._count_opened(market.id)
            if kind is SetMode:
                self.registry.stalls.pop(market.id, None)
        elif kind is RemoveMarket:
            self._remove_market(command.market)  # type: ignore[union-attr, arg-type]
        if events and self.settles:
            self._fills.take(events, self._incoming(command), self.num_trades, now_ms)
        if len(self._finished) > self._finished_max:
            self._forget_finished()

    def _incoming(self, command: Single) -> Order | None:
        """Return the order that a command brings to a book that settles, if any."""
        if type(command) is Submit:
            return command.order if command.market in self.settles else None
        return self._fills.orders.get(command.order_id) if type(command) is Replace else None

    def _finish(self, order_id: str | int) -> None:
        """Note that an order finished."""
        self._finished.append(order_id)

    def _forget_finished(self) -> None:
        """Drop the attachments of the orders that the matcher has forgotten."""
        finished = self._finished
        while len(finished) > self._finished_max:
            self._attachments.pop(finished.popleft(), None)

    def _remove_market(self, name: str) -> None:
        """Drop everything about a market, which the matcher has removed with its orders."""
        del self.markets[name]
        for table in (self.changed_ms, self.registry.words, self.registry.conditions):
            table.pop(name, None)
        self.registry.opened.pop(name, None)
        self.registry.stalls.pop(name, None)
        self._count_opened(name)
        self.traded.discard(name)
        self.settles.discard(name)
        known, finished = self.matcher, list(self._finished)
        self._finished.clear()
        for order_id in finished:
            if order_id in known:
                self._finished.append(order_id)
            else:
                self._attachments.pop(order_id, None)

    def _count_opened(self, name: str) -> None:
        """Count a market for the client whose order opened it, unless it is resolved."""
        if (before := self.openers.pop(name, None)) is not None:
            self.num_opened[before] -= 1
            if not self.num_opened[before]:
                del self.num_opened[before]
        market, opened = self.markets.get(name), self.registry.opened.get(name)
        if market is not None and opened is not None and market.mode is not Mode.RESOLVED:
            self.openers[name] = opened.payer
            self.num_opened[opened.payer] += 1

    def _charge(self, command: OrderCharge) -> None:
        """Count created orders, and forget those of more than a minute ago."""
        charges, now_ms = self.charges, command.now_ms
        self._payers = deque(command.payers)
        for payer, count in command.charges:
            charges.append(Charged(now_ms, payer, count))
        while charges and charges[0].now_ms <= now_ms - CHARGE_MS:
            charges.popleft()

    def _set_time(self, now_ms: int) -> None:
        """Set the time, which may go back: no time in the state stays after it."""
        self.now_ms = now_ms
        self.registry.set_time(now_ms)
        self.charges = deque(each for each in self.charges if each.now_ms <= now_ms)
        for market, changed_ms in self.changed_ms.items():
            self.changed_ms[market] = min(changed_ms, now_ms)

    def _restart(self, command: RecordRestore) -> None:
        """Use no number of the replaced log again, and mark every market as changed."""
        self.registry.apply(command)
        self.num_orders += RESTORE_GAP
        self.num_trades += RESTORE_GAP
        self.changed_ms.update(dict.fromkeys(self.markets, command.now_ms))

    def _recharge(self, payer: bytes | None, outcome: Outcome, now_ms: int) -> None:
        """Return the charge of a rejected order, or charge for the trades of a large one.

        A fill-or-kill order without a fill counts, as an immediate-or-cancel order does.
        """
        if isinstance(outcome, FokNotFillableError) or payer is None:
            return
        if isinstance(outcome, RejectedError):
            count = -1
        elif len(outcome) < TRADES_PER_CHARGE:
            return
        else:
            count = sum(isinstance(event, Trade) for event in outcome) // TRADES_PER_CHARGE
        if count:
            self.charges.append(Charged(now_ms, payer, count))
            self.on_recharge(payer, count)

    # ----- snapshots ---------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Encode the whole state; equal states have equal bytes. O(everything)."""
        return b"".join(self._pieces(self.matcher.snapshot(), joined(self._all_attachments())))

    def _all_attachments(self) -> list[bytes]:
        """Return the attachments of all orders, in the sequence of a snapshot."""
        order_ids = self.matcher.order_ids()
        # Without a Python call per order: there may be a million.
        attachments = list(map(self._attachments.get, order_ids, repeat(b"")))
        if self._restored:
            for index, order_id in enumerate(order_ids):
                attachments[index] = attachments[index] or self._attachment(order_id)
        return attachments

    def _pieces(
        self, matcher: bytes | memoryview, attachments: tuple[bytes | memoryview, ...]
    ) -> list[bytes | memoryview]:
        """Return the pieces of a snapshot with that of its matcher and its attachments.

        Together they are the MessagePack of a :class:`_Kept`. The large ones are not copied.
        """
        encode = msgspec.msgpack.encode
        changed_ms = sorted(
            (name.encode(errors="surrogatepass"), now_ms)
            for name, now_ms in self.changed_ms.items()
        )
        numbers = (self.now_ms, self.num_orders, self.num_trades, changed_ms, list(self.charges))
        finished = [_packed(each) for each in self._finished]
        traded = sorted(name.encode(errors="surrogatepass") for name in self.traded)
        sizes, data = attachments
        return [
            bytes((_ARRAY | len(_Kept.__struct_fields__),)),
            encode(_VERSION),
            head_of(matcher),
            matcher,
            encode(self.registry.snapshot()),
            *map(encode, numbers),
            bytes((_ARRAY | len(attachments),)),
            head_of(sizes),
            sizes,
            head_of(data),
            data,
            encode(finished),
            encode(traded),
        ]

    @staticmethod
    def has_own_version(snapshot: bytes | memoryview) -> bool:
        """Return whether this version of the server wrote a snapshot.

        Raises:
            InvalidSnapshotError: the bytes are not from :meth:`snapshot`.
        """
        try:
            return msgspec.msgpack.decode(snapshot, type=_Head).version == _VERSION
        except msgspec.MsgspecError as error:
            raise InvalidSnapshotError(f"not a snapshot of a server: {error}") from None

    @classmethod
    def restore(
        cls, snapshot: bytes | memoryview, *, inexact: bool = False, check_hash: bool = True
    ) -> "ServerState":
        """Return the state of a snapshot; it continues as if it had never stopped.

        Args:
            snapshot: the bytes. The state reads parts of a view later, so that its content must
                stay as it is.
            inexact: also read version 2, which lacks a part; the result works like the state that
                was stored, and its snapshots differ from those of a replay.
            check_hash: as for ``Matcher.restore``; a file has a hash of its own.

        Raises:
            InvalidSnapshotError: the bytes are not from :meth:`snapshot`; an
                :class:`OtherVersionError` if another version wrote them.
        """
        try:
            head = msgspec.msgpack.decode(snapshot, type=_Head)
            version = head.version
            if version not in ((_INEXACT,) if inexact else ()) + (*_OLDER, _VERSION):
                raise OtherVersionError(
                    f"the server's snapshot has version {version!r:.20}; this version reads "
                    f"{_OLDER[0]} to {_VERSION}, and {_INEXACT} without the commands before it"
                )
            if version != _VERSION or not Registry.is_complete(head.registry):
                snapshot = upgraded(msgspec.msgpack.decode(snapshot))
            kept = msgspec.msgpack.decode(snapshot, type=_Kept)
            registry = Registry.restore(kept.registry)
            changed_ms = {
                name.decode(errors="surrogatepass"): now_ms for name, now_ms in kept.changed_ms
            }
            finished = [_unpacked(each) for each in kept.finished]
            traded = {name.decode(errors="surrogatepass") for name in kept.traded}
        except (msgspec.MsgspecError, LookupError, ValueError, TypeError, RecursionError) as error:
            raise InvalidSnapshotError(f"not a snapshot of a server: {error}") from None
        state = cls(Matcher.restore(kept.matcher, check_hash=check_hash), registry)
        state.num_orders, state.num_trades = kept.num_orders, kept.num_trades
        state.changed_ms.update(changed_ms)
        state.charges.extend(kept.charges)
        state._finished.extend(finished)
        state.traded.update(traded)
        state.now_ms = kept.now_ms
        state._restore_attachments(*kept.attachments)
        # Matcher.restore has checked its own part.
        if not has_pieces(memoryview(snapshot), state._pieces(kept.matcher, kept.attachments)):
            raise InvalidSnapshotError("not a snapshot of a server: it has another encoding")
        return state

    def _restore_attachments(self, sizes: memoryview, attachments: memoryview) -> None:
        """Set the attachments; those of resting orders stay in ``attachments`` until they change.

        Raises:
            InvalidSnapshotError: they are not those of all orders.
        """
        finished = self.matcher.finished_ids()
        resting = len(self.matcher)
        if len(sizes) != 4 * (resting + len(finished)):
            raise InvalidSnapshotError("not a snapshot of a server: it lacks attachments of orders")
        # With a 0 in front: an attachment begins where the one before ends.
        each = array("I")
        each.frombytes(sizes)
        if sys.byteorder == "big":
            each.byteswap()
        ends = accumulate(each, initial=0)
        self._restored, self._restored_ends = attachments, array("Q", ends)
        if self._restored_ends[-1] != len(attachments):
            raise InvalidSnapshotError("not a snapshot of a server: attachments have other sizes")
        for place, order_id in enumerate(finished, resting):
            attachment = self._attachment_at(place)
            if attachment:
                self._attachments[order_id] = attachment


def has_pieces(data: memoryview, pieces: Iterable[bytes | memoryview]) -> bool:
    """Return whether data are these pieces, one after the other, without joining them.

    A piece that is a view was decoded from the data. It is not compared: where all before it is
    the same, its place is the same.
    """
    at = 0
    for piece in pieces:
        if isinstance(piece, bytes) and data[at : at + len(piece)].tobytes() != piece:
            return False
        at += len(piece)
    return at == len(data)


def head_of(data: bytes | memoryview) -> bytes:
    """Return the bytes in front of ``data`` in MessagePack."""
    bits = 8 if len(data) < 2**8 else 16 if len(data) < 2**16 else 32
    return {8: b"\xc4", 16: b"\xc5", 32: b"\xc6"}[bits] + len(data).to_bytes(bits // 8, "big")


def joined(attachments: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return the sizes of attachments, little-endian in four bytes each, and all attachments."""
    sizes = struct.pack(f"<{len(attachments)}I", *map(len, attachments))
    return sizes, b"".join(attachments)


def upgraded(parts: list[Any]) -> bytes:
    """Return the parts of a snapshot of an older server as one of this version.

    Up to version 4, attachments have the ids of their orders and are in order of acceptance.
    Version 2 lacks the markets with trades, which count only among those that orders opened, and it
    knew none of these; the markets with events stand for them.
    """
    version, matcher, registry, *_ = parts
    parts[0], parts[2] = _VERSION, Registry.restore(registry).snapshot()
    if version != _VERSION:
        pairs = msgspec.convert(parts[_ATTACHMENTS], list[tuple[bytes | int, bytes]])
        attachments = {_unpacked(each): data for each, data in pairs}
        order_ids = Matcher.restore(matcher).order_ids()
        parts[_ATTACHMENTS] = joined([attachments.get(each, b"") for each in order_ids])
    if version == _INEXACT:
        *_, changed_ms, _, _, finished = parts
        ids = msgspec.convert(finished, list[bytes | int | None])
        parts[-1] = [_NO_ID if each is None else each for each in ids]
        parts.append(sorted(name for name, _ in changed_ms))
    return msgspec.msgpack.encode(parts)


def is_replaced(event: Event) -> bool:
    """Return whether an order gave up its place, so that its further events follow."""
    return type(event) is OrderRemoved and event.reason is _REPLACED


def outcome_of(state: ServerState, command: AnyCommand) -> Outcome:
    """Apply a command, and return its events or its rejection."""
    try:
        return state.apply(command)
    except RejectedError as rejection:
        return rejection


def _packed(order_id: str | int) -> bytes | int:
    """Return an order id as a snapshot stores it."""
    return order_id if isinstance(order_id, int) else order_id.encode(errors="surrogatepass")


def _unpacked(order_id: bytes | int) -> str | int:
    """Return the order id that a snapshot stores."""
    return order_id if isinstance(order_id, int) else order_id.decode(errors="surrogatepass")
