"""Places, keeps and cancels orders that Polymarket's clients signed."""

import asyncio
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from clob import (
    Batch,
    Cancel,
    CancelSome,
    ClobError,
    OrderRecord,
    OrderRemoved,
    Rejected,
    RejectedError,
    Side,
    TimeInForce,
)
from clob.signing import ORDER, InvalidFieldError, SignedOrder, order_hash, to_order, verify
from clob.signing.profiles import Profile
from clob.wire.orders import CreatedBody
from clob_server.api.faults import check_names, fault, wrong
from clob_server.api.options import OrderOptions, check_expiration
from clob_server.api.problems import ApiError, text_of
from clob_server.api.request import Reply, kind_of, reply
from clob_server.core.sequencer import Committed, QueuedCommand
from clob_server.dialects.polymarket.context import Polymarket
from clob_server.dialects.polymarket.credentials import Credentials
from clob_server.dialects.polymarket.heartbeats import TIMEOUT_MS
from clob_server.dialects.polymarket.login import authenticated
from clob_server.dialects.polymarket.units import WEI, decimal
from clob_server.dialects.polymarket.wallets import owns, wallets_of
from clob_server.http.server import Request, Response
from clob_server.orders.place import NO_ID, ParsedOrder, Placed

TYPES: Final = {
    "GTC": TimeInForce.GTC,
    "GTD": TimeInForce.GTD,
    "FOK": TimeInForce.FOK,
    "FAK": TimeInForce.IOC,
}
"""Order types."""
REQUEST: Final = frozenset(("order", "owner", "orderType", "postOnly", "deferExec"))
"""The fields of a new order."""
SIGNED: Final = frozenset((*(field.name for field in ORDER.fields), "signature"))
"""The fields of a signed order."""
CANCELS_PER_REQUEST: Final = 100
"""Orders cancelled by a request after which it is charged as one more request."""

_CREATED: Final = msgspec.json.Decoder(CreatedBody)


# ----- placing -------------------------------------------------------------------------------


def create_order(polymarket: Polymarket, call: Request) -> Response:
    """Place an order."""
    polymarket.server.lifecycle.check_open()
    credentials = authenticated(polymarket, call)
    parsed = read_order(polymarket, credentials, call.object())
    return answered(polymarket.server.placement.place(call, parsed), parsed)


async def create_orders(polymarket: Polymarket, call: Request) -> Reply:
    """Place several orders, each with its own result. Each counts against the order budget."""
    server = polymarket.server
    server.lifecycle.check_open()
    credentials, items = authenticated(polymarket, call), call.json()
    most = server.state.matcher.limits.batch_max
    if type(items) is not list or not 0 < len(items) <= most:
        raise ApiError("BATCH_TOO_LARGE", f"the body must be an array of 1 to {most} orders")
    server.guard.limiter.charge_orders(call.key, call.address, len(items), call.usage)
    parsed: dict[int, ParsedOrder] = {}
    answers: dict[int, dict[str, Any]] = {}
    for index, item in enumerate(items):
        try:
            parsed[index] = read_order(polymarket, credentials, item)
        except ClobError as error:
            answers[index] = rejection(error)
    for index, result in (await server.batches.place(call, parsed)).items():
        assert not isinstance(result, msgspec.Struct) or isinstance(result, CreatedBody)
        answers[index] = (
            rejection(result) if isinstance(result, ClobError) else placed(result, parsed[index])
        )
    return reply([answers[index] for index in range(len(items))])


def read_order(polymarket: Polymarket, credentials: Credentials, item: object) -> ParsedOrder:
    """Read a new order, and check its signature.

    Raises:
        ApiError: INVALID_FIELD, a field is unknown, missing or invalid.
        UnknownMarketError: no visible market has its token.
        RejectedError: a field of the signed order is invalid, or the amounts are not a price.
        InvalidSignatureError, SignerNotAuthorisedError: the wallet did not sign, or may not sign
            for the maker.
    """
    if type(item) is not dict:
        raise ApiError("INVALID_FIELD", f"an order must be a JSON object; got {kind_of(item)}")
    check_names(item, REQUEST)
    body, kind, post_only = item.get("order"), item.get("orderType"), item.get("postOnly", False)
    if type(body) is not dict:
        raise wrong("order", "must be the signed order, a JSON object", body)
    if item.get("owner") != credentials.key:
        raise wrong("owner", "must be the key in POLY_API_KEY", item.get("owner"))
    if kind not in TYPES:
        raise wrong("orderType", f"must be one of {', '.join(TYPES)}", kind)
    if type(post_only) is not bool:
        raise wrong("postOnly", "must be true or false", post_only)
    check_names(body, SIGNED, within="order.")
    try:
        signed = SignedOrder.from_json(body)
    except InvalidFieldError as error:
        raise fault(f"order.{error.path}", f"order.{error}") from None
    if signed.signer != credentials.address:
        raise wrong("order.signer", "must be the wallet in POLY_ADDRESS", signed.signer)
    return parsed_order(polymarket, signed, TYPES[kind], post_only=post_only)


def parsed_order(
    polymarket: Polymarket, signed: SignedOrder, time_in_force: TimeInForce, *, post_only: bool
) -> ParsedOrder:
    """Return a signed order for the engine, whose amounts have 18 decimals, not 6."""
    server, placement = polymarket.server, polymarket.server.placement
    check_expiration(signed.expiration_s)
    market = polymarket.markets.token(str(signed.token_id)).market
    scaled = replace(
        signed, maker_amount=signed.maker_amount * WEI, taker_amount=signed.taker_amount * WEI
    )
    order = to_order(
        scaled,
        id=NO_ID,
        strict=server.settings.price_policy == "strict",
        operators=server.settings.operators,
        time_in_force=time_in_force,
        post_only=post_only,
    )
    placement.permissions.check_maker(order, settles=False)
    digest = order_hash(signed, server.domain)
    verify(signed, server.domain, digest=digest, profile=Profile.CTF, proxies=owns)
    options = OrderOptions(market, time_in_force, post_only)
    return ParsedOrder(order, options, opens_market=False, signed=signed, order_hash=digest)


# ----- replies -------------------------------------------------------------------------------


def answered(result: Placed, parsed: ParsedOrder) -> Response:
    """Return the reply to a placed order as Polymarket's clients read it."""
    if isinstance(result, QueuedCommand):
        then = result.then
        return QueuedCommand(result.work, lambda committed: answered(then(committed), parsed))
    if isinstance(result, Reply):
        return reply(placed(_CREATED.decode(result.body), parsed))
    return _answered_later(result, parsed)


async def _answered_later(result: Any, parsed: ParsedOrder) -> Reply:
    """Return the reply to an order that was sent again."""
    again: Reply = await result
    return reply(placed(_CREATED.decode(again.body), parsed))


def placed(created: CreatedBody, parsed: ParsedOrder) -> dict[str, Any]:
    """Return the result of a placed order, with the amounts that it paid and received."""
    sizes = [int(trade.size) for trade in created.trades]
    collateral = [
        size * trade.price // 100 for size, trade in zip(sizes, created.trades, strict=True)
    ]
    amounts = sum(sizes), sum(collateral)
    making, taking = amounts if parsed.order.side is Side.SELL else amounts[::-1]
    rests = created.status in ("open", "partial")
    return {
        "success": True,
        "errorMsg": "",
        "orderID": public_id(parsed.order_hash, created.order_id),
        "transactionsHashes": [],
        "status": "matched" if created.matched else "live" if rests else "unmatched",
        "makingAmount": decimal(making) if created.matched else "",
        "takingAmount": decimal(taking) if created.matched else "",
    }


def rejection(error: ClobError) -> dict[str, Any]:
    """Return the result of an order of a list that was rejected."""
    return {
        "success": False,
        "errorMsg": text_of(error),
        "orderID": "",
        "transactionsHashes": [],
        "status": "",
        "makingAmount": "",
        "takingAmount": "",
    }


def public_id(digest: bytes | None, order_id: str | int) -> str:
    """Return the id of an order: its hash, or else the server's id."""
    return str(order_id) if digest is None else f"0x{digest.hex()}"


# ----- keeping -------------------------------------------------------------------------------


async def heartbeat(polymarket: Polymarket, call: Request) -> Reply:
    """Keep the orders of a wallet for 10 seconds; return the id for the next heartbeat."""
    wallet = authenticated(polymarket, call).address
    given = call.object({"heartbeat_id"}).get("heartbeat_id")
    if given is not None and type(given) is not str:
        raise wrong("heartbeat_id", "must be null or the id of the last answer", given)
    ids = polymarket.heartbeats
    ids.check(wallet, given or "")
    await polymarket.server.switches.heartbeat(wallets_of(wallet), TIMEOUT_MS)
    return reply({"heartbeat_id": ids.renew(wallet)})


# ----- cancelling ----------------------------------------------------------------------------


async def cancel_order(polymarket: Polymarket, call: Request) -> Reply:
    """Cancel one order."""
    credentials = authenticated(polymarket, call)
    body = call.object({"orderID"})
    return await cancel(polymarket, call, credentials, [body.get("orderID")])


async def cancel_orders(polymarket: Polymarket, call: Request) -> Reply:
    """Cancel several orders."""
    credentials, ids = authenticated(polymarket, call), call.json()
    if type(ids) is not list:
        raise ApiError("INVALID_FIELD", f"the body must be an array of ids; got {kind_of(ids)}")
    return await cancel(polymarket, call, credentials, ids)


async def cancel_all(polymarket: Polymarket, call: Request) -> Reply:
    """Cancel all orders of a wallet."""
    return await cancel_resting(polymarket, call, authenticated(polymarket, call))


async def cancel_market_orders(polymarket: Polymarket, call: Request) -> Reply:
    """Cancel the orders of a wallet in a market or for a token."""
    credentials, body = authenticated(polymarket, call), call.object({"market", "asset_id"})
    market, token = body.get("market") or None, body.get("asset_id") or None
    if market is None and token is None:
        raise wrong("market", "or asset_id must name the orders to cancel", market)
    return await cancel_resting(polymarket, call, credentials, market, token)


async def cancel_resting(
    polymarket: Polymarket,
    call: Request,
    credentials: Credentials,
    market: object = None,
    token: object = None,
) -> Reply:
    """Cancel resting orders of a wallet as :func:`resting` chooses them, in a command per maker.

    A command for all markets would cancel the orders in hidden markets, too: if there are any, each
    order is cancelled by itself.

    Returns:
        The ids that were cancelled, and the others with the reason.
    """
    server, found = polymarket.server, resting(polymarket, credentials, market, token)
    makers = dict.fromkeys(record.order.maker for record in found)
    is_filtered = not (market is None and token is None)
    if not is_filtered and has_hidden_orders(polymarket, makers):
        return await cancel(polymarket, call, credentials, map(id_of, found))
    name = found[0].market if found and is_filtered else None
    text = None if token is None else read_text("asset_id", token)
    commands = [CancelSome(maker=maker, market=name, token=text) for maker in makers]
    removed = removed_by(await asyncio.gather(*map(server.sequencer.try_submit, commands)))
    server.guard.limiter.charge_work(call.usage, len(removed) // CANCELS_PER_REQUEST)
    ids = {record.order.id: id_of(record) for record in found}
    canceled = [ref for order_id, ref in ids.items() if order_id in removed]
    canceled += [ref_of(polymarket, order_id) for order_id in removed if order_id not in ids]
    left = [record for record in found if record.order.id not in removed]
    reasons = {id_of(record): why_left(polymarket, record) for record in left}
    return reply({"canceled": canceled, "not_canceled": reasons})


def has_hidden_orders(polymarket: Polymarket, makers: Iterable[str]) -> bool:
    """Return whether one of some makers has resting orders in markets that are not visible."""
    matcher, sees = polymarket.server.state.matcher, polymarket.markets.sees
    return any(not sees(market) for maker in makers for market in matcher.open_markets(maker))


def removed_by(done: Iterable[Committed]) -> AbstractSet[str | int]:
    """Return the ids of the orders that commands removed, in the order of their events."""
    return {
        event.order_id: None
        for committed in done
        if not isinstance(committed.outcome, RejectedError)
        for event in committed.outcome
        if type(event) is OrderRemoved
    }.keys()


def ref_of(polymarket: Polymarket, order_id: str | int) -> str:
    """Return the id of an order that the matcher may have forgotten."""
    record = polymarket.server.lookup.known(str(order_id))
    return str(order_id) if record is None else id_of(record)


def why_left(polymarket: Polymarket, record: OrderRecord) -> str:
    """Return why a command that cancels resting orders left one."""
    now = polymarket.server.lookup.known(str(record.order.id))
    if now is not None and now.remaining:
        return f"market {record.market} allows no cancels now"
    return f"the order is {'finished' if now is None else now.status} already"


def id_of(record: OrderRecord) -> str:
    """Return the id of an order."""
    return public_id(record.order_hash, record.order.id)


def resting(
    polymarket: Polymarket,
    credentials: Credentials,
    market: object = None,
    token: object = None,
) -> list[OrderRecord]:
    """Return the resting orders of a wallet in visible markets, in the order of acceptance.

    Args:
        polymarket: the parts of the server.
        credentials: the wallet.
        market: a condition id; None for all markets.
        token: a token; None for all.

    Raises:
        ApiError: INVALID_FIELD; UnknownMarketError: no visible market has this id.
    """
    name = None if market is None else polymarket.markets.market(read_text("market", market)).id
    text = None if token is None else read_text("asset_id", token)
    pages = polymarket.server.resting
    return sorted(
        (
            record
            for maker in wallets_of(credentials.address)
            for record in pages.page(maker, name, 0, len(pages))
            if text in (None, record.order.token) and polymarket.markets.sees(record.market)
        ),
        key=lambda record: record.number,
    )


def read_text(path: str, value: object) -> str:
    """Read a text that is not empty."""
    if type(value) is not str or not value:
        raise wrong(path, "must be a text that is not empty", value)
    return value


async def cancel(
    polymarket: Polymarket, call: Request, credentials: Credentials, ids: Iterable[object]
) -> Reply:
    """Cancel orders of a wallet in one commit.

    Returns:
        The ids that were cancelled, and the others with the reason.
    """
    server, left, commands = polymarket.server, dict[str, str](), dict[str, Cancel]()
    makers = wallets_of(credentials.address)
    for ref in dict.fromkeys(read_text("orderID", each) for each in ids):
        record = server.lookup.known(ref)
        if record is None or record.order.maker not in makers:
            left[ref] = "the order was not found among the open orders of this wallet"
        elif not record.remaining:
            left[ref] = f"the order is {record.status} already"
        else:
            commands[ref] = Cancel(order_id=record.order.id, maker=record.order.maker)
    items, most = list(commands.items()), server.state.matcher.limits.batch_max
    parts = [dict(items[start : start + most]) for start in range(0, len(items), most)]
    for failed in await asyncio.gather(*map(partial(_cancelled, polymarket), parts)):
        left.update(failed)
    server.guard.limiter.charge_work(call.usage, len(commands) // CANCELS_PER_REQUEST)
    canceled = [ref for ref in commands if ref not in left]
    return reply({"canceled": canceled, "not_canceled": left})


async def _cancelled(polymarket: Polymarket, commands: dict[str, Cancel]) -> dict[str, str]:
    """Commit some cancels as one batch; return the reasons of those that were rejected."""
    batch = Batch(commands=tuple(commands.values()))
    committed = await polymarket.server.sequencer.submit(batch)
    assert not isinstance(committed.outcome, RejectedError)
    refs: Sequence[str] = list(commands)
    return {
        refs[event.index]: event.message for event in committed.outcome if type(event) is Rejected
    }
