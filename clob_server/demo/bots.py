"""Two bots: one keeps orders around a price that wanders, one trades with them now and then.

They do one command at a time and at most two in a second. What they do follows from their seed and
from the book they find.
"""

import asyncio
import random  # noqa: TID251 - seeded, and outside the engine
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

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
from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import BOTS, OPERATOR
from clob_server.core.commands import AnyCommand, BindMarket, DescribeMarket
from clob_server.service import Phase, Service
from clob_server.settlement.markets import condition_of

MARKET: Final = "demo"
"""The market."""
QUESTION: Final = "Will it rain in Oslo on New Year's Day?"
"""What is asked."""
CONDITION: Final = condition_of(MARKET, QUESTION, OPERATOR.address, DEVELOPMENT.collateral)
"""Its condition on every fresh development chain, known before there is one."""
YES: Final = CONDITION.yes
"""Its YES token."""
NO: Final = CONDITION.no
"""Its NO token."""
QUOTER: Final = BOTS[0].address
"""The wallet of the bot that makes the market, as everybody's development chain has it."""
TAKER: Final = BOTS[1].address
"""The wallet of the bot that trades in it."""
FAIR: Final = 52
"""What the bots take the YES token to be worth at first, in cents."""
LEVELS: Final = 8
"""How many prices of a side have orders at first."""
TAKEN: Final = ((YES, Side.BUY, 3), (YES, Side.SELL, 2), (NO, Side.BUY, 4), (YES, Side.BUY, 1))
"""What was traded before the first request: token, side and how many tokens."""


def fair_of(token: str, fair: int) -> int:
    """Give what a token is worth where the YES token is worth so many cents."""
    return fair if token == YES else 100 - fair


def opening(service: Service, now_ms: int) -> tuple[AnyCommand, ...]:
    """Give the commands that open the market, fill both of its books and make some trades."""
    commands: list[AnyCommand] = [
        BindMarket(market=MARKET, condition=CONDITION, now_ms=now_ms),
        AddMarket(market=Market(id=MARKET, yes=YES, no=NO), now_ms=now_ms),
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
                commands.append(quote(service, now_ms, token, side, price, size))
    for token, side, count in TAKEN:
        fair = fair_of(token, FAIR)
        price = fair + 1 if side is Side.BUY else fair - 1
        commands.append(take(service, now_ms, token, side, price, tokens(count)))
    return tuple(commands)


def quote(service: Service, now_ms: int, token: str, side: Side, price: int, size: int) -> Submit:
    """Give the command that rests an order."""
    order = Order(
        id=next_id(service, now_ms),
        token=token,
        maker=QUOTER,
        side=side,
        price=price,
        size=size,
        post_only=True,
    )
    return Submit(market=MARKET, order=order, now_ms=now_ms)


def take(service: Service, now_ms: int, token: str, side: Side, price: int, size: int) -> Submit:
    """Give the command that trades with what rests at a price or a better one."""
    order = Order(
        id=next_id(service, now_ms),
        token=token,
        maker=TAKER,
        side=side,
        price=price,
        size=size,
        time_in_force=TimeInForce.IOC,
    )
    return Submit(market=MARKET, order=order, now_ms=now_ms)


def next_id(service: Service, now_ms: int) -> str:
    """Name the next order."""
    return service.ids.order(now_ms, service.next_order_number())


PAUSE_S: Final = 0.51
"""The shortest time between two commands; a timer may be early by a little."""
TAKES: Final = 0.35
"""How often it is the turn of the bot that trades."""
WANDERS: Final = 0.15
"""How often the price wanders by a cent."""
FAIR_MIN, FAIR_MAX = 30, 70
"""How far it wanders."""
REACH: Final = 10
"""How far from the price an order may be before it is taken out."""
DEPTH: Final = 8
"""How many prices of each side are quoted."""
LEVELS_MIN: Final = 3
"""How many prices of a side are always left."""
ORDERS_MAX: Final = 20
"""How many orders of a side there are before the oldest is taken out."""


class Bots:
    """Both bots.

    Args:
        service: where they trade.
        seed: what they do.
    """

    def __init__(self, service: Service, seed: int = 1) -> None:
        self._service: Final = service
        self._random: Final = random.Random(seed)
        self._fair = FAIR

    async def trade(self) -> None:
        """Trade until the server is about to stop, or until cancelled."""
        while self._service.phase is Phase.READY:
            await asyncio.sleep(PAUSE_S * (1 + self._random.random()))
            with suppress(ClobError):  # another order came first, or the engine has stopped
                await self._service.engine.ask(self.next_command)

    def next_command(self, now_ms: int) -> AnyCommand:
        """Give what is done now."""
        draw = self._random
        token = draw.choice((YES, NO))
        side = draw.choice((Side.BUY, Side.SELL))
        if draw.random() < WANDERS:
            self._fair = min(max(self._fair + draw.choice((-1, 1)), FAIR_MIN), FAIR_MAX)
        taken = self._taken(token, side, now_ms) if draw.random() < TAKES else None
        return taken or self._withdrawn(token, side, now_ms) or self._quoted(token, side, now_ms)

    def _levels(self, token: str, side: Side) -> Sequence[Level]:
        """Give what rests on a side, the best first."""
        depth = self._service.exchange.matcher.depth(MARKET, token)
        return depth.bids if side is Side.BUY else depth.asks

    def _taken(self, token: str, side: Side, now_ms: int) -> Submit | None:
        """Trade with the best price, unless too little would be left."""
        levels = self._levels(token, other(side))
        if len(levels) <= LEVELS_MIN:
            return None
        best = levels[0]
        size = min(best.size, tokens(self._random.randint(1, 12)))
        return take(self._service, now_ms, token, side, best.price, size)

    def _withdrawn(self, token: str, side: Side, now_ms: int) -> Cancel | None:
        """Take out an order that is out of place, or the oldest of too many."""
        if len(self._levels(token, side)) <= LEVELS_MIN:
            return None
        fair = fair_of(token, self._fair)
        resting = self._service.exchange.matcher.open_orders(maker=QUOTER, market=MARKET)
        own = [each for each in resting if each.order.token == token and each.order.side is side]
        misplaced = [each for each in own if not 0 < distance(each, fair) <= REACH]
        if not misplaced and len(own) < ORDERS_MAX:
            return None
        order_id = (misplaced or own)[0].order.id
        return Cancel(market=MARKET, order_id=order_id, maker=QUOTER, now_ms=now_ms)

    def _quoted(self, token: str, side: Side, now_ms: int) -> Submit:
        """Rest an order at the price that has least, of those that would not trade."""
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
        return quote(self._service, now_ms, token, side, price, size)


def other(side: Side) -> Side:
    """Give the other side."""
    return Side.SELL if side is Side.BUY else Side.BUY


def distance(record: OrderRecord, fair: int) -> int:
    """Say how far an order is from the price, on its own side; below 0 it is on the other."""
    return fair - record.price if record.order.side is Side.BUY else record.price - fair


# MERGED clob_server.demo.bots: The market of the demo, and what is in it before the bots begin.
