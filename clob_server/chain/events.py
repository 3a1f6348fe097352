"""What the chain says by itself, to the server: fills, what wallets hold, what makers allow.

The server asks once for it (:class:`StartWatching`), and hears of each block, in sequence, in which there
is something that concerns it. What is said of an account is all it has after that block, so that
what is heard twice does no harm.
"""

from typing import Literal, TypeAlias

import msgspec

from clob_server.chain.operation_bodies import Struct

Permit: TypeAlias = Literal["delegate", "gasless", "payer", "payee"]
"""What somebody allows. ``delegate``: to sign his orders. ``gasless``: to settle those that nobody
signed. ``payer``: that the wallet who allows it pays for a maker. ``payee``: that a wallet is paid
for the maker who allows it."""


class ServerMessage(Struct, frozen=True, kw_only=True, tag_field="type", tag=str.lower):
    """Whatever the server says."""


class WorkerMessage(Struct, frozen=True, kw_only=True, tag_field="type", tag=str.lower):
    """Whatever the worker says."""


# ----- from the server to the worker ---------------------------------------------------------


class StartWatching(ServerMessage, frozen=True, kw_only=True):
    """Tell the news, from a block on; said once to each worker, after :class:`Ready`.

    The first news are whole: they name every account of the wallets that is not empty.
    """

    after_block: int | None
    """The block up to which all was heard; None is before the exchange contract was there."""
    block_hash: str
    """Its hash; empty where there is none."""
    wallets: list[str]
    """Those that have allowed the exchange contract something so far, as was heard."""
    tokens: list[str]
    """Which outcome tokens are looked at, decimal digits."""
    permissions: list[tuple[Permit, str, str]] = msgspec.field(default_factory=list)
    """What is allowed, as was heard: which kind, who allows it, to whom. It is asked about again
    where the chain was reorganised meanwhile."""
    more: bool = False
    """If more of all that follows in another message of this kind."""


class WatchTokens(ServerMessage, frozen=True, kw_only=True):
    """Look at these outcome tokens, too."""

    tokens: list[str]
    """Decimal digits."""


# ----- from the worker to the server ---------------------------------------------------------


class SettlementResult(Struct, frozen=True, kw_only=True):
    """What came of a fill."""

    trade_id: str
    """Its number on the chain, decimal digits."""
    tx: str
    """The transaction."""
    error: str | None = None
    """Why nothing moved; None where it was settled."""
    blamed: tuple[str, ...] = ()
    """Because of whom: makers, or wallets that were to pay or to be paid. May be nobody."""


class WalletHolding(Struct, frozen=True, kw_only=True):
    """What the exchange contract can take from a wallet."""

    wallet: str
    """The wallet."""
    asset: str
    """The address of the collateral, or an outcome token in decimal digits."""
    amount: str
    """The lower of what it has and what it has approved, in wei."""


class Permission(Struct, frozen=True, kw_only=True):
    """What somebody allows, or no longer."""

    kind: Permit
    """What."""
    owner: str
    """Who allows it."""
    other: str
    """To whom; the owner himself where that is nobody in particular."""
    allowed: bool
    """If he does. What is taken back counts here at once, on the chain after a delay."""


class Raised(Struct, frozen=True, kw_only=True):
    """A maker raised his nonce."""

    maker: str
    """Who."""
    nonce: str
    """The lowest that his orders may have, decimal digits."""


class News(WorkerMessage, frozen=True, kw_only=True):
    """What happened up to a block, since the news before."""

    block: int
    """The number of the block."""
    hash: str
    """Its hash."""
    whole: bool = False
    """If an account that is not named is empty. So it is at first, and after a reorganisation that
    took back what was told."""
    settlements: tuple[SettlementResult, ...] = ()
    """What came of fills, in the order of the chain."""
    holdings: tuple[WalletHolding, ...] = ()
    """What wallets hold that may have changed."""
    wallets: tuple[str, ...] = ()
    """Those that have allowed the exchange contract something for the first time."""
    permissions: tuple[Permission, ...] = ()
    """What makers allow, in the order of the chain."""
    raised: tuple[Raised, ...] = ()
    """Nonces."""
    cancelled: tuple[str, ...] = ()
    """The hashes of orders that their makers cancelled on the chain."""
    more: bool = False
    """If the same news go on in the next message."""
