"""Market, mode, funds, limits and balance."""

import msgspec

from clob.order import SelfTrade, Word
from clob.units import format_tokens

PAIR_LOT_WEI = 100
"""A lot of complementary markets is a multiple of this, so that both halves of a pair are whole."""


class Mode(Word):
    """Which commands a market accepts."""

    OPEN = 0
    """All commands."""
    CANCEL_ONLY = 1
    """No new orders and no replacements; cancels and reductions are accepted."""
    HALTED = 2
    """No commands of makers except nonces; expiry and the operator's cancels are accepted."""
    RESOLVED = 3
    """Final: the outcome is known and every order was removed."""


class Funds(Word):
    """Whether the orders of a market must be covered by balances."""

    NONE = 0
    """Balances are not checked."""
    ACCOUNTS = 1
    """An order reserves balance that no other order has reserved; trades move it."""


class Market(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prediction market: a YES and a NO token, each with a book, on the prices 1 to 99.

    >>> Market(id="rain", yes="101", no="102").mode
    Mode.OPEN
    """

    id: str
    """Id of the market."""
    yes: str
    """The token that pays one unit of collateral if the answer is yes."""
    no: str
    """The token that pays one unit of collateral if the answer is no.

    May be empty at first: the market then trades YES only, until ``SetMarket`` sets the token. A
    market with accounts needs both.
    """
    # None is replaced at once, by __post_init__.
    lot_wei: int = None  # type: ignore[assignment]
    """Sizes must be a multiple of it, in wei; by default 1, or 100 in a complementary market."""
    min_size: int = 1
    """Minimum size of a new order, in wei."""
    mode: Mode = Mode.OPEN
    """Which commands it accepts; ``SetMode`` changes it."""
    self_trade: SelfTrade = SelfTrade.NONE
    """Self-trade policy of orders that have none."""
    resting_fee_rate_bps: int = 0
    """Fee rate of the resting order, 0 to 1000 basis points, capped by the order's own."""
    incoming_fee_rate_bps: int = 0
    """Fee rate of the incoming order, 0 to 1000 basis points, capped by the order's own."""
    fee_wallet: str = "fees"
    """Wallet that receives the fees in a market with accounts."""
    funds: Funds = Funds.NONE
    """Whether orders must be covered by balances."""
    collateral: str = "collateral"
    """Asset of payments; markets with the same collateral share balances."""
    settles: bool = False
    """Trades move balances only after ``Settled``; requires accounts."""
    complementary: bool = False
    """Orders for YES and NO match each other: two buyers mint a pair, two sellers merge one.

    Requires both tokens, and a lot that is a multiple of 100 wei, so that both halves are whole.
    """

    def __post_init__(self) -> None:
        """Set the lot, unless one was passed."""
        if self.lot_wei is None:
            lot_wei = PAIR_LOT_WEI if self.complementary else 1
            msgspec.structs.force_setattr(self, "lot_wei", lot_wei)

    def _repr_html_(self) -> str:
        """Return the terms as a table, for notebooks."""
        from clob import notebook  # noqa: PLC0415 - `import clob` starts without it

        fees = (self.resting_fee_rate_bps, self.incoming_fee_rate_bps)
        rows = [
            ("YES token", notebook.short_name(self.yes)),
            ("NO token", notebook.short_name(self.no) or "not set"),
            ("mode", self.mode.name),
            ("lot", f"{format_tokens(self.lot_wei)} tokens"),
            ("minimum size", f"{format_tokens(self.min_size)} tokens"),
            ("self-trade", self.self_trade.name),
            ("fees, resting and incoming", " and ".join(f"{rate} bps" for rate in fees)),
            ("funds", self.funds.name),
            ("collateral", notebook.short_name(self.collateral)),
            ("trades settle later", "yes" if self.settles else "no"),
            ("complementary", "yes" if self.complementary else "no"),
        ]
        return notebook.table([f"market {notebook.short_name(self.id)}"], (), rows)


class Limits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Limits of a matcher, each 1 or more."""

    orders_max: int = 500
    """Resting orders of one maker in one market."""
    trades_max: int = 1_000
    """Trades of one order, and of the orders of a batch together, where each may make one in any
    case. An order that would exceed it is rejected as a whole."""
    batch_max: int = 20
    """Commands in a batch."""
    finished_max: int = 10_000
    """Finished orders that stay readable; above it the first finished is evicted."""


class Balance(msgspec.Struct, frozen=True, gc=False):
    """Balance of a wallet in one asset, in wei."""

    balance: int
    """The whole balance."""
    reserved: int
    """Amount reserved by resting orders."""
    unsettled: int
    """Amount held by trades that wait for settlement."""

    @property
    def available(self) -> int:
        """Amount a new order can use; negative if the balance fell below the held amounts."""
        return self.balance - self.reserved - self.unsettled
