"""What the exchange contract can take from wallets: read at a block, as little of it as will do.

How much a wallet has approved is remembered. It changes only where the wallet says so, or where it
pays and has not approved as good as everything.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from clob_server.chain.config import Addresses
from clob_server.chain.eth.rpc import Rpc
from clob_server.chain.events import WalletHolding
from clob_server.chain.operations.calls import ALLOWANCE, BALANCE, BALANCES, IS_APPROVED
from clob_server.chain.operations.preconditions import Read
from clob_server.chain.watcher.failures import read_at
from clob_server.chain.watcher.logs import Sightings

READS_MAX: Final = 10
"""How much is asked at once in passing: operations wait behind it, 7 ms on a development chain."""
READS_WHOLE: Final = 100
"""How much is asked at once where much is to be read, as after a start."""
PAIRS_MAX: Final = 40
"""Of how many wallets and tokens the balance is asked by one call, which takes as long as 10."""
ENDLESS: Final = 1 << 128
"""What has approved this much has approved more than there is, whatever is paid of it."""


class Approvals:
    """What wallets have approved, and what of their tokens was told.

    Args:
        before: what it begins with; None is nothing.
    """

    def __init__(self, before: "Approvals | None" = None) -> None:
        self.collateral: dict[str, int] = {} if before is None else dict(before.collateral)
        """How much collateral, by wallet, in wei."""
        self.tokens: dict[str, bool] = {} if before is None else dict(before.tokens)
        """If all tokens, by wallet."""
        self.held: dict[str, set[int]] = {} if before is None else dict(before.held)
        """Of which tokens somebody was said to hold some."""


class Reading:
    """What is found out at one block.

    Args:
        rpc: the way to the node.
        addresses: where the contracts are.
        block: the number of the block.
        approvals: what was known before; it is left as it is. None is where all is to be read.
    """

    def __init__(
        self, rpc: Rpc, addresses: Addresses, block: int, approvals: Approvals | None
    ) -> None:
        self._rpc = rpc
        self._addresses = addresses
        self._block = block
        self._is_whole = approvals is None
        self.approvals: Approvals = Approvals(approvals)
        """What is known after it."""
        self.holdings: list[WalletHolding] = []
        """What wallets hold."""

    async def read(
        self, seen: Sightings, fresh: Collection[str], tokens: Collection[int], added: set[int]
    ) -> None:
        """Find out what those hold whom something concerns that was seen.

        Args:
            seen: what was seen since the reading before.
            fresh: wallets of which nothing is known.
            tokens: which tokens are looked at.
            added: which of them were not before.

        Raises:
            NodeError: the node does not say.
        """
        had = {wallet for wallet, given in self.approvals.tokens.items() if given}
        await self._approved(seen, fresh)
        has = {wallet for wallet, given in self.approvals.tokens.items() if given}
        await self._collateral({*fresh, *seen.allowing, *seen.paying, *seen.paid})
        pairs = {pair for pair in seen.tokens if pair[1] in tokens}
        pairs |= {(wallet, token) for wallet in has - had for token in tokens}
        if not self._is_whole:  # the server may have given tokens to who has not approved them
            pairs |= {(wallet, token) for wallet in fresh for token in tokens}
        pairs |= {(wallet, token) for wallet in has for token in added}
        gone = had - has
        pairs |= {(wallet, each) for wallet in gone for each in self.approvals.held.get(wallet, ())}
        await self._tokens(sorted(pairs))

    async def _approved(self, seen: Sightings, fresh: Collection[str]) -> None:
        """Find out what is approved by those who may approve something else now."""
        exchange, places = self._addresses.exchange, self._addresses
        known = self.approvals.collateral
        paying = {wallet for wallet in seen.paying if known.get(wallet, 0) < ENDLESS}
        owners = sorted({*fresh, *seen.allowing, *paying})
        found = await self.ask(
            [Read(places.collateral, ALLOWANCE, (owner, exchange)) for owner in owners]
        )
        known.update(zip(owners, found, strict=True))
        owners = sorted({*fresh, *seen.approving})
        found = await self.ask(
            [Read(places.conditional_tokens, IS_APPROVED, (owner, exchange)) for owner in owners]
        )
        self.approvals.tokens.update(zip(owners, found, strict=True))

    async def _collateral(self, wallets: Iterable[str]) -> None:
        """Find out how much collateral there is to take from wallets."""
        owners, place = sorted(wallets), self._addresses.collateral
        found = await self.ask([Read(place, BALANCE, (owner,)) for owner in owners])
        for owner, balance in zip(owners, found, strict=True):
            amount = min(balance, self.approvals.collateral[owner])
            self.holdings.append(WalletHolding(wallet=owner, asset=place, amount=str(amount)))

    async def _tokens(self, pairs: Sequence[tuple[str, int]]) -> None:
        """Find out how much of tokens there is to take from wallets."""
        allowed = [pair for pair in pairs if self.approvals.tokens.get(pair[0])]
        parts = [allowed[first : first + PAIRS_MAX] for first in range(0, len(allowed), PAIRS_MAX)]
        place = self._addresses.conditional_tokens
        reads = [Read(place, BALANCES, tuple(zip(*part, strict=True))) for part in parts]
        found = await self.ask(reads, weight=READS_MAX)
        amounts = dict(zip(allowed, (amount for part in found for amount in part), strict=True))
        held = self.approvals.held
        held.update({wallet: set(held.get(wallet, ())) for wallet, _ in pairs})
        for wallet, token in pairs:
            amount = amounts.get((wallet, token), 0)
            (held[wallet].add if amount else held[wallet].discard)(token)
            self.holdings.append(WalletHolding(wallet=wallet, asset=str(token), amount=str(amount)))

    async def ask(self, reads: Sequence[Read], weight: int = 1) -> list[Any]:
        """Call functions at the block.

        Args:
            reads: which.
            weight: how many usual ones take as long as one of these.

        Raises:
            NodeError: the node does not say.
        """
        found: list[Any] = []
        size = (READS_WHOLE if self._is_whole else READS_MAX) // weight
        for first in range(0, len(reads), size):
            part = reads[first : first + size]
            replies = await self._rpc.batch([read_at(read, hex(self._block)) for read in part])
            found += [read.answer(reply) for read, reply in zip(part, replies, strict=True)]
        return found
