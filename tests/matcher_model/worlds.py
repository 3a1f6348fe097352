"""Markets, makers and wallets of the random commands, few enough to interact."""

import msgspec

from clob import Funds, Limits, Market, SelfTrade


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of random commands; small, so that orders match and rules apply."""

    markets: tuple[Market, ...]
    makers: tuple[str, ...] = ("A", "B", "C", "")
    smart_wallets: tuple[str, ...] = ("", "", "", "W", "B")
    middle: int = 50
    wealth: int = 80
    """Typical balance of a wallet in an asset, in wei."""
    largest_lots: int = 30
    limits: tuple[Limits, ...] = (
        Limits(),
        Limits(finished_max=2),
        Limits(finished_max=10, orders_max=6),
        Limits(trades_max=1, orders_max=3, batch_max=2),
        Limits(trades_max=2, finished_max=30),
    )
    small: bool = True
    """Whether all orders may be listed to draw one."""
    broken: float = 0.06
    """The share of commands that get wrong values."""
    odd: float = 0.06
    """Probability of an unusual choice: a used id, another maker's order."""


def market(name, **fields):
    """Return a market with tokens named after it."""
    return Market(**({"id": name, "yes": f"{name}-yes", "no": f"{name}-no"} | fields))


SMALL = World(
    markets=(
        market("bare", lot_wei=5, min_size=10, self_trade=SelfTrade.CANCEL_RESTING),
        market(
            "paid",
            funds=Funds.ACCOUNTS,
            resting_fee_rate_bps=300,
            incoming_fee_rate_bps=1_000,
            fee_wallet="C",
        ),
        market(
            "chain",
            funds=Funds.ACCOUNTS,
            settles=True,
            incoming_fee_rate_bps=700,
            self_trade=SelfTrade.CANCEL_BOTH,
        ),
        market("half", no="", resting_fee_rate_bps=100),
    )
)
"""A market without funds, one with accounts and fees, one whose trades wait to be settled, and one
whose NO is named later."""

TIGHT = World(
    markets=(
        market("paid", funds=Funds.ACCOUNTS, incoming_fee_rate_bps=1_000, fee_wallet="A"),
        market("chain", funds=Funds.ACCOUNTS, settles=True, self_trade=SelfTrade.DECREMENT),
    ),
    makers=("A", "B"),
    wealth=40,
    largest_lots=12,
)
"""Two makers with low balances in two markets with the same collateral."""


PAIRED = World(
    markets=(
        market("bare", complementary=True, lot_wei=100, min_size=200),
        market(
            "paid",
            complementary=True,
            lot_wei=100,
            funds=Funds.ACCOUNTS,
            resting_fee_rate_bps=300,
            incoming_fee_rate_bps=1_000,
            fee_wallet="C",
        ),
        market(
            "chain",
            complementary=True,
            lot_wei=300,
            funds=Funds.ACCOUNTS,
            settles=True,
            incoming_fee_rate_bps=700,
            self_trade=SelfTrade.CANCEL_RESTING,
        ),
        market("plain", lot_wei=100, funds=Funds.ACCOUNTS),
    ),
    wealth=20_000,
)
"""Complementary markets, and one ordinary market."""


def busy(*, markets, makers):
    """Return a world of many markets, most with accounts and fees."""
    kinds = (SMALL.markets[1], SMALL.markets[2], SMALL.markets[1], SMALL.markets[0])
    return World(
        markets=tuple(
            msgspec.structs.replace(
                kinds[n % 4], id=f"m{n}", yes=f"m{n}-yes", no=f"m{n}-no", fee_wallet="fees"
            )
            for n in range(markets)
        ),
        makers=tuple(f"maker{n}" for n in range(makers)),
        wealth=10**21,
        largest_lots=10**19,
        limits=(Limits(), Limits(), Limits(finished_max=500), Limits(trades_max=3)),
        small=False,
        broken=0.02,
        odd=0.02,
    )
