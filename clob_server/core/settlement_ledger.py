"""Trades pending settlement and the observed state of the chain; a pure part of the registry.

A trade is identified by its number among all trades of the server. The two trades of a mint or
merge settle as one, under the number of the first.
"""

from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from typing import Final

import msgspec

from clob.wire.operations import FillBody
from clob_server.chain.events import PermissionKind
from clob_server.core.commands import (
    BeginSettlement,
    EndTrades,
    FollowChain,
    ReviseTrades,
    SendTrades,
    TradeEnd,
)

ENDED_MAX: Final = 1_000
"""Final trades kept; those that are not final are kept as well."""
FAULT_MS: Final = 24 * 3_600_000
"""How long a fault counts, milliseconds."""
COOL_DOUBLED_MAX: Final = 6
"""How often a cool-down is doubled at most."""
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
    block: int = 0
    """Its block; 0 if the result cannot be revised."""
    fill: FillBody | None = None
    """The fill, for a result that can be revised."""


class MakerFault(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A failed trade that a wallet was responsible for."""

    wallet: str
    trade: int
    ended_ms: int
    """Time of the failure, Unix milliseconds."""
    cool_ms: int
    """Cool-down at the first fault."""


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
    cancelled_in: list[int] = []
    raised: list[tuple[str, str, int]] = []
    final_block: int = -1
    faults: list[MakerFault] = []


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
        self.ended: dict[int, EndedTrade] = {ended.number: ended for ended in kept.ended}
        """Ended trades by number, in the order of their ends: those that are not final, and the
        latest others."""
        self.block: int | None = kept.block
        """Last processed block; None before the first."""
        self.block_hash: str = kept.block_hash
        """Hash of that block."""
        self.wallets: dict[str, None] = dict.fromkeys(kept.wallets)
        """Wallets with an approval for the exchange contract, in order of appearance."""
        self.permissions: set[tuple[PermissionKind, str, str]] = set(kept.permissions)
        """Permissions: kind, owner, delegate."""
        blocks = kept.cancelled_in or [0] * len(kept.cancelled)
        self.cancelled: dict[str, int] = dict(zip(kept.cancelled, blocks, strict=True))
        """Hashes of orders cancelled on the chain, with the block. Kept forever, since signatures
        stay valid."""
        self.raised: list[tuple[str, str, int]] = list(kept.raised)
        """Nonces raised in blocks that are not final: maker, nonce, block. The engine gets final
        ones only, since its nonces never fall."""
        self.final_block: int = kept.final_block
        """Last final block; -1 if unknown."""
        self.faults: dict[str, list[MakerFault]] = {}
        """Faults of the last day by wallet, oldest first."""
        for fault in kept.faults:
            self.faults.setdefault(fault.wallet, []).append(fault)

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
        """End the settlement of trades, or move the same results to another block."""
        for end in command.ends:
            before = self.ended.get(end.trade)
            if before is not None and before.fill is not None and end.trade not in self.held:
                self._withdraw(before)
            held = self.held.pop(end.trade, None)
            if held is not None:
                self._leave(end.trade)
                self._end(held, end)
                for wallet in end.responsible if command.cool_ms else ():
                    fault = MakerFault(wallet, end.trade, command.now_ms, command.cool_ms)
                    self.faults.setdefault(wallet, []).append(fault)
        self._keep_faults(lambda fault: fault.ended_ms > command.now_ms - FAULT_MS)
        self._prune()

    def _keep_faults(self, counts: Callable[[MakerFault], bool]) -> None:
        """Drop the faults that do not count."""
        kept = {wallet: list(filter(counts, own)) for wallet, own in self.faults.items()}
        self.faults = {wallet: own for wallet, own in kept.items() if own}

    def _end(self, held: HeldTrade, end: TradeEnd) -> None:
        """Add an ended trade."""
        self.ended[end.trade] = EndedTrade(
            held.market,
            held.halves,
            held.traded_ms,
            end.tx,
            end.reason,
            end.block,
            held.fill if end.block else None,
        )

    def revise(self, command: ReviseTrades) -> None:
        """Withdraw the results of trades; they are pending again, without an operation."""
        for number in command.trades:
            ended = self.ended.get(number)
            if ended is not None and ended.fill is not None:
                self._withdraw(ended)
        self.held = dict(sorted(self.held.items()))

    def _withdraw(self, ended: EndedTrade) -> None:
        """Remove a result and the faults in it."""
        assert ended.fill is not None
        del self.ended[ended.number]
        self._keep_faults(lambda fault: fault.trade != ended.number)
        held = HeldTrade(ended.market, ended.halves, ended.traded_ms, ended.fill)
        self.held[ended.number] = held

    def _prune(self) -> None:
        """Drop the oldest final trades."""
        for number in list(islice(self.ended, max(0, len(self.ended) - ENDED_MAX))):
            if not self.is_final(number):
                break
            del self.ended[number]

    def is_final(self, number: int) -> bool:
        """Return whether the result of an ended trade is final."""
        ended = self.ended.get(number)
        return ended is None or ended.block <= max(self.final_block, 0)

    def ended_after(self, block: int) -> list[EndedTrade]:
        """Return the trades with a result of a later block, which can be revised."""
        return [each for each in self.ended.values() if each.block > block and each.fill]

    def num_waiting(self, market: str) -> int:
        """Return the number of trades of a market that are pending or whose result is not final."""
        final_block = max(self.final_block, 0)
        pending = sum(each.market == market for each in self.held.values())
        return pending + sum(
            each.market == market and each.block > final_block for each in self.ended.values()
        )

    # ----- cool-down ---------------------------------------------------------------------------

    def cool_until_ms(self, wallet: str) -> int:
        """Return when the cool-down of a wallet ends, Unix milliseconds; 0 without a fault.

        A fault after a cool-down doubles the next one; faults within one do not.
        """
        until_ms, doubled = 0, -1
        for fault in self.faults.get(wallet, ()):
            if fault.ended_ms >= until_ms:
                doubled = min(doubled + 1, COOL_DOUBLED_MAX)
            until_ms = max(until_ms, fault.ended_ms + (fault.cool_ms << doubled))
        return until_ms

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
        if command.after_block is not None:
            self._undo(command.after_block)
        blocks = command.cancelled_in or (0,) * len(command.cancelled)
        self.cancelled.update(zip(command.cancelled, blocks, strict=False))
        self.final_block = max(self.final_block, command.final_block)
        raised = (*self.raised, *command.raised)
        self.raised = [each for each in raised if each[2] > self.final_block]
        self._prune()
        for kind, owner, other, allowed in command.permissions:
            if allowed:
                self.permissions.add((kind, owner, other))
            else:
                self.permissions.discard((kind, owner, other))

    def _undo(self, after_block: int) -> None:
        """Undo the cancels and raised nonces of later blocks."""
        later = takewhile(lambda name: self.cancelled[name] > after_block, reversed(self.cancelled))
        for name in list(later):
            del self.cancelled[name]
        self.raised = [each for each in self.raised if each[2] <= after_block]
        self.final_block = min(self.final_block, after_block)

    def nonce(self, maker: str) -> int:
        """Return the lowest nonce that the maker's raises in blocks that are not final allow."""
        return max((int(nonce) for owner, nonce, _ in self.raised if owner == maker), default=0)

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
            ended=list(self.ended.values()),
            block=self.block,
            block_hash=self.block_hash,
            wallets=list(self.wallets),
            permissions=sorted(self.permissions),
            cancelled=list(self.cancelled),
            cancelled_in=list(self.cancelled.values()),
            raised=list(self.raised),
            final_block=self.final_block,
            faults=[fault for own in self.faults.values() for fault in own],
        )
