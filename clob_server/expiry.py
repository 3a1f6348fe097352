"""Orders that fall due are taken out within a second, by a command like any other (decision 50)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from clob import ClobError, Expire
from clob_server.engine import Engine

LOOK_S: Final = 0.25
"""How often it is looked whether one is due."""


async def sweep(engine: Engine, clock_ms: Callable[[], int]) -> None:
    """Ask for an expiry whenever an order is due, and only then, until cancelled.

    Args:
        engine: whose orders.
        clock_ms: tells the time, Unix milliseconds.
    """
    matcher = engine.exchange.matcher
    while True:
        await asyncio.sleep(LOOK_S)
        next_s = matcher.next_expiry_s
        if next_s is not None and clock_ms() // 1000 > next_s:
            with suppress(ClobError):  # a full engine is asked again, a stopped one needs none
                await engine.ask(lambda now_ms: Expire(now_ms=now_ms))
