"""The market of the demo: its terms, the keys of its bots, and the orders that it opens with."""

from typing import Any, Final

from clob import AddMarket, Market, Order, Side, Submit, TimeInForce, tokens
from clob_server.api.options import MIN_SIZE_WEI
from clob_server.auth.policy import SCOPES
from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import BOTS, OPERATOR
from clob_server.core.commands import AnyCommand, BindMarket, DescribeMarket
from clob_server.http.admin_schemas import KeyRequest, add_key, draw_key
from clob_server.service import Service
from clob_server.settings import TEST
from clob_server.settlement.markets import condition_of

MARKET: Final = "demo"
QUESTION: Final = "Will it rain in Oslo on New Year's Day?"
CONDITION: Final = condition_of(MARKET, QUESTION, OPERATOR.address, DEVELOPMENT.collateral)
"""Its condition on every new development chain, computed in advance."""
YES: Final = CONDITION.yes
NO: Final = CONDITION.no
QUOTER, TAKER = BOTS
"""Accounts of the quoting and of the taking bot, on every development chain."""
FAIR: Final = 52
"""Initial fair price of the YES token, in cents."""
LEVELS: Final = 8
"""Initial price levels per side."""
INITIAL_TRADES: Final = (
    (YES, Side.BUY, 3), (YES, Side.SELL, 2), (NO, Side.BUY, 4), (YES, Side.BUY, 1),
)  # fmt: skip
"""Initial trades: token, side and number of tokens."""
PER_MINUTE: Final = 240
"""Requests and orders per minute of the key of a bot."""

QUOTE: Final[dict[str, Any]] = {"maker": QUOTER.address, "post_only": True}
"""Terms of an order that rests."""
TAKE: Final[dict[str, Any]] = {"maker": TAKER.address, "time_in_force": TimeInForce.IOC}
"""Terms of an order that trades at its price or better and never rests."""


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
        fair = FAIR if token == YES else 100 - FAIR
        for step in range(1, LEVELS + 1):
            size = tokens(10 + 7 * step % 23)
            for side, price in ((Side.BUY, fair - step), (Side.SELL, fair + step)):
                commands.append(submit(service, now_ms, token, side, price, size, **QUOTE))
    for token, side, count in INITIAL_TRADES:
        fair = FAIR if token == YES else 100 - FAIR
        price = fair + 1 if side is Side.BUY else fair - 1
        commands.append(submit(service, now_ms, token, side, price, tokens(count), **TAKE))
    return tuple(commands)


def submit(
    service: Service, now_ms: int, token: str, side: Side, price: int, size: int, **terms: Any
) -> Submit:
    """Return the command that places an order with the :data:`QUOTE` or :data:`TAKE` terms."""
    order_id = service.sequencer.next_order_id(now_ms)
    order = Order(id=order_id, token=token, side=side, price=price, size=size, **terms)
    return Submit(market=MARKET, order=order, now_ms=now_ms)


async def key_of(service: Service, maker: str) -> str:
    """Add an API key for a bot and return its secret.

    The requests of a key are not charged to the address that they come from, so that users on the
    same machine keep their budgets.
    """
    request = KeyRequest(
        name="bot of the demo",
        scopes=list(SCOPES),
        makers=(maker,),
        requests_per_minute=PER_MINUTE,
        orders_per_minute=PER_MINUTE,
    )
    secret, key = draw_key(request, TEST)
    await service.sequencer.submit(lambda now_ms: add_key(key, now_ms))
    return secret
