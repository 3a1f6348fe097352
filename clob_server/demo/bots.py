"""The demo market and its two bots: one quotes around a drifting price, one trades with it.

The bots send one command at a time and at most two per second. Their actions depend only on the
seed and the book.
"""

import asyncio
import random  # noqa: TID251 - seeded, and outside the engine
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from clob import (
    AddMarket,
    Cancel,
    ClobError,
    Level,
    Market,
    Order,
    OrderRecord,
    Side,
    Submit,
    TimeInForce,
    tokens,
)
from clob_server.api.options import MIN_SIZE_WEI
from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import BOTS, OPERATOR
from clob_server.core.commands import AnyCommand, BindMarket, DescribeMarket
from clob_server.core.lifecycle import Phase
from clob_server.service import Service
from clob_server.settlement.markets import condition_of

MARKET: Final = "demo"
QUESTION: Final = "Will it rain in Oslo on New Year's Day?"
CONDITION: Final = condition_of(MARKET, QUESTION, OPERATOR.address, DEVELOPMENT.collateral)
"""Its condition on every new development chain, computed in advance."""
YES: Final = CONDITION.yes
NO: Final = CONDITION.no
QUOTER: Final = BOTS[0].address
"""Wallet of the quoting bot, an account of every development chain."""
TAKER: Final = BOTS[1].address
FAIR: Final = 52
"""Initial fair price of the YES token, in cents."""
LEVELS: Final = 8
"""Initial price levels per side."""
INITIAL_TRADES: Final = (
    (YES, Side.BUY, 3), (YES, Side.SELL, 2), (NO, Side.BUY, 4), (YES, Side.BUY, 1),
)  # fmt: skip
"""Initial trades: token, side and number of tokens."""


def fair_of(token: str, fair: int) -> int:
    """Return the fair price of a token for a fair YES price."""
    return fair if token == YES else 100 - fair


def opening(service: Service, now_ms: int) -> tuple[AnyCommand, ...]:
    """Return commands that open the market, fill both books and make some trades."""
    commands: list[AnyCommand] = [
        BindMarket(market=MARKET, condition=CONDITION, now_ms=now_ms),
        AddMarket(market=Market(id=MARKET, yes=YES, no=NO, min_size=MIN_SIZE_WEI), now_ms=now_ms),
        DescribeMarket(
            market=MARKET,
            question=QUESTION,
            description="Two bots trade here, and nothing is at stake.",
            now_ms=now_ms,
        ),
    ]
    for token in (YES, NO):
        fair = fair_of(token, FAIR)
        for step in range(1, LEVELS + 1):
            size = tokens(10 + 7 * step % 23)
            for side, price in ((Side.BUY, fair - step), (Side.SELL, fair + step)):
                commands.append(submit(service, now_ms, token, side, price, size, **QUOTE))
    for token, side, count in INITIAL_TRADES:
        fair = fair_of(token, FAIR)
        price = fair + 1 if side is Side.BUY else fair - 1
        commands.append(submit(service, now_ms, token, side, price, tokens(count), **TAKE))
    return tuple(commands)


QUOTE: Final[dict[str, Any]] = {"maker": QUOTER, "post_only": True}
"""Terms of an order that rests."""
TAKE: Final[dict[str, Any]] = {"maker": TAKER, "time_in_force": TimeInForce.IOC}
"""Terms of an order that trades at its price or better and never rests."""


def submit(
    service: Service, now_ms: int, token: str, side: Side, price: int, size: int, **terms: Any
) -> Submit:
    """Return the command that places an order with the :data:`QUOTE` or :data:`TAKE` terms."""
    order_id = service.sequencer.next_order_id(now_ms)
    order = Order(id=order_id, token=token, side=side, price=price, size=size, **terms)
    return Submit(market=MARKET, order=order, now_ms=now_ms)


PAUSE_S: Final = 0.51
"""Shortest time between two commands; timers may fire slightly early."""
TRADE_PROBABILITY: Final = 0.35
"""Probability that the trading bot acts."""
DRIFT_PROBABILITY: Final = 0.15
"""Probability that the fair price moves by a cent."""
FAIR_MIN, FAIR_MAX = 30, 70
"""Range of the fair price."""
DISTANCE_MAX: Final = 10
"""Largest distance of an order from the fair price before it is cancelled."""
DEPTH: Final = 8
"""Price levels quoted per side."""
LEVELS_MIN: Final = 3
"""Price levels that always remain per side."""
ORDERS_MAX: Final = 20
"""Orders per side before the oldest is cancelled."""


class Bots:
    """Both bots; the seed determines their actions."""

    def __init__(self, service: Service, seed: int = 1) -> None:
        self._service: Final = service
        self._random: Final = random.Random(seed)
        self._fair = FAIR

    async def trade(self) -> None:
        """Trade until the server drains or the task is cancelled."""
        while self._service.lifecycle.phase is Phase.READY:
            await asyncio.sleep(PAUSE_S * (1 + self._random.random()))
            with suppress(ClobError):  # another order came first, or the engine has stopped
                await self._service.sequencer.submit(self.next_command)

    def next_command(self, now_ms: int) -> AnyCommand:
        """Return the next action."""
        draw = self._random
        token = draw.choice((YES, NO))
        side = draw.choice((Side.BUY, Side.SELL))
        if draw.random() < DRIFT_PROBABILITY:
            self._fair = min(max(self._fair + draw.choice((-1, 1)), FAIR_MIN), FAIR_MAX)
        taken = self._trade(token, side, now_ms) if draw.random() < TRADE_PROBABILITY else None
        return taken or self._cancel(token, side, now_ms) or self._quote(token, side, now_ms)

    def _levels(self, token: str, side: Side) -> Sequence[Level]:
        """Return the levels of a side, best first."""
        depth = self._service.state.matcher.depth(MARKET, token)
        return depth.bids if side is Side.BUY else depth.asks

    def _trade(self, token: str, side: Side, now_ms: int) -> Submit | None:
        """Trade at the best price, unless too few levels would remain."""
        levels = self._levels(token, other(side))
        if len(levels) <= LEVELS_MIN:
            return None
        best = levels[0]
        size = min(best.size, tokens(self._random.randint(1, 12)))
        return submit(self._service, now_ms, token, side, best.price, size, **TAKE)

    def _cancel(self, token: str, side: Side, now_ms: int) -> Cancel | None:
        """Cancel an order that is out of range, or the oldest of too many."""
        if len(self._levels(token, side)) <= LEVELS_MIN:
            return None
        fair = fair_of(token, self._fair)
        resting = self._service.state.matcher.open_orders(maker=QUOTER, market=MARKET)
        own = [each for each in resting if each.order.token == token and each.order.side is side]
        misplaced = [each for each in own if not 0 < distance(each, fair) <= DISTANCE_MAX]
        if not misplaced and len(own) < ORDERS_MAX:
            return None
        order_id = (misplaced or own)[0].order.id
        return Cancel(market=MARKET, order_id=order_id, maker=QUOTER, now_ms=now_ms)

    def _quote(self, token: str, side: Side, now_ms: int) -> Submit:
        """Rest an order at the thinnest level that does not cross."""
        fair = fair_of(token, self._fair)
        sizes = {level.price: level.size for level in self._levels(token, side)}
        opposite = self._levels(token, other(side))
        sign = -1 if side is Side.BUY else 1
        prices = [fair + sign * step for step in range(1, DEPTH + 1)]
        if opposite:
            edge = opposite[0].price
            prices = [price for price in prices if (price - edge) * sign > 0] or [edge + sign]
        price = min(prices, key=lambda each: sizes.get(each, 0))
        size = tokens(self._random.randint(5, 30))
        return submit(self._service, now_ms, token, side, price, size, **QUOTE)


def other(side: Side) -> Side:
    """Return the opposite side."""
    return Side.SELL if side is Side.BUY else Side.BUY


def distance(record: OrderRecord, fair: int) -> int:
    """Return the distance of an order from the fair price; negative on the wrong side."""
    return fair - record.price if record.order.side is Side.BUY else record.price - fair
