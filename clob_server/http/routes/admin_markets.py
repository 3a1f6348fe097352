"""What an operator does with markets: open one, change its terms, halt it, resolve it."""

import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from clob import AddMarket, Funds, Market, Mode, SelfTrade, SetMarket, SetMode
from clob.errors import InvalidAmountError, MarketNotOpenError
from clob.signing import fields
from clob.units import SIZE_MAX
from clob_server.api.options import market_id, missing
from clob_server.api.problems import ApiError
from clob_server.api.request import Reply, reply
from clob_server.core.commands import (
    AnyCommand,
    BeginSettlement,
    BindMarket,
    Condition,
    DescribeMarket,
    SetOutcome,
)
from clob_server.core.registry import MarketText
from clob_server.http.admin_schemas import (
    AdminMarketBody,
    MarketAsked,
    MarketChange,
    OutcomeAsked,
    market_body,
    read_body,
)
from clob_server.http.pagination import CURSOR_MAX, next_page, read_number
from clob_server.http.server import Request, Route, Server

PAGE: Final = 100
"""How many markets there are on a page, unless it is asked for otherwise."""
PAGE_MAX: Final = 500
"""How many there may be."""
PAIR_LOT_WEI: Final = 100
"""What sizes are multiples of where orders for both tokens meet (decision 40)."""
SETTLED_MIN_WEI: Final = 10**16
"""The smallest size where trades settle, unless another is named (decision 52)."""
BASE_BYTES: Final = 16
"""How many bytes tell apart the trades of one log from those of all others on a chain."""

_MARKETS: Final = "/api/admin/markets"
_MARKET: Final = f"{_MARKETS}/{{marketId}}"


async def list_markets(call: Request) -> Reply:
    """List the markets in the sequence in which they were opened, a page of them at a time."""
    query = call.query()
    limit = read_number(query, "limit", PAGE, 1, PAGE_MAX)
    begin = read_number(query, "cursor", 0, 0, CURSOR_MAX)
    markets = call.server.state.matcher.markets
    found = [describe(call.server, market) for market in markets[begin : begin + limit]]
    end = begin + limit
    more = len(markets) > end
    return reply(found, headers=next_page(_MARKETS, {"limit": limit}, end) if more else ())


async def create_market(call: Request) -> Reply:
    """Open a market, with words if there are any, and on the chain if its tokens are not named."""
    server, asked = call.server, read_body(call, MarketAsked)
    name = market_id(asked.market_id)
    condition = condition_of(server, name, asked) if asked.yes_token_id is None else None
    yes, no = named_tokens(asked) if condition is None else (condition.yes, condition.no)
    smallest_size = asked.min_size
    if smallest_size is None:
        smallest_size = SETTLED_MIN_WEI if asked.settles else 1
    market = Market(
        id=name,
        yes=yes,
        no=no,
        min_size=smallest(smallest_size),
        resting_fee_rate_bps=asked.resting_fee_rate_bps,
        incoming_fee_rate_bps=asked.incoming_fee_rate_bps,
        self_trade=SelfTrade[asked.self_trade],
        lot_wei=PAIR_LOT_WEI if asked.complementary else 1,
        complementary=asked.complementary,
        **(settled_terms(server, condition) if asked.settles else {}),
    )
    words = MarketText(asked.question, asked.description)
    async with server.admin_lock:
        await server.sequencer.submit(lambda now_ms: opening(server, market, condition, now_ms))
        # By itself: beside a refusal in one batch it would change the words of another market.
        if words != MarketText():
            await server.sequencer.submit(lambda now_ms: said(market.id, words, now_ms))
    server.conditions.sync(market.id)
    return reply(describe(server, server.state.matcher.market(market.id)))


def opening(
    server: Server, market: Market, condition: Condition | None, now_ms: int
) -> tuple[AnyCommand, ...]:
    """Give what opens a market: its condition in the same batch, so that neither is alone.

    Raises:
        RejectedError: it would be refused, and its condition must not be kept then.
    """
    command = AddMarket(market=market, now_ms=now_ms)
    if condition is None:
        return (command,)
    refusal = server.state.matcher.check(command)
    if refusal is not None:
        raise refusal
    bind = BindMarket(market=market.id, condition=condition, now_ms=now_ms)
    if market.settles and not server.state.registry.settling.base:
        return (BeginSettlement(base=os.urandom(BASE_BYTES), now_ms=now_ms), bind, command)
    return (bind, command)


def condition_of(server: Server, name: str, asked: MarketAsked) -> Condition:
    """Give the condition of a market that names no tokens.

    Raises:
        ApiError: INVALID_FIELD, it has no question, or a NO token all the same;
            CHAIN_NOT_CONFIGURED, CHAIN_UNAVAILABLE.
    """
    if not asked.question:
        raise missing("yesTokenId", "may be left out only where there are a question and a chain")
    if asked.no_token_id is not None:
        raise missing("yesTokenId", "goes with noTokenId: both, or none")
    return server.conditions.new(name, asked.question)


def settled_terms(server: Server, condition: Condition | None) -> dict[str, Any]:
    """Give the terms that make the trades of a market settle on the chain.

    Raises:
        ApiError: INVALID_FIELD, its tokens are not of the chain; EXCHANGE_NOT_DEPLOYED.
    """
    if condition is None:
        raise missing("settles", "goes with a question, and tokens that are not named")
    check_exchange(server)
    return {"funds": Funds.ACCOUNTS, "settles": True, "collateral": condition.collateral}


def check_exchange(server: Server) -> None:
    """Refuse a market that settles where the chain has no exchange contract.

    Raises:
        ApiError: CHAIN_UNAVAILABLE, it has not been reached yet; EXCHANGE_NOT_DEPLOYED.
    """
    chain = server.chain
    if chain.addresses is not None and chain.addresses.exchange:
        return
    if not chain.is_open:
        raise ApiError("CHAIN_UNAVAILABLE", "the chain has not said yet where its exchange is")
    raise ApiError(
        "EXCHANGE_NOT_DEPLOYED",
        f"trades settle at {server.domain.verifying_contract}, the contract that orders are "
        "signed for, and there is no exchange of this operator there",
    )


def named_tokens(asked: MarketAsked) -> tuple[str, str]:
    """Read the tokens that a market names; the second may be empty."""
    no = "" if asked.no_token_id is None else token("noTokenId", asked.no_token_id)
    return token("yesTokenId", asked.yes_token_id), no


async def change_market(call: Request) -> Reply:
    """Change the terms of a market, and what is said of it."""
    server, name = call.server, market_id(call.params["marketId"])
    asked = read_body(call, MarketChange)
    terms, words = changed_terms(asked), changed_words(asked)
    matcher, registry = server.state.matcher, server.state.registry
    matcher.market(name)
    async with server.admin_lock:
        if terms:

            def set_terms(now_ms: int) -> AnyCommand:
                market = msgspec.structs.replace(matcher.market(name), **terms)
                return SetMarket(market=market, now_ms=now_ms)

            await server.sequencer.submit(set_terms)
        if words:
            before = registry.words.get(name, MarketText())
            after = msgspec.structs.replace(before, **words)
            await server.sequencer.submit(lambda now_ms: said(name, after, now_ms))
    return reply(describe(server, matcher.market(name)))


def changed_terms(asked: MarketChange) -> dict[str, Any]:
    """Read the terms that are to change, by the names that the engine has for them."""
    terms: dict[str, Any] = {}
    if asked.no_token_id is not msgspec.UNSET:
        terms["no"] = token("noTokenId", asked.no_token_id)
    if asked.min_size is not msgspec.UNSET:
        terms["min_size"] = smallest(asked.min_size)
    if asked.self_trade is not msgspec.UNSET:
        terms["self_trade"] = SelfTrade[asked.self_trade]
    for name in ("resting_fee_rate_bps", "incoming_fee_rate_bps"):
        if getattr(asked, name) is not msgspec.UNSET:
            terms[name] = getattr(asked, name)
    return terms


def changed_words(asked: MarketChange) -> dict[str, str]:
    """Read the words that are to change."""
    words = {"question": asked.question, "description": asked.description}
    return {name: text for name, text in words.items() if text is not msgspec.UNSET}


def set_mode(mode: Mode) -> Callable[[Request], Awaitable[Reply]]:
    """Make the handler that gives a market a mode."""

    async def handler(call: Request) -> Reply:
        server, name = call.server, market_id(call.params["marketId"])
        async with server.admin_lock:
            await server.sequencer.submit(
                lambda now_ms: SetMode(market=name, mode=mode, now_ms=now_ms)
            )
        return reply(describe(server, server.state.matcher.market(name)))

    return handler


async def resolve_market(call: Request) -> Reply:
    """State which token won: every order is removed, and the market stays so."""
    server, name = call.server, market_id(call.params["marketId"])
    outcome = read_body(call, OutcomeAsked).outcome
    matcher = server.state.matcher

    def resolve(now_ms: int) -> tuple[AnyCommand, ...]:
        if matcher.market(name).mode is Mode.RESOLVED:
            raise MarketNotOpenError(f"market {name!r} is resolved, and stays so")
        return (
            SetOutcome(market=name, outcome=outcome, now_ms=now_ms),
            SetMode(market=name, mode=Mode.RESOLVED, now_ms=now_ms),
        )

    async with server.admin_lock:
        await server.sequencer.submit(resolve)
    server.conditions.sync(name)
    return reply(describe(server, matcher.market(name)))


def describe(server: Server, market: Market) -> AdminMarketBody:
    """Describe a market as it is now."""
    state = server.state
    words = state.registry.words.get(market.id, MarketText())
    on_chain = server.conditions.describe(market.id)
    return market_body(market, words, state.matcher.seq(market.id), on_chain)


def said(market: str, words: MarketText, now_ms: int) -> DescribeMarket:
    """Make the command that says what a market is about."""
    return DescribeMarket(
        market=market, question=words.question, description=words.description, now_ms=now_ms
    )


def smallest(value: object) -> int:
    """Read the smallest size of an order, in wei.

    Raises:
        InvalidAmountError: it is no amount, or 0, or beyond all sizes.
        AmountTooLargeError: it is 2**256 or more.
    """
    size = fields.amount("minSize", value)
    if not 1 <= size <= SIZE_MAX:
        told = f"minSize must be from 1 to {SIZE_MAX} wei, not {size}"
        raise fields.at("minSize", InvalidAmountError(told))
    return size


def token(path: str, value: object) -> str:
    """Read the id of a token, and give its decimal digits.

    Raises:
        InvalidFieldError: it is neither an integer nor decimal digits, or 2**256 or more.
    """
    return str(fields.uint(path, value))


ROUTES: Final = (
    Route("admin_list_markets", "GET", _MARKETS, list_markets),
    Route("admin_create_market", "POST", _MARKETS, create_market, reads_body=True),
    Route("admin_change_market", "PATCH", _MARKET, change_market, reads_body=True),
    Route("admin_open_market", "POST", f"{_MARKET}/open", set_mode(Mode.OPEN)),
    Route("admin_halt_market", "POST", f"{_MARKET}/halt", set_mode(Mode.HALTED)),
    Route("admin_cancel_only_market", "POST", f"{_MARKET}/cancel-only", set_mode(Mode.CANCEL_ONLY)),
    Route("admin_resolve_market", "POST", f"{_MARKET}/resolve", resolve_market, reads_body=True),
)
"""The operator's routes of markets."""
