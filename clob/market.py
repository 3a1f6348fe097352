"""The market and its words: two outcome tokens, how they trade, what is charged, who is paid."""

import msgspec

from clob.order import SelfTrade, Word


class Mode(Word):
    """What a market allows."""

    OPEN = 0
    """Everything."""
    CANCEL_ONLY = 1
    """No new orders and no replacing; cancelling and reducing go on."""
    HALTED = 2
    """Nothing that a maker asks for; expiry, nonces and the operator's cancels go on."""
    RESOLVED = 3
    """The outcome is known: every order was removed, and no other mode follows."""


class Funds(Word):
    """Whether orders of a market must be covered."""

    NONE = 0
    """Nobody's balance is looked at."""
    ACCOUNTS = 1
    """An order needs balance beyond what other orders hold; trades move it."""


class Market(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prediction market: a YES and a NO token, each with a book, on the prices 1 to 99.

    >>> Market(id="rain", yes="101", no="102").mode
    Mode.OPEN
    """

    id: str
    """What names the market."""
    yes: str
    """The token that is worth a unit of collateral if the answer is yes."""
    no: str
    """The token that is worth a unit of collateral if the answer is no.

    Empty where it is not known yet: the market then trades YES only, until ``SetMarket`` names
    the token. A market with accounts needs both.
    """
    lot_wei: int = 1
    """Every size is a multiple of this, in wei."""
    min_size: int = 1
    """The smallest size of a new order, in wei."""
    mode: Mode = Mode.OPEN
    """What it allows; ``SetMode`` changes it."""
    self_trade: SelfTrade = SelfTrade.NONE
    """What happens where an order that leaves it open meets its maker's own."""
    resting_fee_rate_bps: int = 0
    """What the order that rested is charged, 0 to 1000 basis points, capped by its own rate."""
    incoming_fee_rate_bps: int = 0
    """What the order that came in is charged, 0 to 1000 basis points, capped by its own rate."""
    fee_wallet: str = "fees"
    """The wallet that fees are paid to, where there are accounts."""
    funds: Funds = Funds.NONE
    """Whether orders must be covered."""
    collateral: str = "collateral"
    """The asset that is paid with; markets of the same collateral share its balances."""
    settles: bool = False
    """Trades move balances only once a ``Settled`` names them; needs accounts."""
    complementary: bool = False
    """Orders for YES and for NO meet each other, too: two that buy mint a pair, two that sell merge
    one. Needs both tokens, and a lot of a multiple of 100 wei, so that both halves are whole.
    """


class Limits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How much of everything a matcher allows; all are 1 or more."""

    orders_max: int = 500
    """Resting orders of one maker in one market."""
    trades_max: int = 1_000
    """Trades of one order; a command that would make more is refused whole."""
    batch_max: int = 20
    """Commands in a batch."""
    finished_max: int = 10_000
    """Finished orders that stay readable; beyond it the one that finished first is let go."""


class Balance(msgspec.Struct, frozen=True, gc=False):
    """What a wallet has of one asset, in wei."""

    balance: int
    """All of it."""
    reserved: int
    """What resting orders hold of it."""
    unsettled: int
    """What trades that wait to be settled hold of it."""

    @property
    def available(self) -> int:
        """What a new order can use; negative where the balance fell below what trades hold."""
        return self.balance - self.reserved - self.unsettled
