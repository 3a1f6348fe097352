"""Reads the amounts that the exchange contract can take from wallets, with as few calls as needed.

Approvals are cached. They change only by an approval event, or by a payment if the approval is not
practically unlimited.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec

from clob_server.chain.config import Addresses
from clob_server.chain.eth.rpc import NodeClient
from clob_server.chain.events import WalletHolding
from clob_server.chain.operations.calls import ALLOWANCE, BALANCE, BALANCES, IS_APPROVED
from clob_server.chain.operations.preconditions import Read
from clob_server.chain.watcher.failures import call_at
from clob_server.chain.watcher.logs import RelevantLogs

READS_MAX: Final = 10
"""Calls per batch for updates: operations wait behind it, 7 ms on a development chain."""
READS_WHOLE: Final = 100
"""Calls per batch for a complete read, for example at the start."""
PAIRS_MAX: Final = 40
"""Wallet-token pairs per balance call, which takes as long as 10 single calls."""
UNLIMITED: Final = 1 << 128
"""Approvals from this amount on are unlimited: payments do not reduce them noticeably."""


class Approvals(msgspec.Struct):
    """Cached approvals of wallets, and the tokens they were reported to hold."""

    collateral: dict[str, int] = {}
    """Approved collateral by wallet, in wei."""
    tokens: dict[str, bool] = {}
    """Whether a wallet has approved all its tokens."""
    held: dict[str, set[int]] = {}
    """Tokens with a reported balance above 0, by wallet."""

    def copy(self) -> "Approvals":
        """Return a copy, which shares the sets of :attr:`held`."""
        return Approvals(self.collateral.copy(), self.tokens.copy(), self.held.copy())

    def forget(self, wallet: str) -> None:
        """Forget a wallet that is not watched any more."""
        for cache in (self.collateral, self.tokens, self.held):
            cache.pop(wallet, None)


class BalanceReader:
    """Reads holdings at one block.

    Args:
        rpc: the JSON-RPC client.
        addresses: addresses of the contracts.
        block: number of the block.
        approvals: cache of the previous read, not modified; None for a complete read.
    """

    def __init__(
        self, rpc: NodeClient, addresses: Addresses, block: int, approvals: Approvals | None
    ) -> None:
        self._rpc = rpc
        self._addresses = addresses
        self._block = block
        self._is_whole = approvals is None
        self.approvals: Approvals = Approvals() if approvals is None else approvals.copy()
        """Cache after this read."""
        self.holdings: list[WalletHolding] = []
        """Holdings that were read."""

    async def read(
        self,
        logs: RelevantLogs,
        new_wallets: Collection[str],
        tokens: Collection[int],
        added: set[int],
    ) -> None:
        """Read the holdings affected by logs.

        Args:
            logs: logs since the previous read.
            new_wallets: wallets without cached approvals.
            tokens: watched tokens.
            added: watched tokens that were not watched at the previous read.

        Raises:
            NodeError: the node does not respond.
        """
        had = {wallet for wallet, approved in self.approvals.tokens.items() if approved}
        await self._approved(logs, new_wallets)
        has = {wallet for wallet, approved in self.approvals.tokens.items() if approved}
        await self._collateral({*new_wallets, *logs.allowing, *logs.paying, *logs.paid})
        pairs = {pair for pair in logs.tokens if pair[1] in tokens}
        pairs |= {(wallet, token) for wallet in has - had for token in tokens}
        if not self._is_whole:  # the server may know token balances of a wallet without approval
            pairs |= {(wallet, token) for wallet in new_wallets for token in tokens}
        pairs |= {(wallet, token) for wallet in has for token in added}
        gone = had - has
        pairs |= {(wallet, each) for wallet in gone for each in self.approvals.held.get(wallet, ())}
        await self._tokens(sorted(pairs))

    async def _approved(self, logs: RelevantLogs, new_wallets: Collection[str]) -> None:
        """Read the approvals that may have changed."""
        exchange, places = self._addresses.exchange, self._addresses
        known = self.approvals.collateral
        paying = {wallet for wallet in logs.paying if known.get(wallet, 0) < UNLIMITED}
        owners = sorted({*new_wallets, *logs.allowing, *paying})
        values = await self.call(
            [Read(places.collateral, ALLOWANCE, (owner, exchange)) for owner in owners]
        )
        known.update(zip(owners, values, strict=True))
        owners = sorted({*new_wallets, *logs.approving})
        values = await self.call(
            [Read(places.conditional_tokens, IS_APPROVED, (owner, exchange)) for owner in owners]
        )
        self.approvals.tokens.update(zip(owners, values, strict=True))

    async def _collateral(self, wallets: Iterable[str]) -> None:
        """Read the available collateral of wallets."""
        owners, place = sorted(wallets), self._addresses.collateral
        values = await self.call([Read(place, BALANCE, (owner,)) for owner in owners])
        for owner, balance in zip(owners, values, strict=True):
            approved = self.approvals.collateral[owner]
            self.holdings.append(
                WalletHolding(
                    wallet=owner,
                    asset=place,
                    amount=str(min(balance, approved)),
                    balance=str(balance),
                    approved=str(approved),
                )
            )

    async def _tokens(self, pairs: Sequence[tuple[str, int]]) -> None:
        """Read the available amounts of tokens."""
        allowed = [pair for pair in pairs if self.approvals.tokens.get(pair[0])]
        parts = [allowed[first : first + PAIRS_MAX] for first in range(0, len(allowed), PAIRS_MAX)]
        place = self._addresses.conditional_tokens
        reads = [Read(place, BALANCES, tuple(zip(*part, strict=True))) for part in parts]
        values = await self.call(reads, weight=READS_MAX)
        amounts = dict(zip(allowed, (amount for part in values for amount in part), strict=True))
        held = self.approvals.held
        held.update({wallet: set(held.get(wallet, ())) for wallet, _ in pairs})
        for wallet, token in pairs:
            amount = amounts.get((wallet, token), 0)
            (held[wallet].add if amount else held[wallet].discard)(token)
            self.holdings.append(WalletHolding(wallet=wallet, asset=str(token), amount=str(amount)))

    async def call(self, reads: Sequence[Read], weight: int = 1) -> list[Any]:
        """Call contract functions at the block.

        Raises:
            NodeError: the node does not respond.
        """
        values: list[Any] = []
        size = (READS_WHOLE if self._is_whole else READS_MAX) // weight
        for first in range(0, len(reads), size):
            part = reads[first : first + size]
            replies = await self._rpc.batch([call_at(read, hex(self._block)) for read in part])
            values += [read.decode(reply) for read, reply in zip(part, replies, strict=True)]
        return values
