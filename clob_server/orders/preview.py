"""What would become of an order if it were placed: nothing changes."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from clob import ClobError, Side, Trade
from clob.signing import InvalidSignatureError, SignerNotAuthorisedError, explain
from clob_server.api.problems import content_of
from clob_server.api.schemas import ExpectedTrade, InvalidBody, OutlookBody
from clob_server.core.serialize import average, is_own
from clob_server.orders.place import NOT_YET, ParsedOrder, check_signature, read_order

if TYPE_CHECKING:
    from clob_server.api.request import ApiRequest
    from clob_server.service import Service


async def validate(call: "ApiRequest", body: Mapping[str, Any]) -> OutlookBody | InvalidBody:
    """Do everything with an order but place it.

    A signature that is wrong is explained, which takes dozens of recoveries; they are made in a
    thread.
    """
    service, ticket = call.service, None
    try:
        ticket = read_order(service, body)
        check_signature(service, ticket)
        return outlook(service, ticket, ticket.order_hash)
    except ClobError as error:
        return InvalidBody(
            valid=False,
            refusal=content_of(error, call.request_id)[0],
            explanation=await explained(service, ticket, error),
        )


async def explained(service: "Service", ticket: ParsedOrder | None, error: ClobError) -> str | None:
    """Say what was signed, where it was not this."""
    if ticket is None or ticket.signed is None or not isinstance(error, InvalidSignatureError):
        return None
    if isinstance(error, SignerNotAuthorisedError):  # it was this
        return None
    return (await asyncio.to_thread(explain, ticket.signed, service.domain)).text


def simulate(service: "Service", body: Mapping[str, Any]) -> OutlookBody:
    """Say which trades an order would get. Who signed it is not looked at, nor if it came before.

    Raises:
        RejectedError, ApiError: what it would be refused for.
    """
    ticket = read_order(service, body)
    wanted = structs.replace(ticket.instructions, client_id=None)
    trial = structs.replace(ticket, order_hash=None, instructions=wanted)
    return outlook(service, trial, ticket.order_hash)


def outlook(service: "Service", ticket: ParsedOrder, order_hash: bytes | None) -> OutlookBody:
    """Describe what an order would lead to.

    Args:
        service: where.
        ticket: the order.
        order_hash: what is told of its hash.

    Raises:
        RejectedError, ApiError: what it would be refused for.
    """
    order, trades = ticket.order, expected(service, ticket)
    filled = sum(trade.size for trade in trades)
    paid = sum(trade.size * trade.price // 100 for trade in trades)
    return OutlookBody(
        valid=True,
        order_hash=None if order_hash is None else f"0x{order_hash.hex()}",
        side=int(order.side),
        price=order.price,
        size=str(order.size),
        collateral=str(order.collateral),
        matched=bool(trades),
        trades=[
            ExpectedTrade(
                price=trade.price,
                size=str(trade.size),
                fee=str(trade.buyer_fee if order.side is Side.BUY else trade.seller_fee),
            )
            for trade in trades
        ],
        filled_tokens=str(filled),
        filled_collateral=str(paid),
        average_price=average(paid, filled),
        remaining=str(order.size - filled),
    )


def expected(service: "Service", ticket: ParsedOrder) -> list[Trade]:
    """Give the trades that an order would get now, each for its own token.

    Raises:
        RejectedError, ApiError: what it would be refused for.
    """
    now_ms = max(service.clock_ms(), service.exchange.now_ms)
    if ticket.opens:  # into an empty book
        service.openings.command(ticket, now_ms)
        return []
    trades = service.exchange.matcher.simulate(ticket.submit(NOT_YET, now_ms))
    return [trade for trade in trades if is_own(trade)]
