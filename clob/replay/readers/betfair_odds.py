"""The 350 steps of the odds of Betfair, and their ticks.

The step 1.01 is tick 1, 1.02 tick 2, 2.00 tick 100, and so on to 1000, which is tick 350. The steps
widen with the odds, so ticks are places in the ladder and say nothing of probabilities.
"""

from clob.replay.digits import units

STEPS = (
    (101, 200, 1),
    (200, 300, 2),
    (300, 400, 5),
    (400, 600, 10),
    (600, 1_000, 20),
    (1_000, 2_000, 50),
    (2_000, 3_000, 100),
    (3_000, 5_000, 200),
    (5_000, 10_000, 500),
    (10_000, 100_000, 1_000),
)
"""From which odds, to below which, and how far apart, in hundredths."""

LADDER = (*(odds for lo, hi, step in STEPS for odds in range(lo, hi, step)), 100_000)
"""The odds of tick 1, 2, ..., 350, in hundredths."""

TICKS = {odds: tick for tick, odds in enumerate(LADDER, 1)}
"""The tick of odds, in hundredths."""


def tick_of(odds: str | int) -> int:
    """Give the tick of odds.

    >>> tick_of("1.01"), tick_of(2), tick_of("3.05"), tick_of(1000)
    (1, 100, 151, 350)

    Args:
        odds: as they are written.

    Returns:
        The tick, 1 to 350.

    Raises:
        ValueError: there is no such step.
    """
    hundredths = units(odds, 2)
    if hundredths not in TICKS:
        raise ValueError(f"{odds} is no step of the odds")
    return TICKS[hundredths]


def odds_of(tick: int) -> str:
    """Write the odds of a tick.

    >>> odds_of(151)
    '3.05'

    Args:
        tick: 1 to 350.

    Returns:
        The odds with two digits behind the point.

    Raises:
        IndexError: there is no such tick.
    """
    if tick < 1:
        raise IndexError(f"there is no tick {tick}")
    return f"{LADDER[tick - 1] // 100}.{LADDER[tick - 1] % 100:02}"
