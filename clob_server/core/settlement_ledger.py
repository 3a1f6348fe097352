"""Trades pending settlement and the observed state of the chain; a pure part of the registry.

A trade is identified by its number among all trades of the server. The two trades of a mint or
merge settle as one, under the number of the first.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from clob_server.chain.events import PermissionKind
from clob_server.chain.operation_bodies import FillBody
from clob_server.core.commands import BeginSettlement, EndTrades, FollowChain, SendTrades

ENDED_MAX: Final = 1_000
"""Ended trades kept."""
BASE_SHIFT: Final = 128
"""Bits by which the log's base is shifted above a trade number on the chain."""


class TradeHalf(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A trade, or one of the two trades of a mint or merge."""

    number: int
    """Number among all trades of the server, from 1."""
    seq: int
    """Sequence number of the event in its market."""
    token: str
    buyer: str
    """Maker of the buy order; empty in a merge."""
    seller: str
    """Maker of the sell order; empty in a mint."""


class SettlingTrade(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A trade, or both trades of a mint or merge, which settle as one."""

    market: str
    halves: tuple[TradeHalf, ...]
    """One trade or two."""
    traded_ms: int
    """Time of the trade, Unix milliseconds."""

    @property
    def number(self) -> int:
        """Number of the first trade."""
        return self.halves[0].number


class HeldTrade(SettlingTrade, frozen=True):
    """A trade pending settlement."""

    fill: FillBody
    """The fill to settle."""


class EndedTrade(SettlingTrade, frozen=True):
    """A trade whose settlement ended."""

    tx: str
    """The transaction."""
    reason: str
    """Reason of a failure; empty if settled."""


class LedgerSnapshot(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The ledger in a snapshot."""

    base: bytes = b""
    held: list[HeldTrade] = []
    operations: list[tuple[str, tuple[int, ...]]] = []
    ended: list[EndedTrade] = []
    block: int | None = None
    block_hash: str = ""
    wallets: list[str] = []
    permissions: list[tuple[PermissionKind, str, str]] = []
    cancelled: list[str] = []


class SettlementLedger:
    """Settlement state of the server."""

    def __init__(self, kept: LedgerSnapshot = LedgerSnapshot()) -> None:  # noqa: B008 - frozen
        self.base: bytes = kept.base
        """Prefix of this log's trade ids on the chain; empty before the first settling market."""
        self.held: dict[int, HeldTrade] = {held.number: held for held in kept.held}
        """Pending trades by number, oldest first."""
        self.operations: dict[str, tuple[int, ...]] = dict(kept.operations)
        """Started operations and their pending trades."""
        self.sent: dict[int, str] = {
            number: name for name, numbers in kept.operations for number in numbers
        }
        """Operation by trade; other pending trades are not sent yet."""
        self.ended: deque[EndedTrade] = deque(kept.ended, ENDED_MAX)
        """Latest ended trades, oldest first."""
        self.block: int | None = kept.block
        """Last processed block; None before the first."""
        self.block_hash: str = kept.block_hash
        """Hash of that block."""
        self.wallets: dict[str, None] = dict.fromkeys(kept.wallets)
        """Wallets with an approval for the exchange contract, in order of appearance."""
        self.permissions: set[tuple[PermissionKind, str, str]] = set(kept.permissions)
        """Permissions: kind, owner, delegate."""
        self.cancelled: dict[str, None] = dict.fromkeys(kept.cancelled)
        """Hashes of orders cancelled on the chain. Kept forever, since signatures stay valid."""

    # ----- trades ------------------------------------------------------------------------------

    def trade_id(self, number: int) -> int:
        """Return the 256-bit id of a trade on the chain."""
        return (int.from_bytes(self.base) << BASE_SHIFT) | number

    def number_of(self, trade_id: int) -> int | None:
        """Return the number of a trade on the chain; None for another log's trade."""
        base, number = divmod(trade_id, 1 << BASE_SHIFT)
        return number if base == int.from_bytes(self.base) else None

    def begin(self, command: BeginSettlement) -> None:
        """Set the base of trade ids; the first one stays."""
        self.base = self.base or command.base

    def hold(self, held: HeldTrade) -> None:
        """Add a pending trade."""
        self.held[held.number] = held

    def send(self, command: SendTrades) -> None:
        """Assign trades to an operation, and remove them from any other."""
        numbers = [number for number in dict.fromkeys(command.trades) if number in self.held]
        for number in numbers:
            self._leave(number)
        if numbers:
            before = self.operations.get(command.operation, ())
            self.operations[command.operation] = (*before, *numbers)
            self.sent |= dict.fromkeys(numbers, command.operation)

    def end(self, command: EndTrades) -> None:
        """End the settlement of trades."""
        for end in command.ends:
            held = self.held.pop(end.trade, None)
            if held is not None:
                self._leave(end.trade)
                ended = EndedTrade(held.market, held.halves, held.traded_ms, end.tx, end.reason)
                self.ended.append(ended)

    def _leave(self, number: int) -> None:
        """Remove a trade from its operation."""
        name = self.sent.pop(number, None)
        if name is not None:
            left = tuple(each for each in self.operations[name] if each != number)
            if left:
                self.operations[name] = left
            else:
                del self.operations[name]

    def unsent(self, limit: int) -> Sequence[HeldTrade]:
        """Return up to ``limit`` pending trades without an operation, oldest first."""
        unsent = (held for number, held in self.held.items() if number not in self.sent)
        return list(islice(unsent, limit))

    # ----- the chain ---------------------------------------------------------------------------

    def follow(self, command: FollowChain) -> None:
        """Store the observed state of the chain."""
        self.block, self.block_hash = command.block, command.hash
        self.wallets.update(dict.fromkeys(command.wallets))
        self.cancelled.update(dict.fromkeys(command.cancelled))
        for kind, owner, other, allowed in command.permissions:
            if allowed:
                self.permissions.add((kind, owner, other))
            else:
                self.permissions.discard((kind, owner, other))

    def allows(self, kind: PermissionKind, owner: str, other: str) -> bool:
        """Return whether a permission is granted."""
        return (kind, owner, other) in self.permissions

    # ----- snapshots ---------------------------------------------------------------------------

    def snapshot(self) -> LedgerSnapshot:
        """Return the state; equal ledgers return equal snapshots."""
        return LedgerSnapshot(
            base=self.base,
            held=list(self.held.values()),
            operations=list(self.operations.items()),
            ended=list(self.ended),
            block=self.block,
            block_hash=self.block_hash,
            wallets=list(self.wallets),
            permissions=sorted(self.permissions),
            cancelled=list(self.cancelled),
        )
