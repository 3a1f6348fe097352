"""Several orders in one request, each with its own result: one command, and one commit for all."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from clob import Batch, Cancel, ClobError, Event, OrderAdded, Rejected, RejectedError, Submit, Trade
from clob.signing import SignedOrder, verify_batch
from clob.status import OrderStatus
from clob_server.api.options import wrong
from clob_server.api.problems import ApiError
from clob_server.api.schemas import CreatedBody, OrderBody, TradeSummary
from clob_server.core.commands import AnyCommand, SignatureRecord
from clob_server.core.sequencer import Committed
from clob_server.core.serialize import own_trades, summaries
from clob_server.orders.cancel import (
    Wish,
    check_authority,
    find_own,
    not_open,
    order_now,
    read_cancel,
)
from clob_server.orders.permissions import may_sign
from clob_server.orders.place import (
    ParsedOrder,
    accepted_as,
    check_signature,
    first_answer,
    just_rests,
    read_order,
    status_after,
)

if TYPE_CHECKING:
    from clob_server.api.request import ApiRequest
    from clob_server.service import Service

Results: TypeAlias = dict[int, CreatedBody | OrderBody | ClobError]
"""What came of each, by its place in the request."""
OPEN: Final = OrderStatus.OPEN.value
"""What most orders are when they have come in."""


class NothingLeftError(ClobError):
    """All of a batch was refused before it came to the engine."""

    code = "REJECTED"


def read_items(service: "Service", body: Mapping[str, Any]) -> list[Any]:
    """Read the list of orders in a body.

    Raises:
        ApiError: INVALID_FIELD, there is none; BATCH_TOO_LARGE.
    """
    given = body.get("orders")
    if type(given) is not list or not given:
        raise wrong("orders", "must be a list with at least one order", given)
    most = service.exchange.matcher.limits.batch_max
    if len(given) > most:
        raise ApiError("BATCH_TOO_LARGE", f"a batch holds at most {most} orders, not {len(given)}")
    return given


def read_item(item: object) -> dict[str, Any]:
    """Read one of the list.

    Raises:
        ApiError: INVALID_FIELD, it is no object.
    """
    if type(item) is not dict:
        raise ApiError("INVALID_FIELD", f"an order must be a JSON object, not {item!r:.80}")
    return item


# ----- creating ------------------------------------------------------------------------------


async def place_all(call: "ApiRequest", items: Sequence[object]) -> Results:
    """Have orders placed, in their sequence.

    Raises:
        EngineFullError, EngineStoppedError, OutcomeUnknownError: nobody did, or nobody knows.
    """
    service = call.service
    results: Results = {}
    tickets: dict[int, ParsedOrder] = {}
    for place, item in enumerate(items):
        try:
            tickets[place] = read_one(call, read_item(item))
        except ClobError as error:
            results[place] = error
    for place, refusal in badly_signed(service, tickets).items():
        results[place] = refusal
        del tickets[place]
    for place in [place for place, ticket in tickets.items() if accepted_as(service, ticket)]:
        results[place] = await again(service, tickets.pop(place))
    if tickets:
        await Placing(service, tickets).into(results)
    return results


def read_one(call: "ApiRequest", body: Mapping[str, Any]) -> ParsedOrder:
    """Read an order of a batch, and refuse a gasless one of somebody else's.

    Raises:
        RejectedError, ApiError: as :func:`~clob_server.orders.place.read_order`; MAKER_NOT_ALLOWED.
    """
    ticket = read_order(call.service, body)
    if ticket.signed is None:
        call.service.guard.may_act_for(call, ticket.order.maker)
    return ticket


def badly_signed(service: "Service", tickets: Mapping[int, ParsedOrder]) -> dict[int, ClobError]:
    """Check all signatures, those of a market at once, and give the refusals."""
    by_market: defaultdict[str, list[tuple[int, SignedOrder, bytes]]] = defaultdict(list)
    for place, ticket in tickets.items():
        if ticket.signed is not None:
            assert ticket.order_hash is not None  # none may be left out here
            signed = (place, ticket.signed, ticket.order_hash)
            by_market[ticket.instructions.market].append(signed)
    refused: dict[int, ClobError] = {}
    for market, several in by_market.items():
        verdicts = verify_batch(
            [order for _, order, _ in several],
            service.domain,
            digests=[digest for _, _, digest in several],
            delegates=partial(may_sign, service, market),
        )
        for (place, _, _), verdict in zip(several, verdicts, strict=True):
            if verdict:
                try:
                    check_signature(service, tickets[place])
                except ClobError as error:
                    refused[place] = error
    return refused


async def again(service: "Service", ticket: ParsedOrder) -> CreatedBody | ClobError:
    """Give the first answer to an order that was accepted before."""
    known = accepted_as(service, ticket)
    try:
        return await first_answer(service, str(known))
    except ClobError as error:
        return error


class Placing:
    """Orders on their way into the engine as one command.

    Args:
        service: where.
        tickets: the orders, by their place in the request.
    """

    def __init__(self, service: "Service", tickets: Mapping[int, ParsedOrder]) -> None:
        self._service = service
        self._tickets = tickets
        self._refused: dict[int, ClobError] = {}
        self._places: list[int] = []

    async def into(self, results: Results) -> None:
        """Have them placed, and add what came of them."""
        try:
            done = await self._service.engine.ask(self._commands)
        except NothingLeftError:
            done = None
        results.update(self._refused)
        if done is None:
            return
        for place, created in zip(self._places, created_by(self._service, done), strict=True):
            if isinstance(created, ClobError) and created.code == "ORDER_ALREADY_USED":
                results[place] = await again(self._service, self._tickets[place])
            else:
                results[place] = created

    def _commands(self, now_ms: int) -> tuple[AnyCommand, ...]:
        """Give what opens their markets, their papers, and last the batch."""
        service = self._service
        opening: list[AnyCommand] = []
        papers: list[SignatureRecord] = []
        submits: list[Submit] = []
        for place, ticket in self._tickets.items():
            try:
                opening += service.openings.commands(ticket, now_ms) if ticket.opens else ()
            except ClobError as error:
                self._refused[place] = error
                continue
            order_id = service.ids.order(now_ms, service.next_order_number())
            papers += ticket.papers(order_id, now_ms)
            submits.append(ticket.submit(order_id, now_ms))
            self._places.append(place)
        if not submits:
            raise NothingLeftError("no order is left")
        return (*opening, *papers, Batch(commands=tuple(submits), now_ms=now_ms))


def created_by(service: "Service", done: Committed) -> list[CreatedBody | ClobError]:
    """Say what came of each order of a batch."""
    command, outcome = done.command, done.outcome
    assert type(command) is Batch
    if isinstance(outcome, RejectedError):
        return [outcome for _ in command.commands]
    refused = {event.index: event for event in outcome if type(event) is Rejected}
    own = own_events(outcome)
    trades: defaultdict[str | int, list[TradeSummary]] = defaultdict(list)
    traded = (event for _, event in own_trades(outcome, done.num_trades))
    told = summaries(outcome, service.ids, command.now_ms, done.num_trades)
    for trade, summary in zip(traded, told, strict=True):
        trades[trade.incoming_order_id].append(summary)
    created: list[CreatedBody | ClobError] = []
    for index, submit in enumerate(command.commands):
        assert type(submit) is Submit
        order_id = submit.order.id
        if index in refused:
            created.append(ApiError(refused[index].code, refused[index].message))
        else:
            created.append(
                CreatedBody(
                    success=True,
                    order_id=str(order_id),
                    matched=order_id in trades,
                    trades=trades.get(order_id, []),
                    status=status_in(own[order_id]),
                )
            )
    return created


def status_in(events: Sequence[Event | Rejected]) -> str:
    """Give the status of an order from its own events, as JSON writes it."""
    return OPEN if just_rests(events) else status_after(events).value


def own_events(events: Sequence[Event | Rejected]) -> Mapping[str | int, list[Event]]:
    """Sort out the trades of each order that came in, and its coming to rest."""
    own: defaultdict[str | int, list[Event]] = defaultdict(list)
    for event in events:
        if isinstance(event, Trade):
            own[event.incoming_order_id].append(event)
        elif type(event) is OrderAdded:
            own[event.order_id].append(event)
    return own


# ----- cancelling ----------------------------------------------------------------------------


async def cancel_all(call: "ApiRequest", items: Sequence[object]) -> Results:
    """Have orders taken out of their books, and give them as they are then.

    Raises:
        EngineFullError, EngineStoppedError, OutcomeUnknownError: nobody did, or nobody knows.
    """
    service = call.service
    results: Results = {}
    found: dict[int, tuple[Wish, str]] = {}
    for place, item in enumerate(items):
        try:
            body = read_item(item)
            wish = read_cancel(body.get("orderId"), body)
            check_authority(call, wish)
            found[place] = wish, await find_own(service, wish)
        except ClobError as error:
            results[place] = error
    if not found:
        return results
    done = await service.engine.ask(
        lambda now_ms: Batch(
            commands=tuple(
                Cancel(order_id=order_id, maker=wish.maker, now_ms=now_ms)
                for wish, order_id in found.values()
            ),
            now_ms=now_ms,
        )
    )
    assert not isinstance(done.outcome, RejectedError)
    refused = {event.index: event for event in done.outcome if type(event) is Rejected}
    for index, (place, (_, order_id)) in enumerate(found.items()):
        results[place] = await cancelled(service, order_id, refused.get(index))
    return results


async def cancelled(
    service: "Service", order_id: str, refused: Rejected | None
) -> OrderBody | ClobError:
    """Say what came of one cancel of a batch."""
    if refused is not None and refused.code != "ORDER_NOT_OPEN":
        return ApiError(refused.code, refused.message)
    try:
        order = await order_now(service, order_id)
    except ClobError as error:
        return error
    return order if refused is None else not_open(order)
