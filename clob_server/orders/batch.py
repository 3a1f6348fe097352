"""Creates or cancels several orders in one request: one command, and a result for each order."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from clob import Batch, Cancel, ClobError, Event, OrderAdded, Rejected, RejectedError, Submit, Trade
from clob.errors import InsufficientBalanceError
from clob.signing import SignedOrder, verify_batch
from clob.signing.fields import received
from clob_server.api.faults import check_names, wrong
from clob_server.api.problems import ApiError
from clob_server.api.request import ApiRequest
from clob_server.api.schemas import CreatedBody, OrderBody, TradeSummary
from clob_server.core.sequencer import Committed, NewOrders, NoOrderLeftError, Sequencer
from clob_server.core.serialize import own_trades, summaries
from clob_server.orders.cancel import CANCEL, CancelRequest, OrderCancels, not_open, read_cancel
from clob_server.orders.place import OrderPlacement, ParsedOrder, first_reply, status_after

BATCH: Final = frozenset(("orders",))
"""The fields of a batch."""

Results: TypeAlias = dict[int, CreatedBody | OrderBody | ClobError]
"""The result of each order, by its index in the request."""


@dataclass(slots=True, eq=False)
class OrderBatches:
    """Handles requests with several orders."""

    sequencer: Sequencer
    placement: OrderPlacement
    cancels: OrderCancels

    def read_items(self, body: dict[str, Any]) -> list[Any]:
        """Return the list of orders in a body.

        Raises:
            ApiError: INVALID_FIELD, it is missing or empty, or another field is unknown;
                BATCH_TOO_LARGE.
        """
        check_names(body, BATCH)
        items = body.get("orders")
        if type(items) is not list or not items:
            raise wrong("orders", "must be an array with at least one order", items)
        most = self.sequencer.state.matcher.limits.batch_max
        if len(items) > most:
            raise ApiError("BATCH_TOO_LARGE", f"a batch may hold {most} orders; got {len(items)}")
        return items

    # ----- creating ----------------------------------------------------------------------------

    async def create(self, call: ApiRequest, items: Sequence[object]) -> Results:
        """Place orders in their sequence, as one batch.

        Raises:
            QueueFullError, SequencerStoppedError, OutcomeUnknownError: as ``Sequencer.submit``.
        """
        results: Results = {}
        parsed: dict[int, ParsedOrder] = {}
        for index, item in enumerate(items):
            try:
                parsed[index] = self._read(call, read_item(item))
            except ClobError as error:
                results[index] = error
        for index, rejection in self._check_signatures(parsed).items():
            results[index] = rejection
            del parsed[index]
        return {**results, **await self.place(call, parsed)}

    async def place(self, call: ApiRequest, parsed: Mapping[int, ParsedOrder]) -> Results:
        """Place orders that were read and checked, as one batch; return results by their keys.

        Raises:
            QueueFullError, SequencerStoppedError, OutcomeUnknownError: as ``Sequencer.submit``.
        """
        results: Results = {
            index: await self._first_reply(each)
            for index, each in parsed.items()
            if self.placement.accepted_as(each)
        }
        new = {index: each for index, each in parsed.items() if index not in results}
        if new:
            results.update(await self._place(call, new))
        return results

    def _read(self, call: ApiRequest, body: dict[str, Any]) -> ParsedOrder:
        """Read an order of a batch, and check the key for one without a signature."""
        parsed = self.placement.read(body)
        if parsed.signed is None:
            self.placement.guard.may_act_for(call, parsed.order.maker)
        return parsed

    def _check_signatures(self, parsed: Mapping[int, ParsedOrder]) -> dict[int, ClobError]:
        """Check all signatures, those of a market together, and return the rejections."""
        placement = self.placement
        by_market: defaultdict[str, list[tuple[int, SignedOrder, bytes]]] = defaultdict(list)
        for index, each in parsed.items():
            if each.signed is not None:
                assert each.order_hash is not None
                by_market[each.options.market].append((index, each.signed, each.order_hash))
        rejected: dict[int, ClobError] = {}
        for market, several in by_market.items():
            verdicts = verify_batch(
                [order for _, order, _ in several],
                placement.domain,
                digests=[digest for _, _, digest in several],
                delegates=partial(placement.permissions.may_sign, market),
            )
            for (index, _, _), verdict in zip(several, verdicts, strict=True):
                if verdict:
                    try:
                        placement.check_signature(parsed[index])
                    except ClobError as error:
                        rejected[index] = error
        return rejected

    async def _place(self, call: ApiRequest, parsed: Mapping[int, ParsedOrder]) -> Results:
        """Commit orders as one batch and return their results, by index in the request."""
        opener = self.placement.opener(call)
        new = NewOrders(
            [
                each.new(call.payer, opener if each.opens_market else None)
                for each in parsed.values()
            ]
        )
        indexes = list(parsed)
        try:
            committed = await self.sequencer.submit(new)
            created = self._created(committed)
        except NoOrderLeftError:
            created = []
        results: Results = {indexes[place]: error for place, error in new.rejected.items()}
        placed = [index for place, index in enumerate(indexes) if place not in new.rejected]
        for index, result in zip(placed, created, strict=True):
            if isinstance(result, ClobError) and result.code == "ORDER_ALREADY_USED":
                results[index] = await self._first_reply(parsed[index])
            else:
                results[index] = result
        return results

    async def _first_reply(self, parsed: ParsedOrder) -> CreatedBody | ClobError:
        """Return the first reply to an order that was accepted before."""
        accepted = self.placement.accepted_as(parsed)
        try:
            return await first_reply(self.placement.lookup, str(accepted))
        except ClobError as error:
            return error

    def _created(self, committed: Committed) -> list[CreatedBody | ClobError]:
        """Return the result of each order of a batch that was committed."""
        command, outcome = committed.command, committed.outcome
        assert type(command) is Batch
        assert not isinstance(outcome, RejectedError)
        rejected = {event.index: event for event in outcome if type(event) is Rejected}
        own = _own_events(outcome)
        trades: defaultdict[str | int, list[TradeSummary]] = defaultdict(list)
        traded = (event for _, event in own_trades(outcome, committed.num_trades))
        bodies = summaries(outcome, self.placement.ids, command.now_ms, committed.num_trades)
        for trade, summary in zip(traded, bodies, strict=True):
            trades[trade.incoming_order_id].append(summary)
        created: list[CreatedBody | ClobError] = []
        for index, submit in enumerate(command.commands):
            assert type(submit) is Submit
            order_id = submit.order.id
            if index in rejected:
                created.append(self._rejection(submit, rejected[index]))
            else:
                created.append(
                    CreatedBody(
                        success=True,
                        order_id=str(order_id),
                        matched=order_id in trades,
                        trades=trades.get(order_id, []),
                        status=_status_in(own[order_id]),
                    )
                )
        return created

    def _rejection(self, submit: Submit, rejected: Rejected) -> ClobError:
        """Return the rejection of an order by the matcher."""
        if rejected.code != InsufficientBalanceError.code:
            return ApiError(rejected.code, rejected.message)
        rejection = InsufficientBalanceError(rejected.message)
        return self.placement.explained(submit.order, submit.market, rejection)

    # ----- cancelling --------------------------------------------------------------------------

    async def cancel(self, call: ApiRequest, items: Sequence[object]) -> Results:
        """Cancel orders as one batch, and return them as they are afterwards.

        Raises:
            QueueFullError, SequencerStoppedError, OutcomeUnknownError: as ``Sequencer.submit``.
        """
        results: Results = {}
        found: dict[int, tuple[CancelRequest, str]] = {}
        for index, item in enumerate(items):
            try:
                body = read_item(item)
                check_names(body, CANCEL)
                cancel = read_cancel(body.get("orderId"), body)
                self.cancels.check_authority(call, cancel)
                found[index] = cancel, await self.cancels.find(cancel)
            except ClobError as error:
                results[index] = error
        if not found:
            return results
        commands = tuple(
            Cancel(order_id=order_id, maker=cancel.maker) for cancel, order_id in found.values()
        )
        committed = await self.sequencer.submit(Batch(commands=commands))
        assert not isinstance(committed.outcome, RejectedError)
        rejected = {event.index: event for event in committed.outcome if type(event) is Rejected}
        for place, (index, (_, order_id)) in enumerate(found.items()):
            results[index] = await self._cancelled(order_id, rejected.get(place))
        return results

    async def _cancelled(self, order_id: str, rejected: Rejected | None) -> OrderBody | ClobError:
        """Return the result of one cancel of a batch."""
        if rejected is not None and rejected.code != "ORDER_NOT_OPEN":
            return ApiError(rejected.code, rejected.message)
        try:
            order = await self.cancels.lookup.get(order_id)
        except ClobError as error:
            return error
        return order if rejected is None else not_open(order)


def read_item(item: object) -> dict[str, Any]:
    """Return an order of a list; it must be a JSON object."""
    if type(item) is not dict:
        raise ApiError("INVALID_FIELD", f"an order must be a JSON object; got {received(item)}")
    return item


def _own_events(events: Sequence[Event | Rejected]) -> Mapping[str | int, list[Event]]:
    """Return the trades of each incoming order, and the event with which it came to rest."""
    own: defaultdict[str | int, list[Event]] = defaultdict(list)
    for event in events:
        if isinstance(event, Trade):
            own[event.incoming_order_id].append(event)
        elif type(event) is OrderAdded:
            own[event.order_id].append(event)
    return own


def _status_in(events: Sequence[Event]) -> str:
    """Return the status of an order from its own events, as JSON writes it."""
    trades = [event for event in events if isinstance(event, Trade)]
    return status_after(events, trades[-1] if trades else None).value
