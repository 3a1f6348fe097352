"""Balances and positions of a wallet."""

from clob.wire import Wire


class AssetBalance(Wire, frozen=True, kw_only=True):
    """The account of a wallet in an asset, in wei."""

    asset: str
    """Address or name of the collateral, the address after ``escrow:`` for collateral in escrow, or
    an outcome token in decimal digits."""
    balance: str
    """The whole balance."""
    reserved: str
    """Reserved by resting orders."""
    unsettled: str
    """Held by trades that wait for settlement."""
    available: str
    """The rest, for new orders; negative if the balance fell below the held amounts."""


class ChainBalance(Wire, frozen=True, kw_only=True):
    """What the chain reported of a wallet, in wei."""

    balance: str
    """Balance; of a token in the wallet 0 while the exchange contract is not approved."""
    allowance: str | None
    """Collateral that the exchange contract may take; null for escrow, and for a token, which has
    no amount."""
    requested: str | None
    """Amount that the wallet wants to withdraw from escrow, which covers no orders; null in the
    wallet."""


class AccountBalance(AssetBalance, frozen=True, kw_only=True):
    """An account, with the amounts on the chain."""

    custody: str | None
    """``wallet``, or ``escrow`` for deposits in the exchange contract; null in markets that do not
    settle."""
    chain: ChainBalance | None
    """Amounts on the chain; null without a report, as in markets that do not settle."""


class MakerPosition(Wire, frozen=True, kw_only=True):
    """The trades of a maker in a token, summed up; amounts in wei."""

    market_id: str
    """Market id."""
    token_id: str
    """The outcome token, decimal digits."""
    net_size: str
    """Tokens bought, less the fees in tokens, minus those sold; may be negative."""
    cost: str
    """Collateral paid for them; minus the collateral received if ``netSize`` is negative."""
    average_price: str | None
    """Cost per token, in cents with up to four decimals, rounded down; null without tokens."""
    realised: str
    """Collateral gained by trades that reduced the position, before fees; may be negative."""
    fees: str
    """Fees of sells, in collateral."""
    token_fees: str
    """Fees of buys, in tokens."""
    redemption_value: str | None
    """Value of ``netSize`` in a resolved market; null until the outcome is known."""


class AccountBody(Wire, frozen=True, kw_only=True):
    """Balances and positions of a wallet."""

    maker: str
    """The wallet."""
    balances: list[AccountBalance]
    """Accounts that are not empty: collateral, then tokens by market."""
    positions: list[MakerPosition]
    """Positions by market and token, closed ones included."""
