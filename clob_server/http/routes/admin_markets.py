"""Operator routes of markets: create, change, open, halt, resolve."""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

import msgspec

from clob import AddMarket, Funds, Market, Mode, SelfTrade, SetMarket, SetMode
from clob.errors import InvalidAmountError, MarketExistsError, MarketNotOpenError
from clob.signing import fields
from clob.units import SIZE_MAX
from clob.wire.admin import AdminMarketBody, ResolutionBody
from clob_server.api.faults import missing, wrong
from clob_server.api.options import MIN_SIZE_WEI, known_market_id, market_id
from clob_server.api.problems import ApiError
from clob_server.api.request import Reply, reply
from clob_server.chain.events import escrow_asset, is_escrow
from clob_server.core.commands import (
    AnyCommand,
    BeginSettlement,
    BindMarket,
    Condition,
    DescribeMarket,
    RecordCustody,
    SetOutcome,
)
from clob_server.core.registry import MarketText
from clob_server.core.rejections import MarketInUseError, MarketStalledError
from clob_server.core.serialize import ESCROW
from clob_server.http.admin_schemas import MarketChange, MarketRequest, OutcomeRequest, read_body
from clob_server.http.routes.markets import PAGED, markets_page, terms_of
from clob_server.http.server import Request, Route, Server
from clob_server.settlement.markets import OnChain

BASE_BYTES: Final = 16
"""Bytes of the random base that makes the trade ids of one log unique on a chain."""

_MARKETS: Final = "/api/admin/markets"
_MARKET: Final = f"{_MARKETS}/{{marketId}}"


async def list_markets(call: Request) -> Reply:
    """List the markets in the order in which they were created, in pages."""
    return markets_page(call, _MARKETS, market_body)


async def create_market(call: Request) -> Reply:
    """Create a market; without token ids, those of its question on the chain."""
    server, request = call.server, read_body(call, MarketRequest)
    name = market_id(request.market_id)
    if request.custody == ESCROW and not request.settles:
        raise wrong("custody", 'may be "escrow" only with "settles": true', request.custody)
    condition = await condition_of(server, name, request)
    yes, no = read_tokens(request) if condition is None else (condition.yes, condition.no)
    market = Market(
        id=name,
        yes=yes,
        no=no,
        min_size=MIN_SIZE_WEI if request.min_size is None else read_min_size(request.min_size),
        resting_fee_rate_bps=request.resting_fee_rate_bps,
        incoming_fee_rate_bps=request.incoming_fee_rate_bps,
        self_trade=SelfTrade[request.self_trade],
        complementary=request.complementary,
        **(settled_terms(server, condition, request.custody) if request.settles else {}),
    )
    words = MarketText(request.question, request.description)
    async with server.admin_lock:
        with server.auto_open.reserved(name):
            await take_over(server, market)
            await server.sequencer.submit(
                lambda now_ms: create_commands(server, market, condition, now_ms)
            )
        # A batch of its own: if the market is rejected, the texts must not change another market.
        if words != MarketText():
            await server.sequencer.deliver(
                lambda now_ms: describe_command(market.id, words, now_ms)
            )
    server.conditions.sync(market.id)
    return reply_market(server, market.id)


async def take_over(server: Server, market: Market) -> None:
    """Remove a market that an order opened if only its id prevents another one."""
    rejection = server.state.matcher.check(AddMarket(market=market, now_ms=server.state.now_ms))
    if isinstance(rejection, MarketExistsError) and market.id in server.state.registry.opened:
        with suppress(MarketInUseError):  # the rejection of the market shows that it exists
            await server.removal.remove(market.id)


async def remove_market(call: Request) -> Reply:
    """Remove a market without trades, and return it."""
    server, name = call.server, known_market_id(call.params["marketId"])
    async with server.admin_lock:
        answer = reply_market(server, name)
        await server.removal.remove(name)
    return answer


def create_commands(
    server: Server, market: Market, condition: Condition | None, now_ms: int
) -> tuple[AnyCommand, ...]:
    """Return the commands that create a market, its condition in the same batch.

    Raises:
        RejectedError: the market would be rejected, so its condition must not be stored either.
    """
    command = AddMarket(market=market, now_ms=now_ms)
    if condition is None:
        return (command,)
    rejection = server.state.matcher.check(command)
    if rejection is not None:
        raise rejection
    before: list[AnyCommand] = []
    if market.settles and not server.state.registry.settling.base:
        before.append(BeginSettlement(base=os.urandom(BASE_BYTES), now_ms=now_ms))
    if is_escrow(market.collateral):
        before.append(RecordCustody(market=market.id, custody=ESCROW, now_ms=now_ms))
    return (*before, BindMarket(market=market.id, condition=condition, now_ms=now_ms), command)


async def condition_of(server: Server, name: str, request: MarketRequest) -> Condition | None:
    """Return the condition of a market: an existing one, that of its question, or None.

    A market without token ids needs a question or a condition, and a chain.
    """
    adopted = request.condition_id, request.oracle, request.question_id
    if any(each is not None for each in adopted):
        return await adopted_condition(server, request)
    if request.yes_token_id is not None:
        return None
    if not request.question:
        raise missing("yesTokenId", "may be omitted only with a question, on a server with a chain")
    if request.no_token_id is not None:
        raise missing("yesTokenId", "and noTokenId must be given together or both omitted")
    return server.conditions.new(name, request.question)


async def adopted_condition(server: Server, request: MarketRequest) -> Condition:
    """Return the condition that a request names."""
    if request.yes_token_id is not None or request.no_token_id is not None:
        raise wrong(
            "yesTokenId", "must be omitted with conditionId, which determines it", "a token"
        )
    if request.condition_id is None or request.oracle is None or request.question_id is None:
        raise missing("conditionId", "oracle and questionId must be given together")
    condition_id, oracle = request.condition_id, request.oracle
    return await server.conditions.adopted.find(condition_id, oracle, request.question_id)


def settled_terms(server: Server, condition: Condition | None, custody: str) -> dict[str, Any]:
    """Return the terms that make the trades of a market settle on the chain."""
    if condition is None:
        raise missing("settles", "needs a question, and no token ids")
    check_exchange(server)
    collateral = condition.collateral
    if custody == ESCROW:
        server.chain.check_escrow()
        collateral = escrow_asset(collateral)
    return {"funds": Funds.ACCOUNTS, "settles": True, "collateral": collateral}


def check_exchange(server: Server) -> None:
    """Reject a market that settles if the chain has no exchange contract."""
    chain = server.chain
    if chain.addresses is not None and chain.addresses.exchange:
        return
    if not chain.is_open:
        rule = "the address of the exchange contract is not known yet: the chain was not reached"
        raise ApiError("CHAIN_UNAVAILABLE", rule)
    raise ApiError(
        "EXCHANGE_NOT_DEPLOYED",
        f"no exchange contract of this operator at {server.domain.verifying_contract}, the "
        "verifying contract of signed orders",
    )


def read_tokens(request: MarketRequest) -> tuple[str, str]:
    """Read the token ids of a request; the NO token may be empty."""
    no = "" if request.no_token_id is None else token("noTokenId", request.no_token_id)
    return token("yesTokenId", request.yes_token_id), no


async def change_market(call: Request) -> Reply:
    """Change the terms or the texts of a market."""
    server, name = call.server, known_market_id(call.params["marketId"])
    request = read_body(call, MarketChange)
    terms, words = changed_terms(request), changed_words(request)
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
            # After a change of the terms the texts must follow, even if the time is uncertain now.
            submit = server.sequencer.deliver if terms else server.sequencer.submit
            await submit(lambda now_ms: describe_command(name, after, now_ms))
    return reply_market(server, name)


def changed_terms(request: MarketChange) -> dict[str, Any]:
    """Return the changed terms, by the engine's names."""
    terms: dict[str, Any] = {}
    if request.no_token_id is not msgspec.UNSET:
        terms["no"] = token("noTokenId", request.no_token_id)
    if request.min_size is not msgspec.UNSET:
        terms["min_size"] = read_min_size(request.min_size)
    if request.self_trade is not msgspec.UNSET:
        terms["self_trade"] = SelfTrade[request.self_trade]
    for name in ("resting_fee_rate_bps", "incoming_fee_rate_bps"):
        if getattr(request, name) is not msgspec.UNSET:
            terms[name] = getattr(request, name)
    return terms


def changed_words(request: MarketChange) -> dict[str, str]:
    """Return the changed texts."""
    words = {"question": request.question, "description": request.description}
    return {name: text for name, text in words.items() if text is not msgspec.UNSET}


def set_mode(mode: Mode) -> Callable[[Request], Awaitable[Reply]]:
    """Return the handler that sets a mode of a market."""

    async def handler(call: Request) -> Reply:
        server, name = call.server, known_market_id(call.params["marketId"])

        def set_it(now_ms: int) -> AnyCommand:
            stall = server.state.registry.stalls.get(name)
            if stall is not None and mode is Mode.OPEN:
                raise MarketStalledError(
                    f"market {name} opens by itself once it may match again: {stall.reason}"
                )
            return SetMode(market=name, mode=mode, now_ms=now_ms)

        async with server.admin_lock:
            await server.sequencer.submit(set_it)
        return reply_market(server, name)

    return handler


async def resolve_market(call: Request) -> Reply:
    """Resolve a market: remove every order and record the winning token, permanently."""
    server, name = call.server, known_market_id(call.params["marketId"])
    request = read_body(call, OutcomeRequest)
    outcome, now = request.outcome, request.now

    def resolve(now_ms: int) -> tuple[AnyCommand, ...]:
        market = server.state.matcher.market(name)
        command = SetOutcome(market=name, outcome=outcome, now=now, now_ms=now_ms)
        if market.mode is not Mode.RESOLVED:
            return (command, SetMode(market=name, mode=Mode.RESOLVED, now_ms=now_ms))
        resolution, words = resolution_of(server, market), server.state.registry.words[name]
        is_closing = resolution is not None and resolution.state == OnChain.CLOSING.value
        if now and is_closing and words.outcome == outcome:
            return (command,)
        raise MarketNotOpenError(f"market {name} is already resolved")

    async with server.admin_lock:
        condition = server.conditions.condition(name)
        if condition is not None and condition.is_adopted:
            await server.conditions.adopted.check_outcome(name, condition, outcome)
        elif condition is not None:
            server.conditions.check_oracle(condition)
        await server.sequencer.submit(resolve)
    server.conditions.sync(name)
    market = server.state.matcher.market(name)
    if not market.settles:
        return reply_market(server, name)
    location = ((b"location", f"{_MARKETS}/{quote(name, safe='')}".encode()),)
    return reply(market_body(server, market), 202, location)


async def get_market(call: Request) -> Reply:
    """Return a market, with the progress of its resolution."""
    return reply_market(call.server, known_market_id(call.params["marketId"]))


def reply_market(server: Server, name: str) -> Reply:
    """Return a market after a change."""
    return reply(market_body(server, server.state.matcher.market(name)))


def market_body(server: Server, market: Market) -> AdminMarketBody:
    """Return the JSON of a market."""
    return AdminMarketBody(
        **terms_of(server, market),
        self_trade=SelfTrade(market.self_trade).name,
        seq=server.state.matcher.seq(market.id),
        resolution=resolution_of(server, market),
    )


def resolution_of(server: Server, market: Market) -> ResolutionBody | None:
    """Return the progress of the resolution of a market that settles; None without one."""
    if not market.settles or market.mode is not Mode.RESOLVED:
        return None
    waiting = server.state.registry.settling.num_waiting(market.id)
    now = server.state.registry.words[market.id].now
    state, on_chain = "reporting", server.conditions.state(market.id)
    if on_chain is OnChain.REPORTED:
        state = "resolved"
    elif on_chain is OnChain.STUCK:
        state = "stuck"
    elif waiting and not now:
        state = OnChain.CLOSING.value
    return ResolutionBody(state=state, waiting=waiting, detail=server.settlement.detail)


def describe_command(market: str, words: MarketText, now_ms: int) -> DescribeMarket:
    """Return the command that sets the texts of a market."""
    return DescribeMarket(
        market=market, question=words.question, description=words.description, now_ms=now_ms
    )


def read_min_size(value: object) -> int:
    """Read the minimum size of an order, in wei."""
    size = fields.amount("minSize", value)
    if not 1 <= size <= SIZE_MAX:
        detail = f"minSize must be from 1 to {SIZE_MAX} wei; got {size}"
        raise fields.at("minSize", InvalidAmountError(detail))
    return size


def token(path: str, value: object) -> str:
    """Read a token id, an integer or decimal digits, and return its decimal digits."""
    return str(fields.uint(path, value))


ROUTES: Final = (
    Route("admin_list_markets", "GET", _MARKETS, list_markets, query=PAGED),
    Route("admin_create_market", "POST", _MARKETS, create_market, reads_body=True),
    Route("admin_get_market", "GET", _MARKET, get_market),
    Route("admin_change_market", "PATCH", _MARKET, change_market, reads_body=True),
    Route("admin_open_market", "POST", f"{_MARKET}/open", set_mode(Mode.OPEN)),
    Route("admin_halt_market", "POST", f"{_MARKET}/halt", set_mode(Mode.HALTED)),
    Route("admin_cancel_only_market", "POST", f"{_MARKET}/cancel-only", set_mode(Mode.CANCEL_ONLY)),
    Route("admin_remove_market", "DELETE", _MARKET, remove_market),
    Route("admin_resolve_market", "POST", f"{_MARKET}/resolve", resolve_market, reads_body=True),
)
