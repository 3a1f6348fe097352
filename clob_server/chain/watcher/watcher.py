"""Follows the chain for the server: what came of fills, what wallets hold, what makers allow.

It looks at the newest block from time to time, and at once after an operation. A block that is told
is remembered by its hash. Where that is no longer on the chain, all is read anew from the newest
block that still is.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from clob_server.chain.config import Addresses
from clob_server.chain.eth.abi import Function
from clob_server.chain.eth.rpc import (
    NodeError,
    NodeRefusedError,
    Question,
    Reply,
    Rpc,
    number,
    result,
    understood,
)
from clob_server.chain.events import (
    News,
    Permission,
    Permit,
    SettlementResult,
    StartWatching,
    WatchTokens,
)
from clob_server.chain.operations.preconditions import Read
from clob_server.chain.tx.node import PAUSE_MAX_S, PAUSE_S, Node
from clob_server.chain.watcher.balances import Approvals, Reading
from clob_server.chain.watcher.failures import Failure, judge
from clob_server.chain.watcher.logs import Sightings, questions

KEPT: Final = 1_000
"""How many blocks are kept. Where none of them is on the chain any more, it is read again from as
many blocks below the first; no chain goes back further while nobody looks."""
ASKED: Final = 50
"""How many of them are asked about at once."""


class Block(NamedTuple):
    """A block."""

    number: int
    """Its number."""
    hash: str
    """Its hash."""


class Trail:
    """The blocks up to which was read, the newest last.

    Args:
        first: what was read last; None is nothing.
        lowest: where it begins then.
    """

    def __init__(self, first: Block | None = None, lowest: int = 0) -> None:
        self._blocks: deque[Block] = deque(() if first is None else (first,), KEPT)
        self._lowest = lowest if first is None else max(0, first.number - KEPT)

    @property
    def last(self) -> Block | None:
        """Up to where was read; None is nowhere yet."""
        return self._blocks[-1] if self._blocks else None

    @property
    def next(self) -> int:
        """The number of the first block that was not read."""
        return self._blocks[-1].number + 1 if self._blocks else self._lowest

    def reach(self, block: Block) -> None:
        """Have read up to a block, which is not below the last."""
        if block != self.last:
            self._blocks.append(block)

    async def go_back(self, rpc: Rpc) -> None:
        """Forget the blocks that are on the chain no longer.

        Args:
            rpc: the way to the node.

        Raises:
            NodeError: it does not say which those are; nothing is forgotten.
        """
        kept = list(self._blocks)
        while kept:
            asked = kept[-ASKED:]
            replies = await rpc.batch([block_question(block.number) for block in asked])
            found = [read_block(reply) for reply in replies]
            while asked and found[len(asked) - 1] != asked[-1]:
                asked.pop()
                kept.pop()
            if asked:
                break
        self._blocks = deque(kept, KEPT)


def block_question(which: int | str) -> Question:
    """Ask for a block.

    Args:
        which: its number, or a name such as ``latest``.
    """
    return "eth_getBlockByNumber", (hex(which) if isinstance(which, int) else which, False)


def read_block(reply: Reply) -> Block | None:
    """Read what came of :func:`block_question`; None where there is no such block.

    Raises:
        NodeError: the node does not say.
    """
    found: dict[str, Any] | None = result(reply)
    if found is None:
        return None
    with understood():
        return Block(number(found["number"]), str(found["hash"]))


POLL_S: Final = 1.0
"""How often the newest block is looked at."""
RANGE_BLOCKS: Final = 10_000
"""Of how many blocks logs are asked for at once; half of them where the node refuses that."""
QUIET_BLOCKS: Final = 1_000
"""After how many blocks in which nothing happened that is told, so that they are not read again."""
ENTRIES_MAX: Final = 700
"""How much one message tells: an entry has at most 1,400 bytes, and a line at most 1 MiB."""
LISTS: Final = ("settlements", "wallets", "permissions", "raised", "cancelled", "holdings")
"""What is told in parts where it is much."""

IS_DELEGATE: Final = Function("isDelegate(address,address)", returns="bool")
IS_GASLESS: Final = Function("isGasless(address)", returns="bool")
IS_PAYER: Final = Function("isPayer(address,address)", returns="bool")
IS_PAYEE: Final = Function("isPayee(address,address)", returns="bool")
_VIEWS: Final[Mapping[Permit, tuple[Function, int]]] = {
    "delegate": (IS_DELEGATE, 2),
    "gasless": (IS_GASLESS, 1),
    "payer": (IS_PAYER, 2),
    "payee": (IS_PAYEE, 2),
}
"""Which function says if something is allowed now, and how many arguments it has."""

Key: TypeAlias = tuple[Permit, str, str]
"""Which permission: its kind, who gives it, to whom."""

_LOG: Final = logging.getLogger("clob_server.chain")


class MovedError(Exception):
    """While something was read, the chain became another one."""


class Watching:
    """Reads the chain for the server, once the server asks for it.

    Args:
        node: the node.
        confirmations: in how many blocks what is told must be, its own and those on top.
        tell: says something to the server.
        from_block: from which block on logs are read, where nothing was heard yet.
    """

    def __init__(
        self, node: Node, confirmations: int, tell: Callable[[News], None], from_block: int = 0
    ) -> None:
        self._node = node
        self._rpc = node.rpc
        self._depth = confirmations
        self._tell = tell
        self._wakes = asyncio.Event()
        self._asked: list[StartWatching] = []
        self._is_asked = False
        self._wallets: dict[str, None] = {}
        self._tokens: dict[int, None] = {}
        self._added: set[int] = set()
        self._trail = Trail(lowest=from_block)
        self._told = -1
        self._is_whole = True
        self._head: Block | None = None
        self._range = RANGE_BLOCKS
        self._approvals = Approvals()
        self._permissions: dict[Key, int] = {}
        self._doubted: set[Key] = set()
        self._trouble = ""

    # ----- what the server says ----------------------------------------------------------------

    def hear(self, asked: StartWatching | WatchTokens) -> None:
        """Do what the server asks for."""
        if isinstance(asked, WatchTokens):
            self._add(asked.tokens)
        else:
            self._asked.append(asked)
            if not asked.more:
                self._begin()
        self.wake()

    def _add(self, tokens: Sequence[str]) -> None:
        """Look at tokens, too."""
        new = {int(token) for token in tokens} - self._tokens.keys()
        self._tokens.update(dict.fromkeys(new))
        self._added |= new

    def _begin(self) -> None:
        """Begin where the server says."""
        first, parts = self._asked[0], self._asked
        self._asked = []
        for part in parts:
            self._wallets.update(dict.fromkeys(part.wallets))
            self._add(part.tokens)
        if first.after_block is not None:
            self._trail = Trail(Block(first.after_block, first.block_hash))
            self._told = first.after_block
            allowed = (key for part in parts for key in part.permissions)
            self._permissions = dict.fromkeys(allowed, first.after_block)
        self._is_asked = True

    def wake(self) -> None:
        """Look at once: something may have happened."""
        self._wakes.set()

    # ----- following ---------------------------------------------------------------------------

    async def run(self, addresses: Addresses) -> None:
        """Follow for ever, where there is an exchange contract.

        Args:
            addresses: where the contracts are.
        """
        pause_s = PAUSE_S
        while True:
            self._wakes.clear()
            try:
                if self._is_asked and addresses.exchange:
                    await self._look(addresses)
            except MovedError:
                await asyncio.sleep(PAUSE_S)
            except NodeError as error:
                self._note(str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
            except Exception:
                _LOG.exception("a mistake of ours: the chain cannot be followed")
                await asyncio.sleep(PAUSE_MAX_S)
            else:
                self._note("")
                pause_s = PAUSE_S
                await self._rest()

    async def _rest(self) -> None:
        """Wait until it is time to look again."""
        try:
            async with asyncio.timeout(POLL_S if self._is_asked else None):
                await self._wakes.wait()
        except TimeoutError:
            pass

    def _note(self, trouble: str) -> None:
        """Say in the log what is wrong, and when nothing is any more."""
        if trouble and trouble != self._trouble:
            _LOG.warning("the chain cannot be followed: %s", trouble)
        elif self._trouble and not trouble:
            _LOG.info("the chain is followed again")
        self._trouble = trouble

    async def _look(self, addresses: Addresses) -> None:
        """Look at the newest block, and see what is new.

        Raises:
            MovedError: the chain became another one meanwhile.
            NodeError: the node does not say.
        """
        head = await self._block("latest")
        is_due = self._is_whole or bool(self._added)
        if (head == self._head and not is_due) or head.number + 1 < self._depth:
            return
        number, last = head.number - self._depth + 1, self._trail.last
        if last is not None and not await self._is_there(last):
            await self._go_back()
            raise MovedError
        if last is None or last.number < number:
            target = head if number == head.number else await self._block(number)
            await self._see(addresses, target)
        elif is_due:
            await self._see(addresses, last)
        self._head = head

    async def _block(self, which: int | str) -> Block:
        """Ask for a block.

        Raises:
            MovedError: it is not there any more.
            NodeError: the node does not say.
        """
        (reply,) = await self._rpc.batch([block_question(which)])
        block = read_block(reply)
        if block is None:
            raise MovedError
        return block

    async def _is_there(self, block: Block) -> bool:
        """Ask if a block is still on the chain.

        Raises:
            NodeError: the node does not say.
        """
        (reply,) = await self._rpc.batch([block_question(block.number)])
        return read_block(reply) == block

    async def _go_back(self) -> None:
        """Go back to the newest block that is still on the chain.

        Raises:
            NodeError: the node does not say which that is.
        """
        await self._trail.go_back(self._rpc)
        number = self._trail.next - 1
        _LOG.warning("a reorganisation: the chain is read again", extra={"after_block": number})
        if number < self._told:
            self._is_whole, self._told = True, number
        self._doubted |= {key for key, block in self._permissions.items() if block > number}

    # ----- seeing ------------------------------------------------------------------------------

    async def _see(self, addresses: Addresses, target: Block) -> None:
        """See what happened up to a block, and tell it.

        Raises:
            MovedError: the chain became another one meanwhile.
            NodeError: the node does not say.
        """
        is_whole, tokens, added = self._is_whole, set(self._tokens), set(self._added)
        seen = await self._logs(addresses, target)
        approvals = None if is_whole else self._approvals
        reading = Reading(self._rpc, addresses, target.number, approvals)
        fresh = [*self._wallets, *seen.wallets] if is_whole else list(seen.wallets)
        await reading.read(seen, fresh, tokens, added)
        news = News(
            block=target.number,
            hash=target.hash,
            whole=is_whole,
            settlements=await self._settlements(addresses, seen),
            holdings=tuple(each for each in reading.holdings if each.amount != "0" or not is_whole),
            wallets=tuple(seen.wallets),
            permissions=await self._permitted(addresses, seen, reading),
            raised=tuple(seen.raised),
            cancelled=tuple(seen.cancelled),
        )
        if not await self._is_there(target):
            raise MovedError
        self._approvals = reading.approvals
        self._wallets.update(seen.wallets)
        self._permissions |= {key_of(each): block for block, each in seen.permissions}
        self._doubted.clear()
        self._added -= added
        self._is_whole = False
        self._trail.reach(target)
        self._say(news)

    async def _logs(self, addresses: Addresses, target: Block) -> Sightings:
        """Read the logs of what was not read yet, up to a block.

        Raises:
            MovedError: the chain became another one meanwhile.
            NodeRefusedError: the node does not give them, not even those of one block.
        """
        seen, wallets = Sightings(addresses, self._wallets), list(self._wallets)
        first = self._trail.next
        if first > target.number + 1:  # another chain, and a shorter one
            first = 0
        while first <= target.number:
            last = min(target.number, first + self._range - 1)
            asked = questions(addresses, wallets, first, last)
            try:
                *replies, still = await self._rpc.batch([*asked, block_question(target.number)])
                with understood():
                    found = [log for reply in replies for log in result(reply)]
            except NodeError as error:
                is_refused = isinstance(error, NodeRefusedError)
                if is_refused and first == last:
                    raise
                self._range = max(1, (last - first + 1) // 2)  # it may be too much for an answer
                if not is_refused:
                    self._note(str(error))
                    await asyncio.sleep(PAUSE_MAX_S)
                continue
            if read_block(still) != target:
                raise MovedError
            seen.take(found)
            first = last + 1
            self._range = min(self._range + max(1, self._range // 8), RANGE_BLOCKS)
        return seen

    async def _settlements(
        self, addresses: Addresses, seen: Sightings
    ) -> tuple[SettlementResult, ...]:
        """Say what came of fills, and because of whom.

        Raises:
            NodeError: the node does not say what has to be known for that.
        """
        failures = [
            Failure(trade_id=end.trade_id, reason=end.reason, tx=end.tx, block=end.block)
            for end in seen.ends
            if end.reason is not None
        ]
        verdicts = iter(await judge(self._node, addresses, failures) if failures else ())
        told: list[SettlementResult] = []
        for end in seen.ends:
            made = SettlementResult(trade_id=str(end.trade_id), tx=end.tx)
            if end.reason is not None:
                verdict = next(verdicts)
                made = msgspec.structs.replace(made, error=verdict.error, blamed=verdict.blamed)
            told.append(made)
        return tuple(told)

    async def _permitted(
        self, addresses: Addresses, seen: Sightings, reading: Reading
    ) -> tuple[Permission, ...]:
        """Say what is allowed: what was seen, and what a reorganisation may have taken back.

        Raises:
            NodeError: the node does not say.
        """
        told = [each for _, each in seen.permissions]
        doubted = sorted(self._doubted - {key_of(each) for each in told})
        reads = [
            Read(addresses.exchange, view, key[1 : 1 + num_arguments])
            for key in doubted
            for view, num_arguments in (_VIEWS[key[0]],)
        ]
        for key, allowed in zip(doubted, await reading.ask(reads), strict=True):
            kind, owner, other = key
            told.append(Permission(kind=kind, owner=owner, other=other, allowed=allowed))
        return tuple(told)

    # ----- telling -----------------------------------------------------------------------------

    def _say(self, news: News) -> None:
        """Tell news, if there are any."""
        entries = [(name, entry) for name in LISTS for entry in getattr(news, name)]
        is_quiet = not entries and not news.whole
        if is_quiet and news.block < self._told + QUIET_BLOCKS:
            return
        self._told = news.block
        for first in range(0, max(1, len(entries)), ENTRIES_MAX):
            part = entries[first : first + ENTRIES_MAX]
            lists: dict[str, Any] = {
                name: tuple(entry for field, entry in part if field == name) for name in LISTS
            }
            more = first + ENTRIES_MAX < len(entries)
            self._tell(msgspec.structs.replace(news, **lists, more=more))


def key_of(permission: Permission) -> Key:
    """Name a permission, whether it is given or not."""
    return permission.kind, permission.owner, permission.other


# MERGED clob_server.chain.watcher.watcher: The blocks up to which the chain was read, and where it still is the same chain.
