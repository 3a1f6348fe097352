"""The market of the demo, and what is in it before the bots begin."""

from typing import Final

from clob import AddMarket, Market, Order, Side, Submit, TimeInForce, tokens
from clob_server.chain.accounts import BOTS, OPERATOR
from clob_server.chain.addresses import DEVELOPMENT
from clob_server.commands import AnyCommand, BindMarket, DescribeMarket
from clob_server.conditions import condition_of
from clob_server.service import Service

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
