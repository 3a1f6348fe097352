"""Chain events that the worker reports to the server: settlements, balances, permissions.

The server sends :class:`StartWatching` once; the worker then reports, in block order, each block
that has something relevant. A reported balance is absolute (the balance after that block), so
receiving it twice is harmless. Token ids and nonces are decimal digits.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from clob.wire.operations import Struct

ESCROW_PREFIX: Final = "escrow:"
"""Beginning of the asset of collateral in escrow; the address of the collateral follows."""

PermissionKind: TypeAlias = Literal["delegate", "gasless", "payer", "payee"]
"""The permission that an owner grants. ``delegate``: another address signs its orders.
``gasless``: its unsigned orders settle. ``payer``: the owner, a wallet, pays for a maker.
``payee``: a wallet is paid for the owner, a maker."""


def escrow_asset(collateral: str) -> str:
    """Return the asset of collateral in escrow."""
    return f"{ESCROW_PREFIX}{collateral}"


def wallet_asset(asset: str) -> str:
    """Return the asset in the wallet that an asset of :func:`escrow_asset` is the escrow of."""
    return asset.removeprefix(ESCROW_PREFIX)


def is_escrow(asset: str) -> bool:
    """Return whether an asset is collateral in escrow."""
    return asset.startswith(ESCROW_PREFIX)


class PipeMessage(Struct, frozen=True, kw_only=True, tag_field="type", tag=str.lower):
    """Base of the messages between the server and the worker."""


# ----- from the server to the worker ---------------------------------------------------------


class StartWatching(PipeMessage, frozen=True, kw_only=True):
    """Report events after a block; sent once to each worker, after ``WorkerReady``.

    The first update is complete: it names every non-empty account of the wallets.
    """

    after_block: int | None
    """Last block that the server has processed; None for none."""
    block_hash: str
    """Hash of that block; empty for none."""
    final_block: int = -1
    """Last block that was final; later ones are read again. -1 if unknown."""
    wallets: list[str]
    """Wallets in use; all of them have approved or permitted something to the exchange contract."""
    tokens: list[str]
    """Outcome tokens to watch."""
    escrow_tokens: list[str] = msgspec.field(default_factory=list)
    """Outcome tokens of escrow markets to watch; they are not in ``tokens``."""
    permissions: list[tuple[PermissionKind, str, str]] = msgspec.field(default_factory=list)
    """Known permissions: kind, owner, other address. They are read again if the chain was
    reorganised in the meantime."""
    more: bool = False
    """Whether the lists continue in another message of this type."""


class WatchTokens(PipeMessage, frozen=True, kw_only=True):
    """Watch additional outcome tokens."""

    tokens: list[str]
    escrow_tokens: list[str] = msgspec.field(default_factory=list)
    """Those of escrow markets."""


class WatchWallets(PipeMessage, frozen=True, kw_only=True):
    """Watch some wallets, and drop others.

    Holdings of dropped wallets are not reported, except escrow that changes. A dropped wallet that
    approves, permits, deposits or requests something at the exchange contract is watched again.
    """

    wallets: list[str] = msgspec.field(default_factory=list)
    """Wallets to watch from now on; the next update has all their holdings."""
    dropped: list[str] = msgspec.field(default_factory=list)
    """Wallets to watch no longer."""


# ----- from the worker to the server ---------------------------------------------------------


class SettlementResult(Struct, frozen=True, kw_only=True):
    """Result of a fill on the chain."""

    trade_id: str
    """Trade id on the chain, decimal digits."""
    tx: str
    error: str | None = None
    """Reason of the failure; None if the fill was settled."""
    responsible: tuple[str, ...] = ()
    """Makers or paying wallets that caused the failure; may be empty."""
    block: int = 0
    """Number of its block."""


class WalletHolding(Struct, frozen=True, kw_only=True):
    """Amount that a wallet can trade with: in the wallet, or in its escrow."""

    wallet: str
    asset: str
    """Address of the collateral, the same after ``escrow:``, or an outcome token in decimal
    digits."""
    amount: str
    """In wei. In the wallet: the lower of balance and approval. In escrow: the balance without the
    requested withdrawal and without deposits in blocks that are not final; at least 0."""
    balance: str | None = None
    """Balance of collateral or of escrow, in wei; None for a token in the wallet."""
    approved: str | None = None
    """Approved collateral, in wei; None for a token and for escrow."""
    requested: str | None = None
    """Requested withdrawal from escrow, in wei; None in the wallet."""


class Permission(Struct, frozen=True, kw_only=True):
    """A permission that was set or revoked."""

    kind: PermissionKind
    owner: str
    other: str
    """Address that receives the permission; the owner itself for kinds without one."""
    allowed: bool
    """Whether it is set. A revocation counts here at once, on the chain after a delay."""


class NonceRaised(Struct, frozen=True, kw_only=True):
    """A maker raised its minimum nonce."""

    maker: str
    nonce: str
    """Lowest nonce valid for its orders."""
    block: int = 0
    """Number of the block."""


class Watched(PipeMessage, frozen=True, kw_only=True):
    """The chain is read up to its newest block, less confirmations; at most once a second.

    It follows the updates of these blocks, and is sent without any as well.
    """

    block: int
    """Number of the newest block."""
    time_s: int
    """Its timestamp, Unix seconds."""


class ChainUpdate(PipeMessage, frozen=True, kw_only=True):
    """Events up to a block, since the previous update."""

    block: int
    hash: str
    whole: bool = False
    """Whether accounts that are not named are empty: true for the first update and after a
    reorganisation that removed reported blocks."""
    settlements: tuple[SettlementResult, ...] = ()
    """Results of fills, in chain order."""
    holdings: tuple[WalletHolding, ...] = ()
    """Holdings that may have changed."""
    wallets: tuple[str, ...] = ()
    """Wallets that approved or permitted something to the exchange contract and were not watched,
    which are watched from now on."""
    read: tuple[str, ...] = ()
    """Wallets that :class:`WatchWallets` named: the update has all their holdings."""
    permissions: tuple[Permission, ...] = ()
    """Permissions set or revoked, in chain order."""
    raised: tuple[NonceRaised, ...] = ()
    cancelled: tuple[str, ...] = ()
    """Hashes of orders that their makers cancelled on the chain."""
    cancelled_in: tuple[int, ...] = ()
    """The block of each cancel."""
    after_block: int | None = None
    """The update has every event after this block: a result, cancel or raised nonce that was
    reported before from a later block and is missing was removed by a reorganisation. None if
    nothing was."""
    final_block: int = -1
    """Last block that no reorganisation removes; -1 if unknown."""
    more: bool = False
    """Whether the same update continues in the next message."""
