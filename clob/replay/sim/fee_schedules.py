"""Fee schedules of venues, by name, each with the date and the address of its source.

Rates are as a source stated them on that date; a schedule of a venue can differ from market to
market and change at any time. Maker and volume rebates that a venue pays later from a pool are not
included. Other schedules are made from the classes of :mod:`clob.replay.sim.fees`.
"""

import dataclasses
from typing import Final

from clob.replay.sim.fees import (
    BalanceFees,
    Charge,
    Commission,
    CurveFees,
    Fees,
    Traded,
    no_fees,
)


@dataclasses.dataclass(frozen=True)
class FeeSchedule:
    """A named fee schedule, usable wherever a fee schedule is."""

    name: str
    """Its name, such as ``kalshi-2026``."""
    terms: str
    """Markets and rates in a sentence."""
    stated: str
    """Date of the statement, or its first day where that is stated; ``undated`` if unknown."""
    source: str
    """Address of the statement."""
    fees: Fees
    """The function that charges them."""

    def __call__(self, traded: Traded) -> Charge:
        """Return the fee on one side of a trade.

        Args:
            traded: one side of a trade.
        """
        return self.fees(traded)

    def __str__(self) -> str:
        return f"{self.name} ({self.stated}, {self.source})"


_POLYMARKET: Final = "https://docs.polymarket.com/trading/fees"
_REBATES: Final = "https://docs.polymarket.com/market-makers/maker-rebates"
_KALSHI: Final = (
    "https://web.archive.org/web/20260612075630/https://kalshi.com/docs/kalshi-fee-schedule.pdf"
)
_KALSHI_ROUNDING: Final = "https://docs.kalshi.com/getting_started/fee_rounding"
_KALSHI_CHANGES: Final = (
    "https://api.elections.kalshi.com/trade-api/v2/series/fee_changes?show_historical=true"
)
_BETFAIR: Final = "https://support.betfair.com/app/answers/detail/a_id/413"
_BETFAIR_AU: Final = "https://www.betfair.com.au/hub/help/account-help/commissions-and-charges/"
_BETFAIR_BASIC: Final = (
    "https://tradingsportsreviews.com/how-does-betfair-commissions-work-in-2020/"
)

_USDC_STEP: Final = 10**13
"""Polymarket rounds fees to five decimals, and charges nothing below the fifth."""

_POLYMARKET_BPS: Final = {
    "": ("other and general markets", 500),
    "crypto": ("crypto", 700),
    "sports": ("sports", 500),
    "finance": ("finance", 400),
    "politics": ("politics", 400),
    "economics": ("economics", 500),
    "culture": ("culture", 500),
    "weather": ("weather", 500),
    "mentions": ("mentions", 400),
    "tech": ("tech", 400),
    "geopolitics": ("geopolitics", 0),
}
"""Rates of incoming orders by category: words, basis points."""


def _polymarket() -> list[FeeSchedule]:
    schedules = [
        _curve(f"polymarket-2026-{category}".rstrip("-"), words, bps, "2026-07-27", _POLYMARKET)
        for category, (words, bps) in _POLYMARKET_BPS.items()
    ]
    schedules += [
        _curve("polymarket-2026-04-crypto", "crypto", 720, "2026-04-01", _POLYMARKET),
        _curve("polymarket-2026-04-sports", "sports", 300, "2026-04-01", _POLYMARKET),
        _early("polymarket-2026-03-crypto", "crypto", 2_500, 2, "2026-03-06"),
        _early("polymarket-2026-03-sports", "college basketball and Serie A", 175, 1, "2026-02-18"),
    ]
    return schedules


def _curve(name: str, words: str, bps: int, stated: str, source: str) -> FeeSchedule:
    """Return a schedule of Polymarket since April 2026, in collateral."""
    rate = f"incoming orders pay {_percent(bps)} of size * p * (1 - p), rounded down to 0.00001"
    terms = f"{words}: {rate}; resting orders are free" if bps else f"{words}: free"
    fees = CurveFees(incoming_bps=bps, step_wei=_USDC_STEP, round_up=False)
    return FeeSchedule(name, terms, stated, source, fees)


def _early(name: str, words: str, bps: int, exponent: int, stated: str) -> FeeSchedule:
    """Return a schedule of Polymarket before April 2026, on the received amount."""
    power = f"**{exponent}" if exponent > 1 else ""
    rate = f"{_percent(bps)} * (p * (1 - p)){power} of the received amount, rounded down to 0.0001"
    fees = CurveFees(bps, 0, 10**14, exponent, round_up=False, of_received=True)
    terms = f"{words}: incoming orders pay {rate}; resting orders are free"
    return FeeSchedule(name, terms, stated, _REBATES, fees)


def _kalshi() -> list[FeeSchedule]:
    since, half = ("2026-02-05", _KALSHI), ("2026-08-07", _KALSHI_CHANGES)
    direct = ("2026-10-08", _KALSHI_ROUNDING)
    cent, hundredth = 10**16, 10**14
    rows = (
        ("kalshi-2026", "most series", (70_000, 0, cent), since),
        ("kalshi-2026-maker", "series with maker fees", (70_000, 17_500, cent), since),
        ("kalshi-2026-index", "S&P 500, Nasdaq-100 until 2026-07-03", (35_000, 0, cent), since),
        ("kalshi-2026-half", "multiplier 0.5 (MLB)", (35_000, 0, cent), half),
        ("kalshi-2026-half-maker", "with maker fees (MLB games)", (35_000, 8_750, cent), half),
        ("kalshi-2026-direct", "direct members", (70_000, 0, hundredth), direct),
        ("kalshi-2026-direct-maker", "with maker fees", (70_000, 17_500, hundredth), direct),
    )
    return [
        FeeSchedule(name, f"{words}: {_quadratic(*rates)}", *origin, BalanceFees(*rates))
        for name, words, rates, origin in rows
    ]


def _quadratic(incoming_ppm: int, resting_ppm: int, unit_wei: int) -> str:
    """Describe the rates of Kalshi."""
    rests = f"pay {_percent(resting_ppm, 10_000)}" if resting_ppm else "are free"
    unit = "cents" if unit_wei == 10**16 else "0.0001"
    return (
        f"incoming orders pay {_percent(incoming_ppm, 10_000)} of size * p * (1 - p), resting "
        f"orders {rests}; balances are rounded down to {unit}, with refunds within an order"
    )


def _betfair() -> list[FeeSchedule]:
    rows = (
        (2, "the package Basic", "2020-01", _BETFAIR_BASIC),
        (5, "the usual market base rate", "undated", _BETFAIR_AU),
        (7, "Australian racing", "undated", _BETFAIR_AU),
        (10, "National Rugby League", "undated", _BETFAIR_AU),
    )
    return [
        FeeSchedule(
            f"betfair-{percent}",
            f"{words}: {percent} % of the net winnings of a market, when it settles",
            stated,
            source,
            Commission(percent * 100),
        )
        for percent, words, stated, source in rows
    ]


def _percent(rate: int, unit: int = 100) -> str:
    """Write a rate as per cent without trailing zeros."""
    whole, rest = divmod(rate, unit)
    fraction = str(unit + rest)[1:].rstrip("0")
    return f"{whole}.{fraction} %" if fraction else f"{whole} %"


FEE_SCHEDULES: Final[dict[str, FeeSchedule]] = {
    one.name: one for one in (*_polymarket(), *_kalshi(), *_betfair())
}
"""The schedules by name."""


def fee_schedule(name: str) -> FeeSchedule:
    """Return a schedule by name.

    >>> fee_schedule("betfair-5").terms
    'the usual market base rate: 5 % of the net winnings of a market, when it settles'

    Args:
        name: one of :data:`FEE_SCHEDULES`.

    Raises:
        ValueError: there is no such schedule; the message lists the names.
    """
    if name not in FEE_SCHEDULES:
        raise ValueError(f"fees must be one of {', '.join(FEE_SCHEDULES)}; got {name!r}")
    return FEE_SCHEDULES[name]


def fees_of(fees: Fees | str) -> Fees:
    """Return a schedule, which may be passed by name as for :func:`fee_schedule`."""
    return fee_schedule(fees) if isinstance(fees, str) else fees


def describe_fees(fees: Fees) -> str:
    """Return the name of a schedule with date and source, or how an unnamed one was made.

    >>> describe_fees(Commission(500)), describe_fees(no_fees)
    ('Commission(bps=500, together=())', 'none')

    Args:
        fees: any fee schedule.
    """
    if fees is no_fees:
        return "none"
    if isinstance(fees, FeeSchedule):
        return str(fees)
    if dataclasses.is_dataclass(fees):
        return repr(fees)
    # The repr of a function has its address, which differs from run to run.
    name: str = getattr(fees, "__name__", type(fees).__name__)
    return name
