"""Requests about several orders, each one command: create or cancel a batch, replace an order."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec.structs import asdict

from clob import Batch, Cancel, ClobError, Event, OrderAdded, Rejected, RejectedError, Submit, Trade
from clob.errors import (
    InsufficientBalanceError,
    MarketNotOpenError,
    OrderAlreadyUsedError,
    OrderNotOpenError,
)
from clob.signing import SignedOrder, verify_batch
from clob.signing.fields import received
from clob.status import OrderRecord, OrderStatus
from clob.wire.orders import CreatedBody, OrderBody, ReplacedBody, TradeSummary
from clob_server.api.faults import check_names, missing, read_wallet, wrong
from clob_server.api.problems import ApiError
from clob_server.api.request import ApiRequest
from clob_server.core.sequencer import Committed, NewOrders, NoOrderLeftError, Sequencer
from clob_server.core.serialize import own_trades, summaries
from clob_server.orders.cancel import (
    CANCEL,
    IF_REMAINING,
    CancelRequest,
    OrderCancels,
    not_open,
    read_cancel,
    read_expected,
)
from clob_server.orders.place import OrderPlacement, ParsedOrder, first_reply, status_after

BATCH: Final = frozenset(("orders",))
"""The fields of a batch."""
NEW_BATCH: Final = BATCH | {"atomic"}
"""The fields of a batch of new orders."""

_OF_THE_OLD: Final = ("cancel", IF_REMAINING)
"""The fields of a replacement that are about the order to cancel."""

Results: TypeAlias = dict[int, CreatedBody | OrderBody | ClobError]
"""The result of each order, by its index in the request."""


@dataclass(slots=True, eq=False)
class OrderBatches:
    """Handles requests with several orders."""

    sequencer: Sequencer
    placement: OrderPlacement
    cancels: OrderCancels

    def read_items(self, body: dict[str, Any], known: AbstractSet[str] = BATCH) -> list[Any]:
        """Return the list of orders in a body.

        Args:
            body: the body.
            known: the fields that it may have.

        Raises:
            ApiError: INVALID_FIELD, it is missing or empty, or another field is unknown;
                BATCH_TOO_LARGE.
        """
        check_names(body, known)
        items = body.get("orders")
        if type(items) is not list or not items:
            raise wrong("orders", "must be an array with at least one order", items)
        most = self.sequencer.state.matcher.limits.batch_max
        if len(items) > most:
            raise ApiError("BATCH_TOO_LARGE", f"a batch may hold {most} orders; got {len(items)}")
        return items

    # ----- creating ----------------------------------------------------------------------------

    async def create(
        self, call: ApiRequest, items: Sequence[object], *, atomic: bool = False
    ) -> Results:
        """Place orders in their sequence, as one batch.

        Args:
            call: the request.
            items: the orders in JSON.
            atomic: place all of them or none.

        Raises:
            QueueFullError, SequencerStoppedError, CommitUnknownError: as ``Sequencer.submit``.
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
        if atomic:
            return await self._place_atomic(call, len(items), results, parsed)
        return {**results, **await self.place(call, parsed)}

    async def place(self, call: ApiRequest, parsed: Mapping[int, ParsedOrder]) -> Results:
        """Place orders that were read and checked, as one batch; return results by their keys.

        Raises:
            QueueFullError, SequencerStoppedError, CommitUnknownError: as ``Sequencer.submit``.
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
            self.placement.guard.may_act_for(call, parsed.order.maker, "create_gasless_order")
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
        await self._read_wallets(parsed.values())
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

    async def _place_atomic(
        self,
        call: ApiRequest,
        count: int,
        results: Results,
        parsed: Mapping[int, ParsedOrder],
    ) -> Results:
        """Commit orders as one atomic batch and return their results, by index in the request.

        Args:
            call: the request.
            count: number of orders in it.
            results: the rejections so far.
            parsed: the other orders.
        """
        accepted = {index for index, each in parsed.items() if self.placement.accepted_as(each)}
        if len(accepted) == count:
            return {index: await self._first_reply(each) for index, each in parsed.items()}
        for index, each in parsed.items():
            if index in accepted:
                results[index] = OrderAlreadyUsedError("the order was accepted before, on its own")
            elif each.opens_market:
                results[index] = not_opened(each)
        if not results:
            await self._read_wallets(parsed.values())
            new = NewOrders([each.new(call.payer) for each in parsed.values()], atomic=True)
            try:
                created = self._created(await self.sequencer.submit(new))
                return dict(enumerate(created))
            except RejectedError as rejection:
                if all(map(self.placement.accepted_as, parsed.values())):  # sent twice at one time
                    return {index: await self._first_reply(each) for index, each in parsed.items()}
                index = rejection.index or 0
                order, market = parsed[index].order, parsed[index].options.market
                results[index] = self.placement.explained(order, market, rejection)
        return {index: results.get(index) or not_placed(results) for index in range(count)}

    async def _read_wallets(self, parsed: Iterable[ParsedOrder]) -> None:
        """Wait for the chain worker to read the wallets of orders that it has dropped."""
        reading = self.placement.reading(parsed)
        if reading is not None:
            await reading

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
            if type(submit) is not Submit:
                continue
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
        for kind in (InsufficientBalanceError, MarketNotOpenError):
            if rejected.code == kind.code:
                rejection = kind(rejected.message)
                return self.placement.explained(submit.order, submit.market, rejection)
        return ApiError(rejected.code, rejected.message)

    # ----- replacing ---------------------------------------------------------------------------

    async def replace(self, call: ApiRequest, order_ref: str, body: dict[str, Any]) -> ReplacedBody:
        """Cancel an order and place another one, both or neither.

        Args:
            call: the request.
            order_ref: the order to cancel.
            body: the new order; ``cancel`` has the signature of the cancel, if any, and
                ``ifRemaining`` the remaining size that the old order must have, if any.

        Raises:
            RejectedError, ApiError: as for a new order or a cancel; INVALID_FIELD, the new order is
                for another market or token; ORDER_ALREADY_USED, it was accepted before, and the old
                one rests; REMAINING_CHANGED, the old one has another remaining size.
            QueueFullError, SequencerStoppedError, CommitUnknownError: as ``Sequencer.submit``.
        """
        placement, cancels = self.placement, self.cancels
        parsed = self._read(call, {name: body[name] for name in body if name not in _OF_THE_OLD})
        placement.check_signature(parsed)
        cancel = read_replaced(order_ref, parsed.order.maker, body.get("cancel"))
        expected = read_expected(body)
        if placement.accepted_as(parsed):
            return await self._replaced_before(cancel, parsed)
        cancels.check_authority(call, cancel)
        record = await cancels.find(cancel)
        check_replacement(record, parsed)
        old = Cancel(order_id=record.order.id, maker=cancel.maker)
        new = NewOrders([parsed.new(call.payer)], cancels=(old,), atomic=True)
        try:
            work = cancels.guarded(new, str(record.order.id), expected)
            committed = await self.sequencer.submit(work)
        except ApiError:
            if placement.accepted_as(parsed):  # it was sent twice at the same time
                return await self._replaced_before(cancel, parsed)
            raise
        except RejectedError as rejection:
            if placement.accepted_as(parsed):  # it was sent twice at the same time
                return await self._replaced_before(cancel, parsed)
            if isinstance(rejection, OrderNotOpenError):
                raise not_open(await cancels.order(cancel)) from None
            raise placement.explained(parsed.order, parsed.options.market, rejection) from None
        [created] = self._created(committed)
        assert isinstance(created, CreatedBody)
        order = await cancels.lookup.get(str(record.order.id))
        return ReplacedBody(**asdict(created), replaced=order)

    async def _replaced_before(self, cancel: CancelRequest, parsed: ParsedOrder) -> ReplacedBody:
        """Return the first reply to a replacement that was accepted before.

        Raises:
            OrderAlreadyUsedError: the new order was accepted, but the old one rests.
            UnknownOrderError, NotTheMakerError: as :meth:`OrderCancels.order`.
        """
        old = await self.cancels.order(cancel)
        if old.status in (OrderStatus.OPEN, OrderStatus.PARTIAL):
            raise OrderAlreadyUsedError(
                f"the new order was accepted before, on its own; order {old.id} still rests"
            )
        accepted = self.placement.accepted_as(parsed)
        created = await first_reply(self.placement.lookup, str(accepted))
        return ReplacedBody(**asdict(created), replaced=old)

    # ----- cancelling --------------------------------------------------------------------------

    async def cancel(self, call: ApiRequest, items: Sequence[object]) -> Results:
        """Cancel orders as one batch, and return them as they are afterwards.

        Raises:
            QueueFullError, SequencerStoppedError, CommitUnknownError: as ``Sequencer.submit``.
        """
        results: Results = {}
        found: dict[int, tuple[CancelRequest, str]] = {}
        for index, item in enumerate(items):
            try:
                body = read_item(item)
                check_names(body, CANCEL)
                cancel = read_cancel(body.get("orderId"), body)
                self.cancels.check_authority(call, cancel)
                found[index] = cancel, str((await self.cancels.find(cancel)).order.id)
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


def read_atomic(body: Mapping[str, Any]) -> bool:
    """Return whether a batch is atomic.

    Raises:
        ApiError: INVALID_FIELD.
    """
    atomic = body.get("atomic")
    if atomic is not None and type(atomic) is not bool:
        raise wrong("atomic", "must be true or false", atomic)
    return bool(atomic)


def read_replaced(order_ref: object, maker: str, signed: object) -> CancelRequest:
    """Read the cancel of a replacement.

    Args:
        order_ref: the order to cancel.
        maker: the maker of the new order.
        signed: ``timestamp`` and ``signature`` of the cancel in JSON, and perhaps its other
            fields, as they were signed; None without a signature.

    Raises:
        ApiError: INVALID_FIELD.
        RejectedError: a field is invalid.
    """
    if signed is None:
        return read_cancel(order_ref, {"maker": maker})
    if type(signed) is not dict:
        raise wrong("cancel", "must be an object with timestamp and signature", signed)
    check_names(signed, CANCEL, within="cancel.")
    if signed.get("orderId") not in (None, order_ref):
        rule = f"must be {received(order_ref)}, as in the path"
        raise wrong("cancel.orderId", rule, signed["orderId"])
    if signed.get("maker") is not None and read_wallet("cancel.maker", signed["maker"]) != maker:
        raise wrong("cancel.maker", f"must be {maker}, as in the order", signed["maker"])
    if signed.get("signature") is None:
        raise missing("cancel.signature", "must be the maker's signature of the cancel")
    return read_cancel(order_ref, {**signed, "maker": maker})


def check_replacement(record: OrderRecord, parsed: ParsedOrder) -> None:
    """Check that a new order is for the market and the token of the order that it replaces.

    Raises:
        ApiError: INVALID_FIELD.
    """
    given = {"marketId": parsed.options.market, "tokenId": parsed.order.token}
    replaced = {"marketId": record.market, "tokenId": record.order.token}
    for name, value in given.items():
        if value != replaced[name]:
            raise wrong(name, f"must be {replaced[name]}, as in the order to replace", value)


def not_opened(parsed: ParsedOrder) -> ApiError:
    """Return the rejection of an order of an atomic batch whose market or token is unknown."""
    market = received(parsed.options.market)
    return ApiError(
        "UNKNOWN_MARKET",
        f"market {market} or its token is not open, and an atomic batch opens none; place an order "
        "for the token on its own first",
    )


def not_placed(rejected: Results) -> ApiError:
    """Return the result of an order of an atomic batch in which others were rejected."""
    cause = min(rejected)
    error = rejected[cause]
    assert isinstance(error, ClobError)
    detail = f"the batch is atomic, and orders[{cause}] was rejected with {error.code}"
    return ApiError("BATCH_REJECTED", detail, more={"causedBy": cause})


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
