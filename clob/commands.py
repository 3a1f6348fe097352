"""Commands of a matcher, as values that can be stored and replayed.

A command contains all inputs of its execution, including time and ids. A maker's command names the
maker and is rejected if the order belongs to another one; a command without a maker is the
operator's.
"""

from typing import TypeAlias

import msgspec

from clob.events import MatchType
from clob.market import Limits, Market, Mode
from clob.order import Order, SelfTrade, Side


class Base(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag=True):
    """Fields of every command."""

    now_ms: int = 0
    """Time of the command in Unix milliseconds; ignored in a batch, which has its own."""


# ----- orders --------------------------------------------------------------------------------


class Submit(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Match an order and rest its remainder."""

    market: str = ""
    """Id of the market."""
    order: Order
    """The order."""
    client_id: str | None = None
    """The maker's own id of the order, unique among the maker's known orders."""
    order_hash: bytes | None = None
    """Hash of the signed order, 32 bytes. A signed order is executed at most once."""
    deadline_ms: int | None = None
    """Last Unix millisecond at which the command is accepted."""
    attachment: bytes | None = None
    """The embedder's own bytes, such as a signature: journaled, not kept by the matcher."""


class Cancel(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Cancel an order."""

    market: str = ""
    """Id of the order's market; empty means any."""
    order_id: str | int
    """Id of the order."""
    maker: str | None = None
    """Maker that must own the order; None for the operator."""


class CancelAll(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Cancel all orders of a maker, of a market, or both, in the order of acceptance."""

    maker: str | None = None
    """Maker of the orders; None cancels all makers' orders as the operator."""
    market: str | None = None
    """Id of the market; None for all, except those that do not allow cancelling."""


class CancelSome(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Cancel the orders that pass every filter, in the order of acceptance.

    Like :class:`CancelAll` with more filters; a command of its own, so that the bytes of stored
    ``CancelAll`` commands keep their meaning.
    """

    maker: str | None = None
    """Maker of the orders; None cancels all makers' orders as the operator."""
    market: str | None = None
    """Id of the market; None for all, except those that do not allow cancelling."""
    token: str | None = None
    """Token of the orders; None for both tokens of each market."""
    side: Side | None = None
    """Side of the orders in their own token; None for both."""
    accepted_until_ms: int | None = None
    """Last Unix millisecond of acceptance; None for any."""


class Reduce(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Reduce an order, which keeps its place in the queue."""

    market: str = ""
    """Id of the order's market; empty means any."""
    order_id: str | int
    """Id of the order."""
    size: int
    """New remaining size, in wei."""
    maker: str | None = None
    """Maker that must own the order; None for the operator."""


class Replace(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Change the price or size of an order."""

    market: str = ""
    """Id of the order's market; empty means any."""
    order_id: str | int
    """Id of the order."""
    price: int
    """New limit price, in ticks."""
    size: int
    """New remaining size, in wei."""
    post_only: bool = False
    """Reject the command if the order would trade immediately."""
    self_trade: SelfTrade | None = None
    """Policy for matches with the maker's own orders; None uses the market's."""
    maker: str | None = None
    """Maker that must own the order; None for the operator."""


class SetNonce(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Raise a maker's nonce: orders with a lower nonce are removed now and rejected later."""

    maker: str
    """The maker."""
    nonce: int
    """New nonce, above the current one and below 2**256."""


class Expire(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Remove every order whose expiration is before the time of the command."""


# ----- markets and limits --------------------------------------------------------------------


class AddMarket(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Add a market."""

    market: Market
    """The market."""


class SetMarket(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Change the terms of a market: minimum size, self-trade policy, fees and fee wallet.

    It also sets the NO token of a market that was added without one.
    """

    market: Market
    """The market with its new terms; all other fields must be unchanged."""


class SetMode(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Change the mode of a market; resolving it removes every order."""

    market: str
    """Id of the market."""
    mode: Mode
    """The new mode."""


class RemoveMarket(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Remove a resolved market: its id and its tokens are free again.

    Its finished orders are no longer readable; their hashes stay used. Events of markets added
    later have higher numbers than those of the removed one.
    """

    market: str
    """Id of the market."""


class SetLimits(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Change the limits.

    Resting orders above a new limit stay; finished orders above theirs are evicted.
    """

    limits: Limits
    """The new limits."""


# ----- funds ---------------------------------------------------------------------------------


class SetBalance(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Set the balance of a wallet in an asset; removes orders it no longer covers, newest first.

    For a market that settles on a chain, the lower of balance and allowance there.
    """

    wallet: str
    """The wallet."""
    asset: str
    """A token, or the collateral of a market."""
    amount: int
    """The whole balance in wei, below 2**256."""


class Settled(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Mark trades as settled: their amounts move between the accounts."""

    market: str
    """Id of the market."""
    trades: tuple[int, ...]
    """The ``seq`` of each trade, once; for a mint or merge both trades."""


class SettleFailed(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Mark the settlement of a trade (and its pair) as failed: its amounts are released."""

    market: str
    """Id of the market."""
    trade: int
    """The ``seq`` of the trade."""
    wallet: str | None = None
    """The wallet at fault, whose orders in the market are removed; None removes no orders."""
    reason: str = ""
    """Reason, only recorded."""


class ReopenedTrade(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The terms of a trade whose result is withdrawn."""

    seq: int
    """The ``seq`` of the trade."""
    token: str
    """The traded token."""
    buyer_pays: str
    """Wallet that pays the collateral; empty in a merge, like the next one."""
    buyer_receives: str
    """Wallet that receives the tokens."""
    seller_pays: str
    """Wallet that gives the tokens; empty in a mint, like the next one."""
    seller_receives: str
    """Wallet that receives the collateral."""
    paid: int
    """Collateral in wei."""
    size: int
    """Tokens in wei."""
    buyer_fee: int = 0
    """Fee of the buyer, in wei of tokens."""
    seller_fee: int = 0
    """Fee of the seller, in wei of collateral."""
    match_type: MatchType = MatchType.DIRECT
    """Whether the trade is half of a mint or merge."""
    other_seq: int = 0
    """The ``seq`` of the other half; 0 for a direct trade."""


class Reopen(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Withdraw the result of trades: they wait for settlement again.

    The matcher forgets a trade at its result, so the command contains its terms. Their amounts are
    held again; orders that the balances no longer cover are removed, newest first.
    """

    market: str
    """Id of the market."""
    trades: tuple[ReopenedTrade, ...]
    """The trades; for a mint or merge both."""
    settled: bool
    """Whether they had settled: their amounts move back. If not, they had failed."""


# ----- the time ------------------------------------------------------------------------------


class SpentHash(msgspec.Struct, frozen=True, gc=False):
    """The hash of a signed order that was executed, with the terms that end its validity."""

    order_hash: bytes
    """Hash of the signed order, 32 bytes."""
    maker: str
    """Its maker."""
    nonce: int
    """Its nonce: the hash is dropped once the maker's nonce is higher."""
    expiration_s: int
    """Its expiration, Unix seconds: the hash is dropped afterwards; 0 for none."""


class ResetClock(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Set the time, which may go back: the only command whose time may be before the last one's.

    Repairs a log that was written with a wrong clock. Orders that the wrong time removed stay
    removed. Their hashes must stay used, or the signed orders could be executed a second time.
    """

    spent: tuple[SpentHash, ...] = ()
    """Hashes of executed orders that were dropped as expired but are valid at the new time."""


# ----- several at once -----------------------------------------------------------------------


class Batch(Base, frozen=True, kw_only=True, gc=False, tag=True):
    """Several commands about orders, each with its own result, or all or none."""

    commands: "tuple[Submit | Cancel | CancelAll | CancelSome | Reduce | Replace, ...]"
    """The commands in order; their own ``now_ms`` is ignored."""
    atomic: bool = False
    """If one command is rejected, execute none."""


Single: TypeAlias = (
    Submit
    | Cancel
    | CancelAll
    | CancelSome
    | Reduce
    | Replace
    | SetNonce
    | Expire
    | AddMarket
    | SetMarket
    | SetMode
    | RemoveMarket
    | SetLimits
    | SetBalance
    | Settled
    | SettleFailed
    | ResetClock
    | Reopen
)
"""Any command except a batch."""

Command: TypeAlias = Single | Batch
"""Any command of a matcher."""
