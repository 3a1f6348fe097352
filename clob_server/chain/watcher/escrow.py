"""Reads the escrow that wallets can trade with: without requests and deposits not final."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from clob_server.chain.config import Addresses
from clob_server.chain.eth.exchange_abi import COLLATERAL_ASSET, ESCROWS
from clob_server.chain.events import WalletHolding, escrow_asset
from clob_server.chain.operations.preconditions import Read

PAIRS_MAX: Final = 40
"""Wallet-asset pairs per call."""

EscrowPair: TypeAlias = tuple[str, int]
"""A wallet and an asset of its escrow."""
Call: TypeAlias = Callable[[Sequence[Read]], Awaitable[list[Any]]]
"""Calls contract functions at the block that is read."""


class PendingDeposits:
    """Deposits in blocks that are not final, by wallet and asset."""

    def __init__(self) -> None:
        self._deposits: dict[EscrowPair, list[tuple[int, int]]] = {}

    def copy(self) -> "PendingDeposits":
        """Return an independent copy."""
        other = PendingDeposits()
        other._deposits = {pair: list(deposits) for pair, deposits in self._deposits.items()}
        return other

    def add(self, pair: EscrowPair, block: int, amount: int) -> None:
        """Add a deposit."""
        self._deposits.setdefault(pair, []).append((block, amount))

    def drop_after(self, block: int) -> None:
        """Drop the deposits in later blocks, which are read again."""
        self._keep(lambda number: number <= block)

    def has_final(self, final: int) -> bool:
        """Return whether a deposit has become final."""
        return any(block <= final for each in self._deposits.values() for block, _ in each)

    def take_final(self, final: int) -> set[EscrowPair]:
        """Drop the deposits that are final and return their wallets and assets."""
        pairs = {
            pair
            for pair, deposits in self._deposits.items()
            if any(block <= final for block, _ in deposits)
        }
        self._keep(lambda number: number > final)
        return pairs

    def total(self, pair: EscrowPair) -> int:
        """Return the sum of the deposits of a wallet in an asset, in wei."""
        return sum(amount for _, amount in self._deposits.get(pair, ()))

    def _keep(self, is_kept: Callable[[int], bool]) -> None:
        """Keep the deposits of some blocks."""
        kept = {
            pair: [deposit for deposit in deposits if is_kept(deposit[0])]
            for pair, deposits in self._deposits.items()
        }
        self._deposits = {pair: deposits for pair, deposits in kept.items() if deposits}


async def read_escrow(
    call: Call, addresses: Addresses, pairs: Iterable[EscrowPair], pending: PendingDeposits
) -> list[WalletHolding]:
    """Read the escrow of wallets.

    Raises:
        NodeError: the node does not respond.
    """
    ordered = sorted(pairs)
    parts = [ordered[first : first + PAIRS_MAX] for first in range(0, len(ordered), PAIRS_MAX)]
    reads = [Read(addresses.exchange, ESCROWS, tuple(zip(*part, strict=True))) for part in parts]
    amounts = (amount for part in await call(reads) for amount in part)
    return [
        _holding(pair, addresses, balance, requested, pending.total(pair))
        for pair, (balance, requested) in zip(ordered, amounts, strict=True)
    ]


def _holding(
    pair: EscrowPair, addresses: Addresses, balance: int, requested: int, pending: int
) -> WalletHolding:
    """Return the holding of a wallet in an asset."""
    wallet, asset = pair
    is_collateral = asset == COLLATERAL_ASSET
    return WalletHolding(
        wallet=wallet,
        asset=escrow_asset(addresses.collateral) if is_collateral else str(asset),
        amount=str(max(0, balance - requested - pending)),
        balance=str(balance),
        requested=str(requested),
    )
