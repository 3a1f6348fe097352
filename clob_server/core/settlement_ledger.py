"""The trades that wait to be settled on a chain, and what the chain has said. Part of the registry.

As pure as the registry. A trade is named by its number among all trades of the server; the two
trades of a mint or a merge are settled as one, which has the number of the first.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from clob_server.chain.events import PermissionKind
from clob_server.chain.operation_bodies import FillBody
from clob_server.core.commands import BeginSettlement, EndTrades, FollowChain, SendTrades

ENDED_MAX: Final = 1_000
"""How many trades that have come to an end stay at hand."""
BASE_SHIFT: Final = 128
"""By how many bits the base of the log stands above the number of a trade on the chain."""


class Half(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A trade, or one of the two trades of a mint or a merge."""

    number: int
    """Which of all trades of the server it is, counted from 1."""
    seq: int
    """Its number in its market."""
    token: str
    """The token that was traded."""
    buyer: str
    """The maker of the buying order; empty in a merge."""
    seller: str
    """The maker of the selling order; empty in a mint."""


class Held(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What waits to be settled together: a trade, or both of a mint or a merge."""

    market: str
    """The market."""
    halves: tuple[Half, ...]
    """One trade, or two."""
    traded_ms: int
    """When, Unix milliseconds."""
    fill: FillBody
    """What the chain is asked for."""

    @property
    def number(self) -> int:
        """What names it: the number of its first trade."""
        return self.halves[0].number


class Ended(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What waits no longer."""

    market: str
    """The market."""
    halves: tuple[Half, ...]
    """One trade, or two."""
    traded_ms: int
    """When, Unix milliseconds."""
    tx: str
    """The transaction."""
    reason: str
    """Why it failed; empty where it was settled."""


class KeptSettling(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """All of it, as a snapshot has it."""

    base: bytes = b""
    held: list[Held] = []
    operations: list[tuple[str, tuple[int, ...]]] = []
    ended: list[Ended] = []
    block: int | None = None
    block_hash: str = ""
    wallets: list[str] = []
    permissions: list[tuple[PermissionKind, str, str]] = []
    cancelled: list[str] = []


class Settling:
    """What is known of a chain where trades settle.

    Args:
        kept: what it begins with.
    """

    def __init__(self, kept: KeptSettling = KeptSettling()) -> None:  # noqa: B008 - frozen
        self.base: bytes = kept.base
        """What the numbers of this log have in common on the chain; empty while there are none."""
        self.held: dict[int, Held] = {held.number: held for held in kept.held}
        """What waits to be settled, by its number, the oldest first."""
        self.operations: dict[str, tuple[int, ...]] = dict(kept.operations)
        """Operations that were begun, and what of theirs still waits."""
        self.sent: dict[int, str] = {
            number: name for name, numbers in kept.operations for number in numbers
        }
        """Which operation something waits for; what is not in it waits to be sent."""
        self.ended: deque[Ended] = deque(kept.ended, ENDED_MAX)
        """What came to an end last, the oldest first."""
        self.block: int | None = kept.block
        """Up to which block the chain was heard; None is nothing of it."""
        self.block_hash: str = kept.block_hash
        """The hash of that block."""
        self.wallets: dict[str, None] = dict.fromkeys(kept.wallets)
        """The wallets that have allowed the exchange contract something, the first first."""
        self.permissions: set[tuple[PermissionKind, str, str]] = set(kept.permissions)
        """What is allowed: which kind, who allows it, to whom."""
        self.cancelled: dict[str, None] = dict.fromkeys(kept.cancelled)
        """The hashes of orders that were cancelled on the chain, the first first. They stay, as
        what was signed stays signed."""

    # ----- trades ------------------------------------------------------------------------------

    def trade_id(self, number: int) -> int:
        """Give the number that a trade has on the chain, of 256 bits."""
        return (int.from_bytes(self.base) << BASE_SHIFT) | number

    def number_of(self, trade_id: int) -> int | None:
        """Give the number of a trade from that on the chain; None where it is of another log."""
        base, number = divmod(trade_id, 1 << BASE_SHIFT)
        return number if base == int.from_bytes(self.base) else None

    def begin(self, command: BeginSettlement) -> None:
        """Begin to number trades; once begun, it stays so."""
        self.base = self.base or command.base

    def hold(self, held: Held) -> None:
        """Have something wait to be settled."""
        self.held[held.number] = held

    def send(self, command: SendTrades) -> None:
        """Have trades wait for an operation, and for no other; what it had besides goes on."""
        numbers = [number for number in dict.fromkeys(command.trades) if number in self.held]
        for number in numbers:
            self._leave(number)
        if numbers:
            before = self.operations.get(command.operation, ())
            self.operations[command.operation] = (*before, *numbers)
            self.sent |= dict.fromkeys(numbers, command.operation)

    def end(self, command: EndTrades) -> None:
        """Let trades wait no longer."""
        for end in command.ends:
            held = self.held.pop(end.trade, None)
            if held is not None:
                self._leave(end.trade)
                ended = Ended(held.market, held.halves, held.traded_ms, end.tx, end.reason)
                self.ended.append(ended)

    def _leave(self, number: int) -> None:
        """Have something wait for no operation."""
        name = self.sent.pop(number, None)
        if name is not None:
            left = tuple(each for each in self.operations[name] if each != number)
            if left:
                self.operations[name] = left
            else:
                del self.operations[name]

    def unsent(self, limit: int) -> Sequence[Held]:
        """Give what waits to be sent, the oldest first.

        Args:
            limit: how many at most.
        """
        found: list[Held] = []
        for number, held in self.held.items():
            if len(found) == limit:
                break
            if number not in self.sent:
                found.append(held)
        return found

    # ----- what the chain says -----------------------------------------------------------------

    def follow(self, command: FollowChain) -> None:
        """Remember what the chain has said."""
        self.block, self.block_hash = command.block, command.hash
        self.wallets.update(dict.fromkeys(command.wallets))
        self.cancelled.update(dict.fromkeys(command.cancelled))
        for kind, owner, other, allowed in command.permissions:
            if allowed:
                self.permissions.add((kind, owner, other))
            else:
                self.permissions.discard((kind, owner, other))

    def allows(self, kind: PermissionKind, owner: str, other: str) -> bool:
        """Say if something is allowed; see :data:`clob_server.chain.events.PermissionKind`."""
        return (kind, owner, other) in self.permissions

    # ----- snapshots ---------------------------------------------------------------------------

    def snapshot(self) -> KeptSettling:
        """Give all of it; the same state gives the same."""
        return KeptSettling(
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
