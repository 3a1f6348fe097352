"""Watches the chain for the server and reports settlements, holdings and permissions.

It polls the newest block, and looks at once after an operation. Reported blocks are remembered by
hash; after a reorganisation everything is read again from the newest block that is still on the
chain.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from clob_server.chain.config import FINAL_BLOCKS, Addresses
from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.exchange_abi import (
    COLLATERAL_ASSET,
    FEE_WALLET,
    IS_DELEGATE,
    IS_GASLESS,
    IS_PAYEE,
    IS_PAYER,
)
from clob_server.chain.eth.rpc import (
    NodeClient,
    NodeError,
    NodeRejectedError,
    Reply,
    RpcRequest,
    integer,
    parsing,
    result,
)
from clob_server.chain.events import (
    ChainUpdate,
    Permission,
    PermissionKind,
    SettlementResult,
    StartWatching,
    Watched,
    WatchTokens,
    WatchWallets,
)
from clob_server.chain.operations.preconditions import Read
from clob_server.chain.tx.node import PAUSE_MAX_S, PAUSE_S, Node
from clob_server.chain.watcher.balances import Approvals, BalanceReader
from clob_server.chain.watcher.escrow import EscrowPair, PendingDeposits, read_escrow
from clob_server.chain.watcher.failures import Failure, explain_failures
from clob_server.chain.watcher.logs import RelevantLogs, log_requests

KEPT_BLOCKS: Final = 1_000
"""Number of remembered blocks. If none of them is on the chain any more, reading restarts as many
blocks below the first; no deeper reorganisation is expected."""
BLOCKS_PER_BATCH: Final = 50
"""Number of remembered blocks checked per batch."""


class Block(NamedTuple):
    """Number and hash of a block."""

    number: int
    hash: str


class ReadBlocks:
    """Blocks that were read completely, newest last.

    Args:
        first: the last block that was read; None for none.
        lowest: first block to read if there is none.
    """

    def __init__(self, first: Block | None = None, lowest: int = 0) -> None:
        self._blocks: deque[Block] = deque(() if first is None else (first,), KEPT_BLOCKS)
        self._lowest = lowest if first is None else max(0, first.number - KEPT_BLOCKS)

    @property
    def last(self) -> Block | None:
        """Last block that was read; None for none."""
        return self._blocks[-1] if self._blocks else None

    @property
    def next(self) -> int:
        """Number of the next block to read."""
        return self._blocks[-1].number + 1 if self._blocks else self._lowest

    def add(self, block: Block) -> None:
        """Add a block that was read; it is not below the last one."""
        if block != self.last:
            self._blocks.append(block)

    async def drop_removed(self, rpc: NodeClient) -> None:
        """Drop the blocks that are not on the chain any more.

        Raises:
            NodeError: the node does not respond; nothing is dropped.
        """
        kept = list(self._blocks)
        while kept:
            checked = kept[-BLOCKS_PER_BATCH:]
            replies = await rpc.batch([block_request(block.number) for block in checked])
            current = [read_block(reply) for reply in replies]
            while checked and current[len(checked) - 1] != checked[-1]:
                checked.pop()
                kept.pop()
            if checked:
                break
        self._blocks = deque(kept, KEPT_BLOCKS)


def block_request(which: int | str) -> RpcRequest:
    """Return the request for a block, by number or by a tag such as ``latest``."""
    return "eth_getBlockByNumber", (hex(which) if isinstance(which, int) else which, False)


def read_block(reply: Reply) -> Block | None:
    """Read the reply to :func:`block_request`; None if there is no such block.

    Raises:
        NodeError: the reply is invalid.
    """
    block: dict[str, Any] | None = result(reply)
    if block is None:
        return None
    with parsing():
        return Block(integer(block["number"]), str(block["hash"]))


POLL_S: Final = 1.0
"""Seconds between polls of the newest block."""
WATCHED_S: Final = 0.9
"""Minimum interval of :class:`Watched`; polls are not exact."""
RANGE_BLOCKS: Final = 10_000
"""Blocks per request for logs; halved if the node rejects the range."""
QUIET_BLOCKS: Final = 1_000
"""Blocks without events after which an empty update is sent, so that they are not read again."""
ENTRIES_MAX: Final = 700
"""Entries per message: an entry has at most 1,400 bytes, a line at most 1 MiB."""
LISTS: Final = (
    "settlements", "wallets", "permissions", "raised", "cancelled", "cancelled_in", "holdings",
    "read",
)  # fmt: skip
"""Lists of an update that are split across messages."""

_VIEWS: Final[Mapping[PermissionKind, tuple[Function, int]]] = {
    "delegate": (IS_DELEGATE, 2),
    "gasless": (IS_GASLESS, 1),
    "payer": (IS_PAYER, 2),
    "payee": (IS_PAYEE, 2),
}
"""Contract function that returns a permission, and its number of arguments."""

Key: TypeAlias = tuple[PermissionKind, str, str]
"""Identity of a permission: kind, owner, other address."""

_LOG: Final = logging.getLogger("clob_server.chain")


class ReorganisationError(Exception):
    """The chain was reorganised during a read."""


class Watcher:
    """Reads the chain and sends updates once the server has requested them.

    Args:
        node: the node.
        confirmations: blocks required before an event is reported: its own and those on top.
        final_blocks: blocks that make a block final, counted the same way; 0 asks the node.
        send: sends an update to the server.
        from_block: first block to read logs from if no block was processed yet.
    """

    def __init__(
        self,
        node: Node,
        confirmations: int,
        final_blocks: int,
        send: Callable[[ChainUpdate | Watched], None],
        from_block: int = 0,
    ) -> None:
        self._node = node
        self._rpc = node.rpc
        self._depth = confirmations
        self._final_blocks = final_blocks
        self._open_blocks: set[int] = set()
        self._send = send
        self._poll_event = asyncio.Event()
        self._requests: list[StartWatching] = []
        self._is_started = False
        self._wallets: dict[str, None] = {}
        self._wanted: dict[str, bool] = {}
        self._tokens: dict[int, None] = {}
        self._added: set[int] = set()
        self._has_escrow = False
        self._escrow_tokens: dict[int, None] = {}
        self._added_escrow: set[int] = set()
        self._deposits = PendingDeposits()
        self._fee_wallets: set[str] = set()
        self._watched_s = -WATCHED_S
        self._blocks_read = ReadBlocks(lowest=from_block)
        self._reported = -1
        self._is_whole = True
        self._head: Block | None = None
        self._range = RANGE_BLOCKS
        self._approvals = Approvals()
        self._followed: Block | None = None
        self._permissions: dict[Key, int] = {}
        self._uncertain: set[Key] = set()
        self._problem = ""

    # ----- requests of the server --------------------------------------------------------------

    def handle(self, request: StartWatching | WatchTokens | WatchWallets) -> None:
        """Handle a request of the server."""
        if isinstance(request, WatchTokens):
            self._add(request)
        elif isinstance(request, WatchWallets):  # from the next read on
            self._wanted |= dict.fromkeys(request.wallets, True)
            self._wanted |= dict.fromkeys(request.dropped, False)
        else:
            self._requests.append(request)
            if not request.more:
                self._start()
        self.poll()

    def _add(self, request: StartWatching | WatchTokens) -> None:
        """Watch additional tokens."""
        new = {int(token) for token in request.tokens} - self._tokens.keys()
        self._tokens.update(dict.fromkeys(new))
        self._added |= new
        new = {int(token) for token in request.escrow_tokens} - self._escrow_tokens.keys()
        self._escrow_tokens.update(dict.fromkeys(new))
        self._added_escrow |= new

    def _start(self) -> None:
        """Start at the block that the server names."""
        first, parts = self._requests[0], self._requests
        self._requests = []
        for part in parts:
            self._wallets.update(dict.fromkeys(part.wallets))
            self._add(part)
        if first.after_block is not None:
            self._followed = Block(first.after_block, first.block_hash)
            self._blocks_read = ReadBlocks(self._followed)
            self._reported = first.after_block
            # Results and deposits in blocks that were not final may have been removed since.
            lowest = -1 if first.after_block < FINAL_BLOCKS else 0
            if lowest <= first.final_block < first.after_block:
                self._blocks_read = ReadBlocks(lowest=first.final_block + 1)
                self._reported = first.final_block
            allowed = (key for part in parts for key in part.permissions)
            self._permissions = dict.fromkeys(allowed, first.after_block)
        self._is_started = True

    def poll(self) -> None:
        """Check the chain at once."""
        self._poll_event.set()

    # ----- polling -----------------------------------------------------------------------------

    async def run(self, addresses: Addresses, has_escrow: bool = False) -> None:
        """Watch the chain forever, if there is an exchange contract.

        Args:
            addresses: addresses of the contracts.
            has_escrow: whether the exchange contract keeps escrow.
        """
        self._has_escrow = has_escrow
        pause_s = PAUSE_S
        while True:
            self._poll_event.clear()
            try:
                if self._is_started and addresses.exchange:
                    await self._check(addresses)
            except ReorganisationError:
                await asyncio.sleep(PAUSE_S)
            except NodeError as error:
                self._set_problem(str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
            except Exception:
                _LOG.exception("unexpected error while watching the chain")
                await asyncio.sleep(PAUSE_MAX_S)
            else:
                self._set_problem("")
                pause_s = PAUSE_S
                await self._wait()

    async def _wait(self) -> None:
        """Wait for the next poll."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S if self._is_started else None):
                await self._poll_event.wait()

    def _set_problem(self, problem: str) -> None:
        """Log a new problem, or its end."""
        if problem and problem != self._problem:
            _LOG.warning("the chain cannot be watched: %s", problem)
        elif self._problem and not problem:
            _LOG.info("the chain is being watched again")
        self._problem = problem

    async def _check(self, addresses: Addresses) -> None:
        """Check the newest block, read new ones, and report how far the chain is read."""
        head, time_s = await self._newest()
        await self._read_up_to(addresses, head)
        now_s = time.monotonic()
        if head.number + 1 >= self._depth and now_s >= self._watched_s + WATCHED_S:
            self._watched_s = now_s
            self._send(Watched(block=head.number, time_s=time_s))

    async def _read_up_to(self, addresses: Addresses, head: Block) -> None:
        """Read new blocks up to the newest one."""
        final = await self._final_block(head)
        is_due = (
            self._is_whole
            or bool(self._added)
            or any(self._wanted.values())
            or (self._has_escrow and bool(self._added_escrow))
            or any(block <= final for block in self._open_blocks)
            or self._deposits.has_final(final)
        )
        if (head == self._head and not is_due) or head.number + 1 < self._depth:
            return
        number, last = head.number - self._depth + 1, self._blocks_read.last
        if last is not None and not await self._is_on_chain(last):
            await self._go_back()
            raise ReorganisationError
        if self._followed is not None:
            if not await self._is_on_chain(self._followed):
                self._uncertain |= set(self._permissions)
            self._followed = None
        if last is None or last.number < number:
            target = head if number == head.number else await self._block(number)
            await self._read(addresses, target, final)
        elif is_due:
            await self._read(addresses, last, final)
        self._head = head

    async def _final_block(self, head: Block) -> int:
        """Return the number of the last final block; -1 for none."""
        if not self._final_blocks:
            with contextlib.suppress(NodeRejectedError, ReorganisationError):
                return (await self._block("finalized")).number
        return max(-1, head.number + 1 - (self._final_blocks or FINAL_BLOCKS))

    async def _newest(self) -> tuple[Block, int]:
        """Return the newest block and its timestamp, Unix seconds."""
        (reply,) = await self._rpc.batch([block_request("latest")])
        block = read_block(reply)
        if block is None:
            raise ReorganisationError
        with parsing():
            return block, integer(result(reply)["timestamp"])

    async def _block(self, which: int | str) -> Block:
        """Return a block.

        Raises:
            ReorganisationError: the block is not on the chain any more.
        """
        (reply,) = await self._rpc.batch([block_request(which)])
        block = read_block(reply)
        if block is None:
            raise ReorganisationError
        return block

    async def _is_on_chain(self, block: Block) -> bool:
        """Return whether a block is still on the chain."""
        (reply,) = await self._rpc.batch([block_request(block.number)])
        return read_block(reply) == block

    async def _go_back(self) -> None:
        """Return to the newest read block that is still on the chain."""
        await self._blocks_read.drop_removed(self._rpc)
        number = self._blocks_read.next - 1
        _LOG.warning("reorganisation: reading the chain again", extra={"after_block": number})
        self._deposits.drop_after(number)
        if number < self._reported:
            self._is_whole, self._reported = True, number
            self._open_blocks = {block for block in self._open_blocks if block <= number}
        self._uncertain |= {key for key, block in self._permissions.items() if block > number}

    # ----- reading -----------------------------------------------------------------------------

    async def _read(self, addresses: Addresses, target: Block, final: int) -> None:
        """Read events up to a block and report them."""
        after_block = self._first_block(target) - 1
        is_whole, tokens, added = self._is_whole, set(self._tokens), set(self._added)
        added_escrow = set(self._added_escrow)
        wallets, wanted = self._watched_wallets()
        events = await self._read_logs(addresses, target, list(wallets))
        approvals = None if is_whole else self._approvals
        reader = BalanceReader(self._rpc, addresses, target.number, approvals)
        for wallet in wanted:
            reader.approvals.forget(wallet)
        await self._add_fee_wallets(addresses, events, reader, wallets)
        wallets.update(events.wallets)
        asked = [wallet for wallet, is_wanted in wanted.items() if is_wanted]
        await reader.read(events, wallets if is_whole else {*events.wallets, *asked}, tokens, added)
        deposits = self._deposits.copy()
        pairs = self._escrow_pairs(events, deposits, final, wallets, asked)
        escrow = await read_escrow(reader.call, addresses, pairs, deposits)
        holdings = [each for each in reader.holdings if each.amount != "0" or not is_whole]
        holdings += [each for each in escrow if each.balance != "0" or not is_whole]
        update = ChainUpdate(
            block=target.number,
            hash=target.hash,
            whole=is_whole,
            settlements=await self._read_settlements(addresses, events),
            holdings=tuple(holdings),
            wallets=tuple(events.wallets),
            read=tuple(asked),
            permissions=await self._read_permissions(addresses, events, reader),
            raised=tuple(events.raised),
            cancelled=tuple(events.cancelled),
            cancelled_in=tuple(events.cancelled_in),
            after_block=after_block,
            final_block=min(final, target.number),
        )
        if not await self._is_on_chain(target):
            raise ReorganisationError
        self._approvals = reader.approvals
        self._wallets = wallets
        self._wanted = {
            wallet: is_wanted
            for wallet, is_wanted in self._wanted.items()
            if wanted.get(wallet) is not is_wanted
        }
        self._permissions |= {permission_key(each): block for block, each in events.permissions}
        self._uncertain.clear()
        self._added -= added
        self._added_escrow -= added_escrow
        self._deposits = deposits
        self._is_whole = False
        self._blocks_read.add(target)
        self._report(update)

    def _watched_wallets(self) -> tuple[dict[str, None], dict[str, bool]]:
        """Return the wallets to watch from now on, and the requests that this includes."""
        wallets, wanted = self._wallets.copy(), self._wanted.copy()
        for wallet, is_wanted in wanted.items():
            if is_wanted:
                wallets[wallet] = None
            else:
                wallets.pop(wallet, None)
        return wallets, wanted

    def _first_block(self, target: Block) -> int:
        """Return the first block to read; 0 if another chain is shorter."""
        first = self._blocks_read.next
        return first if first <= target.number + 1 else 0

    async def _read_logs(
        self, addresses: Addresses, target: Block, wallets: list[str]
    ) -> RelevantLogs:
        """Read the logs of unread blocks up to a block that concern some wallets.

        Raises:
            ReorganisationError: the chain was reorganised meanwhile.
            NodeRejectedError: the node rejects the request, even for a single block.
        """
        events = RelevantLogs(addresses, wallets)
        first = self._first_block(target)
        while first <= target.number:
            last = min(target.number, first + self._range - 1)
            requests = log_requests(addresses, wallets, first, last)
            try:
                *replies, last_block = await self._rpc.batch(
                    [*requests, block_request(target.number)]
                )
                with parsing():
                    logs = [log for reply in replies for log in result(reply)]
            except NodeError as error:
                is_rejected = isinstance(error, NodeRejectedError)
                if is_rejected and first == last:
                    raise
                self._range = max(1, (last - first + 1) // 2)  # the response may be too large
                if not is_rejected:
                    self._set_problem(str(error))
                    await asyncio.sleep(PAUSE_MAX_S)
                continue
            if read_block(last_block) != target:
                raise ReorganisationError
            events.process(logs)
            first = last + 1
            self._range = min(self._range + max(1, self._range // 8), RANGE_BLOCKS)
        return events

    def _escrow_pairs(
        self,
        events: RelevantLogs,
        deposits: PendingDeposits,
        final: int,
        wallets: Iterable[str],
        asked: Iterable[str],
    ) -> Sequence[EscrowPair]:
        """Return the wallets and assets of which the escrow may have changed, or all of them.

        Args:
            events: logs since the previous read.
            deposits: deposits that were not final at the previous read, which are updated.
            final: number of the last final block.
            wallets: watched wallets.
            asked: those of which the server asked for all holdings.
        """
        if not self._has_escrow:
            return []
        for wallet, asset, block, amount in events.deposits:
            deposits.add((wallet, asset), block, amount)
        pairs: set[EscrowPair] = events.escrow | deposits.take_final(final)
        assets = {COLLATERAL_ASSET, *self._escrow_tokens}
        added = assets if self._is_whole else self._added_escrow
        pairs |= {(each, asset) for each in self._fee_wallets for asset in events.fee_assets}
        pairs |= {(wallet, asset) for wallet in wallets for asset in added}
        pairs |= {(wallet, asset) for wallet in asked for asset in assets}
        return [pair for pair in pairs if pair[1] in assets]

    async def _add_fee_wallets(
        self,
        addresses: Addresses,
        events: RelevantLogs,
        reader: BalanceReader,
        wallets: Container[str],
    ) -> None:
        """Watch the wallet that received fees in escrow; the one before may have received some."""
        if events.fee_assets:
            read = Read(addresses.exchange, FEE_WALLET, ())
            self._fee_wallets |= set(await reader.call([read]))
            new = {wallet for wallet in self._fee_wallets if wallet not in wallets}
            events.wallets.update(dict.fromkeys(new))

    async def _read_settlements(
        self, addresses: Addresses, events: RelevantLogs
    ) -> tuple[SettlementResult, ...]:
        """Return the results of fills, with the causes of failures."""
        failures = [
            Failure(trade_id=fill.trade_id, reason=fill.reason, tx=fill.tx, block=fill.block)
            for fill in events.results
            if fill.reason is not None
        ]
        causes = iter(await explain_failures(self._node, addresses, failures))
        results = []
        for fill in events.results:
            cause = None if fill.reason is None else next(causes)
            results.append(
                SettlementResult(
                    trade_id=str(fill.trade_id),
                    tx=fill.tx,
                    error=None if cause is None else cause.error,
                    responsible=() if cause is None else cause.responsible,
                    block=fill.block,
                )
            )
        return tuple(results)

    async def _read_permissions(
        self, addresses: Addresses, events: RelevantLogs, reader: BalanceReader
    ) -> tuple[Permission, ...]:
        """Return permissions from logs, and those that a reorganisation may have reverted."""
        permissions = [each for _, each in events.permissions]
        uncertain = sorted(self._uncertain - {permission_key(each) for each in permissions})
        reads = []
        for kind, *wallets in uncertain:
            view, num_arguments = _VIEWS[kind]
            reads.append(Read(addresses.exchange, view, wallets[:num_arguments]))
        results = await reader.call(reads)
        for (kind, owner, other), allowed in zip(uncertain, results, strict=True):
            permissions.append(Permission(kind=kind, owner=owner, other=other, allowed=allowed))
        return tuple(permissions)

    # ----- reporting ---------------------------------------------------------------------------

    def _report(self, update: ChainUpdate) -> None:
        """Send an update, unless it is empty and recent."""
        entries = [(name, entry) for name in LISTS for entry in getattr(update, name)]
        self._open_blocks |= {each.block for each in update.settlements}
        self._open_blocks |= {each.block for each in update.raised}
        decided = {block for block in self._open_blocks if block <= update.final_block}
        self._open_blocks -= decided
        is_quiet = not entries and not update.whole and not decided
        if is_quiet and update.block < self._reported + QUIET_BLOCKS:
            return
        self._reported = update.block
        for first in range(0, max(1, len(entries)), ENTRIES_MAX):
            part = entries[first : first + ENTRIES_MAX]
            lists: dict[str, Any] = {
                name: tuple(entry for field, entry in part if field == name) for name in LISTS
            }
            more = first + ENTRIES_MAX < len(entries)
            self._send(msgspec.structs.replace(update, **lists, more=more))


def permission_key(permission: Permission) -> Key:
    """Return the identity of a permission."""
    return permission.kind, permission.owner, permission.other
