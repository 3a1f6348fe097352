"""What may be asked of a market or of a book: commands as values, so that a stream can be kept.

A command carries everything its execution depends on, the time and the ids included. A maker's
command names its maker, and is refused where the order belongs to another; without one it is the
operator's.
"""

from typing import TypeAlias

import msgspec

from clob.market import Limits, Market, Mode
from clob.order import Order, SelfTrade


class Base(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag=True):
    """What all commands have."""

    now_ms: int = 0
    """The time of the command, Unix milliseconds; in a batch the batch's counts."""


# ----- orders --------------------------------------------------------------------------------


class Submit(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Match an order, and rest what is left of it."""

    market: str = ""
    """The market it is for; empty where a book stands alone."""
    order: Order
    """The order."""
    client_id: str | None = None
    """What its maker calls it; no other order of that maker gets the name while it is known."""
    order_hash: bytes | None = None
    """The hash of the signed order, 32 bytes: it is executed once and never again."""
    deadline_ms: int | None = None
    """The last Unix millisecond at which it is welcome."""


class Cancel(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Take an order out of the book."""

    market: str = ""
    """The market it rests in; empty is wherever it rests."""
    order_id: str | int
    """The order."""
    maker: str | None = None
    """Whose order it must be; None is the operator, who may take out any."""


class CancelAll(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Take out all orders of a maker, of a market, or both, in the sequence of acceptance."""

    maker: str | None = None
    """Whose orders; None is the operator, who takes out everybody's."""
    market: str | None = None
    """The market; None is all of them, passing over those that do not allow it."""


class Reduce(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Make an order smaller where it stands in its queue."""

    market: str = ""
    """The market it rests in; empty is wherever it rests."""
    order_id: str | int
    """The order."""
    size: int
    """What is to remain of it, in wei."""
    maker: str | None = None
    """Whose order it must be; None is the operator."""


class Replace(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Give an order another price or size."""

    market: str = ""
    """The market it rests in; empty is wherever it rests."""
    order_id: str | int
    """The order."""
    price: int
    """Its new limit, in ticks."""
    size: int
    """What is to remain of it, in wei."""
    post_only: bool = False
    """Refused if it would trade at once."""
    self_trade: SelfTrade | None = None
    """What happens where it meets its maker's own orders; None leaves it to the market."""
    maker: str | None = None
    """Whose order it must be; None is the operator."""


class SetNonce(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Raise a maker's nonce: every order of a lower one is taken out, and refused from now on."""

    maker: str
    """Whose nonce."""
    nonce: int
    """The new one, above the one before and below 2**256."""


class Expire(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Take out every order whose expiration lies before the time of the command."""


# ----- markets and limits --------------------------------------------------------------------


class AddMarket(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Open a market."""

    market: Market
    """The market."""


class SetMarket(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Change the terms of a market: smallest size, self-trade policy, fees and fee wallet.

    It also names the NO token of a market that was added without one, once.
    """

    market: Market
    """The market as it is to be; all else must be as it was."""


class SetMode(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Change what a market allows; resolving it removes every order."""

    market: str
    """The market."""
    mode: Mode
    """Its mode from now on."""


class SetLimits(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Change how much of everything is allowed.

    Resting orders beyond a limit stay; finished ones beyond theirs are let go.
    """

    limits: Limits
    """The limits from now on."""


# ----- funds ---------------------------------------------------------------------------------


class SetBalance(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """State what a wallet has of an asset; orders it no longer covers are taken out, newest first.

    In a market that settles on a chain: the lower of balance and allowance there.
    """

    wallet: str
    """The wallet."""
    asset: str
    """A token, or the collateral of a market."""
    amount: int
    """All it has, in wei, below 2**256."""


class Settled(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Trades were settled: what they hold changes hands."""

    market: str
    """The market."""
    trades: tuple[int, ...]
    """The ``seq`` of each, once; of a mint or a merge both."""


class SettleFailed(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """A trade cannot be settled: what it holds is given back; of a mint or a merge, by both."""

    market: str
    """The market."""
    trade: int
    """Its ``seq``."""
    wallet: str | None = None
    """Who is to blame: all orders of that wallet in the market are taken out. None is nobody."""
    reason: str = ""
    """Why, for the record."""


# ----- several at once -----------------------------------------------------------------------


class Batch(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Several commands about orders as one, each with its own result or all of them or none."""

    commands: "tuple[Submit | Cancel | CancelAll | Reduce | Replace, ...]"
    """The commands, in their sequence; their own ``now_ms`` is not looked at."""
    atomic: bool = False
    """If one is refused, none is done."""


Single: TypeAlias = (
    Submit
    | Cancel
    | CancelAll
    | Reduce
    | Replace
    | SetNonce
    | Expire
    | AddMarket
    | SetMarket
    | SetMode
    | SetLimits
    | SetBalance
    | Settled
    | SettleFailed
)
"""A command that is no batch."""

Command: TypeAlias = Single | Batch
"""Anything one may ask of a matcher; a book alone knows submitting, cancelling and changing."""
